//! Programs of the C library musl, whose streams carry their own pointers; and children of one C library
//! below parents of the other.

use super::{Case, DEFAULT, FAULTS, FEW_CALLS, FORKED, LOOKS, TIMING};
use crate::build::Build::{C, Musl};

const STREAMS_BY_RULE: &str =
    "seq 30000 > in.txt; printf '[[rule]]\\nstdio = \"on\"\\n' > sweetspot.toml";

pub const ALL: &[Case] = &[
    Case {
        group: "musl",
        name: "copies",
        build: &[Musl("copy")],
        prepare: "seq 30000 > in",
        command: "for size in 1 7 200 4096 100000; do $RUN $BIN/musl/copy in out.$size $size; done; \
                  $RUN $BIN/musl/copy in out.7 33 append; $RUN $BIN/musl/copy in out.200 33 update; \
                  $RUN $BIN/musl/copy in out.33 33 sync",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "records are changed in place and appended",
        build: &[Musl("rewrite"), Musl("appends"), Musl("read_what_waits")],
        prepare: "seq -f '%079.0f' 4000 > in.txt",
        command: "$RUN $BIN/musl/rewrite in.txt 80 3; $RUN $BIN/musl/read_what_waits; \
                  for way in position beside family flags; do $RUN $BIN/musl/appends $way; done",
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "errors",
        build: &[Musl("errors_read"), Musl("errors_write"), Musl("errors_seek")],
        command: "$RUN $BIN/musl/errors_read; $RUN $BIN/musl/errors_write; $RUN $BIN/musl/errors_seek",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "streams",
        build: &[Musl("stdio"), Musl("stream_and_descriptor"), Musl("streams_taken")],
        prepare: "seq 30000 > in.txt",
        command: STREAMS,
        long: true,
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "streams through the engine, by a rule",
        build: &[Musl("stdio"), Musl("stream_and_descriptor"), Musl("streams_taken")],
        prepare: STREAMS_BY_RULE,
        command: STREAMS,
        long: true,
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "streams that are opened anew, and their lines",
        build: &[Musl("streams_taken")],
        prepare: STREAMS_BY_RULE,
        command: "for end in _exit fork append; do $RUN $BIN/musl/streams_taken lines $end; \
                  mv lines lines.$end; done; \
                  for way in nothing modes records; do $RUN $BIN/musl/streams_taken $way; done",
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "children below the other C library",
        build: &[Musl("children"), C("children"), Musl("copy"), C("copy")],
        command: CHILDREN,
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "children below the other C library, streams by a rule",
        build: &[Musl("children"), C("children"), Musl("copy"), C("copy")],
        prepare: STREAMS_BY_RULE,
        command: CHILDREN,
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "threads, signals, forks",
        build: &[
            Musl("threads_write"),
            Musl("handler_releases"),
            Musl("signals_window"),
            Musl("fork_memory"),
            Musl("fork_append"),
            Musl("vfork_child"),
        ],
        command: "$RUN $BIN/musl/threads_write 60; $RUN $BIN/musl/handler_releases 1500; \
                  $RUN $BIN/musl/signals_window 500; $RUN $BIN/musl/fork_memory; \
                  $RUN $BIN/musl/fork_append fork 30; $RUN $BIN/musl/fork_append exec 30; \
                  $RUN $BIN/musl/vfork_child",
        long: true,
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "what others see, and when",
        build: &[Musl("order"), Musl("neighbours"), Musl("walk")],
        command: "for way in pipe flag signal mkdir symlink eventfd log stamp locks; do \
                  echo $way; $RUN $BIN/musl/order $way; done; \
                  $RUN sh -c '$BIN/musl/neighbours shared 0 & $BIN/musl/neighbours shared 1 & wait'; \
                  mkdir tree; $RUN $BIN/musl/walk tree",
        long: true,
        not_predicted: LOOKS,
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "what the C library writes by itself",
        build: &[Musl("reported_late")],
        command: "for way in close printed logged; do $RUN $BIN/musl/reported_late $way; done",
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "functions that not every C library has",
        build: &[Musl("asks_whether")],
        command: "$RUN $BIN/musl/asks_whether",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "a descriptor is sent in memory that was used before",
        build: &[Musl("sends_number")],
        command: "$RUN $BIN/musl/sends_number",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "threads that the C library makes",
        build: &[Musl("other_masks")],
        command: "for way in timer aio; do $RUN $BIN/musl/other_masks $way; done",
        not_predicted: FAULTS,
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "descriptors that came from outside",
        build: &[Musl("outside"), Musl("stdio")],
        prepare: "seq 3000 > in.txt",
        command: "for mode in both child flags seek numbers plain; do \
                  { $RUN $BIN/musl/outside $mode 3> $mode.said; echo after; } > $mode 2>&1; done; \
                  { $RUN $BIN/musl/stdio rest; cat; } < in.txt > rest",
        not_predicted: FORKED,
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "musl, glibc and musl again, in one pipeline and one file",
        build: &[C("relay"), Musl("relay"), Musl("copy"), C("copy")],
        prepare: "seq 4000 > in; seq -f '%099.0f' 300 > records",
        command: "$RUN $BIN/musl/relay in out fork $BIN/c/relay in out spawn $BIN/musl/copy records \
                  out 50 append; $RUN sh -c '$BIN/musl/copy in a 9; $BIN/c/copy a b 5; \
                  $BIN/musl/copy b c 11 | cat'; cmp in c",
        ..DEFAULT
    },
];

const STREAMS: &str = "$RUN $BIN/musl/stdio; $RUN $BIN/musl/stdio > outside; \
    for end in _exit abort exit fork exec; do $RUN $BIN/musl/stdio $end > said; echo $?; \
    mv said said.$end; mv unflushed unflushed.$end; done; \
    for way in ends reads mapped; do $RUN $BIN/musl/stream_and_descriptor $way; done; \
    $RUN $BIN/musl/streams_taken threads; $RUN $BIN/musl/streams_taken confined";

const CHILDREN: &str = "$RUN $BIN/musl/children $BIN/c/copy $BIN/musl/copy; mkdir c; cd c; \
    $RUN $BIN/c/children $BIN/musl/copy $BIN/c/copy";

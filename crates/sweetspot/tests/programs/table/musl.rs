//! Programs in C whose C library is musl, as Alpine's are, alone and beside programs of glibc.

use super::{Case, DEFAULT, LINES};
use crate::build::Build::{C, Musl};

pub const MUSL: &[Case] = &[
    Case {
        group: "musl",
        name: "copy by 7 bytes",
        build: &[Musl("copy")],
        prepare: LINES,
        command: "$RUN $BIN/musl/copy in.txt out 7",
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "copy by 1, 200 and 4096 bytes, append and update",
        build: &[Musl("copy")],
        prepare: "seq 20000 > in; seq 30000 | tac > out200; echo before > out33",
        command: "$RUN $BIN/musl/copy in out1 1; $RUN $BIN/musl/copy in out200 200 update; \
                  $RUN $BIN/musl/copy in out4096 4096; $RUN $BIN/musl/copy in out33 33 append; \
                  $RUN $BIN/musl/copy in sync 333 sync",
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "rewrite, and read again what waits",
        build: &[Musl("rewrite"), Musl("read_what_waits")],
        prepare: LINES,
        command: "$RUN $BIN/musl/rewrite in.txt 64 3; $RUN $BIN/musl/rewrite in.txt 7 100; \
                  $RUN $BIN/musl/read_what_waits",
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "appends",
        build: &[Musl("appends")],
        command: "for mode in position beside family flags; do $RUN $BIN/musl/appends $mode; done",
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "streams with every kind of buffer",
        build: &[Musl("stdio")],
        command: "$RUN $BIN/musl/stdio; for end in _exit abort exit exec fork; do \
                  $RUN $BIN/musl/stdio $end > said.$end; echo $?; done; \
                  seq 2000 > in.txt; { $RUN $BIN/musl/stdio rest; cat; } < in.txt > rest",
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "errors",
        build: &[
            Musl("errors_read"),
            Musl("errors_write"),
            Musl("errors_seek"),
            Musl("errors_limits"),
        ],
        command: "for what in read write seek limits; do $RUN $BIN/musl/errors_$what; echo $?; done",
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "descriptors from outside",
        build: &[Musl("outside")],
        command: "for mode in both child flags seek numbers plain; do \
                  { echo before; $RUN $BIN/musl/outside $mode 3> $mode.said; echo after; } \
                  > $mode 2>&1; done",
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "threads, handlers, vfork",
        build: &[Musl("threads_write"), Musl("signals_window"), Musl("vfork_child")],
        command: "$RUN $BIN/musl/threads_write; echo $?; $RUN $BIN/musl/vfork_child; echo $?",
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "a musl child below a glibc parent",
        build: &[C("relay"), Musl("copy")],
        prepare: "seq 4000 > in; seq -f '%099.0f' 300 > records",
        command: "for how in fork spawn system last; do \
                  $RUN $BIN/c/relay in out.$how $how $BIN/musl/copy records out.$how 50 append; \
                  echo $?; done",
        ..DEFAULT
    },
    Case {
        group: "musl",
        name: "a glibc child below a musl parent",
        build: &[Musl("relay"), C("copy")],
        prepare: "seq 4000 > in; seq -f '%099.0f' 300 > records",
        command: "for how in fork spawn system last; do \
                  $RUN $BIN/musl/relay in out.$how $how $BIN/c/copy records out.$how 50 append; \
                  echo $?; done",
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

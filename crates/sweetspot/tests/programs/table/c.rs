//! C programs: plain calls, and random programs of calls.

use super::{
    ANSWERED, APART, Case, DEFAULT, FAULTS, FEW_CALLS, FORKED, HANDLERS, LINES, LOOKS, TIMING,
    UNSEEN,
};
use crate::build::Build;
use crate::build::Build::{C, CLibrary, CLinked, CWith};

/// A library with a version of its own for each function; the same with the older table of names alone.
const VERSIONED: [&str; 3] = ["-shared", "-fPIC", "-Wl,--default-symver"];
const VERSIONED_BY_OLDER_TABLE: [&str; 3] =
    ["-shared", "-fPIC", "-Wl,--default-symver,--hash-style=sysv"];

/// A program, the libraries that it is linked to, and one that has nothing.
const HOMONYMS: &[Build] = &[
    CLibrary("homonyms_any"),
    CWith("homonyms_versioned", &VERSIONED),
    CWith("homonyms_older", &VERSIONED_BY_OLDER_TABLE),
    CLibrary("homonyms_none"),
    CLinked("homonyms", &["homonyms_any", "homonyms_versioned", "homonyms_older", "homonyms_none"]),
    CLibrary("empty"),
];

pub const CALLS: &[Case] = &[
    Case {
        group: "c_calls",
        name: "copy by 1 byte",
        build: &[C("copy")],
        prepare: "seq 3000 > in",
        command: "$RUN $BIN/c/copy in out 1",
        ..DEFAULT
    },
    Case {
        group: "c_calls",
        name: "copy by 7 bytes",
        build: &[C("copy")],
        prepare: LINES,
        command: "$RUN $BIN/c/copy in.txt out 7",
        ..DEFAULT
    },
    Case {
        group: "c_calls",
        name: "copy by 200 bytes over an old file",
        build: &[C("copy")],
        prepare: "seq 100000 > in; seq 200000 | tac > out",
        command: "$RUN $BIN/c/copy in out 200 update",
        ..DEFAULT
    },
    Case {
        group: "c_calls",
        name: "copy by 4096 bytes",
        build: &[C("copy")],
        prepare: "seq 300000 > in",
        command: "$RUN $BIN/c/copy in out 4096",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_calls",
        name: "copy by 100000 bytes",
        build: &[C("copy")],
        prepare: "seq 300000 > in",
        command: "$RUN $BIN/c/copy in out 100000",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_calls",
        name: "append by 33 bytes",
        build: &[C("copy")],
        prepare: "seq 20000 > in; echo before > out",
        command: "$RUN $BIN/c/copy in out 33 append && $RUN $BIN/c/copy in out 65 append",
        ..DEFAULT
    },
    Case {
        group: "c_calls",
        name: "position, size and reads while appended bytes wait",
        build: &[C("appends")],
        command: "$RUN $BIN/c/appends position",
        ..DEFAULT
    },
    Case {
        group: "c_calls",
        name: "appends beside other descriptions",
        build: &[C("appends")],
        command: "$RUN $BIN/c/appends beside; $RUN $BIN/c/appends family",
        ..DEFAULT
    },
    Case {
        group: "c_calls",
        name: "append mode comes and goes",
        build: &[C("appends")],
        command: "$RUN $BIN/c/appends flags",
        ..DEFAULT
    },
    Case {
        group: "c_calls",
        name: "synchronous writes",
        build: &[C("copy")],
        prepare: "seq 1000 > in",
        command: "$RUN $BIN/c/copy in out 33 sync",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_calls",
        name: "rewrite in place",
        build: &[C("rewrite")],
        prepare: "seq -f '%079.0f' 4000 > in.txt",
        command: "$RUN $BIN/c/rewrite in.txt 80 3",
        ..DEFAULT
    },
    Case {
        group: "c_calls",
        name: "records that are read again before they leave",
        build: &[C("read_what_waits")],
        command: "$RUN $BIN/c/read_what_waits",
        ..DEFAULT
    },
    Case {
        group: "c_calls",
        name: "a gap before what waits",
        build: &[C("gaps")],
        command: "$RUN $BIN/c/gaps",
        ..DEFAULT
    },
    Case {
        group: "c_calls",
        name: "rewrite odd records",
        build: &[C("rewrite")],
        prepare: LINES,
        command: "$RUN $BIN/c/rewrite in.txt 61 2; $RUN $BIN/c/rewrite in.txt 7 100",
        ..DEFAULT
    },
];

pub const FUZZ: &[Case] = &[
    Case {
        group: "c_fuzz",
        name: "streams",
        build: &[C("fuzz_calls")],
        command: "for seed in 1 2 3 4 5 6 7 8 9 10; do $RUN $BIN/c/fuzz_calls $seed 150 streams; done",
        ..DEFAULT
    },
    Case {
        group: "c_fuzz",
        name: "mixed",
        build: &[C("fuzz_calls")],
        command: "for seed in 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29; do \
                  $RUN $BIN/c/fuzz_calls $seed 300 mixed; done",
        ..DEFAULT
    },
    Case {
        group: "c_fuzz",
        name: "wild",
        build: &[C("fuzz_calls")],
        command: "for seed in 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49; do \
                  $RUN $BIN/c/fuzz_calls $seed 500 wild; done",
        ..DEFAULT
    },
    Case {
        group: "c_fuzz",
        name: "appending",
        build: &[C("fuzz_calls")],
        command: "for seed in 51 52 53 54 55 56 57 58 59 60; do \
                  $RUN $BIN/c/fuzz_calls $seed 300 appending; done",
        ..DEFAULT
    },
    Case {
        group: "c_fuzz",
        name: "company",
        build: &[C("fuzz_calls")],
        command: "for seed in 61 62 63 64 65 66 67 68; do $RUN $BIN/c/fuzz_calls $seed 150 company; done",
        not_predicted: UNSEEN,
        ..DEFAULT
    },
    Case {
        group: "c_fuzz",
        name: "handed",
        build: &[C("fuzz_calls")],
        command: "for seed in 71 72 73 74 75 103; do $RUN $BIN/c/fuzz_calls $seed 300 handed; done",
        not_predicted: UNSEEN,
        ..DEFAULT
    },
    Case {
        group: "c_fuzz",
        // The end of a file asked past pending bytes of another description, a vector read past
        // pending bytes, appending set on a description whose writes wait.
        name: "seeds that once differed",
        build: &[C("fuzz_calls")],
        command: "for seed in 114 119 128 139 144 152 171; do \
                  $RUN $BIN/c/fuzz_calls $seed 400 mixed; done; \
                  for seed in 201 219; do $RUN $BIN/c/fuzz_calls $seed 400 wild; done",
        ..DEFAULT
    },
];

pub const ERRORS: &[Case] = &[
    Case {
        group: "c_errors",
        name: "read and pread",
        build: &[C("errors_read")],
        command: "$RUN $BIN/c/errors_read",
        ..DEFAULT
    },
    Case {
        group: "c_errors",
        name: "write and pwrite",
        build: &[C("errors_write")],
        command: "$RUN $BIN/c/errors_write",
        not_predicted: FAULTS,
        ..DEFAULT
    },
    Case {
        group: "c_errors",
        name: "vectors",
        build: &[C("errors_vector")],
        command: "$RUN $BIN/c/errors_vector",
        ..DEFAULT
    },
    Case {
        group: "c_errors",
        name: "lseek, and what has no position",
        build: &[C("errors_seek")],
        command: "$RUN $BIN/c/errors_seek",
        ..DEFAULT
    },
    Case {
        group: "c_errors",
        name: "sizes, flags, locks, transfers",
        build: &[C("errors_size")],
        command: "$RUN $BIN/c/errors_size",
        ..DEFAULT
    },
    Case {
        group: "c_errors",
        name: "open, dup, close",
        build: &[C("errors_descriptors")],
        command: "$RUN $BIN/c/errors_descriptors",
        not_predicted: "its busiest file never has a name",
        ..DEFAULT
    },
    Case {
        group: "c_errors",
        name: "every way to ask for a size",
        build: &[C("errors_stat")],
        command: "$RUN $BIN/c/errors_stat",
        ..DEFAULT
    },
    Case {
        group: "c_errors",
        name: "file size limits",
        build: &[C("errors_limits")],
        command: "$RUN $BIN/c/errors_limits; $RUN $BIN/c/errors_limits killed; echo $?; ulimit -f 8; exec $RUN $BIN/c/errors_limits killed",
        ends: "signal 25",
        finished_late: true,
        not_predicted: "no record of it can be written",
        ..DEFAULT
    },
];

pub const SHARING: &[Case] = &[
    Case {
        group: "c_sharing",
        name: "at every acquire point a window asks again",
        build: &[C("acquire_points")],
        command: "$RUN $BIN/c/acquire_points <> outside",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "threads while streams begin to be seen",
        build: &[C("streams_taken")],
        command: "$RUN $BIN/c/streams_taken threads",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "memory that may not be made executable",
        build: &[C("streams_taken")],
        command: "$RUN $BIN/c/streams_taken confined",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "the end of a file that grows, asked through a stream",
        build: &[C("stream_and_descriptor")],
        command: "$RUN $BIN/c/stream_and_descriptor ends",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "streams that read what a descriptor wrote",
        build: &[C("stream_and_descriptor")],
        command: "$RUN $BIN/c/stream_and_descriptor reads",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "streams that map their file",
        build: &[C("stream_and_descriptor")],
        command: "$RUN $BIN/c/stream_and_descriptor mapped",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "files that libc opens by itself",
        build: &[C("stream_and_descriptor")],
        command: "$RUN $BIN/c/stream_and_descriptor own-files",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a library that was just written is loaded",
        build: &[C("stream_and_descriptor")],
        command: "$RUN $BIN/c/stream_and_descriptor library",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "one description, many holders",
        build: &[C("shared_offset")],
        command: "$RUN $BIN/c/shared_offset",
        not_predicted: UNSEEN,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what Go made calls the kernel by itself",
        build: &[C("of_go"), C("calls_go"), CLibrary("of_go_library"), CLibrary("asks_go")],
        prepare: "cp $BIN/c/of_go_library of_go.so; cp $BIN/c/asks_go asks_go.so",
        command: "$RUN $BIN/c/of_go; $RUN $BIN/c/calls_go ./of_go.so; \
                  $RUN $BIN/c/calls_go ./asks_go.so use_needed; \
                  LD_PRELOAD=$PWD/of_go.so $RUN $BIN/c/calls_go ./of_go.so",
        not_predicted: LOOKS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "descriptors are replaced while others use them",
        build: &[C("replaced")],
        command: "for way in capture 'capture append' dup2 'dup2 append' moved reads reads handler; do \
                  $RUN $BIN/c/replaced $way; done",
        long: true,
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "descriptors are closed while others use them",
        build: &[C("closed_beside")],
        command: "for way in reads writes asks reopened handler handler; do $RUN $BIN/c/closed_beside $way; done",
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "handlers use what the program is about to change",
        build: &[C("meets_handlers")],
        command: "for way in close duplicate replace sendfile copy splice pwritev2 writev preadv2 readv send; do \
                  $RUN $BIN/c/meets_handlers $way; done",
        long: true,
        not_predicted: HANDLERS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "memory behind that of a window",
        build: &[C("behind_window")],
        command: "$RUN $BIN/c/behind_window",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a description that the guard was asked for gets another number",
        build: &[C("put_elsewhere")],
        command: "$RUN sh -c 'for loops in 0 20000 50000 100000 150000 200000 300000; do \
                  (exec 1<> log$loops; exec $BIN/c/put_elsewhere log$loops $loops) 2> /dev/null; \
                  echo $?; done' 2> /dev/null",
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "descriptors that came from outside",
        build: &[C("outside")],
        command: "for mode in both child flags seek numbers plain; do \
                  { echo before; $RUN $BIN/c/outside $mode 3> $mode.said; echo after; } > $mode 2>&1; \
                  { $RUN $BIN/c/outside $mode 3> $mode.said2; echo after; } >> $mode 2> $mode.errors; \
                  $RUN sh -c '{ $BIN/c/outside '$mode'; echo after; } > '$mode'.in 2>&1 3> '$mode'.said3'; \
                  done",
        not_predicted: LOOKS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "the offset from outside, after a kill",
        build: &[C("outside")],
        // The shell is in the tree: what the killed one left is there before it goes on.
        command: "for mode in both flags seek numbers plain; do \
                  $RUN sh -c '{ echo before; $BIN/c/outside '$mode' kill; echo $?; } > '$mode' 2>&1 3> '$mode'.said'; \
                  $RUN sh -c '{ $BIN/c/outside '$mode' kill; echo $?; } >> '$mode'.more 2>&1 3> '$mode'.said'; \
                  done",
        finished_late: true,
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a thread that goes before all others on its processor",
        build: &[C("real_time")],
        needs: &["taskset"],
        // Also what waits for it runs there.
        command: "taskset -c $(taskset -cp $$ | sed 's/.*[^0-9]//') $RUN $BIN/c/real_time out",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "standard input of its own",
        build: &[C("input")],
        needs: &["bash"],
        prepare: "seq -f 'line %058.0f' 12000 > in.txt",
        // Some make another process have it, too, before anybody was asked.
        command: "for way in forks spawns shares duplicates sends moves handed tables threads becomes killed \
                  closes late 'shares early' 'duplicates early' 'sends early'; do \
                  echo $way; $RUN $BIN/c/input $way < in.txt; \
                  $RUN bash -c \"$BIN/c/input $way < in.txt; echo after\"; done",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "standard input that others have, too",
        build: &[C("input")],
        needs: &["bash"],
        prepare: "seq -f 'line %058.0f' 12000 > in.txt",
        command: "$RUN $BIN/c/input two < in.txt 3<&0; { $RUN $BIN/c/input stops; cksum; } < in.txt; \
                  $RUN bash -c '{ $BIN/c/input stops; cksum; } < in.txt 2> /dev/null'; \
                  for reads in 48 49 50 52 56 60 112 113 116 120 240; do \
                  { $RUN $BIN/c/input leaves $reads; head -c 20; } < in.txt; done; \
                  { $RUN $BIN/c/input works early > one & $RUN $BIN/c/input works early > other & wait; } < in.txt; \
                  $RUN bash -c '{ $BIN/c/input works early > third & $BIN/c/input works early > fourth & wait; } < in.txt'; \
                  for pair in 'one other' 'third fourth'; do sort $pair | cksum; rm $pair; done",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "duplicates with very high numbers",
        build: &[C("high_numbers")],
        command: "$RUN $BIN/c/high_numbers",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "threads write from the start",
        build: &[C("threads_write")],
        command: "$RUN $BIN/c/threads_write 150",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "the position is set to where it is, and asked for, beside a thread",
        build: &[C("seeks_beside")],
        command: "$RUN $BIN/c/seeks_beside",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "one thread ends it while others write",
        build: &[C("ends_beside")],
        command: "$RUN $BIN/c/ends_beside",
        long: true,
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "who ends while another thread begins to write ends well",
        build: &[C("ends_well")],
        command: "$RUN $BIN/c/ends_well",
        not_predicted: TIMING,
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a limit on sizes is set while threads write",
        build: &[C("limited_beside")],
        command: "$RUN $BIN/c/limited_beside",
        not_predicted: TIMING,
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a program of an older C library gets its functions",
        build: &[C("old_versions"), CWith("old_fixed", &["-no-pie"])],
        command: "$RUN $BIN/c/old_versions; $RUN $BIN/c/old_fixed; echo $?",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "messages to another stream for errors",
        build: &[C("other_errors")],
        command: "$RUN $BIN/c/other_errors",
        not_predicted: UNSEEN,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a fork calls functions of the program's in the child",
        build: &[C("atfork_beside")],
        command: "$RUN $BIN/c/atfork_beside",
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_errors",
        name: "bad vectors before anything is buffered",
        build: &[C("bad_vector")],
        command: "$RUN $BIN/c/bad_vector",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what is closed beside a thread that starts programs is closed",
        build: &[C("closes_for_good")],
        command: "$RUN $BIN/c/closes_for_good",
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a thread writes while another's window is filled",
        build: &[C("threads_tell")],
        command: "$RUN $BIN/c/threads_tell filling 1000",
        long: true,
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a file is quiesced while threads write to it",
        build: &[C("quiesced")],
        command: "$RUN $BIN/c/quiesced",
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "two processes change the same bytes without a word",
        build: &[C("overlap")],
        command: "$RUN $BIN/c/overlap",
        long: true,
        not_predicted: APART,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "stores to a file that was open before the program",
        build: &[C("overlap")],
        command: "for name in 'held map, given first' 'held map, read, given second'; do
            $RUN $BIN/c/overlap \"$name\" 0<>\"$name\"; done",
        not_predicted: APART,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "one call over what waits, by a descriptor that was given",
        build: &[C("beneath")],
        command: "$RUN $BIN/c/beneath",
        not_predicted: APART,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "the ledger's name is removed while bytes wait",
        build: &[C("nameless")],
        command: "for way in pwrite stream read size append; do $RUN $BIN/c/nameless $way; done",
        long: true,
        not_predicted: APART,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "stores by a process that may not be looked at",
        build: &[C("hidden")],
        needs: &["setpriv"],
        // Root may look at every process.
        command: "as=; [ $(id -u) = 0 ] && as='setpriv --bounding-set -all'; $as $RUN $BIN/c/hidden hidden",
        not_predicted: APART,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "stores by a process that writes a title over its environment",
        build: &[C("hidden")],
        command: "$RUN $BIN/c/hidden titled",
        not_predicted: APART,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what another process wrote is synced",
        build: &[C("overlap")],
        command: "$RUN $BIN/c/overlap sync",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a file is free when its writer's death is known",
        build: &[C("held_for_dead")],
        command: "$RUN $BIN/c/held_for_dead",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a window opens while writes of another thread begin to wait",
        build: &[C("threads_tell")],
        command: "$RUN $BIN/c/threads_tell opening 2000",
        long: true,
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "bad addresses in short copies",
        build: &[C("alone")],
        command: "$RUN $BIN/c/alone addresses",
        not_predicted: FAULTS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a window where writes are to wait",
        build: &[C("alone")],
        command: "$RUN $BIN/c/alone window",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "alone until there is a handler",
        build: &[C("alone")],
        command: "$RUN $BIN/c/alone handler",
        not_predicted: HANDLERS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "alone until there are threads",
        build: &[C("alone")],
        command: "$RUN $BIN/c/alone threads",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a handler releases in the middle of writes",
        build: &[C("handler_releases")],
        command: "$RUN $BIN/c/handler_releases 3000",
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a collector writes while it has stopped all threads",
        build: &[C("stops_world")],
        command: "$RUN $BIN/c/stops_world standard",
        long: true,
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a collector stops all threads by signals that are queued",
        build: &[C("stops_world")],
        command: "$RUN $BIN/c/stops_world queued",
        long: true,
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a handler sets what others do that have come with it",
        build: &[C("at_once")],
        command: "$RUN $BIN/c/at_once",
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a handler releases while the position is in a window",
        build: &[C("signals_window")],
        command: "$RUN $BIN/c/signals_window 1000",
        long: true,
        not_predicted: HANDLERS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "handlers begin while descriptors are duplicated",
        build: &[C("signals_between")],
        command: "for way in queue once mask; do $RUN $BIN/c/signals_between $way 400; done; \
                  $RUN $BIN/c/signals_between timer 20000",
        long: true,
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "threads work while children start",
        build: &[C("threads_spawn")],
        command: "$RUN $BIN/c/threads_spawn 100",
        long: true,
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a forked child has nothing of its parent's ledger",
        build: &[C("fork_memory")],
        command: "$RUN $BIN/c/fork_memory",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a handler forks in the middle of writes",
        build: &[C("fork_append")],
        command: "$RUN $BIN/c/fork_append fork 60; $RUN $BIN/c/fork_append exec 60",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "signals at any moment of a vfork",
        build: &[C("vfork_signals")],
        command: "$RUN $BIN/c/vfork_signals",
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a thread sets actions while another one receives signals",
        build: &[C("uncovered")],
        command: "$RUN $BIN/c/uncovered",
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a buffer changes while it is written",
        build: &[C("changes_meanwhile")],
        command: "$RUN $BIN/c/changes_meanwhile",
        not_predicted: UNSEEN,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "the child of a vfork is killed before it is another program",
        build: &[C("vfork_killed")],
        command: "$RUN $BIN/c/vfork_killed",
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a fork beside threads in the middle of something",
        build: &[C("beside_forks")],
        command: "for way in vfork action reads; do $RUN $BIN/c/beside_forks $way; done",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a title over the memory of the environment",
        build: &[C("titled")],
        command: "$RUN $BIN/c/titled changes; $RUN $BIN/c/titled dies",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "the function of a clone returns",
        build: &[C("clone_returns")],
        command: "$RUN $BIN/c/clone_returns",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "fewer system calls are allowed from now on",
        build: &[C("filtered")],
        command: "$RUN $BIN/c/filtered",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "the end of a pipe or a connection tells of a death",
        build: &[C("ends_of_pipes")],
        command: "for way in recv read write send; do $RUN $BIN/c/ends_of_pipes $way; done",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a library and threads that go, which others notice",
        build: &[C("goes")],
        command: "for way in library returns exits; do $RUN $BIN/c/goes $way 8; done",
        long: true,
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "whatever tells of an end tells of a death",
        build: &[C("death_reports")],
        command: "$RUN $BIN/c/death_reports",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "many threads wait in a vfork at the same time",
        build: &[C("vforks_at_once")],
        command: "$RUN $BIN/c/vforks_at_once",
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "the child of a vfork and its parent's files",
        build: &[C("vfork_child")],
        command: "$RUN $BIN/c/vfork_child",
        not_predicted: LOOKS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "flushes and advice at any moment",
        build: &[C("knows")],
        command: "$RUN $BIN/c/knows everywhere file",
        not_predicted: HANDLERS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a program that locks its memory",
        build: &[C("memory_locked")],
        prepare: "seq 5000 > in",
        command: "$RUN $BIN/c/memory_locked; $RUN $BIN/c/memory_locked child",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "neighbouring records",
        build: &[C("neighbours")],
        command: "$RUN sh -c '$BIN/c/neighbours shared 0 & $BIN/c/neighbours shared 1 & wait'; \
                  $RUN $BIN/c/neighbours apart 0 & $RUN $BIN/c/neighbours apart 1; wait",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "files that grow while a tree is walked",
        build: &[C("walk")],
        command: "mkdir tree; $RUN $BIN/c/walk tree",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "one file, many descriptions",
        build: &[C("coherence")],
        command: "$RUN $BIN/c/coherence",
        not_predicted: "`profile` tells files apart by their paths",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what is moved later, beside another description",
        build: &[C("moves_late")],
        command: "for way in aio list splice sendfile; do $RUN $BIN/c/moves_late $way $way.out; done",
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "which file is newer",
        build: &[C("stamps")],
        command: "for way in last aged asked beside quiet killed; do $RUN $BIN/c/stamps $way; done",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "how large a file is that another process writes",
        build: &[C("asks_for_size")],
        command: "$RUN $BIN/c/asks_for_size stat lstat fstatat statx syscall lseek nftw",
        long: true,
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "times that are set stand",
        build: &[C("times")],
        command: "$RUN $BIN/c/times",
        times: &[
            "futimens",
            "utimensat",
            "utimes",
            "futimes",
            "lutimes",
            "utime",
            "futimesat",
            "proc",
            "second",
            "read",
            "mode",
            "readonly",
        ],
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what others see, and when",
        build: &[C("order")],
        command: "for way in pipe flag signal mkdir symlink eventfd semaphore semop message shared-memory log stamp position read write flags outside-position outside-read outside-write; do echo $way; $RUN $BIN/c/order $way <> outside; done",
        long: true,
        not_predicted: LOOKS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what a killed child locked is free",
        build: &[C("freed")],
        command: "$RUN $BIN/c/freed",
        long: true,
        not_predicted: APART,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "shared in ways that are easily missed",
        build: &[C("given_away")],
        command: "$RUN $BIN/c/given_away",
        not_predicted: UNSEEN,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what a new process is given, and what not",
        build: &[C("handed_on")],
        needs: &["bash"],
        command: "$RUN $BIN/c/handed_on",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "record locks on programs outlive exec",
        build: &[C("handed_on")],
        command: "P=$BIN/c/handed_on; $P lock $RUN $P becomes 0; $P lock $RUN $P becomes 2; \
            $RUN $P lock $P becomes 3",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "entries of the environment that are no variables",
        build: &[C("handed_on")],
        command: "$BIN/c/handed_on odd $RUN $BIN/c/handed_on entries",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a spawn on a small stack",
        build: &[C("spawn_stack")],
        command: "$RUN $BIN/c/spawn_stack",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "threads are cancelled where they read and write",
        build: &[C("cancelled")],
        prepare: "printf '[[rule]]\\nstdio = \"on\"\\n' > sweetspot.toml",
        command: "$RUN $BIN/c/cancelled; $RUN $BIN/c/cancelled r rc",
        long: true,
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "acquire and release points without a call",
        build: &[C("without_call")],
        command: "$RUN $BIN/c/without_call signal; $RUN $BIN/c/without_call mapping; \
                  for way in inherit send link deleted fetch; do \
                  $RUN $BIN/c/without_call memory $way; done",
        not_predicted: UNSEEN,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "calls that are rarely made",
        build: &[C("unusual")],
        command: "for way in direct frozen dispatch 'answer 0' 'answer 1' edges window; do \
                  $RUN $BIN/c/unusual $way; done",
        not_predicted: UNSEEN,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "acquire points by calls that are rarely made",
        build: &[C("unusual")],
        command: "for word in 0 1 2 3 4 5 6 7; do $RUN $BIN/c/unusual acquires $word; done",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what the C library says by itself",
        build: &[C("unusual")],
        command: "for which in 0 1 2 3 4; do $RUN $BIN/c/unusual messages $which; done",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what /proc shows of a process",
        build: &[C("without_call")],
        command: "$RUN $BIN/c/without_call shown",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "every way to learn of a death",
        build: &[C("deaths")],
        command: "$RUN $BIN/c/deaths",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a queue that is to tell of messages",
        build: &[C("queue")],
        command: "$RUN $BIN/c/queue",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "every way to learn of a stop",
        build: &[C("stops")],
        command: "$RUN $BIN/c/stops",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a descriptor that another process fetches",
        build: &[C("fetched")],
        command: "$RUN $BIN/c/fetched",
        not_predicted: LOOKS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "who watches a file that is written",
        build: &[C("watched_writer")],
        command: "$RUN $BIN/c/watched_writer",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what is done to a process without a call of its own",
        build: &[C("unsaid")],
        command: "$RUN $BIN/c/unsaid",
        not_predicted: LOOKS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "stopped at any moment",
        build: &[C("stopped")],
        command: "$RUN $BIN/c/stopped",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what happens while a shell runs that was started",
        build: &[C("shell_starts")],
        command: "for how in none little; do \
                      for way in reads leaves sets cancelled; do \
                          rm -f ready handled; $RUN $BIN/c/shell_starts $way $how; \
                      done; \
                  done; \
                  for way in leaves sets; do $RUN $BIN/c/shell_starts $way filter; done",
        not_predicted: APART,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "children of unusual kinds",
        build: &[C("unusual_kin")],
        command: "for way in filter handlers numbers; do $RUN $BIN/c/unusual_kin $way; done",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "calls that wait until others have acted",
        build: &[C("reported_late")],
        command: "for way in close dup2 dup3 limit refused short placed cut accepted number appended printed \
            logged; do \
            $RUN $BIN/c/reported_late $way; done",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a profile that the C library writes",
        build: &[C("profiled")],
        command: "$RUN $BIN/c/profiled",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a file that becomes swap space",
        build: &[C("swapped")],
        command: "$RUN $BIN/c/swapped",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a program that another one traces",
        build: &[C("traced")],
        command: "$RUN $BIN/c/traced; mv file first; $RUN $BIN/c/traced thread",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "the child of a vfork of what is not buffered any more",
        build: &[C("vfork_passive")],
        command: "for way in fault group both; do $RUN $BIN/c/vfork_passive $way; done",
        not_predicted: UNSEEN,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a fork by an instruction of the program's own",
        build: &[C("forks_itself")],
        command: "for way in end close seek; do $RUN $BIN/c/forks_itself $way; done",
        not_predicted: UNSEEN,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "the offset behind what was appended for a quiet program",
        build: &[C("appended"), C("confined")],
        command: "$BIN/c/confined allow $RUN $BIN/c/appended; $BIN/c/confined copy $RUN $BIN/c/appended read",
        long: true,
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a process says who may trace it",
        build: &[C("tracer")],
        command: "for way in silent named before raw nobody; do $RUN $BIN/c/tracer $way > $way; done",
        not_predicted: LOOKS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what a process has written by a descriptor that was handed on",
        build: &[C("own_writes")],
        command: "for way in none fork system popen spawn owner signal sent; do $RUN $BIN/c/own_writes $way; \
                  $RUN $BIN/c/own_writes $way appends; done",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what others did before they took what was written",
        build: &[C("taken")],
        command: "for way in fifo both again vector handed owned terminal open; do $RUN $BIN/c/taken $way; done",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "opens that cut what another process writes",
        build: &[C("opens_that_cut")],
        command: "for way in path table unshare syscall first header; do $RUN $BIN/c/opens_that_cut $way; done",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a ring that opens what another process writes",
        build: &[C("opens_by_ring")],
        command: "$RUN $BIN/c/opens_by_ring before after 'before cuts' 'after cuts' 'before child cuts'",
        not_predicted: APART,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a ring that was made out of sight",
        build: &[C("opens_by_ring")],
        command: "$RUN $BIN/c/opens_by_ring own",
        not_predicted: UNSEEN,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what a process that is not buffered does to another one's file",
        build: &[C("not_buffered")],
        command: "for way in 'cuts uring' 'cuts ignore' root 'received uring' 'opened uring' 'opened ignore' fetched \
                  'fetched uring' 'sends uring' 'sends ignore'; do $RUN $BIN/c/not_buffered $way; done",
        long: true,
        not_predicted: APART,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what the child of a vfork leaves behind",
        build: &[C("vfork_leaves")],
        command: "for way in spawn system popen 'map read' 'map write' 'map nothing' attach watch 'raw watch' limit; do \
                  $RUN $BIN/c/vfork_leaves \"$way\"; done",
        not_predicted: LOOKS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "lists of file actions that were copied",
        build: &[C("action_lists")],
        command: "for way in copied added; do $RUN $BIN/c/action_lists $way; done",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "lists of file actions that only close",
        build: &[C("action_lists")],
        command: "$RUN $BIN/c/action_lists closes",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "signals of faults that somebody sends",
        build: &[C("sent_faults")],
        command: "for way in wait signalfd thread handler storm taken beside many jump; do $RUN $BIN/c/sent_faults $way; done",
        long: true,
        not_predicted: FAULTS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what comes with a timer's signal, in the middle of calls",
        build: &[C("signal_values")],
        command: "for threads in 0 3; do $RUN $BIN/c/signal_values $threads; done",
        long: true,
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "signals of faults and of steps of its own, in the middle of calls",
        build: &[C("raised")],
        command: "for way in gone steps; do $RUN $BIN/c/raised $way; done",
        long: true,
        not_predicted: FAULTS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what signals do is a process's own",
        build: &[C("other_actions")],
        command: "for way in memory waiting fault once; do $RUN $BIN/c/other_actions $way; done",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a process is meant by the number of a thread",
        build: &[C("by_threads")],
        command: "$RUN $BIN/c/by_threads",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "letters of a stream's mode",
        build: &[C("stream_and_descriptor")],
        command: "$RUN $BIN/c/stream_and_descriptor modes",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a process whose first thread has ended",
        build: &[C("first_ended")],
        command: "$RUN $BIN/c/first_ended",
        long: true,
        not_predicted: APART,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a child in namespaces of its own",
        build: &[C("apart")],
        command: "$RUN $BIN/c/apart",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "the right to write is taken away, then kill",
        build: &[C("rights")],
        needs: &["setpriv"],
        // What root may do in spite of the mode is taken from it, too.
        command: "as=; [ $(id -u) = 0 ] && as='setpriv --bounding-set -dac_override,-dac_read_search'; \
                  $as $RUN $BIN/c/rights",
        not_predicted: "only the guard is refused anything",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "threads that the C library does not know of",
        build: &[C("own_threads")],
        command: "$RUN $BIN/c/own_threads",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "signal masks that come with a wait, a thread or sigset",
        build: &[C("other_masks")],
        command: "for way in '' old new timer aio started beside back; do $RUN $BIN/c/other_masks $way; done",
        not_predicted: FAULTS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "signals of faults that are ignored",
        build: &[C("ignored_faults")],
        command: "$RUN $BIN/c/ignored_faults; cp out first; trap '' SEGV BUS; $RUN $BIN/c/ignored_faults",
        long: true,
        not_predicted: FAULTS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "bad addresses while their signals are blocked",
        build: &[C("blocked_faults"), C("confined")],
        command: "$RUN $BIN/c/blocked_faults; $BIN/c/confined by_kernel $RUN $BIN/c/blocked_faults",
        not_predicted: FAULTS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "counters under locks",
        build: &[C("order")],
        command: "$RUN $BIN/c/order locks",
        not_predicted: APART,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what a process knows about itself",
        build: &[C("process")],
        command: "$RUN $BIN/c/process; $RUN $BIN/c/process < /dev/zero >> said 2>&1; cat said; trap '' HUP USR1; ulimit -S -n 200; $RUN $BIN/c/process 7> seven; $RUN $BIN/c/process <&- | grep -v ^fd.1:; (exec $RUN $BIN/c/process)",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "small stacks, coroutines, jumps out of handlers",
        build: &[C("stacks")],
        command: "$RUN $BIN/c/stacks",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "coroutines that a timer switches in the middle of writes",
        build: &[C("switched")],
        command: "$RUN $BIN/c/switched 100000",
        long: true,
        not_predicted: HANDLERS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "inotify, leases, busy programs, seals",
        build: &[C("watchers")],
        command: "$RUN $BIN/c/watchers",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "descriptor tables of threads and clones",
        build: &[C("tables")],
        command: "$RUN $BIN/c/tables",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a program that may not read the clock",
        build: &[C("no_clock")],
        prepare: "seq 100000 > in",
        command: "$RUN $BIN/c/no_clock early && cmp in out; $RUN $BIN/c/no_clock late && cmp in out",
        not_predicted: LOOKS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "offsets beyond 4 GiB",
        build: &[C("large")],
        command: "$RUN $BIN/c/large",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "run within run",
        build: &[C("copy"), C("process")],
        prepare: LINES,
        command: "$RUN $RUN $BIN/c/copy in.txt a 7; $RUN sh -c '$RUN $BIN/c/copy in.txt b 9; $BIN/c/copy b c 5'; \
                  $RUN sh -c '$RUN dd if=in.txt bs=11 status=none; echo inner' > d; $RUN $RUN $BIN/c/process",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "another preloaded library stays",
        build: &[C("copy"), C("parent"), CLibrary("preloaded")],
        prepare: "seq 5000 > in.txt; cp $BIN/c/preloaded mine.so",
        command: "LD_PRELOAD=$PWD/mine.so $RUN $BIN/c/parent; LD_PRELOAD=$PWD/mine.so $RUN sh -c '$BIN/c/parent; $BIN/c/parent > f'; \
                  LD_PRELOAD=\"$PWD/mine.so libm.so.6\" $RUN $BIN/c/copy in.txt out 7",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "functions of libc found by their names",
        build: &[C("found_by_name"), CLibrary("asks_next")],
        prepare: "cp $BIN/c/asks_next asks_next.so",
        command: "$RUN $BIN/c/found_by_name ./asks_next.so; \
                  LD_PRELOAD=$PWD/asks_next.so $RUN $BIN/c/found_by_name from the-start",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "names of libc's in libraries of the program's own",
        build: HOMONYMS,
        command: "$RUN $BIN/c/homonyms; LD_BIND_NOW=1 $RUN $BIN/c/homonyms",
        not_predicted: ANSWERED,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "names of libc's in libraries that are loaded later",
        build: &[C("loads_later"), CLibrary("later_lacking"), CWith("later_versioned", &VERSIONED)],
        prepare: "for i in lacking versioned; do cp $BIN/c/later_$i $i.so; done",
        command: "$RUN $BIN/c/loads_later ./lacking.so ./versioned.so ./lacking.so",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "names of libc's in the last of many libraries",
        build: HOMONYMS,
        prepare: "for i in $(seq 260); do cp $BIN/c/empty l$i.so; done",
        command: "LD_PRELOAD=$(printf \"$PWD/%s:\" l*.so) $RUN $BIN/c/homonyms",
        not_predicted: ANSWERED,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a descriptor is sent in memory that was used before",
        build: &[C("sends_number")],
        command: "$RUN $BIN/c/sends_number",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a handler moves the position in the middle of a read",
        build: &[C("handler_seeks")],
        command: "$RUN $BIN/c/handler_seeks",
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a vfork of another library's that makes a fork",
        build: &[C("vfork_forks"), CLibrary("forks_for_vfork")],
        prepare: "cp $BIN/c/forks_for_vfork forks.so",
        command: "$RUN $BIN/c/vfork_forks; LD_PRELOAD=$PWD/forks.so $RUN $BIN/c/vfork_forks",
        not_predicted: TIMING,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "functions that not every C library has",
        build: &[C("asks_whether")],
        command: "$RUN $BIN/c/asks_whether",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "calls to a server by the C library's own RPC",
        build: &[C("rpc_inside")],
        command: "for way in grows changes; do $RUN $BIN/c/rpc_inside $way; done",
        not_predicted: UNSEEN,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a preloaded library that changes bytes",
        build: &[C("copy"), CLibrary("changes_bytes")],
        prepare: "yes 'Some Text' | head -3000 > in.txt; cp $BIN/c/changes_bytes changes_bytes.so",
        command: "LD_PRELOAD=$PWD/changes_bytes.so $RUN $BIN/c/copy in.txt out 7; \
                  LD_PRELOAD=$PWD/changes_bytes.so $RUN sh -c '$BIN/c/copy out out2 9; cat out2 > out3'",
        not_predicted: ANSWERED,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a preloaded library with a time of its own",
        build: &[C("two_times"), CLibrary("another_time")],
        prepare: "cp $BIN/c/another_time another_time.so",
        command: "LD_PRELOAD=$PWD/another_time.so $RUN $BIN/c/two_times",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what streams call, called by its name",
        build: &[C("stream_and_descriptor")],
        command: "$RUN $BIN/c/stream_and_descriptor leaves",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "time zones and messages that were just written",
        build: &[C("own_files")],
        command: "for function in tzset localtime localtime_r gmtime ctime ctime_r mktime strftime wcsftime \
                      gettext dgettext dcgettext ngettext dngettext dcngettext; do \
                  $RUN $BIN/c/own_files $function; done",
        long: true,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a program that is told of its own writes",
        build: &[C("counts_writes")],
        command: "for way in inotify raw-inotify signal; do $RUN $BIN/c/counts_writes $way; done",
        not_predicted: UNSEEN,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "a static program",
        needs: &["gcc"],
        prepare: "seq 5000 > in.txt; gcc @$SRC/c/options.txt -static -o static $SRC/c/copy.c",
        command: "$RUN ./static in.txt out 7; $RUN sh -c './static in.txt out2 9; wc -c out2; cat out2 | ./static /dev/stdin out3 5'",
        not_predicted: "`run` says nothing of it",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "an unobserved file, and release points",
        build: &[C("unobserved")],
        prepare: "printf '[[rule]]\\nfile = \"mine.*\"\\npromise = \"unobserved\"\\n' > sweetspot.toml",
        command: "$RUN $BIN/c/unobserved talk",
        not_predicted: "`profile` takes a file for one that others look at, whatever a rule promises",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "an unobserved file, and shared memory",
        build: &[C("unobserved")],
        prepare: "printf '[[rule]]\\nfile = \"mine.*\"\\npromise = \"unobserved\"\\n' > sweetspot.toml",
        command: "$RUN $BIN/c/unobserved silent",
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "unobserved files, oldest first",
        build: &[C("unobserved")],
        prepare: "printf '[[rule]]\\nfile = \"mine.*\"\\npromise = \"unobserved\"\\n' > sweetspot.toml",
        command: "$RUN $BIN/c/unobserved ages",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "an unobserved file beside one that is not",
        build: &[C("unobserved")],
        prepare: "printf '[[rule]]\\nfile = \"mine.*\"\\npromise = \"unobserved\"\\n' > sweetspot.toml",
        command: "$RUN $BIN/c/unobserved order",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "stdio through the engine, by a rule",
        build: &[C("stdio"), C("outside")],
        prepare: "seq 100000 | awk '{ print $1, \"some words of a line\" }' > in.txt; \
                  printf '[[rule]]\\nstdio = \"on\"\\n' > sweetspot.toml",
        command: "$RUN $BIN/c/stdio; $RUN $BIN/c/stdio > outside; \
                  { $RUN $BIN/c/stdio rest; cat; } < in.txt > rest; \
                  for end in _exit abort exit fork exec; do $RUN $BIN/c/stdio $end > said; echo $?; \
                  mv said said.$end; mv unflushed unflushed.$end; done; \
                  for mode in both child flags; do \
                  { $RUN $BIN/c/outside $mode 3> $mode.said; echo after; } > $mode 2>&1; done; \
                  $RUN awk '{ print > \"awk.\" NR % 3 }' in.txt; $RUN sort -r in.txt > sorted; \
                  $RUN perl -ne 'print' in.txt > perl.out",
        not_predicted: FORKED,
        ..DEFAULT
    },
    Case {
        group: "c_sharing",
        name: "what the buffer of stdio shows and hides",
        build: &[C("stdio")],
        prepare: LINES,
        command: "$RUN $BIN/c/stdio; $RUN $BIN/c/stdio > outside; \
                  { $RUN $BIN/c/stdio rest; cat; } < in.txt > rest; \
                  $RUN sh -c '{ $BIN/c/stdio rest; cat; } < in.txt > rest2'; \
                  for end in _exit abort exit fork exec; do $RUN $BIN/c/stdio $end > said; echo $?; \
                  mv said said.$end; mv unflushed unflushed.$end; done",
        not_predicted: FEW_CALLS,
        ..DEFAULT
    },
];

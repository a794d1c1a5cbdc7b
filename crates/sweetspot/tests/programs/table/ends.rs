//! Every way in which a process can end, with bytes that it wrote just before.

use super::{Case, DEFAULT};
use crate::build::Build::C;

/// One way to end, after plain writes, appends, rewrites in place, and writes to a descriptor from
/// outside; `$?` is said each time.
macro_rules! way {
    ($name:literal) => {
        way!($name, false)
    };
    ($name:literal, $late:literal) => {
        Case {
            group: "c_ends",
            name: $name,
            build: &[C("ends")],
            command: concat!(
                "for mode in plain append rewrite; do mkdir $mode; cd $mode; $RUN $BIN/c/ends ",
                $name,
                " $mode; echo $?; cd ..; done; touch out; $RUN $BIN/c/ends ",
                $name,
                " stdout > outside; status=$?; rm -f out done; echo $status"
            ),
            finished_late: $late,
            ..DEFAULT
        }
    };
}

/// `true` where the process is killed: a guard may finish it just after its end.
pub const ENDS: &[Case] = &[
    way!("return"),
    way!("exit"),
    way!("_exit"),
    way!("_Exit"),
    way!("quick_exit"),
    way!("abort", true),
    way!("abort-handled", true),
    way!("segv", true),
    way!("bus", true),
    way!("trap", true),
    way!("fpe", true),
    way!("segv-handled"),
    way!("kill", true),
    way!("term", true),
    way!("raise-hup", true),
    way!("term-handled"),
    way!("usr1-handled"),
    way!("alarm", true),
    Case {
        group: "c_ends",
        name: "signals anywhere in the writes",
        build: &[C("ends")],
        command: "for mode in plain append rewrite; do $RUN $BIN/c/ends timer $mode; done",
        ..DEFAULT
    },
    way!("exec"),
    way!("exec-keeps"),
    way!("exec-fails"),
    way!("thread-exit"),
    way!("main-thread-ends"),
    way!("exit-beside-thread"),
    way!("cancel"),
    way!("raw-exit"),
    way!("raw-exit-thread"),
    way!("child-killed"),
    way!("daemon"),
    way!("setuid"),
    way!("chroot"),
    way!("limits"),
    way!("memory"),
    way!("seccomp-strict"),
    way!("seccomp-filter"),
    way!("stop"),
    way!("no-new-privileges"),
];

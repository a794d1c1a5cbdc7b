//! Every way in which a process can end, with bytes that it wrote just before.

use super::{Case, DEFAULT};
use crate::build::Build::C;

/// One way to end, after plain writes, appends, rewrites in place, and writes to a descriptor from
/// outside; `$?` is said each time.
macro_rules! way {
    ($name:literal) => {
        way!($name, false, SAME)
    };
    ($name:literal, killed) => {
        way!($name, true, SAME)
    };
    ($name:literal, predicted) => {
        way!($name, false, "")
    };
    ($name:literal, $late:literal, $not_predicted:expr) => {
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
            not_predicted: $not_predicted,
            ..DEFAULT
        }
    };
}

const SAME: &str = "before it ends it does what others do that are compared";

/// `killed`: a guard may finish it just after its end. `predicted`: compared with what `profile` says.
pub const ENDS: &[Case] = &[
    way!("return", predicted),
    way!("exit"),
    way!("_exit"),
    way!("_Exit"),
    way!("quick_exit"),
    way!("abort", killed),
    way!("abort-handled", killed),
    way!("segv", killed),
    way!("bus", killed),
    way!("trap", killed),
    way!("fpe", killed),
    way!("segv-handled"),
    way!("kill", true, ""),
    way!("term", killed),
    way!("raise-hup", killed),
    way!("term-handled"),
    way!("usr1-handled"),
    way!("alarm", killed),
    Case {
        group: "c_ends",
        name: "signals anywhere in the writes",
        build: &[C("ends")],
        command: "for mode in plain append rewrite; do $RUN $BIN/c/ends timer $mode; done",
        ..DEFAULT
    },
    way!("exec"),
    way!("exec-keeps", predicted),
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

//! The programs are really buffered: with `run` they make far fewer system calls.
//!
//! Without this a preload library that does nothing would pass every comparison. The kernel's own
//! counters of read and write calls (`/proc/PID/io` of a shell that waited for the program) are
//! asked, not our summary.

use crate::harness::{self, Place};
use crate::table::{Case, DEFAULT, cases};

/// Programs whose calls must go down, and to what share of the native calls at most, in per cent.
const FEWER: &[(&str, &str, u64)] = &[
    ("c_calls", "copy by 7 bytes", 25),
    ("c_calls", "append by 33 bytes", 25),
    // Half of its calls are reads after jumps and positioned writes, which nothing can save; and of
    // the rewrites in its other half every one is a stretch of its own.
    ("c_calls", "rewrite in place", 55),
    // What is written just before the end waits, also what is appended and what goes to a descriptor from outside.
    ("c_ends", "return", 25),
    // Half of its calls, and more, are words to a pipe.
    ("c_sharing", "an unobserved file, and release points", 65),
    ("c_sharing", "an unobserved file, and shared memory", 25),
    ("c_sharing", "stdio through the engine, by a rule", 90),
    ("c_sharing", "memory that may not be made executable", 25),
    ("c_sharing", "the position is set to where it is, and asked for, beside a thread", 25),
    // Nothing can be opened there without being noticed.
    ("c_sharing", "a queue that is to tell of messages", 25),
    // Between spawns by lists that share nothing.
    ("c_sharing", "lists of file actions that only close", 25),
    ("musl", "copies", 25),
    ("cobol", "sequential copy", 50),
    ("python", "buffering 0", 50),
    // A device that is the same for all notices no read.
    ("coreutils", "dd of zeros", 65),
    // Twice: to a file that it opens, and to one that was open before.
    ("coreutils", "dd bs=7", 15),
];

/// The share where the machine is emulated: until its guard answers, a program has made a third of its calls.
const SHARE_EMULATED: u64 = 60;

/// Runs that a program gets to show it.
const RUNS_MAX: u32 = 60;

#[test]
fn programs_make_fewer_calls() {
    if std::env::var_os("SWEETSPOT_TEST_RUN").is_some() {
        harness::say("skipped: counting calls, as SWEETSPOT_TEST_RUN replaces `sweetspot run`");
        return;
    }
    let mut wrong = Vec::new();
    for (group, name, share) in FEWER {
        let found = cases().find(|case| case.group == *group && case.name == *name);
        let case = found.unwrap_or_else(|| panic!("no program {group} {name} in the table"));
        if let Some(missing) = harness::missing(case) {
            harness::skipped(&format!("counting calls of {name}: {missing}"), &mut wrong);
            continue;
        }
        let command = format!("{{ {}; }} >/dev/null 2>&1; cat /proc/$$/io", case.command);
        let command: &'static str = command.leak();
        let counted =
            Case { group: "active", name: case.name, command, build: case.build, ..DEFAULT };
        let counted = Case { prepare: case.prepare, ..counted };
        let place = Place::new(&counted).expect("prepared");
        let is_emulated = harness::patience() > 1;
        let share = if is_emulated { SHARE_EMULATED.max(*share) } else { *share };
        let native = calls(&place, &counted, "");
        // A program that lasts ten milliseconds may be over before a busy machine has started the
        // guard; so the best of some runs counts.
        let run = (0..RUNS_MAX)
            .map(|_| calls(&place, &counted, &harness::wrapper("64K")))
            .find(|run| run * 100 <= native * share);
        let run = run.unwrap_or_else(|| calls(&place, &counted, &harness::wrapper("64K")));
        place.remove();
        if run * 100 > native * share {
            wrong
                .push(format!("{group} {name}: {run} calls, natively {native}, at most {share} %"));
        }
    }
    assert!(wrong.is_empty(), "not buffered, or hardly:\n{}", wrong.join("\n"));
}

/// The read and write calls of the shell and of all that it waited for.
fn calls(place: &Place, case: &Case, run: &str) -> u64 {
    let seen = place.run(case, run).expect("started");
    let text = String::from_utf8_lossy(&seen.stdout).into_owned();
    let count = |key: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|value| value.trim().parse().ok()).expect("counters in /proc/PID/io")
    };
    count("syscr:") + count("syscw:")
}

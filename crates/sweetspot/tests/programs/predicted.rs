//! What `profile` says of a program's calls is what `run` makes of them: of programs in the table, file by
//! file, with `auto`.
//!
//! `auto` measures, so the two differ by what a buffer's size does; and calls are counted that `profile`
//! has only sampled. What takes no part: the guard answers at once, as `profile` assumes, the files are
//! older than a window may be, and no earlier run has told what calls cost.

use crate::harness::{self, Long, Place};
use crate::table::{Case, cases};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use sweetspot_report::profile::data::Profile;

/// Programs whose calls do not depend on time, on which of their processes comes first, nor on whether
/// they are buffered.
const PROGRAMS: &[(&str, &str)] = &[
    ("c_calls", "a gap before what waits"),
    ("c_calls", "append by 33 bytes"),
    ("c_calls", "append mode comes and goes"),
    ("c_calls", "appends beside other descriptions"),
    ("c_calls", "copy by 1 byte"),
    ("c_calls", "copy by 200 bytes over an old file"),
    ("c_calls", "copy by 7 bytes"),
    ("c_calls", "position, size and reads while appended bytes wait"),
    ("c_calls", "records that are read again before they leave"),
    ("c_calls", "rewrite in place"),
    ("c_calls", "rewrite odd records"),
    ("c_ends", "exec-keeps"),
    ("c_ends", "kill"),
    ("c_ends", "return"),
    ("c_ends", "signals anywhere in the writes"),
    ("c_errors", "every way to ask for a size"),
    ("c_errors", "lseek, and what has no position"),
    ("c_errors", "read and pread"),
    ("c_errors", "sizes, flags, locks, transfers"),
    ("c_errors", "vectors"),
    ("c_fuzz", "appending"),
    ("c_fuzz", "company"),
    ("c_fuzz", "handed"),
    ("c_fuzz", "mixed"),
    ("c_fuzz", "seeds that once differed"),
    ("c_fuzz", "streams"),
    ("c_fuzz", "wild"),
    ("c_sharing", "a child in namespaces of its own"),
    ("c_sharing", "a title over the memory of the environment"),
    ("c_sharing", "the function of a clone returns"),
    ("c_sharing", "a file that becomes swap space"),
    ("c_sharing", "fewer system calls are allowed from now on"),
    ("c_sharing", "the end of a pipe or a connection tells of a death"),
    ("c_sharing", "whatever tells of an end tells of a death"),
    ("c_sharing", "what a process has written by a descriptor that was handed on"),
    ("c_sharing", "what others did before they took what was written"),
    ("c_sharing", "lists of file actions that were copied"),
    ("c_sharing", "lists of file actions that only close"),
    ("c_sharing", "what signals do is a process's own"),
    ("c_sharing", "letters of a stream's mode"),
    ("c_sharing", "a file is free when its writer's death is known"),
    ("c_sharing", "a forked child has nothing of its parent's ledger"),
    ("c_sharing", "a handler forks in the middle of writes"),
    ("c_sharing", "a library that was just written is loaded"),
    ("c_sharing", "a program that locks its memory"),
    ("c_sharing", "a queue that is to tell of messages"),
    ("c_sharing", "a thread that goes before all others on its processor"),
    ("c_sharing", "a window where writes are to wait"),
    ("c_sharing", "alone until there are threads"),
    ("c_sharing", "another preloaded library stays"),
    ("c_sharing", "children of unusual kinds"),
    ("c_sharing", "descriptor tables of threads and clones"),
    ("c_sharing", "duplicates with very high numbers"),
    ("c_sharing", "every way to learn of a death"),
    ("c_sharing", "every way to learn of a stop"),
    ("c_sharing", "files that libc opens by itself"),
    ("c_sharing", "functions of libc found by their names"),
    ("c_sharing", "inotify, leases, busy programs, seals"),
    ("c_sharing", "memory that may not be made executable"),
    ("c_sharing", "neighbouring records"),
    ("c_sharing", "offsets beyond 4 GiB"),
    ("c_sharing", "run within run"),
    ("c_sharing", "standard input of its own"),
    ("c_sharing", "standard input that others have, too"),
    ("c_sharing", "stdio through the engine, by a rule"),
    ("c_sharing", "streams that map their file"),
    ("c_sharing", "streams that read what a descriptor wrote"),
    ("c_sharing", "the end of a file that grows, asked through a stream"),
    ("c_sharing", "the offset from outside, after a kill"),
    ("c_sharing", "threads that the C library does not know of"),
    ("c_sharing", "threads while streams begin to be seen"),
    ("c_sharing", "threads write from the start"),
    ("c_sharing", "time zones and messages that were just written"),
    ("c_sharing", "times that are set stand"),
    ("c_sharing", "what /proc shows of a process"),
    ("c_sharing", "what a new process is given, and what not"),
    ("c_sharing", "what a process knows about itself"),
    ("c_sharing", "what streams call, called by its name"),
    ("c_sharing", "what the C library says by itself"),
    ("c_sharing", "whatever is heard, a window asks again"),
    ("c_sharing", "which file is newer"),
    ("c_sharing", "who watches a file that is written"),
    ("c_sharing", "words by calls that are rarely made"),
    ("c_sharing", "a program that another one traces"),
    ("c_sharing", "calls that wait until others have acted"),
    ("c_sharing", "an unobserved file, and shared memory"),
    ("c_sharing", "opens that cut what another process writes"),
    ("c_sharing", "a process is meant by the number of a thread"),
    ("c_sharing", "small stacks, coroutines, jumps out of handlers"),
    ("c_sharing", "the child of a vfork is killed before it is another program"),
    ("c_sharing", "a fork beside threads in the middle of something"),
    ("c_sharing", "a file is quiesced while threads write to it"),
    ("cobol", "relative"),
    ("cobol", "sequential copy"),
    ("cobol", "sequential rewrite and extend"),
    ("cobol", "two files in turns"),
    ("coreutils", "dd bs=1"),
    ("coreutils", "dd bs=200 and seek, skip, conv"),
    ("coreutils", "dd bs=7"),
    ("coreutils", "dd large blocks and direct"),
    ("coreutils", "dd of zeros"),
    ("coreutils", "stdbuf and timeout around it"),
    ("cxx", "streams"),
    ("cxx", "streams to a file"),
    ("fortran", "direct"),
    ("fortran", "formatted with flush"),
    ("fortran", "unbuffered by its own switch"),
    ("java", "FileChannel"),
    ("java", "Files, a child, threads, exit"),
    ("java", "RandomAccessFile"),
    ("java", "readLine and println"),
    ("java", "streams"),
    ("musl", "children below the other C library"),
    ("musl", "children below the other C library, streams by a rule"),
    ("musl", "copies"),
    ("musl", "descriptors that came from outside"),
    ("musl", "errors"),
    ("musl", "musl, glibc and musl again, in one pipeline and one file"),
    ("musl", "records are changed in place and appended"),
    ("musl", "what the C library writes by itself"),
    ("musl", "streams"),
    ("musl", "streams through the engine, by a rule"),
    ("node", "console to a file"),
    ("node", "readSync, writeSync and streams"),
    ("perl", "edit in place and one-liners"),
    ("perl", "sysread, syswrite, sysseek"),
    ("python", "archives"),
    ("python", "buffering 0"),
    ("python", "descriptors"),
    ("python", "unbuffered output to a file"),
    ("python", "updates in every mode"),
    ("rust", "println and File"),
    ("rust", "println to a file"),
    ("shell", "a closed standard input, output, error"),
    ("shell", "a program, then done, in one file"),
    ("shell", "bash: descriptors, mapfile, coprocesses"),
    ("shell", "bash: here-documents and while read"),
    ("shell", "beside a job that computes"),
    ("shell", "dash: here-documents and while read"),
    ("shell", "programs in the background share a file"),
    ("shell", "the file that is written is read"),
    ("shell", "while read from outside"),
    ("tools", "make and gcc"),
];

/// All programs of this group write the same, and then end: the ways that are left out differ in nothing before.
const ENDS: &str = "c_ends";

/// Programs that make fewer calls than count on any file.
const FEW_CALLS: &[(&str, &str)] = &[
    ("c_calls", "copy by 100000 bytes"),
    ("c_calls", "copy by 4096 bytes"),
    ("c_sharing", "a descriptor is sent in memory that was used before"),
    ("musl", "a descriptor is sent in memory that was used before"),
    ("c_calls", "synchronous writes"),
    ("c_sharing", "a preloaded library with a time of its own"),
    ("c_sharing", "a program of an older C library gets its functions"),
    ("c_errors", "bad vectors before anything is buffered"),
    ("c_sharing", "a spawn on a small stack"),
    ("c_sharing", "memory behind that of a window"),
    ("c_sharing", "a profile that the C library writes"),
    ("c_sharing", "functions that not every C library has"),
    ("musl", "functions that not every C library has"),
    ("c_sharing", "an unobserved file beside one that is not"),
    ("c_sharing", "files that grow while a tree is walked"),
    ("c_sharing", "entries of the environment that are no variables"),
    ("c_sharing", "record locks on programs outlive exec"),
    ("c_sharing", "stopped at any moment"),
    ("c_sharing", "unobserved files, oldest first"),
    ("c_sharing", "what another process wrote is synced"),
    ("c_sharing", "what the buffer of stdio shows and hides"),
    ("cobol", "line sequential to one file"),
    ("cobol", "line sequential with display"),
    ("coreutils", "cat"),
    ("coreutils", "cp and cp -p"),
    ("coreutils", "head and tail"),
    ("coreutils", "sort"),
    ("coreutils", "split, csplit, join, paste, comm"),
    ("coreutils", "sums and dumps"),
    ("coreutils", "tail -f sees what is appended"),
    ("coreutils", "tee, mv, ln, install, shred"),
    ("fortran", "stream"),
    ("shell", "exit status and signals"),
    ("shell", "head leaves the rest to cat"),
    ("shell", "output and errors to one file"),
    ("shell", "pipelines"),
    ("tools", "awk"),
    ("tools", "bc"),
    ("tools", "diff and patch"),
    ("tools", "find, xargs, xxd, file"),
    ("tools", "git"),
    ("tools", "gzip"),
    ("tools", "sed and grep"),
    ("tools", "sqlite3"),
    ("tools", "tar"),
];

/// Why a program is not compared.
const TIMING: &str = "its threads, handlers or processes are faster or slower";
const HANDLERS: &str = "`profile` does not see handlers begin, and they begin all the time";
const LOOKS: &str = "it looks whether it is buffered, and does more or less";
const FAULTS: &str = "it blocks, ignores or provokes the signals of bad addresses";
const PROMISES: &str =
    "`profile` takes a file for one that others look at, whatever a rule promises";
const APART: &str = "`profile` looks at each process by itself";
const UNSEEN: &str = "its files are shared or watched in ways that `profile` does not follow";

/// The others, and why they are not compared.
const LEFT_OUT: &[(&str, &str, &str)] = &[
    ("c_errors", "file size limits", "no record of it can be written"),
    ("c_errors", "open, dup, close", "its busiest file never has a name"),
    ("c_errors", "write and pwrite", FAULTS),
    ("c_sharing", "a descriptor that another process fetches", LOOKS),
    ("c_sharing", "a process says who may trace it", LOOKS),
    ("c_sharing", "the child of a vfork of what is not buffered any more", UNSEEN),
    ("c_sharing", "a fork by an instruction of the program's own", UNSEEN),
    ("c_sharing", "the offset behind what was appended for a quiet program", TIMING),
    ("c_sharing", "a collector stops all threads by signals that are queued", TIMING),
    ("c_sharing", "a collector writes while it has stopped all threads", TIMING),
    ("c_sharing", "a handler sets what others do that have come with it", TIMING),
    ("c_sharing", "a handler speaks in the middle of writes", TIMING),
    ("c_sharing", "a handler speaks while the position is in a window", HANDLERS),
    ("c_sharing", "a preloaded library that changes bytes", "another library answers its calls"),
    (
        "c_sharing",
        "names of libc's in libraries of the program's own",
        "another library answers its calls",
    ),
    ("c_sharing", "a process whose first thread has ended", APART),
    ("c_sharing", "a program that is told of its own writes", UNSEEN),
    ("c_sharing", "a program that may not read the clock", LOOKS),
    ("musl", "threads that the C library makes", FAULTS),
    ("c_sharing", "a static program", "`run` says nothing of it"),
    ("c_sharing", "a thread writes while another's window is filled", TIMING),
    ("c_sharing", "a window opens while writes of another thread begin to wait", TIMING),
    ("c_sharing", "alone until there is a handler", HANDLERS),
    ("c_sharing", "an unobserved file, and words to others", PROMISES),
    ("c_sharing", "a description that the guard was asked for gets another number", TIMING),
    ("c_sharing", "handlers use what the program is about to change", HANDLERS),
    ("c_sharing", "bad addresses in short copies", FAULTS),
    ("c_sharing", "bad addresses while their signals are blocked", FAULTS),
    ("c_sharing", "calls that are rarely made", UNSEEN),
    ("c_sharing", "calls to a server by the C library's own RPC", UNSEEN),
    ("c_sharing", "coroutines that a timer switches in the middle of writes", HANDLERS),
    ("c_sharing", "counters under locks", APART),
    ("c_sharing", "descriptors are closed while others use them", TIMING),
    ("c_sharing", "descriptors are replaced while others use them", TIMING),
    ("c_sharing", "descriptors that came from outside", LOOKS),
    ("c_sharing", "flushes and advice at any moment", HANDLERS),
    ("c_sharing", "one call over what waits, by a descriptor that was given", APART),
    ("c_sharing", "the ledger's name is removed while bytes wait", APART),
    ("c_sharing", "stores by a process that may not be looked at", APART),
    ("c_sharing", "stores by a process that writes a title over its environment", APART),
    ("c_sharing", "handlers begin while descriptors are duplicated", TIMING),
    ("c_sharing", "one description, many holders", UNSEEN),
    ("c_sharing", "one file, many descriptions", "`profile` tells files apart by their paths"),
    ("c_sharing", "one thread ends it while others write", TIMING),
    ("c_sharing", "a limit on sizes is set while threads write", TIMING),
    ("c_sharing", "a fork calls functions of the program's in the child", TIMING),
    ("c_sharing", "what is closed beside a thread that starts programs is closed", TIMING),
    ("c_sharing", "who ends while another thread begins to write ends well", TIMING),
    ("c_sharing", "shared in ways that are easily missed", UNSEEN),
    ("c_sharing", "signal masks that come with a wait, a thread or sigset", FAULTS),
    ("c_sharing", "signals of faults that are ignored", FAULTS),
    ("c_sharing", "what a process that is not buffered does to another one's file", APART),
    ("c_sharing", "what Go made calls the kernel by itself", LOOKS),
    ("c_sharing", "a ring that opens what another process writes", APART),
    ("c_sharing", "a ring that was made out of sight", UNSEEN),
    ("c_sharing", "signals of faults that somebody sends", FAULTS),
    ("c_sharing", "signals of faults and of steps of its own, in the middle of calls", FAULTS),
    ("c_sharing", "a library and threads that go, which others notice", TIMING),
    ("c_sharing", "a buffer changes while it is written", UNSEEN),
    ("c_sharing", "a thread sets actions while another one hears signals", TIMING),
    ("c_sharing", "signals at any moment of a vfork", TIMING),
    ("c_sharing", "what the child of a vfork leaves behind", LOOKS),
    ("c_sharing", "the child of a vfork and its parent's files", LOOKS),
    ("c_sharing", "a handler moves the position in the middle of a read", TIMING),
    ("c_sharing", "a vfork of another library's that makes a fork", TIMING),
    ("c_sharing", "many threads wait in a vfork at the same time", TIMING),
    (
        "c_sharing",
        "the right to write is taken away, then kill",
        "only the guard is refused anything",
    ),
    ("c_sharing", "threads are cancelled where they read and write", TIMING),
    ("c_sharing", "threads work while children start", TIMING),
    ("c_sharing", "two processes change the same bytes without a word", APART),
    ("c_sharing", "what a killed child locked is free", APART),
    ("c_sharing", "what is done to a process without a call of its own", LOOKS),
    ("c_sharing", "what others see, and when", LOOKS),
    ("c_sharing", "words that pass without a call", UNSEEN),
    ("musl", "streams that are opened anew, and their lines", TIMING),
    ("musl", "threads, signals, forks", TIMING),
    ("musl", "what others see, and when", LOOKS),
    ("python", "children", "`run` counts no more of what a fork has shared"),
];

/// Files with fewer calls are no matter.
const CALLS_MIN: u64 = 500;
/// By how much the two may differ: a share of a file's calls, in per cent, and so many calls. A burst of
/// calls that are followed stands for up to a quarter of all calls so far, so a prediction is a sample.
const PARTS_MAX: u64 = 10;
const CALLS_MAX: u64 = 100;
/// As often is looked for what is to be said, every 50 ms.
const WAITS_MAX: u32 = 200;
/// A program that is disturbed gets another chance.
const TRIES_MAX: u32 = 3;
/// Longer than a file must be unchanged for a window to be believed, in seconds.
const OLD_ENOUGH: &str = "1.2";
/// Until the guard has begun: `run` has one.
const GUARD_BEGINS: &str = "sleep 0.1";
/// Both hold the program and all its threads to one processor (any), so that threads come in the same order. The
/// guard goes before everybody else there, if it may: it answers at once.
const HELD: &str = r#"
first=
chrt -f 1 true 2> /dev/null && first="chrt -f 1"
exec taskset -c $(($$ % $(nproc))) $first COMMAND -- sh -c '
BEGUN
exec chrt -o 0 "$@"' sh "$@"
"#;

const SWEETSPOT: &str = env!("CARGO_BIN_EXE_sweetspot");

#[test]
fn as_many_calls_are_left_as_predicted() {
    if std::env::var_os("SWEETSPOT_TEST_RUN").is_some() {
        harness::say("skipped: predicting calls, as SWEETSPOT_TEST_RUN replaces `sweetspot run`");
        return;
    }
    let wrong = Mutex::new(Vec::new());
    let is_now =
        |case: &Case| harness::is_wanted(case.name) && (!case.long || harness::long() == Long::All);
    let programs = PROGRAMS.iter().map(|(group, name)| found(group, name));
    let programs: Vec<_> = programs.filter(|case| is_now(case)).collect();
    crate::at_once(6, &programs, |case| {
        let (name, start) = (case.name, Instant::now());
        let mut wrong_here = Vec::new();
        if let Some(missing) = harness::missing(case) {
            harness::skipped(&format!("predicting calls of {name}: {missing}"), &mut wrong_here);
        } else {
            for _ in 0..TRIES_MAX {
                wrong_here = compared(case);
                if wrong_here.is_empty() {
                    break;
                }
            }
        }
        harness::say_time(start, "predicted", name);
        wrong.lock().unwrap().extend(wrong_here);
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "not as predicted:\n{}", wrong.join("\n"));
}

fn found(group: &str, name: &str) -> &'static Case {
    let mut all = cases().filter(|case| case.group == group && case.name == name);
    all.next().unwrap_or_else(|| panic!("no program {group} {name} in the table"))
}

#[test]
fn every_program_is_compared_or_has_its_reason() {
    let left_out = LEFT_OUT.iter().map(|(group, name, _)| (*group, *name));
    let listed: Vec<_> = PROGRAMS.iter().chain(FEW_CALLS).copied().chain(left_out).collect();
    for (group, name) in &listed {
        found(group, name);
    }
    for case in cases() {
        let times = listed.iter().filter(|one| **one == (case.group, case.name)).count();
        assert!(times == 1 || times == 0 && case.group == ENDS, "{} {}", case.group, case.name);
    }
}

/// Files of a program of which more or fewer calls are left than predicted.
fn compared(case: &'static Case) -> Vec<String> {
    let command: &'static str = format!("sleep {OLD_ENOUGH}; {}", case.command).leak();
    let case = Case { group: "predicted", command, ..*case };
    let place = Place::new(&case).expect("prepared");
    let said = tempfile::tempdir().unwrap();
    let (profiles, runs) = (said.path().join("profiles"), said.path().join("runs"));
    [&profiles, &runs].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
    // Each program of a row has a file of its own, and nothing is known of what calls cost: a busy machine may have
    // told that just before.
    let untold = format!("env XDG_STATE_HOME={}/$$.state", said.path().display());
    let profile = format!(
        "{untold} GIVE_NO_TIME=1 {SWEETSPOT} profile --output {0}/$$.txt --json {0}/$$.json",
        profiles.display(),
    );
    let run = format!("{untold} {SWEETSPOT} run --summary={}/", runs.display());
    let under = |command: &str, begun: &str, name: &str| {
        let script = said.path().join(name);
        let text = HELD.replace("COMMAND", command).replace("BEGUN", begun);
        fs::write(&script, text).unwrap();
        format!("sh {}", script.display())
    };
    place.run(&case, &under(&profile, "", "profile.sh")).expect("profiled");
    place.run(&case, &under(&run, GUARD_BEGINS, "run.sh")).expect("run");
    place.remove();
    let (predicted, made) = (predicted(&profiles), made(&runs));
    assert!(made.values().any(|made| made.calls >= CALLS_MIN), "{}: no file", case.name);
    let busy = made.iter().filter(|(_, made)| made.calls >= CALLS_MIN);
    let differs = busy.filter_map(|(path, made)| {
        let expected = predicted.get(path).copied().unwrap_or_default();
        let is_near =
            made.saved().abs_diff(expected.saved()) <= made.calls * PARTS_MAX / 100 + CALLS_MAX;
        (!is_near).then(|| {
            format!(
                "{}: {path}: {} of {} predicted, {} of {} made",
                case.name, expected.left, expected.calls, made.left, made.calls
            )
        })
    });
    differs.collect()
}

/// Calls on a file, and how many of them reach the kernel.
#[derive(Clone, Copy, Default)]
struct Calls {
    calls: u64,
    left: u64,
}

impl Calls {
    /// Those that go away. Of a process that stops being buffered `run` counts no more: nothing goes away there.
    fn saved(self) -> u64 {
        self.calls.saturating_sub(self.left)
    }

    fn add(&mut self, calls: u64, left: u64) {
        self.calls += calls;
        self.left += left;
    }
}

/// The calls of each path, and those that profiles say would be left.
fn predicted(folder: &Path) -> BTreeMap<String, Calls> {
    let mut all: BTreeMap<String, Calls> = BTreeMap::new();
    for file in records(folder).flat_map(|profile: Profile| profile.files) {
        let calls = all.entry(file.path.clone()).or_default();
        calls.add(file.calls(), file.calls_left());
    }
    all
}

/// What the summaries of all processes say of each path.
fn made(folder: &Path) -> BTreeMap<String, Calls> {
    let mut all: BTreeMap<String, Calls> = BTreeMap::new();
    for summary in records::<Value>(folder) {
        for file in summary["files"].as_array().unwrap() {
            // One that was removed is still meant.
            let path = file["path"].as_str().unwrap().trim_end_matches(" (deleted)");
            let calls = all.entry(path.into()).or_default();
            calls.add(file["calls"].as_u64().unwrap(), file["calls_left"].as_u64().unwrap());
        }
    }
    all
}

/// The records in JSON in a folder.
fn records<T: DeserializeOwned>(folder: &Path) -> impl Iterator<Item = T> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = paths.filter(|path| path.extension().is_none_or(|name| name == "json"));
    texts.map(|path| serde_json::from_str(&text_of(&path)).unwrap())
}

/// What is in a file as soon as it is written: the parent of a program in the background says it after its end.
fn text_of(path: &Path) -> String {
    for _ in 0..WAITS_MAX {
        let text = fs::read_to_string(path).unwrap();
        if !text.is_empty() {
            return text;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nothing was ever written into {}", path.display());
}

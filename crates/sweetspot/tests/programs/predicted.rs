//! What `profile` says of a program's calls is what `run` makes of them: of programs in the table, file by
//! file. Left out are those whose calls depend on time, on which of their processes comes first, or
//! on whether they are buffered (`not_predicted`).
//!
//! Two programs of three have buffers of one size, and each of their calls is followed: what differs is the moment at
//! which the guard answers, and what that leads to. The third is profiled as users do it: `auto` measures, so the two
//! differ by what a buffer's size does, and of many calls `profile` follows a sample. What takes no part: the guard
//! answers at once, as `profile` assumes, the files are older than a window may be, and no earlier run has told what
//! calls cost.

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

/// Files with fewer calls are no matter.
const CALLS_MIN: u64 = 500;

/// How a program is profiled and run, and by how much the two may differ: a share of a file's calls, in per cent, and
/// so many calls.
struct Manner {
    size: &'static str,
    options: &'static str,
    parts_max: u64,
    calls_max: u64,
}

const EXACT: Manner = Manner { size: "64K", options: "--exact", parts_max: 5, calls_max: 100 };
/// A burst of calls that are followed stands for up to a quarter of all calls so far.
const SAMPLED: Manner = Manner { size: "auto", options: "", parts_max: 10, calls_max: 100 };
/// As often is looked for what is to be said, every 50 ms.
const WAITS_MAX: u32 = 200;
/// A program that is disturbed gets another chance.
const TRIES_MAX: u32 = 6;
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
    let programs = cases().filter(|case| case.not_predicted.is_empty() && is_now(case));
    let manners = [&EXACT, &EXACT, &SAMPLED].into_iter().cycle();
    let programs: Vec<_> = programs.zip(manners).collect();
    crate::at_once(6, &programs, |(case, manner)| {
        let (name, start) = (case.name, Instant::now());
        let mut wrong_here = Vec::new();
        if let Some(missing) = harness::missing(case) {
            harness::skipped(&format!("predicting calls of {name}: {missing}"), &mut wrong_here);
        } else {
            for _ in 0..TRIES_MAX {
                wrong_here = compared(case, manner);
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

/// Files of a program of which more or fewer calls are left than predicted.
fn compared(case: &'static Case, manner: &Manner) -> Vec<String> {
    let command: &'static str = format!("sleep {OLD_ENOUGH}; {}", case.command).leak();
    let case = Case { group: "predicted", command, ..*case };
    let place = Place::new(&case).expect("prepared");
    let said = tempfile::tempdir().unwrap();
    let (profiles, runs) = (said.path().join("profiles"), said.path().join("runs"));
    [&profiles, &runs].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
    // Each program of a row has a file of its own, and nothing is known of what calls cost: a busy machine may have
    // told that just before.
    let &Manner { size, options, parts_max, calls_max } = manner;
    let untold =
        format!("env XDG_STATE_HOME={}/$$.state IO_BUFFER_SIZE={size}", said.path().display());
    let profile = format!(
        "{untold} GIVE_NO_TIME=1 {SWEETSPOT} profile {options} --output {0}/$$.txt --json {0}/$$.json",
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
            made.saved().abs_diff(expected.saved()) <= made.calls * parts_max / 100 + calls_max;
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
        calls.add(file.calls(), file.calls_made());
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
            calls.add(file["calls"].as_u64().unwrap(), file["calls_made"].as_u64().unwrap());
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

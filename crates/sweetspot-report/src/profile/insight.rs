//! Findings: what a reader should do about a profile, each with a code that programs can rely on.

use super::data::{File, FileKind, Insight, Profile, Seen, Severity, Verdict};
use super::{place, sentence};
use crate::numbers;
use crate::reach::Reach;
use crate::shell::words as shell_words;
use sweetspot_core::why::Why;

/// Calls from which a habit is worth a word.
const MANY_CALLS: u64 = 10_000;

/// All findings, the most important first.
pub fn all(profile: &Profile, reach: &Reach) -> Vec<Insight> {
    let command = shell_words(&profile.command);
    let mut found = Vec::new();
    obstacle(profile, &mut found);
    place(profile, &mut found);
    gain(profile, &command, &mut found);
    stdio(profile, &command, &mut found);
    not_seen(profile, reach, &mut found);
    for file in &profile.files {
        if file.verdict == Verdict::NotBuffered && file.kind == FileKind::File {
            not_buffered(file, &mut found);
        }
        habits(file, &mut found);
    }
    if profile.file_seconds > 0.0 {
        let waiting: f64 = profile.files.iter().map(|file| file.waiting_seconds).sum();
        if waiting > profile.seconds * 0.2 {
            found.push(Insight {
                code: "waits".into(),
                severity: Severity::Medium,
                text: format!(
                    "{} were spent waiting for a device or another process; buffering does \
                     not shorten that",
                    numbers::seconds(waiting)
                ),
                command: None,
            });
        }
    }
    if profile.evicted_seconds > profile.seconds * 0.15 {
        found.push(Insight {
            code: "busy-machine".into(),
            severity: Severity::Medium,
            text: format!(
                "the machine was busy: the program waited {} of {} for a CPU",
                numbers::seconds(profile.evicted_seconds),
                numbers::seconds(profile.seconds),
            ),
            command: None,
        });
    }
    found.sort_by_key(|insight| insight.severity);
    found
}

/// What keeps `run` from buffering it here.
fn obstacle(profile: &Profile, found: &mut Vec<Insight>) {
    let Some(obstacle) = &profile.obstacle else { return };
    let what =
        if obstacle.is_whole { "nothing is buffered here" } else { "writes are not buffered here" };
    let mend = obstacle.mend.as_ref().map(|mend| format!("; {mend}")).unwrap_or_default();
    found.push(Insight {
        code: "not-buffered-here".into(),
        severity: Severity::High,
        text: format!("{what}: {}{mend}", obstacle.reason),
        command: None,
    });
}

/// Where the calls are made that cost most: for people who can change the program.
fn place(profile: &Profile, found: &mut Vec<Insight>) {
    let gains = profile.files.iter().filter(|file| file.verdict == Verdict::WillGain);
    let Some((file, place)) = gains.filter_map(|file| Some((file, file.places.first()?))).next()
    else {
        return;
    };
    found.push(Insight {
        code: "where".into(),
        severity: Severity::High,
        text: format!(
            "{:.0} % of the calls on {} are made by {}; if you can change the code: larger reads \
             or writes there save the same calls",
            place.share * 100.0,
            file.path,
            place::text(place)
        ),
        command: None,
    });
}

fn gain(profile: &Profile, command: &str, found: &mut Vec<Insight>) {
    let Some(prediction) = profile.prediction.filter(|_| sentence::gains(profile)) else { return };
    let files: Vec<&File> =
        profile.files.iter().filter(|file| file.verdict == Verdict::WillGain).collect();
    found.push(Insight {
        code: "will-gain".into(),
        severity: if prediction.ratio_low > 1.2 { Severity::High } else { Severity::Medium },
        text: format!(
            "buffering helps on {}; the program should be about {} times as fast",
            numbers::files(sentence::number(&files)),
            numbers::ratio(prediction.ratio),
        ),
        command: Some(format!("sweetspot run -- {command}")),
    });
}

/// Calls that stdio makes pass through unless the user says otherwise.
fn stdio(profile: &Profile, command: &str, found: &mut Vec<Insight>) {
    let Some(saved) = sentence::saved_by_stdio(profile) else { return };
    found.push(Insight {
        code: "stdio".into(),
        severity: Severity::High,
        text: format!(
            "{} are spent on small calls of C's stdio: an unbuffered stream, or one that is \
             flushed often",
            numbers::seconds(saved)
        ),
        command: Some(format!("sweetspot run --stdio -- {command}")),
    });
}

fn not_seen(profile: &Profile, reach: &Reach, found: &mut Vec<Insight>) {
    if profile.coverage.verdict == Seen::All {
        return;
    }
    let hint = sentence::hint(&profile.coverage.kernel);
    let severity =
        if matches!(reach, Reach::Unreachable(_)) { Severity::High } else { Severity::Medium };
    found.push(Insight {
        code: "not-seen".into(),
        severity,
        text: format!("seen: {}{hint}", profile.coverage.reason),
        command: None,
    });
}

fn not_buffered(file: &File, found: &mut Vec<Insight>) {
    let calls = file.transferring_calls();
    let small = file.moved_bytes() / calls.max(1) < 16 << 10;
    if calls < MANY_CALLS || !small {
        return;
    }
    let has = |why: Why| file.reasons.iter().any(|reason| reason == why.text());
    let (code, advice) = match () {
        () if has(Why::FromOutside) => (
            "from-outside",
            "do not share this < with another process: write ( prog < file ) in a script, or name the file as an argument",
        ),
        () if has(Why::Shared) => ("shared", "open it after starting the child, or with O_CLOEXEC"),
        () if has(Why::OpenFlags) => {
            ("synchronous", "each call waits for the device: is O_SYNC or O_DIRECT needed?")
        }
        () => return,
    };
    found.push(Insight {
        code: code.into(),
        severity: Severity::Low,
        text: format!(
            "{}: {} small calls are passed through: {advice}",
            file.path,
            numbers::count(calls)
        ),
        command: None,
    });
}

fn habits(file: &File, found: &mut Vec<Insight>) {
    let mut say = |code: &str, text: String| {
        found.push(Insight { code: code.into(), severity: Severity::Low, text, command: None });
    };
    let path = &file.path;
    if file.seeks_nowhere >= MANY_CALLS {
        let count = numbers::count(file.seeks_nowhere);
        say("seeks-nowhere", format!("{path}: {count} seeks went to the current position"));
    }
    let calls = file.transferring_calls();
    let again = file.pattern.re_reads;
    if again >= MANY_CALLS && again > calls / 2 {
        let count = numbers::count(again);
        say("re-reads", format!("{path}: {count} reads fetched bytes that had been read before"));
    }
    if file.opens >= MANY_CALLS {
        let count = numbers::count(file.opens);
        say("opened-often", format!("{path}: opened {count} times; could it stay open?"));
    }
}

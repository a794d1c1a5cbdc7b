//! What a report begins with: what to do, where the time went, and what to type.

use super::coverage;
use super::data::GAIN_SECONDS_MIN;
use super::data::{
    Calls, Coverage, File, FileKind, Obstacle, Prediction, Process, Profile, Seen, Verdict, total,
};
use crate::numbers::{bytes, count, files, mean, ratio, seconds, short};
use crate::reach::Reach;
use crate::shell::words as shell_words;
use std::collections::BTreeMap;
use sweetspot_core::why::Why;

/// Mean size of transfers from which there is little left to save, in bytes: a copied byte costs
/// more than the rest of the call.
const LARGE_BYTES: u64 = 8 << 10;
/// Files that make up this part of the time in calls are those that are named.
const MOST: f64 = 0.95;
/// Mean size of transfers from which on stdio's own buffer is mostly full: it has 4 KiB, and what is
/// larger than that goes around it.
const STDIO_FULL_BYTES: u64 = 2 << 10;
/// If more than that part of the kernel's calls was out of sight, the sentence is about those.
const UNSEEN_MOST: f64 = 0.5;

/// What helps against a reason, in a program of this name.
pub type Mend = fn(Why, &str) -> Option<String>;

/// How many files these stand for.
pub fn number(files: &[&File]) -> u64 {
    total(files.iter().map(|file| file.together.max(1)))
}

/// Whether `sweetspot run` is worth a try.
pub fn gains(profile: &Profile) -> bool {
    profile.files.iter().any(|file| file.verdict == Verdict::WillGain)
}

/// What to do, where the time went, and what to type.
pub fn sentence(profile: &Profile, reach: &Reach, mend: Mend) -> String {
    let (unseen, unseen_part) = unseen(profile);
    if unseen_part > UNSEEN_MOST {
        return out_of_sight(profile, reach);
    }
    let mut regular: Vec<&File> =
        profile.files.iter().filter(|file| file.kind == FileKind::File).collect();
    let all = total(regular.iter().map(|file| file.calls()));
    let waits = others(profile);
    if all == 0 {
        let time = seconds(profile.seconds);
        return format!("Nothing to buffer: no system calls on files in {time}{waits}{unseen}.");
    }
    regular.retain(|file| file.calls() > 0);
    regular.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let mut left = profile.file_seconds * MOST;
    let mut main: Vec<&File> = Vec::new();
    for file in &regular {
        if left > 0.0 {
            main.push(file);
            left -= file.seconds;
        }
    }
    let used = number(&regular);
    let on = match number(&main) {
        main if main == used || main == 0 => files(used),
        main => format!("{}, mostly {}", files(used), count(main)),
    };
    let transfers = total(regular.iter().map(|file| file.transferring_calls()));
    let moved = total(regular.iter().map(|file| file.moved_bytes()));
    let each = match transfers {
        0 => String::new(),
        transfers => format!(" (average {})", bytes(mean(moved, transfers))),
    };
    let (whole, on_others) = whole(profile);
    let share = share(profile);
    let calls = count(all);
    let calls = if all == 1 { "1 system call".into() } else { format!("{calls} system calls") };
    let went = format!("{share} % of {whole} went into {calls}{each} on {on}");
    let hindered = profile.obstacle.as_ref().filter(|obstacle| obstacle.is_whole);
    let (answer, verb) = match (profile.prediction, gains(profile)) {
        _ if hindered.is_some() => (hindered.map(cannot).unwrap_or_default(), None),
        (Some(prediction), true) => worth_it(profile, &prediction),
        _ => match saved_by_stdio(profile) {
            Some(saved) => (
                format!(
                    "Use `sweetspot run --stdio`: it should save about {}. The calls come from C's \
                     stdio, which is not buffered by default",
                    seconds(saved)
                ),
                Some("run --stdio"),
            ),
            None => (no_gain(profile, &main, mend), None),
        },
    };
    let command = || shell_words(&profile.command);
    let next =
        verb.map_or_else(String::new, |verb| format!(" Try: sweetspot {verb} -- {}", command()));
    format!("{answer}. {went}{waits}{unseen}.{on_others}{next}")
}

/// What `run` should gain, and the verb to try; where it may be nothing, the one that measures.
fn worth_it(profile: &Profile, prediction: &Prediction) -> (String, Option<&'static str>) {
    let now = alone(profile);
    let (advice, verb) = match prediction.ratio_low >= 1.0 {
        true => ("Use", "run"),
        false => ("Perhaps use", "tune"),
    };
    let answer = format!(
        "{advice} `sweetspot run`: it should be about {} times as fast ({} to {}): {} instead of {}",
        ratio(prediction.ratio),
        ratio(prediction.ratio_low),
        ratio(prediction.ratio_high),
        seconds(now / prediction.ratio),
        seconds(now),
    );
    (answer, Some(verb))
}

/// What hinders, whatever the calls are.
fn cannot(obstacle: &Obstacle) -> String {
    let mend = obstacle.mend.as_ref().map(|mend| format!("; {mend}")).unwrap_or_default();
    format!("sweetspot cannot buffer it here: {}{mend}", obstacle.reason)
}

/// What was out of sight, in words, and the part of all calls that it was.
fn unseen(profile: &Profile) -> (String, f64) {
    if profile.coverage.verdict == Seen::All {
        return (String::new(), 0.0);
    }
    let beyond = coverage::beyond(&profile.coverage);
    let calls = |calls: &Calls| calls.reads + calls.writes;
    if coverage::with_ring(&profile.processes).is_some() {
        return (", and what went through io_uring was out of sight".to_string(), 0.0);
    }
    let text = format!(
        ", and {} reads and writes of {} were out of sight",
        count(calls(&beyond)),
        bytes(beyond.read_bytes + beyond.written_bytes),
    );
    let part = calls(&beyond) as f64 / calls(&profile.coverage.kernel).max(1) as f64;
    (text, if profile.coverage.verdict == Seen::Nothing { 1.0 } else { part })
}

/// What `run --stdio` would save. None: it does not matter.
pub fn saved_by_stdio(profile: &Profile) -> Option<f64> {
    if profile.obstacle.as_ref().is_some_and(|obstacle| obstacle.is_whole) {
        return None;
    }
    let saved = alone(profile) * (1.0 - 1.0 / profile.prediction_stdio?.ratio);
    let least = (2.0 * profile.costs.start_ns / 1e9).max(0.05 * busy(profile));
    (saved > least).then_some(saved)
}

/// Whether `run --stdio` would buffer a file that C's stdio uses: its calls are small, and in order.
pub fn is_for_stdio(file: &File) -> bool {
    let stdio = Why::Stdio.text();
    let pattern = &file.pattern;
    file.kind == FileKind::File
        && file.verdict == Verdict::NotBuffered
        && file.reasons.first().is_some_and(|reason| reason == stdio)
        && mean(file.moved_bytes(), file.transferring_calls()) < LARGE_BYTES
        && pattern.sequential > 9 * (pattern.strided + pattern.random)
}

/// Time in calls on pipes and the like, where it is much.
fn others(profile: &Profile) -> String {
    if profile.other_seconds < 0.1 * busy(profile) {
        return String::new();
    }
    format!(", {} into pipes, terminals and the like", seconds(profile.other_seconds))
}

/// How long it took without what others took on a busy machine, and without being observed.
pub(crate) fn alone(profile: &Profile) -> f64 {
    let evicted = match is_busy(profile) {
        true => profile.evicted_seconds,
        false => 0.0,
    };
    (profile.seconds - evicted - profile.observing_seconds).max(0.0)
}

/// Whether others took so much of the processor that it has to be said.
fn is_busy(profile: &Profile) -> bool {
    profile.evicted_seconds > 0.15 * profile.seconds
}

/// The time that calls are a part of: with several processes, theirs together; without what others
/// took on a busy machine.
fn busy(profile: &Profile) -> f64 {
    let alone = profile.seconds - profile.evicted_seconds;
    alone.max(profile.file_seconds + profile.other_seconds).max(profile.processor_seconds)
}

/// Which part of that the calls on files are, in percent.
fn share(profile: &Profile) -> String {
    let share = 100.0 * profile.file_seconds / busy(profile);
    if share < 1.0 { "Less than 1".to_string() } else { format!("{share:.0}") }
}

/// What calls are a part of, in words; and a sentence on the whole time, where that is something else.
fn whole(profile: &Profile) -> (String, String) {
    let (busy, processes) = (busy(profile), profile.processes.len() as u64);
    let text = match busy > profile.seconds * 1.1 {
        _ if is_busy(profile) => {
            let all = seconds(profile.seconds);
            let on_others = format!(" The machine was busy: it took {all} in all.");
            return ("its time".to_owned(), on_others);
        }
        true if processes > 1 => format!("{} in {} processes", seconds(busy), count(processes)),
        true => format!("{} in its threads", seconds(busy)),
        false => seconds(profile.seconds),
    };
    (text, String::new())
}

/// That there is nothing to gain, and why; or that there would be, and what hinders.
fn no_gain(profile: &Profile, main: &[&File], mend: Mend) -> String {
    let share = profile.file_seconds / busy(profile);
    let saves: f64 = profile.files.iter().map(|file| file.saves_seconds.max(0.0)).sum();
    let start = profile.costs.start_ns / 1e9;
    let calls = total(main.iter().map(|file| file.transferring_calls()));
    let moved = total(main.iter().map(|file| file.moved_bytes()));
    let each = mean(moved, calls);
    let why = match most_frequent_reason(main) {
        _ if coverage::with_ring(&profile.processes).is_some() => {
            return hindered(Why::IoUring.text(), profile, mend);
        }
        _ if saves > GAIN_SECONDS_MIN && saves < 2.0 * start => format!(
            "it would save {}, and starting under sweetspot costs {}",
            seconds(saves),
            seconds(start),
        ),
        _ if saves > 2.0 * start => format!("it would save no more than {}", seconds(saves)),
        _ if each >= LARGE_BYTES => format!("the calls are large already ({})", bytes(each)),
        _ if share < 0.03 => "too little of the time is spent on files".to_string(),
        Some((reason, _)) if is_sentence(reason) => return hindered(reason, profile, mend),
        Some((reason, files)) => because(reason, &files),
        None => "the calls are few or large".to_string(),
    };
    format!("Buffering has nothing to gain here: {why}")
}

/// What hinders, though the calls are worth a buffer.
fn hindered(reason: &str, profile: &Profile, mend: Mend) -> String {
    cannot(&Obstacle {
        reason: reason.to_string(),
        mend: mended(reason, profile, mend),
        ..Obstacle::default()
    })
}

/// Whether a reason is a sentence of its own: it is about the process or the system, not the calls.
fn is_sentence(reason: &str) -> bool {
    Why::said(reason).is_some_and(Why::is_sentence)
}

/// What helps against a reason that holds for a whole process.
fn mended(reason: &str, profile: &Profile, mend: Mend) -> Option<String> {
    let why = Why::said(reason).filter(|why| why.is_sentence())?;
    let has = |process: &&Process| process.reasons.iter().any(|one| one == reason);
    let program = profile.processes.iter().find(has).map(|process| process.program.as_str());
    mend(why, program.unwrap_or_default())
}

/// The reason that holds for most of the time in calls, and the files that it is the first one of.
fn most_frequent_reason<'a>(main: &[&'a File]) -> Option<(&'a str, Vec<&'a File>)> {
    let mut by_reason: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in main {
        by_reason.entry(file.reasons.first()?).or_default().push(file);
    }
    let time = |files: &[&File]| files.iter().map(|file| file.seconds).sum::<f64>();
    by_reason.into_iter().max_by(|a, b| time(&a.1).total_cmp(&time(&b.1)))
}

/// Why there is nothing to gain on these files.
fn because(reason: &str, on: &[&File]) -> String {
    if is_sentence(reason) {
        return reason.to_string();
    }
    let how = match reason {
        reason if reason == Why::TooFewCalls.text() => "used with too few calls to be worth it",
        reason if reason == Why::NotWorthIt.text() => "used too irregularly for a buffer",
        // Where stdio leaves nothing to gain, that it is stdio is not the whole reason.
        reason if reason == Why::Stdio.text() && is_mostly_random(on) => {
            "accessed at random through stdio"
        }
        reason if reason == Why::Stdio.text() && mean_of(on) >= STDIO_FULL_BYTES => {
            "used through stdio, which buffers by itself"
        }
        reason => reason,
    };
    match on {
        [file] if file.together == 0 => format!("{} is {how}", short(&file.path)),
        several => format!("{} are {how}", files(number(several))),
    }
}

/// Whether most accesses to these files jump.
fn is_mostly_random(files: &[&File]) -> bool {
    let sum = |of: fn(&File) -> u64| total(files.iter().map(|file| of(file)));
    let in_order = sum(|file| total([file.pattern.sequential, file.pattern.strided]));
    sum(|file| file.pattern.random) > in_order
}

/// Mean size of the transfers on these files.
fn mean_of(files: &[&File]) -> u64 {
    let sum = |of: fn(&File) -> u64| total(files.iter().map(|file| of(file)));
    mean(sum(|file| file.moved_bytes()), sum(|file| file.transferring_calls()))
}

/// Most of what the program did was not seen.
fn out_of_sight(profile: &Profile, reach: &Reach) -> String {
    let Coverage { verdict, kernel, .. } = &profile.coverage;
    let why = match reach {
        Reach::Unreachable(why) => format!("{why}"),
        Reach::Reachable if *verdict == Seen::Nothing => match &profile.obstacle {
            Some(obstacle) => obstacle.reason.clone(),
            None => "no process loaded the library".into(),
        },
        Reach::Reachable => format!("they were {}", coverage::OUT_OF_SIGHT),
    };
    let beyond = coverage::beyond(&profile.coverage);
    let calls = |calls: &Calls| count(calls.reads + calls.writes);
    let which = match unseen(profile).1 {
        part if part > MOST => String::new(),
        _ => format!("for {} of them ", calls(&beyond)),
    };
    format!(
        "The kernel counted {} reads and writes of {}, but {which}sweetspot cannot see which files \
         they use, and cannot buffer them: {why}{}",
        calls(kernel),
        bytes(kernel.read_bytes + kernel.written_bytes),
        hint(&beyond),
    )
}

/// What a program that cannot be reached could change itself.
pub fn hint(kernel: &Calls) -> String {
    let one = |what: &str, calls: u64, moved: u64| {
        let each = mean(moved, calls);
        (calls >= 1000 && each < 16 << 10).then(|| {
            format!(
                "it {what} {} at a time; in pieces of 64 KiB it would be {} calls instead of {}",
                bytes(each),
                count(moved.div_ceil(64 << 10)),
                count(calls),
            )
        })
    };
    let hints = [
        one("reads", kernel.reads, kernel.read_bytes),
        one("writes", kernel.writes, kernel.written_bytes),
    ];
    let hints: Vec<String> = hints.into_iter().flatten().collect();
    match hints.is_empty() {
        true => String::new(),
        false => format!(". Hint: {}", hints.join("; ")),
    }
}

#[cfg(test)]
mod tests;

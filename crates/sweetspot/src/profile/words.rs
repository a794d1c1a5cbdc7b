//! Numbers and findings in words: the sentence that a report begins with.

use super::data::{Calls, File, FileKind, Profile, Seen, Verdict};
use super::shell_words;
use crate::reach::Reach;
use sweetspot_core::why::Why;

/// A prediction below this ratio is no gain.
const RATIO_MIN: f64 = 1.03;
/// Mean size of transfers from which there is little left to save, in bytes: a copied byte costs
/// more than the rest of the call.
const LARGE_BYTES: u64 = 8 << 10;
/// The same for stdio, whose own buffer has that size: smaller transfers were made on purpose.
const STDIO_BYTES_SMALL: u64 = 2 << 10;
/// The part of the time in such calls that goes away: nine tenths where 4 bytes were written each.
const STDIO_SAVED: f64 = 0.85;
/// Files that make up this part of the time in calls are those that are named.
const MOST: f64 = 0.95;

/// A number with separators.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size, in the unit that suits.
pub fn bytes(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return match bytes {
            1 => "1 byte".to_string(),
            bytes => format!("{bytes} bytes"),
        };
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit < units.len() - 1 {
        size /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three(size), units[unit])
}

/// A time, in the unit that suits.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s >= 0.1 => format!("{} s", three(s)),
        s if s >= 0.000_1 => format!("{} ms", three(s * 1e3)),
        s if s > 0.0 => format!("{} us", three(s * 1e6)),
        _ => "0 s".to_string(),
    }
}

/// Three digits that count, at most two behind the point.
fn three(value: f64) -> String {
    match value {
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// A ratio.
pub fn ratio(ratio: f64) -> String {
    if ratio >= 1.995 { format!("{ratio:.1}") } else { format!("{ratio:.2}") }
}

/// `1 file`, `2 files`.
pub fn files(number: usize) -> String {
    if number == 1 { "1 file".to_string() } else { format!("{} files", count(number as u64)) }
}

/// Whether `sweetspot run` is worth a try.
pub fn gains(profile: &Profile) -> bool {
    profile.prediction.is_some_and(|prediction| prediction.ratio >= RATIO_MIN)
        && profile.files.iter().any(|file| file.verdict == Verdict::WillGain)
}

/// Where the time went and what buffering would give.
pub fn sentence(profile: &Profile, reach: &Reach) -> String {
    if profile.coverage.verdict == Seen::Nothing {
        return nothing_seen(profile, reach);
    }
    let mut regular: Vec<&File> =
        profile.files.iter().filter(|file| file.kind == FileKind::File).collect();
    let calls = |file: &File| file.reads + file.writes + file.seeks;
    let all: u64 = regular.iter().map(|file| calls(file)).sum();
    let waits = others(profile);
    if all == 0 {
        let time = seconds(profile.seconds);
        return format!("no system calls on files in {time}{waits}: nothing to buffer");
    }
    regular.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let mut left = profile.file_seconds * MOST;
    let mut main: Vec<&File> = Vec::new();
    for file in &regular {
        if left > 0.0 {
            main.push(file);
            left -= file.seconds;
        }
    }
    let used = regular.iter().filter(|file| calls(file) > 0).count();
    let on = match main.len() {
        main if main == used || main == 0 => files(used),
        main => format!("{}, most of it on {}", files(used), count(main as u64)),
    };
    let transfers: u64 = regular.iter().map(|file| file.reads + file.writes).sum();
    let moved: u64 = regular.iter().map(|file| file.read_bytes + file.written_bytes).sum();
    let each = match transfers {
        0 => String::new(),
        transfers => format!(" of {}", bytes(moved / transfers)),
    };
    let share = 100.0 * profile.file_seconds / busy(profile);
    let share = if share < 1.0 { "less than 1".to_string() } else { format!("{share:.0}") };
    let calls = count(all);
    let calls = if all == 1 { "1 system call".into() } else { format!("{calls} system calls") };
    let went = format!("{share} % of {} went into {calls}{each} on {on}", time(profile));
    let next = match (profile.prediction, gains(profile)) {
        (Some(prediction), true) => format!(
            "buffered it should take {}, {}x ({}-{}), an estimate; try: sweetspot run -- {}",
            seconds(alone(profile) / prediction.ratio),
            ratio(prediction.ratio),
            ratio(prediction.ratio_low),
            ratio(prediction.ratio_high),
            shell_words(&profile.command),
        ),
        _ => match saved_by_stdio(profile) {
            Some(saved) => format!(
                "the calls are those of C's stdio, which go straight on unless told otherwise: with \
                 --stdio it should save some {}; try: sweetspot run --stdio -- {}",
                seconds(saved),
                shell_words(&profile.command),
            ),
            None => format!("buffering has nothing to gain here: {}", no_gain(profile, &main)),
        },
    };
    format!("{went}{waits}; {next}")
}

/// What `run --stdio` would save, roughly: most of the time in small calls of stdio's that are in
/// order. None: it does not matter.
pub fn saved_by_stdio(profile: &Profile) -> Option<f64> {
    let stdio = Why::Stdio.text();
    let is_small = |file: &&File| {
        let transfers = file.reads + file.writes;
        let pattern = &file.pattern;
        file.kind == FileKind::File
            && file.verdict == Verdict::NotBuffered
            && file.reasons.first().is_some_and(|reason| reason == stdio)
            && (file.read_bytes + file.written_bytes) / transfers.max(1) < STDIO_BYTES_SMALL
            && pattern.sequential > 9 * (pattern.strided + pattern.random)
    };
    let of = |file: &File| (file.seconds - file.waiting_seconds) * STDIO_SAVED;
    let saved: f64 = profile.files.iter().filter(is_small).map(of).sum();
    let least = (2.0 * profile.costs.start_ns / 1e9).max(0.05 * busy(profile));
    (saved > least).then_some(saved)
}

/// Time in calls on pipes and the like, where it is much.
fn others(profile: &Profile) -> String {
    if profile.other_seconds < 0.1 * busy(profile) {
        return String::new();
    }
    format!(", {} into pipes, terminals and the like", seconds(profile.other_seconds))
}

/// How long it took without what others took on a busy machine, and without being observed.
fn alone(profile: &Profile) -> f64 {
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

fn time(profile: &Profile) -> String {
    let busy = busy(profile);
    if is_busy(profile) {
        let whole = seconds(profile.seconds);
        return format!("{} ({whole} on a busy machine)", seconds(busy));
    }
    if busy > profile.seconds * 1.1 && profile.processes.len() > 1 {
        format!("{} in {} processes", seconds(busy), count(profile.processes.len() as u64))
    } else {
        seconds(profile.seconds)
    }
}

fn no_gain(profile: &Profile, main: &[&File]) -> String {
    let share = profile.file_seconds / busy(profile);
    let saves: f64 = profile.files.iter().map(|file| file.saves_seconds.max(0.0)).sum();
    let gains = profile.files.iter().any(|file| file.verdict == Verdict::WillGain);
    let calls: u64 = main.iter().map(|file| file.reads + file.writes).sum();
    let moved: u64 = main.iter().map(|file| file.read_bytes + file.written_bytes).sum();
    let each = moved / calls.max(1);
    match main.first() {
        _ if gains => format!(
            "it would save {}, and starting under sweetspot costs {}",
            seconds(saves),
            seconds(profile.costs.start_ns / 1e9),
        ),
        _ if each >= LARGE_BYTES => format!("the calls are large already ({})", bytes(each)),
        _ if share < 0.03 => "so little of the time goes into files".to_string(),
        Some(file) => match file.reasons.first() {
            Some(reason) => match process_reason(profile, file, reason) {
                true => reason.clone(),
                false => format!("{} is {}", short(&file.path), phrase(reason)),
            },
            None => "the calls are few or large".to_string(),
        },
        None => "the calls are few or large".to_string(),
    }
}

/// Whether it is the whole process that is not buffered for this reason.
fn process_reason(profile: &Profile, file: &File, reason: &String) -> bool {
    let process = file.process.and_then(|index| profile.processes.get(index));
    process.is_some_and(|process| process.reasons.contains(reason))
}

/// A reason that follows "is".
fn phrase(reason: &str) -> String {
    match reason {
        "too few calls to be worth it" => "used with too few calls to be worth it".to_string(),
        "windows served too few calls" => {
            "used in a way in which windows serve too few calls".into()
        }
        reason => reason.to_string(),
    }
}

/// The file's name, without its folder.
pub fn short(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

fn nothing_seen(profile: &Profile, reach: &Reach) -> String {
    let kernel = &profile.coverage.kernel;
    let why = match reach {
        Reach::Unreachable(why) => format!("{why}"),
        Reach::Reachable => "no process loaded the library".to_string(),
    };
    let calls = count(kernel.reads + kernel.writes);
    format!(
        "the kernel counted {calls} reads and writes of {}, but it cannot be seen on which files, \
         and sweetspot cannot buffer them: {why}{}",
        bytes(kernel.read_bytes + kernel.written_bytes),
        hint(kernel),
    )
}

/// What a program that cannot be reached could change itself.
pub fn hint(kernel: &Calls) -> String {
    let one = |what: &str, calls: u64, moved: u64| {
        let each = moved / calls.max(1);
        (calls >= 1000 && each < 16 << 10).then(|| {
            format!(
                "{what} {} at a time; in pieces of 64 KiB it would be {} calls instead of {}",
                bytes(each),
                count(moved.div_ceil(64 << 10)),
                count(calls),
            )
        })
    };
    let reads = one("it reads", kernel.reads, kernel.read_bytes);
    let writes = one("it writes", kernel.writes, kernel.written_bytes);
    match (reads, writes) {
        (None, None) => String::new(),
        (Some(one), None) | (None, Some(one)) => format!(". Hint: {one}"),
        (Some(reads), Some(writes)) => format!(". Hint: {reads}; {writes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let check = |found: String, expected: &str| assert_eq!(found, expected);
        check(count(0), "0");
        check(count(999), "999");
        check(count(4_000_000), "4,000,000");
        check(bytes(1), "1 byte");
        check(bytes(200), "200 bytes");
        check(bytes(3993), "3.90 KiB");
        check(bytes(200_000_000), "191 MiB");
        check(seconds(1.7), "1.70 s");
        check(seconds(0.0123), "12.3 ms");
        check(seconds(123.4), "123 s");
        check(ratio(5.16), "5.2");
        check(ratio(1.07), "1.07");
        check(files(1), "1 file");
    }
}

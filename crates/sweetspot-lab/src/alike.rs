//! Are two outputs alike but for the time of day or a process number?
//!
//! A program that writes times differs from itself. Two texts are the same but for times if they have as
//! many lines, and the lines that differ become equal when everything is taken out that says when, how
//! long, how fast, or in which process.

use regex::bytes::{Captures, Regex};
use std::{collections::BTreeSet, ops::RangeInclusive, sync::LazyLock};

/// What takes the place of a time. No program writes it by chance, and it has no part of any file's name.
const TAKEN_OUT: &[u8] = b"\0";

/// What is known of a run by which its own times and processes are recognised.
#[derive(Clone, Debug)]
pub struct Span {
    /// Seconds since 1970.
    pub seconds: RangeInclusive<u64>,
    pub pids: Pids,
    /// Names that it made up.
    pub names: Vec<Vec<u8>>,
}

/// Process numbers that were given out one after the other: after the highest the low ones follow again.
#[derive(Clone, Debug)]
pub struct Pids {
    pub first: u64,
    pub last: u64,
    /// The highest that there can be.
    pub max: u64,
}

impl Pids {
    fn contains(&self, number: u64) -> bool {
        match self.first <= self.last {
            true => (self.first..=self.last).contains(&number),
            false => (self.first..=self.max).contains(&number) || (1..=self.last).contains(&number),
        }
    }
}

/// Lines, counted from 1, that differ in nothing but times and process numbers. `None`: something
/// else differs, or it is no text.
pub fn only_times(
    (left_text, left): (&[u8], &Span),
    (right_text, right): (&[u8], &Span),
) -> Option<BTreeSet<usize>> {
    if memchr::memchr(0, left_text).is_some() {
        return None;
    }
    let lines = |text: &[u8]| text.split(|&byte| byte == b'\n').count();
    if lines(left_text) != lines(right_text) {
        return None;
    }
    let newline = |&byte: &u8| byte == b'\n';
    let pairs = left_text.split(newline).zip(right_text.split(newline));
    let mut differing = BTreeSet::new();
    for (number, (left_line, right_line)) in (1..).zip(pairs) {
        if left_line == right_line {
            continue;
        }
        if !differ_only_in_times((left_line, left), (right_line, right)) {
            return None;
        }
        differing.insert(number);
    }
    Some(differing)
}

/// Whether two lines differ in nothing but what says when, how long, how fast, in which process, or into
/// which temporary file. (What is the same in both is no difference, even if it is the number of a process of
/// one of them.)
fn differ_only_in_times(left: (&[u8], &Span), right: (&[u8], &Span)) -> bool {
    let lines = [left, right].map(|(line, span)| without_names(line, span));
    let mut found = lines.each_ref().map(|line| TIMES.captures_iter(line));
    let [left_line, right_line] = &lines;
    let (mut left_at, mut right_at) = (0, 0);
    loop {
        let [left_found, right_found] = found.each_mut().map(Iterator::next);
        let (Some(left_found), Some(right_found)) = (&left_found, &right_found) else {
            let is_over = left_found.is_none() && right_found.is_none();
            return is_over && left_line[left_at..] == right_line[right_at..];
        };
        let (left_whole, right_whole) = (left_found.get_match(), right_found.get_match());
        let is_same = left_whole.as_bytes() == right_whole.as_bytes();
        let are_times = is_time(left_found, left.1) && is_time(right_found, right.1);
        let before = &left_line[left_at..left_whole.start()];
        if before != &right_line[right_at..right_whole.start()] || !is_same && !are_times {
            return false;
        }
        (left_at, right_at) = (left_whole.end(), right_whole.end());
    }
}

static TIMES: LazyLock<Regex> = LazyLock::new(|| {
    let parts = [
        // 2026-11-21, with or without 11:22:33.444 and a zone
        r"\d{4}[-/.]\d{2}[-/.]\d{2}([T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?( ?(Z|[+-]\d{2}:?\d{2}))?)?",
        // 11:22:33.444
        r"\d{1,2}:\d{2}:\d{2}([.,]\d+)?",
        // 0m0.004s
        r"\d+m\d+[.,]\d+s",
        // 3.2 MB/s
        r"\d+([.,]\d+)?(e[+-]\d+)? ?[kKMGT]?i?[Bb](ytes)?/s(ec)?",
        // 0.067 s
        r"\d+([.,]\d+)?(e[+-]\d+)? ?(ns|us|ms|secs?|seconds?|s)\b",
        // seconds since 1970, or in a smaller unit, or a process: decided by its value
        r"(?P<number>\d+)(\.\d+)?",
    ];
    Regex::new(&parts.join("|")).expect("the expression is constant and valid")
});

fn is_time(found: &Captures, span: &Span) -> bool {
    found.name("number").is_none_or(|number| is_of_the_run(number.as_bytes(), span))
}

/// A line without the names that the run made up.
fn without_names(line: &[u8], span: &Span) -> Vec<u8> {
    let mut line = line.to_vec();
    for name in &span.names {
        while let Some(at) = memchr::memmem::find(&line, name) {
            line.splice(at..at + name.len(), TAKEN_OUT.iter().copied());
        }
    }
    line
}

fn is_of_the_run(digits: &[u8], span: &Span) -> bool {
    let Some(number) = std::str::from_utf8(digits).ok().and_then(|text| text.parse::<u64>().ok())
    else {
        return false;
    };
    let is_time = [1, 1_000, 1_000_000, 1_000_000_000]
        .iter()
        .any(|units_a_second| span.seconds.contains(&(number / units_a_second)));
    is_time || span.pids.contains(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_from_other_differences() {
        let span = |second: u64, pid: u64, name: &[u8]| Span {
            seconds: second..=second + 2,
            pids: Pids { first: pid, last: (pid + 10) % 32_768, max: 32_767 },
            names: vec![name.to_vec()],
        };
        let left_span = span(1_795_000_000, 500, b"tmp.aXb");
        let right_span = span(1_795_000_010, 600, b"tmp.Qrs");
        let check = |left: &str, right: &str, expected: Option<&[usize]>| {
            let found = only_times((left.as_bytes(), &left_span), (right.as_bytes(), &right_span));
            let expected = expected.map(|lines| lines.iter().copied().collect());
            assert_eq!(found, expected, "{left:?} {right:?}");
        };
        check("a\nb\n", "a\nb\n", Some(&[]));
        check("at 11:22:33 done\nx", "at 11:22:34 done\nx", Some(&[1]));
        check("x\n2026-11-21T11:22:33Z", "x\n2026-11-21T11:23:00Z", Some(&[2]));
        check("copied, 0.067 s, 298 MB/s", "copied, 1.2 s, 16 MB/s", Some(&[1]));
        check("real 0m0.004s", "real 0m1.100s", Some(&[1]));
        check("job[505] 1795000001", "job[606] 1795000011", Some(&[1]));
        check("ms 1795000001123", "ms 1795000012003", Some(&[1]));
        check("job 505", "job 611", None);
        // A name that is a part of whatever takes its place would be found again and again.
        for name in ["time", "t"] {
            let mut span = span(1_795_000_000, 500, name.as_bytes());
            span.names.push(b"size".to_vec());
            let line = without_names(format!("made {name} size").as_bytes(), &span);
            assert_eq!(line.iter().filter(|byte| **byte == 0).count(), 2, "{name}");
        }
        let left_span = span(1_795_000_000, 32_765, b"tmp.aXb");
        let check_wrapped = |job: &str, expected: Option<&[usize]>| {
            let found = only_times((job.as_bytes(), &left_span), (b"job 606", &right_span));
            assert_eq!(found, expected.map(|lines| lines.iter().copied().collect()), "{job}");
        };
        check_wrapped("job 32766", Some(&[1]));
        check_wrapped("job 7", Some(&[1]));
        check_wrapped("job 8", None);
        check_wrapped("job 32764", None);
        check_wrapped("job 40000", None);
        // Low numbers are of a process here, and of the date all the same.
        let date = |time: &str| format!("Nov 5 {time} 2026");
        let [left, right] = ["11:22:59", "11:23:00"].map(date);
        let found = only_times((left.as_bytes(), &left_span), (right.as_bytes(), &right_span));
        assert_eq!(found, Some(BTreeSet::from([1])));
        check("to /tmp/tmp.aXb now", "to /tmp/tmp.Qrs now", Some(&[1]));
        check("to /tmp/tmp.aXb now", "to /tmp/tmp.Zzz now", None);
        check("total 17", "total 18", None);
        check("at 11:22:33 total 17", "at 11:22:34 total 18", None);
        check("a\nb", "a", None);
        check("a\0b 11:22:33", "a\0b 11:22:34", None);
    }
}

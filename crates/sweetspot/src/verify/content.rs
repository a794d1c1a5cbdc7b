//! Do two contents differ, where, and is it only the time of day or a process number?
//!
//! A program that writes times differs from itself. Two contents that are lines of text are the same
//! but for times if they have as many lines, and the lines that differ become equal when everything
//! is taken out that says when, how long, how fast, or in which process.

use regex::bytes::{Captures, Regex};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::RangeInclusive;
use std::sync::LazyLock;
use sweetspot_sandbox::{BLOCK_BYTES, Content, Kept, hashes, next_data};

/// How much of both sides is kept to be shown.
const SHOWN_BYTES: usize = 40;
/// Larger contents are not looked through for times.
const TEXT_BYTES_MAX: u64 = 64 << 20;
/// What takes the place of a time. No program writes it by chance, and it has no part of any file's name.
const TAKEN_OUT: &[u8] = b"\0";

/// Where two contents differ first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstDifference {
    /// The byte, counted from 0; where only hashes are left, the first of a block that holds it.
    pub at: u64,
    /// The line, counted from 1.
    pub line: Option<u64>,
    /// What both have there, where it was kept; empty: it ends there.
    pub sides: Option<[Vec<u8>; 2]>,
}

/// The first difference, if there is one.
///
/// # Errors
/// Where a content cannot be read.
pub fn first_difference(left: &Content, right: &Content) -> io::Result<Option<FirstDifference>> {
    let block_of = |hashes: [&[[u8; 32]]; 2]| {
        let same = hashes[0].iter().zip(hashes[1]).take_while(|(left, right)| left == right);
        let at = same.count() as u64 * BLOCK_BYTES;
        let is_same = hashes[0] == hashes[1] && left.len == right.len;
        (!is_same).then_some(FirstDifference { at, line: None, sides: None })
    };
    match (&left.kept, &right.kept) {
        (Kept::At(left), Kept::At(right)) => compare(File::open(left)?, File::open(right)?),
        (Kept::Hashes(left), Kept::Hashes(right)) => Ok(block_of([left, right])),
        (Kept::Hashes(left), Kept::At(right)) => Ok(block_of([left, &hashes(right)?])),
        (Kept::At(left), Kept::Hashes(right)) => Ok(block_of([&hashes(left)?, right])),
        (Kept::Untouched, Kept::Untouched) => Ok(None),
        (Kept::Untouched, _) | (_, Kept::Untouched) => {
            Ok(Some(FirstDifference { at: 0, line: None, sides: None }))
        }
    }
}

fn compare(mut left: File, mut right: File) -> io::Result<Option<FirstDifference>> {
    let (mut at, mut lines) = (0, 1);
    let mut blocks = [Vec::new(), Vec::new()];
    loop {
        // What is a hole in both need not be read.
        at = next_data(&left, at)?.min(next_data(&right, at)?);
        for (file, block) in [&mut left, &mut right].into_iter().zip(&mut blocks) {
            block.clear();
            file.seek(SeekFrom::Start(at))?;
            file.take(BLOCK_BYTES).read_to_end(block)?;
        }
        let [left, right] = &blocks;
        if left != right {
            let same = left.iter().zip(right).take_while(|(left, right)| left == right).count();
            lines += memchr::memchr_iter(b'\n', &left[..same]).count() as u64;
            let shown = |block: &[u8]| block[same..block.len().min(same + SHOWN_BYTES)].to_vec();
            let sides = Some([shown(left), shown(right)]);
            return Ok(Some(FirstDifference { at: at + same as u64, line: Some(lines), sides }));
        }
        if left.is_empty() {
            return Ok(None);
        }
        at += left.len() as u64;
        lines += memchr::memchr_iter(b'\n', left).count() as u64;
    }
}

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
/// else differs, or it is no text, or it was not kept.
///
/// # Errors
/// Where a content cannot be read.
pub fn only_times(
    left: (&Content, &Span),
    right: (&Content, &Span),
) -> io::Result<Option<BTreeSet<usize>>> {
    let (Kept::At(left_at), Kept::At(right_at)) = (&left.0.kept, &right.0.kept) else {
        return Ok(None);
    };
    if left.0.len.max(right.0.len) > TEXT_BYTES_MAX {
        return Ok(None);
    }
    let (left_text, right_text) = (std::fs::read(left_at)?, std::fs::read(right_at)?);
    if memchr::memchr(0, &left_text).is_some() {
        return Ok(None);
    }
    let lines = |text: &[u8]| text.split(|&byte| byte == b'\n').count();
    if lines(&left_text) != lines(&right_text) {
        return Ok(None);
    }
    let newline = |&byte: &u8| byte == b'\n';
    let pairs = left_text.split(newline).zip(right_text.split(newline));
    let mut differing = BTreeSet::new();
    for (number, (left_line, right_line)) in (1..).zip(pairs) {
        if left_line == right_line {
            continue;
        }
        if !differ_only_in_times((left_line, left.1), (right_line, right.1)) {
            return Ok(None);
        }
        differing.insert(number);
    }
    Ok(Some(differing))
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
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    fn content(folder: &Path, name: &str, bytes: &[u8]) -> Content {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        Content { len: bytes.len() as u64, kept: Kept::At(path) }
    }

    #[test]
    fn the_first_difference_is_found_whatever_was_kept() {
        let folder = tempfile::tempdir().unwrap();
        let block = BLOCK_BYTES as usize;
        let base: Vec<u8> = (0..2 * block + 10).map(|at| (at % 251) as u8).collect();
        let check = |right: &[u8], expected: Option<usize>| {
            let left = content(folder.path(), "left", &base);
            let right = content(folder.path(), "right", right);
            let found = first_difference(&left, &right).unwrap();
            assert_eq!(found.as_ref().map(|place| place.at), expected.map(|at| at as u64));
            let (mut left_hashed, mut right_hashed) = (left.clone(), right.clone());
            left_hashed.keep_hashes_only().unwrap();
            right_hashed.keep_hashes_only().unwrap();
            let in_block = expected.map(|at| (at / block * block) as u64);
            for (left, right) in
                [(&left_hashed, &right), (&left, &right_hashed), (&left_hashed, &right_hashed)]
            {
                let found = first_difference(left, right).unwrap();
                assert_eq!(found.map(|place| place.at), in_block);
            }
        };
        check(&base, None);
        for at in [0, 1, block - 1, block, 2 * block + 9] {
            let mut changed = base.clone();
            changed[at] ^= 1;
            check(&changed, Some(at));
        }
        check(&base[..block], Some(block));
        check(&base[..2 * block + 9], Some(2 * block + 9));
        check(&[], Some(0));
        check(&[&base[..], b"x"].concat(), Some(base.len()));
    }

    /// Reading so much would take minutes.
    #[test]
    fn holes_are_compared_without_reading_them() {
        const BYTES: u64 = 1 << 37;
        let folder = tempfile::tempdir().unwrap();
        let sparse = |name: &str, len: u64, data: &[u64]| {
            let path = folder.path().join(name);
            let file = File::create(&path).unwrap();
            file.set_len(len).unwrap();
            data.iter().for_each(|at| file.write_all_at(b"x", *at).unwrap());
            Content { len, kept: Kept::At(path) }
        };
        let place = BYTES / 3;
        let left = sparse("left", BYTES, &[7, place]);
        let check = |right: &Content, expected: Option<u64>| {
            let found = first_difference(&left, right).unwrap().map(|found| found.at);
            assert_eq!(found, expected);
            let mut hashed = right.clone();
            hashed.keep_hashes_only().unwrap();
            let found = first_difference(&left, &hashed).unwrap().map(|found| found.at);
            assert_eq!(found, expected.map(|at| at / BLOCK_BYTES * BLOCK_BYTES));
        };
        check(&sparse("same", BYTES, &[7, place]), None);
        check(&sparse("other", BYTES, &[7, place - 1, place]), Some(place - 1));
        check(&sparse("more", BYTES, &[7, place, BYTES - 1]), Some(BYTES - 1));
        check(&sparse("less", BYTES, &[7]), Some(place));
        check(&sparse("short", place, &[7]), Some(place));
        check(&sparse("long", BYTES + 5, &[7, place]), Some(BYTES));
    }

    #[test]
    fn times_are_told_from_other_differences() {
        let folder = tempfile::tempdir().unwrap();
        let span = |second: u64, pid: u64, name: &[u8]| Span {
            seconds: second..=second + 2,
            pids: Pids { first: pid, last: (pid + 10) % 32_768, max: 32_767 },
            names: vec![name.to_vec()],
        };
        let left_span = span(1_795_000_000, 500, b"tmp.aXb");
        let right_span = span(1_795_000_010, 600, b"tmp.Qrs");
        let check = |left: &str, right: &str, expected: Option<&[usize]>| {
            let left = content(folder.path(), "left", left.as_bytes());
            let right = content(folder.path(), "right", right.as_bytes());
            let found = only_times((&left, &left_span), (&right, &right_span)).unwrap();
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
            let left = content(folder.path(), "left", job.as_bytes());
            let right = content(folder.path(), "right", b"job 606");
            let found = only_times((&left, &left_span), (&right, &right_span)).unwrap();
            assert_eq!(found, expected.map(|lines| lines.iter().copied().collect()), "{job}");
        };
        check_wrapped("job 32766", Some(&[1]));
        check_wrapped("job 7", Some(&[1]));
        check_wrapped("job 8", None);
        check_wrapped("job 32764", None);
        check_wrapped("job 40000", None);
        // Low numbers are of a process here, and of the date all the same.
        let date = |time: &str| format!("Nov 5 {time} 2026");
        let left = content(folder.path(), "left", date("11:22:59").as_bytes());
        let right = content(folder.path(), "right", date("11:23:00").as_bytes());
        let found = only_times((&left, &left_span), (&right, &right_span)).unwrap();
        assert_eq!(found, Some(BTreeSet::from([1])));
        check("to /tmp/tmp.aXb now", "to /tmp/tmp.Qrs now", Some(&[1]));
        check("to /tmp/tmp.aXb now", "to /tmp/tmp.Zzz now", None);
        check("total 17", "total 18", None);
        check("at 11:22:33 total 17", "at 11:22:34 total 18", None);
        check("a\nb", "a", None);
        check("a\0b 11:22:33", "a\0b 11:22:34", None);
    }
}

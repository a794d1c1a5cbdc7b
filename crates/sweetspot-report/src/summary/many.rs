//! Many runs, one answer: what runs or profiles left in a folder, each in a file of its own, as one.
//!
//! The types are plain data for anyone who shows them otherwise; `text` is what a terminal shows.

mod text;

use super::Record;
use crate::origin::Origin;
use crate::profile::data::{self, FileKind, Profile, total as sum_of};
use crate::shown::{lines, plain};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Add;
use sweetspot_lab::statistics::median;

/// The version of the schema of [`Folder`].
const SCHEMA: u32 = 1;

/// What lay in the files that were read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Folder {
    /// The version of this schema. It changes when a field changes its meaning or goes away.
    pub sweetspot_merge: u32,
    /// Of `run --summary=DIR/`; none: no such file.
    pub summaries: Option<Merged>,
    /// Of `profile --json DIR/`.
    pub profiles: Option<Merged>,
    /// Files that are not among them, and why.
    pub skipped: Vec<Skipped>,
}

impl Folder {
    /// What these files say, as one.
    pub fn new(summaries: Vec<Run>, profiles: Vec<Run>, skipped: Vec<Skipped>) -> Folder {
        let (summaries, profiles) = (merge(summaries), merge(profiles));
        Folder { sweetspot_merge: SCHEMA, summaries, profiles, skipped }
    }

    /// The text for a terminal.
    pub fn text(&self) -> String {
        lines(&text::of(&plain(self)))
    }
}

/// A file that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    pub file: String,
    pub why: String,
}

/// One run: a program with all its processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The file that tells of it.
    pub file: String,
    pub origin: Origin,
    pub command: Vec<String>,
    /// `exit status 0`, `signal 9`.
    pub ended: String,
    pub seconds: f64,
    /// Reads, writes and seeks on files.
    pub calls: u64,
    /// System calls that were made for them; none for a profile, which buffers nothing.
    #[serde(alias = "calls_left")]
    pub calls_made: Option<u64>,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Time in these calls, over all its processes; profiles only.
    pub file_seconds: Option<f64>,
    /// How long it would take with `sweetspot run`; profiles only, and not where nothing was seen.
    pub predicted_seconds: Option<f64>,
    /// Why nothing was buffered; summaries only.
    pub inactive: Option<String>,
    pub notes: Vec<String>,
    #[serde(skip)]
    files: Vec<FileSum>,
}

/// Many runs as one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Merged {
    /// By rank, then by host and time.
    pub runs: Vec<Run>,
    /// Place in `runs`.
    pub slowest: usize,
    pub total: Total,
    /// How far the runs lie apart.
    pub spread: Spread,
    /// Ranks of the job of which nothing was found; none if that is not known.
    pub missing_ranks: Vec<u64>,
    /// Over all runs. Those with most time in calls first, or most system calls made.
    pub files: Vec<FileSum>,
}

/// Sums over all runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// From the first beginning to the last end, in seconds, by the clocks of the machines.
    pub span_seconds: f64,
    pub seconds: f64,
    pub calls: u64,
    #[serde(alias = "calls_left")]
    pub calls_made: Option<u64>,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub file_seconds: Option<f64>,
}

/// What the runs took and did: least, median, most.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub seconds: Range,
    pub calls: Range,
    #[serde(alias = "calls_left")]
    pub calls_made: Option<Range>,
    pub bytes: Range,
    pub file_seconds: Option<Range>,
}

/// Least, median and most of the runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Range {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

/// What was done with one path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileSum {
    pub path: String,
    /// Runs that used it.
    pub runs: usize,
    pub calls: u64,
    #[serde(alias = "calls_left")]
    pub calls_made: Option<u64>,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Time in calls; profiles only.
    pub seconds: Option<f64>,
    /// That of the run with most of it.
    pub seconds_max: Option<f64>,
}

impl FileSum {
    /// Adds what another run, or another process of the same run, did with it.
    fn add(&mut self, other: &FileSum) {
        self.calls = sum_of([self.calls, other.calls]);
        self.calls_made = both(self.calls_made, other.calls_made, u64::saturating_add);
        self.read_bytes = sum_of([self.read_bytes, other.read_bytes]);
        self.written_bytes = sum_of([self.written_bytes, other.written_bytes]);
        self.seconds = both(self.seconds, other.seconds, f64::add);
    }

    fn moved_bytes(&self) -> u64 {
        sum_of([self.read_bytes, self.written_bytes])
    }
}

impl Run {
    /// Of `run --summary=DIR/`.
    pub fn of_summary(file: String, record: Record) -> Run {
        let sum = |of: fn(&super::FileSummary) -> u64| data::total(record.files.iter().map(of));
        let (calls, calls_made) = (sum(|file| file.requested), Some(sum(|file| file.made)));
        let (read_bytes, written_bytes) =
            (sum(|file| file.read_bytes), sum(|file| file.written_bytes));
        let files = record.files.into_iter().map(|file| FileSum {
            path: file.path,
            calls: file.requested,
            calls_made: Some(file.made),
            read_bytes: file.read_bytes,
            written_bytes: file.written_bytes,
            ..FileSum::default()
        });
        Run {
            file,
            origin: record.origin,
            command: record.command,
            ended: record.ended,
            seconds: record.seconds,
            calls,
            calls_made,
            read_bytes,
            written_bytes,
            file_seconds: None,
            predicted_seconds: None,
            inactive: record.inactive,
            notes: record.notes,
            files: files.collect(),
        }
    }

    /// Of `profile --json DIR/`.
    pub fn of_profile(file: String, profile: Profile) -> Run {
        let regular = || profile.files.iter().filter(|file| file.kind == FileKind::File);
        let sum = |of: fn(&data::File) -> u64| data::total(regular().map(of));
        let files = regular().map(|file| FileSum {
            path: file.path.clone(),
            calls: file.calls(),
            read_bytes: file.read_bytes,
            written_bytes: file.written_bytes,
            seconds: Some(file.seconds),
            ..FileSum::default()
        });
        Run {
            file,
            calls: sum(data::File::calls),
            calls_made: None,
            read_bytes: sum(|file| file.read_bytes),
            written_bytes: sum(|file| file.written_bytes),
            files: files.collect(),
            origin: profile.origin,
            command: profile.command,
            ended: profile.ended,
            seconds: profile.seconds,
            file_seconds: Some(profile.file_seconds),
            predicted_seconds: profile.prediction.map(|prediction| prediction.seconds),
            inactive: None,
            notes: Vec::new(),
        }
    }

    fn moved_bytes(&self) -> u64 {
        sum_of([self.read_bytes, self.written_bytes])
    }
}

fn both<T>(one: Option<T>, other: Option<T>, sum: fn(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(sum(one, other)),
        (None, some) | (some, None) => some,
    }
}

/// Makes one of many; none of none.
fn merge(mut runs: Vec<Run>) -> Option<Merged> {
    runs.sort_by(|a, b| {
        let key = |run: &Run| (run.origin.rank.is_none(), run.origin.rank);
        let by_place = || a.origin.host.cmp(&b.origin.host);
        key(a).cmp(&key(b)).then_with(by_place).then(a.origin.started.total_cmp(&b.origin.started))
    });
    let slowest = (0..runs.len()).max_by(|a, b| runs[*a].seconds.total_cmp(&runs[*b].seconds))?;
    let files = files(&runs);
    Some(Merged {
        slowest,
        total: total(&runs),
        spread: spread(&runs)?,
        missing_ranks: missing(&runs),
        files,
        runs,
    })
}

fn total(runs: &[Run]) -> Total {
    let first = runs.iter().map(|run| run.origin.started).fold(f64::INFINITY, f64::min);
    let last = runs.iter().map(|run| run.origin.started + run.seconds).fold(first, f64::max);
    let none = Total { span_seconds: last - first, ..Total::default() };
    runs.iter().fold(none, |total, run| Total {
        seconds: total.seconds + run.seconds,
        calls: sum_of([total.calls, run.calls]),
        calls_made: both(total.calls_made, run.calls_made, u64::saturating_add),
        read_bytes: sum_of([total.read_bytes, run.read_bytes]),
        written_bytes: sum_of([total.written_bytes, run.written_bytes]),
        file_seconds: both(total.file_seconds, run.file_seconds, f64::add),
        ..total
    })
}

fn spread(runs: &[Run]) -> Option<Spread> {
    let range = |of: &dyn Fn(&Run) -> Option<f64>| {
        let values: Vec<f64> = runs.iter().filter_map(of).collect();
        let median = median(&values).ok()?;
        let min = values.iter().copied().fold(median, f64::min);
        let max = values.iter().copied().fold(median, f64::max);
        Some(Range { min, median, max })
    };
    Some(Spread {
        seconds: range(&|run| Some(run.seconds))?,
        calls: range(&|run| Some(run.calls as f64))?,
        calls_made: range(&|run| run.calls_made.map(|left| left as f64)),
        bytes: range(&|run| Some(run.moved_bytes() as f64))?,
        file_seconds: range(&|run| run.file_seconds),
    })
}

/// The ranks of which nothing was found, where all runs are of one job of known size.
fn missing(runs: &[Run]) -> Vec<u64> {
    let job = |run: &Run| (run.origin.job.clone(), run.origin.ranks);
    let Some(ranks) = runs[0].origin.ranks.filter(|ranks| *ranks <= RANKS_MAX) else {
        return Vec::new();
    };
    if runs.iter().any(|run| job(run) != job(&runs[0])) {
        return Vec::new();
    }
    let found: BTreeSet<u64> = runs.iter().filter_map(|run| run.origin.rank).collect();
    (0..ranks).filter(|rank| !found.contains(rank)).collect()
}

/// Larger jobs than any; a variable may say anything.
const RANKS_MAX: u64 = 1 << 20;

/// Sums for each path.
fn files(runs: &[Run]) -> Vec<FileSum> {
    let mut all: BTreeMap<&str, FileSum> = BTreeMap::new();
    for run in runs {
        let mut own: BTreeMap<&str, FileSum> = BTreeMap::new();
        for file in &run.files {
            own.entry(&file.path).or_default().add(file);
        }
        for (path, file) in own {
            let sum = all.entry(path).or_default();
            sum.add(&file);
            sum.runs += 1;
            sum.seconds_max = match (sum.seconds_max, file.seconds) {
                (Some(most), Some(seconds)) => Some(most.max(seconds)),
                (most, seconds) => most.or(seconds),
            };
        }
    }
    let named = |(path, sum): (&str, FileSum)| FileSum { path: path.to_owned(), ..sum };
    let mut files: Vec<FileSum> = all.into_iter().map(named).collect();
    sort(&mut files);
    files
}

/// Those first that matter most.
fn sort(files: &mut [FileSum]) {
    files.sort_by(|a, b| {
        let seconds = |file: &FileSum| file.seconds.unwrap_or_default();
        let calls = |file: &FileSum| (file.calls_made, file.calls);
        seconds(b).total_cmp(&seconds(a)).then_with(|| calls(b).cmp(&calls(a)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rank: Option<u64>, seconds: f64, files: &[(&str, u64)]) -> Run {
        let file = |(path, calls): &(&str, u64)| FileSum {
            path: (*path).to_owned(),
            calls: *calls,
            calls_made: Some(calls / 10),
            read_bytes: calls * 100,
            ..FileSum::default()
        };
        let calls = files.iter().map(|(_, calls)| calls).sum();
        Run {
            origin: Origin { rank, ranks: Some(4), started: 100.0, ..Origin::default() },
            seconds,
            calls,
            calls_made: Some(calls / 10),
            read_bytes: calls * 100,
            files: files.iter().map(file).collect(),
            ..Run::default()
        }
    }

    #[test]
    fn nothing_is_lost_or_counted_twice() {
        let merged = merge(vec![
            run(Some(3), 2.0, &[("a", 100), ("b", 10), ("b", 20)]),
            run(Some(0), 1.0, &[("a", 300)]),
            run(Some(1), 1.5, &[("c", 1000)]),
        ])
        .unwrap();
        let ranks: Vec<_> = merged.runs.iter().map(|run| run.origin.rank).collect();
        assert_eq!(ranks, [Some(0), Some(1), Some(3)]);
        assert_eq!((merged.slowest, merged.missing_ranks), (2, vec![2]));
        let total = &merged.total;
        assert_eq!((total.calls, total.calls_made, total.read_bytes), (1430, Some(143), 143_000));
        assert_eq!((total.seconds, total.span_seconds), (4.5, 2.0));
        assert_eq!(merged.spread.seconds, Range { min: 1.0, median: 1.5, max: 2.0 });
        assert_eq!(merged.spread.calls, Range { min: 130.0, median: 300.0, max: 1000.0 });
        assert_eq!(merged.spread.file_seconds, None);
        let files: Vec<_> =
            merged.files.iter().map(|file| (&*file.path, file.runs, file.calls)).collect();
        assert_eq!(files, [("c", 1, 1000), ("a", 2, 400), ("b", 1, 30)]);
    }

    #[test]
    fn ranks_are_missed_only_in_one_job() {
        let check = |change: fn(&mut Run), missing: &[u64]| {
            let mut runs = vec![run(Some(0), 1.0, &[]), run(Some(2), 1.0, &[])];
            change(&mut runs[1]);
            assert_eq!(merge(runs).unwrap().missing_ranks, missing);
        };
        check(|_| (), &[1, 3]);
        check(|run| run.origin.job = Some("another".to_owned()), &[]);
        check(|run| run.origin.ranks = None, &[]);
        check(|run| run.origin.rank = Some(1 << 40), &[1, 2, 3]);
        let huge = |mut run: Run| {
            run.origin.ranks = Some(u64::MAX);
            run
        };
        assert!(merge(vec![huge(run(Some(0), 1.0, &[]))]).unwrap().missing_ranks.is_empty());
        assert_eq!(merge(Vec::new()), None);
    }
}

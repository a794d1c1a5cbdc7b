//! What many runs did, for a terminal: totals, the slowest, how far they lie apart, files.

use super::{FileSum, Folder, Merged, Range, Run, Skipped, both, sort, sum_of};
use crate::numbers::{bytes, count, files as number_of_files, ratio, seconds};
use crate::text;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Add;

/// Runs and files that are shown, and notes and skipped files; `--json` has all.
const RUNS_SHOWN: usize = 8;
const FILES_SHOWN: usize = 12;
const FILES_SHOWN_MIN: usize = 3;
/// A file with a smaller part of the whole is one of the rest.
const SHARE_SHOWN: f64 = 0.01;
const NOTES_SHOWN: usize = 6;

/// The whole text.
pub fn of(folder: &Folder) -> String {
    let mut text = String::new();
    let parts = folder.summaries.iter().chain(&folder.profiles);
    for (place, merged) in parts.enumerate() {
        if place > 0 {
            text.push('\n');
        }
        let _ = writeln!(text, "{}", sentence(merged));
        about(merged, &mut text);
        text.push_str(&spread(merged));
        text.push_str(&runs(merged));
        text.push_str(&files(&merged.files));
    }
    skipped(&folder.skipped, &mut text);
    text
}

/// `1 run`, `2 runs`.
fn runs_in_words(number: usize) -> String {
    if number == 1 { "1 run".to_owned() } else { format!("{} runs", count(number as u64)) }
}

fn sentence(merged: &Merged) -> String {
    let programs: BTreeSet<_> = merged.runs.iter().filter_map(|run| run.command.first()).collect();
    let what = match programs.first() {
        Some(program) if programs.len() == 1 => (*program).clone(),
        _ => format!("{} programs", programs.len()),
    };
    let hosts: BTreeSet<_> = merged.runs.iter().map(|run| &run.origin.host).collect();
    let place = match hosts.first() {
        Some(host) if hosts.len() == 1 => (*host).clone(),
        _ => format!("{} hosts", hosts.len()),
    };
    let total = &merged.total;
    let left = match (total.calls_made, total.file_seconds) {
        (Some(left), _) => format!(" requested, {} made", count(left)),
        (None, Some(time)) => format!(", which took {}", seconds(time)),
        (None, None) => String::new(),
    };
    let runs = runs_in_words(merged.runs.len());
    format!("{runs} of {what} on {place}: {} calls on files{left}", count(total.calls))
}

/// The slowest, and what is worth knowing of single runs.
fn about(merged: &Merged, text: &mut String) {
    let slowest = &merged.runs[merged.slowest];
    if merged.runs.len() > 1 {
        let times = slowest.seconds / merged.spread.seconds.median.max(1e-9);
        let _ = writeln!(
            text,
            "slowest   {}: {}, {} times the median",
            slowest.origin.name(),
            seconds(slowest.seconds),
            ratio(times)
        );
    }
    let predicted: Option<Vec<f64>> = merged.runs.iter().map(|run| run.predicted_seconds).collect();
    if let Some(predicted) = predicted {
        let last = predicted.into_iter().fold(0.0, f64::max);
        let _ = writeln!(text, "estimate  with sweetspot run the slowest takes {}", seconds(last));
    }
    if !merged.missing_ranks.is_empty() {
        let shown: Vec<_> =
            merged.missing_ranks.iter().take(NOTES_SHOWN).map(u64::to_string).collect();
        let more = merged.missing_ranks.len() - shown.len();
        let more =
            if more > 0 { format!(" and {} more", count(more as u64)) } else { String::new() };
        let _ = writeln!(text, "note      nothing was found of rank {}{more}", shown.join(", "));
    }
    let jobs: BTreeSet<_> = merged.runs.iter().filter_map(|run| run.origin.job.as_ref()).collect();
    if jobs.len() > 1 {
        let number = jobs.len();
        let _ =
            writeln!(text, "note      these are runs of {number} jobs: give each its own folder");
    }
    for (note, names) in notes(&merged.runs).into_iter().take(NOTES_SHOWN) {
        let more = match names.len() - 1 {
            0 => String::new(),
            more => format!(" and {} more", runs_in_words(more)),
        };
        let _ = writeln!(text, "note      {note}: {}{more}", names[0]);
    }
}

/// What is to be said of single runs, those of most runs first, with the names of the runs.
fn notes(runs: &[Run]) -> Vec<(String, Vec<String>)> {
    let mut notes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for run in runs {
        let mut note = |text: String| notes.entry(text).or_default().push(run.origin.name());
        if run.ended != "exit status 0" {
            note(format!("ended with {}", run.ended));
        }
        if let Some(why) = &run.inactive {
            note(format!("not buffered ({why})"));
        }
        for text in &run.notes {
            note(text.clone());
        }
    }
    let mut notes: Vec<_> = notes.into_iter().collect();
    notes.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    notes
}

/// A table of words, and of numbers from the second column on.
fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    format!("\n{}\n", text::table(header, rows, 1..header.len()))
}

fn spread(merged: &Merged) -> String {
    let (total, spread) = (&merged.total, &merged.spread);
    let number = |value: f64| count(value.round() as u64);
    let size = |value: f64| bytes(value.round() as u64);
    let row = |name: &str, range: &Range, all: String, say: &dyn Fn(f64) -> String| {
        vec![name.to_owned(), say(range.min), say(range.median), say(range.max), all]
    };
    let mut rows = vec![
        row("time", &spread.seconds, seconds(total.seconds), &seconds),
        row("calls", &spread.calls, count(total.calls), &number),
    ];
    if let (Some(range), Some(all)) = (&spread.calls_made, total.calls_made) {
        rows.push(row("made", range, count(all), &number));
    }
    if let (Some(range), Some(all)) = (&spread.file_seconds, total.file_seconds) {
        rows.push(row("in calls", range, seconds(all), &seconds));
    }
    rows.push(row(
        "bytes",
        &spread.bytes,
        bytes(sum_of([total.read_bytes, total.written_bytes])),
        &size,
    ));
    table(&["of a run", "least", "median", "most", "of all"], rows)
}

fn runs(merged: &Merged) -> String {
    let mut slowest: Vec<&Run> = merged.runs.iter().collect();
    slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let row = |run: &&Run| {
        vec![
            run.origin.name(),
            seconds(run.seconds),
            count(run.calls),
            run.calls_made.map(count).or(run.file_seconds.map(seconds)).unwrap_or_default(),
            bytes(run.moved_bytes()),
        ]
    };
    let rows = slowest.iter().take(RUNS_SHOWN).map(row).collect();
    let mut text = table(&["run", "time", "calls", of_calls(merged), "bytes"], rows);
    if slowest.len() > RUNS_SHOWN {
        let more = runs_in_words(slowest.len() - RUNS_SHOWN);
        let _ = writeln!(text, " and {more} more, which were faster (all with --json)");
    }
    text
}

/// What is told of calls: what was left of them, or how long they took.
fn of_calls(merged: &Merged) -> &'static str {
    if merged.total.calls_made.is_some() { "made" } else { "in calls" }
}

fn files(all: &[FileSum]) -> String {
    let folded = fold(all);
    if folded.is_empty() {
        return String::new();
    }
    let row = |(number, file): &(u64, FileSum)| {
        vec![
            if *number > 1 { format!("{} ({number} files)", file.path) } else { file.path.clone() },
            count(file.runs as u64),
            count(file.calls),
            file.calls_made.map(count).or(file.seconds.map(seconds)).unwrap_or_default(),
            bytes(file.moved_bytes()),
        ]
    };
    let shown = FILES_SHOWN.min(matter(&folded).max(FILES_SHOWN_MIN));
    let rows = folded.iter().take(shown).map(row).collect();
    let is_profile = all.iter().any(|file| file.seconds.is_some());
    let mut text = table(
        &["file", "runs", "calls", if is_profile { "in calls" } else { "made" }, "bytes"],
        rows,
    );
    let rest = &folded[folded.len().min(shown)..];
    if !rest.is_empty() {
        let number = number_of_files(rest.iter().map(|(number, _)| number).sum());
        let calls = count(sum_of(rest.iter().map(|(_, file)| file.calls)));
        let _ = writeln!(text, " and {number} more: {calls} calls (all with --json)");
    }
    text
}

/// How many files have a part of the time in calls, or of the calls that were left, that counts.
fn matter(folded: &[(u64, FileSum)]) -> usize {
    let weight = |file: &FileSum| {
        file.seconds.or(file.calls_made.map(|left| left as f64)).unwrap_or(file.calls as f64)
    };
    let all: f64 = folded.iter().map(|(_, file)| weight(file)).sum();
    folded.iter().filter(|(_, file)| weight(file) >= all * SHARE_SHOWN).count()
}

/// Files whose paths differ only in numbers, as those of ranks do, together: `out.*.dat`; and how many
/// each line stands for.
fn fold(all: &[FileSum]) -> Vec<(u64, FileSum)> {
    let mut folded: BTreeMap<String, Vec<&FileSum>> = BTreeMap::new();
    for file in all {
        folded.entry(without_numbers(&file.path)).or_default().push(file);
    }
    let mut numbers = BTreeMap::new();
    let mut files = Vec::new();
    for (pattern, members) in folded {
        let path = if members.len() > 1 { pattern } else { members[0].path.clone() };
        let mut one = FileSum { path, ..FileSum::default() };
        for member in &members {
            one.add(member);
            // A run may have used several of them: as many runs as that at most.
            one.runs += member.runs;
            one.seconds_max = both(one.seconds_max, member.seconds_max, f64::add);
        }
        numbers.insert(one.path.clone(), members.len() as u64);
        files.push(one);
    }
    sort(&mut files);
    files.into_iter().map(|file| (numbers[&file.path], file)).collect()
}

fn without_numbers(path: &str) -> String {
    let mut text = String::new();
    for letter in path.chars() {
        match letter.is_ascii_digit() {
            true if text.ends_with('*') => {}
            true => text.push('*'),
            false => text.push(letter),
        }
    }
    text
}

fn skipped(skipped: &[Skipped], text: &mut String) {
    if !skipped.is_empty() {
        text.push('\n');
    }
    for file in skipped.iter().take(NOTES_SHOWN) {
        let _ = writeln!(text, "skipped   {}: {}", file.file, file.why);
    }
    if skipped.len() > NOTES_SHOWN {
        let more = number_of_files((skipped.len() - NOTES_SHOWN) as u64);
        let _ = writeln!(text, "skipped   and {more} more (all with --json)");
    }
}

#[cfg(test)]
mod tests {
    use super::super::merge;
    use super::*;
    use crate::origin::Origin;

    #[test]
    fn files_of_ranks_are_one_line() {
        let file = |path: &str, calls| FileSum {
            path: path.to_owned(),
            runs: 1,
            calls,
            calls_made: Some(1),
            ..FileSum::default()
        };
        let all = [
            file("/s/out.0001.dat", 10),
            file("/s/out.0002.dat", 20),
            file("/s/in7", 5),
            file("/s/inx", 500),
        ];
        let folded: Vec<_> =
            fold(&all).into_iter().map(|(n, file)| (n, file.path, file.runs, file.calls)).collect();
        let expected = [
            (2, "/s/out.*.dat".to_owned(), 2, 30),
            (1, "/s/inx".to_owned(), 1, 500),
            (1, "/s/in7".to_owned(), 1, 5),
        ];
        assert_eq!(folded, expected);
    }

    #[test]
    fn long_lists_are_folded_and_say_so() {
        let run = |rank: u64| Run {
            origin: Origin { host: "node".to_owned(), rank: Some(rank), ..Origin::default() },
            command: vec!["./rank".to_owned()],
            ended: if rank == 3 { "signal 9" } else { "exit status 0" }.to_owned(),
            seconds: rank as f64,
            inactive: (rank.is_multiple_of(2)).then(|| "why".to_owned()),
            files: ('a'..='t')
                .map(|name| FileSum { path: name.to_string(), calls: 2, ..FileSum::default() })
                .collect(),
            ..Run::default()
        };
        let skipped = vec![Skipped { file: "f".to_owned(), why: "x".to_owned() }; 9];
        let summaries = merge((0..20).map(run).collect());
        let text = of(&Folder { summaries, skipped, ..Folder::default() });
        for part in [
            "20 runs of ./rank on node: 0 calls on files\n",
            "slowest   rank 19 on node, pid 0: 19.0 s, 2.0 times the median\n",
            "note      not buffered (why): rank 0 on node, pid 0 and 9 runs more\n",
            "note      ended with signal 9: rank 3 on node, pid 0\n",
            "and 12 runs more, which were faster (all with --json)\n",
            "and 8 files more: 320 calls (all with --json)\n",
            "skipped   and 3 files more (all with --json)\n",
        ] {
            assert!(text.contains(part), "{part:?} is missing in:\n{text}");
        }
    }
}

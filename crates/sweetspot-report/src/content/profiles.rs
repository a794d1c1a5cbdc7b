//! What is said of a profile, and of two: before and after.

use crate::chart::{Axis, Chart, Drawn, Plot, Row, Rows, Said, Scale, Series, Unit};
use crate::content::{Block, Figure, Section, Table, figure};
use crate::data::NamedProfile;
use crate::numbers::{self};
use crate::profile::compare;
use crate::profile::data::{File, FileKind, MOMENTS_MIN, Moment, Prediction, Profile, Size};
use crate::profile::sentence::alone;
use crate::shell::words as shell_words;
use std::collections::BTreeMap;

pub(super) fn profile(named: &NamedProfile) -> Section {
    let NamedProfile { file, profile } = named;
    let mut blocks = vec![Block::Answer(profile.sentence.clone())];
    blocks.extend(profile.prediction.map(|predicted| figure(expected(alone(profile), predicted))));
    let mut files: Vec<&File> = profile.files.iter().collect();
    files.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    blocks.push(Block::Table(by_time(profile, &files)));
    blocks.extend(time_chart(&files).map(figure));
    for (what, of) in [
        ("Reads", (|file: &File| file.read_sizes.clone()) as fn(&File) -> Vec<Size>),
        ("Writes", |file: &File| file.write_sizes.clone()),
    ] {
        blocks.extend(sizes(what, profile, of).map(figure));
    }
    blocks.extend(timeline(profile).into_iter().map(figure));
    let kind = format!("sweetspot profile, from {file}");
    Section { heading: shell_words(&profile.command), kind, blocks }
}

/// As it is, and as it should be under `run`.
fn expected(now: f64, predicted: Prediction) -> Figure {
    let Prediction { ratio, ratio_low, ratio_high, .. } = predicted;
    let seconds = now / ratio;
    let interval = (now / ratio_high, now / ratio_low);
    let (low, high) = (numbers::axis_time(interval.0), numbers::axis_time(interval.1));
    let title = "Time as it is, and as it should be";
    let row = |name: &str, bar: f64, interval: Option<(f64, f64)>| Row {
        name: name.to_owned(),
        bar: Some(bar),
        interval,
        text: numbers::axis_time(bar),
        ..Row::default()
    };
    let rows = vec![
        row("as it is", now, None),
        row("with sweetspot run, predicted", seconds, Some(interval)),
    ];
    let axis = Axis { name: "time of a run".to_owned(), scale: Scale::Linear, unit: Unit::Seconds };
    let text = |row: &Row| vec![row.name.clone(), row.text.clone()];
    let mut table: Vec<Vec<String>> = rows.iter().map(text).collect();
    table[0].push(String::new());
    table[1].push(format!("{low} to {high}"));
    let description = format!(
        "{} as it is; {} with sweetspot run, {low} to {high}.",
        numbers::axis_time(now),
        numbers::axis_time(seconds)
    );
    let said = Said { title: title.to_owned(), description };
    Figure {
        chart: Chart { said, drawn: Drawn::Rows(Rows { axis, rows, at: None }) },
        caption: "One run, without what observing it and a busy machine took. Predicted from its \
                  calls and what calls cost here; the line should hold 9 of 10."
            .to_owned(),
        table: Table {
            caption: title.to_owned(),
            header: ["what", "time", "interval"].map(str::to_owned).to_vec(),
            rows: table,
            words: 1,
            marked: None,
        },
    }
}

fn by_time(profile: &Profile, files: &[&File]) -> Table {
    let row = |file: &&File| {
        vec![
            file.path.clone(),
            file.verdict.text().to_owned(),
            numbers::seconds(file.seconds),
            numbers::count(file.calls()),
            numbers::bytes(file.moved_bytes()),
            numbers::seconds(file.saves_seconds),
        ]
    };
    let header =
        ["file", "buffering", "in calls", "calls", "bytes", "would save"].map(str::to_owned);
    let more = files.len().saturating_sub(FILES_MAX);
    let more = if more > 0 { format!(" {more} files took less.") } else { String::new() };
    Table {
        caption: format!(
            "Files by the time inside their reads, writes and seeks; one run of {}, {} of it in \
             files.{more}",
            numbers::seconds(profile.seconds),
            numbers::seconds(profile.file_seconds)
        ),
        header: header.to_vec(),
        rows: files.iter().take(FILES_MAX).map(row).collect(),
        words: 2,
        marked: None,
    }
}

fn time_chart(files: &[&File]) -> Option<Figure> {
    let shown = || files.iter().take(FILES_MAX).filter(|file| file.seconds > 0.0);
    let row = |file: &&File| Row {
        name: file.path.clone(),
        bar: Some(file.seconds),
        text: numbers::seconds(file.seconds),
        ..Row::default()
    };
    bars("Files by time", "time in calls", Unit::Seconds, shown().map(row).collect())
}

/// Calls by size, over all regular files.
fn sizes(what: &str, profile: &Profile, of: fn(&File) -> Vec<Size>) -> Option<Figure> {
    let mut sums: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for file in profile.files.iter().filter(|file| file.kind == FileKind::File) {
        for size in of(file) {
            let sum = sums.entry((size.bytes_min, size.bytes_max)).or_default();
            *sum = sum.saturating_add(size.calls);
        }
    }
    let row = |(&(from, to), &calls): (&(u64, u64), &u64)| Row {
        name: match from == to {
            true => numbers::axis_size(from as f64),
            false => format!("{from} to {to} bytes"),
        },
        bar: Some(calls as f64),
        text: numbers::count(calls),
        ..Row::default()
    };
    let rows = sums.iter().filter(|(_, calls)| **calls > 0).map(row).collect();
    bars(&format!("{what} by size"), "calls", Unit::Count, rows)
}

/// Calls and bytes a second in the course of a run; none of one that was looked at too seldom.
fn timeline(profile: &Profile) -> Vec<Figure> {
    if profile.timeline.len() < MOMENTS_MIN {
        return Vec::new();
    }
    let rates = |of: fn(&Moment) -> u64| -> Vec<(f64, f64)> {
        let rate = |two: &[Moment]| {
            let seconds = two[1].seconds - two[0].seconds;
            let done = of(&two[1]).saturating_sub(of(&two[0]));
            (two[0].seconds.midpoint(two[1].seconds), done as f64 / seconds.max(1e-9))
        };
        profile.timeline.windows(2).map(rate).collect()
    };
    let calls = over_time("Calls", Unit::Count, Scale::Linear, rates(|moment| moment.calls));
    let bytes = over_time("Bytes", Unit::Bytes, Scale::Sizes, rates(|moment| moment.bytes));
    vec![calls, bytes]
}

pub(super) fn before_and_after(before: &NamedProfile, after: &NamedProfile) -> Section {
    let (old, new) = (&before.profile, &after.profile);
    let (old_sums, new_sums) = (compare::sums(old), compare::sums(new));
    let sum = |sums: &BTreeMap<&str, compare::Sum>| {
        sums.values().fold(compare::Sum::default(), |total, sum| compare::Sum {
            calls: total.calls.saturating_add(sum.calls),
            bytes: total.bytes.saturating_add(sum.bytes),
            seconds: total.seconds + sum.seconds,
        })
    };
    let mut paths: Vec<&str> = old_sums.keys().chain(new_sums.keys()).copied().collect();
    paths.sort_unstable();
    paths.dedup();
    let of = |sums: &BTreeMap<&str, compare::Sum>, path: &str| {
        sums.get(path).copied().unwrap_or_default()
    };
    let change = |path: &&str| (of(&old_sums, path).seconds - of(&new_sums, path).seconds).abs();
    paths.sort_by(|a, b| change(b).total_cmp(&change(a)));
    let line = |name: &str, was: compare::Sum, is: compare::Sum| {
        vec![
            name.to_owned(),
            numbers::count(was.calls),
            numbers::count(is.calls),
            numbers::bytes(was.bytes),
            numbers::bytes(is.bytes),
            numbers::seconds(was.seconds),
            numbers::seconds(is.seconds),
        ]
    };
    let mut rows = vec![line("all files", sum(&old_sums), sum(&new_sums))];
    let shown = paths.iter().take(FILES_MAX);
    rows.extend(shown.map(|path| line(path, of(&old_sums, path), of(&new_sums, path))));
    let header =
        ["file", "calls before", "after", "bytes before", "after", "in calls before", "after"];
    let mut blocks = vec![Block::Answer(format!(
        "{} before, {} after: {}.",
        numbers::seconds(old.seconds),
        numbers::seconds(new.seconds),
        compare::faster(old.seconds, new.seconds)
    ))];
    if old.command != new.command {
        blocks.push(Block::Text("Note: these are two different commands.".to_owned()));
    }
    blocks.push(Block::Table(Table {
        caption: "Before and after, those files first that changed most; one run each.".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows,
        words: 1,
        marked: Some(0),
    }));
    let heading = format!("{} and {}", before.file, after.file);
    Section { heading, kind: "Before and after".to_owned(), blocks }
}

/// Rows of a table about files; of more, those that took longest.
const FILES_MAX: usize = 20;

/// A figure of bars; none where there is nothing to see.
pub(super) fn bars(title: &str, axis: &str, unit: Unit, rows: Vec<Row>) -> Option<Figure> {
    let first = rows.first()?;
    let said = Said {
        title: title.to_owned(),
        description: format!("{} bars; the first: {}, {}.", rows.len(), first.name, first.text),
    };
    let table = Table {
        caption: title.to_owned(),
        header: vec!["what".to_owned(), axis.to_owned()],
        rows: rows.iter().map(|row| vec![row.name.clone(), row.text.clone()]).collect(),
        words: 1,
        marked: None,
    };
    let axis = Axis { name: axis.to_owned(), scale: Scale::Linear, unit };
    let drawn = Drawn::Rows(Rows { axis, rows, at: None });
    Some(Figure { chart: Chart { said, drawn }, caption: "One run.".to_owned(), table })
}

fn over_time(what: &str, unit: Unit, scale: Scale, line: Vec<(f64, f64)>) -> Figure {
    let title = format!("{what} a second during the run");
    let name = format!("{} a second", what.to_lowercase());
    let most = line.iter().map(|point| point.1).fold(0.0, f64::max);
    let rows =
        line.iter().map(|(at, rate)| vec![numbers::axis_time(*at), unit.text(*rate)]).collect();
    let description = format!("At most {}.", unit.text(most));
    let plot = Plot {
        x: Axis { name: "since the start".to_owned(), scale: Scale::Linear, unit: Unit::Seconds },
        y: Axis { name: name.clone(), scale, unit },
        series: vec![Series { name: name.clone(), line, ..Series::default() }],
        levels: Vec::new(),
        mark: None,
        zone: None,
    };
    Figure {
        chart: Chart { said: Said { title: title.clone(), description }, drawn: Drawn::Plot(plot) },
        caption: "One run, looked at while it ran; over all its processes.".to_owned(),
        table: Table {
            caption: title,
            header: vec!["since the start".to_owned(), name],
            rows,
            words: 0,
            marked: None,
        },
    }
}

//! The tables of docs/measured.md, the short one in README.md, and that of docs/reach.md (`languages`), from
//! records that `sweetspot bench` made of the plans in `benchmarks/` and `sweetspot report --json` wrote: no figure
//! is typed by hand.
//!
//! `UPDATE_README=measurements/FOLDER cargo test -p xtask pages_say` writes the first two from the record in that
//! folder, and `UPDATE_REACH` the third; without the variables the test fails where a page says something else than
//! its record.

mod languages;

use super::report::{self, Place, fact, file_system, named, pairs, session};
use crate::project::root;
use serde_json::Value;
use std::{fmt::Write, fs};
use sweetspot_lab::{
    paired::{CONFIDENCE_FIXED, Effect},
    plan::Plan,
};
use sweetspot_report::numbers;

/// What the pages call a job, in the order of their tables.
struct Row {
    /// The cells of the plan: their name without how they are started.
    cells: &'static str,
    words: &'static str,
    /// Another way of the job that it is compared with as well, and what that is called.
    also: Option<(&'static str, &'static str)>,
    place: Place,
    is_in_readme: bool,
}

const fn row(cells: &'static str, words: &'static str) -> Row {
    Row { cells, words, also: None, place: Place::Disk, is_in_readme: false }
}

impl Row {
    const fn beside(self, way: &'static str, words: &'static str) -> Row {
        Row { also: Some((way, words)), ..self }
    }

    const fn on_fuse(self) -> Row {
        Row { place: Place::Fuse, ..self }
    }

    const fn in_readme(self) -> Row {
        Row { is_in_readme: true, ..self }
    }
}

const BY_HAND: &str = "one by hand in C with large buffers";

/// What gains.
const GAINS: [Row; 16] = [
    row("cobol, records 1000000, cache warm", "GnuCOBOL copies 1,000,000 records of 200 bytes")
        .beside("by-hand", BY_HAND)
        .in_readme(),
    row("cobol, records 5000000, cache warm", "the same with 5,000,000 records")
        .beside("by-hand", BY_HAND),
    row("cobol, records 1000000, cache cold", "the same with 1,000,000, cold cache"),
    row("cobol", "the same with 100,000, on a FUSE mount (bindfs)").on_fuse().in_readme(),
    row(
        "c-copy, records 1000000",
        "a loop in C that copies 1,000,000 records by `read` and `write`",
    )
    .beside("by-hand", BY_HAND),
    row("read, bytes 8", "`read` of 100 MB, 8 bytes at a time").beside("fread", "`fread`"),
    row("read, bytes 1024", "`read` of 500 MB, 1 KiB at a time").beside("fread", "`fread`"),
    row("read, bytes 8192", "`read` of 1 GB, 8 KiB at a time").beside("fread", "`fread`"),
    row("read, bytes 65536", "`read` of 2 GB, 64 KiB at a time").beside("fread", "`fread`"),
    row("java", "Java `DataInputStream.readLine`, unbuffered").in_readme(),
    row("rust-write", "Rust `File::write_all`, a line at a time"),
    row("rust-println", "Rust `println!` to a file that it inherits").in_readme(),
    row("python", "Python `buffering=0` copy").in_readme(),
    row("dd-200", "`dd bs=200`").in_readme(),
    row("fortran", "gfortran, formatted integers, a flush after each record"),
    row("fortran-real", "the same with a real number in each record"),
];

/// What does not.
const THE_REST: [Row; 17] = [
    row("start", "`/bin/true`, once: what a start costs"),
    row("start-loop", "a shell loop of 1,000 `/bin/true`")
        .beside("empty-library", "one with an empty library preloaded"),
    row("random-pread", "500,000 random `pread`s of 4 KiB"),
    row("random-seek", "500,000 random `lseek` and `read` of 4 KiB"),
    row("small-files-read", "10,000 files of 1,000 bytes, read 20 times"),
    row("small-files-write", "10,000 files of 1,000 bytes, written"),
    row("tar-small-blocks", "`tar -b1` of 10,000 files of 1,000 bytes"),
    row("shell-rows", "`printf >&4` in bash, once for each of 20,000 lines"),
    row("git-status", "`git status`, 40 times").in_readme(),
    row("gcc", "gcc, ten times"),
    row("sqlite-one-transaction", "sqlite3, 500,000 rows in one transaction"),
    row("sqlite-transactions", "sqlite3, 500 transactions"),
    row("cp", "`cp` of 256 MiB"),
    row("dd-1m", "`dd bs=1M` of 256 MiB").in_readme(),
    row("cmp", "`cmp` of two files of 100 MB"),
    row("wc", "`wc -l` of 20,000,000 lines of 14 bytes"),
    row("stdio-copy", "a C program with `fgetc` and `fputs`"),
];

/// What `sweetspot work` does as well.
const WORK: [Row; 3] = [
    row("cp", "`cp` of 256 MiB; `work copy`"),
    row("cmp", "`cmp` of two files of 100 MB; `work compare`"),
    row("wc", "`wc -l` of 20,000,000 lines of 14 bytes; `work lines`"),
];

/// The tables of docs/measured.md.
fn whole(record: &Value, folder: &str) -> String {
    format!(
        "{}{}\nWhat buffering cannot help, in the same session:\n\n{}\nWhat the library does in the place \
         of a program, in the same session:\n\n{}",
        origin(record, folder),
        table(record, "run", GAINS.iter()),
        table(record, "run", THE_REST.iter()),
        table(record, "work", WORK.iter()),
    )
}

/// The table of README.
fn short(record: &Value, folder: &str) -> String {
    let rows = GAINS.iter().chain(&THE_REST).filter(|row| row.is_in_readme);
    format!("{}{}", origin(record, folder), table(record, "run", rows))
}

fn of(record: &Value, place: Place) -> &Value {
    session(record, place).unwrap_or_else(|error| panic!("{error}"))
}

/// Where and how a record was measured.
fn origin(record: &Value, folder: &str) -> String {
    let session = of(record, Place::Disk);
    format!(
        "One session on {}, warm cache;\nmedians, and the \
         ratio from {} random rounds with its 95 % interval; outputs equal in every round\n\
         (`{folder}`).\n\n",
        machine(session),
        session["rounds"],
    )
}

/// The machine of a session, in words.
fn machine(session: &Value) -> String {
    let (processor, number) = fact(session, "processor").rsplit_once(", ").unwrap_or_default();
    let machine = match number.contains("virtual machine") {
        true => "a virtual machine",
        false => "a machine",
    };
    let kernel: Vec<&str> = fact(session, "kernel").split('.').take(2).collect();
    let cores = number.split(' ').next().unwrap_or_default();
    let (kernel, disk) = (kernel.join("."), file_system(session));
    format!("{machine} with {cores} cores ({processor}), Linux {kernel}, {disk}")
}

/// Programs as they are, against another way of their jobs.
fn table<'a>(record: &Value, way: &str, rows: impl Iterator<Item = &'a Row>) -> String {
    let (program, other) = match way {
        "run" => ("program, unchanged", "under `run`"),
        _ => ("job", "`sweetspot work`"),
    };
    let mut text = format!("| {program} | plain | {other} | ratio |\n|---|---|---|---|\n");
    for row in rows {
        let session = of(record, row.place);
        let cell = |way: &str| format!("{}, how {way}", row.cells);
        let (plain, other) = (cell("without"), cell(way));
        let median = |cell| median(session, cell);
        let ratio = |reference: &str| effect(session, reference, &other);
        // Writing to a String cannot fail.
        let _ = write!(text, "| {} | {} | {} | ", row.words, median(&plain), median(&other));
        text.push_str(&ratio(&plain));
        if let Some((also, words)) = row.also {
            let _ = write!(text, "; {} of {words}", ratio(&cell(also)));
        }
        text.push_str(" |\n");
    }
    text
}

/// The median of a cell's times.
fn median(session: &Value, cell: &str) -> String {
    let median = named(&session["cells"], "name", cell)["median"].as_f64();
    time(median.unwrap_or_else(|| panic!("'{cell}' was not measured")))
}

/// How many times as fast one cell is as another, over the rounds in which both ran.
fn effect(session: &Value, reference: &str, candidate: &str) -> String {
    let figure = |run: &Value| run["figure"].as_f64();
    let (reference, candidate) = pairs(session, reference, candidate, figure);
    let margin = session["margin"].as_f64().unwrap_or_default();
    let effect = Effect::of(&reference, &candidate, CONFIDENCE_FIXED, margin);
    let effect = effect.expect("figures of rounds that both ran in");
    let interval = effect.speedup_interval();
    speed(effect.speedup(), interval.map(|interval| (interval.low, interval.high)))
}

/// `5.3x (3.9 to 7.2)`.
fn speed(estimate: f64, interval: Option<(f64, f64)>) -> String {
    let value = numbers::ratio(estimate);
    match interval {
        None => format!("{value}x"),
        Some((low, high)) => {
            format!("{value}x ({} to {})", numbers::ratio(low), numbers::ratio(high))
        }
    }
}

/// Three digits that count, in the unit that suits.
fn time(seconds: f64) -> String {
    let units = [(1.0, "s", 0.0995), (1e-3, "ms", 0.9995), (1e-6, "us", 0.9995)];
    let found = units.into_iter().find(|(unit, _, least)| seconds >= unit * least);
    let (unit, name, _) = found.unwrap_or((1e-9, "ns", 0.0));
    format!("{} {name}", numbers::three_digits(seconds / unit))
}

/// A plan of `benchmarks/`.
fn plan(name: &str, scale: Option<&str>) -> Plan {
    let file = root().join("benchmarks").join(name);
    Plan::read(&fs::read_to_string(file).unwrap(), scale).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::marked;
    use serde_json::json;

    #[test]
    fn pages_say_what_their_record_says() {
        type Tables = fn(&Value, &str) -> String;
        const PAGES: [(&str, &str, &str, Tables); 3] = [
            ("docs/measured.md", "measured", "UPDATE_README", whole),
            ("README.md", "measured", "UPDATE_README", short),
            ("docs/reach.md", "languages", "UPDATE_REACH", languages::table),
        ];
        for (name, mark, variable, tables) in PAGES {
            let update = std::env::var(variable).ok();
            let path = root().join(name);
            let page = fs::read_to_string(&path).unwrap();
            let (before, said, after) = marked(&page, mark).expect("the page has its marks");
            let named = || said.split_once("`measurements/")?.1.split_once('`');
            let folder = update.clone().unwrap_or_else(|| {
                let (folder, _) = named().expect("the page names its record");
                format!("measurements/{folder}")
            });
            let record = report::read(&root().join(&folder)).unwrap();
            let unfinished =
                report::list(&record["sessions"]).iter().find(|of| of["finished"] != true);
            assert!(unfinished.is_none(), "{folder}: a session has not come to its end");
            let measured = tables(&record, &folder);
            if update.is_some() {
                fs::write(&path, format!("{before}{measured}{after}")).unwrap();
            } else {
                assert!(
                    said == measured,
                    "{variable}={folder} cargo test -p xtask pages_say; {name} should say:\n{measured}"
                );
            }
        }
    }

    #[test]
    fn readme_is_short() {
        let lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
        assert!(lines <= 150, "{lines} lines: what README need not say belongs into docs/");
    }

    #[test]
    fn every_source_is_used() {
        let folder = root().join("benchmarks");
        let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        let (plans, sources): (Vec<String>, Vec<String>) =
            names.map(|name| name.into_string().unwrap()).partition(|name| name.ends_with(".toml"));
        let read = |name: &String| fs::read_to_string(folder.join(name)).unwrap();
        let plans: String = plans.iter().map(read).collect();
        for name in sources {
            assert!(
                plans.contains(&format!("{{plan}}/{name}\"")),
                "nothing uses benchmarks/{name}"
            );
        }
    }

    fn called(plan: &Plan) -> Vec<String> {
        (0..plan.cells.len()).map(|cell| plan.called(cell)).collect()
    }

    /// A record in which each cell ran so often; the times are those of `seconds`.
    fn record(rounds: u64, seconds: impl Fn(&str, u64) -> f64) -> Value {
        let session = |names: &[String], file_system: &str| {
            let run = |round: u64, cell: usize| {
                let figure = seconds(&names[cell], round);
                json!({ "round": round, "cell": cell, "counts": round > 0, "figure": figure })
            };
            let runs = |round: u64| (0..names.len()).map(move |cell| (round, cell));
            let runs: Vec<Value> =
                (0..=rounds).flat_map(runs).map(|(round, cell)| run(round, cell)).collect();
            let cell = |name: &String| json!({ "name": name, "median": seconds(name, 1) });
            json!({
                "rounds": rounds,
                "margin": 0.02,
                "cells": names.iter().map(cell).collect::<Vec<_>>(),
                "runs": runs,
                "environment": [
                    { "name": "processor", "value": "Some CPU, Inc., 2 of them (a virtual machine)" },
                    { "name": "kernel", "value": "6.18.44-x, x86_64" },
                    { "name": "file system", "value": format!("{file_system} (rw)") },
                ],
            })
        };
        let cells = |scale| called(&plan("plan.toml", Some(scale)));
        let (disk, fuse) = (cells("full"), cells("fuse"));
        json!({ "sessions": [session(&fuse, "fuse"), session(&disk, "ext4")] })
    }

    #[test]
    fn each_program_of_the_plan_is_in_a_table() {
        let rows = || GAINS.iter().chain(&THE_REST).chain(&WORK);
        for (scale, place) in [("full", Place::Disk), ("fuse", Place::Fuse)] {
            for name in called(&plan("plan.toml", Some(scale))) {
                let (cells, way) = name.rsplit_once(", how ").unwrap();
                let of = |row: &&Row| (row.cells, row.place) == (cells, place);
                let shown = |row: &Row| row.also.is_some_and(|(also, _)| also == way);
                assert!(rows().any(|row| of(&row)), "no row is about '{name}'");
                let is_usual = ["without", "run"].contains(&way);
                let is_work = way == "work" && WORK.iter().any(|row| row.cells == cells);
                // Copies by hand are beside where the cache is warm.
                let is_left_out = cells.ends_with("cold") || place == Place::Fuse;
                let is_shown = rows().filter(of).any(shown);
                assert!(is_usual || is_work || is_shown || is_left_out, "'{name}' is not shown");
            }
        }
    }

    #[test]
    fn each_language_of_the_plan_is_in_the_table() {
        let plan = plan("languages.toml", None);
        let programs: Vec<&str> = plan.programs.iter().map(|program| &*program.name).collect();
        assert_eq!(programs, languages::ROWS.map(|(program, _)| program));
    }

    #[test]
    fn the_tables_say_what_the_record_says() {
        let seconds = |name: &str, _| match name {
            name if name.ends_with("without") => 2.0,
            name if name.ends_with("run") => 0.2,
            _ => 0.16,
        };
        let tables = whole(&record(6, seconds), "measurements/x");
        let origin = "One session on a virtual machine with 2 cores (Some CPU, Inc.), Linux 6.18, ext4, \
                      warm cache;\nmedians, and the ratio from 6 random rounds with its 95 % interval; \
                      outputs equal in every round\n(`measurements/x`).\n\n";
        assert!(tables.starts_with(origin), "{tables}");
        for line in [
            "\n| program, unchanged | plain | under `run` | ratio |\n|---|---|---|---|\n",
            "\n| GnuCOBOL copies 1,000,000 records of 200 bytes | 2.00 s | 0.200 s | 10.0x (10.0 to 10.0); \
             0.80x (0.80 to 0.80) of one by hand in C with large buffers |\n",
            "\n| the same with 100,000, on a FUSE mount (bindfs) | 2.00 s | 0.200 s | 10.0x (10.0 to 10.0) |\n",
            "\n| `cp` of 256 MiB; `work copy` | 2.00 s | 0.160 s | 12.5x (12.5 to 12.5) |\n",
        ] {
            assert!(tables.contains(line), "{line}{tables}");
        }
        let rows = |text: &str| text.lines().filter(|line| line.starts_with('|')).count();
        assert_eq!(rows(&tables), 3 * 2 + GAINS.len() + THE_REST.len() + WORK.len());
        assert_eq!(rows(&short(&record(6, seconds), "x")), 2 + 8);
    }

    #[test]
    fn times_have_three_digits() {
        for (seconds, expected) in [
            (10.16, "10.2 s"),
            (0.17361, "0.174 s"),
            (0.0602, "60.2 ms"),
            (0.00102, "1.02 ms"),
            (5.1e-7, "510 ns"),
            (1.05e-8, "10.5 ns"),
        ] {
            assert_eq!(time(seconds), expected);
        }
    }

    #[test]
    fn cells_are_compared_round_by_round() {
        // Each round is twice as slow as the one before, and that in both.
        let seconds = |name: &str, round: u64| {
            let slow = (1 << round) as f64;
            if name.ends_with("run") { slow } else { 3.0 * slow }
        };
        let record = record(6, seconds);
        let session = of(&record, Place::Disk);
        assert_eq!(effect(session, "java, how without", "java, how run"), "3.0x (3.0 to 3.0)");
        let mut lost = session.clone();
        lost["runs"].as_array_mut().unwrap().retain(|run| run["round"] != 2);
        assert_eq!(effect(&lost, "java, how without", "java, how run"), "3.0x", "five rounds");
    }
}

//! What was found, as words for the terminal and as the record under `measurements/`.
//!
//! A record holds every single run, so that another statistic can be computed from it. It holds
//! no path, no host name and no user name.

use super::WAYS;
use super::said::Said;
use super::table::Language;
use crate::bench::figures::{speed, time};
use crate::project::record;
use serde::Serialize;
use std::{fmt::Write, path::PathBuf};
use sweetspot_lab::{
    Error,
    environment::Environment,
    measure::Measurement,
    paired::{Comparison, Effect, Verdict},
    statistics,
};

/// The version of run.json: a field that changes its meaning raises it.
const SCHEMA: u32 = 2;

/// One session.
#[derive(Serialize)]
pub struct Record {
    /// The version of this format.
    schema: u32,
    /// What was measured: `git describe --always --dirty`.
    source: Option<String>,
    /// The options that the session was started with, without paths.
    options: Vec<String>,
    /// The machine.
    environment: Environment,
    /// How many processes wanted a processor, at the beginning and at the end.
    pub load: Vec<f64>,
    /// What was found, in the order in which it was measured.
    pub findings: Vec<Finding>,
    /// What could not be measured, and why.
    pub skipped: Vec<(String, String)>,
}

/// One language that ran to its end.
#[derive(Serialize)]
pub struct Finding {
    /// Its name.
    pub name: &'static str,
    /// What the table calls it.
    what: &'static str,
    /// The order of the runs follows from it.
    seed: u64,
    /// As it is, and under `run`.
    cells: Vec<CellFinding>,
    /// The latter against the former.
    effects: Vec<EffectFinding>,
    /// What `profile` and the summary said.
    said: Said,
    /// Every round, and the hash of the output.
    comparison: Comparison,
    /// What each run took from outside, in the order in which they ran, by cell; the unrecorded
    /// round before the others is not in it.
    runs: Vec<(usize, Measurement)>,
}

/// One way of running it.
#[derive(Serialize)]
struct CellFinding {
    name: String,
    /// The command, placeholders not filled in.
    command: String,
    /// The median of its seconds.
    median: f64,
}

/// One way against another.
#[derive(Serialize)]
struct EffectFinding {
    /// The other's name.
    against: &'static str,
    /// The effect on the time: a ratio below 1 is faster.
    effect: Effect,
}

impl Finding {
    /// Evaluates a comparison.
    pub fn new(
        language: &Language,
        seed: u64,
        comparison: Comparison,
        runs: &[(usize, Measurement)],
        said: Said,
    ) -> Result<Self, Error> {
        let names = [
            WAYS[0].to_owned(),
            [WAYS[1]].iter().chain(language.options).copied().collect::<Vec<_>>().join(" "),
        ];
        let cells = names.into_iter().enumerate().map(|(number, name)| {
            let median = statistics::median(&comparison.figures(number))?;
            Ok(CellFinding { name, command: language.command.join(" "), median })
        });
        let cells = cells.collect::<Result<_, Error>>()?;
        let effects = vec![EffectFinding { against: WAYS[0], effect: comparison.effect(0, 1)? }];
        let (Language { name, what, .. }, runs) = (language, runs.to_vec());
        Ok(Finding { name, what, seed, cells, effects, said, comparison, runs })
    }

    /// The median of the peak memory of a cell's runs, in megabytes.
    fn memory(&self, cell: usize) -> String {
        let runs = self.runs.iter().filter(|(number, _)| *number == cell);
        let peaks: Vec<f64> =
            runs.map(|(_, run)| run.usage.peak_memory_bytes as f64 / 1e6).collect();
        statistics::median(&peaks).map_or_else(|_| "?".to_owned(), |median| format!("{median:.1}"))
    }

    /// The times of both, how many times as fast `run` is, the rounds, and the verdict.
    fn figures(&self) -> [String; 5] {
        let effect = &self.effects[0].effect;
        let interval = effect.speedup_interval().map(|interval| (interval.low, interval.high));
        let verdict = match effect.verdict {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "same",
            Verdict::Undecided => "undecided",
        };
        [
            time(self.cells[0].median),
            time(self.cells[1].median),
            speed(effect.speedup(), interval),
            effect.rounds.to_string(),
            verdict.to_owned(),
        ]
    }

    /// The finding for the terminal.
    pub fn text(&self) -> String {
        let [plain, run, speed, rounds, verdict] = self.figures();
        format!(
            "{}: {}\n  {plain} -> {run}  {speed}  {verdict}  {rounds} rounds\n{}",
            self.name,
            self.what,
            self.said.text()
        )
    }
}

impl Record {
    /// An empty record.
    pub fn new(environment: Environment, source: Option<String>, options: Vec<String>) -> Self {
        let (findings, skipped, load) = (Vec::new(), Vec::new(), Vec::new());
        Record { schema: SCHEMA, source, options, environment, load, findings, skipped }
    }

    /// Writes run.json and run.md into a new folder of `measurements`; nothing is overwritten. Returns
    /// the folder.
    pub fn write(&self) -> Result<PathBuf, Error> {
        record(&self.environment, "languages", "run", self, &self.markdown())
    }

    /// The record for a reader.
    fn markdown(&self) -> String {
        let title = "# A copy of records in many languages\n\n";
        let mut text = title.to_owned() + &self.describe();
        text.push_str(
            "\n| language | plain | run | speedup (95 % interval) | rounds | verdict | memory |\n\
             |---|---:|---:|---|---:|---|---|\n",
        );
        // Writing to a String cannot fail.
        for finding in &self.findings {
            let figures = finding.figures().join(" | ");
            let (plain, run) = (finding.memory(0), finding.memory(1));
            let _ = writeln!(text, "| {} | {figures} | {plain} to {run} MB |", finding.what);
        }
        text.push_str("\nWhat `profile` said, and what the summary of `run` said:\n\n");
        for finding in &self.findings {
            let _ = writeln!(text, "- {}: {}", finding.what, finding.said.profile);
            let summary = &finding.said.summary;
            let _ = summary.iter().try_for_each(|line| writeln!(text, "  - {line}"));
        }
        for (name, reason) in &self.skipped {
            let _ = writeln!(text, "\nNot measured: {name}: {reason}");
        }
        text.push_str("\nVersions:\n\n");
        for (program, version) in &self.environment.versions {
            let _ = writeln!(text, "- {program}: {version}");
        }
        text
    }

    /// The machine and the method in a few sentences.
    fn describe(&self) -> String {
        let Environment {
            date,
            kernel,
            architecture,
            processor,
            processors,
            virtual_machine,
            memory_bytes,
            ..
        } = &self.environment;
        let machine = if *virtual_machine { "virtual machine" } else { "machine" };
        let distribution = self.environment.distribution.as_deref().unwrap_or("Linux");
        let governor = self.environment.governor.as_deref().unwrap_or("not readable");
        let file_system = &self.environment.file_system;
        let options = file_system.options.join(",");
        let source = self.source.as_deref().unwrap_or("unknown");
        let memory_gib = memory_bytes >> 30;
        let reported = match self.environment.reported_bytes {
            Some(bytes) => format!(
                ", free memory goes back to the host in blocks of at least {} KiB",
                bytes >> 10
            ),
            None => String::new(),
        };
        format!(
            "{date}, source {source}: {machine} with {processors} processors ({processor}, \
             {architecture}), {memory_gib} GiB, kernel {kernel}, {distribution}, files on {kind} \
             ({options}), governor {governor}{reported}; load {load} at \
             the beginning and at the end.\n\n\
             Made by `cargo xtask bench {arguments}`. Each run is a fresh process, in random order each round; outputs were equal in every \
             round, by hash. A speedup above 1 is faster; the estimate is Hodges-Lehmann on the \
             ratios round by round, the interval Wilcoxon signed-rank; a verdict stands only where \
             the whole interval is beyond, or within, 2 %. Times are medians, and so is the peak \
             memory, of the largest process, from the reference to `run`. Every single run is in \
             run.json.\n",
            kind = file_system.kind,
            load = self.load.iter().map(f64::to_string).collect::<Vec<_>>().join(" and "),
            arguments = self.options.join(" "),
        )
    }
}

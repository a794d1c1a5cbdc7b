//! What a benchmark found, as words for the terminal and as the record under `measurements/`.
//!
//! A record holds every single run, so that another statistic can be computed from it. It holds
//! no path, no host name and no user name.

use super::languages::Said;
use super::table::{Benchmark, Cache, Figure, FileAccess};
use serde::Serialize;
use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};
use sweetspot_lab::{
    Error,
    environment::Environment,
    measure::Measurement,
    paired::{Comparison, Effect, Verdict},
    statistics,
};

/// The version of run.json: a field that changes its meaning raises it.
const SCHEMA: u32 = 1;

/// One session.
#[derive(Serialize)]
pub struct Record {
    /// The version of this format.
    pub schema: u32,
    /// What was measured: `git describe --always --dirty`.
    pub source: Option<String>,
    /// What stood before each buffered command.
    pub wrapper: String,
    /// The options that the session was started with, without paths.
    pub options: Vec<String>,
    /// The machine.
    pub environment: Environment,
    /// How many processes wanted a processor, at the beginning and at the end.
    pub load: Vec<f64>,
    /// What was found, in the order in which it was measured.
    pub findings: Vec<Finding>,
    /// What could not be measured, and why.
    pub skipped: Vec<(String, String)>,
}

fn json(value: &impl Serialize) -> Result<String, Error> {
    let json = serde_json::to_string(value).map_err(|error| Error::Failed {
        program: "the record".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(json + "\n")
}

/// One benchmark that ran to its end.
#[derive(Serialize)]
pub struct Finding {
    /// The benchmark's name.
    pub name: &'static str,
    /// The job in words.
    pub what: String,
    /// The unit of all figures.
    pub unit: &'static str,
    /// The state of the cache.
    pub cache: &'static str,
    /// Where the files were.
    pub place: &'static str,
    /// The order of the runs follows from it.
    pub seed: u64,
    /// The ways of doing the job, the candidate last.
    pub cells: Vec<CellFinding>,
    /// The candidate against each of the others.
    pub effects: Vec<EffectFinding>,
    /// What `profile` and the summary said, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<Said>,
    /// Every round, and the hash of the output.
    pub comparison: Comparison,
    /// What each run took from outside, in the order in which they ran, by cell; the unrecorded
    /// round before the others is not in it.
    pub runs: Vec<(usize, Measurement)>,
}

/// One way of doing a job.
#[derive(Serialize)]
pub struct CellFinding {
    /// Its name.
    pub name: &'static str,
    /// Its command, placeholders not filled in.
    pub command: String,
    /// The median of its figures.
    pub median: f64,
}

/// The candidate against one other cell.
#[derive(Serialize)]
pub struct EffectFinding {
    /// The other cell's name.
    pub against: &'static str,
    /// The effect on the figure: a ratio below 1 is faster.
    pub effect: Effect,
    /// The speedup that the project aims for.
    pub bar: Option<f64>,
}

impl Finding {
    /// Evaluates a comparison.
    pub fn new(
        benchmark: &Benchmark,
        count: u64,
        seed: u64,
        comparison: Comparison,
        runs: Vec<(usize, Measurement)>,
    ) -> Result<Self, Error> {
        let candidate = benchmark.cells.len() - 1;
        let cells = benchmark.cells.iter().enumerate().map(|(number, cell)| {
            Ok(CellFinding {
                name: cell.name,
                command: cell.command.join(" "),
                median: statistics::median(&comparison.figures(number))?,
            })
        });
        let effects = benchmark.cells[..candidate].iter().enumerate().map(|(number, cell)| {
            let effect = comparison.effect(number, candidate)?;
            Ok(EffectFinding { against: cell.name, effect, bar: cell.bar })
        });
        Ok(Finding {
            name: benchmark.name,
            what: what(benchmark, count),
            unit: match benchmark.figure {
                Figure::Wall => "seconds",
                Figure::PerTransfer => "nanoseconds per transfer",
            },
            cache: match benchmark.cache {
                Cache::Warm => "warm",
                Cache::Cold => "guest-cold",
            },
            place: match benchmark.place {
                FileAccess::Plain => "as it is",
                FileAccess::Fuse => "through bindfs",
            },
            seed,
            cells: cells.collect::<Result<_, Error>>()?,
            said: None,
            effects: effects.collect::<Result<_, Error>>()?,
            comparison,
            runs,
        })
    }

    fn candidate(&self) -> &CellFinding {
        &self.cells[self.cells.len() - 1]
    }

    /// The median of the peak memory of a cell's runs, in megabytes.
    fn memory(&self, cell: usize) -> String {
        let runs = self.runs.iter().filter(|(number, _)| *number == cell);
        let peaks: Vec<f64> = runs.map(|(_, run)| run.peak_memory_bytes as f64 / 1e6).collect();
        statistics::median(&peaks).map_or_else(|_| "?".to_owned(), |median| format!("{median:.1}"))
    }

    /// The rows of the table: one for each cell that the candidate is compared with.
    fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let candidate = self.cells.len() - 1;
        std::iter::zip(&self.cells, &self.effects).enumerate().map(
            move |(number, (cell, effect))| Row {
                against: cell.name,
                reference: figure(cell.median, self.unit),
                candidate: figure(self.candidate().median, self.unit),
                speedup: speedup(&effect.effect),
                memory: format!("{} to {} MB", self.memory(number), self.memory(candidate)),
                rounds: effect.effect.rounds,
                verdict: verdict(effect.effect.verdict),
                bar: bar(effect),
            },
        )
    }

    /// The finding for the terminal: the job, then a line for each comparison.
    pub fn text(&self) -> String {
        let mut text = format!("{}: {}\n", self.name, self.what);
        for row in self.rows() {
            let Row { against, reference, candidate, speedup, rounds, verdict, bar, .. } = row;
            let times = format!("{reference} -> {candidate}");
            let bar = if bar.is_empty() { bar } else { format!("  bar {bar}") };
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "  against {against:<19} {times:<24} {speedup:<28} {verdict:<10} \
                 {rounds:>2} rounds{bar}"
            );
        }
        text
    }
}

struct Row {
    against: &'static str,
    reference: String,
    candidate: String,
    speedup: String,
    memory: String,
    rounds: usize,
    verdict: &'static str,
    bar: String,
}

/// The job in words, its count filled in.
pub fn what(benchmark: &Benchmark, count: u64) -> String {
    benchmark.what.replace("{count}", &grouped(count))
}

/// `1000000` as `1,000,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn figure(value: f64, unit: &str) -> String {
    match unit {
        "seconds" if value < 0.1 => format!("{:.2} ms", value * 1e3),
        "seconds" => format!("{value:.3} s"),
        _ => format!("{value:.1} ns"),
    }
}

/// `5.48x (5.31 to 5.66)`.
fn speedup(effect: &Effect) -> String {
    let digits = if effect.speedup() < 2.0 { 3 } else { 2 };
    let estimate = effect.speedup();
    match effect.speedup_interval() {
        Some(interval) => {
            let (low, high) = (interval.low, interval.high);
            format!("{estimate:.digits$}x ({low:.digits$} to {high:.digits$})")
        }
        None => format!("{estimate:.digits$}x (no interval)"),
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Same => "same",
        Verdict::Undecided => "undecided",
    }
}

/// Whether the bar is reached: only where the whole interval is on one side of it.
fn bar(finding: &EffectFinding) -> String {
    let Some(bar) = finding.bar else {
        return String::new();
    };
    let stands = match finding.effect.speedup_interval() {
        Some(interval) if interval.low >= bar => "reached",
        Some(interval) if interval.high < bar => "missed",
        _ => "open",
    };
    format!("{bar:.2}x {stands}")
}

impl Record {
    /// An empty record.
    pub fn new(environment: Environment, wrapper: String, options: Vec<String>) -> Self {
        let (findings, skipped, load) = (Vec::new(), Vec::new(), Vec::new());
        let (schema, source) = (SCHEMA, None);
        Record { schema, source, wrapper, options, environment, load, findings, skipped }
    }

    /// Writes run.json and run.md into a new folder of `measurements`, whose name ends with `suffix`;
    /// nothing is overwritten. Returns the folder.
    pub fn write(&self, measurements: &Path, suffix: &str) -> Result<PathBuf, Error> {
        let name = format!("{}-{}{suffix}", self.environment.date, self.environment.machine());
        fs::create_dir_all(measurements).map_err(Error::system("create", measurements))?;
        let folder = new_folder(measurements, &name)?;
        for (name, text) in [("run.json", json(self)?), ("run.md", self.markdown())] {
            let path = folder.join(name);
            fs::write(&path, text).map_err(Error::system("write", &path))?;
        }
        Ok(folder)
    }

    /// The record for a reader.
    fn markdown(&self) -> String {
        let title = "# What `run` does to real programs, and how fast the library is\n\n";
        let mut text = title.to_owned() + &self.describe();
        text.push_str(
            "\n| job | against | reference | run | speedup (95 % interval) | rounds | verdict | bar \
             | memory |\n|---|---|---:|---:|---|---:|---|---|---|\n",
        );
        // Writing to a String cannot fail.
        for finding in &self.findings {
            for row in finding.rows() {
                let Row { against, reference, candidate, speedup, memory, rounds, verdict, bar } =
                    row;
                let _ = writeln!(
                    text,
                    "| {} | {against} | {reference} | {candidate} | {speedup} | {rounds} | \
                     {verdict} | {bar} | {memory} |",
                    finding.what
                );
            }
        }
        if self.findings.iter().any(|finding| finding.said.is_some()) {
            text.push_str("\nWhat `profile` said, and what the summary of `run` said:\n\n");
        }
        for finding in &self.findings {
            let Some(said) = &finding.said else { continue };
            let _ = writeln!(text, "- {}: {}", finding.what, said.profile);
            let _ = said.summary.iter().try_for_each(|line| writeln!(text, "  - {line}"));
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
             Made by `cargo xtask bench {arguments}`; buffered commands ran under `{wrapper}`. \
             Each run is a fresh process, in random order each round; outputs were equal in every \
             round, by hash. A speedup above 1 is faster; the estimate is Hodges-Lehmann on the \
             ratios round by round, the interval Wilcoxon signed-rank; a verdict stands only where \
             the whole interval is beyond, or within, 2 %. Times are medians, and so is the peak \
             memory, of the largest process, from the reference to `run`. Every single run is in \
             run.json.\n",
            kind = file_system.kind,
            load = self.load.iter().map(f64::to_string).collect::<Vec<_>>().join(" and "),
            arguments = self.options.join(" "),
            wrapper = self.wrapper,
        )
    }
}

/// Makes `name`, or `name-2`, `name-3` and so on where that is there already.
pub fn new_folder(parent: &Path, name: &str) -> Result<PathBuf, Error> {
    const RECORDS_A_DAY_MAX: u32 = 100;
    let names = (2..=RECORDS_A_DAY_MAX).map(|number| format!("{name}-{number}"));
    for name in std::iter::once(name.to_owned()).chain(names) {
        let folder = parent.join(name);
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::system("create", folder)(error)),
        }
    }
    Err(Error::Failed {
        program: "the record".to_owned(),
        reason: format!("there are {RECORDS_A_DAY_MAX} named {name} already"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweetspot_lab::statistics::Interval;

    fn effect(low: f64, ratio: f64, high: f64) -> Effect {
        let interval = Some(Interval { low, high });
        Effect { ratio, interval, rounds: 8, verdict: Verdict::Faster }
    }

    #[test]
    fn figures_read_well() {
        assert_eq!(grouped(1_000_000), "1,000,000");
        assert_eq!(grouped(200), "200");
        assert_eq!(figure(1.65, "seconds"), "1.650 s");
        assert_eq!(figure(0.0123, "seconds"), "12.30 ms");
        assert_eq!(figure(443.21, "nanoseconds per transfer"), "443.2 ns");
        assert_eq!(speedup(&effect(0.16, 0.2, 0.25)), "5.00x (4.00 to 6.25)");
        assert_eq!(speedup(&effect(0.8, 1.0, 1.25)), "1.000x (0.800 to 1.250)");
    }

    #[test]
    fn a_bar_is_reached_by_the_whole_interval() {
        for (aim, expected) in [
            (Some(4.0), "4.00x reached"),
            (Some(5.0), "5.00x open"),
            (Some(7.0), "7.00x missed"),
            (None, ""),
        ] {
            let finding =
                EffectFinding { against: "plain", effect: effect(0.16, 0.2, 0.25), bar: aim };
            assert_eq!(bar(&finding), expected);
        }
    }

    #[test]
    fn a_second_record_of_a_day_overwrites_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<_> = (0..3).map(|_| new_folder(folder.path(), "day").unwrap()).collect();
        assert_eq!(names, ["day", "day-2", "day-3"].map(|name| folder.path().join(name)));
    }
}

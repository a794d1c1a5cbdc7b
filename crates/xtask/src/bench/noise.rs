//! How the time of one and the same command varies here, and what the method makes of it.
//!
//! - `cargo xtask bench noise FILE` records a series of times. The search for a sweet spot is tested
//!   on it (`sweetspot-lab`): its runs follow one another without pause, so that it has this
//!   machine's drift, outliers and autocorrelation.
//! - `cargo xtask bench null` compares the command with itself, again and again, as `bench` compares
//!   commands that differ, and counts how often it is wrong. `cargo xtask bench null questions` does so
//!   with the questions of `tune`: every setting is the same command; then no buffering copies twice as
//!   much.

use super::Times;
use serde::Serialize;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};
use sweetspot_lab::{
    Error,
    environment::Environment,
    measure::{self, Job, Measurement},
    paired::{self, Observation, Options, Verdict},
    questions::{self, Answer},
    schedule::Random,
    search::{OFF, Plan, Round},
    statistics,
};
use tempfile::TempDir;

/// Records of 200 bytes that the command copies: some 20 ms.
const RECORDS: usize = 20_000;

/// A series of times of one command.
#[derive(Serialize)]
struct Noise {
    what: String,
    environment: Environment,
    /// Standard deviation over mean.
    variation: f64,
    autocorrelation: f64,
    seconds: Vec<f64>,
}

/// Compares a command with itself. Returns whether it is said to differ as seldom as it should be.
pub fn null(times: Times) -> Result<bool, Error> {
    let count = times.comparisons.get();
    let (wrong, limit) = (compare_with_itself(count, times.seed)?, most_by_chance(count));
    println!(
        "{wrong} of {count} comparisons of a command with itself said that it differs; at 5 % each, up to {limit} \
         are to be expected"
    );
    Ok(wrong <= limit)
}

/// The same with the questions of `tune`.
pub fn null_of_questions(times: Times) -> Result<bool, Error> {
    let count = times.comparisons.get();
    let [better, no_gain] = ask_about_itself(count, times.seed)?;
    println!(
        "{better} of {count} searches called something better where all settings were one command (at most 5 % \
         may); {no_gain} of {count} said that it is not worth it where no buffering had twice as much to do (none \
         may)"
    );
    Ok(better * 20 <= count && no_gain == 0)
}

/// Compares the command with itself `count` times, and returns how often it was said to differ. With
/// no margin at all, so that "the same" is no way out.
fn compare_with_itself(count: usize, seed: u64) -> Result<usize, Error> {
    let (_folder, job) = copying()?;
    let mut run_one = |_: usize| -> Result<Observation, Error> {
        let figure = seconds(&job)?;
        Ok(Observation { figure, output: String::new() })
    };
    let (mut wrong, mut seeds, start) = (0, Random::new(seed), Instant::now());
    for number in 1..=count {
        let options = Options { seed: seeds.bits(), margin: 0.0, ..Options::default() };
        let comparison = paired::compare(&mut run_one, 2, &options)?;
        let effect = comparison.effect(0, 1)?;
        wrong += usize::from(effect.verdict != Verdict::Undecided);
        if effect.verdict != Verdict::Undecided || number.is_multiple_of(10) {
            println!(
                "{number:>4} of {count} after {:>4.0} s: {wrong} differ; this one by {:+.1} % in {} \
                 rounds",
                start.elapsed().as_secs_f64(),
                (effect.ratio - 1.0) * 100.0,
                effect.rounds
            );
        }
    }
    Ok(wrong)
}

/// Asks `tune`'s questions about the command `count` times: how often is something called better where
/// nothing is, and buffering not worth it where no buffering takes twice as long?
fn ask_about_itself(count: usize, seed: u64) -> Result<[usize; 2], Error> {
    let (_folder, once) = copying()?;
    let mut twice = once.clone();
    twice.command = ["dd", "if=in2", "of=out", "bs=200", "status=none"].map(Into::into).into();
    let mut wrong = [0; 2];
    let (mut seeds, start) = (Random::new(seed), Instant::now());
    for number in 1..=count {
        for (wrong, off) in std::iter::zip(&mut wrong, [&once, &twice]) {
            let plan =
                Plan { sizes: 13, within: 0.05, seed: seeds.bits(), curve_rounds: 0, patience: 1 };
            let is_alike = std::ptr::eq(off, &once);
            let answer = ask(&plan, &once, off)?;
            let chosen = answer.setting(&plan);
            let is_wrong = match is_alike {
                true => chosen.is_some_and(|setting| setting != OFF),
                false => chosen == Some(OFF),
            };
            *wrong += usize::from(is_wrong);
        }
        if number.is_multiple_of(10) {
            let seconds = start.elapsed().as_secs_f64();
            println!("{number:>4} of {count} after {seconds:>4.0} s: {wrong:?} wrong");
        }
    }
    Ok(wrong)
}

/// Asks once, where no buffering runs `off` and every other setting `job`.
fn ask(plan: &Plan, job: &Job, off: &Job) -> Result<Answer, Error> {
    let mut rounds = Vec::new();
    while let Some((phase, order)) = questions::next(plan, &rounds)? {
        let runs: Result<Vec<_>, Error> = order
            .into_iter()
            .map(|setting| Ok((setting, measured(if setting == OFF { off } else { job })?)))
            .collect();
        rounds.push(Round::measured(phase, &runs?));
    }
    questions::answer(plan, &rounds)
}

/// The 97.5 % point of how many of `count` comparisons go wrong, if 5 % of all do.
fn most_by_chance(count: usize) -> usize {
    const WRONG: f64 = 0.05;
    // From the probability that none does on, each from the one before.
    let mut exactly = (1.0 - WRONG).powf(count as f64);
    let (mut up_to, mut most) = (exactly, 0);
    while up_to < 0.975 && most < count {
        exactly *= (count - most) as f64 / (most + 1) as f64 * WRONG / (1.0 - WRONG);
        up_to += exactly;
        most += 1;
    }
    most
}

/// The command that is timed, and the folder it runs in.
fn copying() -> Result<(TempDir, Job), Error> {
    let folder = tempfile::tempdir().map_err(Error::system("make a folder in", "/tmp"))?;
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    for (name, records) in [("in", RECORDS), ("in2", 2 * RECORDS)] {
        let content = vec![b'x'; records * 200];
        fs::write(path(name), content).map_err(Error::system("write", path(name)))?;
    }
    let mut job = Job::new(["dd", "if=in", "of=out", "bs=200", "status=none"]);
    job.folder = Some(folder.path().to_owned());
    Ok((folder, job))
}

fn seconds(job: &Job) -> Result<f64, Error> {
    Ok(measured(job)?.wall.as_secs_f64())
}

fn measured(job: &Job) -> Result<Measurement, Error> {
    let measurement = measure::run(job)?;
    match measurement.status.success() {
        true => Ok(measurement),
        false => {
            let reason = measurement.status.to_string();
            Err(Error::Failed { program: "dd".to_owned(), reason })
        }
    }
}

pub fn record_series(file: &Path, runs: usize) -> Result<String, Error> {
    let (folder, job) = copying()?;
    let (mut times, start) = (Vec::with_capacity(runs), Instant::now());
    for _ in 0..runs {
        times.push((seconds(&job)? * 1e6).round() / 1e6);
    }
    let seconds = times;
    let mean = seconds.iter().sum::<f64>() / runs as f64;
    let square: f64 = seconds.iter().map(|time| (time - mean).powi(2)).sum();
    let noise = Noise {
        what: format!("dd bs=200 copies {RECORDS} records, one run after the other"),
        environment: Environment::of(folder.path(), &[&["dd", "--version"]])?,
        variation: (square / runs as f64).sqrt() / mean,
        autocorrelation: statistics::autocorrelation(&seconds).unwrap_or_default(),
        seconds,
    };
    let json = serde_json::to_string(&noise).map_err(|error| Error::Failed {
        program: "the series".to_owned(),
        reason: error.to_string(),
    })?;
    fs::write(file, json + "\n").map_err(Error::system("write", file))?;
    Ok(format!(
        "{runs} runs in {:.0} s; median {:.1} ms, variation {:.0} %, lag-1 autocorrelation {:.2}",
        start.elapsed().as_secs_f64(),
        statistics::median(&noise.seconds)? * 1e3,
        noise.variation * 100.0,
        noise.autocorrelation
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_chance_allows() {
        // As R says: qbinom(0.975, n, 0.05).
        for (count, expected) in [(1, 1), (20, 3), (200, 16), (1000, 64)] {
            assert_eq!(most_by_chance(count), expected, "{count}");
        }
    }
}

//! `cargo xtask bench noise FILE`: records how the time of one and the same command varies here.
//!
//! The series is what the search for a sweet spot is tested on (`sweetspot-lab`): its runs follow
//! one another without pause, so that it has this machine's drift, outliers and autocorrelation.

use serde::Serialize;
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};
use sweetspot_lab::{
    Error,
    environment::Environment,
    measure::{self, Job},
    statistics,
};

const USAGE: &str = "cargo xtask bench noise FILE.json [RUNS]: time one command RUNS (1500) times";
const RUNS_DEFAULT: usize = 1500;
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

/// Runs `cargo xtask bench noise` with the words after it.
pub fn main(words: &[&str]) -> ExitCode {
    let (file, runs) = match words {
        [file] => (file, Some(RUNS_DEFAULT)),
        [file, runs] => (file, runs.parse().ok()),
        _ => (&"", None),
    };
    let Some(runs) = runs.filter(|runs| *runs >= 3 && !file.starts_with('-')) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match record_series(Path::new(file), runs) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("xtask bench noise: {error}");
            ExitCode::FAILURE
        }
    }
}

fn record_series(file: &Path, runs: usize) -> Result<String, Error> {
    let folder = tempfile::tempdir().map_err(Error::system("make a folder in", "/tmp"))?;
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    fs::write(path("in"), vec![b'x'; RECORDS * 200]).map_err(Error::system("write", path("in")))?;
    let mut job = Job::new(["dd", "if=in", "of=out", "bs=200", "status=none"]);
    job.folder = Some(folder.path().to_owned());
    let (mut seconds, start) = (Vec::with_capacity(runs), Instant::now());
    for _ in 0..runs {
        let measurement = measure::run(&job)?;
        if !measurement.status.success() {
            let reason = measurement.status.to_string();
            return Err(Error::Failed { program: "dd".to_owned(), reason });
        }
        seconds.push((measurement.wall.as_secs_f64() * 1e6).round() / 1e6);
    }
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

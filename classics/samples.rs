//! What the programs of the classic experiments have in common that use `sweetspot-io`: they take
//! times inside of the process and report them.
//!
//! An experiment that wants to know names a descriptor in `SWEETSPOT_SAMPLES_FD` and gets one line of
//! JSON there; standard output stays the same in every run.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;
use sweetspot_io::{ReadOptions, Strategy};

/// What a program ends with: what it says, or what went wrong.
pub type Outcome = Result<String, Box<dyn Error>>;

/// How long something took, again and again.
pub struct Samples {
    unit: &'static str,
    samples: Vec<f64>,
}

impl Samples {
    /// None yet; `unit` is "ns", "us", "ms" or "s".
    pub fn new(unit: &'static str) -> Samples {
        Samples { unit, samples: Vec::new() }
    }

    /// Does something and keeps its time, in nanoseconds divided by what `per` makes of the result.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn take<T, E>(
        &mut self,
        work: impl FnOnce() -> Result<T, E>,
        per: impl FnOnce(&T) -> f64,
    ) -> Result<T, E> {
        let started = Instant::now();
        let result = work()?;
        let nanoseconds = started.elapsed().as_secs_f64() * 1e9;
        self.samples.push(nanoseconds / per(&result));
        Ok(result)
    }

    /// Tells anyone who wants to know.
    ///
    /// # Errors
    /// Where that fails.
    pub fn report(&self) -> std::io::Result<()> {
        let Some(descriptor) = env::var_os("SWEETSPOT_SAMPLES_FD") else { return Ok(()) };
        let path = std::path::Path::new("/dev/fd").join(descriptor);
        let samples: Vec<String> = self.samples.iter().map(f64::to_string).collect();
        let line =
            format!("{{\"unit\": \"{}\", \"samples\": [{}]}}\n", self.unit, samples.join(", "));
        File::options().write(true).open(path)?.write_all(line.as_bytes())
    }
}

/// Runs a program whose arguments are `usage`'s words, and says what came of it.
pub fn program(usage: &str, work: impl FnOnce(&[&str]) -> Outcome) -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if words.len() + 1 != usage.split_whitespace().count() {
        eprintln!("usage: {usage}");
        return ExitCode::from(2);
    }
    match work(&words) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", usage.split_whitespace().next().unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

/// How to read: `auto`, or the name of a strategy.
///
/// # Errors
/// Where there is none of that name.
pub fn read_options(strategy: &str) -> Result<ReadOptions, String> {
    let named = match strategy {
        "auto" => None,
        name => Some(Strategy::named(name).ok_or_else(|| format!("no strategy is named {name}"))?),
    };
    Ok(ReadOptions::new().strategy(named))
}

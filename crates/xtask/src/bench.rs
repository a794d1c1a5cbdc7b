//! `cargo xtask bench`: what only a developer asks of the product's speed.
//!
//! What `sweetspot run` does to real programs, and how fast the library is, `sweetspot bench` measures:
//! the plans are in `benchmarks/`. Here is what no plan says.
//!
//! Timings are printed and recorded, never asserted.

mod command;
mod instructions;
mod noise;
#[cfg(test)]
mod pages;
mod picks;
mod planned;
mod predict;
mod report;

use clap::Subcommand;
use std::error::Error;
use std::num::NonZero;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum Question {
    /// Which size do tune, hyperfine and a loop of dd pick for the six jobs of benchmarks/picks.toml, and how far is
    /// each from the best of a grid of 40 random rounds?
    Picks {
        /// Where report.json, picks.json and picks.md are written
        record: PathBuf,
        /// Where data lies
        dir: PathBuf,
        scale: Option<String>,
    },
    /// Hold what `sweetspot profile` says of the programs of benchmarks/plan.toml against RECORD/report.json
    Predict {
        /// Where predictions.json is written
        record: PathBuf,
        /// The --dir of the session of `sweetspot bench` that wrote the report
        dir: PathBuf,
        /// Its scale
        #[arg(default_value = "full")]
        scale: String,
    },
    /// Time one command, as a series on which the search for a sweet spot is tested
    Noise {
        #[arg(value_name = "FILE.json")]
        file: PathBuf,
        #[arg(default_value_t = 1500, value_parser = clap::value_parser!(u64).range(3..))]
        runs: u64,
    },
    /// Compare a command with itself, as the benchmarks are compared; fails where it is said to differ more often
    /// than 5 % of the time
    #[command(args_conflicts_with_subcommands = true)]
    Null {
        #[command(flatten)]
        times: Times,
        #[command(subcommand)]
        other: Option<Other>,
    },
    /// The instructions that the library adds to a call, and to the start of a process, as valgrind counts them;
    /// fails where that is more than its budget
    Instructions,
}

#[derive(Debug, Subcommand)]
pub enum Other {
    /// The same with the two questions of `tune`
    Questions(Times),
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Times {
    #[arg(default_value = "200")]
    comparisons: NonZero<usize>,
    #[arg(default_value_t = 0)]
    seed: u64,
}

/// Returns whether everything is as it should be.
///
/// # Errors
/// What could not be done.
pub fn answer(question: &Question) -> Result<bool, Box<dyn Error>> {
    match question {
        Question::Picks { record, dir, scale } => {
            print!("{}", picks::pick_all(record, dir, scale.as_deref())?);
        }
        Question::Predict { record, dir, scale } => {
            println!("{}", predict::predict_all(record, dir, scale)?);
        }
        Question::Noise { file, runs } => {
            println!("{}", noise::record_series(file, *runs as usize)?)
        }
        Question::Null { times, other: None } => return Ok(noise::null(*times)?),
        Question::Null { other: Some(Other::Questions(times)), .. } => {
            return Ok(noise::null_of_questions(*times)?);
        }
        Question::Instructions => return Ok(instructions::run()?),
    }
    Ok(true)
}

//! `cargo xtask bench`: what only a developer asks of the product's speed.
//!
//! What `sweetspot run` does to real programs, and how fast the library is, `sweetspot bench` measures:
//! the plans are in `benchmarks/`. Here is what no plan says.
//!
//! Timings are printed and recorded, never asserted.

mod command;
mod figures;
mod instructions;
mod languages;
mod noise;
#[cfg(test)]
mod pages;
mod picks;
mod planned;
mod predict;
mod report;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask bench languages [OPTIONS]: a copy of records in some thirty languages, as it is and under
`sweetspot run`, each with what `profile` says of it (--help)
cargo xtask bench picks RECORD DIR: which size do tune, hyperfine and a loop of dd pick for six jobs, and
how far is each from the best of a grid of 40 random rounds?
cargo xtask bench predict RECORD DIR: hold what `sweetspot profile` says of the programs of
benchmarks/plan.toml against RECORD/report.json, a session of `sweetspot bench` in DIR
cargo xtask bench noise FILE.json [RUNS]: time one command RUNS (1500) times, as a series on which
the search for a sweet spot is tested
cargo xtask bench null [COMPARISONS [SEED]]: compare a command with itself that many times (200), as
the benchmarks are compared; fails where it is said to differ more often than 5 % of the time
cargo xtask bench null questions [COMPARISONS [SEED]]: the same with the two questions of `tune`
cargo xtask bench instructions: the instructions that the library adds to a call, and to the start of
a process, as valgrind counts them; fails where that is more than its budget

What `run` does to real programs: sweetspot bench benchmarks; docs/measuring.md has more.
";

/// Runs `cargo xtask bench` with the arguments after `bench`.
pub fn main(arguments: &[&str]) -> ExitCode {
    match arguments {
        ["languages", words @ ..] => languages::main(words),
        ["picks", words @ ..] => picks::main(words),
        ["predict", words @ ..] => predict::main(words),
        ["noise", words @ ..] => noise::main(words),
        ["null", words @ ..] => noise::null(words),
        ["instructions"] => instructions::main(),
        ["--help" | "-h" | "help"] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

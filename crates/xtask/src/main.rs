//! Automation of the project: `cargo xtask COMMAND`.
//!
//! Continuous integration calls these commands, not the reverse: what it does can be done by
//! everyone. Each command is a list of named steps; a step that fails does not stop the next, so
//! that one run tells everything.
//!
//! Not here: what the product itself does. Nothing depends on this crate.

#[cfg(test)]
use test_start as _;

mod bench;
mod build;
mod commands;
mod conformance;
mod debian;
mod fuzz;
mod matrix;
mod needs;
mod package;
mod project;
mod recording;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask COMMAND

  setup    install what the tests need (Debian packages; as root or through sudo)
  test     setup, then formatting, lints, all tests of the workspace, the table of programs in roots of two
           other Debian releases (as root), packages, and a short conformance
  fuzz     kill programs at random, step by step, or let them make random calls (--help)
  conformance
           other people's tests and everyday programs, with and without buffering (--help)
  matrix   the same and more in other Debian releases, and on other kernels and machines (--help)
  msrv     compile the library with the oldest Rust that it promises, by rustup
  build    the binary, for this machine or another one (--target aarch64)
  deb, tarball, wheel
           make a package for each machine in target/packages (--help)
  packages make all three; install, use and remove each (--help)
  bench    what `run` does to real programs, in alternating pairs (--help says more)
  recording
           a session in a terminal, as the picture in README
";

fn main() -> ExitCode {
    sweetspot_lab::measure::launch_if_asked();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["setup"] => exit_code(needs::install()),
        ["test", filter @ ..] => exit_code(test::run(filter)),
        ["msrv"] => exit_code(test::oldest_compiler()),
        ["fuzz", ..] => fuzz::main(&words[1..]),
        ["conformance", ..] => conformance::main(&words[1..]),
        ["matrix", ..] => matrix::main(&words[1..]),
        ["build", ..] => build::main(&words[1..]),
        ["deb" | "tarball" | "wheel" | "packages", ..] => package::main(&words),
        ["bench", ..] => bench::main(&words[1..]),
        ["recording", ..] => recording::main(&words[1..]),
        ["help" | "--help" | "-h"] | [] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("xtask: unknown command: {}\n\n{USAGE}", words.join(" "));
            ExitCode::from(2)
        }
    }
}

fn exit_code(passed: bool) -> ExitCode {
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

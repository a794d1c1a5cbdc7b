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
mod saved;
mod test;

use clap::Parser;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Automation of the sweetspot project.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", max_term_width = 100)]
enum Task {
    /// Install what the tests need (Debian packages; as root or through sudo)
    Setup,
    /// Setup, then formatting, lints, all tests of the workspace, the table of programs in roots of two other
    /// Debian releases (as root), packages, and a short conformance
    Test {
        /// Only these tests, as `cargo test` takes them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        filter: Vec<String>,
    },
    /// Kill programs at random, step by step, or let them make random calls
    Fuzz(fuzz::Settings),
    /// Other people's tests and everyday programs, with and without buffering
    Conformance(conformance::Settings),
    /// The product in roots of other Debian releases (made by mmdebstrap; as root), and in virtual machines with
    /// other kernels (qemu, without KVM)
    Matrix(matrix::Settings),
    /// Compile the library with the oldest Rust that it promises, by rustup
    Msrv,
    /// Make the crate sweetspot-io as it would be published, and compile it; nothing is sent
    Publishable,
    /// Build the binary, for this machine or another one, and say where it is
    Build(build::Settings),
    /// Make a Debian package for each machine
    Deb(package::Settings),
    /// Make an archive for any Linux for each machine, to be unpacked into a prefix such as /usr/local
    Tarball(package::Settings),
    /// Make a Python wheel that carries the binary for each machine
    Wheel(package::Settings),
    /// Make all three; install, use and remove each, in clean roots of other releases of Debian than this one:
    /// bullseye and trixie, those of the other machine by an emulator
    Packages {
        /// What `cargo xtask test` does: a development build of this machine only; of the other machine, that
        /// everything compiles for it, and that its library can be loaded
        #[arg(long, conflicts_with_all = ["machines", "profile", "folder"])]
        quick: bool,
        #[command(flatten)]
        settings: package::Settings,
    },
    /// What only a developer asks of the product's speed
    ///
    /// What `run` does to real programs: sweetspot bench benchmarks; docs/measuring.md has more.
    #[command(subcommand)]
    Bench(bench::Question),
    /// Record a session in a terminal, and draw the picture of README
    Recording {
        /// Of the folder below measurements/ (DATE-MACHINE-session)
        name: Option<String>,
    },
}

fn main() -> ExitCode {
    sweetspot_lab::measure::launch_if_asked();
    match perform(Task::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(wrong) => {
            let words = std::env::args().skip(1).take(2).filter(|word| !word.starts_with('-'));
            eprintln!("xtask {}: {wrong}", words.collect::<Vec<_>>().join(" "));
            ExitCode::FAILURE
        }
    }
}

/// Returns whether everything is as it should be.
fn perform(task: Task) -> Result<bool, Box<dyn Error>> {
    let show = |path: PathBuf| println!("{}", path.display());
    Ok(match task {
        Task::Setup => needs::install(),
        // As it was typed: a leading `--` is `cargo test`'s.
        Task::Test { .. } => test::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        Task::Msrv => test::oldest_compiler(),
        Task::Publishable => test::publishable(),
        Task::Fuzz(settings) => {
            println!("{}", fuzz::run(&settings)?);
            true
        }
        Task::Conformance(settings) => conformance::run(&settings)?,
        Task::Matrix(settings) => matrix::run(&settings)?,
        Task::Build(settings) => {
            show(settings.build()?.binary);
            true
        }
        Task::Deb(settings) => settings.make(package::deb::make)?,
        Task::Tarball(settings) => settings.make(package::tarball::make)?,
        Task::Wheel(settings) => settings.make(package::wheel::make)?,
        Task::Packages { quick: true, .. } => package::quick(),
        Task::Packages { settings, .. } => package::all(&settings, package::Trial::Whole),
        Task::Bench(question) => bench::answer(&question)?,
        Task::Recording { name } => {
            println!("{}", recording::record(name)?);
            true
        }
    })
}

#[test]
fn what_can_be_typed_is_well_formed() {
    use clap::CommandFactory;
    Task::command().debug_assert();
    let typed = |words: &str| Task::try_parse_from(["xtask"].into_iter().chain(words.split(' ')));
    for words in [
        "test -p sweetspot --test cli",
        "fuzz kill --kills 7 --slower 2 --seed 9 --on tmpfs",
        "conformance --sizes 1,64K --only fsx",
        "matrix --only sid --only 5.10 --go-on --also 1f2e3d4 --record",
        "matrix without 332 38 cp --help one other",
        "deb --target aarch64 --dir packages",
        "bench null questions 200 7",
        "bench null 200",
    ] {
        assert!(typed(words).is_ok(), "{words}");
    }
    let fuzzed = typed("fuzz kill --kills 7 --slower 2 --seed 9 --on tmpfs");
    assert!(matches!(fuzzed, Ok(Task::Fuzz(settings))
        if ["seed: 9", "Kill { kills: 7, slower: 2 }"].iter().all(|part| format!("{settings:?}").contains(part))));
    let conformed = typed("conformance --sizes 1,64K --only fsx");
    assert!(matches!(conformed, Ok(Task::Conformance(settings))
        if format!("{settings:?}").contains(r#"["1", "64K"]"#)));
    for words in [
        "fuzz kill --limit 7",
        "matrix sid",
        "bench noise series.json 2",
        "packages --quick --dir packages",
    ] {
        assert!(typed(words).is_err(), "{words}");
    }
}

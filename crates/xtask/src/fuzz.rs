//! `cargo xtask fuzz`: looks for lost and doubled bytes, with programs that follow from a seed.
//!
//! ```text
//! kill      victims killed at random moments, with their guard, their parent, or alone
//! steps     a victim killed after each instruction of a stretch of its life
//! contract  random programs of calls, with and without buffering, at every size
//! order     an observer outside, while a program writes and makes known how far it is
//! fail      a victim of which the first, the second ... system call fails
//! full      the same, with a disk that is full from then on
//! storm     sixteen threads on shared descriptors, with handlers that write
//! soak      a database, a batch job and a log that is read, for an hour, while anyone may be stopped
//! library   the verbs of `sweetspot-io`, with inputs that reach new code
//! ```
//!
//! A failing case is printed with the command that repeats it, and its files are kept. A bounded
//! part of each runs as a test.

mod contract;
mod fail;
mod file_systems;
mod kill;
pub mod kit;
mod library;
mod model;
mod order;
pub mod process;
mod registers;
mod soak;
mod steps;
mod storm;
mod victim;
mod workers;

use crate::commands::seed_of_now;
use clap::{Args, Subcommand};
use kit::Kit;

/// Sizes at which victims are killed.
const KILL_SIZES: &[&str] = &["auto", "512", "64K", "1M"];

#[derive(Debug, Args)]
pub struct Settings {
    /// What is random follows from it
    #[arg(long, global = true, default_value_t = seed_of_now())]
    seed: u64,
    /// On a file system of another kind, which is made for it (needs root): seconds (ext4 with times in whole
    /// seconds), xfs, btrfs, tmpfs, overlay, fuse
    #[arg(long, global = true, value_name = "KIND")]
    on: Option<String>,
    #[command(subcommand)]
    fuzzer: Fuzzer,
}

#[derive(Debug, Subcommand)]
enum Fuzzer {
    /// Victims, killed at random moments
    Kill {
        #[arg(long, default_value_t = 300)]
        kills: u64,
        /// They are killed so many times as late, on a machine that is so slow
        #[arg(long, default_value_t = 1)]
        slower: u64,
    },
    /// A victim killed after each instruction of a stretch
    Steps {
        /// After so many of them
        #[arg(long)]
        limit: Option<u64>,
    },
    /// Random programs of so many calls in all, compared with and without buffering at eight sizes
    Contract {
        #[arg(long, default_value_t = 20_000)]
        ops: u64,
    },
    /// An observer outside of a program of so many rounds
    Order {
        #[arg(long, default_value_t = 20_000)]
        rounds: u64,
    },
    /// A victim of which system calls fail
    Fail(Failing),
    /// The same with a disk that is full from then on
    Full(Failing),
    /// Sixteen threads and their signal handlers
    Storm {
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// PostgreSQL, Java and a log that is read, while any of their processes may be stopped
    Soak {
        #[arg(long, default_value_t = 3600)]
        seconds: u64,
    },
    /// The verbs of sweetspot-io against std
    Library {
        /// For each
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
}

#[derive(Debug, Args)]
struct Failing {
    /// Only every so many-th call fails
    #[arg(long, default_value_t = 1)]
    every: u64,
    /// The first that fails; else the seed says which of the first `--every`
    #[arg(long)]
    from: Option<u64>,
}

/// Fuzzes; returns the closing line.
pub fn run(settings: &Settings) -> Result<String, String> {
    let seed = settings.seed;
    let has_own_folders = matches!(
        settings.fuzzer,
        Fuzzer::Storm { .. } | Fuzzer::Soak { .. } | Fuzzer::Library { .. }
    );
    if has_own_folders && settings.on.is_some() {
        return Err("storm, soak and library know no --on".to_owned());
    }
    println!("seed {seed}");
    let kit = || match &settings.on {
        Some(kind) => Kit::build()?.on(kind),
        None => Kit::build(),
    };
    let which = |failing: &Failing| {
        let every = failing.every;
        fail::Which { every, from: failing.from.unwrap_or(1 + seed % every.max(1)) }
    };
    match &settings.fuzzer {
        Fuzzer::Kill { kills, slower } => kill::run(kit()?, *kills, (*slower).max(1), seed),
        Fuzzer::Steps { limit } => steps::run(kit()?, *limit, seed),
        Fuzzer::Contract { ops } => contract::run(kit()?, *ops, seed),
        Fuzzer::Order { rounds } => order::run(kit()?, *rounds, seed),
        Fuzzer::Fail(failing) => fail::run(kit()?, &which(failing), seed),
        Fuzzer::Full(failing) => fail::run_full(kit()?, &which(failing), seed),
        Fuzzer::Storm { seconds } => storm::run(kit()?, *seconds, seed),
        Fuzzer::Soak { seconds } => soak::run(kit()?, *seconds, seed),
        Fuzzer::Library { seconds } => library::run(*seconds, seed),
    }
}

/// Held by each test that starts victims, one after the other: each uses all processors, a `run`
/// finishes what it finds, and anyone who waits for all children waits for those of others, too.
#[cfg(test)]
pub use test_start::turn;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::needs;

    fn check(work: impl FnOnce(Kit) -> Result<String, String>) -> String {
        let _turn = turn();
        let line = Kit::build().and_then(work).unwrap_or_else(|wrong| panic!("{wrong}"));
        eprintln!("{line}");
        line
    }

    #[test]
    fn killed_programs_lose_and_double_nothing() {
        let line = check(|kit| kill::run(kit, 150, 1, 1));
        assert!(line.starts_with("150 kills, ") && line.ends_with(", 0 lost, 0 doubled"), "{line}");
    }

    #[test]
    fn a_program_killed_between_any_two_instructions_loses_nothing() {
        let line = check(|kit| steps::run(kit, Some(100), 1));
        assert!(line.starts_with("100 of ") && line.ends_with(", 0 lost, 0 doubled"), "{line}");
    }

    #[test]
    fn random_programs_are_the_same_at_every_size() {
        check(|kit| contract::run(kit, 4_000, 1));
    }

    #[test]
    fn random_programs_are_the_same_on_every_kind_of_file_system() {
        for kind in file_systems::KINDS {
            let _turn = turn();
            match Kit::build().and_then(|kit| kit.on(kind)) {
                Ok(kit) => {
                    let line = contract::run(kit, 600, 2);
                    eprintln!("{kind}: {}", line.unwrap_or_else(|wrong| panic!("{kind}: {wrong}")));
                }
                Err(why) if needs::in_ci() => panic!("a skip: {kind}: {why}"),
                Err(why) => eprintln!("skipped: {kind}: {why}"),
            }
        }
    }

    #[test]
    fn an_observer_outside_never_sees_an_effect_before_its_cause() {
        check(|kit| order::run(kit, 2_500, 1));
    }

    #[test]
    fn each_system_call_may_fail() {
        check(|kit| fail::run(kit, &fail::Which { every: 180, from: 8 }, 7));
    }

    #[test]
    fn what_a_full_disk_loses_is_said() {
        check(|kit| fail::run_full(kit, &fail::Which { every: 40, from: 8 }, 7));
    }

    #[test]
    fn threads_and_handlers_on_shared_descriptors() {
        check(|kit| storm::run(kit, 6, 1));
    }

    #[test]
    fn jobs_of_hours_lose_nothing_while_anyone_may_be_stopped() {
        check(|kit| soak::run(kit, 12, 1));
    }

    #[test]
    fn the_verbs_of_the_library_do_what_std_does() {
        let _turn = turn();
        let line = library::run(2, 1).unwrap_or_else(|wrong| panic!("{wrong}"));
        assert!(line.starts_with("7 targets, "), "{line}");
    }
}

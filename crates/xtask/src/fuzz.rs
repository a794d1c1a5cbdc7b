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

use kit::Kit;
use std::process::ExitCode;
use std::time::SystemTime;

const USAGE: &str = "\
cargo xtask fuzz kill [--kills N] [--slower N] [--seed S]
                                                  N victims, killed at random moments (300), which come
                                                  N times as late on a machine that is so slow (1)
cargo xtask fuzz steps [--limit N] [--seed S]     a victim killed after each instruction of a
                                                  stretch; with a limit, after N of them
cargo xtask fuzz contract [--ops N] [--seed S]    random programs of N calls in all, compared with
                                                  and without buffering at eight sizes (20000)
cargo xtask fuzz order [--rounds N] [--seed S]    an observer outside of a program of N rounds (20000)
cargo xtask fuzz fail [--every K] [--from N] [--seed S]
                                                  a victim of which each Kth system call fails (1),
                                                  the first time the Nth
cargo xtask fuzz full [--every K] [--from N] [--seed S]
                                                  the same with a disk that is full from then on (1)
cargo xtask fuzz storm [--seconds N] [--seed S]   sixteen threads and their signal handlers (60)
cargo xtask fuzz soak [--seconds N] [--seed S]    PostgreSQL, Java and a log that is read, for so long
                                                  (3600), while any of their processes may be stopped
cargo xtask fuzz library [--seconds N] [--seed S] the verbs of sweetspot-io against std, N seconds
                                                  each (60)

--on KIND     on a file system of another kind, which is made for it (needs root):
              seconds (ext4 with times in whole seconds), xfs, btrfs, tmpfs, overlay, fuse
";

/// Sizes at which victims are killed.
const KILL_SIZES: &[&str] = &["auto", "512", "64K", "1M"];

#[derive(Debug, PartialEq)]
struct Settings {
    /// The option that the command has besides: `--kills`, `--limit`, `--ops` ...
    count: Option<u64>,
    seed: Option<u64>,
    /// `fail` and `full`: the first system call that fails.
    from: Option<u64>,
    /// `kill`: how many times as late its moments come.
    slower: Option<u64>,
    /// The kind of file system on which it is done.
    on: Option<String>,
}

/// Runs `cargo xtask fuzz` with the words after `fuzz`.
pub fn main(words: &[&str]) -> ExitCode {
    let (name, counted): (_, &str) = match words.first() {
        Some(&name @ "kill") => (name, "--kills"),
        Some(&name @ "steps") => (name, "--limit"),
        Some(&name @ "contract") => (name, "--ops"),
        Some(&name @ "order") => (name, "--rounds"),
        Some(&name @ ("fail" | "full")) => (name, "--every"),
        Some(&name @ ("storm" | "soak" | "library")) => (name, "--seconds"),
        Some(&("--help" | "-h" | "help")) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let settings = match parse(&words[1..], counted) {
        Ok(settings) => settings,
        Err(problem) => {
            eprint!("xtask fuzz {name}: {problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = settings.seed.unwrap_or(since_epoch.map_or(0, |time| time.as_secs() % 1_000_000));
    println!("seed {seed}");
    let every = settings.count.unwrap_or(1);
    let which = fail::Which { every, from: settings.from.unwrap_or(1 + seed % every.max(1)) };
    let on_victims = |kit| match name {
        "kill" => {
            let slower = settings.slower.unwrap_or(1).max(1);
            kill::run(kit, settings.count.unwrap_or(300), slower, seed)
        }
        "steps" => steps::run(kit, settings.count, seed),
        "order" => order::run(kit, settings.count.unwrap_or(20_000), seed),
        "fail" => fail::run(kit, &which, seed),
        "full" => fail::run_full(kit, &which, seed),
        "storm" => storm::run(kit, settings.count.unwrap_or(60), seed),
        "soak" => soak::run(kit, settings.count.unwrap_or(3600), seed),
        _ => contract::run(kit, settings.count.unwrap_or(20_000), seed),
    };
    let result = match name {
        "library" => library::run(settings.count.unwrap_or(60), seed),
        _ => kit(settings.on.as_deref()).and_then(on_victims),
    };
    match result {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            eprintln!("xtask fuzz {name}: {wrong}");
            ExitCode::FAILURE
        }
    }
}

fn kit(on: Option<&str>) -> Result<Kit, String> {
    let kit = Kit::build()?;
    match on {
        Some(kind) => kit.on(kind),
        None => Ok(kit),
    }
}

fn parse(words: &[&str], counted: &str) -> Result<Settings, String> {
    let mut settings = Settings { count: None, seed: None, from: None, slower: None, on: None };
    let mut words = words.iter();
    while let Some(&option) = words.next() {
        let value = words.next().ok_or_else(|| format!("{option} needs a value after it"))?;
        if option == "--on" && counted != "--seconds" {
            settings.on = Some(value.to_string());
            continue;
        }
        let number = value.parse();
        let number = number.map_err(|_| format!("{option} needs a whole number, not {value:?}"))?;
        match option {
            "--seed" => settings.seed = Some(number),
            "--from" if counted == "--every" => settings.from = Some(number),
            "--slower" if counted == "--kills" => settings.slower = Some(number),
            _ if option == counted => settings.count = Some(number),
            _ => return Err(format!("unknown option {option}")),
        }
    }
    Ok(settings)
}

/// Held by each test that starts victims, one after the other: each uses all processors, a `run`
/// finishes what it finds, and anyone who waits for all children waits for those of others, too.
#[cfg(test)]
pub fn turn() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

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
        let line = check(|kit| kill::run(kit, 250, 1, 1));
        assert!(line.starts_with("250 kills, ") && line.ends_with(", 0 lost, 0 doubled"), "{line}");
    }

    #[test]
    fn a_program_killed_between_any_two_instructions_loses_nothing() {
        let line = check(|kit| steps::run(kit, Some(150), 1));
        assert!(line.starts_with("150 of ") && line.ends_with(", 0 lost, 0 doubled"), "{line}");
    }

    #[test]
    fn random_programs_are_the_same_at_every_size() {
        check(|kit| contract::run(kit, 6_000, 1));
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
        check(|kit| order::run(kit, 4_000, 1));
    }

    #[test]
    fn each_system_call_may_fail() {
        check(|kit| fail::run(kit, &fail::Which { every: 120, from: 8 }, 7));
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

    #[test]
    fn options_are_read() {
        let settings =
            |count, seed| Ok(Settings { count, seed, from: None, slower: None, on: None });
        assert_eq!(parse(&[], "--kills"), settings(None, None));
        assert_eq!(parse(&["--kills", "7", "--seed", "9"], "--kills"), settings(Some(7), Some(9)));
        for wrong in [&["--kills"][..], &["--kills", "many"], &["--limit", "7"]] {
            assert!(parse(wrong, "--kills").is_err(), "{wrong:?}");
        }
    }
}

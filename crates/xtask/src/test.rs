//! `cargo xtask test`: everything that must hold before a change goes in, as named steps.
//!
//! The last line is `N passed, M failed`: the sum over all test programs, where a step that failed
//! without naming a test (formatting, lints, a program that does not compile) counts as one.

#![allow(unsafe_code)]

use crate::commands::ends_with_us;
use crate::needs;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Tests that passed and failed.
#[derive(Clone, Copy, Default)]
struct Count {
    passed: u64,
    failed: u64,
}

struct Done {
    name: &'static str,
    took: Duration,
    passed: bool,
}

/// Runs all steps and prints a table of them. `filter` goes to the tests, to run only some; then
/// other people's tests are left out.
pub fn run(filter: &[&str]) -> bool {
    // Job control is tested, also where this was started with its interrupts ignored (cron, the
    // background of a script). Test programs see to that themselves (`test-start`); other people's
    // tests do not. SIGHUP stays ignored under nohup, so that this outlives its terminal.
    let job_control = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    for signal in [libc::SIGINT, libc::SIGQUIT].into_iter().chain(job_control) {
        // SAFETY: a constant disposition.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let mut done = Vec::new();
    let mut count = Count::default();
    let mut step = |name: &'static str, work: &mut dyn FnMut(&mut Count) -> bool| {
        println!("\n== {name}");
        let start = Instant::now();
        let failed_before = count.failed;
        let passed = work(&mut count);
        if !passed && count.failed == failed_before {
            count.failed += 1;
        }
        done.push(Done { name, took: start.elapsed(), passed });
    };
    step("setup", &mut |_| needs::install());
    step("formatting", &mut |_| cargo(&["fmt", "--all", "--check"]));
    step("lints", &mut |_| {
        cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
    });
    step("documentation", &mut |_| {
        let mut doc = command(&["doc", "--workspace", "--no-deps", "--document-private-items"]);
        doc.env("RUSTDOCFLAGS", "-D warnings").status().is_ok_and(|status| status.success())
    });
    let beside = filter.is_empty().then(|| thread::spawn(|| BESIDE.map(said_by)));
    step("tests", &mut |count| cargo_test(filter, count));
    if let Some(beside) = beside {
        let said = beside.join().expect("it does not panic");
        for ((name, _), mut said) in BESIDE.into_iter().zip(said) {
            step(name, &mut |_| show(&mut said));
        }
        // In one of the roots that are there now.
        step("packages", &mut |_| crate::package::quick());
    }
    println!();
    for Done { name, took, passed } in &done {
        let verdict = if *passed { "passed" } else { "FAILED" };
        println!("{name:<13} {verdict} {:7.1} s", took.as_secs_f64());
    }
    println!("{} passed, {} failed", count.passed, count.failed);
    count.failed == 0
}

/// Compiles what others build upon with the oldest compiler that it promises to be content with.
/// A command of its own: not everyone who tests has rustup, and may have it install something.
pub fn oldest_compiler() -> bool {
    let rustup = |words: &[&str]| {
        println!("$ rustup {}", words.join(" "));
        let status = Command::new("rustup").args(words).stdin(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let version = env!("CARGO_PKG_RUST_VERSION");
    if !rustup(&["run", version, "rustc", "--version"])
        && !rustup(&["toolchain", "install", version, "--profile", "minimal"])
    {
        eprintln!("xtask: rustup cannot install Rust {version}");
        return false;
    }
    rustup(&["run", version, "cargo", "check", "-p", "sweetspot-io", "--all-features", "--locked"])
}

/// What runs beside the tests, which wait a good deal, one after the other: the table of programs in roots of
/// the oldest and the newest Debian, and other people's tests.
const BESIDE: [(&str, [&str; 2]); 2] =
    [("other roots", ["matrix", "--short"]), ("conformance", ["conformance", "--quick"])];

/// Runs a command of xtask; returns whether it ended well, and what it said.
fn said_by((_, words): (&str, [&str; 2])) -> io::Result<(bool, File)> {
    let says = tempfile::tempfile()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).stdin(Stdio::null()).stdout(says.try_clone()?).stderr(says.try_clone()?);
    let begun = Instant::now();
    let status = ends_with_us(&mut command).status()?;
    writeln!(&says, "({:.1} s beside the tests)", begun.elapsed().as_secs_f64())?;
    Ok((status.success(), says))
}

fn show(said: &mut io::Result<(bool, File)>) -> bool {
    let shown = said.as_mut().map_err(|error| error.to_string()).and_then(|(passed, says)| {
        let shown = says.rewind().and_then(|()| io::copy(says, &mut io::stdout()));
        shown.map(|_| *passed).map_err(|error| error.to_string())
    });
    shown.unwrap_or_else(|error| {
        println!("not run: {error}");
        false
    })
}

/// Runs cargo with what it prints going straight to the terminal.
fn cargo(arguments: &[&str]) -> bool {
    let status = command(arguments).status();
    status.is_ok_and(|status| status.success())
}

/// Runs all tests and adds up what their programs report.
fn cargo_test(filter: &[&str], count: &mut Count) -> bool {
    let mut arguments = vec!["test", "--workspace", "--no-fail-fast"];
    arguments.extend(filter);
    let child = command(&arguments).stdout(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            eprintln!("xtask: cannot start cargo: {error}");
            return false;
        }
    };
    let output = child.stdout.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines());
    for line in output.map_while(Result::ok) {
        println!("{line}");
        let _ = std::io::stdout().flush();
        let reported = counted(&line).unwrap_or_default();
        count.passed += reported.passed;
        count.failed += reported.failed;
    }
    child.wait().is_ok_and(|status| status.success())
}

/// The numbers in the last line of a test program:
/// `test result: ok. 7 passed; 0 failed; 0 ignored; ...`.
fn counted(line: &str) -> Option<Count> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |unit: &str| {
        let mut parts = numbers.split(';').map(str::trim);
        parts.find_map(|part| part.strip_suffix(unit)?.trim().parse().ok())
    };
    Some(Count { passed: number("passed")?, failed: number("failed")? })
}

fn command(arguments: &[&str]) -> Command {
    println!("$ cargo {}", arguments.join(" "));
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn results_are_counted() {
        let check = |line: &str, expected: Option<(u64, u64)>| {
            let found = counted(line).map(|count| (count.passed, count.failed));
            assert_eq!(found, expected, "{line}");
        };
        check("test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured", Some((7, 0)));
        check(
            "test result: FAILED. 18 passed; 2 failed; 0 ignored; finished in 9 s",
            Some((18, 2)),
        );
        check("test shell ... ok", None);
        check("test result: ok. none", None);
    }
}

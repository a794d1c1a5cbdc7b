//! `cargo xtask test`: everything that must hold before a change goes in, as named steps.
//!
//! The last line is `N passed, M failed`: the sum over all test programs, where a step that failed
//! without naming a test (formatting, lints, a program that does not compile) counts as one.

#![allow(unsafe_code)]

use crate::commands::ends_with_us;
use crate::needs;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Tests that passed and failed.
#[derive(Default)]
struct Count {
    passed: u64,
    failed: u64,
    /// The lines that name what failed: said again at the end, as few read what is above.
    wrong: Vec<String>,
}

impl Count {
    /// Prints a line of a test program's, and counts what it reports.
    fn note(&mut self, line: &str) {
        println!("{line}");
        let _ = io::stdout().flush();
        let (passed, failed) = counted(line).unwrap_or_default();
        self.passed += passed;
        self.failed += failed;
        if is_of_a_failure(line) && self.wrong.len() < WRONG_MAX {
            self.wrong.push(line.to_owned());
        }
    }
}

/// How many of these lines are said again.
const WRONG_MAX: usize = 40;
/// How many of its last lines, where what failed named no test.
const WRONG_LAST: usize = 8;

struct Done {
    name: &'static str,
    took: Duration,
    passed: bool,
}

/// Runs all steps and prints a table of them. `filter` goes to the tests, to run only some; then
/// other people's tests are left out.
pub fn run(filter: &[String]) -> bool {
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
        doc.args(["--features", "sweetspot-io/uring,sweetspot-io/async"]);
        // As where documentation is all that is made: without the library.
        doc.env("RUSTDOCFLAGS", "-D warnings").env("DOCS_RS", "1");
        doc.status().is_ok_and(|status| status.success())
    });
    if filter.is_empty() {
        // Who builds would wait for the tests of another `cargo`, or they for it.
        step("building", &mut |_| cargo(&["test", "--workspace", "--quiet", "--no-run"]));
        let beside = thread::spawn(|| BESIDE.map(|(_, how)| how.said()));
        step("tests", &mut |count| cargo_test(TESTS, count));
        let said = beside.join().expect("it does not panic");
        for ((name, _), mut said) in BESIDE.into_iter().zip(said) {
            step(name, &mut |count| show(&mut said, count));
        }
    } else {
        let words: Vec<_> =
            ["--workspace"].into_iter().chain(filter.iter().map(String::as_str)).collect();
        step("tests", &mut |count| cargo_test(&words, count));
    }
    println!();
    for Done { name, took, passed } in &done {
        let verdict = if *passed { "passed" } else { "FAILED" };
        println!("{name:<13} {verdict} {:7.1} s", took.as_secs_f64());
    }
    count.wrong.iter().for_each(|line| println!("{line}"));
    println!("{} passed, {} failed", count.passed, count.failed);
    count.failed == 0
}

/// Makes the library's crate as it would be published, and compiles that. Nothing is sent.
pub fn publishable() -> bool {
    cargo(&["publish", "--dry-run", "--allow-dirty", "-p", "sweetspot-io", "--all-features"])
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

/// The tests that are said as they go: all but the table of programs, the pages, and the unit tests of xtask, which are
/// the short fuzzers. The workspace is always asked for as a whole, so that nothing is compiled with other features.
const TESTS: &[&str] = &[
    "--workspace",
    "--lib",
    "--bin",
    "sweetspot",
    "--test",
    "[!p]*",
    "--test",
    "p[!ar]*",
    "--test",
    "pr[!o]*",
    "--test",
    "profile",
];

/// What runs beside them, one after the other, as either half waits a good deal: the table of programs in roots of
/// the oldest and the newest Debian, other people's tests, the fuzzers, the examples in the documentation, the table
/// of programs here and the pages, and the packages (in one of the roots that are there now).
const BESIDE: [(&str, Beside); 6] = [
    ("other roots", Beside::Xtask(&["matrix", "--short"])),
    ("conformance", Beside::Xtask(&["conformance", "--quick"])),
    ("fuzzers", Beside::Cargo(&["test", "--workspace", "--bin", "xtask"])),
    ("examples", Beside::Cargo(&["test", "--workspace", "--doc"])),
    ("programs", Beside::Cargo(&["test", "--workspace", "--test", "programs", "--test", "pages"])),
    ("packages", Beside::Xtask(&["packages", "--quick"])),
];

/// A command of xtask, or of cargo.
#[derive(Clone, Copy)]
enum Beside {
    Xtask(&'static [&'static str]),
    Cargo(&'static [&'static str]),
}

impl Beside {
    /// Runs it; returns whether it ended well, and what it said.
    fn said(self) -> io::Result<(bool, File)> {
        let says = tempfile::tempfile()?;
        let mut command = match self {
            Beside::Xtask(words) => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(words);
                command
            }
            Beside::Cargo(words) => command(words),
        };
        command.stdin(Stdio::null()).stdout(says.try_clone()?).stderr(says.try_clone()?);
        let begun = Instant::now();
        let status = ends_with_us(&mut command).status()?;
        writeln!(&says, "({:.1} s beside the tests)", begun.elapsed().as_secs_f64())?;
        Ok((status.success(), says))
    }
}

/// Prints what was said, and counts the tests in it.
fn show(said: &mut io::Result<(bool, File)>, count: &mut Count) -> bool {
    let shown = said.as_mut().map_err(|error| error.to_string()).and_then(|(passed, says)| {
        let mut text = Vec::new();
        let read = says.rewind().and_then(|()| says.read_to_end(&mut text));
        read.map(|_| (*passed, text)).map_err(|error| error.to_string())
    });
    match shown {
        Ok((passed, text)) => {
            let text = String::from_utf8_lossy(&text);
            let named = count.wrong.len();
            text.lines().for_each(|line| count.note(line));
            if !passed && count.wrong.len() == named {
                let first = text.lines().count().saturating_sub(WRONG_LAST);
                count.wrong.extend(text.lines().skip(first).map(str::to_owned));
            }
            passed
        }
        Err(error) => {
            println!("not run: {error}");
            false
        }
    }
}

/// Runs cargo with what it prints going straight to the terminal.
fn cargo(arguments: &[&str]) -> bool {
    let status = command(arguments).status();
    status.is_ok_and(|status| status.success())
}

/// Runs tests and adds up what their programs report.
fn cargo_test(words: &[&str], count: &mut Count) -> bool {
    let mut arguments = vec!["test", "--no-fail-fast"];
    arguments.extend(words);
    let child = command(&arguments).stdout(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            eprintln!("xtask: cannot start cargo: {error}");
            return false;
        }
    };
    let output = child.stdout.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines());
    output.map_while(Result::ok).for_each(|line| count.note(&line));
    child.wait().is_ok_and(|status| status.success())
}

/// The numbers in the last line of a test program:
/// `test result: ok. 7 passed; 0 failed; 0 ignored; ...`.
fn counted(line: &str) -> Option<(u64, u64)> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |unit: &str| {
        let mut parts = numbers.split(';').map(str::trim);
        parts.find_map(|part| part.strip_suffix(unit)?.trim().parse().ok())
    };
    Some((number("passed")?, number("failed")?))
}

/// Whether a line names a test that failed, or says what did in another system.
fn is_of_a_failure(line: &str) -> bool {
    let is_test = line.starts_with("test ") || line.contains(" --- ");
    (is_test && line.ends_with("FAILED"))
        || line.contains(" FAILS ")
        || line.contains("panicked at")
        || ["  left: ", " right: "].iter().any(|side| line.starts_with(side))
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
    use super::{counted, is_of_a_failure};
    use std::fs;
    use std::path::Path;

    #[test]
    fn results_are_counted() {
        let check = |line: &str, expected: Option<(u64, u64)>| {
            assert_eq!(counted(line), expected, "{line}");
        };
        check("test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured", Some((7, 0)));
        check(
            "test result: FAILED. 18 passed; 2 failed; 0 ignored; finished in 9 s",
            Some((18, 2)),
        );
        check("test shell ... ok", None);
        check("test result: ok. none", None);
    }

    /// `TESTS` names those that begin like the two that run beside them.
    #[test]
    fn every_test_program_is_run() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of crates");
        let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
        let folders = entries(crates).flat_map(|made| entries(&made.path().join("tests")));
        let names =
            folders.filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()));
        let is_alike =
            |name: &String| ["pa", "pro"].into_iter().any(|alike| name.starts_with(alike));
        let mut alike: Vec<_> = names.filter(is_alike).collect();
        alike.sort();
        assert_eq!(alike, ["pages", "profile", "programs"]);
    }

    #[test]
    fn what_failed_is_named() {
        let named = [
            "test c_sharing ... FAILED",
            "start::few --- FAILED",
            "programs     FAILS     159.7 s  25 passed groups",
            "thread 'main' (7) panicked at crates/one/src/main.rs:1:1:",
            "  left: Some(\"seen\\n\")",
            " right: None",
        ];
        assert!(named.into_iter().all(is_of_a_failure));
        let others = ["test c_sharing ... ok", "test result: FAILED. 1 passed; 1 failed", "FAILED"];
        assert!(!others.into_iter().any(is_of_a_failure));
    }
}

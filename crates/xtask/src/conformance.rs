//! `cargo xtask conformance`: other people's tests and everyday programs, as they are and under
//! `sweetspot run` at each buffer size. The list of differences must be empty.
//!
//! A check yields named results: each test of a module of CPython's own suite, or the exit status,
//! the output and every file of a line of shell. A result that differs is asked for natively twice
//! more: one that differs from itself is named as unstable and not counted.
//!
//! Not here: what the programs under test are ([`python`], [`table`]).

mod python;
mod shell;
mod table;

pub use shell::saved;

use crate::fuzz::kit::Kit;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

const USAGE: &str = "\
cargo xtask conformance [--sizes LIST] [--only NAME] [--quick]

  --sizes LIST   buffer sizes, with commas between them (auto,1,512,64K,1M)
  --only NAME    only checks whose name contains NAME
  --quick        the short form: fewer checks, fewer operations, sizes auto and 512
";
const SIZES: &[&str] = &["auto", "1", "512", "64K", "1M"];
const SIZES_QUICK: &[&str] = &["auto", "512"];
/// Checks that run side by side.
const JOBS_MAX: usize = 2;
/// How often a check that differs is done again natively, to see whether it differs from itself.
const AGAIN: usize = 2;

/// What a check found: names and outcomes.
type Results = BTreeMap<String, String>;

struct Check {
    /// "python test_io", "fsx small".
    name: String,
    /// In the short form, too.
    is_quick: bool,
    /// Something must have been buffered, or the check shows nothing.
    is_buffered: bool,
    kind: Kind,
}

enum Kind {
    /// A module of CPython's test suite.
    Python(&'static str),
    Shell(table::Script),
}

/// How the programs of a check are run.
#[derive(Clone, Copy)]
enum Under<'a> {
    Nothing,
    Size(&'a str),
    /// At size `auto`, with a summary of what was buffered.
    Summary,
}

/// What all checks need.
struct Bench {
    kit: Kit,
    /// `target/tools/bin`, where fsx is.
    tools: PathBuf,
    quick: bool,
}

#[derive(Default)]
struct Verdict {
    results: usize,
    differences: Vec<String>,
    unstable: BTreeSet<String>,
    seconds: f64,
}

#[derive(Debug, PartialEq)]
struct Settings {
    sizes: Vec<String>,
    only: String,
    quick: bool,
}

/// Runs `cargo xtask conformance` with the words after it.
pub fn main(words: &[&str]) -> ExitCode {
    if matches!(words, ["--help" | "-h" | "help"]) {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let settings = match parse(words) {
        Ok(settings) => settings,
        Err(problem) => {
            eprint!("xtask conformance: {problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&settings) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(wrong) => {
            eprintln!("xtask conformance: {wrong}");
            ExitCode::FAILURE
        }
    }
}

fn parse(words: &[&str]) -> Result<Settings, String> {
    let mut settings = Settings { sizes: Vec::new(), only: String::new(), quick: false };
    let mut words = words.iter();
    while let Some(&option) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{option} needs a value after it"));
        match option {
            "--sizes" => settings.sizes = value()?.split(',').map(str::to_owned).collect(),
            "--only" => settings.only = (*value()?).to_owned(),
            "--quick" => settings.quick = true,
            _ => return Err(format!("unknown option {option}")),
        }
    }
    if settings.sizes.is_empty() {
        let sizes = if settings.quick { SIZES_QUICK } else { SIZES };
        settings.sizes = sizes.iter().map(|size| (*size).to_owned()).collect();
    }
    Ok(settings)
}

/// Does all checks that are asked for. Returns whether nothing differs.
fn run(settings: &Settings) -> Result<bool, String> {
    let mut checks: Vec<Check> = python::checks().chain(table::checks()).collect();
    checks
        .retain(|check| check.name.contains(&settings.only) && (check.is_quick || !settings.quick));
    let (checks, missing): (Vec<Check>, Vec<Check>) =
        checks.into_iter().partition(|check| check.needs().all(crate::needs::is_there));
    for check in &missing {
        let lacking: Vec<_> = check.needs().filter(|name| !crate::needs::is_there(name)).collect();
        println!("skipped: {} (no {})", check.name, lacking.join(", "));
    }
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let tools = crate::needs::tools().join("bin");
    let bench = Bench { kit: Kit::build()?, tools, quick: settings.quick };
    let verdicts = work_through(&bench, &checks, &settings.sizes);
    let report = report(&checks, &verdicts, &settings.sizes);
    let path = target.join("conformance.md");
    std::fs::write(&path, &report).map_err(|error| format!("{}: {error}", path.display()))?;
    let differences: Vec<&String> =
        verdicts.iter().flat_map(|verdict| &verdict.differences).collect();
    for difference in &differences {
        println!("{difference}");
    }
    println!(
        "{} checks, {} results each at {} sizes, {} differences; {}",
        checks.len(),
        verdicts.iter().map(|verdict| verdict.results).sum::<usize>(),
        settings.sizes.len(),
        differences.len(),
        path.canonicalize().unwrap_or(path).display()
    );
    let skipped_in_ci = !missing.is_empty() && crate::needs::in_ci();
    if skipped_in_ci {
        println!("in CI a skip is a failure");
    }
    Ok(differences.is_empty() && !skipped_in_ci)
}

/// Does the checks, several side by side, and says on a terminal how far it is.
fn work_through(bench: &Bench, checks: &[Check], sizes: &[String]) -> Vec<Verdict> {
    let verdicts: Vec<Mutex<Verdict>> = checks.iter().map(|_| Mutex::default()).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let jobs = std::thread::available_parallelism().map_or(1, usize::from).min(JOBS_MAX);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Relaxed);
                    let Some(check) = checks.get(place) else { break };
                    let begun = Instant::now();
                    let mut verdict = check.compare(bench, sizes);
                    verdict.seconds = begun.elapsed().as_secs_f64();
                    progress(done.fetch_add(1, Relaxed) + 1, checks.len(), &check.name);
                    *verdicts[place].lock().unwrap_or_else(PoisonError::into_inner) = verdict;
                }
            });
        }
    });
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    let unlocked = verdicts.into_iter().map(Mutex::into_inner);
    unlocked.map(|verdict| verdict.unwrap_or_else(PoisonError::into_inner)).collect()
}

fn progress(done: usize, all: usize, name: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{done} of {all}  {name}");
        let _ = std::io::stderr().flush();
    }
}

impl Check {
    fn needs(&self) -> Box<dyn Iterator<Item = &'static str> + '_> {
        match &self.kind {
            Kind::Python(_) => Box::new(python::NEEDS.iter().copied()),
            Kind::Shell(script) => Box::new(script.needs.iter().copied()),
        }
    }

    fn perform(&self, bench: &Bench, under: Under) -> Result<Results, String> {
        match &self.kind {
            Kind::Python(module) => python::perform(bench, module, under),
            Kind::Shell(script) => shell::perform(bench, script, under),
        }
    }

    /// Compares without and with buffering at each size.
    fn compare(&self, bench: &Bench, sizes: &[String]) -> Verdict {
        let mut verdict = Verdict::default();
        let native = match self.perform(bench, Under::Nothing) {
            Ok(native) => native,
            Err(wrong) => {
                verdict.differences.push(format!("{}: as it is: {wrong}", self.name));
                return verdict;
            }
        };
        verdict.results = native.len();
        for size in sizes {
            match self.perform(bench, Under::Size(size)) {
                Ok(seen) => {
                    for (name, text) in differing(&native, &seen) {
                        verdict.differences.push(format!("{} {size}: {name}: {text}", self.name));
                        verdict.unstable.insert(name);
                    }
                }
                Err(wrong) => verdict.differences.push(format!("{} {size}: {wrong}", self.name)),
            }
        }
        self.forgive_unstable(bench, &native, &mut verdict);
        if self.is_buffered
            && let Err(wrong) = self.perform(bench, Under::Summary)
        {
            verdict.differences.push(format!("{}: {wrong}", self.name));
        }
        verdict
    }

    /// Takes back what differs natively, too. `verdict.unstable` holds what differed.
    fn forgive_unstable(&self, bench: &Bench, native: &Results, verdict: &mut Verdict) {
        let suspects = std::mem::take(&mut verdict.unstable);
        for _ in 0..if suspects.is_empty() { 0 } else { AGAIN } {
            let Ok(again) = self.perform(bench, Under::Nothing) else { continue };
            let names = differing(native, &again).into_iter().map(|(name, _)| name);
            verdict.unstable.extend(names.filter(|name| suspects.contains(name)));
        }
        let unstable = &verdict.unstable;
        verdict.differences.retain(|difference| {
            !unstable.iter().any(|name| difference.contains(&format!(": {name}: ")))
        });
    }
}

/// The names whose results differ, and how.
fn differing(native: &Results, seen: &Results) -> Vec<(String, String)> {
    let names: BTreeSet<&String> = native.keys().chain(seen.keys()).collect();
    let missing = "not there".to_owned();
    let compared = names.into_iter().filter_map(|name| {
        let before = native.get(name).unwrap_or(&missing);
        let now = seen.get(name).unwrap_or(&missing);
        (before != now).then(|| (name.clone(), format!("{now}, natively {before}")))
    });
    compared.collect()
}

fn report(checks: &[Check], verdicts: &[Verdict], sizes: &[String]) -> String {
    let mut text = format!("# Conformance at {}\n\n", sizes.join(", "));
    text.push_str("| check | results | seconds | differences | unstable natively |\n");
    text.push_str("|---|---:|---:|---|---|\n");
    for (check, verdict) in checks.iter().zip(verdicts) {
        let list = |items: &mut dyn Iterator<Item = &String>| {
            items.map(|item| item.replace('|', "\\|")).collect::<Vec<_>>().join("<br>")
        };
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {} | {} |",
            check.name,
            verdict.results,
            verdict.seconds,
            list(&mut verdict.differences.iter()),
            list(&mut verdict.unstable.iter()),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_conformance_are_read() {
        let settings = |sizes: &[&str], only: &str, quick| {
            let sizes = sizes.iter().map(|size| (*size).to_owned()).collect();
            Ok(Settings { sizes, only: only.to_owned(), quick })
        };
        assert_eq!(parse(&[]), settings(SIZES, "", false));
        assert_eq!(parse(&["--quick"]), settings(SIZES_QUICK, "", true));
        let words = ["--sizes", "1,64K", "--only", "fsx"];
        assert_eq!(parse(&words), settings(&["1", "64K"], "fsx", false));
        for wrong in [&["--sizes"][..], &["--only"], &["fsx"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_differs_is_named() {
        let results = |pairs: &[(&str, &str)]| -> Results {
            pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        let native = results(&[("a", "passed"), ("b", "passed"), ("c", "failed")]);
        assert!(differing(&native, &native).is_empty());
        let seen = results(&[("a", "passed"), ("b", "failed"), ("d", "passed")]);
        let names: Vec<String> =
            differing(&native, &seen).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["b", "c", "d"]);
    }
}

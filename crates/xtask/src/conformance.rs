//! `cargo xtask conformance`: other people's tests and everyday programs, as they are and under
//! `sweetspot run` at each buffer size. The list of differences must be empty.
//!
//! A check yields named results: each test of a module of CPython's own suite, or the exit status,
//! the output and every file of a line of shell. A result that differs is asked for twice more,
//! natively and at its size. One that differs from itself natively is named as unstable and not
//! counted. One that does not differ again is named as seen once: a machine that does much else
//! makes such, so that they count in the whole form only.
//!
//! Not here: what the programs under test are ([`python`], [`table`]).

mod python;
mod shell;
mod table;

pub use crate::saved::saved;

use crate::fuzz::kit::Kit;
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

const SIZES: &[&str] = &[AUTO, "1", "512", "64K", "1M"];
/// Those of the short form: each check at one of them, in turns.
const SIZES_QUICK: &[&str] = &[AUTO, "512"];
const AUTO: &str = "auto";
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
    /// Something must be buffered in it, which is asked for at `auto`, or the check shows nothing.
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
    /// At size `auto`, with a summary of what was buffered, which must be something.
    Summary,
}

/// What all checks need.
struct Bench {
    kit: Kit,
    /// `target/tools/bin`, where fsx is.
    tools: PathBuf,
    quick: bool,
}

/// Something that is not the same with buffering.
struct Difference {
    /// Empty: the check as a whole.
    result: String,
    size: String,
    text: String,
    /// It did not differ again.
    once: bool,
}

#[derive(Default)]
struct Verdict {
    results: usize,
    differences: Vec<Difference>,
    unstable: BTreeSet<String>,
    seconds: f64,
}

#[derive(Debug, Args)]
pub struct Settings {
    /// Buffer sizes, with commas between them (auto,1,512,64K,1M)
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    sizes: Vec<String>,
    /// Only checks whose name contains this
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    only: String,
    /// The short form: fewer checks, fewer operations, at auto or 512 in turns
    #[arg(long)]
    quick: bool,
}

/// The buffer sizes of a run.
struct Sizes {
    sizes: Vec<String>,
    /// Each check is done at one of them.
    in_turns: bool,
}

impl Sizes {
    fn new(settings: &Settings) -> Sizes {
        let usual = if settings.quick { SIZES_QUICK } else { SIZES };
        let in_turns = settings.quick && settings.sizes.is_empty();
        let sizes = match settings.sizes.is_empty() {
            true => usual.iter().map(|size| (*size).to_owned()).collect(),
            false => settings.sizes.clone(),
        };
        Sizes { sizes, in_turns }
    }

    /// Those of one check.
    fn of(&self, place: usize) -> &[String] {
        let turn = place % self.sizes.len();
        if self.in_turns { &self.sizes[turn..=turn] } else { &self.sizes }
    }
}

/// Does all checks that are asked for. Returns whether nothing differs.
///
/// # Errors
/// They could not begin, or their report not be written.
pub fn run(settings: &Settings) -> Result<bool, String> {
    let sizes = Sizes::new(settings);
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
    let verdicts = work_through(&bench, &checks, &sizes);
    let report = report(&checks, &verdicts, &sizes.sizes);
    let path = target.join("conformance.md");
    std::fs::write(&path, &report).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut differences = 0;
    for (check, verdict) in checks.iter().zip(&verdicts) {
        for difference in &verdict.differences {
            println!("{} {}", check.name, difference.said());
            differences += usize::from(!(settings.quick && difference.once));
        }
    }
    println!(
        "{} checks, {} results, {}{}, {differences} differences; {}",
        checks.len(),
        verdicts.iter().map(|verdict| verdict.results).sum::<usize>(),
        if sizes.in_turns { "each at one of " } else { "each at " },
        sizes.sizes.join(", "),
        path.canonicalize().unwrap_or(path).display()
    );
    let skipped_in_ci = !missing.is_empty() && crate::needs::in_ci();
    if skipped_in_ci {
        println!("in CI a skip is a failure");
    }
    Ok(differences == 0 && !skipped_in_ci)
}

/// Does the checks, several side by side, and says on a terminal how far it is.
fn work_through(bench: &Bench, checks: &[Check], sizes: &Sizes) -> Vec<Verdict> {
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
                    let mut verdict = check.compare(bench, sizes.of(place));
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
                verdict.differences.push(Difference::whole("as it is", wrong));
                return verdict;
            }
        };
        verdict.results = native.len();
        for size in sizes {
            match self.perform(bench, self.under(size)) {
                Ok(seen) => {
                    let found = differing(&native, &seen).into_iter();
                    verdict.differences.extend(found.map(|(result, text)| Difference {
                        result,
                        size: size.clone(),
                        text,
                        once: true,
                    }));
                }
                Err(wrong) => verdict.differences.push(Difference::whole(size, wrong)),
            }
        }
        self.look_again(bench, &native, &mut verdict);
        verdict
    }

    fn under<'a>(&self, size: &'a str) -> Under<'a> {
        if self.is_buffered && size == AUTO { Under::Summary } else { Under::Size(size) }
    }

    /// Takes back what differs natively, too, and finds out what differs again.
    fn look_again(&self, bench: &Bench, native: &Results, verdict: &mut Verdict) {
        let again = |under: Under| -> BTreeSet<String> {
            let seen = (0..AGAIN).filter_map(|_| self.perform(bench, under).ok());
            seen.flat_map(|seen| differing(native, &seen)).map(|(name, _)| name).collect()
        };
        if verdict.differences.iter().any(|difference| difference.once) {
            let unstable = again(Under::Nothing);
            let (by_itself, differs): (Vec<_>, Vec<_>) = std::mem::take(&mut verdict.differences)
                .into_iter()
                .partition(|difference| unstable.contains(&difference.result));
            verdict.differences = differs;
            verdict.unstable = by_itself.into_iter().map(|difference| difference.result).collect();
        }
        let once = verdict.differences.iter().filter(|difference| difference.once);
        let sizes: BTreeSet<String> = once.map(|difference| difference.size.clone()).collect();
        for size in sizes {
            let differs = again(Under::Size(&size));
            let found = verdict.differences.iter_mut().filter(|found| found.size == size);
            found.for_each(|found| found.once &= !differs.contains(&found.result));
        }
    }
}

impl Difference {
    /// Of a check that has no results to compare.
    fn whole(size: &str, text: String) -> Difference {
        Difference { result: String::new(), size: size.to_owned(), text, once: false }
    }

    fn said(&self) -> String {
        let Difference { result, size, text, once } = self;
        let once = if *once { " (seen once, and not again)" } else { "" };
        match result.as_str() {
            "" => format!("{size}: {text}{once}"),
            result => format!("{size}: {result}: {text}{once}"),
        }
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
        let list = |items: &mut dyn Iterator<Item = String>| {
            items.map(|item| item.replace('|', "\\|")).collect::<Vec<_>>().join("<br>")
        };
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {} | {} |",
            check.name,
            verdict.results,
            verdict.seconds,
            list(&mut verdict.differences.iter().map(Difference::said)),
            list(&mut verdict.unstable.iter().cloned()),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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

//! `sweetspot verify`: proof on the user's own job that buffering changes nothing.
//!
//! The command runs twice as it is, to learn what differs by itself, and then under `run` at each
//! size; everything that can be seen is compared. Where something differs the command runs once more
//! as it is: what a plain run can do, too, is not held against buffering.
//!
//! ```text
//! compare   two runs in all that can be seen; what differs by itself
//! order     which files were modified after which
//! content   the first difference of two contents; times and process numbers in texts
//! place     which files a run changed, where there is no sandbox
//! ```
//!
//! What is said in the end is `sweetspot_report::verify`'s.
//!
//! Invariant: with a sandbox nothing outside of its scratch folder is written, but the library's
//! file in the cache.

mod compare;
mod content;
mod order;
mod place;
mod runs;

use crate::arguments::Verify;
use crate::environment::Environment;
use crate::processes::{has_processes, no_processes};
use crate::reach::{self, Reach};
use crate::say::say;
use crate::{buffer, config, preload, probe, recover, resolve};
use compare::{Outcome, words_of_end};
use runs::{Runs, Way};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use sweetspot_core::environment as names;
use sweetspot_core::ledger::RULES_MAX;
use sweetspot_core::size::{Parsed, parse};
use sweetspot_report::failure::Failure;
use sweetspot_report::print::print;
use sweetspot_report::shown::lines;
use sweetspot_report::shown::shown;
use sweetspot_report::verify::{
    Buffered, Compared, Difference, Noise, Verdict, Word, note_of_order,
};
use sweetspot_sandbox::Content;

/// Exit statuses: as `cmp`, and one for what cannot be told.
const STATUS_DIFFERS: u8 = 1;
const STATUS_TROUBLE: u8 = 2;
const STATUS_CANNOT_TELL: u8 = 3;
/// How many more plain runs are spent on a difference that a plain run might show, too.
const CONFIRMATIONS_MAX: usize = 2;
/// How often is looked whether a run has ended, or Ctrl-C was typed.
const LOOK: Duration = Duration::from_millis(5);
/// How long an interrupted run may take to end before it is killed.
const END_PATIENCE: Duration = Duration::from_secs(12);
/// Clocks of files run a tick behind: a change this soon after a look might go unseen.
const TICK: Duration = Duration::from_millis(20);
/// Anyone who gives us a pipe that nobody writes into learns after this why nothing happens.
const INPUT_PATIENCE: Duration = Duration::from_secs(2);

/// Runs the command again and again, and prints the verdict.
///
/// # Errors
/// Where it cannot be run or compared; the exit status is 2.
pub fn verify(arguments: &Verify) -> Result<u8, Failure> {
    let verdict = story(arguments).map_err(|failure| failure.status(STATUS_TROUBLE))?;
    let printed = print(&lines(&verdict.text(&arguments.command, arguments.stdio)));
    printed.map_err(|failure| failure.status(STATUS_TROUBLE))?;
    Ok(match verdict.word {
        Word::Identical => 0,
        Word::Differs(..) => STATUS_DIFFERS,
        Word::CannotTell(_) => STATUS_CANNOT_TELL,
    })
}

fn story(arguments: &Verify) -> Result<Verdict, Failure> {
    let path = std::env::var_os("PATH");
    let name = &arguments.command[0];
    let program =
        resolve::find(name, path.as_deref()).map_err(|missing| resolve::failure(name, &missing))?;
    check_environment()?;
    // A program that is not buffered itself may start others that are.
    let takes_library = match reach::inspect(&program, path.as_deref()) {
        Reach::Reachable => false,
        unreachable => unreachable.takes_library(),
    };
    let answer = probe::ask(&program, &Environment::own());
    if let (Some(obstacle), false) = (answer.obstacle(), takes_library) {
        let shown = shown(&program);
        return Ok(Verdict::never_run(format!("{shown} cannot be buffered: {obstacle}")));
    }
    let rules = rules(arguments)?;
    let sizes = sizes(arguments)?;
    // Before anything runs, so that no run finds more to do than the others.
    recover::clear_up();
    preload::install()?;

    let mut runs = Runs::new(arguments, rules)?;
    let mut noise = Noise::default();
    let mut plain = vec![runs.run(&Way::Plain)?, runs.run(&Way::Plain)?];
    compare::learn(&mut noise, &plain[0], &plain[1]).map_err(cannot_compare)?;
    runs.save_space(&mut plain)?;
    let mut buffered = Vec::new();
    let mut notes = Vec::new();
    for size in &sizes {
        for _ in 0..arguments.runs {
            let way = Way::Buffered(size.clone());
            let outcome = runs.run(&way)?;
            let number = runs.last();
            let (figures, seconds) = (runs.figures(&outcome)?, outcome.seconds);
            buffered.push(Buffered { size: size.clone(), figures, seconds });
            let found = confirmed(&mut runs, &mut plain, &outcome, &mut noise, &mut notes)?;
            if !found.is_empty() {
                let word = Word::Differs(found, size.clone());
                return Ok(Verdict::new(word, &compared(&plain[0]), &noise, buffered, notes));
            }
            runs.forget(number)?;
        }
    }
    notes.extend(runs.notes(&plain[0], &arguments.command));
    let inactive = buffered.iter().find_map(|run| run.figures.inactive.clone());
    let word = match inactive {
        Some(why) => Word::CannotTell(Some(why)),
        None if noise.unexplained().next().is_some() => Word::CannotTell(None),
        None => Word::Identical,
    };
    Ok(Verdict::new(word, &compared(&plain[0]), &noise, buffered, notes))
}

/// What differs between plain runs and a buffered one, and goes on differing when plain ones are repeated:
/// each teaches what differs by itself.
fn confirmed(
    runs: &mut Runs<'_>,
    plain: &mut Vec<Outcome>,
    outcome: &Outcome,
    noise: &mut Noise,
    notes: &mut Vec<String>,
) -> Result<Vec<Difference>, Failure> {
    let mut found = differences(plain, outcome, noise, notes)?;
    for _ in 0..CONFIRMATIONS_MAX {
        if found.is_empty() {
            break;
        }
        plain.push(runs.run(&Way::Plain)?);
        let again = plain.last().expect("just pushed");
        let has_learned = compare::learn(noise, &plain[0], again).map_err(cannot_compare)?;
        found = differences(plain, outcome, noise, notes)?;
        if !has_learned {
            break;
        }
    }
    Ok(found)
}

/// What would make plain runs buffered, or buffered runs plain.
fn check_environment() -> Result<(), Failure> {
    if !has_processes() {
        return Err(no_processes());
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if set(names::SWITCH).is_some_and(|value| value.eq_ignore_ascii_case("off")) {
        return Err(Failure::own("SWEETSPOT=off is set, so no run would be buffered")
            .next("try: env -u SWEETSPOT sweetspot verify ..."));
    }
    if set(names::PRELOAD).is_some_and(|value| value.to_string_lossy().contains("libsweetspot")) {
        return Err(Failure::own("LD_PRELOAD names sweetspot's library, so no run would be plain")
            .next("try: env -u LD_PRELOAD sweetspot verify ..."));
    }
    if let Some(value) = set(names::BUFFER)
        && !matches!(parse(value.as_encoded_bytes()), Parsed::Size(_))
    {
        let (name, value) = (names::BUFFER, shown(&value));
        return Err(Failure::own(format!("{name}: '{value}' {}", buffer::NO_SIZE))
            .next(format!("try: env -u {name} sweetspot verify ...")));
    }
    Ok(())
}

/// The file of the rules. What is wrong in it `run` would say in each buffered run, and no plain run.
fn rules(arguments: &Verify) -> Result<Option<PathBuf>, Failure> {
    let mut warnings = Vec::new();
    let here = std::env::current_dir().ok();
    let named = config::named(arguments.config.as_deref());
    named.as_deref().map(config::check_lasts).transpose()?;
    let config = config::load(named.as_deref(), here.as_deref(), &mut warnings)?;
    let is_mistake = |warning: &String| warning.contains(buffer::NO_SIZE);
    let (mut mistakes, others): (Vec<_>, Vec<_>) = warnings.into_iter().partition(is_mistake);
    config::machine_rules(RULES_MAX, &mut mistakes);
    if let Some(mistake) = mistakes.into_iter().next() {
        return Err(Failure::own(mistake).next("fix that first; `run` would warn every time"));
    }
    others.iter().for_each(|warning| say(format_args!("sweetspot: {warning}")));
    Ok(config.path)
}

/// The sizes at which it runs; `None` is the size that `run` chooses.
fn sizes(arguments: &Verify) -> Result<Vec<Option<OsString>>, Failure> {
    let mut warnings = Vec::new();
    for text in &arguments.sizes {
        buffer::read(text, "--sizes", &mut warnings)?;
    }
    if let Some(warning) = warnings.pop() {
        return Err(Failure::own(warning).next("try: --sizes 4K,64K,1M"));
    }
    let typed: Vec<_> = arguments.sizes.iter().cloned().map(Some).collect();
    Ok(if typed.is_empty() { vec![None] } else { typed })
}

fn cannot_compare(error: io::Error) -> Failure {
    Failure::own(format!("the runs cannot be compared: {error}"))
}

/// What a buffered run does that no plain run did.
fn differences(
    plain: &[Outcome],
    outcome: &Outcome,
    noise: &Noise,
    notes: &mut Vec<String>,
) -> Result<Vec<Difference>, Failure> {
    let mut found = compare::differences(&plain[0], outcome, noise).map_err(cannot_compare)?;
    if let Some(reversed) = order::reversed(plain, outcome, noise) {
        if reversed.is_beyond_the_limit {
            found.push(reversed.difference);
        } else {
            let note = note_of_order(&reversed.difference);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    Ok(found)
}

/// What there was to compare of a plain run.
fn compared(plain: &Outcome) -> Compared {
    let (files, bytes) =
        files(plain).fold((0, 0), |(count, bytes), (_, content)| (count + 1, bytes + content.len));
    Compared {
        files,
        bytes,
        removed: plain.changes.values().filter(|change| change.is_none()).count(),
        stdout: plain.stdout.len,
        stderr: plain.stderr.len,
        end: words_of_end(plain.end),
        seconds: plain.seconds,
    }
}

/// The files that a run wrote.
fn files(outcome: &Outcome) -> impl Iterator<Item = (&PathBuf, &Content)> {
    let there = outcome.changes.iter().filter_map(|(path, change)| Some((path, change.as_ref()?)));
    there.filter_map(|(path, entry)| Some((path, entry.content()?)))
}

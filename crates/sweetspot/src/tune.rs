//! `sweetspot tune`: finds out whether buffering a command is worth it and whether a size must be set for
//! it; with `--smallest`, the smallest buffer that is as good as any.
//!
//! The story: learn what the command reads and writes; let `questions` or `search` of `sweetspot-lab`
//! say what to run next, and run it, until there is an answer or time is up; after a search, look whether
//! single files want something else; write the rule, if one is wanted; say what was found.
//!
//! Invariants: nothing is written to `sweetspot.toml` that was not confirmed on fresh runs with
//! equal outputs. Nothing that the command writes is removed or restored but by `--prepare`.

mod apart;
mod files;
mod machine;
mod recorded;
mod rounds;
mod rules;
pub mod stored;
mod trial;

use crate::arguments::Tune;
use crate::config;
use crate::environment::Environment;
use crate::experiment::lab;
use crate::interrupts::Interrupts;
use crate::probe;
use crate::resolve;
use indicatif::{ProgressBar, ProgressStyle};
use recorded::{Recorded, keep, tell_confirmed, tell_from, tell_predicted};
use rounds::Bench;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use sweetspot_lab::questions::Reply;
use sweetspot_lab::search::Plan;
use sweetspot_report::failure::Failure;
use sweetspot_report::print::print;
use sweetspot_report::shown::lines;
use sweetspot_report::shown::shown;
use sweetspot_report::tune::predicted::{Confirmed, Predicted, RUNS};
use sweetspot_report::tune::rules::{Rule, Tuned};
use sweetspot_report::tune::{DryRun, Found, Stopped, TuneReport};
use trial::Trial;

/// Exit status where no answer was confirmed.
const STATUS_UNDECIDED: u8 = 1;
/// Runs that both questions take at most, and those that a search takes about.
const RUNS_OF_QUESTIONS: u64 = 30;
const RUNS_OF_SEARCH: u64 = 90;
/// Rounds of the whole curve.
const CURVE_ROUNDS: usize = 5;
/// Files for which a rule of their own is tried.
const FILES_TRIED_MAX: usize = 3;

/// Tunes, and says what was found. Returns the exit status.
///
/// # Errors
/// Where the command fails, changes what it reads, or writes something else when it is buffered.
pub fn tune(arguments: &Tune) -> Result<u8, Failure> {
    match (&arguments.machine, &arguments.from) {
        (Some(folder), _) => machine::tune(arguments, folder),
        (None, Some(path)) if arguments.command.is_empty() => tell_from(arguments, path),
        (None, _) => tune_command(arguments, None, Interrupts::watch()?),
    }
}

/// Whether the smallest size is asked for, instead of whether buffering is worth it.
fn is_smallest(arguments: &Tune) -> bool {
    arguments.smallest || arguments.curve
}

/// Runs that it takes, those of learning among them.
fn runs_usual(arguments: &Tune) -> u64 {
    if is_smallest(arguments) { RUNS_OF_SEARCH } else { RUNS_OF_QUESTIONS }
}

/// Whether so many runs would not end within the budget, and nobody asked for them in particular.
fn is_too_long(arguments: &Tune, seconds: f64) -> bool {
    let Tune { budget, patience, curve, cold, resume, sandbox, dry_run, .. } = arguments;
    let asked = *patience > 1 || *curve || *cold || *resume || *sandbox || *dry_run;
    !asked && seconds * runs_usual(arguments) as f64 > budget.as_secs_f64()
}

fn plan(arguments: &Tune, seed: u64) -> Plan {
    Plan {
        sizes: arguments.sizes.count(),
        within: arguments.within,
        seed,
        curve_rounds: if arguments.curve { CURVE_ROUNDS } else { 0 },
        patience: usize::from(arguments.patience),
    }
}

fn show(arguments: &Tune, report: &TuneReport) -> Result<(), Failure> {
    match arguments.json {
        true => print(&(serde_json::to_string(report).unwrap_or_default() + "\n")),
        false => print(&lines(&report.text())),
    }
}

/// Says what would be done.
fn dry_run(arguments: &Tune, trial: &Trial<'_>, seconds: f64, rules: &Path) -> Result<(), Failure> {
    let would = DryRun {
        seconds,
        runs: runs_usual(arguments),
        budget: arguments.budget,
        sizes: &arguments.sizes,
        inputs: trial.files().inputs(),
        outputs: trial.checked(),
        rules,
        notes: &trial.notes,
    };
    print(&lines(&would.text()))
}

/// Where the answer goes, if it is not about the command.
struct Kept {
    /// The file of rules.
    at: PathBuf,
    /// Which files the rule is for.
    pattern: String,
}

fn tune_command(arguments: &Tune, kept: Option<Kept>, ends: Interrupts) -> Result<u8, Failure> {
    let program = reachable(arguments)?;
    let mut recorded =
        arguments.from.as_deref().map(|path| Recorded::read(arguments, path)).transpose()?;
    let mut trial = Trial::new(arguments)?;
    ends.remove_at_end(trial.scratches());
    let rules_at = rules_file(arguments, &trial, kept.as_ref())?;
    let bar = progress(arguments);
    bar.set_message("learning what it reads and writes");
    let first = trial.learn_first()?;
    if recorded.is_none() && kept.is_none() && is_too_long(arguments, first.seconds) {
        bar.set_message("recording a run, as all of them take too long");
        recorded = Recorded::make(arguments, &mut trial);
    }
    trial.learn_rest(&first, recorded.as_ref().map(|recorded| &recorded.recording.profile))?;
    if arguments.dry_run {
        bar.finish_and_clear();
        return dry_run(arguments, &trial, first.seconds, &rules_at.path).map(|()| 0);
    }
    if let Some(Recorded { predicted, .. }) = &recorded {
        bar.set_message("confirming what was predicted");
        match confirm(arguments, predicted, &mut trial, first.seconds, &ends.asked)? {
            None => {
                bar.finish_and_clear();
                tell_predicted(arguments, predicted, trial.runs, trial.notes.clone())?;
                return Ok(STATUS_UNDECIDED);
            }
            Some(confirmed) => match &confirmed.missed {
                None => {
                    bar.finish_and_clear();
                    return tell_confirmed(arguments, predicted, &confirmed, &trial, &rules_at);
                }
                Some(missed) => {
                    let note = format!("the prediction missed, so measuring decided: {missed}");
                    trial.notes.push(note);
                }
            },
        }
    }
    let mut bench = Bench::open(arguments, &program, trial, bar, ends.asked)?;
    let mut stopped = bench.measure()?;
    let found = bench.found()?;
    let rules = rules_from(&mut bench, &found, kept.as_ref(), &mut stopped)?;
    let mut report = bench.report(found, stopped)?;
    report.predicted = recorded.map(|recorded| recorded.predicted.rows).unwrap_or_default();
    let name = kept.is_none().then(|| program_name(arguments));
    let kept = match name {
        _ if arguments.keep_rules => Ok(()),
        name if !rules.is_empty() => keep(&rules_at, name, &rules, &mut report),
        Some(name) if needs_no_rule(&found) => remove_older_rule(&rules_at, &name, &mut report),
        _ => Ok(()),
    };
    bench.end(&report)?;
    // What was found is worth knowing where it cannot be kept, too.
    show(arguments, &report)?;
    kept?;
    Ok(if report.confirmed { 0 } else { STATUS_UNDECIDED })
}

/// The file of rules; a session that would end in vain does not begin.
fn rules_file(
    arguments: &Tune,
    trial: &Trial<'_>,
    kept: Option<&Kept>,
) -> Result<rules::RulesFile, Failure> {
    let file = match kept {
        Some(kept) => rules::RulesFile::usual(&kept.at),
        None => rules::RulesFile::of(arguments.config.as_deref(), trial.folder())?,
    };
    if arguments.keep_rules {
        // It is only to be read, so it has to be there.
        let named = config::named(arguments.config.as_deref());
        named.map(|path| config::load(Some(&path), None, &mut Vec::new())).transpose()?;
    } else if !arguments.dry_run {
        file.check()?;
    }
    Ok(file)
}

fn progress(arguments: &Tune) -> ProgressBar {
    // What is cut off where the terminal is narrow stands last.
    let style = ProgressStyle::with_template("run {pos} of about {len}, {eta} left; {wide_msg}");
    ProgressBar::new(runs_usual(arguments))
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Runs that confirm a prediction, or show that it missed; none where there was no time for them, which
/// becomes a note.
fn confirm(
    arguments: &Tune,
    predicted: &Predicted,
    trial: &mut Trial<'_>,
    seconds_first: f64,
    interrupted: &AtomicBool,
) -> Result<Option<Confirmed>, Failure> {
    trial.notes.extend(predicted.notes.iter().cloned());
    let takes = seconds_first * RUNS as f64;
    // A user who names a recording has asked for these runs.
    let confirmed = match arguments.from.is_some() || takes <= arguments.budget.as_secs_f64() {
        true => recorded::confirm(predicted, trial, &arguments.sizes, interrupted)?,
        false => None,
    };
    if confirmed.is_none() {
        trial.notes.push(match interrupted.load(Relaxed) {
            true => "interrupted, so nothing confirms it".to_string(),
            false => format!(
                "six runs would take longer than --budget, too, so nothing confirms it: --budget {}m \
                 does",
                (takes / 60.0).ceil()
            ),
        });
    }
    Ok(confirmed)
}

/// The rules that follow from what was found.
fn rules_from(
    bench: &mut Bench<'_>,
    found: &Found,
    kept: Option<&Kept>,
    stopped: &mut Option<Stopped>,
) -> Result<Vec<Rule>, Failure> {
    let sizes = &bench.arguments.sizes;
    let mut rules = Vec::new();
    match found {
        Found::Worth(answer) => {
            let better = answer.size.filter(|size| size.reply == Reply::Yes);
            let buffer = better.map(|size| sizes.buffer(size.setting));
            rules.extend(buffer.map(|buffer| Rule { file: None, buffer }));
        }
        Found::Smallest(Some(answer)) if answer.confirmed => {
            let buffer = sizes.buffer(answer.setting(&bench.plan));
            if kept.is_none() {
                rules = bench.rules_for_files(answer)?;
                *stopped = stopped.or(bench.interrupted().then_some(Stopped::Interrupted));
            }
            rules.push(Rule { file: kept.map(|kept| kept.pattern.clone()), buffer });
        }
        Found::Smallest(_) => {}
    }
    Ok(rules)
}

/// Removes a rule of an earlier tune: what it says would not be what `run` does.
fn remove_older_rule(
    at: &rules::RulesFile,
    program: &str,
    report: &mut TuneReport,
) -> Result<(), Failure> {
    if rules::has_own(&at.path, program) {
        rules::write(at, &Tuned { program: Some(program), date: "", rules: &[] })?;
        report.notes.push(format!("the rule of an earlier tune is gone from {}", shown(&at.path)));
    }
    Ok(())
}

/// Whether it is known that no rule makes the program faster.
fn needs_no_rule(found: &Found) -> bool {
    let Found::Worth(answer) = found else { return false };
    answer.worth() == Reply::No || answer.size.is_some_and(|size| size.reply == Reply::No)
}

/// The program's file, if buffers can reach it: for another one there is nothing to tune.
fn reachable(arguments: &Tune) -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH");
    let name = &arguments.command[0];
    let program =
        resolve::find(name, path.as_deref()).map_err(|missing| resolve::failure(name, &missing))?;
    let answer = probe::ask(&program, &Environment::own());
    if let Some(obstacle) = answer.obstacle() {
        return Err(Failure::own(format!("'{}' cannot be buffered: {obstacle}", shown(&program)))
            .next("so there is no size to choose"));
    }
    Ok(program)
}

fn program_name(arguments: &Tune) -> String {
    let name = Path::new(&arguments.command[0]).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

//! The answer from one recorded run: told alone, or confirmed by a few more.

use crate::arguments::Tune;
use crate::experiment::lab;
use crate::profile::recording;
use crate::tune::trial::Trial;
use crate::tune::{is_smallest, plan, program_name, rules, runs_usual, show};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use sweetspot_lab::ladder::Ladder;
use sweetspot_lab::search::{Answer, Phase, Round};
use sweetspot_report::failure::Failure;
use sweetspot_report::numbers::typed;
use sweetspot_report::profile::recording::Recording;
use sweetspot_report::shell::quoted;
use sweetspot_report::shell::words as shell_words;
use sweetspot_report::shown::shown;
use sweetspot_report::tune::predicted::{Confirmed, Predicted, ROUNDS};
use sweetspot_report::tune::rules::{Rule, Tuned};
use sweetspot_report::tune::{Findings, Found, TuneReport};

/// A recorded run, and what follows from it.
pub(super) struct Recorded {
    pub(super) recording: Recording,
    pub(super) predicted: Predicted,
}

impl Recorded {
    /// Records a run of the command; `None`: nothing can be predicted from it, so a search is begun.
    pub(super) fn make(arguments: &Tune, trial: &mut Trial) -> Option<Recorded> {
        // A command that fails will fail again, and be told then.
        let path = trial.record().ok()?;
        let mut recorded = Recorded::read(arguments, &path).ok()?;
        recorded.predicted.notes.push(format!(
            "{} runs would exceed --budget, so tune recorded one run and predicted the rest. To measure \
             instead, raise --budget or --patience",
            runs_usual(arguments)
        ));
        Some(recorded)
    }

    pub(super) fn read(arguments: &Tune, path: &Path) -> Result<Recorded, Failure> {
        let recording = recording::read(path)?;
        let predicted = Predicted::new(&recording, &arguments.sizes, arguments.within);
        let mut predicted = predicted.ok_or_else(|| {
            Failure::own(format!("{}: the program made no call on a file", shown(path)))
                .next("there is nothing to buffer; it runs as fast as it can")
        })?;
        let command: Vec<String> =
            arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        if !command.is_empty() && command != recording.profile.command {
            let words = shell_words(&recording.profile.command);
            predicted.notes.push(format!("a different command was recorded: {words}"));
        }
        Ok(Recorded { recording, predicted })
    }
}

/// Says what a kept recording predicts; nothing runs. Returns the exit status.
pub(super) fn tell_from(arguments: &Tune, path: &Path) -> Result<u8, Failure> {
    let Recorded { recording, predicted } = Recorded::read(arguments, path)?;
    let notes = [
        predicted.notes.clone(),
        vec![format!(
            "to confirm it with six runs: sweetspot tune --from {} -- {}",
            quoted(path),
            shell_words(&recording.profile.command)
        )],
    ];
    tell_predicted(arguments, &predicted, 0, notes.concat())?;
    Ok(0)
}

/// Says what is predicted, and by how many runs of the command. No rule is written.
pub(super) fn tell_predicted(
    arguments: &Tune,
    predicted: &Predicted,
    runs: usize,
    notes: Vec<String>,
) -> Result<(), Failure> {
    let findings = Findings {
        sizes: &arguments.sizes,
        cache: "warm",
        plan: &plan(arguments, 0),
        rounds: &[],
        measurements: &[],
        runs,
        checked: Vec::new(),
        notes,
        found: Found::Smallest(None),
        stopped: None,
    };
    let mut report = findings.report().map_err(lab)?;
    report.sentence = predicted.sentence(&arguments.sizes, arguments.within);
    report.smallest = Some(typed(arguments.sizes.buffer(predicted.answer.choice)));
    report.auto_is_within = predicted.answer.auto_is_within;
    report.predicted.clone_from(&predicted.rows);
    show(arguments, &report)
}

/// Runs the command a few times, to see whether it is as predicted. `None` where that was
/// interrupted.
///
/// # Errors
/// As [`Trial::run`].
pub(super) fn confirm(
    predicted: &Predicted,
    trial: &mut Trial,
    sizes: &Ladder,
    interrupted: &AtomicBool,
) -> Result<Option<Confirmed>, Failure> {
    let (mut rounds, mut measurements) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let before = measurements.len();
        for setting in predicted.order(round) {
            if interrupted.load(Relaxed) {
                return Ok(None);
            }
            measurements.push((setting, trial.run(sizes, setting)?));
        }
        rounds.push(Round::measured(Phase::Confirm, &measurements[before..]));
    }
    Ok(Some(predicted.confirmed(rounds, measurements, sizes)))
}

/// Says what a recorded run has predicted and a few runs have confirmed, and keeps it. Returns the exit
/// status.
pub(super) fn tell_confirmed(
    arguments: &Tune,
    predicted: &Predicted,
    confirmed: &Confirmed,
    trial: &Trial,
    rules_at: &rules::RulesFile,
) -> Result<u8, Failure> {
    let plan = plan(arguments, 0);
    let answer = Answer { confirmed: true, ..predicted.answer };
    let findings = Findings {
        sizes: &arguments.sizes,
        cache: "warm",
        plan: &plan,
        rounds: &confirmed.rounds,
        measurements: &confirmed.measurements,
        runs: trial.runs,
        checked: trial.checked(),
        notes: trial.notes.clone(),
        found: Found::Smallest(Some(answer)),
        stopped: None,
    };
    let mut report = findings.report().map_err(lab)?;
    report.sentence = predicted.confirmed_sentence(confirmed, &arguments.sizes, arguments.within);
    report.predicted.clone_from(&predicted.rows);
    // A size that is no better than auto needs no rule, unless the size itself is asked for.
    let needs_rule = is_smallest(arguments) || !answer.auto_is_within;
    let kept = match needs_rule && !arguments.keep_rules {
        true => {
            let rule = Rule { file: None, buffer: arguments.sizes.buffer(answer.setting(&plan)) };
            keep(rules_at, Some(program_name(arguments)), &[rule], &mut report)
        }
        false => Ok(()),
    };
    // What was found is worth knowing where it cannot be kept, too.
    show(arguments, &report)?;
    kept.map(|()| 0)
}

/// Writes rules, and says so.
pub(super) fn keep(
    rules_at: &rules::RulesFile,
    program: Option<String>,
    rules: &[Rule],
    report: &mut TuneReport,
) -> Result<(), Failure> {
    let date = jiff::Zoned::now().date().to_string();
    let tuned = Tuned { program: program.as_deref(), date: &date, rules };
    let warning = rules::write(rules_at, &tuned)?;
    report.written(&rules_at.path, &tuned, warning);
    Ok(())
}

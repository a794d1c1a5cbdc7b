//! `sweetspot tune`: finds out whether buffering a command is worth it and whether a size must be set for
//! it; with `--smallest`, the smallest buffer that is as good as any.
//!
//! The story: learn what the command reads and writes; let `questions` or `search` of `sweetspot-lab`
//! say what to run next, and run it, until there is an answer or time is up; after a search, look whether
//! single files want something else; write the rule, if one is wanted; say what was found.
//!
//! Invariants: nothing is written to `sweetspot.toml` that was not confirmed on fresh runs with
//! equal outputs. Nothing that the command writes is removed or restored but by `--prepare`.

mod advice;
mod apart;
mod files;
mod machine;
mod predicted;
pub mod report;
mod rules;
pub mod stored;
mod trial;

use crate::arguments::Tune;
use crate::experiment::{Circumstances, lab, print, seed_by_lot, watch_for_interrupts};
use crate::failure::Failure;
use crate::home;
use crate::probe;
use crate::profile::recording::Recording;
use crate::resolve;
use indicatif::{ProgressBar, ProgressStyle};
use predicted::{Confirmed, Predicted};
use report::{Findings, Found, Report, Stopped};
use rules::Rule;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use sweetspot_core::size::BufferSize;
use sweetspot_lab::environment::Environment;
use sweetspot_lab::measure::Measurement;
use sweetspot_lab::paired::{self, Observation, Options, Stop, Verdict};
use sweetspot_lab::questions::{self, Reply};
use sweetspot_lab::search::{self, Answer, Phase, Plan, Round, Setting, Step};
use sweetspot_lab::statistics;
use sweetspot_lab::store::{self, Session, Store};
use sweetspot_report::numbers::typed;
use sweetspot_report::shell::quoted;
use sweetspot_report::shell::words as shell_words;
use sweetspot_report::shown::lines;
use sweetspot_report::shown::shown;
use trial::{Trial, called};

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
        (None, _) => tune_command(arguments, None),
    }
}

/// A recorded run, and what follows from it.
struct Recorded {
    recording: Recording,
    predicted: Predicted,
}

impl Recorded {
    /// Records a run of the command; `None`: nothing can be predicted from it, so a search is begun.
    fn make(arguments: &Tune, trial: &mut Trial) -> Option<Recorded> {
        // A command that fails will fail again, and be told then.
        let path = trial.record().ok()?;
        let mut recorded = Recorded::read(arguments, &path).ok()?;
        recorded.predicted.notes.push(format!(
            "some {} runs would take longer than --budget, so one was recorded, and sizes were tried on \
             its calls; a longer budget or --patience measures",
            runs_usual(arguments)
        ));
        Some(recorded)
    }

    fn read(arguments: &Tune, path: &Path) -> Result<Recorded, Failure> {
        let recording = Recording::read(path)?;
        let mut predicted = Predicted::new(&recording, path, &arguments.sizes, arguments.within)?;
        let command: Vec<String> =
            arguments.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        if !command.is_empty() && command != recording.profile.command {
            let words = shell_words(&recording.profile.command);
            predicted.notes.push(format!("what was recorded is another command: {words}"));
        }
        Ok(Recorded { recording, predicted })
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

/// Says what a kept recording predicts; nothing runs. Returns the exit status.
fn tell_from(arguments: &Tune, path: &Path) -> Result<u8, Failure> {
    let Recorded { recording, predicted } = Recorded::read(arguments, path)?;
    let notes = [
        predicted.notes.clone(),
        vec![format!(
            "six runs confirm it or not: sweetspot tune --from {} -- {}",
            quoted(path),
            shell_words(&recording.profile.command)
        )],
    ];
    tell_predicted(arguments, &predicted, 0, notes.concat())?;
    Ok(0)
}

/// Says what is predicted, and by how many runs of the command. No rule is written.
fn tell_predicted(
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
    show(arguments, &report);
    Ok(())
}

/// Says what a recorded run has predicted and a few runs have confirmed, and keeps it. Returns the exit
/// status.
fn tell_confirmed(
    arguments: &Tune,
    predicted: &Predicted,
    confirmed: &Confirmed,
    trial: &Trial,
    rules_at: &Path,
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
    if !arguments.keep_rules && (is_smallest(arguments) || !answer.auto_is_within) {
        let rule = Rule { file: None, buffer: arguments.sizes.buffer(answer.setting(&plan)) };
        keep(rules_at, Some(program_name(arguments)), &[rule], &mut report)?;
    }
    show(arguments, &report);
    Ok(0)
}

/// Writes rules, and says so.
fn keep(
    rules_at: &Path,
    program: Option<String>,
    rules: &[Rule],
    report: &mut Report,
) -> Result<(), Failure> {
    let date = jiff::Zoned::now().date().to_string();
    let tuned = rules::Tuned { program: program.as_deref(), date: &date, rules };
    let warning = rules::write(rules_at, &tuned)?;
    report.written(rules_at, &tuned, warning);
    Ok(())
}

fn plan(arguments: &Tune, seed: u64) -> Plan {
    Plan {
        sizes: arguments.sizes.len(),
        within: arguments.within,
        seed,
        curve_rounds: if arguments.curve { CURVE_ROUNDS } else { 0 },
        patience: usize::from(arguments.patience),
    }
}

fn show(arguments: &Tune, report: &Report) {
    match arguments.json {
        true => print(&(serde_json::to_string(report).unwrap_or_default() + "\n")),
        false => print(&lines(&report.text())),
    }
}

/// Where the answer goes, if it is not about the command.
struct Kept {
    /// The file of rules.
    at: PathBuf,
    /// Which files the rule is for.
    pattern: String,
}

fn tune_command(arguments: &Tune, kept: Option<Kept>) -> Result<u8, Failure> {
    let program = reachable(arguments)?;
    let mut recorded =
        arguments.from.as_deref().map(|path| Recorded::read(arguments, path)).transpose()?;
    let mut trial = Trial::new(arguments)?;
    let interrupted = watch_for_interrupts(trial.scratches())?;
    let rules_at = match &kept {
        Some(kept) => kept.at.clone(),
        None => rules::place(arguments.config.as_deref(), trial.folder())?,
    };
    let bar = ProgressBar::new(runs_usual(arguments)).with_style(
        // What is cut off where the terminal is narrow stands last.
        ProgressStyle::with_template("run {pos} of about {len}, {eta} left; {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.set_message("learning what it reads and writes");
    let first = trial.learn_first()?;
    if recorded.is_none() && kept.is_none() && is_too_long(arguments, first.seconds) {
        bar.set_message("recording a run, as all of them take too long");
        recorded = Recorded::make(arguments, &mut trial);
    }
    trial.learn_rest(&first, recorded.as_ref().map(|recorded| &recorded.recording.profile))?;
    if arguments.dry_run {
        bar.finish_and_clear();
        print(&lines(&report::dry_run(&trial, arguments, first.seconds, &rules_at)));
        return Ok(0);
    }
    if let Some(Recorded { predicted, .. }) = &recorded {
        bar.set_message("confirming what was predicted");
        trial.notes.extend(predicted.notes.iter().cloned());
        let takes = first.seconds * predicted::RUNS as f64;
        // Who names a recording has asked for these runs.
        let confirmed = match arguments.from.is_some() || takes <= arguments.budget.as_secs_f64() {
            true => predicted.confirm(&mut trial, &arguments.sizes, &interrupted)?,
            false => None,
        };
        let Some(confirmed) = confirmed else {
            trial.notes.push(match interrupted.load(Relaxed) {
                true => "interrupted, so nothing confirms it".to_string(),
                false => format!(
                    "six runs would take longer than --budget, too, so nothing confirms it: --budget \
                     {}m does",
                    (takes / 60.0).ceil()
                ),
            });
            bar.finish_and_clear();
            tell_predicted(arguments, predicted, trial.runs, trial.notes.clone())?;
            return Ok(STATUS_UNDECIDED);
        };
        match &confirmed.missed {
            None => {
                bar.finish_and_clear();
                return tell_confirmed(arguments, predicted, &confirmed, &trial, &rules_at);
            }
            Some(missed) => {
                trial.notes.push(format!("the prediction missed, so measuring decided: {missed}"));
            }
        }
    }
    let mut bench = Bench::open(arguments, &program, trial, bar, interrupted)?;
    let mut stopped = bench.measure()?;
    let found = bench.found()?;
    let mut rules = Vec::new();
    match found {
        Found::Worth(answer) => {
            let better = answer.size.filter(|size| size.reply == Reply::Yes);
            let buffer = better.map(|size| arguments.sizes.buffer(size.setting));
            rules.extend(buffer.map(|buffer| Rule { file: None, buffer }));
        }
        Found::Smallest(Some(answer)) if answer.confirmed => {
            if kept.is_none() {
                rules = bench.rules_for_files(&answer)?;
                stopped = stopped.or(bench.interrupted().then_some(Stopped::Interrupted));
            }
            let buffer = arguments.sizes.buffer(answer.setting(&bench.plan));
            rules.push(Rule { file: kept.as_ref().map(|kept| kept.pattern.clone()), buffer });
        }
        Found::Smallest(_) => {}
    }
    let mut report = bench.report(found, stopped)?;
    report.predicted = recorded.map(|recorded| recorded.predicted.rows).unwrap_or_default();
    let name = kept.is_none().then(|| program_name(arguments));
    if !rules.is_empty() && !arguments.keep_rules {
        keep(&rules_at, name, &rules, &mut report)?;
    } else if let (true, Some(name)) = (needs_no_rule(&found), name)
        && !arguments.keep_rules
        && rules::has_own(&rules_at, &name)
    {
        // What it says would not be what `run` does.
        rules::write(&rules_at, &rules::Tuned { program: Some(&name), date: "", rules: &[] })?;
        report
            .notes
            .push(format!("the rule of an earlier tune is gone from {}", rules_at.display()));
    }
    bench.end(&report)?;
    show(arguments, &report);
    Ok(if report.confirmed { 0 } else { STATUS_UNDECIDED })
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
    let answer = probe::ask(&program, &std::env::vars_os().collect());
    if let Some(obstacle) = answer.obstacle() {
        return Err(Failure::own(format!("'{}' cannot be buffered: {obstacle}", shown(&program)))
            .next("so there is no size to find; it runs as fast as it can without sweetspot"));
    }
    Ok(program)
}

fn program_name(arguments: &Tune) -> String {
    let name = Path::new(&arguments.command[0]).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Everything that a session needs.
struct Bench<'a> {
    arguments: &'a Tune,
    plan: Plan,
    trial: Trial<'a>,
    store: Store,
    session: Session,
    rounds: Vec<Round>,
    bar: ProgressBar,
    interrupted: Arc<AtomicBool>,
    begun: Instant,
}

impl<'a> Bench<'a> {
    fn open(
        arguments: &'a Tune,
        program: &Path,
        mut trial: Trial<'a>,
        bar: ProgressBar,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Bench<'a>, Failure> {
        let store = Store::open(&store_path(arguments)?)
            .map_err(|error| lab(error).next("keep the runs elsewhere: --store FILE"))?;
        let environment = Environment::of(trial.folder(), &[]).map_err(lab)?;
        trial.notes.extend(environment.hindrance().map(|hindrance| hindrance.to_string()));
        let files = std::iter::once(program.to_path_buf()).chain(trial.files().inputs());
        let seed = arguments.seed.unwrap_or_else(seed_by_lot);
        let now = Circumstances::now(seed, &environment, files);
        let mut now = Begun { circumstances: now, environment: Some(environment) };
        let subject = subject(arguments, trial.folder());
        let text = |now: &Begun| serde_json::to_string(now).unwrap_or_default();
        let mut rounds = Vec::new();
        let session = match store.unfinished(&subject).map_err(lab)? {
            Some((session, stored)) if arguments.resume => {
                let then: Option<Begun> = serde_json::from_str(&session.circumstances).ok();
                let then = then.map(|then| then.circumstances);
                let what = match &then {
                    Some(then) => then.changed(&now.circumstances),
                    None => Some("the form of stored sessions".to_string()),
                };
                let seed = &mut now.circumstances.seed;
                *seed = then.map_or(*seed, |then| then.seed);
                if let Some(what) = what {
                    return Err(Failure::own(format!(
                        "the session cannot go on: {what} has changed since it began"
                    ))
                    .next("begin a new one: the same command without --resume"));
                }
                rounds = stored;
                session
            }
            _ if arguments.resume => {
                return Err(Failure::own("there is no unfinished session about this command here")
                    .next("begin one: the same command without --resume"));
            }
            _ => store.begin(&subject, &text(&now)).map_err(lab)?,
        };
        let plan = plan(arguments, now.circumstances.seed);
        let done: usize = rounds.iter().map(|round| round.order.len()).sum();
        bar.set_length(runs_usual(arguments).max(done as u64 + 10));
        bar.set_position(done as u64);
        let begun = Instant::now();
        Ok(Bench { arguments, plan, trial, store, session, rounds, bar, interrupted, begun })
    }

    /// What is to run next; `None`: all has been asked.
    fn next(&self) -> Result<Option<(Phase, Vec<Setting>)>, Failure> {
        if !is_smallest(self.arguments) {
            return questions::next(&self.plan, &self.rounds).map_err(lab);
        }
        Ok(match search::step(&self.plan, &self.rounds).map_err(lab)? {
            Step::Round { phase, order } => Some((phase, order)),
            Step::Done(_) => None,
        })
    }

    fn found(&self) -> Result<Found, Failure> {
        Found::after(is_smallest(self.arguments), &self.plan, &self.rounds).map_err(lab)
    }

    /// Runs what is wanted until there is nothing more, or it must stop.
    fn measure(&mut self) -> Result<Option<Stopped>, Failure> {
        while let Some((phase, order)) = self.next()? {
            if let Some(stopped) = self.must_stop() {
                return Ok(Some(stopped));
            }
            let after = self.bar.position() + order.len() as u64;
            self.bar.set_length(self.bar.length().unwrap_or_default().max(after));
            let mut measured = Vec::with_capacity(order.len());
            for (place, setting) in order.iter().enumerate() {
                self.show(phase, *setting);
                let measurement = self.trial.run(&self.arguments.sizes, *setting)?;
                measured.push((*setting, measurement));
                let run = store::Run {
                    round: self.rounds.len(),
                    place,
                    runs_of_round: order.len(),
                    phase,
                    setting: *setting,
                    figure: measurement.wall.as_secs_f64(),
                    measurement: &measurement,
                };
                self.store.add(&self.session, &run).map_err(lab)?;
                self.bar.inc(1);
                if self.interrupted() {
                    return Ok(Some(Stopped::Interrupted));
                }
            }
            self.rounds.push(Round::measured(phase, &measured));
        }
        Ok(None)
    }

    fn must_stop(&self) -> Option<Stopped> {
        if self.interrupted() {
            Some(Stopped::Interrupted)
        } else if self.begun.elapsed() >= self.arguments.budget {
            Some(Stopped::Budget)
        } else {
            None
        }
    }

    /// The live line: what runs, and what is known.
    fn show(&self, phase: Phase, setting: Setting) {
        if self.bar.is_hidden() {
            return;
        }
        let what = called(&self.arguments.sizes, setting);
        let phase = format!("{phase:?}").to_lowercase();
        let known = match self.found() {
            Ok(Found::Smallest(Some(guess))) => self.so_far(&guess),
            Ok(Found::Worth(questions::Answer { worth: Some(worth), .. })) => {
                format!("; so far {:.2} times as fast with auto", worth.speed)
            }
            _ => String::new(),
        };
        let round = self.rounds.len() + 1;
        self.bar.set_message(format!("round {round}, {phase}: {what}{known}"));
    }

    /// The best guess, and how it stands to the best other size.
    fn so_far(&self, guess: &Answer) -> String {
        let Answer { choice, rival, .. } = *guess;
        let confidence = paired::CONFIDENCE_FIXED;
        let ratio =
            search::ratio(&self.rounds, Phase::Scout, choice, rival, confidence).ok().flatten();
        let stands = ratio.map_or_else(String::new, |ratio| match ratio.interval {
            Some(interval) => format!(
                ", {:.2} ({:.2} to {:.2}) of the best",
                ratio.value, interval.low, interval.high
            ),
            None => format!(", {:.2} of the best", ratio.value),
        });
        format!("; so far {}{stands}", called(&self.arguments.sizes, choice))
    }

    /// Tries to leave single files unbuffered that were fetched in larger pieces than were used.
    fn rules_for_files(&mut self, answer: &Answer) -> Result<Vec<Rule>, Failure> {
        let files: Vec<PathBuf> = self.trial.files().wasteful.clone();
        let buffer = self.arguments.sizes.buffer(answer.setting(&self.plan));
        let (mut found, mut p_values) = (Vec::new(), Vec::new());
        for file in files.iter().take(FILES_TRIED_MAX) {
            if buffer == BufferSize::Off || self.interrupted() {
                break;
            }
            let Some(pattern) = file.to_str().map(str::to_owned) else { continue };
            if self.time_left() < self.time_of_pairs(paired::LOOKS[0]) {
                self.trial.notes.push(format!(
                    "no time was left to try {pattern} unbuffered, of which more was fetched than \
                     used: give it more by --budget"
                ));
                break;
            }
            self.bar.set_message(format!("trying {pattern} unbuffered"));
            let rule = Rule { file: Some(pattern), buffer: BufferSize::Off };
            let Some(comparison) = self.compare_rules(buffer, &rule)? else { break };
            let effect = comparison.effect(0, 1).map_err(lab)?;
            let logarithms: Vec<f64> = std::iter::zip(comparison.figures(1), comparison.figures(0))
                .map(|(with, without)| (with / without).ln())
                .collect();
            p_values.push(statistics::signed_rank_p(&logarithms).map_err(|e| lab(e.into()))?);
            found.push((rule, effect.verdict == Verdict::Faster));
        }
        let corrected = statistics::holm(&p_values);
        let is_sure = |(_, p): &(_, f64)| *p <= 1.0 - paired::CONFIDENCE_FIXED;
        let sure = std::iter::zip(found, corrected).filter(is_sure);
        Ok(sure.filter(|((_, is_faster), _)| *is_faster).map(|((rule, _), _)| rule).collect())
    }

    /// Pairs of runs with one size for all files, and with another rule for one file. `None` where
    /// they were interrupted.
    fn compare_rules(
        &mut self,
        buffer: BufferSize,
        rule: &Rule,
    ) -> Result<Option<paired::Comparison>, Failure> {
        let folder = tempfile::tempdir()
            .map_err(|error| Failure::own(format!("no temporary folder: {error}")))?;
        let all = Rule { file: None, buffer };
        let name = program_name(self.arguments);
        let mut paths = Vec::new();
        for (place, rules) in [vec![all.clone()], vec![rule.clone(), all]].iter().enumerate() {
            let path = folder.path().join(format!("{place}.toml"));
            let tuned = rules::Tuned { program: Some(&name), date: "", rules };
            rules::write(&path, &tuned)?;
            paths.push(path);
        }
        let stop = Stop::Looks(self.time_left());
        let options = Options { seed: self.plan.seed, stop, ..Options::default() };
        let mut failure = None;
        let mut run_one = |cell: usize| {
            let ended = |reason: String| {
                Err(sweetspot_lab::Error::Failed { program: name.clone(), reason })
            };
            if self.interrupted.load(Relaxed) {
                return ended("interrupted".to_string());
            }
            match self.trial.run_with_rules(&paths[cell]) {
                Ok(Measurement { wall, .. }) => {
                    Ok(Observation { figure: wall.as_secs_f64(), output: String::new() })
                }
                Err(error) => {
                    let reason = error.to_string();
                    failure = Some(error);
                    ended(reason)
                }
            }
        };
        match (paired::compare(&mut run_one, 2, &options), failure) {
            (Ok(comparison), _) => Ok(Some(comparison)),
            (Err(_), Some(failure)) => Err(failure),
            (Err(_), None) if self.interrupted() => Ok(None),
            (Err(error), None) => Err(lab(error)),
        }
    }

    fn interrupted(&self) -> bool {
        self.interrupted.load(Relaxed)
    }

    fn time_left(&self) -> Duration {
        self.arguments.budget.saturating_sub(self.begun.elapsed())
    }

    /// How long so many pairs of runs take, about.
    fn time_of_pairs(&self, pairs: usize) -> Duration {
        let figures = self.rounds.last().map_or(&[][..], |round| &round.figures);
        let slowest = figures.iter().copied().fold(0.0, f64::max);
        Duration::from_secs_f64(2.0 * pairs as f64 * slowest)
    }

    fn report(&self, found: Found, stopped: Option<Stopped>) -> Result<Report, Failure> {
        let runs = self.store.ran(&self.session).map_err(lab)?;
        let measurements: Vec<_> = runs.iter().map(|run| (run.setting, run.measurement)).collect();
        Findings {
            sizes: &self.arguments.sizes,
            cache: if self.arguments.cold { "cold" } else { "warm" },
            plan: &self.plan,
            rounds: &self.rounds,
            measurements: &measurements,
            runs: self.trial.runs,
            checked: self.trial.checked(),
            notes: self.trial.notes.clone(),
            found,
            stopped,
        }
        .report()
        .map_err(lab)
    }

    fn end(&self, report: &Report) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        if report.is_finished() {
            let result = serde_json::to_string(report).unwrap_or_default();
            self.store.finish(&self.session, &result).map_err(lab)?;
        }
        Ok(())
    }
}

/// In what surroundings a session began.
#[derive(Serialize, Deserialize)]
struct Begun {
    #[serde(flatten)]
    circumstances: Circumstances,
    /// More about the machine, for readers of the file.
    #[serde(default)]
    environment: Option<Environment>,
}

/// What two sessions must have in common for one to go on with the other's runs.
fn subject(arguments: &Tune, folder: &Path) -> String {
    let words: Vec<_> = arguments.command.iter().map(|word| word.to_string_lossy()).collect();
    let sizes: Vec<String> = (arguments.sizes.settings())
        .map(|setting| typed(arguments.sizes.buffer(setting)))
        .collect();
    serde_json::json!({
        "command": words,
        "folder": folder.to_string_lossy(),
        "sizes": sizes,
        "within": arguments.within,
        "cold": arguments.cold,
        "curve": arguments.curve,
        "smallest": is_smallest(arguments),
        "patience": arguments.patience,
        "sandbox": arguments.sandbox,
        "prepare": arguments.prepare.as_ref().map(|command| command.to_string_lossy()),
    })
    .to_string()
}

fn store_path(arguments: &Tune) -> Result<PathBuf, Failure> {
    if let Some(path) = &arguments.store {
        return Ok(path.clone());
    }
    let folder = home::state().ok_or_else(|| {
        Failure::own("there is no home folder to keep the runs in")
            .next("name a file: --store FILE")
    })?;
    std::fs::create_dir_all(&folder).map_err(|error| {
        Failure::own(format!("{}: {error}", shown(&folder)))
            .next("keep the runs elsewhere: --store FILE")
    })?;
    Ok(folder.join("runs.sqlite"))
}

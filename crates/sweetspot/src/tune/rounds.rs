//! The rounds of one session: what runs next, that each run is kept, and when to stop.

use crate::arguments::Tune;
use crate::experiment::{Circumstances, cannot_go_on, lab, seed_by_lot};
use crate::home;
use crate::tune::trial::Trial;
use crate::tune::{FILES_TRIED_MAX, is_smallest, plan, program_name, rules, runs_usual};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use sweetspot_core::size::BufferSize;
use sweetspot_guard::notes::own_folder;
use sweetspot_lab::environment::Environment;
use sweetspot_lab::measure::Measurement;
use sweetspot_lab::paired::{self, Observation, Options, Stop, Verdict};
use sweetspot_lab::questions::{self};
use sweetspot_lab::search::{self, Answer, Phase, Plan, Round, Setting, Step};
use sweetspot_lab::statistics;
use sweetspot_lab::store::{self, Store, StoredSession};
use sweetspot_report::failure::Failure;
use sweetspot_report::numbers::typed;
use sweetspot_report::tune::rules::{Rule, Tuned};
use sweetspot_report::tune::{Findings, Found, Stopped, TuneReport, called};

/// Everything that a session needs.
pub(super) struct Bench<'a> {
    pub(super) arguments: &'a Tune,
    pub(super) plan: Plan,
    pub(super) trial: Trial<'a>,
    pub(super) store: Store,
    pub(super) session: StoredSession,
    pub(super) rounds: Vec<Round>,
    pub(super) bar: ProgressBar,
    pub(super) interrupted: Arc<AtomicBool>,
    pub(super) begun: Instant,
}

impl<'a> Bench<'a> {
    pub(super) fn open(
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
                    return Err(cannot_go_on(&what));
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
    pub(super) fn next(&self) -> Result<Option<(Phase, Vec<Setting>)>, Failure> {
        if !is_smallest(self.arguments) {
            return questions::next(&self.plan, &self.rounds).map_err(lab);
        }
        Ok(match search::step(&self.plan, &self.rounds).map_err(lab)? {
            Step::Round { phase, order } => Some((phase, order)),
            Step::Done(_) => None,
        })
    }

    pub(super) fn found(&self) -> Result<Found, Failure> {
        Found::after(is_smallest(self.arguments), &self.plan, &self.rounds).map_err(lab)
    }

    /// Runs what is wanted until there is nothing more, or it must stop.
    pub(super) fn measure(&mut self) -> Result<Option<Stopped>, Failure> {
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
                    measurement,
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
    pub(super) fn show(&self, phase: Phase, setting: Setting) {
        if self.bar.is_hidden() {
            return;
        }
        let what = called(&self.arguments.sizes, setting);
        let phase = format!("{phase:?}").to_lowercase();
        let known = self.found().map(|found| found.so_far(&self.arguments.sizes, &self.rounds));
        let known = known.unwrap_or_default();
        let round = self.rounds.len() + 1;
        self.bar.set_message(format!("round {round}, {phase}: {what}{known}"));
    }

    /// Tries to leave single files unbuffered that were fetched in larger pieces than were used.
    pub(super) fn rules_for_files(&mut self, answer: &Answer) -> Result<Vec<Rule>, Failure> {
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
                    "no time was left to try {pattern} unbuffered, though more of it was fetched than \
                     used: allow more time with --budget"
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
            let tuned = Tuned { program: Some(&name), date: "", rules };
            rules::write(&rules::RulesFile::named(&path), &tuned)?;
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

    pub(super) fn interrupted(&self) -> bool {
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

    pub(super) fn report(
        &self,
        found: Found,
        stopped: Option<Stopped>,
    ) -> Result<TuneReport, Failure> {
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

    pub(super) fn end(&self, report: &TuneReport) -> Result<(), Failure> {
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
pub(super) struct Begun {
    #[serde(flatten)]
    pub(super) circumstances: Circumstances,
    /// More about the machine, for readers of the file.
    #[serde(default)]
    pub(super) environment: Option<Environment>,
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
    let own = own_folder(&home::costs()).map(|folder| folder.join("runs.sqlite"));
    own.map_err(|error| {
        Failure::own(format!("there is no folder of yours to keep the runs in: {error}"))
            .next("name a file: --store FILE")
    })
}

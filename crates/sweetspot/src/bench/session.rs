//! A session: the runs of a plan, one after the other, each stored before the next begins.
//!
//! Invariant: what runs next follows from the plan, the seed and the stored runs alone (`matrix`), so
//! a session that was killed at any instant comes to the same rounds.

mod begun;

use super::cell::{self, Launched, Outcome, Request};
use super::data::{DataSet, Inventory};
use super::place::Workspace;
use crate::arguments::Bench;
use crate::experiment::lab;
use crate::say::say;
pub use begun::Begun;
use begun::{begun, environment, may_go_on};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;
use sweetspot_lab::environment::Environment;
use sweetspot_lab::matrix::{Clock, Matrix, Step};
use sweetspot_lab::plan::{Cache, Plan, Started, Stop};
use sweetspot_lab::store::{self, CellRun, Ended, Store};
use sweetspot_report::bench::Skipped;
use sweetspot_report::bench::{BenchReport, Findings, Stopped};
use sweetspot_report::failure::Failure;
use sweetspot_report::published::Published;
use sweetspot_report::shown::shown;

/// So often in a row a round is repeated because a node was lost.
const LOST_MAX: usize = 3;

/// Everything that is ready when a session begins.
pub struct Prepared<'a> {
    pub arguments: &'a Bench,
    pub plan: &'a Plan,
    pub place: &'a Workspace,
    pub inventory: Inventory,
    pub data: Vec<DataSet>,
    pub skipped: Vec<Skipped>,
}

/// How far a session is to go before the machine is restarted, if at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Done,
    WarmedUp,
    OneRun,
}

/// A session in progress.
pub struct BenchSession<'a> {
    prepared: Prepared<'a>,
    /// The numbers of programs that cannot run.
    skipped: Vec<usize>,
    store: Store,
    stored: store::StoredSession,
    seed: u64,
    runs: Vec<CellRun>,
    bar: ProgressBar,
    interrupted: Arc<AtomicBool>,
    begun: Instant,
    lost: usize,
    notes: Vec<String>,
    environment: Environment,
}

/// The file that keeps all runs of a plan: one in the current folder, unless another is named.
pub fn store_path(arguments: &Bench, place: &Workspace) -> PathBuf {
    arguments.store.clone().unwrap_or_else(|| PathBuf::from(format!("{}.sqlite", place.name)))
}

/// What two sessions must have in common for one to go on with the other's runs.
pub fn subject(arguments: &Bench, place: &Workspace) -> String {
    let launcher = arguments.launcher.as_ref().map(|words| words.to_string_lossy().into_owned());
    let subject = Subject {
        bench: place.name.clone(),
        check: arguments.check,
        launcher,
        rounds: arguments.rounds,
        scale: arguments.scale.clone(),
    };
    serde_json::to_string(&subject).unwrap_or_default()
}

/// The same as data.
#[derive(Serialize, Deserialize)]
pub struct Subject {
    pub bench: String,
    pub check: bool,
    launcher: Option<String>,
    pub rounds: Option<u32>,
    pub scale: Option<String>,
}

impl<'a> BenchSession<'a> {
    /// Begins a session, or goes on with one.
    ///
    /// # Errors
    /// Where the store cannot be used; or where a session should go on that cannot.
    pub fn open(
        prepared: Prepared<'a>,
        bar: ProgressBar,
        interrupted: Arc<AtomicBool>,
    ) -> Result<BenchSession<'a>, Failure> {
        let Prepared { arguments, plan, place, .. } = prepared;
        let store = Store::open(&store_path(arguments, place))
            .map_err(|error| lab(error).next("keep the runs elsewhere: --store FILE"))?;
        let environment = environment(&prepared)?;
        let hindrance = environment.hindrance().map(|hindrance| hindrance.to_string());
        let mut notes: Vec<String> = hindrance.into_iter().collect();
        let begun = begun(&prepared, &environment)?;
        let subject = subject(arguments, place);
        let unfinished = store.last_unfinished(&subject).map_err(lab)?;
        let (stored, seed) = match unfinished {
            Some(stored) if arguments.resume => {
                let seed = resumed(&store, &stored, &begun, arguments, &mut notes)?;
                (stored, seed)
            }
            None if arguments.resume => {
                let at = store_path(arguments, place);
                let what = format!("{} has no unfinished session of this plan", shown(&at));
                return Err(Failure::own(what).next("begin one: the same command without --resume"));
            }
            older => {
                tell_of_older(&store, older.as_ref());
                let text = serde_json::to_string(&begun).unwrap_or_default();
                (store.begin(&subject, &text).map_err(lab)?, begun.circumstances.seed)
            }
        };
        let runs = store.cell_runs(&stored).map_err(lab)?;
        if runs.iter().any(|run| run.cell >= plan.cells.len()) {
            return Err(Failure::own("the stored runs are of another plan")
                .next("begin a new session: the same command without --resume"));
        }
        let skipped = prepared.skipped.iter().map(|skipped| skipped.program).collect();
        bar.set_position(runs.len() as u64);
        bar.reset_eta();
        let begun = Instant::now();
        Ok(BenchSession {
            prepared,
            skipped,
            store,
            stored,
            seed,
            runs,
            bar,
            interrupted,
            begun,
            lost: 0,
            notes,
            environment,
        })
    }

    fn matrix(&self) -> Matrix<'_> {
        Matrix {
            plan: self.prepared.plan,
            seed: self.seed,
            skipped: &self.skipped,
            runs: &self.runs,
        }
    }

    /// Runs what is to be run until enough has been seen, or it must stop.
    ///
    /// # Errors
    /// Where a run could not be made as it should be.
    pub fn run(&mut self, until: Until) -> Result<Option<Stopped>, Failure> {
        let before = self.runs.len();
        loop {
            let step = self.matrix().step(self.clock()).map_err(lab)?;
            let Step::Run { round, place, order } = step else { return Ok(None) };
            if self.interrupted.load(Relaxed) {
                return Ok(Some(Stopped::Interrupted));
            }
            let budget = self.prepared.arguments.budget;
            if place == 0 && budget.is_some_and(|budget| self.begun.elapsed() >= budget) {
                return Ok(Some(Stopped::Budget));
            }
            match until {
                Until::OneRun if self.runs.len() > before => return Ok(Some(Stopped::Restart)),
                Until::WarmedUp if round > 0 => return Ok(Some(Stopped::Restart)),
                _ => {}
            }
            self.show(round, order[place], order.len());
            match self.run_cell(round, order[place])? {
                Launched::Ran(outcome) => {
                    self.lost = 0;
                    let runs_of_round = order.len();
                    self.keep(CellRun {
                        round,
                        place,
                        runs_of_round,
                        cell: order[place],
                        ended: self.judged(order[place], outcome.ended),
                        node: outcome.node,
                    })?;
                }
                Launched::Lost(reason) => self.repeat(round, &reason)?,
            }
        }
    }

    fn clock(&self) -> Clock {
        match self.prepared.plan.stop {
            Stop::Precision { budget: Some(budget), .. } if self.begun.elapsed() >= budget => {
                Clock::Up
            }
            _ => Clock::Running,
        }
    }

    /// Stores a run, and says loudly if its cell is given up.
    fn keep(&mut self, run: CellRun) -> Result<(), Failure> {
        let called = self.prepared.plan.called(run.cell);
        self.store.add_cell_run(&self.stored, &run, &called).map_err(|error| {
            lab(error).next("what was stored before is kept: make room, then go on with --resume")
        })?;
        if let Ended::GivenUp(reason) = &run.ended {
            self.bar.suspend(|| say(format_args!("sweetspot: given up: {called}: {reason}")));
        }
        self.runs.push(run);
        self.bar.inc(1);
        Ok(())
    }

    /// Drops what there is of a round in which a node was lost.
    fn repeat(&mut self, round: usize, reason: &str) -> Result<(), Failure> {
        self.lost += 1;
        let what = format!("round {round} lost a node ({reason})");
        if self.lost > LOST_MAX {
            return Err(Failure::own(format!("{what}, for the {}. time in a row", self.lost))
                .next("look at the launcher's nodes, then go on with --resume"));
        }
        self.bar.suspend(|| say(format_args!("sweetspot: {what}: it is repeated")));
        self.store.drop_cell_round(&self.stored, round).map_err(lab)?;
        self.runs.retain(|run| run.round != round);
        self.bar.set_position(self.runs.len() as u64);
        Ok(())
    }

    fn run_cell(&mut self, round: usize, cell: usize) -> Result<Launched, Failure> {
        let request = self.request(cell)?;
        let node = self.runs.iter().find(|run| run.round == round).map(|run| run.node.as_str());
        let launcher = launcher_words(self.prepared.arguments, node);
        if launcher.is_empty() {
            let ended = cell::perform(&request)?;
            return Ok(Launched::Ran(Outcome {
                ended,
                node: String::new(),
                environment: String::new(),
            }));
        }
        let launched = cell::launch(&launcher, &request)?;
        if let Launched::Ran(outcome) = &launched {
            // Some launchers say that all is well when one of several did not come back.
            let ranks = |ended: &Ended| match ended {
                Ended::Measured(observed) => observed.ranks,
                Ended::GivenUp(_) => 0,
            };
            let usual = self.runs.iter().map(|run| ranks(&run.ended)).max().unwrap_or_default();
            let answered = ranks(&outcome.ended);
            if (1..usual).contains(&answered) {
                return Ok(Launched::Lost(format!("only {answered} of {usual} answered")));
            }
            let noted = self.store.note_node(&self.stored, &outcome.node, &outcome.environment);
            noted.map_err(lab)?;
        }
        Ok(launched)
    }

    /// What is to be done for a run of `cell`.
    fn request(&self, cell: usize) -> Result<Request, Failure> {
        let Prepared { plan, place, inventory, data, .. } = &self.prepared;
        let mut values: BTreeMap<String, String> = place.values()?.into_iter().collect();
        values.extend(plan.levels(cell));
        let mut inputs = Vec::new();
        for (name, number) in inventory.of_cell(cell) {
            values.insert(name.to_owned(), data[number].path.clone());
            inputs.extend(data[number].files.iter().cloned());
        }
        let Started { words, environment, stdin } = plan.started(&plan.cells[cell]);
        Ok(Request {
            words,
            environment: environment.into_iter().collect(),
            stdin,
            values,
            output: plan.program(&plan.cells[cell]).output,
            figure: plan.figure,
            folder: place.runs.path().to_path_buf(),
            inputs,
            cache: match plan.cache(&plan.cells[cell]) {
                Cache::Brought(state) => Some(state),
                Cache::AsItIs => None,
            },
            limit: plan.limit,
        })
    }

    /// A wrong answer is never a fast answer: compares what came out with what must come out.
    fn judged(&self, cell: usize, ended: Ended) -> Ended {
        let Ended::Measured(observed) = &ended else { return ended };
        let Some(found) = &observed.output else { return ended };
        let plan = self.prepared.plan;
        if let Some(known) = plan.known_hash(cell)
            && known != found
        {
            return Ended::GivenUp(format!(
                "its output is wrong: {found}, which should be {known}"
            ));
        }
        let matrix = self.matrix();
        let mut others = self
            .runs
            .iter()
            .filter(|run| plan.must_agree(run.cell, cell) && matrix.fault(run.cell).is_none());
        let first = others.find_map(|run| Some((run.cell, run.observed()?.output.as_ref()?)));
        match first {
            Some((other, expected)) if expected != found => Ended::GivenUp(format!(
                "its output is wrong: {found}, where '{}' gave {expected}{}",
                plan.called(other),
                if other == cell { " before" } else { "" }
            )),
            _ => ended,
        }
    }

    /// The live line: what runs, and what is known.
    fn show(&self, round: usize, cell: usize, cells: usize) {
        if self.bar.is_hidden() {
            return;
        }
        let plan = self.prepared.plan;
        let rounds = match plan.stop {
            Stop::Rounds(rounds) => rounds,
            Stop::Precision { .. } => {
                let next = sweetspot_lab::paired::LOOKS.into_iter().find(|look| *look >= round);
                next.unwrap_or(round)
            }
        };
        let left = (rounds + 1).saturating_sub(round) * cells;
        let before = self.runs.iter().filter(|run| run.round < round).count();
        self.bar.set_length((before + left) as u64);
        let which = if round == 0 { "warming up".to_owned() } else { format!("round {round}") };
        let effect = self.matrix().effect_of(cell).ok().flatten();
        let so_far = effect.map_or_else(String::new, |effect| match effect.speedup_interval() {
            Some(interval) => format!(
                "; so far {:.2} times as fast ({:.2} to {:.2})",
                effect.speedup(),
                interval.low,
                interval.high
            ),
            None => format!("; so far {:.2} times as fast", effect.speedup()),
        });
        self.bar.set_message(format!("{which}: {}{so_far}", plan.called(cell)));
    }

    /// What was found.
    ///
    /// # Errors
    /// Where figures are no numbers.
    pub fn report(
        &self,
        stopped: Option<Stopped>,
        published: &Published,
    ) -> Result<BenchReport, Failure> {
        self.bar.finish_and_clear();
        let store = store_path(self.prepared.arguments, self.prepared.place);
        Findings {
            matrix: self.matrix(),
            stopped,
            published,
            skipped: &self.prepared.skipped,
            notes: &self.notes,
            environment: Some(&self.environment),
            store: &store,
        }
        .report()
        .map_err(lab)
    }

    /// Ends the session, if nothing is left that could go on.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn end(&self, report: &BenchReport) -> Result<(), Failure> {
        if report.is_finished() {
            let result = serde_json::to_string(report).unwrap_or_default();
            self.store.finish(&self.stored, &result).map_err(lab)?;
        }
        Ok(())
    }
}

/// The words of `--launcher`. One that names `{node}` keeps a round on the node of its first run, so
/// that run goes without it.
fn launcher_words(arguments: &Bench, node: Option<&str>) -> Vec<OsString> {
    const NODE: &str = "{node}";
    let text = arguments.launcher.as_ref().map(|text| text.to_string_lossy()).unwrap_or_default();
    let word = |word: &str| match node {
        _ if !word.contains(NODE) => Some(word.into()),
        Some(node) => Some(word.replace(NODE, node).into()),
        None => None,
    };
    text.split_whitespace().filter_map(word).collect()
}

/// Goes on with a session: the seed that it began with.
fn resumed(
    store: &Store,
    stored: &store::StoredSession,
    begun: &Begun,
    arguments: &Bench,
    notes: &mut Vec<String>,
) -> Result<u64, Failure> {
    let then = may_go_on(stored, begun, arguments, notes)?;
    if arguments.seed.is_some_and(|typed| typed != then.seed) {
        let what = format!("the session began with the seed {}", then.seed);
        return Err(Failure::own(what).next("leave out --seed, or --resume"));
    }
    // Between restarts of the machine, runs of one round need not follow each other.
    if arguments.between.is_none() {
        store.drop_partial_cell_rounds(stored).map_err(lab)?;
    }
    Ok(then.seed)
}

/// Says that runs of an unfinished session are left alone.
fn tell_of_older(store: &Store, older: Option<&store::StoredSession>) {
    let has_runs = |older| store.cell_runs(older).is_ok_and(|runs| !runs.is_empty());
    if older.is_some_and(has_runs) {
        say(
            "sweetspot: an older session of this plan is not finished, and is left as it is\n  to go on \
             with that one: the same command with --resume",
        );
    }
}

//! `sweetspot bench`: measures what a plan says, and says what follows.
//!
//! The story: read the plan; see which programs can run here, build them, make their data; run all
//! cells in random rounds, each output checked and each run stored before the next begins; say what
//! was claimed and what was found, then everything in a table.
//!
//! Not here: what a plan means and what runs next (`plan` and `matrix` of `sweetspot-lab`).

mod cell;
mod data;
mod dry;
mod place;
mod programs;
mod published;
mod reboot;
mod session;
pub mod stored;

use crate::arguments::Bench;
use crate::interrupts::Interrupts;
use crate::say::say;
use data::{Inventory, Proof};
use indicatif::{ProgressBar, ProgressStyle};
use place::Workspace;
use reboot::Queue;
use session::{BenchSession, Prepared, Until};
use sweetspot_lab::plan::{Plan, Stop};
use sweetspot_report::bench::{BenchReport, Stopped};
use sweetspot_report::failure::Failure;
use sweetspot_report::print::print;
use sweetspot_report::shown::lines;

pub use cell::measure;

/// Exit status where something that was claimed was not shown, or the end was not reached.
const STATUS_NOT_SHOWN: u8 = 1;

/// Measures, and says what was found. Returns the exit status.
///
/// # Errors
/// Where the plan is not understood, or cannot be carried out.
pub fn bench(arguments: &Bench) -> Result<u8, Failure> {
    let place = Workspace::of(arguments)?;
    let plan = plan(arguments, &place)?;
    let published = published::read(&plan, &place)?;
    let skipped = programs::skipped(&plan);
    let inventory = Inventory::of(&plan, &place, &skipped)?;
    if arguments.dry_run {
        print(&match arguments.json {
            true => dry::json(&plan, &place, &inventory, &skipped)?,
            false => lines(&dry::describe(arguments, &plan, &place, &inventory, &skipped)?),
        })?;
        return Ok(0);
    }
    for skipped in &skipped {
        say(format_args!("sweetspot: {}: skipped", skipped.why));
    }
    let bar = bar();
    let proof = match arguments.between.is_some() && arguments.resume {
        true => Proof::Length,
        false => Proof::Hash,
    };
    let data = {
        let _alone = place.lock()?;
        programs::build(&plan, &place, &skipped, &bar)?;
        inventory.make(&place, proof, &bar)?
    };
    let interrupts = Interrupts::watch()?;
    interrupts.remove_at_end([place.runs.path().to_path_buf()]);
    let prepared = Prepared { arguments, plan: &plan, place: &place, inventory, data, skipped };
    let queue = Queue::of(arguments, &place);
    let until = match &queue {
        None => Until::Done,
        Some(_) if !arguments.resume => Until::WarmedUp,
        Some(_) => Until::OneRun,
    };
    if let (Some(queue), Until::OneRun) = (&queue, until) {
        queue.settle(&interrupts.asked);
    }
    let mut session = BenchSession::open(prepared, bar, interrupts.asked)?;
    // Whether the unit can be written is better known before the machine has worked for an hour.
    queue.iter().try_for_each(Queue::install)?;
    let ran = session.run(until);
    if let Some(queue) = &queue {
        match &ran {
            Ok(Some(Stopped::Restart)) => return queue.restart().map(|()| 0),
            _ if until == Until::WarmedUp => queue.remove(), // nothing is to go on by itself
            _ => {}
        }
    }
    let stopped = ran?;
    let report = session.report(stopped, &published)?;
    // The session ends well where its answer could not be printed, too.
    let printed = show(arguments, &report);
    if let (Some(queue), true) = (&queue, report.is_finished()) {
        queue.finish(&report)?;
    }
    session.end(&report)?;
    printed?;
    Ok(if report.is_all_shown() { 0 } else { STATUS_NOT_SHOWN })
}

fn show(arguments: &Bench, report: &BenchReport) -> Result<(), Failure> {
    match arguments.json {
        true => print(&(serde_json::to_string(report).unwrap_or_default() + "\n")),
        false => print(&lines(&report.text())),
    }
}

/// The plan, with what was typed beside it.
fn plan(arguments: &Bench, place: &Workspace) -> Result<Plan, Failure> {
    let mut plan = place.plan(arguments.scale.as_deref())?;
    plan.seed = arguments.seed.or(plan.seed);
    change(&mut plan, arguments.rounds, arguments.check);
    Ok(plan)
}

/// Makes of a plan what was typed: so many rounds; a cell against itself, or not (`--check`).
fn change(plan: &mut Plan, rounds: Option<u32>, check: bool) {
    if let Some(rounds) = rounds {
        plan.stop = Stop::Rounds(rounds as usize);
    }
    if check {
        plan.add_twin();
    }
}

/// The live line; nothing is shown where there is no terminal.
fn bar() -> ProgressBar {
    ProgressBar::new(0).with_style(
        // What is cut off where the terminal is narrow stands last.
        ProgressStyle::with_template("run {pos} of {len}, {eta} left; {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}

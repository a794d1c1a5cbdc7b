//! What a session of `bench` found, from the runs that are kept: now or later, finished or not.

use super::change;
use super::published;
use super::session::{Begun, Subject};
use crate::experiment::{begin_to_read, lab, understood};
use serde::Deserialize;
use std::path::Path;
use sweetspot_lab::environment::Environment;
use sweetspot_lab::matrix::Matrix;
use sweetspot_lab::plan::Plan;
use sweetspot_lab::store::{Kept, Store};
use sweetspot_report::bench::{Findings, Skipped};
use sweetspot_report::failure::Failure;
use sweetspot_report::sessions::StoredBench;

/// What only the session itself knew.
#[derive(Default, Deserialize)]
struct Said {
    notes: Vec<String>,
}

/// Whether the session is one of `bench`.
pub fn is_one(kept: &Kept) -> bool {
    understood::<Subject>(&kept.session.subject).is_some()
}

/// Reads a session, and says what its runs so far show.
///
/// # Errors
/// Where it cannot be read, or is not understood.
pub fn read(store: &Store, kept: &Kept, path: &Path) -> Result<StoredBench, Failure> {
    let (unknown, subject, said) = begin_to_read::<Subject, Said>(kept, path)?;
    let begun: Option<Begun> = understood(&kept.session.circumstances);
    let Some(begun) = begun.filter(|begun| !begun.text.is_empty()) else {
        return Err(unknown("an older sweetspot made it, which did not keep the plan".to_owned())
            .next("measure again: sweetspot bench PLAN"));
    };
    let mut plan = Plan::read(&begun.text, subject.scale.as_deref())
        .map_err(|error| unknown(format!("its plan is not understood: {error}")))?;
    change(&mut plan, subject.rounds, subject.check);
    let skipped: Vec<Skipped> =
        (begun.skipped.iter()).filter_map(|why| Skipped::said(&plan, why)).collect();
    let runs = store.cell_runs(&kept.session).map_err(lab)?;
    if runs.iter().any(|run| run.cell >= plan.cells.len()) {
        return Err(unknown("its runs are of another plan".to_owned()));
    }
    let environment: Option<Environment> = serde_json::from_value(begun.environment).ok();
    let numbers: Vec<usize> = skipped.iter().map(|skipped| skipped.program).collect();
    let report = Findings {
        matrix: Matrix {
            plan: &plan,
            seed: begun.circumstances.seed,
            skipped: &numbers,
            runs: &runs,
        },
        stopped: None,
        published: &published::kept(&plan, begun.published.as_deref())?,
        skipped: &skipped,
        notes: &said.notes,
        environment: environment.as_ref(),
        store: path,
    }
    .report()
    .map_err(lab)?;
    Ok(StoredBench { plan, runs, report, environment })
}

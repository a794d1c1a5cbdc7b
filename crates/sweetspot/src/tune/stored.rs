//! What a session of `tune` found, from the runs that are kept: now or later, finished or not.

use super::rounds::Begun;
use super::{CURVE_ROUNDS, lab};
use crate::experiment::{begin_to_read, understood};
use serde::Deserialize;
use std::path::Path;
use sweetspot_lab::ladder;
use sweetspot_lab::search::Plan;
use sweetspot_lab::store::{self, Kept, Store};
use sweetspot_report::failure::Failure;
use sweetspot_report::sessions::StoredTune;
use sweetspot_report::tune::{Findings, Found};

/// What was asked for; `rounds` writes it.
#[derive(Deserialize)]
struct Subject {
    command: Vec<String>,
    sizes: Vec<String>,
    within: f64,
    cold: bool,
    curve: bool,
    #[serde(default = "one")]
    patience: usize,
    /// Older sessions asked for nothing else.
    #[serde(default = "yes")]
    smallest: bool,
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

/// What only the session itself knew.
#[derive(Default, Deserialize)]
struct Said {
    checked: Vec<String>,
    notes: Vec<String>,
}

/// Whether the session is one of `tune`.
pub fn is_one(kept: &Kept) -> bool {
    understood::<Subject>(&kept.session.subject).is_some()
}

/// Reads a session, and says what its runs so far show.
///
/// # Errors
/// Where it cannot be read, or is not understood.
pub fn read(store: &Store, kept: &Kept, path: &Path) -> Result<StoredTune, Failure> {
    let (unknown, subject, said) = begin_to_read::<Subject, Said>(kept, path)?;
    let begun: Begun = serde_json::from_str(&kept.session.circumstances)
        .map_err(|error| unknown(error.to_string()))?;
    // The first setting is no buffering, the last is automatic.
    let sizes = match subject.sizes.as_slice() {
        [_, first, .., last, _] => ladder::ladder(&format!("{first}..{last}")).map_err(unknown)?,
        _ => return Err(unknown("its sizes are not known".to_owned())),
    };
    let plan = Plan {
        sizes: sizes.count(),
        within: subject.within,
        seed: begun.circumstances.seed,
        curve_rounds: if subject.curve { CURVE_ROUNDS } else { 0 },
        patience: subject.patience,
    };
    let runs = store.ran(&kept.session).map_err(lab)?;
    let rounds = store::whole_rounds(&runs);
    let measurements: Vec<_> = runs.iter().map(|run| (run.setting, run.measurement)).collect();
    let report = Findings {
        sizes: &sizes,
        cache: if subject.cold { "cold" } else { "warm" },
        plan: &plan,
        rounds: &rounds,
        measurements: &measurements,
        runs: runs.len(),
        checked: said.checked,
        notes: said.notes,
        found: Found::after(subject.smallest, &plan, &rounds).map_err(lab)?,
        stopped: None,
    }
    .report()
    .map_err(lab)?;
    let environment = begun.environment;
    Ok(StoredTune { command: subject.command, sizes, plan, runs, rounds, report, environment })
}

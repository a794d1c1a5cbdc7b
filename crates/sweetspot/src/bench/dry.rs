//! What would be done: cells, order, room and time; or the cells as data, with their commands. Nothing
//! is built, made or run.

use super::data::{Inventory, free_bytes};
use super::place::Workspace;
use super::session::{store_path, subject};
use crate::arguments::Bench;
use crate::experiment::lab;
use serde_json::Value;
use std::collections::BTreeMap;
use sweetspot_lab::plan::Plan;
use sweetspot_lab::store::{CellRun, Store};
use sweetspot_report::bench::Skipped;
use sweetspot_report::bench::dry::{self, DryData, DryRun};
use sweetspot_report::failure::Failure;

/// Describes a session that would begin now.
///
/// # Errors
/// Where the arguments of `work generate` are not understood, or the store cannot be read.
pub fn describe(
    arguments: &Bench,
    plan: &Plan,
    place: &Workspace,
    inventory: &Inventory,
    skipped: &[Skipped],
) -> Result<String, Failure> {
    let mut data = Vec::new();
    for wanted in &inventory.wanted {
        let (name, bytes) = (wanted.name.clone(), wanted.bytes()?);
        data.push(DryData { name, bytes, is_there: wanted.is_there() });
    }
    // Nothing has been made yet: what is there of the path tells on which disk it will be.
    let there = place.data.ancestors().find(|folder| folder.exists()).unwrap_or(&place.data);
    let free_bytes = free_bytes(there)?;
    let known = &known(arguments, place)?;
    Ok(DryRun { plan, skipped, data, folder: &place.data, free_bytes, known }.text())
}

/// The runs of the last session of this plan, of however many rounds it was.
fn known(arguments: &Bench, place: &Workspace) -> Result<Vec<CellRun>, Failure> {
    let path = store_path(arguments, place);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let store = Store::open(&path).map_err(lab)?;
    let alike = |subject: &str| {
        let mut subject: Value = serde_json::from_str(subject).unwrap_or_default();
        subject["rounds"] = Value::Null;
        subject
    };
    let wanted = alike(&subject(arguments, place));
    let sessions = store.sessions().map_err(lab)?;
    match sessions.iter().find(|session| alike(&session.subject) == wanted) {
        Some(last) => store.cell_runs(last).map_err(lab),
        None => Ok(Vec::new()),
    }
}

/// The cells as data.
///
/// # Errors
/// Where data that is there cannot be looked at.
pub fn json(
    plan: &Plan,
    place: &Workspace,
    inventory: &Inventory,
    skipped: &[Skipped],
) -> Result<String, Failure> {
    let mut cells = Vec::new();
    for number in 0..plan.cells.len() {
        let mut values: BTreeMap<String, String> = place.values()?.into_iter().collect();
        values.extend(plan.levels(number));
        for (name, data) in inventory.of_cell(number) {
            values.extend(inventory.wanted[data].path()?.map(|path| (name.to_owned(), path)));
        }
        cells.push(values);
    }
    Ok(dry::json(plan, skipped, |cell, name| cells[cell].get(name).cloned()))
}

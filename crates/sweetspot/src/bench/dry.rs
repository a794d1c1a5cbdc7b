//! What would be done: cells, order, room and time; or the cells as data, with their commands. Nothing
//! is built, made or run.

use super::data::{Inventory, free_bytes};
use super::place::Workspace;
use super::session::{seconds_of, store_path, subject};
use crate::arguments::Bench;
use crate::experiment::lab;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use sweetspot_lab::matrix::Matrix;
use sweetspot_lab::paired::LOOKS;
use sweetspot_lab::plan::{Plan, Started, Stop, Template};
use sweetspot_lab::store::{CellRun, Store};
use sweetspot_report::bench::Skipped;
use sweetspot_report::failure::Failure;
use sweetspot_report::numbers::{self, duration};
use sweetspot_report::shown::shown;

/// Rounds whose order is shown.
const ROUNDS_SHOWN: usize = 3;

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
    let mut text = format!("{}\n", plan.title);
    plan.question.iter().for_each(|question| text.push_str(&format!("{question}\n")));
    let _ = writeln!(text, "\n{} cells:", plan.cells.len());
    let numbers: Vec<usize> = skipped.iter().map(|skipped| skipped.program).collect();
    let seed = plan.seed.unwrap_or_default();
    let matrix = Matrix { plan, seed, skipped: &numbers, runs: &[] };
    for cell in 0..plan.cells.len() {
        let against = match plan.reference(cell) {
            Some(reference) => format!(", against {}", reference + 1),
            None => ", a baseline".to_owned(),
        };
        let skipped = if matrix.is_skipped(cell) { ", skipped" } else { "" };
        let cache = plan.cache(&plan.cells[cell]).name();
        let called = plan.called(cell);
        let _ = writeln!(text, "  {:>3}  {called} (cache {cache}{against}{skipped})", cell + 1);
    }
    for skipped in skipped {
        let _ = writeln!(text, "Skipped: {}.", skipped.why);
    }
    text.push_str(&order(plan, &matrix));
    text.push_str(&room(place, inventory)?);
    text.push_str(&time(arguments, plan, place, &matrix)?);
    Ok(text)
}

/// A cell as data.
#[derive(Serialize)]
struct DryCell {
    name: String,
    /// Placeholders of what is not there yet are left as they are: `{output}`, and data that is missing.
    command: Vec<String>,
    environment: BTreeMap<String, String>,
    stdin: Option<String>,
    cache: &'static str,
    /// What it is held against; none for a baseline.
    against: Option<String>,
    skipped: bool,
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
    for (number, cell) in plan.cells.iter().enumerate() {
        let mut values: BTreeMap<String, String> = place.values()?.into_iter().collect();
        values.extend(plan.levels(number));
        for (name, data) in inventory.of_cell(number) {
            values.extend(inventory.wanted[data].path()?.map(|path| (name.to_owned(), path)));
        }
        let filled = |text: &Template| {
            let value = |name: &str| values.get(name).cloned().unwrap_or(format!("{{{name}}}"));
            text.fill(value).to_string_lossy().into_owned()
        };
        let Started { words, environment, stdin } = plan.started(cell);
        cells.push(DryCell {
            name: plan.called(number),
            command: words.iter().map(filled).collect(),
            environment: environment
                .iter()
                .map(|(name, value)| (name.clone(), filled(value)))
                .collect(),
            stdin: stdin.as_ref().map(filled),
            cache: plan.cache(cell).name(),
            against: plan.reference(number).map(|reference| plan.called(reference)),
            skipped: skipped.iter().any(|skipped| skipped.program == cell.program()),
        });
    }
    Ok(serde_json::json!({ "title": plan.title, "cells": cells }).to_string() + "\n")
}

fn order(plan: &Plan, matrix: &Matrix) -> String {
    let mut text = match plan.seed {
        Some(seed) => format!("\nOrder, from seed {seed}:\n"),
        None => {
            "\nThe order is chosen at random when it begins (--seed NUMBER fixes it); from seed 0:\n"
                .to_owned()
        }
    };
    for round in 0..=ROUNDS_SHOWN {
        let order = matrix.order(round);
        let order: Vec<String> = order.iter().map(|cell| (cell + 1).to_string()).collect();
        let name = if round == 0 { "warm up".to_owned() } else { format!("round {round}") };
        let _ = writeln!(text, "  {name:>8}  {}", order.join(" "));
    }
    text
}

fn room(place: &Workspace, inventory: &Inventory) -> Result<String, Failure> {
    let mut text = "\nData:\n".to_owned();
    let mut missing = 0;
    for wanted in &inventory.wanted {
        let bytes = wanted.bytes()?;
        let size = bytes.map_or("of unknown size".to_owned(), numbers::bytes);
        let is_there = if wanted.is_there() { "is there" } else { "will be made" };
        let _ = writeln!(text, "  {}: {size}, {is_there}", wanted.name);
        if !wanted.is_there() {
            missing += bytes.unwrap_or_default();
        }
    }
    if inventory.wanted.is_empty() {
        text.push_str("  none\n");
    }
    // Nothing has been made yet: what is there of the path tells on which disk it will be.
    let there = place.data.ancestors().find(|folder| folder.exists()).unwrap_or(&place.data);
    let free = free_bytes(there)?;
    let _ = writeln!(
        text,
        "  {} more are needed in {}, which has {} left;\n  and room for the output of one run, which \
         is removed after it",
        numbers::bytes(missing),
        shown(&place.data),
        numbers::bytes(free)
    );
    Ok(text)
}

/// What a session takes, from the runs of an earlier one.
fn time(
    arguments: &Bench,
    plan: &Plan,
    place: &Workspace,
    matrix: &Matrix,
) -> Result<String, Failure> {
    let cells = matrix.order(1).len();
    let (rounds, cap) = match plan.stop {
        Stop::Rounds(rounds) => (rounds, rounds),
        Stop::Precision { .. } => (LOOKS[0], LOOKS[LOOKS.len() - 1]),
    };
    let runs = |rounds: usize| (rounds + 1) * cells;
    let mut text = match rounds == cap {
        true => format!("\n{} runs", runs(rounds)),
        false => format!("\n{} to {} runs", runs(rounds), runs(cap)),
    };
    let path = store_path(arguments, place);
    let mut known: Vec<CellRun> = Vec::new();
    if path.exists() {
        let store = Store::open(&path).map_err(lab)?;
        // Of how many rounds it was does not matter here.
        let alike = |subject: &str| {
            let mut subject: Value = serde_json::from_str(subject).unwrap_or_default();
            subject["rounds"] = Value::Null;
            subject
        };
        let wanted = alike(&subject(arguments, place));
        let sessions = store.sessions().map_err(lab)?;
        if let Some(last) = sessions.iter().find(|session| alike(&session.subject) == wanted) {
            known = store.cell_runs(last).map_err(lab)?;
        }
    }
    let mut of_cells: BTreeMap<usize, Vec<CellRun>> = BTreeMap::new();
    known.into_iter().for_each(|run| of_cells.entry(run.cell).or_default().push(run));
    let mean = |runs: &Vec<CellRun>| seconds_of(runs) / runs.len() as f64;
    let round: f64 = of_cells.values().map(mean).sum();
    if of_cells.len() < cells {
        text.push_str("; how long they take is known after the first round\n");
    } else {
        let _ = write!(text, ", {}", duration(round * (rounds + 1) as f64));
        if rounds != cap {
            let _ = write!(text, " to {}", duration(round * (cap + 1) as f64));
        }
        text.push_str(" of running, as the last session went, and what is prepared before each\n");
    }
    Ok(text)
}

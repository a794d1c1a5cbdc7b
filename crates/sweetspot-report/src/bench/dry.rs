//! What a session of `bench` would do: cells, order, room and time; or the cells as data, with their
//! commands.

use crate::bench::Skipped;
use crate::numbers::{self, duration};
use crate::shown::shown;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use sweetspot_lab::matrix::Matrix;
use sweetspot_lab::paired::LOOKS;
use sweetspot_lab::plan::{Plan, Started, Stop, Template};
use sweetspot_lab::store::CellRun;

/// Rounds whose order is shown.
const ROUNDS_SHOWN: usize = 3;

/// A session that would begin now.
pub struct DryRun<'a> {
    pub plan: &'a Plan,
    pub skipped: &'a [Skipped],
    pub data: Vec<DryData>,
    /// Where data is made, and how many bytes are free there.
    pub folder: &'a Path,
    pub free_bytes: u64,
    /// The runs of an earlier session of this plan.
    pub known: &'a [CellRun],
}

/// A data set.
pub struct DryData {
    pub name: String,
    /// `None`: only its command knows.
    pub bytes: Option<u64>,
    pub is_there: bool,
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

impl DryRun<'_> {
    /// All of it, for people.
    pub fn text(&self) -> String {
        let DryRun { plan, skipped, .. } = self;
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
        for skipped in *skipped {
            let _ = writeln!(text, "Skipped: {}.", skipped.why);
        }
        text.push_str(&order(plan, &matrix));
        text.push_str(&self.room());
        text.push_str(&self.time(&matrix));
        text
    }

    fn room(&self) -> String {
        let mut text = "\nData:\n".to_owned();
        let mut missing = 0;
        for data in &self.data {
            let size = data.bytes.map_or("of unknown size".to_owned(), numbers::bytes);
            let is_there = if data.is_there { "is there" } else { "will be made" };
            let _ = writeln!(text, "  {}: {size}, {is_there}", data.name);
            if !data.is_there {
                missing += data.bytes.unwrap_or_default();
            }
        }
        if self.data.is_empty() {
            text.push_str("  none\n");
        }
        let _ = writeln!(
            text,
            "  {} more are needed in {}, which has {} left;\n  and room for the output of one run, which \
             is removed after it",
            numbers::bytes(missing),
            shown(self.folder),
            numbers::bytes(self.free_bytes)
        );
        text
    }

    /// What a session takes, from the runs of an earlier one.
    fn time(&self, matrix: &Matrix) -> String {
        let cells = matrix.order(1).len();
        let (rounds, cap) = match self.plan.stop {
            Stop::Rounds(rounds) => (rounds, rounds),
            Stop::Precision { .. } => (LOOKS[0], LOOKS[LOOKS.len() - 1]),
        };
        let runs = |rounds: usize| (rounds + 1) * cells;
        let mut text = match rounds == cap {
            true => format!("\n{} runs", runs(rounds)),
            false => format!("\n{} to {} runs", runs(rounds), runs(cap)),
        };
        let mut of_cells: BTreeMap<usize, Vec<&CellRun>> = BTreeMap::new();
        self.known.iter().for_each(|run| of_cells.entry(run.cell).or_default().push(run));
        let mean = |runs: &Vec<&CellRun>| seconds_of(runs) / runs.len() as f64;
        let round: f64 = of_cells.values().map(mean).sum();
        if of_cells.len() < cells {
            text.push_str("; how long they take is known after the first round\n");
        } else {
            let _ = write!(text, ", {}", duration(round * (rounds + 1) as f64));
            if rounds != cap {
                let _ = write!(text, " to {}", duration(round * (cap + 1) as f64));
            }
            text.push_str(
                " of running, as the last session went, and what is prepared before each\n",
            );
        }
        text
    }
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

/// How long a session took so far, about: the times of its runs.
fn seconds_of(runs: &[&CellRun]) -> f64 {
    let observed = runs.iter().filter_map(|run| run.observed());
    observed.map(|observed| observed.measurement.wall).sum::<Duration>().as_secs_f64()
}

/// The cells as data. `value` is what a placeholder of a cell stands for, if that is known.
pub fn json(
    plan: &Plan,
    skipped: &[Skipped],
    value: impl Fn(usize, &str) -> Option<String>,
) -> String {
    let mut cells = Vec::new();
    for (number, cell) in plan.cells.iter().enumerate() {
        let filled = |text: &Template| {
            let known = |name: &str| value(number, name).unwrap_or(format!("{{{name}}}"));
            text.fill(known).to_string_lossy().into_owned()
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
    serde_json::json!({ "title": plan.title, "cells": cells }).to_string() + "\n"
}

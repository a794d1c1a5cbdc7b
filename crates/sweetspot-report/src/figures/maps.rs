//! Maps of medians by two factors.

use crate::chart::{Chart, Drawn, Map, ROWS_MAX};
use crate::data::{Kind, Session};
use crate::figures::{CURVE_MIN, SEVERAL_MAX, numbers, others, said, shown};
use crate::parts::{Figure, Table, how, unit};

/// Medians by two factors: one map for each combination of the rest.
pub(super) fn maps(session: &Session) -> Vec<Figure> {
    let mut factors: Vec<usize> =
        (0..session.factors.len()).filter(|at| session.factors[*at].levels.len() > 1).collect();
    if session.kind == Kind::Tune || factors.len() < 2 {
        return Vec::new();
    }
    // Those with numbers, then those with most levels; in the order of the plan.
    factors.sort_by_key(|at| {
        let many = session.factors[*at].levels.len();
        (numbers(session, *at).is_none(), std::cmp::Reverse(many))
    });
    let mut two = [factors[0], factors[1]];
    two.sort_unstable();
    let [down, across] = two;
    let (rows, columns) = (&session.factors[down], &session.factors[across]);
    if rows.levels.len() * columns.levels.len() < 2 * CURVE_MIN || rows.levels.len() > ROWS_MAX {
        return Vec::new();
    }
    let (unit, scale_of) = unit(&session.unit);
    let mut maps: Vec<(String, Vec<Option<f64>>)> = Vec::new();
    for (_, cell) in shown(session) {
        let name = others(session, cell, &two);
        let at = maps.iter().position(|(found, _)| *found == name).unwrap_or_else(|| {
            maps.push((name, vec![None; rows.levels.len() * columns.levels.len()]));
            maps.len() - 1
        });
        let place = |factor: usize| {
            let levels = &session.factors[factor].levels;
            levels.iter().position(|level| *level == cell.levels[factor])
        };
        if let Some((row, column)) = place(down).zip(place(across)) {
            maps[at].1[row * columns.levels.len() + column] = cell.median.map(|m| m * scale_of);
        }
    }
    let is_full = |values: &[Option<f64>]| 2 * values.iter().flatten().count() > values.len();
    let full = maps.into_iter().filter(|(_, values)| is_full(values));
    let drawn = |(name, values): (String, Vec<Option<f64>>)| {
        let about = if name.is_empty() { String::new() } else { format!(": {name}") };
        let title = format!("Median by {} and {}{about}", rows.name, columns.name);
        let cells = values.chunks(columns.levels.len());
        let line = |(level, cells): (&String, &[Option<f64>])| {
            let words = cells.iter().map(|v| v.map_or_else(String::new, |v| unit.text(v)));
            std::iter::once(level.clone()).chain(words).collect()
        };
        let table = Table {
            caption: title.clone(),
            header: std::iter::once(&rows.name).chain(&columns.levels).cloned().collect(),
            rows: std::iter::zip(&rows.levels, cells).map(line).collect(),
            words: 1,
            marked: None,
        };
        let description = format!("{} by {} squares.", rows.levels.len(), columns.levels.len());
        let map = Map {
            across: (columns.name.clone(), columns.levels.clone()),
            down: (rows.name.clone(), rows.levels.clone()),
            unit: unit.clone(),
            values,
        };
        Figure {
            chart: Chart { said: said(&title, description), drawn: Drawn::Map(map) },
            caption: format!(
                "The stronger the colour, the longer it takes, on a logarithmic scale. {}.",
                how(session)
            ),
            table,
        }
    };
    full.take(SEVERAL_MAX).map(drawn).collect()
}

//! Maps of medians by two factors.

use crate::chart::{Chart, Drawn, Map, ROWS_MAX, Unit};
use crate::data::{Factor, Kind, Session};
use crate::figures::{CURVE_MIN, SEVERAL_MAX, numbers, others, said, shown};
use crate::parts::{Figure, Table, how, unit};

/// Medians by two factors: one map for each combination of the rest.
pub(super) fn maps(session: &Session) -> Vec<Figure> {
    let Some(two) = two_factors(session) else { return Vec::new() };
    let [rows, columns] = two.map(|at| &session.factors[at]);
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
        if let Some((row, column)) = place(two[0]).zip(place(two[1])) {
            maps[at].1[row * columns.levels.len() + column] = cell.median.map(|m| m * scale_of);
        }
    }
    let is_full = |values: &[Option<f64>]| 2 * values.iter().flatten().count() > values.len();
    let full = maps.into_iter().filter(|(_, values)| is_full(values)).take(SEVERAL_MAX);
    full.map(|(name, values)| map(session, [rows, columns], &name, (&unit, values))).collect()
}

/// The two factors that a map shows, in the order of the plan: those with numbers come first, then those with
/// most levels. `None`: there is nothing to be seen on a map.
fn two_factors(session: &Session) -> Option<[usize; 2]> {
    let levels = |at: usize| session.factors[at].levels.len();
    let mut factors: Vec<usize> = (0..session.factors.len()).filter(|at| levels(*at) > 1).collect();
    if session.kind == Kind::Tune || factors.len() < 2 {
        return None;
    }
    factors.sort_by_key(|at| (numbers(session, *at).is_none(), std::cmp::Reverse(levels(*at))));
    let mut two = [factors[0], factors[1]];
    two.sort_unstable();
    let is_map = levels(two[0]) * levels(two[1]) >= 2 * CURVE_MIN && levels(two[0]) <= ROWS_MAX;
    is_map.then_some(two)
}

/// One map, and its table. `name` says which levels the other factors have.
fn map(
    session: &Session,
    [rows, columns]: [&Factor; 2],
    name: &str,
    (unit, values): (&Unit, Vec<Option<f64>>),
) -> Figure {
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
    let colours = "The stronger the colour, the longer it takes, on a logarithmic scale";
    Figure {
        chart: Chart { said: said(&title, description), drawn: Drawn::Map(map) },
        caption: format!("{colours}. {}.", how(session)),
        table,
    }
}

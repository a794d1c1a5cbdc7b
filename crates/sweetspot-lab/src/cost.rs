//! What runs cost, as a sum: a fixed part, so many seconds a call, so many seconds a byte.
//!
//! Fitted to many light runs such that the sum of all distances between a run and the model, each as
//! a share of the model's time, is least: half of the runs lie above it and half below, so a run that
//! was held up does not pull it, and none is dropped. (Least squares, weighted anew in each step.) No
//! part is negative: one that comes out so is nothing. Intervals are from the bootstrap over runs.
//!
//! A part is only there where the runs can tell it: its figure differs among them, and not in step
//! with that of another part. What cannot be told is within the fixed part.

use sweetspot_core::cost::of_calls;

use crate::{
    schedule::Random,
    statistics::{self, Interval},
};

/// How far a figure must differ, largest by smallest, for its cost to be told.
const SPREAD_MIN: f64 = 1.5;
/// Different values that a figure must have: two points make a line through anything.
const VALUES_MIN: usize = 3;
/// Calls and bytes with a larger squared correlation cannot be told from each other.
const ALIKE: f64 = 0.98;
/// Steps of the fit: it changes by less than a thousandth afterwards.
const STEPS: usize = 12;
/// A run nearer to the model than this share of its time counts as if it were so far.
const NEAR: f64 = 0.01;
/// Samples that the bootstrap draws.
const RESAMPLES: usize = 400;

/// What one run did, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Light {
    pub calls: f64,
    pub bytes: f64,
    pub seconds: f64,
}

/// A part of the cost, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    pub value: f64,
    pub interval: Interval,
}

/// The sum, as fitted: no cost of a call by itself (that is `sweetspot_core::cost::Cost`), but what the runs tell of
/// it, with how sure that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FittedCost {
    /// Seconds that every run takes.
    pub fixed: Part,
    /// Seconds a call.
    pub call: Part,
    /// Seconds a byte; none where that cannot be told.
    pub byte: Option<Part>,
    pub runs: usize,
    /// The median distance between a run and the model, as a share of its time.
    pub error: f64,
}

impl FittedCost {
    /// What a run with so many calls and bytes takes.
    pub fn seconds(&self, calls: f64, bytes: f64) -> f64 {
        let byte = self.byte.map_or(0.0, |byte| byte.value);
        self.fixed.value + of_calls([self.call.value, byte], calls, bytes)
    }
}

/// Fits the sum; none where the runs cannot tell what a call costs.
pub fn fit(runs: &[Light], seed: u64) -> Option<FittedCost> {
    let is_usual =
        |run: &Light| run.seconds > 0.0 && run.calls.is_finite() && run.bytes.is_finite();
    let calls = |run: &Light| run.calls;
    if !runs.iter().all(is_usual) || !differs(runs, calls) {
        return None;
    }
    let has_byte = differs(runs, |run| run.bytes) && !are_alike(runs);
    let values = solve(runs, has_byte)?;
    let mut random = Random::new(seed);
    let mut drawn = runs.to_vec();
    let mut all: [Vec<f64>; 3] = Default::default();
    for _ in 0..RESAMPLES {
        drawn.iter_mut().for_each(|run| *run = runs[random.below(runs.len())]);
        let found = solve(&drawn, has_byte).unwrap_or(values);
        std::iter::zip(&mut all, found).for_each(|(all, value)| all.push(value));
    }
    let part = |place: usize| {
        let low = statistics::quantile(&all[place], 0.025).ok()?;
        let high = statistics::quantile(&all[place], 0.975).ok()?;
        Some(Part { value: values[place], interval: Interval { low, high } })
    };
    let byte = if has_byte { Some(part(2)?) } else { None };
    let mut model =
        FittedCost { fixed: part(0)?, call: part(1)?, byte, runs: runs.len(), error: 0.0 };
    let apart = |run: &Light| (1.0 - run.seconds / model.seconds(run.calls, run.bytes)).abs();
    model.error = statistics::median(&runs.iter().map(apart).collect::<Vec<_>>()).ok()?;
    Some(model)
}

fn differs(runs: &[Light], of: impl Fn(&Light) -> f64) -> bool {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    let (Some(least), Some(most)) = (values.first(), values.last()) else { return false };
    values.len() >= VALUES_MIN && *most > SPREAD_MIN * least.max(1.0)
}

fn are_alike(runs: &[Light]) -> bool {
    let mean = |of: fn(&Light) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
    let (calls, bytes) = (mean(|run| run.calls), mean(|run| run.bytes));
    let (mut both, mut one, mut other) = (0.0, 0.0, 0.0);
    for run in runs {
        let (a, b) = (run.calls - calls, run.bytes - bytes);
        both += a * b;
        one += a * a;
        other += b * b;
    }
    both * both > ALIKE * one * other
}

/// Fixed part, call, byte: the least distances among those without a negative part.
fn solve(runs: &[Light], has_byte: bool) -> Option<[f64; 3]> {
    let mut used = [true, true, has_byte];
    loop {
        let values = least_distances(runs, used)?;
        let worst = (0..3).min_by(|a, b| values[*a].total_cmp(&values[*b]))?;
        if values[worst] >= 0.0 {
            return Some(values);
        }
        used[worst] = false;
    }
}

fn least_distances(runs: &[Light], used: [bool; 3]) -> Option<[f64; 3]> {
    let mut weights: Vec<f64> = runs.iter().map(|run| 1.0 / run.seconds).collect();
    let mut values = least_squares(runs, &weights, used)?;
    for _ in 0..STEPS {
        for (weight, run) in std::iter::zip(&mut weights, runs) {
            let model = values[0] + values[1] * run.calls + values[2] * run.bytes;
            // What is negative on the way is far off, and is left out later if it stays so.
            let model = model.max(run.seconds * NEAR);
            let apart = ((run.seconds - model) / model).abs().max(NEAR);
            *weight = 1.0 / (model * apart.sqrt());
        }
        values = least_squares(runs, &weights, used)?;
    }
    Some(values)
}

/// The normal equations, solved by elimination. Columns are scaled, as bytes are millions.
fn least_squares(runs: &[Light], weights: &[f64], used: [bool; 3]) -> Option<[f64; 3]> {
    let row = |run: &Light, weight: f64| [1.0, run.calls, run.bytes].map(|value| value * weight);
    let mut scale = [0.0_f64; 3];
    for (run, weight) in std::iter::zip(runs, weights) {
        let row = row(run, *weight);
        std::iter::zip(&mut scale, row).for_each(|(scale, value)| *scale = scale.max(value));
    }
    let columns: Vec<usize> = (0..3).filter(|at| used[*at] && scale[*at] > 0.0).collect();
    let mut equations = vec![vec![0.0; columns.len() + 1]; columns.len()];
    for (run, weight) in std::iter::zip(runs, weights) {
        let row = row(run, *weight);
        let scaled = |column: usize| row[column] / scale[column];
        for (equation, &column) in std::iter::zip(&mut equations, &columns) {
            for (place, &other) in columns.iter().enumerate() {
                equation[place] += scaled(column) * scaled(other);
            }
            equation[columns.len()] += scaled(column) * run.seconds * weight;
        }
    }
    let found = eliminated(equations)?;
    let mut values = [0.0; 3];
    for (&column, value) in std::iter::zip(&columns, found) {
        values[column] = value / scale[column];
    }
    Some(values)
}

/// The solution of so many linear equations, each with its right side last.
fn eliminated(mut equations: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    const TINY: f64 = 1e-12;
    let unknowns = equations.len();
    for at in 0..unknowns {
        let largest = |row: &usize| equations[*row][at].abs();
        let pivot = (at..unknowns).max_by(|a, b| largest(a).total_cmp(&largest(b)))?;
        equations.swap(at, pivot);
        if equations[at][at].abs() < TINY {
            return None;
        }
        let pivot = equations[at].clone();
        for (_, row) in equations.iter_mut().enumerate().filter(|(number, _)| *number != at) {
            let share = row[at] / pivot[at];
            std::iter::zip(row.iter_mut(), &pivot)
                .for_each(|(value, pivot)| *value -= share * pivot);
        }
    }
    Some((0..unknowns).map(|at| equations[at][unknowns] / equations[at][at]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Random;

    /// Runs of a program whose parts are known, each up to a tenth slower.
    fn runs(fixed: f64, call: f64, byte: f64, bytes: &[f64]) -> Vec<Light> {
        let mut random = Random::new(7);
        let mut all = Vec::new();
        for _ in 0..5 {
            for &bytes in bytes {
                for size in [200.0, 4096.0, 65536.0] {
                    let calls = (bytes / size).ceil();
                    let slower = 1.0 + random.below(100) as f64 / 1000.0;
                    let seconds = (fixed + call * calls + byte * bytes) * slower;
                    all.push(Light { calls, bytes, seconds });
                }
            }
        }
        all
    }

    #[test]
    fn finds_the_parts_that_were_put_in() {
        let model = fit(&runs(0.002, 5e-7, 1e-10, &[1e6, 1e7, 1e8]), 1).unwrap();
        let near = |part: Part, truth: f64| {
            assert!((0.95..1.15).contains(&(part.value / truth)), "{part:?} is not {truth}");
            assert!(part.interval.low <= part.value && part.value <= part.interval.high);
        };
        near(model.fixed, 0.002);
        near(model.call, 5e-7);
        near(model.byte.unwrap(), 1e-10);
        assert!(model.error < 0.05);
    }

    #[test]
    fn what_cannot_be_told_is_not_said() {
        let one_size = fit(&runs(0.002, 5e-7, 1e-10, &[1e8]), 1).unwrap();
        assert_eq!(one_size.byte, None, "all moved as many bytes");
        let in_step: Vec<Light> = (runs(0.002, 5e-7, 1e-10, &[1e6, 1e7, 1e8]).into_iter())
            .map(|run| Light { bytes: run.calls * 8.0, ..run })
            .collect();
        assert_eq!(fit(&in_step, 1).unwrap().byte, None, "bytes in step with calls");
        let alike = vec![Light { calls: 5.0, bytes: 5.0, seconds: 1.0 }; 9];
        assert_eq!(fit(&alike, 1), None);
        assert_eq!(fit(&[], 1), None);
    }

    #[test]
    fn runs_that_were_held_up_do_not_pull_it() {
        let mut held_up = runs(0.002, 5e-7, 0.0, &[1e6, 1e7]);
        held_up.iter_mut().step_by(4).for_each(|run| run.seconds *= 20.0);
        let model = fit(&held_up, 1).unwrap();
        assert!((0.9..1.2).contains(&(model.call.value / 5e-7)), "{model:?}");
    }

    #[test]
    fn no_part_is_negative() {
        let mut falling = runs(0.0, 1e-6, 0.0, &[1e6, 1e7]);
        falling.iter_mut().for_each(|run| run.seconds = 1.0 / run.calls);
        let model = fit(&falling, 1).unwrap();
        assert!(model.call.value == 0.0 && model.fixed.value > 0.0, "{model:?}");
    }
}

//! Compares ways of doing the same thing: runs each once per round, in a fair order, checks that
//! all gave the same output, and estimates the ratio of their times round by round.
//!
//! ```
//! use sweetspot_lab::paired::{self, Observation, Options, Verdict};
//! # use sweetspot_lab::Error;
//!
//! let seconds = [2.0, 0.5]; // cell 0 is the reference
//! let mut run_one = |cell: usize| -> Result<Observation, Error> {
//!     Ok(Observation { figure: seconds[cell], output: "the same".to_owned() })
//! };
//! let result = paired::compare(&mut run_one, 2, &Options::default())?;
//! let effect = result.effect(0, 1)?;
//! assert_eq!(effect.speedup(), 4.0);
//! assert_eq!(effect.verdict, Verdict::Faster);
//! # Ok::<(), Error>(())
//! ```
//!
//! Invariant: a result exists only where every output of every round was equal.
//!
//! Deliberately not here: how a cell is run (`measure`, behind [`Executor`]) and any printing.

use crate::{
    Error,
    schedule::Schedule,
    statistics::{self, Interval},
};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The rounds after which a comparison may stop, and its cap at the last of them.
pub const LOOKS: [usize; 4] = [8, 14, 24, 40];

/// The confidence of an interval at one of four looks, such that all four together are right
/// 95 % of the time (Pocock's bound for four looks is an alpha of 0.0182 each).
pub const CONFIDENCE_PER_LOOK: f64 = 1.0 - 0.0182;

/// The confidence of an interval after a number of rounds that was fixed before.
pub const CONFIDENCE_FIXED: f64 = 0.95;

/// What one run of one cell gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Observation {
    /// The figure to compare, mostly the wall time in seconds: positive, less is better.
    pub figure: f64,
    /// What came out, mostly a hash: must be equal in all cells.
    pub output: String,
}

/// Runs one cell once. Preparation (a warm or cold cache, an output that is not there yet) belongs
/// to it, and is not part of the figure.
pub trait Executor {
    /// Runs cell `cell` as a fresh unit.
    fn execute(&mut self, cell: usize) -> Result<Observation, Error>;
}

impl<F: FnMut(usize) -> Result<Observation, Error>> Executor for F {
    fn execute(&mut self, cell: usize) -> Result<Observation, Error> {
        self(cell)
    }
}

/// When a comparison has seen enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    /// After this many rounds.
    Rounds(usize),
    /// At the first of [`LOOKS`] where each effect has a verdict or is known to within the margin.
    /// After the first look also as soon as this much time has passed.
    Looks(Duration),
}

/// How to compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The order of the runs follows from it.
    pub seed: u64,
    /// When to stop.
    pub stop: Stop,
    /// The difference that does not matter: 0.02 is 2 %.
    pub margin: f64,
}

impl Default for Options {
    fn default() -> Self {
        Options { seed: 0, stop: Stop::Looks(Duration::MAX), margin: 0.02 }
    }
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The candidate is faster, by more than the margin.
    Faster,
    /// The candidate is slower, by more than the margin.
    Slower,
    /// The difference is within the margin.
    Same,
    /// The interval reaches over an end of the margin, or there were too few rounds for one.
    Undecided,
}

/// How the candidate's times relate to the reference's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// Candidate over reference: 0.25 is four times as fast.
    pub ratio: f64,
    /// The interval of the ratio; none where there were too few rounds.
    pub interval: Option<Interval>,
    /// How many rounds it rests on.
    pub rounds: usize,
    /// What it says.
    pub verdict: Verdict,
}

impl Effect {
    /// The effect that paired figures show: one of the reference and one of the candidate a round.
    ///
    /// # Errors
    /// Where there is none, or one is not a positive number.
    pub fn of(
        reference: &[f64],
        candidate: &[f64],
        confidence: f64,
        margin: f64,
    ) -> Result<Effect, Error> {
        let estimate = statistics::ratio(reference, candidate, confidence)?;
        Ok(Effect {
            ratio: estimate.value,
            interval: estimate.interval,
            rounds: estimate.samples,
            verdict: verdict(estimate.interval, margin),
        })
    }

    /// Half the width of the interval, as a share of the ratio: how well it is known.
    pub fn half_width(&self) -> Option<f64> {
        self.interval.map(|Interval { low, high }| (high / low).ln() / 2.0)
    }

    /// How many times as fast the candidate is: reference over candidate.
    pub fn speedup(&self) -> f64 {
        1.0 / self.ratio
    }

    /// The interval of [`Effect::speedup`].
    pub fn speedup_interval(&self) -> Option<Interval> {
        self.interval.map(|ratio| Interval { low: 1.0 / ratio.high, high: 1.0 / ratio.low })
    }

    /// Whether more rounds would say nothing that matters.
    pub fn is_settled(&self, precision: f64) -> bool {
        let half_width = self.half_width();
        self.verdict != Verdict::Undecided || half_width.is_some_and(|half| half <= precision)
    }
}

/// One round: every cell once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Round {
    /// The cells in the order in which they ran.
    pub order: Vec<usize>,
    /// What each gave, by cell.
    pub figures: Vec<f64>,
}

/// All rounds of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The rounds, in the order in which they ran.
    pub rounds: Vec<Round>,
    /// What every run of every cell gave.
    pub output: String,
    /// The confidence of the intervals, all looks together.
    pub confidence: f64,
    /// The confidence that each single interval is computed with.
    pub confidence_nominal: f64,
    /// The margin of the verdicts.
    pub margin: f64,
}

impl Comparison {
    /// The figures of `cell`, round by round.
    pub fn figures(&self, cell: usize) -> Vec<f64> {
        self.rounds.iter().map(|round| round.figures[cell]).collect()
    }

    /// How the cell `candidate` relates to the cell `reference`.
    pub fn effect(&self, reference: usize, candidate: usize) -> Result<Effect, Error> {
        self.effect_to(&self.figures(reference), candidate)
    }

    /// How the cell `candidate` relates to figures of which there is one for each round.
    pub fn effect_to(&self, reference: &[f64], candidate: usize) -> Result<Effect, Error> {
        let candidate = self.figures(candidate);
        Effect::of(reference, &candidate, self.confidence_nominal, self.margin)
    }
}

/// A verdict is given only where the whole interval lies on one side of an end of the margin: so
/// "slower" means "slower by more than the margin", and two equal programs get none but `Same`.
fn verdict(ratio: Option<Interval>, margin: f64) -> Verdict {
    let (least, most) = (1.0 / (1.0 + margin), 1.0 + margin);
    match ratio {
        Some(Interval { high, .. }) if high < least => Verdict::Faster,
        Some(Interval { low, .. }) if low > most => Verdict::Slower,
        Some(Interval { low, high }) if low >= least && high <= most => Verdict::Same,
        _ => Verdict::Undecided,
    }
}

/// Compares `cells` cells; the last is the candidate, the one that all others are looked at with
/// when it comes to stopping.
pub fn compare(
    executor: &mut impl Executor,
    cells: usize,
    options: &Options,
) -> Result<Comparison, Error> {
    let (rounds_max, confidence_nominal) = match options.stop {
        Stop::Rounds(rounds) => (rounds, CONFIDENCE_FIXED),
        Stop::Looks(_) => (LOOKS[LOOKS.len() - 1], CONFIDENCE_PER_LOOK),
    };
    let mut comparison = Comparison {
        rounds: Vec::new(),
        output: String::new(),
        confidence: CONFIDENCE_FIXED,
        confidence_nominal,
        margin: options.margin,
    };
    let start = Instant::now();
    for order in Schedule::new(cells, options.seed).take(rounds_max) {
        run_round(executor, order, &mut comparison)?;
        if let Stop::Looks(budget) = options.stop {
            let rounds = comparison.rounds.len();
            let in_time = start.elapsed() < budget;
            if rounds >= LOOKS[0] && !in_time
                || LOOKS.contains(&rounds) && all_settled(&comparison, cells)?
            {
                break;
            }
        }
    }
    Ok(comparison)
}

fn all_settled(comparison: &Comparison, cells: usize) -> Result<bool, Error> {
    for reference in 0..cells.saturating_sub(1) {
        if !comparison.effect(reference, cells - 1)?.is_settled(comparison.margin) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Runs one round and adds it, if its outputs are those of all rounds before.
fn run_round(
    executor: &mut impl Executor,
    order: Vec<usize>,
    comparison: &mut Comparison,
) -> Result<(), Error> {
    let number = comparison.rounds.len() + 1;
    let mut figures = vec![f64::NAN; order.len()];
    // The reference of the first output is the cell that ran first of all.
    let first = comparison.rounds.first().map_or(&order, |round| &round.order)[0];
    for (place, &cell) in order.iter().enumerate() {
        let Observation { figure, output } = executor.execute(cell)?;
        figures[cell] = figure;
        if number == 1 && place == 0 {
            comparison.output = output;
        } else if output != comparison.output {
            return Err(Error::OutputsDiffer {
                round: number,
                reference: first,
                cell,
                expected: comparison.output.clone(),
                found: output,
            });
        }
    }
    comparison.rounds.push(Round { order, figures });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs nothing: notes which cell was asked for, and answers from a script.
    struct Mock<F> {
        asked: Vec<usize>,
        answer: F,
    }

    impl<F: FnMut(usize, usize) -> (f64, &'static str)> Executor for Mock<F> {
        fn execute(&mut self, cell: usize) -> Result<Observation, Error> {
            let (figure, output) = (self.answer)(cell, self.asked.len());
            self.asked.push(cell);
            Ok(Observation { figure, output: output.to_owned() })
        }
    }

    fn mock<F: FnMut(usize, usize) -> (f64, &'static str)>(answer: F) -> Mock<F> {
        Mock { asked: Vec::new(), answer }
    }

    #[test]
    fn cells_run_in_the_schedules_order() {
        for cells in [2, 4] {
            let mut executor = mock(|_, _| (1.0, "same"));
            let options = Options { seed: 5, stop: Stop::Rounds(7), ..Options::default() };
            let result = compare(&mut executor, cells, &options).unwrap();
            let expected: Vec<usize> = Schedule::new(cells, 5).take(7).flatten().collect();
            assert_eq!(executor.asked, expected);
            let orders: Vec<usize> = result.rounds.into_iter().flat_map(|r| r.order).collect();
            assert_eq!(orders, expected, "the order is recorded");
        }
    }

    #[test]
    fn the_verdict_needs_the_whole_interval() {
        let interval = |low, high| Some(Interval { low, high });
        for (ratio, expected) in [
            (interval(0.2, 0.3), Verdict::Faster),
            (interval(0.9, 0.98), Verdict::Faster),
            (interval(0.9, 0.99), Verdict::Undecided),
            (interval(0.99, 1.01), Verdict::Same),
            (interval(0.99, 1.03), Verdict::Undecided),
            (interval(1.01, 1.3), Verdict::Undecided),
            (interval(1.03, 1.3), Verdict::Slower),
            (interval(0.5, 1.5), Verdict::Undecided),
            (None, Verdict::Undecided),
        ] {
            assert_eq!(verdict(ratio, 0.02), expected, "{ratio:?}");
        }
    }

    #[test]
    fn it_stops_at_the_look_where_everything_is_settled() {
        // Factors of the noise of each run, by how often anything ran before.
        let noisy = |run: usize| 1.0 + 0.5 * ((run * 7919) % 13) as f64 / 13.0;
        let clear = compare(&mut mock(|cell, _| ([1.0, 0.1][cell], "")), 2, &Options::default());
        assert_eq!(clear.unwrap().rounds.len(), LOOKS[0]);
        let mut executor = mock(|_, run| (noisy(run), ""));
        let noise = compare(&mut executor, 2, &Options::default()).unwrap();
        assert_eq!(noise.rounds.len(), LOOKS[3], "{:?}", noise.effect(0, 1));
        let hurried = Options { stop: Stop::Looks(Duration::ZERO), ..Options::default() };
        let hurried = compare(&mut mock(|_, run| (noisy(run), "")), 2, &hurried).unwrap();
        assert_eq!(hurried.rounds.len(), LOOKS[0], "a budget never cuts below the first look");
    }

    #[test]
    fn one_slow_look_does_not_settle_the_other_cells() {
        // Cell 0 against 2 is clear at once, cell 1 against 2 is noise.
        let mut executor = mock(|cell, run| match cell {
            0 => (10.0, ""),
            _ => (1.0 + ((run * 7919) % 13) as f64 / 13.0, ""),
        });
        let result = compare(&mut executor, 3, &Options::default()).unwrap();
        assert!(result.rounds.len() > LOOKS[0]);
        assert_eq!(result.effect(0, 2).unwrap().verdict, Verdict::Faster);
    }

    #[test]
    fn an_output_that_differs_ends_it() {
        let mut executor = mock(|_, run| (1.0, if run == 5 { "other" } else { "same" }));
        let error = compare(&mut executor, 2, &Options::default()).unwrap_err();
        let cell = executor.asked[5];
        assert_eq!(executor.asked.len(), 6, "nothing runs after it");
        match error {
            Error::OutputsDiffer { round: 3, cell: found, .. } => assert_eq!(found, cell),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_speedup_is_the_inverse_of_the_ratio() {
        let result =
            compare(&mut mock(|cell, _| ([3.0, 1.5][cell], "")), 2, &Options::default()).unwrap();
        let effect = result.effect(0, 1).unwrap();
        assert_eq!((effect.ratio, effect.speedup()), (0.5, 2.0));
        let interval = effect.speedup_interval().unwrap();
        assert_eq!((interval.low, interval.high), (2.0, 2.0));
        assert_eq!(effect.verdict, Verdict::Faster);
    }

    #[test]
    fn false_alarms_are_rarer_than_promised() {
        // Two equal cells under drift and outliers: no more than 16 of 200 verdicts (the 97.5 %
        // point of a binomial at 5 %) may be other than `Same` or `Undecided`.
        let mut random = crate::schedule::Random::new(20261121);
        let mut uniform = move || random.bits() as f64 / u64::MAX as f64;
        let mut false_alarms = 0;
        for seed in 0..200 {
            let mut drift = 0.0;
            let mut executor = mock(|_, _| {
                drift = 0.7 * drift + 0.1 * (uniform() - 0.5);
                let outlier = if uniform() < 0.05 { 0.5 * uniform() } else { 0.0 };
                (f64::exp(drift + 0.02 * uniform() + outlier), "")
            });
            let options = Options { seed, margin: 0.0, ..Options::default() };
            let result = compare(&mut executor, 2, &options).unwrap();
            let verdict = result.effect(0, 1).unwrap().verdict;
            false_alarms += usize::from(verdict != Verdict::Undecided);
        }
        assert!(false_alarms <= 16, "{false_alarms} of 200");
    }
}

//! The sweet spot from one run: what a recording says of every size (`profile::replay`), and whether a few
//! real runs confirm it.
//!
//! A prediction comes from a model of calls, bytes and questions, each with its cost. It is good at where
//! the curve becomes flat and worse at how high it is, so the confirmation asks both: is the gain as
//! predicted, and is the best other size no better than predicted? Two rounds are few, so what they say
//! has an interval, too, from how much equal runs differed: where prediction and runs cannot both be
//! right, that is a miss.

use super::{PredictedRow, called};
use crate::numbers::{self, three, typed};
use crate::profile::data::Prediction;
use crate::profile::model::RUN_ERROR;
use crate::profile::recording::Recording;
use crate::profile::replay;
use sweetspot_core::size::BufferSize;
use sweetspot_lab::ladder::Ladder;
use sweetspot_lab::measure::Measurement;
use sweetspot_lab::search::{Answer, OFF, Round, Setting};

/// Runs of a confirmation, at most.
pub const RUNS: usize = 3 * ROUNDS;
/// Rounds of a confirmation: with three settings six runs, beside the recorded one and the one from
/// which files are learned.
pub const ROUNDS: usize = 2;
/// Two standard deviations.
const DEVIATIONS: f64 = 2.0;
/// Student's t for a two-sided interval of 95 %, by degrees of freedom from 1 on: a setting that ran
/// twice gives one.
const STUDENT: [f64; 3] = [12.706, 4.303, 3.182];

/// What a recorded run would take with each size.
pub struct Predicted {
    pub rows: Vec<PredictedRow>,
    /// The smallest as good as the best, the best other one, and whether automatic sizes are as good.
    pub answer: Answer,
    pub notes: Vec<String>,
    auto: Setting,
}

impl Predicted {
    /// Tries every size of the ladder on the calls of a recording; `None`: it holds no call.
    pub fn new(recording: &Recording, sizes: &Ladder, within: f64) -> Option<Predicted> {
        let lines = recording.lines();
        let mut rows = Vec::new();
        for setting in sizes.settings().filter(|setting| *setting != OFF) {
            let buffer = sizes.buffer(setting);
            let found = replay::predict(recording, &lines, buffer)?;
            if rows.is_empty() {
                let seconds = found.seconds * found.ratio;
                rows.push(row(OFF, BufferSize::Off, seconds, None));
            }
            rows.push(row(setting, buffer, found.seconds, Some(found)));
        }
        let mut notes = Vec::new();
        if recording.lost > 0 {
            notes.push(format!(
                "{} calls did not fit into the recording: its end is missing",
                recording.lost
            ));
        }
        let auto = sizes.count() + 1;
        let answer = choose(&rows, auto, within);
        Some(Predicted { rows, answer, notes, auto })
    }

    fn row(&self, setting: Setting) -> &PredictedRow {
        &self.rows[setting]
    }

    /// What would be used.
    fn setting(&self) -> Setting {
        if self.answer.auto_is_within { self.auto } else { self.answer.choice }
    }

    /// The best of the others, but for running as it is.
    fn rival(&self) -> Setting {
        let used = self.setting();
        let others = self.rows.iter().filter(|row| row.setting != used && row.setting != OFF);
        least(others).unwrap_or(self.auto)
    }

    /// What is predicted, in words.
    pub fn sentence(&self, sizes: &Ladder, within: f64) -> String {
        let percent = format!("{} %", within * 100.0);
        let called = |setting| called(sizes, setting);
        let used = self.row(self.setting());
        let smallest = called(self.answer.choice);
        let what = match (self.answer.choice, self.answer.auto_is_within) {
            (OFF, _) => {
                return format!(
                    "Predicted, not measured: no buffering is within {percent} of the best: buffers \
                     hardly pay here."
                );
            }
            (_, true) => format!(
                "auto should be within {percent} of the best; the smallest size that is as good is \
                 {smallest}"
            ),
            (_, false) => {
                format!("{smallest} should be the smallest buffer within {percent} of the best")
            }
        };
        format!(
            "Predicted, not measured: {what}. It should take {} instead of {}, {} times as fast ({} to \
             {}).",
            numbers::seconds(used.seconds),
            numbers::seconds(self.row(OFF).seconds),
            three(used.speed),
            three(used.low),
            three(used.high)
        )
    }

    /// What was predicted and came so, in words.
    pub fn confirmed_sentence(&self, confirmed: &Confirmed, sizes: &Ladder, within: f64) -> String {
        let percent = format!("{} %", within * 100.0);
        let called = |setting| called(sizes, setting);
        let (used, rival) = (self.setting(), self.rival());
        let runs = confirmed.measurements.len();
        let against = format!(
            "{} times as long as {} (predicted {:.2})",
            confirmed.ratio(used, rival).text(),
            called(rival),
            self.row(used).seconds / self.row(rival).seconds
        );
        if used == OFF {
            return format!(
                "No buffering should be within {percent} of the best. This is predicted from one run, \
                 and {runs} runs agree. It takes {against}; buffers hardly pay here."
            );
        }
        let row = self.row(used);
        format!(
            "{} should be within {percent} of the best. This is predicted from one run, and {runs} runs \
             agree. It is {} times as fast as without buffering (predicted {:.2} to {:.2}), and takes \
             {against}.",
            called(used),
            confirmed.ratio(OFF, used).text(),
            row.low,
            row.high
        )
    }

    /// What runs in a round of a confirmation: there and back, so that a machine that slows down speaks
    /// against nobody.
    pub fn order(&self, round: usize) -> Vec<Setting> {
        let mut order = vec![OFF, self.setting(), self.rival()];
        order.dedup(); // where nothing is used
        if round % 2 == 1 {
            order.reverse();
        }
        order
    }

    /// What the runs of a confirmation say.
    pub fn confirmed(
        &self,
        rounds: Vec<Round>,
        measurements: Vec<(Setting, Measurement)>,
        sizes: &Ladder,
    ) -> Confirmed {
        let confirmed = Confirmed { rounds, measurements, missed: None };
        Confirmed { missed: self.missed(&confirmed, sizes), ..confirmed }
    }

    /// What did not come as predicted, in words.
    fn missed(&self, confirmed: &Confirmed, sizes: &Ladder) -> Option<String> {
        let (used, rival) = (self.setting(), self.rival());
        let best = if used == OFF { rival } else { used };
        let (speed, row) = (confirmed.ratio(OFF, best), self.row(best));
        if speed.high < row.low || speed.low > row.high {
            return Some(format!(
                "with {} it is {} times as fast as without buffering, where {:.2} to {:.2} was predicted",
                called(sizes, best),
                speed.text(),
                row.low,
                row.high
            ));
        }
        let (ratio, expected) =
            (confirmed.ratio(used, rival), self.row(used).seconds / self.row(rival).seconds);
        let error = DEVIATIONS * RUN_ERROR * (2.0 / ROUNDS as f64).sqrt();
        let differs = (ratio.value / expected).ln().abs();
        (differs > error.hypot(confirmed.noise())).then(|| {
            format!(
                "{} takes {} of the time of {}, where {expected:.2} was predicted",
                called(sizes, used),
                ratio.text(),
                called(sizes, rival),
            )
        })
    }
}

/// What a few real runs said.
pub struct Confirmed {
    pub rounds: Vec<Round>,
    pub measurements: Vec<(Setting, Measurement)>,
    /// What did not come as predicted.
    pub missed: Option<String>,
}

/// A ratio and its interval.
struct Ratio {
    value: f64,
    low: f64,
    high: f64,
}

impl Ratio {
    fn text(&self) -> String {
        format!("{:.2} ({:.2} to {:.2})", self.value, self.low, self.high)
    }
}

impl Confirmed {
    /// The time of one setting to that of another: the geometric mean over the rounds.
    fn ratio(&self, setting: Setting, reference: Setting) -> Ratio {
        let logarithm = |round: &Round| figure(round, setting).ln() - figure(round, reference).ln();
        let mean = self.rounds.iter().map(logarithm).sum::<f64>() / self.rounds.len() as f64;
        let [value, low, high] = [0.0, -1.0, 1.0].map(|ends| (mean + ends * self.noise()).exp());
        Ratio { value, low, high }
    }

    /// Half the interval of such a ratio, as a logarithm: from how much the runs of each setting
    /// differ.
    fn noise(&self) -> f64 {
        let settings = self.rounds.first().map_or(&[][..], |round| &round.order);
        let count = self.rounds.len() as f64;
        let squares = |setting: &Setting| {
            let logarithms = || self.rounds.iter().map(|round| figure(round, *setting).ln());
            let mean = logarithms().sum::<f64>() / count;
            logarithms().map(|logarithm| (logarithm - mean).powi(2)).sum::<f64>()
        };
        let freedom = settings.len() * (self.rounds.len() - 1);
        let variance = settings.iter().map(squares).sum::<f64>() / freedom as f64;
        STUDENT[freedom.min(STUDENT.len()) - 1] * (variance * 2.0 / count).sqrt()
    }
}

fn figure(round: &Round, setting: Setting) -> f64 {
    let place = round.order.iter().position(|ran| *ran == setting);
    place.map_or(1.0, |place| round.figures[place])
}

fn row(
    setting: Setting,
    buffer: BufferSize,
    seconds: f64,
    found: Option<Prediction>,
) -> PredictedRow {
    PredictedRow {
        setting,
        buffer: typed(buffer),
        seconds,
        speed: found.map_or(1.0, |found| found.ratio),
        low: found.map_or(1.0, |found| found.ratio_low),
        high: found.map_or(1.0, |found| found.ratio_high),
        calls_made: found.map(|found| found.calls_made),
    }
}

fn least<'a>(rows: impl Iterator<Item = &'a PredictedRow>) -> Option<Setting> {
    rows.min_by(|a, b| a.seconds.total_cmp(&b.seconds)).map(|row| row.setting)
}

/// The smallest setting that is as good as the best, as the search would choose.
fn choose(rows: &[PredictedRow], auto: Setting, within: f64) -> Answer {
    let best = least(rows.iter()).unwrap_or(auto);
    let good = rows[best].seconds * (1.0 + within);
    let fixed = rows.iter().filter(|row| row.setting != auto);
    let choice = fixed.clone().find(|row| row.seconds <= good).map(|row| row.setting);
    // Only auto is: the best of the sizes is the smallest that comes near.
    let choice = choice.or_else(|| least(fixed)).unwrap_or(OFF);
    let rival = least(rows.iter().filter(|row| row.setting != choice)).unwrap_or(auto);
    Answer { choice, rival, confirmed: false, auto_is_within: rows[auto].seconds <= good }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweetspot_lab::search::Phase;

    fn rows(seconds: &[f64]) -> Vec<PredictedRow> {
        let row = |(setting, seconds): (usize, &f64)| row(setting, BufferSize::Off, *seconds, None);
        seconds.iter().enumerate().map(row).collect()
    }

    #[test]
    fn the_smallest_within_the_margin_is_chosen() {
        let check = |seconds: &[f64], choice: Setting, auto_is_within: bool| {
            let answer = choose(&rows(seconds), seconds.len() - 1, 0.05);
            assert_eq!(
                (answer.choice, answer.auto_is_within),
                (choice, auto_is_within),
                "{seconds:?}"
            );
            assert!(!answer.confirmed && answer.rival != choice);
        };
        check(&[5.0, 2.0, 1.04, 1.0, 1.01], 2, true);
        check(&[5.0, 2.0, 1.06, 1.0, 1.2], 3, false);
        check(&[1.0, 1.1, 1.1, 1.1, 1.04], OFF, true);
        check(&[5.0, 2.0, 1.5, 1.4, 1.0], 3, true);
    }

    #[test]
    fn what_is_not_as_predicted_is_said() {
        let sizes = sweetspot_lab::ladder::ladder("4K..16K").unwrap_or_else(|e| panic!("{e}"));
        let mut predicted = Predicted {
            rows: rows(&[5.0, 2.0, 1.03, 1.0, 1.2]),
            answer: Answer { choice: 2, rival: 3, confirmed: false, auto_is_within: false },
            notes: Vec::new(),
            auto: 4,
        };
        predicted.rows[2].low = 4.0;
        predicted.rows[2].high = 6.0;
        // The second round takes longer by that much for no buffering, and less for the others.
        let missed = |figures: [f64; 3], noise: f64| {
            let round = |order, figures| Round::new(Phase::Confirm, order, figures);
            let there = round(vec![OFF, 2, 3], figures.to_vec());
            let back = round(
                vec![3, 2, OFF],
                vec![figures[2] * noise, figures[1] / noise, figures[0] * noise],
            );
            let confirmed =
                Confirmed { rounds: vec![there, back], measurements: Vec::new(), missed: None };
            predicted.missed(&confirmed, &sizes)
        };
        assert_eq!(missed([50.0, 10.3, 10.0], 1.0), None);
        assert!(
            missed([30.0, 10.3, 10.0], 1.0).unwrap().contains("it is 2.91 (2.91 to 2.91) times")
        );
        assert!(
            missed([50.0, 11.5, 10.0], 1.0)
                .unwrap()
                .contains("takes 1.15 (1.15 to 1.15) of the time")
        );
        assert!(missed([45.0, 9.0, 10.0], 1.0).unwrap().contains("takes 0.90 "));
        // Runs that differ by as much themselves speak against nothing, however noisy for so much.
        assert_eq!(missed([50.0, 11.5, 10.0], 1.1), None);
        assert!(missed([10.0, 11.5, 10.0], 1.1).is_some());
    }
}

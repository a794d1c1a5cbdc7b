//! What `tune` found, in the order in which people want it: a sentence, a table, a curve, and what was
//! checked; or the same as JSON.

mod advice;
pub mod predicted;
pub mod rules;
mod text;

use crate::numbers::{spoken, typed};
use advice::Advice;
use serde::Serialize;
use sweetspot_lab::ladder::Ladder;
use sweetspot_lab::measure::Measurement;
use sweetspot_lab::paired::CONFIDENCE_FIXED;
use sweetspot_lab::questions::{self, Reply};
use sweetspot_lab::search::{self, Answer, OFF, Phase, Plan, Round, Setting};
use sweetspot_lab::statistics::{self, Estimate, Interval};
pub use text::DryRun;

/// The version of the JSON: a field that changes its meaning raises it.
const SCHEMA: u32 = 1;
const MIB: f64 = 1024.0 * 1024.0;
/// Files that are named one by one.
const LISTED_MAX: usize = 6;
/// Lines of the curve.
const CURVE_LINES: usize = 9;
/// Settings that make one.
const SETTINGS_OF_CURVE: usize = 4;
/// More rounds are not proposed to anyone.
const ROUNDS_SENSIBLE: f64 = 200.0;

/// Why a search ended before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stopped {
    Interrupted,
    Budget,
}

/// What was asked, and what is known of it.
#[derive(Clone, Copy)]
pub enum Found {
    /// Whether buffering is worth it, and whether a size must be set.
    Worth(questions::Answer),
    /// The smallest buffer within the margin of the best.
    Smallest(Option<Answer>),
}

impl Found {
    /// What is known after `rounds`.
    ///
    /// # Errors
    /// Where figures are no numbers.
    pub fn after(
        is_smallest: bool,
        plan: &Plan,
        rounds: &[Round],
    ) -> Result<Found, sweetspot_lab::Error> {
        Ok(match is_smallest {
            true => Found::Smallest(search::guess(plan, rounds)?),
            false => Found::Worth(questions::answer(plan, rounds)?),
        })
    }

    /// What to use, if that is known.
    pub fn setting(&self, plan: &Plan) -> Option<Setting> {
        match self {
            Found::Worth(answer) => answer.setting(plan),
            Found::Smallest(answer) => {
                answer.filter(|answer| answer.confirmed).map(|answer| answer.setting(plan))
            }
        }
    }

    /// What is known while it goes on, in a few words behind others; nothing yet: none.
    pub fn so_far(&self, sizes: &Ladder, rounds: &[Round]) -> String {
        match self {
            Found::Smallest(Some(guess)) => guess_so_far(guess, sizes, rounds),
            Found::Worth(questions::Answer { worth: Some(worth), .. }) => {
                format!("; so far {:.2} times as fast with auto", worth.speed)
            }
            _ => String::new(),
        }
    }

    /// The answer of a search for the smallest size.
    fn smallest(&self) -> Option<Answer> {
        match self {
            Found::Worth(_) => None,
            Found::Smallest(answer) => *answer,
        }
    }

    fn worth(&self) -> Option<questions::Answer> {
        match self {
            Found::Worth(answer) => Some(*answer),
            Found::Smallest(_) => None,
        }
    }
}

/// The best guess, and how it stands to the best other size.
fn guess_so_far(guess: &Answer, sizes: &Ladder, rounds: &[Round]) -> String {
    let Answer { choice, rival, .. } = *guess;
    let ratio = search::ratio(rounds, Phase::Scout, choice, rival, CONFIDENCE_FIXED).ok().flatten();
    let stands = ratio.map_or_else(String::new, |ratio| match ratio.interval {
        Some(interval) => {
            format!(
                ", {:.2} ({:.2} to {:.2}) of the best",
                ratio.value, interval.low, interval.high
            )
        }
        None => format!(", {:.2} of the best", ratio.value),
    });
    format!("; so far {}{stands}", called(sizes, choice))
}

/// Everything that a report is made of.
pub struct Findings<'a> {
    pub sizes: &'a Ladder,
    pub cache: &'a str,
    pub plan: &'a Plan,
    pub rounds: &'a [Round],
    pub measurements: &'a [(Setting, Measurement)],
    /// How often the command was started in all.
    pub runs: usize,
    pub checked: Vec<String>,
    pub notes: Vec<String>,
    pub found: Found,
    pub stopped: Option<Stopped>,
}

/// What is said.
#[derive(Serialize)]
pub struct TuneReport {
    pub schema: u32,
    pub sentence: String,
    /// Whether buffering is worth it and whether a size must be set; null where the smallest size was
    /// searched for.
    pub questions: Option<questions::Answer>,
    /// Which figure was compared, in words.
    pub compared: Option<String>,
    pub confirmed: bool,
    pub stopped: Option<Stopped>,
    /// What to use, in the grammar of sizes.
    pub buffer: Option<String>,
    /// Of a search: the smallest that is as good as the best, and what it was confirmed against.
    pub smallest: Option<String>,
    pub rival: Option<String>,
    /// What the ratios of the settings are relative to: auto; or of a search the choice or its rival,
    /// whichever ran more.
    pub base: Option<String>,
    pub auto_is_within: bool,
    pub within: f64,
    pub cache: String,
    pub seed: u64,
    pub runs: usize,
    pub disturbed_runs: usize,
    pub settings: Vec<Row>,
    /// What was predicted of each setting from one recorded run; empty: none was recorded.
    pub predicted: Vec<PredictedRow>,
    pub rounds: Vec<Round>,
    pub checked: Vec<String>,
    pub notes: Vec<String>,
    pub rule_file: Option<String>,
    pub rules: Vec<String>,
}

/// What a recorded run would take in one setting.
#[derive(Clone, Serialize)]
pub struct PredictedRow {
    pub setting: Setting,
    pub buffer: String,
    pub seconds: f64,
    /// How many times as fast as without buffering, and where that should lie in 9 of 10 cases.
    pub speed: f64,
    pub low: f64,
    pub high: f64,
    /// System calls that would be made for all reads, writes and seeks; none without a buffer.
    pub calls_made: Option<u64>,
}

/// One setting.
#[derive(Serialize)]
pub struct Row {
    pub setting: Setting,
    pub buffer: String,
    pub runs: usize,
    pub median_seconds: f64,
    /// Of its time to that of `base`, over the rounds in which both ran.
    pub ratio: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub pairs: usize,
    pub peak_memory_bytes: u64,
}

impl Findings<'_> {
    /// Puts everything together.
    ///
    /// # Errors
    /// Where figures are no numbers.
    pub fn report(&self) -> Result<TuneReport, sweetspot_lab::Error> {
        let buffer = |setting| typed(self.sizes.buffer(setting));
        let setting = self.found.setting(self.plan);
        let smallest = self.found.smallest();
        let questions = self.found.worth();
        let advice = questions.as_ref().map(|answer| Advice {
            sizes: self.sizes,
            plan: self.plan,
            answer,
            measurements: self.measurements,
            is_complete: self.stopped.is_none(),
        });
        let size = questions.and_then(|answer| answer.size);
        Ok(TuneReport {
            schema: SCHEMA,
            sentence: match &advice {
                Some(advice) => advice.text(),
                None => self.sentence()?,
            },
            questions,
            compared: advice.map(|advice| advice.figure()),
            confirmed: setting.is_some(),
            stopped: self.stopped,
            buffer: setting.map(buffer),
            smallest: smallest.map(|answer| buffer(answer.choice)),
            rival: smallest.map(|answer| buffer(answer.rival)),
            base: self.base().map(buffer),
            auto_is_within: smallest.is_some_and(|answer| answer.auto_is_within)
                || size.is_some_and(|size| size.reply == Reply::No),
            within: self.plan.within,
            cache: self.cache.to_owned(),
            seed: self.plan.seed,
            runs: self.runs.max(self.measurements.len()),
            disturbed_runs: self.measurements.iter().filter(|(_, m)| m.is_disturbed()).count(),
            settings: self.rows()?,
            predicted: Vec::new(),
            rounds: self.rounds.to_vec(),
            checked: self.checked.clone(),
            notes: self.notes.clone(),
            rule_file: None,
            rules: Vec::new(),
        })
    }

    fn sentence(&self) -> Result<String, sweetspot_lab::Error> {
        let percent = format!("{} %", self.plan.within * 100.0);
        let called = |setting| called(self.sizes, setting);
        let Some(answer) = self.found.smallest() else {
            return Ok("No answer yet: there were too few runs.".to_string());
        };
        let speed = |setting| self.speed(setting);
        let auto = self.plan.auto();
        if !answer.confirmed {
            return Ok(format!(
                "Undecided: {}{}.",
                called(answer.choice),
                self.precision(&answer)?
            ));
        }
        Ok(match (answer.choice, answer.auto_is_within) {
            (OFF, false) => format!(
                "No buffering is within {percent} of the best, {}: buffering does not pay off here.",
                called(answer.rival)
            ),
            (OFF, true) => format!(
                "No buffering and auto are both within {percent} of the best: buffering neither helps nor harms here, so auto stays in force."
            ),
            (choice, true) => format!(
                "auto is within {percent} of the best: {}; the smallest size that is as good is {}.",
                speed(auto)?,
                called(choice)
            ),
            (choice, false) => format!(
                "{} is the smallest buffer within {percent} of the best: {}; {}.",
                called(choice),
                speed(choice)?,
                self.auto_against(choice)?
            ),
        })
    }

    /// `5.5 times as fast as without buffering (95 % interval 5.2 to 5.8, 6 pairs)`.
    fn speed(&self, setting: Setting) -> Result<String, sweetspot_lab::Error> {
        let Some(estimate) = self.confirmed_ratio(OFF, setting)? else { return Ok(String::new()) };
        let Some(Interval { low, high }) = estimate.interval else {
            return Ok(format!("about {:.2} times as fast as without buffering", estimate.value));
        };
        Ok(format!(
            "{:.2} times as fast as without buffering (95 % interval {low:.2} to {high:.2}, {} pairs)",
            estimate.value, estimate.samples
        ))
    }

    /// How automatic sizes relate to the choice, where they are not shown to be as good.
    fn auto_against(&self, choice: Setting) -> Result<String, sweetspot_lab::Error> {
        let estimate = self.confirmed_ratio(self.plan.auto(), choice)?;
        let Some(Estimate { value, interval: Some(Interval { low, high }), .. }) = estimate else {
            return Ok("auto was not compared with it".to_string());
        };
        let what = match low > 1.0 {
            true => "auto is not as good",
            false => "could not show that auto is as good",
        };
        Ok(format!("{what} ({value:.2} times its time, {low:.2} to {high:.2})"))
    }

    fn confirmed_ratio(
        &self,
        setting: Setting,
        reference: Setting,
    ) -> Result<Option<Estimate>, sweetspot_lab::Error> {
        search::ratio(self.rounds, Phase::Confirm, setting, reference, CONFIDENCE_FIXED)
    }

    /// How far an undecided search came, and what more would cost.
    fn precision(&self, answer: &Answer) -> Result<String, sweetspot_lab::Error> {
        let estimate = self.confirmed_ratio(answer.choice, answer.rival)?;
        let Some(Estimate { value, interval: Some(Interval { low, high }), samples }) = estimate
        else {
            return Ok(" is as good as any so far, but nothing was confirmed yet".to_string());
        };
        // An interval shrinks with the root of the number of rounds, and must leave out the margin.
        let (margin, centre) = ((1.0 + self.plan.within).ln(), value.ln());
        let end = if centre < margin { high } else { low };
        let rounds = samples as f64 * ((end.ln() - centre) / (margin - centre)).powi(2);
        let more = match rounds <= ROUNDS_SENSIBLE {
            true => {
                let rounds = rounds.max(samples as f64 + 1.0);
                format!(
                    "; about {rounds:.0} rounds would decide it, as noisy as it is now: --patience {}",
                    Plan::patience_for(rounds.ceil() as usize).max(self.plan.patience + 1)
                )
            }
            false => "; it is too noisy now, or too near to the margin, to be decided".to_string(),
        };
        Ok(format!(
            " may be the smallest buffer within {} % of the best: it takes {value:.2} times as long as \
             {} (95 % interval {low:.2} to {high:.2}, {samples} pairs){more}",
            self.plan.within * 100.0,
            called(self.sizes, answer.rival)
        ))
    }

    /// What the others are compared with: auto; or of the choice of a search and its rival the one that
    /// more settings ran beside.
    fn base(&self) -> Option<Setting> {
        let runs = |setting: &Setting| {
            self.rounds.iter().filter(|round| round.order.contains(setting)).count()
        };
        match self.found {
            Found::Worth(_) => Some(self.plan.auto()).filter(|auto| runs(auto) > 0),
            Found::Smallest(answer) => {
                answer.map(
                    |Answer { choice, rival, .. }| {
                        if runs(&choice) > runs(&rival) { choice } else { rival }
                    },
                )
            }
        }
    }

    fn rows(&self) -> Result<Vec<Row>, sweetspot_lab::Error> {
        let mut rows = Vec::new();
        for setting in self.sizes.settings() {
            let of = |round: &Round| {
                let place = round.order.iter().position(|ran| *ran == setting)?;
                Some(round.figures[place])
            };
            let figures: Vec<f64> = self.rounds.iter().filter_map(of).collect();
            if figures.is_empty() {
                continue;
            }
            let ratio = match self.base() {
                Some(base) => {
                    search::ratio(self.rounds, Phase::Scout, setting, base, CONFIDENCE_FIXED)?
                }
                None => None,
            };
            let peaks = self.measurements.iter().filter(|(ran, _)| *ran == setting);
            let peaks: Vec<f64> = peaks.map(|(_, m)| m.usage.peak_memory_bytes as f64).collect();
            let is_base = self.base() == Some(setting);
            let interval = ratio.and_then(|ratio| ratio.interval).filter(|_| !is_base);
            rows.push(Row {
                setting,
                buffer: typed(self.sizes.buffer(setting)),
                runs: figures.len(),
                median_seconds: statistics::median(&figures)?,
                ratio: ratio.map(|ratio| ratio.value),
                low: interval.map(|interval| interval.low),
                high: interval.map(|interval| interval.high),
                pairs: ratio.map_or(0, |ratio| ratio.samples),
                peak_memory_bytes: statistics::median(&peaks).unwrap_or_default() as u64,
            });
        }
        Ok(rows)
    }
}

/// How a setting is called while it runs.
pub fn called(ladder: &Ladder, setting: Setting) -> String {
    spoken(ladder.buffer(setting))
}

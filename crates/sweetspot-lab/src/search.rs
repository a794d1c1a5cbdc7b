//! Finds the smallest buffer within a margin of the best, in few runs: a ladder of paired questions.
//!
//! The best size itself is not the question: on a plateau it changes from run to run. The *smallest*
//! size that is as good (within 5 %) does not.
//!
//! | phase | what runs | what it is for |
//! |---|---|---|
//! | pilot | no buffering twice, automatic once | does it work, how long does it take |
//! | scout | every second size, 2 random rounds | where the good sizes are |
//! | refine | the best three, 3 rounds | the *reference*: about the best there is |
//! | bisect | one size against the reference, 5 to 10 pairs each | the smallest as good |
//! | confirm | no buffering, automatic, the choice and its rival, 8 to 20 rounds; then the choice and its contenders, if any | the answer |
//! | curve | every size, where the whole curve is asked for | the picture |
//!
//! Only the rounds of the last phases are reported: what made a size the choice favours it (the
//! winner's curse), so the claim rests on runs that came after.
//!
//! Invariant: [`step`] is a pure function of the plan and of the rounds so far. Nothing else decides
//! what runs next; so a search that was interrupted goes on from its stored rounds, and tests need
//! to run nothing.
//!
//! Deliberately not here: what a setting is, how it is run, when the time is up.

mod bisect;
mod confirm;

use crate::{
    Error,
    measure::Measurement,
    schedule::Schedule,
    statistics::{self, Estimate, Interval},
};
use serde::{Deserialize, Serialize};

/// A way to run the program, by number: [`OFF`], then the sizes from the smallest, then automatic.
pub type Setting = usize;

/// No buffering.
pub const OFF: Setting = 0;

const SCOUT_ROUNDS: usize = 2;
const REFINE_ROUNDS: usize = 3;
const REFINED: usize = 3;
/// Pairs after which a bisection looks, and its cap.
const BISECT_LOOKS: [usize; 3] = [5, 7, 10];
/// Rounds after which a confirmation looks, and its cap: times the plan's patience.
const CONFIRM_LOOKS: [usize; 3] = [8, 13, 20];
/// See [`Plan::runs_max`].
const GRID_ROUNDS: usize = 10;
/// 4 KiB to 16 MiB, no buffering and automatic.
const SETTINGS_USUAL: usize = 15;
/// How much further up than the margin a size must clearly be to be ruled out by scouting alone.
const RULED_OUT: f64 = 0.2;
/// The bisection may end one point beside the margin, the confirmation two: a size exactly at the
/// margin could be told from it by no number of runs.
const BISECT_POINTS: f64 = 0.01;
const CONFIRM_POINTS: f64 = 0.02;
/// What few rounds of two sizes say of their ratio is believed to within this share of how far these
/// rounds lie apart. Simulated: with less, more than 5 % of what is confirmed is bad (on a slope 5.7 %
/// at 0.25, 3.6 % at 0.5); with more, it takes more than 90 runs (89 at 0.5).
const CONTENDER_SPREAD: f64 = 0.5;
/// Rounds of a confirmation in which no buffering runs, too: the fewest that give an interval.
const OFF_ROUNDS: usize = 6;
/// Each claim is one-sided ("not more than the margin"), and 95 % sure over three looks together:
/// Pocock's bound is an alpha of 0.0232 each, at one end of a two-sided interval.
const CONFIDENCE: f64 = 1.0 - 2.0 * 0.0232;
/// A bisection only finds what is then confirmed on fresh runs, so it need not be as sure.
const CONFIDENCE_BISECT: f64 = 0.9;

/// What is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// How many sizes the ladder has, from the smallest to the largest.
    pub sizes: usize,
    /// How far from the best an answer may be: 0.05 is 5 %.
    pub within: f64,
    /// The order of the runs follows from it.
    pub seed: u64,
    /// Rounds of all settings after the answer, for the whole curve; 0: not asked for.
    pub curve_rounds: usize,
    /// How many times as many rounds as usual a confirmation may take, at least 1: for noise. It is
    /// chosen beforehand, as looking again after an answer that was open would be one look more.
    pub patience: usize,
}

impl Plan {
    /// The setting in which the program's buffers are sized automatically.
    pub fn auto(&self) -> Setting {
        self.sizes + 1
    }

    /// The rounds after which a confirmation looks.
    fn confirm_looks(&self) -> [usize; 3] {
        CONFIRM_LOOKS.map(|rounds| rounds * self.patience)
    }

    /// No search takes more runs, but for a curve: as many as a grid of ten rounds, over the usual
    /// sizes where there are fewer.
    fn runs_max(&self) -> usize {
        GRID_ROUNDS * (self.auto() + 1).max(SETTINGS_USUAL) * self.patience
    }

    /// The patience with which that many rounds of a confirmation are possible.
    pub fn patience_for(rounds: usize) -> usize {
        rounds.div_ceil(CONFIRM_LOOKS[2])
    }
}

/// What a round is for. In the order of the search, of which the last is no part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Pilot,
    Scout,
    Refine,
    Bisect,
    Confirm,
    Curve,
    /// Of [`crate::questions`], whose other rounds scout and confirm: automatic against no buffering.
    Worth,
}

/// Settings that ran one after the other, and what each took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    pub phase: Phase,
    /// In the order in which they ran.
    pub order: Vec<Setting>,
    /// In the same order: seconds, or whatever is better when less.
    pub figures: Vec<f64>,
    /// Likewise: seconds of processor time. Empty where they are not known.
    #[serde(default)]
    pub processor: Vec<f64>,
    /// Likewise: the share of each run's time in which the machine was disturbed
    /// ([`Measurement::disturbed_share`]). Empty where it is not known.
    #[serde(default)]
    pub disturbance: Vec<f64>,
}

impl Round {
    /// A round of which only the figures are known.
    pub fn new(phase: Phase, order: Vec<Setting>, figures: Vec<f64>) -> Round {
        Round { phase, order, figures, processor: Vec::new(), disturbance: Vec::new() }
    }

    /// A round of what was measured, in the order in which it ran: the figure is the wall time.
    pub fn measured(phase: Phase, runs: &[(Setting, Measurement)]) -> Round {
        let each = |of: fn(&Measurement) -> f64| runs.iter().map(|(_, run)| of(run)).collect();
        Round {
            phase,
            order: runs.iter().map(|(setting, _)| *setting).collect(),
            figures: each(|run| run.wall.as_secs_f64()),
            processor: each(Measurement::processor_seconds),
            disturbance: each(Measurement::disturbed_share),
        }
    }

    /// The figure of one setting, if it ran.
    pub fn figure(&self, setting: Setting) -> Option<f64> {
        let place = self.order.iter().position(|ran| *ran == setting)?;
        Some(self.figures[place])
    }
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Run these, in this order, each as a fresh unit.
    Round { phase: Phase, order: Vec<Setting> },
    /// Nothing: this is what was found.
    Done(Answer),
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The smallest setting that is as good as the best; never the automatic one.
    pub choice: Setting,
    /// What the choice was confirmed against: the best other size. Where it was not confirmed, the one
    /// that left it open.
    pub rival: Setting,
    /// Whether fresh runs confirm it. If not, the choice is a guess.
    pub confirmed: bool,
    /// Whether automatic sizes are within the margin of the rival and of the choice, too.
    pub auto_is_within: bool,
}

impl Answer {
    /// What to use: automatic where that is as good, as it also serves other files and machines.
    pub fn setting(&self, plan: &Plan) -> Setting {
        if self.auto_is_within { plan.auto() } else { self.choice }
    }
}

/// Says what is to be done after `rounds`, all of this plan and in their order.
///
/// # Errors
/// Where a figure is not a positive number.
pub fn step(plan: &Plan, rounds: &[Round]) -> Result<Step, Error> {
    Search { plan, rounds }.step()
}

/// The best guess after `rounds`, for a search that has to stop.
///
/// # Errors
/// As [`step`].
pub fn guess(plan: &Plan, rounds: &[Round]) -> Result<Option<Answer>, Error> {
    let search = Search { plan, rounds };
    if let Step::Done(answer) = search.step()? {
        return Ok(Some(answer));
    }
    if search.of(Phase::Scout).next().is_none() {
        return Ok(None);
    }
    let is_refined = search.of(Phase::Refine).next().is_some();
    let candidates = if is_refined { search.best_refined()? } else { search.scouted() };
    let reference = search.best(candidates)?;
    let ((low, high), open) = search.bisected(reference)?;
    let (choice, rival) = match open {
        None => {
            let Held { choice, rival, .. } = search.held(high)?;
            (choice, rival)
        }
        Some(_) if low == OFF && search.off_seems_good(reference)? => (OFF, reference),
        Some(_) => (high, search.rival(high)?),
    };
    Ok(Some(Answer { choice, rival, confirmed: false, auto_is_within: false }))
}

/// How the times of `setting` relate to those of `reference`, over the rounds of at least `phase`
/// in which both ran; `None` where there is none.
///
/// # Errors
/// As [`step`].
pub fn ratio(
    rounds: &[Round],
    phase: Phase,
    setting: Setting,
    reference: Setting,
    confidence: f64,
) -> Result<Option<Estimate>, Error> {
    let both = rounds
        .iter()
        .filter(|round| round.phase >= phase)
        .filter_map(|round| round.figure(reference).zip(round.figure(setting)));
    let (reference, setting): (Vec<f64>, Vec<f64>) = both.unzip();
    match setting.len() {
        0 => Ok(None),
        _ => Ok(Some(statistics::ratio(&reference, &setting, confidence)?)),
    }
}

/// What pairs say about a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Within,
    Beyond,
    Unclear,
}

/// A choice that is being confirmed.
struct Held {
    choice: Setting,
    /// Its rival, or where it ended there, a contender.
    rival: Setting,
    state: State,
}

enum State {
    /// Further pairs of the choice and its rival are wanted.
    AgainstRival,
    /// Further rounds of the choice and these.
    AgainstContenders(Vec<Setting>),
    /// On which side of the rival the choice is.
    Ended(Side),
}

struct Search<'a> {
    plan: &'a Plan,
    rounds: &'a [Round],
}

impl Search<'_> {
    fn step(&self) -> Result<Step, Error> {
        let auto = self.plan.auto();
        match self.of(Phase::Pilot).count() {
            // Nobody knows yet whether the program works: as it is first, then with buffers.
            0 => return Ok(Step::Round { phase: Phase::Pilot, order: vec![OFF] }),
            1 => return Ok(Step::Round { phase: Phase::Pilot, order: vec![OFF, auto] }),
            _ => {}
        }
        if self.of(Phase::Scout).count() < SCOUT_ROUNDS {
            return Ok(self.round(Phase::Scout, self.scouted()));
        }
        let refined = self.best_refined()?;
        if refined.len() > 1 && self.of(Phase::Refine).count() < REFINE_ROUNDS {
            return Ok(self.round(Phase::Refine, refined));
        }
        let reference = self.best(refined)?;
        let ((low, high), pairs) = self.bisected(reference)?;
        if let Some(probe) = pairs {
            return Ok(self.round(Phase::Bisect, vec![probe, reference]));
        }
        debug_assert_eq!(low, high);
        self.confirm(high)
    }

    fn margin(&self, below: f64, above: f64) -> Margin {
        let logarithm = |points: f64| (1.0 + self.plan.within + points).ln();
        Margin { beyond: logarithm(-below), within: logarithm(above) }
    }

    fn of(&self, phase: Phase) -> impl Iterator<Item = &Round> {
        self.rounds.iter().filter(move |round| round.phase == phase)
    }

    /// Runs so far, without those for a curve.
    fn runs(&self) -> usize {
        let rounds = self.rounds.iter().filter(|round| round.phase < Phase::Curve);
        rounds.map(|round| round.order.len()).sum()
    }

    /// The next round of `settings` in `phase`: in an order of its own from the seed.
    fn round(&self, phase: Phase, settings: Vec<Setting>) -> Step {
        let same = |round: &&Round| round.phase == phase && is_same_set(&round.order, &settings);
        let number = self.rounds.iter().filter(same).count();
        Step::Round { phase, order: self.order(phase, settings, number) }
    }

    fn order(&self, phase: Phase, settings: Vec<Setting>, number: usize) -> Vec<Setting> {
        order(self.plan.seed, phase, settings, number)
    }

    /// Every second size; the largest is one of them.
    fn scouted(&self) -> Vec<Setting> {
        let largest = self.plan.sizes;
        (1..=largest).filter(|size| (largest - size).is_multiple_of(2)).collect()
    }

    fn best_refined(&self) -> Result<Vec<Setting>, Error> {
        let mut scouted = self.scouted();
        let first = self.medians(&scouted, |round| round.phase == Phase::Scout)?;
        scouted.sort_by(|a, b| first[*a].total_cmp(&first[*b]));
        scouted.truncate(REFINED);
        scouted.sort_unstable();
        Ok(scouted)
    }

    /// The best of `settings`, by all that scouting and refining showed.
    fn best(&self, settings: Vec<Setting>) -> Result<Setting, Error> {
        let median =
            self.medians(&settings, |round| matches!(round.phase, Phase::Scout | Phase::Refine))?;
        let best = settings.into_iter().min_by(|a, b| median[*a].total_cmp(&median[*b]));
        Ok(best.unwrap_or(OFF))
    }

    /// By setting: the median of its figure relative to its round's geometric mean over `settings`,
    /// so that a slow round counts for all alike.
    fn medians(
        &self,
        settings: &[Setting],
        wanted: impl Fn(&Round) -> bool,
    ) -> Result<Vec<f64>, Error> {
        let mut relative = vec![Vec::new(); self.plan.auto() + 1];
        for round in self.rounds.iter().filter(|round| wanted(round)) {
            let logarithms: Vec<(Setting, f64)> = (round.order.iter().zip(&round.figures))
                .filter(|(setting, _)| settings.contains(setting))
                .map(|(setting, figure)| (*setting, figure.ln()))
                .collect();
            let mean = logarithms.iter().map(|(_, figure)| figure).sum::<f64>()
                / logarithms.len().max(1) as f64;
            for (setting, logarithm) in logarithms {
                relative[setting].push(logarithm - mean);
            }
        }
        let mut medians = vec![f64::INFINITY; relative.len()];
        for &setting in settings {
            if !relative[setting].is_empty() {
                medians[setting] = statistics::median(&relative[setting])?;
            }
        }
        Ok(medians)
    }
}

/// The order of the round of that number, of all rounds of these settings in `phase`.
pub(crate) fn order(
    seed: u64,
    phase: Phase,
    settings: Vec<Setting>,
    number: usize,
) -> Vec<Setting> {
    let seed = settings.iter().fold(seed ^ phase as u64, |seed, setting| {
        (seed.rotate_left(7) ^ *setting as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    });
    let order = Schedule::new(settings.len(), seed).nth(number).unwrap_or_default();
    order.into_iter().map(|place| settings[place]).collect()
}

fn logarithms(rounds: &[&Round], setting: Setting, reference: Setting) -> Vec<f64> {
    let ratio = |round: &&Round| Some((round.figure(setting)? / round.figure(reference)?).ln());
    rounds.iter().filter_map(ratio).collect()
}

/// How far off the best an answer may be: surely below the one end, surely above the other. On
/// logarithms.
struct Margin {
    beyond: f64,
    within: f64,
}

impl Margin {
    /// On which side an estimate on logarithms lies.
    fn side(&self, estimate: &Estimate) -> Side {
        let Some(Interval { low, high }) = estimate.interval else { return Side::Unclear };
        if high < self.within {
            Side::Within
        } else if low > self.beyond {
            Side::Beyond
        } else {
            Side::Unclear
        }
    }

    /// Whether as many samples as `cap` would make it clear, if the estimate stayed as it is and its
    /// interval shrank as intervals do: with the root of the number of samples.
    fn can_become_clear(&self, estimate: &Estimate, cap: usize) -> bool {
        let Some(Interval { low, high }) = estimate.interval else { return true };
        if estimate.samples >= cap {
            return false;
        }
        let shrink = (estimate.samples as f64 / cap as f64).sqrt();
        let at = |end: f64| estimate.value + (end - estimate.value) * shrink;
        let interval = Some(Interval { low: at(low), high: at(high) });
        self.side(&Estimate { interval, ..*estimate }) != Side::Unclear
    }
}

fn is_same_set(order: &[Setting], settings: &[Setting]) -> bool {
    order.len() == settings.len() && settings.iter().all(|setting| order.contains(setting))
}

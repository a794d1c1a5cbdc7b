//! Asks what a user wants to know, in the order in which it matters, in few runs:
//!
//! | question | what runs | answered |
//! |---|---|---|
//! | *is it worth it?* | no buffering and automatic sizes, in pairs | after 6, 9 or 14 pairs |
//! | *must I set a size?* | four sizes once; then the best of them and automatic, in pairs | after 6 pairs |
//!
//! The second question is asked only where the first one is answered with yes. A setting is *faster*
//! where the whole interval of the ratio lies beyond the margin, and *not faster* where all of it lies
//! below. Both claims are one-sided. Each is wrong in at most 3 of 64 cases (4.7 %), all looks together:
//! that is the sum of what the single looks may err, so it holds however the looks hang together.
//!
//! On a busy machine two rules, both fixed before anything runs, spare runs that nobody has:
//!
//! - A round counts less if the machine was disturbed in it ([`weight`]). None is dropped.
//! - Processor time is compared instead of wall time where wall time scatters more ([`figure`]).
//!
//! Neither rule looks at which setting of a round was the faster one. So of two equal settings each one
//! still is the faster one by the toss of a coin, as the interval assumes.
//!
//! Invariant: [`next`] and [`answer`] are pure functions of the plan and of the rounds so far.
//!
//! Deliberately not here: what a setting is, how it is run, when the time is up, and what to advise.

use crate::{
    Error,
    measure::DISTURBED_SHARE,
    search::{OFF, Phase, Plan, Round, Setting, order},
    statistics::{self, Estimate, Interval},
};
use serde::Serialize;

/// Pairs after which the first question looks. Six are the fewest that can say anything.
const LOOKS: [usize; 3] = [6, 9, 14];
/// Runs of both questions, times the plan's patience: with two that learn what the program reads and
/// writes there are 30.
const RUNS_MAX: usize = 28;
/// Sizes that are tried once, to find one that may be faster than automatic.
const SCOUTED: usize = 4;
/// How often a claim may be wrong, all looks together. Six pairs of which each says the same come up in
/// 1 of 64 cases, so three looks are possible.
const ERROR: f64 = 3.0 / 64.0;
/// Wall time scatters where the middle half of the rounds spans more than this: below it, wall time
/// answers both questions with few runs.
const SCATTER: f64 = 0.05;
/// Processor time must scatter this many times less to be worth the change.
const SCATTER_LESS: f64 = 2.0;
/// Processor time stands for wall time only where it makes up this share of it, in the fastest run of
/// each setting: less and the program waits for something, more and it computes in parallel.
const PROCESSOR_SHARE: std::ops::RangeInclusive<f64> = 0.8..=1.1;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// From the start of the program to its end.
    Wall,
    /// What it and those it waited for had of the processors.
    Processor,
}

/// What was found about "is this setting faster than that one, by more than the margin?"
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    Yes,
    No,
    Open,
}

/// Two settings, compared in pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The setting that is asked about.
    pub setting: Setting,
    /// The one it is compared with.
    pub reference: Setting,
    pub reply: Reply,
    /// How many times as fast `setting` is, with the interval that the reply rests on; `None` where
    /// there are too few pairs for one.
    pub speed: f64,
    pub interval: Option<Interval>,
    /// How many pairs there are, and in how many of them `setting` was faster.
    pub pairs: usize,
    pub faster_in: usize,
    /// About how many pairs would answer what is open, as noisy as it is now.
    pub pairs_wanted: Option<usize>,
}

/// What is known of both questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Automatic sizes against no buffering; `None` where no pair has run.
    pub worth: Option<Compared>,
    /// The best of the scouted sizes against automatic ones; `None` where that was not asked, or no pair
    /// has run.
    pub size: Option<Compared>,
    pub figure: Figure,
    /// How far wall time scattered from round to round (0.1: the middle half of the rounds spans 10 %).
    pub scatter: f64,
}

impl Answer {
    /// Whether buffering is worth it.
    pub fn worth(&self) -> Reply {
        self.worth.map_or(Reply::Open, |compared| compared.reply)
    }

    /// What to use; `None` where the first question is open.
    pub fn setting(&self, plan: &Plan) -> Option<Setting> {
        match (self.worth(), self.size) {
            (Reply::Open, _) => None,
            (Reply::No, _) => Some(OFF),
            (Reply::Yes, Some(Compared { setting, reply: Reply::Yes, .. })) => Some(setting),
            (Reply::Yes, _) => Some(plan.auto()),
        }
    }
}

/// What is to run after `rounds`, all of this plan and in their order: these settings, in this order,
/// each as a fresh unit. `None`: nothing more.
///
/// # Errors
/// Where a figure is not a positive number.
pub fn next(plan: &Plan, rounds: &[Round]) -> Result<Option<(Phase, Vec<Setting>)>, Error> {
    let questions = Questions { plan, rounds, figure: figure(rounds) };
    let auto = plan.auto();
    let worth = questions.worth()?;
    let (phase, settings) = match worth.map(|worth| worth.reply) {
        None | Some(Reply::Open) if questions.pairs_left() > 0 => (Phase::Worth, vec![OFF, auto]),
        Some(Reply::Yes) => match questions.candidate()? {
            None if questions.asks_for_size() => (Phase::Scout, questions.scouted()),
            None => return Ok(None),
            Some(candidate) => {
                let reply = questions.size(candidate)?.map(|size| size.reply);
                if !matches!(reply, None | Some(Reply::Open)) || questions.pairs_left() == 0 {
                    return Ok(None);
                }
                (Phase::Confirm, vec![candidate, auto])
            }
        },
        _ => return Ok(None),
    };
    let number = rounds.iter().filter(|round| round.phase == phase).count();
    Ok(Some((phase, order(plan.seed, phase, settings, number))))
}

/// What is known after `rounds`, whether more would run or not.
///
/// # Errors
/// As [`next`].
pub fn answer(plan: &Plan, rounds: &[Round]) -> Result<Answer, Error> {
    let questions = Questions { plan, rounds, figure: figure(rounds) };
    let size = match questions.candidate()? {
        Some(candidate) => questions.size(candidate)?,
        None => None,
    };
    let (figure, scatter) = (questions.figure, scatter(rounds, |round| &round.figures));
    Ok(Answer { worth: questions.worth()?, size, figure, scatter })
}

/// The patience with which that many pairs are possible, of either question.
pub fn patience_for(pairs: usize) -> usize {
    // The second question comes after the first one and the scouts.
    (LOOKS[0] * 2 + SCOUTED + pairs * 2).div_ceil(RUNS_MAX)
}

/// The most runs that are made: for plans, and for who waits.
pub fn runs_max(plan: &Plan) -> usize {
    RUNS_MAX * plan.patience
}

/// How much a round counts: fully up to the share from which a run is called disturbed, then the less
/// the more of it was disturbed. The worst run of the round decides.
pub fn weight(round: &Round) -> f64 {
    let worst = round.disturbance.iter().copied().fold(DISTURBED_SHARE, f64::max);
    DISTURBED_SHARE / worst
}

/// What is to be compared, from the first rounds that a look is made after: wall time, but where it
/// scatters and processor time stands for it.
pub fn figure(rounds: &[Round]) -> Figure {
    let Some(first) = rounds.get(..LOOKS[0]) else { return Figure::Wall };
    let known = |round: &Round| {
        round.processor.len() == round.order.len() && round.processor.iter().all(|time| *time > 0.0)
    };
    let stands_for_it = |setting: Setting| {
        let runs = first.iter().filter_map(|round| {
            let place = round.order.iter().position(|ran| *ran == setting)?;
            Some((round.figures[place], round.processor[place] / round.figures[place]))
        });
        let fastest = runs.min_by(|a, b| a.0.total_cmp(&b.0));
        fastest.is_none_or(|(_, share)| PROCESSOR_SHARE.contains(&share))
    };
    let scatters = |limit: f64| scatter(first, |round| &round.figures) > limit;
    let is_better = rounds.iter().all(known)
        && scatters(SCATTER.max(SCATTER_LESS * scatter(first, |round| &round.processor)))
        && first[0].order.iter().all(|setting| stands_for_it(*setting));
    if is_better { Figure::Processor } else { Figure::Wall }
}

/// How far the rounds of the first question lie apart: the middle half of their mean times. What a round
/// says of its settings is not in it.
fn scatter(rounds: &[Round], times: fn(&Round) -> &Vec<f64>) -> f64 {
    let mean = |round: &Round| {
        let times = times(round);
        times.iter().map(|time| time.ln()).sum::<f64>() / times.len().max(1) as f64
    };
    let worth = rounds.iter().filter(|round| round.phase == Phase::Worth);
    let means: Vec<f64> = worth.map(mean).collect();
    let at = |fraction| statistics::quantile(&means, fraction);
    match (at(0.25), at(0.75)) {
        (Ok(low), Ok(high)) => (high - low).exp() - 1.0,
        _ => 0.0,
    }
}

struct Questions<'a> {
    plan: &'a Plan,
    rounds: &'a [Round],
    figure: Figure,
}

impl Questions<'_> {
    fn worth(&self) -> Result<Option<Compared>, Error> {
        let looks = LOOKS.map(|pairs| if pairs == LOOKS[0] { pairs } else { self.times(pairs) });
        self.compared(Phase::Worth, self.plan.auto(), OFF, &looks)
    }

    fn size(&self, candidate: Setting) -> Result<Option<Compared>, Error> {
        // As many pairs as were left when the question was asked: often those of the first look only.
        let before = self.rounds.iter().filter(|round| round.phase != Phase::Confirm);
        let left = self.runs_max().saturating_sub(before.map(|round| round.order.len()).sum());
        let mut looks = LOOKS.map(|pairs| self.times(pairs).min(left / 2)).to_vec();
        looks[0] = LOOKS[0];
        looks.dedup();
        self.compared(Phase::Confirm, candidate, self.plan.auto(), &looks)
    }

    fn times(&self, pairs: usize) -> usize {
        pairs * self.plan.patience
    }

    fn runs_max(&self) -> usize {
        runs_max(self.plan)
    }

    fn runs_left(&self) -> usize {
        let runs = self.rounds.iter().map(|round| round.order.len()).sum();
        self.runs_max().saturating_sub(runs)
    }

    fn pairs_left(&self) -> usize {
        self.runs_left() / 2
    }

    /// Whether there are runs left for the second question.
    fn asks_for_size(&self) -> bool {
        self.runs_left() >= self.scouted().len() + 2 * LOOKS[0]
    }

    /// Sizes far apart, the largest among them: curves are smooth.
    fn scouted(&self) -> Vec<Setting> {
        let apart = (self.plan.sizes / SCOUTED).max(1);
        (1..=self.plan.sizes).rev().step_by(apart).take(SCOUTED).collect()
    }

    /// The best of the scouted sizes.
    fn candidate(&self) -> Result<Option<Setting>, Error> {
        let Some(scouts) = self.rounds.iter().find(|round| round.phase == Phase::Scout) else {
            return Ok(None);
        };
        let times = std::iter::zip(&scouts.order, self.times_of(scouts));
        Ok(times.min_by(|a, b| a.1.total_cmp(b.1)).map(|(setting, _)| *setting))
    }

    fn times_of<'a>(&self, round: &'a Round) -> &'a [f64] {
        match self.figure {
            Figure::Wall => &round.figures,
            Figure::Processor => &round.processor,
        }
    }

    /// What the pairs of a phase say. At the first look that says yes or no, that is the reply.
    fn compared(
        &self,
        phase: Phase,
        setting: Setting,
        reference: Setting,
        looks: &[usize],
    ) -> Result<Option<Compared>, Error> {
        let (mut speeds, mut weights) = (Vec::new(), Vec::new());
        for round in self.rounds.iter().filter(|round| round.phase == phase) {
            let time = |wanted: Setting| {
                let place = round.order.iter().position(|ran| *ran == wanted)?;
                self.times_of(round).get(place)
            };
            if let Some((reference, time)) = time(reference).zip(time(setting)) {
                speeds.push((reference / time).ln());
                weights.push(weight(round));
            }
        }
        if speeds.is_empty() {
            return Ok(None);
        }
        let confidence = 1.0 - 2.0 * ERROR / looks.len() as f64;
        let margin = (1.0 + self.plan.within).ln();
        let at = |pairs: usize| -> Result<(Estimate, Reply), Error> {
            let (speeds, weights) = (&speeds[..pairs], &weights[..pairs]);
            let estimate = statistics::weighted_location(speeds, weights, confidence)?;
            let reply = match estimate.interval {
                Some(Interval { low, .. }) if low > margin => Reply::Yes,
                Some(Interval { high, .. }) if high < margin => Reply::No,
                _ => Reply::Open,
            };
            Ok((estimate, reply))
        };
        let mut found = (at(speeds.len())?.0, Reply::Open);
        for look in looks.iter().filter(|look| **look <= speeds.len()) {
            let at_look = at(*look)?;
            if at_look.1 != Reply::Open {
                found = at_look;
                break;
            }
        }
        let (estimate, reply) = found;
        let interval = estimate.interval;
        Ok(Some(Compared {
            setting,
            reference,
            reply,
            speed: estimate.value.exp(),
            interval: interval.map(|i| Interval { low: i.low.exp(), high: i.high.exp() }),
            pairs: estimate.samples,
            faster_in: speeds[..estimate.samples].iter().filter(|speed| **speed > 0.0).count(),
            pairs_wanted: match reply {
                Reply::Open => pairs_wanted(&estimate, margin),
                _ => None,
            },
        }))
    }
}

/// How many samples would leave the margin outside of the interval, if the estimate stayed as it is:
/// intervals shrink with the root of the number of samples.
fn pairs_wanted(estimate: &Estimate, margin: f64) -> Option<usize> {
    let Interval { low, high } = estimate.interval?;
    let centre = estimate.value;
    let end = if centre < margin { high } else { low };
    let wanted = estimate.samples as f64 * ((end - centre) / (margin - centre)).powi(2);
    wanted.is_finite().then(|| (wanted.ceil() as usize).max(estimate.samples + 1))
}

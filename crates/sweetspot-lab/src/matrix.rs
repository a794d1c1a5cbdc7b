//! The cells of a plan, round by round: what runs next, and what the runs so far say.
//!
//! Round 0 warms up: the baselines first, since their outputs are what others are compared with. Its
//! times count for nothing. In every other round all cells run once, in an order that follows from
//! the seed; a cell that was given up runs no more.
//!
//! A cell and the one it is held against are compared round by round, in the rounds in which both
//! ran on the same machine.
//!
//! Invariant: everything here is a pure function of the plan, the seed and the runs so far. So a
//! session that was killed goes on as if nothing had happened.
//!
//! Deliberately not here: how a cell is run, and words for people.

use crate::{
    Error,
    paired::{CONFIDENCE_FIXED, CONFIDENCE_PER_LOOK, Effect, LOOKS, Verdict},
    plan::{Check, Claim, Plan, Stop},
    schedule::Schedule,
    statistics::{self, Interval},
    store::{CellRun, Ended, Observed},
};
use serde::Serialize;

/// Everything that is known.
pub struct Matrix<'a> {
    pub plan: &'a Plan,
    /// The order of the runs follows from it.
    pub seed: u64,
    /// Programs that cannot run here.
    pub skipped: &'a [usize],
    /// In the order in which they ran, without gaps.
    pub runs: &'a [CellRun],
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The cell at `place` of `order` is to run.
    Run { round: usize, place: usize, order: Vec<usize> },
    /// Enough has been seen.
    Done,
}

/// Whether the time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    Running,
    Up,
}

/// A figure of a run that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    Figure,
    PeakMemory,
}

impl Compared {
    fn of(self, observed: &Observed) -> f64 {
        match self {
            Compared::Figure => observed.figure,
            Compared::PeakMemory => observed.measurement.usage.peak_memory_bytes as f64,
        }
    }
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    Holds,
    DoesNotHold,
    /// The interval reaches over the bound, or there are too few rounds.
    Open,
    /// One of the cells did not run, or was given up.
    NotMeasured,
}

/// A claim about one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The claim's number in the plan, and which of its conditions it is.
    pub claim: usize,
    pub check: Check,
    pub cell: usize,
    /// Of those that it is held against and that ran, the one that leaves it least room.
    pub against: usize,
    /// How the cell relates to the other, in what the condition is about.
    pub effect: Option<Effect>,
    pub judgement: Judgement,
}

impl Matrix<'_> {
    /// What is to be done next.
    ///
    /// # Errors
    /// Where a figure is not a positive number.
    pub fn step(&self, clock: Clock) -> Result<Step, Error> {
        let (round, place) = match self.runs.last() {
            None => (0, 0),
            Some(last) if last.place + 1 < last.runs_of_round => (last.round, last.place + 1),
            Some(last) => (last.round + 1, 0),
        };
        if place == 0 && self.is_enough(round.saturating_sub(1), clock)? {
            return Ok(Step::Done);
        }
        let order = self.order(round);
        Ok(if order.is_empty() { Step::Done } else { Step::Run { round, place, order } })
    }

    /// Whether so many whole rounds are enough.
    fn is_enough(&self, rounds: usize, clock: Clock) -> Result<bool, Error> {
        match self.plan.stop {
            Stop::Rounds(wanted) => Ok(rounds >= wanted),
            Stop::Precision { within, .. } => {
                let is_time_up = rounds >= LOOKS[0] && clock == Clock::Up;
                let is_capped = rounds >= LOOKS[LOOKS.len() - 1];
                Ok(is_time_up || is_capped || LOOKS.contains(&rounds) && self.is_settled(within)?)
            }
        }
    }

    /// Whether more rounds would say nothing that matters.
    fn is_settled(&self, precision: f64) -> Result<bool, Error> {
        for cell in 0..self.plan.cells.len() {
            if let Some(effect) = self.effect_of(cell)?
                && !effect.is_settled(precision)
            {
                return Ok(false);
            }
        }
        let judged = self.judge()?;
        Ok(judged.iter().all(|judged| {
            let half_width = judged.effect.and_then(|effect| effect.half_width());
            judged.judgement != Judgement::Open || half_width.is_some_and(|half| half <= precision)
        }))
    }

    /// The cells of a round in their order.
    pub fn order(&self, round: usize) -> Vec<usize> {
        let mut schedule = Schedule::new(self.plan.cells.len(), self.seed);
        let mut order = schedule.nth(round.saturating_sub(1)).unwrap_or_default();
        order.retain(|cell| self.runs_in(*cell, round));
        if round == 0 {
            order.sort_by_key(|cell| !self.plan.is_baseline(*cell)); // stable: else by lot
        }
        order
    }

    /// Whether the cell runs in that round.
    fn runs_in(&self, cell: usize, round: usize) -> bool {
        let given_up =
            |run: &CellRun| run.cell == cell && run.round < round && run.observed().is_none();
        !self.is_skipped(cell) && !self.runs.iter().any(given_up)
    }

    /// Whether its program cannot run here.
    pub fn is_skipped(&self, cell: usize) -> bool {
        self.skipped.contains(&self.plan.cells[cell].program())
    }

    /// Why the cell was given up, if it was.
    pub fn fault(&self, cell: usize) -> Option<&str> {
        self.runs.iter().filter(|run| run.cell == cell).find_map(|run| match &run.ended {
            Ended::GivenUp(reason) => Some(reason.as_str()),
            Ended::Measured(_) => None,
        })
    }

    /// The rounds that count and are whole.
    pub fn rounds(&self) -> usize {
        let whole = |last: &CellRun| match last.place + 1 == last.runs_of_round {
            true => last.round,
            false => last.round.saturating_sub(1),
        };
        self.runs.last().map_or(0, whole)
    }

    /// The runs of a cell that count; none of one that was given up.
    pub fn observed(&self, cell: usize) -> Vec<&Observed> {
        if self.fault(cell).is_some() {
            return Vec::new();
        }
        let counted = self.counted(cell);
        counted.filter_map(CellRun::observed).collect()
    }

    fn counted(&self, cell: usize) -> impl Iterator<Item = &CellRun> {
        self.runs.iter().filter(move |run| run.cell == cell && run.round > 0)
    }

    /// The figures of two cells, from the rounds in which both ran on the same machine.
    pub fn pairs(&self, one: usize, other: usize, compared: Compared) -> (Vec<f64>, Vec<f64>) {
        if self.fault(one).is_some() || self.fault(other).is_some() {
            return Default::default();
        }
        let partner = |run: &CellRun| {
            let mut others = self.counted(other);
            others.find(|found| found.round == run.round && found.node == run.node)
        };
        let both = self.counted(one).filter_map(|run| Some((run, partner(run)?)));
        let both = both.filter_map(|(one, other)| Some((one.observed()?, other.observed()?)));
        both.map(|(one, other)| (compared.of(one), compared.of(other))).unzip()
    }

    /// The confidence that each interval is computed with.
    pub fn confidence(&self) -> f64 {
        match self.plan.stop {
            Stop::Rounds(_) => CONFIDENCE_FIXED,
            Stop::Precision { .. } => CONFIDENCE_PER_LOOK,
        }
    }

    /// How `cell` relates to `reference`; none where no round has both.
    ///
    /// # Errors
    /// Where a figure is not a positive number.
    pub fn effect(
        &self,
        reference: usize,
        cell: usize,
        compared: Compared,
    ) -> Result<Option<Effect>, Error> {
        let (reference, candidate) = self.pairs(reference, cell, compared);
        if candidate.is_empty() {
            return Ok(None);
        }
        Effect::of(&reference, &candidate, self.confidence(), self.plan.margin).map(Some)
    }

    /// How a cell relates to the baseline that it is held against.
    ///
    /// # Errors
    /// Where a figure is not a positive number.
    pub fn effect_of(&self, cell: usize) -> Result<Option<Effect>, Error> {
        match self.reference(cell) {
            Some(reference) => self.effect(reference, cell, Compared::Figure),
            None => Ok(None),
        }
    }

    /// The cell that this one is held against: its twin's original, or the baseline.
    pub fn reference(&self, cell: usize) -> Option<usize> {
        match self.plan.twin {
            Some((twin, original)) if twin == cell => Some(original),
            _ => self.plan.reference(cell),
        }
    }

    /// What became of all claims. Each is said with its own interval, and all together err as rarely
    /// as one alone would.
    ///
    /// # Errors
    /// Where a figure is not a positive number.
    pub fn judge(&self) -> Result<Vec<Judged>, Error> {
        let mut all = Vec::new();
        let mut p_values = Vec::new();
        for (number, claim) in self.plan.claims.iter().enumerate() {
            for cell in self.plan.meant(claim) {
                for check in &claim.checks {
                    let (against, effect, p) = self.against_best(claim, cell, *check)?;
                    let (check, judgement) = (*check, Judgement::NotMeasured);
                    all.push(Judged { claim: number, check, cell, against, effect, judgement });
                    p_values.push(p);
                }
            }
        }
        let corrected = statistics::holm(&p_values);
        for (judged, p) in std::iter::zip(&mut all, corrected) {
            judged.judgement = self.judgement(judged, p);
        }
        Ok(all)
    }

    /// Of the cells that a claim holds `cell` against, and that ran, the one that leaves it least room:
    /// its number, the effect, and a p value for the claim as a whole.
    ///
    /// A claim that must hold against each is as likely to be wrong as its weakest part, so the
    /// largest p value is that of the whole (intersection-union test). That it does not hold is seen
    /// at the worst of several, which has to be made up for (Bonferroni).
    fn against_best(
        &self,
        claim: &Claim,
        cell: usize,
        check: Check,
    ) -> Result<(usize, Option<Effect>, f64), Error> {
        let (compared, bound) = bound(check);
        let mut all = Vec::new();
        for other in &claim.against {
            let Some(other) = self.plan.counterpart(cell, other) else { continue };
            // What is not installed is left out, which is said. What failed might have been the best.
            if !self.is_skipped(other) && self.fault(other).is_some() {
                return Ok((other, None, 1.0));
            }
            all.push((
                other,
                self.effect(other, cell, compared)?,
                self.p_value(other, cell, check)?,
            ));
        }
        let ratio = |effect: &Option<Effect>| effect.map_or(0.0, |effect| effect.ratio);
        let worst = all.iter().max_by(|one, other| ratio(&one.1).total_cmp(&ratio(&other.1)));
        let Some(&(other, effect, p)) = worst else { return Ok((cell, None, 1.0)) };
        let ran = all.iter().filter_map(|(_, effect, p)| Some(((*effect)?, *p)));
        if ratio(&effect) > bound {
            return Ok((other, effect, (p * ran.count() as f64).min(1.0)));
        }
        let holds = |effect: Effect| effect.interval.is_some_and(|found| found.high <= bound);
        let p = ran.map(|(effect, p)| if holds(effect) { p } else { 1.0 }).fold(0.0, f64::max);
        Ok((other, effect, p))
    }

    /// How likely figures as far from the bound are where the truth is the bound.
    fn p_value(&self, against: usize, cell: usize, check: Check) -> Result<f64, Error> {
        let (compared, bound) = bound(check);
        let (reference, candidate) = self.pairs(against, cell, compared);
        if candidate.is_empty() {
            return Ok(1.0);
        }
        let beyond: Vec<f64> = std::iter::zip(reference, candidate)
            .map(|(reference, candidate)| (candidate / reference / bound).ln())
            .collect();
        Ok(statistics::signed_rank_p(&beyond)?)
    }

    fn judgement(&self, judged: &Judged, p: f64) -> Judgement {
        let (_, bound) = bound(judged.check);
        let is_sure = p <= 1.0 - self.confidence();
        match judged.effect {
            None => Judgement::NotMeasured,
            Some(Effect { interval: Some(Interval { high, .. }), .. })
                if high <= bound && is_sure =>
            {
                Judgement::Holds
            }
            Some(Effect { interval: Some(Interval { low, .. }), .. }) if low > bound && is_sure => {
                Judgement::DoesNotHold
            }
            Some(_) => Judgement::Open,
        }
    }

    /// Whether the machine became faster or slower meanwhile, by more than the margin: asked of all
    /// baselines together, each by its own median, in the order in which they ran.
    ///
    /// # Errors
    /// Where a figure is not a positive number.
    pub fn shift(&self) -> Result<Option<Shift>, Error> {
        let mut medians = vec![None; self.plan.cells.len()];
        for cell in (0..medians.len()).filter(|cell| self.plan.is_baseline(*cell)) {
            let figures: Vec<f64> = self.observed(cell).iter().map(|run| run.figure).collect();
            if !figures.is_empty() {
                medians[cell] = Some(statistics::median(&figures)?);
            }
        }
        let relative =
            |run: &CellRun| Some((run.round, run.observed()?.figure / medians[run.cell]?));
        let counted = self.runs.iter().filter(|run| run.round > 0);
        let (rounds, levels): (Vec<usize>, Vec<f64>) = counted.filter_map(relative).unzip();
        let Some(found) = statistics::change_point(&levels) else { return Ok(None) };
        let (before, after) = levels.split_at(found.index);
        if before.is_empty() || found.p > SHIFT_P_MAX {
            return Ok(None);
        }
        let ratio = statistics::median(after)? / statistics::median(before)?;
        let matters = ratio.ln().abs() > self.plan.margin.ln_1p();
        Ok(matters.then_some(Shift { round: rounds[found.index], ratio, p: found.p }))
    }

    /// What comparing a cell with itself shows; none where that was not asked for, or not done.
    ///
    /// # Errors
    /// Where a figure is not a positive number.
    pub fn null_control(&self) -> Result<Option<NullControl>, Error> {
        let Some((twin, original)) = self.plan.twin else { return Ok(None) };
        let Some(effect) = self.effect(original, twin, Compared::Figure)? else { return Ok(None) };
        let mut figures = Vec::new();
        for run in self.runs.iter().filter(|run| run.round > 0) {
            if [twin, original].contains(&run.cell) {
                figures.extend(run.observed().map(|observed| observed.figure));
            }
        }
        Ok(Some(NullControl { effect, autocorrelation: statistics::autocorrelation(&figures) }))
    }
}

/// The baselines' times changed their level in the course of the session.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Shift {
    /// The first round of the new level.
    pub round: usize,
    /// The median time from then on over that before.
    pub ratio: f64,
    /// How likely it is by chance.
    pub p: f64,
}

/// A shift is told of where chance alone shows it less often than that.
const SHIFT_P_MAX: f64 = 0.01;

/// A cell against itself.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NullControl {
    pub effect: Effect,
    /// How much each run of the cell is like the one before it.
    pub autocorrelation: Option<f64>,
}

impl NullControl {
    /// The share by which two equal cells may seem to differ: the far end of the interval.
    pub fn noise_floor(&self) -> Option<f64> {
        let Interval { low, high } = self.effect.interval?;
        Some(high.ln().abs().max(low.ln().abs()).exp() - 1.0)
    }

    /// The smallest difference that so many rounds can tell from none: so far apart that an interval
    /// as wide as this one lies beyond the margin.
    pub fn smallest_effect(&self, margin: f64) -> Option<f64> {
        let half = self.effect.half_width()?;
        Some((half + margin.ln_1p()).exp() - 1.0)
    }

    /// Whether verdicts of this session can be trusted.
    pub fn is_same(&self) -> bool {
        self.effect.verdict == Verdict::Same
    }
}

impl Judged {
    /// Whether it is open only because so many claims at once need more rounds: the interval by itself
    /// is clear.
    pub fn needs_more_rounds(&self) -> bool {
        let (_, bound) = bound(self.check);
        let interval = self.effect.and_then(|effect| effect.interval);
        let is_clear = interval.is_some_and(|found| found.high <= bound || found.low > bound);
        self.judgement == Judgement::Open && is_clear
    }
}

/// What a condition is about, and the most that the ratio to the other cell may be.
fn bound(check: Check) -> (Compared, f64) {
    match check {
        Check::AtLeast(times) => (Compared::Figure, 1.0 / times),
        Check::NotSlowerWithin(share) => (Compared::Figure, 1.0 + share),
        Check::MemoryAtMost(times) => (Compared::PeakMemory, times),
    }
}

#[cfg(test)]
mod tests;

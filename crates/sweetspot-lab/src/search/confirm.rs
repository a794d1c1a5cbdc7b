//! Confirms a choice in fresh rounds: against its rival, then against all that may be better.

use crate::search::{
    Answer, CONFIDENCE, CONFIRM_POINTS, CONTENDER_SPREAD, Held, OFF, OFF_ROUNDS, Phase, Round,
    Search, Setting, Side, State, Step, logarithms,
};
use crate::{
    Error,
    statistics::{self},
};

impl Search<'_> {
    /// Other sizes that may be better than the choice by more than the margin, for all that scouting
    /// and refining say. Few or none on a quiet machine. On a busy one the rival is often not the
    /// best there is, and what is within the margin of it then not within the margin of the best.
    pub(super) fn contenders(&self, choice: Setting, rival: Setting) -> Vec<Setting> {
        let scouted = self.scouted();
        let reference = if scouted.contains(&choice) { choice } else { rival };
        let early: Vec<&Round> =
            self.rounds.iter().filter(|round| round.phase <= Phase::Refine).collect();
        let limit = -(1.0 + self.plan.within).ln();
        let may_be_better = |size: &Setting| {
            let logarithms = logarithms(&early, *size, reference);
            let least = logarithms.iter().copied().fold(f64::MAX, f64::min);
            let most = logarithms.iter().copied().fold(f64::MIN, f64::max);
            least - CONTENDER_SPREAD * (most - least) < limit
        };
        let others = scouted.into_iter().filter(|size| ![choice, rival].contains(size));
        others.filter(may_be_better).collect()
    }

    /// Fresh rounds of the choice against what it must not be worse than.
    pub(super) fn confirm(&self, found: Setting) -> Result<Step, Error> {
        let Held { choice, rival, state } = self.held(found)?;
        let (next, side) = match state {
            State::AgainstRival => (Some(self.confirmation(choice, rival)?), Side::Unclear),
            State::AgainstContenders(mut settings) => {
                settings.push(choice);
                (Some(self.round(Phase::Confirm, settings)), Side::Unclear)
            }
            State::Ended(side) => (None, side),
        };
        if let Some(Step::Round { phase, order }) = next
            && self.runs() + order.len() <= self.plan.runs_max()
        {
            return Ok(Step::Round { phase, order });
        }
        let (auto, confirmed) = (self.plan.auto(), side == Side::Within);
        self.answer(Answer {
            choice,
            rival,
            confirmed,
            auto_is_within: confirmed
                && self.is_within(auto, rival)?
                && self.is_within(auto, choice)?,
        })
    }

    /// Which choice is held against what: its rival first, then all contenders. One that they refute
    /// gives way to the next larger one.
    pub(super) fn held(&self, found: Setting) -> Result<Held, Error> {
        let mut choice = found;
        loop {
            let rival = self.rival(choice)?;
            let held = match self.compared(choice, rival)? {
                None => Held { choice, rival, state: State::AgainstRival },
                Some(Side::Within) => self.held_against_contenders(choice, rival)?,
                Some(side) => Held { choice, rival, state: State::Ended(side) },
            };
            match held {
                Held { rival, state: State::Ended(Side::Beyond), .. } if choice < rival => {
                    choice += 1
                }
                held => return Ok(held),
            }
        }
    }

    /// What the rounds say of a choice that its rival has confirmed, and of its contenders.
    fn held_against_contenders(&self, choice: Setting, rival: Setting) -> Result<Held, Error> {
        let mut open = Vec::new();
        for contender in self.contenders(choice, rival) {
            match self.compared(choice, contender)? {
                None => open.push(contender),
                Some(Side::Within) => {}
                Some(side) => {
                    return Ok(Held { choice, rival: contender, state: State::Ended(side) });
                }
            }
        }
        let state = match open.is_empty() {
            true => State::Ended(Side::Within),
            false => State::AgainstContenders(open),
        };
        Ok(Held { choice, rival, state })
    }

    /// The next round of a confirmation. The choice and its rival are neighbours in time with
    /// automatic sizes, until these are clearly far off. No buffering comes along at an end, as often
    /// as an interval needs.
    pub(super) fn confirmation(&self, choice: Setting, rival: Setting) -> Result<Step, Error> {
        let auto = self.plan.auto();
        let mut settings = vec![choice, rival];
        let against_rival = self.pairs(auto, rival);
        let is_far_off = against_rival.len() >= self.plan.confirm_looks()[0] && {
            let estimate = statistics::location(&against_rival, CONFIDENCE)?;
            self.margin(0.0, CONFIRM_POINTS).side(&estimate) == Side::Beyond
        };
        if !is_far_off {
            settings.push(auto);
        }
        let number = self.pairs(choice, rival).len();
        let mut order = self.order(Phase::Confirm, settings, number);
        if number < OFF_ROUNDS && !order.contains(&OFF) {
            let place = if number.is_multiple_of(2) { 0 } else { order.len() };
            order.insert(place, OFF);
        }
        Ok(Step::Round { phase: Phase::Confirm, order })
    }

    pub(super) fn answer(&self, answer: Answer) -> Result<Step, Error> {
        if self.of(Phase::Curve).count() < self.plan.curve_rounds {
            return Ok(self.round(Phase::Curve, (OFF..=self.plan.auto()).collect()));
        }
        Ok(Step::Done(answer))
    }

    /// The rounds of a confirmation in which both ran.
    pub(super) fn pairs(&self, setting: Setting, reference: Setting) -> Vec<f64> {
        let rounds: Vec<&Round> = self.of(Phase::Confirm).collect();
        logarithms(&rounds, setting, reference)
    }

    /// What a confirmation says of `choice` and one that it must not be worse than; `None`: there
    /// must be more pairs.
    fn compared(&self, choice: Setting, rival: Setting) -> Result<Option<Side>, Error> {
        let logarithms = self.pairs(choice, rival);
        let margin = self.margin(0.0, CONFIRM_POINTS);
        let looks = self.plan.confirm_looks();
        for look in looks.into_iter().take_while(|look| *look <= logarithms.len()) {
            let estimate = statistics::location(&logarithms[..look], CONFIDENCE)?;
            match margin.side(&estimate) {
                Side::Unclear if margin.can_become_clear(&estimate, looks[2]) => {}
                answer => return Ok(Some(answer)),
            }
        }
        Ok(None)
    }

    fn is_within(&self, setting: Setting, reference: Setting) -> Result<bool, Error> {
        let logarithms = self.pairs(setting, reference);
        if logarithms.len() < self.plan.confirm_looks()[0] {
            return Ok(false);
        }
        let estimate = statistics::location(&logarithms, CONFIDENCE)?;
        let margin = self.margin(0.0, CONFIRM_POINTS);
        Ok(margin.side(&estimate) == Side::Within)
    }
}

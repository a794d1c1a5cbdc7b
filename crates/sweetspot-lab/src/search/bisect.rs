//! Finds the smallest setting that is as good as a reference, by pairs of both.

use crate::search::{
    BISECT_LOOKS, BISECT_POINTS, CONFIDENCE_BISECT, OFF, Phase, RULED_OUT, Round, Search, Setting,
    Side, is_same_set,
};
use crate::{
    Error,
    statistics::{self},
};

impl Search<'_> {
    /// The range in which the smallest setting lies that is as good as `reference` (both ends are
    /// possible, the upper one is known to do), and the setting that wants another pair.
    pub(super) fn bisected(
        &self,
        reference: Setting,
    ) -> Result<((Setting, Setting), Option<Setting>), Error> {
        let (mut low, mut high) = (self.first_possible(reference)?, reference);
        let mut probe = self.predicted(low, reference)?;
        while low < high {
            match self.probed(probe, reference)? {
                Some(Side::Within) => high = probe,
                Some(_) => low = probe + 1,
                None => return Ok(((low, high), Some(probe))),
            }
            // The first guess is mostly right: then its neighbour below it is the last question.
            probe =
                if high == probe { high.saturating_sub(1).max(low) } else { low.midpoint(high) };
        }
        Ok(((low, high), None))
    }

    /// The smallest of `low..reference` that seems as good, by scouting and refining.
    fn predicted(&self, low: Setting, reference: Setting) -> Result<Setting, Error> {
        let sizes: Vec<Setting> = self.scouted();
        let early = |round: &Round| matches!(round.phase, Phase::Scout | Phase::Refine);
        let medians = self.medians(&sizes, early)?;
        let margin = (1.0 + self.plan.within).ln();
        let good = |size: &Setting| medians[*size] - medians[reference] <= margin;
        let found = sizes.into_iter().filter(|size| *size >= low && *size < reference).find(good);
        Ok(found.unwrap_or(low.midpoint(reference)))
    }

    /// Settings below it need no pairs: runs so far already show them far off.
    fn first_possible(&self, reference: Setting) -> Result<Setting, Error> {
        let far = (1.0 + self.plan.within + RULED_OUT).ln();
        let early = |round: &Round| round.phase <= Phase::Refine;
        let mut times = Vec::new();
        times.extend(self.rounds.iter().filter(|r| early(r)).filter_map(|r| r.figure(reference)));
        let slowest = times.iter().copied().fold(f64::MIN, f64::max);
        let mut first = OFF;
        // The pilots ran in no round with the reference, so each must be slower than all of its.
        let pilots = self.of(Phase::Pilot).filter_map(|round| round.figure(OFF));
        if pilots.fold(f64::MAX, f64::min).ln() - slowest.ln() > far {
            first = 1;
        }
        for size in self.scouted().into_iter().filter(|size| *size < reference) {
            let mut least = f64::MAX;
            for round in self.rounds.iter().filter(|round| early(round)) {
                if let (Some(a), Some(b)) = (round.figure(size), round.figure(reference)) {
                    least = least.min((a / b).ln());
                }
            }
            if least < f64::MAX && least > far {
                first = size + 1;
            }
        }
        Ok(first)
    }

    /// Whether no buffering took no longer in the pilots than `reference` mostly did.
    pub(super) fn off_seems_good(&self, reference: Setting) -> Result<bool, Error> {
        let figures = |setting: Setting| -> Vec<f64> {
            self.rounds.iter().filter_map(|round| round.figure(setting)).collect()
        };
        let (off, reference) = (figures(OFF), figures(reference));
        let limit = (1.0 + self.plan.within) * statistics::median(&reference)?;
        Ok(statistics::median(&off)? <= limit)
    }

    /// What the pairs of `probe` and `reference` say; `None`: they must be more.
    fn probed(&self, probe: Setting, reference: Setting) -> Result<Option<Side>, Error> {
        let pairs =
            self.of(Phase::Bisect).filter(|round| is_same_set(&round.order, &[probe, reference]));
        let logarithms: Vec<f64> = pairs
            .filter_map(|round| Some((round.figure(probe)? / round.figure(reference)?).ln()))
            .collect();
        let count = logarithms.len();
        for look in BISECT_LOOKS.into_iter().take_while(|look| *look <= count) {
            let estimate = statistics::location(&logarithms[..look], CONFIDENCE_BISECT)?;
            let margin = self.margin(BISECT_POINTS, BISECT_POINTS);
            match margin.side(&estimate) {
                // Too near to the margin, or too noisy, for more pairs to say: the estimate decides,
                // and the confirmation has the last word.
                Side::Unclear if !margin.can_become_clear(&estimate, BISECT_LOOKS[2]) => {
                    let is_within = estimate.value <= (1.0 + self.plan.within).ln();
                    return Ok(Some(if is_within { Side::Within } else { Side::Beyond }));
                }
                Side::Unclear => {}
                clear => return Ok(Some(clear)),
            }
        }
        Ok(None)
    }

    /// The best size besides `choice`, by scouting and refining.
    pub(super) fn rival(&self, choice: Setting) -> Result<Setting, Error> {
        let mut others = self.best_refined()?;
        others.retain(|size| *size != choice);
        match others.is_empty() {
            true => Ok(choice),
            false => self.best(others),
        }
    }
}

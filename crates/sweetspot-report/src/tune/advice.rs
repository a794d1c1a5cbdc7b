//! What to do, in plain sentences: what the two questions of `sweetspot_lab::questions` came to.
//!
//! Each ending advises something. Where the times leave a question open, the calls that buffering saves
//! decide what to do meanwhile: noise does not touch them.

use crate::numbers::{percent_at_least, spoken, three};
use sweetspot_lab::ladder::Ladder;
use sweetspot_lab::measure::Measurement;
use sweetspot_lab::questions::{self, Answer, Compared, Figure, Reply};
use sweetspot_lab::search::{OFF, Plan, Setting};
use sweetspot_lab::statistics::{self, Interval};

/// More patience is not proposed to anyone: the advice serves.
const PATIENCE_SENSIBLE: usize = 5;
/// Buffering saves calls where at most this share of them is left.
const CALLS_LEFT_MAX: f64 = 0.5;

/// Everything that advice follows from.
pub struct Advice<'a> {
    pub sizes: &'a Ladder,
    pub plan: &'a Plan,
    pub answer: &'a Answer,
    pub measurements: &'a [(Setting, Measurement)],
    /// Whether all that was asked has run: nothing more would have come.
    pub is_complete: bool,
}

impl Advice<'_> {
    /// What to do first, then why.
    pub fn text(&self) -> String {
        let Some(worth) = &self.answer.worth else {
            return "No answer yet: no pair has run. Until then, leave it as it is.".to_string();
        };
        match worth.reply {
            Reply::Yes => format!(
                "Use `sweetspot run`: it is {} times as fast{}. {}",
                three(worth.speed),
                interval(worth),
                self.size()
            ),
            Reply::No => format!(
                "Leave it as it is: `sweetspot run` {}.",
                match worth.interval {
                    Some(Interval { low, high }) if high < 1.0 / (1.0 + self.plan.within) => {
                        let inverse = Interval { low: 1.0 / high, high: 1.0 / low };
                        let longer = Compared { interval: Some(inverse), ..*worth };
                        let times = three(1.0 / worth.speed);
                        format!("takes {times} times as long here{}", interval(&longer))
                    }
                    Some(Interval { high, .. }) if high > 1.005 => {
                        let most = percent_at_least(high - 1.0);
                        format!("gains at most {most} here{}", interval(worth))
                    }
                    _ => format!("is as fast or slower here ({} pairs)", worth.pairs),
                }
            ),
            Reply::Open => self.undecided(worth),
        }
    }

    /// Which figure was compared, and why.
    pub fn figure(&self) -> String {
        match self.answer.figure {
            Figure::Wall => "Compared by wall time.".to_string(),
            Figure::Processor => format!(
                "Compared by processor time, because wall time scattered by {} from pair to pair.",
                percent_at_least(self.answer.scatter)
            ),
        }
    }

    /// Whether a size must be set.
    fn size(&self) -> String {
        let Some(size) = &self.answer.size else {
            return match self.is_complete {
                true => format!(
                    "Set no size: the timings were too noisy to compare sizes within this many \
                     runs.{}",
                    self.more_patience(self.plan.patience + 1, "may be enough")
                ),
                false => "Set no size: none was tried yet.".to_string(),
            };
        };
        let named = spoken(self.sizes.buffer(size.setting));
        match size.reply {
            Reply::Yes => format!(
                "Set the size to {named}: that is {} times as fast as auto{}.",
                three(size.speed),
                interval(size)
            ),
            Reply::No => match size.interval {
                Some(Interval { high, .. }) if high > 1.005 => format!(
                    "Set no size: auto is at most {} slower than {named}, the best size tried.",
                    percent_at_least(high - 1.0)
                ),
                _ => format!("Set no size: auto is as fast as {named}, the best size tried."),
            },
            Reply::Open => format!(
                "Set no size: auto is not shown to be slower than {named}, the best size tried (it takes {} \
                 times as long{}).{}",
                three(size.speed),
                between(size),
                self.more(size)
            ),
        }
    }

    fn undecided(&self, worth: &Compared) -> String {
        let saved = self.calls().filter(|(before, after)| *after <= CALLS_LEFT_MAX * before);
        let advice = match saved {
            Some((before, after)) => format!(
                "use `sweetspot run`: it makes {after:.0} system calls instead of {before:.0}"
            ),
            None => "leave it as it is: buffering saves few of its system calls".to_string(),
        };
        format!(
            "Undecided. For now, {advice}. With buffering it was faster in {} of {} pairs ({} times as \
             fast{}).{}",
            worth.faster_in,
            worth.pairs,
            three(worth.speed),
            between(worth),
            self.more(worth)
        )
    }

    /// What would answer an open question.
    fn more(&self, compared: &Compared) -> String {
        match compared.pairs_wanted {
            Some(pairs) => {
                let patience = questions::patience_for(pairs).max(self.plan.patience + 1);
                self.more_patience(patience, &format!("(about {pairs} pairs) may settle it"))
            }
            None => String::new(),
        }
    }

    fn more_patience(&self, patience: usize, what: &str) -> String {
        match patience <= PATIENCE_SENSIBLE && self.is_complete {
            true => format!(" More runs {what}: sweetspot tune --patience {patience} -- ..."),
            false => String::new(),
        }
    }

    /// System calls that read or write, without and with automatic buffers.
    fn calls(&self) -> Option<(f64, f64)> {
        let of = |setting: Setting| {
            let runs = self.measurements.iter().filter(|(ran, _)| *ran == setting);
            let calls = runs.map(|(_, run)| run.transfers.read_calls + run.transfers.write_calls);
            statistics::median(&calls.map(|calls| calls as f64).collect::<Vec<_>>()).ok()
        };
        of(OFF).zip(of(self.plan.auto()))
    }
}

/// ` (95 % interval 9.0 to 15.0, 6 pairs)`.
fn interval(compared: &Compared) -> String {
    match compared.interval {
        Some(Interval { low, high }) => {
            format!(" (95 % interval {} to {}, {} pairs)", three(low), three(high), compared.pairs)
        }
        None => String::new(),
    }
}

/// `, 0.95 to 1.80`.
fn between(compared: &Compared) -> String {
    let both = |Interval { low, high }| format!(", {} to {}", three(low), three(high));
    compared.interval.map_or_else(String::new, both)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(reply: Reply, setting: Setting, speed: [f64; 3]) -> Compared {
        let [low, speed, high] = speed;
        Compared {
            setting,
            reference: OFF,
            reply,
            speed,
            interval: Some(Interval { low, high }),
            pairs: 6,
            faster_in: 5,
            pairs_wanted: (reply == Reply::Open).then_some(24),
        }
    }

    fn said(worth: Option<Compared>, size: Option<Compared>) -> String {
        let sizes = sweetspot_lab::ladder::ladder("64K..256K").unwrap_or_else(|e| panic!("{e}"));
        let plan = Plan { sizes: 3, within: 0.05, seed: 0, curve_rounds: 0, patience: 1 };
        let answer = Answer { worth, size, figure: Figure::Wall, scatter: 0.2 };
        let (measurements, is_complete) = (&[][..], true);
        Advice { sizes: &sizes, plan: &plan, answer: &answer, measurements, is_complete }.text()
    }

    #[test]
    fn every_ending_begins_with_what_to_do() {
        let check = |worth: Compared, size: Option<Compared>, expected: &str| {
            assert_eq!(said(Some(worth), size), expected);
        };
        let gain = compared(Reply::Yes, 4, [9.0, 11.84, 15.0]);
        let used =
            "Use `sweetspot run`: it is 11.8 times as fast (95 % interval 9.00 to 15.0, 6 pairs). ";
        let size = |reply, speed| Some(compared(reply, 2, speed));
        for (size, said) in [
            (
                size(Reply::Yes, [1.08, 1.2, 1.31]),
                "Set the size to 128 KiB: that is 1.20 times as fast as auto (95 % interval 1.08 to 1.31, \
                 6 pairs).",
            ),
            (
                size(Reply::No, [0.9, 1.0, 1.032]),
                "Set no size: auto is at most 4 % slower than 128 KiB, the best size tried.",
            ),
            (
                size(Reply::No, [0.8, 0.9, 0.95]),
                "Set no size: auto is as fast as 128 KiB, the best size tried.",
            ),
            (
                size(Reply::Open, [0.9, 1.02, 1.1]),
                "Set no size: auto is not shown to be slower than 128 KiB, the best size tried (it takes \
                 1.02 times as long, 0.90 to 1.10). More runs (about 24 pairs) may settle it: sweetspot tune \
                 --patience 3 -- ...",
            ),
            (
                None,
                "Set no size: the timings were too noisy to compare sizes within this many runs. \
                 More runs may be enough: sweetspot tune --patience 2 -- ...",
            ),
        ] {
            check(gain, size, &format!("{used}{said}"));
        }
        for (speed, said) in [
            ([0.96, 0.99, 1.02], "gains at most 2 % here (95 % interval 0.96 to 1.02, 6 pairs)"),
            ([0.96, 0.98, 1.0], "is as fast or slower here (6 pairs)"),
            (
                [0.7, 0.8, 0.9],
                "takes 1.25 times as long here (95 % interval 1.11 to 1.43, 6 pairs)",
            ),
        ] {
            let said = format!("Leave it as it is: `sweetspot run` {said}.");
            check(compared(Reply::No, 4, speed), None, &said);
        }
        check(
            compared(Reply::Open, 4, [0.9, 1.3, 1.8]),
            None,
            "Undecided. For now, leave it as it is: buffering saves few of its system calls. With buffering it was faster in 5 of 6 pairs (1.30 times as fast, 0.90 to 1.80). More runs (about 24 pairs) may \
             settle it: sweetspot tune --patience 3 -- ...",
        );
        let none = "No answer yet: no pair has run. Until then, leave it as it is.";
        assert_eq!(said(None, None), none);
    }
}

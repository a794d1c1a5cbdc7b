//! What a program did when: its calls and bytes so far, looked at while it runs.

use super::data::Moment;
use std::time::Duration;

/// From one look to the next, at first.
pub const GAP: Duration = Duration::from_millis(50);
/// So many looks are kept of any run, however long: when there are more, each second one is dropped,
/// and from then on it is looked half as often.
const MOMENTS_MAX: usize = 240;

pub struct Timeline {
    gap: Duration,
    moments: Vec<Moment>,
}

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline { gap: GAP, moments: vec![Moment::default()] }
    }
}

impl Timeline {
    /// Looks, if it is time: so many seconds after the start.
    pub fn look(&mut self, seconds: f64, so_far: impl FnOnce() -> (u64, u64)) {
        let last = self.moments.last().map_or(0.0, |moment| moment.seconds);
        // A little early is in time, or every second look would be left out.
        if seconds - last >= self.gap.as_secs_f64() * 0.9 {
            self.add(seconds, so_far());
        }
    }

    fn add(&mut self, seconds: f64, (calls, bytes): (u64, u64)) {
        self.moments.push(Moment { seconds, calls, bytes });
        if self.moments.len() > MOMENTS_MAX {
            let mut number = 0;
            self.moments.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.gap *= 2;
        }
    }

    /// The run is over.
    pub fn end(mut self, seconds: f64, so_far: (u64, u64)) -> Vec<Moment> {
        self.add(seconds, so_far);
        self.moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_has_as_many_moments_as_a_short_one() {
        for looks in [100u64, 1_000, 100_000] {
            let mut timeline = Timeline::default();
            let time = |look: u64| look as f64 * GAP.as_secs_f64();
            (1..looks).for_each(|look| timeline.look(time(look), || (look * 10, look * 100)));
            let moments = timeline.end(time(looks), (looks * 10, looks * 100));
            assert!((100..=MOMENTS_MAX + 1).contains(&moments.len()), "{}", moments.len());
            assert_eq!(moments[0], Moment::default());
            assert_eq!(moments.last().unwrap().calls, looks * 10);
            let gaps = moments.windows(2).map(|two| two[1].seconds - two[0].seconds);
            let most = gaps.fold(0.0, f64::max);
            assert!(most < time(looks) / 50.0 + GAP.as_secs_f64(), "{looks}: {most}");
        }
    }
}

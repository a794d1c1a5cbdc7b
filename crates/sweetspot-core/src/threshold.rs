//! After how many small calls a file earns a buffer, by the files that this process has closed.
//!
//! A buffer costs as much as so many calls before it answers the first one. A file that ends soon after it got
//! one has taken longer than without, and where there is one such file there may be a thousand. So for each number
//! of calls that could be asked for first it is reckoned what the files so far would have taken, and the one that
//! would have been cheapest is asked for. A file that ends early then pays nothing, and one that goes on
//! pays for a few calls more.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::learning::Learning;
use crate::policy::{READS_TO_EARN, WINDOW_CALLS, WRITE_BUFFER_CALLS, WRITES_TO_EARN};

/// Numbers that can be asked for: the least one, twice as many, and so on.
const STEPS: usize = 7;
/// The calls of the files so far count half from here on: a program may do something else later.
const CALLS_MAX: u32 = 1 << 16;

/// Small calls on one open file in one direction that have come to an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// How many there were, answered by the kernel or by a buffer.
    pub calls: u32,
    /// Whether transfers wait for something there, so that the buffer's own are all that it costs; `None`: it
    /// has made none.
    pub is_dear: Option<bool>,
}

/// What a call has brought to an end of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    pub reads: Run,
    pub writes: Run,
}

/// How often the least number of calls is doubled before a file earns a buffer, for reads and for writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    pub reads: u32,
    pub writes: u32,
}

/// What the files of a process have shown. Threads may tell it at once: what gets lost is one file of many.
#[derive(Debug)]
pub struct Thresholds {
    /// What the most frequent calls ask.
    earns_nothing: AtomicU64,
    reads: Threshold,
    writes: Threshold,
}

impl Thresholds {
    /// There were no files yet.
    pub const NEW: Thresholds = Thresholds {
        earns_nothing: AtomicU64::new(Learning::earns_nothing(0)),
        reads: Threshold::new(READS_TO_EARN, WINDOW_CALLS),
        writes: Threshold::new(WRITES_TO_EARN, WRITE_BUFFER_CALLS),
    };

    /// What is asked for now.
    pub fn steps(&self) -> Steps {
        Steps { reads: self.reads_step(), writes: self.writes_step() }
    }

    /// How often the number of reads is doubled.
    #[inline(always)]
    pub fn reads_step(&self) -> u32 {
        self.reads.step.load(Relaxed)
    }

    /// [`Learning::earns_nothing`] with that.
    #[inline(always)]
    pub fn reads_earn_nothing(&self) -> u64 {
        self.earns_nothing.load(Relaxed)
    }

    /// How often the number of writes is doubled.
    #[inline(always)]
    pub fn writes_step(&self) -> u32 {
        self.writes.step.load(Relaxed)
    }

    /// Calls on a file have come to an end.
    pub fn ended(&self, ended: Ended) {
        self.reads.ended(ended.reads);
        self.writes.ended(ended.writes);
        self.earns_nothing.store(Learning::earns_nothing(self.reads_step()), Relaxed);
    }
}

#[derive(Debug)]
struct Threshold {
    /// The least number of calls that is asked for, and what a buffer costs, in calls.
    least: u32,
    buffer_calls: u32,
    /// What the files would have taken, in calls, by what was asked for.
    taken: [AtomicU32; STEPS],
    step: AtomicU32,
    is_dear: AtomicBool,
}

impl Threshold {
    const fn new(least: u32, buffer_calls: u32) -> Threshold {
        Threshold {
            least,
            buffer_calls,
            taken: [const { AtomicU32::new(0) }; STEPS],
            step: AtomicU32::new(0),
            is_dear: AtomicBool::new(false),
        }
    }

    fn ended(&self, run: Run) {
        if let Some(is_dear) = run.is_dear {
            self.is_dear.store(is_dear, Relaxed);
        }
        if run.calls < self.least {
            return;
        }
        let buffer_calls = if self.is_dear.load(Relaxed) { 1 } else { self.buffer_calls };
        let halved = u32::from(self.taken[0].load(Relaxed) >= CALLS_MAX);
        let (mut best, mut fewest) = (0, u32::MAX);
        for (step, taken) in (0..).zip(&self.taken) {
            let asked = self.least << step;
            let takes = if run.calls >= asked { asked + buffer_calls } else { run.calls };
            let all = (taken.load(Relaxed) >> halved).wrapping_add(takes);
            taken.store(all, Relaxed);
            // The first of those that are alike: nothing is asked for without a reason.
            if all < fewest {
                (best, fewest) = (step, all);
            }
        }
        self.step.store(best, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(calls: u32) -> Ended {
        Ended { reads: Run { calls, is_dear: None }, ..Ended::default() }
    }

    /// The least number of reads asked for after files of so many.
    fn after(files: &[u32]) -> u32 {
        let thresholds = Thresholds::NEW;
        for calls in files {
            thresholds.ended(reads(*calls));
        }
        READS_TO_EARN << thresholds.reads_step()
    }

    #[test]
    fn files_that_end_early_are_asked_for_more() {
        assert_eq!(after(&[]), READS_TO_EARN);
        assert_eq!(after(&[1, 2, READS_TO_EARN - 1]), READS_TO_EARN, "they would have had none");
        assert_eq!(after(&[READS_TO_EARN]), 2 * READS_TO_EARN);
        assert_eq!(after(&[20; 1000]), 32);
        assert_eq!(after(&[40, 20]), 64, "neither is worth one");
        assert_eq!(after(&[READS_TO_EARN + WINDOW_CALLS; 9]), READS_TO_EARN, "no reason for more");
        assert_eq!(after(&[100; 1000]), READS_TO_EARN);
    }

    #[test]
    fn of_files_of_both_kinds_the_sum_counts() {
        assert_eq!(after(&[20, 1_000_000]), READS_TO_EARN, "12 calls lost, 16 won");
        assert_eq!(after(&[20, 20, 1_000_000]), 32);
        assert_eq!(after(&[20, 20, 1_000_000, 1_000_000]), READS_TO_EARN);
    }

    #[test]
    fn a_program_may_do_something_else_later() {
        let thresholds = Thresholds::NEW;
        (0..1_000_000).for_each(|_| thresholds.ended(reads(20)));
        assert_eq!(thresholds.reads_step(), 1);
        let files = (1..).find(|_| {
            thresholds.ended(reads(u32::MAX));
            thresholds.reads_step() == 0
        });
        assert!(files.unwrap() < 3000, "{files:?}");
    }

    #[test]
    fn where_calls_are_dear_a_buffer_costs_one() {
        let thresholds = Thresholds::NEW;
        let write = |calls, is_dear| {
            thresholds.ended(Ended { writes: Run { calls, is_dear }, ..Ended::default() });
        };
        (0..100).for_each(|_| write(WRITES_TO_EARN + 2, Some(true)));
        assert_eq!(thresholds.steps(), Steps::default());
        (0..100).for_each(|_| write(WRITES_TO_EARN + 2, None));
        assert_eq!(thresholds.steps(), Steps::default(), "still as it was last seen");
        (0..200).for_each(|_| write(WRITES_TO_EARN + 2, Some(false)));
        assert_eq!(thresholds.steps(), Steps { reads: 0, writes: 1 });
    }
}

//! After how many small calls a file earns a buffer, by the files that this process has closed.
//!
//! A buffer costs as much as so many calls before it answers the first one. A file that ends soon after it got
//! one has taken longer than without, and where there is one such file there may be a thousand. So each number of
//! calls that may be asked for first is given what the files so far would have taken with it, and the cheapest one
//! is asked for. A file that ends early then pays nothing, and one that goes on pays for a few calls more.
//!
//! What a buffer costs in calls follows from what a call costs on that file system. Where calls are short, so are
//! those that make a buffer, and it costs about as many on each machine; where each one waits for a device or a
//! server, it costs a few. Reads begin with the same number on both: the kernel reads ahead for the first ones.

use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering::Relaxed};

use crate::policy::{
    DEAR_WRITE_BUFFER_CALLS, DEAR_WRITES_TO_EARN, READS_TO_EARN, WINDOW_CALLS, WRITE_BUFFER_CALLS,
    WRITE_NS, WRITES_TO_EARN,
};

/// Numbers that can be asked for: the least one, twice as many, and so on.
const STEPS: usize = 7;
/// The calls of the files so far count half from here on: a program may do something else later.
const CALLS_MAX: u32 = 1 << 16;

/// Small calls on one open file in one direction that have come to an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// How many there were, answered by the kernel or by a buffer.
    pub calls: u32,
    /// Whether each transfer there waits for a device or a server. `None`: it has made no transfer.
    pub is_dear: Option<bool>,
}

impl Run {
    /// Whether its calls were dear: where it cannot say, as the last ones were.
    fn is_dear(self, last: &AtomicBool) -> bool {
        if let Some(is_dear) = self.is_dear {
            last.store(is_dear, Relaxed);
        }
        last.load(Relaxed)
    }
}

/// What has come to an end of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    pub reads: Run,
    pub writes: Run,
}

impl Ended {
    /// So many reads of a file that goes on without a buffer.
    pub fn reads(calls: u32) -> Ended {
        Ended { reads: Run { calls, is_dear: None }, writes: Run::default() }
    }
}

/// How often the least number of calls is doubled before a file earns a buffer, four bits each. In one word, as
/// `profile` takes it along to each call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps(u16);

const STEP: u16 = 15;
const READS_AT: u32 = 0;
const WRITES_AT: u32 = 4;
const DEAR_WRITES_AT: u32 = 8;
/// Whether it is these that are asked for: the last writes were so.
const ARE_DEAR_AT: u32 = 12;

impl Steps {
    #[inline(always)]
    fn part(self, at: u32) -> u32 {
        const { assert!(STEPS <= STEP as usize + 1) };
        u32::from(self.0 >> at & STEP)
    }

    /// For reads.
    #[inline(always)]
    pub fn reads(self) -> u32 {
        self.part(READS_AT)
    }

    /// The small writes after which a file earns a buffer: fewer where each waits for a device or a server.
    #[inline(always)]
    pub fn writes_to_earn(self) -> u32 {
        let at = if self.are_writes_dear() { DEAR_WRITES_AT } else { WRITES_AT };
        self.least_writes() << self.part(at)
    }

    /// The least number that may be asked for now.
    #[inline(always)]
    pub fn least_writes(self) -> u32 {
        if self.are_writes_dear() { DEAR_WRITES_TO_EARN } else { WRITES_TO_EARN }
    }

    fn are_writes_dear(self) -> bool {
        self.part(ARE_DEAR_AT) != 0
    }

    /// As if files had shown that the least number should be doubled so often.
    #[cfg(test)]
    pub fn of_writes(step: u16) -> Steps {
        Steps(step << WRITES_AT)
    }
}

/// What the files of a process have shown. Threads may tell it at once: what gets lost is one file of many.
#[derive(Debug)]
pub struct Thresholds {
    reads: Threshold,
    reads_are_dear: AtomicBool,
    writes: Threshold,
    /// Of writes each of which waits for a device or a server.
    dear_writes: Threshold,
    writes_are_dear: AtomicBool,
    /// What the program has waited for a handle besides, in writes, lately.
    waited_calls: AtomicU32,
    /// What follows from all.
    steps: AtomicU16,
}

impl Thresholds {
    /// There were no files yet. To be put into a static, or a value of its own.
    #[allow(clippy::declare_interior_mutable_const)]
    pub const NEW: Thresholds = Thresholds {
        reads: Threshold::new(READS_TO_EARN),
        reads_are_dear: AtomicBool::new(false),
        writes: Threshold::new(WRITES_TO_EARN),
        dear_writes: Threshold::new(DEAR_WRITES_TO_EARN),
        writes_are_dear: AtomicBool::new(false),
        waited_calls: AtomicU32::new(0),
        steps: AtomicU16::new(0),
    };

    /// What is asked for now.
    #[inline(always)]
    pub fn steps(&self) -> Steps {
        Steps(self.steps.load(Relaxed))
    }

    /// The program has waited until a handle was given back.
    pub fn waited_for_handle(&self, ns: u64) {
        let calls = (ns / WRITE_NS).min(WAITED_CALLS_MAX) as u32;
        let mean = (3 * self.waited_calls.load(Relaxed) + calls) / 4;
        self.waited_calls.store(mean, Relaxed);
    }

    /// Calls on a file have come to an end. Whether that tells anything.
    #[inline]
    pub fn ended(&self, Ended { reads, writes }: Ended) -> bool {
        let tells = reads.calls >= READS_TO_EARN || writes.calls >= DEAR_WRITES_TO_EARN;
        if tells {
            if reads.calls >= READS_TO_EARN {
                let is_dear = reads.is_dear(&self.reads_are_dear);
                let step = self.reads.ended(reads.calls, if is_dear { 1 } else { WINDOW_CALLS });
                self.set_step(READS_AT, step);
            }
            if writes.calls >= DEAR_WRITES_TO_EARN {
                self.writes_ended(writes);
            }
        }
        tells
    }
}

impl Thresholds {
    fn writes_ended(&self, writes: Run) {
        let are_dear = writes.is_dear(&self.writes_are_dear);
        self.set_step(ARE_DEAR_AT, u32::from(are_dear));
        if are_dear {
            let step = self.dear_writes.ended(writes.calls, DEAR_WRITE_BUFFER_CALLS);
            self.set_step(DEAR_WRITES_AT, step);
        } else if writes.calls >= WRITES_TO_EARN {
            let cost = WRITE_BUFFER_CALLS + self.waited_calls.load(Relaxed);
            self.set_step(WRITES_AT, self.writes.ended(writes.calls, cost));
        }
    }

    fn set_step(&self, at: u32, step: u32) {
        let others = self.steps.load(Relaxed) & !(STEP << at);
        self.steps.store(others | (step as u16) << at, Relaxed);
    }
}

/// Waits that are longer say nothing of the next one, in calls.
const WAITED_CALLS_MAX: u64 = 1 << 12;

#[derive(Debug)]
struct Threshold {
    /// The least number of calls that is asked for.
    least: u32,
    /// What the files would have taken, in calls, by what was asked for.
    taken: [AtomicU32; STEPS],
}

impl Threshold {
    const fn new(least: u32) -> Threshold {
        Threshold { least, taken: [const { AtomicU32::new(0) }; STEPS] }
    }

    /// The step that is best after so many calls on one more file, no fewer than the least number, where a buffer
    /// costs so many.
    fn ended(&self, calls: u32, buffer_calls: u32) -> u32 {
        let halved = u32::from(self.taken[0].load(Relaxed) >= CALLS_MAX);
        let (mut best, mut fewest) = (0, u32::MAX);
        for (step, taken) in (0..).zip(&self.taken) {
            let asked = self.least << step;
            let takes = if calls >= asked { asked + buffer_calls } else { calls };
            let all = (taken.load(Relaxed) >> halved).wrapping_add(takes);
            taken.store(all, Relaxed);
            // The first of those that are alike: nothing is asked for without a reason.
            if all < fewest {
                (best, fewest) = (step, all);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least number of reads asked for after files of so many.
    fn after(files: &[u32]) -> u32 {
        let thresholds = Thresholds::NEW;
        for calls in files {
            assert_eq!(thresholds.ended(Ended::reads(*calls)), *calls >= READS_TO_EARN);
        }
        READS_TO_EARN << thresholds.steps().reads()
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
        (0..1_000_000).for_each(|_| assert!(thresholds.ended(Ended::reads(20))));
        assert_eq!(thresholds.steps().reads(), 1);
        let files = (1..).find(|_| {
            thresholds.ended(Ended::reads(u32::MAX));
            thresholds.steps().reads() == 0
        });
        assert!(files.unwrap() < 3000, "{files:?}");
    }

    #[test]
    fn what_is_waited_for_counts() {
        let thresholds = Thresholds::NEW;
        let times_after = |waited_calls: u64, calls: u32| {
            (0..20).for_each(|_| thresholds.waited_for_handle(waited_calls * WRITE_NS));
            let writes = Run { calls, is_dear: Some(false) };
            (0..5000).for_each(|_| _ = thresholds.ended(Ended { writes, ..Ended::default() }));
            thresholds.steps().writes_to_earn() / WRITES_TO_EARN
        };
        assert_eq!(times_after(0, 250), 1);
        assert_eq!(times_after(200, 250), 4, "256 calls");
        assert_eq!(times_after(u64::MAX / WRITE_NS, 3000), 64, "4096 calls");
        assert_eq!(times_after(0, 250), 1);
    }

    #[test]
    fn calls_are_as_dear_as_they_were_last_seen() {
        let thresholds = Thresholds::NEW;
        let write = |calls, is_dear| {
            let writes = Run { calls, is_dear };
            (0..100).for_each(|_| _ = thresholds.ended(Ended { writes, ..Ended::default() }));
            thresholds.steps().writes_to_earn()
        };
        assert_eq!(write(WRITES_TO_EARN + 2, Some(true)), DEAR_WRITES_TO_EARN);
        assert_eq!(write(WRITES_TO_EARN + 2, None), DEAR_WRITES_TO_EARN, "as it was last seen");
        assert_eq!(write(DEAR_WRITES_TO_EARN - 1, None), DEAR_WRITES_TO_EARN, "they tell nothing");
        assert_eq!(write(WRITES_TO_EARN + 2, Some(false)), 2 * WRITES_TO_EARN);
        assert_eq!(write(DEAR_WRITES_TO_EARN, None), 2 * WRITES_TO_EARN, "they tell nothing");
    }

    #[test]
    fn where_calls_are_dear_files_that_end_early_are_asked_for_more_too() {
        let thresholds = Thresholds::NEW;
        let write = |calls| {
            let writes = Run { calls, is_dear: Some(true) };
            _ = thresholds.ended(Ended { writes, ..Ended::default() });
            thresholds.steps().writes_to_earn()
        };
        assert_eq!(write(DEAR_WRITES_TO_EARN + 1), 2 * DEAR_WRITES_TO_EARN);
        assert_eq!(write(3000), DEAR_WRITES_TO_EARN, "7 calls lost, 16 won");
        assert_eq!(thresholds.steps().least_writes(), DEAR_WRITES_TO_EARN);
    }
}

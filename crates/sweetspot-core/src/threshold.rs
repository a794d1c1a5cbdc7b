//! After how many small calls a file earns a buffer, by the files that this process has closed.
//!
//! A buffer costs as much as so many calls before it answers the first one. A file that ends soon after it got
//! one has taken longer than without, and where there is one such file there may be a thousand. So each number of
//! calls that may be asked for first is given what the files so far would have taken with it, and the cheapest one
//! is asked for. A file that ends early then pays nothing, and one that goes on pays for a few calls more.

use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering::Relaxed};

use crate::policy::{READS_TO_EARN, WINDOW_CALLS, WRITE_BUFFER_CALLS, WRITE_NS, WRITES_TO_EARN};

/// Numbers that can be asked for: the least one, twice as many, and so on.
const STEPS: usize = 7;
/// The calls of the files so far count half from here on: a program may do something else later.
const CALLS_MAX: u32 = 1 << 16;

/// Small calls on one open file in one direction that have come to an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// How many there were, answered by the kernel or by a buffer.
    pub calls: u32,
    /// Whether each transfer there waits for a device or a server: then a buffer costs no more than a call.
    /// `None`: it has made no transfer.
    pub is_dear: Option<bool>,
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

/// How often the least number of calls is doubled before a file earns a buffer. In one word, as `profile` takes it
/// along to each call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps(u16);

impl Steps {
    fn new(reads: u32, writes: u32) -> Steps {
        Steps((reads | writes << 8) as u16)
    }

    /// For reads.
    #[inline(always)]
    pub fn reads(self) -> u32 {
        u32::from(self.0 & 0xff)
    }

    /// For writes.
    #[inline(always)]
    pub fn writes(self) -> u32 {
        u32::from(self.0 >> 8)
    }
}

/// What the files of a process have shown. Threads may tell it at once: what gets lost is one file of many.
#[derive(Debug)]
pub struct Thresholds {
    reads: Threshold,
    writes: Threshold,
    /// What follows from both.
    steps: AtomicU16,
}

impl Thresholds {
    /// There were no files yet. To be put into a static, or a value of its own.
    #[allow(clippy::declare_interior_mutable_const)]
    pub const NEW: Thresholds = Thresholds {
        reads: Threshold::new(READS_TO_EARN, WINDOW_CALLS),
        writes: Threshold::new(WRITES_TO_EARN, WRITE_BUFFER_CALLS),
        steps: AtomicU16::new(0),
    };

    /// What is asked for now.
    #[inline(always)]
    pub fn steps(&self) -> Steps {
        Steps(self.steps.load(Relaxed))
    }

    /// The program has waited until a handle was given back.
    pub fn waited_for_handle(&self, ns: u64) {
        self.writes.waited(ns / WRITE_NS);
    }

    /// Calls on a file have come to an end. Whether that tells anything.
    #[inline]
    pub fn ended(&self, Ended { reads, writes }: Ended) -> bool {
        let tells = reads.calls >= READS_TO_EARN || writes.calls >= WRITES_TO_EARN;
        if tells {
            let now = self.steps();
            let reads = self.reads.ended(reads).unwrap_or(now.reads());
            let writes = self.writes.ended(writes).unwrap_or(now.writes());
            self.steps.store(Steps::new(reads, writes).0, Relaxed);
        }
        tells
    }
}

/// Waits that are longer say nothing of the next one, in calls.
const WAITED_CALLS_MAX: u64 = 1 << 12;

#[derive(Debug)]
struct Threshold {
    /// The least number of calls that is asked for, and what a buffer costs, in calls.
    least: u32,
    buffer_calls: u32,
    /// What the program has waited for one besides, in calls, lately.
    waited_calls: AtomicU32,
    /// What the files would have taken, in calls, by what was asked for.
    taken: [AtomicU32; STEPS],
    is_dear: AtomicBool,
}

impl Threshold {
    const fn new(least: u32, buffer_calls: u32) -> Threshold {
        Threshold {
            least,
            buffer_calls,
            waited_calls: AtomicU32::new(0),
            taken: [const { AtomicU32::new(0) }; STEPS],
            is_dear: AtomicBool::new(false),
        }
    }

    fn waited(&self, calls: u64) {
        let calls = calls.min(WAITED_CALLS_MAX) as u32;
        let mean = (3 * self.waited_calls.load(Relaxed) + calls) / 4;
        self.waited_calls.store(mean, Relaxed);
    }

    /// The step that is best from now on; `None`: the run was so short that it tells nothing.
    fn ended(&self, run: Run) -> Option<u32> {
        if run.calls < self.least {
            return None;
        }
        if let Some(is_dear) = run.is_dear {
            self.is_dear.store(is_dear, Relaxed);
        }
        let waited_calls = self.waited_calls.load(Relaxed);
        let buffer_calls =
            if self.is_dear.load(Relaxed) { 1 } else { self.buffer_calls + waited_calls };
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
        Some(best)
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
        let step_after = |waited_calls: u64, calls: u32| {
            (0..20).for_each(|_| thresholds.waited_for_handle(waited_calls * WRITE_NS));
            let writes = Run { calls, is_dear: Some(false) };
            (0..5000).for_each(|_| _ = thresholds.ended(Ended { writes, ..Ended::default() }));
            thresholds.steps().writes()
        };
        assert_eq!(step_after(0, 250), 0);
        assert_eq!(step_after(200, 250), 2, "256 calls");
        assert_eq!(step_after(u64::MAX / WRITE_NS, 3000), 6, "4096 calls");
        assert_eq!(step_after(0, 250), 0);
    }

    #[test]
    fn where_calls_are_dear_a_buffer_costs_one() {
        let thresholds = Thresholds::NEW;
        let write = |calls, is_dear| {
            let writes = Run { calls, is_dear };
            assert!(thresholds.ended(Ended { writes, ..Ended::default() }));
        };
        (0..100).for_each(|_| write(WRITES_TO_EARN + 2, Some(true)));
        assert_eq!(thresholds.steps(), Steps::default());
        (0..100).for_each(|_| write(WRITES_TO_EARN + 2, None));
        assert_eq!(thresholds.steps(), Steps::default(), "still as it was last seen");
        (0..200).for_each(|_| write(WRITES_TO_EARN + 2, Some(false)));
        assert_eq!(thresholds.steps(), Steps::new(0, 1));
    }
}

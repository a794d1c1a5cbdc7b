//! After how many small calls a file earns a buffer, by the files that this process has closed.
//!
//! A buffer costs as much as so many calls before it answers the first one. A file that ends soon after it got
//! one has taken longer than without, and where there is one such file there may be a thousand. So each number of
//! calls that may be asked for first is given what the files so far would have taken with it, and the cheapest one
//! is asked for. A file that ends early then pays nothing, and one that goes on pays for a few calls more.
//!
//! A buffer is some calls of this process' own (`WINDOW_CALLS`, `WRITE_BUFFER_CALLS`): on a slower machine both are
//! slower. Where a call takes so long that somebody else must be answering it, a buffer costs no more than one, and
//! files are asked for few: nobody is to make 64 calls of a millisecond each before something is done about them.
//! Elsewhere fewer than usual would not do, whatever a buffer costs: 16 reads in order show that more will follow. (With
//! two to four, as one that was measured costs on ext4, a program that calls at random saved 61,000 calls instead of
//! 197,000: most windows were thrown away.)

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::cost::{HELD_UP, Meter, SmallCall};
use crate::policy::{
    CALL_NS, READS_TO_EARN, WAIT_NS, WINDOW_CALLS, WRITE_BUFFER_CALLS, WRITES_TO_EARN,
};

/// The least numbers that are ever asked for: [`READS_TO_EARN`] and [`WRITES_TO_EARN`], halved so often.
const HALVED: u32 = 3;
/// Numbers that can be asked for: the fewest, twice as many, and so on.
const STEPS: usize = 7;
/// The calls of the files so far count half from here on: a program may do something else later.
const CALLS_MAX: u32 = 1 << 16;

/// Small calls on one open file in one direction that have come to an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// How many there were, answered by the kernel or by a buffer.
    pub calls: u32,
    /// What one takes there, by the transfers that were made.
    pub call: SmallCall,
}

impl Run {
    /// So many calls, with what transfers have shown of them.
    #[inline(always)]
    pub fn of(calls: u32, meter: &Meter) -> Run {
        Run { calls, call: meter.small_call() }
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
        Ended { reads: Run { calls, ..Run::default() }, writes: Run::default() }
    }
}

/// After how many small calls a file earns a buffer. In one word, as `profile` takes it along to each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked(u32);

impl Default for Asked {
    fn default() -> Asked {
        Asked::NEW
    }
}

impl Asked {
    /// While nothing is known.
    pub const NEW: Asked = Asked::new(READS_TO_EARN, WRITES_TO_EARN);

    const fn new(reads: u32, writes: u32) -> Asked {
        Asked(reads | writes << 16)
    }

    /// So many reads: a power of two.
    #[inline(always)]
    pub const fn reads(self) -> u32 {
        self.0 & 0xffff
    }

    /// So many writes: a power of two.
    #[inline(always)]
    pub const fn writes(self) -> u32 {
        self.0 >> 16
    }
}

/// What the files of a process have shown. Threads may tell it at once: what gets lost is one file of many.
#[derive(Debug)]
pub struct Thresholds {
    reads: Threshold,
    writes: Threshold,
    /// What follows from both.
    asked: AtomicU32,
}

impl Thresholds {
    /// There were no files yet. To be put into a static, or a value of its own.
    #[allow(clippy::declare_interior_mutable_const)]
    pub const NEW: Thresholds = Thresholds {
        reads: Threshold::new(READS_TO_EARN, WINDOW_CALLS),
        writes: Threshold::new(WRITES_TO_EARN, WRITE_BUFFER_CALLS),
        asked: AtomicU32::new(Asked::NEW.0),
    };

    /// What is asked for now.
    #[inline(always)]
    pub fn asked(&self) -> Asked {
        Asked(self.asked.load(Relaxed))
    }

    /// The program has waited until a handle was given back.
    pub fn waited_for_handle(&self, ns: u64) {
        self.writes.waited(ns);
    }

    /// Calls on a file have come to an end. Whether something else is asked for now.
    #[inline]
    pub fn ended(&self, Ended { reads, writes }: Ended) -> bool {
        let now = self.asked();
        let (by_reads, by_writes) = (self.reads.ended(reads), self.writes.ended(writes));
        let next = Asked::new(by_reads.unwrap_or(now.reads()), by_writes.unwrap_or(now.writes()));
        let changes = next != now;
        if changes {
            self.asked.store(next.0, Relaxed);
        }
        changes
    }
}

/// Waits that are longer say nothing of the next one, in nanoseconds.
const WAITED_NS_MAX: u64 = 2_000_000;

#[derive(Debug)]
struct Threshold {
    /// The fewest calls that are asked for where they are not dear, and what a buffer costs there, in calls.
    usual: u32,
    usual_buffer_calls: u32,
    /// The fewest that are asked for where the last file was.
    fewest: AtomicU32,
    /// What a small call takes there: a word of [`SmallCall`], and never 0.
    call: AtomicU32,
    /// What the program has waited for a buffer besides, in nanoseconds, lately.
    waited_ns: AtomicU32,
    /// What files there would have taken, in calls, by what was asked for.
    taken: [AtomicU32; STEPS],
}

impl Threshold {
    const fn new(usual: u32, usual_buffer_calls: u32) -> Threshold {
        Threshold {
            usual,
            usual_buffer_calls,
            fewest: AtomicU32::new(usual),
            call: AtomicU32::new(CALL_NS),
            waited_ns: AtomicU32::new(0),
            taken: [const { AtomicU32::new(0) }; STEPS],
        }
    }

    fn waited(&self, ns: u64) {
        let ns = ns.min(WAITED_NS_MAX) as u32;
        self.waited_ns.store((3 * self.waited_ns.load(Relaxed) + ns) / 4, Relaxed);
    }

    /// A call has taken so long. Whether others are asked for now than before. One that may have been held up counts
    /// where that of the file before may have been, too: small files on a slow server have no more than one each.
    #[cold]
    fn note_call(&self, SmallCall(call): SmallCall) -> bool {
        let is_first = call & HELD_UP != 0 && self.call.load(Relaxed) & HELD_UP == 0;
        // Waits are counted in calls, of which none is for nothing.
        self.call.store(call.max(CALL_NS), Relaxed);
        if is_first {
            return false;
        }
        // So is each that may have been held up.
        let is_dear = u64::from(call) >= WAIT_NS;
        let fewest = if is_dear { self.usual >> HALVED } else { self.usual };
        let changes = self.fewest.swap(fewest, Relaxed) != fewest;
        if changes {
            // What files took where calls cost something else tells nothing here.
            self.taken.iter().for_each(|taken| taken.store(0, Relaxed));
        }
        changes
    }

    /// What a buffer costs, in calls.
    fn buffer_calls(&self, fewest: u32) -> u32 {
        let own_calls = if fewest < self.usual { 1 } else { self.usual_buffer_calls };
        match self.waited_ns.load(Relaxed) {
            0 => own_calls,
            waited_ns => own_calls + waited_ns / (self.call.load(Relaxed) & !HELD_UP),
        }
    }

    /// What is best from now on; `None`: the run was so short that it tells nothing.
    fn ended(&self, run: Run) -> Option<u32> {
        let changes = run.call != SmallCall(0) && self.note_call(run.call);
        let fewest = self.fewest.load(Relaxed);
        if run.calls < fewest {
            return changes.then_some(fewest);
        }
        let buffer_calls = self.buffer_calls(fewest);
        let halved = u32::from(self.taken[0].load(Relaxed) >= CALLS_MAX);
        let (mut best, mut least_taken) = (fewest, u32::MAX);
        for (step, taken) in (0..).zip(&self.taken) {
            let asked = fewest << step;
            let takes = if run.calls >= asked { asked + buffer_calls } else { run.calls };
            let all = (taken.load(Relaxed) >> halved).wrapping_add(takes);
            taken.store(all, Relaxed);
            // The first of those that are alike: nothing is asked for without a reason.
            if all < least_taken {
                (best, least_taken) = (asked, all);
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
            thresholds.ended(Ended::reads(*calls));
        }
        thresholds.asked().reads()
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
        assert!(thresholds.ended(Ended::reads(20)));
        (0..1_000_000).for_each(|_| assert!(!thresholds.ended(Ended::reads(20))));
        assert_eq!(thresholds.asked().reads(), 2 * READS_TO_EARN);
        let files = (1..).find(|_| {
            thresholds.ended(Ended::reads(u32::MAX));
            thresholds.asked().reads() == READS_TO_EARN
        });
        assert!(files.unwrap() < 3000, "{files:?}");
    }

    /// Writes of a file that has ended.
    fn writes(calls: u32, call: u32) -> Ended {
        Ended { writes: Run { calls, call: SmallCall(call) }, ..Ended::default() }
    }

    #[test]
    fn of_files_with_one_slow_transfer_each_the_second_one_tells() {
        let thresholds = Thresholds::NEW;
        let slow = writes(300, 1_000_000 | HELD_UP);
        assert!(!thresholds.ended(slow), "it may have been held up");
        assert!(!thresholds.ended(writes(3, 0)), "nothing is known of it");
        assert!(thresholds.ended(slow));
        assert_eq!(thresholds.asked().writes(), WRITES_TO_EARN >> HALVED);
        assert!(!thresholds.ended(slow));
        assert!(thresholds.ended(writes(300, CALL_NS)));
        assert_eq!(thresholds.asked().writes(), WRITES_TO_EARN);
        assert!(!thresholds.ended(slow), "the one before was not");
    }

    #[test]
    fn what_is_waited_for_counts() {
        let thresholds = Thresholds::NEW;
        let asked_after = |waited_calls: u64, calls: u32| {
            (0..20).for_each(|_| thresholds.waited_for_handle(waited_calls * u64::from(CALL_NS)));
            (0..5000).for_each(|_| _ = thresholds.ended(writes(calls, CALL_NS)));
            thresholds.asked().writes()
        };
        assert_eq!(asked_after(0, 250), 64);
        assert_eq!(asked_after(200, 250), 256);
        assert_eq!(asked_after(u64::MAX / u64::from(CALL_NS), 3000), 4096);
        assert_eq!(asked_after(0, 250), 64);
    }

    #[test]
    fn a_call_is_never_free() {
        let thresholds = Thresholds::NEW;
        thresholds.waited_for_handle(200 * u64::from(CALL_NS));
        (0..20).for_each(|_| _ = thresholds.ended(writes(1500, 1)));
        assert_eq!(thresholds.asked().writes(), WRITES_TO_EARN, "waits are not millions of calls");
    }

    #[test]
    fn where_calls_are_dear_few_are_asked_for() {
        let thresholds = Thresholds::NEW;
        assert!(thresholds.ended(writes(1000, 1_000_000)));
        assert_eq!(thresholds.asked().writes(), WRITES_TO_EARN >> HALVED);
        assert_eq!(thresholds.asked().reads(), READS_TO_EARN, "nothing is known of them");
        assert!(!thresholds.ended(writes(10, 0)), "they are still as they were last seen");
        assert_eq!(thresholds.asked().writes(), WRITES_TO_EARN >> HALVED);
        // Also by a file that had a buffer after so few, and ended soon.
        assert!(thresholds.ended(writes(10, CALL_NS)));
        assert_eq!(thresholds.asked().writes(), WRITES_TO_EARN);
        (0..200).for_each(|_| _ = thresholds.ended(writes(WRITES_TO_EARN + 2, CALL_NS)));
        assert_eq!(thresholds.asked().writes(), 2 * WRITES_TO_EARN);
    }
}

//! What is remembered of a descriptor that has no window yet, in one word.
//!
//! A file earns its window: small reads that follow one another add to a score, a jump takes from
//! it. The word also counts the calls in flight. A window must not open while there is one: the call
//! would move the kernel's offset behind the window's back.
//!
//! ```text
//! bit  0..3   owned by the descriptor table (what kind of word this is)
//!      3      close-on-exec      4  used through stdio      5  a transition is in progress
//!      6      the offset jumped since the last read
//!      8..16  calls in flight
//!     16..32  score of reads    32..48  small writes    48..52  backoff
//! ```

use crate::append::{is_small, writes_between_tries};
use crate::policy::{
    ALONE_BYTES_MIN, BACKOFF_MAX, JUMP_PENALTY, NEAR_BYTES, READS_TO_EARN, WRITES_TO_EARN,
};

/// The word. Cheap to copy; changed by compare-and-swap where it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learning(pub u64);

/// In place of the bytes that a read or a write asks for: those of a vector, which nobody but the kernel reads while
/// the file has no buffer. It is learned from what it was answered with.
pub const LEN_UNKNOWN: u64 = u64::MAX;

const IN_FLIGHT: u64 = 1 << 8;
/// Set from 128 calls in flight on: then there is no short way.
const MANY_IN_FLIGHT: u64 = 1 << 15;
const READS_AT: u32 = 16;
const SCORE: u64 = 0xffff << READS_AT;
const WRITES_AT: u32 = 32;
const WRITES: u64 = 0xffff << WRITES_AT;
const BACKOFF_AT: u32 = 48;
const BACKOFF: u64 = 15 << BACKOFF_AT;

impl Learning {
    /// The descriptor is closed at exec.
    pub const CLOSE_ON_EXEC: u64 = 1 << 3;
    /// stdio made calls on it.
    pub const STDIO: u64 = 1 << 4;
    /// A transition owns the word.
    pub const LOCKED: u64 = 1 << 5;
    /// The offset jumped since the last read.
    pub const JUMPED: u64 = 1 << 6;

    /// Whether a flag is set.
    pub fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    /// With a flag set.
    pub fn with(self, flag: u64) -> Self {
        Learning(self.0 | flag)
    }

    /// With a flag cleared.
    pub fn without(self, flag: u64) -> Self {
        Learning(self.0 & !flag)
    }

    /// Calls in flight.
    pub fn in_flight(self) -> u64 {
        (self.0 >> 8) & 255
    }

    /// One more call in flight; `None` when no more can be counted.
    pub fn enter(self) -> Option<Self> {
        (self.in_flight() < 255).then_some(Learning(self.0 + IN_FLIGHT))
    }

    /// The bits that are clear where another call may begin the short way: nobody is changing the word,
    /// and one more call can be counted.
    pub const NOT_FREE: u64 = Self::LOCKED | MANY_IN_FLIGHT;

    /// One more call in flight; the caller knows that it can be counted.
    #[inline(always)]
    pub fn enter_free(self) -> Self {
        Learning(self.0 + IN_FLIGHT)
    }

    /// One call fewer in flight.
    pub fn leave(self) -> Self {
        Learning(self.0 - IN_FLIGHT)
    }

    fn field(self, at: u32) -> u32 {
        (self.0 >> at) as u16 as u32
    }

    fn with_field(self, at: u32, value: u32) -> Self {
        Learning((self.0 & !(0xffff << at)) | (u64::from(value.min(0xffff)) << at))
    }

    /// A read of `len` bytes was answered with `done`.
    #[inline(always)]
    pub fn after_read(self, len: u64, done: u64) -> Self {
        if is_small(len) && done == len { self.small_read() } else { self.other_read(len, done) }
    }

    fn other_read(self, len: u64, done: u64) -> Self {
        let is_small = len == LEN_UNKNOWN && done > 0 && is_small(done);
        if is_small { self.small_read() } else { self.large_read() }
    }

    /// A write of `len` bytes was answered with `done`.
    #[inline(always)]
    pub fn after_write(self, len: u64, done: u64) -> Self {
        let len = if len == LEN_UNKNOWN { done } else { len };
        if is_small(len) && done > 0 { self.small_write() } else { self }
    }

    /// The position is set, or a read names one, after a transfer that ended about `last_end`.
    #[inline(always)]
    pub fn after_move(self, position: u64, last_end: Near) -> Self {
        if last_end.has(position) { self } else { self.with(Self::JUMPED) }
    }

    /// A small read was seen; `JUMPED` says whether it followed the one before. In the word as it is:
    /// every read pays for this that earns nothing.
    #[inline(always)]
    pub fn small_read(self) -> Self {
        const POINT: u64 = 1 << READS_AT;
        let score = self.0 & SCORE;
        match self.has(Self::JUMPED) {
            true => Learning(self.0 - score.min(JUMP_PENALTY as u64 * POINT) - Self::JUMPED),
            false => Learning(self.0 + (SCORE - score).min(POINT)),
        }
    }

    /// Bits of a word that are clear after a small read that earns nothing yet where so many are asked for (a power
    /// of two), so that nobody needs to look what became of it: those from which on a file may earn a window.
    pub const fn earns_nothing(asked: u32) -> u64 {
        Self::JUMPED | SCORE & !((asked as u64 - 1) << READS_AT)
    }

    /// Bits of a word that are clear before a jump that takes all the score there is.
    pub const JUMPS_TO_NOTHING: u64 = Self::JUMPED | SCORE & !((JUMP_PENALTY as u64) << READS_AT);

    /// After a small read that follows the one before, while the score is far from its end.
    #[inline(always)]
    pub fn small_read_in_order(self) -> Self {
        Learning(self.0 + (1 << READS_AT))
    }

    /// Without any score, after such a jump: as good as a jump that is remembered until the next read.
    #[inline(always)]
    pub fn jumped_to_nothing(self) -> Self {
        Learning(self.0 & !SCORE)
    }

    /// The bits that are clear where reads have earned nothing at all so far.
    pub const SCORE: u64 = SCORE;

    /// A read was seen that no window could serve.
    pub fn large_read(self) -> Self {
        self.with_field(READS_AT, 0).without(Self::JUMPED)
    }

    /// A small write was seen.
    pub fn small_write(self) -> Self {
        self.with_field(WRITES_AT, self.field(WRITES_AT) + 1)
    }

    /// After a small write, while there are few: see [`Learning::writes_between`].
    #[inline(always)]
    pub fn small_write_ahead(self) -> Self {
        Learning(self.0 + (1 << WRITES_AT))
    }

    /// The bits of which one is set after a small write that earns nothing where so many are asked for, so that
    /// nobody needs to look what became of it.
    pub const fn writes_between(asked: u32) -> u64 {
        (writes_between_tries(asked) as u64 - 1) << WRITES_AT
    }

    /// Small writes seen since the last try.
    pub fn small_writes(self) -> u32 {
        self.field(WRITES_AT)
    }

    /// Whether reads have earned nothing at all so far.
    pub fn has_no_score(self) -> bool {
        self.0 & SCORE == 0
    }

    /// What reads have earned.
    pub fn score(self) -> u32 {
        self.field(READS_AT)
    }

    /// As if reads had earned so much more.
    #[must_use]
    pub fn with_more_score(self, more: u32) -> Self {
        self.with_field(READS_AT, self.score().saturating_add(more))
    }

    /// Whether reads have earned a window, where so many are asked for ([`threshold`](crate::threshold)).
    pub fn earned(self, asked: u32) -> bool {
        let score = self.score();
        score >= asked && (!self.has_backed_off() || score >= READS_TO_EARN << self.backoff())
    }

    /// The reads in order that a file has made, and those for which a window was refused it.
    pub fn reads_in_order(self) -> u32 {
        let refused = if self.has_backed_off() { READS_TO_EARN << (self.backoff() - 1) } else { 0 };
        refused + self.score()
    }

    /// Whether this ended a row of reads that may have been worth a window: it is `next` now.
    pub fn ends_reads(self, next: Learning) -> bool {
        self.score() >= READS_TO_EARN && next.has_no_score()
    }

    /// The bits that are clear where a file has made so few small calls that it tells nothing of how many others
    /// will make.
    pub const MANY_CALLS: u64 = SCORE & !((READS_TO_EARN as u64 - 1) << READS_AT)
        | WRITES & !((WRITES_TO_EARN as u64 - 1) << WRITES_AT)
        | BACKOFF;

    fn backoff(self) -> u32 {
        ((self.0 & BACKOFF) >> BACKOFF_AT) as u32
    }

    /// Whether a window was earned before, and could not be had or did not pay.
    fn has_backed_off(self) -> bool {
        self.backoff() > 0
    }

    /// Whether the guard is asked if a file that was open before the program started is the process' alone: its
    /// reads have earned a window twice, and so many bytes are left.
    pub fn asks_whether_alone(self, left_bytes: u64) -> bool {
        self.has_backed_off() && left_bytes >= ALONE_BYTES_MIN
    }

    /// Asks for as much as at first.
    pub fn without_backoff(self) -> Self {
        Learning(self.0 & !BACKOFF)
    }

    /// A window did not pay, or could not be had: starts again and asks for twice as much.
    pub fn back_off(self) -> Self {
        let backoff = u64::from((self.backoff() + 1).min(BACKOFF_MAX));
        let cleared = self.with_field(READS_AT, 0).with_field(WRITES_AT, 0).0;
        Learning((cleared & !BACKOFF) | (backoff << BACKOFF_AT))
    }

    /// Starts again and asks for as much as before.
    pub fn start_again(self) -> Self {
        self.with_field(READS_AT, 0).with_field(WRITES_AT, 0)
    }
}

/// The positions about one, by the first of them: every read and seek that passes through pays for the
/// look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Near(pub u64);

impl Near {
    /// About `position`.
    #[inline(always)]
    pub const fn to(position: u64) -> Near {
        Near(position.wrapping_sub(NEAR_BYTES))
    }

    /// About the position that is so many bytes further on.
    #[inline(always)]
    pub fn moved(self, bytes: u64) -> Near {
        Near(self.0.wrapping_add(bytes))
    }

    /// Whether they are those about this very position.
    #[inline(always)]
    pub fn is(self, position: u64) -> bool {
        self == Near::to(position)
    }

    /// Whether a position is one of them.
    #[inline(always)]
    pub fn has(self, position: u64) -> bool {
        position.wrapping_sub(self.0) <= 2 * NEAR_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_reads_earn_and_jumps_do_not() {
        let run = |jump_every: usize, reads: usize| {
            let mut word = Learning(0);
            for read in 0..reads {
                if jump_every != 0 && read % jump_every == 0 {
                    word = word.with(Learning::JUMPED);
                }
                word = word.small_read();
            }
            word.earned(READS_TO_EARN)
        };
        assert!(!run(0, READS_TO_EARN as usize - 1));
        assert!(run(0, READS_TO_EARN as usize));
        assert!(!run(1, 10_000), "every read jumps");
        assert!(!run(3, 10_000), "runs of three");
        assert!(run(8, 10_000), "runs of eight");
    }

    #[test]
    fn what_is_near_lies_on_both_sides() {
        for at in [0, NEAR_BYTES, 1 << 40, u64::MAX] {
            let near = Near::to(at);
            for (position, expected) in [
                (at, true),
                (at.wrapping_add(NEAR_BYTES), true),
                (at.wrapping_sub(NEAR_BYTES), true),
                (at.wrapping_add(NEAR_BYTES + 1), false),
                (at.wrapping_sub(NEAR_BYTES + 1), false),
            ] {
                assert_eq!(near.has(position), expected, "{at} {position}");
            }
            assert_eq!(near.moved(7), Near::to(at.wrapping_add(7)));
        }
    }

    /// What a program of one thread does without a look back earns what it earns with one.
    #[test]
    fn calls_that_nobody_looks_at_earn_what_others_do() {
        const { assert!(READS_TO_EARN.is_power_of_two() && (JUMP_PENALTY + 1).is_power_of_two()) };
        for run in 1..20 {
            let (mut one, mut other) = (Learning(2), Learning(2));
            for read in 0..10_000 {
                if read % run == 0 {
                    one = one.with(Learning::JUMPED);
                    other = match other.0 & Learning::JUMPS_TO_NOTHING {
                        0 => other.jumped_to_nothing(),
                        _ => other.with(Learning::JUMPED),
                    };
                }
                one = one.small_read();
                let next = other.small_read_in_order();
                let is_free = other.0 & Learning::JUMPED == 0
                    && next.0 & Learning::earns_nothing(READS_TO_EARN) == 0;
                assert!(!is_free || !next.earned(READS_TO_EARN));
                other = if is_free { next } else { other.small_read() };
            }
            assert_eq!(one.earned(READS_TO_EARN), other.earned(READS_TO_EARN), "runs of {run}");
        }
    }

    /// Those that nobody looks at are counted as others are, and do not run into the next field.
    #[test]
    fn writes_that_nobody_looks_at_count() {
        const { assert!(WRITES_TO_EARN.is_power_of_two()) };
        for (asked, between) in [(8, 8), (WRITES_TO_EARN, 64), (4096, 64)] {
            let (mut one, mut other) = (Learning(2), Learning(2));
            for write in 1..200_000_u32 {
                one = one.small_write();
                let next = other.small_write_ahead();
                let is_between = next.0 & Learning::writes_between(asked) != 0;
                assert_eq!(is_between, write < 65_536 && !write.is_multiple_of(between));
                other = if is_between { next } else { other.small_write() };
                assert_eq!(one, other, "write {write}");
            }
        }
    }

    #[test]
    fn backing_off_doubles_the_reads_to_earn_up_to_its_limit() {
        let mut word = Learning(0);
        for step in 0..20 {
            let reads = READS_TO_EARN << step.min(BACKOFF_MAX);
            for read in 0..reads {
                assert!(!word.earned(READS_TO_EARN), "step {step} read {read}");
                word = word.small_read();
            }
            assert!(word.earned(READS_TO_EARN), "step {step}");
            word = word.back_off();
        }
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        let mut word = Learning(0b111).with(Learning::STDIO);
        for _ in 0..100_000 {
            word = word.small_read().small_write();
        }
        for _ in 0..255 {
            word = word.enter().unwrap();
        }
        assert_eq!(word.enter(), None);
        for _ in 0..255 {
            word = word.leave();
        }
        assert_eq!(word.in_flight(), 0);
        assert_eq!(word.small_writes(), 0xffff);
        assert_eq!(word.start_again().0, 0b111 | Learning::STDIO);
    }
}

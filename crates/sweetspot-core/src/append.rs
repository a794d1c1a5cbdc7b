//! The writes of one open file that wait: when they begin to, how much waits, and when that ends.
//!
//! The library asks this about what happens, `profile` and `tune --from` about what would have happened
//! (`crate::shadow`). Where in memory the bytes are, and who writes them, is `crate::pending`'s.

use crate::policy::{
    POOR_FLUSHES_MAX, SMALL_BYTES_MAX, WAIT_NS, WRITES_TO_EARN, WRITES_TO_EARN_AGAIN, WRITES_WORTH,
    WRITES_WORTH_EARLY,
};
use crate::why::Why;

/// How far a file has come with the guard, which must hold a handle on it before a write may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handle {
    /// Not asked for.
    #[default]
    None,
    /// Asked for.
    Asked {
        /// The guard has granted or refused it.
        is_answered: bool,
    },
    /// The guard holds it.
    Held,
    /// Not to be had, or not worth having: final.
    Never,
}

impl Handle {
    /// Whether so many small writes of a file that is learning have earned the next step: to ask for the
    /// handle, for which so many are asked, to look at the answer, to let writes wait again.
    pub fn is_earned(self, small_writes: u32, asked: impl FnOnce() -> u32) -> bool {
        match self {
            Handle::None => small_writes >= asked(),
            // Until there is an answer, it costs no system call to wait for it.
            Handle::Asked { is_answered } => is_answered,
            Handle::Held => small_writes >= WRITES_TO_EARN_AGAIN,
            Handle::Never => false,
        }
    }

    /// Whether the position of a file is ours to no purpose: no write will wait, and it has no
    /// window. As long as it is ours, each write costs two more system calls.
    pub fn gains_nothing(self, has_window: bool) -> bool {
        self == Handle::Never && !has_window
    }
}

/// Whether a handle is asked for (again) after so many writes of a file whose position is ours for its reads. They pass
/// through, and it has no handle.
pub fn is_asked_after(writes: u64, asked: u32) -> bool {
    // A power of two.
    (writes + 1) & u64::from(writes_between_tries(asked) - 1) == 0
}

/// Small writes between two questions for a handle, where nobody has answered yet and so many are asked for.
pub const fn writes_between_tries(asked: u32) -> u32 {
    if asked < WRITES_TO_EARN { asked } else { WRITES_TO_EARN }
}

/// Whether a write of so many bytes may wait in a buffer of that size. What does not is written after all
/// that waits.
#[inline(always)]
pub fn may_wait(len: u64, bytes_max: u64) -> bool {
    len != 0 && len < bytes_max
}

/// Whether a transfer of so many bytes earns a buffer.
#[inline(always)]
pub fn is_small(len: u64) -> bool {
    len < SMALL_BYTES_MAX
}

/// A flush that has been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// In bytes.
    pub len: u64,
    /// Writes that it carried.
    pub carried: u64,
    /// 0: not known.
    pub took_ns: u64,
}

/// What is remembered from flush to flush of one open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The most that waits now, in bytes.
    pub bytes_max: u64,
    /// Flushes in a row that carried too few writes.
    pub poor: u32,
}

impl Pattern {
    /// What follows from a flush, after which no more than `bytes_limit` may wait: more waits next time, or
    /// nothing any more, and why. A flush of nothing says nothing.
    pub fn flushed(&mut self, flush: Flush, bytes_limit: u64) -> Option<Why> {
        if flush.len == 0 {
            return None;
        }
        // Nearly: whole records seldom fill a buffer.
        let is_full = flush.len + flush.len / 8 >= self.bytes_max;
        let pays_early = is_full || flush.took_ns >= WAIT_NS;
        let worth = if pays_early { WRITES_WORTH } else { WRITES_WORTH_EARLY };
        self.poor = if flush.carried < worth { self.poor + 1 } else { 0 };
        if self.poor >= POOR_FLUSHES_MAX {
            return Some(Why::NotWorthIt);
        }
        if is_full {
            self.bytes_max = (self.bytes_max * 2).min(bytes_limit);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_earned_step_by_step() {
        let check = |handle: Handle, least: Option<u32>| {
            for writes in 0..=WRITES_TO_EARN + 1 {
                let expected = least.is_some_and(|least| writes >= least);
                assert_eq!(
                    handle.is_earned(writes, || WRITES_TO_EARN),
                    expected,
                    "{handle:?} {writes}"
                );
            }
        };
        check(Handle::None, Some(WRITES_TO_EARN));
        assert!(!Handle::None.is_earned(2 * WRITES_TO_EARN - 1, || 2 * WRITES_TO_EARN));
        assert!(Handle::None.is_earned(2 * WRITES_TO_EARN, || 2 * WRITES_TO_EARN));
        assert!(Handle::Held.is_earned(WRITES_TO_EARN_AGAIN, || 2 * WRITES_TO_EARN), "it has one");
        check(Handle::Asked { is_answered: false }, None);
        check(Handle::Asked { is_answered: true }, Some(0));
        check(Handle::Held, Some(WRITES_TO_EARN_AGAIN));
        check(Handle::Never, None);
        let tries = |asked: u32| -> u32 {
            (0..640).map(|writes| u32::from(is_asked_after(writes, asked))).sum()
        };
        assert_eq!((tries(WRITES_TO_EARN), tries(8)), (640 / WRITES_TO_EARN, 80));
        assert_eq!(
            tries(8 * WRITES_TO_EARN),
            640 / WRITES_TO_EARN,
            "the guard may still be starting"
        );
        assert!(Handle::Never.gains_nothing(false) && !Handle::Never.gains_nothing(true));
        assert!(!Handle::Held.gains_nothing(false));
    }

    #[test]
    fn what_is_empty_or_fills_a_buffer_by_itself_does_not_wait() {
        for bytes_max in [0, 1, 2, 4096] {
            for len in [0, 1, 2, 4095, 4096, u64::MAX] {
                assert_eq!(may_wait(len, bytes_max), (1..bytes_max).contains(&len));
            }
        }
    }

    #[test]
    fn full_flushes_let_more_wait_and_poor_ones_end_it() {
        let mut pattern = Pattern { bytes_max: 64 << 10, poor: 0 };
        let mut flush = |len: u64, carried, limit| {
            let why = pattern.flushed(Flush { len, carried, took_ns: 2_000 }, limit);
            (pattern.bytes_max >> 10, why)
        };
        assert_eq!(flush(10_000, 50, 256 << 10), (64, None), "not full");
        assert_eq!(flush(65_400, 327, 256 << 10), (128, None));
        assert_eq!(flush(131_000, 655, 200 << 10), (200, None), "no more than the limit");
        assert_eq!(flush(200 << 10, 700, 100 << 10), (100, None), "there is less room");
        for _ in 1..POOR_FLUSHES_MAX {
            assert_eq!(flush(10, WRITES_WORTH - 1, 1 << 20), (100, None));
        }
        assert_eq!(flush(0, 0, 1 << 20), (100, None), "nothing was flushed");
        assert_eq!(flush(10, 1, 1 << 20), (100, Some(Why::NotWorthIt)));
    }

    #[test]
    fn an_early_flush_must_carry_more_unless_writes_are_dear() {
        let goes_on = |len: u64, carried: u64, took_ns: u64| {
            let mut pattern = Pattern { bytes_max: 4096, poor: 0 };
            let flush = Flush { len, carried, took_ns };
            (0..POOR_FLUSHES_MAX).all(|_| pattern.flushed(flush, 4096).is_none())
        };
        assert!(goes_on(1000, WRITES_WORTH_EARLY, 2_000));
        assert!(!goes_on(1000, WRITES_WORTH_EARLY - 1, 2_000));
        assert!(!goes_on(1000, WRITES_WORTH_EARLY - 1, 0), "no clock");
        for (len, took_ns) in [(1000, WAIT_NS), (4000, 2_000)] {
            assert!(goes_on(len, WRITES_WORTH, took_ns));
            assert!(!goes_on(len, WRITES_WORTH - 1, took_ns));
        }
    }
}

//! How large the buffers of one file are: what was asked for, or with `auto` what pays, by what its
//! transfers have taken so far or others have told (`crate::cost`).
//!
//! One place for the library, which measures, and for `profile` and `tune --from`, which reckon
//! (`crate::shadow`).

use crate::cost::{Cost, Larger, Meter};
use crate::ledger::BUFFER_AUTO;
use crate::policy::{
    APPEND_BYTES_FIRST, AUTO_BYTES_USUAL, AUTO_DENSE_BYTES, AUTO_WINDOW_BYTES_LEAST, ENLARGING_NS,
    READ_AHEAD_BYTES, WINDOW_BYTES_MIN,
};

/// The size in force, or the most that `auto` takes where calls are not dear, in bytes.
pub fn usual_bytes(buffer: u32) -> u64 {
    if buffer == BUFFER_AUTO { AUTO_BYTES_USUAL } else { u64::from(buffer) }
}

/// How large windows of a file may be, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// At most.
    pub bytes_max: u64,
    /// They grow up to here.
    pub bytes_sweet: u64,
    /// The first one.
    pub bytes_first: u64,
    /// For so many bytes of one there must be calls that make it worth its filling.
    pub dense_bytes: u64,
}

impl Windows {
    /// How large they may be now.
    pub fn new(buffer: u32, meter: &Meter, told: Option<Cost>) -> Windows {
        let usual = usual_bytes(buffer);
        if buffer != BUFFER_AUTO {
            return Windows {
                bytes_max: usual,
                bytes_sweet: usual,
                bytes_first: WINDOW_BYTES_MIN,
                dense_bytes: u64::MAX,
            };
        }
        let wanted = meter.auto_bytes(told, AUTO_WINDOW_BYTES_LEAST);
        let (bytes_sweet, usual) = match meter.larger_windows() {
            Larger::MayPay => (wanted, usual),
            Larger::Unknown | Larger::NoGain => (wanted.min(READ_AHEAD_BYTES), usual),
            // Those that were larger are given up.
            Larger::Slower => (wanted.min(READ_AHEAD_BYTES), READ_AHEAD_BYTES),
        };
        // Of the first window it is not known whether it will be used up.
        let bytes_first = told.map_or(WINDOW_BYTES_MIN, Cost::even_bytes);
        Windows {
            bytes_max: usual.max(bytes_sweet),
            bytes_sweet,
            bytes_first: bytes_first.min(bytes_sweet).max(WINDOW_BYTES_MIN),
            dense_bytes: AUTO_DENSE_BYTES,
        }
    }
}

/// The most that should wait for a file, in bytes, where `append_bytes` do already: what has paid once
/// pays.
pub fn append_bytes_wanted(
    buffer: u32,
    meter: &Meter,
    told: Option<Cost>,
    append_bytes: u64,
) -> u64 {
    match buffer {
        BUFFER_AUTO => meter.auto_bytes(told, APPEND_BYTES_FIRST).max(append_bytes),
        buffer => usual_bytes(buffer),
    }
}

/// As much of it as waits before the first flush: of a call that is known to be dear, no less than costs
/// as much as the call; and as much as did before, where the waiting was interrupted.
pub fn append_bytes_first(buffer: u32, told: Option<Cost>, append_bytes: u64) -> u64 {
    match buffer {
        BUFFER_AUTO => told.map_or(0, Cost::even_bytes).max(APPEND_BYTES_FIRST).max(append_bytes),
        buffer => usual_bytes(buffer),
    }
}

/// Whether a write buffer of `had_bytes` is to be given back for one of `wanted_bytes`: it has carried
/// `carried_bytes` by calls of that cost, as many may come, and fewer calls for them save more than it
/// takes to get the larger one.
pub fn is_worth_enlarging(
    cost: Cost,
    carried_bytes: u64,
    had_bytes: u64,
    wanted_bytes: u64,
) -> bool {
    let calls = |buffer_bytes: u64| carried_bytes / buffer_bytes.max(1);
    let saved_calls = calls(had_bytes).saturating_sub(calls(wanted_bytes));
    saved_calls.saturating_mul(u64::from(cost.call_ns)) >= ENLARGING_NS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::AUTO_BYTES_MAX;

    #[test]
    fn a_larger_buffer_is_asked_for_where_it_pays() {
        let after = |call_ns: u32| {
            let cost = Cost { call_ns, unit_ns: 0 };
            (1..).find(|n| is_worth_enlarging(cost, n << 18, 1 << 18, 1 << 21)).unwrap()
        };
        assert_eq!((after(2_000_000), after(250_000)), (1, 4));
        assert!((70..120).contains(&after(14_000)), "{}", after(14_000));
        let free = Cost { call_ns: 0, unit_ns: 0 };
        assert!(!is_worth_enlarging(free, u64::MAX, 1 << 18, 1 << 21));
        assert!(!is_worth_enlarging(Cost { call_ns: 1, unit_ns: 0 }, 0, 0, 0));
    }

    #[test]
    fn what_was_asked_for_is_taken_whatever_calls_cost() {
        let dear = Some(Cost { call_ns: 1_000_000, unit_ns: 100 });
        for buffer in [1, 512, 1 << 20] {
            let windows = Windows::new(buffer, &Meter::NEW, dear);
            let bytes = u64::from(buffer);
            assert_eq!((windows.bytes_max, windows.bytes_sweet), (bytes, bytes));
            assert_eq!(append_bytes_wanted(buffer, &Meter::NEW, dear, 7), bytes);
            assert_eq!(append_bytes_first(buffer, dear, 7), bytes);
        }
    }

    #[test]
    fn auto_takes_what_pays_and_nothing_unknown_is_more_than_usual() {
        let unknown = Windows::new(BUFFER_AUTO, &Meter::NEW, None);
        assert_eq!((unknown.bytes_max, unknown.bytes_first), (AUTO_BYTES_USUAL, WINDOW_BYTES_MIN));
        let dear = Some(Cost { call_ns: 1_000_000, unit_ns: 100 });
        let windows = Windows::new(BUFFER_AUTO, &Meter::NEW, dear);
        assert_eq!(
            (windows.bytes_sweet, windows.bytes_first),
            (READ_AHEAD_BYTES, READ_AHEAD_BYTES)
        );
        let mut waits = Meter::NEW;
        (0..2).for_each(|_| waits.end(1, 1_000_001, READ_AHEAD_BYTES));
        assert_eq!(Windows::new(BUFFER_AUTO, &waits, dear).bytes_max, AUTO_BYTES_MAX);
        // Where those have proved slower, there are no more of them.
        (0..3).for_each(|_| waits.end(1, 20_000_001, 2 * READ_AHEAD_BYTES));
        let windows = Windows::new(BUFFER_AUTO, &waits, dear);
        assert_eq!((windows.bytes_max, windows.bytes_sweet), (READ_AHEAD_BYTES, READ_AHEAD_BYTES));
        assert_eq!(append_bytes_first(BUFFER_AUTO, dear, 0), AUTO_BYTES_MAX);
        assert_eq!(append_bytes_first(BUFFER_AUTO, None, 0), APPEND_BYTES_FIRST);
        assert_eq!(append_bytes_first(BUFFER_AUTO, None, 1 << 20), 1 << 20);
        let cheap = Some(Cost { call_ns: 1, unit_ns: 1 << 20 });
        let windows = Windows::new(BUFFER_AUTO, &Meter::NEW, cheap);
        assert_eq!((windows.bytes_sweet, windows.bytes_max), (16 << 10, AUTO_BYTES_USUAL));
        let wanted = |had| append_bytes_wanted(BUFFER_AUTO, &Meter::NEW, cheap, had);
        assert_eq!((wanted(0), wanted(1 << 20)), (APPEND_BYTES_FIRST, 1 << 20));
    }
}

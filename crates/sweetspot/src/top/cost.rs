//! What a call costs here, and what a buffer would save. This is the seam for a better model: only
//! [`saving`] decides the order of the table.
//!
//! The cost of a call is that of a small read from the page cache. It is measured at the start in about a
//! millisecond. Writes, network file systems and FUSE cost more, so a saving is a lower bound.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::time::Instant;
use sweetspot_core::cost::{APPEND_PS, Cost, HIT_PS};
use sweetspot_core::policy::SMALL_BYTES_MAX;

/// The quickest of so many batches counts: the others were disturbed.
const BATCHES: u32 = 5;
const CALLS_IN_A_BATCH: u32 = 500;
/// What a call costs that a buffer answers, in seconds. Reads and writes are not told apart here.
const HIT_SECONDS: f64 = (HIT_PS + APPEND_PS) as f64 / 2.0 / 1e12;
/// The buffer that is reckoned with: what is as large earns none, and larger ones save little more.
const BUFFER_BYTES: f64 = SMALL_BYTES_MAX as f64;

/// What one system call costs, measured.
pub fn measure() -> Cost {
    let Ok(file) = File::open("/proc/self/exe") else { return Cost::USUAL };
    let batch = || {
        let mut byte = [0];
        let start = Instant::now();
        for _ in 0..CALLS_IN_A_BATCH {
            let _ = black_box(file.read_at(&mut byte, 0));
        }
        start.elapsed() / CALLS_IN_A_BATCH
    };
    let least = (0..BATCHES).map(|_| batch()).min().unwrap_or_default();
    Cost { call_ns: least.as_nanos() as u32, unit_ns: 0 }
}

/// Seconds of processor time that a buffer would save in each second, for so many calls and
/// bytes a second.
pub fn saving(cost: Cost, calls: f64, bytes: f64) -> f64 {
    // Calls as large as the buffer pass through.
    if calls <= 0.0 || bytes / calls >= BUFFER_BYTES {
        return 0.0;
    }
    let left = (bytes / BUFFER_BYTES).min(calls);
    let call_seconds = f64::from(cost.call_ns) / 1e9;
    ((calls - left) * call_seconds - calls * HIT_SECONDS).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn savings() {
        let cost = Cost { call_ns: 500, unit_ns: 0 };
        let check = |calls: f64, bytes: f64, expected: f64| {
            let found = saving(cost, calls, bytes);
            assert!((found - expected).abs() < 1e-6, "{calls} {bytes}: {found}");
        };
        check(0.0, 0.0, 0.0);
        check(100_000.0, 0.0, 0.048_935);
        check(100_000.0, 65_536_000.0, 0.048_435);
        check(1000.0, 65_536_000.0, 0.0);
        check(1000.0, 6_553_600_000.0, 0.0);
    }

    #[test]
    fn a_call_costs_something() {
        let cost = measure();
        assert!((10..1_000_000).contains(&cost.call_ns), "{cost:?}");
    }
}

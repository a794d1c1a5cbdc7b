//! The read window of one open file: when to fill it, how large, and when to give up.
//!
//! A hit is decided where it happens (position and length lie inside the window, nothing new was
//! learned since): that takes five instructions and lives with the window. Everything else comes
//! here as a [`Miss`], and one of three answers goes back.
//!
//! Nothing is read ahead of a window: fills that follow one another are a sequential reader to the
//! kernel, whose own read-ahead runs before them. Asking for more after each fill that waited
//! (`readahead` of as much again as was read in a row, up to 4 MiB) was tried: a cold file of 600 MB,
//! by 1,000 bytes, ran 0.99 times as fast with it (0.73 to 1.27, 16 pairs, kernel's read-ahead 128
//! KiB), 0.79 (0.48 to 1.16) with a read-ahead of 8 MiB, 0.94 (0.74 to 1.30) through bindfs.

use crate::cost::grown;
use crate::policy::{HITS_WORTH, NEAR_BYTES, POOR_WINDOWS_MAX, READS_HELD, WINDOW_BYTES_MIN};
use crate::why::Why;

/// What is remembered between the windows of one open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    /// Size of the last window asked for, in bytes; 0 before the first.
    asked_bytes: u64,
    /// Windows in a row that served too few calls.
    poor: u32,
    /// Reads in a row that were too large for a window.
    large: u32,
}

/// A read that the window cannot answer.
#[derive(Clone, Copy, Debug)]
pub struct Miss {
    /// Position in the file and length of the read, in bytes.
    pub at: u64,
    pub len: u64,
    /// The present window: where it begins and how many bytes it holds; length 0: none.
    pub window_at: u64,
    pub window_len: u64,
    /// Calls and bytes that it has served.
    pub served: u64,
    pub served_bytes: u64,
    /// The largest window allowed, in bytes.
    pub bytes_max: u64,
    /// The size up to which a window grows by being used up: a larger one would gain nothing.
    pub bytes_sweet: u64,
    /// The first window.
    pub bytes_first: u64,
    /// A window must have served [`HITS_WORTH`] calls for each so many bytes of it.
    pub dense_bytes: u64,
}

/// What to do about a [`Miss`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Read that many bytes from the position of the miss into a window, then answer from it.
    Fill(u64),
    /// Pass this read through; the window stays as it is.
    PassThrough,
    /// Buffering does not pay here: close the window.
    Close(Why),
}

impl Pattern {
    /// Nothing is known yet.
    pub const NEW: Pattern = Pattern { asked_bytes: 0, poor: 0, large: 0 };

    /// Decides about a read that the window cannot answer.
    pub fn miss(&mut self, miss: &Miss) -> Decision {
        if miss.len >= miss.bytes_max {
            self.large += 1;
            return if self.large >= POOR_WINDOWS_MAX {
                Decision::Close(Why::LargeTransfers)
            } else {
                Decision::PassThrough
            };
        }
        self.large = 0;
        let end = miss.window_at + miss.window_len;
        let follows = miss.window_len > 0
            && miss.at + miss.len > end
            && (miss.at >= miss.window_at && miss.at <= end + NEAR_BYTES);
        if self.asked_bytes > 0 {
            let worth = HITS_WORTH * (miss.window_len / miss.dense_bytes).max(1);
            self.poor = if miss.served < worth { self.poor + 1 } else { 0 };
            if self.poor >= POOR_WINDOWS_MAX {
                let why = if follows { Why::NotWorthIt } else { Why::RandomAccess };
                return Decision::Close(why);
            }
        }
        let bytes = if self.asked_bytes == 0 {
            miss.bytes_first
        } else if follows {
            let held = READS_HELD.saturating_mul(miss.len.next_power_of_two());
            grown(self.asked_bytes, miss.bytes_sweet.max(held))
        } else {
            // A jump, or news: as much as the last window was worth.
            miss.served_bytes.next_power_of_two().min(self.asked_bytes)
        };
        let bytes = bytes.max(WINDOW_BYTES_MIN).max(miss.len.next_multiple_of(WINDOW_BYTES_MIN));
        self.asked_bytes = bytes.min(miss.bytes_max);
        // Larger windows end on page boundaries, so that the next one begins on one.
        let past = match self.asked_bytes {
            0..=16383 => 0,
            bytes => (miss.at + bytes) % WINDOW_BYTES_MIN,
        };
        let aligned = self.asked_bytes.saturating_sub(past);
        Decision::Fill(if aligned > miss.len { aligned } else { self.asked_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replays reads; returns fills, hits and what closed it.
    fn replay(reads: impl Iterator<Item = (u64, u64)>, bytes_max: u64) -> (u64, u64, Option<Why>) {
        replay_dense(reads, bytes_max, u64::MAX)
    }

    fn replay_dense(
        reads: impl Iterator<Item = (u64, u64)>,
        bytes_max: u64,
        dense_bytes: u64,
    ) -> (u64, u64, Option<Why>) {
        let mut pattern = Pattern::default();
        let (mut window_at, mut window_len, mut served, mut served_bytes) = (0, 0, 0, 0);
        let (mut fills, mut hits) = (0, 0);
        for (at, len) in reads {
            if at < window_at || at + len > window_at + window_len {
                let miss = Miss {
                    at,
                    len,
                    window_at,
                    window_len,
                    served,
                    served_bytes,
                    bytes_max,
                    bytes_sweet: bytes_max,
                    bytes_first: WINDOW_BYTES_MIN,
                    dense_bytes,
                };
                match pattern.miss(&miss) {
                    Decision::Fill(bytes) => {
                        assert!(bytes >= len && bytes <= bytes_max, "{bytes} for {len}");
                        fills += 1;
                        (window_at, window_len, served, served_bytes) = (at, bytes, 0, 0);
                    }
                    Decision::PassThrough => continue,
                    Decision::Close(why) => return (fills, hits, Some(why)),
                }
            }
            hits += 1;
            served += 1;
            served_bytes += len;
        }
        (fills, hits, None)
    }

    #[test]
    fn sequential_reads_grow_the_window() {
        for len in [1, 7, 8, 200, 1000, 4096, 5000, 16384] {
            let (fills, hits, closed) = replay((0..20_000).map(|i| (i * len, len)), 65536);
            assert_eq!((hits, closed), (20_000, None), "{len}");
            let least = 20_000 * len / 65536;
            assert!(fills <= least * 4 / 3 + 8, "{len}: {fills} fills, {least} at least");
        }
    }

    #[test]
    fn random_reads_close_it() {
        let mut at = 1u64;
        let random = core::iter::repeat_with(move || {
            at = at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (at >> 34, 200)
        });
        let (fills, _, closed) = replay(random.take(1000), 65536);
        assert_eq!((fills, closed), (u64::from(POOR_WINDOWS_MAX), Some(Why::RandomAccess)));
    }

    #[test]
    fn short_runs_after_jumps_keep_small_windows() {
        let runs =
            (0..1000u64).flat_map(|run| (0..10).map(move |i| (run * 1_000_003 + i * 100, 100)));
        let (fills, hits, closed) = replay(runs, 65536);
        assert_eq!((hits, closed), (10_000, None));
        assert!(fills <= 1010, "{fills}");
    }

    #[test]
    fn large_reads_go_past_it_and_end_it() {
        let (fills, hits, closed) = replay((0..100).map(|i| (i * 65536, 65536)), 65536);
        assert_eq!((fills, hits, closed), (0, 0, Some(Why::LargeTransfers)));
        let (_, hits, closed) = replay((0..100).map(|i| (i * 40000, 40000)), 65536);
        assert!(hits < 20 && closed == Some(Why::NotWorthIt), "{hits} {closed:?}");
    }

    #[test]
    fn reads_that_cost_less_without_a_window_end_a_large_one_unless_it_was_asked_for() {
        let reads = |len: u64| (0..1000).map(move |i| (i * len, len));
        for len in [200, 4096, 16384, 21000] {
            let (_, hits, closed) = replay_dense(reads(len), 256 << 10, 64 << 10);
            assert_eq!((hits, closed), (1000, None), "{len}");
        }
        let (_, hits, closed) = replay_dense(reads(32768), 256 << 10, 64 << 10);
        assert!(hits < 70 && closed == Some(Why::NotWorthIt), "{hits} {closed:?}");
        let (_, hits, closed) = replay(reads(32768), 256 << 10);
        assert_eq!((hits, closed), (1000, None));
    }

    #[test]
    fn a_window_grows_as_far_as_it_pays_and_is_never_made_smaller_for_that() {
        let mut pattern = Pattern::default();
        let mut next = |at, len, window_len, bytes_sweet| {
            let miss = Miss {
                at,
                len,
                window_at: at - window_len,
                window_len,
                served: 100,
                served_bytes: window_len,
                bytes_max: 4 << 20,
                bytes_sweet,
                bytes_first: 8192,
                dense_bytes: u64::MAX,
            };
            match pattern.miss(&miss) {
                Decision::Fill(bytes) => bytes,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(next(0, 8, 0, 1 << 20), 8192, "the first one");
        assert_eq!(next(8192, 8, 8192, 32768), 16384);
        assert_eq!(next(24576, 8, 16384, 32768), 32768);
        assert_eq!(next(57344, 8, 32768, 32768), 32768, "far enough");
        assert_eq!(next(90112, 8, 32768, 16384), 32768, "what paid once pays");
        assert_eq!(next(122880, 8, 32768, 65536), 65536);
        assert_eq!(next(188416, 20_000, 65536, 16384), 131072, "four reads of 20,000");
    }

    #[test]
    fn tiny_limits_are_kept() {
        for bytes_max in [1, 2, 7, 512] {
            replay((0..1000).map(|i| (i, 1)), bytes_max);
            replay((0..1000).map(|i| (i * 3, 3)), bytes_max);
        }
    }
}

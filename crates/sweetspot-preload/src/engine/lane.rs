//! The lane: the file to which the next write may follow the last one with the fewest questions.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::concerns;

/// The word of the file to which the last write was appended, for as long as the next one may follow it
/// without a question but those for the time and for room: nobody comes in between, its bytes wait at its
/// position, no window is to show them, and no other file was written to since. Anyone who takes the lock of
/// any file may be about to change that, and closes it.
#[unsafe(link_section = ".data")]
static LANE: AtomicU64 = AtomicU64::new(NO_FILE);
/// No word of a file.
const NO_FILE: u64 = u64::MAX;

/// See `LANE`.
#[inline(always)]
pub fn word() -> u64 {
    LANE.load(Relaxed)
}

/// An append to the file of this word, which has no window, was just committed.
#[inline(always)]
pub fn open(word: u64) {
    if !concerns::is_concurrent() {
        LANE.store(word, Relaxed);
    }
}

/// From now on appends must ask.
pub fn close() {
    LANE.store(NO_FILE, Relaxed);
}

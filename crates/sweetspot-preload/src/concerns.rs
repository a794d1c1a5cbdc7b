//! One word that says whether anything in this process can concern a call that passes through: a call on
//! a file of which nothing is kept, or on none. While it is zero, such a call has nothing to ask.
//!
//! | bits | |
//! |---|---|
//! | `PENDING` | how many files have pending bytes |
//! | `PASSIVE_*` | why no hook does anything but pass on |
//! | `SUMMARY` | each call is counted for a summary |
//!
//! Invariant: each part is changed by an addition of its own, so that none loses another's change.

use core::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

/// Files with pending bytes: a count, of which there are fewer than open files.
const PENDING: u32 = 0xffff;
/// The constructor has not run yet.
pub const PASSIVE_BEFORE_START: u32 = 1 << 16;
/// Switched off by the environment.
pub const PASSIVE_OFF: u32 = 1 << 17;
/// The process ends, or gave up rights, or does what cannot be followed: straight on for good.
pub const PASSIVE_FOR_GOOD: u32 = 1 << 18;
/// A vfork or spawn is under way; see `ops::process`.
pub const PASSIVE_SPAWN: u32 = 1 << 19;
/// All of them.
pub const PASSIVE: u32 = PASSIVE_BEFORE_START | PASSIVE_OFF | PASSIVE_FOR_GOOD | PASSIVE_SPAWN;
/// A summary is wanted, and its ledger is mapped.
pub const SUMMARY: u32 = 1 << 20;

const _: () = assert!(crate::file::OPEN_FILES_MAX < PENDING as usize);

#[unsafe(link_section = ".data")]
static CONCERNS: AtomicU32 = AtomicU32::new(PASSIVE_BEFORE_START);

/// Whether there is anything at all.
#[inline(always)]
pub fn any() -> bool {
    CONCERNS.load(Relaxed) != 0
}

/// Those of these bits that are set.
#[inline(always)]
pub fn of(bits: u32) -> u32 {
    CONCERNS.load(Relaxed) & bits
}

/// Sets bits.
pub fn set(bits: u32) {
    CONCERNS.fetch_or(bits, SeqCst);
}

/// Clears bits.
pub fn clear(bits: u32) {
    CONCERNS.fetch_and(!bits, SeqCst);
}

/// Whether any file has pending bytes.
#[inline(always)]
pub fn is_pending() -> bool {
    of(PENDING) != 0
}

/// One more file has pending bytes.
pub fn pending_began() {
    CONCERNS.fetch_add(1, SeqCst);
}

/// One less.
pub fn pending_ended() {
    CONCERNS.fetch_sub(1, SeqCst);
}

/// None has: in the child of a fork.
pub fn forget_pending() {
    clear(PENDING);
}

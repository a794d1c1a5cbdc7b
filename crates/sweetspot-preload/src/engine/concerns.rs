//! One word that says whether anything in this process can concern a call that passes through: a call on
//! a file of which nothing is kept, or on none. While it is zero, such a call has nothing to ask.
//!
//! | bits | |
//! |---|---|
//! | `CONCURRENT` | a handler or another thread may come in between two instructions of a hook |
//! | `PASSIVE_*` | why every hook passes its call through |
//! | `FAILED` | bytes could not be written |
//! | `SUMMARY` | each call is counted for a summary |
//! | `PASSED_THROUGH` | the engine takes no part, and no answer has to be looked at; what stands behind a hook may take part |
//! | `COMPANY` | the end of another process may be noticed |
//! | `LETS_GO` | the guard may still hold a file that was closed, which others can notice |
//! | `PASSIVE_SPAWN` | of those reasons, how many vforks and spawns are in progress |
//! | `PENDING` | how many files have pending bytes |
//!
//! Invariants: each part is changed by an addition of its own, so that none loses another's change;
//! none has a bit in common with the tags of `table`, so that one comparison asks for both.

use core::sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

use crate::arch;

/// A signal handler was asked for, or a thread, or there always may be one: never cleared. Without it
/// nobody comes in between what a hook asks and what it does: it need not say what it is about to do, nor
/// look again whether that still holds.
pub const CONCURRENT: u32 = 1 << 3;
/// The constructor has not run yet.
pub const PASSIVE_BEFORE_START: u32 = 1 << 4;
/// Switched off by the environment.
pub const PASSIVE_OFF: u32 = 1 << 5;
/// The process ends, gave up rights, or does what cannot be followed: its calls pass through for good.
pub const PASSIVE_FOR_GOOD: u32 = 1 << 6;
/// Vforks and spawns in progress: a count, of which there are no more than `engine::spawns` knows. One word with the rest,
/// so that the end of one takes nothing away from another that begins.
pub const PASSIVE_SPAWN: u32 = 0x7f << 12;
const ONE_SPAWN: u32 = 1 << 12;
/// So many it can count.
pub const SPAWNS_MAX: usize = (PASSIVE_SPAWN / ONE_SPAWN) as usize;
/// All of them.
pub const PASSIVE: u32 = PASSIVE_BEFORE_START | PASSIVE_OFF | PASSIVE_FOR_GOOD | PASSIVE_SPAWN;
/// A flush has failed: calls are asked whether they follow from it. Never cleared.
pub const FAILED: u32 = 1 << 7;
/// A summary is wanted, and its ledger is mapped.
pub const SUMMARY: u32 = 1 << 8;
/// Hooks of calls that come by the million jump to what stands behind them, which asks by itself whether it is to do
/// anything: in a process that is passive for good, unless it is in company or bytes could not be written, and in one that is
/// observed.
pub const PASSED_THROUGH: u32 = 1 << 9;
/// The guard may still hold files that were closed here, on mounts that others may be waiting to unmount.
pub const LETS_GO: u32 = 1 << 10;
/// This process, or the one that forked it, has had a child: what tells of an end may tell of a death, so the answer of
/// each transfer is looked at. It concerns nothing before a call.
pub const COMPANY: u32 = 1 << 11;
/// Files with pending bytes: a count, of which there are fewer than open files.
const PENDING: u32 = 0x1fff << 19;
const ONE_PENDING: u32 = 1 << 19;
/// So many files it can count.
pub const PENDING_MAX: usize = (PENDING / ONE_PENDING) as usize;

#[unsafe(link_section = ".data")]
static CONCERNS: AtomicU32 = AtomicU32::new(PASSIVE_BEFORE_START);

/// Whether there is anything at all, but that somebody may come in between, or that there is somebody.
#[inline(always)]
pub fn any() -> bool {
    CONCERNS.load(Relaxed) & !(CONCURRENT | COMPANY) != 0
}

/// The low half of the word of a descriptor, and all that concerns its calls, for one comparison.
#[inline(always)]
pub fn with(word: u64) -> u64 {
    arch::join!(word, CONCERNS)
}

/// Whether a handler or another thread may come in between.
#[inline(always)]
pub fn is_concurrent() -> bool {
    arch::has!(CONCERNS, CONCURRENT)
}

/// Those of these bits that are set.
#[inline(always)]
pub fn of(bits: u32) -> u32 {
    CONCERNS.load(Relaxed) & bits
}

/// From now on every call passes through for good: at once, unless in company, or if it may have to fail.
pub fn passes_for_good() {
    set(PASSIVE_FOR_GOOD | PASSED_THROUGH);
    if of(COMPANY | FAILED) != 0 {
        clear(PASSED_THROUGH);
    }
}

/// From now on ends may be noticed. In this order: another thread may be at the same in [`passes_for_good`].
pub fn begin_company() {
    set(COMPANY);
    clear(PASSED_THROUGH);
}

/// From now on nothing is noticed in a process that is passive for good.
pub fn end_company() {
    clear(COMPANY);
    if of(FAILED) == 0 {
        set(PASSED_THROUGH);
    }
}

/// Sets bits.
pub fn set(bits: u32) {
    CONCERNS.fetch_or(bits, SeqCst);
}

/// Clears bits.
pub fn clear(bits: u32) {
    CONCERNS.fetch_and(!bits, SeqCst);
}

/// One more vfork or spawn is in progress.
pub fn spawn_began() {
    CONCERNS.fetch_add(ONE_SPAWN, SeqCst);
}

/// One less.
pub fn spawn_ended() {
    CONCERNS.fetch_sub(ONE_SPAWN, SeqCst);
}

/// Whether there is anything that must be done before others are told anything: pending bytes, or files that
/// are closed and not free.
#[inline(always)]
pub fn is_anything_due() -> bool {
    of(PENDING | LETS_GO) != 0
}

/// Whether any file has pending bytes.
#[inline(always)]
pub fn is_pending() -> bool {
    of(PENDING) != 0
}

/// One more file has pending bytes.
pub fn pending_began() {
    CONCERNS.fetch_add(ONE_PENDING, SeqCst);
}

/// One less.
pub fn pending_ended() {
    CONCERNS.fetch_sub(ONE_PENDING, SeqCst);
}

/// None has: in the child of a fork.
pub fn forget_pending() {
    clear(PENDING);
}

//! Releases that the guard has not been seen to answer: until it does, it holds files that the program
//! has closed.
#![allow(unsafe_code)]

use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

use sweetspot_core::ledger::Entry;

use super::{KEEPING, guarded};
use crate::floor::lock::hold;
use crate::floor::signals::SignalsBlocked;
use crate::floor::{clock, sys};

/// Releases that the guard has not been seen to answer: until then it holds the file, which keeps its
/// file system busy and its space taken. Waiting for the answer is left to the moment at which somebody
/// could notice ([`await_releases`]); who closes and works on pays nothing.
struct Unanswered {
    entry: AtomicPtr<Entry>,
    /// Its state word as it was left; the answer is another one.
    left: AtomicU64,
}

/// More than a guard that gets its turn ever has before it.
const RELEASES_MAX: usize = 32;

static RELEASES: [Unanswered; RELEASES_MAX] = [const {
    Unanswered { entry: AtomicPtr::new(core::ptr::null_mut()), left: AtomicU64::new(0) }
}; RELEASES_MAX];

/// Of them, those that are in use, from the first one on.
#[unsafe(link_section = ".data")]
static RELEASED: AtomicU32 = AtomicU32::new(0);

/// Keeps a release in mind. `KEEPING` is held.
pub(super) fn note_release(entry: &Entry, left: u64) {
    if RELEASED.load(Relaxed) as usize == RELEASES_MAX {
        await_all();
    }
    let count = RELEASED.load(Relaxed);
    let release = &RELEASES[count as usize % RELEASES_MAX];
    release.entry.store((&raw const *entry).cast_mut(), Relaxed);
    release.left.store(left, Relaxed);
    RELEASED.store(count + 1, Relaxed);
}

/// Waits until what was closed is free: before somebody unmounts its file system, asks for free space,
/// removes a name, or hears of it.
#[inline(always)]
pub fn await_releases() {
    if RELEASED.load(Relaxed) != 0 {
        await_held();
    }
}

#[cold]
fn await_held() {
    let _signals = SignalsBlocked::new();
    let _held = hold(&KEEPING);
    await_all();
}

/// `KEEPING` is held.
fn await_all() {
    let count = RELEASED.load(Relaxed) as usize;
    for release in &RELEASES[..count.min(RELEASES_MAX)] {
        // SAFETY: entries are in the ledger, which stays mapped.
        if let Some(entry) = unsafe { release.entry.load(Relaxed).as_ref() } {
            wait_given_back(entry, release.left.load(Relaxed));
        }
    }
    RELEASED.store(0, Relaxed);
}

/// How long the guard may take to give a copy back, in milliseconds.
const GIVE_BACK_MS_MAX: u64 = 1000;

/// Waits until the guard has closed its copy of a description: whoever closes it after us is the last
/// one, to locks, to watchers, and to whoever wants to run the file.
pub(super) fn wait_given_back(entry: &Entry, left: u64) {
    let begun_ms = clock::now_ms();
    while entry.state.load(Acquire) == left && guarded() {
        sys::give_way();
        if clock::now_ms().saturating_sub(begun_ms) > GIVE_BACK_MS_MAX {
            return;
        }
    }
}

/// In the child of a fork: nothing here was released by it.
pub(super) fn forget_releases() {
    RELEASED.store(0, Relaxed);
}

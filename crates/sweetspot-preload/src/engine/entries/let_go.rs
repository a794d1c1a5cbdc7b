//! Entries that this process has let go of, but the guard has not been seen to: until then it holds files
//! that the program has closed.
#![allow(unsafe_code)]

use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

use sweetspot_core::ledger::Entry;

use super::{KEEPING, guard_thread, guarded};
use crate::engine::concerns::{self, LETS_GO};
use crate::engine::ledger;
use crate::engine::patience::Patience;
use crate::engine::thresholds;
use crate::floor::backoff::Backoff;
use crate::floor::clock;
use crate::floor::lock::hold;
use crate::floor::presence::Presence;
use crate::floor::signals::SignalsBlocked;

/// An entry whose file the guard may still hold, which keeps the file system busy and the space taken.
/// The wait for its answer is left to the moment at which somebody could notice ([`await_let_go`]); a
/// program that closes and works on pays nothing.
struct Unanswered {
    entry: AtomicPtr<Entry>,
    /// Its state word as it was left; the answer is another one.
    left: AtomicU64,
}

/// More than a guard that gets its turn ever has before it.
const LET_GO_MAX: usize = 32;

static LET_GO: [Unanswered; LET_GO_MAX] = [const {
    Unanswered { entry: AtomicPtr::new(core::ptr::null_mut()), left: AtomicU64::new(0) }
}; LET_GO_MAX];

/// Of them, those that are in use, from the first one on.
#[unsafe(link_section = ".data")]
static LET_GO_COUNT: AtomicU32 = AtomicU32::new(0);

/// An entry was let go of, and is kept in mind; but a file that has no name any more is waited for: its space is
/// free when it is closed, and its number. `KEEPING` is held.
pub(super) fn note_let_go(entry: &Entry, left: u64) {
    let Some(file) = presence(entry).filter(|file| file.has_name) else {
        return wait_given_back(entry, left);
    };
    if LET_GO_COUNT.load(Relaxed) as usize == LET_GO_MAX {
        await_all();
    }
    let count = LET_GO_COUNT.load(Relaxed);
    let release = &LET_GO[count as usize % LET_GO_MAX];
    release.entry.store((&raw const *entry).cast_mut(), Relaxed);
    release.left.store(left, Relaxed);
    LET_GO_COUNT.store(count + 1, Relaxed);
    if !file.is_on_root() {
        concerns::set(LETS_GO);
    }
}

/// The file of an entry, if its descriptor still means it.
fn presence(entry: &Entry) -> Option<Presence> {
    let file = Presence::of(entry.fd.load(Relaxed))?;
    (file.inode == entry.inode.load(Relaxed)).then_some(file)
}

/// Waits until what was closed is free: before somebody unmounts its file system, asks for free space or
/// takes it, removes a name, or learns that it was closed.
#[inline(always)]
pub fn await_let_go() {
    if LET_GO_COUNT.load(Relaxed) != 0 {
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
    let count = LET_GO_COUNT.load(Relaxed) as usize;
    let header = ledger::ledger().map(|ledger| &ledger.header);
    // One for all: a guard that does nothing is not waited for so many times.
    let mut patience = header.map(|header| Patience::with_guard(header, GIVE_BACK_MS_MAX));
    for release in &LET_GO[..count.min(LET_GO_MAX)] {
        // SAFETY: entries are in the ledger, which stays mapped.
        let entry = unsafe { release.entry.load(Relaxed).as_ref() };
        if let (Some(entry), Some(patience)) = (entry, &mut patience) {
            wait_for_answer(entry, release.left.load(Relaxed), patience);
        }
    }
    forget_let_go();
}

/// How long a guard that does nothing may take to give a copy back, in milliseconds.
const GIVE_BACK_MS_MAX: u64 = 1000;

/// Waits until the guard has closed its copy of a description: anyone who closes it after us is the last
/// one, to locks, to watchers, and to anyone who wants to run the file.
pub(super) fn wait_given_back(entry: &Entry, left: u64) {
    let Some(ledger) = ledger::ledger() else { return };
    wait_for_answer(entry, left, &mut Patience::with_guard(&ledger.header, GIVE_BACK_MS_MAX));
}

fn wait_for_answer(entry: &Entry, left: u64, patience: &mut Patience<'_>) {
    let Some(ledger) = ledger::ledger() else { return };
    let mut backoff = Backoff::default();
    let began_ns = clock::now_ns();
    while entry.state.load(Acquire) == left && guarded() {
        backoff.wait();
        if !patience.lasts(guard_thread(ledger)) {
            break;
        }
    }
    thresholds::waited_for_handle(clock::now_ns().saturating_sub(began_ns));
}

/// All of them are answered; or this is the child of a fork, which has let go of nothing.
pub(super) fn forget_let_go() {
    LET_GO_COUNT.store(0, Relaxed);
    concerns::clear(LETS_GO);
}

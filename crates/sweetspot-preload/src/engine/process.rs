//! What the process knows as a whole: settings, the epoch of what it has learned, time, and whether
//! buffering is on at all.

use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use sweetspot_core::ledger::BUFFER_OFF;

use super::concerns::{self, CONCURRENT, PASSED_THROUGH, PASSIVE};
pub use super::concerns::{PASSIVE_BEFORE_START, PASSIVE_FOR_GOOD, PASSIVE_OFF, PASSIVE_SPAWN};
use super::lane;
use crate::floor::atomic::{single_threaded, swap};

/// Whether every call passes through for good, as buffering has ended: the short way for files that have
/// no buffer.
#[inline(always)]
pub fn passive_for_good() -> bool {
    concerns::of(PASSIVE_FOR_GOOD) != 0
}

/// The reasons in force.
pub fn passive_reasons() -> u32 {
    concerns::of(PASSIVE)
}

/// Adds a reason.
pub fn set_passive(reason: u32) {
    match reason {
        PASSIVE_FOR_GOOD => concerns::passes_for_good(),
        _ => concerns::set(reason),
    }
}

/// From now on hooks of calls that come by the million jump to what stands behind them.
pub fn pass_through_at_once() {
    concerns::set(PASSED_THROUGH);
}

/// Takes a reason away.
pub fn clear_passive(reason: u32) {
    concerns::clear(reason);
}

/// Whether a seccomp filter is in force that may kill for a call of ours.
#[unsafe(link_section = ".data")]
static UNDER_SECCOMP: AtomicBool = AtomicBool::new(false);

/// See `UNDER_SECCOMP`.
pub fn under_seccomp() -> bool {
    UNDER_SECCOMP.load(Relaxed)
}

/// From now on a seccomp filter is in force.
pub fn set_under_seccomp() {
    UNDER_SECCOMP.store(true, Relaxed);
}

/// Whether other processes share writable memory, in which a store releases and a load acquires,
/// unseen.
#[unsafe(link_section = ".data")]
static SHARES_MEMORY: AtomicBool = AtomicBool::new(false);

/// Whether only files that nobody else looks at are buffered.
pub fn shares_memory() -> bool {
    SHARES_MEMORY.load(SeqCst)
}

/// From now on they do; whether that is new.
pub fn begins_to_share() -> bool {
    !SHARES_MEMORY.swap(true, SeqCst)
}

/// Whether others may write to memory that this process only reads.
#[unsafe(link_section = ".data")]
static MAY_ACQUIRE: AtomicBool = AtomicBool::new(false);

/// Whether a load may be an acquire point: then only windows of files that nobody else looks at answer.
pub fn may_acquire() -> bool {
    MAY_ACQUIRE.load(SeqCst)
}

/// From now on it may; whether that is new.
pub fn begins_to_acquire() -> bool {
    !MAY_ACQUIRE.swap(true, SeqCst)
}

/// The epoch, which each acquire point advances. A window answers only in the epoch in which it was
/// filled or confirmed.
#[unsafe(link_section = ".data")]
pub static EPOCH: AtomicU64 = AtomicU64::new(1);

/// Whether anybody has ever asked for the epoch, or is about to: there has been an open file here.
#[unsafe(link_section = ".data")]
static EPOCH_MATTERS: AtomicBool = AtomicBool::new(false);

/// From now on the epoch is asked for. To be called before it is, in the order of a locked instruction: who does not
/// see this has learned its news before a window is filled.
pub fn epoch_matters() {
    if !EPOCH_MATTERS.load(Relaxed) {
        EPOCH_MATTERS.swap(true, SeqCst);
    }
}

/// An acquire point: something new may have been learned. With threads it is a locked add, so that two at the same time
/// advance the epoch twice; they would wait for each other for nothing where nobody asks for it.
#[inline(always)]
pub fn acquire_point() {
    match single_threaded() {
        true => EPOCH.store(EPOCH.load(Relaxed).wrapping_add(1), Relaxed),
        false if EPOCH_MATTERS.load(Relaxed) => {
            EPOCH.fetch_add(1, SeqCst);
        }
        false => {}
    }
}

/// The acquire point of a call, before it is made, where nobody else can come in between: no window is
/// filled or confirmed until the call has brought its news.
#[inline(always)]
pub fn acquire_point_ahead() {
    EPOCH.store(EPOCH.load(Relaxed).wrapping_add(1), Relaxed);
}

/// From now on a signal handler or another thread may come in between two instructions of a hook. To be
/// called before there is one, so that no call that relied on being alone is in flight.
pub fn begin_concurrency() {
    if !concerns::is_concurrent() {
        concerns::set(CONCURRENT);
        lane::close();
    }
}

/// An acquire point at which a window was filled or confirmed, in `window_epoch`. Gives the epoch in
/// which it may answer: an older one where something else was learned in between, which is not in the
/// window.
pub fn acquire_point_of_window(window_epoch: u64) -> u64 {
    // In one step, also where there is one thread: a handler in between may pass an acquire point,
    // too, and fill a window after it. If its epoch came again, that window would seem right.
    let epoch = loop {
        let epoch = EPOCH.load(Relaxed);
        if swap(&EPOCH, epoch, epoch.wrapping_add(1)) {
            break epoch;
        }
    };
    let knew_all = epoch == window_epoch;
    if knew_all { window_epoch.wrapping_add(1) } else { window_epoch }
}

/// Size in force, as `Header::buffer`.
#[unsafe(link_section = ".data")]
static BUFFER: AtomicU32 = AtomicU32::new(BUFFER_OFF);
/// The size in force where no rule says otherwise, as `Header::buffer`.
pub fn buffer() -> u32 {
    BUFFER.load(Relaxed)
}

/// Sets the size in force.
pub fn set_buffer(buffer: u32) {
    BUFFER.store(buffer, Relaxed);
}

/// Which calls of stdio's are buffered like any others.
#[unsafe(link_section = ".data")]
static STDIO: AtomicU32 = AtomicU32::new(STDIO_NONE);
/// None: they pass through.
pub const STDIO_NONE: u32 = 0;
/// Those on files whose rule says so.
pub const STDIO_BY_RULE: u32 = 1;
/// All.
pub const STDIO_ALL: u32 = 2;

/// One of `STDIO_*`.
pub fn stdio() -> u32 {
    STDIO.load(Relaxed)
}

/// Sets which calls of stdio's are buffered.
pub fn set_stdio(stdio: u32) {
    STDIO.store(stdio, Relaxed);
}

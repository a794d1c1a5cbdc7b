//! What the process knows as a whole: settings, the epoch of what it has learned, time, and whether
//! buffering is on at all.

use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, SeqCst},
};

use sweetspot_core::ledger::{BUFFER_AUTO, BUFFER_OFF, Ledger};
use sweetspot_core::policy;

use crate::atomic::single_threaded;
use crate::concerns::{self, PASSIVE};
pub use crate::concerns::{PASSIVE_BEFORE_START, PASSIVE_FOR_GOOD, PASSIVE_OFF, PASSIVE_SPAWN};
use crate::{arch, fault, sys};

/// Whether hooks must pass on without touching any state. The one test at the head of every slow
/// path.
#[inline(always)]
pub fn passive() -> bool {
    concerns::of(PASSIVE) != 0 && crate::ops::process::still_passive()
}

/// Whether every call goes straight on for good, and nobody observes it: the short way for files that
/// have no buffer.
#[inline(always)]
pub fn passive_for_good() -> bool {
    concerns::of(PASSIVE_FOR_GOOD) != 0
}

/// Whether the constructor is still running: nothing of the program does.
pub fn is_starting() -> bool {
    concerns::of(PASSIVE_BEFORE_START) != 0
}

/// The reasons in force.
pub fn passive_reasons() -> u32 {
    concerns::of(PASSIVE)
}

/// Adds a reason.
pub fn set_passive(reason: u32) {
    concerns::set(reason);
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

/// The epoch: advanced by whatever may have brought news. A window answers only in the epoch in
/// which it was filled or confirmed.
#[unsafe(link_section = ".data")]
pub static EPOCH: AtomicU64 = AtomicU64::new(1);

/// Something new may have been learned: from which epoch this one was reached. With threads a locked
/// add: two that listen at the same time advance it twice, and each knows what came before it.
#[inline(always)]
pub fn listen() -> u64 {
    if single_threaded() {
        let epoch = EPOCH.load(Relaxed);
        EPOCH.store(epoch.wrapping_add(1), Relaxed);
        return epoch;
    }
    EPOCH.fetch_add(1, SeqCst)
}

/// The same of a window that was as the file is in an epoch: the one in which it may answer. What was
/// learned by somebody else in between is not in it.
pub fn listen_with(window_epoch: u64) -> u64 {
    let knew_all = listen() == window_epoch;
    if knew_all { window_epoch.wrapping_add(1) } else { window_epoch }
}

/// Size in force, as `Header::buffer`.
#[unsafe(link_section = ".data")]
static BUFFER: AtomicU32 = AtomicU32::new(BUFFER_OFF);
#[unsafe(link_section = ".data")]
static MAX_AGE_MS: AtomicU32 = AtomicU32::new(policy::MAX_AGE_MS);

/// The size in force where no rule says otherwise, as `Header::buffer`.
pub fn buffer() -> u32 {
    BUFFER.load(Relaxed)
}

/// Sets the size in force.
pub fn set_buffer(buffer: u32) {
    BUFFER.store(buffer, Relaxed);
}

/// How long a byte may wait, in milliseconds.
pub fn max_age_ms() -> u64 {
    u64::from(MAX_AGE_MS.load(Relaxed))
}

/// Sets how long a byte may wait.
pub fn set_max_age_ms(max_age_ms: u32) {
    MAX_AGE_MS.store(max_age_ms, Relaxed);
}

/// The largest window for a size in force, and the most that may wait for one file, in bytes: with
/// `auto` what is usual.
pub fn buffer_bytes_max(buffer: u32) -> u64 {
    if buffer == BUFFER_AUTO { policy::AUTO_BYTES_USUAL } else { u64::from(buffer) }
}

/// For how many bytes of a window the calls must be that make it worth its filling.
pub fn dense_bytes(buffer: u32) -> u64 {
    if buffer == BUFFER_AUTO { policy::AUTO_DENSE_BYTES } else { u64::MAX }
}

/// Which calls of stdio's are buffered like any others.
#[unsafe(link_section = ".data")]
static STDIO: AtomicU32 = AtomicU32::new(STDIO_NONE);
/// None: they go straight on.
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

/// Hits left until the clock is read.
#[unsafe(link_section = ".data")]
static TICKS: AtomicI32 = AtomicI32::new(1);
/// Milliseconds on the coarse monotonic clock when it was last read.
#[unsafe(link_section = ".data")]
static NOW_MS: AtomicU64 = AtomicU64::new(0);
/// When the epoch was last advanced because time passed.
#[unsafe(link_section = ".data")]
static AGED_MS: AtomicU64 = AtomicU64::new(0);

/// The guard's clock in the ledger, or a zero of our own; and what it said when the time was last
/// looked at. It costs a load where asking for the time costs as much as a hit.
#[unsafe(link_section = ".data")]
static CLOCK: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NO_CLOCK).cast_mut());
#[unsafe(link_section = ".data")]
static NO_CLOCK: AtomicU32 = AtomicU32::new(0);
#[unsafe(link_section = ".data")]
static CLOCK_SEEN: AtomicU32 = AtomicU32::new(0);
/// The same for the words that others give without a call of this process: they advance the clock, too.
#[unsafe(link_section = ".data")]
static NEWS: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NO_CLOCK).cast_mut());
#[unsafe(link_section = ".data")]
static NEWS_SEEN: AtomicU32 = AtomicU32::new(0);

/// Uses the clock of this ledger; `None`: none.
pub fn watch_clock(ledger: Option<&'static Ledger>) {
    let clock = ledger.map_or(&raw const NO_CLOCK, |ledger| &raw const ledger.header.clock);
    let news = ledger.map_or(&raw const NO_CLOCK, |ledger| &raw const ledger.header.news);
    NEWS.store(news.cast_mut(), Relaxed);
    CLOCK.store(clock.cast_mut(), Relaxed);
}

/// What the guard's clock says.
#[inline(always)]
fn clock() -> u32 {
    // SAFETY: a static, or in the ledger, which stays mapped.
    unsafe { (*CLOCK.load(Relaxed)).load(Relaxed) }
}

/// Counts one hit; false when the time must be looked at, and then the hit must take the slow path:
/// the guard's clock has moved, or (where there is no guard) after some hits.
#[inline(always)]
pub fn tick() -> bool {
    arch::count_down(&TICKS) && clock() == CLOCK_SEEN.load(Relaxed)
}

/// From now on no hit and no append is done without a look at the time: the slow path is taken.
pub fn end_short_way() {
    TICKS.store(1, Relaxed);
    CLOCK_SEEN.store(!clock(), Relaxed);
}

/// Reads the clock, advances the epoch when enough time has passed, and says when it is due next.
#[cold]
pub fn tock() -> u64 {
    CLOCK_SEEN.store(clock(), Relaxed);
    crate::ledger::want_clock();
    // SAFETY: as in `clock`.
    let news = unsafe { (*NEWS.load(Relaxed)).load(Acquire) };
    if NEWS_SEEN.swap(news, Relaxed) != news {
        listen();
    }
    let now = now_ms();
    let last = NOW_MS.swap(now, Relaxed);
    let passed = now.saturating_sub(last);
    let max_age = max_age_ms();
    // Where hits are slow each one reads the clock, else one of many does: a reading costs as much as
    // some hits. A guard that moves its own clock may be stopped.
    let slow = passed.saturating_mul(16) >= max_age || crate::careful::is_needed();
    TICKS.store(if slow { 2 } else { policy::HITS_PER_CLOCK }, Relaxed);
    if now.saturating_sub(AGED_MS.load(Relaxed)).saturating_mul(4) >= max_age {
        AGED_MS.store(now, Relaxed);
        listen();
    }
    crate::ops::write::flush_old(now);
    now
}

/// Milliseconds on the coarse monotonic clock (the vDSO answers: some 5 ns).
pub fn now_ms() -> u64 {
    let time = crate::read_clock(libc::CLOCK_MONOTONIC_COARSE);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// While it lives, no handler runs in this thread: a transition is never interrupted half-way by one that
/// reads or writes. Others can see the mask, and it costs two system calls, so a program of one thread
/// has only those signals blocked that it ever had a handler for: any other ends it, and that may
/// happen between any two instructions.
pub struct SignalsBlocked(Option<u64>);

impl SignalsBlocked {
    /// Blocks the signals.
    pub fn new() -> Self {
        let signals = match single_threaded() {
            true => fault::asked_set(),
            // Another thread may just be setting a handler.
            false => u64::MAX,
        };
        let blocked = signals != 0;
        SignalsBlocked(blocked.then(|| sys::change_signal_mask(libc::SIG_BLOCK, signals)))
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            sys::set_signal_mask(before);
        }
    }
}

//! Clocks, and the short way past them: a hit or an append does not ask for the time, it only sees
//! whether it must be asked for.
//!
//! Where there is a guard, its clock in the ledger moves eight times a second while somebody wants it,
//! and costs a load; where there is none, the time is asked for every so many hits.
//!
//! Not here: what follows from the time that has passed (`engine::age`).
#![allow(unsafe_code)]

use core::sync::atomic::{
    AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, SeqCst},
};

use sweetspot_core::ledger::{CLOCK_STANDS, CLOCK_WANTED, Header};
use sweetspot_core::policy;

use crate::arch;
use crate::floor::{next, sys};

/// libc's clock_gettime, which asks the vDSO; 0 until it is needed; `NO_CLOCK_GETTIME` where another
/// library stands in front of it, which may tell a time that is not the one by which the kernel stamps
/// files.
#[unsafe(link_section = ".data")]
static CLOCK_GETTIME: AtomicUsize = AtomicUsize::new(0);
const NO_CLOCK_GETTIME: usize = 1;

#[cold]
#[inline(never)]
fn find_clock_gettime() -> usize {
    let name = c"clock_gettime";
    let found = if next::is_libcs(name) { next::lookup(name) } else { 0 };
    let address = if found == 0 { NO_CLOCK_GETTIME } else { found };
    CLOCK_GETTIME.store(address, Relaxed);
    address
}

/// The time on one of the kernel's clocks.
pub fn read(clock: i32) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let address = match CLOCK_GETTIME.load(Relaxed) {
        0 => find_clock_gettime(),
        address => address,
    };
    match address {
        NO_CLOCK_GETTIME => {
            // SAFETY: `time` is a timespec.
            unsafe { sys::syscall!(SYS_clock_gettime, clock, &raw mut time) };
        }
        address => {
            // SAFETY: the address is that of clock_gettime.
            let clock_gettime: unsafe extern "C" fn(i32, *mut libc::timespec) -> i32 =
                unsafe { core::mem::transmute(address) };
            // SAFETY: `time` is a timespec.
            unsafe { clock_gettime(clock, &raw mut time) };
        }
    }
    time
}

/// The same in nanoseconds.
fn read_ns(clock: i32) -> u64 {
    let time = read(clock);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The wall clock by which the kernel stamps files, in nanoseconds.
pub fn wall_ns() -> u64 {
    read_ns(libc::CLOCK_REALTIME_COARSE)
}

/// Milliseconds on the coarse monotonic clock (the vDSO answers: some 5 ns).
pub fn now_ms() -> u64 {
    let time = read(libc::CLOCK_MONOTONIC_COARSE);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Whether the fine clock may be read by an instruction, one of `FINE_*`.
#[unsafe(link_section = ".data")]
static FINE: AtomicU32 = AtomicU32::new(FINE_UNKNOWN);
const FINE_UNKNOWN: u32 = 0;
const FINE_READ: u32 = 1;
const FINE_FORBIDDEN: u32 = 2;

/// Nanoseconds on the monotonic clock; 0: it cannot be had. The vDSO answers in some 25 ns, by an
/// instruction that a process may forbid itself (`PR_SET_TSC`), and then it would be killed here.
pub fn now_ns() -> u64 {
    read_fine_ns(libc::CLOCK_MONOTONIC)
}

/// The same of the wall clock.
pub fn fine_wall_ns() -> u64 {
    read_fine_ns(libc::CLOCK_REALTIME)
}

fn read_fine_ns(clock: libc::clockid_t) -> u64 {
    if FINE.load(Relaxed) == FINE_UNKNOWN {
        FINE.store(if sys::may_read_time() { FINE_READ } else { FINE_FORBIDDEN }, Relaxed);
    }
    match FINE.load(Relaxed) {
        FINE_FORBIDDEN => 0,
        _ => read_ns(clock),
    }
}

/// The process may be about to forbid itself that instruction, or to allow it again.
pub fn fine_clock_may_change() {
    FINE.store(FINE_FORBIDDEN, Relaxed);
}

/// How long a byte may wait, and a window answer, in milliseconds.
#[unsafe(link_section = ".data")]
static MAX_AGE_MS: AtomicU32 = AtomicU32::new(policy::MAX_AGE_MS);

/// See `MAX_AGE_MS`.
pub fn max_age_ms() -> u64 {
    u64::from(MAX_AGE_MS.load(Relaxed))
}

/// Hits left until the clock is read.
#[unsafe(link_section = ".data")]
static TICKS: AtomicI32 = AtomicI32::new(1);
/// Milliseconds on the coarse monotonic clock when it was last read.
#[unsafe(link_section = ".data")]
static NOW_MS: AtomicU64 = AtomicU64::new(0);
/// When enough time had passed last.
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
/// The same for what others tell this process without a call of its own: they advance the clock, too.
#[unsafe(link_section = ".data")]
static NEWS: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NO_CLOCK).cast_mut());
#[unsafe(link_section = ".data")]
static NEWS_SEEN: AtomicU32 = AtomicU32::new(0);
/// The header of the ledger whose clock it is; null: there is none.
#[unsafe(link_section = ".data")]
static HEADER: AtomicPtr<Header> = AtomicPtr::new(core::ptr::null_mut());

/// Uses the clock of this ledger, and its maximum age; `None`: none.
pub fn watch(header: Option<&'static Header>) {
    let clock = header.map_or(&raw const NO_CLOCK, |header| &raw const header.clock);
    let news = header.map_or(&raw const NO_CLOCK, |header| &raw const header.news);
    if let Some(header) = header {
        MAX_AGE_MS.store(header.max_age_ms.load(Relaxed), Relaxed);
    }
    HEADER.store(header.map_or(core::ptr::null(), |header| &raw const *header).cast_mut(), Relaxed);
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
    arch::count_down!(TICKS) && clock() == CLOCK_SEEN.load(Relaxed)
}

/// The same where nobody comes in between.
///
/// # Safety
/// Neither a handler nor another thread may.
#[inline(always)]
pub unsafe fn tick_alone() -> bool {
    // SAFETY: nobody else writes what was seen, as the caller says.
    arch::count_down!(TICKS) && clock() == unsafe { *CLOCK_SEEN.as_ptr() }
}

/// From now on no hit and no append is done without a look at the time: the slow path is taken.
pub fn end_short_way() {
    TICKS.store(1, Relaxed);
    CLOCK_SEEN.store(!clock(), Relaxed);
}

/// Lets the guard's clock go on, where there is a guard: what is looked at now must be looked at
/// again.
pub fn want() {
    // SAFETY: in the ledger, which stays mapped.
    let Some(header) = (unsafe { HEADER.load(Relaxed).as_ref() }) else { return };
    let wanted = header.clock_wanted.load(Relaxed);
    if wanted == CLOCK_WANTED {
        return;
    }
    let was = header.clock_wanted.swap(CLOCK_WANTED, SeqCst);
    if was == CLOCK_STANDS && header.guard.load(Relaxed) != 0 {
        header.asks.fetch_add(1, SeqCst);
        if header.guard_naps.load(SeqCst) == 1 {
            sys::futex_wake(&header.asks);
        }
    }
}

/// What a look at the time has shown.
pub struct Look {
    pub now_ms: u64,
    /// Enough time has passed since it last had, or somebody has said that there is something new.
    pub is_news: bool,
}

/// Looks at the time, and says when that is due next.
#[cold]
pub fn look() -> Look {
    CLOCK_SEEN.store(clock(), Relaxed);
    want();
    // SAFETY: as in `clock`.
    let news = unsafe { (*NEWS.load(Relaxed)).load(Acquire) };
    let was_told = NEWS_SEEN.swap(news, Relaxed) != news;
    let now = now_ms();
    let last = NOW_MS.swap(now, Relaxed);
    let passed = now.saturating_sub(last);
    let max_age = max_age_ms();
    // Where hits are slow each one reads the clock, else one of many does: a reading costs as much as
    // some hits. A guard that moves its own clock may be stopped.
    let is_slow = passed.saturating_mul(16) >= max_age;
    TICKS.store(if is_slow { 2 } else { policy::HITS_PER_CLOCK }, Relaxed);
    let is_aged = now.saturating_sub(AGED_MS.load(Relaxed)).saturating_mul(4) >= max_age;
    if is_aged {
        AGED_MS.store(now, Relaxed);
    }
    Look { now_ms: now, is_news: was_told || is_aged }
}

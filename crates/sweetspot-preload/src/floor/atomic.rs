//! Compare-and-swap that a single-threaded program does not pay a bus lock for.
//!
//! One instruction cannot be interrupted half-way, so against signal handlers of the same thread a
//! compare-and-swap without the lock prefix is atomic. A `lock cmpxchg` costs some eighteen cycles
//! more than a plain one, as much as the whole rest of a buffered 8-byte read.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering};

use crate::arch;

/// glibc's `__libc_single_threaded`, or a zero of our own where there is none.
#[unsafe(link_section = ".data")]
static SINGLE_THREADED: AtomicPtr<AtomicU8> = AtomicPtr::new((&raw const NEVER).cast_mut());
#[unsafe(link_section = ".data")]
static NEVER: AtomicU8 = AtomicU8::new(0);

/// Takes the address of `__libc_single_threaded`. glibc clears it when the first thread is made and
/// never sets it again.
pub fn watch_threads(flag: *mut AtomicU8) {
    SINGLE_THREADED.store(flag, Ordering::Relaxed);
}

/// The program makes a thread of which the C library does not know.
pub fn expect_threads() {
    SINGLE_THREADED.store((&raw const NEVER).cast_mut(), Ordering::Relaxed);
}

/// Whether this process has never had a second thread.
#[inline(always)]
pub fn single_threaded() -> bool {
    // SAFETY: the pointer is to a static of ours or of libc, which is never unloaded.
    unsafe { (*SINGLE_THREADED.load(Ordering::Relaxed)).load(Ordering::Relaxed) != 0 }
}

/// See `has_threads`.
#[unsafe(link_section = ".data")]
static HAS_THREADS: AtomicBool = AtomicBool::new(false);

/// The program is about to make a thread, or a forked child is alone again.
pub fn set_has_threads(has: bool) {
    HAS_THREADS.store(has, Ordering::Relaxed);
}

/// Whether this process was seen to make a thread. Where [`single_threaded`] does not know, it says no.
#[inline(always)]
pub fn has_threads() -> bool {
    HAS_THREADS.load(Ordering::Relaxed)
}

/// The threads of this process, for callers that do several things at once. A handler that comes in between
/// may make a thread: so what is right for one alone is asked for anew where more than a count depends on it.
#[derive(Clone, Copy)]
pub enum Threads {
    One,
    Several,
}

impl Threads {
    /// As they are now.
    #[inline(always)]
    pub fn now() -> Threads {
        if single_threaded() { Threads::One } else { Threads::Several }
    }

    /// Replaces `expected` by `new`; false if the word holds something else.
    #[inline(always)]
    pub fn swap(self, word: &AtomicU64, expected: u64, new: u64) -> bool {
        match self {
            // SAFETY: there is no other thread.
            Threads::One => unsafe { arch::swap_alone(word, expected, new) },
            Threads::Several => {
                word.compare_exchange(expected, new, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            }
        }
    }

    /// Adds to a counter of the summary. With several threads a locked add, else a plain one.
    #[inline(always)]
    pub fn count(self, counter: &AtomicU64, amount: u64) {
        match self {
            Threads::One => {
                let counted = counter.load(Ordering::Relaxed);
                counter.store(counted.wrapping_add(amount), Ordering::Relaxed);
            }
            Threads::Several => {
                counter.fetch_add(amount, Ordering::Relaxed);
            }
        }
    }
}

/// Replaces `expected` by `new`; false if the word holds something else.
#[inline(always)]
pub fn swap(word: &AtomicU64, expected: u64, new: u64) -> bool {
    Threads::now().swap(word, expected, new)
}

/// Adds to a counter of the summary.
#[inline(always)]
pub fn count(counter: &AtomicU64, amount: u64) {
    Threads::now().count(counter, amount);
}

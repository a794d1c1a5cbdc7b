//! The one kind of lock: a word that holds its thread's pointer.
//!
//! It is held only with `signals::SignalsBlocked` (so no handler of the same thread can meet it), only
//! across system calls that are no cancellation points (so it is always given back), and only for
//! the time of a few system calls on a regular file.

use core::sync::atomic::{AtomicU64, Ordering, Ordering::Relaxed};

use crate::floor::atomic::swap;
use crate::floor::backoff::Backoff;
use crate::floor::sys;

/// A lock held; given back when dropped.
pub struct Held<'a>(&'a AtomicU64);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// Waits for a lock and takes it. Signals must be blocked.
pub fn hold(word: &AtomicU64) -> Held<'_> {
    let me = sys::thread_pointer();
    let mut backoff = Backoff::default();
    while !swap(word, 0, me) {
        if word.load(Relaxed) == me {
            // No handler meets it: the child of a vfork, which has this pointer, too, was killed in the middle.
            break;
        }
        if backoff.is_late() && is_holder_elsewhere() {
            word.store(me, Relaxed);
            break;
        }
        backoff.wait();
    }
    Held(word)
}

/// Forks that are in progress, above the number of the process whose they are.
#[unsafe(link_section = ".data")]
static FORKS: AtomicU64 = AtomicU64::new(0);

const ONE_FORK: u64 = 1 << 32;

/// A fork of this process begins.
pub fn fork_begins() {
    let process = sys::process_id() as u32;
    let begin = |forks: u64| Some((forks & !(ONE_FORK - 1)) + ONE_FORK + u64::from(process));
    let _ = FORKS.fetch_update(Relaxed, Relaxed, begin);
}

/// It is over, in the parent; with the last one all are. In the child none is in progress.
pub fn fork_ends(is_child: bool) {
    let end = |forks: u64| {
        let left = forks.saturating_sub(ONE_FORK);
        Some(if is_child || left < ONE_FORK { 0 } else { left })
    };
    let _ = FORKS.fetch_update(Relaxed, Relaxed, end);
}

/// How many are in progress.
#[cfg(test)]
pub fn forks() -> u64 {
    FORKS.load(Relaxed) / ONE_FORK
}

/// Whether this is the child of a fork that is not over: libc calls functions of the program's there before it goes on.
/// Locks are copied as they were, and who held them is a thread of the parent's.
pub fn is_holder_elsewhere() -> bool {
    let forks = FORKS.load(Relaxed);
    forks != 0 && forks as u32 != sys::process_id() as u32
}

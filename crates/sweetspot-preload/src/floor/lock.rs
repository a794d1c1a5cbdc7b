//! The one kind of lock: a word that holds its thread's pointer.
//!
//! It is held only with `signals::SignalsBlocked` (so no handler of the same thread can meet it), only
//! across system calls that are no cancellation points (so it is always given back), and only for
//! the time of a few system calls on a regular file.

use core::sync::atomic::{AtomicU64, Ordering};

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
        backoff.wait();
    }
    Held(word)
}

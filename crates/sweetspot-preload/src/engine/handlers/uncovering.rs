//! One thread at a time has the kernel show an action as the program set it.
//!
//! Other threads may run the program's handler meanwhile, and no acquire point comes before it. So no window answers
//! twice until ours is in front again: none counts as confirmed, and those that did are asked again afterwards.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use super::super::process::acquire_point;
use crate::floor::atomic::single_threaded;
use crate::floor::backoff::Backoff;
use crate::floor::sys;

/// 0, or the thread that has uncovered an action.
#[unsafe(link_section = ".data")]
static LOCK: AtomicU64 = AtomicU64::new(0);
/// Turns after which a lock is taken over whose thread must have been jumped out of: a tenth of a second at least.
const TURNS_MAX: u32 = 2_000;

pub(super) fn begin() {
    take();
    windows_ask_again();
}

fn take() {
    let me = sys::thread_pointer();
    let mut backoff = Backoff::default();
    for _ in 0..TURNS_MAX {
        match LOCK.compare_exchange(0, me, SeqCst, Relaxed) {
            Ok(_) => return,
            Err(holder) if holder == me => return,
            Err(_) => backoff.wait(),
        }
    }
    LOCK.store(me, SeqCst);
}

pub(super) fn end() {
    windows_ask_again();
    // Another thread may have taken it over.
    let _ = LOCK.compare_exchange(sys::thread_pointer(), 0, Release, Relaxed);
}

/// In the child of a fork, where the thread that held it is not.
pub(super) fn forget() {
    LOCK.store(0, Relaxed);
}

fn windows_ask_again() {
    if !single_threaded() {
        acquire_point();
    }
}

/// The epoch of a window that was filled or confirmed in this one: none where a handler may run unseen, so that it
/// answers no later call. To be asked after the look at the file.
#[inline(always)]
pub fn epoch_of_window(epoch: u64) -> u64 {
    if LOCK.load(Acquire) == 0 { epoch } else { 0 }
}

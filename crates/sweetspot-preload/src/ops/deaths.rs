//! Deaths of other processes of the tree: what one that was killed left pending is in its files before
//! this one can know of its end, whichever way it learns that.
//!
//! The guard writes it as soon as the kernel tells it of the death, so this process waits for the guard
//! wherever it may have been told, too: a wait, a handler, a signal that was waited for, a descriptor
//! that stands for a process.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::process::under_seccomp;
use crate::{ledger, pins, sys};

/// Whether there may be a descriptor that tells of deaths: of a process, or of signals.
#[unsafe(link_section = ".data")]
static DESCRIPTORS: AtomicBool = AtomicBool::new(false);

/// A descriptor was made that may tell of deaths.
pub fn descriptor_made() {
    DESCRIPTORS.store(true, Relaxed);
}

/// Whether what a descriptor tells may be a death.
#[inline(always)]
pub fn may_be_told() -> bool {
    DESCRIPTORS.load(Relaxed)
}

/// A descriptor told something.
pub fn told() {
    if may_be_told() {
        heard();
    }
}

fn can_wait() -> bool {
    ledger::is_given() && !under_seccomp() && !super::process::is_spawned_child()
}

/// A wait returned this child, or an error.
pub fn reaped(child: i32) {
    match child {
        1.. if can_wait() => pins::wait_finished(child as u32),
        // Who ignores SIGCHLD is told by an error that there is no child any more.
        ..0 => heard(),
        0.. => {}
    }
}

/// Somebody may have died, and this process been told.
#[cold]
pub fn heard() {
    if !can_wait() {
        return;
    }
    let Some(ledger) = ledger::ledger() else { return };
    let own = sys::process_id() as u32;
    for slot in &ledger.slots {
        let process = slot.pid.load(Relaxed);
        if process != 0 && process != own && sys::is_dead(process as i32) {
            pins::wait_finished(process);
        }
    }
}

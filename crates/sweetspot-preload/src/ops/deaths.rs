//! Deaths of other processes of the tree: what one that was killed left pending is in its files before
//! this one can know of its end, whichever way it learns that.
//!
//! The guard writes it as soon as the kernel tells it of the death, so this process waits for the guard
//! wherever it may have been told, too: a wait, a handler, a signal that was waited for, a descriptor
//! that stands for a process, a lock that became free.

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
    if !pins::others_wait(ledger) {
        return;
    }
    let own = sys::process_id() as u32;
    for slot in ledger.slots.iter().filter(|slot| slot.waiting.load(Relaxed) != 0) {
        let process = slot.pid.load(Relaxed);
        if process != 0 && process != own && is_ending(process as i32) {
            pins::wait_until_finished(ledger, process);
        }
    }
}

/// Whether a process is dead, or has begun to end: then its locks may be free already.
fn is_ending(process: i32) -> bool {
    sys::is_dead(process) || sys::has_no_memory(process) && is_exiting(process)
}

/// Whether the kernel says of a process that it ends. One whose first thread has ended before the others
/// has no memory there either, and lives.
fn is_exiting(process: i32) -> bool {
    const STATE: usize = 3;
    const FLAGS: usize = 9;
    const THREADS: usize = 20;
    const EXITING: u64 = 4;
    let mut buffer = [0; 1024];
    let Some(text) = pins::stat_of(process, &mut buffer) else {
        // Gone by now, or nobody can tell: who lives is not waited for.
        return sys::is_dead(process);
    };
    let number = |field| pins::stat_field(text, field).and_then(sys::decimal).unwrap_or(0);
    let is_zombie = pins::stat_field(text, STATE) == Some(b"Z");
    number(FLAGS) & EXITING != 0 && !(is_zombie && number(THREADS) > 1)
}

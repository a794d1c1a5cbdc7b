//! Processes that answer by themselves for the files they use: a call of theirs may wait for another thread of
//! theirs. A flush or a fill that waits so would keep the locks here, and that thread might need one: so nothing is
//! buffered in such a process.
//!
//! Not here: how they begin by a call that says it (`fanotify_mark`, `ioctl`, `userfaultfd`); see `front`.

use sweetspot_core::ledger::Ledger;
use sweetspot_core::why::Why;

use super::ending::end_because;
use super::others;
use super::spawns::passive;
use crate::floor::sys::{self, Status};

/// A descriptor was met that is no file: buffering ends if it is that of a file system in user space, which this
/// process serves from now on. No lock is held.
pub fn look_at(status: &Status) {
    if status.is_fuse_device {
        end_because(Why::AnswersItself);
    }
}

/// A file was opened for writing, or a descriptor was got by which one can be written.
#[unsafe(link_section = ".text.startup")]
pub fn opened(told: Option<&Ledger>, fd: i32, flags: i32) {
    if told.is_none() && passive() {
        return;
    }
    let Some(status) = sys::status(fd) else { return };
    match told.filter(|_| status.regular) {
        Some(ledger) => others::opened(ledger, &status, flags),
        None => look_at(&status),
    }
}

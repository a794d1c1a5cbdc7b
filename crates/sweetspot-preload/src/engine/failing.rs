//! What the program learns of bytes that cannot be written: each call on their file fails until they are. If somebody
//! has changed the file meanwhile, they never will be: then one more call fails, on the descriptor by which they were
//! written.

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::ledger::Entry;
use sweetspot_core::unwritten::FLUSH_FAILED;
use sweetspot_core::why::Why;

use super::dirty::{flush_all, is_failing};
use super::file::{self, OpenFile};
use super::quiesce::{Next, quiesce};
use super::{flush, inodes};
use crate::floor::sys;

/// Whether a flush of this file, or of another one of the same inode, has failed.
pub fn may_be_failing(file: &OpenFile) -> bool {
    flush::any_failed() && error_of(file) != 0
}

/// Whether what waits for a file cannot be written, tried again just now: then every read, write, sync
/// and close of it fails with that error, most as they would have failed natively, and nothing is
/// written that the waiting bytes could later overwrite; by whichever descriptor of this process.
pub fn failing(file: &OpenFile) -> Option<i32> {
    if !may_be_failing(file) {
        return None;
    }
    flush_all();
    set_aside(|other| other.is_same_inode(file));
    let errno = error_of(file);
    if errno != 0 && file.error.load(Relaxed) != 0 {
        file.close_error.store(0, Relaxed);
        if file.entry().is_none() {
            // Nothing waits that could be tried again: it was told.
            file.error.store(0, Relaxed);
        }
    }
    (errno != 0).then_some(errno)
}

/// The same by a descriptor of which nothing is kept.
pub fn failing_by(fd: i32) -> Option<i32> {
    let status = sys::status(fd)?;
    let is_its = |file: &OpenFile| flush::is_of(&status, file);
    let its = || file::used().find(|file| is_its(file) && is_failing(file));
    its()?;
    flush_all();
    set_aside(is_its);
    its().map(|file| file.error.load(Relaxed))
}

/// The error with which a flush of a file, or of another one of the same inode, has failed; 0: none has.
fn error_of(file: &OpenFile) -> i32 {
    match file.error.load(Relaxed) {
        0 => inodes::error_of_another(file),
        errno => errno,
    }
}

/// Has the guard keep what nobody will write any more until this process has ended. From then on the kernel answers
/// the calls on these files; the next one on the descriptor by which it was written learns it.
fn set_aside(is_its: impl Fn(&OpenFile) -> bool) {
    let has_failed = |entry: &Entry| entry.flushing.load(Relaxed) == FLUSH_FAILED;
    for file in file::used().filter(|file| is_its(file) && is_failing(file)) {
        if file.entry().is_some_and(has_failed) {
            quiesce(file.fd.load(Relaxed), Next::PassThrough(Why::WriteFailed));
        }
    }
}

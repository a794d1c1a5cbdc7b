//! What the program learns of bytes that cannot be written: each call on their file fails until they are. If somebody
//! has changed the file meanwhile, they never will be: then one more call fails, on the descriptor by which they were
//! written.
//!
//! If buffering ends before, they never will be, either: who knows what the process may still do. Then each further call
//! on that descriptor fails that would have failed before.

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::ledger::Entry;
use sweetspot_core::unwritten::FLUSH_FAILED;
use sweetspot_core::why::Why;

use super::dirty::{flush_all, is_failing};
use super::file::{self, OpenFile};
use super::process::passive_for_good;
use super::quiesce::{Next, quiesce};
use super::{flush, inodes, spawns, table};
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
    if errno != 0 {
        // Somebody has filled the disk, say.
        inodes::not_written();
    }
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
    inodes::not_written();
    its().map(|file| file.error.load(Relaxed))
}

/// The error of the open files that are chosen of which bytes cannot be written: the program is about to be told.
pub fn failing_of(is_its: impl Fn(&OpenFile) -> bool) -> Option<i32> {
    let is_open = |file: &OpenFile| file.references.load(Relaxed) > 0;
    let is_failing = |file: &OpenFile| file.error.load(Relaxed) != 0 && is_open(file);
    let mut errno = None;
    for file in file::used().filter(|file| is_failing(file) && is_its(file)) {
        file.close_error.store(0, Relaxed);
        errno = errno.or(Some(file.error.load(Relaxed)));
    }
    errno
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

/// The same where buffering has ended for good: the error with which each call on a descriptor fails whose bytes could
/// not be written by then. They are saved when the process has ended, and nothing may come behind the gap that they leave.
pub fn failing_for_good(fd: i32) -> Option<i32> {
    if !flush::any_failed() || !passive_for_good() {
        return None;
    }
    let (file, _) = file::open_file(fd)?;
    let errno = file.error.load(Relaxed);
    if errno == 0 {
        return None;
    }
    // A filter may kill for these calls.
    if !spawns::is_filtered() && flush::is_another(fd, sys::status(fd).as_ref(), file) {
        ended_for_good(fd);
        return None;
    }
    Some(errno)
}

/// The same, and the descriptor is about to end; 0: it does not fail.
#[cold]
#[inline(never)]
pub fn closing_for_good(fd: i32) -> i32 {
    let failed = failing_for_good(fd);
    if failed.is_some() {
        ended_for_good(fd);
    }
    failed.unwrap_or(0)
}

/// The number of a descriptor may mean another file by now.
#[cold]
#[inline(never)]
pub fn ended_for_good(fd: i32) {
    // The child of a vfork would say so of its parent's.
    let is_known = flush::any_failed() && passive_for_good() && !spawns::is_spawned_child();
    if is_known && file::open_file(fd).is_some() {
        table::set(fd, table::OTHER);
    }
}

/// `new` is now a duplicate of `old`, of the same file.
pub fn duplicated_for_good(old: i32, new: i32) {
    ended_for_good(new);
    if failing_for_good(old).is_some()
        && !spawns::is_spawned_child()
        && let Some(word) = table::open_word(old)
    {
        table::set(new, word);
    }
}

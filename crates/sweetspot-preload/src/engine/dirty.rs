//! The dirty set: files with pending bytes, in the order of their last writes; and writing all of them
//! out, oldest first.
//!
//! The counts of them (in `concerns`, by inode, in the ledger, of those that others may look at) change with the set, and
//! nowhere else.
#![allow(unsafe_code)]

use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use sweetspot_core::ledger::Entry;
use sweetspot_core::stamps::{Apart, Stamped, has_room_before};

/// Whether anything is pending in this process.
pub use super::concerns::is_pending;
use super::file::{self, DirtySet, OpenFile};
use super::flush::{flush_failed, flush_held, overlaps_pending, status_if_of};
use super::space::look_for_limit;
use super::spawns::passive;
use super::{concerns, entries, handle, inodes, lane, ledger, others, process};
use crate::floor::lock::Held;
use crate::floor::signals::SignalsBlocked;
use crate::floor::{clock, sys};

#[unsafe(link_section = ".data")]
static DIRTY: DirtySet = DirtySet::EMPTY;

/// When the oldest of what is pending came, in milliseconds, or when all of it was last tried.
#[unsafe(link_section = ".data")]
static OLDEST_MS: AtomicU64 = AtomicU64::new(0);

/// The file that left last in a flush. Where another one leaves in the same moment of the clock by which the
/// kernel stamps files, this one is told from it.
#[unsafe(link_section = ".data")]
static LEFT_LAST: AtomicPtr<OpenFile> = AtomicPtr::new(core::ptr::null_mut());

/// The epoch in which it left: in a later one the program, or somebody told by it, may know its time.
#[unsafe(link_section = ".data")]
static LEFT_LAST_IN: AtomicU64 = AtomicU64::new(0);

/// Of them, those that somebody may look at before they are closed.
#[unsafe(link_section = ".data")]
static OBSERVED: AtomicU32 = AtomicU32::new(0);

/// A release point: others may come to know of what was done before, or the program sleeps. All that
/// waits is written out first, and what was closed is free. Its counterpart is [`process::acquire_point`].
#[inline(always)]
pub fn release_point() {
    if concerns::is_anything_due() {
        release();
    }
}

#[inline(never)]
fn release() {
    if is_pending() {
        flush_at(Attempt::WhereDue);
    }
    entries::await_let_go();
}

/// Before others can see something else of this process alone, as its descriptors: files that were closed
/// need not be free for that.
pub fn before_it_is_shown() {
    if !passive() && is_pending() {
        flush_public();
    }
}

/// One more file with pending bytes.
fn pending_began(file: &OpenFile) {
    inodes::pending_began(file);
    OBSERVED.fetch_add(u32::from(!file.is_unobserved()), SeqCst);
    concerns::pending_began();
    entries::count_waiting(true);
}

/// One less.
fn pending_ended(file: &OpenFile) {
    inodes::pending_ended(file);
    OBSERVED.fetch_sub(u32::from(!file.is_unobserved()), SeqCst);
    concerns::pending_ended();
    entries::count_waiting(false);
}

/// When a file was last written, among those of this process.
fn order(file: &OpenFile) -> u64 {
    file.entry().map_or(0, |entry| entry.order.load(Relaxed))
}

/// Puts the files with pending bytes in the order of their last writes: anyone who compares the times of two
/// files sees which of them was written later. Returns what tells their times apart. The set is held.
fn sort() -> Apart {
    let files = DIRTY.sort_by_key(order);
    let last = DIRTY.last().and_then(OpenFile::entry);
    Apart::new(files, last.map_or(0, |entry| entry.written_ns.load(Relaxed)))
}

/// Writes out everything that is pending in this process, oldest first.
#[cold]
pub fn flush_all() {
    flush_at(Attempt::Each);
}

fn flush_at(attempt: Attempt) {
    flush(|file| attempt.is_due(file));
    if is_pending() {
        // What could not be written is tried again by then, and not at every call.
        OLDEST_MS.store(clock::now_ms(), Relaxed);
    }
}

/// What is tried again of what could not be written.
#[derive(Clone, Copy)]
enum Attempt {
    /// Each file: the call follows from one of them.
    Each,
    /// What did not take long, or not just now: a call that has nothing to do with it would be held up.
    WhereDue,
}

impl Attempt {
    fn is_due(self, file: &OpenFile) -> bool {
        match self {
            Attempt::Each => true,
            Attempt::WhereDue => {
                !is_failing(file) || clock::now_ns() >= file.retry_ns.load(Relaxed)
            }
        }
    }
}

/// Of what still waits because it could not be written, the error of the file written first.
pub fn unwritten() -> Option<i32> {
    if !is_pending() {
        return None;
    }
    file::used()
        .filter(|file| is_failing(file))
        .min_by_key(|file| order(file))
        .map(|file| file.error.load(Relaxed))
}

/// Writes out the files that others may look at before they are closed. Others are about to learn of
/// them, but this process is not about to look at a file.
#[cold]
pub fn flush_public() {
    if OBSERVED.load(Relaxed) != 0 {
        flush(|file| !file.is_unobserved() && Attempt::WhereDue.is_due(file));
    }
}

/// Writes out what is pending for the files that are chosen, oldest first.
fn flush(is_due: impl Fn(&OpenFile) -> bool) {
    if !is_pending() {
        return;
    }
    if entries::is_fork_unseen() {
        return forked_unseen();
    }
    let _signals = SignalsBlocked::new();
    let _dirty = DIRTY.hold();
    if look_for_limit()
        && let Some(ledger) = ledger::ledger()
    {
        others::write_out(ledger, entries::slot() as usize);
    }
    let mut apart = sort();
    tell_from_next();
    let mut walk = DIRTY.walk();
    while let Some(file) = walk.file() {
        let held = file.hold();
        file.before_ns.store(NOT_WRITTEN, Relaxed);
        let flushed = is_due(file).then(|| flush_held(file, &held));
        if let Some(Ok(())) = flushed {
            walk.remove();
            pending_ended(file);
            tell_apart(file, &mut apart);
            if file.before_ns.load(Relaxed) != NOT_WRITTEN {
                LEFT_LAST_IN.store(process::EPOCH.load(Relaxed), Relaxed);
                LEFT_LAST.store((&raw const *file).cast_mut(), Relaxed);
            }
            continue;
        }
        if let Some(Err(errno)) = flushed {
            flush_failed(file, errno);
        }
        // What is not due, or could not be written, stays pending, in the same order.
        apart.pass();
        walk.pass();
    }
}

/// `OpenFile::before_ns` of a file to which a flush has written nothing.
const NOT_WRITTEN: u64 = u64::MAX;

/// Gives the file that left last an earlier time, if others leave in the same moment: it was written before
/// that, and they after it had left. Not if its time may have been asked for meanwhile. The set is
/// held.
fn tell_from_next() {
    let last = LEFT_LAST.swap(core::ptr::null_mut(), Relaxed);
    if LEFT_LAST_IN.load(Relaxed) != process::EPOCH.load(Relaxed) {
        return;
    }
    // SAFETY: files are statics.
    let Some(file) = (unsafe { last.as_ref() }).filter(|file| !file.dirty.is_in()) else {
        return;
    };
    // What waits by another description is written after a death only if the file is as it is now.
    if inodes::others_pending(file) {
        return;
    }
    let _held = file.hold();
    let Some(entry) = file.entry() else { return };
    let modified_ns = entry.mtime_ns.load(Relaxed);
    let is_needed = modified_ns >= clock::wall_ns() && entry.written_ns.load(Relaxed) < modified_ns;
    if is_needed && has_room_before(modified_ns) {
        let before_ns = file.before_ns.load(Relaxed);
        set_modified(file, entry, modified_ns - 1, before_ns);
    }
}

/// Sets the time of modification of a file, unless somebody else has written since, or it was modified at
/// that time before. Its lock is held.
fn set_modified(file: &OpenFile, entry: &Entry, wanted_ns: u64, before_ns: u64) {
    let fd = file.fd.load(Relaxed);
    if wanted_ns >= before_ns
        && status_if_of(fd, file).is_some_and(|status| status.left() == entry.left())
    {
        // Only the owner of the file may do it.
        sys::set_modified(fd, wanted_ns);
        if let Some(status) = sys::status(fd) {
            entry.note_left(status.left());
        }
    }
}

/// Gives a file that was just written out a time by which it is told from those that follow. Its lock is
/// held.
fn tell_apart(file: &'static OpenFile, apart: &mut Apart) {
    let before_ns = file.before_ns.load(Relaxed);
    let Some(entry) = file.entry().filter(|_| before_ns != NOT_WRITTEN) else {
        apart.pass();
        return;
    };
    let written_ns = entry.written_ns.load(Relaxed);
    let stamped = Stamped { written_ns, before_ns, modified_ns: entry.mtime_ns.load(Relaxed) };
    if let Some(wanted_ns) = apart.time_of(&stamped, clock::wall_ns()) {
        set_modified(file, entry, wanted_ns, before_ns);
    }
}

/// Writes out what is pending for longer than the maximum age. Called where the clock was read.
pub fn flush_old(now: u64) {
    if is_pending() && now.saturating_sub(OLDEST_MS.load(Relaxed)) >= clock::max_age_ms() {
        flush_at(Attempt::WhereDue);
    }
}

/// The bytes of a file wait from now on. The set is held.
pub(super) fn put_in(file: &OpenFile) {
    if DIRTY.push(file) {
        OLDEST_MS.store(clock::now_ms(), Relaxed);
    }
    pending_began(file);
}

/// Nothing of a file waits any more. The set is held.
pub fn take_out(file: &OpenFile) {
    if DIRTY.remove(file) {
        pending_ended(file);
    }
}

/// The lock of the set; it comes before all others.
pub fn hold_dirty() -> Held<'static> {
    DIRTY.hold()
}

/// This process was forked behind our back: nothing that is kept here is its own, and what is shared is its parent's.
#[cold]
pub(super) fn forked_unseen() {
    let _signals = SignalsBlocked::new();
    process::set_passive(process::PASSIVE_FOR_GOOD);
    forget_all();
}

/// In the child of a fork: nothing is pending, nobody holds the set, and no file is attached.
pub(super) fn forget_all() {
    lane::close();
    for file in file::used() {
        file.attachment.disown();
        handle::drop_write_buffer(file);
        file.dirty.forget();
        file.error.store(0, Relaxed);
        file.close_error.store(0, Relaxed);
    }
    entries::forget_all();
    DIRTY.forget();
    LEFT_LAST.store(core::ptr::null_mut(), Relaxed);
    concerns::forget_pending();
    OBSERVED.store(0, Relaxed);
}

/// Before the kernel is asked for bytes of a file: do any of them wait here?
pub fn before_read(file: &OpenFile, at: u64, len: u64) {
    if !is_pending() {
        return;
    }
    if overlaps_pending(file, at, len) || inodes::others_pending(file) {
        flush_all();
    }
}

/// Whether a flush of this very open file has failed, and the bytes still wait.
pub fn is_failing(file: &OpenFile) -> bool {
    file.error.load(Relaxed) != 0 && file.pending() != 0
}

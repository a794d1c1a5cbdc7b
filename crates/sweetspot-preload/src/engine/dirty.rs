//! The dirty set: files with pending bytes, in the order of their last writes; and writing all of them
//! out, oldest first.
//!
//! A file is in the set while its `dirty` is 1. The counts of them (in `concerns`, by inode, in the ledger,
//! of those that others may look at) change with it, and nowhere else.
#![allow(unsafe_code)]

use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use sweetspot_core::ledger::Entry;
use sweetspot_core::stamps::{Apart, Stamped, has_room_before};

/// Whether anything is pending in this process.
pub use super::concerns::is_pending;
use super::file::{self, OpenFile};
use super::flush::{flush_failed, flush_held, overlaps_pending, status_if_of};
use super::space::look_for_limit;
use super::spawns::passive;
use super::{concerns, entries, handle, inodes, lane, ledger, others, process};
use crate::floor::lock::hold;
use crate::floor::signals::SignalsBlocked;
use crate::floor::{clock, sys};

/// The list of files with pending bytes, and its lock. The lock comes before that of any file.
#[unsafe(link_section = ".data")]
static DIRTY: AtomicU64 = AtomicU64::new(0);

#[unsafe(link_section = ".data")]
static DIRTY_FIRST: AtomicPtr<OpenFile> = AtomicPtr::new(core::ptr::null_mut());

#[unsafe(link_section = ".data")]
static DIRTY_LAST: AtomicPtr<OpenFile> = AtomicPtr::new(core::ptr::null_mut());

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

/// Puts the files with pending bytes in the order of their last writes: anyone who compares the times of two
/// files sees which of them was written later. Returns what tells their times apart. The lock of the
/// list is held.
fn sort_dirty() -> Apart {
    let mut files = 0;
    let order = |file: &OpenFile| file.entry().map_or(0, |entry| entry.order.load(Relaxed));
    let mut rest = DIRTY_FIRST.swap(core::ptr::null_mut(), Relaxed);
    let mut last: *mut OpenFile = core::ptr::null_mut();
    // SAFETY: files on the list are statics.
    while let Some(file) = unsafe { rest.as_ref() } {
        let this = rest;
        files += 1;
        rest = file.next_dirty.load(Relaxed);
        // Mostly they are in order, and this one comes behind the last.
        // SAFETY: as above.
        let mut link = match unsafe { last.as_ref() } {
            Some(last) if order(last) <= order(file) => &last.next_dirty,
            _ => &DIRTY_FIRST,
        };
        // SAFETY: as above.
        while let Some(other) = unsafe { link.load(Relaxed).as_ref() } {
            if order(other) > order(file) {
                break;
            }
            link = &other.next_dirty;
        }
        let next = link.load(Relaxed);
        file.next_dirty.store(next, Relaxed);
        link.store(this, Relaxed);
        if next.is_null() {
            last = this;
        }
    }
    DIRTY_LAST.store(last, Relaxed);
    // SAFETY: as above.
    let last = unsafe { last.as_ref() }.and_then(OpenFile::entry);
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
    let order = |file: &&OpenFile| file.entry().map_or(0, |entry| entry.order.load(Relaxed));
    file::used()
        .filter(|file| is_failing(file))
        .min_by_key(order)
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
    let _dirty = hold(&DIRTY);
    if look_for_limit()
        && let Some(ledger) = ledger::ledger()
    {
        others::write_out(ledger, entries::slot() as usize);
    }
    let mut apart = sort_dirty();
    tell_from_next();
    let mut first: *mut OpenFile = core::ptr::null_mut();
    let mut last = first;
    // SAFETY: files on the list are statics.
    while let Some(file) = unsafe { DIRTY_FIRST.load(Relaxed).as_ref() } {
        let held = file.hold();
        file.before_ns.store(NOT_WRITTEN, Relaxed);
        DIRTY_FIRST.store(file.next_dirty.load(Relaxed), Relaxed);
        let left = match is_due(file) {
            true => flush_held(file, &held).map(|()| false),
            false => Ok(true),
        };
        match left {
            Ok(false) => {
                file.dirty.store(0, Relaxed);
                pending_ended(file);
                tell_apart(file, &mut apart);
                if file.before_ns.load(Relaxed) != NOT_WRITTEN {
                    LEFT_LAST_IN.store(process::EPOCH.load(Relaxed), Relaxed);
                    LEFT_LAST.store((&raw const *file).cast_mut(), Relaxed);
                }
                continue;
            }
            Ok(true) => {}
            Err(errno) => flush_failed(file, errno),
        }
        apart.pass();
        // What is not due, or could not be written, stays pending, in the same order.
        let this = (&raw const *file).cast_mut();
        file.next_dirty.store(core::ptr::null_mut(), Relaxed);
        // SAFETY: as above.
        match unsafe { last.as_ref() } {
            Some(last) => last.next_dirty.store(this, Relaxed),
            None => first = this,
        }
        last = this;
    }
    DIRTY_FIRST.store(first, Relaxed);
    DIRTY_LAST.store(last, Relaxed);
}

/// `OpenFile::before_ns` of a file to which a flush has written nothing.
const NOT_WRITTEN: u64 = u64::MAX;

/// Gives the file that left last an earlier time, if others leave in the same moment: it was written before
/// that, and they after it had left. Not if its time may have been asked for meanwhile. The lock of the list
/// is held.
fn tell_from_next() {
    let last = LEFT_LAST.swap(core::ptr::null_mut(), Relaxed);
    if LEFT_LAST_IN.load(Relaxed) != process::EPOCH.load(Relaxed) {
        return;
    }
    // SAFETY: files are statics.
    let Some(file) = (unsafe { last.as_ref() }).filter(|file| file.dirty.load(Relaxed) == 0) else {
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

/// Puts a file behind all others on the list: its bytes wait from now on. The list is held.
pub(super) fn put_on(file: &OpenFile) {
    file.dirty.store(1, Relaxed);
    file.next_dirty.store(core::ptr::null_mut(), Relaxed);
    let this = (&raw const *file).cast_mut();
    // SAFETY: files on the list are statics.
    match unsafe { DIRTY_LAST.load(Relaxed).as_ref() } {
        Some(last) => last.next_dirty.store(this, Relaxed),
        None => {
            DIRTY_FIRST.store(this, Relaxed);
            OLDEST_MS.store(clock::now_ms(), Relaxed);
        }
    }
    DIRTY_LAST.store(this, Relaxed);
    pending_began(file);
}

/// Takes a file off the list of those with pending bytes. `None`: it is not on it.
pub fn take_off(file: &OpenFile) {
    if file.dirty.swap(0, Relaxed) == 0 {
        return;
    }
    let this = (&raw const *file).cast_mut();
    let mut link = &DIRTY_FIRST;
    let mut before = core::ptr::null_mut();
    // SAFETY: files on the list are statics.
    while let Some(other) = unsafe { link.load(Relaxed).as_ref() } {
        if core::ptr::eq(other, this) {
            link.store(other.next_dirty.load(Relaxed), Relaxed);
            if DIRTY_LAST.load(Relaxed) == this {
                DIRTY_LAST.store(before, Relaxed);
            }
            break;
        }
        before = (&raw const *other).cast_mut();
        link = &other.next_dirty;
    }
    pending_ended(file);
}

/// The lock of the list of files with pending bytes; it comes before all others.
pub fn hold_dirty() -> crate::floor::lock::Held<'static> {
    hold(&DIRTY)
}

/// This process was forked behind our back: nothing that is kept here is its own, and what is shared is its parent's.
#[cold]
pub(super) fn forked_unseen() {
    let _signals = SignalsBlocked::new();
    process::set_passive(process::PASSIVE_FOR_GOOD);
    forget_all();
}

/// In the child of a fork: nothing is pending, nobody holds the list, and no file is attached.
pub(super) fn forget_all() {
    lane::close();
    for file in file::used() {
        file.attachment.disown();
        handle::drop_write_buffer(file);
        file.dirty.store(0, Relaxed);
        file.error.store(0, Relaxed);
        file.close_error.store(0, Relaxed);
    }
    entries::forget_all();
    DIRTY.store(0, Relaxed);
    DIRTY_FIRST.store(core::ptr::null_mut(), Relaxed);
    DIRTY_LAST.store(core::ptr::null_mut(), Relaxed);
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

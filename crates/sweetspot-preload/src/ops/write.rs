//! Writes: into the ledger where the guard holds a pin on the file, else straight on, in order.
//!
//! A write that waits has happened for the program: it sees its bytes, its position, its size. What
//! *others* see of it is put off until the program speaks: then everything that waits, of every
//! file, is written out, oldest first ([`flush_all`]).
#![allow(unsafe_code)]

use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use sweetspot_core::learning::Learning;
use sweetspot_core::ledger::{
    BUFFER_OFF, Counter, Entry, FLUSH_FAILED, PLACE_BASE, PLACE_END, PLACE_OFFSET, Way, chunk_start,
};
use sweetspot_core::pending::{
    self, Found, Owner, length_of, length_unless_owned, owner_of, waiting_of,
};
use sweetspot_core::policy;
use sweetspot_core::size::BUFFER_BYTES_MAX;
use sweetspot_core::stamps::{Stamped, told_apart};
use sweetspot_core::why::Why;

use super::{
    Kind, Outcome, Pass, disturbed, enter, enter_alone, inodes, is_followed, life, observe, settle,
    speak, talk, transition,
};
use crate::atomic::{count, swap};
use crate::file::{self, AT_END, CLOSED, Held, OpenFile};
use crate::lock::hold;
use crate::pins::{self, Pinned};
use crate::process::{self, SignalsBlocked, passive, passive_for_good};
use crate::{auto, careful, concerns, copy, fault, ledger, sys, table};

/// Small writes after which the inode of a file is worth knowing while windows are open: until then
/// each write makes every window ask again (410 ns a window), afterwards only those of its inode.
const WRITES_TO_BE_KNOWN: u32 = 2;

/// Values of `OpenFile::pin`.
pub mod pin {
    /// Not asked for.
    pub const NONE: u32 = 0;
    /// Asked for, no answer seen.
    pub const ASKED: u32 = 1;
    /// Held.
    pub const HELD: u32 = 2;
    /// Not to be had, or not worth having: final.
    pub const NEVER: u32 = 3;
}

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

/// Of them, those that somebody may look at before they are closed.
#[unsafe(link_section = ".data")]
static PUBLIC: AtomicU32 = AtomicU32::new(0);

/// Whether anything is pending in this process.
pub use crate::concerns::is_pending;

/// One more file with pending bytes.
fn pending_began(file: &OpenFile) {
    inodes::pending_began(file);
    PUBLIC.fetch_add(u32::from(!file.is_private()), SeqCst);
    concerns::pending_began();
    pins::count_waiting(true);
}

/// One less.
fn pending_ended(file: &OpenFile) {
    inodes::pending_ended(file);
    PUBLIC.fetch_sub(u32::from(!file.is_private()), SeqCst);
    concerns::pending_ended();
    pins::count_waiting(false);
}

/// The program's side of a write.
#[derive(Clone, Copy)]
enum Source {
    Buffer(*const u8, usize),
    Vector,
}

/// `write`.
#[inline(always)]
pub fn write(fd: i32, buffer: *const u8, len: usize) -> Outcome {
    match waits(fd, buffer, len) {
        true => Outcome::Done(len as isize),
        false => not_waiting(fd, buffer, len),
    }
}

/// Lets a write wait where nothing has to be done but to copy it behind what waits already; false: go
/// on with [`not_waiting`]. Nothing is called in it, so that nothing has to be saved.
///
/// Another file may be written to after the look at the order of all: by somebody who came in between,
/// so of the two writes either may be the later one.
#[inline(always)]
pub fn waits(fd: i32, buffer: *const u8, len: usize) -> bool {
    let Some(word) = table::open_word(fd) else { return false };
    let file = OpenFile::from_word(word);
    let is_last_written = core::ptr::eq(LAST_WRITTEN.load(Relaxed), file);
    if !is_last_written || !is_append_due(file, len as u64) || !file.enter_append() {
        return false;
    }
    let append = Append { file, word, fd, buffer, len: len as u64 };
    if file.window_len.load(Relaxed) != 0 || append.commit(|_| {}).is_none() {
        file.leave_append();
        return false;
    }
    let threads = file.leave_append();
    file.count_call(threads, Counter::Appends, Counter::AppendBytes, len as u64);
    true
}

/// Whether a write that does not wait passes through, as nothing concerns it; `None`: go on with
/// [`not_waiting`].
#[inline(always)]
pub fn passes(fd: i32, len: usize) -> Option<Pass> {
    enter_alone(fd, Kind::Write, len as u64)
}

/// The other writes.
pub fn not_waiting(fd: i32, buffer: *const u8, len: usize) -> Outcome {
    if passive_for_good() {
        return Outcome::PassOn(Pass::NOTHING);
    }
    if let Some((file, word)) = table::open_file(fd)
        && append(Append { file, word, fd, buffer, len: len as u64 })
    {
        return Outcome::Done(len as isize);
    }
    slowly(fd, Source::Buffer(buffer, len), Kind::Write, None)
}

/// `pwrite`.
pub fn write_at(fd: i32, buffer: *const u8, len: usize, offset: i64) -> Outcome {
    slowly(fd, Source::Buffer(buffer, len), Kind::WriteAt, Some(offset))
}

/// `writev`: handed to the kernel, after all that waits.
pub fn write_vector(fd: i32) -> Outcome {
    slowly(fd, Source::Vector, Kind::Write, None)
}

/// `pwritev`: the same.
pub fn write_vector_at(fd: i32, offset: i64) -> Outcome {
    slowly(fd, Source::Vector, Kind::WriteAt, Some(offset))
}

/// Whether a write of `len` bytes may wait without a look at anything else than this file.
#[inline(always)]
fn is_append_due(file: &OpenFile, len: u64) -> bool {
    // Longer ones never wait, and some are longer than any sum.
    let is_small = len.wrapping_sub(1) < BUFFER_BYTES_MAX;
    is_small && file.chunk.load(Relaxed) != 0 && process::tick() && pins::guarded()
}

/// Lets a write wait in the ledger; false: something has to be done first.
fn append(append: Append) -> bool {
    let file = append.file;
    if !is_append_due(file, append.len) || !file.enter_append() {
        return false;
    }
    let note_order = |entry: &Entry| note_order(file, entry);
    let committed = if append.take_place() { append.commit(note_order) } else { None };
    if let Some(end) = committed
        && file.window_len.load(Relaxed) != 0
    {
        write_through(file, end, append.buffer, append.len);
    }
    let threads = file.leave_append();
    if committed.is_some() {
        file.count_call(threads, Counter::Appends, Counter::AppendBytes, append.len);
    }
    committed.is_some()
}

/// A write that is to wait behind what waits already. The file's lock is held by it, and signals are not
/// blocked: see `file`.
struct Append {
    file: &'static OpenFile,
    /// What the descriptor means.
    word: u64,
    fd: i32,
    buffer: *const u8,
    len: u64,
}

impl Append {
    /// Where the position is in the window, at the end of what is pending, it moves there from the
    /// cursor: the same place. False: it is elsewhere, or a handler, or a thread that took the lock
    /// over, has flushed and put it elsewhere meanwhile.
    #[inline(always)]
    fn take_place(&self) -> bool {
        let file = self.file;
        let stored = file.position.load(Relaxed);
        let at = file.cursor.load(Relaxed);
        if at & CLOSED == CLOSED {
            return true;
        }
        let Some(entry) = file.entry() else { return false };
        let pending = length_unless_owned(entry.word.load(Relaxed));
        let end = entry.base.load(Relaxed).wrapping_add(pending);
        file.dirty.load(Relaxed) != 0
            && file.window_at.load(Relaxed) + (at & CLOSED) == end
            && swap(&file.position, stored, AT_END)
            && swap(&file.cursor, at, next_closed(at))
    }

    /// Copies the bytes behind what waits, and makes them part of it: where in the file they begin.
    /// `before_it` is called when they are copied. `None`: nothing has happened.
    ///
    /// Whatever comes in between (a handler that flushes, a thread that takes the lock over, the
    /// guard) changes the entry's word, which is read before anything that it could change.
    #[inline(always)]
    fn commit(&self, before_it: impl Fn(&Entry)) -> Option<u64> {
        let file = self.file;
        if !table::means(self.fd, self.word) {
            return None;
        }
        let chunk = file.chunk.load(Relaxed);
        let (Some(entry), true) = (file.entry(), chunk != 0) else { return None };
        let before = entry.word.load(Relaxed);
        let pending = length_unless_owned(before);
        let fits = pending + self.len <= file.append_bytes_max.load(Relaxed);
        if !fits || file.dirty.load(Relaxed) == 0 {
            return None;
        }
        let end = entry.base.load(Relaxed).wrapping_add(pending);
        let is_at_end =
            file.cursor.load(Relaxed) & CLOSED == CLOSED && file.position.load(Relaxed) == AT_END;
        // SAFETY: the chunk has room, as checked; the program's side may be anything.
        let copy =
            || unsafe { copy::copy((chunk + pending) as *mut u8, self.buffer, self.len as usize) };
        if !is_at_end || copy() {
            return None;
        }
        before_it(entry);
        // From here the write has happened.
        let has_happened = pending::Word::swap(&entry.word, before, before + self.len);
        has_happened.then_some(end)
    }
}

/// The file that was written to last, so that the order of files is only looked after where it changes.
#[unsafe(link_section = ".data")]
static LAST_WRITTEN: AtomicPtr<OpenFile> = AtomicPtr::new(core::ptr::null_mut());

/// Before a write of this file waits: it is now the last one in the order of all.
#[inline(always)]
fn note_order(file: &OpenFile, entry: &Entry) {
    if !core::ptr::eq(LAST_WRITTEN.load(Relaxed), file) {
        stamp_order(file, entry);
    }
}

#[cold]
fn stamp_order(file: &OpenFile, entry: &Entry) {
    LAST_WRITTEN.store((&raw const *file).cast_mut(), Relaxed);
    if let Some(ledger) = ledger::ledger() {
        entry.order.store(ledger.header.order.fetch_add(1, Relaxed) + 1, Relaxed);
        entry.written_ns.store(crate::wall_ns(), Relaxed);
    }
}

/// The closed cursor of the generation after `at`.
fn next_closed(at: u64) -> u64 {
    ((at >> 32).wrapping_add(1) << 32) | CLOSED
}

/// Puts bytes that were just written at `at` into the window, and the position back into it. The
/// lock is held (by an append or a transition) and the cursor closed.
fn write_through(file: &'static OpenFile, at: u64, buffer: *const u8, len: u64) {
    let closed = file.cursor.load(Relaxed);
    // No positioned hit meanwhile.
    let epoch = file.epoch.swap(0, Relaxed);
    update_window(file, at, buffer, len);
    file.epoch.store(epoch, Relaxed);
    let cursor = (at + len).wrapping_sub(file.window_at.load(Relaxed));
    if cursor <= file.window_len.load(Relaxed) {
        // Fails if a handler came in between: then the position stays where it is said to be.
        swap(&file.cursor, closed, ((closed >> 32) << 32) | cursor);
    }
}

fn slowly(fd: i32, source: Source, kind: Kind, offset: Option<i64>) -> Outcome {
    let _care = careful::take();
    if observe::is_on() || passive() {
        return match source {
            Source::Buffer(_, len) => observe::call(observe::Kind::Write, fd, len as u64, offset),
            Source::Vector => observe::call(observe::Kind::Write, fd, observe::ANY, offset),
        };
    }
    if pins::is_fork_unseen() {
        super::process::forked_unseen();
        return Outcome::PassOn(Pass::NOTHING);
    }
    let len = match source {
        Source::Buffer(_, len) => len as u64,
        // Vectors are not learned from.
        Source::Vector => u64::MAX,
    };
    let is_worth_asking = inodes::any_window() || ledger::is_given();
    if is_worth_asking && table::word(fd).is_some_and(|word| word.load(Relaxed) == 0) {
        // Whether it may wait, and whether it is news for a window: one question for good.
        transition::classify(fd);
    }
    let mut turn = 0;
    while is_followed(fd) {
        turn += 1;
        disturbed(fd, turn);
        // In each turn: the clock may have moved during the flush of the last one, and until that is
        // noticed no append is taken.
        process::tock();
        let found = table::open_file(fd).filter(|(file, _)| file.is_buffered());
        let Some((file, word)) = found else {
            if let Some(errno) = failing_descriptor(fd) {
                return Outcome::Done(crate::fail(errno));
            }
            match enter(fd, kind, len) {
                Some(pass) => return straight(pass),
                None => continue,
            }
        };
        match (kind, source) {
            (Kind::Write, Source::Buffer(buffer, len)) if file.is_trailing() || !appends(file) => {
                if append(Append { file, word, fd, buffer, len: len as u64 }) {
                    return Outcome::Done(len as isize);
                }
                match prepare(file, fd, len as u64) {
                    Prepared::Append => {}
                    Prepared::Replaced => life::forget(fd),
                    Prepared::Shared => {
                        let is_limit = !sys::file_size_unlimited();
                        let why = if is_limit { Why::FileSizeLimit } else { Why::Shared };
                        settle::settle(fd, settle::Next::Straight(why));
                    }
                    Prepared::Enlarge => enlarge(file, fd),
                    Prepared::Failed => {
                        if let Some(errno) = failing_descriptor(fd) {
                            return Outcome::Done(crate::fail(errno));
                        }
                    }
                    Prepared::Straight if gains_nothing(file) => {
                        settle::settle(fd, settle::Next::Learn);
                    }
                    Prepared::Straight if file.is_trailing() => {
                        return straight(Pass { kind, fd, len: len as u64 });
                    }
                    Prepared::Straight => {
                        if let Some(answer) = write_on(file, fd, buffer, len) {
                            return Outcome::Done(answer);
                        }
                    }
                }
            }
            _ if file.is_trailing() => match failing_descriptor(fd) {
                Some(errno) => return Outcome::Done(crate::fail(errno)),
                None => return straight(Pass { kind, fd, len }),
            },
            _ => settle::settle(fd, settle::Next::Learn),
        }
    }
    match table::word(fd).map(|word| table::tag(word.load(Relaxed))) {
        // A pipe, whose reader now goes on.
        Some(table::OTHER) => Outcome::PassOn(talk()),
        Some(table::STRAIGHT) => straight(Pass { kind, fd, len }),
        // A descriptor that is not followed: perhaps a file that has a window elsewhere.
        _ => straight(Pass::LISTEN),
    }
}

fn straight(pass: Pass) -> Outcome {
    speak();
    Outcome::PassOn(pass)
}

/// Whether the position of a file is kept here to no purpose: nothing of it will wait again, and it has
/// no window. As long as it is ours, each write costs two more system calls.
fn gains_nothing(file: &OpenFile) -> bool {
    file.is_on() && file.pin.load(Relaxed) == pin::NEVER && file.buffer_bytes.load(Relaxed) == 0
}

fn appends(file: &OpenFile) -> bool {
    file.flags.load(Relaxed) & libc::O_APPEND as u32 != 0
}

/// What is to be done with a write that the fast path did not take.
enum Prepared {
    /// Try to append again.
    Append,
    /// Write it at the position that is ours.
    Straight,
    /// An earlier flush failed: the program learns it now.
    Failed,
    /// The descriptor means another file than the one that is kept for it: it was closed, and another
    /// file opened, by system calls of the program's own.
    Replaced,
    /// Another process has taken a descriptor of this description, and moved its offset; or has set a limit
    /// that each write is to meet by itself.
    Shared,
    /// Calls have proved so dear that more should wait than the chunk holds.
    Enlarge,
}

/// Makes room for an append, or says why there is none.
fn prepare(file: &'static OpenFile, fd: i32, len: u64) -> Prepared {
    if failing(file).is_some() {
        return Prepared::Failed;
    }
    if is_recalled(file) {
        return recalled(file, fd);
    }
    if file.chunk.load(Relaxed) == 0 {
        if matches!(file.pin.load(Relaxed), pin::ASKED | pin::HELD) {
            attach(file, fd);
        } else if file.pin.load(Relaxed) == pin::NONE
            && (file.counted(Counter::StraightWrites) + 1)
                .is_multiple_of(u64::from(policy::WRITES_TO_EARN))
        {
            let _signals = SignalsBlocked::new();
            let _registry = file::hold_registry();
            ask(file, fd);
        }
        if file.chunk.load(Relaxed) == 0 {
            return Prepared::Straight;
        }
    }
    if !pins::guarded() {
        settle::settle(fd, settle::Next::Learn);
        give_up(file, Why::NoGuard);
        return Prepared::Straight;
    }
    if len >= file.append_bytes_max.load(Relaxed) || len == 0 {
        flush_all();
        return Prepared::Straight;
    }
    if file.dirty.load(Relaxed) != 0 {
        // Full, or the position is elsewhere: everything that waits goes out, in order.
        flush_all();
    }
    let _signals = SignalsBlocked::new();
    let _dirty = hold(&DIRTY);
    let held = file.hold();
    if held.nested || !file.is_buffered() || file.chunk.load(Relaxed) == 0 {
        return Prepared::Straight;
    }
    if file.dirty.load(Relaxed) != 0 {
        return Prepared::Append;
    }
    if wants_more(file) {
        return Prepared::Enlarge;
    }
    // Since the last flush this process may have filled the disk by writes that did not wait.
    if inodes::others_use(file) || is_disk_nearly_full(file, &held) {
        return Prepared::Straight;
    }
    let Some(entry) = file.entry() else { return Prepared::Straight };
    if let Some(status) = sys::status(fd) {
        if !is_of(&status, file) {
            return Prepared::Replaced;
        }
        // What went straight on since the last flush came before what waits from now on: only what
        // changes the file after this moment is somebody else's, for whom `recover` makes way.
        store_status(entry, &status);
    }
    if file.is_on() && follow_offset(file, fd) {
        return Prepared::Shared;
    }
    let position =
        if file.is_trailing() { expected_place(file, entry) } else { file.take_position() };
    if !may_grow(file, fd, position) {
        // Each write must meet the end by itself.
        if !file.is_trailing() {
            file.reopen_cursor();
        }
        detach(file, &held);
        give_up(file, Why::FileSizeLimit);
        return Prepared::Straight;
    }
    entry.base.store(position, Relaxed);
    file.end.store(position, Relaxed);
    file.chunk.store(file.mapped_chunk.load(Relaxed) + chunk_start(position), Relaxed);
    stamp_order(file, entry);
    ledger::want_clock();
    // After where the end is: another thread may ask without the lock (`resolved_position`).
    file.position.store(AT_END, Release);
    file.reopen_cursor();
    file.dirty.store(1, Relaxed);
    file.next_dirty.store(core::ptr::null_mut(), Relaxed);
    let this = (&raw const *file).cast_mut();
    // SAFETY: files on the list are statics.
    match unsafe { DIRTY_LAST.load(Relaxed).as_ref() } {
        Some(last) => last.next_dirty.store(this, Relaxed),
        None => {
            DIRTY_FIRST.store(this, Relaxed);
            OLDEST_MS.store(process::now_ms(), Relaxed);
        }
    }
    DIRTY_LAST.store(this, Relaxed);
    pending_began(file);
    if inodes::meets_use(file) {
        // That began since it was looked for: nothing waits beside it.
        take_off(file);
        return Prepared::Straight;
    }
    Prepared::Append
}

/// Puts the files with pending bytes in the order of their last writes: whoever compares the times of two
/// files sees which of them was written later. The lock of the list is held.
fn sort_dirty() {
    let order = |file: &OpenFile| file.entry().map_or(0, |entry| entry.order.load(Relaxed));
    let mut rest = DIRTY_FIRST.swap(core::ptr::null_mut(), Relaxed);
    let mut last: *mut OpenFile = core::ptr::null_mut();
    // SAFETY: files on the list are statics.
    while let Some(file) = unsafe { rest.as_ref() } {
        let this = rest;
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
}

/// Writes out everything that is pending in this process, oldest first.
#[cold]
pub fn flush_all() {
    flush(|_| true);
    if is_pending() {
        // What could not be written is tried again by then, and not at every call.
        OLDEST_MS.store(process::now_ms(), Relaxed);
    }
}

/// Of what still waits because it could not be written, the error of the file written first.
pub fn unwritten() -> Option<i32> {
    if !is_pending() {
        return None;
    }
    let is_failing =
        |file: &&OpenFile| file.dirty.load(Relaxed) != 0 && file.error.load(Relaxed) != 0;
    let order = |file: &&OpenFile| file.entry().map_or(0, |entry| entry.order.load(Relaxed));
    file::used().filter(is_failing).min_by_key(order).map(|file| file.error.load(Relaxed))
}

/// Writes out what somebody may look at before it is closed: others are about to hear of it, but no
/// file is about to be looked at here.
#[cold]
pub fn flush_public() {
    if PUBLIC.load(Relaxed) != 0 {
        flush(|file| !file.is_private());
    }
}

/// Writes out what is pending for the files that are chosen, oldest first.
fn flush(is_due: impl Fn(&OpenFile) -> bool) {
    if !is_pending() || !pins::guarded() && pins::is_fork_unseen() {
        return;
    }
    let _signals = SignalsBlocked::new();
    let _dirty = hold(&DIRTY);
    sort_dirty();
    let mut first: *mut OpenFile = core::ptr::null_mut();
    let mut last = first;
    let mut written: *mut OpenFile = core::ptr::null_mut();
    let began_ns = crate::wall_ns();
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
                if file.before_ns.load(Relaxed) != NOT_WRITTEN {
                    file.next_dirty.store(written, Relaxed);
                    written = (&raw const *file).cast_mut();
                }
                continue;
            }
            Ok(true) => {}
            Err(errno) => flush_failed(file, errno),
        }
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
    tell_apart(written, began_ns);
}

/// `OpenFile::before_ns` of a file to which a flush has written nothing.
const NOT_WRITTEN: u64 = u64::MAX;

/// Gives the files that a flush has written times by which they are told apart, from the last one on.
/// The lock of the list is held, so that none of them is closed here.
fn tell_apart(last: *mut OpenFile, began_ns: u64) {
    let mut later: Option<Stamped> = None;
    let mut next = last;
    // SAFETY: files on the list are statics.
    while let Some(file) = unsafe { next.as_ref() } {
        next = file.next_dirty.load(Relaxed);
        let Some(entry) = file.entry() else { continue };
        let mut stamped = Stamped {
            written_ns: entry.written_ns.load(Relaxed),
            before_ns: file.before_ns.load(Relaxed),
            modified_ns: entry.mtime_ns.load(Relaxed),
        };
        let wanted = later.and_then(|later| told_apart(&stamped, &later, began_ns));
        let fd = file.fd.load(Relaxed);
        // What somebody else has written since has its own time.
        if let Some(wanted_ns) = wanted
            && status_if_of(fd, file).is_some_and(|status| is_as_left(&status, entry))
        {
            // It may be refused to who does not own the file.
            sys::set_modified(fd, wanted_ns);
            remember_status(entry, fd);
            stamped.modified_ns = entry.mtime_ns.load(Relaxed);
        }
        later = Some(stamped);
    }
}

/// Whether a file is as our last write left it.
fn is_as_left(status: &sys::Status, entry: &Entry) -> bool {
    status.size == entry.size.load(Relaxed)
        && status.mtime_ns == entry.mtime_ns.load(Relaxed)
        && status.ctime_ns == entry.ctime_ns.load(Relaxed)
}

/// Writes out what is pending for longer than the maximum age. Called where the clock was read.
pub fn flush_old(now: u64) {
    if is_pending() && now.saturating_sub(OLDEST_MS.load(Relaxed)) >= process::max_age_ms() {
        flush_all();
    }
}

/// Writes out what is pending for one file. Its lock is held.
fn flush_held(file: &'static OpenFile, held: &Held) -> Result<(), i32> {
    let Some(entry) = file.entry() else { return Ok(()) };
    wait_for_guard(file, entry)?;
    let base = entry.base.load(Relaxed);
    let began_ns = auto::begin(file, Way::Write, length_of(entry.word.load(Relaxed)));
    // What the guard has written in the meantime is behind us, as after a flush of our own. The end of
    // what is pending is about to lose its meaning.
    let word = entry.word.load(Relaxed);
    if owner_of(word) == Owner::Returned {
        moved_past(file, entry, base + length_of(word));
    }
    let mut moved = 0;
    let len = match pending::begin_flush(&entry.word) {
        Found::Begun(word) => {
            let len = length_of(word);
            moved = len;
            let written = write_pending(file, entry, base, len);
            if written.is_ok() {
                moved_past(file, entry, base + len);
            }
            // From here the flush has happened, or did not.
            pending::end_flush(&entry.word, word, written.is_ok());
            entry.flushing.store(0, SeqCst);
            written?;
            entry.arrived.store(0, Relaxed);
            file.count(Counter::Flushes, 1);
            file.count(Counter::FlushBytes, len);
            len
        }
        Found::Returned(word) => {
            entry.arrived.store(0, Relaxed);
            length_of(word)
        }
        // Taken again since: the process has been quiet all the while, and this is its next call.
        Found::Guard(_) => return flush_held(file, held),
        // Nothing is committed yet, but an append that a handler interrupted may be about to, at what
        // is then no longer the position: it starts again.
        Found::Nothing => {
            if !file.is_trailing() && file.position.load(Relaxed) == AT_END {
                file.position.store(file.end.load(Relaxed), Relaxed);
            }
            0
        }
    };
    if len > 0 {
        let fd = file.fd.load(Relaxed);
        if file.is_on() && !(is_recalled(file) && follow_offset(file, fd)) {
            file.leave_offset(fd);
        }
        file.error.store(0, Relaxed);
        inodes::wrote(file);
    }
    account(file, len, held);
    auto::end(file, Way::Write, began_ns, moved, file.append_bytes_max.load(Relaxed));
    Ok(())
}

/// Whether another process wants nothing of a file to wait any more.
fn is_recalled(file: &OpenFile) -> bool {
    file.entry().is_some_and(|entry| entry.is_recalled.load(SeqCst) != 0)
}

/// A write of such a file: all that waited is written, and the position is where the other one left it.
fn recalled(file: &'static OpenFile, fd: i32) -> Prepared {
    flush_all();
    if file.error.load(Relaxed) != 0 {
        return Prepared::Failed;
    }
    let _signals = SignalsBlocked::new();
    let held = file.hold();
    if file.is_on() && !held.nested {
        follow_offset(file, fd);
    }
    Prepared::Shared
}

/// Whether somebody else has moved the kernel's offset; a position that was there has moved with it. The
/// lock is held.
fn follow_offset(file: &OpenFile, fd: i32) -> bool {
    let Some(moved) = file.moved_offset(fd) else { return false };
    let position = file.take_position();
    // What the guard has written since ends there, or began.
    if position == file.kernel_at.load(Relaxed) || position == file.end.load(Relaxed) {
        file.position.store(moved, Relaxed);
    }
    true
}

/// What was pending up to `end` is in the file, or about to be said to be.
fn moved_past(file: &OpenFile, entry: &Entry, end: u64) {
    let trails = entry.place.load(Relaxed) != PLACE_BASE;
    file.end.store(end, Relaxed);
    if !trails && file.position.load(Relaxed) == AT_END {
        file.position.store(end, Relaxed);
    }
}

/// Writes `len` pending bytes where they belong.
fn write_pending(file: &OpenFile, entry: &Entry, base: u64, len: u64) -> Result<(), i32> {
    let fd = file.fd.load(Relaxed);
    let chunk = file.mapped_chunk.load(Relaxed) + chunk_start(base);
    let trails = entry.place.load(Relaxed) != PLACE_BASE;
    // Where the number means another file, a call made without libc changed it. The guard's pin still
    // leads to the right one.
    let status = status_if_of(fd, file).ok_or(libc::EBADF)?;
    file.before_ns.store(status.mtime_ns, Relaxed);
    if trails {
        store_status(entry, &status);
        entry.before.store(shared_offset(file).unwrap_or(status.size), Relaxed);
    }
    entry.flushing.store(1, SeqCst);
    match trails {
        true => write_behind(entry, fd, chunk, len),
        false => write_out(fd, chunk, len, base),
    }?;
    remember_status(entry, fd);
    Ok(())
}

/// Waits until the guard has given back what it took of a file. If it died meanwhile, its bytes are ours
/// again: they are in the file, or nobody has written to it since they were taken. Else somebody may
/// have stored something that follows from them, and they are not written here any more: whoever
/// finishes this process saves them beside.
fn wait_for_guard(file: &OpenFile, entry: &Entry) -> Result<(), i32> {
    if entry.flushing.load(Relaxed) == FLUSH_FAILED {
        return Err(libc::EIO);
    }
    if owner_of(entry.word.load(Relaxed)) != Owner::Guard {
        return Ok(());
    }
    pins::wait_until_given_back(entry);
    let word = entry.word.load(Acquire);
    if owner_of(word) != Owner::Guard {
        return Ok(());
    }
    let fd = file.fd.load(Relaxed);
    let status = status_if_of(fd, file);
    let is_unchanged = status.is_some_and(|status| is_as_left(&status, entry));
    let is_written = !is_unchanged && status.is_some() && holds_pending(file, entry, fd, word);
    if !is_unchanged && !is_written {
        pins::mark_failed(entry);
    }
    pending::take_back(&entry.word, word, is_written);
    match is_unchanged || is_written {
        true => Ok(()),
        false => Err(libc::EIO),
    }
}

/// Whether a file holds its pending bytes where they belong.
fn holds_pending(file: &OpenFile, entry: &Entry, fd: i32, word: u64) -> bool {
    if entry.place.load(Relaxed) != PLACE_BASE {
        return false;
    }
    let (base, len) = (entry.base.load(Relaxed), length_of(word));
    let chunk = file.mapped_chunk.load(Relaxed) + chunk_start(base);
    let mut done = 0;
    while done < len {
        let mut there = [0u8; 512];
        let wanted = (len - done).min(there.len() as u64) as usize;
        // SAFETY: a buffer of that size; the chunk holds `len` bytes.
        let same = unsafe {
            let answer = sys::read_at(fd, there.as_mut_ptr(), wanted, base + done);
            let ours = core::slice::from_raw_parts((chunk + done) as *const u8, wanted);
            answer == wanted as isize && there[..wanted] == *ours
        };
        if !same {
            return false;
        }
        done += wanted as u64;
    }
    true
}

/// What waits for a file could not be written. Nothing more is to wait: each write tries that again
/// first, and fails if it fails.
fn flush_failed(file: &OpenFile, errno: i32) {
    file.error.store(errno, Relaxed);
    file.note(Why::WriteFailed);
    file.chunk.store(0, Relaxed);
}

/// Before a file is settled: nothing waits any more, and an append that was interrupted starts
/// again. The lock is held.
pub fn settle_held(file: &'static OpenFile, held: &Held) {
    let Some(entry) = file.entry() else { return };
    if let Err(errno) = flush_held(file, held) {
        flush_failed(file, errno);
    }
    cancel_appends(file, entry, held);
    file.chunk.store(0, Relaxed);
}

/// Advances the generation although nothing is pending, so that an append that is under way (below
/// us, or in a thread from which the lock was taken over) starts again. What it committed in the
/// last moment is written out.
fn cancel_appends(file: &'static OpenFile, entry: &Entry, held: &Held) {
    while !pending::cancel(&entry.word) {
        if flush_held(file, held).is_err() {
            return;
        }
    }
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
pub fn hold_dirty() -> crate::lock::Held<'static> {
    hold(&DIRTY)
}

/// After a fork, in the child: nothing is pending, and no lock will be held.
pub fn forget_all() {
    DIRTY.store(0, Relaxed);
    DIRTY_FIRST.store(core::ptr::null_mut(), Relaxed);
    DIRTY_LAST.store(core::ptr::null_mut(), Relaxed);
    concerns::forget_pending();
    PUBLIC.store(0, Relaxed);
    for file in file::used() {
        file.entry.store(core::ptr::null_mut(), Relaxed);
        file.chunk.store(0, Relaxed);
        drop_chunk(file);
        file.dirty.store(0, Relaxed);
        file.error.store(0, Relaxed);
        file.pin.store(pin::NEVER, Relaxed);
    }
    pins::forget_all();
}

/// Lets go of the memory in which bytes of a file wait; none do.
fn drop_chunk(file: &OpenFile) {
    let (chunk, bytes) = (file.mapped_chunk.swap(0, Relaxed), file.mapped_bytes.load(Relaxed));
    if file.is_append_interrupted() {
        ledger::disconnect_chunk(chunk, bytes);
    } else {
        ledger::unmap_chunk(chunk, bytes);
    }
}

/// Gives every pin back: the process ends or becomes another program. All is settled.
pub fn leave() {
    if !pins::has_slot() {
        return;
    }
    let _signals = SignalsBlocked::new();
    for file in file::used() {
        if file.references.load(Relaxed) > 0 {
            if file.is_append_interrupted() {
                drop_chunk(file);
            }
            unpin(file);
        }
    }
    // What was closed is free when this process has ended, or is another program.
    pins::await_releases();
    pins::leave();
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

/// Whether any of these bytes wait for this very open file.
pub fn overlaps_pending(file: &OpenFile, at: u64, len: u64) -> bool {
    file.entry().is_some_and(|entry| {
        let base = entry.base.load(Relaxed);
        // Also what the guard has written meanwhile: a flush takes note of it.
        let end = base + length_of(entry.word.load(Relaxed));
        end > base && at < end && at.saturating_add(len) > base
    })
}

/// The status of a descriptor, if it still is one of this file.
fn status_if_of(fd: i32, file: &OpenFile) -> Option<sys::Status> {
    sys::status(fd).filter(|status| is_of(status, file))
}

/// Whether this is the status of this file.
fn is_of(status: &sys::Status, file: &OpenFile) -> bool {
    status.device == file.device.load(Relaxed) && status.inode == file.inode.load(Relaxed)
}

/// Whether waiting paid, and how much may wait next time.
fn account(file: &'static OpenFile, len: u64, held: &Held) {
    let appends = file.counted(Counter::Appends);
    let carried = appends - file.appends_before.swap(appends, Relaxed);
    let poor = if carried < policy::WRITES_WORTH { file.poor_flushes.load(Relaxed) + 1 } else { 0 };
    file.poor_flushes.store(poor, Relaxed);
    if poor >= policy::POOR_FLUSHES_MAX {
        detach(file, held);
        give_up(file, Why::NotWorthIt);
        return;
    }
    let max = file.append_bytes_max.load(Relaxed);
    if len + len / 8 >= max {
        file.append_bytes_max.store((max * 2).min(append_bytes_max(file)), Relaxed);
    }
    count_flushed(len);
    is_disk_nearly_full(file, held);
}

/// The most that may wait for a file, in bytes.
fn append_bytes_max(file: &OpenFile) -> u64 {
    // Wherever in a page the first byte lies, there is room.
    auto::append_bytes(file).min(file.mapped_bytes.load(Relaxed) - PAGE_BYTES)
}

/// The largest [`chunk_start`], rounded up: not the size of a page here, but of one that copies notice.
const PAGE_BYTES: u64 = 4096;

/// Positioned writes until all is written.
fn write_out(fd: i32, chunk: u64, len: u64, base: u64) -> Result<(), i32> {
    let mut done = 0;
    while done < len {
        // SAFETY: the chunk is mapped and holds `len` bytes.
        let answer = unsafe {
            sys::write_at(fd, (chunk + done) as *const u8, (len - done) as usize, base + done)
        };
        match sys::result(answer) {
            Ok(0) => return Err(libc::EIO),
            Ok(written) => done += written as u64,
            Err(sys::Errno(libc::EINTR)) => {}
            Err(sys::Errno(errno)) => return Err(errno),
        }
    }
    Ok(())
}

/// Where the next plain write of a file will probably go: where it was last seen to end, or where
/// the offset is that others share.
fn expected_place(file: &OpenFile, entry: &Entry) -> u64 {
    shared_offset(file).unwrap_or(entry.size.load(Relaxed))
}

/// The kernel's offset of a file from outside; `None` where the end of the file counts.
fn shared_offset(file: &OpenFile) -> Option<u64> {
    let counts = file.is_from_outside() && !appends(file);
    counts.then(|| sys::seek(file.fd.load(Relaxed), 0, libc::SEEK_CUR).max(0) as u64)
}

/// Plain writes, until all is written that has not arrived yet. One, but for a full disk: nobody
/// else's bytes come in between.
fn write_behind(entry: &Entry, fd: i32, chunk: u64, len: u64) -> Result<(), i32> {
    let mut arrived = entry.arrived.load(Relaxed);
    while arrived < len {
        // SAFETY: the chunk is mapped and holds `len` bytes.
        let answer =
            unsafe { sys::write(fd, (chunk + arrived) as *const u8, (len - arrived) as usize) };
        match sys::result(answer) {
            Err(sys::Errno(libc::EINTR)) => {}
            Ok(written @ 1..) => arrived += written as u64,
            failed => {
                entry.arrived.store(arrived, SeqCst);
                return Err(failed.err().map_or(libc::EIO, |sys::Errno(errno)| errno));
            }
        }
    }
    entry.arrived.store(arrived, SeqCst);
    Ok(())
}

/// Keeps size and times of the file as they are after a write of ours.
fn remember_status(entry: &Entry, fd: i32) {
    if let Some(status) = sys::status(fd) {
        store_status(entry, &status);
    }
}

fn store_status(entry: &Entry, status: &sys::Status) {
    entry.size.store(status.size, Relaxed);
    entry.mtime_ns.store(status.mtime_ns, Relaxed);
    entry.ctime_ns.store(status.ctime_ns, Relaxed);
}

fn has_space(file: &OpenFile) -> bool {
    let usual = process::buffer_bytes_max(file.buffer.load(Relaxed));
    let needed = usual.saturating_mul(policy::SPACE_BUFFERS).max(policy::SPACE_BYTES_MIN);
    look_for_space(file, file.fd.load(Relaxed)) > needed
}

/// Bytes that are free on the file system of a file.
fn look_for_space(file: &OpenFile, fd: i32) -> u64 {
    let free = sys::file_system(fd).map_or(0, |(_, free)| free);
    file.space_bytes.store(free, Relaxed);
    free
}

/// What this process has brought to files, a small flush as its part of [`policy::SPACE_CHECK_BYTES`].
#[unsafe(link_section = ".data")]
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Bytes went straight to a file, or were moved there inside the kernel.
pub fn written_straight(bytes: u64) {
    count(&WRITTEN, bytes);
}

/// A flush has written so many bytes.
fn count_flushed(len: u64) {
    let least = policy::SPACE_CHECK_BYTES / u64::from(policy::FLUSHES_PER_SPACE_CHECK);
    WRITTEN.fetch_add(len.max(least), Relaxed);
}

/// Whether free space is to be asked for: much was written since this file's last question, to whichever
/// file, as they may share their disk.
fn is_space_check_due(file: &OpenFile) -> bool {
    let turn = (WRITTEN.load(Relaxed) / policy::SPACE_CHECK_BYTES) as u32;
    file.space_asked.load(Relaxed) != turn && file.space_asked.swap(turn, Relaxed) != turn
}

/// Ends the waiting where the disk may be full soon. False: it was not asked, or there is room. Nothing
/// waits, and the lock is held.
fn is_disk_nearly_full(file: &OpenFile, held: &Held) -> bool {
    let is_full = is_space_check_due(file) && !has_space(file);
    if is_full {
        detach(file, held);
        give_up(file, Why::DiskNearlyFull);
    }
    is_full
}

/// Whether the file system lets the file grow so far beyond `position` that no write that waits could
/// meet its largest size. An offset that others share is left alone.
fn may_grow(file: &OpenFile, fd: i32, position: u64) -> bool {
    if file.is_from_outside()
        || position + file.mapped_bytes.load(Relaxed) <= file.grows_to.load(Relaxed)
    {
        return true;
    }
    let beyond = policy::SPACE_BYTES_MIN.max(append_bytes_max(file).saturating_mul(2));
    file.may_be_at(fd, position.saturating_add(beyond))
}

/// Whether what waits for a file cannot be written, tried again just now: then every read, write, sync
/// and close of it fails with that error, most as they would have failed natively, and nothing is
/// written that the waiting bytes could later overwrite.
pub fn failing(file: &OpenFile) -> Option<i32> {
    if file.error.load(Relaxed) == 0 {
        return None;
    }
    flush_all();
    match file.error.load(Relaxed) {
        0 => None,
        errno => Some(errno),
    }
}

/// The same for a descriptor, unless it means another file by now.
pub fn failing_descriptor(fd: i32) -> Option<i32> {
    let (file, _) = table::open_file(fd)?;
    let errno = failing(file)?;
    if sys::status(fd).is_some_and(|status| !is_of(&status, file)) {
        // As with `Prepared::Replaced`. What waits for the old file is the guard's.
        life::forget(fd);
        return None;
    }
    Some(errno)
}

/// At the end of the process: says which files have bytes that could not be written.
pub fn say_what_failed() {
    for entry in pins::unwritten() {
        let mut text = [0; sweetspot_core::ledger::TEXT_BYTES_MAX];
        let parts: [&[u8]; 3] = [
            b"sweetspot: ",
            entry.path.load(&mut text),
            b": the last bytes cannot be written; they are saved beside the file when this process \
              has ended\n",
        ];
        for part in parts {
            // SAFETY: memory of our own.
            unsafe { sys::syscall!(SYS_write, 2, part.as_ptr(), part.len()) };
        }
    }
}

/// Writes of this file go straight on from now on, at the position that is ours or the kernel's. The
/// lock is held and nothing is pending.
fn detach(file: &OpenFile, held: &Held) {
    if !held.nested {
        file.chunk.store(0, Relaxed);
        if file.is_trailing() {
            let learned = Learning(file.learned.load(Relaxed)).start_again();
            file.state.store(learned.0, Release);
        }
    }
}

fn give_up(file: &OpenFile, why: Why) {
    file.note(why);
    file.pin.store(pin::NEVER, Relaxed);
}

/// Another append held the lock and was perhaps left for good: writes out what it committed, and lets go
/// of its chunk without ever using it again. The lock is held.
pub fn abandon(file: &'static OpenFile) {
    let held = Held::assumed(file);
    settle_held(file, &held);
    detach(file, &held);
    core::mem::forget(held);
    file.pin.store(pin::NEVER, Relaxed);
    // Nor is its window's memory, into which the old owner may still be copying.
    let position = file.take_position();
    file.position.store(position, Relaxed);
    file.window_len.store(0, Relaxed);
    if file.buffer_bytes.swap(0, Relaxed) > 0 {
        inodes::window_closed(file);
    }
    if file.pending() == 0 {
        file.entry.store(core::ptr::null_mut(), Relaxed);
    }
}

/// Lets go of a file's entry: nothing is pending, or what is cannot be written.
pub fn unpin(file: &OpenFile) {
    let entry = file.entry.swap(core::ptr::null_mut(), Relaxed);
    file.chunk.store(0, Relaxed);
    // SAFETY: entries are in the ledger, which stays mapped.
    if let Some(entry) = unsafe { entry.as_ref() } {
        if waiting_of(entry.word.load(Relaxed)) > 0 {
            remember_status(entry, file.fd.load(Relaxed));
            pins::mark_failed(entry);
        }
        pins::release(Pinned {
            entry,
            chunk: file.mapped_chunk.swap(0, Relaxed),
            chunk_bytes: file.mapped_bytes.load(Relaxed),
        });
    }
    if file.pin.load(Relaxed) != pin::NEVER {
        file.pin.store(pin::NONE, Relaxed);
    }
}

/// A limit on the size of files was set: from now on each write must meet it by itself.
pub fn limits_changed() {
    if passive() || sys::file_size_unlimited() {
        return;
    }
    for fd in table::all() {
        let Some((file, _)) = table::open_file(fd) else { continue };
        if file.pin.load(Relaxed) == pin::NEVER {
            continue;
        }
        if give_handle_back(fd, file) {
            give_up(file, Why::FileSizeLimit);
        }
    }
}

/// Settles a file and has the guard let go of it; false: not now. Its writes may earn that anew.
pub fn give_handle_back(fd: i32, file: &'static OpenFile) -> bool {
    settle::settle(fd, settle::Next::Learn);
    let _signals = SignalsBlocked::new();
    let held = file.hold();
    let can = !held.nested && file.chunk.load(Relaxed) == 0;
    if can {
        unpin(file);
    }
    can
}

/// Whether at least twice as much should wait for a file as its chunk holds, which has been full. The
/// lock is held.
fn wants_more(file: &OpenFile) -> bool {
    let mapped_bytes = file.mapped_bytes.load(Relaxed);
    file.append_bytes_max.load(Relaxed) >= mapped_bytes.saturating_sub(PAGE_BYTES)
        && auto::chunk_bytes(file) >= mapped_bytes.saturating_mul(2)
}

/// Gives the chunk of a file back, in which nothing waits, and asks for a larger one. Writes go straight
/// on until that is there.
fn enlarge(file: &'static OpenFile, fd: i32) {
    if give_handle_back(fd, file) {
        let _signals = SignalsBlocked::new();
        let _registry = file::hold_registry();
        // Another thread may have been faster.
        if file.pin.load(Relaxed) == pin::NONE {
            ask(file, fd);
        }
    }
}

/// A chunk that was larger than usual was refused: the usual one is asked for, when that is earned.
fn be_modest(file: &'static OpenFile, refused: &'static Entry) {
    let _signals = SignalsBlocked::new();
    let _registry = file::hold_registry();
    if file.entry().is_some_and(|entry| core::ptr::eq(entry, refused)) {
        file.is_modest.store(1, Relaxed);
        unpin(file);
    }
}

/// Asks for a pin on a file that is open for writing. The registry is held.
fn ask(file: &'static OpenFile, fd: i32) {
    let flags = sys::open_flags(fd).unwrap_or(0);
    let special = libc::O_DIRECT | libc::O_PATH | libc::O_DSYNC | libc::O_SYNC;
    let buffer = match file.buffer.load(Relaxed) {
        BUFFER_OFF => ledger::buffer_for(fd),
        buffer => buffer,
    };
    let status = sys::status(fd).unwrap_or_default();
    file.device.store(status.device, Relaxed);
    file.inode.store(status.inode, Relaxed);
    file.buffer.store(buffer, Relaxed);
    file.private.store(u32::from(ledger::is_private(fd)), Relaxed);
    ledger::record(file, fd);
    let against = if super::process::shares_memory() && !file.is_private() {
        Some(Why::SharedMemory)
    } else if super::process::counts_writes() && !file.is_private() {
        Some(Why::Watched)
    } else if flags & special != 0 {
        Some(Why::OpenFlags)
    } else if !status.regular {
        Some(Why::NotRegular)
    } else if buffer == BUFFER_OFF {
        Some(Why::Off)
    } else if inodes::is_mapped(status.device, status.inode) {
        Some(Why::Mapped)
    } else if !sys::file_size_unlimited() {
        Some(Why::FileSizeLimit)
    } else {
        None
    };
    if let Some(why) = against {
        return give_up(file, why);
    }
    if auto::wants_more_than_usual(file) {
        look_for_space(file, fd);
    }
    let asked = pins::ask(&pins::Ask {
        fd,
        device: status.device,
        inode: status.inode,
        open_flags: flags as u32,
        place: place_for(file, flags),
        // A whole number of pages more than may wait, so that a power of two stays one.
        chunk_bytes: auto::chunk_bytes(file).max(2 * PAGE_BYTES),
    });
    match asked {
        Ok(pinned) => {
            file.mapped_chunk.store(pinned.chunk, Relaxed);
            file.mapped_bytes.store(pinned.chunk_bytes, Relaxed);
            file.entry.store((&raw const *pinned.entry).cast_mut(), Relaxed);
            file.flags.store(flags as u32, Relaxed);
            file.pin.store(pin::ASKED, Relaxed);
        }
        Err(pins::NotAsked::Yet) => {}
        Err(pins::NotAsked::Ever) => give_up(file, Why::NoGuard),
    }
}

/// Whether a larger chunk was asked for than is usual, for the first time.
fn is_large(file: &OpenFile, entry: &Entry) -> bool {
    let usual = process::buffer_bytes_max(file.buffer.load(Relaxed)).max(2 * PAGE_BYTES);
    file.is_modest.load(Relaxed) == 0 && entry.chunk_bytes.load(Relaxed) > usual
}

/// Where the writes of a file with these open flags go, as `Entry::place`.
fn place_for(file: &OpenFile, flags: i32) -> u32 {
    match flags & libc::O_APPEND {
        _ if file.is_from_outside() => PLACE_OFFSET,
        0 => PLACE_BASE,
        _ => PLACE_END,
    }
}

/// If the guard has pinned the file, lets its writes wait from now on. A pin is asked for only where
/// what stdio does is seen (`earn`).
fn attach(file: &'static OpenFile, fd: i32) {
    let Some(entry) = file.entry() else { return };
    match pins::answer(entry) {
        pins::Answer::Waiting => return,
        pins::Answer::Refused if is_large(file, entry) => return be_modest(file, entry),
        pins::Answer::Refused if file.is_from_outside() => return give_up(file, Why::NotCopied),
        pins::Answer::Refused => return give_up(file, Why::PinRefused),
        pins::Answer::Pinned => {}
    }
    let _signals = SignalsBlocked::new();
    let _registry = file::hold_registry();
    if super::process::forking() {
        return;
    }
    if file.chunk.load(Relaxed) != 0 {
        // Another thread was faster, and bytes may be waiting already.
        return;
    }
    // They may have been changed since the pin was asked for.
    let flags = sys::open_flags(fd).unwrap_or(0);
    file.flags.store(flags as u32, Relaxed);
    let trails = place_for(file, flags) != PLACE_BASE;
    let value = file.state.load(Relaxed);
    let on = value == table::ON;
    if on && trails {
        // The next write of what has a window settles it first.
        return;
    }
    if !on {
        let learning = Learning(value);
        let free = table::is_learning(value) && learning.under_way() == 0;
        if !free || !swap(&file.state, value, learning.with(Learning::LOCKED).0) {
            return;
        }
    }
    let held = file.hold();
    if !on && file.state.load(Relaxed) != Learning(value).with(Learning::LOCKED).0 {
        // Sent straight on by another thread, which is now at the kernel's offset.
        return;
    }
    let pinned = Pinned {
        entry,
        chunk: file.mapped_chunk.load(Relaxed),
        chunk_bytes: file.mapped_bytes.load(Relaxed),
    };
    let position = if trails { 0 } else { sys::seek(fd, 0, libc::SEEK_CUR) };
    let mapped = if held.nested || position < 0 { None } else { pins::map(pinned) };
    let attached = mapped.is_some_and(|pinned| {
        file.mapped_chunk.store(pinned.chunk, Relaxed);
        file.mapped_bytes.store(pinned.chunk_bytes, Relaxed);
        file.fd.store(fd, Relaxed);
        file.pin.store(pin::HELD, Relaxed);
        has_space(file)
    });
    if attached {
        fault::install();
        remember_status(entry, fd);
        entry.place.store(place_for(file, flags), Relaxed);
        let max = append_bytes_max(file);
        file.append_bytes_max.store(auto::append_bytes_first(file).min(max), Relaxed);
        file.appends_before.store(file.counted(Counter::Appends), Relaxed);
        if !on {
            file.learned.store(value, Relaxed);
            file.close_cursor();
            file.position.store(if trails { AT_END } else { position as u64 }, Relaxed);
            file.kernel_at.store(position as u64, Relaxed);
        }
        file.chunk.store(file.mapped_chunk.load(Relaxed), Relaxed);
        let state = if trails { table::TRAILING } else { table::ON };
        file.state.store(state, Release);
    } else {
        if !on {
            file.state.store(value, Release);
        }
        give_up(file, if mapped.is_some() { Why::DiskNearlyFull } else { Why::Budget });
    }
}

/// Writes at the position that is ours; `None` when it is ours no longer.
fn write_on(file: &'static OpenFile, fd: i32, buffer: *const u8, len: usize) -> Option<isize> {
    speak();
    let _signals = SignalsBlocked::new();
    let held = file.hold();
    if !file.is_on() || held.nested || file.pending() > 0 || appends(file) {
        return None;
    }
    let at = file.take_position();
    // Where the kernel knows the position, it is to know it afterwards, too: see `leave_offset`.
    let is_known = file.kernel_at.load(Relaxed) == at;
    // SAFETY: the kernel checks the program's memory.
    let answer = unsafe {
        match is_known {
            true => sys::write(fd, buffer, len),
            false => sys::write_at(fd, buffer, len, at),
        }
    };
    file.count(Counter::StraightWrites, 1);
    written_straight(answer.max(0) as u64);
    if answer > 0 {
        file.count(Counter::StraightWriteBytes, answer as u64);
        file.position.store(at + answer as u64, Relaxed);
        if is_known {
            file.kernel_at.store(at + answer as u64, Relaxed);
        }
        update_window(file, at, buffer, answer as u64);
        inodes::wrote(file);
    }
    file.reopen_cursor();
    if !is_known {
        file.leave_offset(fd);
    }
    Some(if answer < 0 { crate::fail(-answer as i32) } else { answer })
}

/// Puts bytes into the window, as far as it holds that part of the file. What lies beyond its end
/// is read when it is needed. The lock is held and the cursor closed.
fn update_window(file: &OpenFile, at: u64, buffer: *const u8, len: u64) {
    let (window_at, window_len) = (file.window_at.load(Relaxed), file.window_len.load(Relaxed));
    let (from, to) = (at.max(window_at), (at + len).min(window_at + window_len));
    if window_len == 0 || from >= to {
        return;
    }
    let target = file.window.load(Relaxed) + (from - window_at);
    // SAFETY: the window's side is valid; the program's side has just been read.
    let bad = unsafe {
        copy::copy(
            target as *mut u8,
            buffer.wrapping_add((from - at) as usize),
            (to - from) as usize,
        )
    };
    if bad {
        file.window_len.store(0, Relaxed);
    }
}

/// Whether a learning descriptor has made enough small writes for `earn`.
pub fn earned(learning: Learning, file: Option<&OpenFile>) -> bool {
    let writes = learning.small_writes();
    let Some(file) = file else {
        return writes >= WRITES_TO_BE_KNOWN && inodes::any_window()
            || writes == policy::WRITES_TO_EARN;
    };
    match file.pin.load(Relaxed) {
        pin::NONE => writes >= policy::WRITES_TO_EARN,
        // Until there is an answer, it costs no system call to wait for it.
        pin::ASKED => {
            file.entry().is_none_or(|entry| !matches!(pins::answer(entry), pins::Answer::Waiting))
        }
        pin::HELD => writes >= policy::WRITES_TO_EARN_AGAIN,
        _ => false,
    }
}

/// Small writes were seen: know the inode, so that they disturb only windows of their own file; ask
/// for a pin; let writes wait.
pub fn earn(fd: i32) {
    let Some(word) = table::learning_word(fd) else { return };
    let writes = Learning(word.load(Relaxed)).small_writes();
    let wanted = writes >= policy::WRITES_TO_EARN || inodes::any_window();
    if !wanted && table::open_file(fd).is_none() {
        return;
    }
    if writes >= policy::WRITES_TO_EARN && !super::process::can_buffer() {
        return;
    }
    let signals = SignalsBlocked::new();
    let registry = file::hold_registry();
    let Some(file) = transition::make_known(fd, &registry) else { return };
    if file.pin.load(Relaxed) == pin::NONE && writes >= policy::WRITES_TO_EARN {
        ask(file, fd);
        if file.pin.load(Relaxed) == pin::NONE {
            // The guard is still starting: after as many writes once more.
            let value = file.state.load(Relaxed);
            if table::is_learning(value) {
                swap(&file.state, value, Learning(value).start_again().0);
            }
        }
    }
    drop(registry);
    drop(signals);
    if may_wait(file) {
        attach(file, fd);
    }
}

/// Whether writes to a file wait, or may begin to.
pub fn may_wait(file: &OpenFile) -> bool {
    matches!(file.pin.load(Relaxed), pin::ASKED | pin::HELD)
}

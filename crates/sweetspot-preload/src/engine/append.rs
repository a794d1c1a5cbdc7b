//! Appends: the bytes of a write are copied behind those that wait already, and one swap makes it
//! happen.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use sweetspot_core::ledger::{Counter, Entry};
use sweetspot_core::pending::{self, length_unless_owned};
use sweetspot_core::size::BUFFER_BYTES_MAX;

use super::file::{AT_END, CLOSED, OpenFile, Way};
use super::{Kind, Pass, entries, lane, ledger, table, vector};
use crate::floor::atomic::{single_threaded, swap};
use crate::floor::copy;
use crate::floor::signals::SignalsBlocked;

/// Whether a write of `len` bytes may wait without a look at anything else than this file.
#[inline(always)]
pub(super) fn is_append_due(file: &OpenFile, len: u64, way: Way) -> bool {
    // Longer ones never wait, and some are longer than any sum.
    let is_small = len.wrapping_sub(1) < BUFFER_BYTES_MAX;
    is_small && file.attachment.waits() && way.tick() && entries::guarded()
}

/// Why a write did not begin to wait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Something has to be done first, or came in between.
    NotReady,
    /// The program's bytes cannot be read: the kernel knows what to say.
    BadAddress,
}

/// Lets a write wait in the ledger.
pub(super) fn append(append: Append, way: Way) -> Result<(), Refused> {
    let file = append.file;
    if !is_append_due(file, append.len, way) || !file.enter_append() {
        return Err(Refused::NotReady);
    }
    let note_order = |entry: &Entry| note_order(file, entry);
    let is_in_place = append.take_place();
    let committed =
        if is_in_place { append.commit(way, note_order) } else { Err(Refused::NotReady) };
    if let Ok(committed) = &committed
        && file.window_len.load(Relaxed) != 0
    {
        write_through(file, committed, append.len);
    }
    let threads = file.leave_append();
    if committed.is_ok() {
        file.count_call(threads, Counter::Appends, Counter::AppendBytes, append.len);
        if file.window_len.load(Relaxed) == 0 {
            // The next one may follow at once.
            lane::open(append.word);
        }
    }
    committed.map(|_| ())
}

/// A write that is to wait behind what waits already. The file's lock is held by it, and signals are not
/// blocked: see `file`.
#[derive(Clone, Copy)]
pub(super) struct Append {
    pub(super) file: &'static OpenFile,
    /// What the descriptor means.
    pub(super) word: u64,
    pub(super) fd: i32,
    pub(super) source: Source,
    pub(super) len: u64,
}

/// Where the program has the bytes of a write.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Buffer(*const u8),
    /// Its pieces, so many.
    Vector(*const libc::iovec, i32),
}

impl Append {
    /// The same as a call that passes through.
    pub(super) fn pass(&self) -> Pass {
        Pass { kind: Kind::Write, fd: self.fd, len: self.len }
    }

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
        file.dirty.is_in()
            && file.window_at.load(Relaxed) + (at & CLOSED) == end
            && swap(&file.position, stored, AT_END)
            && swap(&file.cursor, at, next_closed(at))
    }

    /// Copies the bytes behind what waits, and makes them part of it: where they stand.
    /// `before_it` is called when they are copied. Where it is refused, nothing has happened.
    ///
    /// Whatever comes in between (a handler that flushes, a thread that takes the lock over, the
    /// guard) changes the entry's word, which is read before anything that it could change.
    #[inline(always)]
    pub(super) fn commit(
        &self,
        way: Way,
        before_it: impl Fn(&Entry),
    ) -> Result<Committed, Refused> {
        let file = self.file;
        if !table::means(self.fd, self.word) {
            return Err(Refused::NotReady);
        }
        let write_buffer = file.attachment.write_buffer();
        let (Some(entry), true) = (file.entry(), write_buffer != 0) else {
            return Err(Refused::NotReady);
        };
        let before = entry.word.load(Relaxed);
        let pending = length_unless_owned(before);
        let fits = pending + self.len <= file.append_bytes_max.load(Relaxed);
        if !fits || !file.dirty.is_in() {
            return Err(Refused::NotReady);
        }
        let end = entry.base.load(Relaxed).wrapping_add(pending);
        let is_at_end =
            file.cursor.load(Relaxed) & CLOSED == CLOSED && file.position.load(Relaxed) == AT_END;
        if !is_at_end {
            return Err(Refused::NotReady);
        }
        let (to, len) = ((write_buffer + pending) as *mut u8, self.len as usize);
        // SAFETY: the write buffer has room, as checked; the program's side may be anything.
        let is_bad = unsafe {
            match self.source {
                Source::Buffer(buffer) => way.fetch(to, buffer, len),
                Source::Vector(vector, count) => !vector::take(to, vector, count, len),
            }
        };
        if is_bad {
            return Err(Refused::BadAddress);
        }
        before_it(entry);
        // From here the write has happened.
        let has_happened = pending::Word::swap(&entry.word, before, before + self.len);
        let committed = Committed { at: end, bytes: write_buffer + pending };
        has_happened.then_some(committed).ok_or(Refused::NotReady)
    }
}

/// Bytes that an append has made wait. They stay there while it holds the file's lock, no matter who writes them out.
pub(super) struct Committed {
    /// Where in the file they are.
    at: u64,
    /// Their address in the write buffer. The program's own may be others by now: a thread writes there.
    bytes: u64,
}

/// The file that was written to last, so that the order of files is only looked after where it changes.
#[unsafe(link_section = ".data")]
pub(super) static LAST_WRITTEN: AtomicPtr<OpenFile> = AtomicPtr::new(core::ptr::null_mut());

/// Before a write of this file waits: it is now the last one in the order of all.
#[inline(always)]
fn note_order(file: &OpenFile, entry: &Entry) {
    if !core::ptr::eq(LAST_WRITTEN.load(Relaxed), file) {
        stamp_order(file, entry);
    }
}

#[cold]
pub(super) fn stamp_order(file: &OpenFile, entry: &Entry) {
    lane::close();
    LAST_WRITTEN.store((&raw const *file).cast_mut(), Relaxed);
    if let Some(ledger) = ledger::ledger() {
        entry.order.store(ledger.header.order.fetch_add(1, Relaxed) + 1, Relaxed);
        entry.written_ns.store(crate::floor::clock::wall_ns(), Relaxed);
    }
}

/// The closed cursor of the generation after `at`.
fn next_closed(at: u64) -> u64 {
    ((at >> 32).wrapping_add(1) << 32) | CLOSED
}

/// Puts bytes that were just made to wait into the window, and the position back into it. The lock is held by the
/// append, and the cursor closed.
fn write_through(file: &'static OpenFile, committed: &Committed, len: u64) {
    // A handler might give the window up, and another file take its memory. Beside other threads it is put off.
    let is_alone = single_threaded();
    let _handlers = is_alone.then(SignalsBlocked::deferring);
    // No positioned hit meanwhile, nor one of another thread that has found the window fresh.
    let epoch = file.epoch.swap(0, Relaxed);
    if !is_alone {
        file.close_cursor();
    }
    let (at, closed) = (committed.at, file.cursor.load(Relaxed));
    update_window(file, at, committed.bytes as *const u8, len);
    file.epoch.store(epoch, Relaxed);
    let cursor = (at + len).wrapping_sub(file.window_at.load(Relaxed));
    if cursor <= file.window_len.load(Relaxed) {
        // Fails if a handler came in between: then the position stays where it is said to be.
        swap(&file.cursor, closed, ((closed >> 32) << 32) | cursor);
    }
}

/// Puts bytes into the window, as far as it holds that part of the file. What lies beyond its end
/// is read when it is needed. The lock is held and the cursor closed.
#[inline(never)]
fn update_window(file: &OpenFile, at: u64, buffer: *const u8, len: u64) {
    let (window_at, window_len) = (file.window_at.load(Relaxed), file.window_len.load(Relaxed));
    let (from, to) = (at.max(window_at), (at + len).min(window_at + window_len));
    if window_len == 0 || from >= to {
        return;
    }
    let target = file.window.load(Relaxed) + (from - window_at);
    // SAFETY: the window's side is valid; the program's side has just been read.
    let bad = unsafe {
        copy::fetch(
            target as *mut u8,
            buffer.wrapping_add((from - at) as usize),
            (to - from) as usize,
        )
    };
    if bad {
        file.window_len.store(0, Relaxed);
    }
}

/// Puts bytes that are about to be written at `at` into the window, if it holds all of that place: where they are to be
/// written from, as another thread may change the program's own meanwhile. The lock is held and the cursor closed.
pub(super) fn put_into_window(
    file: &OpenFile,
    at: u64,
    buffer: *const u8,
    len: u64,
) -> Option<*const u8> {
    let in_window = at.wrapping_sub(file.window_at.load(Relaxed));
    let room = file.window_len.load(Relaxed).checked_sub(in_window)?;
    if len > room || len == 0 {
        return None;
    }
    update_window(file, at, buffer, len);
    let is_there = file.window_len.load(Relaxed) != 0;
    is_there.then(|| (file.window.load(Relaxed) + in_window) as *const u8)
}

/// From `at` on, the window is not as the file is any more, if it holds anything of these bytes there. The lock is held
/// and the cursor closed.
pub(super) fn cut_window(file: &OpenFile, at: u64, len: u64) {
    let (window_at, window_len) = (file.window_at.load(Relaxed), file.window_len.load(Relaxed));
    if at < window_at + window_len && at.saturating_add(len) > window_at {
        file.window_len.store(at.saturating_sub(window_at), Relaxed);
    }
}

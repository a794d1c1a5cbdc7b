//! Writing out what is pending for one file, where it belongs; and what becomes of it where that fails.
//!
//! Not here: which files, and in which order (`dirty`).
#![allow(unsafe_code)]

mod pieces;
mod taken;

use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

use sweetspot_core::append;
use sweetspot_core::ledger::{Counter, Entry, Way, write_buffer_start};
use sweetspot_core::pending::{self, Found, Owner, length_of, owner_of};
use sweetspot_core::unwritten::{FLUSH_BEGUN, FLUSH_TRIED, Left};
use sweetspot_core::why::Why;

use self::pieces::{Pieces, write_all};
use self::taken::wait_for_guard;
use super::file::{AT_END, Held, OpenFile, Placement};
use super::handle::{detach, give_up};
use super::patience::await_later_times;
use super::space::{append_bytes_max, count_flushed, is_disk_nearly_full, is_limited};
use super::{auto, concerns, entries, inodes};
use crate::floor::{clock, sys};

/// Writes out what is pending for one file. Its lock is held.
pub(super) fn flush_held(file: &'static OpenFile, held: &Held) -> Result<(), i32> {
    let Some(entry) = file.entry() else { return Ok(()) };
    wait_for_guard(file, entry)?;
    let base = entry.base.load(Relaxed);
    let began_ns = auto::begin(file, Way::Write, length_of(entry.word.load(Relaxed)));
    // What the guard has written in the meantime is behind us, as after a flush of our own. The end of
    // what is pending is about to lose its meaning.
    entry.flusher.store(sys::thread_id() as u32, Relaxed);
    let word = entry.word.load(Relaxed);
    if owner_of(word) == Owner::Returned {
        moved_past(file, entry, base + length_of(word));
    }
    let mut moved = 0;
    let len = match pending::begin_flush(&entry.word, word) {
        Found::Begun(word) => {
            let len = length_of(word);
            moved = len;
            let written = write_pending(file, entry, len, began_ns);
            match written {
                Ok(()) => moved_past(file, entry, base + len),
                Err(_) => put_off(file, began_ns),
            }
            // From here the flush has happened, or did not.
            pending::end_flush(&entry.word, word, written.is_ok());
            written?;
            entry.flushing.store(0, SeqCst);
            entry.arrived.store(0, Relaxed);
            file.count(Counter::Flushes, 1);
            file.count(Counter::FlushBytes, len);
            len
        }
        Found::Returned(word) => {
            entry.arrived.store(0, Relaxed);
            follow_end(file, entry);
            length_of(word)
        }
        // Taken since: the process has been quiet all the while and this is its next call, or another one has asked
        // for what waits.
        Found::Guard(_) => return flush_held(file, held),
        // Nothing is committed yet, but an append that a handler interrupted may be about to, at what
        // is then no longer the position: it starts again.
        Found::Nothing => {
            if !file.is_append_placed() && file.position.load(Relaxed) == AT_END {
                file.position.store(file.end.load(Relaxed), Relaxed);
            }
            0
        }
    };
    if len > 0 {
        note_written(file);
    }
    let ended_ns = auto::now_ns();
    account(file, len, ended_ns.saturating_sub(began_ns), held);
    let chosen_bytes = file.append_bytes_max.load(Relaxed);
    auto::end(file, Way::Write, (began_ns, ended_ns), moved, chosen_bytes);
    Ok(())
}

/// All that waited is in the file.
fn note_written(file: &OpenFile) {
    let fd = file.fd.load(Relaxed);
    if file.is_on() && !(is_recalled(file) && follow_offset(file, fd)) {
        file.leave_offset(fd);
    }
    if file.error.swap(0, Relaxed) != 0 {
        inodes::is_written_again();
    }
    inodes::wrote(file);
}

/// The guard has appended by a description of its own: the offset of this one is where that ended, as after a write.
fn follow_end(file: &OpenFile, entry: &Entry) {
    let (ended, fd) = (entry.ended.swap(0, Relaxed), file.fd.load(Relaxed));
    if ended != 0 && !is_another(fd, sys::status(fd).as_ref(), file) {
        sys::seek(fd, ended as i64, libc::SEEK_SET);
    }
}

/// Whether another process wants nothing of a file to wait any more.
pub(super) fn is_recalled(file: &OpenFile) -> bool {
    file.entry().is_some_and(|entry| entry.is_recalled.load(SeqCst) != 0)
}

/// Whether somebody else has moved the kernel's offset; a position that was there has moved with it. The
/// lock is held.
pub(super) fn follow_offset(file: &OpenFile, fd: i32) -> bool {
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
    let is_append = Placement::of_entry(entry).is_append();
    file.end.store(end, Relaxed);
    if !is_append && file.position.load(Relaxed) == AT_END {
        file.position.store(end, Relaxed);
    }
}

/// An attempt that began then has failed.
fn put_off(file: &OpenFile, began_ns: u64) {
    let ended_ns = auto::now_ns();
    let took_ns = if began_ns == 0 { 0 } else { ended_ns.saturating_sub(began_ns) };
    let is_slow = took_ns >= SLOW_NS_MIN;
    let again_ns = if is_slow { ended_ns.saturating_add(took_ns * RETRY_SHARE) } else { 0 };
    file.retry_ns.store(again_ns, Relaxed);
}

/// Writes `len` pending bytes where they belong.
fn write_pending(file: &OpenFile, entry: &Entry, len: u64, began_ns: u64) -> Result<(), i32> {
    let fd = file.fd.load(Relaxed);
    let write_buffer = file.attachment.mapped().0 + write_buffer_start(entry.base.load(Relaxed));
    let is_append = Placement::of_entry(entry).is_append();
    let status = match entry.flushing.load(Relaxed) {
        0 => file.status(fd),
        // It was tried before, and its times say whether it may be tried again.
        _ => sys::status(fd),
    };
    if is_another(fd, status.as_ref(), file) {
        // The guard's handle still leads to the right one.
        return Err(libc::EBADF);
    }
    if is_limited() {
        // The guard could not write it, either.
        return Err(told(file, entry));
    }
    let now = status.map(|status| status.left());
    // Asked once: who shares it may move it between two looks.
    let offset = shared_offset(file);
    if !entry.may_be_written_to(now) || !is_left_as_tried(file, entry, offset) {
        entries::mark_failed(entry);
        return Err(told(file, entry));
    }
    let now = now.unwrap_or(entry.left());
    file.before_ns.store(now.mtime_ns, Relaxed);
    if is_append {
        entry.note_left(now);
        entry.before.store(offset.unwrap_or(now.size), Relaxed);
    }
    let arrived = entry.arrived.load(Relaxed);
    let resumed = offset.filter(|_| entry.flushing.load(Relaxed) == FLUSH_TRIED);
    entry.begun_ns.store(clock::fine_wall_ns(), Relaxed);
    entry.flushing.store(FLUSH_BEGUN, SeqCst);
    // What comes before a broken place arrived the first time.
    let smallest = if file.error.load(Relaxed) == 0 { 1 } else { len };
    let pieces = Pieces { len, smallest, began_ns };
    let met = match is_append {
        true => write_behind(entry, fd, write_buffer, pieces, resumed),
        false => write_out(entry, fd, write_buffer, pieces),
    };
    match met {
        Ok(met) => {
            if met != 0 {
                file.close_error.store(met, Relaxed);
            }
            entry.note_left(file.status(fd).map_or(now, |status| status.left()));
            Ok(())
        }
        Err(errno) => {
            let left = sys::status(fd).map_or(now, |status| status.left());
            entry.note_tried(left);
            if let Some(at) = offset {
                entry.note_stopped_at(at + (entry.arrived.load(Relaxed) - arrived));
            }
            tell_from_later(left);
            Err(errno)
        }
    }
}

/// Whether the description of a file is as an attempt that failed has left it: the rest would go elsewhere. Who shares it
/// (a child) may have moved its offset, or set whether it appends.
fn is_left_as_tried(file: &OpenFile, entry: &Entry, offset: Option<u64>) -> bool {
    if entry.flushing.load(Relaxed) != FLUSH_TRIED {
        return true;
    }
    let flags = sys::open_flags(file.fd.load(Relaxed)).unwrap_or(0);
    (flags & libc::O_APPEND != 0) == file.appends()
        && offset.is_none_or(|at| entry.may_go_on_at(at))
}

/// An attempt that has failed is made again, for calls that have nothing to do with it, when so many times as long has
/// passed as it took: they are held up for no larger part of the time.
const RETRY_SHARE: u64 = 16;
/// An attempt that takes less is repeated by each call, in nanoseconds: what follows may have made room.
const SLOW_NS_MIN: u64 = 50_000_000;

/// The error of what could not be written.
fn told(file: &OpenFile, entry: &Entry) -> i32 {
    let of_guard = entry.close_error.load(Relaxed) as i32;
    [file.error.load(Relaxed), of_guard].into_iter().find(|errno| *errno != 0).unwrap_or(libc::EIO)
}

/// How often a process waits for times that tell a failed attempt from what is done after it. Not for ever in a program
/// that ignores its errors.
const LATER_TIMES_MAX: u32 = 16;

/// What is done after a failed attempt is to be told from what that left.
fn tell_from_later(left: Left) {
    static WAITED: AtomicU32 = AtomicU32::new(0);
    if WAITED.fetch_add(1, Relaxed) < LATER_TIMES_MAX {
        await_later_times(left);
    }
}

/// Whether a flush has ever failed here.
#[unsafe(link_section = ".data")]
static ANY_FAILED: AtomicBool = AtomicBool::new(false);

/// See `ANY_FAILED`.
pub fn any_failed() -> bool {
    ANY_FAILED.load(Relaxed)
}

/// What waits for a file could not be written. Nothing more is to wait: each write tries that again
/// first, and fails if it fails.
pub(super) fn flush_failed(file: &OpenFile, errno: i32) {
    ANY_FAILED.store(true, Relaxed);
    concerns::set(concerns::FAILED);
    // A descriptor that is not the file's any more, or of which the kernel tells nothing, says nothing of the file.
    if file.error.swap(errno, Relaxed) == 0 && errno != libc::EBADF {
        // Also if all is written before the program was told: a file system may report what was lost before,
        // and only once.
        file.close_error.store(errno, Relaxed);
    }
    file.note(Why::WriteFailed);
    file.attachment.pass_through();
}

/// The first step of quiescing a file: afterwards nothing waits, and an append that was interrupted
/// starts again. The lock is held.
pub fn drain_held(file: &'static OpenFile, held: &Held) {
    let Some(entry) = file.entry() else { return };
    if let Err(errno) = flush_held(file, held) {
        flush_failed(file, errno);
    }
    cancel_appends(file, entry, held);
    file.attachment.pass_through();
}

/// Advances the generation although nothing is pending, so that an append in flight (below us, or in a
/// thread from which the lock was taken over) starts again. What it committed in the last moment is
/// written out.
fn cancel_appends(file: &'static OpenFile, entry: &Entry, held: &Held) {
    while !pending::cancel(&entry.word) {
        if flush_held(file, held).is_err() {
            return;
        }
    }
}

/// Whether any of these bytes follow from what waits for this very open file: they wait themselves, or lie between
/// the end of the file and what waits beyond it.
pub fn overlaps_pending(file: &OpenFile, at: u64, len: u64) -> bool {
    file.entry().is_some_and(|entry| {
        let base = entry.base.load(Relaxed);
        // Also what the guard has written meanwhile: a flush takes note of it.
        let end = base + length_of(entry.word.load(Relaxed));
        // As it was when they began to wait.
        let file_end = entry.size.load(Relaxed);
        end > base && at < end && at.saturating_add(len) > base.min(file_end)
    })
}

/// The status of a descriptor, if it still is one of this file.
pub(super) fn status_if_of(fd: i32, file: &OpenFile) -> Option<sys::Status> {
    sys::status(fd).filter(|status| !is_another(fd, Some(status), file))
}

/// Whether a descriptor of this status means another file by now: a call made without libc changed it. A server in
/// user space may tell nothing of a file that is open (it was removed), or give it another number.
pub(super) fn is_another(fd: i32, status: Option<&sys::Status>, file: &OpenFile) -> bool {
    match status {
        None => sys::open_flags(fd).is_none(),
        Some(status) if is_of(status, file) => false,
        Some(status) => {
            let is_fuse = || sys::file_system(fd).is_some_and(|file_system| file_system.is_fuse());
            status.device != file.device.load(Relaxed) || !is_fuse()
        }
    }
}

/// Whether this is the status of this file.
pub(super) fn is_of(status: &sys::Status, file: &OpenFile) -> bool {
    status.device == file.device.load(Relaxed) && status.inode == file.inode.load(Relaxed)
}

/// Whether waiting paid, and how much may wait next time.
fn account(file: &'static OpenFile, len: u64, took_ns: u64, held: &Held) {
    let appends = file.counted(Counter::Appends);
    let carried = appends - file.appends_before.swap(appends, Relaxed);
    let mut pattern = append::Pattern {
        bytes_max: file.append_bytes_max.load(Relaxed),
        poor: file.poor_flushes.load(Relaxed),
    };
    let flush = append::Flush { len, carried, took_ns };
    let why = pattern.flushed(flush, append_bytes_max(file));
    file.poor_flushes.store(pattern.poor, Relaxed);
    if let Some(why) = why {
        detach(file, held);
        give_up(file, why);
        return;
    }
    file.append_bytes_max.store(pattern.bytes_max, Relaxed);
    count_flushed(len);
    is_disk_nearly_full(file, held);
}

/// Positioned writes until all is written that has not arrived yet: what has somebody may have changed since. The answer
/// is that of [`write_all`].
fn write_out(entry: &Entry, fd: i32, write_buffer: u64, pieces: Pieces) -> Result<i32, i32> {
    let (base, mut done) = (entry.base.load(Relaxed), entry.arrived.load(Relaxed));
    let write = |at: u64, most: u64| {
        // SAFETY: the write buffer is mapped and holds `len` bytes.
        unsafe { sys::write_at(fd, (write_buffer + at) as *const u8, most as usize, base + at) }
    };
    let written = write_all(&mut done, pieces, write);
    if written.is_err() {
        entry.arrived.store(done, SeqCst);
    }
    written
}

/// Where the next plain write of a file will probably go: where it was last seen to end, or where
/// the offset is that others share.
pub(super) fn expected_place(file: &OpenFile, entry: &Entry) -> u64 {
    shared_offset(file).unwrap_or(entry.size.load(Relaxed))
}

/// The kernel's offset of a file from outside; `None` where the end of the file counts.
fn shared_offset(file: &OpenFile) -> Option<u64> {
    let counts = file.is_from_outside() && !file.appends();
    counts.then(|| sys::seek(file.fd.load(Relaxed), 0, libc::SEEK_CUR).max(0) as u64)
}

/// Plain writes, until all is written that has not arrived yet. One, but for a full disk: nobody
/// else's bytes come in between. `resumed`: the offset at which an earlier attempt stopped. Who shares it may move it
/// at any time, so the rest goes to that place, and then the offset behind it, if it is still there.
fn write_behind(
    entry: &Entry,
    fd: i32,
    write_buffer: u64,
    pieces: Pieces,
    resumed: Option<u64>,
) -> Result<i32, i32> {
    let begun = entry.arrived.load(Relaxed);
    let mut arrived = begun;
    let write = |at: u64, most: u64| {
        let from = (write_buffer + at) as *const u8;
        match resumed {
            // SAFETY: the write buffer is mapped and holds `len` bytes.
            Some(offset) => unsafe {
                sys::write_at(fd, from, most as usize, offset + (at - begun))
            },
            // SAFETY: as above.
            None => unsafe { sys::write(fd, from, most as usize) },
        }
    };
    let written = write_all(&mut arrived, pieces, write);
    entry.arrived.store(arrived, SeqCst);
    if let Some(offset) = resumed.filter(|_| arrived > begun)
        && sys::seek(fd, 0, libc::SEEK_CUR) as u64 == offset
    {
        sys::seek(fd, (offset + (arrived - begun)) as i64, libc::SEEK_SET);
    }
    written
}

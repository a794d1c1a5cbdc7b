//! What the guard has taken of a file: waiting for that, and what has come of it where the guard was killed meanwhile.
#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use sweetspot_core::ledger::{Entry, write_buffer_start};
use sweetspot_core::pending::{self, Owner, length_of, owner_of};
use sweetspot_core::unwritten::{FLUSH_BEGUN, FLUSH_FAILED};

use super::{shared_offset, status_if_of, told};
use crate::engine::entries;
use crate::engine::file::{OpenFile, Placement};
use crate::floor::sys;

/// Waits until the guard has given back what it took of a file. If it died meanwhile, its bytes are ours
/// again: they are in the file, or nobody has written to it since they were taken. Else somebody may
/// have stored something that follows from them, and they are not written here any more: anyone who
/// finishes this process saves them beside.
pub(super) fn wait_for_guard(file: &OpenFile, entry: &Entry) -> Result<(), i32> {
    if entry.flushing.load(Relaxed) == FLUSH_FAILED {
        return Err(told(file, entry));
    }
    if owner_of(entry.word.load(Relaxed)) != Owner::Guard {
        return Ok(());
    }
    entries::wait_until_given_back(entry);
    let word = entry.word.load(Acquire);
    if owner_of(word) != Owner::Guard {
        return Ok(());
    }
    let fd = file.fd.load(Relaxed);
    let status = status_if_of(fd, file);
    let is_unchanged = status.is_some_and(|status| entry.is_left_as(status.left()));
    let now = status.filter(|now| !is_unchanged && holds_pending(file, entry, now, word));
    let is_written = now.is_some();
    let cut = || arrived_in_cut_write(file, entry, &status?, length_of(word));
    let arrived = match is_unchanged || is_written {
        true => Some(entry.arrived.load(Relaxed)),
        false => cut(),
    };
    match (now, arrived) {
        (Some(now), _) => {
            entry.note_left(now.left());
            entry.flushing.store(0, SeqCst);
        }
        (None, Some(arrived)) => entry.arrived.store(arrived, Relaxed),
        (None, None) => entries::mark_failed(entry),
    }
    pending::take_back(&entry.word, word, is_written);
    arrived.map(drop).ok_or(libc::EIO)
}

/// Whether a file holds its pending bytes where they belong: what is added, where the guard said that it was about
/// to write it.
fn holds_pending(file: &OpenFile, entry: &Entry, now: &sys::Status, word: u64) -> bool {
    let (fd, is_append) = (file.fd.load(Relaxed), Placement::of_entry(entry).is_append());
    let (at, done) = match is_append {
        false => (entry.base.load(Relaxed), entry.arrived.load(Relaxed)),
        true if entry.flushing.load(Relaxed) == FLUSH_BEGUN => {
            let arrived = entry.arrived.load(Relaxed);
            (entry.before.load(Relaxed).wrapping_sub(arrived), arrived)
        }
        true => return false,
    };
    let len = length_of(word);
    if done < len && is_append && is_write_only(fd) {
        // It may not be read: what came was the guard's, if nobody else wrote.
        return shared_offset(file).unwrap_or(now.size) == at.wrapping_add(len);
    }
    holds(file, entry, at, done..len)
}

/// How much is there of what goes to its own place, where the guard was killed in the middle of its write; what is left
/// may be written. `None`: somebody else may have written, too. As `recover` proves it: the file ends within that, and
/// holds what comes before its end, as far as it may be read; or it was last modified when that write began.
fn arrived_in_cut_write(
    file: &OpenFile,
    entry: &Entry,
    now: &sys::Status,
    len: u64,
) -> Option<u64> {
    let fd = file.fd.load(Relaxed);
    if Placement::of_entry(entry).is_append() || entry.flushing.load(Relaxed) != FLUSH_BEGUN {
        return None;
    }
    let (base, before) = (entry.base.load(Relaxed), entry.size.load(Relaxed));
    let arrived = entry.arrived.load(Relaxed);
    let grown = now.size.checked_sub(base).filter(|_| now.size > before);
    if let Some(come) = grown.filter(|come| (arrived..=len).contains(come))
        && (is_write_only(fd) || holds(file, entry, base, arrived..come))
    {
        return Some(come);
    }
    let is_its_write = (before..=before.max(base + len)).contains(&now.size)
        && entry.was_begun_at(now.mtime_ns)
        && !file.is_served(fd);
    is_its_write.then_some(arrived)
}

fn is_write_only(fd: i32) -> bool {
    sys::open_flags(fd).is_some_and(|flags| flags & libc::O_ACCMODE == libc::O_WRONLY)
}

/// Whether a file holds these of the bytes that wait, the first of which belongs at `at`.
fn holds(file: &OpenFile, entry: &Entry, at: u64, bytes: Range<u64>) -> bool {
    let fd = file.fd.load(Relaxed);
    let write_buffer = file.attachment.mapped().0 + write_buffer_start(entry.base.load(Relaxed));
    let Range { start: mut done, end: len } = bytes;
    while done < len {
        let mut there = [0u8; 512];
        let wanted = (len - done).min(there.len() as u64) as usize;
        // SAFETY: a buffer of that size; the write buffer holds `len` bytes.
        let same = unsafe {
            let answer = sys::read_at(fd, there.as_mut_ptr(), wanted, at.wrapping_add(done));
            let ours = core::slice::from_raw_parts((write_buffer + done) as *const u8, wanted);
            answer == wanted as isize && there[..wanted] == *ours
        };
        if !same {
            return false;
        }
        done += wanted as u64;
    }
    true
}

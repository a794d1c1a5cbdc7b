//! How the guard puts pending bytes where they belong: at their place in a file, at its end, or at the
//! offset that others share.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::SeqCst;

use sweetspot_core::ledger::{Entry, PLACE_BASE};
use sweetspot_core::unwritten::FLUSH_BEGUN;

use crate::finish::{self, Extent};
use crate::sys;

/// Writes what is pending, as `Entry::place` says, by a description of the process itself where there is
/// one.
pub(super) fn write_where_it_belongs(
    entry: &Entry,
    handle: BorrowedFd<'_>,
    is_copy: bool,
    its_own: Option<File>,
    whole: &Extent<'_>,
) -> io::Result<()> {
    match (is_copy, entry.place.load(SeqCst)) {
        (false, PLACE_BASE) => write_at_base(entry, handle, its_own, whole)?,
        _ => {
            let file = Behind::new(handle, is_copy, its_own)?;
            write_behind(entry, &file, whole)?;
            if file.is_apart {
                entry.ended.store(sys::offset(&file.target)?, SeqCst);
            }
            // What was written may not be written again.
            note_close(entry, sys::close(file.target));
        }
    }
    // If this process is killed before it can say more, nothing of it is to be written.
    entry.arrived.store(whole.bytes, SeqCst);
    Ok(())
}

/// Whether what an attempt has left may go on by this handle. A description of which it is a copy may have been moved,
/// or set to append, by who shares it.
pub(super) fn may_go_on(entry: &Entry, handle: BorrowedFd<'_>, is_copy: bool) -> bool {
    if !is_copy || !entry.was_tried() {
        return true;
    }
    let appends = entry.open_flags.load(SeqCst) as i32 & libc::O_APPEND;
    let has_flags = sys::open_flags(handle).is_ok_and(|flags| flags & libc::O_APPEND == appends);
    has_flags && shared_offset(handle, is_copy).is_none_or(|at| entry.may_go_on_at(at))
}

/// After an attempt that has failed before it wrote: where the offset is, all may go on.
pub(super) fn note_stopped(entry: &Entry, handle: BorrowedFd<'_>, is_copy: bool) {
    shared_offset(handle, is_copy).into_iter().for_each(|at| entry.note_stopped_at(at));
}

/// The offset at which writes go that others share; `None`: they go to the end, or to a place of their own.
fn shared_offset(handle: BorrowedFd<'_>, is_copy: bool) -> Option<u64> {
    let counts = is_copy && sys::open_flags(handle).ok()? & libc::O_APPEND == 0;
    counts.then(|| sys::offset(handle).ok()).flatten()
}

/// Keeps what a file system said when a descriptor of a file was closed, for the program's own close.
pub(super) fn note_close(entry: &Entry, closed: io::Result<()>) {
    if let Err(error) = closed {
        note_error(entry, &error);
    }
}

/// The same of any error, but for what the guard itself lacks.
pub(super) fn note_error(entry: &Entry, error: &io::Error) {
    if let Some(errno) = error.raw_os_error().filter(|_| !sys::is_shortage(error)) {
        entry.close_error.store(errno as u32, SeqCst);
    }
}

/// Writes what is pending where it belongs, but for what has arrived: somebody may have changed that since. Again,
/// perhaps, if this process is killed.
fn write_at_base(
    entry: &Entry,
    handle: BorrowedFd<'_>,
    its_own: Option<File>,
    whole: &Extent<'_>,
) -> io::Result<()> {
    // If this process is killed in the middle, `recover` finds a death inside a flush.
    entry.begun_ns.store(sys::wall_clock_ns(), SeqCst);
    entry.flushing.store(FLUSH_BEGUN, SeqCst);
    let is_own = its_own.is_some();
    // O_WRONLY: a file may be writable and not readable.
    let target = its_own.map_or_else(|| reopen(handle, libc::O_WRONLY), Ok)?;
    let mut done = entry.arrived.load(SeqCst);
    let written = whole.copy_to(&target, entry.base.load(SeqCst), &mut done);
    if written.is_err() {
        entry.arrived.store(done, SeqCst);
    }
    let closed = sys::close(target);
    if is_own {
        // What is told there may be of bytes that came before.
        note_close(entry, closed);
        return written;
    }
    written.and(closed)
}

/// A file to which bytes go by plain writes.
struct Behind<'a> {
    handle: BorrowedFd<'a>,
    target: File,
    /// Its offset counts, not its end.
    has_offset: bool,
    /// No description of the process itself.
    is_apart: bool,
}

impl<'a> Behind<'a> {
    fn new(handle: BorrowedFd<'a>, is_copy: bool, its_own: Option<File>) -> io::Result<Behind<'a>> {
        let has_offset = is_copy && sys::open_flags(handle)? & libc::O_APPEND == 0;
        let is_apart = its_own.is_none() && !is_copy;
        let target = match its_own {
            Some(target) => target,
            // The same description: its offset moves for anyone who shares it, too.
            None if is_copy => File::from(handle.try_clone_to_owned()?),
            None => reopen(handle, libc::O_WRONLY | libc::O_APPEND)?,
        };
        Ok(Behind { handle, target, has_offset, is_apart })
    }

    /// Where the next plain write goes.
    fn next(&self) -> io::Result<u64> {
        if self.has_offset { sys::offset(self.handle) } else { Ok(sys::status(self.handle)?.size) }
    }
}

/// Writes what has not arrived yet behind what has.
fn write_behind(entry: &Entry, file: &Behind<'_>, whole: &Extent<'_>) -> io::Result<()> {
    // Who shares the offset may move it at any time: what is left of an attempt goes to where that stopped.
    let is_resumed = file.has_offset && entry.was_tried();
    let next = if is_resumed { entry.before.load(SeqCst) } else { file.next()? };
    let left = whole.from(entry.arrived.load(SeqCst));
    if entry.flushing.load(SeqCst) == FLUSH_BEGUN {
        // It died in a write, or just after it.
        let since = entry.before.load(SeqCst)..next;
        let seen = reopen(file.handle, libc::O_RDONLY)
            .and_then(|readable| finish::arrived(&left, &readable, since.clone()));
        // Where it may not be read: what came was its own, if nobody else wrote.
        let seen = seen.unwrap_or(next.saturating_sub(since.start)).min(left.bytes);
        entry.arrived.fetch_add(seen, SeqCst);
    }
    entry.before.store(next, SeqCst);
    entry.begun_ns.store(sys::wall_clock_ns(), SeqCst);
    entry.flushing.store(FLUSH_BEGUN, SeqCst);
    let left = whole.from(entry.arrived.load(SeqCst));
    if is_resumed {
        left.copy_to(&file.target, next, &mut 0)?;
        if file.next()? == next {
            (&file.target).seek(SeekFrom::Start(next + left.bytes))?;
        }
        return Ok(());
    }
    let mut done = 0;
    let written = left.append_to(&file.target, &mut done);
    if written.is_err() {
        // Only when no more is written: who finds this process dead looks for all that came since `before`.
        entry.arrived.fetch_add(done, SeqCst);
        entry.before.fetch_add(done, SeqCst);
    }
    written
}

/// Opens the file that a handle leads to.
fn reopen(handle: BorrowedFd<'_>, flags: i32) -> io::Result<File> {
    sys::open_in_proc(&sys::own_link(handle), flags | libc::O_NOCTTY).map(File::from)
}

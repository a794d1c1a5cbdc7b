//! What a read does that its window cannot answer: it asks the file whether anything changed, fills the
//! window anew, or gives it up.
#![allow(unsafe_code)]

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use sweetspot_core::learning::LEN_UNKNOWN;
use sweetspot_core::ledger::{Counter, Way};
use sweetspot_core::policy;
use sweetspot_core::stamps::would_show_a_change;
use sweetspot_core::why::Why;
use sweetspot_core::window::{Decision, Miss};

use super::file::{self, Held, OpenFile};
use super::process::{EPOCH, acquire_point, acquire_point_of_window};
use super::{auto, eligible, flush, handlers, inodes, pool, quiesce, table};
use crate::floor::errno::fail;
use crate::floor::signals::SignalsBlocked;
use crate::floor::{clock, sys};

/// The program's side of a read.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Buffer(*mut u8),
    Vector(*const libc::iovec, i32),
}

impl Target {
    /// The bytes that it asks for, as they are learned from, where `len` is the room in it.
    pub(super) fn asked(self, len: usize) -> u64 {
        match self {
            Target::Buffer(_) => len as u64,
            Target::Vector(..) => LEN_UNKNOWN,
        }
    }
}

/// What a miss leads to.
pub(super) enum Step {
    /// The call is done.
    Done(isize),
    /// The window now holds that many of the bytes that were asked for, as they were in this call, where the cursor is
    /// this.
    Ready(usize, u64),
    /// Something changed: look again.
    Again,
    /// The kernel must answer this one.
    PassThrough,
}

/// Makes the window answer a read that it could not answer: asks the file whether anything changed,
/// fills the window, or gives up.
pub(super) fn miss(
    file: &'static OpenFile,
    fd: i32,
    target: Target,
    len: usize,
    offset: Option<i64>,
    now: u64,
) -> Step {
    let _signals = SignalsBlocked::deferring();
    let held = file.hold();
    // By now the number may mean another file, and its record, too.
    if !file.is_on() || !table::means(fd, file.to_word()) {
        return Step::Again;
    }
    if held.nested {
        let _signals = SignalsBlocked::new();
        quiesce::quiesce_held(file, fd, quiesce::Next::Learn, &held);
        return Step::Again;
    }
    let position = file.take_position();
    let at = match offset {
        Some(offset) if offset < 0 => {
            file.reopen_cursor();
            return Step::PassThrough;
        }
        Some(offset) => offset as u64,
        None => position,
    };
    let len = len as u64;
    if is_still_right(file, fd, (at, len), now) {
        return Step::Ready(len as usize, file.reopen_cursor());
    }
    let _signals = SignalsBlocked::new();
    let Some((decision, began_ns)) = decide(file, at, len) else {
        // More came to wait there since it was looked at.
        file.reopen_cursor();
        return Step::Again;
    };
    let is_fill = matches!(decision, Decision::Fill(_));
    match decision {
        Decision::Fill(bytes) if !is_refused(file, fd) => {
            let step = fill(file, fd, at, bytes, len, now, &held);
            if let Step::Ready(..) = step {
                note_fill(file, began_ns, bytes);
            }
            step
        }
        Decision::Close(why) => {
            file.note(why);
            quiesce::quiesce_held(file, fd, quiesce::Next::BackOff, &held);
            Step::Again
        }
        _ if offset.is_none() => pass_through(file, fd, target, len as usize, at),
        _ => {
            file.reopen_cursor();
            file.count(Counter::PassedReads, u64::from(!is_fill));
            Step::PassThrough
        }
    }
}

/// Whether the window holds these bytes as the file does; it counts as confirmed then. The lock is held.
fn is_still_right(file: &OpenFile, fd: i32, (at, len): (u64, u64), now: u64) -> bool {
    let (window_at, window_len) = (file.window_at.load(Relaxed), file.window_len.load(Relaxed));
    let inside = at >= window_at && at.saturating_add(len) <= window_at + window_len;
    let epoch = EPOCH.load(Acquire);
    let is_right = inside && (file.epoch.load(Relaxed) == epoch || unchanged(file, fd, now));
    if is_right {
        file.epoch.store(handlers::epoch_of_window(epoch), Relaxed);
    }
    is_right
}

/// Whether the first window of a file is refused: where its writes wait already, nobody has asked yet.
fn is_refused(file: &OpenFile, fd: i32) -> bool {
    if file.buffer_bytes.load(Relaxed) > 0 {
        return false;
    }
    let allowed = eligible::may_have_window(fd);
    allowed.map(|trust| trust.keep(file)).is_err()
}

/// What is to be done about a miss, and when the transfer began that it may lead to; `None`: bytes wait
/// there. The lock is held.
fn decide(file: &OpenFile, at: u64, len: u64) -> Option<(Decision, u64)> {
    let served_bytes = file.counted(Counter::HitBytes) - file.bytes_before.load(Relaxed);
    let began_ns = auto::begin(file, Way::Read, served_bytes);
    let windows = auto::windows(file);
    // Before the next turn looks what waits there.
    file.window_bytes_max.store(windows.bytes_max, Relaxed);
    if flush::overlaps_pending(file, at, len.max(windows.bytes_max)) {
        return None;
    }
    let miss = Miss {
        at,
        len,
        window_at: file.window_at.load(Relaxed),
        window_len: file.window_len.load(Relaxed),
        served: file.counted(Counter::Hits) - file.hits_before.load(Relaxed),
        served_bytes,
        bytes_max: windows.bytes_max,
        bytes_sweet: windows.bytes_sweet,
        bytes_first: windows.bytes_first,
        dense_bytes: windows.dense_bytes,
    };
    // SAFETY: the lock is held.
    let decision = unsafe { (*file.pattern.get()).miss(&miss) };
    Some((decision, began_ns))
}

/// A window of `bytes` was filled, which began then. The lock is held.
fn note_fill(file: &OpenFile, began_ns: u64, bytes: u64) {
    let size = bytes.next_multiple_of(policy::WINDOW_BYTES_MIN);
    // What its memory took is no part of what a call costs.
    let began_ns = began_ns.saturating_add(file.room_ns.swap(0, Relaxed));
    let times_ns = (began_ns, auto::now_ns());
    auto::end(file, Way::Read, times_ns, file.window_len.load(Relaxed), size);
}

/// Makes a read that no window is filled for, at the position that is ours. The lock is held.
fn pass_through(file: &OpenFile, fd: i32, target: Target, len: usize, at: u64) -> Step {
    let answer = read_past(fd, target, len, at);
    if answer > 0 {
        file.position.store(at + answer as u64, Relaxed);
    }
    file.reopen_cursor();
    file.count(Counter::PassedReads, 1);
    file.count(Counter::PassedReadBytes, answer.max(0) as u64);
    acquire_point();
    Step::Done(if answer < 0 { fail(-answer as i32) } else { answer })
}

/// A read too large for the window, at the position that is ours.
fn read_past(fd: i32, target: Target, len: usize, at: u64) -> isize {
    match target {
        // SAFETY: the kernel checks the program's memory.
        Target::Buffer(buffer) => unsafe { sys::read_at(fd, buffer, len, at) },
        // SAFETY: likewise.
        Target::Vector(vector, count) => unsafe {
            sys::syscall!(SYS_preadv, fd as isize, vector, count, at, 0)
        },
    }
}

/// Reads a window at `at` and says how much of `len` it can answer.
fn fill(
    file: &'static OpenFile,
    fd: i32,
    at: u64,
    bytes: u64,
    len: u64,
    now: u64,
    held: &Held,
) -> Step {
    // The kernel reads nothing where a transfer would end beyond the last position there is.
    let bytes = bytes.min((i64::MAX as u64).saturating_sub(at)).max(len);
    // A positioned hit that began with the old window fails, and later ones find none. Once more before
    // the new window shows, or one that meets both would mix them.
    file.window_len.store(0, Relaxed);
    file.close_cursor();
    let had_window = file.buffer_bytes.load(Relaxed) > 0;
    let Some(bytes) = make_room(file, at, bytes, len) else {
        file.note(Why::Budget);
        quiesce::quiesce_held(file, fd, quiesce::Next::BackOff, held);
        return Step::Again;
    };
    if !had_window && inodes::meets_pending(file) {
        // They began to wait since it was looked for them: the next turn writes them out first.
        file.reopen_cursor();
        return Step::Again;
    }
    let window = place_for(file, at, bytes);
    file.window.store(window, Relaxed);
    file.filled_ms.store(now, Relaxed);
    file.filled_wall_ns.store(crate::floor::clock::wall_ns(), Relaxed);
    // What others learn from here on may be of bytes that are not read any more.
    let epoch = EPOCH.load(Acquire);
    // SAFETY: the buffer is ours and at least that large.
    let answer = unsafe { sys::read_at(fd, window as *mut u8, bytes as usize, at) };
    file.count(Counter::Fills, 1);
    // What was read may be news, about this file and about every other.
    let epoch = handlers::epoch_of_window(acquire_point_of_window(epoch));
    if answer < 0 {
        // The program has asked for less, and that may be there.
        file.note(Why::ReadFailed);
        quiesce::quiesce_held(file, fd, quiesce::Next::BackOff, held);
        return Step::Again;
    }
    if answer == 0 {
        // No hit follows that would count this call: the end was found.
        file.count(Counter::Hits, 1);
    }
    file.count(Counter::FillBytes, answer as u64);
    file.window_at.store(at, Relaxed);
    file.close_cursor();
    file.window_len.store(answer as u64, Relaxed);
    file.epoch.store(epoch, Relaxed);
    file.hits_before.store(file.counted(Counter::Hits), Relaxed);
    file.bytes_before.store(file.counted(Counter::HitBytes), Relaxed);
    let cursor = file.reopen_cursor();
    match answer as u64 {
        0 => Step::Done(0),
        filled => Step::Ready(len.min(filled) as usize, cursor),
    }
}

/// Where in its buffer a window begins: at the same place in a page as in the file, if it fits so. A
/// processor that copies strings of bytes by itself, which is how the kernel copies, can take three
/// times as long where the target lies less than 32 bytes behind the source within their pages.
fn place_for(file: &OpenFile, at: u64, bytes: u64) -> u64 {
    let buffer = pool::start(file.window.load(Relaxed));
    let in_page = at % pool::PAGE_BYTES;
    let fits = in_page + bytes <= pool::capacity(file.buffer_bytes.load(Relaxed));
    buffer + if fits { in_page } else { 0 }
}

/// A buffer for a window of `bytes` at `at`, or of less where the budget has no room, but for a read of `len`:
/// how much is there. The lock is held and the cursor closed.
fn make_room(file: &OpenFile, at: u64, bytes: u64, len: u64) -> Option<u64> {
    let had = file.buffer_bytes.load(Relaxed);
    let capacity = if had > 0 { pool::capacity(had) } else { 0 };
    if capacity >= bytes {
        return Some(bytes);
    }
    let began_ns = clock::now_ns();
    let buffer = file.buffer.load(Relaxed);
    let halves = core::iter::successors(Some(bytes), |bytes| Some(bytes / 2));
    let taken = halves
        .take_while(|bytes| *bytes >= len && *bytes > capacity)
        .find_map(|bytes| Some((bytes, pool::take(bytes, buffer)?)));
    let Some((bytes, window)) = taken else {
        return (capacity >= len && capacity > 0).then_some(capacity);
    };
    if had > 0 {
        pool::give(file.window.load(Relaxed), had);
    } else {
        super::inodes::window_opened(file);
    }
    file.window.store(window, Relaxed);
    file.buffer_bytes.store(bytes, Relaxed);
    let used = file.size.load(Relaxed).saturating_sub(at).min(bytes);
    // What it will hold, and nothing behind it.
    pool::populate(window, place_for(file, at, bytes) - window + used);
    file.room_ns.store(clock::now_ns().saturating_sub(began_ns), Relaxed);
    Some(bytes)
}

/// Whether the file is as it was when the window was filled.
///
/// A window older than the maximum age is never confirmed. Else both times of the file must be what
/// they were, and older than the filling by the maximum age: a change leaves its mark in ctime, but
/// before the data arrive, and no finer than a tick, or than the file system keeps its times.
fn unchanged(file: &OpenFile, fd: i32, now: u64) -> bool {
    let max_age = clock::max_age_ms();
    if now.saturating_sub(file.filled_ms.load(Relaxed)) >= max_age {
        return false;
    }
    file.count(Counter::KernelCalls, 1);
    let Some(status) = sys::status(fd) else { return false };
    let same = file.traits.load(Relaxed) & file::UNTIMED == 0
        && status.mtime_ns == file.mtime_ns.load(Relaxed)
        && status.ctime_ns == file.ctime_ns.load(Relaxed)
        && status.size == file.size.load(Relaxed);
    file.mtime_ns.store(status.mtime_ns, Relaxed);
    file.ctime_ns.store(status.ctime_ns, Relaxed);
    file.size.store(status.size, Relaxed);
    let filled_ns = file.filled_wall_ns.load(Relaxed);
    same && would_show_a_change(status.mtime_ns, status.ctime_ns, filled_ns, max_age * 1_000_000)
}

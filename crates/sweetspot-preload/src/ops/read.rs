//! Reads: a hit where the window can answer, else one of the ways that `core::window` decides.
#![allow(unsafe_code)]

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed},
    fence,
};

use sweetspot_core::learning::Learning;
use sweetspot_core::ledger::{Counter, Way};
use sweetspot_core::policy;
use sweetspot_core::stamps::is_settled;
use sweetspot_core::why::Why;
use sweetspot_core::window::{Decision, Miss};

use super::{
    Kind, Outcome, Pass, disturbed, enter, enter_alone, inodes, is_near, observe, settle, speak,
    talk, transition, write,
};
use crate::file::{CLOSED, Held, Hit, OpenFile};
use crate::process::{self, EPOCH, SignalsBlocked, listen, listen_with, passive, passive_for_good};
use crate::{arch, auto, careful, concerns, copy, pool, sys, table};

/// `read`.
#[inline(always)]
pub fn read(fd: i32, buffer: *mut u8, len: usize) -> Outcome {
    match hit(fd, buffer, len) {
        Some(done) => Outcome::Done(done),
        None => not_hit(fd, buffer, len),
    }
}

/// What a window answers at once; `None`: go on with [`not_hit`].
#[inline(always)]
pub fn hit(fd: i32, buffer: *mut u8, len: usize) -> Option<isize> {
    let word = table::open_word(fd)?;
    match OpenFile::from_word(word).hit(word, fd, buffer, len) {
        Hit::Done(done) => Some(done as isize),
        _ => None,
    }
}

/// Whether a read that no window answers passes through, as nothing concerns it; `None`: go on with
/// [`not_hit`].
#[inline(always)]
pub fn passes(fd: i32, len: usize) -> Option<Pass> {
    enter_alone(fd, Kind::Read, len as u64)
}

/// The other reads.
pub fn not_hit(fd: i32, buffer: *mut u8, len: usize) -> Outcome {
    if passive_for_good() {
        return Outcome::PassOn(Pass::NOTHING);
    }
    if let Some(pass) = passes(fd, len) {
        return Outcome::PassOn(pass);
    }
    slowly(fd, Target::Buffer(buffer), len, None)
}

/// `pread`.
#[inline(always)]
pub fn read_at(fd: i32, buffer: *mut u8, len: usize, offset: i64) -> Outcome {
    match hit_at(fd, buffer, len, offset) {
        Some(done) => Outcome::Done(done),
        None => not_hit_at(fd, buffer, len, offset),
    }
}

/// What a window answers at once; `None`: go on with [`not_hit_at`].
#[inline(always)]
pub fn hit_at(fd: i32, buffer: *mut u8, len: usize, offset: i64) -> Option<isize> {
    let word = table::open_word(fd)?;
    match OpenFile::from_word(word).hit_at(word, fd, buffer, len, offset as u64) {
        Hit::Done(done) => Some(done as isize),
        _ => None,
    }
}

/// Whether a positioned read that no window answers passes through, as nothing concerns it; `None`: go
/// on with [`not_hit_at`].
#[inline(always)]
pub fn passes_at(fd: i32, len: usize, offset: i64) -> Option<Pass> {
    is_random(table::word(fd)?, fd, offset).then(|| {
        remember_end(fd, len, offset);
        Pass::LISTEN
    })
}

/// The other positioned reads.
pub fn not_hit_at(fd: i32, buffer: *mut u8, len: usize, offset: i64) -> Outcome {
    if table::learning_word(fd).is_some_and(|word| is_random(word, fd, offset)) {
        remember_end(fd, len, offset);
        return Outcome::PassOn(Pass::LISTEN);
    }
    slowly(fd, Target::Buffer(buffer), len, Some(offset))
}

/// `readv`, and with an offset `preadv`.
pub fn read_vector(
    fd: i32,
    vector: *const libc::iovec,
    count: i32,
    offset: Option<i64>,
) -> Outcome {
    // More than the kernel takes, or none: its error. A bad address among them shows when copying.
    let len = match table::open_file(fd) {
        Some(_) if (1..=1024).contains(&count) => vector_len(vector, count),
        _ => None,
    };
    slowly(fd, Target::Vector(vector, count), len.unwrap_or(0), offset)
}

/// The program's side of a read.
#[derive(Clone, Copy)]
enum Target {
    Buffer(*mut u8),
    Vector(*const libc::iovec, i32),
}

/// The bytes that a vector asks for; `None` when it cannot be read or its sum is no length.
fn vector_len(vector: *const libc::iovec, count: i32) -> Option<usize> {
    (0..count as usize).try_fold(0usize, |sum, index| {
        let piece = vector_piece(vector, index)?;
        sum.checked_add(piece.iov_len).filter(|sum| *sum < 1 << 31)
    })
}

fn vector_piece(vector: *const libc::iovec, index: usize) -> Option<libc::iovec> {
    let mut piece = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };
    let from = vector.wrapping_add(index).cast::<u8>();
    // SAFETY: our side is a local; the program's may be anything.
    let bad = unsafe { copy::copy((&raw mut piece).cast(), from, size_of::<libc::iovec>()) };
    (!bad).then_some(piece)
}

fn slowly(fd: i32, target: Target, len: usize, offset: Option<i64>) -> Outcome {
    let _care = careful::take();
    if observe::is_on() || passive() {
        return match target {
            Target::Buffer(_) => observe::call(observe::Kind::Read, fd, len as u64, offset),
            Target::Vector(..) => observe::call(observe::Kind::Read, fd, observe::ANY, offset),
        };
    }
    let kind = if offset.is_some() { Kind::ReadAt } else { Kind::Read };
    let mut turn = 0;
    while let Some(word) = table::word(fd) {
        let word = word.load(Relaxed);
        turn += 1;
        disturbed(fd, turn);
        match table::tag(word) {
            table::LEARNING | table::UNKNOWN if write::is_pending() && turn == 1 => {
                // Whether what waits concerns this file, is worth one question for good.
                transition::classify(fd);
                continue;
            }
            table::LEARNING | table::OPEN => {}
            _ => break,
        }
        let open = table::tag(word) == table::OPEN;
        let file = open.then(|| OpenFile::from_word(word));
        if file.is_some_and(|file| file.error.load(Relaxed) != 0)
            && let Some(errno) = write::failing_descriptor(fd)
        {
            // The kernel does not know what the program wrote.
            return Outcome::Done(crate::fail(errno));
        }
        let Some(file) = file.filter(|file| file.is_on()) else {
            if file.is_none_or(inodes::others_pending) {
                speak();
            }
            if let Some(offset) = offset {
                if is_far(fd, offset) {
                    super::jumped(fd);
                }
                remember_end(fd, len, offset);
            }
            match enter(fd, kind, len as u64) {
                Some(pass) => return Outcome::PassOn(pass),
                None => continue,
            }
        };
        if len == 0 || !is_for_us(target, len) {
            // The kernel knows what to say.
            settle::settle(fd, settle::Next::Learn);
            continue;
        }
        // A hit may have been due to look at the clock; that needs no transition.
        let now = process::tock();
        let mut hit = answer(file, word, fd, target, len, offset);
        if matches!(hit, Hit::Miss) {
            let usual = process::buffer_bytes_max(file.buffer.load(Relaxed));
            let bytes_max = usual.max(file.window_bytes_max.load(Relaxed));
            let at = offset.map_or_else(|| file.current_position(), |offset| offset as u64);
            write::before_read(file, at, bytes_max.max(len as u64));
            match miss(file, fd, target, len, offset, now) {
                Step::Done(answer) => return Outcome::Done(answer),
                Step::Ready(len) => hit = hit_pieces(file, target, len, offset, Fresh::InThisCall),
                Step::Again => continue,
                Step::Straight => return Outcome::PassOn(Pass::LISTEN),
            }
        }
        match hit {
            Hit::Done(done) => return Outcome::Done(done as isize),
            Hit::Miss | Hit::Disturbed => {}
            // The kernel knows how much of it can be written, and what to say.
            Hit::BadAddress => settle::settle(fd, settle::Next::Learn),
        }
    }
    // Not followed: at the kernel's offset.
    if table::word(fd).is_some_and(|word| table::tag(word.load(Relaxed)) == table::OTHER) {
        let pass = talk();
        return Outcome::PassOn(if super::deaths::may_be_told() { Pass::DEATH } else { pass });
    }
    speak();
    Outcome::PassOn(Pass::LISTEN)
}

/// Whether the program's buffer can be memory of its own at all. What is beyond is refused by the
/// kernel even where there is nothing to copy.
fn is_for_us(target: Target, len: usize) -> bool {
    match target {
        Target::Buffer(buffer) => {
            (buffer as usize).checked_add(len).is_some_and(|end| end < arch::USER_END)
        }
        Target::Vector(..) => true,
    }
}

/// Whether a positioned read of a file without a window is far from where the last one ended.
#[inline(always)]
fn is_far(fd: i32, offset: i64) -> bool {
    !is_near(offset as u64, table::last_end(fd).load(Relaxed))
}

fn remember_end(fd: i32, len: usize, offset: i64) {
    table::last_end(fd).store((offset as u64).wrapping_add(len as u64), Relaxed);
}

/// Whether there is nothing to do for a positioned read: nothing concerns it, and the file has no window
/// and no score that a jump could take from. It takes no part in the offset, so a window may open
/// meanwhile.
#[inline(always)]
fn is_random(word: &AtomicU64, fd: i32, offset: i64) -> bool {
    let state = word.load(Relaxed);
    !concerns::any()
        && table::is_free(state)
        && Learning(state).has_no_score()
        && is_far(fd, offset)
}

/// Tries to answer out of the window.
fn answer(
    file: &'static OpenFile,
    word: u64,
    fd: i32,
    target: Target,
    len: usize,
    offset: Option<i64>,
) -> Hit {
    loop {
        let hit = match (target, offset) {
            (Target::Buffer(buffer), None) => file.hit(word, fd, buffer, len),
            (Target::Buffer(buffer), Some(offset)) => {
                file.hit_at(word, fd, buffer, len, offset as u64)
            }
            (Target::Vector(..), offset) => {
                hit_pieces(file, target, len, offset, Fresh::InItsEpoch)
            }
        };
        match hit {
            // Where the descriptor means another file by now, the next turn of the call sees to that.
            Hit::Disturbed if table::means(fd, word) => {}
            Hit::Disturbed => return Hit::Miss,
            _ => return hit,
        }
    }
}

/// What a miss leads to.
enum Step {
    /// The call is done.
    Done(isize),
    /// The window now holds that many of the bytes that were asked for, as they were in this call.
    Ready(usize),
    /// Something changed: look again.
    Again,
    /// The kernel must answer this one.
    Straight,
}

/// Makes the window answer a read that it could not answer: asks the file whether anything changed,
/// fills the window, or gives up.
fn miss(
    file: &'static OpenFile,
    fd: i32,
    target: Target,
    len: usize,
    offset: Option<i64>,
    now: u64,
) -> Step {
    let _signals = SignalsBlocked::new();
    let held = file.hold();
    if !file.is_on() {
        return Step::Again;
    }
    if held.nested {
        settle::settle_held(file, fd, settle::Next::Learn, &held);
        return Step::Again;
    }
    let position = file.take_position();
    let at = match offset {
        Some(offset) if offset < 0 => {
            file.reopen_cursor();
            return Step::Straight;
        }
        Some(offset) => offset as u64,
        None => position,
    };
    let len = len as u64;
    let (window_at, window_len) = (file.window_at.load(Relaxed), file.window_len.load(Relaxed));
    let inside = at >= window_at && at.saturating_add(len) <= window_at + window_len;
    let epoch = EPOCH.load(Acquire);
    if inside && (file.epoch.load(Relaxed) == epoch || unchanged(file, fd, now)) {
        file.epoch.store(epoch, Relaxed);
        file.reopen_cursor();
        return Step::Ready(len as usize);
    }
    let served_bytes = file.counted(Counter::HitBytes) - file.bytes_before.load(Relaxed);
    let began_ns = auto::begin(file, Way::Read, served_bytes);
    let windows = auto::windows(file);
    // Before the next turn looks what waits there.
    file.window_bytes_max.store(windows.bytes_max, Relaxed);
    if write::overlaps_pending(file, at, len.max(windows.bytes_max)) {
        // More came to wait there since it was looked at.
        file.reopen_cursor();
        return Step::Again;
    }
    let miss = Miss {
        at,
        len,
        window_at,
        window_len,
        served: file.counted(Counter::Hits) - file.hits_before.load(Relaxed),
        served_bytes,
        bytes_max: windows.bytes_max,
        bytes_sweet: windows.bytes_sweet,
        bytes_first: windows.bytes_first,
        dense_bytes: process::dense_bytes(file.buffer.load(Relaxed)),
    };
    // SAFETY: the lock is held.
    let decision = unsafe { (*file.pattern.get()).miss(&miss) };
    match decision {
        Decision::Fill(bytes) => {
            let step = fill(file, fd, at, bytes, len, now, &held);
            if let Step::Ready(_) = step {
                let size = bytes.next_multiple_of(policy::WINDOW_BYTES_MIN);
                // What its memory took is no part of what a call costs.
                let began_ns = began_ns.saturating_add(file.room_ns.swap(0, Relaxed));
                auto::end(file, Way::Read, began_ns, file.window_len.load(Relaxed), size);
            }
            step
        }
        Decision::PassOn if offset.is_some() => {
            file.reopen_cursor();
            Step::Straight
        }
        Decision::PassOn => {
            let answer = read_past(fd, target, len as usize, at);
            if answer > 0 {
                file.position.store(at + answer as u64, Relaxed);
            }
            file.reopen_cursor();
            file.count(Counter::StraightReads, 1);
            file.count(Counter::StraightReadBytes, answer.max(0) as u64);
            listen();
            Step::Done(if answer < 0 { crate::fail(-answer as i32) } else { answer })
        }
        Decision::Close(why) => {
            file.note(why);
            settle::settle_held(file, fd, settle::Next::BackOff, &held);
            Step::Again
        }
    }
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
    // A positioned hit that began with the old window fails, and later ones find none. Once more before
    // the new window shows, or one that meets both would mix them.
    file.window_len.store(0, Relaxed);
    file.close_cursor();
    let had_window = file.buffer_bytes.load(Relaxed) > 0;
    let Some(bytes) = make_room(file, at, bytes, len) else {
        file.note(Why::Budget);
        settle::settle_held(file, fd, settle::Next::BackOff, held);
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
    file.filled_wall_ns.store(crate::wall_ns(), Relaxed);
    // What others learn from here on may be of bytes that are not read any more.
    let epoch = EPOCH.load(Acquire);
    // SAFETY: the buffer is ours and at least that large.
    let answer = unsafe { sys::read_at(fd, window as *mut u8, bytes as usize, at) };
    file.count(Counter::Fills, 1);
    // What was read may be news, about this file and about every other.
    let epoch = listen_with(epoch);
    if answer <= 0 {
        // No hit follows that would count this call: the end was found, or an error.
        file.count(Counter::Hits, 1);
    }
    if answer < 0 {
        file.reopen_cursor();
        return Step::Done(crate::fail(-answer as i32));
    }
    file.count(Counter::FillBytes, answer as u64);
    file.window_at.store(at, Relaxed);
    file.close_cursor();
    file.window_len.store(answer as u64, Relaxed);
    file.epoch.store(epoch, Relaxed);
    file.hits_before.store(file.counted(Counter::Hits), Relaxed);
    file.bytes_before.store(file.counted(Counter::HitBytes), Relaxed);
    file.reopen_cursor();
    match answer as u64 {
        0 => Step::Done(0),
        filled => Step::Ready(len.min(filled) as usize),
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
    let began_ns = auto::now_ns();
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
    pool::populate(window, used + at % pool::PAGE_BYTES);
    file.room_ns.store(auto::now_ns().saturating_sub(began_ns), Relaxed);
    Some(bytes)
}

/// Whether the file is as it was when the window was filled.
///
/// A window older than the maximum age is never confirmed. Else both times of the file must be what
/// they were, and older than the filling by the maximum age: a change leaves its mark in ctime, but
/// before the data arrive, and no finer than a tick, or than the file system keeps its times.
fn unchanged(file: &OpenFile, fd: i32, now: u64) -> bool {
    let max_age = process::max_age_ms();
    if now.saturating_sub(file.filled_ms.load(Relaxed)) >= max_age {
        return false;
    }
    file.count(Counter::KernelCalls, 1);
    let Some(status) = sys::status(fd) else { return false };
    let same = status.mtime_ns == file.mtime_ns.load(Relaxed)
        && status.ctime_ns == file.ctime_ns.load(Relaxed)
        && status.size == file.size.load(Relaxed);
    file.mtime_ns.store(status.mtime_ns, Relaxed);
    file.ctime_ns.store(status.ctime_ns, Relaxed);
    file.size.store(status.size, Relaxed);
    let filled_ns = file.filled_wall_ns.load(Relaxed);
    same && is_settled(status.mtime_ns, status.ctime_ns, filled_ns, max_age * 1_000_000)
}

/// Whether the window is as the file is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fresh {
    /// In its epoch alone.
    InItsEpoch,
    /// It was filled or confirmed in this very call: what came since may come after the call as well.
    /// So a call ends where other threads never stop learning.
    InThisCall,
}

/// Answers a read into any number of buffers out of the window: one commit for all of them.
fn hit_pieces(
    file: &'static OpenFile,
    target: Target,
    len: usize,
    offset: Option<i64>,
    fresh: Fresh,
) -> Hit {
    let whole;
    let (vector, count) = match target {
        Target::Vector(vector, count) => (vector, count),
        Target::Buffer(buffer) => {
            whole = libc::iovec { iov_base: buffer.cast(), iov_len: len };
            (&raw const whole, 1)
        }
    };
    let at = file.cursor.load(Acquire);
    let from = match offset {
        Some(offset) => (offset as u64).wrapping_sub(file.window_at.load(Relaxed)),
        None => at & CLOSED,
    };
    let window_len = file.window_len.load(Relaxed);
    let fresh = fresh == Fresh::InThisCall || file.epoch.load(Relaxed) == EPOCH.load(Relaxed);
    if !fresh || from > window_len || len as u64 > window_len - from {
        return Hit::Miss;
    }
    let mut source = file.window.load(Relaxed) + from;
    fence(Acquire);
    if file.cursor.load(Relaxed) != at {
        return Hit::Miss;
    }
    let mut left = len;
    for index in 0..count as usize {
        let Some(piece) = vector_piece(vector, index) else { return Hit::BadAddress };
        let len = piece.iov_len.min(left);
        // SAFETY: the window holds what was checked above; the program's side may be anything.
        if unsafe { copy::copy(piece.iov_base.cast(), source as *const u8, len) } {
            return Hit::BadAddress;
        }
        source += len as u64;
        left -= len;
    }
    let advance = if offset.is_some() { 0 } else { len as u64 };
    if !crate::atomic::swap(&file.cursor, at, at + advance) {
        return Hit::Miss;
    }
    file.count(Counter::Hits, 1);
    file.count(Counter::HitBytes, len as u64);
    Hit::Done(len)
}

//! Reads: a hit where the window can answer, else one of the ways that `core::window` decides.
#![allow(unsafe_code)]

use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed},
    fence,
};

use sweetspot_core::append::is_small;
use sweetspot_core::auto::usual_bytes;
use sweetspot_core::learning::{Learning, Near};
use sweetspot_core::ledger::Counter;
use sweetspot_core::why::Why;

use super::file::{self, CLOSED, Hit, OpenFile, Way};
use super::fill::{Step, Target, miss};
use super::process::{EPOCH, acquire_point_ahead, passive_for_good};
use super::spawns::passive;
use super::{
    AtOnce, Kind, Outcome, Pass, age, concerns, dirty, disturbed, enter, enter_alone, inodes,
    ledger, life, passed_for_good, public_sync_point, quiesce, release_point, table, thresholds,
    transition, vector,
};
use crate::arch;
use crate::floor::copy;
use crate::floor::errno::fail;

/// What can be done with a `read` at once. A read that passes through here earns no window, whatever
/// becomes of it: so it is learned from, and its acquire point is passed, before it is made.
#[inline(always)]
pub fn at_once(fd: i32, len: usize) -> AtOnce {
    let Some((word, end)) = table::word_and_end(fd) else { return AtOnce::otherwise() };
    let value = word.load(Relaxed);
    if table::is_open(value) {
        return AtOnce::Kept(value);
    }
    let next = Learning(value).small_read_in_order();
    if concerns::with(next.0 & thresholds::not_free()) != table::LEARNING || !is_small(len as u64) {
        return AtOnce::otherwise();
    }
    word.store(next.0, Relaxed);
    end.store(Near(end.load(Relaxed)).moved(len as u64).0, Relaxed);
    acquire_point_ahead();
    AtOnce::Pass
}

/// What can be done with a `pread` at once: one that is far from the last one, of a file that has earned
/// nothing, passes through.
#[inline(always)]
pub fn at_once_at(fd: i32, len: usize, offset: i64) -> AtOnce {
    let Some((word, end)) = table::word_and_end(fd) else { return AtOnce::otherwise() };
    let value = word.load(Relaxed);
    if concerns::with(value & (table::FREE | Learning::SCORE)) != table::LEARNING {
        return table::open_word(fd).map_or_else(AtOnce::otherwise, AtOnce::Kept);
    }
    if Near(end.load(Relaxed)).has(offset as u64) {
        return AtOnce::Ask;
    }
    end.store(Near::to((offset as u64).wrapping_add(len as u64)).0, Relaxed);
    acquire_point_ahead();
    AtOnce::Pass
}

/// What a window answers at once, of the file of which a descriptor has this word; `None`: go on with
/// [`not_hit`].
#[inline(always)]
pub fn hit(word: u64, fd: i32, buffer: *mut u8, len: usize) -> Option<isize> {
    match OpenFile::from_word(word).hit(word, fd, buffer, len, Way::Short) {
        Hit::Done(done) => Some(done as isize),
        _ => None,
    }
}

/// The same where nobody comes in between; `None`: go on with [`hit`].
#[inline(always)]
pub fn hit_alone(word: u64, buffer: *mut u8, len: usize) -> Option<isize> {
    let file = OpenFile::from_word(word);
    // SAFETY: nobody comes in between.
    let is_hit = !concerns::is_concurrent() && unsafe { file.hit_alone(buffer, len) };
    is_hit.then_some(len as isize)
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
        return passed_for_good(Some(fd), Pass::nothing_by(fd));
    }
    if let Some(pass) = passes(fd, len) {
        return Outcome::PassThrough(pass);
    }
    if passes_for_good(fd) {
        return Outcome::PassThrough(Pass::acquire_by(fd));
    }
    slowly(fd, Target::Buffer(buffer), len, None)
}

/// Whether a read is of a file whose calls pass through for good, and nothing concerns it: so it is with
/// standard input that others have, too.
fn passes_for_good(fd: i32) -> bool {
    let passes = |file: &OpenFile| {
        file.state.load(Relaxed) == table::PASS_THROUGH && file.error.load(Relaxed) == 0
    };
    !concerns::any() && file::open_file(fd).is_some_and(|(file, _)| passes(file))
}

/// What a window answers at once, of the file of which a descriptor has this word; `None`: go on with
/// [`not_hit_at`].
#[inline(always)]
pub fn hit_at(word: u64, fd: i32, buffer: *mut u8, len: usize, offset: i64) -> Option<isize> {
    match OpenFile::from_word(word).hit_at(word, fd, buffer, len, offset as u64, Way::Short) {
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
        Pass::ACQUIRE
    })
}

/// The other positioned reads.
pub fn not_hit_at(fd: i32, buffer: *mut u8, len: usize, offset: i64) -> Outcome {
    if file::learning_word(fd).is_some_and(|word| is_random(word, fd, offset)) {
        remember_end(fd, len, offset);
        return Outcome::PassThrough(Pass::ACQUIRE);
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
    // A bad address in it shows when copying, and that of the vector here: where there is a window, there are handlers
    // for both.
    let len = match file::open_file(fd).filter(|(file, _)| file.is_on() && !passive()) {
        Some(_) => vector::len_to_fill(vector, count),
        None => None,
    };
    slowly(fd, Target::Vector(vector, count), len.unwrap_or(0), offset)
}

fn slowly(fd: i32, target: Target, len: usize, offset: Option<i64>) -> Outcome {
    if passive() {
        return passed_for_good(Some(fd), Pass::nothing_by(fd));
    }
    if copy::is_refused() {
        quiesce::quiesce(fd, quiesce::Next::PassThrough(Why::SpecialUse));
    }
    let kind = if offset.is_some() { Kind::ReadAt } else { Kind::Read };
    let mut turn = 0;
    while let Some(word) = table::word(fd) {
        let word = word.load(Relaxed);
        turn += 1;
        disturbed(fd, turn);
        match table::tag(word) {
            table::LEARNING | table::UNKNOWN if dirty::is_pending() && turn == 1 => {
                // Whether what waits concerns this file, is worth one question for good.
                transition::classify(fd);
                continue;
            }
            // A summary lists what came from outside, too; and it may be this process' alone.
            table::UNKNOWN if turn == 1 && (ledger::wants_summary() || may_be_alone(kind, len)) => {
                transition::classify(fd);
                continue;
            }
            table::LEARNING | table::OPEN => {}
            table::OTHER if !table::is_still_closed(fd) => continue,
            _ => break,
        }
        let file = (table::tag(word) == table::OPEN).then(|| OpenFile::from_word(word));
        if let Some(errno) = life::failing_descriptor(fd) {
            // The kernel does not know what the program wrote.
            return Outcome::Done(fail(errno));
        }
        let Some(file) = file.filter(|file| file.is_on()) else {
            before_pass_through(file, fd, len, offset);
            if let Some(errno) = life::failing_descriptor(fd) {
                return Outcome::Done(fail(errno));
            }
            match enter(fd, kind, target.asked(len)) {
                Some(pass) => return Outcome::PassThrough(pass),
                None => continue,
            }
        };
        if len == 0 || !is_for_us(target, len) {
            // The kernel knows what to say.
            quiesce::quiesce(fd, quiesce::Next::Learn);
            continue;
        }
        if let Some(outcome) = read_window(file, word, fd, target, len, offset) {
            return outcome;
        }
    }
    // Not followed: at the kernel's offset.
    if table::word(fd).is_some_and(|word| table::tag(word.load(Relaxed)) == table::OTHER) {
        let pass = public_sync_point();
        return Outcome::PassThrough(if super::deaths::may_be_told() { Pass::DEATH } else { pass });
    }
    release_point();
    Outcome::PassThrough(Pass::ACQUIRE)
}

/// Whether such reads of a file that was open before the program started may be worth a question to the guard.
fn may_be_alone(kind: Kind, len: usize) -> bool {
    kind == Kind::Read && is_small(len as u64) && ledger::is_given()
}

/// Before a read that goes to the kernel, at its offset or at `offset`.
fn before_pass_through(file: Option<&OpenFile>, fd: i32, len: usize, offset: Option<i64>) {
    // A FIFO or a terminal that was opened by its path: the process that writes there, or waits to, notices
    // the read.
    let is_news = |file: &OpenFile| {
        inodes::others_pending(file) || super::sharing::shows_its_offset(file) || file.is_noticed()
    };
    if file.is_none_or(is_news) {
        release_point();
    }
    if let Some(offset) = offset {
        if is_far(fd, offset) {
            super::jumped(fd);
        }
        remember_end(fd, len, offset);
    }
}

/// A read of a file whose position is ours; `None`: something changed, look again.
fn read_window(
    file: &'static OpenFile,
    word: u64,
    fd: i32,
    target: Target,
    len: usize,
    offset: Option<i64>,
) -> Option<Outcome> {
    // A hit may have been due to look at the clock; that needs no transition.
    let now = age::tock();
    let mut hit = answer(file, word, fd, target, len, offset);
    if matches!(hit, Hit::Miss) {
        let usual = usual_bytes(file.buffer.load(Relaxed));
        let bytes_max = usual.max(file.window_bytes_max.load(Relaxed));
        let at = offset.map_or_else(|| file.current_position(), |offset| offset as u64);
        dirty::before_read(file, at, bytes_max.max(len as u64));
        if file.error.load(Relaxed) != 0 {
            return None;
        }
        match miss(file, fd, target, len, offset, now) {
            Step::Done(answer) => return Some(Outcome::Done(answer)),
            Step::Ready(len, cursor) => {
                hit = hit_pieces(file, target, len, offset, Fresh::InThisCall(cursor));
            }
            Step::Again => return None,
            Step::PassThrough => return Some(Outcome::PassThrough(Pass::ACQUIRE)),
        }
    }
    match hit {
        Hit::Done(done) => return Some(Outcome::Done(done as isize)),
        Hit::Miss | Hit::Disturbed => {}
        // The kernel knows how much of it can be written, and what to say.
        Hit::BadAddress => quiesce::quiesce(fd, quiesce::Next::Learn),
    }
    None
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
    !table::last_end(fd).has(offset as u64)
}

fn remember_end(fd: i32, len: usize, offset: i64) {
    table::set_last_end(fd, Near::to((offset as u64).wrapping_add(len as u64)));
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
pub(super) fn answer(
    file: &'static OpenFile,
    word: u64,
    fd: i32,
    target: Target,
    len: usize,
    offset: Option<i64>,
) -> Hit {
    loop {
        let hit = match (target, offset) {
            (Target::Buffer(buffer), None) => file.hit(word, fd, buffer, len, Way::Careful),
            (Target::Buffer(buffer), Some(offset)) => {
                file.hit_at(word, fd, buffer, len, offset as u64, Way::Careful)
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

/// Whether the window is as the file is.
#[derive(Clone, Copy)]
enum Fresh {
    /// In its epoch alone.
    InItsEpoch,
    /// It was filled or confirmed in this very call, which left the cursor there: what came since may come after the call
    /// as well. So a call ends where other threads never stop learning. But a handler, or another thread, may have moved
    /// the position or filled the window anew.
    InThisCall(u64),
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
    let fresh = match (fresh, offset) {
        (Fresh::InThisCall(left), None) => at == left,
        (Fresh::InThisCall(left), Some(_)) => at >> 32 == left >> 32,
        (Fresh::InItsEpoch, _) => file.epoch.load(Relaxed) == EPOCH.load(Relaxed),
    };
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
        let Some(piece) = vector::piece(vector, index) else { return Hit::BadAddress };
        let len = piece.iov_len.min(left);
        // SAFETY: the window holds what was checked above; the program's side may be anything.
        if unsafe { copy::hand_out(piece.iov_base.cast(), source as *const u8, len) } {
            return Hit::BadAddress;
        }
        source += len as u64;
        left -= len;
    }
    let advance = if offset.is_some() { 0 } else { len as u64 };
    if !crate::floor::atomic::swap(&file.cursor, at, at + advance) {
        return Hit::Miss;
    }
    file.count(Counter::Hits, 1);
    file.count(Counter::HitBytes, len as u64);
    Hit::Done(len)
}

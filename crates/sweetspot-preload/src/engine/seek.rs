//! Seeks: answered here while the position is ours.

use core::sync::atomic::{
    Ordering::{Acquire, Relaxed},
    fence,
};

use sweetspot_core::learning::{Learning, Near};
use sweetspot_core::ledger::Counter;

use super::file::{self, AT_END, CLOSED, OpenFile, Placement};
use super::life::incomplete;
use super::spawns::passive;
use super::{
    AtOnce, Kind, Outcome, Pass, changes, concerns, disturbed, enter, enter_alone,
    is_append_placed, is_followed, passed_for_good, quiesce, release_point, sharing, table,
};
use crate::floor::atomic::{single_threaded, swap};
use crate::floor::errno::fail;
use crate::floor::signals::SignalsBlocked;

/// Every file system has positions up to this one. Of others the kernel is asked.
const POSITION_MAX: i64 = i32::MAX as i64;

/// It is asked for so much more at once: a program that goes on through a file asks once in a while.
const ASK_BEYOND: u64 = 1 << 30;

/// What can be done with a `lseek` at once: where the kernel's offset is the position it goes to the
/// kernel.
#[inline(always)]
pub fn at_once(fd: i32, offset: i64, whence: i32) -> AtOnce {
    let Some((word, end)) = table::word_and_end(fd) else { return AtOnce::otherwise() };
    let value = word.load(Relaxed);
    let asked = value & (table::FREE | Learning::JUMPS_TO_NOTHING);
    if concerns::with(asked) != table::LEARNING || whence != libc::SEEK_SET {
        return table::open_word(fd).map_or_else(AtOnce::otherwise, AtOnce::Kept);
    }
    if !Near(end.load(Relaxed)).has(offset as u64) {
        word.store(Learning(value).jumped_to_nothing().0, Relaxed);
    }
    end.store(Near::to(offset as u64).0, Relaxed);
    AtOnce::Pass
}

/// The new position, where that is ours, of the file of which a descriptor has this word; `None`: go on
/// with [`not_moved`].
#[inline(always)]
pub fn moved(word: u64, fd: i32, offset: i64, whence: i32) -> Option<isize> {
    let file = OpenFile::from_word(word);
    if !file.is_on() || (whence != libc::SEEK_SET && whence != libc::SEEK_CUR) {
        return None;
    }
    let position = move_position(file, fd, word, offset, whence)?;
    file.count(Counter::Seeks, 1);
    Some(position as isize)
}

/// Whether a seek passes through, as nothing concerns it; `None`: go on with [`not_moved`].
#[inline(always)]
pub fn passes(fd: i32, whence: i32) -> Option<Pass> {
    if is_news(whence) { None } else { enter_alone(fd, Kind::Seek, asks(whence)) }
}

/// Whether others may have changed the answer: where a file ends, or has data. The position of a description
/// that is not shared nobody else moves.
#[inline(always)]
fn is_news(whence: i32) -> bool {
    const { assert!(libc::SEEK_SET == 0 && libc::SEEK_CUR == 1) };
    whence as u32 > libc::SEEK_CUR as u32
}

/// A position that is asked for, and is another one than this process has left, shows what others have appended. As the
/// length of a pass ([`Pass`]): 1 for such a question, 0 for a move.
#[inline(always)]
fn asks(whence: i32) -> u64 {
    const { assert!(libc::SEEK_CUR == 1) };
    whence as u64
}

/// The other seeks.
pub fn not_moved(fd: i32, offset: i64, whence: i32) -> Outcome {
    if let Some(pass) = passes(fd, whence) {
        return Outcome::PassThrough(pass);
    }
    slowly(fd, offset, whence)
}

#[cold]
fn slowly(fd: i32, offset: i64, whence: i32) -> Outcome {
    if is_news(whence) {
        changes::reading(fd);
    }
    if passive() {
        return passed_for_good(is_news(whence).then_some(fd), Pass::NOTHING);
    }
    if whence == libc::SEEK_SET
        && offset > POSITION_MAX
        && is_position(fd, offset as u64)
        && let Some(word) = table::open_word(fd)
        && let Some(position) = moved(word, fd, offset, whence)
    {
        return Outcome::Done(position);
    }
    // Others see a shared offset move, and may have moved it; and it may be where what waits under another
    // number of the same description is to go.
    let is_shared = file::open_file(fd)
        .is_some_and(|(file, _)| file.is_from_outside() || sharing::shows_its_offset(file));
    let kind = if is_shared || is_news(whence) { Kind::SeekAcquire } else { Kind::Seek };
    // The size counts, and it may wait in another open file of the same inode.
    if kind == Kind::SeekAcquire {
        release_point();
    }
    let is_asked_only = offset == 0 && whence == libc::SEEK_CUR;
    if !is_asked_only && (is_shared || !is_followed(fd)) {
        changes::moving(fd);
    }
    let mut turn = 0;
    while is_followed(fd) {
        turn += 1;
        disturbed(fd, turn);
        match is_append_placed(fd) {
            true => release_point(),
            false => quiesce::quiesce(fd, quiesce::Next::Learn),
        }
        if let Some(errno) = failing(fd, whence) {
            return Outcome::Done(fail(errno));
        }
        if let Some(pass) = enter(fd, kind, asks(whence)) {
            return Outcome::PassThrough(pass);
        }
    }
    release_point();
    match failing(fd, whence) {
        Some(errno) => Outcome::Done(fail(errno)),
        None => Outcome::PassThrough(Pass::ACQUIRE),
    }
}

/// The error with which a seek is to fail, as it follows from what cannot be written: where the file ends; or the offset
/// at which that is to go, or behind which it was left.
pub fn failing(fd: i32, whence: i32) -> Option<i32> {
    let is_at_offset = |(file, _): (&'static OpenFile, u64)| {
        file.entry().is_some_and(|entry| Placement::of_entry(entry).is_append())
    };
    let follows = is_news(whence) || file::open_file(fd).is_some_and(is_at_offset);
    if follows { incomplete(fd) } else { None }
}

/// Whether a position that is beyond what was asked so far is one on the file system, of a file whose
/// position is ours.
fn is_position(fd: i32, position: u64) -> bool {
    let Some((file, word)) = file::open_file(fd).filter(|(file, _)| file.is_on()) else {
        return false;
    };
    let _signals = SignalsBlocked::new();
    let held = file.hold();
    let is_it = table::word(fd).is_some_and(|now| now.load(Relaxed) == word);
    is_it
        && file.is_on()
        && !held.nested
        && (file.may_be_at(fd, position.saturating_add(ASK_BEYOND)) || file.may_be_at(fd, position))
}

/// Moves the position if that can be done here; `None`: the kernel must answer.
#[inline(always)]
fn move_position(
    file: &'static OpenFile,
    fd: i32,
    word: u64,
    offset: i64,
    whence: i32,
) -> Option<i64> {
    loop {
        let at = file.cursor.load(Acquire);
        let (cursor, window_at) = (at & CLOSED, file.window_at.load(Relaxed));
        let window_len = file.window_len.load(Relaxed);
        let stored = file.position.load(Relaxed);
        let position = file.resolved_position();
        fence(Acquire);
        let still = file.cursor.load(Relaxed) == at;
        if !still || table::word(fd)?.load(Relaxed) != word || !file.is_on() {
            return None;
        }
        if cursor == CLOSED && !single_threaded() {
            // Another thread may have closed it, and be about to say where that was.
            return move_closed(file, fd, offset, whence);
        }
        let current = if cursor == CLOSED { position } else { window_at + cursor } as i64;
        let target = if whence == libc::SEEK_SET { offset } else { current.checked_add(offset)? };
        if target == current {
            return Some(current);
        }
        if !(0..=POSITION_MAX).contains(&target) && !file.has_position(target) {
            return None;
        }
        if cursor == CLOSED && stored == AT_END {
            return move_closed(file, fd, offset, whence);
        }
        let in_window = (target as u64).wrapping_sub(window_at);
        let next_generation = (at >> 32).wrapping_add(1) << 32;
        let moved = if cursor == CLOSED {
            // Nobody else can be at it but a handler, and that is over when this goes on.
            swap(&file.position, stored, target as u64)
        } else if in_window <= window_len {
            swap(&file.cursor, at, next_generation | in_window)
        } else if single_threaded() {
            file.position.store(target as u64, Relaxed);
            swap(&file.cursor, at, next_generation | CLOSED)
        } else {
            return move_closed(file, fd, offset, whence);
        };
        if moved {
            return Some(target);
        }
    }
}

/// The same under the file's lock, for programs with threads.
#[cold]
fn move_closed(file: &'static OpenFile, fd: i32, offset: i64, whence: i32) -> Option<i64> {
    let _signals = SignalsBlocked::new();
    let held = file.hold();
    if !file.is_on() || held.nested || !table::means(fd, file.to_word()) {
        return None;
    }
    let current = file.take_position() as i64;
    let target = if whence == libc::SEEK_SET { offset } else { current.checked_add(offset)? };
    let is_position = (0..=POSITION_MAX).contains(&target) || file.has_position(target);
    // At the end of what waits it stays there, so that the next write waits, too.
    if is_position && target != current {
        file.position.store(target as u64, Relaxed);
    }
    file.reopen_cursor();
    is_position.then_some(target)
}

//! Seeks: answered here while the position is ours.

use core::sync::atomic::{
    Ordering::{Acquire, Relaxed},
    fence,
};

use sweetspot_core::ledger::Counter;

use super::{
    Kind, Outcome, Pass, disturbed, enter, enter_alone, inodes, is_followed, is_trailing, observe,
    settle, speak,
};
use crate::atomic::{single_threaded, swap};
use crate::file::{AT_END, CLOSED, OpenFile};
use crate::process::{SignalsBlocked, passive};
use crate::table;

/// Every file system has positions up to this one. Of others the kernel is asked.
const POSITION_MAX: i64 = i32::MAX as i64;

/// It is asked for so much more at once: who goes on through a file asks once in a while.
const ASK_BEYOND: u64 = 1 << 30;

/// `lseek`.
#[inline(always)]
pub fn seek(fd: i32, offset: i64, whence: i32) -> Outcome {
    match moved(fd, offset, whence) {
        Some(position) => Outcome::Done(position),
        None => not_moved(fd, offset, whence),
    }
}

/// Whether the position may be ours.
#[inline(always)]
pub fn may_move(fd: i32) -> bool {
    table::open_word(fd).is_some()
}

/// The new position, where that is ours; `None`: go on with [`not_moved`].
#[inline(always)]
pub fn moved(fd: i32, offset: i64, whence: i32) -> Option<isize> {
    let (file, word) = table::open_file(fd)?;
    if !file.is_on() || (whence != libc::SEEK_SET && whence != libc::SEEK_CUR) {
        return None;
    }
    let position = move_position(file, fd, word, offset, whence)?;
    file.count(Counter::Seeks, 1);
    Some(position as isize)
}

/// Whether a seek passes through, as nothing concerns it; `None`: go on with [`not_moved`].
#[inline(always)]
pub fn passes(fd: i32) -> Option<Pass> {
    enter_alone(fd, Kind::Seek, 0)
}

/// The other seeks.
pub fn not_moved(fd: i32, offset: i64, whence: i32) -> Outcome {
    if let Some(pass) = passes(fd) {
        return Outcome::PassOn(pass);
    }
    slowly(fd, offset, whence)
}

#[cold]
fn slowly(fd: i32, offset: i64, whence: i32) -> Outcome {
    if observe::is_on() || passive() {
        return observe::call(observe::Kind::Seek, fd, whence as u64, None);
    }
    if whence == libc::SEEK_SET
        && offset > POSITION_MAX
        && is_position(fd, offset as u64)
        && let Some(position) = moved(fd, offset, whence)
    {
        return Outcome::Done(position);
    }
    // The size counts, and it may wait in another open file of the same inode; or the offset is where
    // what waits under another number of the same description is to go.
    if whence != libc::SEEK_SET && whence != libc::SEEK_CUR || others_wait_at_offset(fd) {
        speak();
    }
    let mut turn = 0;
    while is_followed(fd) {
        turn += 1;
        disturbed(fd, turn);
        if !is_trailing(fd) {
            settle::settle(fd, settle::Next::Learn);
        }
        if let Some(pass) = enter(fd, Kind::Seek, 0) {
            return Outcome::PassOn(pass);
        }
    }
    speak();
    Outcome::PassOn(Pass::LISTEN)
}

/// Whether a position that is beyond what was asked so far is one on the file system, of a file whose
/// position is ours.
fn is_position(fd: i32, position: u64) -> bool {
    let Some((file, word)) = table::open_file(fd).filter(|(file, _)| file.is_on()) else {
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

/// Whether bytes wait at an offset that this descriptor may share: which numbers mean one description
/// is not known of those that were open before the program started (`prog > out 2>&1`).
fn others_wait_at_offset(fd: i32) -> bool {
    table::open_file(fd)
        .is_some_and(|(file, _)| file.is_from_outside() && inodes::others_pending(file))
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
        let current = if cursor == CLOSED { position } else { window_at + cursor } as i64;
        let target = if whence == libc::SEEK_SET { offset } else { current.checked_add(offset)? };
        if target == current {
            return Some(current);
        }
        if !(0..=POSITION_MAX).contains(&target) && !file.has_position(target) {
            return None;
        }
        if cursor == CLOSED && (!single_threaded() || stored == AT_END) {
            return move_closed(file, offset, whence);
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
            return move_closed(file, offset, whence);
        };
        if moved {
            return Some(target);
        }
    }
}

/// The same under the file's lock, for programs with threads.
#[cold]
fn move_closed(file: &'static OpenFile, offset: i64, whence: i32) -> Option<i64> {
    let _signals = SignalsBlocked::new();
    let held = file.hold();
    if !file.is_on() || held.nested {
        return None;
    }
    let current = file.take_position() as i64;
    let target = if whence == libc::SEEK_SET { offset } else { current.checked_add(offset)? };
    let is_position = (0..=POSITION_MAX).contains(&target) || file.has_position(target);
    if is_position {
        file.position.store(target as u64, Relaxed);
    }
    file.reopen_cursor();
    is_position.then_some(target)
}

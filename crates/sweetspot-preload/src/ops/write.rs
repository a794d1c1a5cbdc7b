//! Writes. They go straight on, in order; a file whose position is ours is written at that position
//! and keeps its window up to date.
#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::learning::Learning;
use sweetspot_core::ledger::Counter;

use super::{Kind, Outcome, Pass, enter, inodes, settle, speak, transition};
use crate::file::{self, OpenFile};
use crate::process::{SignalsBlocked, passive};
use crate::{copy, sys, table};

/// Small writes after which the inode of a file is worth knowing while windows are open: until then
/// each write makes every window ask again (410 ns a window), afterwards only those of its inode.
const WRITES_TO_BE_KNOWN: u32 = 8;

/// The program's side of a write.
#[derive(Clone, Copy)]
enum Source {
    Buffer(*const u8, usize),
    Vector(*const libc::iovec, i32),
}

/// `write`.
#[inline(always)]
pub fn write(fd: i32, buffer: *const u8, len: usize) -> Outcome {
    slowly(fd, Source::Buffer(buffer, len), Kind::Write)
}

/// `pwrite`.
pub fn write_at(fd: i32, buffer: *const u8, len: usize) -> Outcome {
    slowly(fd, Source::Buffer(buffer, len), Kind::WriteAt)
}

/// `writev`.
pub fn write_vector(fd: i32, vector: *const libc::iovec, count: i32) -> Outcome {
    slowly(fd, Source::Vector(vector, count), Kind::Write)
}

/// `pwritev`.
pub fn write_vector_at(fd: i32, vector: *const libc::iovec, count: i32) -> Outcome {
    slowly(fd, Source::Vector(vector, count), Kind::WriteAt)
}

fn slowly(fd: i32, source: Source, kind: Kind) -> Outcome {
    if passive() {
        return Outcome::PassOn(Pass::NOTHING);
    }
    let len = match source {
        Source::Buffer(_, len) => len as u64,
        // Vectors are not learned from.
        Source::Vector(..) => u64::MAX,
    };
    for _ in 0..4 {
        let Some((file, _)) = table::open_file(fd) else {
            match table::learning_word(fd) {
                Some(_) => match enter(fd, kind, len) {
                    Some(pass) => return Outcome::PassOn(pass),
                    None => continue,
                },
                None => break,
            }
        };
        if !file.is_on() {
            match enter(fd, kind, len) {
                Some(pass) => return Outcome::PassOn(pass),
                None => continue,
            }
        }
        match (kind, source) {
            (Kind::Write, Source::Buffer(buffer, len)) if !appends(file) => {
                if let Some(answer) = write_on(file, fd, buffer, len) {
                    return Outcome::Done(answer);
                }
            }
            _ => settle::settle(fd, settle::Next::Learn),
        }
    }
    speak();
    match table::word(fd).map(|word| table::tag(word.load(Relaxed))) {
        Some(table::STRAIGHT) => Outcome::PassOn(Pass { kind, fd, len }),
        // A descriptor that is not followed: perhaps a file that has a window elsewhere, perhaps a
        // pipe whose reader now goes on.
        _ => Outcome::PassOn(Pass::LISTEN),
    }
}

fn appends(file: &OpenFile) -> bool {
    file.flags.load(Relaxed) & libc::O_APPEND as u32 != 0
}

/// Writes at the position that is ours; `None` when it is ours no longer.
fn write_on(file: &'static OpenFile, fd: i32, buffer: *const u8, len: usize) -> Option<isize> {
    let _signals = SignalsBlocked::new();
    let _held = file.hold();
    if !file.is_on() {
        return None;
    }
    let at = file.take_position();
    speak();
    // SAFETY: the kernel checks the program's memory.
    let answer = unsafe { sys::write_at(fd, buffer, len, at) };
    file.count(Counter::StraightWrites, 1);
    if answer > 0 {
        file.count(Counter::StraightWriteBytes, answer as u64);
        file.position.store(at + answer as u64, Relaxed);
        update_window(file, at, buffer, answer as u64);
        inodes::written(Some(file));
        // The file's own window holds what was just written: it is as fresh as before.
        file.epoch.store(crate::process::EPOCH.load(Relaxed), Relaxed);
    }
    file.reopen_cursor();
    Some(if answer < 0 { crate::fail(-answer as i32) } else { answer })
}

/// Puts bytes that were just written into the window, as far as it holds that part of the file.
/// What lies beyond its end is read when it is needed. The lock is held and the cursor closed.
fn update_window(file: &OpenFile, at: u64, buffer: *const u8, len: u64) {
    let (window_at, window_len) = (file.window_at.load(Relaxed), file.window_len.load(Relaxed));
    let (from, to) = (at.max(window_at), (at + len).min(window_at + window_len));
    if window_len == 0 || from >= to {
        return;
    }
    let target = file.window.load(Relaxed) + (from - window_at);
    // SAFETY: the window's side is valid; the kernel has just read the program's side.
    let bad = unsafe {
        copy::copy(
            target as *mut u8,
            buffer.wrapping_add((from - at) as usize),
            (to - from) as usize,
        )
    };
    if bad != 0 {
        file.drop_window();
    }
}

/// Whether a learning descriptor has made enough small writes for `earn`.
pub fn earned(learning: Learning) -> bool {
    learning.small_writes() == WRITES_TO_BE_KNOWN
}

/// Small writes were seen: know the inode, so that they disturb only windows of their own file.
pub fn earn(fd: i32) {
    if !inodes::any_window() {
        return;
    }
    let _signals = SignalsBlocked::new();
    let registry = file::hold_registry();
    transition::make_known(fd, &registry);
}

//! The life of descriptors: opened, duplicated, closed, handed on.

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::learning::Learning;
use sweetspot_core::why::Why;

use super::{settle, speak, transition, write};
use crate::file;
use crate::process::{SignalsBlocked, passive};
use crate::table;

/// A descriptor was opened by path, with these open flags. `fd` may be an error.
pub fn opened(fd: i32, flags: i32) {
    if fd >= 0 && !passive() {
        forget(fd);
        let close_on_exec = if flags & libc::O_CLOEXEC != 0 { Learning::CLOSE_ON_EXEC } else { 0 };
        table::opened(fd, close_on_exec);
        crate::process::listen();
    }
}

/// A descriptor was made that is no file opened by path (or whose making was not understood).
pub fn made(fd: i32) {
    if fd >= 0 && !passive() {
        forget(fd);
        crate::process::listen();
    }
}

/// Before a descriptor is closed: what was kept for it ends.
pub fn closing(fd: i32) {
    if !passive() {
        speak();
        forget(fd);
    }
}

/// Ends what is known of a descriptor, whose number may now mean something else.
pub fn forget(fd: i32) {
    let Some(word) = table::word(fd) else { return };
    if table::tag(word.load(Relaxed)) != table::OPEN {
        word.store(table::UNKNOWN, Relaxed);
        return;
    }
    // In order with what other files have pending; what is pending after this cannot be written.
    speak();
    let _signals = SignalsBlocked::new();
    let _dirty = write::hold_dirty();
    let registry = file::hold_registry();
    let Some((file, open)) = table::open_file(fd) else { return };
    word.store(table::UNKNOWN, Relaxed);
    if file.references.fetch_sub(1, Relaxed) > 1 {
        if file.fd.load(Relaxed) == fd
            && let Some(other) = table::all()
                .find(|other| table::open_file(*other).is_some_and(|(_, word)| word == open))
        {
            file.fd.store(other, Relaxed);
        }
        return;
    }
    let held = file.hold();
    if held.nested {
        // A handler closes the file to which the interrupted frame is appending: that goes on with
        // the record and the chunk, so neither is used again.
        return;
    }
    write::settle_held(file, &held);
    write::take_off(file);
    file.close_cursor();
    file.drop_window(&held);
    write::unpin(file);
    drop(held);
    file.free(&registry);
}

/// Before a descriptor is duplicated: both will share one open file.
pub fn duplicating(fd: i32) {
    if !passive() {
        let _signals = SignalsBlocked::new();
        let registry = file::hold_registry();
        transition::make_known(fd, &registry);
    }
}

/// Before a descriptor may be replaced by a duplicate (or not, if that fails): the kernel knows its
/// position.
pub fn may_be_replaced(fd: i32) {
    if !passive() {
        speak();
        settle::settle(fd, settle::Next::Learn);
    }
}

/// `new` is now a duplicate of `old`.
pub fn duplicated(old: i32, new: i32) {
    if new < 0 || passive() || old == new {
        return;
    }
    forget(new);
    let _signals = SignalsBlocked::new();
    let _registry = file::hold_registry();
    match table::open_file(old) {
        Some((file, word)) => {
            file.references.fetch_add(1, Relaxed);
            table::set(new, word);
        }
        None => {
            let word = table::word(old).map_or(table::UNKNOWN, |word| word.load(Relaxed));
            // A word that is still learning is never shared: then nothing is known of both.
            let shared = if table::tag(word) == table::LEARNING { table::STRAIGHT } else { word };
            table::set(old, shared);
            table::set(new, shared);
        }
    }
}

/// Close-on-exec was set or cleared.
pub fn set_close_on_exec(fd: i32, flags: i32) {
    if passive() {
        return;
    }
    if let Some(word) = table::learning_word(fd) {
        let value = word.load(Relaxed);
        if table::is_learning(value) {
            let learning = Learning(value);
            let next = match flags & libc::FD_CLOEXEC {
                0 => learning.without(Learning::CLOSE_ON_EXEC),
                _ => learning.with(Learning::CLOSE_ON_EXEC),
            };
            crate::atomic::swap(word, value, next.0);
        }
    }
}

/// The descriptor is about to be used in a way that is not followed: straight on for good.
pub fn special_use(fd: i32, why: Why) {
    if !passive() {
        speak();
        settle::settle(fd, settle::Next::Straight(why));
    }
}

/// The kernel is about to use the descriptor's offset, or its content, behind our back.
pub fn hand_over(fd: i32) {
    if !passive() {
        speak();
        settle::settle(fd, settle::Next::Learn);
    }
}

//! Descriptors are duplicated and replaced: for the engine, or in a process that is observed for the observer.

use sweetspot_core::why::Why;

use super::dispatch::{are_closed, before_it_is_shown, is_observed, pass_through};
use crate::engine::{duplicates, streams};
use crate::floor::atomic::has_threads;
use crate::observer;

/// Duplicates a descriptor, to a number that was free.
pub fn duplicate(fd: i32, call: impl FnOnce() -> isize) -> isize {
    let _handlers = duplicates::without_handlers();
    duplicating(fd);
    let new = call();
    duplicated(fd, new as i32);
    new
}

/// Makes a descriptor a duplicate of `old`, whatever it was.
pub fn replace(old: i32, new: i32, call: impl FnOnce() -> isize) -> isize {
    let _handlers = duplicates::without_handlers();
    if old != new {
        duplicating(old);
        duplicates::may_be_replaced(new);
    }
    let answer = call();
    are_closed();
    duplicated(old, answer as i32);
    answer
}

fn duplicating(fd: i32) {
    match is_observed() {
        true if has_threads() => observer::special_use(fd, Why::Duplicated),
        true => observer::release_point(),
        false => duplicates::duplicating(fd),
    }
}

fn duplicated(old: i32, new: i32) {
    if new < 0 {
        // Somebody may have set a limit.
        pass_through().done();
    }
    match is_observed() {
        true => observer::duplicated(old, new),
        false => duplicates::duplicated(old, new),
    }
    streams::may_lead_to(new);
}

/// Sets or clears close-on-exec by that call.
pub fn setting_close_on_exec(fd: i32, flags: i32, call: impl FnOnce() -> isize) -> isize {
    // Others can see it, as they can see a new number.
    before_it_is_shown();
    let closes = flags & libc::FD_CLOEXEC != 0;
    // A child of another thread's may have the descriptor from the call on. If that fails, buffering is all it costs.
    if !closes {
        set_close_on_exec(fd, flags);
    }
    let answer = call();
    if closes && answer == 0 {
        set_close_on_exec(fd, flags);
    }
    answer
}

/// Close-on-exec was set, or is about to be cleared.
pub fn set_close_on_exec(fd: i32, flags: i32) {
    if is_observed() {
        observer::set_close_on_exec(fd, flags);
    } else {
        duplicates::set_close_on_exec(fd, flags);
    }
}

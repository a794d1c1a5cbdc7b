//! Descriptors that share a description: duplicated, replaced by a duplicate, kept over an exec.
//!
//! The kernel replaces a descriptor in one step; here its word follows. In between, another thread may make a
//! call by a descriptor whose word means another description than the kernel's. So in a process of several
//! threads a description is never buffered again once a descriptor of it is duplicated or replaced, or closed
//! beside others: whatever a call takes it for, it goes to the kernel, at the kernel's offset. In a process of
//! one thread a handler is put off meanwhile.

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::learning::Learning;
use sweetspot_core::why::Why;

use super::dirty::{self, release_point};
use super::file::{self, OpenFile};
use super::life::{look_elsewhere, note_unreported, replace, special_use};
use super::spawns::{is_spawned_child, passive};
use super::{alone, concerns, failing, handle, quiesce, table, transition};
use crate::floor::atomic::has_threads;
use crate::floor::signals::SignalsBlocked;

/// Before a descriptor is duplicated: both will share one open file, and others can see the new number.
pub fn duplicating(fd: i32) {
    dirty::before_it_is_shown();
    if passive() {
        return;
    }
    if has_threads() {
        return special_use(fd, Why::Duplicated);
    }
    if table::word(fd).is_some_and(|word| table::tag(word.load(Relaxed)) == table::LEARNING) {
        let _signals = SignalsBlocked::new();
        let registry = file::hold_registry();
        transition::make_known(fd, &registry);
    }
    alone::ask_no_more(fd);
}

/// Whether another descriptor of its description keeps what is kept for `fd`; it stands for the file then.
fn is_kept_elsewhere(fd: i32) -> bool {
    let Some((file, open)) = file::open_file(fd) else { return false };
    if file.references.load(Relaxed) < 2 {
        return false;
    }
    if file.fd.load(Relaxed) == fd {
        let _signals = SignalsBlocked::deferring();
        let _registry = file::hold_registry();
        look_elsewhere(file, fd, open);
    }
    file.fd.load(Relaxed) != fd
}

/// Before a descriptor may be replaced by a duplicate (or not, if that fails): the kernel knows its
/// position, unless the description has other descriptors. A shell does so for each line that it reads or
/// writes elsewhere (`read line <&3`).
pub fn may_be_replaced(fd: i32) {
    if passive() {
        return;
    }
    if has_threads() {
        special_use(fd, Why::Duplicated);
        return note_unreported(fd);
    }
    alone::ask_no_more(fd);
    if let Some((file, _)) = file::open_file(fd) {
        handle::forget_number(file, fd);
    }
    release_point();
    if !is_kept_elsewhere(fd) {
        quiesce::quiesce(fd, quiesce::Next::Learn);
        note_unreported(fd);
    }
}

/// Puts off handlers while a descriptor is replaced: what they write to it would be taken for the old file's.
pub fn without_handlers() -> Option<SignalsBlocked> {
    (!passive() && concerns::is_concurrent() && !has_threads()).then(SignalsBlocked::deferring)
}

/// `new` is now a duplicate of `old`.
pub fn duplicated(old: i32, new: i32) {
    if new < 0 || old == new {
        return;
    }
    if passive() {
        failing::duplicated_for_good(old, new);
        kept_by_child(old);
        return;
    }
    if table::word(new).is_none() {
        // Nobody knows the number yet; anyone who uses it later is not seen to use the same position.
        special_use(old, Why::Shared);
        return;
    }
    let word = share_word(old);
    replace(new, word, None);
}

/// The word of a descriptor, for another one of its description, which counts from now on.
fn share_word(fd: i32) -> u64 {
    let word_of = |fd| table::word(fd).map_or(table::UNKNOWN, |word| word.load(Relaxed));
    let word = word_of(fd);
    if matches!(table::tag(word), table::OTHER | table::PASS_THROUGH) {
        // All that is known of it, for good, is this word. (Of an unknown one another thread may be about to
        // learn more.)
        return if table::is_closed(word) { table::OTHER } else { word };
    }
    let _signals = SignalsBlocked::deferring();
    let _registry = file::hold_registry();
    if let Some((file, word)) = file::open_file(fd) {
        file.references.fetch_add(1, Relaxed);
        // The duplicate may outlive an exec, whatever holds for the first.
        survives_exec(file);
        return word;
    }
    // A word that is still learning is never shared: then nothing is known of both.
    let word = word_of(fd);
    let shared = if table::tag(word) == table::LEARNING { table::PASS_THROUGH } else { word };
    table::set(fd, shared);
    shared
}

/// Close-on-exec was set, or is about to be cleared.
pub fn set_close_on_exec(fd: i32, flags: i32) {
    let closed = flags & libc::FD_CLOEXEC != 0;
    if passive() {
        if !closed {
            kept_by_child(fd);
        }
        return;
    }
    // A pipe or a socket has nothing that begins or ends, and waits for nobody who asks a server meanwhile.
    if file::learning_word(fd).is_none() {
        return;
    }
    // Beside threads: no buffer begins or ends in the middle of it.
    let _signals = has_threads().then(SignalsBlocked::new);
    let _registry = has_threads().then(file::hold_registry);
    if let Some((file, _)) = file::open_file(fd) {
        // Set for one of several descriptors, it says nothing about the others.
        if !closed {
            let _held = has_threads().then(|| file.hold());
            survives_exec(file);
        }
        return;
    }
    let Some(word) = table::word(fd) else { return };
    loop {
        let value = word.load(Relaxed);
        if !table::is_learning(value) {
            return;
        }
        let learning = Learning(value);
        let next = match closed {
            false => learning.without(Learning::CLOSE_ON_EXEC),
            true => learning.with(Learning::CLOSE_ON_EXEC),
        };
        if crate::floor::atomic::swap(word, value, next.0) {
            return;
        }
    }
}

/// Some descriptor of an open file is not closed at exec: a new program will share its offset.
fn survives_exec(file: &OpenFile) {
    for word in [&file.learned, &file.state] {
        loop {
            let value = word.load(Relaxed);
            let with = Learning(value).has(Learning::CLOSE_ON_EXEC);
            if table::tag(value) != table::LEARNING || !with {
                break;
            }
            let without = Learning(value).without(Learning::CLOSE_ON_EXEC);
            if crate::floor::atomic::swap(word, value, without.0) {
                break;
            }
        }
    }
}

/// The child of a vfork duplicated a descriptor or let it survive the exec: then the parent shares
/// it for good, though it was to be closed. The child's descriptor means the same open file.
fn kept_by_child(fd: i32) {
    let was_shared = file::open_file(fd).is_some_and(|(file, _)| file.is_from_outside());
    if is_spawned_child() && !was_shared {
        quiesce::quiesce(fd, quiesce::Next::PassThrough(Why::Shared));
    }
}

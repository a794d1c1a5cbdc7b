//! The only way out of buffering: a file is *quiesced*. What waits is written, the window is dropped,
//! and the kernel is told the position.

use core::sync::atomic::Ordering::{Relaxed, Release};

use sweetspot_core::learning::Learning;
use sweetspot_core::ledger::{Counter, Entry};
use sweetspot_core::unwritten::FLUSH_FAILED;
use sweetspot_core::why::Why;

use super::dirty::release_point;
use super::file::{self, Held, OpenFile};
use super::table::is_locked;
use super::{flush, handle, pool, table};
use crate::floor::atomic::swap;
use crate::floor::backoff::Backoff;
use crate::floor::signals::SignalsBlocked;
use crate::floor::sys;

/// What becomes of the file once it is quiesced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// It may earn a window again with as many reads.
    Learn,
    /// Buffering did not pay: it takes twice as many reads.
    BackOff,
    /// Its calls pass through for good.
    PassThrough(Why),
    /// Likewise, as it is about to be closed.
    Close,
}

/// Quiesces the open file of a descriptor, if it has one.
#[unsafe(link_section = ".text.startup")]
pub fn quiesce(fd: i32, next: Next) {
    let (file, word) = loop {
        wait_for_transition(fd);
        if let Some(known) = file::open_file(fd) {
            break known;
        }
        let Some(word) = table::word(fd).filter(|_| matches!(next, Next::PassThrough(_))) else {
            return;
        };
        let value = word.load(Relaxed);
        // Where it fails, another thread may have given the file a window.
        if table::tag(value) != table::LEARNING || swap(word, value, table::PASS_THROUGH) {
            return;
        }
    };
    if !file.is_buffered() && !matches!(next, Next::PassThrough(_) | Next::Close) {
        return;
    }
    for turn in 0..=TRIES_MAX {
        // In order with what other files have pending.
        release_point();
        let _signals = SignalsBlocked::new();
        let held = file.hold();
        if table::word(fd).is_none_or(|now| now.load(Relaxed) != word) {
            // Another thread closed it meanwhile, and the record may be another file's by now.
            return;
        }
        let is_failing = file.error.load(Relaxed) != 0;
        if file.pending() == 0 || is_failing || held.nested || turn == TRIES_MAX {
            return quiesce_held(file, fd, next, &held);
        }
    }
}

/// Waits until no other thread is about to take the position of a descriptor's file: it has looked at
/// what this thread is about to change, and would go on as if nothing had happened. It holds the
/// registry, so no fork comes in between, and blocks signals, so this thread is never the one.
pub fn wait_for_transition(fd: i32) {
    let mut backoff = Backoff::default();
    while file::learning_word(fd).is_some_and(|word| is_locked(word.load(Relaxed))) {
        backoff.wait();
    }
}

/// Waits until no other thread is in the middle of asking for a handle, or of a transition: it may have looked at what
/// this thread has changed before, and would go on as if nothing had happened.
pub fn wait_for_all() {
    let _signals = SignalsBlocked::new();
    drop(file::hold_registry());
}

/// Tries to find nothing pending before a file is quiesced while other threads go on writing to it.
const TRIES_MAX: u32 = 16;

/// Quiesces a file whose lock is held.
#[unsafe(link_section = ".text.startup")]
pub fn quiesce_held(file: &'static OpenFile, fd: i32, next: Next, held: &Held) {
    if file.is_buffered() {
        let is_ours = file.is_on();
        flush::drain_held(file, held);
        if is_ours {
            let position = file.take_position();
            file.position.store(position, Relaxed);
            pool::drop_window(file, held);
            file.count(Counter::KernelCalls, 1);
            sys::seek(fd, position as i64, libc::SEEK_SET);
        }
        let learned = Learning(file.learned.load(Relaxed));
        let word = match next {
            Next::BackOff => learned.back_off(),
            _ => learned.start_again(),
        };
        // Anyone who finds it so calls the kernel, which knows the position by now.
        file.state.store(word.0, Release);
    }
    if let Next::PassThrough(why) = next {
        file.note(why);
    }
    if matches!(next, Next::PassThrough(_) | Next::Close) {
        file.state.store(table::PASS_THROUGH, Release);
        if !held.nested && !is_to_be_tried(file) {
            handle::let_go(file);
        }
    }
}

/// Whether bytes wait that could not be written so far: then the file keeps its entry.
fn is_to_be_tried(file: &OpenFile) -> bool {
    let is_tried = |entry: &Entry| entry.flushing.load(Relaxed) != FLUSH_FAILED;
    file.pending() != 0 && file.entry().is_some_and(is_tried)
}

/// Quiesces a file and has the guard let go of it; false: not now. Its writes may earn a handle anew.
pub fn give_handle_back(fd: i32, file: &'static OpenFile) -> bool {
    quiesce(fd, Next::Learn);
    let _signals = SignalsBlocked::new();
    let held = file.hold();
    let is_it = table::means(fd, file.to_word());
    let can = is_it && !held.nested && !file.attachment.waits() && !is_to_be_tried(file);
    if can {
        handle::let_go(file);
    }
    can
}

//! The lock of an open file: held by a transition, or by an append, which may never come back. See `file`.

use core::sync::atomic::Ordering::Relaxed;

use super::file::{Held, OpenFile};
use super::put_off::{self, appender};
use super::{flush, handle, inodes, lane};
use crate::floor::atomic::{Threads, swap};
use crate::floor::backoff::Backoff;
use crate::floor::lock::is_holder_elsewhere;
use crate::floor::{clock, sys};

/// How long another thread's append may hold the lock, in milliseconds, before it is taken for one
/// that a signal handler has left for good: one that could not be put off (`put_off`). An append copies a
/// few hundred bytes; a thread that is merely not scheduled is back sooner.
const STEAL_MS: u64 = 1000;

/// In a lock word: held by a transition, which always ends.
const TRANSITION: u64 = 1;

impl OpenFile {
    /// Takes its lock. Signals must be blocked. See the module documentation for who may hold it.
    #[unsafe(link_section = ".text.startup")]
    pub fn hold(&'static self) -> Held {
        lane::close();
        let me = sys::thread_pointer();
        let (mut backoff, mut since_ms) = (Backoff::default(), 0);
        loop {
            let holder = self.lock.load(Relaxed);
            if holder == 0 {
                if swap(&self.lock, 0, me | TRANSITION) {
                    return Held { file: self, nested: false };
                }
            } else if appender(holder) == me {
                if !self.append_was_left() {
                    return Held { file: self, nested: true };
                }
                // Only a guess: a coroutine that a handler left goes on later, on a stack of its own.
                if swap(&self.lock, holder, me | TRANSITION) {
                    return self.taken_over();
                }
            } else if holder == me | TRANSITION {
                // As in `lock::hold`: a child of a vfork was killed in the middle.
                return Held { file: self, nested: false };
            } else if backoff.is_late() && is_holder_elsewhere() {
                if swap(&self.lock, holder, me | TRANSITION) {
                    return Held { file: self, nested: false };
                }
            } else if backoff.is_late() {
                let now = clock::now_ms();
                if since_ms == 0 {
                    since_ms = now;
                }
                let late = now.saturating_sub(since_ms) > STEAL_MS && holder & TRANSITION == 0;
                if late && swap(&self.lock, holder, me | TRANSITION) {
                    return self.taken_over();
                }
            }
            backoff.wait();
        }
    }

    /// The lock was taken from an append that may yet go on.
    fn taken_over(&'static self) -> Held {
        self.frame.store(0, Relaxed);
        abandon(self);
        Held { file: self, nested: false }
    }

    /// Whether the append of this thread that holds the lock will never go on: a signal handler
    /// jumped out of it, to a frame above it. A guess: see [`OpenFile::taken_over`].
    fn append_was_left(&self) -> bool {
        let frame = self.frame.load(Relaxed);
        let here = sys::stack_pointer();
        if frame == 0 || here <= frame {
            return false;
        }
        // Frames of different stacks cannot be compared: on the alternate stack the append may be
        // going on below us.
        !sys::on_alternate_stack()
    }

    /// Whether an append of this thread was interrupted, and goes on when its handler returns.
    pub fn is_append_interrupted(&self) -> bool {
        appender(self.lock.load(Relaxed)) == sys::thread_pointer()
    }

    /// Takes the lock for an append, without blocking signals; false if it is held.
    #[inline(always)]
    pub fn enter_append(&self) -> bool {
        // In one step, also where there is one thread: a handler may come in between, and go on with
        // another coroutine, which would hold it as well.
        if !Threads::now().swap(&self.lock, 0, sys::thread_pointer()) {
            return false;
        }
        self.frame.store(sys::stack_pointer(), Relaxed);
        true
    }

    /// Gives it back, unless it was taken over. A handler may have made a thread meanwhile, so the
    /// threads are asked for once more.
    #[inline(always)]
    pub fn leave_append(&self) -> Threads {
        self.frame.store(0, Relaxed);
        let threads = Threads::now();
        match threads {
            Threads::One => self.lock.store(0, Relaxed),
            Threads::Several => {
                if !threads.swap(&self.lock, sys::thread_pointer(), 0) {
                    self.leave_disturbed();
                }
            }
        }
        threads
    }

    /// The same where the append was taken over, a handler ran above it, or some are put off.
    #[cold]
    #[inline(never)]
    fn leave_disturbed(&self) {
        let word = self.lock.load(Relaxed);
        if appender(word) == sys::thread_pointer() {
            swap(&self.lock, word, 0);
        }
        put_off::deliver();
    }
}

/// Another append held the lock and was perhaps left for good: writes out what it committed, and lets
/// go of its write buffer without ever using it again. The lock is held.
fn abandon(file: &'static OpenFile) {
    let held = Held::assumed(file);
    flush::drain_held(file, &held);
    handle::detach(file, &held);
    core::mem::forget(held);
    file.attachment.give_up();
    // Nor is its window's memory, into which the old owner may still be copying.
    let position = file.take_position();
    file.position.store(position, Relaxed);
    file.window_len.store(0, Relaxed);
    if file.buffer_bytes.swap(0, Relaxed) > 0 {
        inodes::window_closed(file);
    }
    if file.pending() == 0 {
        file.attachment.disown();
    }
}

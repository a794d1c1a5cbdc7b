//! Hits: reads that a window answers, without a lock. See `file`.
#![allow(unsafe_code)]

use core::sync::atomic::Ordering;
use core::sync::atomic::{Ordering::Relaxed, fence};

use sweetspot_core::ledger::Counter;

use crate::engine::file::{CLOSED, OpenFile};
use crate::engine::{process, table};
use crate::floor::atomic::Threads;
use crate::floor::{careful, clock, copy};

/// What a hit found.
pub enum Hit {
    /// The read is done: that many bytes.
    Done(usize),
    /// The window cannot answer: ask the engine.
    Miss,
    /// Somebody came in between: look again.
    Disturbed,
    /// The program's buffer is no memory that can be written.
    BadAddress,
}

/// On which way a call looks at the time and copies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The short one, which is closed where care is needed.
    Short,
    /// After a look at the time.
    Careful,
}

impl Way {
    /// Whether nothing is due before the call is answered.
    #[inline(always)]
    pub fn tick(self) -> bool {
        clock::tick() || (self == Way::Careful && careful::is_needed())
    }

    /// As [`copy::copy`], from the program.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub unsafe fn fetch(self, ours: *mut u8, programs: *const u8, len: usize) -> bool {
        // SAFETY: as the caller says.
        unsafe {
            match self {
                Way::Short => copy::copy(ours, programs, len),
                Way::Careful => copy::fetch(ours, programs, len),
            }
        }
    }

    /// As [`copy::copy`], to the program.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn hand_out(self, programs: *mut u8, ours: *const u8, len: usize) -> bool {
        // SAFETY: as the caller says.
        unsafe {
            match self {
                Way::Short => copy::copy(programs, ours, len),
                Way::Careful => copy::hand_out(programs, ours, len),
            }
        }
    }
}

impl OpenFile {
    /// Answers a read of `len` bytes at the position out of the window, and moves the position.
    #[inline(always)]
    pub fn hit(&'static self, word: u64, fd: i32, buffer: *mut u8, len: usize, way: Way) -> Hit {
        let at = self.cursor.load(Ordering::Acquire);
        // The descriptor still means this file. If that ends, its cursor is closed.
        if !table::means(fd, word) {
            return Hit::Disturbed;
        }
        let cursor = at & CLOSED;
        let source = self.window.load(Relaxed) + cursor;
        // A closed cursor is larger than any window.
        if !self.is_in_window(cursor, len) || !self.is_fresh() || !way.tick() {
            return Hit::Miss;
        }
        // What was read above belongs together.
        fence(Ordering::Acquire);
        if self.cursor.load(Relaxed) != at {
            return Hit::Disturbed;
        }
        // SAFETY: the window holds `window_len` bytes; the program's side may be anything.
        if unsafe { way.hand_out(buffer, source as *const u8, len) } {
            return Hit::BadAddress;
        }
        let threads = Threads::now();
        if !threads.swap(&self.cursor, at, at + len as u64) {
            return Hit::Disturbed;
        }
        self.count_call(threads, Counter::Hits, Counter::HitBytes, len as u64);
        Hit::Done(len)
    }

    /// Answers a read of `len` bytes at `offset` out of the window; the position stays.
    #[inline(always)]
    pub fn hit_at(
        &'static self,
        word: u64,
        fd: i32,
        buffer: *mut u8,
        len: usize,
        offset: u64,
        way: Way,
    ) -> Hit {
        let at = self.cursor.load(Ordering::Acquire);
        if !table::means(fd, word) {
            return Hit::Disturbed;
        }
        let from = offset.wrapping_sub(self.window_at.load(Relaxed));
        let source = self.window.load(Relaxed).wrapping_add(from);
        if !self.is_in_window(from, len) || !self.is_fresh() || !way.tick() {
            return Hit::Miss;
        }
        let is_same = || self.cursor.load(Relaxed) >> 32 == at >> 32;
        fence(Ordering::Acquire);
        if !is_same() {
            return Hit::Disturbed;
        }
        // SAFETY: as in `hit`.
        if unsafe { way.hand_out(buffer, source as *const u8, len) } {
            return Hit::BadAddress;
        }
        fence(Ordering::Acquire);
        if !is_same() {
            return Hit::Disturbed;
        }
        self.count_call(Threads::now(), Counter::Hits, Counter::HitBytes, len as u64);
        Hit::Done(len)
    }

    /// Whether the window holds `len` bytes from there on, and that is not none. What is too large for a
    /// sum is smaller than its beginning.
    #[inline(always)]
    fn is_in_window(&self, from: u64, len: usize) -> bool {
        let end = from.wrapping_add(len as u64);
        end > from && end <= self.window_len.load(Relaxed)
    }

    /// Whether nothing was learned since the window was filled or confirmed.
    #[inline(always)]
    fn is_fresh(&self) -> bool {
        self.epoch.load(Relaxed) == process::EPOCH.load(Relaxed)
    }

    /// The same where nobody comes in between; false: as any other answer.
    ///
    /// # Safety
    /// Neither a handler nor another thread may.
    #[inline(always)]
    pub unsafe fn hit_alone(&self, buffer: *mut u8, len: usize) -> bool {
        // SAFETY: nobody else writes them, as the caller says: so the compiler may take them for operands.
        let (cursor, window_len, epoch) = unsafe {
            (*self.cursor.as_ptr() & CLOSED, *self.window_len.as_ptr(), *self.epoch.as_ptr())
        };
        // A closed cursor is larger than any window.
        let Some(left) = window_len.checked_sub(cursor) else { return false };
        // SAFETY: as above.
        let is_due = unsafe { !clock::tick_alone() };
        if is_due || epoch != process::EPOCH.load(Relaxed) || len as u64 > left {
            return false;
        }
        let source = self.window.load(Relaxed) + cursor;
        // SAFETY: the window holds `window_len` bytes; the program's side may be anything.
        if unsafe { copy::copy_at_once(buffer, source as *const u8, len) } {
            return false;
        }
        let at = self.cursor.load(Relaxed);
        self.cursor.store(at + len as u64, Relaxed);
        self.count_call(Threads::One, Counter::Hits, Counter::HitBytes, len as u64);
        true
    }
}

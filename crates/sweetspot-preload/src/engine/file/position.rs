//! Where the position of an open file is, and moving it. See `file`.

use core::sync::atomic::Ordering;
use core::sync::atomic::{Ordering::Relaxed, fence};

use sweetspot_core::pending::length_of;

use crate::engine::file::{AT_END, CLOSED, OpenFile};
use crate::floor::atomic::swap;
use crate::floor::sys;

impl OpenFile {
    /// What `position` says, with `AT_END` resolved.
    #[inline(always)]
    pub fn resolved_position(&self) -> u64 {
        loop {
            // Anyone who stores `AT_END` has said before where that is.
            let position = self.position.load(Ordering::Acquire);
            if position != AT_END {
                return position;
            }
            let Some(entry) = self.entry() else { return self.end.load(Relaxed) };
            let word = entry.word.load(Ordering::Acquire);
            let end = match length_of(word) {
                // Not the base: an append that a flush has overtaken says `AT_END` after it.
                0 => self.end.load(Ordering::Acquire),
                len => entry.base.load(Ordering::Acquire) + len,
            };
            // A flush changes the position before the word: what was read belongs together.
            if self.position.load(Ordering::Acquire) == AT_END && entry.word.load(Relaxed) == word {
                return end;
            }
        }
    }

    /// The position of a file that is on, as far as it can be known without the lock.
    pub fn current_position(&self) -> u64 {
        match self.cursor.load(Ordering::Acquire) & CLOSED {
            CLOSED => self.resolved_position(),
            cursor => self.window_at.load(Relaxed) + cursor,
        }
    }

    /// Tells the kernel the position, which stays ours: another process may take a descriptor of this
    /// description without a word (`pidfd_getfd`), and goes on from there.
    pub fn leave_offset(&self, fd: i32) {
        let at = self.current_position();
        if self.kernel_at.swap(at, Relaxed) != at {
            sys::seek(fd, at as i64, libc::SEEK_SET);
        }
    }

    /// Whether the file system is known to have this position.
    #[inline(always)]
    pub fn has_position(&self, position: i64) -> bool {
        position >= 0 && position as u64 <= self.grows_to.load(Relaxed)
    }

    /// Whether it has, asked by a seek, as nothing else says it; the offset is put back. The lock is
    /// held.
    pub fn may_be_at(&self, fd: i32, position: u64) -> bool {
        if position <= self.grows_to.load(Relaxed) {
            return true;
        }
        let offset = sys::seek(fd, 0, libc::SEEK_CUR);
        let seek = |to: i64| sys::seek(fd, to, libc::SEEK_SET);
        let may = i64::try_from(position).is_ok_and(|position| seek(position) >= 0);
        seek(offset as i64);
        if may {
            self.grows_to.store(position, Relaxed);
        }
        may
    }

    /// The same where the offset is to be left alone: not each file system answers, and where one does not, no.
    pub fn reaches(&self, fd: i32, position: u64) -> bool {
        let reaches = sys::has_place_at(fd, position);
        if reaches {
            self.grows_to.fetch_max(position, Relaxed);
        }
        reaches
    }

    /// Where the kernel's offset is, if somebody else has moved it since.
    pub fn moved_offset(&self, fd: i32) -> Option<u64> {
        let at = sys::seek(fd, 0, libc::SEEK_CUR);
        (at >= 0 && at as u64 != self.kernel_at.load(Relaxed)).then_some(at as u64)
    }

    /// Closes the cursor, so that no hit can succeed, and returns what it was.
    pub fn close_cursor(&self) -> u64 {
        loop {
            let at = self.cursor.load(Relaxed);
            let closed = ((at >> 32).wrapping_add(1) << 32) | CLOSED;
            if swap(&self.cursor, at, closed) {
                // What is now changed of the window may not be seen by anyone who still finds it open.
                fence(Ordering::Release);
                return at & CLOSED;
            }
        }
    }

    /// Closes the cursor and puts the position where nothing else says it. The lock is held and the
    /// state is `ON`.
    pub fn take_position(&self) -> u64 {
        let cursor = self.close_cursor();
        if cursor != CLOSED {
            self.position.store(self.window_at.load(Relaxed) + cursor, Relaxed);
        }
        self.resolved_position()
    }

    /// Puts the position back into the window, if it lies there. The lock is held. What the cursor is then.
    pub fn reopen_cursor(&self) -> u64 {
        let len = self.window_len.load(Relaxed);
        let cursor = self.resolved_position().wrapping_sub(self.window_at.load(Relaxed));
        let closed = self.cursor.load(Relaxed);
        if len == 0 || cursor > len {
            return closed;
        }
        let open = ((closed >> 32) << 32) | cursor;
        self.cursor.store(open, Ordering::Release);
        open
    }
}

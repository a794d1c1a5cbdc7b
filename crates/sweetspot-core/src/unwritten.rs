//! What could not be written, and whether it may be tried again.
//!
//! Bytes that were accepted and then met a full disk go on waiting. Meanwhile others may change the file: by
//! its name, in another process, by calls that are not followed. Who then tried again would overwrite what they
//! wrote, or bring back what they cut off. So an attempt that fails notes how it left the file, and there is
//! another one only while the file is still so. Otherwise the bytes are *set aside*: the program is told, and
//! whoever finishes its process saves them beside.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::ledger::Entry;

/// `Entry::flushing`: the owner, or who finishes it, is inside the write of a flush.
pub const FLUSH_BEGUN: u32 = 1;
/// `Entry::flushing`: the program was told by an error that what is pending could not be written, and it has closed
/// the file, or the file has been changed since. While the process lives, nobody tries again.
pub const FLUSH_FAILED: u32 = 2;
/// `Entry::flushing`: what is pending could not be written so far.
pub const FLUSH_TRIED: u32 = 3;

/// A file as it was left: its size in bytes, and its times in nanoseconds, as `fstat` tells them; 0: not known,
/// as a server would have to be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    pub size: u64,
    pub mtime_ns: u64,
    pub ctime_ns: u64,
}

impl Left {
    /// Whether bytes that belong at `base` may follow in the file as it is now: nobody has changed it. Where its
    /// times are not known, only behind its end, where nothing of anybody's could be overwritten.
    fn allows(self, now: Left, base: u64) -> bool {
        match (self.mtime_ns, self.ctime_ns) {
            (0, 0) => now.size == self.size && now.size <= base,
            _ => now == self,
        }
    }
}

impl Entry {
    /// How the last write of ours left the file, or the last attempt.
    pub fn left(&self) -> Left {
        Left {
            size: self.size.load(Relaxed),
            mtime_ns: self.mtime_ns.load(Relaxed),
            ctime_ns: self.ctime_ns.load(Relaxed),
        }
    }

    pub fn note_left(&self, left: Left) {
        self.size.store(left.size, Relaxed);
        self.mtime_ns.store(left.mtime_ns, Relaxed);
        self.ctime_ns.store(left.ctime_ns, Relaxed);
    }

    /// Whether the file is as it was left, so that what is pending may follow.
    pub fn is_left_as(&self, now: Left) -> bool {
        self.left().allows(now, self.base.load(Relaxed))
    }

    /// An attempt to write what is pending has failed, and has left the file so.
    pub fn note_tried(&self, left: Left) {
        self.note_left(left);
        self.flushing.store(FLUSH_TRIED, SeqCst);
    }

    /// Whether what is pending may be written to the file as it is now. `None`: nobody can tell how it is.
    pub fn may_be_written_to(&self, now: Option<Left>) -> bool {
        let content = |left: Left| (left.size, left.mtime_ns);
        match self.flushing.load(SeqCst) {
            // Its name and its rights may be others by now.
            FLUSH_TRIED => now.map(content) == Some(content(self.left())),
            FLUSH_FAILED => now == Some(self.left()),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Left = Left { size: 100, mtime_ns: 7, ctime_ns: 8 };
    const UNTIMED: Left = Left { size: 100, mtime_ns: 0, ctime_ns: 0 };

    #[test]
    fn what_is_pending_may_follow_in_a_file_that_nobody_has_changed() {
        assert!(LEFT.allows(LEFT, 50));
        assert!(!LEFT.allows(Left { mtime_ns: 9, ..LEFT }, 100));
        assert!(!LEFT.allows(Left { ctime_ns: 9, ..LEFT }, 100));
        assert!(!LEFT.allows(Left { size: 99, ..LEFT }, 100));
    }

    #[test]
    fn without_times_it_may_only_behind_the_end() {
        assert!(UNTIMED.allows(LEFT, 100) && UNTIMED.allows(LEFT, 101));
        assert!(!UNTIMED.allows(LEFT, 99));
        assert!(!UNTIMED.allows(Left { size: 101, ..LEFT }, 101));
        assert!(!UNTIMED.allows(Left { size: 99, ..LEFT }, 100));
    }
}

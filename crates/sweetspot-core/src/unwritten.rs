//! What could not be written, and whether it may be tried again.
//!
//! Bytes that were accepted and then met a full disk go on waiting. Meanwhile others may change the file: by
//! its name, in another process, by calls that are not followed. Who then tried again would overwrite what they
//! wrote, or bring back what they cut off. So an attempt that fails notes how it left the file, and there is
//! another one only while the file is still so. Otherwise the bytes are *set aside*: the program is told, and
//! the process that finishes for it saves them beside.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::ledger::{Entry, PLACE_BASE};

/// `Entry::flushing`: the owner, or who finishes it, is inside the write of a flush.
pub const FLUSH_BEGUN: u32 = 1;
/// `Entry::flushing`: the program was told by an error that what is pending could not be written, and it has closed
/// the file, or the file has been changed since. While the process lives, nobody tries again.
pub const FLUSH_FAILED: u32 = 2;
/// `Entry::flushing`: what is pending could not be written so far.
pub const FLUSH_TRIED: u32 = 3;

/// How often what interrupts the writes of a flush is taken for a moment's matter: a server may answer so to each one.
pub const INTERRUPTED_MAX: u32 = 16;

/// The clock by which the kernel stamps files stands still for a tick (10 ms at most), and may come late.
const STAMP_AGE_NS_MAX: u64 = 20_000_000;
/// So long after a flush has looked at the clock its write has begun, unless the kernel has stopped it in between.
const WRITE_DELAY_NS_MAX: u64 = 250_000;

/// `Entry::is_recalled`: another process has done, without a word to the owner, what writes that wait would undo.
pub const RECALLED: u32 = 1;
/// `Entry::is_recalled`: the same, and what waited was asked for in vain, as the guard was stopped, or could not
/// write it. What the other one writes comes after it.
pub const RECALLED_IN_VAIN: u32 = 2;

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

    /// Whether nobody has written to the file or cut it; its name and its rights may be others by now. Where its times
    /// are not known, as far as its size tells.
    fn has_content_of(self, now: Left) -> bool {
        let is_untimed = |left: Left| (left.mtime_ns, left.ctime_ns) == (0, 0);
        let same_time = self.mtime_ns == now.mtime_ns || is_untimed(self) || is_untimed(now);
        now.size == self.size && same_time
    }
}

/// Whether a flush that began at one time (0: none has, as far as anyone knows) has stamped its file with another.
fn is_stamp_of(begun_ns: u64, modified_ns: u64) -> bool {
    let earliest = begun_ns.saturating_sub(STAMP_AGE_NS_MAX);
    let latest = begun_ns.saturating_add(WRITE_DELAY_NS_MAX);
    begun_ns != 0 && (earliest..=latest).contains(&modified_ns)
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

    /// Whether what is pending may be written to the file by one who finds it later, when its process and the guard are
    /// dead: nobody has written to it. Its names and its rights may be others by now, but where the program was told.
    pub fn may_be_recovered_in(&self, now: Left) -> bool {
        let left = self.left();
        let is_timed = (left.mtime_ns, left.ctime_ns) != (0, 0);
        match self.flushing.load(SeqCst) {
            FLUSH_FAILED => self.is_left_as(now),
            _ if is_timed => left.has_content_of(now),
            _ => self.is_left_as(now),
        }
    }

    /// Whether a file that was modified at this time has been so by the flush that has begun, and by nobody later.
    pub fn was_begun_at(&self, modified_ns: u64) -> bool {
        is_stamp_of(self.begun_ns.load(SeqCst), modified_ns)
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
            0 if self.is_placed() && self.is_recalled.load(SeqCst) == RECALLED_IN_VAIN => {
                now.is_none_or(|now| self.left().has_content_of(now))
            }
            _ => true,
        }
    }

    /// Whether what an attempt has left may go on at this offset, which others share: where that attempt stopped. To any
    /// other one somebody has moved it since, after what waits was written.
    pub fn may_go_on_at(&self, offset: u64) -> bool {
        !self.was_tried() || self.before.load(SeqCst) == offset
    }

    /// Whether what is pending waits because it could not be written.
    pub fn was_tried(&self) -> bool {
        matches!(self.flushing.load(SeqCst), FLUSH_TRIED | FLUSH_FAILED)
    }

    /// The attempt that has failed stopped at this offset, which others share.
    pub fn note_stopped_at(&self, offset: u64) {
        self.before.store(offset, SeqCst);
    }

    /// Whether what is pending has a place of its own, where it could come over what others have written.
    fn is_placed(&self) -> bool {
        self.place.load(SeqCst) == PLACE_BASE
    }

    /// The same when the process has died. Somebody who has learned of that, and waits for nobody, may have written to
    /// the file since: what has a place of its own would come over it. `tells`: the times of the file do not change
    /// by themselves, as some servers' do.
    pub fn may_be_finished_in(&self, now: Option<Left>, tells: bool) -> bool {
        let left = self.left();
        match (self.flushing.load(SeqCst), now) {
            (0, Some(now)) if self.is_placed() && tells => left.has_content_of(now),
            (0, Some(now)) if self.is_placed() => left.size == now.size,
            // What it wrote itself never made the file shorter.
            (FLUSH_BEGUN, Some(now)) if self.is_placed() => left.size <= now.size,
            _ => self.may_be_written_to(now),
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
    fn what_was_written_or_cut_is_told_and_what_was_renamed_is_not() {
        let written = Left { mtime_ns: 9, ctime_ns: 9, ..LEFT };
        assert!(LEFT.has_content_of(LEFT));
        assert!(LEFT.has_content_of(Left { ctime_ns: 9, ..LEFT }));
        assert!(!LEFT.has_content_of(written));
        assert!(!LEFT.has_content_of(Left { size: 0, ..LEFT }));
        assert!(UNTIMED.has_content_of(written), "as far as the size tells");
        assert!(!UNTIMED.has_content_of(Left { size: 101, ..written }));
    }

    #[test]
    fn a_flush_is_known_by_the_time_at_which_it_began() {
        const BEGUN: u64 = 1 << 60;
        assert!(!is_stamp_of(0, 0), "none has begun");
        let (early, late) = (BEGUN - STAMP_AGE_NS_MAX, BEGUN + WRITE_DELAY_NS_MAX);
        let times = [early - 1, early, BEGUN, late, late + 1];
        let found = times.map(|modified_ns| is_stamp_of(BEGUN, modified_ns));
        assert_eq!(found, [false, true, true, true, false]);
    }

    #[test]
    fn without_times_it_may_only_behind_the_end() {
        assert!(UNTIMED.allows(LEFT, 100) && UNTIMED.allows(LEFT, 101));
        assert!(!UNTIMED.allows(LEFT, 99));
        assert!(!UNTIMED.allows(Left { size: 101, ..LEFT }, 101));
        assert!(!UNTIMED.allows(Left { size: 99, ..LEFT }, 100));
    }
}

//! Who has opened a file for writing: a table of few bits, in the ledger.
//!
//! Before the guard lets writes to a file wait it must know whether another process of the tree has that file
//! open for writing. To look at all descriptors of all processes takes milliseconds where there are many. So
//! each process notes what it opens, and the guard looks only where the note is not the asker's alone. Files
//! that share a place in the table share its note: then it looks in vain.
//!
//! An opener is not a process but what one does from one fork to the next: what it has open by then its child
//! may have, too, and a program that it becomes has nothing to do with either.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// Places in the table.
const PLACES: usize = 2048;

/// By file: {which file: high 32, opener: low 32}, and `LOOKED`; 0: nobody is known to have opened one.
#[repr(C)]
pub struct Openers {
    places: [AtomicU64; PLACES],
    /// The last opener.
    last: AtomicU32,
}

/// More than one opener did.
const MANY: u32 = u32::MAX;
/// More than one file.
const SEVERAL: u32 = 0;
/// In a place: a look has begun, and nobody was noted there since.
const LOOKED: u64 = 2 << 32;

const fn word(file: u32, opener: u32) -> u64 {
    (file as u64) << 32 | opener as u64
}

const fn opener_of(word: u64) -> u32 {
    word as u32
}

const fn file_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Fibonacci hashing: neighbouring inodes are far apart.
const fn hash(device: u64, inode: u64) -> u64 {
    (inode ^ device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Openers {
    /// The place of a file, and which of those that share it this is.
    fn place(&self, device: u64, inode: u64) -> (&AtomicU64, u32) {
        let hash = hash(device, inode);
        // Never `SEVERAL`, and without the bit of `LOOKED`.
        (&self.places[(hash >> (64 - PLACES.trailing_zeros())) as usize], hash as u32 & !2 | 1)
    }

    /// A new opener. (After four thousand millions of them two have the same number.)
    pub fn begin(&self) -> u32 {
        self.last.fetch_add(1, SeqCst) % (MANY - 1) + 1
    }

    /// A file is opened for writing.
    pub fn note(&self, device: u64, inode: u64, opener: u32) {
        let (place, file) = self.place(device, inode);
        let _ = place.fetch_update(SeqCst, SeqCst, |now| {
            let before = now & !LOOKED;
            let file = if before == 0 || file_of(before) == file { file } else { SEVERAL };
            let opener = if before == 0 || opener_of(before) == opener { opener } else { MANY };
            (word(file, opener) != now).then_some(word(file, opener))
        });
    }

    /// Whether nobody but this opener has opened a file for writing.
    pub fn is_alone(&self, device: u64, inode: u64, opener: u32) -> bool {
        opener_of(self.place(device, inode).0.load(SeqCst)) == opener
    }

    /// Whether nobody in the tree has opened a file for writing: all that have it open so have it from outside.
    pub fn is_unopened(&self, device: u64, inode: u64) -> bool {
        self.place(device, inode).0.load(SeqCst) & !LOOKED == 0
    }

    /// A look begins whether anybody else has a file open. There is one at a time.
    pub fn begin_look(&self, device: u64, inode: u64) {
        self.place(device, inode).0.fetch_or(LOOKED, SeqCst);
    }

    /// It has found that nobody else has. One that has opened the file meanwhile is not forgotten, nor what is known of
    /// others that share the place.
    pub fn settle(&self, device: u64, inode: u64, opener: u32) {
        let (place, file) = self.place(device, inode);
        let _ = place.fetch_update(SeqCst, SeqCst, |now| {
            // Else somebody has noted more.
            let is_looked = now & LOOKED != 0 && file_of(now & !LOOKED) == file;
            is_looked.then_some(word(file, opener))
        });
    }
}

/// Which files have been sent to other processes, by a message: bits of a hash. One that was sent lies in a
/// socket, where nobody sees it, until it is received.
#[repr(C)]
pub struct Sent([AtomicU64; SENT_WORDS]);

const SENT_WORDS: usize = 64;

impl Sent {
    fn bit(&self, device: u64, inode: u64) -> (&AtomicU64, u64) {
        let bit = hash(device, inode) >> (64 - (SENT_WORDS * 64).trailing_zeros());
        (&self.0[bit as usize / 64], 1 << (bit % 64))
    }

    /// One is sent.
    pub fn note(&self, device: u64, inode: u64) {
        let (word, bit) = self.bit(device, inode);
        word.fetch_or(bit, SeqCst);
    }

    /// Whether one was sent, or another one with the same bit.
    pub fn may_be(&self, device: u64, inode: u64) -> bool {
        let (word, bit) = self.bit(device, inode);
        word.load(SeqCst) & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_known_and_little_else() {
        let sent = Sent([const { AtomicU64::new(0) }; SENT_WORDS]);
        (0..20).for_each(|inode| sent.note(3, inode));
        assert!((0..20).all(|inode| sent.may_be(3, inode)));
        let taken = (1000..2000).filter(|inode| sent.may_be(3, *inode)).count();
        assert!(taken < 50, "{taken}");
    }

    #[test]
    fn a_file_is_the_openers_alone_until_another_one_opens_it() {
        let places = [const { AtomicU64::new(0) }; PLACES];
        let openers = Openers { places, last: AtomicU32::new(MANY - 2) };
        assert!(!openers.is_alone(1, 7, 10), "opened where nobody saw it");
        assert!(openers.is_unopened(1, 7));
        openers.begin_look(1, 7);
        assert!(openers.is_unopened(1, 7));
        openers.note(1, 7, 10);
        assert!(!openers.is_unopened(1, 7));
        openers.note(1, 7, 10);
        assert!(openers.is_alone(1, 7, 10));
        assert!(!openers.is_alone(1, 7, 11));
        openers.begin_look(1, 7);
        openers.settle(1, 7, 11);
        assert!(openers.is_alone(1, 7, 11), "the one who opened it has it no more");
        openers.begin_look(1, 7);
        openers.settle(1, 7, 10);
        openers.note(1, 7, 11);
        assert!(!openers.is_alone(1, 7, 10) && !openers.is_alone(1, 7, 11));
        openers.begin_look(1, 7);
        openers.note(1, 7, 11);
        openers.settle(1, 7, 10);
        assert!(!openers.is_alone(1, 7, 10), "it was opened during the look");
        let shares = |inode: &u64| core::ptr::eq(openers.place(1, *inode).0, openers.place(1, 7).0);
        openers.begin_look(1, 7);
        (8..30).filter(|inode| !shares(inode)).for_each(|inode| openers.note(1, inode, 11));
        openers.settle(1, 7, 10);
        assert!(openers.is_alone(1, 7, 10), "whatever else is opened meanwhile");
        // Another file that shares the place, and that others have open as well.
        let other = (8..).find(shares).unwrap();
        openers.note(1, other, 11);
        openers.begin_look(1, 7);
        openers.settle(1, 7, 10);
        assert!(!openers.is_alone(1, other, 10), "what is known of it is kept");
        // Many files of one process are all its own, whatever places they share.
        (0..100_000).for_each(|inode| openers.note(2, inode, 12));
        let alone = (0..100_000).filter(|inode| openers.is_alone(2, *inode, 12)).count();
        assert!(alone > 90_000, "{alone}");
        let begun: Vec<u32> = (0..3).map(|_| openers.begin()).collect();
        assert!(begun.iter().all(|opener| ![0, MANY].contains(opener)), "{begun:?}");
    }
}

//! Who has opened a file for writing: a table of few bits, in the ledger.
//!
//! Before the guard lets writes to a file wait it must know whether another process of the tree has that file
//! open for writing. To look at all descriptors of all processes takes milliseconds where there are many. So
//! each process notes what it opens, and the guard looks only where the note is not the asker's alone. Files
//! that share a place in the table share its note: then it looks in vain.
//!
//! An opener is not a process but what one does from one fork to the next: what it has open by then its child
//! may have, too, and a program that it becomes has nothing to do with either.

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Places in the table.
const PLACES: usize = 4096;

/// By file: 0, nobody is known to; the only opener that did; or `MANY`.
#[repr(C)]
pub struct Openers {
    places: [AtomicU32; PLACES],
    /// The last opener.
    last: AtomicU32,
}

/// More than one opener did.
const MANY: u32 = u32::MAX;

impl Openers {
    fn place(&self, device: u64, inode: u64) -> &AtomicU32 {
        // Fibonacci hashing: neighbouring inodes are far apart.
        let hash = (inode ^ device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.places[(hash >> (64 - PLACES.trailing_zeros())) as usize]
    }

    /// A new opener. (After four thousand millions of them two have the same number.)
    pub fn begin(&self) -> u32 {
        self.last.fetch_add(1, SeqCst) % (MANY - 1) + 1
    }

    /// A file is opened for writing.
    pub fn note(&self, device: u64, inode: u64, opener: u32) {
        let place = self.place(device, inode);
        let before = place.compare_exchange(0, opener, SeqCst, SeqCst);
        if before.is_err_and(|before| before != opener) {
            place.store(MANY, SeqCst);
        }
    }

    /// Whether nobody but this opener has opened a file for writing.
    pub fn is_alone(&self, device: u64, inode: u64, opener: u32) -> bool {
        self.place(device, inode).load(SeqCst) == opener
    }

    /// Whether more than one opener may have opened a file for writing: if not, all that have it open in the
    /// tree have the same description.
    pub fn are_many(&self, device: u64, inode: u64) -> bool {
        self.place(device, inode).load(SeqCst) == MANY
    }

    /// It was found that nobody else has it open now. Who opens it meanwhile is not forgotten: that process
    /// finds the entry of this one, and recalls it.
    pub fn settle(&self, device: u64, inode: u64, opener: u32) {
        self.place(device, inode).store(opener, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_openers_alone_until_another_one_opens_it() {
        let places = [const { AtomicU32::new(0) }; PLACES];
        let openers = Openers { places, last: AtomicU32::new(MANY - 2) };
        assert!(!openers.is_alone(1, 7, 10), "opened where nobody saw it");
        openers.note(1, 7, 10);
        openers.note(1, 7, 10);
        assert!(openers.is_alone(1, 7, 10));
        assert!(!openers.is_alone(1, 7, 11));
        assert!(!openers.are_many(1, 7));
        openers.note(1, 7, 11);
        assert!(!openers.is_alone(1, 7, 10) && !openers.is_alone(1, 7, 11));
        assert!(openers.are_many(1, 7));
        openers.settle(1, 7, 10);
        assert!(openers.is_alone(1, 7, 10));
        // Many files of one process are all its own, whatever places they share.
        (0..100_000).for_each(|inode| openers.note(2, inode, 12));
        let alone = (0..100_000).filter(|inode| openers.is_alone(2, *inode, 12)).count();
        assert!(alone > 90_000, "{alone}");
        let begun: Vec<u32> = (0..3).map(|_| openers.begin()).collect();
        assert!(begun.iter().all(|opener| ![0, MANY].contains(opener)), "{begun:?}");
    }
}

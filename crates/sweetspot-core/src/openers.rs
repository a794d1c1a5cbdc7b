//! Which process has opened a file for writing: a table of few bits, in the ledger.
//!
//! Before the guard lets writes to a file wait it must know whether another process of the tree has that file
//! open for writing. To look at all descriptors of all processes takes milliseconds where there are many. So
//! each process notes what it opens, and the guard looks only where the note is not the asker's alone. Files
//! that share a place in the table share its note: then it looks in vain.

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Places in the table.
const PLACES: usize = 4096;

/// By file: 0, nobody is known to; the only process that did; or `MANY`.
#[repr(C)]
pub struct Openers([AtomicU32; PLACES]);

/// More than one process did.
const MANY: u32 = u32::MAX;

impl Openers {
    fn place(&self, device: u64, inode: u64) -> &AtomicU32 {
        // Fibonacci hashing: neighbouring inodes are far apart.
        let hash = (inode ^ device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.0[(hash >> (64 - PLACES.trailing_zeros())) as usize]
    }

    /// A process has opened a file for writing.
    pub fn note(&self, device: u64, inode: u64, process: u32) {
        let place = self.place(device, inode);
        let before = place.compare_exchange(0, process, SeqCst, SeqCst);
        if before.is_err_and(|before| before != process) {
            place.store(MANY, SeqCst);
        }
    }

    /// Whether no process but this one has opened a file for writing.
    pub fn is_alone(&self, device: u64, inode: u64, process: u32) -> bool {
        self.place(device, inode).load(SeqCst) == process
    }

    /// It was found that no other process has it open now. Who opens it meanwhile is not forgotten: that
    /// process finds the entry of this one, and recalls it.
    pub fn settle(&self, device: u64, inode: u64, process: u32) {
        self.place(device, inode).store(process, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_openers_alone_until_another_one_opens_it() {
        let openers = Openers([const { AtomicU32::new(0) }; PLACES]);
        assert!(!openers.is_alone(1, 7, 10), "opened where nobody saw it");
        openers.note(1, 7, 10);
        openers.note(1, 7, 10);
        assert!(openers.is_alone(1, 7, 10));
        assert!(!openers.is_alone(1, 7, 11));
        openers.note(1, 7, 11);
        assert!(!openers.is_alone(1, 7, 10) && !openers.is_alone(1, 7, 11));
        openers.settle(1, 7, 10);
        assert!(openers.is_alone(1, 7, 10));
        // Many files of one process are all its own, whatever places they share.
        (0..100_000).for_each(|inode| openers.note(2, inode, 12));
        let alone = (0..100_000).filter(|inode| openers.is_alone(2, *inode, 12)).count();
        assert!(alone > 90_000, "{alone}");
    }
}

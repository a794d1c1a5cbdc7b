//! What kind of file it is, as far as that changes what may be believed of it: bits of `OpenFile::traits`.

use core::sync::atomic::Ordering::Relaxed;

use super::OpenFile;

/// Its times say nothing about its content.
pub const UNTIMED: u32 = 1;
/// Others notice each read of it, and have read what was written before a write returns.
pub const NOTICED: u32 = 2;
/// What is written to it reaches a server later.
pub const SERVED_LATE: u32 = 4;

impl OpenFile {
    /// Whether it is a FIFO, a terminal or a disk that was opened by its path.
    pub fn is_noticed(&self) -> bool {
        self.traits.load(Relaxed) & NOTICED != 0
    }
}

//! What kind of file it is, as far as that changes what may be believed of it: bits of `OpenFile::traits`.

use core::sync::atomic::Ordering::Relaxed;

use super::OpenFile;
use crate::floor::sys;

/// Its times say nothing about its content.
pub const UNTIMED: u32 = 1;
/// Others notice each read of it, and have read what was written before a write returns.
pub const NOTICED: u32 = 2;
/// What is written to it reaches a server later.
pub const SERVED_LATE: u32 = 4;
/// Another process serves it, and has done what it does when a call returns; or not. Which, is asked once.
const SERVED: u32 = 16;
const NOT_SERVED: u32 = 32;
/// The kernel keeps what its server has said: it did so when that was asked.
const KEPT: u32 = 64;
/// It does not; or the next write is to tell.
const NOT_KEPT: u32 = 128;
const TOLD_BY_WRITE: u32 = 256;

impl OpenFile {
    /// Whether another process may have acted when a write to it, or a close, returns: the one that reads what is
    /// written, or that serves the file.
    pub fn tells_others(&self, fd: i32) -> bool {
        self.is_noticed() || self.is_served(fd)
    }

    /// Whether its file system is another process', or another machine's.
    pub fn is_served(&self, fd: i32) -> bool {
        /// Those of file systems that have no disk of their own.
        const NAMELESS_MAJOR: u64 = 0;
        match self.traits.load(Relaxed) & (SERVED | NOT_SERVED) {
            0 if u64::from(libc::major(self.device.load(Relaxed))) != NAMELESS_MAJOR => false,
            0 => {
                let device = self.device.load(Relaxed);
                let is_served = sys::file_system(fd).is_some_and(|fs| fs.is_served(device));
                self.traits.fetch_or(if is_served { SERVED } else { NOT_SERVED }, Relaxed);
                is_served
            }
            known => known == SERVED,
        }
    }

    /// Whether each transfer is a message to its server. Where it is not, that is asked once: the kernel may drop pages
    /// at any time. `None`: the next write that passes through tells.
    pub fn is_direct_by_server(&self, fd: i32) -> Option<bool> {
        let traits = self.traits.load(Relaxed);
        if !self.is_served(fd) || traits & KEPT != 0 {
            return Some(false);
        }
        if traits & NOT_KEPT != 0 {
            return Some(true);
        }
        let is_fuse = sys::file_system(fd).is_some_and(|file_system| file_system.is_fuse());
        let is_direct = if is_fuse { sys::is_direct_by_server(fd) } else { Some(false) };
        match is_direct {
            Some(false) => self.traits.fetch_or(KEPT, Relaxed),
            Some(true) => traits,
            None => self.traits.fetch_or(TOLD_BY_WRITE, Relaxed),
        };
        is_direct
    }

    /// Whether the next one does.
    pub fn is_told_by_write(&self) -> bool {
        self.traits.load(Relaxed) & TOLD_BY_WRITE != 0
    }

    /// A write has passed through.
    pub fn look_after_write(&self, fd: i32) {
        if self.traits.load(Relaxed) & TOLD_BY_WRITE != 0 {
            self.traits.fetch_or(if sys::keeps_pages(fd) { KEPT } else { NOT_KEPT }, Relaxed);
            self.traits.fetch_and(!TOLD_BY_WRITE, Relaxed);
        }
    }

    /// Whether it is a FIFO, a terminal or a disk that was opened by its path.
    pub fn is_noticed(&self) -> bool {
        self.traits.load(Relaxed) & NOTICED != 0
    }
}

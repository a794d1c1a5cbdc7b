//! Coherence per inode: whether a write, or a mapping, concerns a file that has a window.
//!
//! Hash buckets, not a list: a collision costs a question to the kernel, never a wrong answer.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::file::OpenFile;
use crate::process::{EPOCH, listen};

const BUCKETS: usize = 1024;

/// Windows open in this process.
#[unsafe(link_section = ".data")]
static WINDOWS: AtomicU32 = AtomicU32::new(0);
/// Of them, by the hash of device and inode.
static BY_INODE: [AtomicU32; BUCKETS] = [const { AtomicU32::new(0) }; BUCKETS];
/// Inodes that were ever mapped here, by hash.
static MAPPED: [AtomicU64; BUCKETS / 64] = [const { AtomicU64::new(0) }; BUCKETS / 64];

fn bucket(device: u64, inode: u64) -> usize {
    let hash = (device ^ inode.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> 54) as usize % BUCKETS
}

/// A window of this file was opened.
pub fn window_opened(file: &OpenFile) {
    WINDOWS.fetch_add(1, Relaxed);
    BY_INODE[bucket_of(file)].fetch_add(1, Relaxed);
}

/// It was closed.
pub fn window_closed(file: &OpenFile) {
    WINDOWS.fetch_sub(1, Relaxed);
    BY_INODE[bucket_of(file)].fetch_sub(1, Relaxed);
}

/// Whether any window is open in this process.
pub fn any_window() -> bool {
    WINDOWS.load(Relaxed) != 0
}

/// Bytes went straight to a file: windows on it must ask again. `None`: to which, is not known.
pub fn written(file: Option<&OpenFile>) {
    if any_window() && file.is_none_or(has_window) {
        listen();
    }
}

/// Whether the inode of this open file (perhaps) has a window.
fn has_window(file: &OpenFile) -> bool {
    BY_INODE[bucket_of(file)].load(Relaxed) != 0
}

/// Files with pending bytes, by the hash of device and inode.
static PENDING: [AtomicU32; BUCKETS] = [const { AtomicU32::new(0) }; BUCKETS];

fn bucket_of(file: &OpenFile) -> usize {
    bucket(file.device.load(Relaxed), file.inode.load(Relaxed))
}

/// Bytes of this file wait from now on.
pub fn pending_began(file: &OpenFile) {
    PENDING[bucket_of(file)].fetch_add(1, Relaxed);
}

/// Nothing of it waits any more.
pub fn pending_ended(file: &OpenFile) {
    PENDING[bucket_of(file)].fetch_sub(1, Relaxed);
}

/// Whether another open file of (perhaps) the same inode has pending bytes.
pub fn others_pending(file: &OpenFile) -> bool {
    PENDING[bucket_of(file)].load(Relaxed) > file.dirty.load(Relaxed)
}

/// Whether another open file of (perhaps) the same inode has a window or pending bytes.
pub fn others_use(file: &OpenFile) -> bool {
    let own = u32::from(file.buffer_bytes.load(Relaxed) > 0);
    BY_INODE[bucket_of(file)].load(Relaxed) > own || others_pending(file)
}

/// Bytes of this file went to the kernel: other windows on it must ask again. Its own holds them.
pub fn wrote(file: &OpenFile) {
    if others_use(file) {
        let fresh = file.epoch.load(Relaxed) == EPOCH.load(Relaxed);
        listen();
        if fresh {
            file.epoch.store(EPOCH.load(Relaxed), Relaxed);
        }
    }
}

/// The inode was mapped into memory: what is stored there arrives without a call.
pub fn mapped(device: u64, inode: u64) {
    let bucket = bucket(device, inode);
    MAPPED[bucket / 64].fetch_or(1 << (bucket % 64), Relaxed);
}

/// Whether the inode was (perhaps) mapped.
pub fn is_mapped(device: u64, inode: u64) -> bool {
    let bucket = bucket(device, inode);
    MAPPED[bucket / 64].load(Relaxed) & (1 << (bucket % 64)) != 0
}

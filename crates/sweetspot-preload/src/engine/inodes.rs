//! Coherence per inode: whether a write, or a mapping, concerns a file that has a window.
//!
//! Counters by hash say quickly that nothing concerns a file. Where they say that something may, the
//! open files themselves are asked: in a job with thousands of files some hashes are equal, and what
//! waits would go out at each read of one of them.
//!
//! Two threads may begin at the same time, one to keep a window of a file and one to let its bytes wait,
//! and both may look before either has given its sign. So anyone who has given a sign looks a second time
//! ([`meets_pending`], [`meets_use`]): of the two at least one finds the other.

use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
    fence,
};

use super::file::{self, OpenFile};
use super::process::{acquire_point, acquire_point_of_window};

const BUCKETS: usize = 1024;

/// Windows open in this process.
#[unsafe(link_section = ".data")]
static WINDOWS: AtomicU32 = AtomicU32::new(0);
/// Of them, by the hash of device and inode.
static BY_INODE: [AtomicU32; BUCKETS] = [const { AtomicU32::new(0) }; BUCKETS];
/// Inodes that were ever mapped here: a Bloom filter of one page. A file of which all bits are set gets no
/// buffer; with a hundred libraries mapped that is one other file in fifty million.
static MAPPED: [AtomicU64; MAPPED_BITS / 64] = [const { AtomicU64::new(0) }; MAPPED_BITS / 64];
const MAPPED_BITS: usize = 1 << MAPPED_BITS_LOG;
const MAPPED_BITS_LOG: u32 = 15;
/// Bits of each inode.
const BITS_OF_INODE: u32 = 4;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn hash(device: u64, inode: u64) -> usize {
    let hash = (device ^ inode.rotate_left(32)).wrapping_mul(GOLDEN);
    (hash >> 32) as usize
}

/// The error with which a flush of another open file of the same inode has failed; 0: none has, or what waited is
/// written.
pub fn error_of_another(file: &OpenFile) -> i32 {
    let mut errno = 0;
    another(file, |other| {
        if other.pending() != 0 {
            errno = other.error.load(Relaxed);
        }
        errno != 0
    });
    errno
}

/// Whether that holds for another open file of the same inode.
#[cold]
fn another(file: &OpenFile, mut is: impl FnMut(&OpenFile) -> bool) -> bool {
    file::used().any(|other| !core::ptr::eq(other, file) && other.is_same_inode(file) && is(other))
}

fn is_pending(file: &OpenFile) -> bool {
    file.dirty.is_in()
}

fn is_window(file: &OpenFile) -> bool {
    file.buffer_bytes.load(Relaxed) != 0
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

/// A write to a file passed through: windows on it must ask again. `None`: the file is not known. One that waited
/// until somebody had read or served it, or went to a disk, may be news for any window.
pub fn written(fd: i32, file: Option<&OpenFile>) {
    let concerns = |file: &OpenFile| has_window(file) || file.tells_others(fd);
    if any_window() && (file.is_none_or(concerns) || HAVE_FAILED.load(Relaxed)) {
        HAVE_FAILED.store(false, Relaxed);
        acquire_point();
    }
}

/// Whether the last write that passed through has failed, or was short: if the next one is not, somebody has made
/// room, or lifted a limit.
#[unsafe(link_section = ".data")]
static HAVE_FAILED: AtomicBool = AtomicBool::new(false);

/// A write that passed through has failed, or was short: somebody may have filled the disk, or set a limit.
pub fn not_written() {
    HAVE_FAILED.store(true, Relaxed);
    acquire_point();
}

/// One was whole, or what could not be written before: see `HAVE_FAILED`.
pub fn is_written_again() {
    if HAVE_FAILED.load(Relaxed) {
        HAVE_FAILED.store(false, Relaxed);
        acquire_point();
    }
}

/// A descriptor of this file is about to be closed.
pub fn closing(fd: i32, file: &OpenFile) {
    if any_window() && file.tells_others(fd) {
        acquire_point();
    }
}

/// Whether the inode of this open file has a window.
fn has_window(file: &OpenFile) -> bool {
    is_window(file) || others_have_window(file)
}

fn others_have_window(file: &OpenFile) -> bool {
    BY_INODE[bucket_of(file)].load(Relaxed) > u32::from(is_window(file)) && another(file, is_window)
}

/// Files with pending bytes, by the hash of device and inode.
static PENDING: [AtomicU32; BUCKETS] = [const { AtomicU32::new(0) }; BUCKETS];

fn bucket_of(file: &OpenFile) -> usize {
    hash(file.device.load(Relaxed), file.inode.load(Relaxed)) % BUCKETS
}

/// Bytes of this file wait from now on.
pub fn pending_began(file: &OpenFile) {
    PENDING[bucket_of(file)].fetch_add(1, Relaxed);
}

/// Nothing of it waits any more.
pub fn pending_ended(file: &OpenFile) {
    PENDING[bucket_of(file)].fetch_sub(1, Relaxed);
}

/// Whether another open file of the same inode has pending bytes.
pub fn others_pending(file: &OpenFile) -> bool {
    PENDING[bucket_of(file)].load(Relaxed) > file.dirty.count() && another(file, is_pending)
}

/// Whether another open file of the same inode has a window or pending bytes.
pub fn others_use(file: &OpenFile) -> bool {
    others_have_window(file) || others_pending(file)
}

/// The second look, after [`window_opened`]: whether another open file of the same inode has pending
/// bytes.
pub fn meets_pending(file: &OpenFile) -> bool {
    fence(SeqCst);
    others_pending(file)
}

/// The second look, after [`pending_began`]: whether another open file of the same inode has a window
/// or pending bytes.
pub fn meets_use(file: &OpenFile) -> bool {
    fence(SeqCst);
    others_use(file)
}

/// Bytes of this file went to the kernel: other windows on it must ask again. Its own holds them.
pub fn wrote(file: &OpenFile) {
    // A window that opens after this look is filled with them.
    fence(SeqCst);
    if others_use(file) || any_window() && file.tells_others(file.fd.load(Relaxed)) {
        file.epoch.store(acquire_point_of_window(file.epoch.load(Relaxed)), Relaxed);
    }
}

/// The inode was mapped into memory, or is moved to or from later: what is stored there arrives without a call.
pub fn mapped(device: u64, inode: u64) {
    for bit in mapped_bits(device, inode) {
        MAPPED[bit / 64].fetch_or(1 << (bit % 64), SeqCst);
    }
}

/// Whether the inode was (perhaps) mapped.
pub fn is_mapped(device: u64, inode: u64) -> bool {
    mapped_bits(device, inode).all(|bit| MAPPED[bit / 64].load(SeqCst) & (1 << (bit % 64)) != 0)
}

/// The bits of an inode in [`MAPPED`], each of its own part of a hash in which every bit counts.
fn mapped_bits(device: u64, inode: u64) -> impl Iterator<Item = usize> {
    let hash = (device ^ inode.rotate_left(32)).wrapping_mul(GOLDEN);
    let hash = (hash ^ hash >> 32).wrapping_mul(GOLDEN);
    (1..=BITS_OF_INODE)
        .map(move |part| (hash >> (64 - MAPPED_BITS_LOG * part)) as usize % MAPPED_BITS)
}

//! Memory for windows: size classes of powers of two, a list of free buffers each.
//!
//! While there are several threads no buffer is unmapped: one that copies from a window which another one
//! closes meanwhile reads old bytes (and notices), but never faults. Called only inside transitions.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sweetspot_core::auto::usual_bytes;
use sweetspot_core::ledger::BUFFER_AUTO;
use sweetspot_core::policy;

use super::file::{Held, OpenFile};
use super::{inodes, ledger};
use crate::floor::lock::hold;
use crate::floor::sys;

/// Smallest and largest class, as powers of two: 4 KiB to 1 GiB.
const CLASS_MIN: u32 = 12;
const CLASSES: usize = 19;
/// From this size on, a buffer that is given back returns its pages to the system.
const RETURN_BYTES: u64 = 1 << 20;

/// First free buffer of each class; each free buffer begins with the address of the next.
static FREE: [AtomicU64; CLASSES] = [const { AtomicU64::new(0) }; CLASSES];
/// Bytes mapped and handed out, free ones not counted.
#[unsafe(link_section = ".data")]
static IN_USE: AtomicU64 = AtomicU64::new(0);
/// Bytes of the write buffers that this process has, or has asked for.
#[unsafe(link_section = ".data")]
static RESERVED: AtomicU64 = AtomicU64::new(0);
#[unsafe(link_section = ".data")]
static POOL: AtomicU64 = AtomicU64::new(0);

fn class_of(bytes: u64) -> usize {
    (bytes.next_power_of_two().trailing_zeros().max(CLASS_MIN) - CLASS_MIN) as usize
}

fn class_bytes(class: usize) -> u64 {
    1 << (class as u32 + CLASS_MIN)
}

/// A buffer of at least `bytes`, or `None` when the budget has no room for it. `buffer` is the size in
/// force: eight of those are always within the budget, and `auto` leaves room for others.
pub fn take(bytes: u64, buffer: u32) -> Option<u64> {
    let class = class_of(bytes);
    if class >= CLASSES {
        return None;
    }
    let bytes = class_bytes(class);
    let _held = hold(&POOL);
    let share = if buffer != BUFFER_AUTO || bytes <= policy::WINDOW_BYTES_MIN {
        1
    } else if bytes <= policy::AUTO_BYTES_USUAL {
        policy::AUTO_WINDOW_SHARE
    } else {
        policy::AUTO_DEAR_SHARE
    };
    if bytes > left_bytes(usual_bytes(buffer)) / share {
        return None;
    }
    let first = FREE[class].load(Relaxed);
    let buffer = if first != 0 {
        // SAFETY: a free buffer belongs to this list and begins with the next one's address.
        let next = unsafe { *(first as *const u64) };
        FREE[class].store(next, Relaxed);
        first
    } else {
        sys::map_memory(bytes as usize)? as u64
    };
    IN_USE.store(IN_USE.load(Relaxed) + bytes, Relaxed);
    Some(buffer)
}

/// Takes an open file's window away. The file's lock is held and its cursor closed.
pub fn drop_window(file: &OpenFile, held: &Held) {
    file.window_len.store(0, Relaxed);
    if held.nested {
        // The interrupted append may be about to store into the buffer: it stays ours.
        return;
    }
    // A positioned hit that began with this window fails: the buffer may be another file's soon.
    file.close_cursor();
    let bytes = file.buffer_bytes.swap(0, Relaxed);
    if bytes > 0 {
        inodes::window_closed(file);
        give(file.window.load(Relaxed), bytes);
    }
}

/// The guard has been asked for a write buffer.
pub fn reserve(bytes: u64) {
    RESERVED.fetch_add(bytes, Relaxed);
}

/// A write buffer is given back.
pub fn unreserve(bytes: u64) {
    RESERVED.store(RESERVED.load(Relaxed).saturating_sub(bytes), Relaxed);
}

/// In the child of a fork: the write buffers are the parent's.
pub fn reserve_nothing() {
    RESERVED.store(0, Relaxed);
}

/// Memory that may be used for windows and pending bytes, where `bytes_max` is the largest window or
/// the most that may wait for a file.
fn budget(bytes_max: u64) -> u64 {
    policy::BUDGET_BYTES
        .max(bytes_max.saturating_mul(policy::BUDGET_WINDOWS))
        .min(ledger::memory_bytes_max())
        .min(sys::address_or_data_bytes_max() / policy::BUDGET_ADDRESSES)
}

/// What is left of it, in bytes.
pub fn left_bytes(bytes_max: u64) -> u64 {
    budget(bytes_max).saturating_sub(IN_USE.load(Relaxed) + RESERVED.load(Relaxed))
}

/// Whether as many pending bytes are within the budget besides what is in use.
pub fn has_room(bytes: u64) -> bool {
    bytes <= left_bytes(bytes)
}

/// Unmaps every free buffer. Only while there is one thread: another one might still be reading.
pub fn unmap_free() {
    let _held = hold(&POOL);
    for (class, first) in FREE.iter().enumerate() {
        let mut buffer = first.swap(0, Relaxed);
        while buffer != 0 {
            // SAFETY: a free buffer is ours and begins with the next one's address.
            unsafe {
                let next = *(buffer as *const u64);
                sys::syscall!(SYS_munmap, buffer, class_bytes(class));
                buffer = next;
            }
        }
    }
}

/// The smallest buffer. Where pages are larger, as they may be on aarch64, one takes a whole page.
pub const PAGE_BYTES: u64 = 1 << CLASS_MIN;

/// Where the buffer begins in whose first page `address` is.
pub fn start(address: u64) -> u64 {
    address & !(PAGE_BYTES - 1)
}

/// Has the first pages of a buffer put in place, which takes less at once than one by one; where the
/// kernel cannot, they come when they are used.
pub fn populate(buffer: u64, bytes: u64) {
    // SAFETY: the buffer is ours.
    unsafe { sys::syscall!(SYS_madvise, buffer, bytes, libc::MADV_POPULATE_WRITE) };
}

/// Gives a buffer back that was taken for `bytes`, by an address in its first page.
pub fn give(address: u64, bytes: u64) {
    let buffer = start(address);
    let class = class_of(bytes);
    let _held = hold(&POOL);
    IN_USE.store(IN_USE.load(Relaxed) - class_bytes(class), Relaxed);
    if class_bytes(class) >= RETURN_BYTES {
        // SAFETY: the buffer is ours; late readers see zeros and then notice that it is gone.
        unsafe { sys::syscall!(SYS_madvise, buffer, class_bytes(class), libc::MADV_DONTNEED) };
    }
    // SAFETY: the buffer is ours and large enough for an address.
    unsafe { *(buffer as *mut u64) = FREE[class].load(Relaxed) };
    FREE[class].store(buffer, Relaxed);
}

/// After a fork: the lock is free in the child.
pub fn release_lock() {
    POOL.store(0, Relaxed);
}

/// How many bytes a buffer that was taken for `bytes` really has.
pub fn capacity(bytes: u64) -> u64 {
    class_bytes(class_of(bytes))
}

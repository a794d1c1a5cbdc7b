//! The ledger's file: found by its path, checked, mapped; parts of it mapped for good, write buffers
//! of it for a while. No descriptor of it is kept, and but for the first time none is needed: what is
//! mapped can be mapped again at another place, and with more behind it.
//!
//! Not here: what is in it (`ledger`, `entries`).
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering::Relaxed};

use sweetspot_core::ledger::{Ledger, MAGIC};
use sweetspot_core::policy;

use crate::floor::signals::SignalsBlocked;
use crate::floor::{aside, sys};

/// The path from the environment, zero at its end: kept here, for programs write titles over that memory. Only
/// one that is longer is a string of the environment block.
#[unsafe(link_section = ".data")]
static PATH: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
const KEPT_BYTES: usize = 200;
#[unsafe(link_section = ".data")]
static KEPT: [AtomicU8; KEPT_BYTES] = [const { AtomicU8::new(0) }; KEPT_BYTES];
/// Where its beginning is mapped; 0: nowhere.
#[unsafe(link_section = ".data")]
static BEGINNING: AtomicU64 = AtomicU64::new(0);
/// Device, inode and bytes of the file that is mapped.
static IDENTITY: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Keeps the path for later.
pub fn remember(path: Option<&'static [u8]>) {
    let Some(path) = path else { return };
    let kept = if path.len() < KEPT_BYTES {
        KEPT.iter().zip(path).for_each(|(kept, byte)| kept.store(*byte, Relaxed));
        KEPT.as_ptr().cast()
    } else {
        path.as_ptr()
    };
    PATH.store(kept.cast_mut(), Relaxed);
}

/// Whether the environment names a ledger.
pub fn is_given() -> bool {
    !PATH.load(Relaxed).is_null()
}

/// Maps the ledger; `None`: there is none, or there is no room for it.
pub fn map() -> Option<*mut Ledger> {
    if sys::address_or_data_bytes_max() < policy::ADDRESS_BYTES_MIN {
        return None;
    }
    with_descriptor(|fd, stat| {
        let identity = [stat.st_dev, stat.st_ino, stat.st_size as u64];
        IDENTITY.iter().zip(identity).for_each(|(kept, number)| kept.store(number, Relaxed));
        let address = map_shared(fd, 0, size_of::<Ledger>() as u64)?;
        let ledger = address as *mut Ledger;
        // SAFETY: just mapped, and large enough.
        if unsafe { (*ledger).header.magic.load(Relaxed) } == MAGIC {
            return Some(ledger);
        }
        unmap(address, size_of::<Ledger>() as u64);
        None
    })
}

/// This mapping is the one that stays.
pub fn keep(ledger: *mut Ledger) {
    BEGINNING.store(ledger as u64, Relaxed);
}

/// Another thread, or a handler, has mapped it meanwhile: this mapping, which nobody knows, goes.
pub fn is_mapped_twice(ledger: *mut Ledger) {
    unmap(ledger as u64, size_of::<Ledger>() as u64);
}

/// What was mapped is about to be something else.
pub fn forget() {
    BEGINNING.store(0, Relaxed);
}

/// Maps so many bytes of it, from `at` on, for good.
pub fn map_part(at: u64, bytes: usize) -> Option<usize> {
    Some(map_quietly(at, bytes as u64)? as usize)
}

/// Maps a write buffer, with its first pages in place. The guard has allocated all of it.
pub fn map_write_buffer(at: u64, bytes: u64) -> Option<u64> {
    let address = map_quietly(at, bytes)?;
    let first = bytes.min(policy::APPEND_BYTES_FIRST);
    // SAFETY: advice on a mapping of our own.
    unsafe { sys::syscall!(SYS_madvise, address, first, libc::MADV_POPULATE_WRITE) };
    Some(address)
}

/// Unmaps a write buffer that nothing refers to any more; 0: there is none.
pub fn unmap_write_buffer(write_buffer: u64, bytes: u64) {
    if write_buffer != 0 {
        unmap(write_buffer, bytes);
    }
}

/// Lets go of a write buffer into which an append that was interrupted goes on to copy: in its place is
/// memory that belongs to nobody. Unmapped, its addresses could be the program's by then.
pub fn disconnect_write_buffer(write_buffer: u64, bytes: u64) {
    if write_buffer != 0 {
        disconnect(write_buffer, bytes);
    }
}

/// Puts private zeros in the place of shared memory that is still pointed to: by counters, or by an
/// append that was interrupted and goes on.
pub fn disconnect(at: u64, bytes: u64) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: replaces a mapping of our own, all of whose users bear with any content.
    unsafe { sys::syscall!(SYS_mmap, at, bytes, protection, flags, -1isize, 0) };
}

fn unmap(at: u64, bytes: u64) {
    // SAFETY: a mapping of our own.
    unsafe { sys::syscall!(SYS_munmap, at, bytes) };
}

fn map_shared(fd: i32, at: u64, bytes: u64) -> Option<u64> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new shared mapping of our own file.
    let address =
        unsafe { sys::syscall!(SYS_mmap, 0, bytes, protection, libc::MAP_SHARED, fd as isize, at) };
    Some(sys::result(address).ok()? as u64)
}

/// Maps so many bytes of the file from `at` on, which no core dump is to hold.
fn map_quietly(at: u64, bytes: u64) -> Option<u64> {
    let by_descriptor = || {
        with_descriptor(|fd, stat| {
            let same = stat.st_dev == IDENTITY[0].load(Relaxed)
                && stat.st_ino == IDENTITY[1].load(Relaxed)
                && stat.st_size as u64 >= at + bytes;
            same.then(|| map_shared(fd, at, bytes)).flatten()
        })
    };
    let address = map_again(at, bytes).or_else(by_descriptor)?;
    // SAFETY: advice on a mapping of our own.
    unsafe { sys::syscall!(SYS_madvise, address, bytes, libc::MADV_DONTDUMP) };
    Some(address)
}

/// Maps so many bytes of the file from `at` on without opening it: its beginning is mapped a second time, as far
/// as is wanted, and what is in front is unmapped. Not where address space is limited: what is there
/// for a moment may be what another thread lacks then.
fn map_again(at: u64, bytes: u64) -> Option<u64> {
    let beginning = BEGINNING.load(Relaxed);
    let end = at.checked_add(bytes)?;
    let is_limited = sys::address_or_data_bytes_max() != u64::MAX;
    if beginning == 0 || is_limited || end > IDENTITY[2].load(Relaxed) {
        return None;
    }
    // A handler in between that goes elsewhere would leave all of it mapped.
    let _signals = SignalsBlocked::new();
    // SAFETY: an old size of 0 leaves a shared mapping where it is; the new one is at an address that the
    // kernel chooses, and what is unmapped is part of that.
    unsafe {
        let again = sys::syscall!(SYS_mremap, beginning, 0, end, libc::MREMAP_MAYMOVE);
        let again = sys::result(again).ok()? as u64;
        if at > 0 {
            sys::syscall!(SYS_munmap, again, at);
        }
        Some(again + at)
    }
}

/// Opens the file again, does something with it, closes it.
fn with_descriptor<T>(mut action: impl FnMut(i32, &libc::stat) -> Option<T>) -> Option<T> {
    let path = PATH.load(Relaxed);
    match path.is_null() {
        true => None,
        false => aside::look(-1, || with_opened(path, &mut action)),
    }
}

fn with_opened<T>(
    path: *const u8,
    mut action: impl FnMut(i32, &libc::stat) -> Option<T>,
) -> Option<T> {
    let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NOCTTY;
    // SAFETY: the path is a string of ours, or of the environment.
    let fd = unsafe { sys::syscall!(SYS_openat, libc::AT_FDCWD as isize, path, flags, 0) };
    let fd = sys::result(fd).ok()? as i32;
    let done = status_if_ours(fd).and_then(|stat| action(fd, &stat));
    // SAFETY: our own descriptor.
    unsafe { sys::syscall!(SYS_close, fd as isize) };
    done
}

/// A regular file of ours that nobody else can open.
fn status_if_ours(fd: i32) -> Option<libc::stat> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the kernel fills the struct.
    let (answer, stat, user) = unsafe {
        let answer = sys::syscall!(SYS_fstat, fd as isize, stat.as_mut_ptr());
        (answer, stat.assume_init(), sys::syscall!(SYS_geteuid))
    };
    let ours = answer == 0
        && stat.st_mode == libc::S_IFREG | 0o600
        && stat.st_uid as isize == user
        && stat.st_size as usize >= size_of::<Ledger>();
    ours.then_some(stat)
}

//! A ledger in memory: mapped and shared, or read as it is.
//!
//! # Safety
//! As `sys` says.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr;

use sweetspot_core::ledger::Ledger;
use sweetspot_core::observe::{OBSERVATIONS_AT, Observations};
use sweetspot_core::trace::{TRACE_AT, Trace};

use super::status;

/// What lies in a ledger's file, and where.
///
/// # Safety
/// Nothing but atomics, of which every bit pattern is valid.
pub(crate) unsafe trait Part {
    const AT: u64;
}
// SAFETY: all its fields are atomics or arrays and structs of them.
unsafe impl Part for Ledger {
    const AT: u64 = 0;
}
// SAFETY: as above.
unsafe impl Part for Observations {
    const AT: u64 = OBSERVATIONS_AT;
}
// SAFETY: as above.
unsafe impl Part for Trace {
    const AT: u64 = TRACE_AT;
}

/// Everything of a ledger's file but the write buffers, mapped.
pub(crate) type Mapping = Mapped<Ledger>;

/// A part of a ledger's file, mapped and shared.
pub(crate) struct Mapped<T: Part> {
    address: ptr::NonNull<T>,
}

// SAFETY: a Mapped is a shared reference to atomics that stays mapped as long as it lives.
unsafe impl<T: Part> Send for Mapped<T> {}
// SAFETY: as above.
unsafe impl<T: Part> Sync for Mapped<T> {}

impl<T: Part> Mapped<T> {
    /// Maps its part of `file`, which must be there.
    pub(crate) fn new(file: &File) -> io::Result<Mapped<T>> {
        if status(file)?.size < T::AT + size_of::<T>() as u64 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<T>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                T::AT as libc::off_t,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range was mapped just now; the advice keeps it out of core dumps.
        unsafe { libc::madvise(address, size_of::<T>(), libc::MADV_DONTDUMP) };
        ptr::NonNull::new(address.cast())
            .map(|address| Mapped { address })
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
    }
}

impl<T: Part> Deref for Mapped<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: mapped for as long as `self` lives, page-aligned, large enough (checked in `new`;
        // nobody shrinks a ledger), and every bit pattern is valid (`Part`).
        unsafe { self.address.as_ref() }
    }
}

impl<T: Part> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; no reference outlives `self`.
        unsafe { libc::munmap(self.address.as_ptr().cast(), size_of::<T>()) };
    }
}

/// A private copy of a ledger: nobody can change it, and a hole in the file cannot raise SIGBUS.
pub(crate) fn read_ledger(file: &File) -> io::Result<Box<Ledger>> {
    let layout = Layout::new::<Ledger>();
    // SAFETY: the layout is not empty; zeros are a valid Ledger; the box frees with the same layout.
    let mut ledger = unsafe {
        let memory = alloc_zeroed(layout).cast::<Ledger>();
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        Box::from_raw(memory)
    };
    // SAFETY: the box is not shared yet, and any bytes are a valid Ledger.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut(ptr::from_mut(&mut *ledger).cast::<u8>(), layout.size())
    };
    file.read_exact_at(bytes, 0)?;
    Ok(ledger)
}

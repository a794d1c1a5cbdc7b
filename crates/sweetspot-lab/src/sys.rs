//! The system calls for which there is no safe function elsewhere: `wait4`, `cachestat` and
//! `mincore`. Nothing else in this crate is unsafe.
//!
//! # Safety
//! All calls get pointers to values that live on the caller's stack for the whole call, of the
//! size that the kernel writes.

#![allow(unsafe_code)]

use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io,
    os::{fd::AsRawFd, unix::process::ExitStatusExt},
    process::{Child, ExitStatus},
    time::Duration,
};

/// What the kernel says about a child that has ended.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in user mode, of the child and of what it waited for.
    pub user: Duration,
    /// Processor time in the kernel, likewise.
    pub system: Duration,
    /// The largest resident set of any one process of these, in bytes; at least that of the launcher.
    pub peak_memory_bytes: u64,
    /// Page faults that needed no device, and those that did.
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Switches because it waited, and because others had their turn.
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

/// Waits for `child` and tells what it used. The child is gone then: a later `Child::wait` fails.
pub fn wait_with_usage(child: &Child) -> io::Result<(ExitStatus, Usage)> {
    // SAFETY: rusage is made of integers, for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let mut status = 0;
    loop {
        // SAFETY: both pointers are to live values of the types that wait4 writes.
        let found = unsafe { libc::wait4(child.id().cast_signed(), &mut status, 0, &mut usage) };
        if found >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let duration = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.cast_unsigned())
            + Duration::from_micros(time.tv_usec.cast_unsigned())
    };
    let usage = Usage {
        user: duration(usage.ru_utime),
        system: duration(usage.ru_stime),
        peak_memory_bytes: usage.ru_maxrss.cast_unsigned() * 1024, // Linux counts in KiB
        minor_faults: usage.ru_minflt.cast_unsigned(),
        major_faults: usage.ru_majflt.cast_unsigned(),
        voluntary_switches: usage.ru_nvcsw.cast_unsigned(),
        involuntary_switches: usage.ru_nivcsw.cast_unsigned(),
    };
    Ok((ExitStatus::from_raw(status), usage))
}

/// The number of pages of `file` that are in the page cache. Linux 6.5; `Unsupported` before.
pub fn cached_pages(file: &File) -> io::Result<u64> {
    const SYS_CACHESTAT: libc::c_long = 451; // the same on every architecture
    let range = [0_u64, 0]; // offset and length; length 0 is to the end of the file
    let mut pages = [0_u64; 5]; // cached, dirty, under writeback, evicted, recently evicted
    // SAFETY: the kernel reads two and writes five 64-bit numbers, which is what there is; the
    // file is open for the whole call.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), pages.as_mut_ptr(), 0)
    };
    match result {
        0 => Ok(pages[0]),
        _ => Err(match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENOSYS) => {
                io::ErrorKind::Unsupported.into()
            }
            error => error,
        }),
    }
}

/// The same by mapping the file, for kernels without cachestat.
pub fn mapped_pages(file: &File) -> io::Result<u64> {
    let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    if len == 0 {
        return Ok(0);
    }
    let mut pages = vec![0_u8; len.div_ceil(rustix::param::page_size())];
    // SAFETY: a new mapping at an address of the kernel's choice, which nobody ever reads, so that
    // a file that shrinks meanwhile does no harm.
    let map = unsafe {
        let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
        libc::mmap(std::ptr::null_mut(), len, protection, flags, file.as_raw_fd(), 0)
    };
    if map == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is `len` bytes long, and there is a byte for each of its pages.
    let result = match unsafe { libc::mincore(map, len, pages.as_mut_ptr()) } {
        0 => Ok(pages.iter().filter(|page| **page & 1 != 0).count() as u64),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: the mapping made above, which nothing refers to any more.
    unsafe { libc::munmap(map, len) };
    result
}

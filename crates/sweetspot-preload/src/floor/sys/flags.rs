//! The flags of descriptors.

use super::{arguments, call, result, syscall};

/// `fcntl(F_GETFL)`.
pub fn open_flags(fd: i32) -> Option<i32> {
    asked(fd, libc::F_GETFL)
}

/// Whether a descriptor closes at exec, as `fcntl(F_GETFD)` says.
pub fn closes_at_exec(fd: i32) -> bool {
    asked(fd, libc::F_GETFD).is_some_and(|flags| flags & libc::FD_CLOEXEC != 0)
}

fn asked(fd: i32, command: i32) -> Option<i32> {
    // SAFETY: no memory is handed over.
    let answer = unsafe { syscall!(SYS_fcntl, fd as isize, command) };
    (answer >= 0).then_some(answer as i32)
}

/// Whether each read and write of a file reaches its server by itself, as if it had been opened with `O_DIRECT`
/// (`FOPEN_DIRECT_IO` of FUSE): the kernel maps nothing of it for several, unless the server bears with that
/// (`FUSE_DIRECT_IO_ALLOW_MMAP`, Linux 6.6), which nothing else tells for sure. `None`: it does not try to map what may
/// not be read, which [`keeps_pages`] tells. The server is not asked.
pub fn is_direct_by_server(fd: i32) -> Option<bool> {
    match map_error(fd) {
        0 => Some(false),
        libc::EACCES => None,
        // It is so, or there is no room to find out.
        _ => Some(true),
    }
}

/// Whether the kernel keeps any page of a file that was just written to, as far as that can be asked (Linux 6.5). Later
/// that says nothing: it may drop them at any question about the file's times.
pub fn keeps_pages(fd: i32) -> bool {
    kept_pages(fd) != Some(0)
}

/// `cachestat`, on all machines. Of Linux 6.5: libc has no name for it.
const CACHESTAT: i64 = 451;

/// How many pages of a file the kernel keeps, or has kept until it needed the room.
fn kept_pages(fd: i32) -> Option<u64> {
    let range = [0_u64; 2];
    let mut pages = [0_u64; 5];
    // SAFETY: the kernel reads the range, all of the file, and fills the counts.
    let answer = unsafe {
        call(
            CACHESTAT,
            arguments([fd as usize, range.as_ptr() as usize, pages.as_mut_ptr() as usize, 0]),
        )
    };
    let [kept, _, _, evicted, _] = pages;
    (answer == 0).then_some(kept + evicted)
}

/// What the kernel says to a map for several, as an error number; 0: it makes one.
fn map_error(fd: i32) -> i32 {
    /// Any number of bytes is a page.
    const BYTES: usize = 1;
    // SAFETY: a new mapping, which nobody reads, and which ends at once.
    unsafe {
        let shared = libc::MAP_SHARED;
        let mapped = syscall!(SYS_mmap, 0, BYTES, libc::PROT_READ, shared, fd as isize, 0);
        match result(mapped) {
            Ok(at) => {
                syscall!(SYS_munmap, at, BYTES);
                0
            }
            Err(_) => -mapped as i32,
        }
    }
}

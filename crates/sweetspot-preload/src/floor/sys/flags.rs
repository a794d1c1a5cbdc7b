//! The flags of descriptors.

use super::{result, syscall};

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

/// Whether a server answers each read of a file by itself, as if it had been opened with `O_DIRECT`
/// (`FOPEN_DIRECT_IO` of FUSE): the kernel keeps nothing of the file, and so maps nothing of it for several.
/// Unless the server says that it bears with that (`FUSE_DIRECT_IO_ALLOW_MMAP`, Linux 6.6), which nothing else tells.
/// The server is not asked.
pub fn is_direct_by_server(fd: i32) -> bool {
    /// Any number of bytes is a page.
    const BYTES: usize = 1;
    // SAFETY: a new mapping, which nobody reads, and which ends at once.
    unsafe {
        let shared = libc::MAP_SHARED;
        let mapped = syscall!(SYS_mmap, 0, BYTES, libc::PROT_READ, shared, fd as isize, 0);
        if let Ok(at) = result(mapped) {
            syscall!(SYS_munmap, at, BYTES);
        }
        mapped == -(libc::ENODEV as isize)
    }
}

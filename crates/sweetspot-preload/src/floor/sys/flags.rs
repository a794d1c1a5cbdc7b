//! The flags of descriptors.

use super::syscall;

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

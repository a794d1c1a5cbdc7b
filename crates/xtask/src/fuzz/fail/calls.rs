//! Which calls can fail in which way, and what a failed one leaves.

use crate::fuzz::fail::own;
use std::ffi::c_long;

/// What happens to a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// It fails with this error and does nothing; `close` closes all the same.
    Error(i32),
    /// It transfers half of what it was asked to.
    Short,
    /// It and all later writes fail: the disk is full from here on.
    Full,
}

pub(super) const FAULTS: &[Fault] =
    &[Fault::Error(libc::EIO), Fault::Error(libc::ENOSPC), Fault::Error(libc::EINTR), Fault::Short];

/// A disk that is full from one write on: `cargo xtask fuzz full`.
pub(super) const FULL: &[Fault] = &[Fault::Full];

/// System calls that cannot fail when they are called rightly.
const NEVER_FAIL: &[c_long] = &[
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    // All its errors are the caller's.
    libc::SYS_lseek,
    // Rust's runtime panics on any error of it that the kernel does not have.
    libc::SYS_getrandom,
    // Rust's runtime asks it about 0, 1 and 2, and aborts on an error that it does not have.
    own::POLL,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_umask,
    libc::SYS_clock_gettime,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    // A second `execve` of the same process is not traced to its end otherwise.
    libc::SYS_execve,
    // The victim's own signals to itself.
    libc::SYS_tgkill,
];

const TRANSFERS: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_readv,
    libc::SYS_writev,
];

const WRITES: &[c_long] = &[libc::SYS_write, libc::SYS_pwrite64, libc::SYS_writev];

/// What a full disk says no to, besides transfers to a file.
const NEEDS_SPACE: &[c_long] = &[
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_openat,
    own::RENAME,
    libc::SYS_fsync,
    libc::SYS_sendfile,
    libc::SYS_ftruncate,
];

/// What a signal interrupts.
const INTERRUPTIBLE: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_wait4,
    libc::SYS_clock_nanosleep,
    libc::SYS_fcntl,
    libc::SYS_fstatfs,
    libc::SYS_sendfile,
];

/// What the library calls on its own account, too: then the program need not see the error.
pub(super) const LIBRARYS: &[c_long] = &[
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_fcntl,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_futex,
];

impl Fault {
    pub(super) fn concerns(self, call: c_long) -> bool {
        match self {
            Fault::Error(libc::ENOSPC) => NEEDS_SPACE.contains(&call),
            Fault::Error(libc::EINTR) => INTERRUPTIBLE.contains(&call),
            Fault::Error(_) => !NEVER_FAIL.contains(&call),
            Fault::Short => TRANSFERS.contains(&call),
            Fault::Full => WRITES.contains(&call),
        }
    }

    pub(super) fn name(self) -> String {
        match self {
            Fault::Error(errno) => std::io::Error::from_raw_os_error(errno).to_string(),
            Fault::Short => "half a transfer".to_owned(),
            Fault::Full => "no space from here on".to_owned(),
        }
    }
}

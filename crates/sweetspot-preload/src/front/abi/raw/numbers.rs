//! Numbers of calls that are treated alike, and what one of them is given.

use core::ffi::c_long;

use crate::arch::old;

/// `fchmodat2` (Linux 6.6).
pub(super) const FCHMODAT2: c_long = 452;

/// Linux 6.13 and 6.17.
pub(super) const SETXATTRAT: c_long = 463;
pub(super) const REMOVEXATTRAT: c_long = 466;
pub(super) const FILE_SETATTR: c_long = 469;

/// The head of the kernel's struct clone_args.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct CloneArguments {
    pub(super) flags: u64,
    pub(super) descriptor: u64,
    pub(super) child: u64,
    pub(super) parent: u64,
    pub(super) exit_signal: u64,
    pub(super) stack: u64,
}

/// Calls that nobody notices and that bring no news.
pub(super) fn is_silent(number: c_long) -> bool {
    matches!(
        number,
        old::NONE
            | libc::SYS_gettid
            | libc::SYS_getpid
            | libc::SYS_getuid
            | libc::SYS_geteuid
            | libc::SYS_getgid
            | libc::SYS_getegid
            | libc::SYS_getrandom
            | libc::SYS_getcpu
            | libc::SYS_sched_yield
            | libc::SYS_clock_gettime
            | libc::SYS_clock_getres
            | libc::SYS_gettimeofday
            | libc::SYS_getrusage
            | libc::SYS_membarrier
            | libc::SYS_rseq
            | libc::SYS_set_robust_list
            | libc::SYS_set_tid_address
            | libc::SYS_sigaltstack
            | libc::SYS_brk
            | libc::SYS_madvise
            | libc::SYS_mincore
            | libc::SYS_get_mempolicy
            | libc::SYS_set_mempolicy
            | libc::SYS_mbind
    )
}

/// Calls by which the process gives up rights, or leaves for another namespace.
pub(super) fn confines(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_seccomp
            | libc::SYS_landlock_restrict_self
            | libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_setreuid
            | libc::SYS_setregid
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_setfsuid
            | libc::SYS_setfsgid
            | libc::SYS_setgroups
            | libc::SYS_capset
            | libc::SYS_chroot
            | libc::SYS_pivot_root
            | libc::SYS_setns
    )
}

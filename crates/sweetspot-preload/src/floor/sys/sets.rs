//! System calls with sets of signals.

use super::syscall;

/// Changes the signal mask, as `sigprocmask`, and returns the former one.
pub fn change_signal_mask(how: i32, set: u64) -> u64 {
    let mut old = 0u64;
    // SAFETY: as in `set_signal_mask`.
    unsafe { syscall!(SYS_rt_sigprocmask, how, &raw const set, &raw mut old, 8) };
    old
}

/// Sets the whole signal mask and returns the former one.
pub fn set_signal_mask(mask: u64) -> u64 {
    let mut old = 0u64;
    // SAFETY: both pointers are to 8 bytes, the kernel's size of a signal set.
    unsafe { syscall!(SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, &raw mut old, 8) };
    old
}

/// The signals that wait, blocked, for this thread or its process.
pub fn pending_signals() -> u64 {
    let mut pending = 0u64;
    // SAFETY: the pointer is to 8 bytes, the kernel's size of a signal set.
    unsafe { syscall!(SYS_rt_sigpending, &raw mut pending, 8) };
    pending
}

/// Takes one of these signals, which wait, blocked: it is not delivered.
pub fn take_signal(set: u64) {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the set has the kernel's size, and both live through the call; nothing is asked about the signal.
    unsafe { syscall!(SYS_rt_sigtimedwait, &raw const set, 0, &raw const now, 8) };
}

//! Giving up rights, entering other namespaces, limits.
//!
//! Afterwards the process may not be allowed what we would do, or may not be trusted with what it
//! shares: every file is quiesced before, and from then on every call passes through.

use core::ffi::{c_char, c_int, c_uint};

use sweetspot_core::why::Why;

use super::Pointer;
use crate::engine::{deaths, ending, others, spawns};
use crate::front::dispatch;

/// Functions before which buffering ends for good.
macro_rules! ends {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $ret:ty;)*) => {$(hook! {
        fn $name($($arg: $type),*) -> $ret, next => {
            dispatch::end_because(Why::Confined);
            next($($arg),*)
        }
    })*};
}
ends! {
    fn setuid(user: c_uint) -> c_int;
    fn seteuid(user: c_uint) -> c_int;
    fn setreuid(real: c_uint, effective: c_uint) -> c_int;
    fn setresuid(real: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    fn setfsuid(user: c_uint) -> c_int;
    fn setgid(group: c_uint) -> c_int;
    fn setegid(group: c_uint) -> c_int;
    fn setregid(real: c_uint, effective: c_uint) -> c_int;
    fn setresgid(real: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    fn setfsgid(group: c_uint) -> c_int;
    fn setgroups(count: usize, list: Pointer) -> c_int;
    fn initgroups(user: *const c_char, group: c_uint) -> c_int;
    fn capset(header: Pointer, data: Pointer) -> c_int;
    fn chroot(path: *const c_char) -> c_int;
    fn pivot_root(new: *const c_char, old: *const c_char) -> c_int;
    fn setns(fd: c_int, kind: c_int) -> c_int;
}

hook! {
    fn unshare(flags: c_int) -> c_int, next => {
        unsharing(flags);
        next(flags)
    }
}

/// Before a thread gets something for itself. What is only its own now confines nobody.
pub(super) fn unsharing(flags: c_int) {
    const OF_THREADS: c_int = libc::CLONE_FILES
        | libc::CLONE_FS
        | libc::CLONE_SYSVSEM
        | libc::CLONE_VM
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD;
    let is_confined = flags & !OF_THREADS != 0;
    dispatch::end_because(if is_confined { Why::Confined } else { Why::Shared });
}

/// Before an operation of `prctl`, which may confine the process, or stop its clock.
pub(super) fn confining(operation: c_int) {
    // libc has no name for the last one: from then on a call of ours may be a signal.
    const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;
    if matches!(
        operation,
        libc::PR_SET_SECCOMP
            | libc::PR_CAPBSET_DROP
            | libc::PR_SET_SECUREBITS
            | PR_SET_SYSCALL_USER_DISPATCH
    ) {
        dispatch::end_because(Why::Confined);
    }
    if operation == libc::PR_SET_SECCOMP {
        ending::filtering();
    }
    if operation == libc::PR_SET_TSC {
        crate::floor::clock::fine_clock_may_change();
    }
}

hook! {
    fn prctl(operation: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int, next => {
        let pass = dispatch::public_sync_point();
        confining(operation);
        let answer = next(operation, a, b, c, d);
        pass.done();
        answer
    }
}

// A limit on the size of files must be met by the write that breaks it: nothing may be pending.
macro_rules! limits {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $ret:ty;)*) => {$(hook! {
        fn $name($($arg: $type),*) -> $ret, next => {
            let pass = dispatch::pass_through();
            let answer = next($($arg),*);
            crate::engine::changes::limits_changed();
            pass.done();
            answer
        }
    })*};
}
limits! {
    fn setrlimit(resource: c_int, limit: Pointer) -> c_int;
    fn setrlimit64(resource: c_int, limit: Pointer) -> c_int;
    fn ulimit(command: c_int, limit: usize) -> isize;
    fn vlimit(resource: c_int, value: c_int) -> c_int;
}

/// Before `prlimit`: what another process has written already does not meet the limit.
pub(super) fn limits_setting(process: c_int, resource: c_int, new: Pointer) {
    let is_size = resource == libc::RLIMIT_FSIZE as c_int;
    if is_size && !new.is_null() && deaths::can_wait() {
        others::limited(process);
    }
}

/// After `prlimit`, of this process (0) or another one.
pub(super) fn limits_set(process: c_int, resource: c_int, new: Pointer, answer: c_int) {
    crate::engine::changes::limits_changed();
    let is_size = resource == libc::RLIMIT_FSIZE as c_int;
    if answer == 0 && is_size && !new.is_null() {
        // The child of a vfork may have set its parent's.
        spawns::leave_behind();
    }
    if answer == 0 {
        limits_setting(process, resource, new);
    }
}

macro_rules! limits_of_any {
    ($($name:ident)*) => {$(hook! {
        fn $name(process: c_int, resource: c_int, new: Pointer, old: Pointer) -> c_int, next => {
            let pass = dispatch::pass_through();
            limits_setting(process, resource, new);
            let answer = next(process, resource, new, old);
            limits_set(process, resource, new, answer);
            deaths::learned();
            pass.done();
            answer
        }
    })*};
}
limits_of_any! { prlimit prlimit64 }

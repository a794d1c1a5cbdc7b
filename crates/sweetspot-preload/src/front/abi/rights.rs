//! Giving up rights, entering other namespaces, limits.
//!
//! Afterwards the process may not be allowed what we would do, or may not be trusted with what it
//! shares: every file is quiesced before, and from then on every call passes through.

use core::ffi::{c_char, c_int, c_uint};

use sweetspot_core::why::Why;

use super::Pointer;
use crate::engine::{changes, children, deaths, ending, entries, others, spawns};
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

/// Before an operation of `prctl`, which may confine the process, stop its clock, or say who may trace it.
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
    if operation == libc::PR_SET_PTRACER {
        entries::tracer_is_chosen();
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

/// Sets a limit. One on the size of files must be met by the write that breaks it: nothing may be pending, and nothing of
/// another thread's begins to wait before all of them are known to pass through.
pub(super) fn limiting<T>(is_size: bool, next: impl FnOnce() -> T) -> T {
    let pass = dispatch::pass_through();
    if is_size {
        children::hold_back();
    }
    let answer = next();
    changes::limits_changed();
    if is_size {
        children::go_on();
    }
    pass.done();
    answer
}

pub(super) fn is_size(resource: c_int) -> bool {
    resource == libc::RLIMIT_FSIZE as c_int
}

/// `ulimit` and `vlimit` have numbers of their own: of size they are taken to be.
fn may_be_size(_: c_int) -> bool {
    true
}

macro_rules! limits {
    ($(fn $name:ident($what:ident: c_int, $limit:ident: $type:ty) -> $ret:ty, $is_size:ident;)*) => {$(hook! {
        fn $name($what: c_int, $limit: $type) -> $ret, next => {
            limiting($is_size($what), || next($what, $limit))
        }
    })*};
}
limits! {
    fn setrlimit(resource: c_int, limit: Pointer) -> c_int, is_size;
    fn setrlimit64(resource: c_int, limit: Pointer) -> c_int, is_size;
    fn ulimit(command: c_int, limit: usize) -> isize, may_be_size;
    fn vlimit(resource: c_int, value: c_int) -> c_int, may_be_size;
}

/// `prlimit`, of this process (0) or another one, by the next definition.
pub(super) fn limiting_any(
    process: c_int,
    resource: c_int,
    new: Pointer,
    next: impl FnOnce() -> c_int,
) -> c_int {
    let is_size = is_size(resource) && !new.is_null();
    // What another process has written already does not meet the limit.
    let of_another = || {
        if is_size && deaths::can_wait() {
            others::limited(process);
        }
    };
    of_another();
    let answer = limiting(is_size, next);
    if answer == 0 {
        if is_size {
            // The child of a vfork may have set its parent's.
            spawns::leave_behind();
        }
        of_another();
    }
    deaths::learned();
    answer
}

macro_rules! limits_of_any {
    ($($name:ident)*) => {$(hook! {
        fn $name(process: c_int, resource: c_int, new: Pointer, old: Pointer) -> c_int, next => {
            limiting_any(process, resource, new, || next(process, resource, new, old))
        }
    })*};
}
limits_of_any! { prlimit prlimit64 }

//! Terminals, devices and the machine as a whole: what others can notice, or what brings news.

use core::ffi::{c_char, c_int, c_uint};

use sweetspot_core::why::Why;

use super::{Pointer, stdio};
use crate::engine::process::acquire_point;
use crate::engine::{self, changes, deaths, handlers, life, unseen};
use crate::floor::errno::fail;
use crate::front::{dispatch, duplicates};

hook! {
    fn getppid() -> c_int, next => {
        let pass = dispatch::pass_through();
        let parent = next();
        // Another one than before: the former has died.
        engine::deaths::learned();
        pass.done();
        parent
    }
}

hook! {
    fn ptrace(request: c_int, process: c_int, address: Pointer, data: Pointer) -> isize, next => {
        let pass = dispatch::pass_through();
        // It may go on, or find its memory changed.
        engine::deaths::telling();
        let answer = next(request, process, address, data);
        deaths::may_have_learned();
        pass.done();
        answer
    }
}

hook! {
    /// What it names is read without a call that is seen, and tells what another process has done.
    fn clock_getcpuclockid(process: c_int, clock: Pointer) -> c_int, next => {
        if process != 0 && process != crate::floor::sys::process_id() {
            unseen::acquires();
        }
        let answer = next(process, clock);
        deaths::learned();
        answer
    }
}

// A terminal tells whether anybody has its other end, and which processes it belongs to.
may_tell_of_deaths! {
    fn tcgetattr(fd: c_int, into: Pointer) -> c_int;
    fn tcsetattr(fd: c_int, when: c_int, from: Pointer) -> c_int;
    fn tcdrain(fd: c_int) -> c_int;
    fn tcflow(fd: c_int, action: c_int) -> c_int;
    fn tcflush(fd: c_int, queue: c_int) -> c_int;
    fn tcsendbreak(fd: c_int, duration: c_int) -> c_int;
    fn tcgetpgrp(fd: c_int) -> c_int;
    fn tcsetpgrp(fd: c_int, group: c_int) -> c_int;
    fn tcgetsid(fd: c_int) -> c_int;
    fn tcgetwinsize(fd: c_int, into: Pointer) -> c_int;
    fn tcsetwinsize(fd: c_int, from: Pointer) -> c_int;
    fn gtty(fd: c_int, into: Pointer) -> c_int;
    fn stty(fd: c_int, from: Pointer) -> c_int;
    fn ttyname(fd: c_int) -> Pointer;
    fn ttyname_r(fd: c_int, into: Pointer, len: usize) -> c_int;
    fn __ttyname_r_chk(fd: c_int, into: Pointer, len: usize, size: usize) -> c_int;
    fn ptsname(fd: c_int) -> Pointer;
    fn ptsname_r(fd: c_int, into: Pointer, len: usize) -> c_int;
    fn __ptsname_r_chk(fd: c_int, into: Pointer, len: usize, size: usize) -> c_int;
    fn grantpt(fd: c_int) -> c_int;
    fn unlockpt(fd: c_int) -> c_int;
}

pass_through! {
    fn ttyslot() -> c_int;
    fn vhangup() -> c_int;
    fn revoke(path: *const c_char) -> c_int;

    fn setpgrp() -> c_int;
    fn setsid() -> c_int;
    fn nice(by: c_int) -> c_int;
    fn pthread_setaffinity_np(thread: Pointer, len: usize, from: Pointer) -> c_int;
    fn pthread_setschedparam(thread: Pointer, policy: c_int, from: Pointer) -> c_int;
    fn pthread_setschedprio(thread: Pointer, priority: c_int) -> c_int;
    fn pthread_setname_np(thread: Pointer, name: *const c_char) -> c_int;
    fn pthread_getname_np(thread: Pointer, into: Pointer, len: usize) -> c_int;
    fn pidfd_getpid(fd: c_int) -> c_int;
    fn swapoff(path: *const c_char) -> c_int;
    fn quotactl(command: c_int, device: *const c_char, id: c_int, data: Pointer) -> c_int;
    fn acct(path: *const c_char) -> c_int;
    fn reboot(command: c_int) -> c_int;
    fn init_module(image: Pointer, len: usize, parameters: *const c_char) -> c_int;
    fn delete_module(name: *const c_char, flags: c_uint) -> c_int;
    fn klogctl(command: c_int, into: Pointer, len: c_int) -> c_int;

    fn uname(into: Pointer) -> c_int;
    fn gethostname(into: Pointer, len: usize) -> c_int;
    fn __gethostname_chk(into: Pointer, len: usize, size: usize) -> c_int;
    fn sethostname(name: *const c_char, len: usize) -> c_int;
    fn getdomainname(into: Pointer, len: usize) -> c_int;
    fn __getdomainname_chk(into: Pointer, len: usize, size: usize) -> c_int;
    fn setdomainname(name: *const c_char, len: usize) -> c_int;
    fn gethostid() -> isize;
    fn sethostid(id: isize) -> c_int;
    fn sysinfo(into: Pointer) -> c_int;
    fn getloadavg(into: Pointer, count: c_int) -> c_int;
    fn get_nprocs() -> c_int;
    fn get_nprocs_conf() -> c_int;
    fn get_phys_pages() -> isize;
    fn get_avphys_pages() -> isize;
    fn clock_settime(clock: c_int, to: Pointer) -> c_int;
    fn clock_adjtime(clock: c_int, by: Pointer) -> c_int;
    fn settimeofday(to: Pointer, zone: Pointer) -> c_int;
    fn stime(to: Pointer) -> c_int;
    fn adjtime(by: Pointer, left: Pointer) -> c_int;
    fn adjtimex(by: Pointer) -> c_int;
    fn __adjtimex(by: Pointer) -> c_int;
    fn ntp_adjtime(by: Pointer) -> c_int;
    fn ntp_gettime(into: Pointer) -> c_int;
    fn ntp_gettimex(into: Pointer) -> c_int;

    fn fmtmsg(
        kind: isize, label: *const c_char, severity: c_int, text: *const c_char,
        action: *const c_char, tag: *const c_char
    ) -> c_int;
    fn openlog(name: *const c_char, option: c_int, facility: c_int) -> ();
    fn closelog() -> ();

    // These write files of their own.
    fn mtrace() -> ();
    fn muntrace() -> ();
    fn _mcleanup() -> ();
}

// An error may say that there is no such process any more.
learns_of_deaths! {
    fn setpgid(process: c_int, group: c_int);
    fn __setpgid(process: c_int, group: c_int);
    fn getpgid(process: c_int);
    fn __getpgid(process: c_int);
    fn getsid(process: c_int);
    fn getpriority(which: c_int, who: c_uint);
    fn setpriority(which: c_int, who: c_uint, priority: c_int);
    fn sched_setparam(process: c_int, from: Pointer);
    fn sched_setscheduler(process: c_int, policy: c_int, from: Pointer);
    fn __sched_setscheduler(process: c_int, policy: c_int, from: Pointer);
    fn sched_setaffinity(process: c_int, len: usize, from: Pointer);
    fn sched_setattr(process: c_int, from: Pointer, flags: c_uint);
}

/// Calls, and acquires: another process may have set what is asked for. Nobody notices the question.
#[inline(always)]
pub(super) fn asked<R>(next: impl FnOnce() -> R) -> R {
    let answer = next();
    let takes_part = !dispatch::takes_no_part();
    deaths::learned();
    if takes_part {
        acquire_point();
    }
    answer
}

macro_rules! asks {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $ret:ty;)*) => {$(hook! {
        fn $name($($arg: $type),*) -> $ret, next => { asked(|| next($($arg),*)) }
    })*};
}
asks! {
    fn isatty(fd: c_int) -> c_int;
    fn capget(header: Pointer, data: Pointer) -> c_int;
    fn getrlimit(resource: c_int, into: Pointer) -> c_int;
    fn getrlimit64(resource: c_int, into: Pointer) -> c_int;
    fn getdtablesize() -> c_int;
    fn _rpc_dtablesize() -> c_int;
    fn getpgrp() -> c_int;
    fn __bsd_getpgrp(process: c_int) -> c_int;
    fn sched_getaffinity(process: c_int, len: usize, into: Pointer) -> c_int;
    fn sched_getattr(process: c_int, into: Pointer, len: c_uint, flags: c_uint) -> c_int;
    fn sched_getparam(process: c_int, into: Pointer) -> c_int;
    fn __sched_getparam(process: c_int, into: Pointer) -> c_int;
    fn sched_getscheduler(process: c_int) -> c_int;
    fn __sched_getscheduler(process: c_int) -> c_int;
    fn sched_rr_get_interval(process: c_int, into: Pointer) -> c_int;
    fn pthread_getaffinity_np(thread: Pointer, len: usize, into: Pointer) -> c_int;
    fn pthread_getschedparam(thread: Pointer, policy: Pointer, into: Pointer) -> c_int;
}

macro_rules! asks_by_name {
    ($($name:ident)*) => {$(hook! {
        fn $name(what: c_int) -> isize, next => {
            match is_set_by_others(what) {
                true => asked(|| next(what)),
                false => next(what),
            }
        }
    })*};
}
asks_by_name! { sysconf __sysconf }

/// Whether what `sysconf` is asked for are limits or processors; the rest never changes.
fn is_set_by_others(what: c_int) -> bool {
    matches!(
        what,
        libc::_SC_OPEN_MAX
            | libc::_SC_CHILD_MAX
            | libc::_SC_SIGQUEUE_MAX
            | libc::_SC_ARG_MAX
            | libc::_SC_NPROCESSORS_CONF
            | libc::_SC_NPROCESSORS_ONLN
            | libc::_SC_PHYS_PAGES
            | libc::_SC_AVPHYS_PAGES
    )
}

public_sync_point! {
    fn umask(mask: c_uint) -> c_uint;
    fn personality(persona: usize) -> c_int;
}

macro_rules! complains {
    ($(fn $name:ident($($arg:ident: $type:ty),*) to $to:expr;)*) => {$(hook! {
        // By calls of libc's own, some of them to a duplicate.
        fn $name($($arg: $type),*) -> (), next => {
            dispatch::writes_unseen($to, false);
            let pass = dispatch::pass_through();
            next($($arg),*);
            pass.done();
        }
    })*};
}
complains! {
    // The program may have put another stream there.
    fn perror(text: *const c_char) to stdio::error_descriptor();
    fn herror(text: *const c_char) to libc::STDERR_FILENO;
    fn psiginfo(info: Pointer, text: *const c_char) to stdio::error_descriptor();
    fn vsyslog(priority: c_int, format: *const c_char, arguments: Pointer) to libc::STDERR_FILENO;
    fn __vsyslog_chk(priority: c_int, flag: c_int, format: *const c_char, arguments: Pointer)
        to libc::STDERR_FILENO;
}

macro_rules! shows_calls {
    ($($name:ident)*) => {$(hook! {
        fn $name(addresses: Pointer, count: c_int, fd: c_int) -> (), next => {
            dispatch::writes_unseen(fd, false);
            let pass = dispatch::pass_through();
            if life::incomplete(fd).is_none() {
                next(addresses, count, fd);
            }
            pass.done();
        }
    })*};
}
shows_calls! { backtrace_symbols_fd __backtrace_symbols_fd }

jump! { syslog, before_syslog }
jump! { __syslog_chk, before_checked_syslog }

extern "C" fn before_syslog() -> usize {
    // Where LOG_PERROR says so.
    dispatch::writes_unseen(libc::STDERR_FILENO, false);
    syslog::next()
}

extern "C" fn before_checked_syslog() -> usize {
    dispatch::writes_unseen(libc::STDERR_FILENO, false);
    __syslog_chk::next()
}

/// `FICLONERANGE`'s argument begins with the source's descriptor.
const FICLONERANGE: usize = 0x4020_940d;
const FICLONE: usize = 0x4004_9409;

/// `FS_IOC_SETFLAGS` and `FS_IOC_FSSETXATTR`: a file may become one that nobody can write.
const SET_FLAGS: usize = 0x4008_6602;
const SET_ATTRIBUTES: usize = 0x401c_5820;
/// `BTRFS_IOC_SUBVOL_SETFLAGS`: the same of all files of a subvolume.
const SET_SUBVOLUME_FLAGS: usize = 0x4008_941a;

/// `FIFREEZE`, and `DM_DEV_SUSPEND` of the device mapper: who writes there waits until this process, mostly, ends it.
/// And `FS_IOC_SHUTDOWN`: each write fails.
const FREEZE: usize = 0xc004_5877;
const SHUTDOWN: usize = 0x8004_587d;
const SUSPEND: usize = 0xc138_fd06;
/// `USERFAULTFD_IOC_NEW`: as the system call `userfaultfd`.
const NEW_USERFAULTFD: usize = 0xaa00;

/// Before `ioctl`: what it does to files is known for few requests. The error with which it is to fail.
fn before_ioctl(fd: c_int, request: usize, argument: usize) -> Option<c_int> {
    let mut from = None;
    match request as u32 as usize {
        SET_FLAGS | SET_ATTRIBUTES => changes::rights_changing(fd),
        SET_SUBVOLUME_FLAGS => changes::rights_of_all_changing(fd),
        FREEZE | SUSPEND | SHUTDOWN => {
            dispatch::end_because(Why::AnswersItself);
            changes::freezing();
        }
        NEW_USERFAULTFD => dispatch::end_because(Why::AnswersItself),
        FICLONE => from = Some(argument as c_int),
        FICLONERANGE => from = handlers::peek(argument as *const i64).map(|from| from as c_int),
        _ => {}
    }
    let of_source = from.and_then(dispatch::hand_over_content);
    dispatch::hand_over_content(fd).or(of_source)
}

/// What `ioctl` does, with the next definition to call.
#[inline(always)]
pub(super) fn control(
    fd: c_int,
    request: usize,
    argument: usize,
    next: impl FnOnce() -> isize,
) -> isize {
    let closes_on_exec = match request as u32 {
        // As libc::FIOCLEX and FIONCLEX, whose type differs between C libraries.
        0x5451 => Some(libc::FD_CLOEXEC),
        0x5450 => Some(0),
        _ => None,
    };
    if let Some(flags) = closes_on_exec {
        return duplicates::setting_close_on_exec(fd, flags, next);
    }
    if let Some(errno) = before_ioctl(fd, request, argument) {
        return fail(errno);
    }
    let pass = dispatch::pass_through();
    let answer = next();
    // As of the functions that ask a terminal.
    deaths::may_have_learned();
    pass.done();
    answer
}

hook! {
    fn ioctl(fd: c_int, request: usize, argument: usize) -> c_int, next => {
        control(fd, request, argument, || next(fd, request, argument) as isize) as c_int
    }
}

/// Changes mounts, or file systems that are mounted: what is asked of one for each file may be otherwise.
pub(super) fn mounts(change: impl FnOnce() -> isize) -> isize {
    let pass = dispatch::pass_through();
    engine::before_it_is_seen_free();
    let answer = change();
    if answer == 0 {
        changes::mounts_changed();
    }
    // It may have been in use by somebody who is dead.
    deaths::may_have_learned();
    pass.done();
    answer
}

macro_rules! changes_mounts {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> c_int;)*) => {$(hook! {
        fn $name($($arg: $type),*) -> c_int, next => {
            mounts(|| next($($arg),*) as isize) as c_int
        }
    })*};
}
changes_mounts! {
    fn mount(
        from: *const c_char, to: *const c_char, kind: *const c_char, flags: usize, data: Pointer
    ) -> c_int;
    fn mount_setattr(
        folder: c_int, path: *const c_char, flags: c_uint, attributes: Pointer, len: usize
    ) -> c_int;
    fn fsconfig(
        fd: c_int, command: c_uint, key: *const c_char, value: Pointer, more: c_int
    ) -> c_int;
}

shows_who_is_gone! {
    fn umount(path: *const c_char) -> c_int;
    fn umount2(path: *const c_char, flags: c_int) -> c_int;
    fn move_mount(
        from_folder: c_int, from: *const c_char, to_folder: c_int, to: *const c_char,
        flags: c_uint
    ) -> c_int;
}

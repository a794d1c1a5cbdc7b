//! `syscall`: every call at once, without a wrapper of libc's.
//!
//! What is known goes the way of its wrapper. For the rest, each argument that may be a descriptor
//! is handed over, and an answer that may be one is cleared of stale state: that can cost a window,
//! never a byte.

mod numbers;

use core::ffi::{c_char, c_int, c_long, c_uint};

use sweetspot_core::why::Why;

use self::numbers::{
    CloneArguments, FCHMODAT2, FILE_SETATTR, REMOVEXATTRAT, SETXATTRAT, confines, is_silent,
};
use super::descriptors::{close_all, opened_unforeseen};
use super::open_close::opened_so;
use super::process::{Kin, at, becoming, before_sharing, begun, kin};
use super::read_write::follow;
use super::waiting::watching;
use super::{dup, metadata, rights, signals, system, threads, transfer};
use crate::arch::old;
use crate::engine::entries::before_threads;
use crate::engine::table::DESCRIPTORS_MAX;
use crate::engine::{self, changes, deaths, ending, handlers, mapping};
use crate::floor::atomic::has_threads;
use crate::floor::signals::asked_set;
use crate::front::reach::target::{Environment, Target};
use crate::front::{dispatch, duplicates};

jump! { syscall, before_syscall }

/// Where `syscall` goes on: mostly in `followed`. A new process that will not return through here
/// on this stack must find none of our frames on it.
extern "C" fn before_syscall(number: c_long, a: usize, b: usize) -> usize {
    let (flags, stack) = match number {
        libc::SYS_clone => (a as u64, b),
        libc::SYS_clone3 => match handlers::peek(a as *const CloneArguments) {
            Some(arguments) => (arguments.flags, arguments.stack as usize),
            None => return syscall::next(),
        },
        _ if is_vfork(number) => (libc::CLONE_VM as u64 | libc::CLONE_VFORK as u64, 0),
        _ => return followed as *const () as usize,
    };
    if flags & libc::CLONE_PIDFD as u64 != 0 {
        deaths::descriptor_made();
    }
    match kin(flags) {
        Kin::Fork | Kin::Apart if stack == 0 => return followed as *const () as usize,
        Kin::Thread => {
            crate::floor::atomic::expect_threads();
            before_threads();
        }
        // A handler could begin before there is a child, or where the kernel begins the call anew, and be taken for the
        // parent that goes on.
        Kin::Vfork if asked_set() == 0 => dispatch::before_spawn(0),
        Kin::Vfork | Kin::Fork | Kin::Other => before_sharing(flags),
        // It begins where nothing of ours is called: it inherits what this process has.
        Kin::Apart => dispatch::end_because(Why::Confined),
    }
    syscall::next()
}

/// The flags by which a call makes a process.
fn clone_flags(number: c_long, a: usize) -> u64 {
    match number {
        libc::SYS_clone => a as u64,
        libc::SYS_clone3 => {
            handlers::peek(a as *const CloneArguments).map_or(0, |arguments| arguments.flags)
        }
        _ => 0,
    }
}

fn is_vfork(number: c_long) -> bool {
    number == old::VFORK
}

/// A call as it came, with what registers happened to hold for arguments that it does not have.
struct Call {
    number: c_long,
    arguments: [usize; 6],
}

impl Call {
    /// Makes it.
    fn make(&self) -> isize {
        self.make_with(self.arguments)
    }

    /// Makes it with other arguments.
    fn make_with(&self, arguments: [usize; 6]) -> isize {
        // SAFETY: the next definition of `syscall` takes up to six arguments.
        let next: unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> isize =
            unsafe { core::mem::transmute(syscall::next()) };
        let [a, b, c, d, e, f] = arguments;
        // SAFETY: the program made the same call.
        unsafe { next(self.number, a, b, c, d, e, f) }
    }
}

/// The call with our logic around it.
unsafe extern "C" fn followed(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let call = &Call { number, arguments: [a, b, c, d, e, f] };
    if is_silent(number) {
        return call.make() as c_long;
    }
    let known = on_files(call)
        .or_else(|| on_descriptors(call))
        .or_else(|| on_rights(call))
        .or_else(|| on_messages(call))
        .or_else(|| among_processes(call))
        .or_else(|| of_processes(call));
    known.unwrap_or_else(|| unknown(call)) as c_long
}

/// Reads, writes, and what opens, closes or moves what they go to.
fn on_files(call: &Call) -> Option<isize> {
    let [a, b, c, d, e, ..] = call.arguments;
    let number = call.number;
    let next = || call.make();
    let fd = a as c_int;
    Some(match number {
        libc::SYS_read => follow!(dispatch::read(fd, b as *mut u8, c), next()),
        libc::SYS_write => follow!(dispatch::write(fd, b as *const u8, c), next()),
        libc::SYS_pread64 => follow!(dispatch::read_at(fd, b as *mut u8, c, d as i64), next()),
        libc::SYS_writev | libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            let is_at_offset = number == libc::SYS_pwritev2 && d as i64 == -1;
            dispatch::writes_unseen(fd, number != libc::SYS_writev && !is_at_offset);
            unless(engine::life::incomplete(fd), || passed_through(next))
        }
        libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => {
            dispatch::hand_over_offset(fd);
            unless(engine::life::incomplete(fd), || passed_through(next))
        }
        libc::SYS_lseek => follow!(dispatch::seek(fd, b as i64, c as c_int), next()),
        libc::SYS_openat => opened(fd, b, c as c_int, next),
        libc::SYS_openat2 => opened_so(fd, b as *const _, c as *const _, next),
        libc::SYS_open_by_handle_at => opened_unforeseen(c as c_int, next),
        old::OPEN => opened(libc::AT_FDCWD, a, b as c_int, next),
        old::CREAT => opened(libc::AT_FDCWD, a, libc::O_WRONLY | libc::O_TRUNC, next),
        libc::SYS_close => dispatch::close(fd, || next() as c_int) as isize,
        libc::SYS_close_range => close_all(a as c_uint, b as c_uint, c as c_uint, next),
        libc::SYS_munmap => {
            mapping::unmapping();
            next()
        }
        libc::SYS_mmap => unless(dispatch::mapping(e as c_int, c as c_int, d as c_int), || {
            let at = next();
            mapping::mapped(d as c_int);
            at
        }),
        libc::SYS_truncate => {
            // SAFETY: the program hands over the same path.
            unsafe { changes::changing_at(a as *const _) };
            passed_through(next)
        }
        libc::SYS_fsync | libc::SYS_fdatasync => metadata::synced(fd, next),
        libc::SYS_ftruncate | libc::SYS_fallocate => {
            if number == libc::SYS_fallocate {
                engine::space::written_through(d as u64);
            }
            unless(dispatch::hand_over_content(fd), || passed_through(next))
        }
        libc::SYS_sync_file_range => metadata::complete(|| fd, next),
        libc::SYS_syncfs => metadata::synced_with_all(fd, next),
        libc::SYS_sync => metadata::synced_with_all(-1, next),
        libc::SYS_sendfile => between(fd, b as c_int, next),
        libc::SYS_splice | libc::SYS_copy_file_range => between(fd, c as c_int, next),
        libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
            dispatch::protecting(c as c_int);
            next()
        }
        _ => return None,
    })
}

/// A call that tells of a file.
fn telling(call: &Call, next: impl Fn() -> isize) -> isize {
    let [a, b, c, d, e, ..] = call.arguments;
    let (flags, into) = match call.number {
        old::STAT | old::LSTAT => (0, b),
        libc::SYS_statx => (c, e),
        _ => (d, c),
    };
    let fd = || metadata::named(a as c_int, b as *const _, flags as c_int);
    let of = if call.number == libc::SYS_statx { metadata::of_statx } else { metadata::of_stat };
    metadata::described(fd, next, || of(into as *const _))
}

/// What makes descriptors, duplicates them, or asks something of one.
fn on_descriptors(call: &Call) -> Option<isize> {
    let [a, b, c, d, ..] = call.arguments;
    let number = call.number;
    let next = || call.make();
    let fd = a as c_int;
    Some(match number {
        libc::SYS_dup => duplicates::duplicate(fd, next),
        old::DUP2 | libc::SYS_dup3 => duplicates::replace(fd, b as c_int, next),
        old::PIPE | libc::SYS_pipe2 | libc::SYS_socketpair => {
            let answer = passed_through(next);
            if answer == 0 {
                let pair = if number == libc::SYS_socketpair { d } else { a };
                dispatch::made_several(pair as *const c_int, 2);
            }
            answer
        }
        libc::SYS_fstat => metadata::complete(|| fd, next),
        libc::SYS_newfstatat | libc::SYS_statx => telling(call, next),
        libc::SYS_fcntl => dup::control(fd, b as c_int, c, next),
        libc::SYS_ioctl => system::control(fd, b, c, next),
        libc::SYS_pidfd_getfd => {
            dispatch::special_use(b as c_int, Why::Shared);
            let new = passed_through(next);
            dispatch::fetched(fd, new as c_int);
            new
        }
        libc::SYS_pidfd_open | libc::SYS_signalfd4 => {
            let fd = passed_through(next);
            dispatch::made(fd as c_int);
            deaths::descriptor_made();
            fd
        }
        libc::SYS_inotify_add_watch | libc::SYS_fanotify_mark => watching(c as u64, next),
        _ => return None,
    })
}

/// What changes rights and limits, of files or of processes.
fn on_rights(call: &Call) -> Option<isize> {
    let [a, b, c, d, e, ..] = call.arguments;
    let number = call.number;
    let next = || call.make();
    let fd = a as c_int;
    Some(match number {
        libc::SYS_fchmod | libc::SYS_fchown | libc::SYS_fsetxattr | libc::SYS_fremovexattr => {
            changes::rights_changing(fd);
            passed_through(next)
        }
        libc::SYS_fchmodat => sets(changes::rights_changing_at, (fd, b, 0), next),
        FCHMODAT2 => sets(changes::rights_changing_at, (fd, b, d), next),
        SETXATTRAT | REMOVEXATTRAT => sets(changes::rights_changing_at, (fd, b, c), next),
        libc::SYS_fchownat | FILE_SETATTR => sets(changes::rights_changing_at, (fd, b, e), next),
        old::CHMOD | old::CHOWN | libc::SYS_setxattr | libc::SYS_removexattr | libc::SYS_swapon => {
            sets(changes::rights_changing_at, (libc::AT_FDCWD, a, 0), next)
        }
        old::LCHOWN | libc::SYS_lsetxattr | libc::SYS_lremovexattr => {
            let flags = libc::AT_SYMLINK_NOFOLLOW as usize;
            sets(changes::rights_changing_at, (libc::AT_FDCWD, a, flags), next)
        }
        libc::SYS_utimensat => sets(changes::times_changing_at, (fd, b, d), next),
        old::FUTIMESAT => sets(changes::times_changing_at, (fd, b, 0), next),
        old::UTIME | old::UTIMES => sets(changes::times_changing_at, (libc::AT_FDCWD, a, 0), next),
        libc::SYS_mount | libc::SYS_mount_setattr | libc::SYS_fsconfig => system::mounts(next),
        libc::SYS_umask | libc::SYS_personality => at_public_sync_point(next),
        libc::SYS_prctl => {
            rights::confining(fd);
            at_public_sync_point(next)
        }
        libc::SYS_unshare => {
            rights::unsharing(fd);
            next()
        }
        libc::SYS_setrlimit => rights::limiting(rights::is_size(fd), next),
        libc::SYS_prlimit64 => {
            rights::limiting_any(fd, b as c_int, c as *const _, || next() as c_int) as isize
        }
        _ => return None,
    })
}

/// Messages, which may carry descriptors.
fn on_messages(call: &Call) -> Option<isize> {
    let [_, b, c, ..] = call.arguments;
    let next = || call.make();
    Some(match call.number {
        libc::SYS_sendmsg => {
            transfer::sending(b as *const _);
            passed_through(next)
        }
        libc::SYS_recvmsg => {
            let answer = passed_through(next);
            if answer >= 0 {
                transfer::received(b as *const _);
            }
            answer
        }
        libc::SYS_sendmmsg => {
            for index in 0..(c as u32).min(libc::UIO_MAXIOV as u32) {
                transfer::sending(transfer::header(b as *const _, index));
            }
            passed_through(next)
        }
        libc::SYS_recvmmsg => transfer::received_several(b as *const _, passed_through(next)),
        _ => return None,
    })
}

/// Signals and waits: what others learn from this process, and what it learns from them.
fn among_processes(call: &Call) -> Option<isize> {
    let [a, b, c, ..] = call.arguments;
    let number = call.number;
    let next = || call.make();
    let fd = a as c_int;
    Some(match number {
        libc::SYS_wait4 => {
            let child = passed_through(next);
            deaths::reaped(child as c_int);
            child
        }
        libc::SYS_waitid => {
            let answer = passed_through(next);
            deaths::reported(answer, c as *const _);
            answer
        }
        libc::SYS_rt_sigtimedwait => {
            let answer = passed_through(next);
            deaths::signalled();
            answer
        }
        libc::SYS_kill | libc::SYS_rt_sigqueueinfo => sent(b, fd, next),
        libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => sent(c, fd, next),
        libc::SYS_tkill | libc::SYS_pidfd_send_signal => sent(b, 0, next),
        // Others may wait there: memory of a file need not be writable for that.
        libc::SYS_futex if b & libc::FUTEX_PRIVATE_FLAG as usize == 0 => at_public_sync_point(next),
        libc::SYS_futex => next(),
        libc::SYS_rt_sigprocmask => {
            signals::mask_changing(fd, || handlers::glance(b as *const u64));
            next()
        }
        libc::SYS_rt_sigaction => {
            signals::disposition_changing(fd, || handlers::peek(b as *const usize));
            let uncovered = handlers::uncover(fd);
            let answer = next();
            ending::cover(uncovered);
            answer
        }
        libc::SYS_process_vm_readv => {
            let answer = passed_through(next);
            deaths::looked_into(fd);
            deaths::may_have_learned();
            answer
        }
        libc::SYS_process_vm_writev | libc::SYS_ptrace => {
            deaths::telling();
            let answer = passed_through(next);
            deaths::may_have_learned();
            answer
        }
        _ => return None,
    })
}

/// What makes processes, becomes another program, ends, or cannot be followed.
fn of_processes(call: &Call) -> Option<isize> {
    let [a, b, c, d, e, f] = call.arguments;
    let number = call.number;
    let next = || call.make();
    let fd = a as c_int;
    Some(match number {
        // Only without a stack of its own, and without shared memory: see `before_syscall`.
        old::FORK | libc::SYS_clone | libc::SYS_clone3 => {
            let flags = clone_flags(number, a);
            dispatch::before_fork();
            let child = next();
            dispatch::after_fork(child as c_int);
            if child == 0 {
                begun(flags);
            }
            child
        }
        libc::SYS_execve => {
            becoming(Target::At(libc::AT_FDCWD, a as *const _), c as Environment, |changed| {
                call.make_with([a, b, changed.map_or(c, |changed| changed as usize), d, e, f])
            })
        }
        libc::SYS_execveat => {
            becoming(at(fd, b as *const _, e as c_int), d as Environment, |changed| {
                call.make_with([a, b, c, changed.map_or(d, |changed| changed as usize), e, f])
            })
        }
        // A process that has one thread ends with it.
        libc::SYS_exit | libc::SYS_exit_group if number != libc::SYS_exit || !has_threads() => {
            dispatch::end();
            call.make_with([ending::end_status(a as c_int) as usize, b, c, d, e, f])
        }
        libc::SYS_mq_notify => threads::asks_a_queue(next),
        libc::SYS_io_uring_setup => ending_for(Why::IoUring, next),
        // Pages that others read as they are at that time, answers that the kernel stores.
        libc::SYS_shmat | libc::SYS_vmsplice | libc::SYS_io_setup => {
            dispatch::syncs();
            unknown(call)
        }
        libc::SYS_userfaultfd => ending_for(Why::AnswersItself, || unknown(call)),
        libc::SYS_mlockall => ending_for(Why::MemoryLocked, next),
        _ if confines(number) => {
            dispatch::end_because(Why::Confined);
            if number == libc::SYS_seccomp {
                ending::filtering();
            }
            next()
        }
        _ => return None,
    })
}

/// After this call nothing can be buffered any more.
fn ending_for(why: Why, call: impl FnOnce() -> isize) -> isize {
    dispatch::end_because(why);
    call()
}

/// Any other call: each argument may be a descriptor, and so may the answer.
fn unknown(call: &Call) -> isize {
    let may_be_one = |argument: &usize| *argument < DESCRIPTORS_MAX;
    let descriptors = call.arguments.into_iter().filter(may_be_one);
    descriptors.for_each(|fd| dispatch::writes_unseen(fd as c_int, true));
    let answer = passed_through(|| call.make());
    // It may have asked for a process that is gone.
    deaths::learned();
    if answer > 0 {
        deaths::told();
    }
    if (0..DESCRIPTORS_MAX as isize).contains(&answer) {
        dispatch::perhaps_made(answer as c_int);
    }
    answer
}

/// Rights or times of a file are set, by path, which `before` is told first.
fn sets(
    before: unsafe fn(c_int, *const c_char, c_int),
    (folder, path, flags): (c_int, usize, usize),
    next: impl FnOnce() -> isize,
) -> isize {
    // SAFETY: the program hands over the same path.
    unsafe { before(folder, path as *const c_char, flags as c_int) };
    passed_through(next)
}

/// Between two descriptors, at the kernel's offsets.
fn between(one: c_int, other: c_int, next: impl FnOnce() -> isize) -> isize {
    mapping::moving(one, other);
    unless(dispatch::hand_over_offsets(one, other), || {
        let answer = passed_through(next);
        dispatch::transferred(one, other, answer);
        answer
    })
}

/// Calls, unless there is an error.
fn unless(error: Option<c_int>, call: impl FnOnce() -> isize) -> isize {
    error.map_or_else(call, crate::floor::errno::fail)
}

/// Releases, calls, acquires; no file is looked at.
fn at_public_sync_point(next: impl FnOnce() -> isize) -> isize {
    let pass = dispatch::public_sync_point();
    let answer = next();
    pass.done();
    answer
}

/// Releases, calls, acquires; it may be a transfer.
#[inline(always)]
fn passed_through(next: impl FnOnce() -> isize) -> isize {
    let pass = dispatch::pass_through();
    // It may be any call.
    engine::before_it_is_seen_free();
    pass.finish(next())
}

/// Sends a signal, to a process or to several (0, or less).
fn sent(signal: usize, to: c_int, next: impl FnOnce() -> isize) -> isize {
    deaths::sending(signal as c_int);
    let answer = at_public_sync_point(next);
    match answer {
        0 => deaths::sent(signal as c_int, to),
        _ => deaths::learned(),
    }
    answer
}

/// Opens by path.
#[inline(always)]
fn opened(folder: c_int, path: usize, flags: c_int, next: impl FnOnce() -> isize) -> isize {
    let pass = dispatch::opening(folder, path as *const c_char, flags);
    let fd = next();
    dispatch::opened(fd as c_int, flags);
    pass.done();
    fd
}

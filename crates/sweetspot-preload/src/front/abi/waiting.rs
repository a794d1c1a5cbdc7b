//! Sleeping and waking up: all that was written is out before, and news may have come after.

use core::ffi::{c_int, c_uint};

use sweetspot_core::why::Why;

use super::Pointer;
use crate::engine::{deaths, unseen};
use crate::floor::careful;
use crate::front::dispatch;

/// What is told through a descriptor may be a death.
macro_rules! told {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> c_int;)*) => {$(hook! {
        fn $name($($arg: $type),*) -> c_int, next => {
            let pass = dispatch::public_sync_point();
            let answer = next($($arg),*);
            if answer > 0 {
                deaths::told();
            }
            pass.done();
            answer
        }
    })*};
}

told! {
    fn poll(list: Pointer, count: usize, timeout: c_int) -> c_int;
    fn __poll(list: Pointer, count: usize, timeout: c_int) -> c_int;
    fn __poll_chk(list: Pointer, count: usize, timeout: c_int, size: usize) -> c_int;
    fn ppoll(list: Pointer, count: usize, timeout: Pointer, mask: Pointer) -> c_int;
    fn __ppoll_chk(
        list: Pointer, count: usize, timeout: Pointer, mask: Pointer, size: usize
    ) -> c_int;
    fn select(
        count: c_int, read: Pointer, write: Pointer, except: Pointer, timeout: Pointer
    ) -> c_int;
    fn __select(
        count: c_int, read: Pointer, write: Pointer, except: Pointer, timeout: Pointer
    ) -> c_int;
    fn pselect(
        count: c_int, read: Pointer, write: Pointer, except: Pointer, timeout: Pointer,
        mask: Pointer
    ) -> c_int;
    fn epoll_wait(fd: c_int, events: Pointer, count: c_int, timeout: c_int) -> c_int;
    fn epoll_pwait(
        fd: c_int, events: Pointer, count: c_int, timeout: c_int, mask: Pointer
    ) -> c_int;
    fn epoll_pwait2(
        fd: c_int, events: Pointer, count: c_int, timeout: Pointer, mask: Pointer
    ) -> c_int;
}

hook! {
    fn inotify_add_watch(fd: c_int, path: Pointer, mask: c_uint) -> c_int, next => {
        watching(u64::from(mask), || next(fd, path, mask) as isize) as c_int
    }
}

hook! {
    fn fanotify_mark(
        fd: c_int, flags: c_uint, mask: u64, folder: c_int, path: Pointer,
    ) -> c_int, next => {
        watching(mask, || next(fd, flags, mask, folder, path) as isize) as c_int
    }
}

/// Events of fanotify that are questions: the process that opens or reads waits for the answer of this process.
const ASKED: u64 =
    libc::FAN_OPEN_PERM | libc::FAN_OPEN_EXEC_PERM | libc::FAN_ACCESS_PERM | FAN_PRE_ACCESS;
const FAN_PRE_ACCESS: u64 = 0x10_0000;

/// What the process is told of from now on is in `mask`; this bit of it (`DN_MODIFY`, too) means the
/// same to all who watch.
pub(super) fn watching(mask: u64, next: impl FnOnce() -> isize) -> isize {
    const { assert!(libc::IN_MODIFY as u64 == libc::FAN_MODIFY) };
    if mask & ASKED != 0 {
        dispatch::end_because(Why::AnswersItself);
    }
    if mask & libc::FAN_MODIFY != 0 {
        unseen::will_count_writes();
    }
    let pass = dispatch::public_sync_point();
    let answer = next();
    pass.done();
    answer
}

public_sync_point! {
    fn epoll_ctl(fd: c_int, operation: c_int, of: c_int, event: Pointer) -> c_int;
    fn eventfd_read(fd: c_int, value: Pointer) -> c_int;
    fn eventfd_write(fd: c_int, value: u64) -> c_int;
    fn timerfd_settime(fd: c_int, flags: c_int, new: Pointer, old: Pointer) -> c_int;
    fn timerfd_gettime(fd: c_int, into: Pointer) -> c_int;
    fn inotify_rm_watch(fd: c_int, watch: c_int) -> c_int;

    fn nanosleep(time: Pointer, left: Pointer) -> c_int;
    fn __nanosleep(time: Pointer, left: Pointer) -> c_int;
    fn clock_nanosleep(clock: c_int, flags: c_int, time: Pointer, left: Pointer) -> c_int;
    fn thrd_sleep(time: Pointer, left: Pointer) -> c_int;
    fn usleep(microseconds: c_uint) -> c_int;
    fn sleep(seconds: c_uint) -> c_uint;
    fn pause() -> c_int;
    fn sigsuspend(mask: Pointer) -> c_int;
    fn __sigsuspend(mask: Pointer) -> c_int;
    fn sigpause(mask: c_int) -> c_int;
    fn __sigpause(signal_or_mask: c_int, is_signal: c_int) -> c_int;
    fn __xpg_sigpause(signal: c_int) -> c_int;

    // Threads share what is kept here, but a thread that waits for one may wait for long.
    fn thrd_join(thread: Pointer, answer: Pointer) -> c_int;

    fn msgget(key: c_int, flags: c_int) -> c_int;
    fn msgctl(id: c_int, command: c_int, into: Pointer) -> c_int;
    fn msgrcv(id: c_int, into: Pointer, len: usize, kind: isize, flags: c_int) -> isize;
    fn msgsnd(id: c_int, message: Pointer, len: usize, flags: c_int) -> c_int;
    fn mq_getattr(queue: c_int, into: Pointer) -> c_int;
    fn mq_setattr(queue: c_int, new: Pointer, old: Pointer) -> c_int;
    fn mq_receive(queue: c_int, into: Pointer, len: usize, priority: Pointer) -> isize;
    fn mq_timedreceive(
        queue: c_int, into: Pointer, len: usize, priority: Pointer, timeout: Pointer
    ) -> isize;
    fn mq_send(queue: c_int, message: Pointer, len: usize, priority: c_uint) -> c_int;
    fn mq_timedsend(
        queue: c_int, message: Pointer, len: usize, priority: c_uint, timeout: Pointer
    ) -> c_int;
}

macro_rules! joins {
    ($(fn $name:ident(thread: usize $(, $arg:ident: $type:ty)*);)*) => {$(hook! {
        fn $name(thread: usize $(, $arg: $type)*) -> c_int, next => {
            let pass = dispatch::public_sync_point();
            let answer = next(thread $(, $arg)*);
            if answer == 0 {
                careful::ended(thread);
            }
            pass.done();
            answer
        }
    })*};
}
joins! {
    fn pthread_join(thread: usize, answer: Pointer);
    fn pthread_timedjoin_np(thread: usize, answer: Pointer, until: Pointer);
    fn pthread_clockjoin_np(thread: usize, answer: Pointer, clock: c_int, until: Pointer);
}

hook! {
    fn pthread_cancel(thread: usize) -> c_int, next => {
        let pass = dispatch::public_sync_point();
        // Before: it may have ended when this comes back.
        careful::cancelled(thread);
        let answer = next(thread);
        pass.done();
        answer
    }
}

hook! {
    fn mq_close(queue: c_int) -> c_int, next => {
        dispatch::closing(queue);
        next(queue)
    }
}

// A child that is dead may have left bytes that the guard is writing: they are in their files before
// the parent learns of the death.
macro_rules! waits {
    ($(fn $name:ident($($arg:ident: $type:ty),*);)*) => {$(hook! {
        fn $name($($arg: $type),*) -> c_int, next => {
            let pass = dispatch::pass_through();
            let child = next($($arg),*);
            deaths::reaped(child);
            pass.done();
            child
        }
    })*};
}
waits! {
    fn wait(status: Pointer);
    fn __wait(status: Pointer);
    fn wait3(status: Pointer, options: c_int, usage: Pointer);
    fn wait4(process: c_int, status: Pointer, options: c_int, usage: Pointer);
    fn waitpid(process: c_int, status: Pointer, options: c_int);
    fn __waitpid(process: c_int, status: Pointer, options: c_int);
}

hook! {
    fn waitid(kind: c_uint, id: c_uint, into: Pointer, options: c_int) -> c_int, next => {
        let pass = dispatch::pass_through();
        let answer = next(kind, id, into, options);
        deaths::reported(answer as isize, into.cast());
        pass.done();
        answer
    }
}

macro_rules! takes_signals {
    ($(fn $name:ident($($arg:ident: $type:ty),*);)*) => {$(hook! {
        fn $name($($arg: $type),*) -> c_int, next => {
            let pass = dispatch::public_sync_point();
            let answer = next($($arg),*);
            deaths::signalled();
            pass.done();
            answer
        }
    })*};
}
// One of those that are pending may be for a death.
hook! {
    fn sigpending(into: Pointer) -> c_int, next => {
        let pass = dispatch::public_sync_point();
        let answer = next(into);
        deaths::signalled();
        pass.done();
        answer
    }
}
takes_signals! {
    fn sigwait(set: Pointer, signal: Pointer);
    fn sigwaitinfo(set: Pointer, into: Pointer);
    fn sigtimedwait(set: Pointer, into: Pointer, timeout: Pointer);
}

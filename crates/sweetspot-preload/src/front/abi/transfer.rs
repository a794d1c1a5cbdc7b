//! Bytes that go from one descriptor to another, or into a file behind the program's back; and
//! descriptors that go to another process.

use core::ffi::{c_int, c_uint};

use sweetspot_core::why::Why;

use super::Pointer;
use super::threads::before_thread;
use crate::engine::process::begin_concurrency;
use crate::engine::spawns::passive;
use crate::engine::{changes, deaths, handlers, life, mapping};
use crate::floor::errno::fail;
use crate::floor::next;
use crate::front::dispatch;

/// Between two descriptors, at the kernel's offsets.
macro_rules! between {
    ($(fn $name:ident($($arg:ident: $type:ty),*), $from:ident, $to:ident;)*) => {$(hook! {
        fn $name($($arg: $type),*) -> isize, next => {
            mapping::moving($from, $to);
            if let Some(errno) = dispatch::hand_over_offsets($from, $to) {
                return fail(errno);
            }
            let pass = dispatch::pass_through();
            let answer = pass.finish(next($($arg),*));
            dispatch::transferred($from, $to, answer);
            answer
        }
    })*};
}
between! {
    fn sendfile(to: c_int, from: c_int, offset: Pointer, len: usize), from, to;
    fn sendfile64(to: c_int, from: c_int, offset: Pointer, len: usize), from, to;
    fn splice(
        from: c_int, from_offset: Pointer, to: c_int, to_offset: Pointer, len: usize,
        flags: c_uint
    ), from, to;
    fn tee(from: c_int, to: c_int, len: usize, flags: c_uint), from, to;
    fn copy_file_range(
        from: c_int, from_offset: Pointer, to: c_int, to_offset: Pointer, len: usize,
        flags: c_uint
    ), from, to;
}

hook! {
    // Anyone who reads the pipe finds in it what is stored in these pages until then.
    fn vmsplice(fd: c_int, vector: Pointer, count: usize, flags: c_uint) -> isize, next => {
        dispatch::syncs();
        dispatch::hand_over(fd);
        let pass = dispatch::pass_through();
        pass.finish(next(fd, vector, count, flags))
    }
}

/// What an asynchronous operation does to its file, besides going on while the program does.
#[derive(Clone, Copy)]
enum Does {
    Read,
    Write,
    Sync,
    /// What its control block says.
    AsItSays,
}

/// Before an operation that goes on while the program does: calls on its file pass through for good. The error with which
/// it is not to begin, as what was written cannot be brought to the file. The block may be anywhere: libc refuses some
/// calls without a look at it.
fn asynchronous(block: *const libc::aiocb, does: Does) -> Option<c_int> {
    begin_concurrency();
    let found = handlers::peek(block)?;
    let fd = found.aio_fildes;
    dispatch::special_use(fd, Why::SpecialUse);
    mapping::used_later(fd);
    crate::engine::space::written_unseen();
    before_thread(&raw const found.aio_sigevent);
    match (does, found.aio_lio_opcode) {
        (Does::Sync, _) => {
            changes::syncing(fd);
            return life::sync_error(fd);
        }
        (Does::AsItSays, libc::LIO_NOP) => return None,
        (Does::Write, _) | (Does::AsItSays, libc::LIO_WRITE) => changes::writing(fd, true),
        (Does::Read | Does::AsItSays, _) => {}
    }
    life::incomplete(fd)
}

/// Begins such operations, unless there is an error.
fn begin(failed: Option<c_int>, next: impl FnOnce() -> c_int) -> c_int {
    let pass = dispatch::pass_through();
    let answer = failed.map_or_else(next, |errno| fail(errno) as c_int);
    pass.done();
    answer
}

macro_rules! starts {
    ($($name:ident $does:ident)*) => {$(hook! {
        fn $name(block: *const libc::aiocb) -> c_int, next => {
            begin(asynchronous(block, Does::$does), || next(block))
        }
    })*};
}
starts! { aio_read Read aio_read64 Read aio_write Write aio_write64 Write }

macro_rules! syncs {
    ($($name:ident)*) => {$(hook! {
        fn $name(operation: c_int, block: *const libc::aiocb) -> c_int, next => {
            begin(asynchronous(block, Does::Sync), || next(operation, block))
        }
    })*};
}
syncs! { aio_fsync aio_fsync64 }

macro_rules! lists {
    ($($name:ident)*) => {$(hook! {
        fn $name(
            mode: c_int, list: *const *const libc::aiocb, count: c_int, event: Pointer,
        ) -> c_int, next => {
            begin_concurrency();
            let mut failed = None;
            for index in 0..count.max(0) as usize {
                let Some(block) = handlers::peek(list.wrapping_add(index)) else { break };
                failed = failed.or(asynchronous(block, Does::AsItSays));
            }
            before_thread(event.cast());
            begin(failed, || {
                let answer = next(mode, list, count, event);
                // It may have waited.
                deaths::may_have_learned();
                answer
            })
        }
    })*};
}
lists! { lio_listio lio_listio64 }

// What was transferred meanwhile.
may_tell_of_deaths! {
    fn aio_error(block: Pointer) -> c_int;
    fn aio_error64(block: Pointer) -> c_int;
    fn aio_return(block: Pointer) -> isize;
    fn aio_return64(block: Pointer) -> isize;
    fn aio_suspend(list: Pointer, count: c_int, timeout: Pointer) -> c_int;
    fn aio_suspend64(list: Pointer, count: c_int, timeout: Pointer) -> c_int;
    fn aio_cancel(fd: c_int, block: Pointer) -> c_int;
    fn aio_cancel64(fd: c_int, block: Pointer) -> c_int;
}

hook! {
    fn process_vm_readv(
        process: c_int, local: Pointer, local_count: usize, remote: Pointer, remote_count: usize,
        flags: usize,
    ) -> isize, next => {
        let pass = dispatch::pass_through();
        let answer = next(process, local, local_count, remote, remote_count, flags);
        deaths::looked_into(process);
        deaths::may_have_learned();
        pass.done();
        answer
    }
}

hook! {
    fn process_vm_writev(
        process: c_int, local: Pointer, local_count: usize, remote: Pointer, remote_count: usize,
        flags: usize,
    ) -> isize, next => {
        let pass = dispatch::pass_through();
        deaths::telling();
        let answer = next(process, local, local_count, remote, remote_count, flags);
        deaths::may_have_learned();
        pass.done();
        answer
    }
}

/// Descriptors in one control message (the kernel's SCM_MAX_FD).
const PASSED_MAX: usize = 253;

/// A descriptor of the sender's process; libc has no name for it.
const SCM_PIDFD: c_int = 4;

/// A length in a message: musl's have four bytes, and what lies behind them is left as it was.
fn length(len: usize) -> usize {
    if next::has_glibc() { len } else { len as u32 as usize }
}

/// Calls `with` for each descriptor that travels with a message. The memory may be anything.
fn each_passed(message: *const libc::msghdr, with: fn(c_int)) {
    let Some(message) = handlers::peek(message) else { return };
    if message.msg_control.is_null() {
        return;
    }
    let control = message.msg_control as *const u8;
    let (header_len, mut at) = (size_of::<libc::cmsghdr>(), 0usize);
    let control_len = length(message.msg_controllen);
    // The kernel takes as many as there is room for.
    while at.saturating_add(header_len) <= control_len {
        let Some(header) = handlers::peek(control.wrapping_add(at).cast::<libc::cmsghdr>()) else {
            return;
        };
        let len = length(header.cmsg_len);
        if len < header_len || len > control_len - at {
            return;
        }
        if header.cmsg_level == libc::SOL_SOCKET
            && matches!(header.cmsg_type, libc::SCM_RIGHTS | SCM_PIDFD)
        {
            let first = control.wrapping_add(at + header_len).cast::<c_int>();
            let count = (len - header_len) / size_of::<c_int>();
            for index in 0..count.min(PASSED_MAX) {
                match handlers::peek(first.wrapping_add(index)) {
                    Some(fd) => with(fd),
                    None => return,
                }
            }
        }
        at += len.next_multiple_of(size_of::<usize>());
    }
}

/// Before a message is sent: descriptors in it will be shared.
pub(super) fn sending(message: *const libc::msghdr) {
    if changes::tells() {
        each_passed(message, changes::sending);
    }
    if !passive() {
        each_passed(message, |fd| dispatch::special_use(fd, Why::Shared));
    }
}

/// After a message came: descriptors in it are new.
pub(super) fn received(message: *const libc::msghdr) {
    if changes::tells() || !passive() {
        each_passed(message, |fd| {
            dispatch::made(fd);
            changes::received(fd);
            deaths::descriptor_made();
        });
    }
}

hook! {
    fn sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize, next => {
        sending(message);
        let pass = dispatch::pass_through();
        pass.finish(next(fd, message, flags))
    }
}

hook! {
    fn recvmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize, next => {
        let pass = dispatch::pass_through();
        let answer = next(fd, message, flags);
        if answer >= 0 {
            received(message);
        }
        pass.finish(answer)
    }
}

/// The header of the message `index` of several.
pub(super) fn header(list: *const libc::mmsghdr, index: u32) -> *const libc::msghdr {
    list.wrapping_add(index as usize).cast()
}

/// After several messages came, or an error: gives the answer back. An empty one may be the end of a connection.
pub(super) fn received_several(list: *const libc::mmsghdr, answer: isize) -> isize {
    for index in 0..answer.max(0) as u32 {
        received(header(list, index));
        // SAFETY: the call that wrote there has succeeded.
        if unsafe { (*list.wrapping_add(index as usize)).msg_len } == 0 {
            deaths::answered(-1, 0);
        }
    }
    answer
}

macro_rules! sends_several {
    ($($name:ident)*) => {$(hook! {
        fn $name(
            fd: c_int, list: *const libc::mmsghdr, count: c_uint, flags: c_int,
        ) -> c_int, next => {
            (0..count.min(libc::UIO_MAXIOV as c_uint)).for_each(|index| sending(header(list, index)));
            let pass = dispatch::pass_through();
            pass.finish(next(fd, list, count, flags) as isize) as c_int
        }
    })*};
}
sends_several! { sendmmsg }

hook! {
    fn recvmmsg(
        fd: c_int, list: *const libc::mmsghdr, count: c_uint, flags: c_int, timeout: Pointer,
    ) -> c_int, next => {
        let pass = dispatch::pass_through();
        let answer = next(fd, list, count, flags, timeout);
        pass.finish(received_several(list, answer as isize)) as c_int
    }
}

//! Calls that make descriptors of something that is not buffered, or close many at once.
//!
//! A new descriptor's number may have meant something else before, and may have been closed out of
//! sight: whatever was known of it ends.

use core::ffi::{c_char, c_int, c_uint};

use sweetspot_core::why::Why;

use super::Pointer;
use crate::engine::{changes, deaths, ending, spawns};
use crate::floor::errno::fail;
use crate::front::dispatch;

makes! {
    fn socket(family: c_int, kind: c_int, protocol: c_int);
    fn accept(fd: c_int, address: Pointer, len: Pointer);
    fn accept4(fd: c_int, address: Pointer, len: Pointer, flags: c_int);
    fn eventfd(value: c_uint, flags: c_int);
    fn timerfd_create(clock: c_int, flags: c_int);
    fn epoll_create(size: c_int);
    fn epoll_create1(flags: c_int);
    fn inotify_init();
    fn inotify_init1(flags: c_int);
    fn fanotify_init(flags: c_uint, file_flags: c_uint);
    fn memfd_create(name: *const c_char, flags: c_uint);
    fn mq_open(name: *const c_char, flags: c_int, mode: c_uint, attributes: Pointer);
    fn __mq_open_2(name: *const c_char, flags: c_int);
    fn posix_openpt(flags: c_int);
    fn getpt();
    fn fsopen(file_system: *const c_char, flags: c_uint);
    fn fsmount(fd: c_int, flags: c_uint, attributes: c_uint);
    fn fspick(folder: c_int, path: *const c_char, flags: c_uint);
    fn open_tree(folder: c_int, path: *const c_char, flags: c_uint);
}

/// The same, where the descriptor may tell of a death.
macro_rules! makes_tellers {
    ($(fn $name:ident($($arg:ident: $type:ty),*);)*) => {$(hook! {
        fn $name($($arg: $type),*) -> c_int, next => {
            let pass = dispatch::pass_through();
            let fd = next($($arg),*);
            dispatch::made(fd);
            deaths::descriptor_made();
            // It may have been refused, as there is no such process any more.
            deaths::learned();
            pass.done();
            fd
        }
    })*};
}
makes_tellers! {
    fn signalfd(fd: c_int, mask: Pointer, flags: c_int);
    fn pidfd_open(process: c_int, flags: c_uint);
}

hook! {
    fn pidfd_getfd(process: c_int, fd: c_int, flags: c_uint) -> c_int, next => {
        // The process may be this one.
        dispatch::special_use(fd, Why::Shared);
        let pass = dispatch::pass_through();
        let new = next(process, fd, flags);
        dispatch::fetched(process, new);
        pass.done();
        new
    }
}

hook! {
    /// A file like any other to who opens it by its path, but memory to who opens it so.
    fn shm_open(name: *const c_char, flags: c_int, mode: c_uint) -> c_int, next => {
        if changes::cuts(flags) {
            // Where libc looks for the name is its own affair.
            changes::spawn_opens();
        }
        let pass = dispatch::pass_through();
        let fd = next(name, flags, mode);
        dispatch::opened(fd, flags | libc::O_CLOEXEC);
        dispatch::special_use(fd, Why::SharedMemory);
        pass.done();
        fd
    }
}

hook! {
    fn open_by_handle_at(mount: c_int, handle: Pointer, flags: c_int) -> c_int, next => {
        opened_unforeseen(flags, || next(mount, handle, flags) as isize) as c_int
    }
}

/// Opens a file; which one that is, is not known beforehand.
pub(super) fn opened_unforeseen(flags: c_int, next: impl FnOnce() -> isize) -> isize {
    if changes::cuts(flags) {
        changes::spawn_opens();
    }
    let pass = dispatch::pass_through();
    let fd = next();
    dispatch::opened(fd as c_int, flags);
    pass.done();
    fd
}

/// Two descriptors, written to where `pair` points.
macro_rules! pairs {
    ($(fn $name:ident($($arg:ident: $type:ty),*), $pair:ident;)*) => {$(hook! {
        fn $name($($arg: $type),*) -> c_int, next => {
            let pass = dispatch::pass_through();
            let answer = next($($arg),*);
            if answer == 0 {
                dispatch::made_several($pair.cast(), 2);
            }
            pass.done();
            answer
        }
    })*};
}
pairs! {
    fn pipe(pair: *const c_int), pair;
    fn __pipe(pair: *const c_int), pair;
    fn pipe2(pair: *const c_int, flags: c_int), pair;
    fn socketpair(family: c_int, kind: c_int, protocol: c_int, pair: *const c_int), pair;
}

hook! {
    fn openpty(
        leader: *const c_int, follower: *const c_int, name: Pointer, modes: Pointer, size: Pointer,
    ) -> c_int, next => {
        let pass = dispatch::pass_through();
        let answer = next(leader, follower, name, modes, size);
        if answer == 0 {
            dispatch::made_several(leader, 1);
            dispatch::made_several(follower, 1);
        }
        pass.done();
        answer
    }
}

hook! {
    fn login_tty(fd: c_int) -> c_int, next => {
        // It becomes the three standard descriptors, and is closed.
        (0..=2).for_each(dispatch::hand_over);
        dispatch::hand_over(fd);
        let pass = dispatch::pass_through();
        let answer = next(fd);
        dispatch::are_closed();
        (0..=2).for_each(dispatch::made);
        dispatch::made(fd);
        pass.done();
        answer
    }
}

hook! {
    fn forkpty(leader: *const c_int, name: Pointer, modes: Pointer, size: Pointer) -> c_int, next => {
        dispatch::before_fork();
        let child = next(leader, name, modes, size);
        dispatch::after_fork(child);
        match child {
            0 => (0..=2).for_each(dispatch::made),
            1.. => dispatch::made_several(leader, 1),
            _ => {}
        }
        child
    }
}

hook! {
    fn daemon(keep_folder: c_int, keep_descriptors: c_int) -> c_int, next => {
        // The parent ends inside; anyone who comes back is the child, unless it could not be made.
        // A filter may kill for the question.
        let number = || (!spawns::is_filtered()).then(crate::floor::sys::process_id);
        let parent = number();
        dispatch::before_fork();
        if let Some(errno) = ending::ends_unreported() {
            dispatch::after_fork(-1);
            return fail(errno) as c_int;
        }
        let answer = next(keep_folder, keep_descriptors);
        let in_child = parent.map_or(answer == 0, |_| number() != parent);
        dispatch::after_fork(if in_child { 0 } else { -1 });
        if in_child && keep_descriptors == 0 {
            (0..=2).for_each(dispatch::made);
        }
        answer
    }
}

/// Closes the descriptors from `first` to `last`.
pub(super) fn close_all<T>(
    first: c_uint,
    last: c_uint,
    flags: c_uint,
    next: impl FnOnce() -> T,
) -> T {
    dispatch::range(first, last, flags);
    let pass = dispatch::pass_through();
    let answer = next();
    dispatch::are_closed();
    pass.done();
    answer
}

hook! {
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int, next => {
        close_all(first, last, flags as c_uint, || next(first, last, flags))
    }
}

hook! {
    fn closefrom(first: c_int) -> (), next => {
        close_all(first.max(0) as c_uint, c_uint::MAX, 0, || next(first));
    }
}

//! Opening and closing by path. Streams are in `stdio`.

use core::ffi::{c_char, c_int, c_uint};

use super::descriptors::opened_unforeseen;
use crate::engine::{changes, concerns, handlers, life};
use crate::floor::atomic::has_threads;
use crate::front::dispatch;

macro_rules! opens {
    ($($name:ident)*) => {$(hook_in_two! {
        #[unsafe(link_section = ".text.startup")]
        fn $name(path: *const c_char, flags: c_int, mode: c_uint) -> c_int, next
        if false = concerns::any() || changes::cuts(flags) => {
            life::opened_alone(next(path, flags, mode), flags)
        } else {
            let pass = dispatch::opening(libc::AT_FDCWD, path, flags);
            let fd = next(path, flags, mode);
            dispatch::opened_at(libc::AT_FDCWD, fd, flags, path);
            pass.done();
            fd
        }
    })*};
}
opens! { open open64 __open __open64 }

macro_rules! checked_opens {
    ($($name:ident)*) => {$(hook! {
        fn $name(path: *const c_char, flags: c_int) -> c_int, next => {
            let pass = dispatch::opening(libc::AT_FDCWD, path, flags);
            let fd = next(path, flags);
            dispatch::opened_at(libc::AT_FDCWD, fd, flags, path);
            pass.done();
            fd
        }
    })*};
}
checked_opens! { __open_2 __open64_2 }

macro_rules! openats {
    ($($name:ident)*) => {$(hook_in_two! {
        #[unsafe(link_section = ".text.startup")]
        fn $name(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int, next
        if false = concerns::any() || changes::cuts(flags) => {
            life::opened_alone(next(folder, path, flags, mode), flags)
        } else {
            let pass = dispatch::opening(folder, path, flags);
            let fd = next(folder, path, flags, mode);
            dispatch::opened_at(folder, fd, flags, path);
            pass.done();
            fd
        }
    })*};
}
openats! { openat openat64 }

macro_rules! checked_openats {
    ($($name:ident)*) => {$(hook! {
        fn $name(folder: c_int, path: *const c_char, flags: c_int) -> c_int, next => {
            let pass = dispatch::opening(folder, path, flags);
            let fd = next(folder, path, flags);
            dispatch::opened_at(folder, fd, flags, path);
            pass.done();
            fd
        }
    })*};
}
checked_openats! { __openat_2 __openat64_2 }

/// How `openat2` opens a file: the structure begins so.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct How {
    flags: u64,
    mode: u64,
    /// How the path is followed.
    resolve: u64,
}

impl How {
    /// Whether the path may lead to another file than it does for `openat`. Those that are listed only refuse some.
    fn leads_elsewhere(self) -> bool {
        const CACHED: u64 = 0x20;
        const REFUSE: u64 = libc::RESOLVE_NO_XDEV
            | libc::RESOLVE_NO_MAGICLINKS
            | libc::RESOLVE_NO_SYMLINKS
            | libc::RESOLVE_BENEATH
            | CACHED;
        self.resolve & !REFUSE != 0
    }
}

/// `openat2`.
pub(super) fn opened_so(
    folder: c_int,
    path: *const c_char,
    how: *const How,
    next: impl FnOnce() -> isize,
) -> isize {
    let how = handlers::peek(how).unwrap_or_default();
    let flags = how.flags as c_int;
    if how.leads_elsewhere() {
        return opened_unforeseen(flags, next);
    }
    let pass = dispatch::opening(folder, path, flags);
    let fd = next();
    dispatch::opened_at(folder, fd as c_int, flags, path);
    pass.done();
    fd
}

hook! {
    fn openat2(folder: c_int, path: *const c_char, how: *const How, size: usize) -> c_int, next => {
        opened_so(folder, path, how, || next(folder, path, how, size) as isize) as c_int
    }
}

macro_rules! creats {
    ($($name:ident)*) => {$(hook! {
        fn $name(path: *const c_char, mode: c_uint) -> c_int, next => {
            const FLAGS: c_int = libc::O_WRONLY | libc::O_TRUNC;
            let pass = dispatch::opening(libc::AT_FDCWD, path, FLAGS);
            let fd = next(path, mode);
            dispatch::opened_at(libc::AT_FDCWD, fd, FLAGS, path);
            pass.done();
            fd
        }
    })*};
}
creats! { creat creat64 }

macro_rules! closes {
    ($($name:ident)*) => {$(hook_in_two! {
        #[unsafe(link_section = ".text.startup")]
        fn $name(fd: c_int) -> c_int, next
        if true = life::closes_alone(fd) => { next(fd) } else {
            if has_threads() || life::meets_handlers(fd) {
                return dispatch::close(fd, || next(fd));
            }
            match dispatch::closing(fd) {
                // A jump: see `pass_through`.
                0 => next(fd),
                failed => dispatch::failing_with(failed, next(fd)),
            }
        }
    })*};
}
closes! { close __close }

hook! {
    /// The same in POSIX's newest words, which musl has.
    fn posix_close(fd: c_int, flags: c_int) -> c_int, next => {
        dispatch::close(fd, || next(fd, flags))
    }
}

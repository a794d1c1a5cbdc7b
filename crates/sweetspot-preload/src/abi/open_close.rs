//! Opening and closing by path, with and without stdio.

use core::ffi::{c_char, c_int, c_uint, c_void};

use crate::ops::{self, life, observe};

macro_rules! opens {
    ($($name:ident)*) => {$(hook! {
        fn $name(path: *const c_char, flags: c_int, mode: c_uint) -> c_int, next => {
            let pass = ops::pass_on();
            let fd = next(path, flags, mode);
            life::opened(fd, flags);
            observe::opened(fd, flags, path);
            pass.done();
            fd
        }
    })*};
}
opens! { open open64 __open __open64 }

macro_rules! checked_opens {
    ($($name:ident)*) => {$(hook! {
        fn $name(path: *const c_char, flags: c_int) -> c_int, next => {
            let pass = ops::pass_on();
            let fd = next(path, flags);
            life::opened(fd, flags);
            observe::opened(fd, flags, path);
            pass.done();
            fd
        }
    })*};
}
checked_opens! { __open_2 __open64_2 }

macro_rules! openats {
    ($($name:ident)*) => {$(hook! {
        fn $name(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int, next => {
            let pass = ops::pass_on();
            let fd = next(folder, path, flags, mode);
            life::opened(fd, flags);
            observe::opened_at(folder, fd, flags, path);
            pass.done();
            fd
        }
    })*};
}
openats! { openat openat64 }

macro_rules! checked_openats {
    ($($name:ident)*) => {$(hook! {
        fn $name(folder: c_int, path: *const c_char, flags: c_int) -> c_int, next => {
            let pass = ops::pass_on();
            let fd = next(folder, path, flags);
            life::opened(fd, flags);
            observe::opened_at(folder, fd, flags, path);
            pass.done();
            fd
        }
    })*};
}
checked_openats! { __openat_2 __openat64_2 }

macro_rules! creats {
    ($($name:ident)*) => {$(hook! {
        fn $name(path: *const c_char, mode: c_uint) -> c_int, next => {
            let pass = ops::pass_on();
            let fd = next(path, mode);
            life::opened(fd, libc::O_WRONLY);
            observe::opened(fd, libc::O_WRONLY, path);
            pass.done();
            fd
        }
    })*};
}
creats! { creat creat64 }

macro_rules! closes {
    ($($name:ident)*) => {$(hook! {
        fn $name(fd: c_int) -> c_int, next => {
            if observe::is_on() {
                observe::closed(fd);
                return next(fd);
            }
            let failed = life::closing(fd);
            let answer = next(fd);
            if failed != 0 && answer == 0 { crate::fail(failed) as c_int } else { answer }
        }
    })*};
}
closes! { close __close }

unsafe extern "C" {
    fn fileno(stream: *mut c_void) -> c_int;
}

/// The descriptor under a stream that was just opened by path.
pub(super) fn stream_opened(stream: *mut c_void, close_on_exec: bool, path: *const c_char) {
    if !stream.is_null() {
        // SAFETY: a stream that libc has just made.
        let fd = unsafe { fileno(stream) };
        let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
        life::opened(fd, flags);
        observe::opened(fd, flags, path);
    }
}

/// Whether an fopen mode asks for close-on-exec.
pub(super) fn mode_closes_on_exec(mode: *const c_char) -> bool {
    if mode.is_null() {
        return false;
    }
    // SAFETY: the program hands over a C string, which libc has just read.
    let mode = unsafe { core::ffi::CStr::from_ptr(mode) }.to_bytes();
    mode.iter().take_while(|byte| **byte != b',').any(|byte| *byte == b'e')
}

macro_rules! fopens {
    ($($name:ident)*) => {$(hook! {
        fn $name(path: *const c_char, mode: *const c_char) -> *mut c_void, next => {
            let pass = ops::pass_on();
            let stream = next(path, mode);
            stream_opened(stream, !stream.is_null() && mode_closes_on_exec(mode), path);
            pass.done();
            stream
        }
    })*};
}
fopens! { fopen fopen64 _IO_fopen }

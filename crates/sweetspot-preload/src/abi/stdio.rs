//! Streams, where they open, close or replace descriptors; and formatted output to a descriptor.
//!
//! Not here: what streams read and write. That reaches the kernel through libc's own `read`, `write`
//! and `lseek64`, whose entries are patched (`reach`).

use core::ffi::{c_char, c_int, c_void};

use super::Pointer;
use super::open_close::{mode_closes_on_exec, stream_opened};
use super::process::starting_shell;
use crate::ops::{self, life};
use crate::{errno, set_errno};

unsafe extern "C" {
    fn fileno(stream: *mut c_void) -> c_int;
}

/// The descriptor under a stream, or -1 (streams in memory have none).
fn descriptor(stream: *mut c_void) -> c_int {
    if stream.is_null() {
        return -1;
    }
    let before = errno();
    // SAFETY: the program hands over an open stream.
    let fd = unsafe { fileno(stream) };
    set_errno(before);
    fd
}

macro_rules! closes {
    ($($name:ident)*) => {$(hook! {
        fn $name(stream: *mut c_void) -> c_int, next => {
            // What the stream still holds is written at the kernel's offset, and then the number
            // means nothing any more.
            life::stream_closing(descriptor(stream));
            let pass = ops::pass_on();
            let answer = next(stream);
            pass.done();
            answer
        }
    })*};
}
closes! { fclose _IO_fclose pclose }

macro_rules! freopens {
    ($($name:ident)*) => {$(hook! {
        fn $name(
            path: *const c_char, mode: *const c_char, stream: *mut c_void,
        ) -> *mut c_void, next => {
            life::stream_closing(descriptor(stream));
            let pass = ops::pass_on();
            let stream = next(path, mode, stream);
            stream_opened(stream, !stream.is_null() && mode_closes_on_exec(mode), path);
            pass.done();
            stream
        }
    })*};
}
freopens! { freopen freopen64 }

macro_rules! fdopens {
    ($($name:ident)*) => {$(hook! {
        fn $name(fd: c_int, mode: *const c_char) -> *mut c_void, next => {
            // For appending it sets O_APPEND.
            life::hand_over(fd);
            next(fd, mode)
        }
    })*};
}
fdopens! { fdopen _IO_fdopen }

macro_rules! temporary {
    ($($name:ident)*) => {$(hook! {
        fn $name() -> *mut c_void, next => {
            let pass = ops::pass_on();
            let stream = next();
            stream_opened(stream, false, core::ptr::null());
            pass.done();
            stream
        }
    })*};
}
temporary! { tmpfile tmpfile64 }

macro_rules! popens {
    ($($name:ident)*) => {$(hook! {
        fn $name(command: *const c_char, mode: *const c_char) -> *mut c_void, next => {
            let stream = starting_shell(|| next(command, mode));
            life::made(descriptor(stream));
            stream
        }
    })*};
}
popens! { popen _IO_popen }

pass_on! {
    fn fcloseall() -> c_int;
    fn getpass(prompt: *const c_char) -> Pointer;
    fn setmntent(path: *const c_char, mode: *const c_char) -> Pointer;
    fn __setmntent(path: *const c_char, mode: *const c_char) -> Pointer;
    fn addmntent(stream: Pointer, entry: Pointer) -> c_int;
    fn getmntent(stream: Pointer) -> Pointer;
    fn getmntent_r(stream: Pointer, entry: Pointer, into: Pointer, len: c_int) -> Pointer;
    fn __getmntent_r(stream: Pointer, entry: Pointer, into: Pointer, len: c_int) -> Pointer;
}

/// Their stream is closed inside.
macro_rules! ends_of_mounts {
    ($($name:ident)*) => {$(hook! {
        fn $name(stream: *mut c_void) -> c_int, next => {
            life::stream_closing(descriptor(stream));
            next(stream)
        }
    })*};
}
ends_of_mounts! { endmntent __endmntent }

hand_over! {
    fn vdprintf(fd: c_int, format: *const c_char, arguments: Pointer) -> c_int;
    fn __vdprintf_chk(
        fd: c_int, flag: c_int, format: *const c_char, arguments: Pointer
    ) -> c_int;
}

jump! { dprintf, before_dprintf }
jump! { __dprintf_chk, before_checked_dprintf }

extern "C" fn before_dprintf(fd: c_int) -> usize {
    life::hand_over(fd);
    dprintf::next()
}

extern "C" fn before_checked_dprintf(fd: c_int) -> usize {
    life::hand_over(fd);
    __dprintf_chk::next()
}

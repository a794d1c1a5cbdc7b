//! Streams, where they open, close or replace descriptors; and formatted output to a descriptor.
//!
//! Not here: what streams read and write (`reach::streams`).

use core::ffi::{CStr, c_char, c_int, c_void};

use super::Pointer;
use super::process::starting_shell;
use crate::ops::{self, life, observe};
use crate::process::passive;
use crate::reach::streams;
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

/// A stream was opened by path; null: it was not.
fn opened(stream: *mut c_void, close_on_exec: bool, path: *const c_char) {
    if !stream.is_null() {
        streams::made(stream);
        let fd = descriptor(stream);
        let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
        life::opened(fd, flags);
        observe::opened(fd, flags, path);
    }
}

/// How a stream is to be opened, as the program says it, or changed by us.
struct Mode {
    given: *const c_char,
    changed: [u8; MODE_BYTES_MAX],
}

/// Longer than any mode with the name of a character set behind it.
const MODE_BYTES_MAX: usize = 64;
/// glibc looks at so many characters.
const MODE_LETTERS: usize = 7;

impl Mode {
    /// The mode without glibc's hint "m", by which a stream reads from a mapping: what is written to
    /// the file later by a call is then seen in the mapping, and what waits is not. The letter becomes
    /// another that says nothing.
    fn of(given: *const c_char) -> Mode {
        let mut mode = Mode { given, changed: [0; MODE_BYTES_MAX] };
        let text = mode.text();
        if passive() || !text[..text.len().min(MODE_LETTERS)].contains(&b'm') {
            return mode;
        }
        let (len, mut in_name) = (text.len(), false);
        if len >= MODE_BYTES_MAX {
            return mode;
        }
        let mut changed = [0; MODE_BYTES_MAX];
        for (index, byte) in text.iter().enumerate() {
            in_name |= *byte == b',';
            changed[index] = match *byte {
                // Names of character sets have no case.
                b'm' if in_name => b'M',
                b'm' => b'b',
                other => other,
            };
        }
        mode.changed = changed;
        mode
    }

    fn text(&self) -> &'static [u8] {
        match self.given.is_null() {
            true => &[],
            // SAFETY: the program hands over a C string, which libc reads, too.
            false => unsafe { CStr::from_ptr(self.given) }.to_bytes(),
        }
    }

    fn pointer(&self) -> *const c_char {
        match self.changed[0] {
            0 => self.given,
            _ => self.changed.as_ptr().cast(),
        }
    }

    /// Whether it asks for close-on-exec.
    fn closes_on_exec(&self) -> bool {
        self.text().iter().take_while(|byte| **byte != b',').any(|byte| *byte == b'e')
    }
}

macro_rules! fopens {
    ($($name:ident)*) => {$(hook! {
        fn $name(path: *const c_char, mode: *const c_char) -> *mut c_void, next => {
            let mode = Mode::of(mode);
            let pass = ops::pass_on();
            let stream = next(path, mode.pointer());
            opened(stream, mode.closes_on_exec(), path);
            pass.done();
            stream
        }
    })*};
}
fopens! { fopen fopen64 _IO_fopen }

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
            let mode = Mode::of(mode);
            life::stream_closing(descriptor(stream));
            let pass = ops::pass_on();
            let stream = next(path, mode.pointer(), stream);
            opened(stream, mode.closes_on_exec(), path);
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
            let stream = next(fd, Mode::of(mode).pointer());
            streams::made(stream);
            stream
        }
    })*};
}
fdopens! { fdopen _IO_fdopen }

macro_rules! temporary {
    ($($name:ident)*) => {$(hook! {
        fn $name() -> *mut c_void, next => {
            let pass = ops::pass_on();
            let stream = next();
            opened(stream, false, core::ptr::null());
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
            streams::made(stream);
            life::made(descriptor(stream));
            stream
        }
    })*};
}
popens! { popen _IO_popen }

pass_on! {
    fn fcloseall() -> c_int;
    fn getpass(prompt: *const c_char) -> Pointer;
    fn addmntent(stream: Pointer, entry: Pointer) -> c_int;
    fn getmntent(stream: Pointer) -> Pointer;
    fn getmntent_r(stream: Pointer, entry: Pointer, into: Pointer, len: c_int) -> Pointer;
    fn __getmntent_r(stream: Pointer, entry: Pointer, into: Pointer, len: c_int) -> Pointer;
}

/// Tables of mounts are streams that libc opens for its user.
macro_rules! mounts {
    ($($name:ident)*) => {$(hook! {
        fn $name(path: *const c_char, mode: *const c_char) -> *mut c_void, next => {
            let pass = ops::pass_on();
            let stream = next(path, mode);
            opened(stream, true, path);
            pass.done();
            stream
        }
    })*};
}
mounts! { setmntent __setmntent }

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

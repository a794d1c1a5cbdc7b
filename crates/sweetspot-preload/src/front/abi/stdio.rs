//! Streams, where they open, close or replace descriptors; and formatted output to a descriptor.
//!
//! Not here: what streams read and write (`reach::streams`).

use core::ffi::{CStr, c_char, c_int, c_void};

use sweetspot_core::why::Why;

use super::Pointer;
use super::process::starting_shell;
use crate::engine::pass::Pass;
use crate::engine::{self, changes, deaths, life};
use crate::floor::atomic::has_threads;
use crate::floor::errno::{errno, set_errno};
use crate::floor::next::{self, Next};
use crate::floor::sys;
use crate::front::reach::streams::{self, Stream, glibc};
use crate::front::{dispatch, duplicates};

/// Found when they are first needed: each function that the loader finds costs every start.
static FILENO: Next = Next::new();
static FFLUSH: Next = Next::new();

/// The descriptor under a stream, or -1 (streams in memory have none).
fn descriptor(stream: *mut c_void) -> c_int {
    if stream.is_null() {
        return -1;
    }
    let before = errno();
    // SAFETY: libc's function with its signature; the program hands over an open stream.
    let fd = unsafe {
        let fileno: unsafe extern "C" fn(*mut c_void) -> c_int =
            core::mem::transmute(FILENO.address(c"fileno"));
        fileno(stream)
    };
    set_errno(before);
    fd
}

/// The descriptor under the stream that the program has for errors.
pub(super) fn error_descriptor() -> c_int {
    let variable = next::variable(c"stderr") as *const *mut c_void;
    // SAFETY: null, or libc's variable, which has a stream or nothing.
    let stream = unsafe { variable.as_ref() };
    stream.map_or(libc::STDERR_FILENO, |stream| descriptor(*stream))
}

/// A stream was opened by path; null: it was not.
fn opened(stream: *mut c_void, mode: &[u8], path: *const c_char) {
    if stream.is_null() {
        deaths::not_opened();
    } else {
        let fd = descriptor(stream);
        let flags = flags_of(mode) | closed_by_exec(fd, mode);
        match path.is_null() {
            // Without a name, or the stream's file again.
            true => dispatch::opened(fd, flags),
            false => dispatch::opened_at(libc::AT_FDCWD, fd, flags, path),
        }
        made(stream, mode);
    }
}

/// A stream was made; null: it was not.
fn made(stream: *mut c_void, mode: &[u8]) {
    streams::made(stream);
    if !stream.is_null() && may_map(mode) {
        // libc maps the file when the stream is first read.
        dispatch::mapping(descriptor(stream), libc::PROT_READ, libc::MAP_PRIVATE);
    }
}

/// How a stream is to be opened.
fn mode_of(mode: *const c_char) -> &'static [u8] {
    match mode.is_null() {
        true => &[],
        // SAFETY: the program hands over a C string, which libc reads, too.
        false => unsafe { CStr::from_ptr(mode) }.to_bytes(),
    }
}

/// The letters of a mode, without the name of a character set.
fn letters(mode: &[u8]) -> &[u8] {
    mode.split(|byte| *byte == b',').next().unwrap_or_default()
}

/// The open flags of a mode. How many letters count is libc's own affair: a file that is not written after all is
/// only looked at more closely.
fn flags_of(mode: &[u8]) -> c_int {
    let (access, also) = match mode.first() {
        Some(b'w') => (libc::O_WRONLY, libc::O_TRUNC),
        Some(b'a') => (libc::O_WRONLY, libc::O_APPEND),
        _ => (libc::O_RDONLY, 0),
    };
    let access = if mode.contains(&b'+') { libc::O_RDWR } else { access };
    access | also
}

/// Whether a new stream's descriptor closes at exec, as an "e" in the mode may ask for: only the kernel knows
/// whether libc has seen that letter.
fn closed_by_exec(fd: c_int, mode: &[u8]) -> c_int {
    let closes = mode.contains(&b'e') && sys::closes_at_exec(fd);
    if closes { libc::O_CLOEXEC } else { 0 }
}

/// Before a stream is opened by path.
#[unsafe(link_section = ".text.startup")]
fn opening(path: *const c_char, mode: *const c_char) -> Pass {
    if !path.is_null() && !mode.is_null() {
        dispatch::opening(libc::AT_FDCWD, path, flags_of(mode_of(mode)))
    } else {
        dispatch::pass_through()
    }
}

/// Whether glibc may read the stream from a mapping: it looks for an "m" among so many letters, also
/// in the name of a character set.
fn may_map(mode: &[u8]) -> bool {
    const LETTERS: usize = 7;
    let looked_at = &mode[..mode.len().min(LETTERS)];
    mode.starts_with(b"r") && looked_at.contains(&b'm') && !letters(mode).contains(&b'+')
}

macro_rules! fopens {
    ($($name:ident)*) => {$(hook! {
        #[unsafe(link_section = ".text.startup")]
        fn $name(path: *const c_char, mode: *const c_char) -> *mut c_void, next => {
            let pass = opening(path, mode);
            let stream = next(path, mode);
            opened(stream, mode_of(mode), path);
            pass.done();
            stream
        }
    })*};
}
fopens! { fopen fopen64 _IO_fopen setmntent __setmntent }

macro_rules! closes {
    ($($name:ident)*) => {$(hook! {
        fn $name(stream: *mut c_void) -> c_int, next => {
            // What the stream still holds is written at the kernel's offset, and then the number
            // means nothing any more.
            let failed = life::stream_closing(descriptor(stream));
            let pass = dispatch::pass_through();
            let answer = next(stream);
            dispatch::are_closed();
            // That of `popen` has waited for the child.
            deaths::may_have_learned();
            pass.done();
            // The end of a stream, too, is told by -1.
            dispatch::failing_with(failed, answer)
        }
    })*};
}
closes! { fclose _IO_fclose }

hook! {
    fn pclose(stream: *mut c_void) -> c_int, next => {
        life::stream_ending(descriptor(stream));
        let pass = dispatch::pass_through();
        let answer = next(stream);
        dispatch::are_closed();
        deaths::learned();
        pass.done();
        answer
    }
}

/// `freopen` without a name, by musl: it keeps the description, and sets its flags as `fcntl` does. Where that fails,
/// it closes the stream by our `close`.
fn set_anew(
    stream: *mut c_void,
    mode: *const c_char,
    next: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    let (fd, mode) = (descriptor(stream), mode_of(mode));
    // What the stream holds goes out now, so that nothing comes after the hand-over. libc does the same first.
    // SAFETY: libc's function with its signature; the program hands over an open stream.
    unsafe {
        let flush: unsafe extern "C" fn(*mut c_void) -> c_int =
            core::mem::transmute(FFLUSH.address(c"fflush"));
        flush(stream);
    }
    dispatch::hand_over(fd);
    changes::moving(fd);
    if let Some(errno) = life::incomplete(fd) {
        // SAFETY: an open stream of the program's, which it gives away in any case.
        unsafe { fclose(stream) };
        set_errno(errno);
        return core::ptr::null_mut();
    }
    let answer = next();
    deaths::may_have_learned();
    if !answer.is_null() {
        dispatch::flags_set(fd, flags_of(mode));
        if closed_by_exec(fd, mode) != 0 {
            duplicates::set_close_on_exec(fd, libc::FD_CLOEXEC);
        }
    }
    answer
}

macro_rules! freopens {
    ($($name:ident)*) => {$(hook! {
        fn $name(
            path: *const c_char, mode: *const c_char, stream: *mut c_void,
        ) -> *mut c_void, next => {
            if path.is_null() && !next::has_glibc() {
                return set_anew(stream, mode, || next(path, mode, stream));
            }
            life::stream_ending(descriptor(stream));
            if path.is_null() && changes::cuts(flags_of(mode_of(mode))) {
                // libc opens the same file again.
                changes::changing(descriptor(stream));
            }
            let pass = opening(path, mode);
            let stream = next(path, mode, stream);
            dispatch::are_closed();
            deaths::may_have_learned();
            opened(stream, mode_of(mode), path);
            if has_threads() {
                // The kernel has replaced the descriptor at once, for all of them.
                dispatch::special_use(descriptor(stream), Why::Duplicated);
            }
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
            dispatch::hand_over(fd);
            let appends = mode_of(mode).first() == Some(&b'a');
            if appends && let Some(errno) = life::incomplete(fd) {
                set_errno(errno);
                return core::ptr::null_mut();
            }
            let stream = next(fd, mode);
            let mode = mode_of(mode);
            if !stream.is_null() && mode != b"r" {
                engine::streams::lead_to(fd);
            }
            if !stream.is_null() && appends {
                dispatch::flags_set(fd, libc::O_APPEND);
            }
            made(stream, mode);
            stream
        }
    })*};
}
fdopens! { fdopen _IO_fdopen }

macro_rules! temporary {
    ($($name:ident)*) => {$(hook! {
        fn $name() -> *mut c_void, next => {
            let pass = dispatch::pass_through();
            let stream = next();
            opened(stream, b"r+", core::ptr::null());
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
            dispatch::made(descriptor(stream));
            stream
        }
    })*};
}
popens! { popen _IO_popen }

hook! {
    fn fcloseall() -> c_int, next => {
        let pass = dispatch::pass_through();
        let answer = next();
        dispatch::are_closed();
        pass.done();
        answer
    }
}

pass_through! {
    fn getpass(prompt: *const c_char) -> Pointer;
    fn addmntent(stream: Pointer, entry: Pointer) -> c_int;
    fn getmntent(stream: Pointer) -> Pointer;
    fn getmntent_r(stream: Pointer, entry: Pointer, into: Pointer, len: c_int) -> Pointer;
    fn __getmntent_r(stream: Pointer, entry: Pointer, into: Pointer, len: c_int) -> Pointer;
}

/// Their stream is closed inside.
macro_rules! ends_of_mounts {
    ($($name:ident)*) => {$(hook! {
        fn $name(stream: *mut c_void) -> c_int, next => {
            life::stream_ending(descriptor(stream));
            let answer = next(stream);
            dispatch::are_closed();
            answer
        }
    })*};
}
ends_of_mounts! { endmntent __endmntent }

macro_rules! prints {
    ($(fn $name:ident(fd: c_int $(, $arg:ident: $type:ty)*);)*) => {$(hook! {
        fn $name(fd: c_int $(, $arg: $type)*) -> c_int, next => {
            dispatch::writes_unseen(fd, false);
            let pass = dispatch::pass_through();
            pass.finish(next(fd $(, $arg)*) as isize) as c_int
        }
    })*};
}
prints! {
    fn vdprintf(fd: c_int, format: *const c_char, arguments: Pointer);
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: Pointer);
}

jump! { dprintf, before_dprintf }
jump! { __dprintf_chk, before_checked_dprintf }

extern "C" fn before_dprintf(fd: c_int) -> usize {
    dispatch::writes_unseen(fd, false);
    dprintf::next()
}

extern "C" fn before_checked_dprintf(fd: c_int) -> usize {
    dispatch::writes_unseen(fd, false);
    __dprintf_chk::next()
}

/// What the tables of glibc's streams call, called by its name.
macro_rules! leaves {
    ($($name:ident($($arg:ident: $type:ty),*) -> $ret:ty, $ours:path;)*) => {$(
        /// # Safety
        /// As the C function of this name.
        #[cfg_attr(preload_abi, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $ret {
            // SAFETY: the same call.
            unsafe { $ours($($arg),*) }
        }
    )*};
}
leaves! {
    _IO_file_read(stream: Stream, into: *mut c_void, len: isize) -> isize, glibc::read;
    _IO_file_write(stream: Stream, from: *const c_void, len: isize) -> isize, glibc::write;
    _IO_file_seek(stream: Stream, offset: i64, whence: c_int) -> i64, glibc::seek;
    _IO_file_close(stream: Stream) -> c_int, glibc::close;
    _IO_file_stat(stream: Stream, into: *mut c_void) -> c_int, glibc::stat;
}

//! /proc, as the guard saw it when it began: a program of its mount namespace may cover it or take it away.
//!
//! # Safety
//! As `sys` says.

#![allow(unsafe_code)]

use std::ffi::{OsStr, OsString, c_int};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::{c_string, check, check_long, open_at};

/// A mount of its own of what is mounted at /proc.
static PROC: OnceLock<OwnedFd> = OnceLock::new();

/// Makes that mount. It has no place in any folder, so nobody finds /proc in use. Where this user may not make it,
/// nobody of theirs can take /proc away either.
pub(crate) fn hold_proc() {
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC;
    // SAFETY: a constant string; the result is a new descriptor that nobody else owns.
    let held = unsafe {
        let path = c"/proc".as_ptr();
        check_long(libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path, flags))
            .map(|fd| OwnedFd::from_raw_fd(fd as RawFd))
    };
    let _ = held.map(|held| PROC.set(held));
}

/// A folder, and the path from there to something in /proc.
fn place(name: &str) -> (RawFd, OsString) {
    match PROC.get() {
        Some(proc) => (proc.as_raw_fd(), name.into()),
        None => (libc::AT_FDCWD, format!("/proc/{name}").into()),
    }
}

/// Opens something in /proc.
pub(crate) fn open_in_proc(name: &str, flags: c_int) -> io::Result<OwnedFd> {
    let (folder, path) = place(name);
    // SAFETY: /proc is held for good, and the current folder needs no descriptor.
    open_at(unsafe { BorrowedFd::borrow_raw(folder) }, &path, flags, 0)
}

/// All that is in a file there.
pub(crate) fn read_in_proc(name: &str) -> io::Result<Vec<u8>> {
    let mut said = Vec::new();
    io::Read::read_to_end(&mut File::from(open_in_proc(name, libc::O_RDONLY)?), &mut said)?;
    Ok(said)
}

/// In /proc, what leads to the file of a descriptor of this process.
pub(crate) fn own_link(fd: impl AsFd) -> String {
    format!("self/fd/{}", fd.as_fd().as_raw_fd())
}

/// The path at which the kernel last saw the file of a descriptor of this process.
pub(crate) fn own_path(fd: impl AsFd) -> io::Result<PathBuf> {
    let (folder, path) = place(&own_link(fd));
    let path = c_string(OsStr::new(&path))?;
    let mut buffer = vec![0u8; libc::PATH_MAX as usize];
    // SAFETY: a live C string, and a buffer of the size that is said.
    let len = unsafe {
        libc::readlinkat(folder, path.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len())
    };
    buffer.truncate(usize::try_from(len).map_err(|_| io::Error::last_os_error())?);
    Ok(OsString::from_vec(buffer).into())
}

/// Sets the time of modification alone, in nanoseconds, also through an `O_PATH` descriptor.
pub(crate) fn set_modified(fd: impl AsFd, modified_ns: u64) -> io::Result<()> {
    let (folder, path) = place(&own_link(fd));
    let path = c_string(OsStr::new(&path))?;
    let time = |ns| libc::timespec { tv_sec: (modified_ns / 1_000_000_000) as i64, tv_nsec: ns };
    let times = [time(libc::UTIME_OMIT), time((modified_ns % 1_000_000_000) as i64)];
    // SAFETY: a live C string, and two times.
    unsafe { check(libc::utimensat(folder, path.as_ptr(), times.as_ptr(), 0)) }.map(drop)
}

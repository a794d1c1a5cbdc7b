//! Record locks that exec has given this process: the program that it was before took them.
//!
//! A lock is gone with the descriptor that it was taken by, so it is told by one in the table.

use core::ffi::CStr;

use crate::floor::sys;

/// Entries of the folder that are read at once.
const ENTRIES_BYTES: usize = 1024;
/// In an entry: where its own length is, and its name.
const LENGTH_AT: usize = 16;
const NAME_AT: usize = 19;
/// With more descriptors the thread is quicker.
const DESCRIPTORS_MAX: u32 = 256;
/// The lines before those of record locks, and one of these.
const INFO_BYTES: usize = 512;

/// Whether this process, of one thread, has any record lock. `None`: nobody can tell.
pub(super) fn has_record_lock() -> Option<bool> {
    let folder = open(c"/proc/self/fd", libc::O_DIRECTORY)?;
    let answer = any_has_lock(folder);
    close(folder);
    answer
}

fn any_has_lock(folder: isize) -> Option<bool> {
    let mut entries = [0u8; ENTRIES_BYTES];
    let mut descriptors = 0;
    loop {
        // SAFETY: a buffer of that size.
        let answer =
            unsafe { sys::syscall!(SYS_getdents64, folder, entries.as_mut_ptr(), entries.len()) };
        let mut rest = entries.get(..sys::result(answer).ok()?)?;
        if rest.is_empty() {
            return Some(false);
        }
        while let Some(length) = rest.get(LENGTH_AT..LENGTH_AT + 2) {
            let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
            let name = CStr::from_bytes_until_nul(rest.get(NAME_AT..length)?).ok()?;
            if let Some(fd) = sys::decimal(name.to_bytes()) {
                descriptors += 1;
                if descriptors > DESCRIPTORS_MAX || has_lock(fd as i32)? {
                    return Some(true);
                }
            }
            rest = &rest[length..];
        }
    }
}

/// Whether this process has a record lock on the file of a descriptor. What is no regular file is not looked at
/// by the library.
fn has_lock(fd: i32) -> Option<bool> {
    if !sys::status_at_hand(fd).is_some_and(|status| status.regular) {
        return Some(false);
    }
    let path = sys::in_proc(b"/proc/self/fdinfo/", fd, b"");
    let file = open(CStr::from_bytes_until_nul(&path).ok()?, 0)?;
    let mut info = [0u8; INFO_BYTES];
    // SAFETY: a buffer of that size.
    let answer = unsafe { sys::syscall!(SYS_read, file, info.as_mut_ptr(), info.len()) };
    close(file);
    let info = info.get(..sys::result(answer).ok()?)?;
    Some(info.windows(b": POSIX".len()).any(|words| words == b": POSIX"))
}

fn open(path: &CStr, flags: i32) -> Option<isize> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | flags;
    // SAFETY: a string that ends with zero.
    let fd = unsafe { sys::syscall!(SYS_openat, libc::AT_FDCWD as isize, path.as_ptr(), flags, 0) };
    sys::result(fd).ok().map(|fd| fd as isize)
}

fn close(fd: isize) {
    // SAFETY: our own descriptor.
    unsafe { sys::syscall!(SYS_close, fd) };
}

//! What exec has given this process, which is to reach the program that it becomes: the environment entry by
//! entry, and record locks.
//!
//! Locks of `fcntl` outlive exec, and are gone as soon as the process closes any descriptor of the file: also one
//! with which it has only looked what kind of program that is. They belong to the table of descriptors, so a thread
//! that has its own looks instead. A lock has a descriptor that it was taken by, and is gone with that: where none
//! is of the file, nothing can be lost.

use std::ffi::{CStr, OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

use crate::sys;

/// What the thread needs that looks.
const STACK_BYTES: usize = 256 << 10;

unsafe extern "C" {
    static environ: *const *const libc::c_char;
}

/// The environment of this process as it was given: also entries without a name or a `=`, which
/// [`std::env::vars_os`] leaves out. Nobody changes it in this process.
pub fn environment() -> Vec<OsString> {
    let mut entries = Vec::new();
    // SAFETY: a list of C strings that ends with a null pointer, or none; nothing here sets variables.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            entries.push(OsStr::from_bytes(CStr::from_ptr(*next).to_bytes()).to_owned());
            next = next.add(1);
        }
    }
    entries
}

/// Makes a look which opens that file, such that no record lock of this process on it is lost.
pub fn look_at<R: Send>(file: &Path, look: impl Fn() -> R + Sync) -> R {
    if !may_be_open(file) {
        return look();
    }
    thread::scope(|scope| {
        let looker = thread::Builder::new().stack_size(STACK_BYTES);
        let aside = || {
            sys::leave_table();
            look()
        };
        let answer = looker.spawn_scoped(scope, aside).map(thread::ScopedJoinHandle::join);
        // Where there can be no thread it is looked here.
        answer.ok().and_then(Result::ok).unwrap_or_else(&look)
    })
}

/// Whether this process was given a descriptor of the file, as far as anyone can tell.
fn may_be_open(file: &Path) -> bool {
    static GIVEN: OnceLock<Option<Vec<(u64, u64)>>> = OnceLock::new();
    let Ok(file) = identity(file) else { return false };
    let given = GIVEN.get_or_init(own_files);
    given.as_ref().is_none_or(|files| files.contains(&file))
}

/// This process' descriptors, if that can be seen.
fn numbers() -> Option<impl Iterator<Item = i32>> {
    let names = fs::read_dir("/proc/self/fd").ok()?.flatten().map(|link| link.file_name());
    Some(names.filter_map(|name| name.to_str()?.parse().ok()))
}

/// The files of this process' descriptors.
fn own_files() -> Option<Vec<(u64, u64)>> {
    let files = numbers()?.filter_map(|fd| sys::status_at_hand(fd).ok());
    Some(files.map(|file| (file.device, file.inode)).collect())
}

/// The descriptors that this process was given, and would hand on by an exec. All that it opens itself are closed then.
pub fn descriptors() -> Vec<i32> {
    const WITHOUT_PROC: i32 = 1024;
    let all: Vec<i32> = numbers().map_or_else(|| (0..WITHOUT_PROC).collect(), Iterator::collect);
    // SAFETY: asks only.
    let flags = |fd| unsafe { libc::fcntl(fd, libc::F_GETFD) };
    all.into_iter().filter(|fd| flags(*fd) & libc::FD_CLOEXEC == 0).collect()
}

/// Whether this process holds a record lock, which a child does not inherit, on a file that it was given.
pub fn holds_record_locks() -> bool {
    descriptors().into_iter().any(|fd| {
        // SAFETY: all zeros are valid: a lock on the whole file. The call fills it in.
        unsafe {
            let mut lock: libc::flock = std::mem::zeroed();
            lock.l_type = libc::F_WRLCK as libc::c_short;
            libc::fcntl(fd, libc::F_OFD_GETLK, &mut lock) == 0
                && lock.l_type != libc::F_UNLCK as libc::c_short
                && lock.l_pid == libc::getpid()
        }
    })
}

/// What tells a file apart.
fn identity(file: &Path) -> io::Result<(u64, u64)> {
    let file = sys::status_behind(file)?;
    Ok((file.device, file.inode))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    /// Whether another owner than this process would meet a record lock.
    fn is_locked(file: &File) -> bool {
        // SAFETY: zeroes are valid; the call fills the struct in, for a descriptor that is open.
        unsafe {
            let mut lock: libc::flock = std::mem::zeroed();
            lock.l_type = libc::F_WRLCK as i16;
            assert_eq!(libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock), 0);
            lock.l_type != libc::F_UNLCK as i16
        }
    }

    #[test]
    fn a_look_keeps_record_locks() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // SAFETY: a valid lock, for a descriptor that is open.
        unsafe {
            let mut lock: libc::flock = std::mem::zeroed();
            lock.l_type = libc::F_WRLCK as i16;
            assert_eq!(libc::fcntl(file.as_file().as_raw_fd(), libc::F_SETLK, &lock), 0);
        }
        assert!(is_locked(file.as_file()));
        let look = || fs::read(file.path()).map(|text| text.len()).ok();
        assert_eq!(look_at(file.path(), look), Some(0));
        assert!(is_locked(file.as_file()));
        look();
        assert!(!is_locked(file.as_file()), "it would have been lost");
        assert_eq!(look_at(Path::new("/no/such"), || 7), 7);
    }
}

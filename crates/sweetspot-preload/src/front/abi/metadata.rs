//! What is known of a file besides its bytes: size, times, owner, mode, attributes; and the calls
//! that make it durable.
//!
//! Asking is an acquire point, and shows what is pending; a later flush would undo what was set. So all
//! of them come after everything that was written.

use core::ffi::{c_char, c_int, c_uint};

use super::Pointer;
use crate::engine::{changes, handlers, ledger, life};
use crate::front::dispatch;

pass_through! {
    fn isfdtype(fd: c_int, kind: c_int) -> c_int;
    fn access(path: *const c_char, mode: c_int) -> c_int;
    fn faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int;
    fn euidaccess(path: *const c_char, mode: c_int) -> c_int;
    fn eaccess(path: *const c_char, mode: c_int) -> c_int;
    fn readlink(path: *const c_char, into: Pointer, len: usize) -> isize;
    fn readlinkat(folder: c_int, path: *const c_char, into: Pointer, len: usize) -> isize;
    fn __readlink_chk(path: *const c_char, into: Pointer, len: usize, size: usize) -> isize;
    fn __readlinkat_chk(
        folder: c_int, path: *const c_char, into: Pointer, len: usize, size: usize
    ) -> isize;
    fn realpath(path: *const c_char, into: Pointer) -> Pointer;
    fn __realpath_chk(path: *const c_char, into: Pointer, size: usize) -> Pointer;
    fn canonicalize_file_name(path: *const c_char) -> Pointer;
    fn pathconf(path: *const c_char, name: c_int) -> isize;
    fn fpathconf(fd: c_int, name: c_int) -> isize;
    fn ftok(path: *const c_char, project: c_int) -> c_int;
    fn name_to_handle_at(
        folder: c_int, path: *const c_char, handle: Pointer, mount: Pointer, flags: c_int
    ) -> c_int;

    fn getxattr(path: *const c_char, name: *const c_char, into: Pointer, len: usize) -> isize;
    fn lgetxattr(path: *const c_char, name: *const c_char, into: Pointer, len: usize) -> isize;
    fn fgetxattr(fd: c_int, name: *const c_char, into: Pointer, len: usize) -> isize;
    fn listxattr(path: *const c_char, into: Pointer, len: usize) -> isize;
    fn llistxattr(path: *const c_char, into: Pointer, len: usize) -> isize;
    fn flistxattr(fd: c_int, into: Pointer, len: usize) -> isize;

}

/// The file of which a `stat` has told: its device and inode.
pub(super) fn of_stat(stat: Pointer) -> (u64, u64) {
    // SAFETY: the call has filled it.
    let stat = unsafe { &*stat.cast::<libc::stat>() };
    (stat.st_dev, stat.st_ino)
}

/// The same of a `statx`.
pub(super) fn of_statx(stat: Pointer) -> (u64, u64) {
    // SAFETY: as in `of_stat`.
    let stat = unsafe { &*stat.cast::<libc::statx>() };
    (libc::makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino)
}

/// A call that tells of a file, while others may have something pending for it. Which file it is the answer says: where
/// that was only written now, the call is made once more.
#[cold]
#[inline(never)]
fn told_again(next: &dyn Fn() -> isize, file: &dyn Fn() -> (u64, u64)) -> isize {
    let answer = next();
    if answer != 0 || !changes::told_of(file) {
        return answer;
    }
    // A handler may have written while the guard did.
    let pass = dispatch::pass_through();
    let answer = next();
    pass.done();
    answer
}

/// A call that tells of a file, by which others have written what they had pending for it.
#[inline(always)]
fn told(next: impl Fn() -> isize, file: impl Fn() -> (u64, u64)) -> isize {
    if ledger::may_be_waiting() { told_again(&next, &file) } else { next() }
}

macro_rules! tells {
    ($(fn $name:ident($($arg:ident: $type:ty),*) of $file:expr;)*) => {$(hook_in_two! {
        fn $name($($arg: $type),*) -> c_int, next
        if false = crate::engine::concerns::any() || ledger::may_wait_for_told() => {
            let answer = next($($arg),*);
            crate::engine::process::acquire_point();
            answer
        } else {
            if dispatch::takes_no_part() && !ledger::may_wait_for_told() {
                return next($($arg),*);
            }
            let pass = dispatch::pass_through();
            let answer = told(|| next($($arg),*) as isize, || $file) as c_int;
            pass.done();
            answer
        }
    })*};
}
tells! {
    fn stat(path: *const c_char, into: Pointer) of of_stat(into);
    fn stat64(path: *const c_char, into: Pointer) of of_stat(into);
    fn lstat(path: *const c_char, into: Pointer) of of_stat(into);
    fn lstat64(path: *const c_char, into: Pointer) of of_stat(into);
    fn __xstat(version: c_int, path: *const c_char, into: Pointer) of of_stat(into);
    fn __xstat64(version: c_int, path: *const c_char, into: Pointer) of of_stat(into);
    fn __lxstat(version: c_int, path: *const c_char, into: Pointer) of of_stat(into);
    fn __lxstat64(version: c_int, path: *const c_char, into: Pointer) of of_stat(into);
}

/// A call on a file that fails where that does not hold what was written to it, and cannot.
#[inline(always)]
pub(super) fn complete(fd: impl FnOnce() -> c_int, next: impl FnOnce() -> isize) -> isize {
    let pass = dispatch::pass_through();
    let answer = match life::incomplete_of(fd) {
        Some(errno) => crate::floor::errno::fail(errno),
        None => next(),
    };
    pass.done();
    answer
}

/// A call that asks how large the descriptor's file is, and when it was changed: it fails where that is not what it will
/// be.
#[inline(always)]
pub(super) fn described(
    fd: impl FnOnce() -> c_int,
    next: impl Fn() -> isize,
    file: impl Fn() -> (u64, u64),
) -> isize {
    complete(fd, || told(next, file))
}

/// The descriptor that a call by name asks about, if it does; -1: it goes by a name.
pub(super) fn named(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    if flags & libc::AT_EMPTY_PATH == 0 {
        return -1;
    }
    // Without a name since Linux 6.11.
    let is_empty = path.is_null() || handlers::peek(path).is_some_and(|first| first == 0);
    if is_empty { folder } else { -1 }
}

macro_rules! describes {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) asks of $fd:expr, tells of $file:expr;)*) => {$(hook_in_two! {
        fn $name($($arg: $type),*) -> c_int, next
        if false = crate::engine::concerns::any() || ledger::may_wait_for_told() => {
            let answer = next($($arg),*);
            crate::engine::process::acquire_point();
            answer
        } else {
            described(|| $fd, || next($($arg),*) as isize, || $file) as c_int
        }
    })*};
}
describes! {
    fn fstatat(folder: c_int, path: *const c_char, into: Pointer, flags: c_int)
        asks of named(folder, path, flags), tells of of_stat(into);
    fn fstatat64(folder: c_int, path: *const c_char, into: Pointer, flags: c_int)
        asks of named(folder, path, flags), tells of of_stat(into);
    fn __fxstatat(
        version: c_int, folder: c_int, path: *const c_char, into: Pointer, flags: c_int,
    ) asks of named(folder, path, flags), tells of of_stat(into);
    fn __fxstatat64(
        version: c_int, folder: c_int, path: *const c_char, into: Pointer, flags: c_int,
    ) asks of named(folder, path, flags), tells of of_stat(into);
    fn statx(folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, into: Pointer)
        asks of named(folder, path, flags), tells of of_statx(into);
}

// Who has the file open reads it without asking what others have pending for it, and so it is with its size.
macro_rules! describes_open_files {
    ($(fn $name:ident($($arg:ident: $type:ty),*) asks of $fd:ident;)*) => {$(hook_in_two! {
        fn $name($($arg: $type),*) -> c_int, next
        if false = crate::engine::concerns::any() => {
            let answer = next($($arg),*);
            crate::engine::process::acquire_point();
            answer
        } else {
            complete(|| $fd, || next($($arg),*) as isize) as c_int
        }
    })*};
}
describes_open_files! {
    fn fstat(fd: c_int, into: Pointer) asks of fd;
    fn fstat64(fd: c_int, into: Pointer) asks of fd;
    fn __fxstat(version: c_int, fd: c_int, into: Pointer) asks of fd;
    fn __fxstat64(version: c_int, fd: c_int, into: Pointer) asks of fd;
}

/// A sync of a whole file system, or of all (-1), is for what other processes wrote, too.
pub(super) fn synced_with_all(fd: c_int, next: impl FnOnce() -> isize) -> isize {
    changes::syncing_all();
    let pass = dispatch::pass_through();
    let failed = life::sync_error_beside(fd);
    let answer = next();
    pass.done();
    failing_after(failed, answer)
}

hook! {
    fn syncfs(fd: c_int) -> c_int, next => {
        synced_with_all(fd, || next(fd) as isize) as c_int
    }
}

macro_rules! syncs_all {
    ($($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(hook! {
        fn $name($($arg: $type),*) -> $answer, next => {
            changes::syncing_all();
            let pass = dispatch::pass_through();
            let answer = next($($arg),*);
            pass.done();
            answer
        }
    })*};
}
syncs_all! {
    sync() -> ();
    bdflush(function: c_int, data: isize) -> c_int;
}

// What others have waiting is not to come into a file that was cut off meanwhile.
macro_rules! truncates {
    ($($name:ident)*) => {$(hook! {
        fn $name(path: *const c_char, len: i64) -> c_int, next => {
            let pass = dispatch::pass_through();
            // SAFETY: the program hands over the same path.
            unsafe { changes::changing_at(path) };
            let answer = next(path, len);
            pass.done();
            answer
        }
    })*};
}
truncates! { truncate truncate64 }

// What waits would change them again, or the guard might not be able to write it for its process.
macro_rules! sets {
    ($before:expr; $(fn $name:ident($($arg:ident: $type:ty),* $(,)?) => $($of:ident),*;)*) => {$(hook! {
        fn $name($($arg: $type),*) -> c_int, next => {
            ($before)($($of),*);
            let pass = dispatch::pass_through();
            let answer = next($($arg),*);
            pass.done();
            answer
        }
    })*};
}
sets! { changes::times_changing;
    fn futimes(fd: c_int, times: Pointer) => fd;
    fn futimens(fd: c_int, times: Pointer) => fd;
}

fn times_of_name(path: *const c_char) {
    times_of_name_at(libc::AT_FDCWD, path, 0);
}

fn times_of_name_at(folder: c_int, path: *const c_char, flags: c_int) {
    // SAFETY: the program hands over the same path.
    unsafe { changes::times_changing_at(folder, path, flags) };
}

sets! { times_of_name;
    fn utime(path: *const c_char, times: Pointer) => path;
    fn utimes(path: *const c_char, times: Pointer) => path;
}
sets! { |path| times_of_name_at(libc::AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW);
    fn lutimes(path: *const c_char, times: Pointer) => path;
}
sets! { |folder, path| times_of_name_at(folder, path, 0);
    fn futimesat(folder: c_int, path: *const c_char, times: Pointer) => folder, path;
}
sets! { times_of_name_at;
    fn utimensat(
        folder: c_int, path: *const c_char, times: Pointer, flags: c_int
    ) => folder, path, flags;
}

sets! { changes::rights_changing;
    fn fchmod(fd: c_int, mode: c_uint) => fd;
    fn fchown(fd: c_int, owner: c_uint, group: c_uint) => fd;
    fn fsetxattr(
        fd: c_int, name: *const c_char, value: Pointer, len: usize, flags: c_int
    ) => fd;
    fn fremovexattr(fd: c_int, name: *const c_char) => fd;
}

fn of_name(path: *const c_char) {
    of_name_at(libc::AT_FDCWD, path, 0);
}

fn of_link(path: *const c_char) {
    of_name_at(libc::AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW);
}

fn of_name_at(folder: c_int, path: *const c_char, flags: c_int) {
    // SAFETY: the program hands over the same path.
    unsafe { changes::rights_changing_at(folder, path, flags) };
}

sets! { of_name;
    fn chmod(path: *const c_char, mode: c_uint) => path;
    fn chown(path: *const c_char, owner: c_uint, group: c_uint) => path;
    fn setxattr(
        path: *const c_char, name: *const c_char, value: Pointer, len: usize, flags: c_int
    ) => path;
    fn removexattr(path: *const c_char, name: *const c_char) => path;
    // Nobody can write there any more.
    fn swapon(path: *const c_char, flags: c_int) => path;
}
sets! { of_link;
    fn lchmod(path: *const c_char, mode: c_uint) => path;
    fn lchown(path: *const c_char, owner: c_uint, group: c_uint) => path;
    fn lsetxattr(
        path: *const c_char, name: *const c_char, value: Pointer, len: usize, flags: c_int
    ) => path;
    fn lremovexattr(path: *const c_char, name: *const c_char) => path;
}
sets! { of_name_at;
    fn fchmodat(
        folder: c_int, path: *const c_char, mode: c_uint, flags: c_int
    ) => folder, path, flags;
    fn fchownat(
        folder: c_int, path: *const c_char, owner: c_uint, group: c_uint, flags: c_int
    ) => folder, path, flags;
}

// What could not be written may not come back into a file that was cut off meanwhile.
macro_rules! resizes {
    ($fail:expr; $(fn $name:ident(fd: c_int $(, $arg:ident: $type:ty)*) takes $len:expr;)*) => {$(hook! {
        fn $name(fd: c_int $(, $arg: $type)*) -> c_int, next => {
            crate::engine::space::written_through($len as u64);
            if let Some(errno) = dispatch::hand_over_content(fd) {
                return ($fail)(errno);
            }
            let pass = dispatch::pass_through();
            let answer = next(fd $(, $arg)*);
            pass.done();
            answer
        }
    })*};
}
resizes! { |errno| crate::floor::errno::fail(errno) as c_int;
    fn ftruncate(fd: c_int, len: i64) takes 0;
    fn ftruncate64(fd: c_int, len: i64) takes 0;
    fn fallocate(fd: c_int, mode: c_int, from: i64, len: i64) takes len;
    fn fallocate64(fd: c_int, mode: c_int, from: i64, len: i64) takes len;
}
// These return the error, and leave errno alone.
resizes! { core::convert::identity;
    fn posix_fallocate(fd: c_int, from: i64, len: i64) takes len;
    fn posix_fallocate64(fd: c_int, from: i64, len: i64) takes len;
}

hand_over! {
    fn posix_fadvise(fd: c_int, from: i64, len: i64, advice: c_int) -> c_int;
    fn posix_fadvise64(fd: c_int, from: i64, len: i64, advice: c_int) -> c_int;
    fn readahead(fd: c_int, from: i64, len: usize) -> isize;
}

hook! {
    // What is pending has gone out, or could not; the window of a file stays as it is.
    fn sync_file_range(fd: c_int, from: i64, len: i64, flags: c_uint) -> c_int, next => {
        complete(|| fd, || next(fd, from, len, flags) as isize) as c_int
    }
}

/// A sync is where a program learns that what it wrote could not be written.
pub(super) fn synced(fd: c_int, next: impl FnOnce() -> isize) -> isize {
    changes::syncing(fd);
    let pass = dispatch::pass_through();
    // Asked for all the same: what there is goes to the disk.
    let failed = crate::engine::life::sync_error(fd);
    let answer = next();
    pass.done();
    failing_after(failed, answer)
}

/// The answer of a sync that was made, and that is to fail with this error.
fn failing_after(failed: Option<c_int>, answer: isize) -> isize {
    dispatch::failing_with(failed.unwrap_or(0), answer as c_int) as isize
}

macro_rules! syncs {
    ($($name:ident)*) => {$(hook! {
        fn $name(fd: c_int) -> c_int, next => {
            synced(fd, || next(fd) as isize) as c_int
        }
    })*};
}
syncs! { fsync fdatasync }

shows_what_is_free! {
    fn statfs(path: *const c_char, into: Pointer) -> c_int;
    fn statfs64(path: *const c_char, into: Pointer) -> c_int;
    fn __statfs(path: *const c_char, into: Pointer) -> c_int;
    fn fstatfs(fd: c_int, into: Pointer) -> c_int;
    fn fstatfs64(fd: c_int, into: Pointer) -> c_int;
    fn statvfs(path: *const c_char, into: Pointer) -> c_int;
    fn statvfs64(path: *const c_char, into: Pointer) -> c_int;
    fn fstatvfs(fd: c_int, into: Pointer) -> c_int;
    fn fstatvfs64(fd: c_int, into: Pointer) -> c_int;
    fn ustat(device: usize, into: Pointer) -> c_int;
}

//! Names: making, moving, removing and listing them.

use core::ffi::{c_char, c_int, c_uint};

use super::Pointer;
use crate::engine::{changes, children};
use crate::floor::next::Next;
use crate::front::dispatch;

pass_through! {
    fn link(old: *const c_char, new: *const c_char) -> c_int;
    fn linkat(
        old_folder: c_int, old: *const c_char, new_folder: c_int, new: *const c_char,
        flags: c_int
    ) -> c_int;
    fn symlink(target: *const c_char, name: *const c_char) -> c_int;
    fn symlinkat(target: *const c_char, folder: c_int, name: *const c_char) -> c_int;
    fn mkdir(path: *const c_char, mode: c_uint) -> c_int;
    fn mkdirat(folder: c_int, path: *const c_char, mode: c_uint) -> c_int;
    fn mknod(path: *const c_char, mode: c_uint, device: usize) -> c_int;
    fn mknodat(folder: c_int, path: *const c_char, mode: c_uint, device: usize) -> c_int;
    fn __xmknod(
        version: c_int, path: *const c_char, mode: c_uint, device: Pointer
    ) -> c_int;
    fn __xmknodat(
        version: c_int, folder: c_int, path: *const c_char, mode: c_uint, device: Pointer
    ) -> c_int;
    fn mkfifo(path: *const c_char, mode: c_uint) -> c_int;
    fn mkfifoat(folder: c_int, path: *const c_char, mode: c_uint) -> c_int;
    fn mkdtemp(template: *const c_char) -> Pointer;
    fn mktemp(template: *const c_char) -> Pointer;
    fn tmpnam(into: Pointer) -> Pointer;
    fn tmpnam_r(into: Pointer) -> Pointer;
    fn tempnam(folder: *const c_char, prefix: *const c_char) -> Pointer;
    fn shm_unlink(name: *const c_char) -> c_int;
    fn sem_unlink(name: *const c_char) -> c_int;
    fn mq_unlink(name: *const c_char) -> c_int;

    fn getcwd(into: Pointer, len: usize) -> Pointer;
    fn __getcwd_chk(into: Pointer, len: usize, size: usize) -> Pointer;
    fn getwd(into: Pointer) -> Pointer;
    fn __getwd_chk(into: Pointer, size: usize) -> Pointer;
    fn get_current_dir_name() -> Pointer;

    fn readdir(folder: Pointer) -> Pointer;
    fn readdir64(folder: Pointer) -> Pointer;
    fn readdir_r(folder: Pointer, entry: Pointer, result: Pointer) -> c_int;
    fn readdir64_r(folder: Pointer, entry: Pointer, result: Pointer) -> c_int;
    fn rewinddir(folder: Pointer) -> ();
    fn seekdir(folder: Pointer, position: isize) -> ();
    fn getdents(fd: c_int, into: Pointer, len: usize) -> c_int;
    fn getdents64(fd: c_int, into: Pointer, len: usize) -> isize;
    fn getdirentries(fd: c_int, into: Pointer, len: usize, base: Pointer) -> isize;
    fn getdirentries64(fd: c_int, into: Pointer, len: usize, base: Pointer) -> isize;
    fn scandir(
        path: *const c_char, names: Pointer, select: Pointer, compare: Pointer
    ) -> c_int;
    fn scandir64(
        path: *const c_char, names: Pointer, select: Pointer, compare: Pointer
    ) -> c_int;
    fn scandirat(
        folder: c_int, path: *const c_char, names: Pointer, select: Pointer, compare: Pointer
    ) -> c_int;
    fn scandirat64(
        folder: c_int, path: *const c_char, names: Pointer, select: Pointer, compare: Pointer
    ) -> c_int;
    fn glob(pattern: *const c_char, flags: c_int, failed: Pointer, into: Pointer) -> c_int;
    fn glob64(pattern: *const c_char, flags: c_int, failed: Pointer, into: Pointer) -> c_int;
    fn fts_open(paths: Pointer, options: c_int, compare: Pointer) -> Pointer;
    fn fts_close(tree: Pointer) -> c_int;
    fn fts64_open(paths: Pointer, options: c_int, compare: Pointer) -> Pointer;
    fn fts64_close(tree: Pointer) -> c_int;
}

/// Temporary files: opened by path, like any other.
macro_rules! temporary {
    ($(fn $name:ident($($arg:ident: $type:ty),*), $flags:expr;)*) => {$(hook! {
        fn $name($($arg: $type),*) -> c_int, next => {
            let pass = dispatch::pass_through();
            let fd = next($($arg),*);
            dispatch::opened(fd, libc::O_RDWR | $flags);
            pass.done();
            fd
        }
    })*};
}
temporary! {
    fn mkstemp(template: *const c_char), 0;
    fn mkstemp64(template: *const c_char), 0;
    fn mkostemp(template: *const c_char, flags: c_int), flags;
    fn mkostemp64(template: *const c_char, flags: c_int), flags;
    fn mkstemps(template: *const c_char, suffix: c_int), 0;
    fn mkstemps64(template: *const c_char, suffix: c_int), 0;
    fn mkostemps(template: *const c_char, suffix: c_int, flags: c_int), flags;
    fn mkostemps64(template: *const c_char, suffix: c_int, flags: c_int), flags;
}

static DIRFD: Next = Next::new();

/// The descriptor under a folder's stream.
fn descriptor(folder: Pointer) -> c_int {
    if folder.is_null() {
        return -1;
    }
    // SAFETY: dirfd has this signature.
    let dirfd: unsafe extern "C" fn(Pointer) -> c_int =
        unsafe { core::mem::transmute(DIRFD.address(c"dirfd")) };
    // SAFETY: the stream is open.
    unsafe { dirfd(folder) }
}

hook! {
    fn opendir(path: *const c_char) -> Pointer, next => {
        let pass = dispatch::pass_through();
        let folder = next(path);
        dispatch::made(descriptor(folder));
        pass.done();
        folder
    }
}

hook! {
    fn fdopendir(fd: c_int) -> Pointer, next => {
        dispatch::hand_over(fd);
        let pass = dispatch::pass_through();
        let folder = next(fd);
        pass.done();
        folder
    }
}

hook! {
    fn closedir(folder: Pointer) -> c_int, next => {
        dispatch::closing(descriptor(folder));
        let answer = next(folder);
        dispatch::are_closed();
        answer
    }
}

// libc asks for sizes and times by itself.
macro_rules! walks_on {
    ($(fn $name:ident($($arg:ident: $type:ty),*);)*) => {$(hook! {
        fn $name($($arg: $type),*) -> Pointer, next => {
            changes::reading_any();
            let pass = dispatch::pass_through();
            let answer = next($($arg),*);
            pass.done();
            answer
        }
    })*};
}
walks_on! {
    fn fts_read(tree: Pointer);
    fn fts_children(tree: Pointer, instruction: c_int);
    fn fts64_read(tree: Pointer);
    fn fts64_children(tree: Pointer, instruction: c_int);
}

// Likewise, between calls of a function of the program's, which may write.
macro_rules! walks {
    ($(fn $name:ident($($arg:ident: $type:ty),*);)*) => {$(hook! {
        fn $name($($arg: $type),*) -> c_int, next => {
            changes::reading_any();
            children::hold_back();
            let answer = next($($arg),*);
            children::go_on();
            answer
        }
    })*};
}
walks! {
    fn ftw(path: *const c_char, function: Pointer, descriptors: c_int);
    fn ftw64(path: *const c_char, function: Pointer, descriptors: c_int);
    fn nftw(path: *const c_char, function: Pointer, descriptors: c_int, flags: c_int);
    fn nftw64(path: *const c_char, function: Pointer, descriptors: c_int, flags: c_int);
}

macro_rules! moves {
    ($(fn $name:ident($arg:ident: $type:ty);)*) => {$(hook! {
        fn $name($arg: $type) -> c_int, next => {
            let pass = dispatch::pass_through();
            let answer = next($arg);
            dispatch::folder_changed();
            pass.done();
            answer
        }
    })*};
}
moves! {
    fn chdir(path: *const c_char);
    fn fchdir(fd: c_int);
}

shows_what_is_free! {
    fn rename(old: *const c_char, new: *const c_char) -> c_int;
    fn renameat(
        old_folder: c_int, old: *const c_char, new_folder: c_int, new: *const c_char
    ) -> c_int;
    fn renameat2(
        old_folder: c_int, old: *const c_char, new_folder: c_int, new: *const c_char,
        flags: c_uint
    ) -> c_int;
    fn unlink(path: *const c_char) -> c_int;
}

// A control group whose last process has ended.
shows_who_is_gone! {
    fn unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn remove(path: *const c_char) -> c_int;
    fn rmdir(path: *const c_char) -> c_int;
}

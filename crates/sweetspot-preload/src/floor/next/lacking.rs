//! What stands for functions that this libc does not have. Nobody is linked against one, but a program that
//! asks whether it is there (by a weak reference, or by its name) finds the hook.
//!
//! A function that is only the wrapper of a system call makes that call, as libc's would; with the kernel it
//! works wherever the program expects it to. Whatever else is missing fails with ENOSYS, in its own way.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_uint};

use crate::floor::errno::fail;
use crate::floor::sys;

/// A match by name: each names a system call, whose arguments are the function's, or a function of this file.
macro_rules! stand_ins {
    ($asked:expr, { $($($name:ident)|+ => $number:ident;)* }
     { $($($other:ident)|+ => $function:ident;)* }) => {
        match $asked {
            $($(_ if is($asked, stringify!($name)) => {
                by_call::<{ libc::$number }> as *const () as usize
            })+)*
            $($(_ if is($asked, stringify!($other)) => $function as *const () as usize,)+)*
            name => fails(name) as usize,
        }
    };
}

fn is(name: &[u8], known: &str) -> bool {
    name == known.as_bytes()
}

/// The address of what is called where there is no definition of a name.
#[cold]
pub(super) fn stand_in(name: &CStr) -> usize {
    stand_ins! {
        name.to_bytes(),
        {
            close_range => SYS_close_range;
            copy_file_range => SYS_copy_file_range;
            execveat => SYS_execveat;
            fsconfig => SYS_fsconfig;
            fsmount => SYS_fsmount;
            fsopen => SYS_fsopen;
            fspick => SYS_fspick;
            fstat | fstat64 => SYS_fstat;
            fstatat | fstatat64 => SYS_newfstatat;
            // The names in a folder have the same form.
            getdents64 | getdents => SYS_getdents64;
            llseek => SYS_lseek;
            memfd_create => SYS_memfd_create;
            mknodat => SYS_mknodat;
            mlock2 => SYS_mlock2;
            mount_setattr => SYS_mount_setattr;
            move_mount => SYS_move_mount;
            open_tree => SYS_open_tree;
            openat2 => SYS_openat2;
            pidfd_getfd => SYS_pidfd_getfd;
            pidfd_open => SYS_pidfd_open;
            pidfd_send_signal => SYS_pidfd_send_signal;
            pkey_mprotect => SYS_pkey_mprotect;
            posix_close => SYS_close;
            process_madvise => SYS_process_madvise;
            process_mrelease => SYS_process_mrelease;
            renameat2 => SYS_renameat2;
            sched_getattr => SYS_sched_getattr;
            sched_setattr => SYS_sched_setattr;
            statx => SYS_statx;
            tgkill => SYS_tgkill;
        }
        {
            closefrom => closefrom;
            epoll_pwait2 => epoll_pwait2;
            lstat | lstat64 => lstat;
            mknod => mknod;
            preadv2 | preadv64v2 => preadv2;
            pwritev2 | pwritev64v2 => pwritev2;
            stat | stat64 => stat;
            tcgetwinsize => tcgetwinsize;
            tcsetwinsize => tcsetwinsize;
        }
    }
}

/// The kernel's answer, as a wrapper gives it.
fn answer(given: isize) -> isize {
    match sys::result(given) {
        Ok(answer) => answer as isize,
        Err(sys::Errno(errno)) => fail(errno),
    }
}

/// The wrapper of a system call. Of arguments that the call does not have the kernel takes no notice.
unsafe extern "C" fn by_call<const NUMBER: i64>(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> isize {
    // SAFETY: the program's arguments, for the call that it means.
    answer(unsafe { sys::call(NUMBER, [a, b, c, d, e, f]) })
}

/// The wrapper of a system call with some arguments of its own.
macro_rules! wrapper {
    ($name:ident($($arg:ident: $type:ty),*) $number:ident($($given:expr),*)) => {
        unsafe extern "C" fn $name($($arg: $type),*) -> isize {
            // SAFETY: the program's arguments, for the call that it means.
            answer(unsafe { sys::syscall!($number, $($given),*) })
        }
    };
}

/// The bytes of the kernel's set of signals.
const MASK_BYTES: usize = 8;

type At = *const core::ffi::c_void;

wrapper! {
    epoll_pwait2(fd: c_int, events: At, count: c_int, timeout: At, mask: At)
    SYS_epoll_pwait2(fd, events, count, timeout, mask, MASK_BYTES)
}
wrapper! { stat(path: *const c_char, into: At) SYS_newfstatat(libc::AT_FDCWD, path, into, 0) }
wrapper! {
    lstat(path: *const c_char, into: At)
    SYS_newfstatat(libc::AT_FDCWD, path, into, libc::AT_SYMLINK_NOFOLLOW)
}
wrapper! {
    mknod(path: *const c_char, mode: c_uint, device: u64)
    SYS_mknodat(libc::AT_FDCWD, path, mode, device)
}
// The kernel takes an offset in two halves of a long each: here the first holds all of it.
wrapper! {
    preadv2(fd: c_int, vector: At, count: c_int, offset: i64, flags: c_int)
    SYS_preadv2(fd, vector, count, offset, 0, flags)
}
wrapper! {
    pwritev2(fd: c_int, vector: At, count: c_int, offset: i64, flags: c_int)
    SYS_pwritev2(fd, vector, count, offset, 0, flags)
}
wrapper! { tcgetwinsize(fd: c_int, size: At) SYS_ioctl(fd, libc::TIOCGWINSZ, size) }
wrapper! { tcsetwinsize(fd: c_int, size: At) SYS_ioctl(fd, libc::TIOCSWINSZ, size) }

/// It says nothing of an error, so all must be closed. Kernels before 5.9 know no range.
unsafe extern "C" fn closefrom(first: c_int) {
    /// The limit that a process without rights has at most (`fs.nr_open`).
    const DESCRIPTORS_MAX: usize = 1 << 20;
    let first = first.max(0) as usize;
    // SAFETY: no memory is handed over; what is closed is for the program to say.
    unsafe {
        if sys::syscall!(SYS_close_range, first, c_uint::MAX, 0) < 0 {
            (first..DESCRIPTORS_MAX).for_each(|fd| {
                sys::syscall!(SYS_close, fd);
            });
        }
    }
}

/// What fails in the way of the function of a name.
fn fails(name: &[u8]) -> *const () {
    match () {
        () if POINTERS.split(|byte| *byte == b' ').any(|each| each == name) => {
            returns_null as *const ()
        }
        () if returns_number(name) => returns_errno as *const (),
        () => returns_minus_one as *const (),
    }
}

/// Functions that only glibc has, and that return an address.
const POINTERS: &[u8] =
    b"canonicalize_file_name dlmopen dlvsym fgetsgent fts64_children fts64_open \
    fts64_read getaliasbyname getaliasent getfsent getfsfile getfsspec getrpcbyname getrpcbynumber \
    getrpcent getsgent getsgnam getttyent getttynam getwd tmpnam_r";

/// Whether a function returns the number of the error.
fn returns_number(name: &[u8]) -> bool {
    let begins = [&b"posix_spawn"[..], b"pidfd_spawn", b"pthread_"];
    // Those that fill in a record of the user database say what went wrong; getutent_r and its kin do not.
    let fills_in = name.ends_with(b"_r") && !name.starts_with(b"getut");
    fills_in || begins.iter().any(|begin| name.starts_with(begin))
}

unsafe extern "C" fn returns_minus_one() -> isize {
    fail(libc::ENOSYS)
}

unsafe extern "C" fn returns_null() -> usize {
    fail(libc::ENOSYS);
    0
}

unsafe extern "C" fn returns_errno() -> c_int {
    libc::ENOSYS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_fails_in_its_own_way() {
        let check = |name: &CStr, way: *const ()| {
            assert_eq!(stand_in(name), way as usize, "{name:?}");
        };
        for name in [c"_Fork", c"pidfd_getpid", c"getutent_r", c"sem_open"] {
            check(name, returns_minus_one as *const ());
        }
        for name in [c"pidfd_spawnp", c"pthread_clockjoin_np", c"getpwent_r"] {
            check(name, returns_errno as *const ());
        }
        for name in [c"canonicalize_file_name", c"getwd", c"tmpnam_r"] {
            check(name, returns_null as *const ());
        }
        check(c"openat2", by_call::<{ libc::SYS_openat2 }> as *const ());
        check(c"pwritev64v2", pwritev2 as *const ());
    }
}

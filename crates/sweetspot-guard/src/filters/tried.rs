//! Each call that the library and the guard make on their own account, with arguments of the same kind.
//!
//! A filter may answer a call with an error, or with success and do nothing. So the calls without which waiting
//! bytes would not reach their file, a lock would not be one, or a wait would not end must answer as the kernel
//! does, an error for wrong arguments included. Where one of the others is refused, the program's calls pass
//! through; but none may say that it has done what it has not.
//!
//! Invariant: no call can block, and none uses what another one has stored. Descriptors are those opened here.

#![allow(unsafe_code)]

use std::mem::{size_of, zeroed};
use std::ptr;

use libc::*;

const PAGE: usize = 4096;
const NO_FILE: c_long = -1;
const NONE: *mut u8 = ptr::null_mut();
/// Descriptors from here on were opened by this process.
const FD_FIRST: c_long = 3;
/// On all machines; of Linux 6.5, and without a name in libc.
const SYS_CACHESTAT: c_long = 451;
/// `FS_IOC_FIEMAP`, without a name in libc.
const FIEMAP: c_long = 0xc020_660b;
/// No size of a signal set.
const WRONG_SIZE: usize = 7;

/// Makes a call. The answer is the kernel's own: an error is negative.
macro_rules! call {
    ($($word:expr),+ $(,)?) => { answer(syscall($($word),+)) };
}

fn answer(answer: c_long) -> c_long {
    // SAFETY: the error's place is valid for each thread.
    if answer == -1 { -c_long::from(unsafe { *__errno_location() }) } else { answer }
}

/// What is an error by this number.
fn error(errno: c_int) -> c_long {
    -c_long::from(errno)
}

/// Room for an answer.
struct Space([u8; PAGE]);

impl Space {
    /// Zeroed: nothing of the answer before is in it.
    fn empty(&mut self) -> *mut u8 {
        self.0.fill(0);
        self.0.as_mut_ptr()
    }

    fn is_filled(&self) -> bool {
        self.0.iter().any(|byte| *byte != 0)
    }
}

/// Makes every call. Says whether all are answered as they must be.
///
/// # Safety
/// Only for a child that ends at once: signals and memory are left changed.
pub(super) unsafe fn is_every_call_answered() -> bool {
    let mut space = Space([0; PAGE]);
    // SAFETY: as the caller says.
    unsafe {
        // A filter that kills leaves no core file.
        prctl(PR_SET_DUMPABLE, 0);
        call_files(&mut space)
            & call_of_files(&mut space)
            & call_memory()
            & call_processes(&mut space)
            & call_others(&mut space)
            & call_waits(&mut space)
            & call_of_guard()
    }
}

/// # Safety
/// As of `is_every_call_answered`.
unsafe fn call_files(space: &mut Space) -> bool {
    // SAFETY: each pointer is to that space, or to a text.
    unsafe {
        let path = c"/proc/self/stat".as_ptr();
        let fd = call!(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
        if fd < FD_FIRST {
            return false;
        }
        let mut is_right = call!(SYS_read, fd, space.empty(), 64) == 64 && space.is_filled();
        is_right &= call!(SYS_pread64, fd, space.empty(), 64, 0) == 64 && space.is_filled();
        call!(SYS_preadv, fd, NONE, 0, 0, 0);
        is_right &= call!(SYS_lseek, fd, 1, SEEK_SET) == 1;
        is_right &= call!(SYS_fcntl, fd, F_GETFD) == FD_CLOEXEC.into();
        is_right &= call!(SYS_fcntl, fd, F_GETFL) >= 0;
        is_right &= call!(SYS_fstat, fd, space.empty()) == 0 && space.is_filled();
        is_right &= call!(SYS_fstatfs, fd, space.empty()) != 0 || space.is_filled();
        is_right &= call!(SYS_close, fd) == 0;
        is_right & (call!(SYS_fcntl, fd, F_GETFD) == error(EBADF))
    }
}

/// # Safety
/// As of `is_every_call_answered`.
unsafe fn call_of_files(space: &mut Space) -> bool {
    // SAFETY: each pointer is to that space, to a text, or null.
    unsafe {
        let (link, root) = (c"/proc/self/exe".as_ptr(), c"/".as_ptr());
        call!(SYS_prctl, PR_GET_TSC, space.empty(), 0, 0, 0);
        call!(SYS_prctl, PR_SET_PTRACER, 0, 0, 0, 0);
        // Without a file to write to, as what is written would have to go somewhere.
        let mut is_right = call!(SYS_write, NO_FILE, space.empty(), 1) == error(EBADF);
        is_right &= call!(SYS_pwrite64, NO_FILE, space.empty(), 1, 0) == error(EBADF);
        is_right &= call!(SYS_getdents64, NO_FILE, space.empty(), PAGE) == error(EBADF);
        is_right &= call!(SYS_ftruncate, NO_FILE, 0) == error(EBADF);
        is_right &= call!(SYS_truncate, NONE, 0) == error(EFAULT);
        is_right &= call!(SYS_kcmp, 0, 0, 0, 0, 0) != 0;
        call!(SYS_utimensat, NO_FILE, NONE, NONE, 0);
        is_right &=
            call!(SYS_newfstatat, AT_FDCWD, root, space.empty(), 0) == 0 && space.is_filled();
        let empty = c"".as_ptr();
        is_right &= call!(SYS_statx, NO_FILE, empty, AT_EMPTY_PATH, 0, space.empty()) != 0;
        is_right &= call!(SYS_readlinkat, AT_FDCWD, link, space.empty(), PAGE) != 0;
        call!(SYS_faccessat, AT_FDCWD, root, X_OK);
        call!(SYS_CACHESTAT, NO_FILE, NONE, NONE, 0);
        is_right &= call!(SYS_ioctl, NO_FILE, FIEMAP, NONE) != 0;
        call!(SYS_close_range, u32::MAX, u32::MAX, CLOSE_RANGE_UNSHARE);
        call!(SYS_unshare, CLONE_FILES);
        is_right
    }
}

/// # Safety
/// As of `is_every_call_answered`.
unsafe fn call_memory() -> bool {
    // SAFETY: mappings are anonymous ones, and given back.
    unsafe {
        let (read, write) = (PROT_READ, PROT_READ | PROT_WRITE);
        let private = MAP_PRIVATE | MAP_ANONYMOUS;
        let page = call!(SYS_mmap, NONE, PAGE, write, private | MAP_NORESERVE, NO_FILE, 0);
        if page <= 0 {
            return false;
        }
        let fixed = private | MAP_FIXED;
        let mut is_right = call!(SYS_mmap, page, PAGE, write, fixed, NO_FILE, 0) == page;
        is_right &= call!(SYS_mmap, NONE, PAGE, write, MAP_SHARED, NO_FILE, 0) == error(EBADF);
        for advice in [MADV_DONTDUMP, MADV_POPULATE_WRITE, MADV_WIPEONFORK] {
            call!(SYS_madvise, page, PAGE, advice);
        }
        let first = page as *mut u8;
        first.write_volatile(1);
        is_right &= call!(SYS_madvise, page, PAGE, MADV_DONTNEED) == 0;
        is_right &= first.read_volatile() == 0;
        is_right &= call!(SYS_mprotect, page, PAGE, read) == 0;
        is_right &= call!(SYS_mprotect, page, PAGE, write) == 0;
        // No page begins there, and there is no such advice.
        is_right &= call!(SYS_madvise, page, PAGE, c_int::MAX) == error(EINVAL);
        is_right &= call!(SYS_mprotect, page + 1, PAGE, read) == error(EINVAL);
        is_right &= call!(SYS_munmap, page + 1, PAGE) == error(EINVAL);
        is_right &= call!(SYS_mremap, page, 0, PAGE, MREMAP_MAYMOVE) != 0;
        is_right & (call!(SYS_munmap, page, PAGE) == 0)
    }
}

/// # Safety
/// As of `is_every_call_answered`.
unsafe fn call_processes(space: &mut Space) -> bool {
    // SAFETY: each pointer is to that space, or null.
    unsafe {
        let (how, set) = (SIG_SETMASK, NONE);
        let mut is_right = call!(SYS_rt_sigprocmask, how, set, space.empty(), 8) == 0;
        is_right &= call!(SYS_rt_sigprocmask, how, set, space.empty(), WRONG_SIZE) == error(EINVAL);
        is_right &= call!(SYS_rt_sigaction, SIGSEGV, NONE, space.empty(), 8) == 0;
        is_right &=
            call!(SYS_rt_sigaction, SIGSEGV, NONE, space.empty(), WRONG_SIZE) == error(EINVAL);
        call!(SYS_sigaltstack, NONE, space.empty());
        call!(SYS_rt_sigqueueinfo, 0, 0, NONE);
        let thread = call!(SYS_gettid);
        let process = call!(SYS_getpid);
        if thread <= 0 || process != thread {
            return false;
        }
        call!(SYS_rt_tgsigqueueinfo, process, thread, 0, NONE);
        call!(SYS_process_vm_readv, thread, NONE, 0, NONE, 0, 0);
        call!(SYS_process_vm_writev, thread, NONE, 0, NONE, 0, 0);
        call!(SYS_move_pages, process, 0, NONE, NONE, NONE, 0);
        is_right &= call!(SYS_kill, process, 0) == 0;
        is_right & (call!(SYS_tgkill, process, thread, 0) == 0)
    }
}

/// # Safety
/// As of `is_every_call_answered`.
unsafe fn call_others(space: &mut Space) -> bool {
    // SAFETY: each pointer is to that space, or null.
    unsafe {
        let mut is_right = call!(SYS_geteuid) >= 0 && call!(SYS_getppid) > 0;
        is_right &= call!(SYS_getcwd, space.empty(), PAGE) != 0;
        let limit = call!(SYS_prlimit64, 0, RLIMIT_FSIZE, NONE, space.empty());
        is_right &= limit == 0 && space.is_filled();
        let clock = CLOCK_MONOTONIC_COARSE;
        is_right & (call!(SYS_clock_gettime, clock, space.empty()) == 0 && space.is_filled())
    }
}

/// # Safety
/// As of `is_every_call_answered`.
unsafe fn call_waits(space: &mut Space) -> bool {
    let (now, never) = (timespec { tv_sec: 0, tv_nsec: 0 }, timespec { tv_sec: 0, tv_nsec: -1 });
    let (now, never) = (ptr::from_ref(&now), ptr::from_ref(&never));
    let word = ptr::from_ref(&0u32);
    // SAFETY: each pointer is to a live value, or null.
    unsafe {
        // It is no child of its own; no time has so many nanoseconds; the word is another one.
        let (who, how) = (call!(SYS_getpid), WEXITED | WNOHANG | WNOWAIT);
        let waits = call!(SYS_waitid, P_PID, who, space.empty(), how, NONE);
        let mut is_right = waits == error(ECHILD);
        is_right &= call!(SYS_nanosleep, never, NONE) == error(EINVAL);
        is_right &= call!(SYS_sched_yield) == 0;
        // Only for what is said at an end: without them nothing is.
        call!(SYS_rt_sigpending, space.empty(), 8);
        call!(SYS_rt_sigtimedwait, NONE, NONE, now, WRONG_SIZE);
        call!(SYS_ppoll, NONE, 0, now, NONE, 8);
        is_right &= call!(SYS_futex, word, FUTEX_WAIT, -1, now, NONE, 0) == error(EAGAIN);
        is_right & (call!(SYS_futex, word, FUTEX_WAKE, 1, NONE, NONE, 0) == 0)
    }
}

/// What the guard waits by: an event that is there must be seen.
///
/// # Safety
/// As of `is_every_call_answered`.
unsafe fn call_of_guard() -> bool {
    const ID: u64 = 7;
    let is_open = |fd: c_int| c_long::from(fd) >= FD_FIRST;
    // SAFETY: each pointer is to a live value of the size that is said; the descriptors are open.
    unsafe {
        let (event, set) = (eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK), epoll_create1(EPOLL_CLOEXEC));
        if !is_open(event) || !is_open(set) {
            return false;
        }
        // A thread that is none would go on as this one.
        let mut is_right = call!(SYS_clone3, NONE, 0) != 0;
        let mut wanted = epoll_event { events: EPOLLIN as u32, u64: ID };
        let mut seen: epoll_event = zeroed();
        is_right &= epoll_ctl(set, EPOLL_CTL_ADD, event, &mut wanted) == 0;
        is_right &= epoll_wait(set, &mut seen, 1, 0) == 1 && { seen.u64 } == ID;
        let mut polled = pollfd { fd: event, events: POLLIN, revents: 0 };
        is_right &= poll(&mut polled, 1, 0) == 1 && polled.revents == POLLIN;
        let mut count = 0u64;
        let bytes = size_of::<u64>() as isize;
        is_right &= read(event, (&raw mut count).cast(), size_of::<u64>()) == bytes && count == 1;
        is_right & (epoll_wait(set, &mut seen, 1, 0) == 0)
    }
}

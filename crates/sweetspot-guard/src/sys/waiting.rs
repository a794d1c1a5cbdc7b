//! What is waited for: words of others (futex), deaths, and events, all at once (epoll).
//!
//! # Safety
//! As `sys` says.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use super::{check, check_long, retry};

/// What the kernel stores in a robust futex word whose owner died (it takes the thread id out).
pub(crate) const FUTEX_OWNER_DIED: u32 = 0x4000_0000;

/// Sleeps while `word` is `expected`, at most `limit`.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs().min(i32::MAX as u64) as _,
        tv_nsec: limit.subsec_nanos() as _,
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word is live and four-byte aligned, the time is live or null. Every way in which
    // the call can end is a reason for the caller to look again.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, limit, 0, 0)
    };
}

/// Wakes everyone who sleeps on `word`.
pub(crate) fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word is live and four-byte aligned.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX, 0, 0, 0) };
}

/// Wakes for nothing that come one after the other before a thread rests.
const FRUITLESS_MAX: u32 = 16;
/// A wait that is over sooner was none.
const WAIT_MIN: Duration = Duration::from_micros(500);
/// Then it rests so long.
const REST: Duration = Duration::from_millis(20);

/// What keeps a thread that waits from taking a processor: a filter of system calls may answer a wait at once,
/// each time.
#[derive(Default)]
pub(crate) struct Naps(u32);

impl Naps {
    /// As [`futex_wait`].
    pub(crate) fn futex_wait(&mut self, word: &AtomicU32, expected: u32, limit: Option<Duration>) {
        let begun = Instant::now();
        futex_wait(word, expected, limit);
        let is_awaited = word.load(std::sync::atomic::Ordering::SeqCst) != expected;
        self.count(is_awaited || begun.elapsed() >= WAIT_MIN);
    }

    /// A wait is over, and was of use or not.
    pub(crate) fn count(&mut self, is_of_use: bool) {
        self.0 = if is_of_use { 0 } else { self.0.saturating_add(1) };
        if self.0 > FRUITLESS_MAX {
            rest(REST);
        }
    }
}

/// Sleeps, by whatever call is not answered at once.
pub(crate) fn rest(time: Duration) {
    let begun = Instant::now();
    let is_short = || begun.elapsed() < time / 2;
    let spec = libc::timespec {
        tv_sec: time.as_secs().min(i32::MAX as u64) as _,
        tv_nsec: time.subsec_nanos() as _,
    };
    let milliseconds = i32::try_from(time.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: the time is live, and no descriptor is passed.
    unsafe {
        libc::nanosleep(&spec, ptr::null_mut());
        if is_short() {
            libc::poll(ptr::null_mut(), 0, milliseconds);
        }
    }
    if is_short() {
        futex_wait(&AtomicU32::new(0), 0, Some(time));
    }
}

#[repr(C)]
struct RobustNode {
    next: *const RobustNode,
}

#[repr(C)]
struct RobustHead {
    list: RobustNode,
    futex_offset: c_long,
    pending: *const RobustNode,
}

/// Makes `word` the calling thread's own: it holds the thread's id until the thread dies in
/// whatever way; then the kernel stores [`FUTEX_OWNER_DIED`].
pub(crate) fn own_until_death(word: &'static AtomicU32) -> io::Result<()> {
    // A list of one: head -> node -> head. The kernel finds the futex at a fixed distance from the
    // node, which may as well lie in another mapping.
    let node = Box::leak(Box::new(RobustNode { next: ptr::null() }));
    let distance = (word.as_ptr() as isize).wrapping_sub(ptr::from_ref(node) as isize);
    let head = Box::leak(Box::new(RobustHead {
        list: RobustNode { next: node },
        futex_offset: distance as c_long,
        pending: ptr::null(),
    }));
    node.next = &head.list;
    // SAFETY: head and node are leaked, so they stay where they are for the thread's whole life. The
    // list replaces the one of libc, which matters only to robust mutexes; this process has none.
    unsafe {
        let head: *const RobustHead = head;
        check_long(libc::syscall(libc::SYS_set_robust_list, head, size_of::<RobustHead>()))?;
    }
    word.store(thread_id(), std::sync::atomic::Ordering::SeqCst);
    Ok(())
}

/// The number of the calling thread.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// A descriptor that becomes readable when the process dies.
pub(crate) fn pidfd_open(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: only values are passed; the result is a new descriptor that nobody else owns.
    unsafe {
        let fd = check_long(libc::syscall(libc::SYS_pidfd_open, pid as c_int, 0))?;
        Ok(OwnedFd::from_raw_fd(fd as RawFd))
    }
}

/// A copy of a descriptor of another process: the same open file description.
pub(crate) fn copy_of(pidfd: BorrowedFd<'_>, fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: only values are passed; the result is a new descriptor that nobody else owns.
    unsafe {
        let copy = check_long(libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), fd, 0))?;
        Ok(OwnedFd::from_raw_fd(copy as RawFd))
    }
}

/// Whether two descriptors, each of a process, are of the same description.
///
/// # Errors
/// One of them is closed; or the kernel does not say.
pub(crate) fn is_same_description(one: (u32, RawFd), other: (u32, RawFd)) -> io::Result<bool> {
    const KCMP_FILE: c_int = 0;
    // SAFETY: only values are passed.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one.0, other.0, KCMP_FILE, one.1, other.1) };
    Ok(check_long(order)? == 0)
}

/// Whether two threads have the same table of descriptors.
///
/// # Errors
/// One of them is gone, or the kernel does not say: one of them may not be looked at.
pub(crate) fn is_same_table(one: u32, other: u32) -> io::Result<bool> {
    const KCMP_FILES: c_int = 2;
    // SAFETY: only values are passed.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_FILES, 0, 0) };
    Ok(check_long(order)? == 0)
}

/// The open flags of a description.
pub(crate) fn open_flags(fd: impl AsFd) -> io::Result<c_int> {
    // SAFETY: only values are passed.
    unsafe { check(libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_GETFL)) }
}

/// The offset of a description.
pub(crate) fn offset(fd: impl AsFd) -> io::Result<u64> {
    // SAFETY: only values are passed.
    let offset = unsafe { libc::lseek64(fd.as_fd().as_raw_fd(), 0, libc::SEEK_CUR) };
    u64::try_from(offset).map_err(|_| io::Error::last_os_error())
}

/// Whether the process of a pidfd is dead.
pub(crate) fn is_dead(pidfd: BorrowedFd<'_>) -> bool {
    let mut poll = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one live pollfd is passed.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}

/// Whether the process of a pidfd is dead, and its parent knows: nobody can send it a signal any more.
pub(crate) fn is_no_more(pidfd: BorrowedFd<'_>) -> bool {
    let (number, none) = (pidfd.as_raw_fd(), ptr::null::<libc::siginfo_t>());
    // SAFETY: only values are passed. No signal is sent: it is only asked whether one could be.
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, number, 0, none, 0) };
    check_long(sent).is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH))
}

/// Waits for many descriptors.
pub(crate) struct Epoll(OwnedFd);

impl Epoll {
    pub(crate) fn new() -> io::Result<Epoll> {
        // SAFETY: only a value is passed; the result is a new descriptor that nobody else owns.
        unsafe {
            check(libc::epoll_create1(libc::EPOLL_CLOEXEC))
                .map(|fd| Epoll(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// Watches `fd` until it is closed; `wait` then returns `id`.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, id: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: id };
        // SAFETY: the event is live and copied by the kernel.
        unsafe {
            check(libc::epoll_ctl(
                self.0.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                fd.as_raw_fd(),
                &mut event,
            ))
        }
        .map(drop)
    }

    /// Watches it no more.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        let (number, none) = (fd.as_raw_fd(), ptr::null_mut());
        // SAFETY: only values are passed. Where it is not watched, nothing is to be done.
        unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_DEL, number, none) };
    }

    /// Sleeps until a watched descriptor is readable, at most `limit`; `None`: none is.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> io::Result<Option<u64>> {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let limit_ms =
            limit.map_or(-1, |limit| i32::try_from(limit.as_millis()).unwrap_or(i32::MAX));
        // SAFETY: room for one event is passed, and said so.
        let count = retry(|| unsafe {
            check(libc::epoll_wait(self.0.as_raw_fd(), &mut event, 1, limit_ms))
        })?;
        Ok((count > 0).then_some(event.u64))
    }
}

/// What wakes a thread that waits at an [`Epoll`].
pub(crate) struct Event(OwnedFd);

impl Event {
    pub(crate) fn new() -> io::Result<Event> {
        // SAFETY: only values are passed; the result is a new descriptor that nobody else owns.
        unsafe {
            check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))
                .map(|fd| Event(OwnedFd::from_raw_fd(fd)))
        }
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Wakes anyone who waits, now or next.
    pub(crate) fn raise(&self) {
        let one = 1u64;
        // SAFETY: eight bytes are passed.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), size_of_val(&one)) };
    }

    /// What was raised is seen.
    pub(crate) fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: room for eight bytes is passed.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), size_of_val(&count)) };
    }
}

//! The kernel's calls that std does not have, each as a safe function that returns errno by value.
//!
//! All unsafe code of this crate is here.
//!
//! # Safety
//! Every block either passes values and pointers to live locals to a system call that writes no
//! further than their size, or rests on the layout of [`Ledger`]: `repr(C)`, atomics only, so that
//! every bit pattern is a valid one and shared access from other processes is no data race.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ffi::{CStr, CString, OsStr, c_int, c_long, c_void};
use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use sweetspot_core::ledger::Ledger;
use sweetspot_core::observe::{OBSERVATIONS_AT, Observations};
use sweetspot_core::trace::{TRACE_AT, Trace};

/// What the kernel stores in a robust futex word whose owner died (it takes the thread id out).
pub(crate) const FUTEX_OWNER_DIED: u32 = 0x4000_0000;

fn check(result: c_int) -> io::Result<c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn check_long(result: c_long) -> io::Result<c_long> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Calls again while a signal interrupts.
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            result => return result,
        }
    }
}

fn c_string(path: &OsStr) -> io::Result<CString> {
    CString::new(path.as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Opens `path` with exactly these flags, O_CLOEXEC added.
pub(crate) fn open(path: &Path, flags: c_int, mode: u32) -> io::Result<OwnedFd> {
    let path = c_string(path.as_os_str())?;
    // SAFETY: `path` is a live C string; the result is a new descriptor that nobody else owns.
    retry(|| unsafe {
        check(libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, mode))
            .map(|fd| OwnedFd::from_raw_fd(fd))
    })
}

/// Closes a file and says what the kernel said (network file systems fail here).
pub(crate) fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor was owned by `file` and is given up here, once.
    unsafe { check(libc::close(file.into_raw_fd())) }.map(drop)
}

/// What a file is, as far as anyone here asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub device: u64,
    pub inode: u64,
    pub mode: u32,
    pub uid: u32,
    pub size: u64,
    pub mtime_ns: u64,
    pub ctime_ns: u64,
    /// 0 where the file system has none.
    pub birth_ns: u64,
}

impl Status {
    pub(crate) fn is_regular(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFREG
    }

    /// A regular file of this user's that nobody else can open.
    pub(crate) fn is_private(&self) -> bool {
        self.mode == libc::S_IFREG | 0o600 && self.uid == effective_uid()
    }
}

fn statx(fd: RawFd, path: &CStr, flags: c_int) -> io::Result<Status> {
    let mut buffer = MaybeUninit::<libc::statx>::zeroed();
    let mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
    // SAFETY: `path` is a live C string, `buffer` has room for one statx and is valid when zero.
    let found = unsafe {
        check(libc::statx(fd, path.as_ptr(), flags, mask, buffer.as_mut_ptr()))?;
        buffer.assume_init()
    };
    let nanoseconds = |time: libc::statx_timestamp| {
        (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(u64::from(time.tv_nsec))
    };
    let has_birth = found.stx_mask & libc::STATX_BTIME != 0;
    Ok(Status {
        device: libc::makedev(found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        mode: u32::from(found.stx_mode),
        uid: found.stx_uid,
        size: found.stx_size,
        mtime_ns: nanoseconds(found.stx_mtime),
        ctime_ns: nanoseconds(found.stx_ctime),
        birth_ns: if has_birth { nanoseconds(found.stx_btime) } else { 0 },
    })
}

/// What is behind a descriptor, `O_PATH` ones included.
pub(crate) fn status(fd: impl AsFd) -> io::Result<Status> {
    statx(fd.as_fd().as_raw_fd(), c"", libc::AT_EMPTY_PATH)
}

/// Sets the time of modification alone, in nanoseconds, also through an `O_PATH` descriptor.
pub(crate) fn set_modified(fd: impl AsFd, modified_ns: u64) -> io::Result<()> {
    let name = c_string(OsStr::new(&format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())))?;
    let time = |ns| libc::timespec { tv_sec: (modified_ns / 1_000_000_000) as i64, tv_nsec: ns };
    let times = [time(libc::UTIME_OMIT), time((modified_ns % 1_000_000_000) as i64)];
    // SAFETY: a live C string, and two times.
    unsafe { check(libc::utimensat(libc::AT_FDCWD, name.as_ptr(), times.as_ptr(), 0)) }.map(drop)
}

/// The wall clock as the kernel stamps files with it, in nanoseconds.
pub(crate) fn coarse_clock_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct is filled by the call.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &mut time) };
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

/// What is at a path; a link is not followed.
pub(crate) fn status_at(path: &Path) -> io::Result<Status> {
    statx(libc::AT_FDCWD, &c_string(path.as_os_str())?, libc::AT_SYMLINK_NOFOLLOW)
}

/// Whether the effective user may open what is behind the descriptor for writing.
pub(crate) fn may_write(fd: impl AsFd) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_EACCESS;
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: only values and a constant string are passed.
    let asked = unsafe {
        check_long(libc::syscall(libc::SYS_faccessat2, fd, c"".as_ptr(), libc::W_OK, flags))
    };
    match asked {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            may_write_by_name(fd)
        }
        other => other.map(drop),
    }
}

/// The same before Linux 5.8, and under a filter that is older than the call. The older call asks
/// about the real user, who must be the effective one.
fn may_write_by_name(fd: RawFd) -> io::Result<()> {
    let name = c_string(std::ffi::OsStr::new(&format!("/proc/self/fd/{fd}")))?;
    // SAFETY: values, and a live C string.
    unsafe {
        if libc::getuid() != libc::geteuid() || libc::getgid() != libc::getegid() {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        check(libc::access(name.as_ptr(), libc::W_OK))
    }
    .map(drop)
}

/// Allocates the range, so that touching it cannot fail.
pub(crate) fn allocate(file: impl AsFd, at: u64, bytes: u64) -> io::Result<()> {
    fallocate(file, 0, at, bytes)
}

/// Gives the range's memory back; it reads as zeros.
pub(crate) fn punch(file: impl AsFd, at: u64, bytes: u64) -> io::Result<()> {
    fallocate(file, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, at, bytes)
}

fn fallocate(file: impl AsFd, mode: c_int, at: u64, bytes: u64) -> io::Result<()> {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: only values are passed.
    retry(|| unsafe { check(libc::fallocate64(fd, mode, at as i64, bytes as i64)) }).map(drop)
}

/// Bytes that are free for this user on the file system of `file`.
pub(crate) fn free_bytes(file: impl AsFd) -> io::Result<u64> {
    let mut buffer = MaybeUninit::<libc::statfs64>::zeroed();
    // SAFETY: `buffer` has room for one statfs64 and is valid when zero.
    let found = unsafe {
        check(libc::fstatfs64(file.as_fd().as_raw_fd(), buffer.as_mut_ptr()))?;
        buffer.assume_init()
    };
    Ok(found.f_bavail.saturating_mul(found.f_bsize as u64))
}

/// Whether a lock is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    Wait,
    Try,
}

/// Takes the exclusive flock of the description.
pub(crate) fn lock(file: impl AsFd, patience: Patience) -> io::Result<()> {
    let operation = match patience {
        Patience::Wait => libc::LOCK_EX,
        Patience::Try => libc::LOCK_EX | libc::LOCK_NB,
    };
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: only values are passed.
    retry(|| unsafe { check(libc::flock(fd, operation)) }).map(drop)
}

/// A file that is locked as long as this lives, even where a fork has copied the descriptor.
pub(crate) struct Locked(File);

impl Locked {
    /// Takes the exclusive flock without waiting.
    pub(crate) fn try_new(file: File) -> io::Result<Locked> {
        lock(&file, Patience::Try)?;
        Ok(Locked(file))
    }
}

impl Deref for Locked {
    type Target = File;
    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: only values are passed.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// Random bits.
pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer is live and its length is passed.
    retry(|| unsafe {
        check_long(libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) as c_long)
    })?;
    Ok(u64::from_ne_bytes(bytes))
}

pub(crate) fn effective_uid() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

pub(crate) fn page_bytes() -> u64 {
    // SAFETY: takes a value; the page size is always known.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// A resource that the kernel limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Descriptors,
    FileBytes,
    CpuSeconds,
}

impl Resource {
    /// The limit in force: {soft, hard}; `u64::MAX` is none.
    pub(crate) fn limit(self) -> io::Result<(u64, u64)> {
        let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is live and of the type that the call fills.
        unsafe { check(libc::getrlimit64(self.number() as _, &mut limit))? };
        Ok((limit.rlim_cur, limit.rlim_max))
    }

    /// Raises the soft limit to the hard limit.
    pub(crate) fn raise(self) -> io::Result<()> {
        let (_, hard) = self.limit()?;
        let limit = libc::rlimit64 { rlim_cur: hard, rlim_max: hard };
        // SAFETY: `limit` is live and only read.
        unsafe { check(libc::setrlimit64(self.number() as _, &limit)) }.map(drop)
    }

    fn number(self) -> i64 {
        i64::from(match self {
            Resource::Descriptors => libc::RLIMIT_NOFILE,
            Resource::FileBytes => libc::RLIMIT_FSIZE,
            Resource::CpuSeconds => libc::RLIMIT_CPU,
        })
    }
}

/// What lies in a ledger's file, and where.
///
/// # Safety
/// Nothing but atomics, of which every bit pattern is valid.
pub(crate) unsafe trait Part {
    const AT: u64;
}
// SAFETY: all its fields are atomics or arrays and structs of them.
unsafe impl Part for Ledger {
    const AT: u64 = 0;
}
// SAFETY: as above.
unsafe impl Part for Observations {
    const AT: u64 = OBSERVATIONS_AT;
}
// SAFETY: as above.
unsafe impl Part for Trace {
    const AT: u64 = TRACE_AT;
}

/// Everything of a ledger's file but the chunks, mapped.
pub(crate) type Mapping = Mapped<Ledger>;

/// A part of a ledger's file, mapped and shared.
pub(crate) struct Mapped<T: Part> {
    address: ptr::NonNull<T>,
}

// SAFETY: a Mapped is a shared reference to atomics that stays mapped as long as it lives.
unsafe impl<T: Part> Send for Mapped<T> {}
// SAFETY: as above.
unsafe impl<T: Part> Sync for Mapped<T> {}

impl<T: Part> Mapped<T> {
    /// Maps its part of `file`, which must be there.
    pub(crate) fn new(file: &File) -> io::Result<Mapped<T>> {
        if status(file)?.size < T::AT + size_of::<T>() as u64 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<T>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                T::AT as libc::off_t,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the range was mapped just now; the advice keeps it out of core dumps.
        unsafe { libc::madvise(address, size_of::<T>(), libc::MADV_DONTDUMP) };
        ptr::NonNull::new(address.cast())
            .map(|address| Mapped { address })
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
    }
}

impl<T: Part> Deref for Mapped<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: mapped for as long as `self` lives, page-aligned, large enough (checked in `new`;
        // nobody shrinks a ledger), and every bit pattern is valid (`Part`).
        unsafe { self.address.as_ref() }
    }
}

impl<T: Part> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; no reference outlives `self`.
        unsafe { libc::munmap(self.address.as_ptr().cast(), size_of::<T>()) };
    }
}

/// A private copy of a ledger: nobody can change it, and a hole in the file cannot raise SIGBUS.
pub(crate) fn read_ledger(file: &File) -> io::Result<Box<Ledger>> {
    let layout = Layout::new::<Ledger>();
    // SAFETY: the layout is not empty; zeros are a valid Ledger; the box frees with the same layout.
    let mut ledger = unsafe {
        let memory = alloc_zeroed(layout).cast::<Ledger>();
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        Box::from_raw(memory)
    };
    // SAFETY: the box is not shared yet, and any bytes are a valid Ledger.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut(ptr::from_mut(&mut *ledger).cast::<u8>(), layout.size())
    };
    file.read_exact_at(bytes, 0)?;
    Ok(ledger)
}

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
    let thread = unsafe {
        let head: *const RobustHead = head;
        check_long(libc::syscall(libc::SYS_set_robust_list, head, size_of::<RobustHead>()))?;
        libc::syscall(libc::SYS_gettid) as u32
    };
    word.store(thread, std::sync::atomic::Ordering::SeqCst);
    Ok(())
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

    /// Wakes whoever waits, now or next.
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

/// Stack of the process that [`detach`] makes.
const DETACHED_STACK_BYTES: usize = 512 << 10;

/// Runs `task` in a new process that is no child of the caller and has a session of its own.
///
/// The caller sees no signal, no child and no descriptor of it. It must have one thread only, as
/// the new process is a copy of it that goes on without exec. All signals are blocked in `task`.
pub(crate) fn detach<Task: FnOnce()>(task: Task) -> io::Result<()> {
    // Where the caller adopts orphans (an attribute that survives exec), it would adopt this one.
    let mut adopts: c_int = 0;
    // SAFETY: the kernel stores one int.
    unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &mut adopts) };
    if adopts != 0 {
        // SAFETY: only values are passed.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 0) };
    }
    // The middle process shares this one's memory: no handler of this one may run in it.
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both sets are live; a zeroed set is valid.
    unsafe {
        let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = detach_now(task);
    // SAFETY: the set was filled by the call above.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    if adopts != 0 {
        // SAFETY: only values are passed.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    }
    result
}

/// The middle process: makes the last one, which does the task, and ends.
extern "C" fn middle_process<Task: FnOnce()>(task: *mut c_void) -> c_int {
    // SAFETY: `task` is the option that `detach_now` holds while this process runs. libc's fork is
    // used for the last process so that libc knows its own thread id there. The middle process, which
    // has the caller's memory, ends at once without running anything of the caller's; the task is
    // taken in the last one only, in its own copy of the memory.
    unsafe {
        libc::setsid();
        match libc::fork() {
            -1 => libc::_exit(io::Error::last_os_error().raw_os_error().unwrap_or(255)),
            0 => {
                if let Some(task) = (*task.cast::<Option<Task>>()).take() {
                    task();
                }
                libc::_exit(0)
            }
            _ => libc::_exit(0),
        }
    }
}

fn detach_now<Task: FnOnce()>(task: Task) -> io::Result<()> {
    let mut task = Some(task);
    // SAFETY: a new private mapping for a stack, given back below. The middle process shares memory
    // with this one, which the kernel stops until it has ended (CLONE_VFORK), so that one copy of
    // the memory is made and not two. Its end raises no signal (exit signal 0). The caller has one
    // thread, so the last process lacks no thread that might have held a lock.
    unsafe {
        let stack = libc::mmap(
            ptr::null_mut(),
            DETACHED_STACK_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
            -1,
            0,
        );
        if stack == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let middle = check(libc::clone(
            middle_process::<Task>,
            stack.byte_add(DETACHED_STACK_BYTES),
            libc::CLONE_VM | libc::CLONE_VFORK,
            ptr::from_mut(&mut task).cast(),
        ));
        let mut status: c_int = 0;
        // __WALL: also children whose end raises no SIGCHLD. Such a child is never reaped by an
        // ignored SIGCHLD, so it is there.
        let waited = middle
            .and_then(|middle| retry(|| check(libc::waitpid(middle, &mut status, libc::__WALL))));
        libc::munmap(stack, DETACHED_STACK_BYTES);
        waited?;
        match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
            (true, 0) => Ok(()),
            (true, errno) => Err(io::Error::from_raw_os_error(errno)),
            _ => Err(io::Error::from_raw_os_error(libc::ECHILD)),
        }
    }
}

/// First number that [`keep_only`] gives: 0, 1 and 2 are /dev/null.
const FIRST_KEPT: RawFd = 3;

/// Closes every descriptor of the process but `kept`, which are moved and returned in order.
pub(crate) fn keep_only<const N: usize>(kept: [OwnedFd; N]) -> io::Result<[OwnedFd; N]> {
    // First out of the way of the places where they belong.
    let high = FIRST_KEPT + N as RawFd;
    let mut moved = [-1; N];
    for (place, fd) in moved.iter_mut().zip(&kept) {
        // SAFETY: only values are passed.
        *place = unsafe { check(libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, high))? };
    }
    // Not closed here but below, with all others.
    kept.into_iter().for_each(std::mem::forget);
    // SAFETY: this process is a fresh copy in which nothing else uses its descriptors: whoever owned
    // them stayed behind in the original. Only values and a constant string are passed.
    unsafe {
        for (index, fd) in moved.iter().enumerate() {
            check(libc::dup3(*fd, FIRST_KEPT + index as RawFd, libc::O_CLOEXEC))?;
        }
        if libc::syscall(libc::SYS_close_range, high, u32::MAX, 0) == -1 {
            // Linux before 5.9. Pidfds are as old, but a sandbox may refuse the call.
            let (soft, _) = Resource::Descriptors.limit()?;
            (high..soft.min(1 << 20) as RawFd).for_each(|fd| {
                libc::close(fd);
            });
        }
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        // Without /dev/null something that cannot be written takes its place, so that no message of
        // a library can ever land in a user's file that got number 2.
        let null = if null == -1 { FIRST_KEPT } else { null };
        for fd in 0..FIRST_KEPT {
            check(libc::dup2(null, fd))?;
        }
        if null > FIRST_KEPT {
            libc::close(null);
        }
        Ok(std::array::from_fn(|index| OwnedFd::from_raw_fd(FIRST_KEPT + index as RawFd)))
    }
}

/// Default for every signal but those that a terminal, a shutdown or a limit sends: these are
/// ignored, so that the caller ends when its work is done and not before. Nothing is blocked.
pub(crate) fn settle_signals() {
    const IGNORED: [c_int; 12] = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGPIPE,
        libc::SIGALRM,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGXFSZ,
        libc::SIGXCPU,
        libc::SIGVTALRM,
        libc::SIGPROF,
    ];
    // SAFETY: only constant dispositions are set; a refusal (SIGKILL, libc's own) is no matter.
    unsafe {
        for signal in 1..=libc::SIGRTMAX() {
            let ignored = IGNORED.contains(&signal);
            libc::signal(signal, if ignored { libc::SIG_IGN } else { libc::SIG_DFL });
        }
        let mut none = MaybeUninit::<libc::sigset_t>::zeroed();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

/// Gives the process a name, for `ps` and `pkill`: the short one, and the command line, which would
/// else be the caller's, so that `pkill -f PROGRAM` would find this process too.
pub(crate) fn rename_process(name: &CStr, arguments: Option<(usize, usize)>) {
    // SAFETY: a constant string is passed and copied.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    let Some((start, end)) = arguments.filter(|(start, end)| *start != 0 && start < end) else {
        return;
    };
    let name = name.to_bytes();
    // SAFETY: the kernel gave this range as the place of the arguments on the stack of this process;
    // it is writable, private to it, and nothing in this process reads arguments any more.
    unsafe {
        ptr::write_bytes(start as *mut u8, 0, end - start);
        ptr::copy_nonoverlapping(name.as_ptr(), start as *mut u8, name.len().min(end - start - 1));
    }
}

/// Ends the process without running anything.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: takes a value, never returns.
    unsafe { libc::_exit(status) }
}

/// New files are for their owner alone.
pub(crate) fn set_private_umask() {
    // SAFETY: takes a value and cannot fail.
    unsafe { libc::umask(0o077) };
}

/// A descriptor of the guard's, by its number.
///
/// The guard keeps numbers in atomics, as two threads share them; who may close is said there.
pub(crate) fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    debug_assert!(fd >= 0);
    // SAFETY: the number is one that the guard opened and has not closed; a closed one would only
    // make the following call fail with EBADF.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Takes back a descriptor that was given up to an atomic.
pub(crate) fn owned(fd: RawFd) -> OwnedFd {
    debug_assert!(fd >= 0);
    // SAFETY: the caller has swapped the number out of the atomic, so it owns it now, alone.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

//! The kernel's calls that std does not have, each as a safe function that returns errno by value.
//!
//! All unsafe code of this crate is here and below.
//!
//! # Safety
//! Every block either passes values and pointers to live locals to a system call that writes no
//! further than their size, or rests on the layout of `Ledger`: `repr(C)`, atomics only, so that
//! every bit pattern is a valid one and shared access from other processes is no data race.

#![allow(unsafe_code)]

mod mapping;
mod own_process;
mod proc;
mod waiting;

pub(crate) use mapping::{Mapped, Mapping, read_ledger};
pub(crate) use own_process::{
    detach, end_by_fault, exit_now, rename_process, set_private_umask, set_signals,
};
pub(crate) use proc::{hold_proc, open_in_proc, own_link, own_path, read_in_proc, set_modified};
use std::ffi::{CStr, CString, OsStr, c_int, c_long};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sweetspot_core::file_systems;
use sweetspot_core::unwritten::Left;
pub(crate) use waiting::{
    Epoll, Event, FUTEX_OWNER_DIED, Naps, copy_of, futex_wait, futex_wake, is_dead, is_no_more,
    is_same_description, is_same_table, offset, open_flags, own_until_death, pidfd_open, rest,
    thread_id,
};

pub(crate) fn check(result: c_int) -> io::Result<c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn check_long(result: c_long) -> io::Result<c_long> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// So often in a row no signal interrupts; a filter of system calls may answer so each time.
const INTERRUPTED_MAX: u32 = 1 << 16;

/// Calls again while a signal interrupts.
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut interrupted = 0;
    loop {
        match call() {
            Err(error)
                if error.kind() == io::ErrorKind::Interrupted && interrupted < INTERRUPTED_MAX =>
            {
                interrupted += 1;
            }
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

/// The same for a name in the folder opened as `folder`.
pub(crate) fn open_at(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    flags: c_int,
    mode: u32,
) -> io::Result<OwnedFd> {
    let name = c_string(name)?;
    // SAFETY: as in `open`; `folder` is open.
    retry(|| unsafe {
        check(libc::openat(folder.as_raw_fd(), name.as_ptr(), flags | libc::O_CLOEXEC, mode))
            .map(|fd| OwnedFd::from_raw_fd(fd))
    })
}

/// Opens a folder by a path in which nothing may be a link. ELOOP: something is.
pub(crate) fn open_folder_without_links(path: &Path) -> io::Result<OwnedFd> {
    let path = c_string(path.as_os_str())?;
    // SAFETY: all zeros is a valid value, and the size below is this one's.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_NO_SYMLINKS;
    // SAFETY: `path` is a live C string, `how` outlives the call; the result is a new descriptor that
    // nobody else owns.
    retry(|| unsafe {
        let (at, size) = (libc::AT_FDCWD, std::mem::size_of_val(&how));
        check_long(libc::syscall(libc::SYS_openat2, at, path.as_ptr(), &raw const how, size))
            .map(|fd| OwnedFd::from_raw_fd(fd as c_int))
    })
}

/// Removes a file by its name in a folder.
pub(crate) fn remove_at(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let name = c_string(name)?;
    // SAFETY: `name` is a live C string, `folder` is open.
    unsafe { check(libc::unlinkat(folder.as_raw_fd(), name.as_ptr(), 0)) }.map(drop)
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
    pub(crate) fn left(&self) -> Left {
        Left { size: self.size, mtime_ns: self.mtime_ns, ctime_ns: self.ctime_ns }
    }

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
    let to = buffer.as_mut_ptr();
    // SAFETY: `path` is a live C string, `buffer` has room for one statx and is valid when zero.
    let ask = |flags| unsafe { check(libc::statx(fd, path.as_ptr(), flags, mask, to)) };
    match ask(flags) {
        // Where the kernel has no such call, libc makes an older one, and knows no way not to ask a server.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            ask(flags & !libc::AT_STATX_DONT_SYNC)?;
        }
        answer => drop(answer?),
    }
    // SAFETY: filled by now.
    let found = unsafe { buffer.assume_init() };
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

/// Gives this thread a table of descriptors of its own, a copy, if that is allowed.
pub(crate) fn leave_table() {
    // SAFETY: only values are passed; what others have open stays open for them.
    unsafe { libc::unshare(libc::CLONE_FILES) };
}

/// The wall clock as the kernel stamps files with it, in nanoseconds.
pub(crate) fn coarse_clock_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the struct is filled by the call.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &mut time) };
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

/// The wall clock, in nanoseconds.
pub(crate) fn wall_clock_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}

/// What is at a path; a link is not followed.
pub(crate) fn status_at(path: &Path) -> io::Result<Status> {
    statx(libc::AT_FDCWD, &c_string(path.as_os_str())?, libc::AT_SYMLINK_NOFOLLOW)
}

/// What is behind a link of /proc, as far as it is known without asking a server.
pub(crate) fn status_behind(link: &Path) -> io::Result<Status> {
    statx(libc::AT_FDCWD, &c_string(link.as_os_str())?, libc::AT_STATX_DONT_SYNC)
}

/// The same of a descriptor, by its number.
pub(crate) fn status_at_hand(fd: RawFd) -> io::Result<Status> {
    statx(fd, c"", libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC)
}

/// The number of the mount that a descriptor came by, which no other one ever gets; none before Linux 6.8.
pub(crate) fn mount_at_hand(fd: RawFd) -> Option<u64> {
    const STATX_MNT_ID_UNIQUE: u32 = 0x4000;
    let mut buffer = MaybeUninit::<libc::statx>::zeroed();
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: a constant string; `buffer` has room for one statx and is valid when zero.
    let found = unsafe {
        let to = buffer.as_mut_ptr();
        check(libc::statx(fd, c"".as_ptr(), flags, STATX_MNT_ID_UNIQUE, to)).ok()?;
        buffer.assume_init()
    };
    (found.stx_mask & STATX_MNT_ID_UNIQUE != 0).then_some(found.stx_mnt_id)
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

fn file_system(file: impl AsFd) -> io::Result<libc::statfs64> {
    let mut buffer = MaybeUninit::<libc::statfs64>::zeroed();
    // SAFETY: `buffer` has room for one statfs64 and is valid when zero.
    unsafe {
        check(libc::fstatfs64(file.as_fd().as_raw_fd(), buffer.as_mut_ptr()))?;
        Ok(buffer.assume_init())
    }
}

/// Whether a server, here or elsewhere, keeps the times of a file. What was written may change them later. Also where
/// nobody tells.
pub(crate) fn is_served(file: impl AsFd) -> bool {
    let device = status_at_hand(file.as_fd().as_raw_fd()).map_or(0, |found| found.device);
    file_system(file)
        .map_or(true, |found| file_systems::is_served(found.f_type as u64, libc::major(device)))
}

/// Bytes that are free for this user on the file system of `file`.
pub(crate) fn free_bytes(file: impl AsFd) -> io::Result<u64> {
    let found = file_system(file)?;
    // Blocks are counted in the one size; the other is what the file system likes best.
    let block_bytes = if found.f_frsize > 0 { found.f_frsize } else { found.f_bsize };
    Ok(found.f_bavail.saturating_mul(block_bytes as u64))
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
    AddressBytes,
    DataBytes,
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
            Resource::AddressBytes => libc::RLIMIT_AS,
            Resource::DataBytes => libc::RLIMIT_DATA,
        })
    }
}

/// Whether an error says what this process lacks, and nothing of a file or another process: descriptors, memory.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
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

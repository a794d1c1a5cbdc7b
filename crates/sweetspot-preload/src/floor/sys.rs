//! System calls of our own, made without libc.
//!
//! libc's functions are what we stand in front of: calling them from inside would meet our own
//! hooks, set errno, and make cancellation points where the program has none. Each call here returns
//! the kernel's answer: a value, or a negated errno.
//!
//! Safety: a raw system call can do anything to the process that the kernel allows. The functions
//! here are `unsafe` where memory is handed over, and safe where the kernel checks all arguments.
#![allow(unsafe_code)]

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sweetspot_core::file_systems::{self, FUSE, NFS};
use sweetspot_core::unwritten::Left;

mod digits;
mod extents;
mod flags;
mod sets;

pub use self::digits::{InProc, decimal, in_proc};
pub use self::extents::has_place_at;
pub use self::flags::{closes_at_exec, is_direct_by_server, keeps_pages, open_flags};
pub use self::sets::{change_signal_mask, pending_signals, set_signal_mask, take_signal};
pub use crate::arch::{call, stack_pointer, thread_pointer};

/// A negated errno from the kernel, made positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// The kernel's answer as a result.
pub fn result(answer: isize) -> Result<usize, Errno> {
    if (-4095..0).contains(&answer) { Err(Errno(-answer as i32)) } else { Ok(answer as usize) }
}

macro_rules! syscall {
    ($number:ident $(, $arg:expr)* $(,)?) => {
        $crate::floor::sys::call(libc::$number as i64, $crate::floor::sys::arguments([$($arg as usize),*]))
    };
}
pub(crate) use syscall;

/// The arguments of a call, those that it does not have zero.
#[inline(always)]
pub fn arguments<const N: usize>(given: [usize; N]) -> [usize; 6] {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&given);
    all
}

/// `lseek`.
#[inline(always)]
pub fn seek(fd: i32, offset: i64, whence: i32) -> isize {
    // SAFETY: no memory is handed over.
    unsafe { syscall!(SYS_lseek, fd as isize, offset, whence) }
}

/// `pread64` into memory of our own or of the caller.
///
/// # Safety
/// `buffer` must be writable for `len` bytes, or not mapped at all (EFAULT).
pub unsafe fn read_at(fd: i32, buffer: *mut u8, len: usize, offset: u64) -> isize {
    // SAFETY: as the caller says.
    unsafe { syscall!(SYS_pread64, fd as isize, buffer, len, offset) }
}

/// `pwrite64`.
///
/// # Safety
/// `buffer` must be readable for `len` bytes, or not mapped at all (EFAULT).
pub unsafe fn write_at(fd: i32, buffer: *const u8, len: usize, offset: u64) -> isize {
    // SAFETY: as the caller says.
    unsafe { syscall!(SYS_pwrite64, fd as isize, buffer, len, offset) }
}

/// `write`, at the kernel's offset.
///
/// # Safety
/// As for [`write_at`].
pub unsafe fn write(fd: i32, buffer: *const u8, len: usize) -> isize {
    // SAFETY: as the caller says.
    unsafe { syscall!(SYS_write, fd as isize, buffer, len) }
}

/// What we ask of `fstat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Status {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    pub regular: bool,
    /// Others may notice a read of it: a pipe, a terminal, a disk; not a file, nor a device that is the
    /// same for all (`/dev/zero`).
    pub is_noticed: bool,
    /// It has no name in any file system: a descriptor that stands for a process, or for signals, say.
    pub is_nameless: bool,
    /// It is the device by which programs serve files.
    pub is_fuse_device: bool,
    /// What may be done with it, and by whom: as `st_mode`.
    pub mode: u32,
    pub owner: u32,
    pub mtime_ns: u64,
    pub ctime_ns: u64,
}

impl Status {
    pub fn left(&self) -> Left {
        Left { size: self.size, mtime_ns: self.mtime_ns, ctime_ns: self.ctime_ns }
    }
}

/// `fstat`.
pub fn status(fd: i32) -> Option<Status> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let mut answer = -libc::EINTR as isize;
    // A file system in user space may let signals interrupt it, or say that for ever.
    for _ in 0..sweetspot_core::unwritten::INTERRUPTED_MAX {
        // SAFETY: `stat` is large enough for the kernel's struct stat on both architectures.
        answer = unsafe { syscall!(SYS_fstat, fd as isize, stat.as_mut_ptr()) };
        if answer != -libc::EINTR as isize {
            break;
        }
    }
    // SAFETY: zeroed, then filled by the kernel; every bit pattern is valid.
    (answer == 0).then(|| status_of(&unsafe { stat.assume_init() }))
}

/// `fstatat`.
///
/// # Safety
/// As of the call: a bad address is an error.
pub unsafe fn status_at(folder: i32, path: *const core::ffi::c_char, flags: i32) -> Option<Status> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: as the caller says; `stat` is large enough.
    let answer =
        unsafe { syscall!(SYS_newfstatat, folder as isize, path, stat.as_mut_ptr(), flags) };
    // SAFETY: as in `status`.
    (answer == 0).then(|| status_of(&unsafe { stat.assume_init() }))
}

/// What the kernel knows of a file without asking a server for it: which one it is, and its size. Not its
/// times, which the server gives it: before it tells them, all that was written has to be there.
pub fn status_at_hand(fd: i32) -> Option<Status> {
    const DONT_SYNC: i32 = 0x4000; // AT_STATX_DONT_SYNC
    // SAFETY: a string that ends in a zero.
    let at_hand = unsafe { status_at(fd, c"".as_ptr(), libc::AT_EMPTY_PATH | DONT_SYNC) };
    let status = at_hand.or_else(|| status(fd))?;
    Some(Status { mtime_ns: 0, ctime_ns: 0, ..status })
}

/// The major number of `/dev/null`, `/dev/zero`, `/dev/random` and their like.
const MEMORY_DEVICES: u32 = 1;

fn status_of(stat: &libc::stat) -> Status {
    Status {
        device: stat.st_dev,
        inode: stat.st_ino,
        size: stat.st_size as u64,
        regular: stat.st_mode & libc::S_IFMT == libc::S_IFREG,
        is_noticed: match stat.st_mode & libc::S_IFMT {
            libc::S_IFREG | libc::S_IFDIR => false,
            libc::S_IFCHR => libc::major(stat.st_rdev) != MEMORY_DEVICES,
            _ => true,
        },
        is_nameless: stat.st_mode & libc::S_IFMT == 0,
        is_fuse_device: stat.st_rdev == libc::makedev(10, 229),
        mode: stat.st_mode,
        owner: stat.st_uid,
        mtime_ns: (stat.st_mtime as u64).wrapping_mul(1_000_000_000) + stat.st_mtime_nsec as u64,
        ctime_ns: (stat.st_ctime as u64).wrapping_mul(1_000_000_000) + stat.st_ctime_nsec as u64,
    }
}

/// `futimens`: the time of modification alone, in nanoseconds.
pub fn set_modified(fd: i32, modified_ns: u64) {
    let time =
        |ns: i64| libc::timespec { tv_sec: (modified_ns / 1_000_000_000) as i64, tv_nsec: ns };
    let times = [time(libc::UTIME_OMIT), time((modified_ns % 1_000_000_000) as i64)];
    // SAFETY: two times, which live through the call.
    unsafe { syscall!(SYS_utimensat, fd as isize, 0, times.as_ptr(), 0) };
}

/// What `fstatfs` says of a file system.
#[derive(Clone, Copy)]
pub struct FileSystem {
    magic: u64,
    /// How large it is, in blocks.
    blocks: u64,
    /// `ST_*`.
    flags: u64,
    /// Free for everyone.
    pub free_bytes: u64,
}

impl FileSystem {
    /// Whether programs serve it.
    pub fn is_fuse(&self) -> bool {
        self.magic == FUSE
    }

    /// Whether a server keeps the files, and what is written reaches it later: at a close, or when somebody
    /// asks for times.
    pub fn is_served_late(&self) -> bool {
        self.magic == NFS
    }

    /// Whether another process, here or elsewhere, serves its files, which have this device.
    pub fn is_served(&self, device: u64) -> bool {
        file_systems::is_served(self.magic, libc::major(device))
    }

    /// Whether each read shows in the times of its files.
    pub fn notes_reads(&self) -> bool {
        const ST_NOATIME: u64 = 1024;
        const ST_RELATIME: u64 = 4096;
        self.flags & (ST_NOATIME | ST_RELATIME) == 0
    }

    /// Whether its files look regular, but are made up while they are read: they take no room. Of those in memory
    /// and those that programs serve that proves nothing, and the variables of a firmware have room.
    pub fn is_made_up(&self) -> bool {
        const TMPFS: u64 = 0x0102_1994;
        const RAMFS: u64 = 0x8584_58f6;
        const EFIVARFS: u64 = 0xde5e_81e4;
        match self.magic {
            TMPFS | RAMFS | FUSE => false,
            magic => self.blocks == 0 || magic == EFIVARFS,
        }
    }
}

/// `fstatfs`.
pub fn file_system(fd: i32) -> Option<FileSystem> {
    let stat = statistics(fd)?;
    Some(FileSystem {
        magic: stat.f_type as u64,
        blocks: stat.f_blocks,
        flags: stat.f_flags as u64,
        free_bytes: stat.f_bavail.saturating_mul(block_bytes(&stat)),
    })
}

/// In what blocks are counted. The other size is what the file system likes best: many times that, with some.
fn block_bytes(stat: &libc::statfs64) -> u64 {
    if stat.f_frsize > 0 { stat.f_frsize as u64 } else { stat.f_bsize as u64 }
}

fn statistics(fd: i32) -> Option<libc::statfs64> {
    let mut stat = core::mem::MaybeUninit::<libc::statfs64>::zeroed();
    // SAFETY: on 64-bit machines the kernel's struct statfs is libc's statfs64.
    let answer = unsafe { syscall!(SYS_fstatfs, fd as isize, stat.as_mut_ptr()) };
    if answer != 0 {
        return None;
    }
    // SAFETY: zeroed, then filled by the kernel.
    Some(unsafe { stat.assume_init() })
}

/// Whether each write to a file is on the device before it returns, as its file system was mounted so.
pub fn is_synchronous(fd: i32) -> bool {
    const ST_SYNCHRONOUS: i64 = 16;
    statistics(fd).is_some_and(|stat| stat.f_flags & ST_SYNCHRONOUS != 0)
}

/// Anonymous private memory, zeroed and not yet touched.
pub fn map_memory(bytes: usize) -> Option<*mut u8> {
    // SAFETY: a new mapping at an address that the kernel chooses disturbs nothing.
    let answer = unsafe {
        syscall!(
            SYS_mmap,
            0,
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1isize,
            0
        )
    };
    result(answer).ok().map(|address| address as *mut u8)
}

/// Changes what may be done with pages; whether that was allowed. Nothing to do for none.
pub fn protect(pages: &Range<usize>, protection: i32) -> bool {
    // SAFETY: what lies there stays readable.
    pages.is_empty() || unsafe { syscall!(SYS_mprotect, pages.start, pages.len(), protection) == 0 }
}

/// Whether this thread may read the processor's clock by an instruction; where that cannot be forbidden,
/// it may.
pub fn may_read_time() -> bool {
    const PR_TSC_ENABLE: i32 = 1;
    let mut state = PR_TSC_ENABLE;
    // SAFETY: the kernel stores a number, or fails.
    unsafe { syscall!(SYS_prctl, libc::PR_GET_TSC, &raw mut state, 0, 0, 0) };
    state == PR_TSC_ENABLE
}

/// Lets another thread run.
pub fn give_way() {
    // SAFETY: no arguments.
    unsafe { syscall!(SYS_sched_yield) };
}

/// Sleeps.
pub fn sleep_us(microseconds: u64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: (microseconds * 1000) as i64 };
    // SAFETY: the time lives through the call.
    unsafe { syscall!(SYS_nanosleep, &raw const time, 0) };
}

/// Whether valgrind runs this program: it takes a question for a bad address for the use of one.
#[unsafe(link_section = ".data")]
pub static UNDER_VALGRIND: AtomicBool = AtomicBool::new(false);

/// Whether the eight bytes around an address can be read: the kernel reads them as a signal set, and
/// finds that it knows no such way to use one. No handler runs, whatever the address is.
pub fn is_readable(address: usize) -> bool {
    const NO_WAY: i32 = -1;
    let word = address & !7;
    // Null would mean no set. And valgrind says what is wrong with those that cannot.
    if word == 0 || UNDER_VALGRIND.load(Relaxed) {
        return word != 0;
    }
    // SAFETY: the kernel checks the memory, and changes nothing.
    let answer = unsafe { syscall!(SYS_rt_sigprocmask, NO_WAY, word, 0, 8) };
    answer != -(libc::EFAULT as isize)
}

/// Whether a process with this id is there (it may be a zombie).
pub fn process_exists(process: i32) -> bool {
    // SAFETY: signal 0 is only a question.
    unsafe { syscall!(SYS_kill, process as isize, 0) != -(libc::ESRCH as isize) }
}

/// How another process fares.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Gone, or a child that nobody has waited for yet.
    Dead,
    /// A child that has stopped, of which nobody was told by a wait yet.
    Stopped,
    /// Anything else, as far as can be seen.
    Lives,
}

/// The child of which a `waitid` would tell, and what.
fn child_of(kind: libc::idtype_t, process: i32, events: i32) -> (i32, i32) {
    let mut info = core::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = events | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: the kernel fills the struct, if there is something to say; zero says nothing.
    unsafe {
        let into = info.as_mut_ptr();
        syscall!(SYS_waitid, kind, process as isize, into, options, 0);
        let info = info.assume_init();
        (info.si_pid(), info.si_code)
    }
}

/// Whether a child is dead, and nobody was told by a wait yet.
pub fn has_dead_child() -> bool {
    child_of(libc::P_ALL, 0, libc::WEXITED).0 != 0
}

/// Whether a child has stopped, of which nobody was told by a wait yet.
pub fn has_stopped_child() -> bool {
    child_of(libc::P_ALL, 0, libc::WSTOPPED).0 != 0
}

/// How a process fares. It stays as it is.
pub fn life_of(process: i32) -> Life {
    let (child, code) = child_of(libc::P_PID, process, libc::WEXITED | libc::WSTOPPED);
    match code {
        libc::CLD_STOPPED | libc::CLD_TRAPPED if child == process => Life::Stopped,
        _ if child == process || !process_exists(process) => Life::Dead,
        _ => Life::Lives,
    }
}

/// Whether a descriptor of this process and one of another are of the same description; `None` where the
/// kernel does not say.
pub fn is_same_description(fd: i32, other: (u32, i32)) -> Option<bool> {
    const KCMP_FILE: isize = 0;
    let (process, other_fd) = (other.0 as isize, other.1 as isize);
    // SAFETY: only values are passed.
    let order = unsafe {
        syscall!(SYS_kcmp, process_id() as isize, process, KCMP_FILE, fd as isize, other_fd)
    };
    match order as i32 {
        0.. => Some(order == 0),
        error if error == -libc::EBADF => Some(false),
        _ => None,
    }
}

/// The parent's number.
pub fn parent_id() -> u32 {
    // SAFETY: nothing is passed.
    unsafe { syscall!(SYS_getppid) as u32 }
}

/// Whether a process is dead.
pub fn is_dead(process: i32) -> bool {
    life_of(process) == Life::Dead
}

/// Whether a process has given up its memory, as one that ends does before anything of its own is free;
/// also where the kernel does not say.
pub fn has_no_memory(process: i32) -> bool {
    // SAFETY: no pages are moved or asked for: what is checked is only whether there is memory.
    unsafe { syscall!(SYS_move_pages, process as isize, 0, 0, 0, 0, 0) != 0 }
}

/// The process id, asked of the kernel.
pub fn process_id() -> i32 {
    // SAFETY: no arguments.
    unsafe { syscall!(SYS_getpid) as i32 }
}

/// The number of this thread, asked of the kernel.
pub fn thread_id() -> i32 {
    // SAFETY: no arguments.
    unsafe { syscall!(SYS_gettid) as i32 }
}

/// Whether a descriptor takes bytes, and somebody will read them, now or within so many milliseconds.
pub fn can_write(fd: i32, timeout_ms: i64) -> bool {
    let mut asked = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    let timeout =
        libc::timespec { tv_sec: timeout_ms / 1000, tv_nsec: timeout_ms % 1000 * 1_000_000 };
    // SAFETY: both live through the call; the mask stays as it is.
    let found = unsafe { syscall!(SYS_ppoll, &raw mut asked, 1, &raw const timeout, 0, 8) };
    found == 1 && asked.revents == libc::POLLOUT
}

/// Sleeps until `word` is no longer `expected`, is woken, or `timeout_ms` have passed.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, expected: u32, timeout_ms: u64) {
    let timeout = libc::timespec {
        tv_sec: (timeout_ms / 1000) as i64,
        tv_nsec: (timeout_ms % 1000 * 1_000_000) as i64,
    };
    // SAFETY: the word and the timeout live through the call.
    unsafe {
        syscall!(SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &raw const timeout, 0, 0)
    };
}

/// Wakes anyone who sleeps on `word`.
pub fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    // SAFETY: the word lives through the call.
    unsafe { syscall!(SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX, 0, 0, 0) };
}

/// Whether the caller runs on the alternate signal stack.
pub fn on_alternate_stack() -> bool {
    let mut stack = core::mem::MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: the kernel fills the struct.
    unsafe {
        syscall!(SYS_sigaltstack, 0, stack.as_mut_ptr());
        stack.assume_init().ss_flags & libc::SS_ONSTACK != 0
    }
}

/// The user by whose rights this process acts.
pub fn effective_user() -> u32 {
    // SAFETY: no arguments.
    unsafe { syscall!(SYS_geteuid) as u32 }
}

/// Whether files may grow without limit.
pub fn file_size_unlimited() -> bool {
    limit_of(libc::RLIMIT_FSIZE as i32) == u64::MAX
}

/// Bytes that the process may map: the smaller of its limits on addresses and on data, which counts
/// all private memory that can be written.
pub fn address_or_data_bytes_max() -> u64 {
    limit_of(libc::RLIMIT_AS as i32).min(limit_of(libc::RLIMIT_DATA as i32))
}

/// The limit on a resource that is in force; `u64::MAX`: none.
fn limit_of(resource: i32) -> u64 {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the struct.
    unsafe { syscall!(SYS_prlimit64, 0, resource, 0, &raw mut limit) };
    limit.rlim_cur
}

#[cfg(test)]
mod tests;

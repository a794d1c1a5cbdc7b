//! What the kernel says in /proc: of descriptors, and of processes.
#![allow(unsafe_code)]

use core::ffi::CStr;

use crate::floor::sys::{InProc, in_proc};
use crate::floor::{aside, sys};

/// The link in /proc to what a descriptor of this thread is: a string that ends with zero. Another thread may have
/// another table of descriptors; and of a first thread that has ended the kernel shows none.
pub fn link_of(fd: i32) -> InProc {
    in_proc(b"/proc/thread-self/fd/", fd, b"")
}

/// Space for what /proc says a descriptor is.
pub type PathBuffer = [u8; 512];

/// The path of a descriptor, for rules and for display.
pub fn path_of(fd: i32, buffer: &mut PathBuffer) -> &[u8] {
    let link = link_of(fd);
    // SAFETY: a terminated string, and a buffer of that size.
    let answer = unsafe {
        sys::syscall!(
            SYS_readlinkat,
            libc::AT_FDCWD as isize,
            link.as_ptr(),
            buffer.as_mut_ptr(),
            buffer.len()
        )
    };
    &buffer[..sys::result(answer).unwrap_or(0).min(512)]
}

/// Reads a small file of the kernel's.
pub fn read_small(path: &CStr, buffer: &mut [u8]) -> Option<usize> {
    read_small_beside(-1, path, buffer)
}

/// The same of a file that is about a descriptor, which the table of the process that reads it has to have.
fn read_small_beside(keep: i32, path: &CStr, buffer: &mut [u8]) -> Option<usize> {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: a string, a buffer of that size, and a descriptor of our own.
    let read = || unsafe {
        let fd = sys::syscall!(SYS_openat, libc::AT_FDCWD as isize, path.as_ptr(), flags, 0);
        let fd = sys::result(fd).ok()?;
        let answer = sys::syscall!(SYS_read, fd, buffer.as_mut_ptr(), buffer.len());
        sys::syscall!(SYS_close, fd);
        sys::result(answer).ok()
    };
    aside::look(keep, read)
}

/// A number behind a name at the beginning of a line of a small file of the kernel's; `None`: not all of
/// the file can be read. A line that is not there counts as 0.
pub fn number_in(path: &CStr, name: &[u8]) -> Option<u64> {
    number_beside(-1, path, name)
}

fn number_beside(keep: i32, path: &CStr, name: &[u8]) -> Option<u64> {
    let mut buffer = [0; 4096];
    let len = read_small_beside(keep, path, &mut buffer);
    let len = len.filter(|len| (1..buffer.len()).contains(len))?;
    let mut lines = buffer[..len].split(|byte| *byte == b'\n');
    let digits = lines.find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    Some(digits.iter().fold(0, |number: u64, digit| {
        number.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0')))
    }))
}

/// `/proc/PID/stat`.
pub fn stat_of(process: i32, buffer: &mut [u8; 1024]) -> Option<&[u8]> {
    let path = in_proc(b"/proc/", process, b"/stat");
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let len = read_small(path, buffer)?;
    Some(&buffer[..len])
}

/// The process that a thread belongs to, by `/proc/TID/status`.
pub fn leader_of(thread: i32) -> Option<i32> {
    let path = in_proc(b"/proc/", thread, b"/status");
    let process = number_in(CStr::from_bytes_until_nul(&path).ok()?, b"Tgid:\t")?;
    i32::try_from(process).ok().filter(|process| *process != 0)
}

/// In which function of the kernel a process waits, where that may be known.
pub fn waits_in(process: i32, buffer: &mut [u8; 64]) -> Option<&[u8]> {
    let path = in_proc(b"/proc/", process, b"/wchan");
    let len = read_small(CStr::from_bytes_until_nul(&path).ok()?, buffer)?;
    Some(&buffer[..len])
}

/// The thread that traces a process.
pub fn tracer_of(process: i32) -> Option<i32> {
    let path = in_proc(b"/proc/", process, b"/status");
    let thread = number_in(CStr::from_bytes_until_nul(&path).ok()?, b"TracerPid:\t")?;
    i32::try_from(thread).ok().filter(|thread| *thread != 0)
}

/// The process, or the thread, that a pidfd stands for.
pub fn process_behind(pidfd: i32) -> Option<i32> {
    let path = in_proc(b"/proc/thread-self/fdinfo/", pidfd, b"");
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let process = number_beside(pidfd, path, b"Pid:\t")?;
    i32::try_from(process as i64).ok().filter(|process| *process > 0)
}

/// A field of `stat`, from the third on, counted as its manual does.
pub fn stat_field(text: &[u8], number: usize) -> Option<&[u8]> {
    // The second field is the name in brackets, which may hold anything.
    let after_name = text.iter().rposition(|byte| *byte == b')')? + 2;
    text.get(after_name..)?.split(|byte| *byte == b' ').nth(number - 3)
}

/// Field 22 of /proc/self/stat: when this process started, in ticks after boot.
pub fn start_ticks() -> Option<u64> {
    const START: usize = 22;
    let mut buffer = [0; 1024];
    let len = read_small(c"/proc/self/stat", &mut buffer)?;
    sys::decimal(stat_field(&buffer[..len], START)?)
}

/// Inode of this process' pid namespace.
pub fn pid_namespace() -> Option<u64> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let path = c"/proc/thread-self/ns/pid";
    // SAFETY: a string and a struct of the right size.
    let (answer, stat) = unsafe {
        let answer = sys::syscall!(
            SYS_newfstatat,
            libc::AT_FDCWD as isize,
            path.as_ptr(),
            stat.as_mut_ptr(),
            0
        );
        (answer, stat.assume_init())
    };
    (answer == 0).then_some(stat.st_ino)
}

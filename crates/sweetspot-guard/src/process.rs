//! Becoming another program, or running it and waiting, without changing what it was given.
//!
//! A Rust program does not hand on what its caller gave it: before `main`, the runtime sets SIGPIPE
//! to "ignore" and opens `/dev/null` on a closed standard descriptor, and `std::process` sets
//! SIGPIPE back to its default when it starts something. All three can be seen by the program that
//! is started (`yes | head`, `nohup`, `prog <&-`). So what the caller gave is remembered by a
//! function in `.init_array`, which runs before the runtime, and given on by [`replace`] and
//! [`Child::start`].
//!
//! Not here: looking a program up, the environment, the ledger, printing. Nothing is sent to or
//! written for the program but the signals that [`Child::wait`] names.
//!
//! Invariant: between `fork` and `execve` only functions are called that may be called in a signal
//! handler; everything that allocates has happened before.

mod child;

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use sweetspot_core::policy::ADDRESS_BYTES_MIN;

pub use self::child::Child;
use crate::sys::Resource;

/// Whether SIGPIPE was ignored when this process started.
static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);
/// Which of the standard descriptors 0, 1 and 2 were closed when this process started.
static STANDARD_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

// SAFETY: `.init_array` holds pointers to functions that the C library calls once, before `main`;
// `remember` has the C calling convention, takes nothing, and calls only `sigaction` and `fcntl`.
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = remember;

extern "C" fn remember() {
    // SAFETY: an all-zero `sigaction` is a valid value; the kernel overwrites it.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only asks; `action` is valid for writing.
    if unsafe { libc::sigaction(libc::SIGPIPE, ptr::null(), &mut action) } == 0 {
        SIGPIPE_IGNORED.store(action.sa_sigaction == libc::SIG_IGN, Relaxed);
    }
    for (fd, closed) in (0..).zip(&STANDARD_CLOSED) {
        // SAFETY: F_GETFD has no argument and changes nothing.
        let is_refused = unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1;
        // A filter of system calls may refuse to tell, by another error.
        let is_closed = || io::Error::last_os_error().raw_os_error() == Some(libc::EBADF);
        closed.store(is_refused && is_closed(), Relaxed);
    }
}

/// Whether the limits on addresses and on data leave room for the library and the program's own needs.
/// Where the dynamic linker finds too little it prints an error. A limit that cannot be asked for is none.
pub fn has_room() -> bool {
    let limits = [Resource::AddressBytes, Resource::DataBytes].map(Resource::limit);
    limits.into_iter().flatten().all(|(bytes, _)| bytes >= ADDRESS_BYTES_MIN)
}

/// A program that is ready to be started: which file, with which arguments and environment.
pub struct Image {
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Image {
    /// Prepares `path` with all `arguments` (the first is the name by which the program knows
    /// itself) and exactly the entries of `environment`.
    ///
    /// # Errors
    /// `InvalidInput` where one of them holds a NUL byte.
    pub fn new(path: &Path, arguments: &[OsString], environment: &[OsString]) -> io::Result<Image> {
        // Each start makes all of them: one allocation for each, with room for the NUL.
        let text = |given: &OsStr| {
            let mut text = Vec::with_capacity(given.len() + 1);
            text.extend_from_slice(given.as_bytes());
            CString::new(text).map_err(io::Error::from)
        };
        Ok(Image {
            path: text(path.as_os_str())?,
            arguments: arguments.iter().map(|argument| text(argument)).collect::<Result<_, _>>()?,
            environment: environment.iter().map(|entry| text(entry)).collect::<Result<_, _>>()?,
        })
    }

    /// Null-terminated arrays of pointers into `self`, as `execve` wants them.
    pub(crate) fn pointers(&self) -> (Vec<*const libc::c_char>, Vec<*const libc::c_char>) {
        let array = |texts: &[CString]| {
            texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect::<Vec<_>>()
        };
        (array(&self.arguments), array(&self.environment))
    }

    /// Becomes the program, with what [`Image::pointers`] gave; returns where that failed, and errno
    /// says why. May be called in a signal handler.
    pub(crate) fn execute(
        &self,
        arguments: &[*const libc::c_char],
        environment: &[*const libc::c_char],
    ) {
        // SAFETY: the path is NUL-terminated, both arrays end with a null pointer and point to
        // NUL-terminated texts that `self` owns.
        unsafe { libc::execve(self.path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    }
}

/// Becomes the program: same process, same parent, same signals. Returns only what went wrong.
pub fn replace(image: &Image) -> io::Error {
    let (arguments, environment) = image.pointers();
    give_back_sigpipe();
    give_back_descriptors();
    image.execute(&arguments, &environment);
    let error = io::Error::last_os_error();
    // Still a Rust program, about to say why: a broken pipe must not end it first.
    // SAFETY: SIG_IGN is a valid disposition of SIGPIPE.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    error
}

fn give_back_sigpipe() {
    let action = if SIGPIPE_IGNORED.load(Relaxed) { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: both are valid dispositions of SIGPIPE.
    unsafe { libc::signal(libc::SIGPIPE, action) };
}

fn give_back_descriptors() {
    for (fd, closed) in (0..).zip(&STANDARD_CLOSED) {
        if closed.load(Relaxed) {
            // SAFETY: the runtime's own `/dev/null`, which nobody else was given.
            unsafe { libc::close(fd) };
        }
    }
}

/// In the child of a fork: it ends when its parent does, and so does the program that it becomes. One that is given
/// other rights stays.
pub(crate) fn die_with(parent: libc::pid_t) {
    // SAFETY: values only.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        // 0: in a pid namespace of its own the parent has no number.
        if ![0, parent].contains(&libc::getppid()) {
            libc::_exit(127);
        }
    }
}

/// Calls what writes a file in a process whose limit on file size may be small: too large a file is an error, and no
/// signal ends this process. Such a signal goes to the thread that writes, so it is taken from that one; what the
/// process does about signals stays. Nothing is started meanwhile.
pub fn with_size_errors<R>(write: impl FnOnce() -> R) -> R {
    // SAFETY: sets and a time that live while they are used, of which all zeros are valid; a valid signal.
    unsafe {
        let (mut signal, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigaddset(&mut signal, libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, &signal, &mut before);
        let answer = write();
        libc::sigtimedwait(&signal, ptr::null_mut(), &std::mem::zeroed());
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        answer
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It ended itself, with this exit status.
    Exited(u8),
    /// It was ended by this signal.
    Killed(i32),
}

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Exited(status) => write!(formatter, "exit status {status}"),
            Ended::Killed(signal) => write!(formatter, "signal {signal}"),
        }
    }
}

/// What children took that were waited for, and those that they waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Taken {
    /// On a processor.
    pub processor: Duration,
    /// Times one slept of its own will, and times one had to make way for another process.
    pub sleeps: u64,
    pub evictions: u64,
}

/// What all children have taken so far.
pub fn taken_by_children() -> Taken {
    // SAFETY: an all-zero `rusage` is a valid value, and is valid for writing.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let duration = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    Taken {
        processor: duration(usage.ru_utime) + duration(usage.ru_stime),
        sleeps: usage.ru_nvcsw as u64,
        evictions: usage.ru_nivcsw as u64,
    }
}

/// Ends this process by `signal`, so that the caller's `wait` reports what it would have reported
/// of the program itself. No second core file is written. Where the signal does not end a process,
/// the exit status is 128 + `signal`.
pub fn end_by_signal(signal: i32) -> ! {
    let mut set = empty_set();
    // SAFETY: valid arguments each; the process is about to end and has one thread.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(signal, libc::SIG_DFL);
        libc::sigaddset(&mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
        libc::raise(signal);
        libc::_exit(128 + signal);
    }
}

fn empty_set() -> libc::sigset_t {
    // SAFETY: an all-zero `sigset_t` is valid, and `sigemptyset` initialises it.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        set
    }
}

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

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use sweetspot_core::policy::ADDRESS_BYTES_MIN;

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

/// From now on the child is the only one of the two that has what both were given to read. Another one
/// that has it would keep the child from being buffered, lest it read on from there.
fn give_up_standard_input() {
    if let (Ok(nothing), false) = (File::open("/dev/null"), STANDARD_CLOSED[0].load(Relaxed)) {
        // SAFETY: only values are passed. What was there was standard input, of which nobody here reads.
        unsafe { libc::dup2(nothing.as_raw_fd(), 0) };
    }
}

/// In the child of a fork: waits until nobody has the other end of a pipe, of which `own` is its copy.
fn wait_for_end(pipe: &io::PipeReader, own: io::PipeWriter) {
    drop(own);
    let mut byte = 0u8;
    // SAFETY: the descriptor is open, and `byte` is valid for writing.
    while unsafe { libc::read(pipe.as_raw_fd(), (&raw mut byte).cast(), 1) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
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

/// The alarms that somebody has set for the program that this process is to be (`alarm`, then exec): a child
/// inherits none.
struct Alarms([libc::itimerval; 3]);

const ALARMS: [i32; 3] = [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF];

impl Alarms {
    /// Nothing rings here any more.
    fn take() -> Alarms {
        Alarms(ALARMS.map(|which| {
            // SAFETY: an all-zero `itimerval` is valid, and means none; both are valid for the call.
            unsafe {
                let (none, mut before) = (std::mem::zeroed(), std::mem::zeroed());
                libc::setitimer(which, &none, &mut before);
                before
            }
        }))
    }

    /// In the child of a fork: they ring there.
    fn set(&self) {
        for (which, alarm) in ALARMS.iter().zip(&self.0) {
            // SAFETY: values that the kernel gave.
            unsafe { libc::setitimer(*which, alarm, ptr::null_mut()) };
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

/// In the child of a fork: nothing runs that belongs to the parent.
fn say_errno_and_end(pipe: &io::PipeWriter) -> ! {
    // SAFETY: errno of this thread; the descriptor is open, and the bytes outlive the call.
    unsafe {
        let bytes = (*libc::__errno_location()).to_ne_bytes();
        libc::write(pipe.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
        libc::_exit(127)
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

/// A program that runs below a parent which waits for it, as it would below `time`.
pub struct Child {
    pid: libc::pid_t,
    /// The signals that `wait` takes out one by one; blocked since before the fork.
    awaited: libc::sigset_t,
}

/// Signals that are not passed on. The terminal sends SIGINT and SIGQUIT to both, and `time` ignores them, too;
/// those that stop a process, or let it go on, are for each by itself, as a shell sends them to both; and the kernel
/// says by SIGCHLD that the program has ended.
const NOT_FORWARDED: [i32; 9] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGCONT,
    libc::SIGCHLD,
    // Nobody can take these.
    libc::SIGKILL,
    libc::SIGSTOP,
];

/// Signals that someone who knows only the parent's pid may send and means for the program.
fn is_forwarded(signal: i32) -> bool {
    !NOT_FORWARDED.contains(&signal)
}

/// What a parent that waits does to signals, and what they were before.
struct Signals {
    awaited: libc::sigset_t,
    mask: libc::sigset_t,
    changed: [(i32, libc::sighandler_t); 3],
}

impl Signals {
    /// Those that are passed on wait until they are taken out one by one.
    fn take() -> Signals {
        let (mut awaited, mut mask) = (empty_set(), empty_set());
        let forwarded = (1..=libc::SIGRTMAX()).filter(|signal| is_forwarded(*signal));
        for signal in forwarded.chain([libc::SIGCHLD]) {
            // SAFETY: an initialised set and a valid signal number.
            unsafe { libc::sigaddset(&mut awaited, signal) };
        }
        // SAFETY: both sets are initialised and outlive the call.
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, &awaited, &mut mask) };
        // A caller that ignores SIGCHLD would have our child reaped before we can ask.
        let changed = [
            (libc::SIGINT, libc::SIG_IGN),
            (libc::SIGQUIT, libc::SIG_IGN),
            (libc::SIGCHLD, libc::SIG_DFL),
        ]
        // SAFETY: valid signals and dispositions; what was there before is kept for the child.
        .map(|(number, action)| (number, unsafe { libc::signal(number, action) }));
        Signals { awaited, mask, changed }
    }

    /// In the child of a fork: as the caller gave them.
    fn give_back(&self) {
        for (signal, action) in self.changed {
            // SAFETY: the disposition that this signal had a moment ago.
            unsafe { libc::signal(signal, action) };
        }
        give_back_sigpipe();
        // SAFETY: the mask that the caller gave us.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.mask, ptr::null_mut()) };
    }
}

impl Child {
    /// Starts the program in a process of its own, in the caller's process group: the first of the images whose
    /// format the system knows. From here on this process ignores SIGINT and SIGQUIT, and has no
    /// standard input, also where that failed. `before` is called when only the child has that; the program
    /// begins afterwards. Who kills this process kills the program, as who knows one pid means both; what an alarm
    /// was set for is the program, too.
    ///
    /// # Errors
    /// The errno of `fork`, or that of `execve` in the child.
    pub fn start(images: &[&Image], before: impl FnOnce(u32)) -> io::Result<Child> {
        let pointers: Vec<_> = images.iter().map(|image| image.pointers()).collect();
        let (said_here, said_there) = io::pipe()?;
        let (waits_there, waits_here) = io::pipe()?;
        let signals = Signals::take();
        let alarms = Alarms::take();
        let parent = std::process::id();
        // SAFETY: the child calls only functions that are safe in a signal handler (see the module).
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            die_with(parent as i32);
            wait_for_end(&waits_there, waits_here);
            alarms.set();
            signals.give_back();
            give_back_descriptors();
            for (image, (arguments, environment)) in images.iter().zip(&pointers) {
                image.execute(arguments, environment);
                if io::Error::last_os_error().raw_os_error() != Some(libc::ENOEXEC) {
                    break;
                }
            }
            say_errno_and_end(&said_there);
        }
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        drop(said_there);
        give_up_standard_input();
        before(pid as u32);
        // The child goes on.
        drop(waits_here);
        let child = Child { pid, awaited: signals.awaited };
        let mut bytes = [0; 4];
        match io::Read::read_exact(&mut &said_here, &mut bytes) {
            // The pipe closed without a word: execve has succeeded.
            Err(_) => Ok(child),
            Ok(()) => {
                child.reap();
                Err(io::Error::from_raw_os_error(i32::from_ne_bytes(bytes)))
            }
        }
    }

    /// The program's process id.
    pub fn pid(&self) -> u32 {
        self.pid as u32
    }

    /// Waits until the program has ended, and forwards what another process sends here, but for
    /// SIGINT, SIGQUIT, and what stops a process or lets it go on. What the terminal sends reaches the program by
    /// itself, and a stopped program is waited for, as `time` does.
    pub fn wait(self) -> Ended {
        const SELDOM: Duration = Duration::from_secs(3600);
        self.wait_with(SELDOM, || {})
    }

    /// The same, and calls `beat` again and again, `every` so often, while nothing else happens, and
    /// each time before it looks whether the child has ended.
    pub fn wait_with(self, every: Duration, mut beat: impl FnMut()) -> Ended {
        let every = libc::timespec {
            tv_sec: every.as_secs() as libc::time_t,
            tv_nsec: every.subsec_nanos().into(),
        };
        loop {
            // SAFETY: an all-zero `siginfo_t` is a valid value that the kernel overwrites.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            // SAFETY: an initialised set, a time, and `info` is valid for writing.
            let signal = unsafe { libc::sigtimedwait(&self.awaited, &mut info, &every) };
            match signal {
                libc::SIGCHLD => {
                    beat();
                    if let Some(ended) = self.ended(libc::WNOHANG) {
                        return ended;
                    }
                }
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock => beat(),
                -1 => {} // EINTR: stopped and continued.
                signal => {
                    // SAFETY: for a signal sent by a process (code <= 0) the pid is filled in.
                    let sender = (info.si_code <= 0).then(|| unsafe { info.si_pid() });
                    if sender.is_some_and(|sender| sender != self.pid) {
                        self.send(signal, &info);
                    }
                }
            }
        }
    }

    /// The program is sent the signal that was sent here, with the value that came with it. The child is not reaped
    /// yet, so the pid is still its own.
    fn send(&self, signal: i32, info: &libc::siginfo_t) {
        // SAFETY: values, and what the kernel has filled in.
        unsafe {
            if info.si_code == libc::SI_QUEUE {
                libc::syscall(libc::SYS_rt_sigqueueinfo, self.pid, signal, info);
            } else {
                libc::kill(self.pid, signal);
            }
        }
    }

    fn reap(&self) {
        while self.ended(0).is_none() {}
    }

    fn ended(&self, flags: i32) -> Option<Ended> {
        let mut status = 0;
        // SAFETY: `status` is valid for writing.
        let pid = unsafe { libc::waitpid(self.pid, &mut status, flags) };
        if pid != self.pid {
            return None;
        }
        if libc::WIFSIGNALED(status) {
            Some(Ended::Killed(libc::WTERMSIG(status)))
        } else {
            Some(Ended::Exited(libc::WEXITSTATUS(status) as u8))
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

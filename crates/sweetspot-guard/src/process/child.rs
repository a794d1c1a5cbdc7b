//! A program that runs below this process, which waits for it: what both were given, and the signals that come.
//!
//! Not here: becoming the program ([`super::replace`]).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::{
    Ended, Image, STANDARD_CLOSED, die_with, empty_set, give_back_descriptors, give_back_sigpipe,
};
use crate::given;

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

/// Whether a shell has this process' group in the foreground of its terminal.
fn is_in_foreground() -> bool {
    File::open("/dev/tty").is_ok_and(|terminal| {
        // SAFETY: the descriptor is open, and nothing else is passed.
        unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
    })
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
    /// format the system knows. From here on this process ignores SIGINT and SIGQUIT, and has nothing of
    /// what it was given but standard error, also where that failed. `before` is called when only the child has that;
    /// the program begins afterwards. Who kills this process kills the program, as who knows one pid means both; what
    /// an alarm was set for is the program, too.
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
        give_up_descriptors();
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
    /// itself, and a stopped program is waited for, as `time` does; but if it has stopped in the foreground of a
    /// terminal, this process stops, too: the shell there waits for that.
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
                    if let Some(signal) = self.stopped_by().filter(|_| is_in_foreground()) {
                        self.stop_with(signal);
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

    /// The signal by which the program is stopped now, if it is.
    fn stopped_by(&self) -> Option<i32> {
        let look = libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: all zeros are a valid `siginfo_t`, which the kernel overwrites where there is something to tell.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let answer = libc::waitid(libc::P_PID, self.pid as libc::id_t, &mut info, look);
            (answer == 0 && info.si_pid() == self.pid).then(|| info.si_status())
        }
    }

    /// This process stops, too. Whoever lets it go on means both; but a shell has told both, and then the program may
    /// have stopped once more by now. Whether the caller blocks or ignores the signal: it stops this process.
    fn stop_with(&self, signal: i32) {
        let turns = self.turns();
        let mut set = empty_set();
        // SAFETY: an initialised set, and values; the child is not reaped.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::sigaddset(&mut set, signal);
            libc::sigprocmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
            libc::raise(signal);
            if self.stopped_by().is_some() && turns.is_some() && self.turns() == turns {
                libc::kill(self.pid, libc::SIGCONT);
            }
        }
    }

    /// How often the program was given a processor; `None`: the kernel does not say.
    fn turns(&self) -> Option<u64> {
        let told = std::fs::read_to_string(format!("/proc/{}/schedstat", self.pid)).ok()?;
        told.split_ascii_whitespace().nth(2)?.parse().ok()
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

/// From now on the child is the only one of the two that has what both were given. While another one has it, a pipe
/// that the child closes does not end, a file stays busy and locked, and what is to be read may be read on from there,
/// so that the child is not buffered. Standard error stays, as there may be something to say.
fn give_up_descriptors() {
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        for (fd, closed) in (0..2).zip(&STANDARD_CLOSED) {
            if !closed.load(Relaxed) {
                // SAFETY: only values are passed. What was there was given to the program.
                unsafe { libc::dup2(nothing.as_raw_fd(), fd) };
            }
        }
    }
    for fd in given::descriptors().into_iter().filter(|fd| *fd > 2) {
        // SAFETY: nothing here has what was open when this process began.
        unsafe { libc::close(fd) };
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

/// In the child of a fork: nothing runs that belongs to the parent.
fn say_errno_and_end(pipe: &io::PipeWriter) -> ! {
    // SAFETY: errno of this thread; the descriptor is open, and the bytes outlive the call.
    unsafe {
        let bytes = (*libc::__errno_location()).to_ne_bytes();
        libc::write(pipe.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
        libc::_exit(127)
    }
}

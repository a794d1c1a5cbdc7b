//! Asks whether one program is buffered here: with its C library, on this kernel, under the limits
//! and filters in force.
//!
//! The program is started with the library, in a ledger that says so ([`FLAG_PROBE`]); the library
//! tries itself on files of its own and ends the process. That the program itself never runs does not
//! depend on this: while the process is stopped at its exec, an instruction that ends it is put where
//! the program begins. The dynamic linker jumps there once every library has been loaded.
//!
//! glibc has then run their constructors, ours before all others. If ours was not among them, or could
//! not find the ledger, that is where the process ends. musl runs constructors from there, ours before
//! all others and the program's own last. So there the process goes on only if our library is mapped,
//! whose constructor ends it whatever it finds ([`PROBE`](sweetspot_core::environment::PROBE)).
//!
//! Not here: which programs may be asked (the caller looks at the file: it must have a dynamic
//! linker), what the answer means, and remembering it.
//!
//! Invariant: whatever fails, neither the program's `main` nor a constructor of its own is executed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use sweetspot_core::ledger::{
    ANSWER_COMPLETE, ANSWER_LOADED, ANSWER_READS, ANSWER_STDIO, ANSWER_WRITES, ANSWER_WRONG,
    FLAG_PROBE,
};
use sweetspot_core::why::Why;

use crate::error::Error;
use crate::process::{Ended, Image, die_with};
use crate::session::{OwnedLedger, Settings};

/// When a C library calls the constructors of libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constructors {
    /// Before the program begins (glibc).
    BeforeEntry,
    /// From there (musl).
    AfterEntry,
}

/// How long all of it may take: the library itself waits two seconds for the guard at most.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time between two looks whether the process has ended, at first and at last.
const LOOK: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(50));
/// What the dynamic linker may have to say; the rest is cut off.
const SAID_BYTES_MAX: u64 = 4096;
/// An instruction that the processor does not have: the process ends by SIGILL, whatever is done
/// about that signal.
const TRAP: usize = if cfg!(target_arch = "x86_64") { 0x0b0f_0b0f_0b0f_0b0f } else { 0 };
/// Names in the auxiliary vector, from the kernel's `auxvec.h`.
const AT_NULL: usize = 0;
const AT_ENTRY: usize = 9;

/// A question that is about to be asked.
pub struct Probe {
    session: OwnedLedger,
}

/// What the library found out.
#[derive(Debug)]
pub struct Answer {
    /// It was loaded. If not, nothing else is known.
    pub is_loaded: bool,
    /// Calls that the C library makes to itself are seen.
    pub sees_stdio: bool,
    /// Reads came out of a window.
    pub reads: bool,
    /// Writes have waited, and are in their file.
    pub writes: bool,
    /// What came back was not what should have: never to be used.
    pub is_wrong: bool,
    /// It came to its end.
    pub is_complete: bool,
    /// The reasons that it noted.
    pub why: Vec<Why>,
    /// Why there was no guard.
    pub no_guard: Option<Error>,
    /// What the dynamic linker said on stderr.
    pub said: String,
    /// How the process ended.
    pub ended: Option<Ended>,
}

impl Probe {
    /// Prepares a ledger for one question.
    ///
    /// # Errors
    /// As [`OwnedLedger::create`].
    pub fn create() -> Result<Probe, Error> {
        let session = OwnedLedger::create(&Settings::default())?;
        session.ledger().header.flags.fetch_or(FLAG_PROBE, SeqCst);
        Ok(Probe { session })
    }

    /// The ledger, for the program's environment.
    pub fn path(&self) -> &Path {
        self.session.path()
    }

    /// Asks. `image` has a dynamic linker, and an environment that names the `library`, the ledger and,
    /// in [`sweetspot_core::environment::PROBE`], the ledger again: so the library knows that it is only
    /// asked, and ends the process even where it cannot use the ledger. The caller has one thread.
    ///
    /// # Errors
    /// Where the program cannot be started so that it is certain not to run: nothing is known then.
    pub fn ask(
        mut self,
        image: &Image,
        library: &Path,
        constructors: Constructors,
    ) -> io::Result<Answer> {
        let mut said = memory_file()?;
        let asked = Stopped::start(image, &said).and_then(|mut stopped| {
            // The guard lives as long as the process does.
            let no_guard = self.session.start_guard(stopped.pid as u32).err();
            let entry = stopped.trap()?;
            if constructors == Constructors::AfterEntry && !stopped.pass(&entry, library)? {
                return Ok((Some(Ended::Killed(libc::SIGILL)), no_guard));
            }
            stopped.release()?;
            Ok((stopped.wait(), no_guard))
        });
        let answer = asked.and_then(|(ended, no_guard)| {
            let header = &self.session.ledger().header;
            let bits = header.answer.load(SeqCst);
            let has = |bit: u32| bits & bit != 0;
            Ok(Answer {
                is_loaded: has(ANSWER_LOADED),
                sees_stdio: has(ANSWER_STDIO),
                reads: has(ANSWER_READS),
                writes: has(ANSWER_WRITES),
                is_wrong: has(ANSWER_WRONG),
                is_complete: has(ANSWER_COMPLETE),
                why: Why::among(header.why.load(SeqCst)).collect(),
                no_guard,
                said: text(&mut said)?,
                ended,
            })
        });
        if answer.as_ref().map_or(true, |answer| answer.no_guard.is_some()) {
            let _ = self.session.remove();
        }
        answer
    }
}

fn text(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(SAID_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn memory_file() -> io::Result<File> {
    // SAFETY: a string; a new descriptor of our own comes back.
    let fd = unsafe { libc::memfd_create(c"sweetspot-probe".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from(crate::sys::owned(fd))) }
}

/// Until the next look at what began then. Where it takes long, looking takes no processor from it.
fn pause(began: Instant) {
    std::thread::sleep((began.elapsed() / 8).clamp(LOOK.0, LOOK.1));
}

/// What `ptrace` is asked for, as the C library declares it.
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;
#[cfg(target_env = "musl")]
type Request = libc::c_int;

/// A child that stands at the first instruction after its exec, traced by us. Dropped, it is killed.
struct Stopped {
    pid: libc::pid_t,
    /// Its end has been taken, so the number may be another process' by now.
    is_gone: bool,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if self.is_gone {
            return;
        }
        // SAFETY: a child that was not waited for yet, so the number is its own; null is allowed.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, ptr::null_mut(), libc::__WALL);
        }
    }
}

impl Stopped {
    /// Starts the program, whose stderr is `said` and which has no input and no other output.
    fn start(image: &Image, said: &File) -> io::Result<Stopped> {
        let (arguments, environment) = image.pointers();
        let nothing = File::options().read(true).write(true).open("/dev/null")?;
        let streams = [nothing.as_raw_fd(), nothing.as_raw_fd(), said.as_raw_fd()];
        let (told, tells) = io::pipe()?;
        let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        let parent = std::process::id();
        // SAFETY: the child calls only functions that are safe in a signal handler, and then execs or
        // leaves; all it touches was made before.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // Later, init would be the tracer, and nobody would let it go on.
            die_with(parent as libc::pid_t);
            // SAFETY: as above; each pointer is to a value that lives, or null where that is allowed.
            unsafe {
                let mut none: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&mut none);
                libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
                libc::setrlimit(libc::RLIMIT_CORE, &no_core);
                let ready = (0..).zip(streams).all(|(fd, from)| libc::dup2(from, fd) == fd)
                    && libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == 0;
                if ready {
                    image.execute(&arguments, &environment);
                }
                let errno = (*libc::__errno_location()).to_ne_bytes();
                libc::write(tells.as_raw_fd(), errno.as_ptr().cast(), errno.len());
                libc::_exit(127);
            }
        }
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        drop(OwnedFd::from(tells));
        let mut stopped = Stopped { pid, is_gone: false };
        match stopped.next(0)? {
            Some(State::Stopped(libc::SIGTRAP)) => Ok(stopped),
            _ => {
                let mut errno = [0; 4];
                match (&told).read_exact(&mut errno) {
                    Ok(()) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
                    Err(_) => Err(io::Error::other("it ended before it had begun")),
                }
            }
        }
    }

    /// Puts the trap where the program begins.
    fn trap(&self) -> io::Result<Entry> {
        let at = self.entry()?;
        // If this process dies now, so does that one.
        self.trace(libc::PTRACE_SETOPTIONS, 0, libc::PTRACE_O_EXITKILL as usize)?;
        let memory = File::open(format!("/proc/{}/mem", self.pid))?;
        let mut word = [0; size_of::<usize>()];
        memory.read_exact_at(&mut word, at as u64)?;
        self.trace(libc::PTRACE_POKETEXT, at, TRAP)?;
        Ok(Entry { at, word: usize::from_ne_bytes(word) })
    }

    /// Lets the process come to the trap, and takes that away if `library` is mapped by then. False:
    /// it is not, or the process has ended before.
    fn pass(&mut self, entry: &Entry, library: &Path) -> io::Result<bool> {
        let mut signal = 0;
        loop {
            self.trace(libc::PTRACE_CONT, 0, signal as usize)?;
            match self.wait_for_stop()? {
                Some(libc::SIGILL) => break,
                Some(other) => signal = other,
                None => return Ok(false),
            }
        }
        let maps = std::fs::read(format!("/proc/{}/maps", self.pid))?;
        let name = library.as_os_str().as_bytes();
        if !maps.split(|byte| *byte == b'\n').any(|line| line.ends_with(name)) {
            return Ok(false);
        }
        self.trace(libc::PTRACE_POKETEXT, entry.at, entry.word)?;
        Ok(true)
    }

    /// The signal at which it stops next; `None`: it has ended, or takes too long.
    fn wait_for_stop(&mut self) -> io::Result<Option<i32>> {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            match self.next(libc::WNOHANG)? {
                Some(State::Stopped(signal)) => return Ok(Some(signal)),
                Some(State::Ended(_)) => return Ok(None),
                None => pause(started),
            }
        }
        Ok(None)
    }

    /// Lets it go on, untraced.
    fn release(&self) -> io::Result<()> {
        self.trace(libc::PTRACE_DETACH, 0, 0)
    }

    /// Waits until it has ended. `None`: it had to be killed, or somebody else has taken its end.
    fn wait(mut self) -> Option<Ended> {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            match self.next(libc::WNOHANG) {
                Ok(Some(State::Ended(ended))) => return Some(ended),
                Ok(_) => pause(started),
                Err(_) => break,
            }
        }
        None
    }

    /// Where the program begins, as the kernel tells the dynamic linker.
    fn entry(&self) -> io::Result<usize> {
        let vector = std::fs::read(format!("/proc/{}/auxv", self.pid))?;
        let words = vector.chunks_exact(size_of::<usize>());
        let words: Vec<usize> =
            words.filter_map(|word| word.try_into().ok()).map(usize::from_ne_bytes).collect();
        let mut pairs = words.chunks_exact(2).take_while(|pair| pair[0] != AT_NULL);
        let entry = pairs.find(|pair| pair[0] == AT_ENTRY).map(|pair| pair[1]);
        entry.ok_or_else(|| io::Error::other("the kernel does not say where it begins"))
    }

    fn trace(&self, request: Request, address: usize, data: usize) -> io::Result<()> {
        // SAFETY: our own stopped child; the memory that is changed is its own.
        match unsafe { libc::ptrace(request, self.pid, address, data) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// What happened to it next; `None`: nothing yet.
    fn next(&mut self, flags: i32) -> io::Result<Option<State>> {
        let mut status = 0;
        // SAFETY: `status` is valid for writing.
        let pid = unsafe { libc::waitpid(self.pid, &mut status, flags | libc::__WALL) };
        let error = io::Error::last_os_error();
        if pid == 0 {
            return Ok(None);
        }
        if pid < 0 && error.kind() == io::ErrorKind::Interrupted {
            return self.next(flags);
        }
        if pid > 0 && libc::WIFSTOPPED(status) {
            return Ok(Some(State::Stopped(libc::WSTOPSIG(status))));
        }
        // Where SIGCHLD is ignored the kernel takes the end of a child itself.
        self.is_gone = true;
        match pid {
            ..0 => Err(error),
            _ if libc::WIFSIGNALED(status) => {
                Ok(Some(State::Ended(Ended::Killed(libc::WTERMSIG(status)))))
            }
            _ => Ok(Some(State::Ended(Ended::Exited(libc::WEXITSTATUS(status) as u8)))),
        }
    }
}

/// Where the program begins, and what stood there.
struct Entry {
    at: usize,
    word: usize,
}

enum State {
    Stopped(i32),
    Ended(Ended),
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    /// Without the library nobody answers, and the program does not run all the same.
    #[test]
    fn a_program_that_loads_no_library_does_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made");
        let words: Vec<OsString> = vec!["touch".into(), made.clone().into()];
        let program = ["/usr/bin/touch", "/bin/touch"].map(Path::new);
        let program = program.into_iter().find(|path| path.exists()).expect("touch");
        let image = Image::new(program, &words, &[]).unwrap();
        // A guard needs a process of one thread, which a test is not: it is not what is asked here.
        let library = Path::new("/no/such/library.so");
        for constructors in [Constructors::BeforeEntry, Constructors::AfterEntry] {
            let probe = Probe::create().unwrap();
            let ledger = probe.path().to_owned();
            let answer = probe.ask(&image, library, constructors).unwrap();
            assert!(!answer.is_loaded && !answer.is_complete, "{answer:?}");
            assert_eq!(answer.ended, Some(Ended::Killed(libc::SIGILL)), "{answer:?}");
            assert!(!made.exists() && !ledger.exists());
        }

        let missing = Image::new(Path::new("/no/such"), &words, &[]).unwrap();
        let probe = Probe::create().unwrap();
        let refused = probe.ask(&missing, library, Constructors::BeforeEntry).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENOENT), "{refused}");
    }
}

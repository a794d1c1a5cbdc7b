//! What the guard does with its own process: leaves its parent, keeps what it needs, takes a name.
//!
//! # Safety
//! As `sys` says.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use super::{Resource, check, retry};

/// Stack of the process that [`detach`] makes.
const DETACHED_STACK_BYTES: usize = 512 << 10;

/// What [`detach`] makes a process for.
struct Job<const N: usize, Task> {
    kept: [RawFd; N],
    task: Option<Task>,
}

/// Runs `task` in a new process that is no child of the caller and has a session of its own, the root as its
/// folder, and no descriptors but copies of `kept`, which it is given.
///
/// The caller sees no signal, no child and no descriptor of it. It must have one thread only, as
/// the new process is a copy of it that goes on without exec. All signals are blocked in `task`.
pub(crate) fn detach<const N: usize, Task>(kept: [OwnedFd; N], task: Task) -> io::Result<()>
where
    Task: FnOnce([OwnedFd; N]),
{
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
    let job = Job { kept: kept.each_ref().map(AsRawFd::as_raw_fd), task: Some(task) };
    let result = detach_now(job);
    // SAFETY: the set was filled by the call above.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    if adopts != 0 {
        // SAFETY: only values are passed.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
    }
    result
}

/// The middle process: makes the last one, which does the task, and ends.
///
/// It lets go of descriptors and of the current folder, before the caller goes on. Later that could be
/// noticed: a file system may tell an error at whichever close comes first, and then no more; and it cannot be
/// unmounted before.
extern "C" fn middle_process<const N: usize, Task>(job: *mut c_void) -> c_int
where
    Task: FnOnce([OwnedFd; N]),
{
    // SAFETY: `job` is what `detach_now` holds while this process runs. libc's fork is
    // used for the last process so that libc knows its own thread id there. The middle process, which
    // has the caller's memory but not its descriptors, ends at once without running anything of the caller's;
    // the task is taken in the last one only, in its own copy of the memory, where nobody else has the
    // descriptors that were kept.
    unsafe {
        let job = &mut *job.cast::<Job<N, Task>>();
        libc::setsid();
        let let_go = keep_only(&job.kept).and_then(|()| check(libc::chdir(c"/".as_ptr())));
        match let_go.and_then(|_| check(libc::fork())) {
            Err(error) => libc::_exit(error.raw_os_error().unwrap_or(255)),
            Ok(0) => {
                let kept = |index| OwnedFd::from_raw_fd(FIRST_KEPT + index as RawFd);
                if let Some(task) = job.task.take() {
                    task(std::array::from_fn(kept));
                }
                libc::_exit(0)
            }
            Ok(_) => libc::_exit(0),
        }
    }
}

fn detach_now<const N: usize, Task>(mut job: Job<N, Task>) -> io::Result<()>
where
    Task: FnOnce([OwnedFd; N]),
{
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
            middle_process::<N, Task>,
            stack.byte_add(DETACHED_STACK_BYTES),
            libc::CLONE_VM | libc::CLONE_VFORK,
            ptr::from_mut(&mut job).cast(),
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

/// Closes every descriptor of the process but `kept`, which get the numbers from [`FIRST_KEPT`] on.
fn keep_only<const N: usize>(kept: &[RawFd; N]) -> io::Result<()> {
    // First out of the way of the places where they belong.
    let high = FIRST_KEPT + N as RawFd;
    let mut moved = [-1; N];
    // SAFETY: only values and a constant string are passed. This process has a table of its own, of which
    // nothing else uses a descriptor: anyone who owned them stayed behind in the original.
    unsafe {
        for (place, fd) in moved.iter_mut().zip(kept) {
            *place = check(libc::fcntl(*fd, libc::F_DUPFD_CLOEXEC, high))?;
        }
        for (place, fd) in (FIRST_KEPT..).zip(moved) {
            check(libc::dup3(fd, place, libc::O_CLOEXEC))?;
        }
        close_from(high)?;
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
        Ok(())
    }
}

/// Closes all descriptors from one on.
fn close_from(first: RawFd) -> io::Result<()> {
    // SAFETY: only values are passed.
    if unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) } == 0 {
        return Ok(());
    }
    // Linux before 5.9. Pidfds are as old, but a sandbox may refuse the call.
    let open: Vec<RawFd> = match std::fs::read_dir("/proc/self/fd") {
        Ok(list) => list.flatten().filter_map(|fd| fd.file_name().to_str()?.parse().ok()).collect(),
        Err(_) => (0..Resource::Descriptors.limit()?.0.min(1 << 20) as RawFd).collect(),
    };
    for fd in open.into_iter().filter(|fd| *fd >= first) {
        // SAFETY: only values are passed.
        unsafe { libc::close(fd) };
    }
    Ok(())
}

/// Default for every signal but those that a terminal, a shutdown or a limit sends: these are
/// ignored, so that the caller ends when its work is done and not before. Nothing is blocked.
pub(crate) fn set_signals() {
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
    // SAFETY: takes values. Where a filter of system calls refuses it, `_exit` ends this thread alone.
    unsafe {
        libc::syscall(libc::SYS_exit_group, status);
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
    }
    end_by_fault()
}

/// Ends this process without a call.
pub(crate) fn end_by_fault() -> ! {
    loop {
        // SAFETY: nothing lies there, so the kernel ends the process: its handler, if any, is taken away.
        unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            ptr::without_provenance_mut::<u8>(8).write_volatile(0);
        }
    }
}

/// New files are for their owner alone.
pub(crate) fn set_private_umask() {
    // SAFETY: takes a value and cannot fail.
    unsafe { libc::umask(0o077) };
}

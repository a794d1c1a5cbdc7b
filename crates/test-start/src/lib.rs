//! What every test starts from, no matter who started it.
//!
//! A program inherits which signals are ignored and blocked, which permissions its files do not get,
//! and how many it may have open. `nohup` ignores SIGHUP, a script ignores SIGINT and SIGQUIT for what it
//! starts in the background, and a shell cannot even set a trap for a signal that was ignored when it
//! started. A test that sends one of them to a program would then wait for nothing.
//!
//! What root's programs leave pending lies in shared memory and is noted below `/var/lib`, and the next `run`
//! of root's finishes it, no matter which test began it. So root's tests begin in a mount namespace of their
//! own, where both are empty, and another build beside them, or a `run` by hand, is not in their way.
//!
//! A test program that says `use test_start as _;`, or what it uses of it, has all of this set before its
//! `main`, and so before any test and any other thread, and hands it on to everything that it starts. `cargo
//! xtask` does not: started with nohup, it outlives its terminal as anyone would expect.
//!
//! `runs` is what tests do with commands.

mod runs;

pub use runs::{assert_has, stderr, stdout, turn, untold, wait_until};

/// Files that may be open, where fewer may: what distributions give to a user's shell.
const FILES_MIN: libc::rlim_t = 1024;

/// Set in everything that has its own ledgers and notes already: a test program may start itself again.
const APART: &std::ffi::CStr = c"SWEETSPOT_TEST_APART";

/// Called by the loader, before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static SET: extern "C" fn() = set;

extern "C" fn set() {
    // Two numbers of the C library's own are refused, as are SIGKILL and SIGSTOP.
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: a constant disposition; nothing has set a handler yet.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: an all-zero set is a valid one, and empty, and so is an all-zero limit; both are valid
    // for what is done with them. `umask` takes a number and cannot fail.
    unsafe {
        let none: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        libc::umask(0o022);
        let mut files: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut files) == 0 && files.rlim_cur < FILES_MIN {
            files.rlim_cur = FILES_MIN.min(files.rlim_max);
            libc::setrlimit(libc::RLIMIT_NOFILE, &files);
        }
        if is_root() && libc::getenv(APART.as_ptr()).is_null() {
            set_apart();
        }
    }
}

/// Where that is not allowed (a container), the tests share what is there with everyone, as other users' do.
unsafe fn set_apart() {
    let memory = c"tmpfs".as_ptr();
    let [shared, notes] = [c"/dev/shm", c"/var/lib/sweetspot"].map(std::ffi::CStr::as_ptr);
    // SAFETY: all strings end in a zero and live for good; there is one thread.
    unsafe {
        libc::mkdir(notes, 0o755);
        let none = std::ptr::null();
        let below_root = libc::MS_REC | libc::MS_SLAVE;
        let is_apart = libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, c"/".as_ptr(), none, below_root, none.cast()) == 0
            && libc::mount(memory, shared, memory, 0, c"mode=1777".as_ptr().cast()) == 0
            && libc::mount(memory, notes, memory, 0, c"mode=755".as_ptr().cast()) == 0;
        if is_apart {
            libc::setenv(APART.as_ptr(), c"1".as_ptr(), 1);
        }
    }
}

/// Whether the whole machine's processes are seen. From inside of a container it is not known who outside has a
/// file, too, so what the program was given open is never its own there.
pub fn sees_all_processes() -> bool {
    use std::os::unix::fs::MetadataExt;
    /// Inode of the pid namespace of a machine.
    const MACHINE: u64 = 0xefff_fffc;
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() == MACHINE)
}

/// A test, or a part of it, is left out for that reason. Where `CI` is set everything is there.
///
/// # Panics
/// `CI` is set: a skip is a failure.
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "a skip in CI: {why}");
    eprintln!("skipped: {why}");
}

/// What only root can set up is said too, and is no failure anywhere.
pub fn skip_without_root(what: &str) {
    eprintln!("skipped: {what} (only root can make it)");
}

pub fn is_root() -> bool {
    // SAFETY: a number is asked for, which cannot fail.
    unsafe { libc::geteuid() == 0 }
}

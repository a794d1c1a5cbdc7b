//! What every test starts from, no matter who started it.
//!
//! A program inherits which signals are ignored and blocked, which permissions its files do not get,
//! and how many it may have open. `nohup` ignores SIGHUP, a script ignores SIGINT and SIGQUIT for what it
//! starts in the background, and a shell cannot even set a trap for a signal that was ignored when it
//! started. A test that sends one of them to a program would then wait for nothing.
//!
//! A test program that says `use test_start as _;` has all of this set before its `main`, and so
//! before any test and any other thread, and hands it on to everything that it starts. `cargo xtask`
//! does not: started with nohup, it outlives its terminal as anyone would expect.

/// Files that may be open, where fewer may: what distributions give to a user's shell.
const FILES_MIN: libc::rlim_t = 1024;

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
    }
}

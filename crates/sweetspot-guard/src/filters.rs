//! Whether the seccomp filters under which `run` was started allow what the library does.
//!
//! A filter may kill for a system call that its maker did not expect, so the library makes none of
//! its own under one. But most filters (Docker's, systemd's) allow all of them. Filters are inherited,
//! and can neither be taken away nor exchanged; so what a child of this process may do under them,
//! the program may do too, as long as it has not set another one. A child because it may be killed.

use std::fs;
use std::io::Read;
use std::ptr;

/// How many filters are in force; 0 where there are none, or where they are not known to allow
/// everything.
pub(crate) fn allowed_filters() -> u32 {
    // SAFETY: only a question, without memory.
    match unsafe { libc::prctl(libc::PR_GET_SECCOMP) } {
        0 => 0,
        _ if child_survives() => count().unwrap_or(0),
        _ => 0,
    }
}

/// Whether filters are in force, allowing everything or not: one may end who makes a call that it does not
/// know.
pub(crate) fn any() -> bool {
    // SAFETY: only a question, without memory.
    unsafe { libc::prctl(libc::PR_GET_SECCOMP) != 0 }
}

fn count() -> Option<u32> {
    let mut text = String::new();
    fs::File::open("/proc/self/status").ok()?.read_to_string(&mut text).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Seccomp_filters:\t"))?.trim().parse().ok()
}

/// Whether a child that makes the calls lives to say so. Its end raises no signal here.
fn child_survives() -> bool {
    // SAFETY: a copy of this process, as by fork, which makes system calls only and ends; it has an
    // own copy of all memory.
    unsafe {
        let child = libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) as libc::pid_t;
        if child == 0 {
            make_every_call();
            libc::syscall(libc::SYS_exit_group, 0);
        }
        let mut status = 0;
        child > 0 && libc::waitpid(child, &mut status, libc::__WALL) == child && status == 0
    }
}

const PAGE: usize = 4096;
const NO_FILE: libc::c_long = -1;
const NONE: *mut u8 = ptr::null_mut();

/// Each call that the library makes on its own account, with arguments of the same kind. Whether it
/// succeeds does not matter: where one fails for the library, the program's calls pass through.
///
/// # Safety
/// Only for a child that ends at once: signals and memory are left changed.
unsafe fn make_every_call() {
    let mut space = [0u8; PAGE];
    let space = space.as_mut_ptr();
    // SAFETY: as the caller says; `space` is a page.
    unsafe {
        call_files(space);
        call_memory();
        call_processes(space);
    }
}

/// # Safety
/// As of `make_every_call`; `space` is a page.
unsafe fn call_files(space: *mut u8) {
    use libc::*;
    // SAFETY: each pointer is to that page, or null.
    unsafe {
        // A filter that kills leaves no core file.
        prctl(PR_SET_DUMPABLE, 0);
        syscall(SYS_prctl, PR_GET_TSC, space, 0, 0, 0);
        let fd = syscall(SYS_openat, AT_FDCWD, c"/proc/self/stat".as_ptr(), O_RDONLY | O_CLOEXEC);
        syscall(SYS_read, fd, space, 64);
        syscall(SYS_pread64, fd, space, 64, 0);
        syscall(SYS_preadv, fd, NONE, 0, 0, 0);
        syscall(SYS_getdents64, NO_FILE, space, PAGE);
        syscall(SYS_write, NO_FILE, space, 1);
        syscall(SYS_pwrite64, NO_FILE, space, 1, 0);
        syscall(SYS_lseek, fd, 0, SEEK_SET);
        syscall(SYS_fcntl, fd, F_GETFL);
        syscall(SYS_fstat, fd, space);
        syscall(SYS_fstatfs, fd, space);
        syscall(SYS_ftruncate, NO_FILE, 0);
        syscall(SYS_truncate, NONE, 0);
        syscall(SYS_kcmp, 0, 0, 0, 0, 0);
        syscall(SYS_utimensat, NO_FILE, NONE, NONE, 0);
        syscall(SYS_newfstatat, AT_FDCWD, c"/proc/self/ns/pid".as_ptr(), space, 0);
        syscall(SYS_statx, NO_FILE, c"".as_ptr(), libc::AT_EMPTY_PATH, 0, space);
        syscall(SYS_readlinkat, AT_FDCWD, c"/proc/self/exe".as_ptr(), space, PAGE);
        syscall(SYS_faccessat, AT_FDCWD, c"/".as_ptr(), X_OK);
        syscall(SYS_close, fd);
        syscall(SYS_close_range, u32::MAX, u32::MAX, CLOSE_RANGE_UNSHARE);
        syscall(SYS_unshare, CLONE_FILES);
    }
}

/// # Safety
/// As of `make_every_call`.
unsafe fn call_memory() {
    use libc::*;
    // SAFETY: mappings are anonymous ones.
    unsafe {
        let (read, write) = (PROT_READ, PROT_READ | PROT_WRITE);
        let private = MAP_PRIVATE | MAP_ANONYMOUS;
        let page = syscall(SYS_mmap, NONE, PAGE, write, private | MAP_NORESERVE, NO_FILE, 0);
        if page > 0 {
            syscall(SYS_mmap, page, PAGE, write, private | MAP_FIXED, NO_FILE, 0);
            for advice in [MADV_DONTDUMP, MADV_POPULATE_WRITE, MADV_WIPEONFORK, MADV_DONTNEED] {
                syscall(SYS_madvise, page, PAGE, advice);
            }
            for protection in [read, write] {
                syscall(SYS_mprotect, page, PAGE, protection);
            }
            syscall(SYS_mremap, page, 0, PAGE, MREMAP_MAYMOVE);
            syscall(SYS_munmap, page, PAGE);
        }
        syscall(SYS_mmap, NONE, PAGE, write, MAP_SHARED, NO_FILE, 0);
    }
}

/// # Safety
/// As of `call_files`.
unsafe fn call_processes(space: *mut u8) {
    use libc::*;
    // SAFETY: as there.
    unsafe {
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, NONE, space, 8);
        syscall(SYS_rt_sigqueueinfo, 0, 0, NONE);
        syscall(SYS_rt_sigaction, SIGSEGV, NONE, space, 8);
        syscall(SYS_sigaltstack, NONE, space);
        let thread = syscall(SYS_gettid);
        let process = syscall(SYS_getpid);
        syscall(SYS_rt_tgsigqueueinfo, process, thread, 0, NONE);
        syscall(SYS_process_vm_readv, thread, NONE, 0, NONE, 0, 0);
        syscall(SYS_process_vm_writev, thread, NONE, 0, NONE, 0, 0);
        syscall(SYS_kill, process, 0);
        syscall(SYS_move_pages, process, 0, NONE, NONE, NONE, 0);
        syscall(SYS_waitid, P_PID, process, space, WEXITED | WNOHANG | WNOWAIT, NONE);
        syscall(SYS_tgkill, process, thread, 0);
        syscall(SYS_nanosleep, space, NONE);
        syscall(SYS_geteuid);
        syscall(SYS_getppid);
        syscall(SYS_getcwd, space, PAGE);
        syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NONE, space);
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC_COARSE, space);
        syscall(SYS_sched_yield);
        syscall(SYS_futex, space, FUTEX_WAIT, -1, NONE, NONE, 0);
        syscall(SYS_futex, space, FUTEX_WAKE, 1, NONE, NONE, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// The names of system calls in the sources below a folder.
    fn calls(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                calls(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for after in text.split("syscall!(").skip(1) {
                let name = after.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_');
                found.extend(name.take(1).filter(|n| n.starts_with("SYS_")).map(String::from));
            }
        }
    }

    #[test]
    fn everything_that_the_library_calls_is_tried() {
        let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sweetspot-preload/src");
        let mut found = Vec::new();
        calls(&library, &mut found);
        assert!(found.len() > 20, "{found:?}");
        // The question itself has been answered, and a process may always end.
        let tried = concat!(include_str!("filters.rs"), "(SYS_prctl,");
        found.retain(|name| {
            !tried.contains(&format!("{name},")) && !tried.contains(&format!("{name})"))
        });
        assert!(found.is_empty(), "not tried: {found:?}");
    }
}

//! Whether the seccomp filters under which `run` was started allow what the library does.
//!
//! A filter may kill for a system call that its maker did not expect, so the library makes none of
//! its own under one. But most filters (Docker's, systemd's) allow all of them. Filters are inherited,
//! and can neither be taken away nor exchanged; so what a child of this process may do under them,
//! the program may do too, as long as it has not set another one. A child because it may be killed.
//!
//! Not here: whether `run` itself can do what it does under them (`early`).

mod tried;

use std::fs;
use std::io::Read;
use std::ptr;
use std::time::{Duration, Instant};

use crate::sys;

/// How long the child may take. It needs a tenth of a millisecond; a busy machine may need longer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often is looked, should the clock stand.
const LOOKS_MAX: u32 = 100_000;
/// Between two looks: 100 us.
const LOOK: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };

/// What is known of the filters of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filters {
    /// None is in force, or whether one is cannot be asked.
    None,
    /// So many are in force, and allow everything; 0: the kernel does not count them.
    Allow(u32),
    /// One of them keeps a call from what it does, or ends the process.
    Refuse,
}

impl Filters {
    /// Looks whether there are any, and tries what they allow.
    pub(crate) fn in_force() -> Filters {
        // SAFETY: only a question, without memory.
        match unsafe { libc::prctl(libc::PR_GET_SECCOMP) } {
            0 => Filters::None,
            _ if is_child_content() => Filters::Allow(count().unwrap_or(0)),
            // A kernel without filters, and an emulator of another machine, answer so, too.
            mode if mode < 0 => Filters::None,
            _ => Filters::Refuse,
        }
    }

    /// How many are in force that allow everything.
    pub(crate) fn allowed(self) -> u32 {
        if let Filters::Allow(count) = self { count } else { 0 }
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

/// Whether a child that makes the calls says that all were answered. Its end raises no signal here.
fn is_child_content() -> bool {
    // SAFETY: a copy of this process, as by fork, which makes system calls only and ends; it has an
    // own copy of all memory.
    unsafe {
        let own = libc::syscall(libc::SYS_getpid);
        let child = libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) as libc::pid_t;
        if child == 0 {
            // A filter may answer so, and there is no child.
            if libc::syscall(libc::SYS_getpid) == own {
                return false;
            }
            let status = if tried::is_every_call_answered() { 0 } else { 1 };
            libc::syscall(libc::SYS_exit_group, status);
            // A filter may refuse that too, and there must never be two of this process.
            libc::syscall(libc::SYS_exit, status);
            sys::end_by_fault();
        }
        child > 0 && ends_well(child)
    }
}

/// Waits for a child, which is killed when it takes too long: then it waits for what does not come.
fn ends_well(child: libc::pid_t) -> bool {
    let (mut status, begun) = (-1, Instant::now());
    // SAFETY: the status and the time are live; the number is that of a child that was not waited for.
    unsafe {
        for _ in 0..LOOKS_MAX {
            match libc::waitpid(child, &mut status, libc::__WALL | libc::WNOHANG) {
                0 if begun.elapsed() > PATIENCE => break,
                0 => libc::nanosleep(&LOOK, ptr::null_mut()),
                ended => return ended == child && status == 0,
            };
        }
        libc::kill(child, libc::SIGKILL);
        // It may be refused to learn of it; its end is not waited for then.
        libc::waitpid(child, &mut status, libc::__WALL | libc::WNOHANG);
    }
    false
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
        let tried = concat!(include_str!("filters.rs"), include_str!("filters/tried.rs"));
        found.retain(|name| {
            !tried.contains(&format!("{name},")) && !tried.contains(&format!("{name})"))
        });
        assert!(found.is_empty(), "not tried: {found:?}");
    }
}

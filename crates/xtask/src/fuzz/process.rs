//! Processes: waiting for them, signals, ptrace.
#![allow(unsafe_code)]

use crate::commands::ends_with_us;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a victim or a guard is waited for for so long does not come; an emulated machine may take half.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Whether all threads of a process are stopped, or it is dead.
pub fn is_stopped(pid: i32) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    tasks.flatten().all(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let state = stat.rfind(')').and_then(|end| stat[end + 1..].trim_start().chars().next());
        matches!(state, None | Some('T' | 't' | 'Z' | 'X'))
    })
}

/// The time of the clock that victims put into their logs.
pub fn monotonic() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a variable of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// Waits exactly, as sleeping would add fifty microseconds.
pub fn pause(duration: Duration) {
    let begun = Instant::now();
    if duration > Duration::from_millis(1) {
        std::thread::sleep(duration - Duration::from_millis(1));
    }
    while begun.elapsed() < duration {
        std::hint::spin_loop();
    }
}

pub fn wait_until(
    what: &str,
    patience: Duration,
    mut holds: impl FnMut() -> bool,
) -> Result<(), String> {
    let begun = Instant::now();
    while !holds() {
        if begun.elapsed() > patience {
            return Err(format!("waited {} s for {what}", patience.as_secs()));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

/// Runs a command in a process group of its own, its standard output and error to files. `None`: it took longer,
/// and the whole group was killed, as shells leave their children behind.
///
/// # Errors
/// It could not be started.
pub fn bounded(
    command: &mut Command,
    outputs: [PathBuf; 2],
    life_max: Duration,
) -> Result<Option<ExitStatus>, String> {
    let create = |path: &PathBuf| {
        fs::File::create(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    command.stdout(create(&outputs[0])?).stderr(create(&outputs[1])?);
    let child = ends_with_us(command.process_group(0)).spawn();
    let mut child = child.map_err(|error| format!("{command:?}: {error}"))?;
    // What it was given is no longer ours.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut ended = None;
    let in_time = wait_until("its end", life_max, || {
        std::thread::sleep(Duration::from_micros(150));
        ended = child.try_wait().ok().flatten();
        ended.is_some()
    });
    if in_time.is_err() {
        signal(-(child.id() as i32), libc::SIGKILL);
        let _ = child.wait();
    }
    Ok(ended)
}

pub fn signal(pid: i32, signal: i32) {
    // SAFETY: no pointers. The number is a child's that has not been waited for.
    unsafe { libc::kill(pid, signal) };
}

pub fn trace(request: libc::c_uint, pid: i32, data: i32) -> Result<(), String> {
    // SAFETY: these requests take no pointers.
    let answer = unsafe { libc::ptrace(request, pid, 0usize, data as usize) };
    if answer == 0 {
        return Ok(());
    }
    Err(format!("ptrace of {pid}: {}", std::io::Error::last_os_error()))
}

/// Lets a stopped process stop again before each execution of the instruction at `place`, and after
/// each store to the word at `end`; `None`: at none.
///
/// # Errors
/// It cannot be traced.
#[cfg(target_arch = "x86_64")]
pub fn stop_at(pid: i32, stops: Option<(u64, u64)>) -> Result<(), String> {
    /// Where in the process' state as ptrace shows it the debug registers are.
    const DEBUG: usize = std::mem::offset_of!(libc::user, u_debugreg);
    /// Of debug register 7: 0 is for execution, 1 for stores to eight bytes.
    const CONTROL: u64 = 0b1001 << 20 | 0b101;
    let (place, end) = stops.unwrap_or_default();
    let control = if stops.is_some() { CONTROL } else { 0 };
    for (register, value) in [(7, 0), (0, place), (1, end), (7, control)] {
        // SAFETY: no pointer of ours is handed over.
        let answer =
            unsafe { libc::ptrace(libc::PTRACE_POKEUSER, pid, DEBUG + register * 8, value) };
        if answer != 0 {
            return Err(format!("a breakpoint in {pid}: {}", std::io::Error::last_os_error()));
        }
    }
    Ok(())
}

/// Waits for the next thing that a traced process does. Returns its wait status.
///
/// # Errors
/// It is no child of ours.
pub fn wait_for(pid: i32) -> Result<i32, String> {
    let mut status = 0;
    // SAFETY: the pointer is to a variable of ours.
    let answer = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
    if answer != pid {
        return Err(format!("waiting for {pid}: {}", std::io::Error::last_os_error()));
    }
    Ok(status)
}

/// From now on guards and orphans come to us, so that their end can be waited for. Not where nobody waits
/// for them: a hundred thousand dead ones would make every look at `/proc` slow.
pub fn adopt_orphans() {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Waits, bounded, for the end of a process; one that is not our child (any more) counts as ended
/// when it is gone.
pub fn reap(pid: i32) -> Result<(), String> {
    wait_until("a process to end", PATIENCE, || {
        let mut status = 0;
        // SAFETY: the pointer is to a variable of ours.
        let answer = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG | libc::__WALL) };
        match answer {
            0 => false,
            -1 => !Path::new(&format!("/proc/{pid}")).exists(),
            _ => !libc::WIFSTOPPED(status),
        }
    })
}

//! One system call after the other is missing, as on a kernel that does not have it yet, or refused,
//! as by a container's filter that is older than the call.
//!
//! `xtask matrix without NUMBER ERROR COMMAND` becomes the command under a filter that answers this
//! system call with this error. Whatever is missing, the program under `sweetspot run` must end as it
//! does natively; where less is buffered, `run --summary` must give a reason.

#![allow(unsafe_code)]

use libc::{c_long, sock_filter};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use sweetspot_core::why::Why;
use sweetspot_report::summary::BEFORE_ITS_BUFFER;
use tempfile::TempDir;

/// Not in `libc` for every machine yet; the same number on all.
const SYS_CACHESTAT: c_long = 451;

/// Calls that are younger than the oldest kernel that someone may have, or that filters know late;
/// with the kernel that brought them.
const YOUNG: &[(&str, c_long, &str)] = &[
    ("copy_file_range", libc::SYS_copy_file_range, "4.5"),
    ("preadv2", libc::SYS_preadv2, "4.6"),
    ("pwritev2", libc::SYS_pwritev2, "4.6"),
    ("statx", libc::SYS_statx, "4.11"),
    ("io_uring_setup", libc::SYS_io_uring_setup, "5.1"),
    ("clone3", libc::SYS_clone3, "5.3"),
    ("pidfd_open", libc::SYS_pidfd_open, "5.3"),
    ("openat2", libc::SYS_openat2, "5.6"),
    ("pidfd_getfd", libc::SYS_pidfd_getfd, "5.6"),
    ("faccessat2", libc::SYS_faccessat2, "5.8"),
    ("close_range", libc::SYS_close_range, "5.9"),
    ("epoll_pwait2", libc::SYS_epoll_pwait2, "5.11"),
    ("mount_setattr", libc::SYS_mount_setattr, "5.12"),
    ("cachestat", SYS_CACHESTAT, "6.5"),
    // As old as Linux here, but what containers refuse now and then.
    ("memfd_create", libc::SYS_memfd_create, "3.17"),
    ("membarrier", libc::SYS_membarrier, "4.3"),
    ("process_vm_readv", libc::SYS_process_vm_readv, "3.2"),
];

/// Missing on this kernel; refused by a filter.
const ERRORS: &[(&str, i32)] = &[("ENOSYS", libc::ENOSYS), ("EPERM", libc::EPERM)];

/// Without these less is buffered.
const NEEDED: &[(&str, &str)] =
    &[("statx", "EPERM"), ("clone3", "EPERM"), ("pidfd_open", "ENOSYS"), ("pidfd_open", "EPERM")];

/// So many that it does not matter how late the guard answers.
const RECORDS: u64 = 20_000;

/// What one missing call led to.
pub struct Row {
    call: &'static str,
    since: &'static str,
    error: &'static str,
    /// What went wrong, or was left unsaid.
    wrong: Option<String>,
    /// The reason that was given for less.
    less: Option<String>,
}

impl Row {
    pub fn is_wrong(&self) -> bool {
        self.wrong.is_some()
    }

    pub fn is_less(&self) -> bool {
        self.less.is_some()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { call, since, error, wrong, less } = self;
        write!(formatter, "{call} ({since}) {error}: ")?;
        match (wrong, less) {
            (Some(wrong), _) => write!(formatter, "WRONG: {wrong}"),
            (None, Some(less)) => write!(formatter, "less: {less}"),
            (None, None) => write!(formatter, "nothing is missing"),
        }
    }
}

/// Tries every call with every error. `sweetspot` makes a command of it with its environment.
///
/// # Errors
/// Nothing can be tried.
pub fn rows(sweetspot: &dyn Fn() -> Command) -> Result<Vec<Row>, String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let records: Vec<u8> = (0..RECORDS).flat_map(|n| format!("{n:0200}").into_bytes()).collect();
    fs::write(scratch.path().join("in"), records).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for &(call, number, since) in YOUNG {
        for &(error, errno) in ERRORS {
            let tried = copy(sweetspot, &scratch, number, errno);
            let (wrong, less) = match tried {
                Ok(Some(less)) if !NEEDED.contains(&(call, error)) => {
                    (Some(format!("less is buffered: {less}")), None)
                }
                Ok(less) => (None, less),
                Err(wrong) => (Some(wrong), None),
            };
            rows.push(Row { call, since, error, wrong, less });
        }
    }
    Ok(rows)
}

/// Copies records under `run` without a system call. Returns why less was buffered, if it was.
fn copy(
    sweetspot: &dyn Fn() -> Command,
    scratch: &TempDir,
    number: c_long,
    errno: i32,
) -> Result<Option<String>, String> {
    let at = |name: &str| scratch.path().join(name);
    let mut run = without(sweetspot(), number, errno)?;
    run.arg("run").arg(format!("--summary={}", at("summary").display()));
    run.args(["--", "dd", "if=in", "of=out", "bs=200", "status=none"]);
    let mut summary = String::new();
    // A program of milliseconds may be over before the guard has begun, on an emulated machine often.
    for _ in 0..10 {
        let _ = fs::remove_file(at("out"));
        let output = run.current_dir(scratch.path()).output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() || !said.is_empty() {
            return Err(format!("{}: {}", output.status, said.trim()));
        }
        let read = |name: &str| fs::read(at(name)).map_err(|error| format!("{name}: {error}"));
        if read("in")? != read("out")? {
            return Err("the copy differs".to_owned());
        }
        summary = fs::read_to_string(at("summary")).map_err(|error| error.to_string())?;
        if left_is_little(&summary) {
            return Ok(None);
        }
    }
    // What stands in the last column.
    let last = |line: &str| line.rsplit("  ").next().unwrap_or_default().trim().to_owned();
    let reasons: Vec<String> = summary.lines().filter(|line| is_reason(line)).map(last).collect();
    match reasons.as_slice() {
        [] => Err(format!("less is buffered, and no reason is given:\n{summary}")),
        reasons => Ok(Some(reasons.join("; "))),
    }
}

/// Whether at most a quarter of the calls was left: each record is read once, and written.
fn left_is_little(summary: &str) -> bool {
    crate::conformance::saved(summary) * 4 >= 2 * RECORDS * 3
}

/// A line that gives a reason, besides the one that each file has at its beginning.
fn is_reason(line: &str) -> bool {
    let reasons = |what: &str| line.matches(what).count();
    let is_of_file = line.trim().starts_with('/');
    // Nor does it say anything of the system that a program was faster than its guard.
    let usual =
        [BEFORE_ITS_BUFFER, Why::NotAnswered.text()].map(|why| reasons(&format!(": {why}")));
    let usual: usize = usual.iter().sum();
    line.starts_with("note") || is_of_file && reasons(": ") > usual
}

/// This program, which becomes `command` without a system call.
fn without(command: Command, number: c_long, errno: i32) -> Result<Command, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut outer = Command::new(own);
    outer.args(["matrix", "without"]).args([number.to_string(), errno.to_string()]);
    outer.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    Ok(outer)
}

/// Becomes a command that lacks a system call. Returns why it could not.
pub fn become_without(number: u32, errno: u32, command: &[OsString]) -> String {
    if let Err(error) = forbid(number, errno) {
        return format!("no filter: {error}");
    }
    let error = Command::new(&command[0]).args(&command[1..]).exec();
    format!("{}: {error}", command[0].display())
}

/// Lets this system call of this process, and of all that it becomes and starts, fail from now on.
fn forbid(number: u32, errno: u32) -> std::io::Result<()> {
    let step = |code: u32, jt: u8, jf: u8, k: u32| sock_filter { code: code as u16, jt, jf, k };
    // The number is the first word of what a filter sees. Nothing here calls as another
    // architecture does.
    let mut program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel reads the program through the pointers, which live until it has returned.
    let set = || unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter)
    };
    let mut answer = set();
    if answer != 0 {
        // Without rights a process must first give up that programs it becomes may have more.
        // SAFETY: values only.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        answer = set();
    }
    if answer == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

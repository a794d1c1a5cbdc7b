//! One system call of a victim fails, the first, the second ... until it ends before that: no crash,
//! no lost byte, and the same error as without buffering.
//!
//! The victim (`programs/c/fail_victim.c`) keeps in memory what each file must hold by what its calls
//! returned. So what a call reported is compared with what is there, whichever call was disturbed.
//! Which error the program may see is learned from the victim as it is: where a system call of the
//! same kind of call fails natively, the same is seen; one that only the library made is not seen,
//! but for a flush that fails.
//!
//! Then the same from the first instruction of `sweetspot run` to the victim's own first call: the
//! program runs as ever, or it does not run and that is said.
#![allow(unsafe_code)]

use super::process::{PATIENCE, trace, wait_for, wait_until};
use super::registers::Registers;
use super::victim::Kit;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_long;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::channel;

/// Sizes at which system calls fail.
const SIZES: &[&str] = &["auto", "512", "64K"];
/// Names of the victim's files, in the order of its models.
const FILES: &[&str] = &["0", "1", "2", "stream"];
/// `struct page`, `struct model` and `enum kind` of the victim.
const PAGE: u64 = 0x2_0000_0000;
const PAGE_BYTES: u64 = 4096;
const MODEL_BYTES: usize = 65_536;
const FAILURES_MAX: usize = 32;
const KINDS: &[&str] = &[
    "start",
    "write",
    "read",
    "seek",
    "pwrite",
    "pread",
    "fsync",
    "ftruncate",
    "open",
    "close",
    "rename",
    "stat",
    "pipe",
    "writev",
    "readv",
    "fwrite",
    "sendfile",
    "lock",
    "mmap",
    "fork",
    "wait",
    "sleep",
    "end",
];

/// What happens to a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// It fails with this error and does nothing; `close` closes all the same.
    Error(i32),
    /// It transfers half of what it was asked to.
    Short,
    /// It and all later writes fail: the disk is full from here on.
    Full,
}

const FAULTS: &[Fault] =
    &[Fault::Error(libc::EIO), Fault::Error(libc::ENOSPC), Fault::Error(libc::EINTR), Fault::Short];
/// A disk that is full from one write on: `cargo xtask fuzz full`.
const FULL: &[Fault] = &[Fault::Full];

/// Of calls that newer machines have in one form only, the one that C libraries use here.
#[cfg(target_arch = "x86_64")]
mod own {
    pub use libc::{SYS_poll as POLL, SYS_rename as RENAME};
}
#[cfg(not(target_arch = "x86_64"))]
mod own {
    pub use libc::{SYS_ppoll as POLL, SYS_renameat as RENAME};
}

/// System calls that cannot fail when they are called rightly.
const NEVER_FAIL: &[c_long] = &[
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    // All its errors are the caller's.
    libc::SYS_lseek,
    // Rust's runtime panics on any error of it that the kernel does not have.
    libc::SYS_getrandom,
    // Rust's runtime asks it about 0, 1 and 2, and aborts on an error that it does not have.
    own::POLL,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_umask,
    libc::SYS_clock_gettime,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    // A second `execve` of the same process is not traced to its end otherwise.
    libc::SYS_execve,
    // The victim's own signals to itself.
    libc::SYS_tgkill,
];
const TRANSFERS: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_readv,
    libc::SYS_writev,
];
const WRITES: &[c_long] = &[libc::SYS_write, libc::SYS_pwrite64, libc::SYS_writev];
/// What a full disk says no to, besides transfers to a file.
const NEEDS_SPACE: &[c_long] = &[
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_openat,
    own::RENAME,
    libc::SYS_fsync,
    libc::SYS_sendfile,
    libc::SYS_ftruncate,
];
/// What a signal interrupts.
const INTERRUPTIBLE: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_wait4,
    libc::SYS_clock_nanosleep,
    libc::SYS_fcntl,
    libc::SYS_fstatfs,
    libc::SYS_sendfile,
];
/// What the library calls on its own account, too: then the program need not see the error.
const LIBRARYS: &[c_long] = &[
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_fcntl,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_futex,
];

/// Kinds of calls that read at the file's position.
const READ_KINDS: &[&str] = &["read", "readv", "pread"];

impl Fault {
    fn concerns(self, call: c_long) -> bool {
        match self {
            Fault::Error(libc::ENOSPC) => NEEDS_SPACE.contains(&call),
            Fault::Error(libc::EINTR) => INTERRUPTIBLE.contains(&call),
            Fault::Error(_) => !NEVER_FAIL.contains(&call),
            Fault::Short => TRANSFERS.contains(&call),
            Fault::Full => WRITES.contains(&call),
        }
    }

    fn name(self) -> String {
        match self {
            Fault::Error(errno) => std::io::Error::from_raw_os_error(errno).to_string(),
            Fault::Short => "half a transfer".to_owned(),
            Fault::Full => "no space from here on".to_owned(),
        }
    }
}

/// A call of the victim that failed: its kind, the error.
type Failure = (u64, i32);
/// What the victim saw of a fault in a system call of a kind of call.
type Native = BTreeMap<(Fault, u64, c_long), BTreeSet<Vec<Failure>>>;

/// The system call that was disturbed, and the kind of call in which the victim made it.
#[derive(Clone, Copy, Debug)]
struct Disturbed {
    call: c_long,
    kind: u64,
}

/// How the victim as it is ends when a system call before its first call fails.
type NativeStart = BTreeSet<(Fault, c_long, i32)>;

/// Which system calls fail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stretch {
    /// From the first instruction of `sweetspot run`, or of the victim, to the victim's first call.
    Start,
    /// From the victim's first call on.
    Calls,
}

impl Stretch {
    fn contains(self, kind: u64, call: c_long) -> bool {
        match self {
            Stretch::Calls => true,
            // Rust's library takes a folder that cannot be closed for a mistake of its own.
            Stretch::Start => kind == 0 && call != libc::SYS_close,
        }
    }
}

/// A victim that has ended.
#[derive(Clone)]
struct Ended {
    status: i32,
    disturbed: Option<Disturbed>,
    /// All calls that could have been disturbed, if none was.
    calls: Vec<(u64, c_long)>,
    page: Vec<u64>,
    models: Vec<Vec<u8>>,
    stderr: String,
}

/// What one victim is to do.
#[derive(Clone, Copy)]
struct Plan<'a> {
    seed: u64,
    /// `None`: the victim as it is.
    size: Option<&'a str>,
    fault: Fault,
    stretch: Stretch,
    /// Which of the calls that the fault concerns; 0: none.
    number: u64,
}

/// Which of the system calls fail: the one with the number `from`, and each `every`th after it.
pub struct Which {
    pub every: u64,
    pub from: u64,
}

#[derive(Default)]
struct Tally {
    runs: u64,
    /// Runs in which the victim saw an error, or fewer bytes.
    seen: u64,
}

/// Lets each `every`th system call fail, at each size, with each fault. Returns the closing line.
///
/// # Errors
/// The first victim that crashed, lost or doubled something, or saw another error than natively.
pub fn run(kit: Kit, which: &Which, seed: u64) -> Result<String, String> {
    run_with(kit, which, seed, FAULTS)
}

/// As [`run`], with a disk that is full from each `every`th write on.
///
/// # Errors
/// As [`run`]; a loss that was said is none.
pub fn run_full(kit: Kit, which: &Which, seed: u64) -> Result<String, String> {
    run_with(kit, which, seed, FULL)
}

fn run_with(kit: Kit, which: &Which, seed: u64, faults: &[Fault]) -> Result<String, String> {
    kit.compile("fail_victim")?;
    let native = natively(&kit, seed, faults)?;
    let native_start = start_natively(&kit, seed, faults)?;
    let mut tally = Tally::default();
    for size in SIZES {
        for fault in faults {
            for stretch in [Stretch::Start, Stretch::Calls] {
                let mut number = which.from;
                let mut plan = Plan { seed, size: Some(size), fault: *fault, stretch, number };
                while one(&kit, plan, &native, &native_start, &mut tally)? {
                    number += which.every.max(1);
                    plan.number = number;
                }
            }
        }
    }
    let Tally { runs, seen } = tally;
    if seen == 0 {
        return Err(format!("{runs} faults, and no program ever saw one"));
    }
    Ok(format!("{runs} system calls failed, {seen} seen by the program, 0 crashes, 0 lost"))
}

/// Learns what the victim sees without buffering: of each system call of each kind of call, twice.
fn natively(kit: &Kit, seed: u64, faults: &[Fault]) -> Result<Native, String> {
    let mut native = Native::new();
    for fault in faults {
        let plan = Plan { seed, size: None, fault: *fault, stretch: Stretch::Calls, number: 0 };
        let undisturbed = perform(kit, plan)?.0;
        let mut tried: BTreeMap<(u64, c_long), u32> = BTreeMap::new();
        for (index, key) in undisturbed.calls.iter().enumerate() {
            let times = tried.entry(*key).or_default();
            *times += 1;
            if *times > 2 {
                continue;
            }
            let (ended, files) = perform(kit, Plan { number: index as u64 + 1, ..plan })?;
            let judge = if *fault == Fault::Full { judge_full } else { judge_bytes };
            judge(&ended, &files).map_err(|wrong| {
                format!("the victim as it is: {} in {key:?}: {wrong}", fault.name())
            })?;
            let Some(Disturbed { call, kind }) = ended.disturbed else { continue };
            native.entry((*fault, kind, call)).or_default().insert(ended.failures());
        }
    }
    Ok(native)
}

/// Learns how the victim as it is ends when it cannot start.
fn start_natively(kit: &Kit, seed: u64, faults: &[Fault]) -> Result<NativeStart, String> {
    let mut native = NativeStart::new();
    for fault in faults {
        for number in 1.. {
            let plan = Plan { seed, size: None, fault: *fault, stretch: Stretch::Start, number };
            let ended = perform(kit, plan)?.0;
            let Some(Disturbed { call, .. }) = ended.disturbed else { break };
            native.insert((*fault, call, ended.status));
        }
    }
    Ok(native)
}

/// One run; false: it ended before the call that was to fail.
fn one(
    kit: &Kit,
    plan: Plan,
    native: &Native,
    native_start: &NativeStart,
    tally: &mut Tally,
) -> Result<bool, String> {
    let (ended, files) = perform(kit, plan)?;
    let Plan { seed, size, fault, number, .. } = plan;
    let verdict = match (plan.stretch, ended.disturbed) {
        (Stretch::Start, Some(disturbed)) => {
            let native = native_start.contains(&(plan.fault, disturbed.call, ended.status));
            judge_start(&ended, &files, native)
        }
        (_, None) => judge_bytes(&ended, &files),
        (_, Some(_)) if fault == Fault::Full => judge_full(&ended, &files),
        (_, Some(disturbed)) => judge_bytes(&ended, &files)
            .and_then(|()| judge_error(plan.fault, disturbed, &ended.failures(), native)),
    };
    verdict.map_err(|wrong| {
        let at = ended.disturbed.map_or("no call".to_owned(), |Disturbed { call, kind }| {
            format!("system call {call} in {}", kind_name(kind))
        });
        format!(
            "{wrong}\n  {}: {at}, number {number}, size {}, seed {seed}\n  \
             again: cargo xtask fuzz {} --from {number} --every 1000000 --seed {seed}",
            fault.name(),
            size.unwrap_or("none"),
            if fault == Fault::Full { "full" } else { "fail" },
        )
    })?;
    tally.runs += u64::from(ended.disturbed.is_some());
    tally.seen += u64::from(!ended.failures().is_empty());
    Ok(ended.disturbed.is_some())
}

fn kind_name(kind: u64) -> &'static str {
    KINDS.get(kind as usize).copied().unwrap_or("?")
}

impl Ended {
    fn failures(&self) -> Vec<Failure> {
        let count = self.page.get(4).map_or(0, |count| (*count as usize).min(FAILURES_MAX));
        (0..count)
            .map(|index| (self.page[7 + index * 3], self.page[8 + index * 3] as i32))
            .collect()
    }
}

/// No crash, everything that was read was right, and the files hold what the calls reported.
fn judge_bytes(ended: &Ended, files: &[Vec<u8>]) -> Result<(), String> {
    if ended.status != 0 {
        return Err(format!("it ended with the wait status {:#x}: {}", ended.status, ended.stderr));
    }
    if ended.page.get(3) != Some(&1) {
        return Err("it ended early".to_owned());
    }
    if ended.page[2] != 0 {
        let (call, line) = (ended.page[2] >> 32, ended.page[2] & 0xffff_ffff);
        return Err(format!("in call {call} line {line} of fail_victim.c does not hold"));
    }
    let is_flush = |disturbed: Disturbed| disturbed.call == libc::SYS_pwrite64;
    if ended.page[5] != 0 && !ended.disturbed.is_some_and(is_flush) {
        return Err("a size did not show what was written".to_owned());
    }
    if !ended.stderr.is_empty() {
        return Err(format!("on stderr: {}", ended.stderr));
    }
    for ((name, model), file) in FILES.iter().zip(&ended.models).zip(files) {
        if model != file {
            let at = model.iter().zip(file).take_while(|(a, b)| a == b).count();
            let (len, expected) = (file.len(), model.len());
            return Err(format!("file {name}: {len} bytes, expected {expected}; equal up to {at}"));
        }
    }
    Ok(())
}

/// No crash, and each file holds what the calls reported, or it was said that it does not.
fn judge_full(ended: &Ended, files: &[Vec<u8>]) -> Result<(), String> {
    let failed = ended.failures();
    let mut told = ended.clone();
    // Told at the last moment, by a status of its own (EX_IOERR).
    let told_at_end = libc::WIFEXITED(ended.status) && libc::WEXITSTATUS(ended.status) == 74;
    if told_at_end && !ended.stderr.is_empty() {
        told.status = 0;
    }
    for ((name, model), file) in FILES.iter().zip(&mut told.models).zip(files) {
        let is_named = ended.stderr.contains(&format!("/{name}: "));
        if model != file && is_named && (told_at_end || !failed.is_empty()) {
            model.clone_from(file);
        }
    }
    told.stderr.clear();
    if !failed.is_empty() {
        // Nor do maps, sizes and transfers inside the kernel show what could not be written.
        told.page[2] = 0;
        told.page[5] = 0;
    }
    judge_bytes(&told, files)
}

/// It ran as ever, or did not run and that was said, or ended as it ends natively.
fn judge_start(ended: &Ended, files: &[Vec<u8>], is_native: bool) -> Result<(), String> {
    let said = &ended.stderr;
    if said.contains("fatal runtime error: initialization") {
        // Rust's runtime, before any line of ours: it says so, and nothing was started.
        return Ok(());
    }
    if said.contains("panicked") {
        return Err(format!("a panic: {said}"));
    }
    if ended.page.get(3) == Some(&1) {
        // The dynamic linker or `run` may say why nothing is buffered.
        return judge_bytes(&Ended { stderr: String::new(), ..ended.clone() }, files);
    }
    let refused = libc::WIFEXITED(ended.status) && ended.status != 0 && !said.is_empty();
    if refused || is_native {
        return Ok(());
    }
    Err(format!("it ended with the wait status {:#x}, and said: {said}", ended.status))
}

/// The program saw what it sees natively.
fn judge_error(
    fault: Fault,
    disturbed: Disturbed,
    failures: &[Failure],
    native: &Native,
) -> Result<(), String> {
    let Disturbed { call, kind } = disturbed;
    let said = || {
        let list = failures.iter().map(|(kind, errno)| {
            format!("{}: {}", kind_name(*kind), std::io::Error::from_raw_os_error(*errno))
        });
        list.collect::<Vec<_>>().join(", ")
    };
    let has_this_error = failures.iter().all(|(_, errno)| fault == Fault::Error(*errno));
    if call == libc::SYS_pwrite64 && has_this_error {
        // A flush: told at the same call, or a later one of that file.
        return Ok(());
    }
    if call == libc::SYS_pread64 && READ_KINDS.contains(&kind_name(kind)) && has_this_error {
        // A window is filled: the read that needs it fails as it does natively.
        return Ok(());
    }
    match native.get(&(fault, kind, call)) {
        Some(outcomes) if outcomes.contains(failures) => Ok(()),
        None if failures.is_empty() => Ok(()),
        Some(_) if failures.is_empty() && LIBRARYS.contains(&call) => Ok(()),
        None => Err(format!("the program saw an error of the library's own call: {}", said())),
        Some(outcomes) => Err(format!("the program saw [{}], natively {outcomes:?}", said())),
    }
}

/// Runs a victim and waits for its guard. Returns what it left.
fn perform(kit: &Kit, plan: Plan) -> Result<(Ended, Vec<Vec<u8>>), String> {
    let work = kit.work()?;
    let (pid, stderr) = start(kit, plan, work.path())?;
    // Whatever hangs is killed, so that no wait below lasts.
    let (ended, watched) = channel::<()>();
    let watch = std::thread::spawn(move || {
        if watched.recv_timeout(PATIENCE).is_err() {
            super::process::signal(pid, libc::SIGKILL);
        }
    });
    let outcome = follow(pid, plan);
    let _ = ended.send(());
    let _ = watch.join();
    let mut outcome = outcome?;
    wait_for_all()?;
    let said = fs::read_to_string(&stderr).unwrap_or_default();
    // What others left behind is finished by whichever `run` comes first.
    let own = said.lines().filter(|line| !line.starts_with("sweetspot: from a killed program"));
    outcome.stderr = own.collect::<Vec<_>>().join("\n");
    let files = FILES.iter().map(|name| fs::read(work.path().join(name)).unwrap_or_default());
    Ok((outcome, files.collect()))
}

/// Starts a victim that is traced from its first instruction on.
fn start(kit: &Kit, plan: Plan, folder: &Path) -> Result<(i32, std::path::PathBuf), String> {
    let victim = kit.program("fail_victim");
    let mut command = match plan.size {
        None => kit.command(&victim, folder),
        Some(size) => {
            let mut command = kit.command(&kit.sweetspot, folder);
            command.args(["run", "--buffer-size", size, "--"]).arg(victim);
            command
        }
    };
    let path = folder.join("stderr.txt");
    let stderr = File::create(&path).map_err(|error| error.to_string())?;
    command.arg(plan.seed.to_string()).args((plan.stretch == Stretch::Calls).then_some("hold"));
    command.stdout(Stdio::null()).stderr(stderr);
    let traced = || {
        // SAFETY: takes no pointers; between fork and exec only this call is made.
        match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0usize, 0usize) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes one system call.
    let child = unsafe { command.pre_exec(traced) }.spawn();
    Ok((child.map_err(|error| error.to_string())?.id() as i32, path))
}

/// Lets it run to the point where it holds, disturbs one call, and reads its memory at the end.
fn follow(pid: i32, plan: Plan) -> Result<Ended, String> {
    let mut ended = Ended {
        status: wait_for(pid)?,
        disturbed: None,
        calls: Vec::new(),
        page: Vec::new(),
        models: Vec::new(),
        stderr: String::new(),
    };
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT
        | libc::PTRACE_O_EXITKILL;
    trace(libc::PTRACE_SETOPTIONS, pid, options)?;
    let (mut holds, mut inside, mut count) = (plan.stretch == Stretch::Start, None, 0);
    // Opened anew where it becomes another program.
    let open_memory = || File::open(format!("/proc/{pid}/mem")).ok();
    let mut memory = open_memory();
    let mut signal = 0;
    loop {
        let is_over = ended.disturbed.is_some() && plan.fault != Fault::Full;
        let watch_calls = holds && (!is_over || inside.is_some());
        let go = if watch_calls { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
        trace(go, pid, signal)?;
        signal = 0;
        ended.status = wait_for(pid)?;
        if !libc::WIFSTOPPED(ended.status) {
            return Ok(ended);
        }
        match (ended.status >> 8) & 0xff {
            // At a system call.
            stop if stop == libc::SIGTRAP | 0x80 => match inside.take() {
                Some(entered) => leave(pid, entered)?,
                None => {
                    let mut registers = Registers::of(pid)?;
                    let call = registers.number();
                    let kind = memory.as_ref().and_then(|memory| word(memory, PAGE)).unwrap_or(0);
                    let applies = plan.fault.concerns(call)
                        && (plan.fault != Fault::Short || *registers.third() > 1)
                        && plan.stretch.contains(kind, call)
                        && (plan.fault != Fault::Full || is_on_disk(pid, registers.first()));
                    count += u64::from(applies);
                    let is_lasting = plan.fault == Fault::Full && count > plan.number;
                    let strikes = applies && (count == plan.number || is_lasting);
                    if applies && ended.disturbed.is_none() {
                        ended.calls.push((kind, call));
                    }
                    if strikes && ended.disturbed.is_none() {
                        ended.disturbed = Some(Disturbed { call, kind });
                    }
                    inside = Some(enter(pid, registers, strikes.then_some(plan.fault))?);
                }
            },
            libc::SIGTRAP => match ended.status >> 16 {
                libc::PTRACE_EVENT_EXIT => {
                    (ended.page, ended.models) = memory.as_ref().map(contents).unwrap_or_default();
                }
                _ => memory = open_memory(),
            },
            libc::SIGSTOP if !holds => holds = true,
            other => signal = other,
        }
    }
}

/// Whether a descriptor is a file that a full disk concerns; what is said on stderr is not.
fn is_on_disk(pid: i32, fd: u64) -> bool {
    fd != 2 && fs::metadata(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|data| data.is_file())
}

/// A system call under way: what to do when it returns.
enum Entered {
    Untouched,
    /// Return this error.
    Fails(i32),
    /// Give the third argument back.
    Shortened(u64),
}

fn enter(pid: i32, mut registers: Registers, fault: Option<Fault>) -> Result<Entered, String> {
    let entered = match fault {
        None => return Ok(Entered::Untouched),
        Some(Fault::Short) => {
            let asked = *registers.third();
            *registers.third() = asked / 2;
            Entered::Shortened(asked)
        }
        Some(fault) => {
            let errno = if let Fault::Error(errno) = fault { errno } else { libc::ENOSPC };
            if registers.number() != libc::SYS_close {
                registers.skip(pid)?;
            }
            Entered::Fails(errno)
        }
    };
    registers.write(pid)?;
    Ok(entered)
}

fn leave(pid: i32, entered: Entered) -> Result<(), String> {
    let mut registers = match entered {
        Entered::Untouched => return Ok(()),
        _ => Registers::of(pid)?,
    };
    match entered {
        Entered::Untouched => {}
        Entered::Fails(errno) => registers.set_result(-i64::from(errno)),
        Entered::Shortened(asked) => *registers.third() = asked,
    }
    registers.write(pid)
}

fn word(memory: &File, at: u64) -> Option<u64> {
    let mut word = [0; 8];
    memory.read_exact_at(&mut word, at).ok()?;
    Some(u64::from_ne_bytes(word))
}

/// The victim's page as words, and its models; empty where it did not come so far.
fn contents(memory: &File) -> (Vec<u64>, Vec<Vec<u8>>) {
    let mut page = vec![0; PAGE_BYTES as usize];
    let mut models = vec![0; MODEL_BYTES * FILES.len()];
    let read = memory
        .read_exact_at(&mut page, PAGE)
        .and_then(|()| memory.read_exact_at(&mut models, PAGE + PAGE_BYTES));
    if read.is_err() {
        return (Vec::new(), Vec::new());
    }
    let number = |bytes: &[u8]| u64::from_ne_bytes(bytes[..8].try_into().expect("eight bytes"));
    let models = models.chunks(MODEL_BYTES).map(|model| {
        let len = (number(model) as usize).min(MODEL_BYTES - 8);
        model[8..8 + len].to_vec()
    });
    (page.chunks(8).map(number).collect(), models.collect())
}

/// Waits for the guard and for whatever else came to us: all of it ends.
fn wait_for_all() -> Result<(), String> {
    wait_until("the guard to end", PATIENCE, || {
        let mut status = 0;
        // SAFETY: the pointer is to a variable of ours.
        let answer = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
        answer == -1
    })
}

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

mod calls;
mod judge;
mod trace;

use super::kit::{Kit, own_words};
use super::process::PATIENCE;
use calls::{FAULTS, FULL, Fault};
use judge::{judge_bytes, judge_error, judge_full, judge_start};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_long;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::channel;
use trace::{follow, wait_for_all};

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

/// Of calls that newer machines have in one form only, the one that C libraries use here.
#[cfg(target_arch = "x86_64")]
mod own {
    pub use libc::{SYS_poll as POLL, SYS_rename as RENAME};
}
#[cfg(not(target_arch = "x86_64"))]
mod own {
    pub use libc::{SYS_ppoll as POLL, SYS_renameat as RENAME};
}

/// Kinds of calls that read at the file's position.
const READ_KINDS: &[&str] = &["read", "readv", "pread"];

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
    outcome.stderr = own_words(&stderr);
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

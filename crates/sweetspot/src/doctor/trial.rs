//! A small program that runs under the library, to see what is buffered here.
//!
//! It is started as `run` starts one, without rules and sizes of the user's: the question is what the
//! machine allows. Its output is compared with its input.

use crate::reach::{self, Reach};
use crate::session::{RunSession, Settings, Summary};
use crate::{preload, resolve};
use rustix::process::{WaitId, WaitIdOptions};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use sweetspot_core::environment as names;
use sweetspot_core::ledger::FOLDER as SHARED_MEMORY;
use sweetspot_core::size::BufferSize;
use sweetspot_core::why::Why;
use sweetspot_guard::process::with_size_errors;
use sweetspot_report::failure::Failure;
use sweetspot_report::shown::shown;
use sweetspot_report::summary::FileSummary;
use sweetspot_sandbox::Scratch;

/// The program, and its small records.
const PROGRAM: &str = "dd";
const RECORD: &str = "bs=200";
const RECORD_BYTES: usize = 200;
/// Enough for a buffer to show. The guard starts beside the program, and on a busy machine the first
/// copy may have ended before it answers; so a copy without any other reason is tried again, at more length.
const RECORDS: [usize; 3] = [5_000, 50_000, 500_000];
/// A file is called buffered where at most one call in so many is made.
const CALLS_PER_MADE_MIN: u64 = 4;

/// What was seen.
#[derive(Default)]
pub struct Trial {
    /// What ran.
    pub program: PathBuf,
    /// Calls on its input.
    pub reads: Counts,
    pub writes: Counts,
    /// Why calls passed through, and what else the reader must know.
    pub notes: Vec<String>,
}

impl Trial {
    /// Whether a longer copy would tell nothing else: all is buffered, or there is a reason why not that lasts.
    fn is_telling(&self) -> bool {
        let passes = |note: &String| *note == Why::NotAnswered.text();
        self.reads.are_fewer() && self.writes.are_fewer() || !self.notes.iter().all(passes)
    }
}

/// Calls that the program requested, and system calls that were made for them.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub requested: u64,
    pub made: u64,
}

impl Counts {
    pub fn are_fewer(self) -> bool {
        self.requested > 0 && self.made * CALLS_PER_MADE_MIN <= self.requested
    }

    fn of(file: Option<&FileSummary>) -> Counts {
        let counts = |file: &FileSummary| Counts { requested: file.requested, made: file.made };
        file.map(counts).unwrap_or_default()
    }
}

/// Runs it under `library`.
///
/// # Errors
/// Where it cannot be reached or started, or has not copied well.
pub fn of(library: &Path) -> Result<Trial, Failure> {
    let path = std::env::var_os("PATH");
    let program = resolve::find(OsStr::new(PROGRAM), path.as_deref())
        .map_err(|missing| resolve::failure(OsStr::new(PROGRAM), &missing))?;
    if let Reach::Unreachable(why) = reach::inspect(&program, path.as_deref()) {
        return Err(Failure::own(format!("{} cannot be buffered: {why}", shown(&program))));
    }
    let folder = folder().map_err(|error| failed("no folder for its files", &error))?;
    let mut trial = Trial::default();
    for records in RECORDS {
        trial = copy(&program, library, folder.path(), records)?;
        if trial.is_telling() {
            break;
        }
    }
    Ok(trial)
}

/// Copies so many records.
fn copy(program: &Path, library: &Path, folder: &Path, records: usize) -> Result<Trial, Failure> {
    let input: Vec<u8> =
        (0..records).flat_map(|number| format!("{number:RECORD_BYTES$}").into_bytes()).collect();
    with_size_errors(|| fs::write(folder.join("in"), input))
        .map_err(|error| failed("its input cannot be written", &error))?;
    let settings = Settings {
        buffer: BufferSize::Auto,
        rules: Vec::new(),
        summary: true,
        max_age_ms: None,
        stdio: false,
    };
    let mut session = RunSession::create(&settings);
    session.start_guard();
    let ended = start(program, library, &session, folder);
    let seen = ended.map(|(pid, made)| {
        session.finish(pid);
        (made, session.summary())
    });
    session.remove_if_unguarded();
    let (made, summary) = seen.map_err(|error| failed("it cannot be run", &error))?;
    compare(folder)?;
    let mut trial = judge(&summary, program);
    if let Some([reads, writes]) = made {
        let requested = records as u64;
        trial.reads = Counts { requested, made: reads };
        trial.writes = Counts { requested, made: writes };
    }
    Ok(trial)
}

/// The first place where files can be made: in a container that is often one only.
fn folder() -> io::Result<Scratch> {
    let here = std::env::current_dir().unwrap_or_default();
    let made = |place: &Path| Scratch::new(place, "sweetspot-doctor-");
    made(&std::env::temp_dir())
        .or_else(|error| made(&here).or_else(|_| made(Path::new(SHARED_MEMORY))).map_err(|_| error))
}

fn failed(what: &str, error: &io::Error) -> Failure {
    Failure::own(format!("{what}: {error}"))
}

/// The reads and writes that the kernel has counted for a process, no matter who buffers above it.
type Counted = Option<[u64; 2]>;

/// Starts it and waits for it; returns its process number, and what the kernel has counted.
fn start(
    program: &Path,
    library: &Path,
    session: &RunSession,
    folder: &Path,
) -> io::Result<(u32, Counted)> {
    let others = std::env::var_os(names::PRELOAD);
    let mut command = Command::new(program);
    command
        .args(["if=in", "of=out", RECORD, "status=none"])
        .current_dir(folder)
        .env_remove(names::STDIO)
        .env_remove(names::SWITCH)
        .env(names::PRELOAD, preload::chain(library.as_os_str(), others.as_deref()))
        .env(names::BUFFER, "auto")
        .env(names::SUMMARY, "1")
        .stdin(Stdio::null());
    match session.path() {
        Some(ledger) => command.env(names::LEDGER, ledger),
        None => command.env_remove(names::LEDGER),
    };
    let mut child = command.spawn()?;
    let pid = child.id();
    // Its counts are there until somebody has taken its end.
    let ended = rustix::process::Pid::from_child(&child);
    rustix::process::waitid(WaitId::Pid(ended), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let counted = counted(pid);
    let status = child.wait()?;
    match status.success() {
        true => Ok((pid, counted)),
        false => Err(io::Error::other(format!("{PROGRAM} ended with {status}"))),
    }
}

fn counted(pid: u32) -> Counted {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.strip_prefix(": ")?.parse().ok()
    };
    Some([value("syscr")?, value("syscw")?])
}

fn compare(folder: &Path) -> Result<(), Failure> {
    let read = |name: &str| {
        fs::read(folder.join(name)).map_err(|error| failed("its files cannot be read", &error))
    };
    match read("in")? == read("out")? {
        true => Ok(()),
        false => Err(Failure::own("its copy is not what it read")),
    }
}

fn judge(summary: &Summary, program: &Path) -> Trial {
    let of = |name: &str| summary.files.iter().find(|file| file.path.ends_with(name));
    let (input, output) = (of("/in"), of("/out"));
    let mut notes = summary.notes(program);
    if summary.processes == Some(0) {
        notes.insert(0, "the dynamic linker has not loaded the library".to_owned());
    }
    for reason in [input, output].into_iter().flatten().flat_map(|file| &file.reasons) {
        if !notes.iter().any(|note| note.contains(reason)) {
            notes.push(reason.clone());
        }
    }
    Trial {
        program: program.to_owned(),
        reads: Counts::of(input),
        writes: Counts::of(output),
        notes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_that_was_late_is_given_a_longer_copy() {
        let [few, all] = [67, 5000].map(|made| Counts { requested: 5000, made });
        let trial = |writes, notes: &[&str]| Trial {
            reads: few,
            writes,
            notes: notes.iter().map(|note| (*note).to_owned()).collect(),
            ..Trial::default()
        };
        let late = Why::NotAnswered.text();
        assert!(trial(few, &[]).is_telling());
        assert!(!trial(all, &[]).is_telling());
        assert!(!trial(all, &[late]).is_telling());
        assert!(trial(all, &[late, Why::SharedMemory.text()]).is_telling());
    }
}

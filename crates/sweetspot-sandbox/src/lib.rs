//! A place in which a command runs again and again from the same state, without touching anything:
//! each run gets a mount namespace of its own, with an overlay over every folder in which it could
//! write.
//!
//! ```text
//! mounts    which folders get an overlay
//! owners    which need one of their own because of who owns them
//! lay       enters namespaces and lays the overlays
//! arguments how that is asked
//! input     standard input, through them
//! step      what happens inside: the program, waiting for all that it started
//! changes   what the run left, from the upper folders of its overlays
//! scratch   folders that are removed afterwards, also those of processes that were killed
//! ```
//!
//! What an overlay changes for the program: the first write to an existing file copies all of it;
//! opening a file takes longer; names cannot be moved between the folders that have an overlay each,
//! nor existing folders renamed (`EXDEV`, upon which `mv` copies); the other names of a file with
//! several keep the old content; a socket in the file system cannot be connected to. All runs are
//! alike in this.
//!
//! Not here: what is run, and where a user's notes lie. Anyone who asks says so.
//!
//! In place (`Isolation::None`) the same process looks after the run, without any of it.
#![forbid(unsafe_code)]

pub mod access;
mod arguments;
mod changes;
mod input;
mod lay;
mod mounts;
mod owners;
mod scratch;
mod shown;
mod step;

pub use arguments::Step;
pub use changes::{BLOCK_BYTES, Changes, Content, Entry, Kept, Kind, hashes, next_data};
pub use owners::folders_of;
pub use scratch::Scratch;
pub use step::{End, Inside, run as run_step};

use owners::Owners;
use scratch::remove_tree;
use shown::shown;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use sweetspot_guard::{costs, notes};

/// What a ledger is called; see `sweetspot_guard`. It comes and goes with each run.
const LEDGER_PREFIX: &str = "/dev/shm/sweetspot-";
/// How names of scratch folders begin.
const SCRATCH_PREFIX: &str = "sweetspot-sandbox-";
/// With less than this left on the disk of the overlays, what a run did may be due to that.
const FREE_BYTES_MIN: u64 = 1 << 20;

/// Whether runs are kept apart from the user's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    Overlays,
    None,
}

/// Why there is no sandbox.
#[derive(Debug)]
pub enum Refused {
    /// The kernel, or a policy, does not allow it, or the folder cannot be covered.
    NotHere(String),
    /// There is no room for what the runs write.
    NoScratch(String),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::NotHere(cause) => write!(formatter, "a sandbox is not possible here: {cause}"),
            Refused::NoScratch(cause) => formatter.write_str(cause),
        }
    }
}

/// The place, with all that its runs left; removed when dropped.
pub struct Sandbox {
    isolation: Isolation,
    scratch: Scratch,
    /// What programs leave in shared memory stays in memory.
    shared: Option<Scratch>,
    owners: Owners,
    /// Where guards note ledgers: that is no change of the program.
    notes: Vec<PathBuf>,
    /// Where they keep what calls cost: likewise.
    costs: Vec<PathBuf>,
}

/// What a sandbox is for.
#[derive(Debug)]
pub struct Wanted<'a> {
    pub isolation: Isolation,
    pub command: &'a [OsString],
    /// For scratch files; without it the first place that does.
    pub folder: Option<&'a Path>,
    /// Where guards note ledgers.
    pub notes: Vec<PathBuf>,
    /// Where they keep what calls cost.
    pub costs: Vec<PathBuf>,
}

/// One run that has ended.
#[derive(Debug)]
pub struct Ran {
    pub end: End,
    /// From the start of the program to its end, without what the sandbox costs.
    pub seconds: f64,
    /// Names of processes that it left running and that had to be ended.
    pub left_running: Vec<String>,
    /// Process numbers given out meanwhile.
    pub pids: (u32, u32),
    folders: Vec<PathBuf>,
    /// Names that the sandbox made.
    put: Vec<PathBuf>,
}

impl Sandbox {
    /// Makes the place for runs of a command, and tries it.
    ///
    /// # Errors
    /// Where the kernel refuses it.
    pub fn new(wanted: &Wanted<'_>) -> Result<Sandbox, Refused> {
        // Made by the first run alone it would be a difference.
        notes::prepare(&wanted.notes);
        costs::prepare(&wanted.costs);
        let mut refused = Refused::NoScratch("there is no folder for temporary files".to_owned());
        for place in places(wanted.folder) {
            let owners = match wanted.isolation {
                Isolation::Overlays => owners::look(wanted.command),
                Isolation::None => Ok(Owners::default()),
            };
            let owners = owners.map_err(|error| Refused::NotHere(error.to_string()))?;
            match Sandbox::at(wanted, owners, &place) {
                Ok(sandbox) => return Ok(sandbox),
                // What the kernel says at the best place says most.
                Err(cause) if !matches!(refused, Refused::NotHere(_)) => refused = cause,
                Err(_) => {}
            }
        }
        Err(refused)
    }

    fn at(wanted: &Wanted<'_>, owners: Owners, place: &Path) -> Result<Sandbox, Refused> {
        let no_scratch = |error: io::Error| {
            Refused::NoScratch(format!("no temporary folder in {}: {error}", shown(place)))
        };
        let shared = match Scratch::new(Path::new(lay::SHARED_MEMORY), SCRATCH_PREFIX) {
            Ok(shared) => Some(shared),
            // Without it the command would see what is there.
            Err(error) if wanted.isolation == Isolation::Overlays && is_no_room(&error) => {
                let cause = format!("no room in {}: {error}", lay::SHARED_MEMORY);
                return Err(Refused::NoScratch(cause));
            }
            Err(_) => None,
        };
        let sandbox = Sandbox {
            isolation: wanted.isolation,
            scratch: Scratch::new(place, SCRATCH_PREFIX).map_err(no_scratch)?,
            shared,
            owners,
            notes: wanted.notes.clone(),
            costs: wanted.costs.clone(),
        };
        if wanted.isolation == Isolation::Overlays {
            sandbox.attempt().map_err(Refused::NotHere)?;
        }
        Ok(sandbox)
    }

    /// A step without a program.
    fn attempt(&self) -> Result<(), String> {
        let words = self.command(0, &[]).map_err(|error| error.to_string())?;
        let status = Command::new(&words[0]).args(&words[1..]).status();
        status.map_err(|error| error.to_string())?;
        let report = self.report(0).map_err(|error| error.to_string())?;
        if let Some(cause) = report.refused {
            return Err(cause);
        }
        let here = std::env::current_dir().map_err(|error| error.to_string())?;
        self.forget(0).map_err(|error| error.to_string())?;
        if report.laid.is_closed(&here) {
            return Err(format!(
                "{} cannot be covered, because a file system is mounted below it{}",
                shown(&here),
                if here == Path::new("/") { "" } else { ", beside too many names" }
            ));
        }
        Ok(())
    }

    /// The command that runs `command` as the run of this number, in the current folder.
    ///
    /// # Errors
    /// Where the folders of the run cannot be made.
    pub fn command(&self, run: usize, command: &[OsString]) -> io::Result<Vec<OsString>> {
        let folder = self.folder(run);
        fs::create_dir_all(folder.join(lay::INSIDE))?;
        let shared_folder = self.shared.as_ref().map(|shared| shared.path().join(run.to_string()));
        shared_folder.iter().try_for_each(fs::create_dir_all)?;
        Ok(arguments::words(&Step {
            folder,
            shared_folder,
            top: self.owners.tops.iter().cloned().collect(),
            in_place: self.isolation == Isolation::None,
            command: command.to_vec(),
        }))
    }

    /// A path by which the program of a run can write what is no part of its changes, and the path
    /// by which it is read afterwards.
    pub fn beside(&self, run: usize, name: &str) -> (PathBuf, PathBuf) {
        let outside = self.folder(run).join(lay::INSIDE).join(name);
        match self.isolation {
            Isolation::Overlays => (self.folder(run).join(name), outside),
            Isolation::None => (outside.clone(), outside),
        }
    }

    /// Files that the user may write, and that no run can: they belong to somebody else.
    pub fn fixed(&self) -> &[PathBuf] {
        &self.owners.fixed
    }

    /// A folder that is removed with the sandbox.
    pub fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    /// All folders that are removed with the sandbox: for a process that has to end without that.
    pub fn scratches(&self) -> Vec<PathBuf> {
        let all = [Some(&self.scratch), self.shared.as_ref()];
        all.into_iter().flatten().map(|scratch| scratch.path().to_owned()).collect()
    }

    /// How a run ended.
    ///
    /// # Errors
    /// Where it could not be started.
    pub fn ran(&self, run: usize) -> Result<Ran, String> {
        let report = self
            .report(run)
            .map_err(|error| format!("a run has ended without a report: {error}"))?;
        match (report.end, &report.refused) {
            (Some(end), _) => Ok(Ran {
                end,
                seconds: report.seconds,
                left_running: report.left_running.clone(),
                pids: report.pids,
                folders: report.laid.folders().collect(),
                put: report.laid.put().collect(),
            }),
            (None, cause) => Err(cause.clone().unwrap_or("it was not started".to_owned())),
        }
    }

    /// What a run left in the folders under overlays.
    ///
    /// # Errors
    /// Where something cannot be looked at.
    pub fn changes(&self, run: usize, ran: &Ran) -> io::Result<Changes> {
        let mut changes = Changes::new();
        for (number, folder) in ran.folders.iter().enumerate() {
            let scratch = match &self.shared {
                Some(shared) if folder == Path::new(lay::SHARED_MEMORY) => shared.path(),
                _ => self.scratch.path(),
            };
            let upper = lay::upper_folder(&scratch.join(run.to_string()), number);
            if upper.exists() {
                changes::add(&mut changes, folder, &upper)?;
            }
        }
        // Changes are at real paths; these may be spelled with links.
        let real = |folder: PathBuf| folder.canonicalize().unwrap_or(folder);
        let own = notes::folders(&self.notes).chain(costs::folders(&self.costs));
        let own: Vec<_> = own.map(real).collect();
        changes.retain(|path, _| {
            let is_own = own.iter().any(|folder| path.starts_with(folder));
            !is_own && !path.to_string_lossy().starts_with(LEDGER_PREFIX)
        });
        for path in &ran.put {
            match changes.get(path).cloned().flatten() {
                // Only links can be removed: everything else is a mount.
                None => drop(changes.insert(path.clone(), None)),
                Some(Entry { kind: Kind::Link(target), .. })
                    if fs::read_link(path).is_ok_and(|old| old != target) => {}
                Some(Entry { kind: Kind::File(_), .. }) if path.is_symlink() => {}
                Some(_) => drop(changes.remove(path)),
            }
        }
        Ok(changes)
    }

    /// Why a run means nothing: the disk on which it wrote is full.
    ///
    /// # Errors
    /// It is.
    pub fn has_room(&self) -> Result<(), String> {
        let is_full = self.free_bytes().is_some_and(|free| free < FREE_BYTES_MIN);
        let scratch = shown(self.scratch.path());
        let full = || format!("{scratch}: the disk is full, so this run's result means nothing");
        if is_full { Err(full()) } else { Ok(()) }
    }

    /// Bytes that are free for what the runs write.
    pub fn free_bytes(&self) -> Option<u64> {
        free_bytes(self.scratch.path()).ok()
    }

    /// Removes what a run left.
    ///
    /// # Errors
    /// Where something cannot be removed.
    pub fn forget(&self, run: usize) -> io::Result<()> {
        let scratches = [Some(&self.scratch), self.shared.as_ref()];
        scratches
            .into_iter()
            .flatten()
            .try_for_each(|scratch| remove_tree(&scratch.path().join(run.to_string())))
    }

    fn folder(&self, run: usize) -> PathBuf {
        self.scratch.path().join(run.to_string())
    }

    fn report(&self, run: usize) -> io::Result<step::StepReport> {
        let text = fs::read(self.folder(run).join(step::REPORT))?;
        serde_json::from_slice(&text).map_err(io::Error::from)
    }
}

fn is_no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Where scratch files may go. Not every file system can be the upper one of an overlay: in a
/// container the usual places are overlays themselves, and then there is memory.
fn places(folder: Option<&Path>) -> Vec<PathBuf> {
    if let Some(folder) = folder {
        return vec![folder.to_owned()];
    }
    let variable = std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty());
    let usual = ["/var/tmp", "/tmp", lay::SHARED_MEMORY].map(PathBuf::from);
    variable.map(PathBuf::from).into_iter().chain(usual).collect()
}

/// How much there is room for in a folder.
///
/// # Errors
/// Where the system does not tell.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let room = rustix::fs::statvfs(folder)?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

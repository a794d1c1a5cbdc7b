//! Finishes what is pending in a ledger whose guard was killed together with the program.
//!
//! Anyone who can write shared memory can put a ledger there: by itself only one that the guard has
//! noted is finished ([`crate::notes`]).
//!
//! The guard has handles; here there is only a path, which nobody trusts. So bytes are written only
//! to a file that is provably the one they were meant for, and that nobody has written to since (`target`).
//! Everything else is saved beside, and the caller is told where. What the next run of a job wrote
//! is never overwritten by its predecessor's bytes.
//!
//! The ledger itself is read into private memory first, so nothing that changes it meanwhile, and no
//! hole in a full memory file system, matters.

mod leftover;
mod target;

use std::fs::File;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sweetspot_core::ledger::{
    ENTRIES_AT, Entry, FOLDER, Header, Ledger, MAGIC, NAME_PREFIX, PLACE_OFFSET, Slot,
    TEXT_BYTES_MAX, WRITE_BUFFERS_AT, WRITE_BUFFERS_BYTES_MAX, write_buffer_start,
};
use sweetspot_core::pending::{flushed, waiting_of};
use sweetspot_core::stamps::Apart;
use sweetspot_core::unwritten::FLUSH_BEGUN;

pub use self::leftover::{remove_idle, stale_ledgers, stale_ledgers_in};
use self::target::{Names, Target};
use crate::error::{Error, ErrorKind};
pub use crate::finish::APPENDED;
use crate::finish::{self, Extent, Saving};
use crate::identity::is_same_file;
use crate::notes::{self, Identity, Noted};
use crate::sys::{Locked, Resource};
use crate::{identity, sys};

/// What was made less long ago is left alone where nothing waits in it: its maker may be at it.
const MAKING_TIME_MAX: Duration = Duration::from_secs(60);

/// What is to be done with what is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only say what is there; nothing is changed.
    List,
    /// Write it, or save it beside, and remove the ledger.
    Finish,
    /// Remove the ledger and what is in it.
    Discard,
}

/// What became of a pending piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It can be written where it belongs (only with [`Mode::List`]).
    CanBeWritten,
    /// The file is gone or was changed, so it would be saved beside (only with [`Mode::List`]).
    WouldBeSaved,
    /// It is where it belongs.
    Written,
    /// It was saved in this file.
    Saved(PathBuf),
    /// It is lost, as was asked for.
    Discarded,
    /// It could neither be written nor saved, for this reason, and stays in the ledger.
    Stuck(String),
}

/// A pending piece of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The path at which the file was opened; empty where it is not known whole.
    pub path: PathBuf,
    /// The process that wrote it, where that is still known.
    pub pid: Option<u32>,
    /// Where in the file it belongs, in bytes.
    pub base: u64,
    /// It belongs to the file's end, wherever that is by then.
    pub appends: bool,
    /// Its length.
    pub bytes: u64,
    pub fate: Fate,
}

/// What guards of this user could save in the user's state folder alone, or in [`FOLDER`], as there was no room beside
/// its file: the bytes that a program could not write by its end.
pub fn saved_apart() -> Vec<PathBuf> {
    finish::saved_apart()
}

/// The ledgers in [`FOLDER`] that guards of this user have noted in these state folders, by name;
/// whether they are in use is for [`recover_noted`] to say.
pub fn noted_ledgers(states: &[PathBuf]) -> Vec<Noted> {
    noted_ledgers_in(states, Path::new(FOLDER))
}

/// As [`noted_ledgers`], in another folder. Those whose guard lives are left out.
pub fn noted_ledgers_in(states: &[PathBuf], folder: &Path) -> Vec<Noted> {
    let mut all = notes::noted_in(states, folder);
    all.retain(|noted| leftover::is_unlocked(noted.ledger()));
    all
}

/// O_NONBLOCK: a FIFO in its place must not hold anyone up.
const OPEN_FLAGS: i32 = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;

/// Looks at, finishes or discards a ledger whose guard and processes are dead. Returns the pieces in
/// the order in which they were written; the ledger's file is removed unless a piece is stuck.
///
/// # Errors
/// The ledger is in use, is not the caller's own, is no ledger, or belongs to another boot or pid
/// namespace (then only [`Mode::Discard`] is possible). Nothing was changed.
///
/// Nothing says that this user's guard made this ledger: what it says is for the caller to judge.
pub fn recover(path: &Path, mode: Mode) -> Result<Vec<Piece>, Error> {
    take(path, mode, None)
}

/// As [`recover`], of a ledger that a guard of this user has noted. Only what was noted with it is
/// written; anything else stays in the ledger.
///
/// # Errors
/// As [`recover`].
pub fn recover_noted(noted: &Noted, mode: Mode) -> Result<Vec<Piece>, Error> {
    let pieces = take(noted.ledger(), mode, Some(noted))?;
    if sys::status_at(noted.ledger()).is_err() {
        noted.remove();
    }
    Ok(pieces)
}

fn take(path: &Path, mode: Mode, noted: Option<&Noted>) -> Result<Vec<Piece>, Error> {
    let (file, ledger) = open_dead(path, mode)?;
    if noted.is_some_and(|noted| !noted.is_of(&file)) {
        // Replaced since it was looked at.
        return Err(Error::new("use the ledger", path, ErrorKind::NotYours, None));
    }
    let remove =
        || std::fs::remove_file(path).map_err(|error| Error::system("remove", path, error));
    let Some(ledger) = ledger else {
        // To be discarded unread.
        return remove().map(|()| Vec::new());
    };
    let mut pending: Vec<(usize, &Entry)> = ledger
        .entries()
        .iter()
        .enumerate()
        .filter(|(_, entry)| extent(&file, entry).is_some())
        .collect();
    pending.sort_by_key(|(_, entry)| entry.order.load(Relaxed));

    // All are examined before the first is written: two pieces may belong to one file, and writing
    // the first one changes its times.
    let mut names = Names::of(pending.iter().map(|(_, entry)| *entry));
    let found: Vec<Found> = pending
        .iter()
        .map(|(index, entry)| Found::new(&file, *index, entry, noted, &mut names))
        .map(|found| Found {
            target: found.target.filter(|_| !shares_its_place(found.entry, &pending)),
            ..found
        })
        .collect();
    // All or none: of two pieces of one file the second would make the first one's file a changed one.
    let most = Resource::FileBytes.limit().map_or(u64::MAX, |(most, _)| most);
    let is_too_large = found.iter().any(|found| found.end(&file) > most);
    let last = pending.last().map_or(0, |(_, entry)| entry.written_ns.load(Relaxed));
    let mut apart = Apart::new(pending.len() as u64, last);
    let mut pieces = Vec::new();
    for found in found {
        let (entry, piece_path) = (found.entry, found.path.clone());
        let fate = match (mode, &found.target) {
            (Mode::Discard, _) => Fate::Discarded,
            _ if !found.is_believed => Fate::Stuck(NOT_NOTED.to_owned()),
            (Mode::List, Some(_)) => Fate::CanBeWritten,
            (Mode::List, None) => Fate::WouldBeSaved,
            (Mode::Finish, _) if is_too_large => Fate::Stuck(TOO_LARGE.to_owned()),
            (Mode::Finish, _) => finish_piece(path, &file, &ledger, found, &mut apart),
        };
        let Some((base, Extent { bytes, .. })) = extent(&file, entry) else { continue };
        let pid = owner(&ledger, entry);
        let appends = finish::appends(entry);
        pieces.push(Piece { path: piece_path, pid, base, appends, bytes, fate });
    }
    let keeps =
        mode == Mode::List || pieces.iter().any(|piece| matches!(piece.fate, Fate::Stuck(_)));
    if !keeps && is_same_file(path, &file) {
        remove()?;
    }
    Ok(pieces)
}

/// Whether another piece may belong to the same place: two processes shared an offset, which nobody
/// has any more.
fn shares_its_place(entry: &Entry, pending: &[(usize, &Entry)]) -> bool {
    let identity = |entry: &Entry| (entry.device.load(Relaxed), entry.inode.load(Relaxed));
    let is_other = |other: &Entry| !std::ptr::eq(entry, other);
    entry.place.load(Relaxed) == PLACE_OFFSET
        && pending.iter().any(|(_, other)| is_other(other) && identity(other) == identity(entry))
}

/// A word of a ledger's header, or of what looks like one.
fn header_word(file: &File, at: usize) -> io::Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, (offset_of!(Ledger, header) + at) as u64)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// What is done when opening fails.
const USE: &str = "use the ledger";

/// Opens and locks a file of the user's own, which is still the one at `path`.
fn lock_own(path: &Path) -> Result<(Locked, std::fs::Metadata), Error> {
    let fail = |kind| Err(Error::new(USE, path, kind, None));
    let system = |error| Error::system(USE, path, error);
    let file = match sys::open(path, OPEN_FLAGS, 0) {
        Ok(file) => File::from(file),
        Err(error) => {
            let kind = match error.raw_os_error() {
                Some(libc::ELOOP | libc::EACCES | libc::EPERM) => ErrorKind::NotYours,
                _ => ErrorKind::System,
            };
            return Err(Error::new(USE, path, kind, error));
        }
    };
    let metadata = file.metadata().map_err(system)?;
    let is_own = metadata.is_file()
        && metadata.uid() == sys::effective_uid()
        && metadata.mode() & 0o7777 == 0o600
        && metadata.nlink() == 1;
    if !is_own {
        return fail(ErrorKind::NotYours);
    }
    let file = match Locked::try_new(file) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return fail(ErrorKind::InUse),
        result => result.map_err(system)?,
    };
    // Somebody may have finished and removed it between the open and the lock.
    match is_same_file(path, &file) {
        true => Ok((file, metadata)),
        false => fail(ErrorKind::InUse),
    }
}

/// Opens and locks a ledger, and makes sure that nobody uses it. It is read unless it is of another
/// version.
fn open_dead(path: &Path, mode: Mode) -> Result<(Locked, Option<Box<Ledger>>), Error> {
    let fail = |kind| Err(Error::new(USE, path, kind, None));
    let system = |error| Error::system(USE, path, error);
    let (file, metadata) = lock_own(path)?;
    let magic = header_word(&file, offset_of!(Header, magic)).unwrap_or(0);
    if magic != MAGIC && is_of_any_version(magic) {
        return match mode {
            Mode::Discard => Ok((file, None)),
            Mode::List | Mode::Finish => fail(ErrorKind::OtherVersion),
        };
    }
    if magic != MAGIC || metadata.len() < size_of::<Ledger>() as u64 {
        let is_empty = holds_nothing(&file);
        return match (is_empty, is_young(&metadata), mode) {
            (true, true, _) => fail(ErrorKind::InUse),
            // What a maker left that was killed in the middle.
            (true, false, Mode::Finish | Mode::Discard) if is_called_as_a_ledger(path) => {
                std::fs::remove_file(path).map_err(system)?;
                fail(ErrorKind::NotALedger)
            }
            _ => fail(ErrorKind::NotALedger),
        };
    }
    // Before all of it is read, which takes a millisecond or two: those of ended containers are looked
    // at by each `run`.
    let boot = header_word(&file, offset_of!(Header, boot)).map_err(system)?;
    let namespace = header_word(&file, offset_of!(Header, pid_namespace)).map_err(system)?;
    let is_here = identity::boot().map_err(system)? == boot
        && identity::pid_namespace().map_err(system)? == namespace;
    if !is_here && mode != Mode::Discard {
        return fail(ErrorKind::Elsewhere);
    }
    let ledger = sys::read_ledger(&file).map_err(system)?;
    if ledger.header.uid.load(Relaxed) != sys::effective_uid() {
        return fail(ErrorKind::NotYours);
    }
    let own = sys::status(&*file).map_err(system)?;
    if is_here && ledger.slots.iter().any(|slot| is_alive(slot, own.device, own.inode)) {
        return fail(ErrorKind::InUse);
    }
    Ok((file, Some(ledger)))
}

/// Whether a magic number is that of a ledger, of this version or another.
fn is_of_any_version(magic: u64) -> bool {
    magic.to_le_bytes()[..6] == MAGIC.to_le_bytes()[..6]
}

/// Whether its maker may still be at it.
fn is_young(metadata: &std::fs::Metadata) -> bool {
    let age = metadata.modified().ok().and_then(|time| time.elapsed().ok());
    age.is_none_or(|age| age < MAKING_TIME_MAX)
}

/// Whether nothing was ever written there: zeros that somebody wrote are somebody's.
fn holds_nothing(file: &File) -> bool {
    // SAFETY: no memory is passed. Nobody else uses the offset of this description.
    let at = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_DATA) };
    at == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO)
}

/// Whether a path is one that only ledgers of this user have. What is empty has nothing else to be known
/// by.
fn is_called_as_a_ledger(path: &Path) -> bool {
    let prefix = format!("{NAME_PREFIX}{}-", sys::effective_uid());
    let folder = path.parent().and_then(|folder| std::fs::canonicalize(folder).ok());
    folder.is_some_and(|folder| folder == Path::new(FOLDER))
        && path.file_name().is_some_and(|name| name.as_bytes().starts_with(prefix.as_bytes()))
}

/// Whether the process of a slot lives, or cannot be asked.
fn is_alive(slot: &Slot, device: u64, inode: u64) -> bool {
    let pid = slot.pid.load(Relaxed);
    if pid == 0 {
        return false;
    }
    // What a limit of ours keeps from being known is no death.
    let lacks = |error: io::Error| sys::is_shortage(&error);
    let pidfd = match sys::pidfd_open(pid) {
        Ok(pidfd) => pidfd,
        Err(error) => return lacks(error),
    };
    let is_it = if slot.ready.load(Relaxed) == 1 {
        let start_ticks = slot.start_ticks.load(Relaxed);
        let stat = identity::process_stat(pid).map(|stat| stat.start_ticks == start_ticks);
        stat.unwrap_or_else(lacks)
    } else {
        identity::maps_file(pid, device, inode)
    };
    is_it && !sys::is_dead(pidfd.as_fd())
}

/// The process of an entry, where its slot has not been given up.
fn owner(ledger: &Ledger, entry: &Entry) -> Option<u32> {
    let slot = ledger.slots.get(entry.slot.load(Relaxed) as usize)?;
    Some(slot.pid.load(Relaxed)).filter(|pid| *pid != 0)
}

/// The path in the ledger, which is cut where it is long: then it is another path, or none.
fn path_of(entry: &Entry) -> PathBuf {
    let mut buffer = [0; TEXT_BYTES_MAX];
    let path = entry.path.load(&mut buffer);
    let whole = if path.len() < TEXT_BYTES_MAX { path } else { b"" };
    PathBuf::from(std::ffi::OsStr::from_bytes(whole))
}

/// Why a piece of a noted ledger is not touched.
const NOT_NOTED: &str =
    "no guard recorded this file; to use it anyway: sweetspot recover --unverified";

/// Why nothing is finished by a process that may not write so far; another one may. Nothing is saved beside for that.
const TOO_LARGE: &str = "the file-size limit (ulimit -f) is too small to write it";

/// What is pending in an entry, and where it belongs.
struct Found<'a> {
    index: usize,
    entry: &'a Entry,
    path: PathBuf,
    /// The guard has noted the file, or there is no note to ask.
    is_believed: bool,
    target: Option<Target>,
}

impl<'a> Found<'a> {
    fn new(
        ledger: &File,
        index: usize,
        entry: &'a Entry,
        noted: Option<&Noted>,
        names: &mut Names,
    ) -> Found<'a> {
        let said = Identity {
            device: entry.device.load(Relaxed),
            inode: entry.inode.load(Relaxed),
            birth_ns: entry.birth_ns.load(Relaxed),
        };
        let known = noted.and_then(|noted| noted.file(index)).filter(|(known, _)| *known == said);
        let is_believed = noted.is_none() || known.is_some();
        let path = known.map_or_else(|| path_of(entry), |(_, path)| path);
        let target = is_believed.then(|| Target::find(ledger, entry, &path, names)).flatten();
        let path = target.as_ref().map_or(path, |target| target.path.clone());
        Found { index, entry, path, is_believed, target }
    }

    /// Where its entry is in the ledger.
    fn entry_at(&self) -> u64 {
        (ENTRIES_AT + self.index * size_of::<Entry>()) as u64
    }

    /// Up to where finishing it writes: in its file, and in the ledger what says so.
    fn end(&self, ledger: &File) -> u64 {
        let Some((base, extent)) = extent(ledger, self.entry) else { return 0 };
        let target = self.target.iter().filter(|_| finish::appends(self.entry));
        let size = target.filter_map(|target| sys::status(&target.file).ok()).map(|file| file.size);
        let at = size.fold(base, u64::max);
        at.saturating_add(extent.bytes).max(self.entry_at() + size_of::<Entry>() as u64)
    }
}

/// The pending bytes of an entry and where they belong; none where there are none, or where no
/// ledger could have them.
fn extent<'a>(ledger: &'a File, entry: &Entry) -> Option<(u64, Extent<'a>)> {
    let bytes = waiting_of(entry.word.load(Relaxed));
    let (at, room) = (entry.write_buffer_at.load(Relaxed), entry.write_buffer_bytes.load(Relaxed));
    let end = at.checked_add(room)?;
    let start = write_buffer_start(entry.base.load(Relaxed));
    let fits = start.checked_add(bytes)? <= room;
    let is_write_buffer =
        at >= WRITE_BUFFERS_AT && end <= WRITE_BUFFERS_AT + WRITE_BUFFERS_BYTES_MAX && fits;
    let (base, left) = finish::left(entry, Extent { ledger, at: at + start, bytes });
    (left.bytes > 0 && is_write_buffer).then_some((base, left))
}

/// Writes a piece, or saves it beside, and takes it out of the ledger.
fn finish_piece(
    path: &Path,
    file: &File,
    ledger: &Ledger,
    found: Found<'_>,
    apart: &mut Apart,
) -> Fate {
    let entry_at = found.entry_at();
    let Found { entry, target, path: original, .. } = found;
    let Some((base, extent)) = extent(file, entry) else {
        return Fate::Stuck("the ledger is damaged".to_owned());
    };
    let store = |at: usize, bytes: &[u8]| file.write_all_at(bytes, entry_at + at as u64);
    let mut write = |target: Target, extent: &Extent<'_>| {
        let is_before = sys::status(&target.file)?;
        // If this process is killed too, the next one finds a death inside a flush.
        store(offset_of!(Entry, begun_ns), &sys::wall_clock_ns().to_ne_bytes())?;
        if !finish::appends(entry) {
            // Nobody has the shared offset any more.
            store(offset_of!(Entry, before), &base.to_ne_bytes())?;
            store(offset_of!(Entry, flushing), &FLUSH_BEGUN.to_ne_bytes())?;
            let (left, base) = (extent.from(target.arrived), base + target.arrived);
            left.copy_to(&target.file, base, &mut 0)?;
            finish::tell_apart(entry, &target.file, Some(is_before), apart);
            return sys::close(target.file);
        }
        let arrived = entry.arrived.load(Relaxed) + target.arrived;
        store(offset_of!(Entry, arrived), &arrived.to_ne_bytes())?;
        store(offset_of!(Entry, before), &is_before.size.to_ne_bytes())?;
        store(offset_of!(Entry, flushing), &FLUSH_BEGUN.to_ne_bytes())?;
        extent.from(target.arrived).append_to(&target.file, &mut 0)?;
        finish::tell_apart(entry, &target.file, Some(is_before), apart);
        sys::close(target.file)
    };
    let fate = match target.map(|target| write(target, &extent)) {
        Some(Ok(())) => Fate::Written,
        _ => {
            let saving = Saving {
                extent,
                original: Some(&original),
                pid: owner(ledger, entry).unwrap_or(0),
                base,
                appends: finish::appends(entry),
            };
            match finish::save_beside(&saving, path.parent().unwrap_or(Path::new("/"))) {
                Ok(saved) => Fate::Saved(saved),
                Err(error) => return Fate::Stuck(error.to_string()),
            }
        }
    };
    let word = flushed(entry.word.load(Relaxed));
    let word_at = entry_at + offset_of!(Entry, word) as u64;
    match file.write_all_at(&word.to_ne_bytes(), word_at) {
        Ok(()) => fate,
        Err(error) => Fate::Stuck(error.to_string()),
    }
}

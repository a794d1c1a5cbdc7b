//! Notes of ledgers: which ones the user's own programs made, and which files they may be written to.
//!
//! Shared memory is open to every process of the user, also to one that is confined and may not
//! write the user's files. What such a process puts there must not be written by the user's next
//! `run`. So a guard notes its ledger in the user's state folder, where a confined process cannot
//! write, before it grants the first handle; with each handle it notes the file and its whole path.
//! `recover` believes a noted ledger alone, and writes noted files alone.
//!
//! ```text
//! STATE/ledgers/NAME     one file a ledger, sparse
//!   0                    MAGIC, boot, and the ledger's device, inode and birth time
//!   RECORDS_AT           a record for each entry: device, inode, birth time, length of the path, path
//! ```
//!
//! The note goes when nothing is pending. It survives neither its ledger nor the boot.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sweetspot_core::ledger::{ENTRIES_MAX, NAME_PREFIX};

use crate::identity;
use crate::own_folder;
use crate::sys::{self, Status};

/// The folder in each state folder.
const FOLDER: &str = "ledgers";
/// The last digit is the layout's version.
const MAGIC: u64 = u64::from_le_bytes(*b"swsnote1");
/// Bytes of words at the start of a note, and of a record.
const HEAD_BYTES: usize = 5 * 8;
const RECORD_HEAD_BYTES: usize = 4 * 8;
const RECORDS_AT: u64 = 64;
/// As long as the kernel lets a path be.
const PATH_BYTES_MAX: usize = libc::PATH_MAX as usize;
const RECORD_BYTES: u64 = (RECORD_HEAD_BYTES + PATH_BYTES_MAX) as u64;
/// A note of another boot may be another machine's, where homes are shared; after so long it is no
/// living program's.
const FOREIGN_AGE_MAX: Duration = Duration::from_secs(90 * 24 * 3600);

/// A guard that was killed between making a note and writing it leaves an empty one; no guard that lives
/// needs so long.
const EMPTY_AGE_MAX: Duration = Duration::from_secs(3600);

/// What a file is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub device: u64,
    pub inode: u64,
    pub birth_ns: u64,
}

impl From<Status> for Identity {
    fn from(status: Status) -> Identity {
        Identity { device: status.device, inode: status.inode, birth_ns: status.birth_ns }
    }
}

impl Identity {
    fn words(self) -> [u64; 3] {
        [self.device, self.inode, self.birth_ns]
    }

    fn from_words(words: &[u64]) -> Identity {
        Identity { device: words[0], inode: words[1], birth_ns: words[2] }
    }
}

/// The note of a guard that lives.
#[derive(Debug)]
pub(crate) struct Note {
    file: File,
    path: PathBuf,
}

impl Note {
    /// Notes a ledger in the first of the state folders in which that can be done.
    pub(crate) fn make(states: &[PathBuf], path: &Path, ledger: &File) -> io::Result<Note> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let identity = Identity::from(sys::status(ledger)?).words();
        let words = [MAGIC, identity::boot()?, identity[0], identity[1], identity[2]];
        let mut result = Err(io::ErrorKind::NotFound.into());
        for state in states {
            result = make_in(&state.join(FOLDER), name, &words);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Notes the file that the guard holds for an entry.
    pub(crate) fn record(&self, entry: usize, path: &OsStr, status: Status) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(RECORD_HEAD_BYTES + path.len());
        for word in Identity::from(status).words().into_iter().chain([path.len() as u64]) {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.extend_from_slice(path.as_bytes());
        self.file.write_all_at(&bytes, record_at(entry))
    }

    /// Notes another path of it.
    pub(crate) fn record_path(&self, entry: usize, path: &OsStr) -> io::Result<()> {
        let len_at = record_at(entry) + RECORD_HEAD_BYTES as u64 - 8;
        let len = (path.len() as u64).to_ne_bytes();
        self.file.write_all_at(&[&len[..], path.as_bytes()].concat(), len_at)
    }

    /// Nothing is pending: the note goes.
    pub(crate) fn remove(&self) {
        if identity::is_same_file(&self.path, &self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Removes one that is older.
    fn remove_after(&self, age_max: Duration) {
        let modified = self.file.metadata().and_then(|found| found.modified());
        if modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > age_max)) {
            self.remove();
        }
    }
}

/// The path by which a file is noted: the handle's, not what the program says; whole, and seen from here, whatever the
/// program's root is. A path longer than the kernel tells is unknown.
pub(crate) fn path_of(handle: impl AsFd) -> OsString {
    let path = sys::own_path(&handle).map(PathBuf::into_os_string).unwrap_or_default();
    if path.len() > PATH_BYTES_MAX { OsString::new() } else { path }
}

fn record_at(entry: usize) -> u64 {
    RECORDS_AT + entry as u64 * RECORD_BYTES
}

/// The folders of notes in these state folders.
pub fn folders(states: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    states.iter().map(|state| state.join(FOLDER))
}

/// Makes the folder in which a ledger would be noted, if it is not there: what runs later then makes
/// nothing but notes.
pub fn prepare(states: &[PathBuf]) {
    let _ = folders(states).find(|folder| make_folder(folder).is_ok());
}

/// The first of these folders that is this user's own, made if it is not there.
///
/// # Errors
/// Why the last one is not.
pub fn own_folder(folders: &[PathBuf]) -> io::Result<&Path> {
    let mut result = Err(io::Error::other("there is no home folder"));
    for folder in folders {
        let failed = |error| io::Error::other(format!("{}: {error}", folder.display()));
        result = make_folder(folder).map(|()| folder.as_path()).map_err(failed);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Makes a folder of this user's, where that is no harm to somebody else.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    if !own_folder::is_over(folder) {
        return Err(io::Error::other("somebody else's folder"));
    }
    own_folder::make(folder, 0o700)?;
    match is_private(folder) {
        true => Ok(()),
        false => Err(io::Error::other("somebody else can write there")),
    }
}

fn make_in(folder: &Path, name: &OsStr, words: &[u64]) -> io::Result<Note> {
    make_folder(folder)?;
    let path = folder.join(name);
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    let note = Note { file: sys::open(&path, flags, 0o600)?.into(), path };
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    if let Err(error) = note.file.write_all_at(&bytes, 0) {
        note.remove();
        return Err(error);
    }
    Ok(note)
}

/// Whether a folder is the user's own and nobody else can put anything there.
fn is_private(folder: &Path) -> bool {
    std::fs::symlink_metadata(folder).is_ok_and(|found| {
        found.is_dir() && found.uid() == sys::effective_uid() && found.mode() & 0o022 == 0
    })
}

/// A ledger that a guard of this user has noted, and that is still there.
#[derive(Debug)]
pub struct Noted {
    ledger: PathBuf,
    identity: Identity,
    note: Note,
}

impl Noted {
    /// The ledger's path.
    pub fn ledger(&self) -> &Path {
        &self.ledger
    }

    pub(crate) fn is_of(&self, ledger: &File) -> bool {
        sys::status(ledger).is_ok_and(|status| Identity::from(status) == self.identity)
    }

    /// The file that was noted for an entry, and its path; none where there is no record.
    pub(crate) fn file(&self, entry: usize) -> Option<(Identity, PathBuf)> {
        let mut head = [0; RECORD_HEAD_BYTES];
        self.note.file.read_exact_at(&mut head, record_at(entry)).ok()?;
        let words = words(&head);
        let mut path =
            vec![0; usize::try_from(words[3]).ok().filter(|len| *len <= PATH_BYTES_MAX)?];
        let path_at = record_at(entry) + RECORD_HEAD_BYTES as u64;
        self.note.file.read_exact_at(&mut path, path_at).ok()?;
        (entry < ENTRIES_MAX)
            .then(|| (Identity::from_words(&words), OsString::from_vec(path).into()))
    }

    /// The ledger is finished and gone: so is the note.
    pub(crate) fn remove(&self) {
        self.note.remove();
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
    bytes.chunks(8).map(word).collect()
}

/// The ledgers in `ledgers` that guards of this user have noted in these state folders, by name.
/// Notes whose ledger is gone are removed.
pub fn noted_in(states: &[PathBuf], ledgers: &Path) -> Vec<Noted> {
    let Ok(memory) = sys::status_at(ledgers) else { return Vec::new() };
    let mut all: Vec<Noted> = states
        .iter()
        .map(|state| state.join(FOLDER))
        .filter(|folder| is_private(folder))
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|names| names.flatten())
        .filter_map(|name| read(&name.path(), ledgers, memory.device))
        .collect();
    all.sort_by(|a, b| a.ledger.cmp(&b.ledger));
    all
}

fn read(path: &Path, ledgers: &Path, device: u64) -> Option<Noted> {
    let name = path.file_name()?;
    if !name.as_bytes().starts_with(NAME_PREFIX.as_bytes()) {
        return None;
    }
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let note = Note { file: sys::open(path, flags, 0).ok()?.into(), path: path.to_owned() };
    let mut head = [0; HEAD_BYTES];
    if note.file.read_exact_at(&mut head, 0).is_err() {
        // It is being made, and nobody's business yet; or never will be.
        note.remove_after(EMPTY_AGE_MAX);
        return None;
    }
    let words = words(&head);
    let identity = Identity::from_words(&words[2..]);
    if words[0] != MAGIC {
        return None;
    }
    if words[1] != identity::boot().ok()? || identity.device != device {
        // Of an earlier boot, or of another machine or container, whose program may live.
        note.remove_after(FOREIGN_AGE_MAX);
        return None;
    }
    let ledger = ledgers.join(name);
    if !sys::status_at(&ledger).is_ok_and(|found| Identity::from(found) == identity) {
        note.remove();
        return None;
    }
    Some(Noted { ledger, identity, note })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::chown;

    #[test]
    fn what_a_killed_guard_began_goes_after_a_while() {
        let state = tempfile::tempdir().unwrap();
        let folder = state.path().join(FOLDER);
        make_folder(&folder).unwrap();
        let ages = [("new", 0), ("begun", 3500), ("left", 3700)];
        for (name, seconds) in ages {
            let note = File::create(folder.join(format!("{NAME_PREFIX}{name}"))).unwrap();
            let time = std::time::SystemTime::now() - Duration::from_secs(seconds);
            note.set_modified(time).unwrap();
        }
        assert!(noted_in(&[state.path().to_owned()], Path::new("/dev/shm")).is_empty());
        let there = |name: &str| folder.join(format!("{NAME_PREFIX}{name}")).exists();
        assert_eq!(ages.map(|(name, _)| there(name)), [true, true, false]);
    }

    #[test]
    fn nothing_is_made_in_a_folder_of_somebody_else() {
        let folder = tempfile::tempdir().unwrap();
        make_folder(&folder.path().join("own/notes")).unwrap();
        if chown(folder.path(), Some(54321), None).is_err() {
            return eprintln!("skipped: only root can give a folder away");
        }
        assert!(make_folder(&folder.path().join("other/notes")).is_err());
        assert!(!folder.path().join("other").exists());
    }
}

//! The file that a piece belongs to, and the proof that nobody has written to it since.
//!
//! It is the one of the same device, inode and birth time, at the path that was noted, or by another name in
//! the same folder: it may have been renamed, and another file may have its name by now.
//!
//! Its size and its time of modification are those that were noted after the last flush; then it may have other
//! names and other rights, and no other bytes. Or the death came in the middle of a flush, and what is there is what
//! that flush leaves (see [`Target::arrived_in_flush`]).

use std::collections::{HashMap, HashSet};
use std::fs::{DirEntry, File};
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use sweetspot_core::ledger::Entry;
use sweetspot_core::unwritten::FLUSH_BEGUN;

use super::extent;
use crate::finish;
use crate::sys::{self, Status};

/// So many names are looked at for files that were renamed.
const NAMES_MAX: usize = 1 << 17;

/// The file that a piece belongs to, proved to be the same and unchanged.
pub(super) struct Target {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// Of the piece, what a write that was cut short has provably brought there.
    pub(super) arrived: u64,
}

impl Target {
    pub(super) fn find(
        ledger: &File,
        entry: &Entry,
        path: &Path,
        names: &mut Names,
    ) -> Option<Target> {
        if !path.is_absolute() {
            return None;
        }
        let found = open_same(entry, path).or_else(|| {
            let path = names.other_name(entry, path)?;
            open_same(entry, &path)
        });
        let (file, status, path) = found?;
        let mut arrived = 0;
        if !entry.may_be_recovered_in(status.left()) {
            if entry.flushing.load(Relaxed) != FLUSH_BEGUN {
                return None;
            }
            arrived = Target::arrived_in_flush(ledger, entry, &file, &status)?;
        }
        Some(Target { file, path, arrived })
    }

    /// How much of a piece is there, after a death in the middle of the write that brings it; 0: all of it is to be
    /// written. `None`: somebody else may have written, too. It is proved by one of these:
    /// - all of it is there, at its own place;
    /// - the file ends within it, and holds what comes before that end;
    /// - the file was last modified when that write began, as far as the kernel's clock tells.
    fn arrived_in_flush(ledger: &File, entry: &Entry, file: &File, status: &Status) -> Option<u64> {
        let (base, extent) = extent(ledger, entry)?;
        let (size, before) = (status.size, entry.size.load(Relaxed));
        if size < before {
            return None;
        }
        let holds = |bytes| extent.starts_with(file, base, bytes).unwrap_or(false);
        let has_place = !finish::appends(entry);
        let end = base.checked_add(extent.bytes)?;
        if has_place && size >= end && holds(extent.bytes) {
            return Some(extent.bytes);
        }
        let arrived = size.checked_sub(base).filter(|len| *len <= extent.bytes);
        if let Some(arrived) = arrived.filter(|len| holds(*len)) {
            return Some(arrived);
        }
        let is_its_write = has_place
            && size <= end.max(before)
            && !sys::is_served(file)
            && entry.was_begun_at(status.mtime_ns);
        is_its_write.then_some(0)
    }
}

/// Opens what is at a path, if it is the file of an entry.
fn open_same(entry: &Entry, path: &Path) -> Option<(File, Status, PathBuf)> {
    let appends = if finish::appends(entry) { libc::O_APPEND } else { 0 };
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY | appends;
    // To be read only where that is needed: it may be writable alone.
    let is_flushing = entry.flushing.load(Relaxed) == FLUSH_BEGUN;
    let read = is_flushing.then(|| sys::open(path, flags | libc::O_RDWR, 0).ok()).flatten();
    let opened = read.or_else(|| sys::open(path, flags | libc::O_WRONLY, 0).ok());
    let file = File::from(opened?);
    let status = sys::status(&file).ok()?;
    let is_same = status.is_regular()
        && status.device == entry.device.load(Relaxed)
        && status.inode == entry.inode.load(Relaxed)
        && status.birth_ns == entry.birth_ns.load(Relaxed);
    is_same.then(|| (file, status, path.to_owned()))
}

/// The names in folders of files that may have been renamed. Each folder is read once for all pieces.
pub(super) struct Names {
    /// The numbers of the files that are looked for.
    wanted: HashSet<u64>,
    /// By folder: regular files with such a number.
    folders: HashMap<PathBuf, Vec<(u64, PathBuf)>>,
    /// So many names may still be looked at.
    left: usize,
}

impl Names {
    pub(super) fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Names {
        let wanted = entries.map(|entry| entry.inode.load(Relaxed)).collect();
        Names { wanted, folders: HashMap::new(), left: NAMES_MAX }
    }

    /// Another name in the folder of a path that leads to a regular file with the number of an entry's.
    fn other_name(&mut self, entry: &Entry, path: &Path) -> Option<PathBuf> {
        let folder = path.parent()?;
        if !self.folders.contains_key(folder) {
            let found = self.read(folder);
            self.folders.insert(folder.to_owned(), found);
        }
        let inode = entry.inode.load(Relaxed);
        let is_it = |(number, found): &&(u64, PathBuf)| *number == inode && found != path;
        self.folders.get(folder)?.iter().find(is_it).map(|(_, found)| found.clone())
    }

    fn read(&mut self, folder: &Path) -> Vec<(u64, PathBuf)> {
        let Ok(names) = std::fs::read_dir(folder) else { return Vec::new() };
        let (left, wanted) = (&mut self.left, &self.wanted);
        let names = names.take(*left).inspect(|_| *left -= 1).flatten();
        let is_it = |name: &DirEntry| {
            wanted.contains(&name.ino()) && name.file_type().is_ok_and(|kind| kind.is_file())
        };
        names.filter(is_it).map(|name| (name.ino(), name.path())).collect()
    }
}

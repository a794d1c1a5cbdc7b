//! In place: which files a run changed, by looking before and after.
//!
//! Looked at are the current folder and the folders of the command's arguments, with all below them.
//! What a run changed is copied before the next one changes it again.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use sweetspot_report::failure::Failure;
use sweetspot_report::shown::shown;
use sweetspot_sandbox::{Changes, Content, Entry, Kept, Kind, folders_of};

/// More files than this are not looked at before and after each run.
const FILES_MAX: usize = 1_000_000;

/// What is looked at.
pub struct WatchedFolders {
    folders: BTreeSet<PathBuf>,
}

/// Every file as it lies there, and by what a change of it is noticed.
pub type Seen = BTreeMap<PathBuf, (Entry, Mark)>;

/// Any change to a file changes one of these; nobody can set the last back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl WatchedFolders {
    /// The folders of a command.
    ///
    /// # Errors
    /// Where the current folder cannot be found.
    pub fn of(command: &[OsString]) -> io::Result<WatchedFolders> {
        Ok(WatchedFolders { folders: folders_of(command)? })
    }

    /// The folders that are looked at.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(PathBuf::as_path)
    }

    /// Looks at every file.
    ///
    /// # Errors
    /// Where there are too many.
    pub fn look(&self) -> Result<Seen, Failure> {
        let mut seen = Seen::new();
        let mut left: Vec<PathBuf> = self.folders.iter().cloned().collect();
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                // What has gone in the meantime, or is closed to us, is not there.
                let Ok(data) = fs::symlink_metadata(&path) else { continue };
                let Ok(entry) = Entry::new(&path, &data) else { continue };
                if data.is_dir() {
                    left.push(path.clone());
                }
                let mark = Mark {
                    device: data.dev(),
                    inode: data.ino(),
                    bytes: data.len(),
                    changed: (data.ctime(), data.ctime_nsec()),
                };
                seen.insert(path, (entry, mark));
                if seen.len() > FILES_MAX {
                    return Err(Failure::own(format!(
                        "more than {FILES_MAX} files lie below {}",
                        shown(
                            folder
                                .ancestors()
                                .find(|above| self.folders.contains(*above))
                                .unwrap_or(&folder)
                        )
                    ))
                    .next("run it in a folder of its own"));
                }
            }
        }
        Ok(seen)
    }
}

/// What changed between two looks; the contents are copied to `folder`.
///
/// # Errors
/// Where a file cannot be copied.
pub fn changes(before: &Seen, after: &Seen, folder: &Path) -> io::Result<Changes> {
    fs::create_dir_all(folder)?;
    let mut changes = Changes::new();
    for (path, (entry, mark)) in after {
        if before.get(path).is_some_and(|(_, earlier)| earlier == mark) {
            continue;
        }
        let mut entry = entry.clone();
        if let Kind::File(content) = &mut entry.kind {
            let copy = folder.join(changes.len().to_string());
            fs::copy(path, &copy)?;
            content.kept = Kept::At(copy);
        }
        changes.insert(path.clone(), Some(entry));
    }
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    changes.extend(gone.map(|path| (path.clone(), None)));
    Ok(changes)
}

/// How the files lay there, without their contents: those are still where they were, or lost.
pub fn untouched(seen: Seen) -> BTreeMap<PathBuf, Entry> {
    let without = |entry: Entry| match entry.kind {
        Kind::File(Content { len, .. }) => {
            Entry { kind: Kind::File(Content { len, kept: Kept::Untouched }), ..entry }
        }
        _ => entry,
    };
    seen.into_iter().map(|(path, (entry, _))| (path, without(entry))).collect()
}

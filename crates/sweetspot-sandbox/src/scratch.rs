//! Folders that are removed when they are not needed any more: by their maker, or by the next process
//! that makes one in the same place if that was killed.
//!
//! Invariant: what is swept was made here. A name proves nothing, because anyone may have chosen it:
//! such a folder has a file in it that only [`Scratch::new`] makes, and makes last, when the folder is
//! locked already. So one that has it and is not locked was left. Until then it is empty, and has a mode
//! that nobody chooses.

use crate::shown::shown;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use sweetspot_core::shell::Quoted;

/// How the names of all of them begin.
const NAME: &str = "sweetspot-";
/// The file that says whose folder it is.
const MARK: &str = ".sweetspot-scratch";
/// What it says to a user who finds it.
const MARK_TEXT: &str = "made by sweetspot, and removed by it as soon as nobody uses it\n";

/// The mode with which they are made. The sticky bit changes nothing where nobody else may write.
const MODE: u32 = 0o1700;
/// Others who make one in the same place may take one that is just being made for left.
const TRIES_MAX: u32 = 10;

/// A folder that is removed when dropped, whatever modes the program gave to what is in it. It is
/// locked as long as this lives: one that is not was left by a process that was killed.
pub struct Scratch(PathBuf, #[expect(dead_code, reason = "holds the lock")] fs::File);

impl Scratch {
    /// Makes a folder in `place` with a name that begins with `prefix`, after removing those that killed
    /// processes of this user left there, whatever verb they were of.
    ///
    /// # Errors
    /// Where there can be none.
    pub fn new(place: &Path, prefix: &str) -> io::Result<Scratch> {
        let place = fs::canonicalize(place)?;
        sweep(&place);
        let mut tries = 0;
        loop {
            tries += 1;
            match Scratch::make(&place, prefix) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < TRIES_MAX => {}
                made => return made,
            }
        }
    }

    fn make(place: &Path, prefix: &str) -> io::Result<Scratch> {
        let mut folder = tempfile::Builder::new();
        folder.prefix(prefix).permissions(fs::Permissions::from_mode(MODE));
        let folder = folder.tempdir_in(place)?;
        let lock = lock(folder.path())?;
        fs::File::create_new(folder.path().join(MARK))?.write_all(MARK_TEXT.as_bytes())?;
        Ok(Scratch(folder.keep(), lock))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.0) {
            let (folder, typed) = (shown(&self.0), Quoted(self.0.as_os_str().as_bytes()));
            // The answer of the verb stands; a stderr that is closed or full is no reason to fail.
            let said = format!("sweetspot: {folder} is left: {error}\n  try: rm -rf {typed}");
            let _ = writeln!(io::stderr(), "{said}");
        }
    }
}

/// Keeps a folder from being swept as long as the answer lives.
fn lock(folder: &Path) -> io::Result<fs::File> {
    let lock = fs::File::open(folder)?;
    match flock(&lock, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Err(Errno::WOULDBLOCK.into()),
        // Where a file system has no locks nobody gets one: then folders are left, not removed.
        _ => Ok(lock),
    }
}

/// Removes what processes of this user that were killed left in a folder.
fn sweep(place: &Path) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_named = entry.file_name().as_encoded_bytes().starts_with(NAME.as_bytes());
        let Some(made) = Made::of(&entry).filter(|_| is_named) else { continue };
        // A run whose parent was killed may go on for a while: it holds the lock, too.
        let is_left = fs::File::open(entry.path())
            .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok());
        // What cannot be removed takes room, and no more.
        let _ = match made {
            _ if !is_left => Ok(()),
            Made::Whole => remove(&entry.path()),
            // Only if it is empty.
            Made::Begun => fs::remove_dir(entry.path()),
        };
    }
}

/// How far the making of a folder came.
enum Made {
    Whole,
    Begun,
}

impl Made {
    /// `None`: it is no folder, or a link to one, or another user's, or was not made here.
    fn of(entry: &fs::DirEntry) -> Option<Made> {
        let user = rustix::process::geteuid().as_raw();
        let folder = entry.metadata().ok()?;
        if !folder.is_dir() || folder.uid() != user {
            return None;
        }
        let mark = fs::symlink_metadata(entry.path().join(MARK));
        if mark.is_ok_and(|mark| mark.is_file() && mark.uid() == user) {
            return Some(Made::Whole);
        }
        (folder.permissions().mode() & 0o7777 == MODE).then_some(Made::Begun)
    }
}

/// Removes a folder that was made here: what says so after all else, as this process may be killed, too.
fn remove(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(MODE))?;
    for entry in fs::read_dir(folder)?.flatten().filter(|entry| entry.file_name() != MARK) {
        match entry.file_type()?.is_dir() {
            true => remove_tree(&entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    remove_tree(folder)
}

/// Removes a folder and all in it, after giving back the right to do so.
pub(crate) fn remove_tree(folder: &Path) -> io::Result<()> {
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        let Ok(data) = fs::symlink_metadata(&folder) else { continue };
        if data.permissions().mode() & 0o700 != 0o700 {
            let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700));
        }
        let entries = fs::read_dir(&folder)?.flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        left.extend(folders.map(|entry| entry.path()));
    }
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_any_verb_left_is_swept_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let folder = |name: &str, is_marked: bool| {
            let path = place.path().join(name);
            fs::create_dir(&path).unwrap();
            if is_marked {
                fs::write(path.join(MARK), MARK_TEXT).unwrap();
            }
            path
        };
        let left = folder("sweetspot-one-1", true);
        let begun = |name: &str| {
            let path = folder(name, false);
            fs::set_permissions(&path, fs::Permissions::from_mode(MODE)).unwrap();
            path
        };
        let begun_only = begun("sweetspot-one-4");
        let full = begun("sweetspot-one-5");
        fs::write(full.join("mine"), "").unwrap();
        let users = [folder("sweetspot-one-2", false), folder("other", true), full];
        let used = Scratch::new(place.path(), "sweetspot-one-").unwrap();
        let made = Scratch::new(place.path(), "sweetspot-two-").unwrap();
        assert!(!left.exists() && !begun_only.exists());
        assert!(users.iter().all(|folder| folder.exists()));
        assert!(used.path().exists() && made.path().exists());
        let again = folder("sweetspot-one-3", true);
        drop(Scratch::new(place.path(), "sweetspot-two-").unwrap());
        assert!(!again.exists(), "left by another verb");
    }
}

//! What killed processes left in shared memory, noted or not: found by name, and removed where nothing
//! waits in it.
//!
//! Not here: what is done with what waits (the module above).

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sweetspot_core::ledger::{FOLDER, NAME_PREFIX};

use super::{Mode, OPEN_FLAGS, extent, is_young, open_dead};
use crate::error::Error;
use crate::identity::is_same_file;
use crate::sys::{self, Locked};

/// Ledgers of the user in [`FOLDER`], by name, noted or not: anyone can put files of such a name
/// there.
pub fn stale_ledgers(uid: u32) -> Vec<PathBuf> {
    stale_ledgers_in(Path::new(FOLDER), uid)
}

/// As [`stale_ledgers`], in another folder. Those whose guard lives are left out.
pub fn stale_ledgers_in(folder: &Path, uid: u32) -> Vec<PathBuf> {
    let prefix = format!("{NAME_PREFIX}{uid}-");
    let Ok(names) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = names
        .flatten()
        .filter(|name| name.file_name().as_bytes().starts_with(prefix.as_bytes()))
        .map(|name| name.path())
        .filter(|path| is_unlocked(path))
        .collect();
    paths.sort();
    paths
}

/// Whether no guard holds the lock of what is there.
pub(super) fn is_unlocked(path: &Path) -> bool {
    sys::open(path, OPEN_FLAGS, 0).is_ok_and(|file| Locked::try_new(file.into()).is_ok())
}

/// Removes a ledger of the user's own that nobody uses and in which nothing waits, noted or not. Says
/// whether it did.
///
/// One that somebody is making, or is about to use, is never removed. Its maker opens it, locks it, fills
/// it, and stores the magic number last; the lock then lasts until the guard ends, or until the maker ends
/// where there is no guard. So one without a lock is one of these:
/// - between the open and the lock: it is young;
/// - a program that `run` has become without a guard has not reached the library yet: it is young, too;
/// - that program runs: its process is in a slot, and lives;
/// - all are dead.
///
/// # Errors
/// It is in use, is not the caller's own, is no ledger, or belongs to another boot or pid namespace. One
/// that was never filled is removed, and is no ledger.
pub fn remove_idle(path: &Path) -> Result<bool, Error> {
    let (file, ledger) = open_dead(path, Mode::Finish)?;
    let system = |error| Error::system("remove", path, error);
    let is_pending = |ledger: &sweetspot_core::ledger::Ledger| {
        ledger.entries().iter().any(|entry| extent(&file, entry).is_some())
    };
    let is_kept = ledger.is_none_or(|ledger| is_pending(&ledger))
        || is_young(&file.metadata().map_err(system)?)
        || !is_same_file(path, &file);
    if !is_kept {
        std::fs::remove_file(path).map_err(system)?;
    }
    Ok(!is_kept)
}

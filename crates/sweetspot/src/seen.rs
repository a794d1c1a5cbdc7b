//! Notes that a library was compared, byte for byte: so that not every start reads all of it.
//!
//! ```text
//! STATE/costs/library    HASH DEVICE INODE SIZE MODE CTIME, a line each, the newest first
//! ```
//!
//! Anyone who changes the file changes the time of its status, which nobody can set. The notes lie below the
//! folder in which ledgers are noted: an attacker who could forge one could have bytes recovered to any file
//! as well. In a sandbox they are not what a program has changed.
//!
//! Not here: who else may change the file, which is asked before each use (`preload`).

use crate::home;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};
use sweetspot_guard::{costs, own_file};

const NAME: &str = "library";
/// Several builds may be in use, each with a library of its own.
const LINES_MAX: usize = 8;
/// Rights of others that a note or its folder must not have.
const WRITTEN_BY_OTHERS: u32 = 0o022;
/// More than they ever take.
const BYTES_MAX: usize = 2048;
/// A file that was changed a moment ago may be changed again without another time.
const AGE_MIN: Duration = Duration::from_secs(2);

/// What is noted of a library whose content has this hash.
fn line(hash: &str, library: &Metadata) -> String {
    let [device, inode, size] = [library.dev(), library.ino(), library.size()];
    let (mode, seconds, nanoseconds) = (library.mode(), library.ctime(), library.ctime_nsec());
    format!("{hash} {device} {inode} {size} {mode:o} {seconds}.{nanoseconds:09}")
}

/// Whether this library was compared before, and has not been changed since.
pub fn is_noted(hash: &str, library: &Metadata) -> bool {
    let line = line(hash, library);
    read_first(&folders()).is_some_and(|notes| notes.lines().any(|noted| noted == line))
}

/// Notes that a library is what it should be. `library` is what was known of it before it was compared.
/// Where there is no place for notes, it is compared each time.
pub fn note(hash: &str, library: &Metadata) {
    let changed = u64::try_from(library.ctime()).ok().map(Duration::from_secs);
    let age = changed.and_then(|changed| (UNIX_EPOCH + changed).elapsed().ok());
    if age.is_none_or(|age| age <= AGE_MIN) {
        return;
    }
    let folders = folders();
    let is_own = |folder: &&PathBuf| {
        folder.symlink_metadata().is_ok_and(|found| found.is_dir() && is_ours_alone(&found))
    };
    let own = folders.iter().find(is_own).or_else(|| {
        costs::prepare(&home::notes());
        folders.iter().find(is_own)
    });
    let Some(folder) = own else { return };
    let older = read_first(&folders).unwrap_or_default();
    let mut text = line(hash, library) + "\n";
    for line in older.lines().take(LINES_MAX - 1) {
        text.extend([line, "\n"]);
    }
    let _ = own_file::replace(&folder.join(NAME), &text);
}

fn folders() -> Vec<PathBuf> {
    costs::folders(&home::notes()).collect()
}

/// A line that is cut is not believed.
fn read_first(folders: &[PathBuf]) -> Option<String> {
    folders
        .iter()
        .find_map(|folder| own_file::read(&folder.join(NAME), WRITTEN_BY_OTHERS, BYTES_MAX))
}

fn is_ours_alone(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & WRITTEN_BY_OTHERS == 0
}

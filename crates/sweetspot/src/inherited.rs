//! What is open here and would be open in a command, too: no sandbox covers what a descriptor leads to.
//!
//! Not here: standard input, output and error, which each run in a sandbox has of its own.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use sweetspot_report::failure::Failure;
use sweetspot_report::shown::shown;

/// The first descriptor that is not a standard one.
const FIRST: u32 = 3;
/// `O_CLOEXEC` as `/proc` shows it, in octal; the same on every architecture of ours.
const CLOSED_ON_EXEC: u32 = 0o2_000_000;

/// Makes sure that a command inherits no file and no folder.
///
/// # Errors
/// Where it would; the message names one, and how to close it.
pub fn nothing_outside() -> Result<(), Failure> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<u32> = numbers.filter(|number| *number >= FIRST).collect();
    numbers.sort_unstable();
    let Some((number, path)) = numbers.into_iter().find_map(|number| Some((number, kept(number)?)))
    else {
        return Ok(());
    };
    Err(Failure::own(format!(
        "descriptor {number} is open on {}, which the command could change in spite of the sandbox",
        shown(&path)
    ))
    .next(format!("nothing was run; close it for this command: {number}>&-")))
}

/// The file of a descriptor that a command would inherit, if it is one that has a name.
fn kept(number: u32) -> Option<PathBuf> {
    let link = Path::new("/proc/self/fd").join(number.to_string());
    let found = link.metadata().ok()?;
    let kind = found.file_type();
    let is_kept = kind.is_file() || kind.is_dir() || kind.is_block_device();
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
    (is_kept && found.nlink() > 0 && flags & CLOSED_ON_EXEC == 0)
        .then(|| link.read_link().ok())
        .flatten()
}

//! Files that the user names, and that are read as a whole.
//!
//! Any of them may be a device without an end, or a FIFO to which nobody writes: neither is read, or waited
//! for, for good. A pipe is as good as a file: `--compare <(...)`.

use rustix::fs::{Mode, OFlags, fcntl_setfl};
use std::fs::File;
use std::io::{Error, Read, Result};
use std::path::Path;

/// Opens what is there to read. A FIFO to which nobody writes has nothing in it.
///
/// # Errors
/// Where it cannot be opened.
pub fn open(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file.into())
}

/// Reads all that is left, if that is not more than `mebibytes`.
///
/// # Errors
/// Where it is more, or cannot be read.
pub fn rest(file: impl Read, mebibytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let bytes_max = mebibytes << 20;
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(Error::other(format!("it is larger than {mebibytes} MiB"))),
        false => Ok(bytes),
    }
}

/// Reads a text of not more than `mebibytes`.
///
/// # Errors
/// As [`open`] and [`rest`], or where it is no text.
pub fn text(path: &Path, mebibytes: u64) -> Result<String> {
    String::from_utf8(rest(open(path)?, mebibytes)?)
        .map_err(|_| Error::other("it is not text in UTF-8"))
}

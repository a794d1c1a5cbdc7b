//! Files that the user names, and that are read as a whole.
//!
//! Any of them may be a device without an end, or a FIFO to which nobody writes: neither is read, or waited
//! for, for good. A pipe is as good as a file: `--compare <(...)`.

use rustix::fs::{Mode, OFlags, fcntl_setfl};
use std::fs::File;
use std::io::{Cursor, Error, ErrorKind, Read, Result};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{Duration, Instant};
use sweetspot_report::numbers;

/// How long somebody who writes to a FIFO may take to open it: started together with `sweetspot`, they may come a
/// moment later.
const WRITER_WAIT: Duration = Duration::from_secs(1);
/// What the kernel calls the file system of pipes without a name (linux/magic.h).
const PIPEFS_MAGIC: u64 = 0x5049_5045;

/// Opens what is there to read, and for good so that nobody is waited for.
///
/// # Errors
/// Where it cannot be opened.
pub fn open_at_once(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Opens what is there to read. A FIFO to which nobody writes has nothing in it.
///
/// # Errors
/// Where it cannot be opened.
pub fn open(path: &Path) -> Result<File> {
    let file = open_at_once(path)?;
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

/// The same, where a FIFO is to have somebody who writes to it, for whom is waited then.
///
/// # Errors
/// As [`open`]; `TimedOut`: nobody has opened the FIFO to write to it.
pub fn open_written(path: &Path) -> Result<impl Read> {
    let file = open_at_once(path)?;
    let is_fifo = file.metadata()?.file_type().is_fifo();
    // A pipe without a name had somebody who writes from its beginning on.
    let is_named = is_fifo && rustix::fs::fstatfs(&file)?.f_type as u64 != PIPEFS_MAGIC;
    let first = if is_named { first_bytes(&file)? } else { Vec::new() };
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(Cursor::new(first).chain(file))
}

/// What a FIFO has when somebody has opened it to write; nothing, where they take their time.
fn first_bytes(mut fifo: &File) -> Result<Vec<u8>> {
    let begun = Instant::now();
    let mut bytes = vec![0; 4096];
    loop {
        match fifo.read(&mut bytes) {
            Ok(0) if begun.elapsed() < WRITER_WAIT => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok(0) => return Err(Error::new(ErrorKind::TimedOut, "nobody writes there")),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Vec::new()),
            read => {
                bytes.truncate(read?);
                return Ok(bytes);
            }
        }
    }
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
        true => {
            Err(Error::other(format!("it is larger than {}", numbers::axis_size(bytes_max as f64))))
        }
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

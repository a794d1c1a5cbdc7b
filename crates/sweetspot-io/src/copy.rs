//! Copies: the kernel is asked first, and what it cannot do is read and written.
//!
//! From file to file, in this order: share the blocks (`FICLONE`), let the kernel copy
//! (`copy_file_range`), read and write. Where one end is a pipe: `splice`, then read and write. With
//! a strategy in the options it is read and written in that way at once. Holes of a file stay holes in
//! a new file: by what the file system tells of them, or, with a strategy, since zeros are not written.
//!
//! ```
//! use sweetspot_io::copy::{self, copy};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let (from, to) = (folder.path().join("from"), folder.path().join("to"));
//! std::fs::write(&from, "content").unwrap();
//! let copied = copy(&from, &to, &copy::Options::default())?;
//! assert_eq!(copied.bytes, 7);
//! assert_eq!(std::fs::read(&to).unwrap(), b"content");
//! # Ok::<(), sweetspot_io::Error>(())
//! ```
//!
//! # Kernel bugs
//!
//! What is known, and what this module does about it:
//!
//! | call | bug | what is done |
//! |---|---|---|
//! | `copy_file_range` | answers 0 for files under /proc and /sys, which have a content but no length (Linux 5.3 to 5.18) | not asked for files that say they are empty |
//! | `copy_file_range` | answers 0 too early on some FUSE and network file systems (CIFS before 5.13; overlayfs 4.19) | what is missing after a 0 is read and written; only a read that gives nothing is believed |
//! | `copy_file_range` | EXDEV between file systems (before 5.3, and after 5.19 for most); EOPNOTSUPP, EINVAL, EPERM from file systems and sandboxes; EBADF if the output is open for appending | read and written |
//! | `copy_file_range` | more than 2 GiB in one call is cut, or EOVERFLOW near 2^63 | 1 GiB at most in one call |
//! | `SEEK_DATA`, `SEEK_HOLE` | data that waits for its place on the disk looked like a hole (btrfs before 5.16; ZFS 2.1.4 to 2.2.1) | asked only for files with fewer blocks than bytes, and only on file systems other than these two |
//! | `FICLONE` | the clone of a file that others write meanwhile is of one instant, a copy is not | none needed |
//! | `splice` | EINVAL for files open for appending and for some devices | read and written |

use crate::error::{Error, ErrorKind, Result};
use crate::input::{Input, InputKind, Opened, Source};
use crate::options::setters;
use crate::output::{Existing, Output, Written};
use crate::strategy::{AUTO_BUFFER_BYTES, Blocks, Buffer, ReadOptions};
use crate::sys;
use rustix::fs::{FileType, SeekFrom};
use rustix::io::Errno;
use std::fmt;
use std::fs::File;

/// The most that the kernel is asked to copy in one call, in bytes.
const CALL_BYTES_MAX: u64 = 1 << 30;

/// How often progress is told while the kernel copies, in bytes, where somebody listens.
const PROGRESS_BYTES: u64 = 64 << 20;

/// The smallest buffer to copy with, in bytes.
pub(crate) const UNIT_BYTES: usize = 512;

/// File systems whose holes are not believed: the magic numbers of btrfs and ZFS.
const HOLES_NOT_BELIEVED: [i64; 2] = [0x9123_683E, 0x2FC1_2FC1];

/// How to copy.
///
/// ```
/// use sweetspot_io::{Existing, copy};
///
/// let progress = |bytes| eprintln!("{bytes} bytes");
/// let options = copy::Options::new().existing(Existing::Replace).progress(&progress);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub struct Options<'a> {
    /// Strategy, buffer and hint. Without a strategy the kernel is asked to copy.
    pub read: ReadOptions,
    /// What happens where the output is there already.
    pub existing: Existing,
    /// Is told now and then how many bytes are done.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

impl<'a> Options<'a> {
    /// The kernel copies, and nothing is replaced.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets strategy, buffer and hint.
        read: ReadOptions,
        /// Says what happens where the output is there already.
        existing: Existing,
        /// Sets who is told now and then how many bytes are done.
        progress: &'a (dyn Fn(u64) + Sync),
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("read", &self.read)
            .field("existing", &self.existing)
            .finish_non_exhaustive()
    }
}

/// Who copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum How {
    /// Nobody: both files share their blocks until one of them changes.
    Cloned,
    /// The kernel, by `copy_file_range`.
    CopyRange,
    /// The kernel, by `splice`.
    Spliced,
    /// This crate, by reading and writing.
    ReadWrite,
}

/// What was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// How many bytes, holes included.
    pub bytes: u64,
    /// Who copied most of it.
    pub how: How,
}

/// Copies all of `input` to `output`. A new file gets the permissions of the one it is copied from.
///
/// ```
/// use sweetspot_io::{ErrorKind, Existing, copy::{self, copy}};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let (from, to) = (folder.path().join("from"), folder.path().join("to"));
/// std::fs::write(&from, "content").unwrap();
/// // By the kernel, if that can.
/// assert_eq!(copy(&from, &to, &copy::Options::new())?.bytes, 7);
/// let again = copy(&from, &to, &copy::Options::new()).unwrap_err();
/// assert!(matches!(again.kind, ErrorKind::Exists));
/// copy(&from, &to, &copy::Options::new().existing(Existing::Replace))?;
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
///
/// # Errors
/// Where opening, reading or writing fails, the output is there already, or it is the input.
pub fn copy(
    input: impl Into<Input>,
    output: impl Into<Output>,
    options: &Options<'_>,
) -> Result<Copied> {
    let opened = input.into().open()?;
    let mut written = match &opened.source {
        Source::File(file) => {
            let stat = sys::stat(file).map_err(Error::system("look at", &opened.name))?;
            let output = output.into();
            output.refuse_same(&stat)?;
            let mode = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => stat.st_mode & 0o777,
                _ => 0o666,
            };
            output.open_with_mode(options.existing, mode)?
        }
        Source::Reader(_) => output.into().open(options.existing)?,
    };
    let copied = match (options.read.strategy, opened.facts.kind) {
        (None, InputKind::Regular) if written.is_new_file() && opened.facts.at == 0 => {
            file_to_file(opened, &mut written, options)?
        }
        (None, _) => splice_or_read(opened, &mut written, options)?,
        (Some(_), _) => read_write(opened, &mut written, options)?,
    };
    written.finish()?;
    Ok(copied)
}

fn tell(options: &Options<'_>, bytes: u64) {
    if let Some(progress) = options.progress {
        progress(bytes);
    }
}

fn read_write(opened: Opened, written: &mut Written, options: &Options<'_>) -> Result<Copied> {
    let sparse = match &opened.source {
        Source::File(file) => has_holes(file).map_err(Error::system("look at", &opened.name))?,
        Source::Reader(_) => false,
    };
    let mut blocks = Blocks::new(opened, &options.read, UNIT_BYTES)?;
    let before = written.bytes();
    while blocks.advance(0)? > 0 {
        match sparse {
            true => written.write_around_zeros(blocks.block())?,
            false => written.write_all(blocks.block())?,
        }
        tell(options, written.bytes() - before);
    }
    if sparse {
        written.end_here()?;
    }
    Ok(Copied { bytes: written.bytes() - before, how: How::ReadWrite })
}

fn splice_or_read(opened: Opened, written: &mut Written, options: &Options<'_>) -> Result<Copied> {
    let mut bytes = 0;
    if let (Source::File(from), Some(to)) = (&opened.source, written.file())
        && (is_pipe(from) || is_pipe(to))
    {
        loop {
            match sys::splice(from, to, CALL_BYTES_MAX as usize) {
                Ok(0) => return Ok(Copied { bytes, how: How::Spliced }),
                Ok(len) => bytes += len as u64,
                Err(error) if sys::is_unsupported(&error) => break,
                Err(error) => {
                    let what = format!("{} to {}", opened.name, written.name());
                    return Err(Error::system("copy", &what)(error));
                }
            }
            tell(options, bytes);
        }
    }
    let copied = read_write(opened, written, options)?;
    Ok(Copied { bytes: bytes + copied.bytes, ..copied })
}

fn is_pipe(file: &File) -> bool {
    sys::stat(file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

/// Both ends are files, the output is new, and the input is read from its beginning.
fn file_to_file(opened: Opened, written: &mut Written, options: &Options<'_>) -> Result<Copied> {
    let (Source::File(from), Some(to)) = (&opened.source, written.file()) else {
        return read_write(opened, written, options);
    };
    let reading = Error::system("read", &opened.name);
    if sys::clone_file(from, to).is_ok() {
        let bytes = sys::stat(to).map_err(reading)?.st_size as u64;
        tell(options, bytes);
        return Ok(Copied { bytes, how: How::Cloned });
    }
    let mut copier =
        RangeCopier { from, to, options, buffer: Buffer::default(), how: How::CopyRange };
    let failed = |problem: Problem| match problem {
        Problem::Read(error) => Error::system("read", &opened.name)(error),
        Problem::Write(error) => Error::system("write", written.name())(error),
        Problem::Either(error) => {
            Error::system("copy", &format!("{} to {}", opened.name, written.name()))(error)
        }
    };
    let mut at = 0;
    if has_holes(from).map_err(&reading)? {
        // Up to the length that the file has now; what it grows by is copied below.
        while let Some((start, end)) = next_data(from, at).map_err(&reading)? {
            copier.copy(start, Some(end)).map_err(failed)?;
            at = end;
        }
        at = sys::stat(from).map_err(&reading)?.st_size as u64;
        sys::set_len(to, at).map_err(Error::system("write", written.name()))?;
    }
    let bytes = copier.copy(at, None).map_err(failed)?;
    Ok(Copied { bytes, how: copier.how })
}

/// Which side refused; the kernel's own copying does not say.
enum Problem {
    Read(std::io::Error),
    Write(std::io::Error),
    Either(std::io::Error),
}

/// Copies ranges of a file to the same place of another.
struct RangeCopier<'a> {
    from: &'a File,
    to: &'a File,
    options: &'a Options<'a>,
    /// For reading and writing.
    buffer: Buffer,
    how: How,
}

impl RangeCopier<'_> {
    /// Copies from `at` to `end`, or to the end of the file. Returns where it stopped.
    fn copy(&mut self, mut at: u64, end: Option<u64>) -> std::result::Result<u64, Problem> {
        loop {
            let left = end.map_or(u64::MAX, |end| end - at);
            if left == 0 {
                return Ok(at);
            }
            let len = match self.how {
                How::CopyRange => self.ask_kernel(at, left)?,
                _ => self.read_and_write(at, left)?,
            };
            if len == 0 && (self.how != How::CopyRange || end.is_none()) {
                return Ok(at);
            }
            at += len;
            tell(self.options, at);
        }
    }

    fn ask_kernel(&mut self, at: u64, left: u64) -> std::result::Result<u64, Problem> {
        let call_bytes = match self.options.progress {
            Some(_) => PROGRESS_BYTES,
            None => CALL_BYTES_MAX,
        };
        match sys::copy_range(self.from, self.to, at, left.min(call_bytes) as usize) {
            Ok(0) => {}
            Ok(len) => return Ok(len as u64),
            Err(error) if sys::is_unsupported(&error) => {}
            Err(error) => return Err(Problem::Either(error)),
        }
        // The end, or a file system that does not copy: a read tells which.
        let len = self.read_and_write(at, left)?;
        if len > 0 {
            self.how = How::ReadWrite;
        } else if left != u64::MAX {
            // The file got shorter; the rest of the range is not there any more.
            return Ok(left);
        }
        Ok(len)
    }

    fn read_and_write(&mut self, at: u64, left: u64) -> std::result::Result<u64, Problem> {
        let room = left.min(AUTO_BUFFER_BYTES as u64) as usize;
        let len = sys::read_at(self.from, self.buffer.space(room), at).map_err(Problem::Read)?;
        self.buffer.filled(len);
        sys::write_all_at(self.to, self.buffer.block(), at).map_err(Problem::Write)?;
        Ok(len as u64)
    }
}

/// Whether a file has fewer blocks than bytes, on a file system that says truly where.
fn has_holes(file: &File) -> std::io::Result<bool> {
    let stat = sys::stat(file)?;
    // A block is 512 bytes here, whatever the file system's is.
    if (stat.st_blocks as u64).saturating_mul(512) >= stat.st_size as u64 {
        return Ok(false);
    }
    Ok(believes_holes(rustix::fs::fstatfs(file)?.f_type as i64))
}

fn believes_holes(file_system: i64) -> bool {
    !HOLES_NOT_BELIEVED.contains(&file_system)
}

/// Where data begins and ends at or behind `at`; `None` if there is none.
fn next_data(file: &File, at: u64) -> std::io::Result<Option<(u64, u64)>> {
    let start = match sys::seek(file, SeekFrom::Data(at)) {
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => return Ok(None),
        start => start?,
    };
    Ok(Some((start, sys::seek(file, SeekFrom::Hole(start))?)))
}

impl Output {
    /// An error where the output is the file that is read: it would be empty.
    fn refuse_same(&self, input: &rustix::fs::Stat) -> Result<()> {
        match self.stat() {
            Some(output) if (output.st_dev, output.st_ino) == (input.st_dev, input.st_ino) => {
                Err(Error::new("copy to", self.name(), ErrorKind::SameFile))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;

//! Where bytes come from: a path, an open file, or any reader.

use crate::error::{Error, Result};
use crate::sys;
use rustix::fs::{FileType, OFlags, SeekFrom};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where bytes come from.
///
/// Everything that reads takes `impl Into<Input>`: a path, an open [`File`] (read from its present
/// position on), or a reader.
///
/// ```
/// use sweetspot_io::{Input, lines};
///
/// let from_memory = Input::reader("memory", &b"one\ntwo\n"[..]);
/// let mut lines = lines::Lines::open(from_memory, &lines::Options::default())?;
/// assert_eq!(lines.count()?, 2);
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
pub struct Input {
    name: String,
    kind: Kind,
}

enum Kind {
    Path(PathBuf),
    File(File),
    Reader(Box<dyn Read + Send>),
}

impl Input {
    /// The file of that name.
    pub fn path(path: impl AsRef<Path>) -> Input {
        let path = path.as_ref().to_owned();
        Input { name: path.display().to_string(), kind: Kind::Path(path) }
    }

    /// An open file, from its present position on; `name` stands for it in messages. Where the
    /// position is afterwards is not promised.
    pub fn file(name: &str, file: File) -> Input {
        Input { name: name.to_owned(), kind: Kind::File(file) }
    }

    /// Any reader; `name` stands for it in messages.
    pub fn reader(name: &str, reader: impl Read + Send + 'static) -> Input {
        Input { name: name.to_owned(), kind: Kind::Reader(Box::new(reader)) }
    }

    /// Standard input.
    pub fn stdin() -> Input {
        let name = "standard input";
        match rustix::io::dup(std::io::stdin()) {
            Ok(own) => Input::file(name, File::from(own)),
            Err(_) => Input::reader(name, std::io::stdin()),
        }
    }

    /// What stands for it in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn open(self) -> Result<Opened> {
        self.open_with(OFlags::RDONLY)
    }

    /// `flags` count for a path only.
    pub(crate) fn open_with(self, flags: OFlags) -> Result<Opened> {
        let Input { name, kind } = self;
        let file = match kind {
            Kind::Path(path) => sys::open(&path, flags).map_err(Error::system("open", &name))?,
            Kind::File(file) => file,
            Kind::Reader(reader) => {
                return Ok(Opened { name, source: Source::Reader(reader), facts: Facts::STREAM });
            }
        };
        let facts = Facts::of(&file).map_err(Error::system("look at", &name))?;
        Ok(Opened { name, source: Source::File(file), facts })
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Input {
    fn from(path: &P) -> Input {
        Input::path(path)
    }
}

impl From<PathBuf> for Input {
    fn from(path: PathBuf) -> Input {
        Input::path(path)
    }
}

impl From<File> for Input {
    fn from(file: File) -> Input {
        Input::file("an open file", file)
    }
}

/// An input that was opened, and looked at once.
pub(crate) struct Opened {
    pub name: String,
    pub source: Source,
    pub facts: Facts,
}

pub(crate) enum Source {
    File(File),
    Reader(Box<dyn Read + Send>),
}

impl Source {
    pub fn read_full(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Source::File(file) => sys::read_full(file, buffer),
            Source::Reader(reader) => sys::read_full(reader.as_mut(), buffer),
        }
    }

    /// Reads once: a pipe's writer may wait for an answer to what it wrote.
    pub fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Source::File(file) => sys::read(file, buffer),
            Source::Reader(reader) => sys::read(reader.as_mut(), buffer),
        }
    }
}

/// What is known of an input before anything is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// What kind of input it is.
    pub kind: InputKind,
    /// Its length in bytes where it has one, else 0.
    pub size: u64,
    /// The position that reading begins at, in bytes.
    pub at: u64,
}

/// What kind of input it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputKind {
    /// A regular file of known length.
    Regular,
    /// A regular file that says it is empty. It may be; files under /proc say so as well.
    Unsized,
    /// A pipe, a socket, a terminal, a device, or a reader of the caller's.
    Stream,
}

impl Facts {
    pub const STREAM: Facts = Facts { kind: InputKind::Stream, size: 0, at: 0 };

    fn of(file: &File) -> std::io::Result<Facts> {
        let stat = sys::stat(file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(Facts::STREAM);
        }
        let size = stat.st_size as u64;
        let kind = if size == 0 { InputKind::Unsized } else { InputKind::Regular };
        Ok(Facts { kind, size, at: sys::seek(file, SeekFrom::Current(0))? })
    }
}

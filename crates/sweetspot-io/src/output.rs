//! Where bytes go: a path, an open file, or any writer.
//!
//! Invariant: under the name of an output path there is nothing, or what was there before, or all
//! of the output; never a part. The file is made without a name (`O_TMPFILE`), so that the system
//! removes it with the process, however that ends; where the file system has no such files, under a
//! temporary name beside the final one.

use crate::error::{Error, ErrorKind, Result};
use crate::sys;
use rustix::fs::OFlags;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What happens where the output is there already.
///
/// ```
/// use sweetspot_io::{ErrorKind, Existing, Writer};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("report");
/// std::fs::write(&path, "old").unwrap();
/// let refused = Writer::create(&path, Existing::Refuse).unwrap_err();
/// assert!(matches!(refused.kind, ErrorKind::Exists));
/// Writer::create(&path, Existing::Replace)?.finish()?;
/// assert_eq!(std::fs::read(&path).unwrap(), b"");
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Existing {
    /// That is an error.
    #[default]
    Refuse,
    /// It is replaced, once the new one is complete.
    Replace,
}

/// Where bytes go.
///
/// Everything that writes takes `impl Into<Output>`: a path, an open [`File`], or a writer. Under a
/// path the output appears when it is complete.
///
/// ```
/// use sweetspot_io::{ErrorKind, Existing, Input, copy};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("report");
/// let text = || Input::reader("memory", &b"done"[..]);
/// copy::copy(text(), &path, &copy::Options::default())?;
/// let error = copy::copy(text(), &path, &copy::Options::default()).unwrap_err();
/// assert!(matches!(error.kind, ErrorKind::Exists));
/// let replace = copy::Options::new().existing(Existing::Replace);
/// copy::copy(text(), &path, &replace)?;
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
pub struct Output {
    name: String,
    kind: Kind,
}

enum Kind {
    Path(PathBuf),
    File(File),
    Writer(Box<dyn Write + Send>),
}

impl Output {
    /// A file of that name.
    pub fn path(path: impl AsRef<Path>) -> Output {
        let path = path.as_ref().to_owned();
        Output { name: path.display().to_string(), kind: Kind::Path(path) }
    }

    /// An open file, from its present position on; `name` stands for it in messages.
    pub fn file(name: &str, file: File) -> Output {
        Output { name: name.to_owned(), kind: Kind::File(file) }
    }

    /// Any writer; `name` stands for it in messages.
    pub fn writer(name: &str, writer: impl Write + Send + 'static) -> Output {
        Output { name: name.to_owned(), kind: Kind::Writer(Box::new(writer)) }
    }

    /// Nothing is kept: for work that has no output.
    pub fn nowhere() -> Output {
        Output::writer("nowhere", io::sink())
    }

    /// Standard output.
    pub fn stdout() -> Output {
        let name = "standard output";
        match rustix::io::dup(io::stdout()) {
            Ok(own) => Output::file(name, File::from(own)),
            Err(_) => Output::writer(name, io::stdout()),
        }
    }

    /// What stands for it in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is there now, if it is a file.
    pub(crate) fn stat(&self) -> Option<rustix::fs::Stat> {
        match &self.kind {
            Kind::Path(path) => rustix::fs::stat(path).ok(),
            Kind::File(file) => sys::stat(file).ok(),
            Kind::Writer(_) => None,
        }
    }

    pub(crate) fn open(self, existing: Existing) -> Result<Written> {
        self.open_with_mode(existing, 0o666)
    }

    /// `mode` counts for a new file, less the process's mask.
    pub(crate) fn open_with_mode(self, existing: Existing, mode: u32) -> Result<Written> {
        let Output { name, kind } = self;
        let sink = match kind {
            // A device or a pipe is written to; it cannot be replaced.
            Kind::Path(path) if is_special(&path) => {
                Sink::File(sys::open(&path, OFlags::WRONLY).map_err(Error::system("open", &name))?)
            }
            Kind::Path(path) => match Beside::new(&path, existing, mode) {
                Ok(beside) => Sink::Beside(beside),
                Err(error) => return Err(failed("create", &name, error)),
            },
            Kind::File(file) => Sink::File(file),
            Kind::Writer(writer) => Sink::Writer(writer),
        };
        Ok(Written { name, sink, bytes: 0 })
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Output {
    fn from(path: &P) -> Output {
        Output::path(path)
    }
}

impl From<PathBuf> for Output {
    fn from(path: PathBuf) -> Output {
        Output::path(path)
    }
}

impl From<File> for Output {
    fn from(file: File) -> Output {
        Output::file("an open file", file)
    }
}

fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

fn failed(operation: &'static str, name: &str, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::AlreadyExists => ErrorKind::Exists,
        _ => ErrorKind::System(error),
    };
    Error::new(operation, name, kind)
}

/// An output that was opened. Dropped without [`Written::finish`], a path is left as it was.
pub(crate) struct Written {
    name: String,
    sink: Sink,
    bytes: u64,
}

enum Sink {
    Beside(Beside),
    File(File),
    Writer(Box<dyn Write + Send>),
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Written")
            .field("name", &self.name)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Written {
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.sink {
            Sink::Beside(Beside { file, .. }) | Sink::File(file) => sys::write_all(file, bytes),
            Sink::Writer(writer) => sys::write_all(writer.as_mut(), bytes),
        }
        .map_err(Error::system("write", &self.name))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// As [`Written::write_all`]; in a new file zeros become a hole. Then [`Written::end_here`] must
    /// follow.
    pub fn write_around_zeros(&mut self, bytes: &[u8]) -> Result<()> {
        /// What file systems give room in, mostly; shorter holes would save nothing.
        const ROOM_BYTES: usize = 4096;
        static ZEROS: [u8; ROOM_BYTES] = [0; ROOM_BYTES];
        let Sink::Beside(Beside { file, .. }) = &self.sink else { return self.write_all(bytes) };
        let write = |from: usize, to: usize| {
            sys::write_all_at(file, &bytes[from..to], self.bytes + from as u64)
        };
        let writing = Error::system("write", &self.name);
        // From `data` to `at` is what must be written.
        let (mut data, mut at) = (0, 0);
        for piece in bytes.chunks(ROOM_BYTES) {
            let end = at + piece.len();
            if *piece == ZEROS[..piece.len()] {
                write(data, at).map_err(&writing)?;
                data = end;
            }
            at = end;
        }
        write(data, at).map_err(&writing)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Makes a new file as long as what was written, also where it ends with a hole.
    pub fn end_here(&mut self) -> Result<()> {
        match &self.sink {
            Sink::Beside(Beside { file, .. }) => {
                sys::set_len(file, self.bytes).map_err(Error::system("write", &self.name))
            }
            Sink::File(_) | Sink::Writer(_) => Ok(()),
        }
    }

    /// The file behind it, where the kernel may write by itself.
    pub fn file(&self) -> Option<&File> {
        match &self.sink {
            Sink::Beside(Beside { file, .. }) | Sink::File(file) => Some(file),
            Sink::Writer(_) => None,
        }
    }

    /// Whether the file is new, so that positions in it are those of the input.
    pub fn is_new_file(&self) -> bool {
        matches!(self.sink, Sink::Beside(_))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What was written by [`Written::write_all`], in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Passes on what a writer of the caller's still holds.
    pub fn flush(&mut self) -> Result<()> {
        match &mut self.sink {
            Sink::Beside(_) | Sink::File(_) => Ok(()),
            Sink::Writer(writer) => {
                sys::flush(writer.as_mut()).map_err(Error::system("write", &self.name))
            }
        }
    }

    /// Gives it its name.
    pub fn finish(mut self) -> Result<()> {
        self.flush()?;
        match self.sink {
            Sink::Beside(beside) => {
                beside.finish().map_err(|error| failed("create", &self.name, error))
            }
            Sink::File(_) | Sink::Writer(_) => Ok(()),
        }
    }
}

/// A file that has not its name yet.
struct Beside {
    file: File,
    path: PathBuf,
    existing: Existing,
    /// Its name meanwhile, if it has one.
    meanwhile: Option<tempfile::TempPath>,
}

impl Beside {
    fn new(path: &Path, existing: Existing, mode: u32) -> io::Result<Beside> {
        // Early, so that nobody waits for an output that will be refused.
        if existing == Existing::Refuse && path.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // A link stays, and what it leads to is replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = folder_of(&path);
        let flags = OFlags::WRONLY | OFlags::TMPFILE;
        let (file, meanwhile) = match sys::create(folder, flags, mode) {
            Ok(file) => (file, None),
            Err(error) if sys::is_unsupported(&error) => {
                let (file, path) = tempfile::Builder::new()
                    .prefix(PREFIX)
                    .make_in(folder, |path| {
                        sys::create(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode)
                    })?
                    .into_parts();
                (file, Some(path))
            }
            Err(error) => return Err(error),
        };
        Ok(Beside { file, path, existing, meanwhile })
    }

    fn finish(self) -> io::Result<()> {
        let Beside { file, path, existing, meanwhile } = self;
        let meanwhile = match (meanwhile, existing) {
            (None, Existing::Refuse) => return sys::link(&file, &path),
            (Some(meanwhile), _) => meanwhile,
            // A link cannot replace a name, a rename can.
            (None, Existing::Replace) => tempfile::Builder::new()
                .prefix(PREFIX)
                .make_in(folder_of(&path), |path| sys::link(&file, path))?
                .into_temp_path(),
        };
        match existing {
            Existing::Refuse => sys::rename_new(&meanwhile, &path)?,
            Existing::Replace => sys::rename(&meanwhile, &path)?,
        }
        // It has another name now.
        meanwhile.keep().map(drop).map_err(io::Error::from)
    }
}

/// How the temporary names begin, for anyone who finds one.
const PREFIX: &str = ".sweetspot-unfinished-";

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fault::{self, Fault};
    use crate::test::Place;
    use rustix::io::Errno;
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_file_system_without_unnamed_files_gets_a_temporary_name() {
        let place = Place::new(b"");
        let to = place.path("to");
        for existing in [Existing::Refuse, Existing::Replace] {
            for finishes in [true, false] {
                let before = std::fs::read(&to).ok();
                let make = || Output::path(&to).open(existing);
                // The first call makes the file without a name.
                let (written, reached) = fault::with(0, Fault::Error(Errno::OPNOTSUPP), make);
                if before.is_some() && existing == Existing::Refuse {
                    assert!(written.is_err());
                    continue;
                }
                assert!(reached);
                let mut written = written.unwrap();
                written.write_all(b"new").unwrap();
                assert!(place.others().iter().any(|name| name.starts_with(PREFIX)));
                assert_eq!(std::fs::read(&to).ok(), before, "not before it is complete");
                match finishes {
                    true => written.finish().unwrap(),
                    false => drop(written),
                }
                let expected = if finishes { Some(b"new".to_vec()) } else { before };
                assert_eq!(std::fs::read(&to).ok(), expected);
                assert_eq!(place.others(), ["to"], "no temporary name stays");
            }
        }
    }

    #[test]
    fn what_is_there_is_refused_before_anyone_works() {
        let place = Place::new(b"old");
        let error = Output::path(place.path("file")).open(Existing::Refuse).err().unwrap();
        assert!(matches!(error.kind, ErrorKind::Exists), "{error}");
        // Also where it came meanwhile.
        let mut written = Output::path(place.path("to")).open(Existing::Refuse).unwrap();
        written.write_all(b"new").unwrap();
        std::fs::write(place.path("to"), "of others").unwrap();
        let error = written.finish().unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Exists), "{error}");
        assert_eq!(std::fs::read(place.path("to")).unwrap(), b"of others");
    }

    /// Takes so many bytes, and keeps what is flushed.
    #[derive(Clone)]
    struct Takes(usize, Arc<Mutex<(Vec<u8>, Vec<u8>)>>);

    impl Write for Takes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut kept = self.1.lock().unwrap();
            let len = bytes.len().min(self.0 - kept.0.len());
            kept.0.extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            let mut kept = self.1.lock().unwrap();
            kept.1 = kept.0.clone();
            Ok(())
        }
    }

    #[test]
    fn a_writer_is_flushed_and_may_not_take_nothing() {
        let writer = Takes(7, Arc::default());
        let mut written = Output::writer("seven", writer.clone()).open(Existing::Refuse).unwrap();
        written.write_all(b"content").unwrap();
        let error = written.write_all(b"!").unwrap_err();
        assert_eq!(error.io().unwrap().kind(), io::ErrorKind::WriteZero, "{error}");
        written.finish().unwrap();
        assert_eq!(writer.1.lock().unwrap().1, b"content");
    }
}

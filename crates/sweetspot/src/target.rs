//! Where a summary or a report goes: a stream, or a file that holds nothing of the user's. One that is there and is
//! none of ours is never overwritten: `--summary=data.dat` is a mistake, not an order.

use crate::say::say;
use rustix::fs::{Mode, OFlags, fcntl_setfl};
use rustix::io::Errno;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{IsTerminal, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use sweetspot_guard::process::with_size_errors;
use sweetspot_report::failure::Failure;
use sweetspot_report::print::printed;
use sweetspot_report::shell::quoted;
use sweetspot_report::shown::shown;
use tempfile::NamedTempFile;

/// Where the summary goes.
pub enum Target {
    Stderr,
    /// After what the program wrote there: a descriptor of our own, as the program has that one.
    Stdout(File),
    File(Own),
    /// A file that is not there before. If nothing is written it goes away again.
    New(NamedTempFile),
}

impl Target {
    /// Opens the file of an option (`-` for stdout) before the program starts, so that a mistake costs no run. An
    /// older one stays until there is a new one; `title` is how all that the option writes begins.
    ///
    /// # Errors
    /// Where the file cannot be written, or holds something else.
    pub fn open(option: &str, path: &Path, title: impl AsRef<[u8]>) -> Result<Target, Failure> {
        let title = title.as_ref();
        if path == "-" {
            let own = std::io::stdout().as_fd().try_clone_to_owned();
            let own = own.map_err(|error| Failure::own(format!("{option}-: {error}")));
            return Ok(Target::Stdout(own?.into()));
        }
        let shown = shown(path);
        let failure = |cause: &str| Failure::own(format!("{option}{shown}: {cause}"));
        let kind = path.metadata().ok().map(|metadata| metadata.file_type());
        let special = kind.is_some_and(|kind| !kind.is_file());
        if kind.is_some_and(|kind| kind.is_block_device()) {
            let cause = "it is a disk, which is not overwritten";
            return Err(failure(cause).next("name a file in a folder of yours"));
        }
        let is_fifo = kind.is_some_and(|kind| kind.is_fifo());
        let is_new = path.metadata().is_err();
        let opened = match is_fifo {
            true => open_fifo(path),
            false => OpenOptions::new().write(true).read(!special).create(!special).open(path),
        };
        let nobody = Some(Errno::NXIO.raw_os_error());
        let file = opened.map_err(|error| match is_fifo && error.raw_os_error() == nobody {
            true => failure("nobody reads there")
                .next(format!("start its reader first, such as: cat {} &", quoted(path))),
            false => failure(&error.to_string()).next("name a file in a folder of yours"),
        })?;
        // By then this process may have left its folder.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let title = title.to_vec();
        let mut own = Own { path, title, was: None, is_new, file };
        if special {
            return Ok(Target::File(own));
        }
        let io = |error: std::io::Error| failure(&error.to_string());
        if !own.is_replaceable().map_err(io)? {
            let mut other = own.path.clone().into_os_string();
            other.push(".new");
            return Err(failure("the file holds something else, which is not overwritten")
                .next(format!("name another one: {option}{}", quoted(other))));
        }
        own.was = Some(State::of(&own.file.metadata().map_err(io)?));
        Ok(Target::File(own))
    }

    /// Whether people look at it.
    pub fn is_terminal(&self) -> bool {
        match self {
            Target::Stderr => std::io::stderr().is_terminal(),
            Target::Stdout(own) => own.is_terminal(),
            Target::File(own) => own.file.is_terminal(),
            Target::New(_) => false,
        }
    }

    /// Writes the summary. The program has ended: a failure is said, and changes nothing else.
    pub fn write(self, text: impl AsRef<[u8]>) {
        if let Err(failure) = self.try_write(text) {
            say(failure);
        }
    }

    /// The same for whom a failure is one.
    ///
    /// # Errors
    /// Where not everything could be written; never for stderr.
    pub fn try_write(self, text: impl AsRef<[u8]>) -> Result<(), Failure> {
        with_size_errors(|| self.put(text.as_ref()))
    }

    fn put(self, text: &[u8]) -> Result<(), Failure> {
        let failure = |place: &str, error| {
            Failure::own(format!("{place}: {error}"))
                .next("not all of it was written; name a file where there is room")
        };
        match self {
            Target::Stderr => {
                let _ = std::io::stderr().write_all(text);
                Ok(())
            }
            Target::Stdout(mut own) => printed(own.write_all(text)),
            Target::File(own) if !own.is_as_it_was() => {
                let cause = "somebody has written to it meanwhile, so it is left alone";
                // A recording is for no terminal.
                if std::str::from_utf8(text).is_err() {
                    let failure = Failure::own(format!("{}: {cause}", own.shown()));
                    return Err(failure.next("name a file of its own, and do it again"));
                }
                let instead = "what was meant for it follows here";
                say(format_args!("sweetspot: {}: {cause}; {instead}", own.shown()));
                let _ = std::io::stderr().write_all(text);
                Ok(())
            }
            Target::File(own) => own.replace(text).map_err(|error| failure(&own.shown(), error)),
            Target::New(mut file) => {
                let path = shown(file.path());
                let written = file.write_all(text);
                let kept = written.and_then(|()| file.keep().map_err(|failed| failed.error));
                kept.map(drop).map_err(|error| failure(&path, error))
            }
        }
    }
}

/// How long the reader of a FIFO may take to open it: started together with `sweetspot`, it may come
/// a moment later.
const READER_WAIT: Duration = Duration::from_secs(1);

/// Opens a FIFO if it has a reader. Writing to it later waits for that reader, as usual.
fn open_fifo(path: &Path) -> std::io::Result<File> {
    let started = Instant::now();
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    loop {
        match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NXIO) if started.elapsed() < READER_WAIT => {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => {
                let file = opened?;
                fcntl_setfl(&file, OFlags::empty())?;
                return Ok(file.into());
            }
        }
    }
}

/// A file that was opened before the program started, and is replaced only if it is still what it
/// was then: the program may have written it.
pub struct Own {
    path: PathBuf,
    file: File,
    /// How all that is written there begins.
    title: Vec<u8>,
    /// None: not a regular file, so there is nothing to lose.
    was: Option<State>,
    /// It was made here, and goes away again if nothing is written.
    is_new: bool,
}

impl Drop for Own {
    fn drop(&mut self) {
        // A link that led nowhere stays.
        if self.is_new
            && self.is_as_it_was()
            && let Ok(file) = self.path.canonicalize()
        {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// What tells that a file was not written.
#[derive(PartialEq, Eq)]
struct State {
    size: u64,
    times: [i64; 4],
}

impl State {
    fn of(file: &Metadata) -> State {
        let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
        State { size: file.len(), times }
    }
}

impl Own {
    fn shown(&self) -> String {
        shown(&self.path)
    }

    /// Whether it holds nothing, or what was written for the same purpose before.
    fn is_replaceable(&self) -> std::io::Result<bool> {
        let mut start = Vec::new();
        (&self.file).rewind()?;
        (&self.file).take(self.title.len() as u64).read_to_end(&mut start)?;
        Ok(start.is_empty() || start == self.title)
    }

    /// Writes the text in the place of what is there. Where there is no room for more than that, it stays.
    fn replace(&self, text: &[u8]) -> std::io::Result<()> {
        let Some(State { size, .. }) = self.was else {
            // A pipe or a terminal, which has no places.
            return (&self.file).write_all(text);
        };
        let (head, tail) = text.split_at(text.len().min(size as usize));
        if let Err(error) = self.file.write_all_at(tail, size) {
            let _ = self.file.set_len(size);
            return Err(error);
        }
        self.file.write_all_at(head, 0)?;
        self.file.set_len(text.len() as u64)
    }

    fn is_as_it_was(&self) -> bool {
        let Some(was) = &self.was else { return true };
        let (Ok(there), Ok(here)) = (self.path.metadata(), self.file.metadata()) else {
            return false;
        };
        (there.dev(), there.ino()) == (here.dev(), here.ino())
            && State::of(&here) == *was
            && self.is_replaceable().unwrap_or(false)
    }
}

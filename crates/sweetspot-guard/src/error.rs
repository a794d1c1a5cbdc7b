//! What can go wrong on the parent's side, said so that the user knows what to type next.

use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use sweetspot_core::shown::Shown;
use sweetspot_core::why::Why;

/// Something that could not be done, with the file it was to be done to.
#[derive(Debug)]
pub struct Error {
    /// What was tried, as the end of "cannot ...".
    pub operation: &'static str,
    /// The file, folder or process that it was tried on.
    pub target: PathBuf,
    /// What stood in the way.
    pub kind: ErrorKind,
    /// The kernel's word, where it gave one.
    pub source: Option<io::Error>,
}

/// What stood in the way, for callers that act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The folder for shared memory is missing, or files cannot be made in it.
    NoSharedMemory,
    /// There is no space for the ledger in shared memory.
    NoSpace,
    /// There is no /proc, by which processes and files are known.
    NoProcesses,
    /// The limit on the size of files (`ulimit -f`) is smaller than the ledger.
    FileSizeLimit,
    /// No folder is known in which to note the ledger.
    NotNoted,
    /// A seccomp filter keeps calls from what they do, so the guard could not do its part.
    Filter,
    /// More rules than a ledger holds.
    TooManyRules,
    /// A pattern of a rule is longer than a ledger holds.
    TextTooLong,
    /// The caller has more than one thread, so it cannot be copied safely.
    Threads,
    /// The caller is process 1 of its namespace: the guard would die with it.
    InitProcess,
    /// The ledger is in use: its guard lives, or a process that it records.
    InUse,
    /// The ledger belongs to someone else, or others can read or write it, or it is a link.
    NotYours,
    /// The file is not a ledger.
    NotALedger,
    /// The ledger was made by another version, whose layout is not known.
    OtherVersion,
    /// The ledger was made before the last boot of this machine, or in another pid namespace.
    Elsewhere,
    /// The kernel refused.
    System,
}

impl Error {
    pub(crate) fn new(
        operation: &'static str,
        target: impl AsRef<Path>,
        kind: ErrorKind,
        source: impl Into<Option<io::Error>>,
    ) -> Error {
        Error { operation, target: target.as_ref().to_owned(), kind, source: source.into() }
    }

    /// An error whose kind is read from the kernel's word.
    pub(crate) fn system(operation: &'static str, target: &Path, source: io::Error) -> Error {
        Error::new(operation, target, ErrorKind::System, source)
    }
}

impl ErrorKind {
    /// The cause and the next thing to do, in the user's words.
    fn advice(self) -> &'static str {
        match self {
            ErrorKind::NoSharedMemory => {
                "no shared memory can be used there; check that the folder exists and is writable"
            }
            ErrorKind::NoSpace => "no space is left there; remove files from it, see `df /dev/shm`",
            ErrorKind::NoProcesses => {
                "there is no /proc, through which the guard reaches files; as root: mount -t proc proc /proc"
            }
            ErrorKind::FileSizeLimit => {
                "the limit on file size is smaller than it; see `ulimit -f`, try `ulimit -f unlimited`"
            }
            ErrorKind::NotNoted => Why::NotNoted.text(),
            ErrorKind::Filter => Why::Seccomp.text(),
            ErrorKind::TooManyRules => "too many rules; remove some from sweetspot.toml",
            ErrorKind::TextTooLong => "a pattern is too long; shorten it in sweetspot.toml",
            ErrorKind::Threads => "the process that starts it has more than one thread",
            ErrorKind::InitProcess => {
                "the guard would end together with process 1; use `docker run --init` or `unshare --fork`"
            }
            ErrorKind::InUse => "it is in use; try again when the program has ended",
            ErrorKind::NotYours => {
                "it must be a regular file that only you can open; check it with `ls -l`"
            }
            ErrorKind::NotALedger => "it is not a ledger of sweetspot's",
            ErrorKind::OtherVersion => {
                "another version of sweetspot made it, which can finish it; \
                 `sweetspot recover --discard` removes it"
            }
            ErrorKind::Elsewhere => {
                "it comes from before the last boot or from another container; \
                 `sweetspot recover --discard` removes it"
            }
            ErrorKind::System => "the system refused",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = Shown(self.target.as_os_str().as_bytes());
        write!(formatter, "cannot {} {}: ", self.operation, shown)?;
        match (&self.source, self.kind) {
            (Some(source), ErrorKind::System) => write!(formatter, "{source}"),
            (Some(source), kind) => write!(formatter, "{} ({source})", kind.advice()),
            (None, kind) => formatter.write_str(kind.advice()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

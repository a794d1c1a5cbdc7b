//! What can go wrong, said so that the message names the file and the cause.

use std::{fmt, io};

/// Something that could not be done, with what it was to be done to.
///
/// ```
/// use sweetspot_io::{ErrorKind, lines::{self, Lines}};
///
/// let error = Lines::open("/no/such/file", &lines::Options::new()).unwrap_err();
/// assert_eq!(error.target, "/no/such/file");
/// assert!(matches!(&error.kind, ErrorKind::System(cause) if cause.kind() == std::io::ErrorKind::NotFound));
/// assert!(error.to_string().starts_with("cannot open /no/such/file: "));
/// ```
///
/// It becomes a [`std::io::Error`] of the same kind where one is wanted.
#[derive(Debug)]
#[non_exhaustive]
pub struct Error {
    /// What was tried, as the end of "cannot ...".
    pub operation: &'static str,
    /// The file, or what stands for it where it has no name.
    pub target: String,
    /// What stood in the way.
    pub kind: ErrorKind,
}

/// What stood in the way, for callers that act on it.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The system refused.
    System(io::Error),
    /// A line is longer than the options allow.
    LineTooLong {
        /// Where the line begins, in bytes from the beginning of the input.
        at: u64,
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// A byte that no UTF-8 text has there.
    NotUtf8 {
        /// Its position, in bytes from the beginning of the input.
        at: u64,
    },
    /// The last record is cut off. All records before it were delivered.
    RecordTruncated {
        /// The number of the record, from 0.
        number: u64,
        /// How many bytes of it are there.
        found_bytes: usize,
        /// How many bytes a record has.
        record_bytes: usize,
    },
    /// A record was given that has not the length of the file's records.
    RecordLength {
        /// The length that was given.
        found_bytes: usize,
        /// How many bytes a record has.
        record_bytes: usize,
    },
    /// There is no record of that number.
    NoRecord {
        /// The number, from 0.
        number: u64,
    },
    /// The output is there already, and the options do not say that it may be replaced.
    Exists,
    /// Input and output are the same file.
    SameFile,
    /// An option has a value that makes no sense; the text says which.
    Option(&'static str),
}

/// What functions of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(operation: &'static str, target: &str, kind: ErrorKind) -> Error {
        Error { operation, target: target.to_owned(), kind }
    }

    /// For `map_err(Error::system("read", name))`.
    pub(crate) fn system<'a>(
        operation: &'static str,
        target: &'a str,
    ) -> impl Fn(io::Error) -> Error + use<'a> {
        move |error| Error::new(operation, target, ErrorKind::System(error))
    }

    /// The system's error, where it was the system that refused.
    pub fn io(&self) -> Option<&io::Error> {
        match &self.kind {
            ErrorKind::System(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.operation, self.target, self.kind)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::System(error) => error.fmt(f),
            ErrorKind::LineTooLong { at, limit_bytes } => {
                write!(f, "the line that begins at byte {at} is longer than {limit_bytes} bytes")
            }
            ErrorKind::NotUtf8 { at } => write!(f, "byte {at} is not UTF-8"),
            ErrorKind::RecordTruncated { number, found_bytes, record_bytes } => write!(
                f,
                "record {number}, the last, is cut off: {found_bytes} of {record_bytes} bytes"
            ),
            ErrorKind::RecordLength { found_bytes, record_bytes } => {
                write!(f, "a record has {record_bytes} bytes, not {found_bytes}")
            }
            ErrorKind::NoRecord { number } => write!(f, "there is no record {number}"),
            ErrorKind::Exists => write!(f, "it is there already"),
            ErrorKind::SameFile => write!(f, "input and output are the same file"),
            ErrorKind::Option(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::System(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for io::Error {
    /// An error of the same kind, which holds this one: [`io::Error::downcast`] gives it back.
    fn from(error: Error) -> io::Error {
        let kind = match &error.kind {
            ErrorKind::System(source) => source.kind(),
            ErrorKind::Exists => io::ErrorKind::AlreadyExists,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}

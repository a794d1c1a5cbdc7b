//! What can go wrong in an experiment, in words that name the thing and the cause.

use std::{fmt, io, time::Duration};

/// Why an experiment could not be carried out.
#[derive(Debug)]
pub enum Error {
    /// The system refused something.
    System {
        /// What was tried, as it reads after "cannot".
        operation: &'static str,
        /// The file, folder or program.
        target: String,
        /// What the system said.
        source: io::Error,
    },
    /// A command ran longer than its limit and was killed.
    TimeLimit {
        /// The program.
        program: String,
        /// The limit.
        limit: Duration,
    },
    /// A command ended in a way that makes its time worthless.
    Failed {
        /// The program or the cell.
        program: String,
        /// How it ended, with the end of its error output where there was any.
        reason: String,
    },
    /// Two cells of one round gave different outputs.
    OutputsDiffer {
        /// The round, counted from 1.
        round: usize,
        /// The cell that is the reference.
        reference: usize,
        /// The cell that differs from it.
        cell: usize,
        /// What the reference gave.
        expected: String,
        /// What the cell gave.
        found: String,
    },
    /// The samples cannot be evaluated.
    Statistics(crate::statistics::StatisticsError),
}

impl Error {
    /// Wraps an error of the system: `map_err(Error::system("read", path))`.
    pub fn system(
        operation: &'static str,
        target: impl AsRef<std::ffi::OsStr>,
    ) -> impl FnOnce(io::Error) -> Error {
        let target = target.as_ref().to_string_lossy().into_owned();
        move |source| Error::System { operation, target, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::System { operation, target, source } => {
                write!(f, "cannot {operation} {target}: {source}")
            }
            Error::TimeLimit { program, limit } => {
                write!(f, "{program} ran longer than {} s and was killed", limit.as_secs())
            }
            Error::Failed { program, reason } => write!(f, "{program} failed: {reason}"),
            Error::OutputsDiffer { round, reference, cell, expected, found } => write!(
                f,
                "the outputs differ in round {round}: cell {cell} gave {found}, \
                 cell {reference} gave {expected}"
            ),
            Error::Statistics(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::System { source, .. } => Some(source),
            Error::Statistics(error) => Some(error),
            _ => None,
        }
    }
}

impl From<crate::statistics::StatisticsError> for Error {
    fn from(error: crate::statistics::StatisticsError) -> Self {
        Error::Statistics(error)
    }
}

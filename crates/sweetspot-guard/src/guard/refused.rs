//! Why an entry gets no handle.

use std::io;

/// Why a handle is not granted: the file's calls pass through.
#[derive(Debug)]
pub(super) enum Refused {
    /// Nobody reads more than that.
    ForGood,
    /// So far: a file system keeps the answer. The entry will be asked for again.
    Later,
}

impl From<io::Error> for Refused {
    fn from(_: io::Error) -> Refused {
        Refused::ForGood
    }
}

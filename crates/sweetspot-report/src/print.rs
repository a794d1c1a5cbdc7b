//! What a verb says on its standard output. A result that did not arrive is a failure; a reader who has
//! gone away has seen enough.

use crate::failure::Failure;
use std::io::{self, ErrorKind, Write};

/// Prints the result.
///
/// # Errors
/// Where standard output does not take all of it.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    printed(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// What it means that printing ended so.
///
/// # Errors
/// Where that is a failure.
pub fn printed(ended: io::Result<()>) -> Result<(), Failure> {
    match ended {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::own(format!("standard output cannot be written: {error}"))
                .next("not all of the answer was printed; choose another place for it: > FILE"))
        }
        _ => Ok(()),
    }
}

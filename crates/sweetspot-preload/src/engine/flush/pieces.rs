//! In how many pieces the bytes of a flush are written.

use sweetspot_core::unwritten::INTERRUPTED_MAX;

use crate::engine::auto;
use crate::floor::sys;

/// How pending bytes are written.
#[derive(Clone, Copy)]
pub(super) struct Pieces {
    /// All of them.
    pub(super) len: u64,
    /// No smaller ones are tried.
    pub(super) smallest: u64,
    /// When that began; 0: not known.
    pub(super) began_ns: u64,
}

/// So long smaller and smaller pieces are tried, in nanoseconds: a call that waits for it waits no longer than two of
/// the program's own that fail slowly.
const PIECES_NS_MAX: u64 = 500_000_000;

/// Writes until all `len` bytes are `done`. `write` is given where it begins and how much is left at most. Where
/// that fails, less may not, down to `smallest` bytes: the program's own writes were small, and what comes before
/// the one that would have failed has its place. That ends where failing takes long.
///
/// Returns the error that was met on the way, or 0: a file system may have spoken of earlier bytes.
///
/// # Errors
/// Not even the smallest part can be written.
pub(super) fn write_all(
    done: &mut u64,
    pieces: Pieces,
    mut write: impl FnMut(u64, u64) -> isize,
) -> Result<i32, i32> {
    let Pieces { len, smallest, began_ns } = pieces;
    let is_slow = || began_ns != 0 && auto::now_ns().saturating_sub(began_ns) > PIECES_NS_MAX;
    let (mut most, mut met, mut interrupted) = (len, 0, 0);
    while *done < len {
        most = most.min(len - *done);
        let failed = match sys::result(write(*done, most)) {
            Ok(written @ 1..) => {
                *done += written as u64;
                continue;
            }
            Ok(_) => libc::EIO,
            Err(sys::Errno(libc::EINTR)) if interrupted < INTERRUPTED_MAX => {
                interrupted += 1;
                continue;
            }
            Err(sys::Errno(errno)) => errno,
        };
        if most <= smallest || is_slow() {
            return Err(failed);
        }
        if !is_of_size(failed) {
            met = failed;
        }
        most /= 2;
    }
    Ok(met)
}

/// Whether an error says that a write was too large, which the program's own were not.
fn is_of_size(errno: i32) -> bool {
    matches!(errno, libc::EINVAL | libc::EMSGSIZE | libc::E2BIG | libc::ENOMEM | libc::ENOBUFS)
}

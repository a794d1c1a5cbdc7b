//! Which files may be buffered: what is asked of one before its position becomes ours, and before its writes
//! wait.

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::why::Why;

use super::file::{self, OpenFile};
use super::{process, rules};
use crate::floor::sys;

/// Why a file gets no window.
pub enum Refusal {
    /// Ask again later.
    Later,
    /// Never for this open file.
    Final(Why),
}

/// Whether a file that is open with these flags may be buffered: not where each transfer is to go to the
/// device, or none to the file.
pub fn may_wait(flags: i32) -> bool {
    let direct = libc::O_DIRECT | libc::O_PATH | libc::O_DSYNC | libc::O_SYNC;
    flags & direct & !libc::O_LARGEFILE == 0
}

/// By what a window can be confirmed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The times of the file change with its content.
    Times,
    /// They need not, where a program makes up the content (FUSE): a window is only filled again.
    Nothing,
}

impl Trust {
    /// Remembers it for the file.
    pub fn keep(self, file: &OpenFile) {
        match self {
            Trust::Times => file.traits.fetch_and(!file::UNTIMED, Relaxed),
            Trust::Nothing => file.traits.fetch_or(file::UNTIMED, Relaxed),
        };
    }
}

/// Whether a window may answer reads of a file, and by what it is confirmed. It is asked before the first
/// one, also where the file's writes wait already.
///
/// # Errors
/// Why not.
pub fn may_have_window(fd: i32) -> Result<Trust, Refusal> {
    let file_system = sys::file_system(fd).ok_or(Refusal::Later)?;
    if file_system.is_made_up() {
        return Err(Refusal::Final(Why::NotRegular));
    }
    if file_system.notes_reads() {
        return Err(Refusal::Final(Why::ReadsNoted));
    }
    let acquires_unseen = process::shares_memory() || process::may_acquire();
    if acquires_unseen && !rules::is_unobserved(fd) {
        return Err(Refusal::Final(Why::SharedMemory));
    }
    if !file_system.is_fuse() {
        return Ok(Trust::Times);
    }
    // Its server makes an answer for each read, perhaps only when all is there that was asked for.
    match sys::is_direct_by_server(fd) {
        Some(false) => Ok(Trust::Nothing),
        _ => Err(Refusal::Final(Why::OpenFlags)),
    }
}

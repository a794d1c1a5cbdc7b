//! What programs ask that know of us: write everything out, how a descriptor fares, another size.
//!
//! The rules are those of every hook: in a handler, in the child of a fork or vfork, early and late.

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::ledger::{BUFFER_AUTO, BUFFER_OFF};
use sweetspot_core::size::BUFFER_BYTES_MAX;
use sweetspot_core::why::Why;

use super::file::{self, OpenFile};
use super::quiesce::{Next, quiesce};
use super::spawns::passive;
use super::{dirty, handle, records, rules, table, transition};
use crate::floor::lock::Held;
use crate::floor::signals::SignalsBlocked;
use crate::floor::sys;

/// The numbers of `include/sweetspot.h`.
pub mod answer {
    pub const OFF: i32 = 1;
    pub const UNKNOWN: i32 = 2;
    pub const PASSED_THROUGH: i32 = 3;
    pub const LEARNING: i32 = 4;
    pub const READS: i32 = 8;
    pub const WRITES: i32 = 16;
}

/// Writes out everything that waits. The error is told, not taken: the program's own calls go on
/// failing with it until the bytes are where they belong.
pub fn flush() -> Result<(), i32> {
    if !passive() {
        super::release_point();
    }
    // Also at the end of buffering something may be left that could not be written.
    dirty::unwritten().map_or(Ok(()), Err)
}

/// What becomes of reads and writes of a descriptor: one of `answer`, or a sum.
pub fn status(fd: i32) -> i32 {
    if passive() {
        return answer::OFF;
    }
    let word = table::word(fd).map_or(table::UNKNOWN, |word| word.load(Relaxed));
    match table::tag(word) {
        table::LEARNING => answer::LEARNING,
        table::PASS_THROUGH | table::OTHER => answer::PASSED_THROUGH,
        table::OPEN => status_of(OpenFile::from_word(word)),
        _ => answer::UNKNOWN,
    }
}

fn status_of(file: &OpenFile) -> i32 {
    if file.state.load(Relaxed) == table::PASS_THROUGH {
        return answer::PASSED_THROUGH;
    }
    let reads = file.is_on() && file.buffer_bytes.load(Relaxed) > 0;
    let writes = file.is_buffered() && file.attachment.waits();
    match i32::from(reads) * answer::READS + i32::from(writes) * answer::WRITES {
        0 => answer::LEARNING,
        buffered => buffered,
    }
}

/// Sets the size for an open file, whose buffer is given up first.
pub fn advise(fd: i32, size: i64) -> Result<(), i32> {
    let buffer = match size {
        ..0 => BUFFER_OFF,
        0 => BUFFER_AUTO,
        bytes if bytes as u64 <= BUFFER_BYTES_MAX => bytes as u32,
        _ => return Err(libc::EINVAL),
    };
    if passive() {
        return Ok(());
    }
    let status = sys::status(fd).ok_or(libc::EBADF)?;
    if table::word(fd).is_some_and(|word| word.load(Relaxed) == table::UNKNOWN) {
        transition::classify(fd);
    }
    if buffer == BUFFER_OFF {
        quiesce(fd, Next::PassThrough(Why::Off));
        return Ok(());
    }
    if !status.regular {
        return Err(libc::ENOTSUP);
    }
    quiesce(fd, Next::Learn);
    let _signals = SignalsBlocked::new();
    let registry = file::hold_registry();
    let allowed = match rules::buffer_for(fd) {
        BUFFER_OFF => return Err(libc::ENOTSUP),
        _ if buffer == BUFFER_AUTO => rules::auto_for(fd),
        _ => buffer,
    };
    let file = known(fd, &registry).ok_or(libc::ENOTSUP)?;
    let held = file.hold();
    if file.state.load(Relaxed) == table::PASS_THROUGH {
        return Err(libc::ENOTSUP);
    }
    file.buffer.store(allowed, Relaxed);
    records::buffer_changed(file);
    // Memory in which writes wait is of the old size. Where an append goes on (one that a handler
    // interrupted, one of another thread that was faster) it stays until the file is quiesced again.
    let is_idle = !file.is_buffered() && file.pending() == 0 && !file.dirty.is_in();
    if !held.nested && is_idle {
        handle::let_go(file);
    }
    Ok(())
}

/// The open file of a descriptor, also where calls of other threads change its word meanwhile.
fn known(fd: i32, registry: &Held<'_>) -> Option<&'static OpenFile> {
    (0..TRIES_MAX).find_map(|_| transition::make_known(fd, registry))
}

/// Each other call of another thread can take one away.
const TRIES_MAX: u32 = 64;

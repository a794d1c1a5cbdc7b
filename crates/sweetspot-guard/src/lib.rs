//! The parent's side of `sweetspot run`: the ledger, the guard, and what is left when both died.
//!
//! ```text
//! session   makes the ledger, fills in the settings, reads the summary
//! probe     asks whether one program is buffered here, without running it
//! guard     the process that holds files and finishes what dead processes left pending: `handles`,
//!           `deaths`, `living`, `place`
//! notes     which ledgers are the user's own, and which files they may be written to
//! costs     what calls cost on each file system, from one run to the next
//! recover   does the guard's last duty where the guard was killed too
//! ```
//!
//! Pending bytes are written by their owner; by the guard, if they have waited for the maximum age, if another process
//! asks, or once the kernel has said that the owner is dead; or by `recover` once both are.
//!
//! # What the library in the program does
//! The other half of the protocol, as pseudo-code; `tests/guard/client.rs` is a client that follows it.
//!
//! ```text
//! alive(guard)   = guard != 0 and guard & 0x4000_0000 == 0          one relaxed load
//! poke(i)        = ask_bits[i / 64] |= 1 << (i % 64); asks += 1; if guard_naps == 1: FUTEX_WAKE asks
//!                  (all SeqCst; futexes are shared, not private; never store to guard_naps)
//!
//! memory           header, rules and slots are always there, `files` only with FLAG_SUMMARY.  Touch
//!                  `entries` only after guard != 0 was seen (Acquire): what is not allocated yet
//!                  would be a SIGBUS where shared memory is full.
//! process starts   slots[1..] (slot 0 means "none"): CAS pid 0 -> getpid().  None free: poke with no
//!                  bit (asks += 1 only), so that the guard clears the slots of the dead; pass through.
//! first ask        slot.start_ticks, slot.pid_namespace, then ready = 1 (Release)
//! claim            CAS state FREE -> OWNED (next_state), then at once: slot, flushing = 0,
//!                  word = flushed(word)
//! ask              fd, device, inode, open_flags, path, write_buffer_bytes = wanted size;
//!                  CAS OWNED -> ASKED; poke.  Until the answer every call passes through.
//! answer           HELD of the generation after the ask: write_buffer_at and write_buffer_bytes (at
//!                  least what was wanted) are valid, until the next RELEASE or DISCARD.  Map the write
//!                  buffer, take the kernel's offset, store size and times as fstat gives them *now*
//!                  (writes that passed through may have moved them since the guard looked), buffer.
//!                  REFUSED: final for this open file, unless a larger write buffer than usual was asked for; DISCARD it when the file is closed.
//! append           not alive(guard): quiesce, and pass through for good.
//!                  Nothing pending: base, order = header.order++.  Copy.  CAS word {g, n} -> {g, n+len}.
//! flush            begun_ns = the clock; flushing = 1; pwrite(fd, write buffer, length, base) until all is
//!                  written; size and times from fstat; CAS word -> flushed(word); flushing = 0.  Where it
//!                  fails: size and times, flushing = 3, CAS word -> the same bytes; the next try (by whom it
//!                  may be) only if fstat gives these, else flushing = 2, and nobody tries while the owner
//!                  lives.
//! let go           flush; CAS HELD -> RELEASE; poke.  The guard answers OWNED.  The write buffer is
//!                  kept, so the next ask is cheaper.
//! close            flush; unmap the write buffer; CAS (any state but FREE) -> DISCARD; poke.  Never
//!                  touch it afterwards: its pages are given back.  Nobody waits for the guard.
//!                  A DISCARD or RELEASE with bytes pending is left as it is until the owner dies.
//! exit, exec       quiesce every file and DISCARD its entry, then ready = 0, then pid = 0.
//! fork             the child maps private memory over the ledger, and claims a slot of its own.
//! wait for a child after the kernel's wait: if an entry of the child's slot has a length and
//!                  alive(guard): d = slot.done before looking; FUTEX_WAIT done == d, bounded.
//! ```

#[cfg(test)]
use test_start as _;

pub mod costs;
mod early;
mod error;
mod filters;
mod finish;
pub mod given;
mod guard;
mod identity;
mod memory;
pub mod notes;
pub mod observation;
pub mod own_file;
pub mod own_folder;
pub mod probe;
pub mod process;
mod quiet;
pub mod recover;
pub mod session;
mod sys;
mod write_buffers;

pub use error::{Error, ErrorKind};
pub use notes::Noted;
pub use session::{OwnedLedger, Settings};

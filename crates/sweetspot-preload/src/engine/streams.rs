//! Streams: whether the calls are seen that the C library makes for `printf`, `fread` and `fseek`, and
//! whether they are buffered like any others.
//!
//! How they are made to be seen is the front's (`reach::streams`), which leaves its function here: it
//! is called when the first buffer is about to open, or the first child to be made, or a stream leads to a file
//! that this process may have been given. A process without any of these pays nothing.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

use sweetspot_core::why::Why;

use super::process as process_wide;
use super::spawns::{is_filtered, is_spawned_child, passive};
use super::{handlers, ledger, rules, table};
use crate::floor::sys;

/// Puts functions of ours in the way of the calls of streams.
pub type Take = fn() -> Result<(), Why>;

/// The front's [`Take`]; null: it has not said.
#[unsafe(link_section = ".data")]
static TAKE: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// One of `UNTRIED` to `UNSEEN`.
#[unsafe(link_section = ".data")]
static STATE: AtomicU32 = AtomicU32::new(UNTRIED);
const UNTRIED: u32 = 0;
/// A thread is finding out.
const TRYING: u32 = 1;
const SEEN: u32 = 2;
const UNSEEN: u32 = 3;

/// At the start: how the calls of streams can be made to be seen.
pub fn take_by(take: Take) {
    TAKE.store(take as *mut (), Relaxed);
}

/// In the child of a fork: the thread that was about to arrange that is not there.
pub(super) fn forget() {
    let _ = STATE.compare_exchange(TRYING, UNTRIED, Relaxed, Relaxed);
}

/// Whether the calls of streams are seen, as the first buffer is about to open; has that arranged when first asked.
pub fn are_seen() -> bool {
    let seen = are_taken();
    if seen {
        // And with it the first copy.
        handlers::install();
    }
    seen
}

/// Whether the calls of streams are seen; has that arranged when first asked.
pub fn are_taken() -> bool {
    match STATE.load(Relaxed) {
        SEEN => return true,
        UNTRIED => {}
        _ => return false,
    }
    let take = TAKE.load(Relaxed);
    if take.is_null() || STATE.compare_exchange(UNTRIED, TRYING, Relaxed, Relaxed).is_err() {
        return false;
    }
    // SAFETY: stored by `take_by` alone.
    let take: Take = unsafe { core::mem::transmute(take) };
    let taken = take();
    if let Err(why) = taken {
        ledger::note(why);
    }
    STATE.store(if taken.is_ok() { SEEN } else { UNSEEN }, Relaxed);
    taken.is_ok()
}

/// The standard streams that are written to.
const WRITTEN: core::ops::RangeInclusive<i32> = libc::STDOUT_FILENO..=libc::STDERR_FILENO;

/// At the start of a program: to what its standard streams lead it was given.
#[unsafe(link_section = ".text.startup")]
pub fn given() {
    if !ledger::is_given() || is_filtered() {
        return;
    }
    for fd in WRITTEN {
        let Some(status) = sys::status_at_hand(fd) else { continue };
        if fd == libc::STDERR_FILENO {
            ERRORS_DEVICE.store(status.device, Relaxed);
            ERRORS_INODE.store(status.inode, Relaxed);
        }
        if status.regular && STATE.load(Relaxed) == UNTRIED {
            are_taken();
        }
    }
}

/// What standard error was when the program began; 0: not known.
#[unsafe(link_section = ".data")]
static ERRORS_DEVICE: AtomicU64 = AtomicU64::new(0);
#[unsafe(link_section = ".data")]
static ERRORS_INODE: AtomicU64 = AtomicU64::new(0);

/// Whether standard error still is what the program was given as that. Else its number may be that of data.
pub fn errors_are_read() -> bool {
    let given = (ERRORS_DEVICE.load(Relaxed), ERRORS_INODE.load(Relaxed));
    let is_it = |status: sys::Status| (status.device, status.inode) == given;
    given != (0, 0) && sys::status_at_hand(libc::STDERR_FILENO).is_some_and(is_it)
}

/// A descriptor is now a duplicate of another one, and perhaps what a standard stream leads to.
#[inline(always)]
pub fn may_lead_to(fd: i32) {
    if WRITTEN.contains(&fd) {
        lead_to(fd);
    }
}

/// A stream leads to a descriptor. What it writes to a file may come over what another process has waiting, and
/// of a file that was given nobody may know that this process has it open. So its calls are seen from here on.
#[unsafe(link_section = ".text.startup")]
pub fn lead_to(fd: i32) {
    let is_untried = STATE.load(Relaxed) == UNTRIED;
    if is_untried
        && ledger::is_given()
        && !is_spawned_child()
        && !is_filtered()
        && sys::status_at_hand(fd).is_some_and(|status| status.regular)
    {
        are_taken();
    }
}

/// Whether they never will be: nothing can be buffered in this process.
pub fn are_never_seen() -> bool {
    STATE.load(Relaxed) == UNSEEN
}

/// Whether a call that libc makes on its own account (stdio, mostly) is buffered like any other.
pub fn is_libc_buffered(fd: i32) -> bool {
    match process_wide::stdio() {
        process_wide::STDIO_NONE => false,
        process_wide::STDIO_ALL => true,
        _ => {
            let Some(known) = table::stdio(fd) else { return false };
            if known.load(Relaxed) == 0 && !passive() {
                known.store(if rules::buffers_stdio(fd) { 1 } else { 2 }, Relaxed);
            }
            known.load(Relaxed) == 1
        }
    }
}

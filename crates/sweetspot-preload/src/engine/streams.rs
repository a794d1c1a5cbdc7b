//! Streams: whether the calls are seen that the C library makes for `printf`, `fread` and `fseek`, and
//! whether they are buffered like any others.
//!
//! How they are made to be seen is the front's (`reach::streams`), which leaves its function here: it
//! is called when the first buffer is about to open, so that a process without one pays nothing.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

use sweetspot_core::learning::Learning;
use sweetspot_core::policy;
use sweetspot_core::why::Why;

use super::children::passive;
use super::pass::Pass;
use super::process as process_wide;
use super::{file, ledger, quiesce, release_point, table};
use crate::floor::atomic::swap;
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

/// Whether the calls of streams are seen; has that arranged when first asked.
pub fn are_seen() -> bool {
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
    match taken {
        // The first buffer is about to open, and with it the first copy.
        Ok(()) => super::handlers::install(),
        Err(why) => crate::engine::ledger::note(why),
    }
    STATE.store(if taken.is_ok() { SEEN } else { UNSEEN }, Relaxed);
    taken.is_ok()
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
                known.store(if crate::engine::rules::buffers_stdio(fd) { 1 } else { 2 }, Relaxed);
            }
            known.load(Relaxed) == 1
        }
    }
}

/// Calls of libc's own that passed through. Nothing else is known of them.
#[unsafe(link_section = ".data")]
static STDIO_CALLS: AtomicU32 = AtomicU32::new(0);

/// For the summary: stdio makes many calls on a file, so that there is something to say should nothing
/// be buffered.
#[cold]
fn note_stdio(fd: i32) {
    let calls = STDIO_CALLS.fetch_add(1, Relaxed) + 1;
    if calls == policy::CALLS_LISTED {
        match sys::status(fd).is_some_and(|status| status.regular) {
            true => ledger::note(Why::Stdio),
            // A pipe or a terminal: the next ones may be on a file.
            false => STDIO_CALLS.store(0, Relaxed),
        }
    }
}

/// libc reads, writes or seeks on its own account, and is not buffered, on a descriptor that may have
/// a window: at the kernel's offset, and what stdio uses earns no window.
pub fn libc_call(fd: i32) -> Pass {
    if passive() {
        return Pass::NOTHING;
    }
    if ledger::wants_summary() {
        note_stdio(fd);
    }
    quiesce::quiesce(fd, quiesce::Next::Learn);
    if let Some(word) = file::learning_word(fd) {
        let value = word.load(Relaxed);
        if table::is_learning(value) && !Learning(value).has(Learning::STDIO) {
            swap(word, value, Learning(value).with(Learning::STDIO).0);
        }
    }
    release_point();
    Pass::ACQUIRE
}

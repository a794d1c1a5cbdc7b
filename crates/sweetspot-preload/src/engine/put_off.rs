//! Handlers that would begin in the middle of an append are put off to its end.
//!
//! An append holds its file's lock and blocks no signal. A handler may keep its thread for long: a garbage collector
//! stops the world so, and then writes to the same file itself, by a thread that would wait for the lock. So where
//! there are several threads, the handler of ours that stands in front returns at once. The signal is sent again and
//! waits, blocked. The word of the lock says so: the swap by which the append gives it back fails, and
//! what was blocked is delivered. An append that is not disturbed pays nothing.
//!
//! Not here: transitions (`floor::signals`); a thread that is alone, which keeps nobody waiting; signals that mean
//! something else when they are sent again (`handlers`).
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::file::{self, OpenFile};
use crate::arch;
use crate::floor::atomic::{single_threaded, swap};
use crate::floor::{signals, sys};

/// In a lock's word, beside the thread: handlers are put off until the append that holds it has ended.
const PUT_OFF: u64 = 2;
/// Likewise: a handler that could not be put off runs above the append. None is any more: it may be waiting for one.
const INTERRUPTED: u64 = 4;

/// The thread whose append holds a lock with this word, without the marks; or no thread at all.
pub fn appender(word: u64) -> u64 {
    word & !(PUT_OFF | INTERRUPTED)
}

/// A thread of which handlers are put off.
struct Disturbed {
    /// Its thread pointer; 0: none.
    thread: AtomicU64,
    /// Its signal mask before.
    mask: AtomicU64,
}

/// More threads than are ever disturbed at the same moment: an append takes less than a microsecond. Handlers of others
/// begin at once.
const THREADS_MAX: usize = 256;

static DISTURBED: [Disturbed; THREADS_MAX] =
    [const { Disturbed { thread: AtomicU64::new(0), mask: AtomicU64::new(0) } }; THREADS_MAX];

/// Whether one ever was: a forked child that writes to a page, or reads one that is nobody's yet, pays for it.
#[unsafe(link_section = ".data")]
static WAS_ANY: AtomicBool = AtomicBool::new(false);

fn of_thread(me: u64) -> Option<&'static Disturbed> {
    DISTURBED.iter().find(|disturbed| disturbed.thread.load(Relaxed) == me)
}

/// Its own place, or a free one that is its own from now on.
fn place_of(me: u64) -> Option<&'static Disturbed> {
    let take =
        |disturbed: &&Disturbed| disturbed.thread.compare_exchange(0, me, Relaxed, Relaxed).is_ok();
    WAS_ANY.store(true, Relaxed);
    of_thread(me).or_else(|| DISTURBED.iter().find(take))
}

/// A handler of ours begins, for a signal that was sent; whether it can be sent again. Whether it is to return at once:
/// this thread is in the middle of an append, beside others, and no handler runs above that.
///
/// # Safety
/// Only with what the kernel handed over to a handler.
pub unsafe fn put_off(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    can_be_sent_again: bool,
) -> bool {
    let me = sys::thread_pointer();
    let is_appending = |file: &&OpenFile| appender(file.lock.load(Relaxed)) == me;
    let Some(file) = file::used().find(is_appending) else { return false };
    if file.lock.load(Relaxed) & INTERRUPTED != 0 {
        return false;
    }
    // SAFETY: as the caller says.
    let is_put_off = can_be_sent_again
        && !single_threaded()
        && mark(file, me, PUT_OFF)
        && unsafe { wait(me, signal, info, context) };
    if !is_put_off {
        mark(file, me, INTERRUPTED);
    }
    is_put_off
}

/// Marks the lock that this thread's append holds; false: it was taken over.
fn mark(file: &OpenFile, me: u64, mark: u64) -> bool {
    let word = file.lock.load(Relaxed);
    appender(word) == me && swap(&file.lock, word, word | mark)
}

/// The signal waits until the append has ended; false: it cannot.
///
/// # Safety
/// As [`put_off`].
unsafe fn wait(me: u64, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
    let Some(place) = place_of(me) else { return false };
    // SAFETY: as the caller says.
    let before = unsafe { *arch::signal_mask(context) };
    if !signals::is_marked(before) {
        // Several may have come at once, each during the first steps of another: the one that returns last is the
        // one that interrupted the append.
        place.mask.store(before, Relaxed);
    }
    // SAFETY: as the caller says.
    unsafe { signals::wait_blocked_if_sent(signal, info, context) }
}

/// An append has ended whose lock was not as it had left it: what was put off is delivered.
pub fn deliver() {
    if let Some(disturbed) = of_thread(sys::thread_pointer()) {
        let mask = disturbed.mask.load(Relaxed);
        disturbed.thread.store(0, Relaxed);
        signals::unblock_marked(mask);
    }
}

/// In the child of a fork: the threads are not there.
pub fn forget() {
    if WAS_ANY.load(Relaxed) {
        DISTURBED.iter().for_each(|disturbed| disturbed.thread.store(0, Relaxed));
    }
}

//! Sets of signals: those by which a bad address shows, those of libc's own, those that the program
//! may have handlers for; and blocking them.
//!
//! Not here: the handlers that stand in front of the program's (`engine::handlers`).

use core::ffi::c_int;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::floor::atomic::single_threaded;
use crate::floor::sys;

/// One more than the highest signal.
pub const COUNT: usize = 65;

/// The two signals by which a bad address shows.
pub const FAULTS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Those that the C libraries keep for themselves (to cancel threads, to change all of them): their
/// handlers bring no news.
const LIBC_OWN: Range<c_int> = 32..34;

/// Whether a bad address shows by this signal.
pub fn is_fault(signal: c_int) -> bool {
    FAULTS.contains(&signal)
}

/// Whether handlers of this signal are the program's.
pub fn is_programs(signal: c_int) -> bool {
    (1..COUNT as c_int).contains(&signal) && !LIBC_OWN.contains(&signal)
}

/// The kernel's set that holds one signal.
pub fn set_of(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// The signals by which a bad address shows, as a set of the kernel's.
pub fn fault_set() -> u64 {
    FAULTS.iter().fold(0, |set, signal| set | set_of(*signal))
}

/// The signals that the C libraries keep for themselves: nobody else can block them.
pub fn libc_own_set() -> u64 {
    LIBC_OWN.fold(0, |set, signal| set | set_of(signal))
}

/// The signals for which the program ever set or asked anything, as a set of the kernel's.
#[unsafe(link_section = ".data")]
static ASKED: AtomicU64 = AtomicU64::new(0);

/// The signals for which the program ever set or asked anything, so all that have a handler.
pub fn asked_set() -> u64 {
    ASKED.load(Relaxed)
}

/// The program is about to set or ask what this signal does.
#[inline(always)]
pub fn asked(signal: c_int) {
    ASKED.fetch_or(set_of(signal), Relaxed);
}

/// While it lives, no handler runs in this thread: a transition is never interrupted half-way by one that
/// reads or writes. Others can see the mask, and it costs two system calls, so a program of one thread
/// has only those signals blocked that it ever had a handler for: any other ends it, and that may
/// happen between any two instructions.
pub struct SignalsBlocked(Option<u64>);

impl SignalsBlocked {
    /// Blocks the signals.
    pub fn new() -> Self {
        let signals = match single_threaded() {
            true => asked_set(),
            // Another thread may just be setting a handler.
            false => u64::MAX,
        };
        let blocked = signals != 0;
        SignalsBlocked(blocked.then(|| sys::change_signal_mask(libc::SIG_BLOCK, signals)))
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            sys::set_signal_mask(before);
        }
    }
}

//! Sets of signals: those by which a bad address shows, those of libc's own, those that the program
//! may have handlers for; and blocking them, or putting their handlers off.
//!
//! Not here: the handlers that stand in front of the program's (`engine::handlers`).
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
    compiler_fence,
};

use crate::arch;
use crate::floor::atomic::single_threaded;
use crate::floor::sys;

/// One more than the highest signal.
pub const COUNT: usize = 65;

/// The two signals by which a bad address shows.
pub const FAULTS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Those that the kernel raises for what the thread itself does: blocked at that moment, they end the process. Nor can
/// it go on before they are handled.
const RAISED: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP, libc::SIGILL, libc::SIGFPE, libc::SIGSYS];

/// Those that the C libraries keep for themselves (to cancel threads, to change all of them): their
/// handlers bring no news.
const LIBC_OWN: Range<c_int> = 32..34;

/// Whether a bad address shows by this signal.
pub fn is_fault(signal: c_int) -> bool {
    FAULTS.contains(&signal)
}

/// Whether this signal came because of what the thread itself did, and not because somebody sent it.
pub fn is_raised(signal: c_int, by_kernel: bool) -> bool {
    by_kernel && RAISED.contains(&signal)
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

/// The signals that may be blocked while the library is at work.
pub fn blockable_set() -> u64 {
    !RAISED.iter().fold(0, |set, signal| set | set_of(*signal))
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

/// The signals that have no handler, or one that can be put off.
#[unsafe(link_section = ".data")]
static DEFERRABLE: AtomicU64 = AtomicU64::new(0);

/// Says of a signal whether it is one of [`DEFERRABLE`].
pub fn set_deferrable(signal: c_int, is_deferrable: bool) {
    match is_deferrable {
        true => DEFERRABLE.fetch_or(set_of(signal), Relaxed),
        false => DEFERRABLE.fetch_and(!set_of(signal), Relaxed),
    };
}

/// Whether a signal means the same when it is sent once again. One that can be queued would come after its like;
/// to send one that stops or continues the program takes back what continues or stops it.
pub fn can_be_sent_again(signal: c_int) -> bool {
    const JOB_CONTROL: [c_int; 4] = [libc::SIGCONT, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    signal < LIBC_OWN.start && !JOB_CONTROL.contains(&signal)
}

/// Whether several of a signal may wait, in the order in which they came.
pub fn can_be_queued(signal: c_int) -> bool {
    signal >= LIBC_OWN.end
}

/// Whether a signal is one of [`DEFERRABLE`].
pub fn is_deferrable(signal: c_int) -> bool {
    DEFERRABLE.load(Relaxed) & set_of(signal) != 0
}

/// How many transitions, one inside the other, have handlers put off. In a program of one thread.
#[unsafe(link_section = ".data")]
static DEFERRING: AtomicU32 = AtomicU32::new(0);
/// How many transitions, of all threads, have signals blocked.
#[unsafe(link_section = ".data")]
static BLOCKING: AtomicU32 = AtomicU32::new(0);
/// In the mask of a thread: it is in one of them. No program blocks libc's own signals.
const MARK: u64 = 1 << (LIBC_OWN.start - 1);
/// Whether a signal came meanwhile, and waits blocked.
#[unsafe(link_section = ".data")]
static DEFERRED: AtomicBool = AtomicBool::new(false);
/// The signal mask before that.
static MASK_BEFORE: AtomicU64 = AtomicU64::new(0);

/// Whether a handler that the kernel began with this context interrupts a transition.
///
/// # Safety
/// Only with what the kernel handed over to a handler.
pub unsafe fn is_in_transition(context: *mut c_void) -> bool {
    // SAFETY: as the caller says.
    DEFERRING.load(Relaxed) != 0 || unsafe { is_masked(context) }
}

/// Whether the mask that was interrupted is a transition's.
unsafe fn is_masked(context: *mut c_void) -> bool {
    let is_any = BLOCKING.load(Relaxed) != 0 || DEFERRED.load(Relaxed);
    // SAFETY: as the caller says.
    is_any && unsafe { *arch::signal_mask(context) } & MARK != 0
}

/// A handler of ours begins, for a signal that was sent. Whether it is to return at once: a transition has handlers
/// put off. The signal is sent again and waits, blocked like every other for which there may be a handler, for the
/// transition's end.
///
/// # Safety
/// Only with what the kernel handed over to a handler.
#[inline(always)]
pub unsafe fn defer(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
    // SAFETY: as the caller says.
    unsafe {
        if is_masked(context) {
            // One of those that are never blocked: it is, until the mask comes back.
            wait_blocked(signal, info, context, set_of(signal));
            return true;
        }
        if DEFERRING.load(Relaxed) == 0 {
            return false;
        }
        defer_now(signal, info, context);
    }
    true
}

#[cold]
unsafe fn defer_now(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let blocked = asked_set() & blockable_set() | set_of(signal) | MARK;
    // SAFETY: as the caller says.
    unsafe {
        // Several may have come at once, each during the first steps of another: the one that returns last is
        // the one that interrupted the transition.
        let before = *arch::signal_mask(context);
        wait_blocked(signal, info, context, blocked);
        MASK_BEFORE.store(before, Relaxed);
    }
    DEFERRED.store(true, Relaxed);
}

/// Sends a signal again, that waits as the handler returns with these signals blocked.
#[cold]
unsafe fn wait_blocked(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    blocked: u64,
) {
    // Or it would come at once.
    sys::change_signal_mask(libc::SIG_BLOCK, blocked);
    // SAFETY: as the caller says.
    unsafe {
        keep_code(info);
        send_again(signal, info);
        // The kernel sets this mask as the handler returns.
        *arch::signal_mask(context) |= blocked;
    }
}

/// Sends a signal to this very thread, as it came.
///
/// # Safety
/// Only with the information that the kernel handed over to a handler.
pub unsafe fn send_again(signal: c_int, info: *mut libc::siginfo_t) {
    // SAFETY: as the caller says.
    unsafe {
        if !is_sent_again(signal, info) {
            // A seccomp filter may refuse it. Once it comes without what came with it, and none is put off again.
            DEFERRABLE.store(0, Relaxed);
            let thread = sys::syscall!(SYS_gettid);
            sys::syscall!(SYS_tgkill, sys::process_id() as isize, thread, signal);
        }
    }
}

/// The same; false: it is not to be had.
unsafe fn is_sent_again(signal: c_int, info: *mut libc::siginfo_t) -> bool {
    let process = sys::process_id() as isize;
    // SAFETY: as the caller says.
    unsafe {
        let thread = sys::syscall!(SYS_gettid);
        sys::syscall!(SYS_rt_tgsigqueueinfo, process, thread, signal, info) == 0
    }
}

/// What was sent with a code below zero, as a timer does, has its place in the kernel's queue already. Sent again, it
/// needs one more, and where the user may have no more of them it would come without its value. Codes above zero are the
/// kernel's own, and always find a place.
const KEPT_CODE: c_int = 0x5357_0000;
const CODE: c_int = 0xffff;

/// # Safety
/// Only with what the kernel handed over to a handler.
unsafe fn keep_code(info: *mut libc::siginfo_t) {
    // SAFETY: as the caller says.
    let code = unsafe { &mut (*info).si_code };
    if (-CODE..0).contains(code) {
        *code = KEPT_CODE | -*code;
    }
}

/// A handler begins: of a signal that was sent again, with the code that it first had.
///
/// # Safety
/// As [`keep_code`].
#[inline(always)]
pub unsafe fn give_code_back(info: *mut libc::siginfo_t) {
    // SAFETY: as the caller says.
    let code = unsafe { &mut (*info).si_code };
    if *code & !CODE == KEPT_CODE {
        *code = -(*code & CODE);
    }
}

/// Whether a mask is one that [`wait_blocked_if_sent`], or a transition, has made.
pub fn is_marked(mask: u64) -> bool {
    mask & MARK != 0
}

/// Sends a signal again, that waits as the handler returns, blocked like all others, until [`unblock_marked`]. False:
/// it is not to be had, and all is as before.
///
/// # Safety
/// Only with what the kernel handed over to a handler.
#[cold]
pub unsafe fn wait_blocked_if_sent(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) -> bool {
    let blocked = blockable_set() | set_of(signal) | MARK;
    // Or it would come at once.
    let before = sys::change_signal_mask(libc::SIG_BLOCK, blocked);
    // SAFETY: as the caller says. The kernel sets this mask as the handler returns.
    unsafe {
        keep_code(info);
        if !is_sent_again(signal, info) {
            give_code_back(info);
            sys::set_signal_mask(before);
            return false;
        }
        *arch::signal_mask(context) |= blocked;
    }
    true
}

/// This thread has again the mask that it had before. Not if it was jumped away since, to where it has another one.
#[cold]
pub fn unblock_marked(mask: u64) {
    if is_marked(sys::change_signal_mask(libc::SIG_BLOCK, 0)) {
        sys::set_signal_mask(mask);
    }
}

#[cold]
fn deliver() {
    DEFERRED.store(false, Relaxed);
    sys::set_signal_mask(MASK_BEFORE.load(Relaxed));
}

/// While it lives, no handler runs in this thread: a transition is never interrupted half-way by one that
/// reads or writes.
pub struct SignalsBlocked(How);

enum How {
    /// There are no handlers.
    None,
    /// By the mask, which was this one.
    Mask(u64),
    Deferring,
}

impl SignalsBlocked {
    /// Blocks the signals, which others can see, and which costs two system calls. So a program of one thread
    /// has only those blocked that it ever had a handler for: any other ends it, and that may happen between
    /// any two instructions. Those by which a bad address shows are not blocked: it may show in a transition, as
    /// another thread can take memory away at any time.
    pub fn new() -> Self {
        let signals = match single_threaded() {
            true => asked_set(),
            // Another thread may just be setting a handler.
            false => u64::MAX,
        };
        if signals == 0 {
            return SignalsBlocked(How::None);
        }
        BLOCKING.fetch_add(1, Relaxed);
        let blocked = signals & blockable_set() | MARK;
        SignalsBlocked(How::Mask(sys::change_signal_mask(libc::SIG_BLOCK, blocked)))
    }

    /// The same without a system call, if no signal comes: its handler is put off. Only where every call may be
    /// interrupted by a signal.
    pub fn deferring() -> Self {
        if !single_threaded() || asked_set() & !DEFERRABLE.load(Relaxed) != 0 {
            return Self::new();
        }
        Self::defer_handlers()
    }

    /// The same, in a program of one thread.
    pub fn defer_handlers() -> Self {
        DEFERRING.store(DEFERRING.load(Relaxed) + 1, Relaxed);
        compiler_fence(SeqCst);
        SignalsBlocked(How::Deferring)
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        match self.0 {
            How::None => {}
            How::Mask(before) => {
                sys::set_signal_mask(before);
                BLOCKING.fetch_sub(1, Relaxed);
            }
            How::Deferring => {
                compiler_fence(SeqCst);
                let left = DEFERRING.load(Relaxed) - 1;
                DEFERRING.store(left, Relaxed);
                compiler_fence(SeqCst);
                if left == 0 && DEFERRED.load(Relaxed) {
                    deliver();
                }
            }
        }
    }
}

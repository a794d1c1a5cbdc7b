//! Calls that must be made with care: while a thread is to be cancelled, and while a thread may have
//! blocked the signals by which a bad address shows. Then no call is answered the short way; nobody
//! else pays for it.
//!
//! Not here: signal masks that come back with a stack (`siglongjmp`, `setcontext`).
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::floor::atomic::single_threaded;
use crate::floor::next::Next;
use crate::floor::{clock, signals, sys};

/// Why care is needed; bits of `REASON_*`.
#[unsafe(link_section = ".data")]
static REASONS: AtomicU32 = AtomicU32::new(0);
/// Threads were cancelled and may not have noticed yet.
const REASON_CANCELLED: u32 = 1;
/// A thread has blocked the signals of faults.
const REASON_MASK: u32 = 2;
/// A handler runs, or has run, while they are blocked.
const REASON_HANDLER: u32 = 4;

/// Whether each call must take the slow path.
#[inline(always)]
pub fn is_needed() -> bool {
    REASONS.load(Relaxed) != 0
}

fn begin(reason: u32) {
    if REASONS.load(Relaxed) & reason == 0 {
        REASONS.fetch_or(reason, Relaxed);
    }
    clock::end_short_way();
}

/// Threads that have blocked the signals of faults and not unblocked them since.
#[unsafe(link_section = ".data")]
static MASKED: AtomicU32 = AtomicU32::new(0);
/// Threads of the process when the first of them did.
#[unsafe(link_section = ".data")]
static TASKS: AtomicUsize = AtomicUsize::new(0);

/// A thread has this signal mask already.
pub fn blocking(mask: u64) {
    if mask & signals::fault_set() != 0 {
        begin(REASON_MASK);
    }
}

/// Whether a change of the signal mask by `sigprocmask` with these arguments may be one that counts here,
/// whatever the mask is.
pub fn concerns(how: c_int, set: u64) -> bool {
    let names = set & signals::fault_set() != 0;
    match how {
        libc::SIG_UNBLOCK => names && MASKED.load(Relaxed) != 0,
        libc::SIG_SETMASK => names || MASKED.load(Relaxed) != 0,
        _ => names,
    }
}

/// The signal mask of this thread is about to change.
pub fn mask_changing(change: MaskChange) {
    let blocks = |mask: u64| mask & signals::fault_set() != 0;
    match (blocks(change.now), blocks(change.after)) {
        (false, true) => {
            if MASKED.fetch_add(1, Relaxed) == 0 {
                TASKS.store(sys::tasks(), Relaxed);
            }
            begin(REASON_MASK);
        }
        (true, false) => {
            let less = |threads: u32| threads.checked_sub(1);
            let last = MASKED.fetch_update(Relaxed, Relaxed, less) == Ok(1);
            // A thread that was made meanwhile has the mask of the one that made it.
            if last && sys::tasks() <= TASKS.load(Relaxed) {
                REASONS.fetch_and(!REASON_MASK, Relaxed);
            }
        }
        _ => {}
    }
}

/// A handler begins, while these signals are blocked.
pub fn handler_begins(mask: u64) {
    if mask & signals::fault_set() != 0 {
        begin(REASON_HANDLER);
    }
}

/// Held while a call is answered from memory.
pub struct Care {
    /// The signal mask before, where it was changed.
    mask: Option<u64>,
    /// Where it says that this thread has changed it.
    place: Option<&'static Carer>,
}

/// A thread that has unblocked signals of faults for a call: its thread pointer, 0 where the place is free; and those
/// signals.
struct Carer {
    thread: AtomicU64,
    unblocked: AtomicU64,
}

static CARERS: [Carer; 16] =
    [const { Carer { thread: AtomicU64::new(0), unblocked: AtomicU64::new(0) } }; 16];

impl Carer {
    /// This thread is about to unblock these; `None`: too many others do.
    fn enter(unblocked: u64) -> Option<&'static Carer> {
        let me = sys::thread_pointer();
        let is_free =
            |place: &&Carer| place.thread.compare_exchange(0, me, Relaxed, Relaxed).is_ok();
        let place = CARERS.iter().find(is_free)?;
        place.unblocked.store(unblocked, Relaxed);
        Some(place)
    }
}

/// Whether this thread has unblocked a signal for a call: one that somebody sends is not for it.
pub fn has_unblocked(signal: c_int) -> bool {
    let me = sys::thread_pointer();
    let carer = CARERS.iter().find(|carer| carer.thread.load(Relaxed) == me);
    carer.is_some_and(|carer| carer.unblocked.load(Relaxed) & signals::set_of(signal) != 0)
}

/// At the head of the slow path of each call: afterwards a bad address can be met. An error: somebody has sent one of
/// the signals by which it would show, and it waits, blocked, for whoever takes it; so the kernel must answer.
#[inline(always)]
pub fn take() -> Result<Option<Care>, FaultWaits> {
    if is_needed() { take_now().map(Some) } else { Ok(None) }
}

/// A signal of a fault is blocked and has come.
pub struct FaultWaits;

#[cold]
fn take_now() -> Result<Care, FaultWaits> {
    if REASONS.load(Relaxed) & (REASON_MASK | REASON_HANDLER) == 0 {
        return Ok(Care { mask: None, place: None });
    }
    let mask = sys::change_signal_mask(libc::SIG_BLOCK, 0);
    let blocked = mask & signals::fault_set();
    if blocked == 0 {
        // Not any more. With several threads one that has blocked them may go on.
        let over = if single_threaded() { REASON_MASK | REASON_HANDLER } else { REASON_HANDLER };
        REASONS.fetch_and(!over, Relaxed);
        return Ok(Care { mask: None, place: None });
    }
    if signals::waiting() & blocked != 0 {
        return Err(FaultWaits);
    }
    let care = Care { mask: Some(mask), place: Carer::enter(blocked) };
    sys::change_signal_mask(libc::SIG_UNBLOCK, blocked);
    Ok(care)
}

impl Drop for Care {
    fn drop(&mut self) {
        if let Some(mask) = self.mask {
            sys::set_signal_mask(mask);
        }
        if let Some(place) = self.place {
            place.thread.store(0, Relaxed);
        }
        if is_needed() {
            clock::end_short_way();
        }
    }
}

/// Threads that can be to be cancelled at the same time; with more, each call is a cancellation point.
const CANCELLED_MAX: usize = 64;
/// As `pthread_t`; 0: free.
static CANCELLED: [AtomicUsize; CANCELLED_MAX] = [const { AtomicUsize::new(0) }; CANCELLED_MAX];
#[unsafe(link_section = ".data")]
static CANCELLED_TOO_MANY: AtomicBool = AtomicBool::new(false);

/// A thread was cancelled: its next call that is a cancellation point must be one here, too.
pub fn cancelled(thread: usize) {
    let free = |word: &&AtomicUsize| word.compare_exchange(0, thread, Relaxed, Relaxed).is_ok();
    if CANCELLED.iter().all(|word| word.load(Relaxed) != thread)
        && CANCELLED.iter().find(free).is_none()
    {
        CANCELLED_TOO_MANY.store(true, Relaxed);
    }
    begin(REASON_CANCELLED);
}

/// A thread has ended.
pub fn ended(thread: usize) {
    let is_it = |word: &AtomicUsize| word.compare_exchange(thread, 0, Relaxed, Relaxed).is_ok();
    let was = REASONS.load(Relaxed) & REASON_CANCELLED != 0 && CANCELLED.iter().any(is_it);
    let left =
        CANCELLED_TOO_MANY.load(Relaxed) || CANCELLED.iter().any(|word| word.load(Relaxed) != 0);
    if was && !left {
        REASONS.fetch_and(!REASON_CANCELLED, Relaxed);
    }
}

static SELF: Next = Next::new();
static TEST: Next = Next::new();

/// Where a call comes in that is a cancellation point natively, and that nothing has answered yet: ends this
/// thread if that was asked for, and it does not put that off. Nothing may be held.
#[inline(always)]
pub fn cancellation_point() {
    if REASONS.load(Relaxed) & REASON_CANCELLED != 0 {
        end_if_cancelled();
    }
}

#[cold]
fn end_if_cancelled() {
    // SAFETY: libc's functions with their signatures; the second may end the thread, over these frames,
    // in which nothing has to be put in order.
    unsafe {
        let me: unsafe extern "C" fn() -> usize =
            core::mem::transmute(SELF.address(c"pthread_self"));
        let me = me();
        if CANCELLED_TOO_MANY.load(Relaxed) || CANCELLED.iter().any(|word| word.load(Relaxed) == me)
        {
            let test: unsafe extern "C" fn() =
                core::mem::transmute(TEST.address(c"pthread_testcancel"));
            test();
        }
    }
}

/// What a call makes of the signal mask of this thread.
#[derive(Clone, Copy)]
pub struct MaskChange {
    pub now: u64,
    pub after: u64,
}

impl MaskChange {
    /// By `sigprocmask` with these arguments.
    pub fn by(how: c_int, set: u64) -> MaskChange {
        let others = !signals::libc_own_set();
        let now = sys::change_signal_mask(libc::SIG_BLOCK, 0) & others;
        let after = match how {
            libc::SIG_BLOCK => now | set,
            libc::SIG_UNBLOCK => now & !set,
            libc::SIG_SETMASK => set,
            _ => now,
        };
        MaskChange { now, after: after & others }
    }

    /// Whether it changes at all.
    pub fn is_any(self) -> bool {
        self.now != self.after
    }
}

//! Calls that must be made with care: while a thread is to be cancelled, and while a thread may have
//! blocked the signals by which a bad address shows. Then no call is answered the short way, and where they are
//! blocked the kernel copies (`copy`); nobody else pays for it.
//!
//! Not here: signal masks that come back with a stack (`siglongjmp`, `setcontext`).
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
    fence,
};

use crate::floor::atomic::single_threaded;
use crate::floor::next::Next;
use crate::floor::{clock, signals, sys};

/// Why care is needed: bits, and above them two counts. One word, so that no count of one thread is lost beside a
/// change by another.
#[unsafe(link_section = ".data")]
static REASONS: AtomicU64 = AtomicU64::new(0);
/// Threads were cancelled and may not have noticed yet.
const CANCELLATION: u64 = 1;
/// The only thread has blocked the signals of faults, and it was not seen when.
const SEEN_BLOCKED: u64 = 2;
/// One of several threads may have blocked them unseen, or has the mask of the one that made it: nothing tells when that
/// ends.
const FOR_GOOD: u64 = 4;
/// One of the threads of `MASKED`.
const ONE_MASKED: u64 = 1 << 8;
/// One of the threads of `HANDLING`.
const ONE_HANDLING: u64 = 1 << 32;

const THREADS_MAX: usize = 16;

/// A few threads, each in a place that only itself takes and leaves; one of them adds `EACH` to `REASONS`.
struct Threads<const EACH: u64> {
    /// Their thread pointers, 0 where the place is free.
    places: [AtomicU64; THREADS_MAX],
    /// How often each has entered and not left.
    times: [AtomicU32; THREADS_MAX],
}

/// Threads that have blocked the signals of faults and not unblocked them since.
static MASKED: Threads<ONE_MASKED> = Threads::new();
/// Threads that run, or have run, a handler whose mask blocks signals of faults, which their own does not.
static HANDLING: Threads<ONE_HANDLING> = Threads::new();

impl<const EACH: u64> Threads<EACH> {
    const fn new() -> Threads<EACH> {
        Threads {
            places: [const { AtomicU64::new(0) }; THREADS_MAX],
            times: [const { AtomicU32::new(0) }; THREADS_MAX],
        }
    }

    /// The place of this thread.
    fn mine(&self) -> Option<usize> {
        let me = sys::thread_pointer();
        self.places.iter().position(|place| place.load(Relaxed) == me)
    }

    fn enter(&self) {
        let me = sys::thread_pointer();
        let take = |place: &AtomicU64| place.compare_exchange(0, me, Relaxed, Relaxed).is_ok();
        if let Some(index) = self.mine() {
            self.times[index].fetch_add(1, Relaxed);
        } else if let Some(index) = self.places.iter().position(take) {
            self.times[index].store(1, Relaxed);
            REASONS.fetch_add(EACH, Relaxed);
            end_short_way();
        } else {
            begin(FOR_GOOD);
        }
    }

    /// Whether this thread had entered.
    fn leave(&self) -> bool {
        let mine = if self.is_empty() { None } else { self.mine() };
        if let Some(index) = mine
            && self.times[index].fetch_sub(1, Relaxed) == 1
        {
            self.free(index);
        }
        mine.is_some()
    }

    fn free(&self, index: usize) {
        if self.places[index].swap(0, Relaxed) != 0 {
            REASONS.fetch_sub(EACH, Relaxed);
        }
    }

    fn is_empty(&self) -> bool {
        REASONS.load(Relaxed) < EACH
    }
}

/// Whether each call must take the slow path.
#[inline(always)]
pub fn is_needed() -> bool {
    REASONS.load(Relaxed) != 0
}

/// Whether this thread has blocked signals by which a bad address shows.
#[inline(always)]
pub fn faults_are_blocked() -> bool {
    REASONS.load(Relaxed) & !CANCELLATION != 0 && ask_whether_blocked()
}

/// Nobody relies on the only thread's mask any more: a handler has run with another one than it returns to.
#[unsafe(link_section = ".data")]
static MASKS_COME_BACK: AtomicBool = AtomicBool::new(false);

#[cold]
#[inline(never)]
fn ask_whether_blocked() -> bool {
    if blocks(sys::change_signal_mask(libc::SIG_BLOCK, 0)) {
        return true;
    }
    if !HANDLING.leave() && single_threaded() && !MASKS_COME_BACK.load(Relaxed) {
        // Not any more; of several threads another one may have blocked them.
        REASONS.fetch_and(!SEEN_BLOCKED, Relaxed);
        (0..THREADS_MAX).for_each(|index| MASKED.free(index));
    }
    false
}

fn blocks(mask: u64) -> bool {
    mask & signals::fault_set() != 0
}

fn begin(reason: u64) {
    if REASONS.load(Relaxed) & reason == 0 {
        REASONS.fetch_or(reason, Relaxed);
    }
    end_short_way();
}

fn end_short_way() {
    // Another thread that looks at the time meanwhile sees the reason, or this comes after.
    fence(SeqCst);
    clock::end_short_way();
}

/// After a look at the time, which opens the short way.
pub fn end_short_way_if_needed() {
    fence(SeqCst);
    if is_needed() {
        clock::end_short_way();
    }
}

/// A thread has this signal mask already, or will have it.
pub fn blocking(mask: u64) {
    if blocks(mask) {
        begin(if single_threaded() { SEEN_BLOCKED } else { FOR_GOOD });
    }
}

/// A thread is about to begin with this mask.
pub fn thread_begins_with(mask: u64) {
    if blocks(mask) {
        begin(FOR_GOOD);
    }
}

/// Whether the mask with which the program was started is no matter any more.
#[unsafe(link_section = ".data")]
static FIRST_MASK_IS_KNOWN: AtomicBool = AtomicBool::new(false);

/// A thread is about to be made, with the mask of this one.
pub fn making_thread() {
    let is_blocked = match FIRST_MASK_IS_KNOWN.load(Relaxed) {
        true => faults_are_blocked(),
        false => ask_whether_blocked(),
    };
    FIRST_MASK_IS_KNOWN.store(true, Relaxed);
    if is_blocked {
        begin(FOR_GOOD);
    }
}

/// libc is about to make threads in which it blocks signals by itself.
pub fn libc_makes_threads() {
    begin(FOR_GOOD);
}

/// From here on it is seen which handlers begin.
pub fn handlers_are_seen() {
    FIRST_MASK_IS_KNOWN.store(true, Relaxed);
    let mask = sys::change_signal_mask(libc::SIG_BLOCK, 0);
    if !blocks(mask) && is_needed() {
        // Perhaps in a handler already.
        MASKS_COME_BACK.store(true, Relaxed);
    }
    blocking(mask);
}

/// Whether a change of the signal mask by `sigprocmask` with these arguments may be one that counts here,
/// whatever the mask is.
pub fn concerns(how: c_int, set: u64) -> bool {
    let counts = || !MASKED.is_empty();
    match how {
        libc::SIG_UNBLOCK => blocks(set) && counts(),
        libc::SIG_SETMASK => blocks(set) || counts(),
        _ => blocks(set),
    }
}

/// The signal mask of this thread is about to change.
pub fn mask_changing(change: MaskChange) {
    let had_handler = || HANDLING.leave();
    match (blocks(change.now), blocks(change.after)) {
        (false, true) => {
            had_handler();
            MASKED.enter();
        }
        // Else it was a handler's own mask.
        (true, false) if !had_handler() => {
            MASKED.leave();
        }
        _ => {}
    }
}

/// A handler begins with one mask, and returns to another.
pub fn handler_begins(mask: u64, returns_to: u64) {
    match (blocks(mask), blocks(returns_to)) {
        (false, true) => MASKS_COME_BACK.store(true, Relaxed),
        (true, false) if HANDLING.mine().is_none() => HANDLING.enter(),
        // What it unblocks is blocked again when it returns.
        (true, true) => begin(FOR_GOOD),
        _ => {}
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
    begin(CANCELLATION);
}

/// A thread has ended.
pub fn ended(thread: usize) {
    let is_it = |word: &AtomicUsize| word.compare_exchange(thread, 0, Relaxed, Relaxed).is_ok();
    let was = REASONS.load(Relaxed) & CANCELLATION != 0 && CANCELLED.iter().any(is_it);
    let left =
        CANCELLED_TOO_MANY.load(Relaxed) || CANCELLED.iter().any(|word| word.load(Relaxed) != 0);
    if was && !left {
        REASONS.fetch_and(!CANCELLATION, Relaxed);
    }
}

static SELF: Next = Next::new();
static TEST: Next = Next::new();

/// Where a call comes in that is a cancellation point natively, and that nothing has answered yet: ends this
/// thread if that was asked for, and it does not put that off. Nothing may be held.
#[inline(always)]
pub fn cancellation_point() {
    if REASONS.load(Relaxed) & CANCELLATION != 0 {
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

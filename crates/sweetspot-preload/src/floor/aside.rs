//! A look at something that needs a descriptor, without one in the program's table.
//!
//! A descriptor that is there only for a moment can be noticed: it takes the lowest number from an
//! `open` of another thread, is replaced by its `dup2`, and closing it drops the process' record
//! locks on that file. So a thread that lives for the look alone gets a table of its own, with nothing
//! in it, and whatever it opens is gone with it. It shares the memory, so what it maps stays. The kernel
//! makes that table by copying the first entries of the old one, which are then closed: file systems are
//! told of that (`flush` in FUSE), so what can be looked at before there are threads is looked at then. As long
//! as there are copies, what another thread closes stays in use: who closes waits for that ([`await_copies`]).
//!
//! A process that has one thread, no record lock, and its table for itself, cannot notice: it looks by
//! itself. That saves each start of a program two turns of the scheduler. Record locks that it was given by exec are
//! looked for once, at its first look (`given`).
//!
//! The program cannot meet it: it is no child that could be waited for, all signals are blocked in
//! it, and the caller goes on only when it is gone. A look has a stack of its own, so that it needs
//! little of the program's, which may be an alternate one and small. One that the process makes by itself
//! has the stack of the library, if no other look is on it: to map one and to let it go takes longer than all
//! calls of a look.
#![allow(unsafe_code)]

mod given;

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use crate::arch;
use crate::floor::atomic::single_threaded;
use crate::floor::backoff::Backoff;
use crate::floor::signals::{SignalsBlocked, set_of};
use crate::floor::sys;

/// A stack of this size; what is not touched costs nothing.
const STACK_BYTES: usize = 64 << 10;

#[repr(C, align(4096))]
struct Stack(UnsafeCell<MaybeUninit<[u8; STACK_BYTES]>>);

// SAFETY: only the look that has set `TAKEN` is on it.
unsafe impl Sync for Stack {}

static STACK: Stack = Stack(UnsafeCell::new(MaybeUninit::uninit()));
/// A look is on the stack. It can meet another one only in a process that shares this memory. A child of a
/// vfork that is killed there leaves the stack taken; then others map theirs.
#[unsafe(link_section = ".data")]
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The caller asks again this often, should nothing wake it.
const WAIT_MS: u64 = 10;

/// Turns of waiting for the end of the thread, which has begun.
const TURNS_MAX: u32 = 1000;

/// The process in which the program has begun; 0: it has not.
#[unsafe(link_section = ".data")]
static BEGUN: AtomicI32 = AtomicI32::new(0);

/// The constructor is done: from now on the program runs.
pub fn program_begins() {
    BEGUN.store(sys::process_id(), Ordering::Relaxed);
}

/// Whether a descriptor could be noticed in a process of one thread, too.
#[unsafe(link_section = ".data")]
static NOTICEABLE: AtomicBool = AtomicBool::new(false);

/// From now on a descriptor that is there for a moment could be noticed: this process may have record
/// locks, or share its table with another one.
pub fn descriptors_are_noticed() {
    NOTICEABLE.store(true, Ordering::Relaxed);
}

/// Whether it is known that exec has given this process no record lock.
#[unsafe(link_section = ".data")]
static GIVEN_NONE: AtomicBool = AtomicBool::new(false);

/// Whether a descriptor that is there for a moment could be noticed in this process of one thread.
fn is_noticeable() -> bool {
    if NOTICEABLE.load(Ordering::Relaxed) {
        return true;
    }
    // Exec gives locks to one process. Its children have tables of their own, also those that use its memory.
    let is_child = || sys::process_id() != BEGUN.load(Ordering::Relaxed);
    if GIVEN_NONE.load(Ordering::Relaxed) || is_child() {
        return false;
    }
    let mut job = Job { look: given::has_record_lock, keep: -1, copies: false, answer: None };
    on_stack(&mut job);
    match job.answer {
        Some(false) => GIVEN_NONE.store(true, Ordering::Relaxed),
        Some(true) => NOTICEABLE.store(true, Ordering::Relaxed),
        None => {}
    }
    job.answer != Some(false)
}

/// Whether it could be noticed that a thread with a table of its own closes what is in it.
#[unsafe(link_section = ".data")]
static CLOSING_NOTICEABLE: AtomicBool = AtomicBool::new(false);

/// The program has asked a queue to tell it of messages. The kernel forgets that as soon as any thread of
/// it closes a descriptor of the queue, in whatever table: from now on no thread looks.
pub fn closing_is_noticed() {
    CLOSING_NOTICEABLE.store(true, Ordering::Relaxed);
}

/// Looks whose threads may have copies of the program's descriptors.
#[unsafe(link_section = ".data")]
static COPIES: AtomicU32 = AtomicU32::new(0);

/// After a close: goes on when no look has a copy of what was closed.
#[inline(always)]
pub fn await_copies() {
    if COPIES.load(Ordering::SeqCst) != 0 {
        await_end_of_copies();
    }
}

#[cold]
#[inline(never)]
fn await_end_of_copies() {
    let mut backoff = Backoff::default();
    for _ in 0..TURNS_MAX {
        if COPIES.load(Ordering::SeqCst) == 0 {
            return;
        }
        backoff.wait();
    }
    // A process that was forked out of sight has the count and no look; and a close that tells a file system may take
    // long.
    forget_copies();
}

/// In the child of a fork: no look is its own.
pub fn forget_copies() {
    COPIES.store(0, Ordering::SeqCst);
}

fn copies_ended() {
    let one_less = |count: u32| count.checked_sub(1);
    let _ = COPIES.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
}

/// A look, and what came of it.
struct Job<F, T> {
    look: F,
    /// A descriptor of the program's that it needs, or -1.
    keep: i32,
    /// It counts in `COPIES`.
    copies: bool,
    answer: Option<T>,
}

/// Makes a look, for which `keep` is the only descriptor of the program's that need be there (-1: none).
/// `None`: it saw nothing, or there could be no thread for it.
///
/// The look may make system calls, and touch memory that is known to be there: a fault would end the
/// program. It closes what it opens. Where it sees nothing it may be made a second time: the program's
/// table may be full.
pub fn look<T>(keep: i32, look: impl FnMut() -> Option<T>) -> Option<T> {
    look_with(|| keep, look)
}

/// The same where it takes calls to find out which descriptor that is: only a thread needs to know.
#[inline(never)]
pub fn look_with<T>(keep: impl FnOnce() -> i32, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let _signals = SignalsBlocked::new();
    if BEGUN.load(Ordering::Relaxed) == 0 {
        // Nothing of the program runs that could notice anything.
        return look();
    }
    let mut job = Job { look, keep: -1, copies: false, answer: None };
    if single_threaded() && !is_noticeable() {
        on_stack(&mut job);
    }
    if job.answer.is_none() && !CLOSING_NOTICEABLE.load(Ordering::Relaxed) {
        job.keep = keep();
        in_thread(&mut job);
    }
    job.answer
}

/// This thread makes the look.
fn on_stack<F: FnMut() -> Option<T>, T>(job: &mut Job<F, T>) {
    let (function, at) = (make_for(job), (&raw mut *job) as usize);
    if !TAKEN.swap(true, Ordering::Acquire) {
        // SAFETY: nobody else is on it, and the job lives meanwhile.
        unsafe { arch::call_on(STACK.0.get() as usize + STACK_BYTES, function, at) };
        TAKEN.store(false, Ordering::Release);
    } else if let Some(stack) = sys::map_memory(STACK_BYTES) {
        // SAFETY: fresh memory, and a job that lives meanwhile; then nobody is on it any more.
        unsafe {
            arch::call_on(stack as usize + STACK_BYTES, function, at);
            sys::syscall!(SYS_munmap, stack, STACK_BYTES);
        }
    }
}

/// A thread with a table of its own makes the look.
fn in_thread<F: FnMut() -> Option<T>, T>(job: &mut Job<F, T>) {
    let Some(stack) = sys::map_memory(STACK_BYTES) else { return };
    let (function, at) = (begin_for(job), (&raw mut *job) as usize);
    let running = AtomicU32::new(1);
    // Whatever is sent to the process is for a thread of the program's. Where that steps through its own instructions,
    // so does this one, and a blocked signal would end it.
    let before = sys::change_signal_mask(libc::SIG_BLOCK, !set_of(libc::SIGTRAP));
    job.copies = true;
    COPIES.fetch_add(1, Ordering::SeqCst);
    // SAFETY: fresh memory; the job lives until the thread is gone.
    let answer =
        unsafe { arch::run_thread(FLAGS, stack as usize + STACK_BYTES, function, at, &running) };
    sys::set_signal_mask(before);
    if let Ok(thread) = sys::result(answer) {
        while running.load(Ordering::Acquire) != 0 {
            sys::futex_wait(&running, 1, WAIT_MS);
        }
        wait_for_end(thread);
    }
    // SAFETY: the thread, which may have written there, is gone.
    if unsafe { (&raw const job.copies).read_volatile() } {
        copies_ended();
    }
    // SAFETY: nobody is on it any more, or ever was.
    unsafe { sys::syscall!(SYS_munmap, stack, STACK_BYTES) };
}

/// The kernel clears a word when the thread has let go of the memory, and the caller waits for that.
/// (`CLONE_VFORK` would wait too, but a process that is stopped meanwhile would never be seen to stop.)
const FLAGS: usize = (libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_CHILD_CLEARTID) as usize;

fn begin_for<F: FnMut() -> Option<T>, T>(_: &Job<F, T>) -> extern "C" fn(usize) {
    begin::<F, T>
}

extern "C" fn begin<F: FnMut() -> Option<T>, T>(job: usize) {
    // SAFETY: the caller's job; it sleeps meanwhile.
    let (keep, copies) = unsafe {
        let job = job as *mut Job<F, T>;
        ((*job).keep, &mut (*job).copies)
    };
    let table = own_table(keep);
    if table == Some(Table::Empty) {
        *copies = false;
        copies_ended();
    }
    if table.is_some() {
        make::<F, T>(job);
    }
}

fn make_for<F: FnMut() -> Option<T>, T>(_: &Job<F, T>) -> extern "C" fn(usize) {
    make::<F, T>
}

extern "C" fn make<F: FnMut() -> Option<T>, T>(job: usize) {
    // SAFETY: the caller's job, which nobody else uses meanwhile.
    let job = unsafe { &mut *(job as *mut Job<F, T>) };
    job.answer = (job.look)();
}

/// What a thread with a table of its own has in it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    /// No more than what it is to keep.
    Empty,
    /// Copies of all.
    Full,
}

/// Gives this thread a table of its own, with no more in it than `keep` if that can be had; `None`: it has none.
fn own_table(keep: i32) -> Option<Table> {
    let first = (keep as u32).wrapping_add(1);
    // SAFETY: no memory is handed over; as this thread shares the table, a new one is made.
    unsafe {
        if sys::syscall!(SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_UNSHARE) == 0 {
            if first > 1 {
                sys::syscall!(SYS_close_range, 0, first - 2, 0);
            }
            return Some(Table::Empty);
        }
        (sys::syscall!(SYS_unshare, libc::CLONE_FILES) == 0).then_some(Table::Full)
    }
}

/// Waits until the thread is none of this process any more: some calls are refused to a process
/// that has two.
fn wait_for_end(thread: usize) {
    let process = sys::process_id() as usize;
    let mut backoff = Backoff::default();
    for _ in 0..TURNS_MAX {
        // SAFETY: signal 0 is only a question.
        if unsafe { sys::syscall!(SYS_tgkill, process, thread, 0) } != 0 {
            return;
        }
        backoff.wait();
    }
}

//! Whether there is a guard, for this process: its slot in the ledger, and the guard's word.
#![allow(unsafe_code)]

use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use sweetspot_core::ledger::{
    Entry, FLAG_TRACER, Ledger, SLOTS_MAX, UNSEEN_FOR_GOOD, UNSEEN_SLOTS,
};
use sweetspot_core::pending::{self, Owner, owner_of};

use crate::arch::OwnPage;
use crate::engine::ledger;
use crate::engine::patience::{self, Patience};
use crate::engine::process::{begin_concurrency, passive_reasons, under_seccomp};
use crate::floor::atomic::set_has_threads;
use crate::floor::signals::SignalsBlocked;
use crate::floor::{aside, careful, proc, sys};

/// The kernel's marks on a robust futex: its owner died; somebody waits for it.
pub(super) const OWNER_DIED: u32 = 0x4000_0000;

const WAITERS: u32 = 0x8000_0000;

/// The guard's word, or a zero of our own: no guard.
#[unsafe(link_section = ".data")]
static GUARD: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NO_GUARD).cast_mut());

#[unsafe(link_section = ".data")]
static NO_GUARD: AtomicU32 = AtomicU32::new(0);

/// The slot of this process in the ledger; 0: none yet.
#[unsafe(link_section = ".data")]
static SLOT: AtomicU32 = AtomicU32::new(0);

/// What a process knows of itself. All zero in every child, also in one that was forked behind our back.
struct Own {
    /// 1: this memory is ours.
    claimed: AtomicU32,
    /// When this process started; 0: not looked at.
    start_ticks: AtomicU64,
    /// 1: the program has said who may trace it.
    has_tracer: AtomicU32,
}

static OWN: OwnPage<Own> = OwnPage(Own {
    claimed: AtomicU32::new(0),
    start_ticks: AtomicU64::new(0),
    has_tracer: AtomicU32::new(0),
});

/// Whether there is a guard that lives, and this process is the one that claimed its slot. Two
/// loads and a comparison: asked before each write that is to wait.
#[inline(always)]
pub fn guarded() -> bool {
    // SAFETY: the word is a static or in the ledger, which stays mapped.
    let guard = unsafe { (*GUARD.load(Relaxed)).load(Relaxed) };
    is_alive(guard) && OWN.0.claimed.load(Relaxed) != 0
}

/// Whether this word says that the guard lives: it is the number of a thread, below all marks.
#[inline(always)]
fn is_alive(guard: u32) -> bool {
    (guard & !WAITERS).wrapping_sub(1) < OWNER_DIED - 1
}

/// How long a guard that is stopped may have what it took of a file, in milliseconds, twice. (One that runs on and on is
/// waited for as `Patience` has it, twice.) It has at most what fits into the buffers of a process: else only file systems keep it that long, and then it sleeps.
const TAKEN_MS_MAX: u64 = 500;

/// How long is waited between two looks at whether it still lives.
const TAKEN_LOOK_MS: u64 = 50;

/// Waits until the guard has given back what it took of an entry. Afterwards either it has, or it is
/// dead, and writes no more. One that was stopped in the middle is killed: nobody else could go on. One that sleeps is
/// not, whatever file this is: it waits for a disk or a server, as this process would, and gives back what it took of
/// several files together.
pub fn wait_until_given_back(entry: &Entry) {
    let Some(ledger) = ledger::ledger() else { return };
    let (mut patience, mut suspect) = (Patience::new(TAKEN_MS_MAX), None);
    let guard = guard_thread(ledger);
    let writer = || if ledger::knows_processes() { entry.taker.load(SeqCst) } else { 0 };
    let is_taken = || owner_of(entry.word.load(Acquire)) == Owner::Guard;
    while is_taken() && guarded() {
        let seen = entry.given_back.load(Acquire);
        if is_taken() {
            sys::futex_wait(&entry.given_back, seen, TAKEN_LOOK_MS);
        }
        // The thread that writes, not the one that answers: a slow server is no stop.
        let writer = writer();
        if patience.lasts(writer) {
            continue;
        }
        // A thread that has ended has handed over to another one, which comes to it.
        let is_over = matches!(patience::state_of(writer), None | Some(b'Z' | b'X'));
        let is_idle = !patience::sleeps(if is_over { guard } else { writer });
        if is_idle && suspect == Some(writer) {
            kill_guard(ledger);
        }
        suspect = is_idle.then_some(writer);
        patience = Patience::new(TAKEN_MS_MAX);
    }
    // In the middle of a write a thread ends with that write, which may take as long as one of this process' own.
    while is_taken() && may_still_write(guard, writer()) {
        sys::futex_wait(&entry.given_back, entry.given_back.load(Acquire), 1);
    }
}

/// Whether that thread of a guard that was killed is still there. `guard`: its number, 0 if it was dead before: then its
/// thread is known by what nobody else waits in for long.
fn may_still_write(guard: u32, writer: u32) -> bool {
    match guard {
        0 => patience::state_of(writer) == Some(b'D'),
        _ => writer != 0 && proc::leader_of(writer as i32) == Some(guard as i32),
    }
}

/// The bits of the guard's word that are its number.
const THREAD: u32 = 0x3fff_ffff;

/// The number of the guard, while it lives; 0: it would mean another process here.
pub fn guard_thread(ledger: &Ledger) -> u32 {
    if ledger::knows_processes() { ledger.header.guard.load(SeqCst) & THREAD } else { 0 }
}

/// Kills the guard by its number, which is its own as long as its word says that it lives. It means the same here:
/// else this process had no slot.
fn kill_guard(ledger: &Ledger) {
    let guard = ledger.header.guard.load(SeqCst) & THREAD;
    if guard != 0 && is_guard_alive(ledger) {
        // SAFETY: no memory is handed over.
        unsafe { sys::syscall!(SYS_kill, guard as isize, libc::SIGKILL) };
    }
}

/// Whether this memory was claimed by this very process (or by nobody).
pub fn is_fork_unseen() -> bool {
    SLOT.load(Relaxed) != 0 && OWN.0.claimed.load(Relaxed) == 0
}

/// Whether this process has (or had) anything in the ledger.
pub fn has_slot() -> bool {
    slot() != 0
}

/// The slot of this process; 0: none.
pub fn slot() -> u32 {
    SLOT.load(Relaxed)
}

/// Whether the guard of a ledger lives, whether this process has anything to do with it or not.
pub fn is_guard_alive(ledger: &Ledger) -> bool {
    let guard = ledger.header.guard.load(SeqCst);
    guard != 0 && guard & OWNER_DIED == 0
}

/// Makes the guard look at what it is asked.
pub fn wake_guard(ledger: &Ledger) {
    ledger.header.asks.fetch_add(1, SeqCst);
    if ledger.header.guard_naps.load(SeqCst) == 1 {
        sys::futex_wake(&ledger.header.asks);
    }
}

/// This process among openers of files; 0: a new one, when it is asked for next.
#[unsafe(link_section = ".data")]
static OPENER: AtomicU32 = AtomicU32::new(0);

/// As whom this process opens files.
pub fn opener(ledger: &Ledger) -> u32 {
    let opener = OPENER.load(Relaxed);
    if opener != 0 {
        return opener;
    }
    let new = ledger.openers.begin();
    OPENER.compare_exchange(0, new, Relaxed, Relaxed).err().unwrap_or(new)
}

/// What is open from here on is another matter than what was: a child may have that.
pub fn end_opener() {
    OPENER.store(0, Relaxed);
}

/// When this process started. `None` also where a child that is forked behind our back would take the answer for
/// its own.
fn start_ticks() -> Option<u64> {
    let known = OWN.0.start_ticks.load(Relaxed);
    if known != 0 {
        return Some(known);
    }
    let ticks = proc::start_ticks()?;
    let bytes = size_of_val(&OWN);
    // SAFETY: the pages are ours, whole, and anonymous memory.
    let answer =
        unsafe { sys::syscall!(SYS_madvise, &raw const OWN, bytes, libc::MADV_WIPEONFORK) };
    if answer != 0 {
        return None;
    }
    OWN.0.start_ticks.store(ticks, Relaxed);
    Some(ticks)
}

/// Whether this process has looked ahead.
#[unsafe(link_section = ".data")]
static LOOKED: AtomicBool = AtomicBool::new(false);

/// Looks at what needs a descriptor, as long as nobody can notice one; once.
pub fn look_ahead() {
    if !LOOKED.load(Relaxed) && !LOOKED.swap(true, Relaxed) {
        look_now();
    }
}

#[cold]
fn look_now() {
    if !ledger::is_given() || passive_reasons() != 0 || under_seccomp() {
        return;
    }
    let _signals = SignalsBlocked::new();
    if ledger::ledger().is_some() {
        start_ticks();
    }
}

/// Before the program makes a thread, itself or by libc.
pub fn before_threads() {
    look_ahead();
    set_has_threads(true);
    begin_concurrency();
    careful::making_thread();
}

/// Before a descriptor that is there for a moment could be noticed.
pub fn before_descriptors_are_noticed() {
    look_ahead();
    aside::descriptors_are_noticed();
}

/// The program says who may trace it. There is one for each process, and the last word counts.
pub fn tracer_is_chosen() {
    OWN.0.has_tracer.store(1, Relaxed);
}

/// Lets the guard copy descriptors of this process, where that needs to be said.
fn name_tracer(ledger: &Ledger) {
    let guard = guard_thread(ledger);
    let is_needed = ledger.header.flags.load(Relaxed) & FLAG_TRACER != 0;
    if is_needed && guard != 0 && OWN.0.has_tracer.load(Relaxed) == 0 {
        // SAFETY: no memory is handed over.
        unsafe { sys::syscall!(SYS_prctl, libc::PR_SET_PTRACER, guard as usize, 0, 0, 0) };
    }
}

/// Makes this process known in the ledger, once.
pub(super) fn claim_slot(ledger: &'static Ledger) -> bool {
    if SLOT.load(Relaxed) != 0 {
        return true;
    }
    let Some(namespace) = proc::pid_namespace() else { return false };
    if ledger.header.pid_namespace.load(Relaxed) != namespace {
        return false;
    }
    let Some(start_ticks) = start_ticks() else { return false };
    let process = sys::process_id() as u32;
    for index in 1..SLOTS_MAX {
        let slot = &ledger.slots[index];
        if slot.pid.load(Relaxed) == 0
            && slot.pid.compare_exchange(0, process, SeqCst, Relaxed).is_ok()
        {
            slot.is_late.store(0, Relaxed);
            slot.start_ticks.store(start_ticks, Relaxed);
            slot.pid_namespace.store(namespace, Relaxed);
            slot.ready.store(1, Release);
            OWN.0.claimed.store(1, Relaxed);
            GUARD.store((&raw const ledger.header.guard).cast_mut(), Relaxed);
            SLOT.store(index as u32, Relaxed);
            name_tracer(ledger);
            return true;
        }
    }
    ledger.header.asks.fetch_add(1, SeqCst);
    sys::futex_wake(&ledger.header.asks);
    false
}

/// One file more of which something waits (`more`), or one less.
pub fn count_waiting(more: bool) {
    let slot = SLOT.load(Relaxed) as usize;
    let Some(ledger) = ledger::ledger().filter(|_| slot != 0) else { return };
    pending::count_waiting(&ledger.header.waiting, &ledger.slots[slot].waiting, more);
}

/// Whether the guard has found that this process makes calls that are not seen.
pub fn is_unseen() -> bool {
    let slot = ledger::ledger().and_then(|ledger| ledger.slots.get(slot() as usize));
    slot.is_some_and(|slot| slot.unseen.load(SeqCst) != 0)
}

/// Says of this process that it opens files out of sight. It has a slot for that until its end, or until it becomes
/// another program.
pub fn say_unseen(ledger: &'static Ledger) {
    if SLOT.load(Relaxed) != 0 && OWN.0.claimed.load(Relaxed) == 0 {
        // It is that of the process which forked this one.
        forget_slot();
    }
    let is_known = claim_slot(ledger);
    if is_known {
        // Before anyone looks at the slots for it.
        ledger.slots[SLOT.load(Relaxed) as usize].unseen.store(1, SeqCst);
    }
    let says = if is_known { UNSEEN_SLOTS } else { UNSEEN_FOR_GOOD };
    ledger.header.unseen.fetch_max(says, SeqCst);
}

/// This process becomes another program, about which that says nothing. The child of a vfork leaves what its parent has
/// said.
pub fn unsay_unseen(ledger: &Ledger) {
    let slot = &ledger.slots[SLOT.load(Relaxed) as usize];
    let is_own = || slot.pid.load(SeqCst) == sys::process_id() as u32;
    if SLOT.load(Relaxed) != 0 && is_own() && slot.unseen.swap(0, SeqCst) != 0 {
        give_slot_up();
        slot.ready.store(0, SeqCst);
        slot.pid.store(0, SeqCst);
    }
}

/// Gives the slot up, if it is this process' own: its index; 0: there is none.
pub(super) fn give_slot_up() -> usize {
    let index = SLOT.swap(0, Relaxed) as usize;
    if OWN.0.claimed.load(Relaxed) == 0 { 0 } else { index }
}

/// In the child of a fork: the slot is its parent's.
pub(super) fn forget_slot() {
    SLOT.store(0, Relaxed);
    LOOKED.store(false, Relaxed);
    end_opener();
}

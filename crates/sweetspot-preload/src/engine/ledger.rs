//! This process' side of the ledger, which is mapped (`shared`) when it is first needed: what it says of
//! the process as a whole, and what is said there.
//!
//! Without one (a bare preload, a folder that is not reachable) everything still works: the size
//! comes from the environment and counters stay here.
//!
//! Not here: its rules (`rules`), its records of files (`records`), its entries (`entries`).

use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use sweetspot_core::ledger::{
    Devices, FLAG_EXACT, FLAG_OBSERVE, FLAG_PLACES, FLAG_PROBE, FLAG_SUMMARY, FLAG_TRACE, Header,
    Ledger,
};
use sweetspot_core::observe::{OBSERVATIONS_AT, Observations};
use sweetspot_core::trace::{TRACE_AT, Trace};
use sweetspot_core::why::Why;

use super::concerns::{self, COMPANY, SUMMARY};
use super::{file, process};
use crate::floor::atomic::single_threaded;
use crate::floor::clock;
use crate::floor::proc;
use crate::floor::shared;
pub use crate::floor::shared::is_given;
#[unsafe(link_section = ".data")]
static MAPPED: AtomicPtr<Ledger> = AtomicPtr::new(core::ptr::null_mut());
/// Whether mapping was tried: one of `UNTRIED` to `LET_GO`.
#[unsafe(link_section = ".data")]
static TRIED: AtomicU32 = AtomicU32::new(UNTRIED);
const UNTRIED: u32 = 0;
const HAS_TRIED: u32 = 1;
/// It is not to be mapped any more.
const LET_GO: u32 = 2;

/// The ledger, mapped on first use.
pub fn ledger() -> Option<&'static Ledger> {
    if MAPPED.load(Relaxed).is_null() && TRIED.load(Relaxed) == UNTRIED {
        map_first();
    }
    mapped()
}

/// Who comes while another thread does so, or a handler while its own does, cannot wait for that, and must not go on
/// without the ledger: both map it, and the first one that has it keeps it for both.
#[cold]
#[unsafe(link_section = ".text.startup")]
fn map_first() {
    let Some(ledger) = shared::map() else {
        let _ = TRIED.compare_exchange(UNTRIED, HAS_TRIED, SeqCst, Relaxed);
        return;
    };
    if MAPPED.compare_exchange(core::ptr::null_mut(), ledger, SeqCst, Relaxed).is_err() {
        shared::is_mapped_twice(ledger);
        return;
    }
    shared::keep(ledger);
    let header = mapped().map(|ledger| &ledger.header);
    clock::watch(header);
    if header.is_some_and(|header| header.flags.load(Relaxed) & FLAG_SUMMARY != 0) {
        concerns::set(SUMMARY);
    }
    if TRIED.compare_exchange(UNTRIED, HAS_TRIED, SeqCst, SeqCst) == Err(LET_GO) {
        // Since it was looked for.
        let_go();
    }
}

/// 1: this process lives in the pid namespace of the process that made the ledger; 2: in another one.
#[unsafe(link_section = ".data")]
static NAMESPACE: AtomicU32 = AtomicU32::new(0);

/// Whether the ledger's numbers of processes mean the same here: not in another pid namespace.
pub fn knows_processes() -> bool {
    if NAMESPACE.load(Relaxed) == 0 {
        let Some(ledger) = ledger() else { return false };
        let is_ours = proc::pid_namespace() == Some(ledger.header.pid_namespace.load(Relaxed));
        NAMESPACE.store(if is_ours { 1 } else { 2 }, Relaxed);
    }
    NAMESPACE.load(Relaxed) == 1
}

/// The ledger, if it is mapped.
fn mapped() -> Option<&'static Ledger> {
    // SAFETY: a mapped ledger stays mapped, and all of it is atomics.
    unsafe { MAPPED.load(Relaxed).as_ref() }
}

/// Whether anything waits, as far as is known without mapping it: it may be so, too, as long as nobody has looked, as
/// in a child that has opened nothing itself.
#[inline(always)]
pub fn may_be_waiting() -> bool {
    match mapped() {
        Some(ledger) => ledger.header.waiting.load(Relaxed) != 0,
        None => TRIED.load(Relaxed) == UNTRIED && is_given(),
    }
}

/// The same before a file is read. A process that is made, or has become another program, finds everything written
/// that others had waiting by then.
#[cold]
pub fn may_wait_for_reader() -> bool {
    match mapped() {
        Some(ledger) => ledger.header.waiting.load(Relaxed) != 0,
        None => may_be_waiting() && !process::under_seccomp() && !is_young(),
    }
}

/// How many files this process was told of while it had not mapped the ledger.
#[unsafe(link_section = ".data")]
static TOLD: AtomicU32 = AtomicU32::new(0);

/// The same before this process is told of a file. One that has not mapped the ledger, and may be young for all that is
/// known, asks for the time at the first such calls and then at few of them: a walk through a tree makes thousands in
/// some milliseconds. Threads ask each time: to count together takes them longer.
#[inline(always)]
pub fn may_wait_for_told() -> bool {
    const ASKING: u32 = 16;
    match mapped() {
        Some(ledger) => ledger.header.waiting.load(Relaxed) != 0,
        None if !single_threaded() => may_wait_for_reader(),
        None => {
            let told = TOLD.load(Relaxed);
            TOLD.store(told.wrapping_add(1), Relaxed);
            told < ASKING || told.is_multiple_of(ASKING)
        }
    }
}

/// When this process began, in milliseconds of the coarse monotonic clock. Of a program that was started it is when it
/// first opened a file: a start has no time to ask.
#[unsafe(link_section = ".data")]
static BEGAN_MS: AtomicU64 = AtomicU64::new(0);

/// When this process last began to fork, which is when its child begins. To ask costs the child page faults.
#[unsafe(link_section = ".data")]
static FORKED_MS: AtomicU64 = AtomicU64::new(0);

/// Before a fork.
pub fn fork_begins() {
    if !process::under_seccomp() {
        FORKED_MS.store(clock::now_ms(), Relaxed);
    }
}

/// A forked child begins.
pub fn begins() {
    BEGAN_MS.store(FORKED_MS.load(Relaxed), Relaxed);
}

/// Whether it has just begun. To map the ledger takes a process that lives for a millisecond a good part of that.
fn is_young() -> bool {
    const YOUNG_MS_MAX: u64 = 10;
    let now = clock::now_ms();
    match BEGAN_MS.load(Relaxed) {
        0 => {
            BEGAN_MS.store(now, Relaxed);
            true
        }
        began => now.wrapping_sub(began) <= YOUNG_MS_MAX,
    }
}

/// Whether anything may wait of others that this process has to do with: as far as is known; and where a fork has
/// unmapped it, somebody should look.
#[inline(always)]
pub fn may_wait() -> bool {
    match mapped() {
        Some(ledger) => ledger.header.waiting.load(Relaxed) != 0,
        None => concerns::of(COMPANY) != 0,
    }
}

/// The most memory that this process may use, whatever sizes are in force, in bytes.
pub fn memory_bytes_max() -> u64 {
    mapped().map_or(u64::MAX, |ledger| ledger.header.budget_bytes.load(Relaxed))
}

/// How many seccomp filters `run` was under that allow all that is done here; `None`: the ledger is not mapped.
pub fn allowed_filters() -> Option<u64> {
    mapped().map(|ledger| ledger.header.seccomp_filters.load(Relaxed).into())
}

/// What is known of file systems.
pub fn devices() -> Option<&'static Devices> {
    mapped().map(|ledger| &ledger.header.devices)
}

/// Bytes that write buffers may still take, as far as the guard has said.
pub fn write_buffer_bytes_left() -> u64 {
    mapped().map_or(0, |ledger| ledger.header.write_buffer_bytes_left.load(Relaxed))
}

/// Lets go of the shared memory for good: the process is about to give up rights, and anyone who may
/// then control it must not reach what others have pending. Private zeros take its place, because
/// counters and entries are still pointed to. What could not be written keeps its write buffer.
pub fn let_go() {
    concerns::end_company();
    // Nor is it mapped later, by who has not needed it so far.
    TRIED.store(LET_GO, SeqCst);
    let mapped = unmapped();
    if mapped.is_null() {
        return;
    }
    shared::disconnect(mapped as u64, size_of::<Ledger>() as u64);
}

/// Forgets where the ledger is mapped, which it returns.
fn unmapped() -> *mut Ledger {
    concerns::clear(SUMMARY);
    shared::forget();
    MAPPED.swap(core::ptr::null_mut(), Relaxed)
}

/// In the child of a fork: what is mapped is the parent's, and so is what is counted there. If this
/// process needs a ledger it maps it anew.
pub fn leave_to_parent() {
    let mapped = unmapped();
    if mapped.is_null() {
        return;
    }
    TRIED.store(UNTRIED, Relaxed);
    NAMESPACE.store(0, Relaxed);
    clock::watch(None);
    for file in file::used() {
        file.record.store((&raw const file.counters.0).cast_mut(), Relaxed);
        file.file_record.store(core::ptr::null_mut(), Relaxed);
    }
    shared::disconnect(mapped as u64, size_of::<Ledger>() as u64);
}

/// The reasons that [`note`] was given in this process, as bits: the ledger has those of all.
#[unsafe(link_section = ".data")]
static NOTED: AtomicU64 = AtomicU64::new(0);

/// A reason for which this whole process is not buffered.
pub fn noted() -> Option<Why> {
    Why::first(NOTED.load(Relaxed))
}

/// Notes a reason for which this whole process is not buffered, for the summary.
pub fn note(why: Why) {
    NOTED.fetch_or(why.bit(), Relaxed);
    if process::under_seccomp() && MAPPED.load(Relaxed).is_null() {
        // It may not be allowed to map it.
        return;
    }
    if let Some(ledger) = ledger() {
        ledger.header.why.fetch_or(why.bit(), Relaxed);
    }
}

/// Says that the library was loaded, for the summary or for `profile`; whether it is to observe.
pub fn announce() -> bool {
    ledger().is_some_and(|ledger| {
        ledger.header.processes.fetch_add(1, Relaxed);
        ledger.header.flags.load(Relaxed) & FLAG_OBSERVE != 0
    })
}

/// The header in which an answer is to be stored, where this process is only asked what would be
/// buffered.
pub fn probed() -> Option<&'static Header> {
    let header = &mapped()?.header;
    (header.flags.load(Relaxed) & FLAG_PROBE != 0).then_some(header)
}

/// Whether places are to be noted, too.
pub fn wants_places() -> bool {
    mapped().is_some_and(|ledger| ledger.header.flags.load(Relaxed) & FLAG_PLACES != 0)
}

/// Whether every call is to be followed.
pub fn is_exact() -> bool {
    mapped().is_some_and(|ledger| ledger.header.flags.load(Relaxed) & FLAG_EXACT != 0)
}

/// Maps the counters of `profile`.
pub fn observations() -> Option<&'static Observations> {
    let address = shared::map_part(OBSERVATIONS_AT, size_of::<Observations>())?;
    // SAFETY: mapped just now and for good, of that size; every bit pattern is valid.
    Some(unsafe { &*(address as *const Observations) })
}

/// Maps the log of `profile --record`, if there is to be one.
pub fn trace() -> Option<&'static Trace> {
    if mapped()?.header.flags.load(Relaxed) & FLAG_TRACE == 0 {
        return None;
    }
    let address = shared::map_part(TRACE_AT, size_of::<Trace>())?;
    // SAFETY: as above.
    Some(unsafe { &*(address as *const Trace) })
}

/// Whether a summary is wanted.
#[inline(always)]
pub fn wants_summary() -> bool {
    concerns::of(SUMMARY) != 0
}

//! `profile`: every call passes through as if we were not there, and is counted.
//!
//! A second engine behind the same front doors: `front::dispatch` asks whether the process is observed, and
//! comes here instead. The first is passive then from the start, so that nothing of it takes part; only some
//! of what it knows is used here: the ledger, its rules, whether the process may be asked, and which file systems
//! make their files up. The path that a buffered call takes has not one instruction more for it.
//!
//! A descriptor has a [`Seen`]: its record in shared memory, and what is remembered from call to
//! call (the position, the pattern, and what buffering would have done: `core::shadow`). Counters
//! are added to without a lock while the process has one thread and a record of its own.
//!
//! Here: processes, and what concerns all their files. `state` is what is known of a descriptor, `files` which
//! record its calls are counted in, `beside` what others have of the same file, `watch` one call, `ways` the
//! short way of those that come by the million, `log` what a recording keeps, `places` where in the program
//! calls are made.
//!
//! Invariant: nothing here changes what a call does. No descriptor is kept, and errno stays.
#![allow(unsafe_code)]

mod beside;
mod files;
mod log;
mod places;
mod state;
mod watch;
pub mod ways;

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

pub use sweetspot_core::observe::Kind;
use sweetspot_core::observe::{Observations, PROCESSES_MAX, Process, Tally};
use sweetspot_core::shadow::{Use, World, Would};
use sweetspot_core::trace::{Told, Trace};
use sweetspot_core::why::Why;

use files::{BESIDE, FILES, know};
pub use files::{moved, opened_at};
use state::{CLOSE_ON_EXEC, Counts, FOLDED, SEEN, Seen, State};
pub use sweetspot_core::learning::LEN_UNKNOWN;
pub use watch::{Watch, call, libc_call};

use crate::engine::thresholds;
use crate::engine::{inodes, ledger, process, rules};
use crate::floor::{atomic, environment, proc, sys};

/// Descriptors that are told apart; calls on higher ones are only in the kernel's own counters.
const DESCRIPTORS_MAX: usize = 4096;

/// The shared counters; null: this process is not observed.
#[unsafe(link_section = ".data")]
static OBSERVATIONS: AtomicPtr<Observations> = AtomicPtr::new(core::ptr::null_mut());
/// This process in them.
#[unsafe(link_section = ".data")]
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(core::ptr::null_mut());
/// Who owns its records: 1 more than its index, or 0 where records are shared.
#[unsafe(link_section = ".data")]
static OWNER: AtomicU32 = AtomicU32::new(0);
/// Its process id, by which the child of a vfork is known: that has our memory.
#[unsafe(link_section = ".data")]
static PID: AtomicU32 = AtomicU32::new(0);
/// 1 once there was a vfork or spawn.
#[unsafe(link_section = ".data")]
static SPAWNED: AtomicU32 = AtomicU32::new(0);
/// Calls until one is timed, and the state of the generator that says how many.
#[unsafe(link_section = ".data")]
static TICKS: AtomicU32 = AtomicU32::new(1);
#[unsafe(link_section = ".data")]
static RANDOM: AtomicU64 = AtomicU64::new(0);
/// `World`, for all files.
#[unsafe(link_section = ".data")]
static ACQUIRES: AtomicU64 = AtomicU64::new(0);
#[unsafe(link_section = ".data")]
static RELEASES: AtomicU64 = AtomicU64::new(0);
/// The bit of the reason for which nothing of this process would be buffered any more; 0: none.
#[unsafe(link_section = ".data")]
static GIVEN_UP: AtomicU64 = AtomicU64::new(0);
/// One more than the highest descriptor that was seen.
#[unsafe(link_section = ".data")]
static HIGHEST: AtomicU32 = AtomicU32::new(0);

/// Begins to observe, if the ledger says so. Called by the constructor, which knows how to see the calls of
/// libc's streams.
pub fn start(are_streams_seen: fn() -> bool) {
    let Some(all) = ledger::observations() else { return };
    OBSERVATIONS.store((&raw const *all).cast_mut(), Relaxed);
    // Not for good, as where buffering has ended: hooks would jump past us.
    process::set_passive(process::PASSIVE_OFF);
    process::pass_through_at_once();
    log::start();
    begin_process(all);
    ways::start();
    let seen = are_streams_seen();
    this_process(|process| process.stdio.store(if seen { 1 } else { 2 }, Relaxed));
}

/// This process becomes known: at its start, and in the child of a fork.
fn begin_process(all: &'static Observations) {
    let index = all.processes_used.fetch_add(1, Relaxed) as usize;
    let place = &all.processes[index.min(PROCESSES_MAX - 1)];
    OWNER.store(all.owner(index), Relaxed);
    FILES.store(0, Relaxed);
    BESIDE.forget();
    let pid = sys::process_id() as u32;
    PID.store(pid, Relaxed);
    place.parent.store(sys::parent_id(), Relaxed);
    place.why.store(of_all_files(GIVEN_UP.load(Relaxed)), Relaxed);
    place.program.store(environment::program_name());
    NAMED.store(u32::from(!environment::program_name().is_empty()), Relaxed);
    place.pid.store(pid, Relaxed);
    PROCESS.store((&raw const *place).cast_mut(), Relaxed);
    RANDOM.store((u64::from(pid) << 32) ^ clock_ns() | 1, Relaxed);
}

/// The log; null: there is none.
#[unsafe(link_section = ".data")]
static TRACE: AtomicPtr<Trace> = AtomicPtr::new(core::ptr::null_mut());
#[inline(always)]
fn trace() -> Option<&'static Trace> {
    // SAFETY: mapped for good.
    unsafe { TRACE.load(Relaxed).as_ref() }
}
/// How many times as many calls are to be left out.
fn thinning() -> u32 {
    trace().map_or(1, Trace::thinning)
}

fn observations() -> Option<&'static Observations> {
    // SAFETY: mapped for good.
    unsafe { OBSERVATIONS.load(Relaxed).as_ref() }
}

fn this_process(with: impl FnOnce(&Process)) {
    // SAFETY: in the observations, which are mapped for good.
    if let Some(process) = unsafe { PROCESS.load(Relaxed).as_ref() } {
        with(process);
    }
}

/// Whether this process is observed.
#[inline(always)]
pub fn is_on() -> bool {
    !OBSERVATIONS.load(Relaxed).is_null()
}

/// 1 once the name of the program is known: the library starts before libc has set it.
#[unsafe(link_section = ".data")]
static NAMED: AtomicU32 = AtomicU32::new(0);

fn name_program() {
    if NAMED.load(Relaxed) == 0 {
        NAMED.store(1, Relaxed);
        this_process(|process| process.program.store(environment::program_name()));
    }
}

/// Whether this is the child of a vfork: what it does to its descriptors does not concern ours.
fn is_borrowed() -> bool {
    SPAWNED.load(Relaxed) != 0 && sys::process_id() as u32 != PID.load(Relaxed)
}

/// The next number of a generator (xorshift): which calls are looked at must not depend on the
/// program.
fn random() -> u32 {
    let mut random = RANDOM.load(Relaxed);
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    RANDOM.store(random, Relaxed);
    (random >> 32) as u32
}

/// How long this process' first thread has waited for a processor: the second number there.
#[cold]
fn delay_ns() -> Option<u64> {
    if process::under_seccomp() {
        // It may not be allowed to ask.
        return None;
    }
    let mut buffer = [0; 64];
    let len = proc::read_small(c"/proc/self/schedstat", &mut buffer)?;
    let field = buffer[..len].split(|byte| *byte == b' ').nth(1)?;
    sys::decimal(field)
}

fn clock_ns() -> u64 {
    let time = crate::floor::clock::read(libc::CLOCK_MONOTONIC);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The acquire and release points of this process so far.
#[inline(always)]
fn world_now() -> World {
    World {
        acquires: ACQUIRES.load(Relaxed),
        releases: RELEASES.load(Relaxed),
        beside: Use::default(),
        asked: thresholds::asked(),
        ended_reads: 0,
    }
}

/// Counts an acquire point or a release point.
#[inline(always)]
fn count_point(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
}

/// A descriptor ends, or means something else from now on.
pub fn closed(fd: i32) {
    let Some(seen) = SEEN.get(fd as usize).filter(|_| is_on()) else { return };
    if !seen.is_known() || is_borrowed() {
        return;
    }
    release_point();
    if seen.description().is_some_and(|home| home.references.load(Relaxed) == 1) {
        finish_file(seen, fd);
    }
    seen.leave();
}

/// A descriptor was made that is not known yet, or its number may mean something else now.
pub fn made(fd: i32) {
    closed(fd);
}

/// Descriptors ended together, or are closed at exec from now on.
pub fn range_closed(first: u32, last: u32, flags: u32) {
    if is_on() && flags & libc::CLOSE_RANGE_CLOEXEC == 0 {
        each(|_, fd| {
            if (first..=last).contains(&(fd as u32)) {
                closed(fd);
            }
        });
    }
}

/// What would be waiting is written. What the parent of a fork had waiting is the parent's.
fn finish_file(seen: &'static Seen, fd: i32) {
    if seen.record.load(Relaxed).is_null() {
        return;
    }
    let Some(counts) = Counts::of(seen, fd) else { return };
    seen.with_state(counts.exclusive, |state| {
        log::end(state, &counts, world_now);
        let State { shadow, would, .. } = state;
        let ended = shadow.close(|kind: Would, amount| would[kind as usize] += amount);
        thresholds::ended(ended);
        state.save(&counts);
    });
}

/// `new` is now a duplicate of `old`.
pub fn duplicated(old: i32, new: i32) {
    let (Some(from), Some(to)) = (SEEN.get(old as usize), SEEN.get(new as usize)) else { return };
    if !is_on() || old == new || is_borrowed() || Counts::of(from, old).is_none() {
        return;
    }
    closed(new);
    // Both move one position from now on.
    from.with_state(atomic::single_threaded(), |_| {});
    if let Some(description) = from.description() {
        description.references.fetch_add(1, Relaxed);
    }
    to.description.store(from.description.load(Relaxed), Relaxed);
    to.flags.store(from.flags.load(Relaxed) & !CLOSE_ON_EXEC, Relaxed);
    to.record.store(from.record.load(Relaxed), Relaxed);
    to.before.store(core::ptr::null_mut(), Relaxed);
    to.inode.store(from.inode.load(Relaxed), Relaxed);
    know(new);
}

/// Close-on-exec was set or cleared.
pub fn set_close_on_exec(fd: i32, flags: i32) {
    if !is_on() {
        return;
    }
    if let Some(seen) = SEEN.get(fd as usize) {
        if flags & libc::FD_CLOEXEC != 0 {
            seen.flags.fetch_or(CLOSE_ON_EXEC, Relaxed);
        } else {
            seen.flags.fetch_and(!CLOSE_ON_EXEC, Relaxed);
        }
    }
}

/// A call on no file in particular, at which a buffering process would release and acquire.
#[inline]
pub fn sync_point() {
    if is_on() {
        count_point(&ACQUIRES);
        release_point();
    }
}

/// The same for a call that brings no news: it closes or duplicates a descriptor.
#[inline]
pub fn release_point() {
    if is_on() {
        count_point(&RELEASES);
        this_process(|process| atomic::count(&process.other_calls, 1));
    }
}

/// A call that uses offset or content of a file, and is no read, write or seek.
pub fn handed_over(fd: i32) {
    change(fd, Tally::OtherCalls, None);
}

/// Whether its writes are appended was set, and what waited was handed over.
pub fn flags_set(fd: i32, flags: i32) {
    let Some(seen) = SEEN.get(fd as usize).filter(|_| is_on()) else { return };
    if !seen.is_known() || is_borrowed() {
        return;
    }
    let Some(counts) = Counts::of(seen, fd) else { return };
    let appends = flags & libc::O_APPEND != 0;
    seen.with_state(counts.exclusive, |state| {
        log::tell(state, &counts, &world_now(), Told::Placed, 0, u64::from(appends));
        state.shadow.place(appends);
    });
}

/// Calls on the file would pass through from now on.
pub fn special_use(fd: i32, why: Why) {
    change(fd, Tally::OtherCalls, Some(why));
}

/// The regular file, with that status, was mapped into memory, by this descriptor or by none (-1): by none of
/// its descriptors it would be buffered from now on.
pub fn mapped(fd: i32, status: &sys::Status) {
    if !is_on() || is_borrowed() {
        return;
    }
    change(fd, Tally::Maps, Some(Why::Mapped));
    inodes::mapped(status.device, status.inode);
    each(|seen, other| {
        let is_same = |of: sys::Status| (of.device, of.inode) == (status.device, status.inode);
        // Files that are counted by folder have few calls.
        if other != fd
            && seen.flags.load(Relaxed) & FOLDED == 0
            && sys::status(other).is_some_and(is_same)
            && let Some(counts) = Counts::of(seen, other)
        {
            quiesce(seen, &counts, Some(Why::Mapped));
        }
    });
}

/// Others may write to memory that this process reads: no file but one that nobody else looks at would have a window
/// from now on.
pub fn acquires_unseen() {
    if !is_on() || !process::begins_to_acquire() {
        return;
    }
    each(|seen, fd| {
        if let Some(counts) = Counts::of(seen, fd) {
            quiesce(seen, &counts, None);
            seen.with_state(counts.exclusive, |state| watch::refuse_windows(state, fd, &counts));
        }
    });
}

fn change(fd: i32, tally: Tally, why: Option<Why>) {
    let Some(seen) = SEEN.get(fd as usize).filter(|_| is_on()) else { return };
    if !seen.is_known() || is_borrowed() {
        return;
    }
    let Some(counts) = Counts::of(seen, fd) else { return };
    counts.tally(tally, 1);
    sync_point();
    quiesce(seen, &counts, why);
}

fn quiesce(seen: &'static Seen, counts: &Counts, why: Option<Why>) {
    seen.with_state(counts.exclusive, |state| {
        let mut world = world_now();
        state.change(counts, &mut world, why);
        state.save(counts);
    });
}

/// Bytes were moved inside the kernel, from one descriptor to another.
pub fn transferred(from: i32, to: i32, answer: isize) {
    for fd in [from, to] {
        let Some(seen) = SEEN.get(fd as usize).filter(|_| is_on()) else { continue };
        if let Some(counts) = Counts::of(seen, fd) {
            counts.tally(Tally::TransferCalls, 1);
            counts.tally(Tally::TransferBytes, answer.max(0) as u64);
        }
    }
}

/// Which descriptors a new process will share.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    All,
    /// Those that are not closed at exec.
    Inherited,
}

/// Before a new process shares descriptors with this one, also those that are `named`, or this one
/// becomes another program.
pub fn shares(sharing: Sharing, named: impl Fn(i32) -> bool) {
    if !is_on() || is_borrowed() {
        return;
    }
    name_program();
    if sharing == Sharing::Inherited {
        SPAWNED.store(1, Relaxed);
    }
    sync_point();
    each(|seen, fd| {
        let kept = seen.flags.load(Relaxed) & CLOSE_ON_EXEC != 0;
        if (sharing == Sharing::All || !kept || named(fd))
            && let Some(counts) = Counts::of(seen, fd)
        {
            quiesce_shared(seen, &counts);
        }
    });
}

/// Calls on what is about to be shared would pass through for good, unless it was shared before: then it
/// is written as such.
fn quiesce_shared(seen: &'static Seen, counts: &Counts) {
    let mut why = Some(Why::Shared);
    seen.with_state(counts.exclusive, |state| {
        why = why.filter(|_| !state.shadow.is_from_outside())
    });
    quiesce(seen, counts, why);
}

fn each(mut with: impl FnMut(&'static Seen, i32)) {
    let highest = (HIGHEST.load(Relaxed) as usize).min(DESCRIPTORS_MAX);
    for (fd, seen) in SEEN[..highest].iter().enumerate() {
        if seen.is_known() {
            with(seen, fd as i32);
        }
    }
}

/// After a fork, in the child: it counts for itself.
pub fn forked() {
    let Some(all) = observations() else { return };
    SPAWNED.store(0, Relaxed);
    begin_process(all);
    this_process(|process| process.stdio.store(1, Relaxed));
    each(|seen, _| {
        if let Some(description) = seen.description() {
            description.busy.store(0, Relaxed);
        }
        // In the log it begins again: this process has acquire and release points of its own.
        seen.with_state(true, |state| state.stream = 0);
        let record = seen.record.swap(core::ptr::null_mut(), Relaxed);
        if !record.is_null() {
            seen.before.store(record, Relaxed);
        }
    });
}

/// The process ends, or becomes another program; with a reason: nothing of it would be buffered from
/// now on.
pub fn ending(why: Option<Why>) {
    if !is_on() || is_borrowed() {
        return;
    }
    name_program();
    let Some(why) = why else {
        let delayed = delay_ns().unwrap_or(0);
        this_process(|process| process.delayed_ns.store(delayed, Relaxed));
        return each(finish_file);
    };
    if GIVEN_UP.swap(why.bit(), Relaxed) == why.bit() {
        return;
    }
    this_process(|process| {
        process.why.fetch_or(of_all_files(why.bit()), Relaxed);
    });
    each(|seen, fd| {
        if let Some(counts) = Counts::of(seen, fd) {
            quiesce(seen, &counts, holds_for(why, fd));
        }
    });
}

/// Reasons for which nothing of this process is buffered any more, without the one that a rule can lift.
fn of_all_files(whys: u64) -> u64 {
    if rules::has_unobserved_files() { whys & !Why::SharedMemory.bit() } else { whys }
}

/// Such a reason, unless a rule lifts it for the file of a descriptor.
fn holds_for(why: Why, fd: i32) -> Option<Why> {
    Some(why).filter(|why| *why != Why::SharedMemory || !rules::is_unobserved(fd))
}

//! `profile`: every call passes on as if we were not there, and is counted.
//!
//! In this mode the process is passive from the start, so that nothing of the engine takes part; the
//! one test that every slow path begins with leads here instead. The path that a buffered call takes
//! has not one instruction more for it.
//!
//! A descriptor has a [`Seen`]: its record in shared memory, and what is remembered from call to
//! call (the position, the pattern, and what buffering would have done: `core::shadow`). Counters
//! are added to without a lock while the process has one thread and a record of its own.
//!
//! Invariant: nothing here changes what a call does. No descriptor is kept, and errno stays.
#![allow(unsafe_code)]

mod log;
mod places;
pub mod ways;

use core::cell::UnsafeCell;
use core::ffi::c_char;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

use sweetspot_core::ledger::TEXT_BYTES_MAX;
pub use sweetspot_core::observe::Kind;
use sweetspot_core::observe::{
    IS_INHERITED, IS_OTHER, IS_REGULAR, LARGE_BYTES, Observations, PROCESSES_MAX, Process, Record,
    SAMPLE_GAP, Tally, WAIT_NS, size_bucket,
};
use sweetspot_core::shadow::{Shadow, Transfer, Wish, World, Would};
use sweetspot_core::trace::Told;
use sweetspot_core::why::Why;

use super::{Outcome, Pass, transition};
use crate::{atomic, ledger, process, reach, sys};

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
static NEWS: AtomicU64 = AtomicU64::new(0);
#[unsafe(link_section = ".data")]
static SPEECH: AtomicU64 = AtomicU64::new(0);
/// The bit of the reason for which nothing of this process would be buffered any more; 0: none.
#[unsafe(link_section = ".data")]
static GIVEN_UP: AtomicU64 = AtomicU64::new(0);
/// One more than the highest descriptor that was seen.
#[unsafe(link_section = ".data")]
static HIGHEST: AtomicU32 = AtomicU32::new(0);

/// What is known of a descriptor. All that a call of the common kind touches lies in one cache line.
#[repr(C, align(64))]
struct Seen {
    /// Where its calls are counted; null: to be found.
    record: AtomicPtr<Record>,
    /// While the descriptor is *armed*: the position, which else is in the description's state.
    position: AtomicU64,
    /// Calls that only have to be counted; none or fewer: the next one is looked at closely.
    left: AtomicI32,
    /// What `left` began with; 0: not armed.
    armed: AtomicU32,
    /// 1: the call after these is timed.
    due: AtomicU32,
    /// Bits, see below.
    flags: AtomicU32,
    /// Its open file description: 1 more than the index in `DESCRIPTIONS`; 0: none.
    description: AtomicU32,
    /// In the child of a fork: the record of the parent, whose path it is.
    before: AtomicPtr<Record>,
}

/// What is known of an open file description, which duplicates share.
struct Description {
    /// Descriptors that share it; 0: free.
    references: AtomicU32,
    /// 1 while `state` is being changed: a handler, or another thread, then only counts.
    busy: AtomicU32,
    state: UnsafeCell<State>,
}

// SAFETY: `state` is only touched while `busy` is held.
unsafe impl Sync for Description {}

/// Where the search for a free description begins.
#[unsafe(link_section = ".data")]
static NEXT_DESCRIPTION: AtomicU32 = AtomicU32::new(0);

/// Other processes count in its record too.
const SHARED: u32 = 1;
/// Closed at exec.
const CLOSE_ON_EXEC: u32 = 2;
/// No file that could be buffered: speaking and listening.
const OTHER: u32 = 4;
/// While armed: its calls would go straight on, so reads listen and writes speak.
const STRAIGHT: u32 = 8;
/// Counted in the record of its folder, until it proves busy. Most of them have no description: all
/// there is to them is counted the short way, while `left` lasts.
const FOLDED: u32 = 16;

/// Files that a process opened first have a record each from then on. Of later ones only those that
/// prove busy have: the others are counted by folder, and one in [`FOLDED_WEIGHT`] of them is
/// followed closely. A record costs a fault of a page, a file that is followed some questions to the
/// kernel: as much as all that is done with a small file.
const FILES_APART: u32 = 128;
const FOLDED_WEIGHT: u32 = 8;
/// Once more than so many were opened, one in so many: enough is known of their like.
const FOLDED_FEW: u32 = 512;
const FOLDED_WEIGHT_OF_MANY: u32 = 64;
/// Calls that make a file busy.
const BUSY_CALLS: u32 = 256;
/// Files that this process has opened: each one that has a record, and all that are counted by folder.
#[unsafe(link_section = ".data")]
static FILES: AtomicU32 = AtomicU32::new(0);

struct State {
    position: u64,
    last_at: u64,
    last_end: u64,
    last_stride: i64,
    /// The run of sequential transfers that is going on began here.
    run_from: u64,
    /// The longest stretch that was read or written in one run.
    covered_from: u64,
    covered_to: u64,
    shadow: Shadow,
    /// What it says, not yet added to the shared counters.
    would: [u64; Would::COUNT],
    /// Calls that are left out now; calls that are followed after that; what each of those stands
    /// for.
    skip: u32,
    left: u32,
    weight: u32,
    /// What lies between the positions that `shadow` knows and the real ones: what was moved while
    /// calls were left out.
    shift: u64,
    /// Its number in the log, 0 before it is in it; and the record that the log has of it.
    stream: u32,
    logged_record: u32,
}

/// Pattern and shadow cost as much as all the rest of observing, so they follow every call only at
/// first, and then bursts: one call in [`BURST_WEIGHT`] (fewer where a log fills), each counted that
/// often, after gaps of random length. How many calls there were, and of which size, is counted always.
const FIRST_CALLS: u32 = 4096;
const BURST_CALLS: u32 = 256;
const BURST_WEIGHT: u32 = 32;

impl State {
    const NEW: State = State {
        position: 0,
        last_at: 0,
        last_end: 0,
        last_stride: 0,
        run_from: 0,
        covered_from: 0,
        covered_to: 0,
        shadow: Shadow::NEW,
        would: [0; Would::COUNT],
        skip: 0,
        left: FIRST_CALLS,
        weight: 1,
        shift: 0,
        stream: 0,
        logged_record: 0,
    };

    /// A burst has ended: calls are left out now.
    #[cold]
    fn end_burst(&mut self, counts: &Counts) {
        self.save(counts);
        self.left = BURST_CALLS;
        self.weight = BURST_WEIGHT * log::thinning();
        let mean = BURST_CALLS * (self.weight - 1);
        self.skip = mean / 2 + random() % (mean + 1);
    }

    /// The first call after some were left out: as if it followed on the last one that was not.
    #[cold]
    fn resume(&mut self, at: u64, world: &World) {
        self.shift = at.wrapping_sub(self.last_end);
        self.shadow.resume(world);
    }

    /// A transfer that does not begin where the last one ended, or the first one.
    #[cold]
    fn jump(&mut self, at: u64, counts: &Counts) {
        self.run_from = at;
        if self.last_end == 0 {
            return;
        }
        let stride = at.wrapping_sub(self.last_at) as i64;
        let kind = if stride == self.last_stride { Tally::Strided } else { Tally::Random };
        counts.tally(kind, u64::from(self.weight));
        self.last_stride = stride;
    }

    /// The engine would settle the file; with a reason: for good.
    fn change(&mut self, counts: &Counts, world: &mut World, why: Option<Why>) {
        log::change(self, counts, world, why);
        self.change_shadow(world, why);
    }

    fn change_shadow(&mut self, world: &mut World, why: Option<Why>) {
        let State { shadow, would, weight, .. } = self;
        let count = |kind: Would, amount: u64| would[kind as usize] += amount * u64::from(*weight);
        match why {
            Some(why) => shadow.refuse(why, world, count),
            None => shadow.hand_over(world, count),
        }
    }

    /// Adds to the shared counters what buffering would have done so far.
    #[cold]
    fn save(&mut self, counts: &Counts) {
        for (shared, own) in counts.record.would.iter().zip(&mut self.would) {
            if *own > 0 {
                counts.add(shared, *own);
                *own = 0;
            }
        }
        counts.record.why.fetch_or(self.shadow.why(), Relaxed);
    }
}

#[allow(clippy::declare_interior_mutable_const)]
const NOT_SEEN: Seen = Seen {
    record: AtomicPtr::new(core::ptr::null_mut()),
    position: AtomicU64::new(0),
    left: AtomicI32::new(0),
    armed: AtomicU32::new(0),
    due: AtomicU32::new(0),
    flags: AtomicU32::new(0),
    description: AtomicU32::new(0),
    before: AtomicPtr::new(core::ptr::null_mut()),
};
static SEEN: [Seen; DESCRIPTORS_MAX] = [const { NOT_SEEN }; DESCRIPTORS_MAX];
#[allow(clippy::declare_interior_mutable_const)]
const UNUSED: Description = Description {
    references: AtomicU32::new(0),
    busy: AtomicU32::new(0),
    // SAFETY: zeros are a state. Set when it is taken; zeros take no room in the library's file.
    state: UnsafeCell::new(unsafe { core::mem::zeroed() }),
};
/// As many as descriptors, so that each finds one.
static DESCRIPTIONS: [Description; DESCRIPTORS_MAX] = [const { UNUSED }; DESCRIPTORS_MAX];

/// Begins to observe, if the ledger says so. Called by the constructor.
pub fn start() {
    let Some(all) = ledger::observations() else { return };
    OBSERVATIONS.store((&raw const *all).cast_mut(), Relaxed);
    process::set_passive(process::PASSIVE_OFF);
    log::start();
    begin_process(all);
    ways::start();
    let seen = reach::stdio_is_seen();
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
    // SAFETY: no memory is handed over.
    place.parent.store(unsafe { sys::syscall!(SYS_getppid) } as u32, Relaxed);
    place.why.store(GIVEN_UP.load(Relaxed), Relaxed);
    place.program.store(ledger::program_name());
    NAMED.store(u32::from(!ledger::program_name().is_empty()), Relaxed);
    place.pid.store(pid, Relaxed);
    PROCESS.store((&raw const *place).cast_mut(), Relaxed);
    RANDOM.store((u64::from(pid) << 32) ^ clock_ns() | 1, Relaxed);
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
        this_process(|process| process.program.store(ledger::program_name()));
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
    let len = ledger::read_small(c"/proc/self/schedstat", &mut buffer)?;
    let field = buffer[..len].split(|byte| *byte == b' ').nth(1)?;
    sys::decimal(field)
}

fn clock_ns() -> u64 {
    let time = crate::read_clock(libc::CLOCK_MONOTONIC);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// A call that is under way.
pub struct Watch {
    kind: Kind,
    by_stdio: bool,
    fd: i32,
    /// Bytes that were asked for; [`ANY`]: not known. Of a seek: whence.
    len: u64,
    /// Where; -1: at the position.
    at: i64,
    /// When it began; 0: it is not timed.
    began_ns: u64,
    /// Where in the program it returns to; 0: not known.
    returns_to: u64,
}

/// A length that is not known before the call.
pub const ANY: u64 = u64::MAX;

/// A call on a descriptor of a process in which nothing is buffered.
#[inline(always)]
pub fn call(kind: Kind, fd: i32, len: u64, at: Option<i64>) -> Outcome {
    match watch(kind, fd, len, at) {
        Some(watch) => Outcome::Watch(watch),
        None => Outcome::PassOn(Pass::NOTHING),
    }
}

#[inline(always)]
fn watch(kind: Kind, fd: i32, len: u64, at: Option<i64>) -> Option<Watch> {
    if !is_on() {
        return None;
    }
    let began_ns = turn(kind, len);
    Some(Watch { kind, by_stdio: false, fd, len, at: at.unwrap_or(-1), began_ns, returns_to: 0 })
}

/// Whether it is the turn of this call to be timed: then the time, else 0.
#[inline(always)]
fn turn(kind: Kind, len: u64) -> u64 {
    let left = TICKS.load(Relaxed).wrapping_sub(1);
    TICKS.store(left, Relaxed);
    if left == 0 || kind != Kind::Seek && len >= LARGE_BYTES { time(left) } else { 0 }
}

/// This call is timed. If that was its turn, another is chosen: after 1 to twice the gap calls,
/// each as likely as the others, so that no rhythm of the program hides from it.
#[cold]
fn time(left: u32) -> u64 {
    if left == 0 {
        TICKS.store(gap(), Relaxed);
    }
    clock_ns().max(1)
}

/// Calls until the next one that is timed: 1 to twice the mean.
fn gap() -> u32 {
    1 + random() % (2 * SAMPLE_GAP - 1)
}

/// A call that libc makes on its own account.
pub fn libc_call(kind: Kind, fd: i32, len: u64, at: Option<i64>) -> Option<Watch> {
    watch(kind, fd, len, at).map(|watch| Watch { by_stdio: true, ..watch })
}

impl Watch {
    /// Counts the call that gave `answer`, and hands the answer back.
    #[inline]
    pub fn finish(self, answer: isize) -> isize {
        self.finish_slowly(answer);
        answer
    }

    #[cold]
    #[inline(never)]
    fn finish_slowly(&self, answer: isize) {
        let took_ns = match self.began_ns {
            0 => 0,
            began => clock_ns().saturating_sub(began).max(1),
        };
        self.count(answer, took_ns);
    }

    /// `took_ns` is 0 where the call was not timed.
    fn count(&self, answer: isize, took_ns: u64) {
        let Some(seen) = SEEN.get(self.fd as usize) else { return };
        let Some(counts) = Counts::of(seen, self.fd) else { return };
        let done = answer.max(0) as u64;
        match self.kind {
            Kind::Read => {
                counts.add(&counts.record.sizes_read[size_bucket(done)], 1);
                counts.tally(Tally::ReadBytes, done);
            }
            Kind::Write => {
                counts.add(&counts.record.sizes_written[size_bucket(done)], 1);
                counts.tally(Tally::WrittenBytes, done);
            }
            Kind::Seek => counts.tally(Tally::Seeks, 1),
        }
        if answer <= 0 || self.by_stdio {
            self.count_rare(&counts, answer);
        }
        if took_ns != 0 {
            self.count_time(&counts, done, took_ns);
        }
        if seen.flags.load(Relaxed) & OTHER != 0 {
            hear(&NEWS);
            hear(&SPEECH);
            if counts.exclusive && !self.by_stdio {
                seen.arm(gap());
            }
            return;
        }
        let is_folded = seen.flags.load(Relaxed) & FOLDED != 0;
        if is_folded && seen.description().is_none() && seen.left.fetch_sub(1, Relaxed) <= 0 {
            seen.describe();
            seen.with_state(false, |state| state.position = seen.position.load(Relaxed));
            return seen.unfold(self.fd);
        }
        seen.with_state(counts.exclusive, |state| {
            self.follow(state, seen, &counts, answer);
            if is_folded && (state.left == FIRST_CALLS - BUSY_CALLS || state.weight > 1) {
                state.save(&counts);
                seen.unfold(self.fd);
            }
            if counts.exclusive && !self.by_stdio {
                seen.arm_file(state);
            }
        });
    }

    #[cold]
    fn count_rare(&self, counts: &Counts, answer: isize) {
        if answer < 0 {
            counts.tally(Tally::Failed, 1);
        } else if answer == 0 && self.kind == Kind::Read && self.len != 0 {
            counts.tally(Tally::Ends, 1);
        }
        if self.by_stdio {
            let kind = match self.kind {
                Kind::Read => Tally::StdioReads,
                Kind::Write => Tally::StdioWrites,
                Kind::Seek => Tally::StdioSeeks,
            };
            counts.tally(kind, 1);
        }
    }

    #[cold]
    fn count_time(&self, counts: &Counts, done: u64, took_ns: u64) {
        let times = &counts.record.times[self.kind as usize];
        let (calls, ns) = if self.kind != Kind::Seek && done >= LARGE_BYTES {
            (&times.large, &times.large_ns)
        } else if took_ns >= WAIT_NS {
            (&times.waits, &times.waits_ns)
        } else {
            (&times.timed, &times.timed_ns)
        };
        counts.add(calls, 1);
        counts.add(ns, took_ns);
        if self.returns_to != 0
            && ledger::wants_places()
            && let Some(all) = observations()
        {
            places::note(all, PID.load(Relaxed), counts.record, self.returns_to);
        }
    }

    /// Where the call went, and what buffering would have done with it.
    #[inline(always)]
    fn follow(&self, state: &mut State, seen: &Seen, counts: &Counts, answer: isize) {
        if state.skip > 0 {
            state.skip -= 1;
            return self.pass(state, answer);
        }
        let before = world_now();
        let mut world = before;
        let resumed = state.left == BURST_CALLS && state.weight > 1;
        if resumed {
            let at = if self.at >= 0 { self.at as u64 } else { state.position };
            state.resume(at, &world);
        }
        let manner =
            log::Manner { by_stdio: self.by_stdio, handed: self.is_handed(answer), resumed };
        let nowhere = self.kind == Kind::Seek && answer >= 0 && answer as u64 == state.position;
        let done = answer.max(0) as u64;
        let at = self.move_on(state, counts, answer);
        let transfer = Transfer { at, len: if self.len == ANY { done } else { self.len }, done };
        let told = if self.kind == Kind::Seek { (done, 0, 0) } else { (at, transfer.len, done) };
        log::call(state, counts, &world, self.kind, manner, told);
        if self.by_stdio {
            world.speak();
            world.listen();
            state.change_shadow(&mut world, Some(Why::Stdio));
        } else if manner.handed {
            state.change_shadow(&mut world, None);
        } else {
            let State { shadow, would, weight, .. } = state;
            let weight = u64::from(*weight);
            let count = |kind: Would, amount: u64| would[kind as usize] += amount * weight;
            let wish = match self.kind {
                Kind::Read => shadow.read(transfer, &mut world, count),
                Kind::Write => shadow.write(transfer, &mut world, count),
                Kind::Seek => {
                    shadow.seek(&mut world, count);
                    Wish::Nothing
                }
            };
            if wish != Wish::Nothing {
                self.grant(wish, state, seen, counts, &mut world);
            }
        }
        if nowhere {
            counts.tally(Tally::SeeksNowhere, u64::from(state.weight));
        }
        state.would[match self.kind {
            Kind::Read => Would::AskedReads,
            Kind::Write => Would::AskedWrites,
            Kind::Seek => Would::AskedSeeks,
        } as usize] += u64::from(state.weight);
        state.left -= 1;
        if state.left == 0 {
            state.end_burst(counts);
        }
        if world != before {
            NEWS.store(world.news, Relaxed);
            SPEECH.store(world.speech, Relaxed);
            log::know(&world);
        }
    }

    /// Whether the engine would hand the file over to this call: vectors, writes at a position, seeks
    /// from elsewhere than the beginning and the position.
    #[inline(always)]
    fn is_handed(&self, answer: isize) -> bool {
        let plain = self.len == libc::SEEK_SET as u64 || self.len == libc::SEEK_CUR as u64;
        match self.kind {
            Kind::Read => false,
            Kind::Write => self.len == ANY || self.at >= 0,
            Kind::Seek => !plain || answer < 0,
        }
    }

    /// Follows the position, and nothing else.
    #[inline(always)]
    fn pass(&self, state: &mut State, answer: isize) {
        if answer >= 0 {
            match self.kind {
                Kind::Seek => state.position = answer as u64,
                _ if self.at < 0 => state.position = state.position.wrapping_add(answer as u64),
                _ => {}
            }
        }
    }

    /// Follows the position and the pattern; says where a transfer began.
    #[inline(always)]
    fn move_on(&self, state: &mut State, counts: &Counts, answer: isize) -> u64 {
        let at = if self.at >= 0 { self.at as u64 } else { state.position };
        if at.wrapping_sub(state.shift) > i64::MAX as u64 {
            // It went back to before what was left out: a jump, whatever it is called.
            state.shift = 0;
        }
        let at = at.wrapping_sub(state.shift);
        self.pass(state, answer);
        let done = answer.max(0) as u64;
        let end = at.wrapping_add(done);
        if done == 0 || self.kind == Kind::Seek {
            return at;
        }
        if at != state.last_end || state.last_end == 0 {
            state.jump(at, counts);
        }
        if end.wrapping_sub(state.run_from) > state.covered_to.wrapping_sub(state.covered_from) {
            (state.covered_from, state.covered_to) = (state.run_from, end);
        } else if at >= state.covered_from && end <= state.covered_to {
            let again = if self.kind == Kind::Read { Tally::ReReads } else { Tally::ReWrites };
            counts.tally(again, u64::from(state.weight));
        }
        (state.last_at, state.last_end) = (at, end);
        at
    }

    /// The file has earned what `wish` says: asks of it what the engine would ask.
    #[cold]
    fn grant(
        &self,
        wish: Wish,
        state: &mut State,
        seen: &Seen,
        counts: &Counts,
        world: &mut World,
    ) {
        let status = sys::status(self.fd).unwrap_or_default();
        counts.record.size.fetch_max(status.size, Relaxed);
        let flags = sys::open_flags(self.fd).unwrap_or(0);
        let special = libc::O_DIRECT | libc::O_PATH | libc::O_DSYNC | libc::O_SYNC;
        let made_up = || {
            sys::file_system(self.fd).is_none_or(|(magic, _)| transition::MADE_UP.contains(&magic))
        };
        let against = if flags & special != 0 {
            Some(Why::OpenFlags)
        } else if !status.regular || made_up() {
            Some(Why::NotRegular)
        } else if wish == Wish::Window && state.shadow.is_from_outside() {
            Some(Why::FromOutside)
        } else {
            None
        };
        let is = if against == Some(Why::NotRegular) { IS_OTHER } else { IS_REGULAR };
        counts.record.what.fetch_or(is, Relaxed);
        if against.is_none() {
            state.would[Would::Open as usize] += u64::from(state.weight);
        }
        match (wish, against) {
            (_, Some(why)) => {
                if why == Why::NotRegular {
                    seen.flags.fetch_or(OTHER, Relaxed);
                }
                state.change(counts, world, Some(why));
            }
            (Wish::Window, None) => {
                log::tell(state, counts, world, Told::Window, status.size);
                state.shadow.open_window(status.size);
            }
            (_, None) if !sys::file_size_unlimited() => {
                log::tell(state, counts, world, Told::RefuseWrites, Why::FileSizeLimit.bit());
                state.shadow.refuse_writes(Why::FileSizeLimit);
            }
            (_, None) if flags & libc::O_APPEND != 0 || state.shadow.is_from_outside() => {
                log::tell(state, counts, world, Told::PinTrailing, 0);
                state.shadow.pin_trailing();
            }
            (_, None) => {
                log::tell(state, counts, world, Told::Pin, 0);
                state.shadow.pin();
            }
        }
    }
}

/// A record to count in.
struct Counts {
    record: &'static Record,
    /// Nobody else counts in it: no other thread, no other process.
    exclusive: bool,
}

impl Counts {
    /// The record of a descriptor, found first where it is not known.
    #[inline(always)]
    fn of(seen: &'static Seen, fd: i32) -> Option<Counts> {
        // SAFETY: records are mapped for good.
        match unsafe { seen.record.load(Relaxed).as_ref() } {
            Some(record) => {
                let own = seen.flags.load(Relaxed) & SHARED == 0;
                Some(Counts { record, exclusive: own && atomic::single_threaded() })
            }
            None => find(seen, fd),
        }
    }

    #[inline(always)]
    fn add(&self, counter: &AtomicU64, amount: u64) {
        if self.exclusive {
            counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
        } else {
            counter.fetch_add(amount, Relaxed);
        }
    }

    #[inline(always)]
    fn tally(&self, tally: Tally, amount: u64) {
        self.add(&self.record.tallies[tally as usize], amount);
    }
}

impl Seen {
    fn description(&self) -> Option<&'static Description> {
        DESCRIPTIONS.get((self.description.load(Relaxed) as usize).wrapping_sub(1))
    }

    /// Gives it a description of its own.
    fn describe(&self) {
        let start = NEXT_DESCRIPTION.load(Relaxed) as usize;
        for step in 0..DESCRIPTORS_MAX {
            let index = (start + step) % DESCRIPTORS_MAX;
            let description = &DESCRIPTIONS[index];
            if description.references.load(Relaxed) == 0
                && description.references.compare_exchange(0, 1, Relaxed, Relaxed).is_ok()
            {
                NEXT_DESCRIPTION.store(index as u32 + 1, Relaxed);
                description.busy.store(0, Relaxed);
                // Where a log fills, fewer of the first calls are followed, too.
                let left = FIRST_CALLS / log::thinning().pow(2);
                // SAFETY: it was free, so it is only ours.
                unsafe { *description.state.get() = State { left, ..State::NEW } };
                self.description.store(index as u32 + 1, Relaxed);
                return;
            }
        }
        self.description.store(0, Relaxed);
    }

    /// From now on its calls are counted in `record`.
    fn count_in(&self, record: &'static Record) -> Counts {
        let shared = record.owner.load(Relaxed) == 0;
        if shared != (self.flags.load(Relaxed) & SHARED != 0) {
            self.flags.fetch_xor(SHARED, Relaxed);
        }
        self.before.store(core::ptr::null_mut(), Relaxed);
        self.record.store((&raw const *record).cast_mut(), Relaxed);
        Counts { record, exclusive: !shared && atomic::single_threaded() }
    }

    /// From now on its calls are counted in a record of its own.
    #[cold]
    fn unfold(&self, fd: i32) {
        self.flags.fetch_and(!FOLDED, Relaxed);
        if let Some(all) = observations() {
            let mut buffer = [0; 512];
            let path = asked_path(fd, &mut buffer);
            set_apart(path);
            self.count_in(all.record(OWNER.load(Relaxed), path));
        }
    }

    /// Whether anything is known of it.
    fn is_known(&self) -> bool {
        !self.record.load(Relaxed).is_null() || !self.before.load(Relaxed).is_null()
    }

    /// Gives up its share; whether it was the last one is asked before.
    fn leave(&self) {
        if let Some(description) = self.description()
            && description.references.fetch_sub(1, Relaxed) == 1
        {
            // The next one takes its place: memory that is in use already.
            NEXT_DESCRIPTION.store(self.description.load(Relaxed) - 1, Relaxed);
        }
        self.description.store(0, Relaxed);
        self.left.store(0, Relaxed);
        self.armed.store(0, Relaxed);
        self.due.store(0, Relaxed);
        self.before.store(core::ptr::null_mut(), Relaxed);
        self.record.store(core::ptr::null_mut(), Relaxed);
    }

    /// From now on that many calls are only counted, unless something else comes; the one after
    /// them is timed.
    #[cold]
    fn arm(&self, calls: u32) {
        self.due.store(1, Relaxed);
        self.armed.store(calls, Relaxed);
        self.left.store(calls as i32, Relaxed);
    }

    /// The same for a file, if pattern and shadow are left out now, and no duplicate moves it.
    #[inline(always)]
    fn arm_file(&self, state: &State) {
        let alone = |home: &Description| home.references.load(Relaxed) == 1;
        if state.skip > 1 && self.description().is_some_and(alone) {
            match state.shadow.is_on() {
                true => self.flags.fetch_and(!STRAIGHT, Relaxed),
                false => self.flags.fetch_or(STRAIGHT, Relaxed),
            };
            self.position.store(state.position, Relaxed);
            self.arm(gap().min(state.skip - 1));
        }
    }

    /// Ends that: what was counted meanwhile is left out of the state.
    #[inline(always)]
    fn disarm(&self, state: &mut State) {
        let armed = self.armed.swap(0, Relaxed);
        if armed != 0 {
            let left = self.left.swap(0, Relaxed).max(0) as u32;
            state.skip = state.skip.saturating_sub(armed.saturating_sub(left));
            state.position = self.position.load(Relaxed);
        }
    }

    /// Does something with the state, unless somebody is at it.
    #[inline(always)]
    fn with_state(&'static self, exclusive: bool, with: impl FnOnce(&mut State)) {
        let Some(home) = self.description() else { return };
        if exclusive {
            if home.busy.load(Relaxed) != 0 {
                return;
            }
            home.busy.store(1, Relaxed);
        } else if home.busy.swap(1, core::sync::atomic::Ordering::Acquire) != 0 {
            return;
        }
        // SAFETY: `busy` is held.
        let state = unsafe { &mut *home.state.get() };
        self.disarm(state);
        with(state);
        home.busy.store(0, core::sync::atomic::Ordering::Release);
    }
}

/// What this process has heard and said so far.
#[inline(always)]
fn world_now() -> World {
    World { news: NEWS.load(Relaxed), speech: SPEECH.load(Relaxed) }
}

/// Something was heard, or said.
#[inline(always)]
fn hear(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
}

/// The record of a descriptor that is not known: it was open before, or made out of sight.
#[cold]
fn find(seen: &'static Seen, fd: i32) -> Option<Counts> {
    let all = observations()?;
    name_program();
    let mut buffer = [0; 512];
    // SAFETY: records are mapped for good.
    if let Some(before) = unsafe { seen.before.load(Relaxed).as_ref() } {
        // That of the parent: the same path, counted for this process.
        let mut text = [0; TEXT_BYTES_MAX];
        let record = all.record(OWNER.load(Relaxed), before.path.load(&mut text));
        record.what.fetch_or(before.what.load(Relaxed), Relaxed);
        return Some(seen.count_in(record));
    }
    let status = sys::status(fd)?;
    let path = asked_path(fd, &mut buffer);
    // All pipes together, all sockets together.
    let unnamed = !path.starts_with(b"/");
    let path = match path.iter().position(|byte| *byte == b':') {
        Some(end) if unnamed => &path[..end],
        _ => path,
    };
    set_apart(path);
    let record = all.record(OWNER.load(Relaxed), path);
    let what = if status.regular { IS_REGULAR | IS_INHERITED } else { IS_OTHER };
    record.what.fetch_or(what, Relaxed);
    record.size.fetch_max(status.size, Relaxed);
    remember(seen, fd, record, 0);
    if !status.regular {
        seen.flags.fetch_or(OTHER, Relaxed);
    }
    seen.with_state(false, |state| {
        if status.regular {
            let at = sys::seek(fd, 0, libc::SEEK_CUR).max(0) as u64;
            (state.position, state.last_end) = (at, at);
            state.shadow = Shadow::OUTSIDE;
        } else {
            state.change_shadow(&mut World::default(), Some(Why::NotRegular));
            record.why.fetch_or(Why::NotRegular.bit(), Relaxed);
        }
    });
    Counts::of(seen, fd)
}

/// The path of a descriptor, as the kernel knows it.
fn asked_path(fd: i32, buffer: &mut ledger::PathBuffer) -> &[u8] {
    let path = ledger::path_of(fd, buffer);
    path.strip_suffix(b" (deleted)").unwrap_or(path)
}

/// Ties a descriptor to its record, with nothing remembered.
fn remember(seen: &'static Seen, fd: i32, record: &'static Record, flags: u32) {
    seen.leave();
    seen.flags.store(flags, Relaxed);
    seen.describe();
    let counts = seen.count_in(record);
    let given_up = GIVEN_UP.load(Relaxed);
    if let Some(why) = Why::ALL.into_iter().find(|why| why.bit() == given_up) {
        settle(seen, &counts, Some(why));
    }
    know(fd);
}

/// A descriptor is in use from now on.
fn know(fd: i32) {
    if HIGHEST.load(Relaxed) <= fd as u32 {
        HIGHEST.fetch_max(fd as u32 + 1, Relaxed);
    }
}

/// A descriptor was opened by path.
pub fn opened(fd: i32, flags: i32, path: *const c_char) {
    if !is_on() || fd < 0 {
        return;
    }
    made(fd);
    // SAFETY: the kernel has just opened this path.
    let given = unsafe { core::ffi::CStr::from_ptr(path) }.to_bytes();
    if !opened_beside(fd, flags, None, given) {
        opened_from_here(fd, flags, given);
    }
}

/// The same, with a folder to which the path is relative.
pub fn opened_at(folder: i32, fd: i32, flags: i32, path: *const c_char) {
    if !is_on() || fd < 0 {
        return;
    }
    // SAFETY: the kernel has just opened this path, since it gave a descriptor.
    if folder == libc::AT_FDCWD || unsafe { *path } == b'/' as c_char {
        return opened(fd, flags, path);
    }
    made(fd);
    // SAFETY: the kernel has just opened this path.
    let given = unsafe { core::ffi::CStr::from_ptr(path) }.to_bytes();
    let base = record_of_folder(folder);
    if base.is_none() || !opened_beside(fd, flags, base, given) {
        opened_from(base, fd, flags, given);
    }
}

#[cold]
#[inline(never)]
fn opened_from_here(fd: i32, flags: i32, given: &[u8]) {
    let mut buffer = [0; PATH_BYTES_MAX];
    if let Some(path) = absolute(given, &mut buffer)
        && let Some(record) = opened_as(fd, flags, path)
    {
        BESIDE.remember(None, given, record);
    }
}

#[cold]
#[inline(never)]
fn opened_from(base: Option<&'static Record>, fd: i32, flags: i32, given: &[u8]) {
    let (mut joined, mut asked) = ([0; PATH_BYTES_MAX], [0; 512]);
    let path = base.and_then(|base| in_folder(base, given, &mut joined));
    let record = opened_as(fd, flags, path.unwrap_or_else(|| ledger::path_of(fd, &mut asked)));
    if let (Some(record), Some(_)) = (record, base) {
        BESIDE.remember(base, given, record);
    }
}

/// A file beside the last one that was counted by its folder: counted there, too, without a look at
/// its path, unless it may have a record of its own.
#[inline]
fn opened_beside(fd: i32, flags: i32, base: Option<&Record>, given: &[u8]) -> bool {
    let Some(seen) = SEEN.get(fd as usize) else { return false };
    if !atomic::single_threaded() || flags & libc::O_DIRECTORY != 0 || is_borrowed() {
        return false;
    }
    let folder = folder_of(given);
    let beside = BESIDE.find(base, folder).filter(|_| !may_be_apart(given, folder.len()));
    let Some(record) = beside else { return false };
    count_in_folder(seen, fd, record, close_on_exec(flags));
    true
}

/// The folder of the last file that was counted by its folder: what the program gave to open it,
/// but for its name. For one thread only.
struct Beside {
    /// That folder's record; null: there was none.
    record: AtomicPtr<Record>,
    /// To what the path is relative; null: to the current folder.
    base: AtomicPtr<Record>,
    len: AtomicU32,
    given: UnsafeCell<[u8; TEXT_BYTES_MAX]>,
}
// SAFETY: only threads that are alone touch it. A handler in the middle of a change may leave the one's
// text and the other's record: what is counted is wrong then, and no memory.
unsafe impl Sync for Beside {}
static BESIDE: Beside = Beside {
    record: AtomicPtr::new(core::ptr::null_mut()),
    base: AtomicPtr::new(core::ptr::null_mut()),
    len: AtomicU32::new(0),
    given: UnsafeCell::new([0; TEXT_BYTES_MAX]),
};

impl Beside {
    #[inline]
    fn find(&self, base: Option<&Record>, folder: &[u8]) -> Option<&'static Record> {
        // SAFETY: records are mapped for good.
        let record = unsafe { self.record.load(Relaxed).as_ref() }?;
        let same_base = self.base.load(Relaxed) == base.map_or(core::ptr::null_mut(), address);
        // SAFETY: see above.
        let known = unsafe { (&*self.given.get()).get(..self.len.load(Relaxed) as usize) };
        (same_base && known == Some(folder)).then_some(record)
    }

    fn remember(&self, base: Option<&Record>, given: &[u8], record: &'static Record) {
        let folder = folder_of(given);
        self.forget();
        // Those of others may be found by their paths only.
        if folder.len() <= TEXT_BYTES_MAX && record.owner.load(Relaxed) != 0 {
            // SAFETY: see above.
            unsafe { (&mut *self.given.get())[..folder.len()].copy_from_slice(folder) };
            self.len.store(folder.len() as u32, Relaxed);
            self.base.store(base.map_or(core::ptr::null_mut(), address), Relaxed);
            self.record.store(address(record), Relaxed);
        }
    }

    fn forget(&self) {
        self.record.store(core::ptr::null_mut(), Relaxed);
    }
}

fn address(record: &Record) -> *mut Record {
    (&raw const *record).cast_mut()
}

/// A bit for each name of a file that has a record of its own in this process, or in one that it was
/// forked from; by chance also for others.
static APART: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// The bit of a file's name, which begins at `name` of its path: where it is. Names that are counted
/// through differ in their ends.
#[inline]
fn apart_bit(path: &[u8], name: usize) -> (&'static AtomicU64, u64) {
    let len = path.len() - name;
    // The last eight bytes of the name as a number, the last one highest.
    let end = match path.last_chunk() {
        Some(end) if len > 0 => u64::from_le_bytes(*end) >> (64 - 8 * len.min(8)),
        _ => path[name..].iter().rev().fold(0, |end, byte| end << 8 | u64::from(*byte)),
    };
    let bit = (end ^ len as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
    (&APART[bit as usize / 64], 1 << (bit % 64))
}

#[inline]
fn may_be_apart(path: &[u8], name: usize) -> bool {
    let (word, bit) = apart_bit(path, name);
    word.load(Relaxed) & bit != 0
}

/// A file has a record of its own from now on.
fn set_apart(path: &[u8]) {
    let (word, bit) = apart_bit(path, folder_of(path).len());
    word.fetch_or(bit, Relaxed);
}

/// The record of a folder that was opened before; `None`: only the kernel knows its path.
fn record_of_folder(folder: i32) -> Option<&'static Record> {
    let seen = SEEN.get(folder as usize)?;
    if seen.flags.load(Relaxed) & FOLDED != 0 {
        return become_folder(seen, folder);
    }
    // SAFETY: records are mapped for good.
    unsafe { seen.record.load(Relaxed).as_ref() }
}

/// What was taken for a file of its folder, as it was opened like one, is a folder itself.
#[cold]
fn become_folder(seen: &'static Seen, folder: i32) -> Option<&'static Record> {
    let all = observations()?;
    let (mut asked, mut joined) = ([0; PATH_BYTES_MAX], [0; PATH_BYTES_MAX]);
    let path = asked_path(folder, &mut asked);
    let record = all.record(OWNER.load(Relaxed), join([path, b"/", b""], &mut joined)?);
    seen.flags.fetch_and(!FOLDED, Relaxed);
    Some(seen.count_in(record).record)
}

/// A path in such a folder; `None`: only the kernel knows it.
fn in_folder<'a>(
    record: &Record,
    name: &[u8],
    buffer: &'a mut [u8; PATH_BYTES_MAX],
) -> Option<&'a [u8]> {
    let mut text = [0; TEXT_BYTES_MAX];
    let folder = record.path.load(&mut text);
    // A longer one has lost its beginning.
    let is_whole = folder.starts_with(b"/") && folder.len() < TEXT_BYTES_MAX;
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    if is_whole { join([folder, b"/", name], buffer) } else { None }
}

/// The pieces of a path, if there is room.
fn join<'a>(pieces: [&[u8]; 3], buffer: &'a mut [u8; PATH_BYTES_MAX]) -> Option<&'a [u8]> {
    if pieces.iter().map(|piece| piece.len()).sum::<usize>() > PATH_BYTES_MAX {
        return None;
    }
    let mut len = 0;
    for piece in pieces {
        buffer[len..len + piece.len()].copy_from_slice(piece);
        len += piece.len();
    }
    Some(&buffer[..len])
}

/// A descriptor means the file of this name, from its beginning. The record of its folder, if it is
/// counted there.
fn opened_as(fd: i32, flags: i32, path: &[u8]) -> Option<&'static Record> {
    let (all, seen) = (observations()?, SEEN.get(fd as usize)?);
    if is_borrowed() {
        return None;
    }
    name_program();
    // Only the record of a folder's files ends with a slash.
    let path = path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(path);
    let owner = OWNER.load(Relaxed);
    let of_its_own = match all.find(owner, path) {
        None if FILES.load(Relaxed) < FILES_APART => {
            FILES.fetch_add(1, Relaxed);
            set_apart(path);
            Some(all.record(owner, path))
        }
        known => known,
    };
    if let Some(record) = of_its_own {
        remember(seen, fd, record, close_on_exec(flags));
        count_open(seen, fd);
    } else if flags & libc::O_DIRECTORY != 0 {
        // No file of its folder, but the folder whose files are counted there.
        let mut buffer = [0; PATH_BYTES_MAX];
        let record = all.record(owner, join([path, b"/", b""], &mut buffer).unwrap_or(path));
        remember(seen, fd, record, close_on_exec(flags));
    } else {
        let record = all.record(owner, folder_of(path));
        count_in_folder(seen, fd, record, close_on_exec(flags));
        return Some(record);
    }
    None
}

/// The flag of a descriptor for those of its opening.
#[inline]
fn close_on_exec(flags: i32) -> u32 {
    if flags & libc::O_CLOEXEC != 0 { CLOSE_ON_EXEC } else { 0 }
}

/// A file is counted with others of its folder.
#[inline]
fn count_in_folder(seen: &'static Seen, fd: i32, record: &'static Record, close_on_exec: u32) {
    let files = FILES.load(Relaxed);
    FILES.store(files.saturating_add(1), Relaxed);
    let weight = if files < FOLDED_FEW { FOLDED_WEIGHT } else { FOLDED_WEIGHT_OF_MANY };
    // The first one is followed, so that no folder is judged by none.
    if record.tallies[Tally::Opens as usize].load(Relaxed) == 0 || random() < u32::MAX / weight {
        remember(seen, fd, record, close_on_exec | FOLDED);
    } else {
        seen.flags.store(close_on_exec | FOLDED | STRAIGHT, Relaxed);
        seen.position.store(0, Relaxed);
        seen.count_in(record);
        seen.arm(BUSY_CALLS);
        know(fd);
    }
    count_open(seen, fd);
}

fn count_open(seen: &'static Seen, fd: i32) {
    if let Some(counts) = Counts::of(seen, fd) {
        counts.tally(Tally::Opens, 1);
    }
}

/// The folder of a path, with its slash, which no file's path ends with.
fn folder_of(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    &path[..end]
}

/// Longer paths keep their end.
const PATH_BYTES_MAX: usize = 512;

/// The current folder, as far as it is known.
struct Folder {
    len: AtomicU32,
    bytes: UnsafeCell<[u8; PATH_BYTES_MAX]>,
}
// SAFETY: the bytes are for display; two threads that find them out at once store the same.
unsafe impl Sync for Folder {}
static FOLDER: Folder =
    Folder { len: AtomicU32::new(0), bytes: UnsafeCell::new([0; PATH_BYTES_MAX]) };

/// The current folder may be another one now.
pub fn moved() {
    FOLDER.len.store(0, Relaxed);
    BESIDE.forget();
}

/// A path from the root, for the records; the end of it, where it is long.
fn absolute<'a>(path: &'a [u8], buffer: &'a mut [u8; PATH_BYTES_MAX]) -> Option<&'a [u8]> {
    if path.starts_with(b"/") {
        return Some(path);
    }
    let path = path.strip_prefix(b"./").unwrap_or(path);
    let mut folder_len = FOLDER.len.load(Relaxed) as usize;
    if folder_len == 0 {
        // SAFETY: a buffer of that size; see `Folder`.
        let answer = unsafe { sys::syscall!(SYS_getcwd, FOLDER.bytes.get(), PATH_BYTES_MAX) };
        folder_len = sys::result(answer).ok()?.checked_sub(1)?;
        FOLDER.len.store(folder_len as u32, Relaxed);
    }
    // SAFETY: see `Folder`.
    let folder: &[u8; PATH_BYTES_MAX] = unsafe { &*FOLDER.bytes.get() };
    let folder = &folder[..folder_len.min(PATH_BYTES_MAX)];
    let folder = if folder == b"/" { b"" } else { folder };
    Some(join([folder, b"/", path], buffer).unwrap_or(path))
}

/// A descriptor ends, or means something else from now on.
pub fn closed(fd: i32) {
    let Some(seen) = SEEN.get(fd as usize).filter(|_| is_on()) else { return };
    if !seen.is_known() || is_borrowed() {
        return;
    }
    spoke();
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
        log::end(state, &counts, &world_now());
        let State { shadow, would, .. } = state;
        shadow.close(|kind: Would, amount| would[kind as usize] += amount);
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

/// A call that buffering would notice, on no file in particular.
#[inline]
pub fn spoke() {
    if is_on() {
        hear(&NEWS);
        hear(&SPEECH);
        this_process(|process| atomic::count(&process.other_calls, 1));
    }
}

/// A call that uses offset or content of a file, and is no read, write or seek.
pub fn handed_over(fd: i32) {
    change(fd, Tally::OtherCalls, None);
}

/// The file would go straight on from now on.
pub fn special_use(fd: i32, why: Why) {
    change(fd, Tally::OtherCalls, Some(why));
}

/// It was mapped into memory.
pub fn mapped(fd: i32) {
    change(fd, Tally::Maps, Some(Why::Mapped));
}

fn change(fd: i32, tally: Tally, why: Option<Why>) {
    let Some(seen) = SEEN.get(fd as usize).filter(|_| is_on()) else { return };
    if !seen.is_known() || is_borrowed() {
        return;
    }
    let Some(counts) = Counts::of(seen, fd) else { return };
    counts.tally(tally, 1);
    spoke();
    settle(seen, &counts, why);
}

fn settle(seen: &'static Seen, counts: &Counts, why: Option<Why>) {
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
    spoke();
    each(|seen, fd| {
        let kept = seen.flags.load(Relaxed) & CLOSE_ON_EXEC != 0;
        if (sharing == Sharing::All || !kept || named(fd))
            && let Some(counts) = Counts::of(seen, fd)
        {
            settle_shared(seen, &counts);
        }
    });
}

/// What is about to be shared goes straight on for good, unless it was shared before: then it is
/// written as such.
fn settle_shared(seen: &'static Seen, counts: &Counts) {
    let mut why = Some(Why::Shared);
    seen.with_state(counts.exclusive, |state| {
        why = why.filter(|_| !state.shadow.is_from_outside())
    });
    settle(seen, counts, why);
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
        // In the log it begins again: this process hears and says things of its own.
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
        process.why.fetch_or(why.bit(), Relaxed);
    });
    each(|seen, fd| {
        if let Some(counts) = Counts::of(seen, fd) {
            settle(seen, &counts, Some(why));
        }
    });
}

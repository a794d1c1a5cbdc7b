//! `profile --record`: what shadows are told is logged, too (`sweetspot_core::trace`).
//!
//! Only calls that are followed closely come here. A place in the log is taken by one locked
//! instruction, and nothing waits.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sweetspot_core::observe::PROCESSES_MAX;
use sweetspot_core::shadow::World;
use sweetspot_core::trace::{
    ACQUIRED, BY_STDIO, FROM_OUTSIDE, HANDED, Line, POSITIONED, RELEASED, RESUMED, Told, Trace,
};
use sweetspot_core::why::Why;

use super::state::{Counts, State};
use super::{Kind, PROCESS, TRACE, observations, trace};
use crate::engine::ledger;

/// What the log knows of this process' `World`: shadows change it, and are asked again afterwards;
/// what else does is told with the next event.
#[unsafe(link_section = ".data")]
static KNOWN_ACQUIRES: AtomicU64 = AtomicU64::new(0);
#[unsafe(link_section = ".data")]
static KNOWN_RELEASES: AtomicU64 = AtomicU64::new(0);

/// Begins to log, if the ledger says so.
pub fn start() {
    if let Some(trace) = ledger::trace() {
        TRACE.store((&raw const *trace).cast_mut(), Relaxed);
    }
}

/// The world is now as shadows have left it.
#[inline(always)]
pub fn know(world: &World) {
    if trace().is_some() {
        KNOWN_ACQUIRES.store(world.acquires, Relaxed);
        KNOWN_RELEASES.store(world.releases, Relaxed);
    }
}

/// How a call was made.
#[derive(Clone, Copy)]
pub struct Manner {
    pub by_stdio: bool,
    /// The engine would hand it over.
    pub handed: bool,
    /// It names its place.
    pub positioned: bool,
    /// Calls before it were left out.
    pub resumed: bool,
}

/// A call that is followed.
#[inline(always)]
pub fn call(
    state: &mut State,
    counts: &Counts,
    world: &World,
    kind: Kind,
    manner: Manner,
    (at, len, done): (u64, u64, u64),
) {
    if let Some(trace) = trace() {
        let told = match kind {
            Kind::Read => Told::Read,
            Kind::Write => Told::Write,
            Kind::Seek => Told::Seek,
        };
        let short = |bytes: u64| bytes.min(u64::from(u32::MAX));
        let flag = |is: bool, bit: u32| if is { bit } else { 0 };
        let flags = flag(manner.by_stdio, BY_STDIO)
            | flag(manner.handed, HANDED)
            | flag(manner.positioned, POSITIONED)
            | flag(manner.resumed, RESUMED);
        log(trace, state, counts, world, (told, at, short(len) | short(done) << 32, flags));
    }
}

/// Something else that a shadow is told.
pub fn tell(state: &mut State, counts: &Counts, world: &World, told: Told, at: u64, value: u64) {
    if let Some(trace) = trace() {
        log(trace, state, counts, world, (told, at, value, 0));
    }
}

impl State {
    /// The engine would quiesce the file. With a reason, its calls would pass through for good.
    pub(super) fn change(&mut self, counts: &Counts, world: &mut World, why: Option<Why>) {
        match why {
            Some(why) => tell(self, counts, world, Told::Refuse, 0, why.bit()),
            None => tell(self, counts, world, Told::HandOver, 0, 0),
        }
        self.change_shadow(world, why);
    }
}

/// The description is closed.
pub fn end(state: &mut State, counts: &Counts, world: impl Fn() -> World) {
    if state.stream != 0 {
        tell(state, counts, &world(), Told::End, 0, 0);
    }
}

#[cold]
#[inline(never)]
fn log(
    trace: &Trace,
    state: &mut State,
    counts: &Counts,
    world: &World,
    (told, at, value, flags): (Told, u64, u64, u32),
) {
    let Some(all) = observations() else { return };
    let first = all.records.as_ptr() as usize;
    let record = ((&raw const *counts.record) as usize).wrapping_sub(first)
        / size_of::<sweetspot_core::observe::Record>();
    let line =
        |told, at, value, flags, weight, stream| Line { told, stream, at, value, flags, weight };
    if state.stream == 0 || state.logged_record != record as u32 {
        let is_new = state.stream == 0;
        if is_new {
            state.stream = trace.streams.fetch_add(1, Relaxed) + 1;
        }
        state.logged_record = record as u32;
        let first = all.processes.as_ptr() as usize;
        let process = (PROCESS.load(Relaxed) as usize).wrapping_sub(first)
            / size_of::<sweetspot_core::observe::Process>();
        let outside = if state.shadow.is_from_outside() { FROM_OUTSIDE } else { 0 };
        let process = process.min(PROCESSES_MAX - 1) as u64;
        trace.log(&line(Told::Begin, record as u64, process | outside, 0, 1, state.stream));
        if is_new && state.shadow.passes_through() {
            trace.log(&line(Told::Refuse, 0, state.shadow.why(), 0, 1, state.stream));
        }
    }
    let acquired = if KNOWN_ACQUIRES.load(Relaxed) == world.acquires { 0 } else { ACQUIRED };
    let released = if KNOWN_RELEASES.load(Relaxed) == world.releases { 0 } else { RELEASED };
    know(world);
    // There is one end.
    let weight = if told == Told::End { 1 } else { state.weight };
    trace.log(&line(told, at, value, flags | acquired | released, weight, state.stream));
}

//! `profile --record`: what a shadow was told, call by call, so that shadows of other sizes can be
//! told the same afterwards.
//!
//! A fixed table of [`Event`]s lies behind the counters of `observe`, for all processes together: who
//! logs takes the next place. Only calls that are followed closely are logged, so each carries a
//! *weight*, the number of calls that it stands for; the fuller the table, the fewer are followed.
//!
//! Invariant: an event is complete once its kind is stored, which comes last; a place whose process
//! died before that stays empty.

use core::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use crate::observe::{OBSERVATIONS_AT, Observations};

/// Where it begins, in bytes from the start of the ledger's file: behind the counters, on a page.
pub const TRACE_AT: u64 =
    (OBSERVATIONS_AT + size_of::<Observations>() as u64).next_multiple_of(1 << 16);
/// Events that there is room for: 24 MiB.
pub const EVENTS_MAX: usize = 1 << 20;

/// What an open file description was told. What `at` and `value` mean is said with each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Told {
    /// Its calls are followed from here on. `at`: the index of its record; `value`: the process, and
    /// [`FROM_OUTSIDE`].
    Begin = 1,
    /// `at`: where it began; `value`: bytes asked for, and in the upper half bytes done.
    Read,
    Write,
    /// A seek that only sets or asks the position. `at`: the answer.
    Seek,
    /// The kernel is about to use offset or content.
    HandOver,
    /// It passes through for good. `value`: the bit of the reason.
    Refuse,
    /// Reads have earned a window. `at`: the size of the file.
    Window,
    /// Writes have earned a handle, and wait at their position. `at`: the size of the file.
    Handle,
    /// The same with append placement: at the end of the file, or at an offset that others share.
    HandleToAppend,
    /// Writes never wait. `value`: the bit of the reason.
    RefuseWrites,
    /// The description is closed.
    End,
    /// What earlier runs have told of its file system: words of [`crate::cost::Cost`]. `at`: of reads;
    /// `value`: of writes.
    Costs,
    /// While nothing waits. `value`: whether its writes are appended from now on.
    Placed,
    /// `value`: whether the file was changed lately, which is no more as it was.
    Times,
    /// No window of it opens any more.
    NoWindows,
}

impl Told {
    /// All of them, in the order of their numbers, from 1.
    pub const ALL: [Told; 15] = [
        Told::Begin,
        Told::Read,
        Told::Write,
        Told::Seek,
        Told::HandOver,
        Told::Refuse,
        Told::Window,
        Told::Handle,
        Told::HandleToAppend,
        Told::RefuseWrites,
        Told::End,
        Told::Costs,
        Told::Placed,
        Told::Times,
        Told::NoWindows,
    ];
}

/// In `value` of [`Told::Begin`]: it was open before the program started.
pub const FROM_OUTSIDE: u64 = 1 << 32;

/// Since the last event of the process there was an acquire point that no shadow knows of.
pub const ACQUIRED: u32 = 1;
/// The same for a release point.
pub const RELEASED: u32 = 2;
/// Calls on the description were left out before this one.
pub const RESUMED: u32 = 4;
/// A call of a kind that the engine hands over: a vector, a write at a position, a seek from the end.
pub const HANDED: u32 = 8;
/// A call that C's stdio made.
pub const BY_STDIO: u32 = 16;

/// A call that named its place.
pub const POSITIONED: u32 = 32;

/// One thing that a description was told.
#[repr(C)]
pub struct Event {
    pub at: AtomicU64,
    pub value: AtomicU64,
    /// The description, numbered over all processes in the order in which they began.
    pub stream: AtomicU32,
    /// A [`Told`] in 8 bits (0: not complete), [`ACQUIRED`] and its like in 8, the weight in 16.
    pub what: AtomicU32,
}

/// Everything that was logged.
#[repr(C)]
pub struct Trace {
    /// Places taken; may run past [`EVENTS_MAX`], by those that found none.
    pub used: AtomicU64,
    /// Streams that began.
    pub streams: AtomicU32,
    _reserved: AtomicU32,
    pub events: [Event; EVENTS_MAX],
}

/// An [`Event`] as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    pub told: Told,
    pub stream: u32,
    pub at: u64,
    pub value: u64,
    /// Bits: [`ACQUIRED`], [`RELEASED`] and those below them.
    pub flags: u32,
    /// Calls that it stands for.
    pub weight: u32,
}

impl Trace {
    /// Logs an event, if there is room.
    pub fn log(&self, line: &Line) {
        let place = self.used.fetch_add(1, Relaxed) as usize;
        if let Some(event) = self.events.get(place) {
            event.write(line);
        }
    }

    /// How many times as many calls should be left out, so that a long run finds room: 1 while half of
    /// the table is free, then twice as many with each eighth.
    pub fn thinning(&self) -> u32 {
        let eighths = self.used.load(Relaxed) * 8 / EVENTS_MAX as u64;
        1 << eighths.saturating_sub(3).min(5)
    }
}

impl Event {
    fn write(&self, line: &Line) {
        self.at.store(line.at, Relaxed);
        self.value.store(line.value, Relaxed);
        self.stream.store(line.stream, Relaxed);
        let weight = line.weight.min(0xffff);
        self.what.store(line.told as u32 | line.flags << 8 | weight << 16, Release);
    }

    /// Its values; `None`: it is not complete, or no event.
    pub fn read(&self) -> Option<Line> {
        let what = self.what.load(Acquire);
        let told = Told::ALL.get((what as usize & 0xff).checked_sub(1)?)?;
        Some(Line {
            told: *told,
            stream: self.stream.load(Relaxed),
            at: self.at.load(Relaxed),
            value: self.value.load(Relaxed),
            flags: what >> 8 & 0xff,
            weight: what >> 16,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_they_were_logged() {
        let event = Event {
            at: AtomicU64::new(0),
            value: AtomicU64::new(0),
            stream: AtomicU32::new(0),
            what: AtomicU32::new(0),
        };
        assert_eq!(event.read(), None);
        for told in Told::ALL {
            let flags = RESUMED | BY_STDIO;
            let line =
                Line { told, stream: 9, at: u64::MAX, value: 1 << 40, flags, weight: 0xffff };
            event.write(&line);
            assert_eq!(event.read(), Some(line));
            event.write(&Line { weight: 1 << 20, ..line });
            assert_eq!(event.read(), Some(line), "not more than there is room for");
        }
        event.what.store(Told::ALL.len() as u32 + 1, Relaxed);
        assert_eq!(event.read(), None);
    }
}

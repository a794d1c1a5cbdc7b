//! What `profile --record` keeps: a profile, and the calls that were followed closely, one by one, so
//! that every other buffer can be tried on them afterwards (`replay`).
//!
//! A call is five small numbers, most of them the same as before.

use super::data::Profile;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use sweetspot_core::trace::{Line, Told};

/// The version of the form.
pub const SCHEMA: u32 = 1;

/// A recorded run.
#[derive(Serialize, Deserialize)]
pub struct Recording {
    pub sweetspot_recording: u32,
    /// Events that found no room.
    pub lost: u64,
    /// For each file of the profile the number by which events know it.
    pub files: Vec<usize>,
    events: Vec<Event>,
    pub profile: Profile,
}

/// A [`Line`]: its stream; what was told, with flags and weight; where, as the distance from where the
/// last transfer of the stream ended; the two halves of its value.
#[derive(Serialize, Deserialize)]
struct Event(u32, u32, i64, u32, u32);

/// Where each stream is, as far as events have told.
#[derive(Default)]
struct Positions(HashMap<u32, u64>);

impl Positions {
    /// Where the stream was before this event.
    fn before(&self, stream: u32) -> u64 {
        self.0.get(&stream).copied().unwrap_or(0)
    }

    fn advance(&mut self, line: &Line) {
        if matches!(line.told, Told::Read | Told::Write) {
            self.0.insert(line.stream, line.at.wrapping_add(line.value >> 32));
        }
    }
}

impl Recording {
    /// Keeps a profile and its calls.
    pub fn new(profile: Profile, lines: &[Line], lost: u64) -> Recording {
        let mut positions = Positions::default();
        let event = |line: &Line| {
            let what = line.told as u32 | line.flags << 8 | line.weight << 16;
            let distance = line.at.wrapping_sub(positions.before(line.stream)).cast_signed();
            positions.advance(line);
            Event(line.stream, what, distance, line.value as u32, (line.value >> 32) as u32)
        };
        Recording {
            sweetspot_recording: SCHEMA,
            lost,
            files: profile.files.iter().map(|file| file.record).collect(),
            events: lines.iter().map(event).collect(),
            profile,
        }
    }

    /// The calls that were followed, and what else buffers were told, in order.
    pub fn lines(&self) -> Vec<Line> {
        let mut positions = Positions::default();
        let line = |event: &Event| {
            let Event(stream, what, distance, low, high) = *event;
            let told = *Told::ALL.get((what as usize & 0xff).checked_sub(1)?)?;
            let at = positions.before(stream).wrapping_add_signed(distance);
            let value = u64::from(low) | u64::from(high) << 32;
            let (flags, weight) = (what >> 8 & 0xff, what >> 16);
            let line = Line { told, stream, at, value, flags, weight };
            positions.advance(&line);
            Some(line)
        };
        self.events.iter().filter_map(line).collect()
    }
}

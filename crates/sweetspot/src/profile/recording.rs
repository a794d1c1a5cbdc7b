//! What `profile --record` keeps: a profile, and the calls that were followed closely, one by one, so
//! that every other buffer can be tried on them afterwards (`replay`).
//!
//! The file is JSON, compressed by gzip: `zcat FILE` shows it. A call is five small numbers, most of
//! them the same as before.

use crate::named;
use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use sweetspot_core::trace::{Line, Told};
use sweetspot_report::failure::Failure;
use sweetspot_report::profile::data::Profile;
use sweetspot_report::shell::quoted;
use sweetspot_report::shown::shown;

/// How every such file begins: a header of gzip that says what is in it (RFC 1952: a comment, no
/// time, from any system).
pub const START: &[u8] = b"\x1f\x8b\x08\x10\0\0\0\0\0\xffsweetspot recording\0";
const COMMENT: &str = "sweetspot recording";
/// The version of the form.
const SCHEMA: u32 = 1;
/// A recording of so many bytes is none of ours.
const BYTES_MAX: u64 = 1 << 30;

/// A recorded run.
#[derive(Serialize, Deserialize)]
pub struct Recording {
    sweetspot_recording: u32,
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

    /// The file's content.
    ///
    /// # Errors
    /// Never in fact: it is written to memory.
    pub fn bytes(&self) -> std::io::Result<Vec<u8>> {
        let into = GzBuilder::new().comment(COMMENT).operating_system(255);
        let mut writer = into.write(Vec::new(), Compression::default());
        serde_json::to_writer(&mut writer, self)?;
        writer.write_all(b"\n")?;
        writer.finish()
    }

    /// Reads a file that `profile --record` wrote.
    ///
    /// # Errors
    /// Where it is none, or one of another version.
    pub fn read(path: &Path) -> Result<Recording, Failure> {
        let shown = shown(path);
        // What holds something else would not be overwritten.
        let new = if path.exists() { Path::new("job.recording") } else { path };
        let failure = |cause: String| {
            Failure::own(format!("{shown}: {cause}"))
                .next(format!("make one: sweetspot profile --record {} -- CMD", quoted(new)))
        };
        let file = named::open(path).map_err(|error| failure(error.to_string()))?;
        let mut reader = BufReader::new(file);
        let mut start = [0; START.len()];
        if reader.read_exact(&mut start).is_err() || start != START {
            return Err(failure("no recording of sweetspot profile".to_string()));
        }
        let content = GzDecoder::new(start.chain(reader)).take(BYTES_MAX);
        let recording: Recording = serde_json::from_reader(BufReader::new(content))
            .map_err(|error| failure(format!("damaged, or of another version ({error})")))?;
        if recording.sweetspot_recording != SCHEMA {
            let version = recording.sweetspot_recording;
            return Err(failure(format!("of version {version}, and only {SCHEMA} is known")));
        }
        Ok(recording)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(told: Told, stream: u32, at: u64, value: u64) -> Line {
        Line { told, stream, at, value, flags: stream & 3, weight: 32 * stream }
    }

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let lines = [
            line(Told::Begin, 1, 7, 3),
            line(Told::Read, 1, 0, 200 | 200 << 32),
            line(Told::Begin, 2, 8, 3 | sweetspot_core::trace::FROM_OUTSIDE),
            line(Told::Read, 1, 200, 200 | 100 << 32),
            line(Told::Write, 2, u64::MAX - 5, 4096 | 4096 << 32),
            line(Told::Seek, 1, 1 << 40, 0),
            line(Told::Refuse, 1, 0, 1 << 63),
            line(Told::End, 2, 0, 0),
        ];
        let recording = Recording::new(Profile::default(), &lines, 9);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.recording");
        let bytes = recording.bytes().unwrap();
        assert!(bytes.starts_with(START), "{:x?}", &bytes[..40]);
        std::fs::write(&path, &bytes).unwrap();
        let again = Recording::read(&path).unwrap_or_else(|_| panic!("not read"));
        assert_eq!((again.lines(), again.lost), (lines.to_vec(), 9));

        let refused = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            assert!(Recording::read(&path).is_err());
        };
        refused(b"");
        refused(b"{}");
        refused(&bytes[..bytes.len() / 2]);
        refused(START);
    }

    /// A few bytes a call: what is in order costs next to nothing.
    #[test]
    fn a_call_in_order_takes_less_than_three_bytes() {
        let reads = (0..100_000_u64).map(|i| line(Told::Read, 1, i * 200, 200 | 200 << 32));
        let random = (0..100_000_u64)
            .map(|i| line(Told::Read, 2, i.wrapping_mul(0x9e37_79b9) % (1 << 24), 200 | 200 << 32));
        let bytes =
            |lines: Vec<Line>| Recording::new(Profile::default(), &lines, 0).bytes().unwrap().len();
        assert!(bytes(reads.collect()) < 300_000);
        assert!(bytes(random.collect()) < 800_000);
    }
}

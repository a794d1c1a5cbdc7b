//! The file of `profile --record`: JSON, compressed by gzip. `zcat FILE` shows it.

use crate::named;
use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use std::io::{BufReader, Read, Write};
use std::path::Path;
use sweetspot_report::failure::Failure;
use sweetspot_report::profile::recording::{Recording, SCHEMA};
use sweetspot_report::shell::quoted;
use sweetspot_report::shown::shown;

/// How every such file begins: a header of gzip that says what is in it (RFC 1952: a comment, no
/// time, from any system).
pub const START: &[u8] = b"\x1f\x8b\x08\x10\0\0\0\0\0\xffsweetspot recording\0";
const COMMENT: &str = "sweetspot recording";
/// A recording of so many bytes is none of ours.
const BYTES_MAX: u64 = 1 << 30;

/// The content of a recording's file.
///
/// # Errors
/// Never in fact: it is written to memory.
pub fn bytes(recording: &Recording) -> std::io::Result<Vec<u8>> {
    let into = GzBuilder::new().comment(COMMENT).operating_system(255);
    let mut writer = into.write(Vec::new(), Compression::default());
    serde_json::to_writer(&mut writer, recording)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use sweetspot_core::trace::{Line, Told};
    use sweetspot_report::profile::data::Profile;

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
        let content = bytes(&recording).unwrap();
        assert!(content.starts_with(START), "{:x?}", &content[..40]);
        std::fs::write(&path, &content).unwrap();
        let again = read(&path).unwrap_or_else(|_| panic!("not read"));
        assert_eq!((again.lines(), again.lost), (lines.to_vec(), 9));

        let refused = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            assert!(read(&path).is_err());
        };
        refused(b"");
        refused(b"{}");
        refused(&content[..content.len() / 2]);
        refused(START);
    }

    /// A few bytes a call: what is in order costs next to nothing.
    #[test]
    fn a_call_in_order_takes_less_than_three_bytes() {
        let reads = (0..100_000_u64).map(|i| line(Told::Read, 1, i * 200, 200 | 200 << 32));
        let random = (0..100_000_u64)
            .map(|i| line(Told::Read, 2, i.wrapping_mul(0x9e37_79b9) % (1 << 24), 200 | 200 << 32));
        let len =
            |lines: Vec<Line>| bytes(&Recording::new(Profile::default(), &lines, 0)).unwrap().len();
        assert!(len(reads.collect()) < 300_000);
        assert!(len(random.collect()) < 800_000);
    }
}

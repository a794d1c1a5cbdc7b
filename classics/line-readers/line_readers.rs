//! As `LineReaders.java`, with the ladder of line readers of `sweetspot-io`.

use samples::{Samples, program};
use std::process::ExitCode;
use sweetspot_io::lines::{self, Rung};

/// What is known of the lines: the same that the Java program adds up.
#[derive(Default, PartialEq)]
struct Seen {
    lines: u64,
    sum: u64,
}

impl Seen {
    fn add(&mut self, line: &[u8]) {
        self.lines += 1;
        let first = u64::from(line.first().copied().unwrap_or(0));
        let last = u64::from(line.last().copied().unwrap_or(0));
        let looks = line.len() as u64 + (first << 32) + (last << 40);
        self.sum = self.sum.wrapping_add(self.lines.wrapping_mul(looks));
    }
}

/// The rung that corresponds to one of the Java program's.
fn rung(reader: &str) -> Result<Rung, String> {
    Ok(match reader {
        "unbuffered" => Rung::ByteAtATime,
        "buffered" => Rung::SmallBuffer,
        "buffered-8k" => Rung::Buffer8K,
        "reader" => Rung::StringPerLine,
        "own" => Rung::Lines,
        "own-converter" => Rung::LinesLatin1,
        _ => return Err(format!("no reader is named {reader}")),
    })
}

fn main() -> ExitCode {
    program("line-readers READER FILE TIMES", |words| {
        let &[reader, file, times] = words else { return Err("three words".into()) };
        let rung = rung(reader)?;
        let mut samples = Samples::new("ms");
        let mut last: Option<Seen> = None;
        for _ in 0..times.parse::<u32>()? {
            let read = || {
                let mut seen = Seen::default();
                lines::climb(rung, file, &lines::Options::default(), |line| seen.add(line))?;
                Ok::<_, sweetspot_io::Error>(seen)
            };
            let seen = samples.take(read, |_| 1e6)?;
            if last.is_some_and(|last| last != seen) {
                return Err("other lines than the time before".into());
            }
            last = Some(seen);
        }
        samples.report()?;
        let last = last.unwrap_or_default();
        Ok(format!("lines {}\nsum {:016x}\n", last.lines, last.sum))
    })
}

//! As `LineReaders.java`: byte by byte out of buffers of growing size, and with the readers of lines of
//! `sweetspot-io`.

use samples::{Samples, program};
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::process::ExitCode;
use sweetspot_io::lines::{Encoding, Lines, Options};

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

/// Reads all lines in the way of one of the Java program's readers.
fn read(reader: &str, file: &str) -> Result<Seen, Box<dyn Error>> {
    let mut seen = Seen::default();
    let options = Options::new();
    match reader {
        "unbuffered" => byte_by_byte(file, 1, |line| seen.add(line))?,
        "buffered" => byte_by_byte(file, 2 << 10, |line| seen.add(line))?,
        "buffered-8k" => byte_by_byte(file, 8 << 10, |line| seen.add(line))?,
        "reader" => byte_by_byte(file, 8 << 10, |line| {
            seen.add(black_box(String::from_utf8_lossy(line).into_owned()).as_bytes());
        })?,
        "own" => Lines::open(file, &options)?.for_each_line(|line| seen.add(line))?,
        "own-converter" => Lines::open(file, &options)?
            .for_each_text(Encoding::Latin1, |line| seen.add(line.as_bytes()))?,
        _ => return Err(format!("no reader is named {reader}").into()),
    }
    Ok(seen)
}

fn byte_by_byte(
    file: &str,
    buffer_bytes: usize,
    mut each: impl FnMut(&[u8]),
) -> std::io::Result<()> {
    let (mut file, mut buffer) = (File::open(file)?, vec![0; buffer_bytes]);
    // Whether an LF would be the second half of a pair.
    let (mut line, mut after_cr) = (Vec::new(), false);
    loop {
        let len = file.read(&mut buffer)?;
        for &byte in &buffer[..len] {
            let pair = std::mem::replace(&mut after_cr, false) && byte == b'\n';
            match byte {
                b'\n' if pair => {}
                b'\n' | b'\r' => {
                    each(&line);
                    line.clear();
                    after_cr = byte == b'\r';
                }
                _ => line.push(byte),
            }
        }
        if len == 0 {
            break;
        }
    }
    if !line.is_empty() {
        each(&line);
    }
    Ok(())
}

fn main() -> ExitCode {
    program("line-readers READER FILE TIMES", |words| {
        let &[reader, file, times] = words else { return Err("three words".into()) };
        let mut samples = Samples::new("ms");
        let mut last: Option<Seen> = None;
        for _ in 0..times.parse::<u32>()? {
            let seen = samples.take(|| read(reader, file), |_| 1e6)?;
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

//! `work lines --reader`: the ladder of ever faster ways to read lines, from a system call for each
//! byte up to the library's own, so that the steps can be measured. All give the same lines.

use crate::explain::{cannot, explain, explain_wrapped};
use std::io::BufRead;
use sweetspot_io::lines::{Encoding, Ends, Lines, Options};
use sweetspot_io::{BufferSize, ErrorKind, Input, ReadOptions, Reader, Strategy};
use sweetspot_report::failure::Failure;

/// A way to read lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// A system call for each byte.
    ByteAtATime,
    /// Byte by byte out of a buffer of 2 KiB, which was common once.
    SmallBuffer,
    /// Byte by byte out of a buffer of 8 KiB, which is common now.
    Buffer8K,
    /// A buffer of 8 KiB, and a new `String` for each line, as [`BufRead::lines`] makes it. Bytes that
    /// are not UTF-8 are replaced.
    StringPerLine,
    /// The library's reader.
    Lines,
    /// The library's reader, with decoding from Latin-1.
    LinesLatin1,
}

impl Rung {
    /// The rung of a name that `--reader` takes.
    pub fn named(name: &str) -> Option<Rung> {
        Some(match name {
            "byte" => Rung::ByteAtATime,
            "2k" => Rung::SmallBuffer,
            "8k" => Rung::Buffer8K,
            "string" => Rung::StringPerLine,
            "lines" => Rung::Lines,
            "latin1" => Rung::LinesLatin1,
            _ => return None,
        })
    }
}

/// Reads all lines of `input` in the way of `rung` and calls `each` for every one. The lower rungs
/// have a buffer of their own and use of `options` nothing but what ends a line and how long it may
/// be. The last rung gives each line as UTF-8.
///
/// # Errors
/// Where reading fails, or a line is too long.
pub fn climb(
    rung: Rung,
    input: Input,
    options: &Options,
    mut each: impl FnMut(&[u8]),
) -> Result<(), Failure> {
    match rung {
        Rung::ByteAtATime => byte_by_byte(input, options, 1, each),
        Rung::SmallBuffer => byte_by_byte(input, options, 2 << 10, each),
        Rung::Buffer8K => byte_by_byte(input, options, 8 << 10, each),
        Rung::StringPerLine => byte_by_byte(input, options, 8 << 10, |line| {
            let line = std::hint::black_box(String::from_utf8_lossy(line).into_owned());
            each(line.as_bytes());
        }),
        Rung::Lines => {
            let mut lines = Lines::open(input, options).map_err(explain)?;
            lines.for_each_line(each).map_err(explain)
        }
        Rung::LinesLatin1 => {
            let mut lines = Lines::open(input, options).map_err(explain)?;
            let each = |line: &str| each(line.as_bytes());
            lines.for_each_text(Encoding::Latin1, each).map_err(explain)
        }
    }
}

fn byte_by_byte(
    input: Input,
    options: &Options,
    buffer_bytes: u32,
    mut each: impl FnMut(&[u8]),
) -> Result<(), Failure> {
    let name = input.name().to_owned();
    let buffer_size = BufferSize::Bytes(buffer_bytes);
    let read = ReadOptions::new().strategy(Strategy::Streaming).buffer_size(buffer_size);
    let mut reader = Reader::open(input, &read).map_err(explain)?;
    let mut line = Vec::new();
    let mut at = 0;
    // Whether an LF would be the second half of a pair.
    let mut after_cr = false;
    loop {
        let block = reader.fill_buf().map_err(explain_wrapped)?;
        if block.is_empty() {
            break;
        }
        for &byte in block {
            at += 1;
            let pair = std::mem::replace(&mut after_cr, false) && byte == b'\n';
            let is_end = byte == b'\n' || byte == b'\r' && options.ends == Ends::Any;
            if is_end && !pair {
                each(&line);
                line.clear();
                after_cr = byte == b'\r';
            } else if !pair {
                line.push(byte);
            }
            if line.len() > options.line_bytes_max {
                let limit_bytes = options.line_bytes_max;
                let kind = ErrorKind::LineTooLong { at: at - line.len() as u64, limit_bytes };
                return Err(cannot("read the lines of", &name, &kind));
            }
        }
        let len = block.len();
        reader.consume(len);
    }
    if !line.is_empty() {
        each(&line);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweetspot_io::lines::Batch;

    const NAMES: [&str; 6] = ["byte", "2k", "8k", "string", "lines", "latin1"];

    fn input(content: &[u8]) -> Input {
        Input::reader("memory", std::io::Cursor::new(content.to_vec()))
    }

    /// What a rung makes of a line's bytes.
    fn seen(rung: Rung, line: &[u8]) -> Vec<u8> {
        match rung {
            Rung::StringPerLine => String::from_utf8_lossy(line).into_owned().into_bytes(),
            Rung::LinesLatin1 => {
                line.iter().map(|&byte| char::from(byte)).collect::<String>().into_bytes()
            }
            _ => line.to_vec(),
        }
    }

    #[test]
    fn rungs_give_the_same_lines() {
        // Pairs at every place of the buffers' ends.
        let long = |len: usize| [&b"x".repeat(len)[..], b"\r\ny\rz\n"].concat();
        let lengths = [2046, 2047, 2048, 8190, 8191, 8192];
        let contents =
            [&b""[..], b"\r", b"one\ntwo\r\nthree\rfour", b"\r\n\n\r\r\n", b"\xE9\n\xC3"];
        for content in contents.map(<[u8]>::to_vec).into_iter().chain(lengths.map(long)) {
            for ends in [Ends::Any, Ends::Lf] {
                let options = Options::new().ends(ends);
                for rung in NAMES.map(|name| Rung::named(name).unwrap()) {
                    let mut found = Vec::new();
                    climb(rung, input(&content), &options, |line| found.push(line.to_vec()))
                        .unwrap();
                    let expected: Vec<_> =
                        Batch::new(&content, ends).iter().map(|line| seen(rung, line)).collect();
                    assert_eq!(found, expected, "{rung:?}");
                }
            }
        }
        assert_eq!(Rung::named("other"), None);
    }

    #[test]
    fn every_rung_keeps_the_limit_of_a_line() {
        let options = Options::new().line_bytes_max(3);
        for rung in NAMES.map(|name| Rung::named(name).unwrap()) {
            climb(rung, input(b"one\nxyz"), &options, |_| {}).unwrap();
            let mut lines = 0;
            let failure =
                climb(rung, input(b"one\nthree\n"), &options, |_| lines += 1).unwrap_err();
            assert_eq!(lines, 1, "{rung:?}");
            let what = "cannot read the lines of memory: \
                        the line that begins at byte 4 is longer than 3 bytes";
            assert_eq!(failure.what(), what, "{rung:?}");
        }
    }
}

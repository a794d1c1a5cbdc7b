//! The ladder of ever faster line readers, from a system call for each byte up to this crate's own,
//! so that the steps can be measured. All give the same lines.

use super::{Encoding, Ends, Lines, Options};
use crate::error::{Error, ErrorKind, Result};
use crate::input::Input;

/// A way to read lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rung {
    /// A system call for each byte.
    ByteAtATime,
    /// Byte by byte out of a buffer of 2 KiB, which was common once.
    SmallBuffer,
    /// Byte by byte out of a buffer of 8 KiB, which is common now.
    Buffer8K,
    /// A buffer of 8 KiB, and a new `String` for each line, as [`std::io::BufRead::lines`] makes it.
    /// Bytes that are not UTF-8 are replaced.
    StringPerLine,
    /// This crate's reader.
    Lines,
    /// This crate's reader, with decoding from Latin-1.
    LinesLatin1,
}

impl Rung {
    /// All of them, the slowest first.
    pub const ALL: [Rung; 6] = [
        Rung::ByteAtATime,
        Rung::SmallBuffer,
        Rung::Buffer8K,
        Rung::StringPerLine,
        Rung::Lines,
        Rung::LinesLatin1,
    ];

    /// Its name, as `sweetspot work lines --reader` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Rung::ByteAtATime => "byte",
            Rung::SmallBuffer => "2k",
            Rung::Buffer8K => "8k",
            Rung::StringPerLine => "string",
            Rung::Lines => "lines",
            Rung::LinesLatin1 => "latin1",
        }
    }

    /// The rung of that name.
    pub fn named(name: &str) -> Option<Rung> {
        Rung::ALL.into_iter().find(|rung| rung.name() == name)
    }
}

/// Reads all lines of `input` in the way of `rung` and calls `each` for every one. The lower rungs
/// have a buffer of their own and use of `options` nothing but [`Options::ends`] and
/// [`Options::line_bytes_max`]. The last rung gives each line as UTF-8.
///
/// ```
/// use sweetspot_io::{Input, lines::{self, Rung}};
///
/// for rung in Rung::ALL {
///     let input = Input::reader("memory", &b"one\r\ntwo\n"[..]);
///     let mut lines = Vec::new();
///     lines::climb(rung, input, &lines::Options::default(), |line| lines.push(line.to_vec()))?;
///     assert_eq!(lines, [b"one", b"two"]);
/// }
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
///
/// # Errors
/// Where reading fails, or a line is too long.
pub fn climb(
    rung: Rung,
    input: impl Into<Input>,
    options: &Options,
    mut each: impl FnMut(&[u8]),
) -> Result<()> {
    let input = input.into();
    match rung {
        Rung::ByteAtATime => byte_by_byte(input, options, 1, each),
        Rung::SmallBuffer => byte_by_byte(input, options, 2 << 10, each),
        Rung::Buffer8K => byte_by_byte(input, options, 8 << 10, each),
        Rung::StringPerLine => byte_by_byte(input, options, 8 << 10, |line| {
            let line = std::hint::black_box(String::from_utf8_lossy(line).into_owned());
            each(line.as_bytes());
        }),
        Rung::Lines => Lines::open(input, options)?.for_each_line(each),
        Rung::LinesLatin1 => Lines::open(input, options)?
            .for_each_text(Encoding::Latin1, |line| each(line.as_bytes())),
    }
}

fn byte_by_byte(
    input: Input,
    options: &Options,
    buffer_bytes: usize,
    mut each: impl FnMut(&[u8]),
) -> Result<()> {
    let mut opened = input.open()?;
    let mut buffer = vec![0; buffer_bytes];
    let mut line = Vec::new();
    let mut at = 0;
    // Whether an LF would be the second half of a pair.
    let mut after_cr = false;
    loop {
        let len = opened.source.read(&mut buffer).map_err(Error::system("read", &opened.name))?;
        for &byte in &buffer[..len] {
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
                return Err(Error::new("read the lines of", &opened.name, kind));
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

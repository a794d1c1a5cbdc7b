//! Lines as text, and lines one after another.

use super::{Batch, Ends, latin1, scan};
use crate::error::ErrorKind;
use crate::flow::Flow;
use std::ops::ControlFlow;

/// How bytes stand for characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// ISO 8859-1: each byte is the character of that number. Nothing is invalid.
    Latin1,
    /// UTF-8, and what is done with bytes that are not.
    Utf8(Invalid),
}

/// What is done with bytes that are no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Invalid {
    /// An error, which says where they are.
    Error,
    /// U+FFFD in their place, as [`String::from_utf8_lossy`] does it.
    Replace,
}

/// Decodes a batch and calls `each` for every line of it, until it stops; `buffer` is used again by the
/// next one. Returns what `each` did last, and how many bytes of the batch the visited lines have.
pub(super) fn for_each<R: Flow>(
    batch: &Batch<'_>,
    encoding: Encoding,
    buffer: &mut String,
    mut each: impl FnMut(&str) -> R,
) -> Result<(R, usize), ErrorKind> {
    let text = match encoding {
        Encoding::Latin1 => {
            buffer.clear();
            latin1::append_latin1(buffer, batch.bytes());
            &**buffer
        }
        Encoding::Utf8(invalid) => match simdutf8::compat::from_utf8(batch.bytes()) {
            Ok(text) => text,
            Err(_) if invalid == Invalid::Replace => {
                *buffer = String::from_utf8_lossy(batch.bytes()).into_owned();
                buffer
            }
            Err(error) => {
                let valid = &batch.bytes()[..error.valid_up_to()];
                // A CR before the bad byte ends a line: that byte is no LF.
                let end = scan::last_end(valid, batch.ends).map_or(0, |end| end + 1);
                let whole = Batch { bytes: &valid[..end], ..*batch };
                let (flow, visited) = for_each(&whole, encoding, buffer, each)?;
                if !flow.goes_on() {
                    return Ok((flow, visited));
                }
                return Err(ErrorKind::NotUtf8 { at: batch.at() + error.valid_up_to() as u64 });
            }
        },
    };
    let (flow, visited) = scan::for_each(text.as_bytes(), batch.ends, |start, end| {
        // SAFETY: line ends are ASCII, so the text is cut at the borders of characters.
        #[allow(unsafe_code)]
        each(unsafe { text.get_unchecked(start..end) })
    });
    if flow.goes_on() {
        return Ok((flow, batch.bytes().len()));
    }
    // The text has as many lines as the bytes, but not as many bytes.
    let lines = scan::count(&text.as_bytes()[..visited], batch.ends);
    Ok((flow, bytes_of_lines(batch, lines)))
}

/// How many bytes the first `lines` lines of a batch have, which are one at least.
fn bytes_of_lines(batch: &Batch<'_>, mut lines: u64) -> usize {
    let count_down = |_, _| {
        lines -= 1;
        if lines == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    scan::for_each(batch.bytes(), batch.ends, count_down).1
}

/// The lines of a [`Batch`], one after another, without their ends.
#[derive(Clone, Debug)]
pub struct LineCursor<'a> {
    rest: &'a [u8],
    ends: Ends,
}

impl<'a> LineCursor<'a> {
    pub(super) fn new(rest: &'a [u8], ends: Ends) -> LineCursor<'a> {
        LineCursor { rest, ends }
    }
}

impl<'a> Iterator for LineCursor<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let (end, next) =
            scan::first_end(self.rest, self.ends).unwrap_or((self.rest.len(), self.rest.len()));
        let line = &self.rest[..end];
        self.rest = &self.rest[next..];
        Some(line)
    }
}

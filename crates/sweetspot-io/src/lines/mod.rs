//! Reads lines without copying them.
//!
//! A line ends with LF, CR or CRLF, all three in one file if need be, or with the end of the input.
//! Lines are slices of the buffer, without their line end. There are three ways to get them:
//!
//! - [`Lines::for_each_line`] calls a function for each: the fastest.
//! - [`Lines::next_batch`] gives as many whole lines as the buffer holds: [`Batch`].
//! - [`Lines::next_line`] gives one.
//!
//! ```
//! use sweetspot_io::lines::{self, Lines};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("words");
//! std::fs::write(&path, "one\ntwo\r\nthree\rfour").unwrap();
//!
//! let mut longest = 0;
//! Lines::open(&path, &lines::Options::default())?
//!     .for_each_line(|line| longest = longest.max(line.len()))?;
//! assert_eq!(longest, "three".len());
//! # Ok::<(), sweetspot_io::Error>(())
//! ```
//!
//! A line that is longer than the buffer makes the buffer grow, up to [`Options::line_bytes_max`].
//! A longer line is an error, whatever the buffer; all lines before it were delivered.
//!
//! Not here: writing lines (any [`std::io::BufWriter`] does it well), and several threads
//! ([`each_line`](crate::each_line)).

mod latin1;
pub(crate) mod scan;
mod text;

pub use latin1::append_latin1;
pub use text::{Encoding, Invalid, LineCursor};

use crate::error::{Error, ErrorKind, Result};
use crate::flow::Flow;
use crate::input::{Input, Opened};
use crate::options::setters;
use crate::strategy::{Blocks, Choice, ReadOptions};
use std::ops::Range;

/// The longest line that is read unless the options say otherwise, in bytes: a line of 64 MiB is
/// rather a file that has no lines.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// What ends a line.
///
/// ```
/// use sweetspot_io::lines::{Batch, Ends};
///
/// let text = b"one\rtwo\r\n";
/// assert!(Batch::new(text, Ends::Any).iter().eq([b"one", b"two"]));
/// assert!(Batch::new(text, Ends::Lf).iter().eq([b"one\rtwo\r"]));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ends {
    /// LF, CR, or CR followed by LF, also mixed.
    #[default]
    Any,
    /// LF only. A CR before it belongs to the line, as `wc` and `grep` see it.
    Lf,
}

/// How to read lines.
///
/// ```
/// use sweetspot_io::{BufferSize, ReadOptions};
/// use sweetspot_io::lines::{Ends, Options};
///
/// let read = ReadOptions::new().buffer_size(BufferSize::Bytes(1 << 20));
/// let options = Options::new().read(read).ends(Ends::Lf).line_bytes_max(1 << 16);
/// assert_eq!(options.ends, Ends::Lf);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Strategy, buffer and hint.
    pub read: ReadOptions,
    /// What ends a line.
    pub ends: Ends,
    /// The longest line allowed, in bytes without its end.
    pub line_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        let read = ReadOptions::default();
        Options { read, ends: Ends::Any, line_bytes_max: LINE_BYTES_MAX }
    }
}

impl Options {
    /// Any line ends, and lines of up to [`LINE_BYTES_MAX`].
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets strategy, buffer and hint.
        read: ReadOptions,
        /// Sets what ends a line.
        ends: Ends,
        /// Sets the longest line allowed, in bytes without its end.
        line_bytes_max: usize,
    }
}

/// Reads lines; see the [module](self).
#[derive(Debug)]
pub struct Lines {
    blocks: Blocks,
    options: Options,
    /// How many bytes of the block were delivered in batches.
    delivered: usize,
    /// Up to where `next_line` and `next_batch` have given them out.
    line_at: usize,
    ended: bool,
    /// What is wrong with the line after the ones delivered.
    failed: Option<Error>,
}

impl Lines {
    /// Opens `input`.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn open(input: impl Into<Input>, options: &Options) -> Result<Lines> {
        Lines::new(input.into().open()?, options)
    }

    pub(crate) fn new(opened: Opened, options: &Options) -> Result<Lines> {
        let blocks = Blocks::new(opened, &options.read, 1)?;
        let options = *options;
        Ok(Lines { blocks, options, delivered: 0, ended: false, line_at: 0, failed: None })
    }

    /// How the input is read, and why so.
    pub fn choice(&self) -> Choice {
        self.blocks.choice()
    }

    /// The next lines, as many as the buffer holds; `None` at the end. Where [`Lines::next_line`]
    /// has taken some of a batch, this gives the rest of it.
    ///
    /// ```
    /// use sweetspot_io::{Input, lines::{self, Lines}};
    ///
    /// let input = Input::reader("memory", &b"one\n\nthree"[..]);
    /// let mut lines = Lines::open(input, &lines::Options::default())?;
    /// let mut found = Vec::new();
    /// while let Some(batch) = lines.next_batch()? {
    ///     for line in batch.iter() {
    ///         found.push(line.to_vec());
    ///     }
    /// }
    /// assert_eq!(found, [&b"one"[..], b"", b"three"]);
    /// # Ok::<(), sweetspot_io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Where reading fails, or a line is too long.
    pub fn next_batch(&mut self) -> Result<Option<Batch<'_>>> {
        if self.line_at == self.delivered && !self.advance()? {
            return Ok(None);
        }
        let start = std::mem::replace(&mut self.line_at, self.delivered);
        Ok(Some(self.batch(start)))
    }

    /// The next line, without its end; `None` at the end of the input.
    ///
    /// ```
    /// use sweetspot_io::{Input, lines::{self, Lines}};
    ///
    /// let input = Input::reader("memory", &b"title\r\nbody\r\n"[..]);
    /// let mut lines = Lines::open(input, &lines::Options::default())?;
    /// assert_eq!(lines.next_line()?, Some(&b"title"[..]));
    /// assert_eq!(lines.next_line()?, Some(&b"body"[..]));
    /// assert_eq!(lines.next_line()?, None);
    /// # Ok::<(), sweetspot_io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Where reading fails, or the line is too long.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>> {
        if self.line_at == self.delivered && !self.advance()? {
            return Ok(None);
        }
        let start = self.line_at;
        let rest = &self.blocks.block()[start..self.delivered];
        let (end, next) =
            scan::first_end(rest, self.options.ends).unwrap_or((rest.len(), rest.len()));
        self.line_at += next;
        Ok(Some(&self.blocks.block()[start..start + end]))
    }

    /// Calls `each` for every line that is left, or until it stops: [`Flow`] says how, and what comes
    /// back then. The lines after the one where it stopped are still there.
    ///
    /// ```
    /// use std::ops::ControlFlow::{self, Break, Continue};
    /// use sweetspot_io::{Input, lines::{self, Lines}};
    ///
    /// let message = &b"From: ada\nTo: grace\n\nHello!\n"[..];
    /// let mut lines = Lines::open(Input::reader("memory", message), &lines::Options::default())?;
    /// let mut headers = 0;
    /// let _ = lines.for_each_line(|line| -> ControlFlow<()> {
    ///     headers += u32::from(!line.is_empty());
    ///     if line.is_empty() { Break(()) } else { Continue(()) }
    /// })?;
    /// assert_eq!(headers, 2);
    /// assert_eq!(lines.next_line()?, Some(&b"Hello!"[..]));
    /// # Ok::<(), sweetspot_io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Where reading fails, or a line is too long. `each` was called for all lines before.
    pub fn for_each_line<R: Flow>(&mut self, mut each: impl FnMut(&[u8]) -> R) -> Result<R> {
        while let Some(batch) = self.next_batch()? {
            let (flow, visited) = batch.visit(&mut each);
            if !flow.goes_on() {
                let left = batch.bytes.len() - visited;
                self.line_at = self.delivered - left;
                return Ok(flow);
            }
        }
        Ok(R::GOES_ON)
    }

    /// Calls `each` for every line that is left, decoded, or until it [stops](Flow). The text of a
    /// batch is decoded at once.
    ///
    /// ```
    /// use sweetspot_io::{Input, lines::{self, Encoding, Lines}};
    ///
    /// let input = Input::reader("memory", &b"caf\xE9\nol\xE9\n"[..]);
    /// let mut lines = Lines::open(input, &lines::Options::default())?;
    /// let mut found = Vec::new();
    /// lines.for_each_text(Encoding::Latin1, |line| found.push(line.to_owned()))?;
    /// assert_eq!(found, ["café", "olé"]);
    /// # Ok::<(), sweetspot_io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Where reading fails, a line is too long, or a byte is none of the encoding's. `each` was
    /// called for all lines before that byte's.
    pub fn for_each_text<R: Flow>(
        &mut self,
        encoding: Encoding,
        mut each: impl FnMut(&str) -> R,
    ) -> Result<R> {
        let name = self.blocks.name().to_owned();
        let mut buffer = String::new();
        while let Some(batch) = self.next_batch()? {
            let (flow, visited) = text::for_each(&batch, encoding, &mut buffer, &mut each)
                .map_err(|kind| Error::new("decode", &name, kind))?;
            if !flow.goes_on() {
                let left = batch.bytes.len() - visited;
                self.line_at = self.delivered - left;
                return Ok(flow);
            }
        }
        Ok(R::GOES_ON)
    }

    /// How many lines are left. What follows the last line end, if anything, counts as a line,
    /// where `wc -l` counts line ends.
    ///
    /// # Errors
    /// Where reading fails, or a line is too long.
    pub fn count(&mut self) -> Result<u64> {
        let mut lines = 0;
        while let Some(batch) = self.next_batch()? {
            lines += batch.count();
        }
        Ok(lines)
    }

    fn batch(&self, start: usize) -> Batch<'_> {
        let bytes = &self.blocks.block()[start..self.delivered];
        Batch { bytes, at: self.blocks.at() + start as u64, ends: self.options.ends }
    }

    /// Makes `delivered` the end of the next batch. False at the end of the input.
    fn advance(&mut self) -> Result<bool> {
        if let Some(error) = self.failed.take() {
            self.ended = true;
            return Err(error);
        }
        // How many bytes at the front of the block hold no line end.
        let mut searched = 0;
        while !self.ended {
            let keep = self.blocks.block().len() - self.delivered;
            let fresh = self.blocks.advance(keep).inspect_err(|_| self.ended = true)?;
            self.delivered = 0;
            self.line_at = 0;
            self.ended = fresh == 0;
            let block = self.blocks.block();
            let whole = match fresh {
                0 => block.len(),
                _ => match scan::whole_lines(&block[searched..], self.options.ends) {
                    0 => 0,
                    whole => searched + whole,
                },
            };
            // A CR at the end may turn out to be an end.
            searched = block.len() - usize::from(block.last() == Some(&b'\r'));
            let limit = self.options.line_bytes_max;
            if let Some(at) = scan::first_too_long(block, self.options.ends, limit) {
                return self.end_at(at);
            }
            self.delivered = whole;
            if whole > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Delivers the lines before `at`, where one begins that is too long; that is an error after
    /// them.
    fn end_at(&mut self, at: usize) -> Result<bool> {
        let limit_bytes = self.options.line_bytes_max;
        let kind = ErrorKind::LineTooLong { at: self.blocks.at() + at as u64, limit_bytes };
        let error = Error::new("read the lines of", self.blocks.name(), kind);
        self.ended = true;
        if at == 0 {
            return Err(error);
        }
        self.failed = Some(error);
        self.delivered = at;
        Ok(true)
    }
}

/// Whole lines, with their line ends; the last one of an input may have none.
///
/// ```
/// use sweetspot_io::lines::{Batch, Ends};
///
/// let batch = Batch::new(b"one\r\ntwo\n", Ends::Any);
/// assert_eq!(batch.count(), 2);
/// assert!(batch.iter().eq([b"one", b"two"]));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    bytes: &'a [u8],
    at: u64,
    ends: Ends,
}

impl<'a> Batch<'a> {
    /// Takes `bytes` as lines. What follows the last line end is a line.
    pub fn new(bytes: &'a [u8], ends: Ends) -> Batch<'a> {
        Batch { bytes, at: 0, ends }
    }

    pub(crate) fn at_position(bytes: &'a [u8], ends: Ends, at: u64) -> Batch<'a> {
        Batch { bytes, at, ends }
    }

    /// The bytes, line ends included.
    ///
    /// ```
    /// use sweetspot_io::lines::{Batch, Ends};
    ///
    /// let batch = Batch::new(b"one\r\ntwo", Ends::Any);
    /// assert_eq!(batch.bytes(), b"one\r\ntwo");
    /// assert_eq!((batch.at(), batch.count()), (0, 2));
    /// ```
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Where the batch begins, in bytes from where reading began.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How many lines there are.
    pub fn count(&self) -> u64 {
        scan::count(self.bytes, self.ends)
    }

    /// Calls `each` for every line, without its end, or until it [stops](Flow). Returns what `each`
    /// did last.
    ///
    /// ```
    /// use std::num::ParseIntError;
    /// use sweetspot_io::lines::{Batch, Ends};
    ///
    /// let mut sum = 0;
    /// Batch::new(b"17\n4\n", Ends::Any).for_each_line(|line| -> Result<(), ParseIntError> {
    ///     sum += String::from_utf8_lossy(line).parse::<u32>()?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(sum, 21);
    /// # Ok::<(), ParseIntError>(())
    /// ```
    #[inline]
    pub fn for_each_line<R: Flow>(&self, each: impl FnMut(&'a [u8]) -> R) -> R {
        self.visit(each).0
    }

    /// Calls `each` for every line with where it begins and ends in [`Batch::bytes`], or until it
    /// [stops](Flow). Returns what `each` did last.
    ///
    /// ```
    /// use sweetspot_io::lines::{Batch, Ends};
    ///
    /// let mut ranges = Vec::new();
    /// Batch::new(b"one\r\ntwo\n", Ends::Any).for_each_range(|range| ranges.push(range));
    /// assert_eq!(ranges, [0..3, 5..8]);
    /// ```
    #[inline]
    pub fn for_each_range<R: Flow>(&self, mut each: impl FnMut(Range<usize>) -> R) -> R {
        scan::for_each(self.bytes, self.ends, |start, end| each(start..end)).0
    }

    /// As [`Batch::for_each_line`]; also says how many bytes the visited lines have.
    #[inline]
    fn visit<R: Flow>(&self, mut each: impl FnMut(&'a [u8]) -> R) -> (R, usize) {
        let bytes = self.bytes;
        scan::for_each(bytes, self.ends, |start, end| {
            // SAFETY: what is visited lies within the bytes, and no line ends before it begins.
            #[allow(unsafe_code)]
            each(unsafe { bytes.get_unchecked(start..end) })
        })
    }

    /// The lines, one after another. [`Batch::for_each_line`] is faster where lines are short.
    pub fn iter(&self) -> LineCursor<'a> {
        LineCursor::new(self.bytes, self.ends)
    }
}

impl<'a> IntoIterator for Batch<'a> {
    type Item = &'a [u8];
    type IntoIter = LineCursor<'a>;

    fn into_iter(self) -> LineCursor<'a> {
        self.iter()
    }
}

#[cfg(test)]
mod tests;

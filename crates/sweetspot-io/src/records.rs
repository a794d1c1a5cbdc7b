//! Fixed-length records, as COBOL's record-sequential files have them: no line ends, no header, the
//! file is one record after another.
//!
//! - [`Reader`] reads them in order from anything.
//! - [`Writer`] writes them in order to anything.
//! - [`Records`] works on a file in place: in order, by number, and rewriting.
//!
//! A file whose length is no multiple of the record's has a truncated last record. That is an error
//! of its own ([`ErrorKind::RecordTruncated`]), and all records before it are delivered first.
//!
//! ```
//! use sweetspot_io::records::{self, Reader, Writer};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("accounts");
//! let options = records::Options::new(8);
//! let mut writer = Writer::create(&path, &options)?;
//! writer.write(b"ada   17")?;
//! writer.write(b"grace 23")?;
//! writer.finish()?;
//!
//! let mut reader = Reader::open(&path, &options)?;
//! assert_eq!(reader.next_record()?, Some(&b"ada   17"[..]));
//! assert_eq!(reader.next_record()?, Some(&b"grace 23"[..]));
//! assert_eq!(reader.next_record()?, None);
//! # Ok::<(), sweetspot_io::Error>(())
//! ```

mod window;

use crate::error::{Error, ErrorKind, Result};
use crate::flow::Flow;
use crate::input::{Input, InputKind, Opened, Source};
use crate::options::setters;
use crate::output::{Existing, Output, Written};
use crate::strategy::{AUTO_BUFFER_BYTES, Blocks, ReadOptions};
use rustix::fs::OFlags;
use std::fmt;
use window::Window;

/// The longest record, in bytes.
pub const RECORD_BYTES_MAX: usize = 1 << 30;

/// How to read or write records.
///
/// ```
/// use sweetspot_io::{Existing, records};
///
/// let options = records::Options::new(80).existing(Existing::Replace);
/// assert_eq!(options.record_bytes, 80);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The length of a record in bytes: 1 to [`RECORD_BYTES_MAX`].
    pub record_bytes: usize,
    /// Strategy, buffer and hint. [`Writer`] and [`Records`] use the buffer size only;
    /// [`BufferSize::Off`](crate::BufferSize::Off) means a system call for each record.
    pub read: ReadOptions,
    /// What a [`Writer`] does where its file is there already.
    pub existing: Existing,
}

impl Options {
    /// Records of that length, and for the rest what is best mostly.
    pub fn new(record_bytes: usize) -> Options {
        let read = ReadOptions::default();
        Options { record_bytes, read, existing: Existing::default() }
    }

    setters! {
        /// Sets strategy, buffer and hint.
        read: ReadOptions,
        /// Says what a [`Writer`] does where its file is there already.
        existing: Existing,
    }

    fn check(&self, name: &str) -> Result<()> {
        match self.record_bytes {
            1..=RECORD_BYTES_MAX => Ok(()),
            _ => {
                let kind = ErrorKind::Option("a record has 1 byte to 1 GiB");
                Err(Error::new("use records in", name, kind))
            }
        }
    }

    fn buffer_bytes(&self) -> usize {
        self.read.buffer_size.bytes(AUTO_BUFFER_BYTES, self.record_bytes)
    }
}

fn check_len(options: &Options, name: &str, record: &[u8]) -> Result<()> {
    let (found_bytes, record_bytes) = (record.len(), options.record_bytes);
    if found_bytes == record_bytes {
        return Ok(());
    }
    Err(Error::new("write to", name, ErrorKind::RecordLength { found_bytes, record_bytes }))
}

/// Reads records in order.
///
/// ```
/// use sweetspot_io::{Input, records::{self, Reader}};
///
/// let input = Input::reader("memory", &b"001700040021"[..]);
/// let mut reader = Reader::open(input, &records::Options::new(4))?;
/// assert_eq!(reader.next_record()?, Some(&b"0017"[..]));
/// let mut left = 0;
/// reader.for_each_record(|_| left += 1)?;
/// assert_eq!(left, 2);
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader {
    blocks: Blocks,
    record_bytes: usize,
    /// How much of the block was delivered.
    delivered: usize,
    /// The number of the next record.
    number: u64,
    ended: bool,
}

impl Reader {
    /// Opens `input`.
    ///
    /// # Errors
    /// Where it cannot be opened, or the options make no sense.
    pub fn open(input: impl Into<Input>, options: &Options) -> Result<Reader> {
        options.check("this file")?;
        let blocks = Blocks::open(input.into(), &options.read, options.record_bytes)?;
        let record_bytes = options.record_bytes;
        Ok(Reader { blocks, record_bytes, delivered: 0, number: 0, ended: false })
    }

    /// How the input is read, and why so.
    pub fn choice(&self) -> crate::Choice {
        self.blocks.choice()
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// Where reading fails, or the last record is cut off.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<&[u8]>> {
        let (start, end) = (self.delivered, self.delivered + self.record_bytes);
        if end <= self.blocks.block().len() {
            self.delivered = end;
            self.number += 1;
            return Ok(Some(&self.blocks.block()[start..end]));
        }
        if !self.advance()? {
            return Ok(None);
        }
        self.delivered = self.record_bytes;
        self.number += 1;
        Ok(Some(&self.blocks.block()[..self.record_bytes]))
    }

    /// Calls `each` for every record that is left, or until it stops: [`Flow`] says how, and what
    /// comes back then. The records after the one where it stopped are still there.
    ///
    /// # Errors
    /// As [`Reader::next_record`]; `each` was called for all records before.
    pub fn for_each_record<R: Flow>(&mut self, mut each: impl FnMut(&[u8]) -> R) -> Result<R> {
        loop {
            let (mut flow, mut visited) = (R::GOES_ON, 0);
            for record in self.blocks.block()[self.delivered..].chunks_exact(self.record_bytes) {
                flow = each(record);
                visited += 1;
                if !flow.goes_on() {
                    break;
                }
            }
            self.delivered += visited * self.record_bytes;
            self.number += visited as u64;
            if !flow.goes_on() || !self.advance()? {
                return Ok(flow);
            }
        }
    }

    /// Gets blocks until there is a whole record. False at the end.
    fn advance(&mut self) -> Result<bool> {
        while !self.ended {
            let keep = self.blocks.block().len() - self.delivered;
            let fresh = self.blocks.advance(keep).inspect_err(|_| self.ended = true)?;
            self.delivered = 0;
            self.ended = fresh == 0;
            if self.blocks.block().len() >= self.record_bytes {
                return Ok(true);
            }
        }
        let found_bytes = self.blocks.block().len() - self.delivered;
        if found_bytes == 0 {
            return Ok(false);
        }
        self.delivered += found_bytes;
        Err(truncated(self.blocks.name(), self.number, found_bytes, self.record_bytes))
    }
}

fn no_place(name: &str) -> Error {
    let what = "only the records of a file have numbers and can be rewritten";
    Error::new("work in place on", name, ErrorKind::Option(what))
}

fn truncated(name: &str, number: u64, found_bytes: usize, record_bytes: usize) -> Error {
    let kind = ErrorKind::RecordTruncated { number, found_bytes, record_bytes };
    Error::new("read", name, kind)
}

/// Writes records in order. The file has its name after [`Writer::finish`], not before.
///
/// ```
/// use sweetspot_io::records::{self, Writer};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("sums");
/// let mut writer = Writer::create(&path, &records::Options::new(4))?;
/// writer.write(b"0017")?;
/// assert!(writer.write(b"too long").is_err());
/// assert_eq!(writer.finish()?, 4);
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
pub struct Writer {
    written: Written,
    options: Options,
    buffer: Vec<u8>,
    buffer_bytes: usize,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("written", &self.written)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// Begins to write to `output`.
    ///
    /// # Errors
    /// Where it cannot be created, or the options make no sense.
    pub fn create(output: impl Into<Output>, options: &Options) -> Result<Writer> {
        options.check("this file")?;
        let written = output.into().open(options.existing)?;
        let buffer_bytes = options.buffer_bytes();
        Ok(Writer { written, options: *options, buffer: Vec::new(), buffer_bytes })
    }

    /// Writes one record.
    ///
    /// # Errors
    /// Where it has not the length of a record, or writing fails.
    #[inline]
    pub fn write(&mut self, record: &[u8]) -> Result<()> {
        check_len(&self.options, self.written.name(), record)?;
        self.buffer.extend_from_slice(record);
        if self.buffer.len() + record.len() > self.buffer_bytes {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.written.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Writes what is left and gives the file its name. Returns its length in bytes.
    ///
    /// # Errors
    /// Where writing fails, or the name is taken.
    pub fn finish(mut self) -> Result<u64> {
        self.flush()?;
        let bytes = self.written.bytes();
        self.written.finish()?;
        Ok(bytes)
    }
}

/// A file of records that is worked on in place.
///
/// Records that follow one another are read together, in a window of the file: it doubles while
/// reading goes on in order, up to the buffer's size, and is small again where reading jumps.
/// Rewritten records wait in the window; [`Records::flush`] writes them, as does everything that
/// leaves the window. Only the bytes of rewritten records are ever written.
///
/// ```
/// use sweetspot_io::records::{self, Records};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("stock");
/// std::fs::write(&path, "nuts  10bolts 20").unwrap();
/// let mut records = Records::open(&path, &records::Options::new(8))?;
/// assert_eq!(records.get(1)?, b"bolts 20");
/// assert_eq!(records.next_record()?, Some(&b"nuts  10"[..]));
/// records.rewrite(b"nuts  11")?; // the record that was read last in order
/// records.put(1, b"bolts 19")?;
/// records.finish()?;
/// assert_eq!(std::fs::read(&path).unwrap(), b"nuts  11bolts 19");
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
pub struct Records {
    window: Window,
    options: Options,
    name: String,
    /// The record that [`Records::next_record`] gives next.
    next: u64,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("name", &self.name)
            .field("options", &self.options)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Records {
    /// Opens a file for reading and rewriting; of an open file the position does not matter.
    ///
    /// # Errors
    /// Where it cannot be opened so, it is no file, or the options make no sense.
    pub fn open(input: impl Into<Input>, options: &Options) -> Result<Records> {
        let Opened { name, source, facts } = input.into().open_with(OFlags::RDWR)?;
        options.check(&name)?;
        let Source::File(file) = source else { return Err(no_place(&name)) };
        if facts.kind == InputKind::Stream {
            return Err(no_place(&name));
        }
        let window = Window::new(file, options.buffer_bytes());
        Ok(Records { window, options: *options, name, next: 0 })
    }

    /// How many whole records there are.
    ///
    /// # Errors
    /// Where the file cannot be looked at.
    pub fn count(&self) -> Result<u64> {
        let len = self.window.file_len().map_err(Error::system("look at", &self.name))?;
        Ok(len / self.options.record_bytes as u64)
    }

    /// The record of that number, from 0.
    ///
    /// ```
    /// use sweetspot_io::records::{self, Records};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("stock");
    /// std::fs::write(&path, "nuts  10bolts 20").unwrap();
    /// let mut records = Records::open(&path, &records::Options::new(8))?;
    /// assert_eq!(records.get(1)?, b"bolts 20");
    /// assert!(records.get(2).is_err());
    /// # Ok::<(), sweetspot_io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Where there is none, it is cut off, or reading fails.
    pub fn get(&mut self, number: u64) -> Result<&[u8]> {
        match self.read(number)? {
            0 => Err(Error::new("read", &self.name, ErrorKind::NoRecord { number })),
            len => Ok(self.window.bytes(len)),
        }
    }

    /// The next record in order, from the first or the one after [`Records::start_at`].
    ///
    /// # Errors
    /// Where the record is cut off, or reading fails.
    pub fn next_record(&mut self) -> Result<Option<&[u8]>> {
        let len = self.read(self.next)?;
        self.next += u64::from(len > 0);
        Ok(match len {
            0 => None,
            len => Some(self.window.bytes(len)),
        })
    }

    /// Makes `number` the next record in order.
    pub fn start_at(&mut self, number: u64) {
        self.next = number;
    }

    /// Replaces the record that [`Records::next_record`] gave last.
    ///
    /// ```
    /// use sweetspot_io::records::{self, Records};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("stock");
    /// std::fs::write(&path, "nuts  10bolts 20").unwrap();
    /// let mut records = Records::open(&path, &records::Options::new(8))?;
    /// while let Some(record) = records.next_record()? {
    ///     let upper = record.to_ascii_uppercase();
    ///     records.rewrite(&upper)?;
    /// }
    /// records.finish()?;
    /// assert_eq!(std::fs::read(&path).unwrap(), b"NUTS  10BOLTS 20");
    /// # Ok::<(), sweetspot_io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Where none was read yet, the length is wrong, or writing fails.
    pub fn rewrite(&mut self, record: &[u8]) -> Result<()> {
        match self.next.checked_sub(1) {
            Some(number) => self.put(number, record),
            None => {
                let kind = ErrorKind::Option("no record was read that could be rewritten");
                Err(Error::new("rewrite a record of", &self.name, kind))
            }
        }
    }

    /// Replaces the record of that number.
    ///
    /// ```
    /// use sweetspot_io::records::{self, Records};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("stock");
    /// std::fs::write(&path, "nuts  10bolts 20").unwrap();
    /// let mut records = Records::open(&path, &records::Options::new(8))?;
    /// records.put(1, b"bolts 19")?;
    /// assert_eq!(records.get(1)?, b"bolts 19");
    /// records.finish()?; // it waits until then, or `flush`, or until it leaves the window
    /// # Ok::<(), sweetspot_io::Error>(())
    /// ```
    ///
    /// # Errors
    /// Where there is none, the length is wrong, or writing fails.
    pub fn put(&mut self, number: u64, record: &[u8]) -> Result<()> {
        check_len(&self.options, &self.name, record)?;
        if self.read(number)? == 0 {
            return Err(Error::new("rewrite", &self.name, ErrorKind::NoRecord { number }));
        }
        let at = self.position(number)?;
        self.window.write(at, record).map_err(Error::system("write", &self.name))
    }

    /// Writes what was rewritten.
    ///
    /// # Errors
    /// Where writing fails.
    pub fn flush(&mut self) -> Result<()> {
        self.window.flush().map_err(Error::system("write", &self.name))
    }

    /// Writes what was rewritten, and closes the file. Dropping does so too, but tells no errors.
    ///
    /// # Errors
    /// Where writing fails.
    pub fn finish(mut self) -> Result<()> {
        self.flush()
    }

    fn position(&self, number: u64) -> Result<u64> {
        number
            .checked_mul(self.options.record_bytes as u64)
            .filter(|at| i64::try_from(*at).is_ok())
            .ok_or_else(|| Error::new("read", &self.name, ErrorKind::NoRecord { number }))
    }

    /// Makes the window hold a record; its length, or 0 where there is none.
    fn read(&mut self, number: u64) -> Result<usize> {
        let (at, record_bytes) = (self.position(number)?, self.options.record_bytes);
        let found =
            self.window.read(at, record_bytes).map_err(Error::system("read", &self.name))?;
        if found == 0 || found == record_bytes {
            return Ok(found);
        }
        Err(truncated(&self.name, number, found, record_bytes))
    }
}

#[cfg(test)]
mod tests;

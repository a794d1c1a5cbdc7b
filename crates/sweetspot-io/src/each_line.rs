//! Does something for every line of one large file or pipe, in several threads.
//!
//! A file is read by the threads themselves, each a chunk at a time, at its own position: a line
//! belongs to the chunk in which the line before it ends. What has no positions (a pipe), or is to be
//! read by a certain strategy, is read by one thread at a time, in batches of whole lines. Either way a thread
//! works on what it has read itself, so memory is bounded by two buffers for each thread: its
//! chunk, and what it puts out for it.
//!
//! ```
//! use sweetspot_io::{Input, Output, each_line::{self, each_line}};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let shouted = folder.path().join("shouted");
//! let input = Input::reader("memory", &b"one\ntwo\nthree\n"[..]);
//! let tally = each_line(input, &shouted, &each_line::Options::default(), |line, output| {
//!     output.extend(line.to_ascii_uppercase());
//!     output.push(b'\n');
//! })?;
//! assert_eq!(tally.bytes_in, 14);
//! assert_eq!(std::fs::read(&shouted).unwrap(), b"ONE\nTWO\nTHREE\n");
//! # Ok::<(), sweetspot_io::Error>(())
//! ```

mod assembly;

use crate::buffer_size::BufferSize;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Course, Flow};
use crate::input::{Input, InputKind, Opened, Source};
use crate::lines::{self, Batch, Ends, LINE_BYTES_MAX, Lines, scan};
use crate::options::setters;
use crate::output::{Existing, Output};
use crate::strategy::{Buffer, ReadOptions, Strategy};
use crate::sys::{self, Inherited};
use assembly::{AssemblyLine, End};
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most threads that are started.
pub const THREADS_MAX: usize = 256;

/// How much is read with a chunk, for the rest of its last line, in bytes. Most lines are shorter.
const SLACK_BYTES: usize = 512;

/// How much is read on at first where that was not enough, in bytes.
const EXTEND_BYTES: usize = 4096;

/// The order in which output is written.
///
/// ```
/// use sweetspot_io::each_line::{Options, Order};
///
/// // Where lines may come in any order, no thread waits for another one.
/// let options = Options::new().threads(4).order(Order::Any);
/// assert_eq!(options.order, Order::Any);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// That of the input.
    #[default]
    Input,
    /// That in which threads are done: chunks may be exchanged, lines of one chunk are not.
    Any,
}

/// How to do something for every line.
///
/// ```
/// use sweetspot_io::each_line::{Options, Order};
///
/// let options = Options::new().threads(2).order(Order::Any);
/// assert_eq!(options.threads, 2);
/// ```
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Options<'a> {
    /// Strategy, buffer (the size of a chunk) and hint. Without a strategy, threads read a file
    /// themselves.
    pub read: ReadOptions,
    /// What ends a line.
    pub ends: Ends,
    /// The longest line allowed, in bytes without its end.
    pub line_bytes_max: usize,
    /// How many threads; 0: as many as there are processors.
    pub threads: usize,
    /// The order of the output.
    pub order: Order,
    /// What happens where the output is there already.
    pub existing: Existing,
    /// Is told now and then how many bytes of the input are done.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            read: ReadOptions::default(),
            ends: Ends::default(),
            line_bytes_max: LINE_BYTES_MAX,
            threads: 0,
            order: Order::default(),
            existing: Existing::default(),
            progress: None,
        }
    }
}

impl<'a> Options<'a> {
    /// As many threads as there are processors; the output in the order of the input.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets strategy, buffer (the size of a chunk) and hint.
        read: ReadOptions,
        /// Sets what ends a line.
        ends: Ends,
        /// Sets the longest line allowed, in bytes without its end.
        line_bytes_max: usize,
        /// Sets how many threads there are; 0: as many as there are processors.
        threads: usize,
        /// Sets the order of the output.
        order: Order,
        /// Says what happens where the output is there already.
        existing: Existing,
        /// Sets who is told now and then how many bytes of the input are done.
        progress: &'a (dyn Fn(u64) + Sync),
    }

    fn chunk_bytes(&self) -> usize {
        let strategy = self.read.strategy.unwrap_or(Strategy::Streaming);
        self.read.buffer_size.bytes(strategy.auto_buffer_bytes(), 1)
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("read", &self.read)
            .field("ends", &self.ends)
            .field("line_bytes_max", &self.line_bytes_max)
            .field("threads", &self.threads)
            .field("order", &self.order)
            .field("existing", &self.existing)
            .finish_non_exhaustive()
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Bytes of the input.
    pub bytes_in: u64,
    /// Bytes of the output.
    pub bytes_out: u64,
}

/// Calls `work` for every line of `input`, in several threads. What it appends to its buffer is
/// written to `output`. A file is taken as long as it was when it was opened.
///
/// `work` may stop or fail: [`Flow`] says how. Then no further chunk is begun, and of several that
/// stop the one counts that is furthest to the front. What all chunks before it have put out is
/// written. Where `work` stops, so is what it has put out itself, and the output is complete; where it
/// fails, an output path is left as it was. The tally comes back in the form of what `work` returns:
/// a `Tally` for `()`, a `Result<Tally, E>` for `Result<(), E>`.
///
/// ```
/// use std::num::ParseIntError;
/// use sweetspot_io::{Input, Output, each_line::{self, each_line}};
///
/// let input = Input::reader("memory", &b"17\nseventeen\n"[..]);
/// let options = each_line::Options::default();
/// let work = |line: &[u8], output: &mut Vec<u8>| -> Result<(), ParseIntError> {
///     let number: u64 = String::from_utf8_lossy(line).parse()?;
///     output.extend(format!("{}\n", number + 1).bytes());
///     Ok(())
/// };
/// // The outer result is about reading and writing, the inner one that of `work`.
/// let result: Result<each_line::Tally, _> =
///     each_line(input, Output::nowhere(), &options, work)?;
/// assert!(result.is_err());
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
///
/// # Errors
/// Where opening, reading or writing fails, or a line is too long. With [`Order::Input`] the output of
/// all lines before was written.
pub fn each_line<R: Flow + Send>(
    input: impl Into<Input>,
    output: impl Into<Output>,
    options: &Options<'_>,
    work: impl Fn(&[u8], &mut Vec<u8>) -> R + Sync,
) -> Result<R::With<Tally>> {
    each_batch(input, output, options, |batch, buffer| {
        batch.for_each_line(|line| work(line, buffer))
    })
}

/// As [`each_line`], with whole lines at a time: for work that sums up, or is faster in batches.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use sweetspot_io::{Input, Output, each_line::{self, each_batch}};
///
/// let longest = AtomicU64::new(0);
/// let input = Input::reader("memory", &b"one\nthree\n"[..]);
/// each_batch(input, Output::nowhere(), &each_line::Options::default(), |batch, _| {
///     let mut longest_here = 0;
///     batch.for_each_line(|line| longest_here = longest_here.max(line.len() as u64));
///     longest.fetch_max(longest_here, Relaxed);
/// })?;
/// assert_eq!(longest.into_inner(), 5);
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
///
/// # Errors
/// As [`each_line`].
pub fn each_batch<R: Flow + Send>(
    input: impl Into<Input>,
    output: impl Into<Output>,
    options: &Options<'_>,
    work: impl Fn(&Batch<'_>, &mut Vec<u8>) -> R + Sync,
) -> Result<R::With<Tally>> {
    let opened = input.into().open()?;
    let written = output.into().open(options.existing)?;
    let chunks = Chunks::new(opened, options)?;
    let line = AssemblyLine::new(written);
    let one_thread = || {
        let done = catch_unwind(AssertUnwindSafe(|| {
            work_on(&chunks, &line, options, &work);
        }));
        if let Err(panic) = done {
            // Nobody must wait for this thread's turn.
            line.stop(0, None);
            resume_unwind(panic);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads(options.threads) {
            let inherited = Inherited::from_here();
            scope.spawn(|| {
                inherited.adopt();
                one_thread();
            });
        }
        one_thread();
    });
    line.finish()
}

/// How many threads an option means.
fn threads(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        wanted => wanted,
    }
    .min(THREADS_MAX)
}

/// What one thread does.
fn work_on<R: Flow>(
    chunks: &Chunks,
    line: &AssemblyLine<R>,
    options: &Options<'_>,
    work: &(impl Fn(&Batch<'_>, &mut Vec<u8>) -> R + Sync),
) {
    let (mut piece, mut output) = (Piece::default(), Vec::new());
    while line.goes_on() {
        let Some(number) = chunks.next(&mut piece, options) else { return };
        // Lines before a bad one come first, as when one thread reads.
        let flow = match piece.lines.is_empty() {
            true => R::GOES_ON,
            false => work(&Batch::at_position(piece.bytes(), options.ends, piece.at), &mut output),
        };
        let course = flow.course();
        // Told before the output is put, so that nobody puts what comes behind it.
        if course != Course::GoesOn {
            line.stop(number, Some(End::Stopped(flow)));
        } else if let Some(error) = piece.error.take() {
            line.stop(number, Some(End::Failed(error)));
        }
        if course != Course::Fails
            && let Err(error) = line.put(number, piece.lines.len() as u64, &output, options)
        {
            line.stop(number, Some(End::Failed(error)));
        }
        output.clear();
    }
}

/// What a thread has read.
#[derive(Default)]
struct Piece {
    buffer: Buffer,
    /// The whole lines in it.
    lines: Range<usize>,
    /// Where these begin, in bytes from where reading began.
    at: u64,
    /// What is wrong behind them.
    error: Option<Error>,
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        &self.buffer.block()[self.lines.clone()]
    }
}

/// Where chunks come from; each has a number, in the order of the input.
enum Chunks {
    /// Threads read at positions.
    Positioned { file: File, name: String, next: AtomicU64, begin: u64, end: u64 },
    /// One thread reads at a time.
    Shared(Mutex<Shared>),
}

struct Shared {
    lines: Lines,
    next: u64,
}

impl Chunks {
    fn new(opened: Opened, options: &Options<'_>) -> Result<Chunks> {
        if options.read.strategy.is_some() || opened.facts.kind != InputKind::Regular {
            let size = options.chunk_bytes() as u32;
            let read = ReadOptions { buffer_size: BufferSize::Bytes(size), ..options.read };
            let Options { ends, line_bytes_max, .. } = *options;
            let options = lines::Options { read, ends, line_bytes_max };
            let lines = Lines::new(opened, &options)?;
            return Ok(Chunks::Shared(Mutex::new(Shared { lines, next: 0 })));
        }
        let Opened { name, source: Source::File(file), facts } = opened else { unreachable!() };
        let (begin, end) = (facts.at, facts.size);
        Ok(Chunks::Positioned { file, name, next: AtomicU64::new(0), begin, end })
    }

    /// Reads the next chunk. Its number; `None`: there is none.
    fn next(&self, piece: &mut Piece, options: &Options<'_>) -> Option<u64> {
        piece.lines = 0..0;
        match self {
            Chunks::Shared(shared) => {
                let mut shared = lock(shared);
                match shared.lines.next_batch() {
                    Ok(None) => return None,
                    Ok(Some(batch)) => {
                        let bytes = batch.bytes();
                        piece.buffer.space(bytes.len()).copy_from_slice(bytes);
                        piece.buffer.filled(bytes.len());
                        (piece.lines, piece.at) = (0..bytes.len(), batch.at());
                    }
                    Err(error) => piece.error = Some(error),
                }
                shared.next += 1;
                Some(shared.next - 1)
            }
            Chunks::Positioned { file, name, next, begin, end } => {
                let chunk_bytes = options.chunk_bytes();
                let number = next.fetch_add(1, Relaxed);
                let start = number.checked_mul(chunk_bytes as u64)?.checked_add(*begin)?;
                if start >= *end {
                    return None;
                }
                let limit_bytes = options.line_bytes_max;
                let ends = options.ends;
                let chunk = Chunk { file, start, end: *end, chunk_bytes, ends, limit_bytes };
                match chunk.read(&mut piece.buffer, start == *begin) {
                    Ok(lines) => piece.lines = lines,
                    Err(error) => piece.error = Some(Error::system("read", name)(error)),
                }
                piece.at = start - begin + piece.lines.start as u64;
                if let Some(bad) = scan::first_too_long(piece.bytes(), ends, limit_bytes) {
                    let kind = ErrorKind::LineTooLong { at: piece.at + bad as u64, limit_bytes };
                    piece.error = Some(Error::new("read the lines of", name, kind));
                    piece.lines.end = piece.lines.start + bad;
                }
                Some(number)
            }
        }
    }
}

/// A stretch of a file, and what its lines are.
struct Chunk<'a> {
    file: &'a File,
    start: u64,
    /// Where the last chunk ends.
    end: u64,
    chunk_bytes: usize,
    ends: Ends,
    limit_bytes: usize,
}

impl Chunk<'_> {
    /// Reads the chunk's lines: those that follow a line end whose last byte is in the chunk, and
    /// the first line of all. Returns where they are in the buffer.
    fn read(&self, buffer: &mut Buffer, is_first: bool) -> std::io::Result<Range<usize>> {
        let mut len = self.read_on(buffer, 0, self.chunk_bytes + SLACK_BYTES)?;
        let block = buffer.block();
        let start = match scan::first_end(block, self.ends) {
            _ if is_first => 0,
            Some((_, next)) if next <= self.chunk_bytes => next,
            // All of it belongs to a line that began before.
            _ => return Ok(0..0),
        };
        // From here on the end of the last line is looked for.
        let (mut searched, mut more) = (len.min(self.chunk_bytes), EXTEND_BYTES);
        loop {
            let rest = &buffer.block()[searched..];
            // A CR as the last byte ends nothing yet: an LF may follow.
            let open = usize::from(rest.last() == Some(&b'\r'));
            if let Some((_, next)) = scan::first_end(rest, self.ends)
                && next <= rest.len() - open
            {
                return Ok(start..searched + next);
            }
            searched = len - open;
            let too_long = searched.saturating_sub(self.chunk_bytes) > self.limit_bytes;
            let fresh = if too_long { 0 } else { self.read_on(buffer, len, more)? };
            if fresh == 0 {
                return Ok(start..len);
            }
            len += fresh;
            more *= 2;
        }
    }

    /// Reads up to `more` bytes behind the `len` bytes that were read. Says how many there were.
    fn read_on(&self, buffer: &mut Buffer, len: usize, more: usize) -> std::io::Result<usize> {
        let from = self.start + len as u64;
        let more = self.end.saturating_sub(from).min(more as u64) as usize;
        let fresh = sys::read_full_at(self.file, buffer.space_behind(len, more), from)?;
        buffer.filled(fresh);
        Ok(fresh)
    }
}

/// A thread that panicked ends all of them; what it held is looked at by nobody.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

//! Does something for every line of one large file or pipe, in several threads.
//!
//! A file is read by the threads themselves, each a chunk at a time, at its own position: a line
//! belongs to the chunk that it begins in. What has no positions (a pipe), or is to be read by a
//! certain strategy, is read by one thread at a time, in batches of whole lines. Either way a thread
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
//!     Ok(())
//! })?;
//! assert_eq!(tally.bytes_in, 14);
//! assert_eq!(std::fs::read(&shouted).unwrap(), b"ONE\nTWO\nTHREE\n");
//! # Ok::<(), sweetspot_io::Error>(())
//! ```

use crate::error::{Error, ErrorKind, Result};
use crate::input::{Input, InputKind, Opened, Source};
use crate::lines::{self, Batch, Ends, LINE_BYTES_MAX, Lines, scan};
use crate::output::{Existing, Output, Written};
use crate::strategy::ReadOptions;
use crate::sys::{self, Inherited};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use sweetspot_core::size::BufferSize;

/// The chunk that [`BufferSize::Auto`] stands for, in bytes: it stays in the processor's second cache
/// until it was worked on, and hundreds of lines pay for one claim.
pub const AUTO_CHUNK_BYTES: usize = 128 << 10;

/// The most threads that are started.
pub const THREADS_MAX: usize = 256;

/// How much is read with a chunk, for the rest of its last line, in bytes. Most lines are shorter.
const SLACK_BYTES: usize = 512;

/// How much is read on at first where that was not enough, in bytes.
const EXTEND_BYTES: usize = 4096;

/// What a function of the caller's fails with; any error becomes one with `?`.
pub type WorkError = Box<dyn std::error::Error + Send + Sync>;

/// The order in which output is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// That of the input.
    #[default]
    Input,
    /// That in which threads are done: chunks may be exchanged, lines of one chunk are not.
    Any,
}

/// How to do something for every line.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Strategy, buffer (the size of a chunk) and hint. Without a strategy, threads read a file
    /// themselves.
    pub read: ReadOptions,
    /// What ends a line.
    pub ends: Ends,
    /// The longest line allowed, in bytes; `None`: [`LINE_BYTES_MAX`].
    pub line_bytes_max: Option<usize>,
    /// How many threads; 0: as many as there are processors.
    pub threads: usize,
    /// The order of the output.
    pub order: Order,
    /// What happens where the output is there already.
    pub existing: Existing,
    /// Is told now and then how many bytes of the input are done.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

impl Options<'_> {
    fn chunk_bytes(&self) -> usize {
        match self.read.buffer_size {
            BufferSize::Off => 1,
            BufferSize::Auto => AUTO_CHUNK_BYTES,
            BufferSize::Bytes(bytes) => bytes as usize,
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bytes of the input.
    pub bytes_in: u64,
    /// Bytes of the output.
    pub bytes_out: u64,
}

/// Calls `work` for every line of `input`, in several threads. What it appends to its buffer is
/// written to `output`. A file is taken as long as it was when it was opened.
///
/// # Errors
/// Where opening, reading or writing fails, a line is too long, or `work` fails. Then no further
/// chunk is begun; with [`Order::Input`] the output of all chunks before the failed one was written.
pub fn each_line(
    input: impl Into<Input>,
    output: impl Into<Output>,
    options: &Options<'_>,
    work: impl Fn(&[u8], &mut Vec<u8>) -> std::result::Result<(), WorkError> + Sync,
) -> Result<Tally> {
    each_batch(input, output, options, |batch, buffer| {
        let mut result = Ok(());
        batch.for_each_line(|line| {
            if result.is_ok() {
                result = work(line, buffer);
            }
        });
        result
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
///     Ok(())
/// })?;
/// assert_eq!(longest.into_inner(), 5);
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
///
/// # Errors
/// As [`each_line`].
pub fn each_batch(
    input: impl Into<Input>,
    output: impl Into<Output>,
    options: &Options<'_>,
    work: impl Fn(&Batch<'_>, &mut Vec<u8>) -> std::result::Result<(), WorkError> + Sync,
) -> Result<Tally> {
    let opened = input.into().open()?;
    let written = output.into().open(options.existing)?;
    let name = opened.name.clone();
    let chunks = Chunks::new(opened, options)?;
    let line = AssemblyLine::new(written);
    let one_thread = || {
        let done = catch_unwind(AssertUnwindSafe(|| {
            work_on(&chunks, &line, &name, options, &work);
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
pub(crate) fn threads(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        wanted => wanted,
    }
    .min(THREADS_MAX)
}

/// What one thread does.
fn work_on(
    chunks: &Chunks,
    line: &AssemblyLine,
    name: &str,
    options: &Options<'_>,
    work: &(impl Fn(&Batch<'_>, &mut Vec<u8>) -> std::result::Result<(), WorkError> + Sync),
) {
    let (mut buffer, mut output) = (Buffer::default(), Vec::new());
    while line.goes_on() {
        let Some(number) = chunks.next(&mut buffer, options) else { return };
        let result = match &buffer.error {
            // Lines before a bad one come first, as when one thread reads.
            Some(_) if buffer.batch.is_empty() => Ok(()),
            _ => {
                let bytes = &buffer.bytes[buffer.batch.clone()];
                work(&Batch::at_position(bytes, options.ends, buffer.at), &mut output)
            }
        };
        let result = match (result, buffer.error.take()) {
            (Err(error), _) => Err(Error::new("work on", name, ErrorKind::Work(error))),
            (Ok(()), Some(error)) => {
                let _ = line.put(number, buffer.batch.len() as u64, &output, options);
                Err(error)
            }
            (Ok(()), None) => line.put(number, buffer.batch.len() as u64, &output, options),
        };
        output.clear();
        if let Err(error) = result {
            line.stop(number, Some(error));
        }
    }
}

/// What a thread reads into.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// The whole lines in it.
    batch: std::ops::Range<usize>,
    /// Where these begin in the input.
    at: u64,
    /// What is wrong behind them.
    error: Option<Error>,
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
            let line_bytes_max = options.line_bytes_max.unwrap_or(LINE_BYTES_MAX);
            let options = lines::Options { read, ends: options.ends, line_bytes_max };
            let lines = Lines::new(opened, &options)?;
            return Ok(Chunks::Shared(Mutex::new(Shared { lines, next: 0 })));
        }
        let Opened { name, source: Source::File(file), facts } = opened else { unreachable!() };
        let (begin, end) = (facts.at, facts.size);
        Ok(Chunks::Positioned { file, name, next: AtomicU64::new(0), begin, end })
    }

    /// Reads the next chunk. Its number; `None`: there is none.
    fn next(&self, buffer: &mut Buffer, options: &Options<'_>) -> Option<u64> {
        match self {
            Chunks::Shared(shared) => {
                let mut shared = lock(shared);
                buffer.bytes.clear();
                buffer.batch = 0..0;
                match shared.lines.next_batch() {
                    Ok(None) => return None,
                    Ok(Some(batch)) => {
                        buffer.bytes.extend_from_slice(batch.bytes());
                        buffer.at = batch.at();
                        buffer.batch = 0..buffer.bytes.len();
                    }
                    Err(error) => buffer.error = Some(error),
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
                let chunk = Chunk { file, start, begin: *begin, end: *end, chunk_bytes };
                let read = chunk.read(buffer, options);
                if let Err(error) = read {
                    (buffer.batch, buffer.error) = (0..0, Some(Error::system("read", name)(error)));
                    return Some(number);
                }
                let limit_bytes = options.line_bytes_max.unwrap_or(LINE_BYTES_MAX);
                let batch = &buffer.bytes[buffer.batch.clone()];
                if let Some(bad) = scan::first_too_long(batch, options.ends, limit_bytes) {
                    let at = buffer.at + bad as u64 - begin;
                    let kind = ErrorKind::LineTooLong { at, limit_bytes };
                    buffer.error = Some(Error::new("read the lines of", name, kind));
                    buffer.batch.end = buffer.batch.start + bad;
                }
                buffer.at -= begin;
                Some(number)
            }
        }
    }
}

/// A stretch of a file.
struct Chunk<'a> {
    file: &'a File,
    start: u64,
    /// Where the first chunk begins and the last one ends.
    begin: u64,
    end: u64,
    chunk_bytes: usize,
}

impl Chunk<'_> {
    /// Reads the lines that begin in the chunk.
    fn read(&self, buffer: &mut Buffer, options: &Options<'_>) -> std::io::Result<()> {
        // The byte before says whether a line begins with the chunk.
        let before = usize::from(self.start > self.begin);
        let from = self.start - before as u64;
        let wanted = self.chunk_bytes + before + SLACK_BYTES;
        let wanted = (self.end - from).min(wanted as u64) as usize;
        if buffer.bytes.len() < wanted {
            buffer.bytes.resize(wanted, 0);
        }
        let len = sys::read_full_at(self.file, &mut buffer.bytes[..wanted], from)?;
        let chunk = &buffer.bytes[..len.min(self.chunk_bytes + before)];
        let start = match before {
            0 => 0,
            _ => first_start(chunk, options.ends),
        };
        if start >= chunk.len() {
            // Its only line began before, or the file has become shorter.
            buffer.batch = 0..0;
            buffer.at = self.start;
            return Ok(());
        }
        let last = chunk.len() - 1;
        buffer.batch = start..self.extend(buffer, last, len, options)?;
        buffer.at = from + start as u64;
        Ok(())
    }

    /// Finds the end of the line that the chunk's `last` byte is in, behind the `len` bytes that were
    /// read if need be. Returns where that is.
    fn extend(
        &self,
        buffer: &mut Buffer,
        last: usize,
        mut len: usize,
        options: &Options<'_>,
    ) -> std::io::Result<usize> {
        let limit = options.line_bytes_max.unwrap_or(LINE_BYTES_MAX);
        let from = self.start - u64::from(self.start > self.begin);
        let (mut searched, mut more) = (last, EXTEND_BYTES);
        loop {
            // A CR at the end is none yet: an LF may follow.
            if let Some((end, next)) = scan::first_end(&buffer.bytes[searched..len], options.ends)
                && (next < len - searched || buffer.bytes[searched + end] == b'\n')
            {
                return Ok(searched + next);
            }
            let left = self.end.saturating_sub(from + len as u64).min(more as u64) as usize;
            if left == 0 || len - last > limit.saturating_add(EXTEND_BYTES) {
                return Ok(len);
            }
            if buffer.bytes.len() < len + left {
                buffer.bytes.resize(len + left, 0);
            }
            let space = &mut buffer.bytes[len..len + left];
            let fresh = sys::read_full_at(self.file, space, from + len as u64)?;
            if fresh == 0 {
                return Ok(len);
            }
            // What was searched has no end, but for a CR as its last byte.
            searched = len - 1;
            len += fresh;
            more *= 2;
        }
    }
}

/// Where the first line begins in the chunk that `bytes` holds after one byte of the chunk before.
fn first_start(bytes: &[u8], ends: Ends) -> usize {
    match (bytes, ends) {
        ([b'\n', ..], _) => 1,
        ([b'\r', b'\n', ..], Ends::Any) => 2,
        ([b'\r', ..], Ends::Any) => 1,
        _ => scan::first_end(bytes, ends).map_or(bytes.len(), |(_, next)| next),
    }
}

/// Takes the outputs of all threads, in the order that is wanted, and the first error.
struct AssemblyLine {
    state: Mutex<State>,
    turn: Condvar,
    /// The number of the first chunk that failed, as in `state`.
    failed_at: AtomicU64,
}

struct State {
    written: Written,
    /// The number of the chunk whose output comes next.
    next: u64,
    failed_at: u64,
    error: Option<Error>,
    bytes_in: u64,
}

impl AssemblyLine {
    fn new(written: Written) -> AssemblyLine {
        let failed_at = u64::MAX;
        let state = State { written, next: 0, failed_at, error: None, bytes_in: 0 };
        let failed_at = AtomicU64::new(failed_at);
        AssemblyLine { state: Mutex::new(state), turn: Condvar::new(), failed_at }
    }

    fn goes_on(&self) -> bool {
        self.failed_at.load(Relaxed) == u64::MAX
    }

    /// Writes the output of a chunk, in its turn.
    fn put(&self, number: u64, bytes_in: u64, output: &[u8], options: &Options<'_>) -> Result<()> {
        let mut state = lock(&self.state);
        while options.order == Order::Input && state.next != number && state.failed_at >= number {
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.failed_at < number {
            return Ok(());
        }
        if !output.is_empty() {
            state.written.write_all(output)?;
        }
        state.next += 1;
        state.bytes_in += bytes_in;
        if options.order == Order::Input {
            self.turn.notify_all();
        }
        if let Some(progress) = options.progress {
            progress(state.bytes_in);
        }
        Ok(())
    }

    /// Lets no chunk from `number` on be put, and tells the error of the first that failed.
    fn stop(&self, number: u64, error: Option<Error>) {
        let mut state = lock(&self.state);
        if number < state.failed_at || state.error.is_none() {
            state.failed_at = number.min(state.failed_at);
            state.error = error;
        }
        self.failed_at.store(state.failed_at, Relaxed);
        self.turn.notify_all();
    }

    fn finish(self) -> Result<Tally> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match state.error {
            Some(error) => Err(error),
            None => {
                let bytes_out = state.written.bytes();
                state.written.finish()?;
                Ok(Tally { bytes_in: state.bytes_in, bytes_out })
            }
        }
    }
}

/// A thread that panicked ends all of them; what it held is looked at by nobody.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

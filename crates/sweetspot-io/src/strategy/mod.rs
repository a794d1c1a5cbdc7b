//! How an input is read: one file for each strategy behind the trait [`Advance`], chosen by
//! `choose`, which says why.
//!
//! Invariant: all strategies give the same bytes. What a strategy cannot do for an input is done by
//! another one, and [`Choice::why`] says so.

mod buffer;
mod direct;
mod mapped;
#[cfg(feature = "uring")]
mod ring;
mod streaming;
mod whole;

pub(crate) use buffer::Buffer;

use crate::buffer_size::BufferSize;
use crate::error::{Error, Result};
use crate::input::{Facts, Input, InputKind, Opened};
use crate::options::setters;
use rustix::fs::Advice;
use std::{fmt, io};

/// The buffer that [`BufferSize::Auto`] stands for mostly, in bytes; see
/// [`Strategy::auto_buffer_bytes`]. It stays in the processor's second cache until it was worked on.
/// Counting 280 MB of lines took 118 ns of processor time for a KiB with 32 KiB, 108 with 64, 103
/// with 128 and 98 with 256, and doing something for each 199, 188, 182 and 179, on a virtual
/// machine with an AMD EPYC.
pub const AUTO_BUFFER_BYTES: usize = 128 << 10;

/// How an input is read. All strategies give the same bytes; one that an input does not allow is
/// replaced by another one, and [`Choice`] says so.
///
/// ```
/// use sweetspot_io::Strategy;
///
/// for &strategy in Strategy::ALL {
///     assert_eq!(Strategy::named(strategy.name()), Some(strategy));
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// One buffer, filled again and again.
    Streaming,
    /// All of it first, however large it is.
    Whole,
    /// The file's pages themselves, without a copy: the fastest for a file that is in the page cache.
    /// Only while nobody can change the file; a process that wants to write to it waits until the caller is
    /// done with the present block, which is why this is not the default.
    Mapped,
    /// Several reads in flight at once, through io_uring (feature `uring`).
    Ring,
    /// Past the page cache (`O_DIRECT`): for files that are larger than memory and read once.
    Direct,
    /// Through the page cache, which forgets it at once (`RWF_DONTCACHE`, Linux 6.14).
    Uncached,
}

impl Strategy {
    /// All of them.
    pub const ALL: &[Strategy] = &[
        Strategy::Streaming,
        Strategy::Whole,
        Strategy::Mapped,
        Strategy::Ring,
        Strategy::Direct,
        Strategy::Uncached,
    ];

    /// Its name, for a command line.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Streaming => "streaming",
            Strategy::Whole => "whole",
            Strategy::Mapped => "mapped",
            Strategy::Ring => "ring",
            Strategy::Direct => "direct",
            Strategy::Uncached => "uncached",
        }
    }

    /// The buffer that [`BufferSize::Auto`] stands for with this strategy, in bytes.
    pub fn auto_buffer_bytes(self) -> usize {
        match self {
            // Nothing is copied, and a block costs a question after the lease: 280 MB of lines took
            // 135 ns for a KiB in blocks of 32 KiB, 114 in 128, 110 in 512 and in 2048.
            Strategy::Mapped => 512 << 10,
            // Each read waits for the disk: 3.9 us for a KiB in blocks of 32 KiB, 2.2 in 128, 1.4 in
            // 512, 1.2 in 1024, and no less beyond.
            Strategy::Direct => 1 << 20,
            _ => AUTO_BUFFER_BYTES,
        }
    }

    /// The strategy of that name.
    pub fn named(name: &str) -> Option<Strategy> {
        Strategy::ALL.iter().copied().find(|strategy| strategy.name() == name)
    }
}

/// What the system is told about a file that will be read (`posix_fadvise`).
///
/// ```
/// use sweetspot_io::{Hint, ReadOptions};
///
/// // The next file of many: its first bytes come while this one is worked on.
/// let options = ReadOptions::new().hint(Hint::WillNeed);
/// assert_eq!(options.hint, Hint::WillNeed);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// Nothing; its own read-ahead is good.
    #[default]
    None,
    /// It will be read from the beginning to the end: twice the read-ahead.
    Sequential,
    /// All of it will be needed: start reading now.
    WillNeed,
}

/// How to read.
///
/// ```
/// use sweetspot_io::{BufferSize, ReadOptions, Strategy};
///
/// let options =
///     ReadOptions::new().strategy(Strategy::Mapped).buffer_size(BufferSize::Bytes(1 << 20));
/// assert_eq!(options.strategy, Some(Strategy::Mapped));
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The strategy; `None`: the library chooses. [`Choice`] says what, and why.
    pub strategy: Option<Strategy>,
    /// The size of each buffer. [`BufferSize::Off`] stands for the smallest with which the verb
    /// can work at all.
    pub buffer_size: BufferSize,
    /// What the system is told.
    pub hint: Hint,
}

impl ReadOptions {
    /// Leaves the choice to the library.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// Sets the strategy; `None` lets the library choose.
        strategy: impl Into<Option<Strategy>>,
        /// Sets the size of each buffer.
        buffer_size: BufferSize,
        /// Sets what the system is told.
        hint: Hint,
    }
}

/// How an input is read, with which buffer, and why.
///
/// ```
/// use sweetspot_io::{Input, ReadOptions, Reader, Strategy};
///
/// let input = Input::reader("memory", &b"content"[..]);
/// let choice = Reader::open(input, &ReadOptions::new().strategy(Strategy::Mapped))?.choice();
/// assert_eq!(choice.strategy, Strategy::Streaming);
/// assert_eq!(choice.why, "what is no regular file can only be read in order");
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// How the input is read.
    pub strategy: Strategy,
    /// The size of a buffer in bytes.
    pub buffer_bytes: usize,
    /// Why it is this strategy.
    pub why: &'static str,
}

/// Chooses how to read an input. `unit_bytes` is the smallest buffer with which the verb can work.
pub(crate) fn choose(facts: &Facts, options: &ReadOptions, unit_bytes: usize) -> Choice {
    let (strategy, why) = match (options.strategy, facts.kind) {
        (None, InputKind::Regular) => {
            (Strategy::Streaming, "the kernel reads ahead, and the buffer stays in the cache")
        }
        (None, _) => (Strategy::Streaming, "its length is not known"),
        (Some(wanted @ (Strategy::Streaming | Strategy::Whole)), _) => (wanted, "asked for"),
        (Some(Strategy::Ring), _) if cfg!(not(feature = "uring")) => {
            (Strategy::Streaming, "this was built without the feature uring")
        }
        (Some(wanted), InputKind::Regular) => (wanted, "asked for"),
        (Some(_), InputKind::Unsized) => {
            (Strategy::Streaming, "a file that may not know its length can only be read in order")
        }
        (Some(_), InputKind::Stream) => {
            (Strategy::Streaming, "what is no regular file can only be read in order")
        }
    };
    let left = facts.size.saturating_sub(facts.at);
    let auto_bytes = match facts.kind {
        // One byte more than there is: the read that gets all also sees the end.
        InputKind::Regular => {
            left.saturating_add(1).min(strategy.auto_buffer_bytes() as u64) as usize
        }
        _ => strategy.auto_buffer_bytes(),
    };
    let buffer_bytes = options.buffer_size.bytes(auto_bytes, unit_bytes);
    let in_one_read = facts.kind == InputKind::Regular && left < buffer_bytes as u64;
    match options.strategy {
        None if in_one_read => Choice { strategy, buffer_bytes, why: "one read gets all of it" },
        _ => Choice { strategy, buffer_bytes, why },
    }
}

/// What a strategy does.
pub(crate) trait Advance: Send {
    /// Keeps the last `keep` bytes of the block and appends what comes next in the input. Returns
    /// how many bytes were appended: 0 at the end, and then the kept bytes are still there.
    fn advance(&mut self, keep: usize) -> io::Result<usize>;

    /// The present block.
    fn block(&self) -> &[u8];
}

/// An input, block by block.
pub(crate) struct Blocks {
    advance: Box<dyn Advance>,
    name: String,
    choice: Choice,
    /// Where the block begins, in bytes from where reading began.
    at: u64,
    ended: bool,
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks")
            .field("name", &self.name)
            .field("choice", &self.choice)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

/// A strategy cannot be used here: why, and the input again.
pub(crate) struct Unusable(&'static str, Opened);

impl Blocks {
    pub fn open(input: Input, options: &ReadOptions, unit_bytes: usize) -> Result<Blocks> {
        Blocks::new(input.open()?, options, unit_bytes)
    }

    pub fn new(opened: Opened, options: &ReadOptions, unit_bytes: usize) -> Result<Blocks> {
        let mut choice = choose(&opened.facts, options, unit_bytes);
        give_hint(&opened, options.hint);
        let name = opened.name.clone();
        let buffer_bytes = choice.buffer_bytes;
        let advance = match choice.strategy {
            Strategy::Streaming => Ok(streaming::new(opened, buffer_bytes)),
            Strategy::Whole => Ok(whole::new(opened)),
            Strategy::Mapped => mapped::new(opened, buffer_bytes),
            #[cfg(feature = "uring")]
            Strategy::Ring => ring::new(opened, buffer_bytes),
            #[cfg(not(feature = "uring"))]
            Strategy::Ring => Ok(streaming::new(opened, buffer_bytes)),
            Strategy::Direct => direct::new(opened, buffer_bytes),
            Strategy::Uncached => direct::new_uncached(opened, buffer_bytes),
        }
        .unwrap_or_else(|Unusable(why, opened)| {
            choice = Choice { strategy: Strategy::Streaming, why, ..choice };
            streaming::new(opened, buffer_bytes)
        });
        Ok(Blocks { advance, name, choice, at: 0, ended: false })
    }

    pub fn advance(&mut self, keep: usize) -> Result<usize> {
        let old = self.advance.block().len();
        if self.ended {
            return Ok(0);
        }
        match self.advance.advance(keep) {
            Ok(fresh) => {
                self.at += (old - keep) as u64;
                self.ended = fresh == 0;
                Ok(fresh)
            }
            Err(error) => {
                self.ended = true;
                Err(Error::system("read", &self.name)(error))
            }
        }
    }

    pub fn block(&self) -> &[u8] {
        self.advance.block()
    }

    pub fn at(&self) -> u64 {
        self.at
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn choice(&self) -> Choice {
        self.choice
    }
}

/// A hint that the system does not take is no error.
fn give_hint(opened: &Opened, hint: Hint) {
    let advice = match hint {
        Hint::None => return,
        Hint::Sequential => Advice::Sequential,
        Hint::WillNeed => Advice::WillNeed,
    };
    if let crate::input::Source::File(file) = &opened.source {
        let _ = rustix::fs::fadvise(file, opened.facts.at, None, advice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_follows_from_the_facts() {
        let regular = |size| Facts { kind: InputKind::Regular, size, at: 0 };
        let check = |facts, strategy, buffer_size, expected| {
            let options = ReadOptions { strategy, buffer_size, hint: Hint::None };
            let choice = choose(&facts, &options, 1);
            assert_eq!((choice.strategy, choice.buffer_bytes), expected, "{facts:?} {options:?}");
            assert!(!choice.why.is_empty());
        };
        let auto = AUTO_BUFFER_BYTES;
        for strategy in Strategy::ALL.iter().copied().filter(|strategy| *strategy != Strategy::Ring)
        {
            let expected = match strategy {
                Strategy::Mapped => 512 << 10,
                Strategy::Direct => 1 << 20,
                _ => auto,
            };
            check(regular(1 << 30), Some(strategy), BufferSize::Auto, (strategy, expected));
            check(regular(10), Some(strategy), BufferSize::Auto, (strategy, 11));
        }
        check(regular(10), None, BufferSize::Auto, (Strategy::Streaming, 11));
        check(regular(1 << 30), None, BufferSize::Auto, (Strategy::Streaming, auto));
        check(regular(10), None, BufferSize::Off, (Strategy::Streaming, 1));
        check(regular(10), None, BufferSize::Bytes(7), (Strategy::Streaming, 7));
        check(Facts::STREAM, None, BufferSize::Auto, (Strategy::Streaming, auto));
        for &strategy in Strategy::ALL {
            assert_eq!(Strategy::named(strategy.name()), Some(strategy));
            let built = strategy != Strategy::Ring || cfg!(feature = "uring");
            let expected = if built { strategy } else { Strategy::Streaming };
            check(regular(1 << 20), Some(strategy), BufferSize::Bytes(7), (expected, 7));
            let anywhere = [Strategy::Streaming, Strategy::Whole].contains(&strategy);
            let expected = if anywhere { strategy } else { Strategy::Streaming };
            check(Facts::STREAM, Some(strategy), BufferSize::Bytes(7), (expected, 7));
        }
    }
}

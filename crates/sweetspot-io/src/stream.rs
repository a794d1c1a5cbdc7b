//! Lines for asynchronous code (feature `async`): a [`Stream`] of batches of whole lines, for any
//! executor.
//!
//! The kernel has no asynchronous reads of files that are as fast as ordinary ones out of the page
//! cache, so a thread reads, a few batches ahead, and the stream gives them out. Dropping the stream
//! ends the thread after the read that it is in.
//!
//! ```
//! use futures_lite::StreamExt;
//! use sweetspot_io::{Input, lines, stream::batches};
//!
//! # futures_lite::future::block_on(async {
//! let input = Input::reader("memory", &b"one\ntwo\n"[..]);
//! let mut batches = batches(input, &lines::Options::default())?;
//! let mut lines = 0;
//! while let Some(batch) = batches.next().await {
//!     lines += batch?.as_batch().count();
//! }
//! assert_eq!(lines, 2);
//! # Ok::<(), sweetspot_io::Error>(())
//! # }).unwrap();
//! ```

use crate::error::{Error, Result};
use crate::input::Input;
use crate::lines::{Batch, Ends, Lines, Options};
use crate::sys::Inherited;
use async_channel::Receiver;
use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Batches that may wait to be taken; each is about as large as the buffer.
pub const WAITING_MAX: usize = 2;

/// Whole lines that belong to anyone who got them.
#[derive(Clone, Debug)]
pub struct OwnedBatch {
    bytes: Vec<u8>,
    ends: Ends,
    at: u64,
}

impl OwnedBatch {
    /// The lines.
    pub fn as_batch(&self) -> Batch<'_> {
        Batch::at_position(&self.bytes, self.ends, self.at)
    }
}

/// The stream of [`batches`].
#[derive(Debug)]
pub struct Batches {
    receiver: Pin<Box<Receiver<Result<OwnedBatch>>>>,
}

/// Reads `input` in a thread of its own; the lines come as a stream of batches. After an error the
/// stream ends.
///
/// # Errors
/// Where the input cannot be opened, or there can be no further thread.
pub fn batches(input: impl Into<Input>, options: &Options) -> Result<Batches> {
    let mut lines = Lines::open(input, options)?;
    let ends = options.ends;
    let (sender, receiver) = async_channel::bounded(WAITING_MAX);
    let inherited = Inherited::from_here();
    let read = move || {
        inherited.adopt();
        loop {
            let next = match lines.next_batch() {
                Ok(None) => return,
                Ok(Some(batch)) => {
                    Ok(OwnedBatch { bytes: batch.bytes().to_vec(), ends, at: batch.at() })
                }
                Err(error) => Err(error),
            };
            let failed = next.is_err();
            if sender.send_blocking(next).is_err() || failed {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("read lines".into());
    thread.spawn(read).map_err(Error::system("start a thread for", "a stream of lines"))?;
    Ok(Batches { receiver: Box::pin(receiver) })
}

impl Stream for Batches {
    type Item = Result<OwnedBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.as_mut().poll_next(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::{self, Place};
    use crate::{BufferSize, ReadOptions, lines::scan};
    use futures_lite::{StreamExt, future::block_on};

    fn options(buffer_bytes: u32) -> Options {
        let buffer_size = BufferSize::Bytes(buffer_bytes);
        Options {
            read: ReadOptions { buffer_size, ..ReadOptions::default() },
            ..Options::default()
        }
    }

    #[test]
    fn a_stream_has_the_lines_of_the_input() {
        for content in test::contents() {
            let place = Place::new(&content);
            for buffer_bytes in [1, 2, 7, 64, 5000] {
                let mut stream = batches(place.input(), &options(buffer_bytes)).unwrap();
                let (mut found, mut at) = (Vec::new(), 0);
                while let Some(batch) = block_on(stream.next()) {
                    let batch = batch.unwrap();
                    assert_eq!(batch.as_batch().at(), at);
                    at += batch.as_batch().bytes().len() as u64;
                    found.extend(batch.as_batch().iter().map(<[u8]>::to_vec));
                }
                let lines = scan::tests::lines(&content, Ends::Any).into_iter();
                let expected: Vec<_> =
                    lines.map(|(start, end)| content[start..end].to_vec()).collect();
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn an_error_ends_it_after_the_lines_before() {
        let place = Place::new(b"one\ntwo\nvery long\nthree\n");
        let options = Options { line_bytes_max: 4, ..options(10) };
        let mut stream = batches(place.input(), &options).unwrap();
        let mut lines = 0;
        let error = loop {
            match block_on(stream.next()).unwrap() {
                Ok(batch) => lines += batch.as_batch().count(),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("longer than 4 bytes"), "{error}");
        assert_eq!(lines, 2);
        assert!(block_on(stream.next()).is_none());
        assert!(batches("/no/such/file", &options).is_err());
    }
}

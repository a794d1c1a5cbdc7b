//! Any input as a [`std::io::BufRead`], for code that knows nothing of this crate: parsers,
//! decompressors, [`std::io::copy`].

use crate::error::Result;
use crate::input::Input;
use crate::strategy::{Blocks, Choice, ReadOptions};
use std::io::{self, BufRead, Read};

/// Reads an [`Input`] as [`Read`] and [`BufRead`], with any [`Strategy`](crate::Strategy).
///
/// It has a buffer, so there is no need of a [`std::io::BufReader`] around it. An error is a
/// [`std::io::Error`] of the same kind, which holds the [`Error`](crate::Error) that names the file.
/// After an error the input has ended.
///
/// ```
/// use std::io::BufRead;
/// use sweetspot_io::{ReadOptions, Reader, Strategy};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("config");
/// std::fs::write(&path, "name = ada\nage = 17\n")?;
///
/// let options = ReadOptions::new().strategy(Strategy::Whole);
/// let mut names = Vec::new();
/// for line in Reader::open(&path, &options)?.lines() {
///     names.extend(line?.split_once(" = ").map(|(name, _)| name.to_owned()));
/// }
/// assert_eq!(names, ["name", "age"]);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// The other way round [`Input::reader`] makes an input of a [`Read`].
#[derive(Debug)]
pub struct Reader {
    blocks: Blocks,
    /// How many bytes of the block were consumed.
    consumed: usize,
}

impl Reader {
    /// Opens `input`.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub fn open(input: impl Into<Input>, options: &ReadOptions) -> Result<Reader> {
        Ok(Reader { blocks: Blocks::open(input.into(), options, 1)?, consumed: 0 })
    }

    /// How the input is read, and why so.
    pub fn choice(&self) -> Choice {
        self.blocks.choice()
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.fill_buf()?.read(buffer)?;
        self.consume(len);
        Ok(len)
    }
}

impl BufRead for Reader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.consumed == self.blocks.block().len() {
            let fresh = self.blocks.advance(0)?;
            self.consumed = self.blocks.block().len() - fresh;
        }
        Ok(&self.blocks.block()[self.consumed..])
    }

    fn consume(&mut self, amount: usize) {
        self.consumed = (self.consumed + amount).min(self.blocks.block().len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::{self, Place};
    use crate::{BufferSize, Error, Strategy};

    fn options(strategy: Strategy, buffer_bytes: u32) -> ReadOptions {
        let buffer_size = BufferSize::Bytes(buffer_bytes);
        ReadOptions { strategy: Some(strategy), buffer_size, ..ReadOptions::default() }
    }

    #[test]
    fn all_ways_to_read_give_the_same_bytes() {
        for content in test::contents() {
            let place = Place::new(&content);
            for &strategy in Strategy::ALL {
                for (turn, buffer_bytes) in test::buffers(&content).enumerate() {
                    let input = if turn % 5 == 0 { test::pipe(&content) } else { place.input() };
                    let mut reader = Reader::open(input, &options(strategy, buffer_bytes)).unwrap();
                    let mut found = Vec::new();
                    // Some bytes in small reads, a line, and all that is left.
                    let mut some = vec![0; turn % 4];
                    let len = reader.read(&mut some).unwrap();
                    found.extend_from_slice(&some[..len]);
                    reader.read_until(b'\n', &mut found).unwrap();
                    reader.read_to_end(&mut found).unwrap();
                    assert!(found == content, "{strategy:?} {buffer_bytes} {turn}");
                    assert_eq!(reader.fill_buf().unwrap(), b"", "the end stays the end");
                    assert_eq!(reader.read(&mut [0; 9]).unwrap(), 0);
                }
            }
        }
    }

    #[test]
    fn what_was_not_consumed_comes_again() {
        let place = Place::new(b"abcdef");
        for &strategy in Strategy::ALL {
            let mut reader = Reader::open(place.input(), &options(strategy, 4)).unwrap();
            let first = reader.fill_buf().unwrap().to_vec();
            assert!(!first.is_empty() && b"abcdef".starts_with(&first), "{strategy:?}");
            reader.consume(1);
            assert_eq!(reader.fill_buf().unwrap(), &first[1..]);
            let mut rest = String::new();
            reader.read_to_string(&mut rest).unwrap();
            assert_eq!(rest, "bcdef", "{strategy:?}");
        }
    }

    #[test]
    fn an_error_names_the_file_and_ends_the_input() {
        for &strategy in Strategy::ALL {
            let mut reader = Reader::open("/", &options(strategy, 4)).unwrap();
            let error = reader.read(&mut [0; 4]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::IsADirectory, "{strategy:?}");
            assert!(error.to_string().starts_with("cannot read /: "), "{error}");
            assert!(error.downcast::<Error>().unwrap().io().is_some());
            assert_eq!(reader.fill_buf().unwrap(), b"");
        }
    }
}

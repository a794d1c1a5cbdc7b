//! Any output as a [`std::io::Write`].

use crate::error::Result;
use crate::output::{Existing, Output, Written};
use std::io::{self, Write};

/// Writes to an [`Output`] as [`Write`]. A file appears under its name with [`Writer::finish`];
/// without it the path is left as it was.
///
/// Each write is a system call: put a [`std::io::BufWriter`] around it where writes are small. An
/// error is a [`std::io::Error`] of the same kind, which holds the [`Error`](crate::Error) that names
/// the file.
///
/// ```
/// use std::io::{BufWriter, Write};
/// use sweetspot_io::{Existing, Writer};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("squares");
/// let mut writer = BufWriter::new(Writer::create(&path, Existing::Refuse)?);
/// for number in 0..1000 {
///     writeln!(writer, "{}", number * number)?;
/// }
/// assert!(!path.exists());
/// let bytes = writer.into_inner()?.finish()?;
/// assert_eq!(std::fs::read_to_string(&path)?.len() as u64, bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The other way round [`Output::writer`] makes an output of a [`Write`].
#[derive(Debug)]
pub struct Writer {
    written: Written,
}

impl Writer {
    /// Begins to write to `output`. `existing` says what happens where it is there already.
    ///
    /// # Errors
    /// Where it cannot be created.
    pub fn create(output: impl Into<Output>, existing: Existing) -> Result<Writer> {
        Ok(Writer { written: output.into().open(existing)? })
    }

    /// Gives a new file its name. Returns how many bytes were written.
    ///
    /// ```
    /// use std::io::Write;
    /// use sweetspot_io::{Existing, Writer};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("notes");
    /// let mut writer = Writer::create(&path, Existing::Refuse)?;
    /// writer.write_all(b"one line\n")?;
    /// assert_eq!(writer.finish()?, 9);
    /// assert!(path.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Where the name is taken meanwhile, or what a writer of the caller's still holds cannot be
    /// written.
    pub fn finish(self) -> Result<u64> {
        let bytes = self.written.bytes();
        self.written.finish()?;
        Ok(bytes)
    }
}

impl Write for Writer {
    /// Writes all of it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(self.written.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::Place;
    use crate::{Error, ErrorKind};

    #[test]
    fn a_file_appears_when_it_is_finished() {
        let place = Place::new(b"old");
        let mut writer = Writer::create(place.path("to"), Existing::Refuse).unwrap();
        writer.write_all(b"con").unwrap();
        writer.flush().unwrap();
        writer.write_all(b"tent").unwrap();
        assert!(place.others().is_empty());
        assert_eq!(writer.finish().unwrap(), 7);
        assert_eq!(std::fs::read(place.path("to")).unwrap(), b"content");

        let error = Writer::create(place.path("file"), Existing::Refuse).err().unwrap();
        assert!(matches!(error.kind, ErrorKind::Exists), "{error}");
        for (finishes, expected) in [(false, "old"), (true, "new")] {
            let mut writer = Writer::create(place.path("file"), Existing::Replace).unwrap();
            writer.write_all(b"new").unwrap();
            match finishes {
                true => drop(writer.finish().unwrap()),
                false => drop(writer),
            }
            assert_eq!(std::fs::read(place.path("file")).unwrap(), expected.as_bytes());
        }
        assert_eq!(place.others(), ["to"]);
    }

    #[test]
    fn an_error_names_the_file() {
        let mut writer = Writer::create("/dev/full", Existing::Refuse).unwrap();
        let error = writer.write_all(b"content").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().starts_with("cannot write /dev/full: "), "{error}");
        assert!(error.downcast::<Error>().unwrap().io().is_some());
    }
}

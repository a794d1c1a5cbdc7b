//! The work of the streaming-or-buffering experiment (Jon Skeet, 2009): "encrypts" files line by
//! line. Each byte of each line is XORed once in every pass with the number of the pass (0, 1, 2 ...,
//! its low 8 bits); line ends stay as they are.
//!
//! The passes are really made, one after another: they stand for work that takes time. What
//! [`Strategy::Streaming`](crate::Strategy::Streaming) and
//! [`Strategy::Whole`](crate::Strategy::Whole) mean here is what the experiment called streaming (read,
//! transform and write a line, repeat) and buffering (read all, transform all, write all).
//!
//! ```
//! use sweetspot_io::transform::{self, transform};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let (plain, secret) = (folder.path().join("plain"), folder.path().join("secret"));
//! std::fs::write(&plain, "abc\n").unwrap();
//! let options = transform::Options { passes: 2, ..transform::Options::default() };
//! let done = transform(&plain, &secret, &options)?;
//! assert_eq!((done.bytes, done.lines), (4, 1));
//! assert_eq!(std::fs::read(&secret).unwrap(), b"`cb\n"); // each byte XOR 0, then XOR 1
//! # Ok::<(), sweetspot_io::Error>(())
//! ```

use crate::buffer_size::BufferSize;
use crate::each_line::{self, each_batch, threads};
use crate::error::{Error, ErrorKind, Result};
use crate::input::Input;
use crate::lines::{self, Batch, Ends, Lines};
use crate::output::{Existing, Output};
use crate::strategy::{AUTO_BUFFER_BYTES, ReadOptions};
use crate::sys::Inherited;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A file of one line can be transformed as well.
const LINE_BYTES_MAX: usize = usize::MAX - 1;

/// What threads share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// The files of a folder: each thread gets its list of files at the start.
    #[default]
    Files,
    /// The lines of each file, one file after another, in chunks of the buffer's size (see
    /// [`each_line`]). Without a strategy all threads read; with one, a thread reads while the
    /// others work.
    Lines,
}

/// How to transform.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Strategy, buffer and hint.
    pub read: ReadOptions,
    /// How many bytes are collected before they are written. [`BufferSize::Off`]: each batch of
    /// lines at once. Threads that share lines write each chunk.
    pub write_buffer: BufferSize,
    /// How many passes are made over each line; 0 copies.
    pub passes: u32,
    /// What ends a line.
    pub ends: Ends,
    /// What happens where an output is there already.
    pub existing: Existing,
    /// How many threads; 0: as many as there are processors.
    pub threads: usize,
    /// What they share. One file has one thread unless they share its lines.
    pub share: Share,
    /// Is told now and then how many bytes are done.
    pub progress: Option<&'a (dyn Fn(u64) + Sync)>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            read: ReadOptions::default(),
            write_buffer: BufferSize::Auto,
            passes: 1,
            ends: Ends::Any,
            existing: Existing::default(),
            threads: 1,
            share: Share::default(),
            progress: None,
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Files.
    pub files: u64,
    /// Bytes of the input, as many as of the output.
    pub bytes: u64,
    /// Lines.
    pub lines: u64,
}

/// Transforms one input.
///
/// # Errors
/// Where opening, reading or writing fails, a line is too long, or the output is there already.
pub fn transform(
    input: impl Into<Input>,
    output: impl Into<Output>,
    options: &Options<'_>,
) -> Result<Done> {
    transform_counting(input.into(), output.into(), options, &AtomicU64::new(0))
}

fn transform_counting(
    input: Input,
    output: Output,
    options: &Options<'_>,
    all_bytes: &AtomicU64,
) -> Result<Done> {
    if options.share == Share::Lines {
        return transform_in_threads(input, output, options, all_bytes);
    }
    let line_bytes_max = LINE_BYTES_MAX;
    let reading = lines::Options { read: options.read, ends: options.ends, line_bytes_max };
    let mut lines = Lines::open(input, &reading)?;
    let mut written = output.open(options.existing)?;
    let write_bytes = match options.write_buffer {
        BufferSize::Off => 0,
        BufferSize::Auto => AUTO_BUFFER_BYTES,
        BufferSize::Bytes(bytes) => bytes as usize,
    };
    let mut done = Done { files: 1, ..Done::default() };
    let mut buffer = Vec::new();
    while let Some(batch) = lines.next_batch()? {
        done.lines += encrypt_batch(&batch, &mut buffer, options.passes);
        done.bytes += batch.bytes().len() as u64;
        if buffer.len() >= write_bytes {
            written.write_all(&buffer)?;
            buffer.clear();
        }
        tell(options, all_bytes, &batch);
    }
    written.write_all(&buffer)?;
    written.finish()?;
    Ok(done)
}

/// As [`transform_counting`], with threads that share the lines.
fn transform_in_threads(
    input: Input,
    output: Output,
    options: &Options<'_>,
    all_bytes: &AtomicU64,
) -> Result<Done> {
    let sharing = each_line::Options {
        read: options.read,
        ends: options.ends,
        line_bytes_max: Some(LINE_BYTES_MAX),
        threads: options.threads,
        existing: options.existing,
        ..each_line::Options::default()
    };
    let lines = AtomicU64::new(0);
    let tally = each_batch(input, output, &sharing, |batch, buffer| {
        lines.fetch_add(encrypt_batch(batch, buffer, options.passes), Relaxed);
        tell(options, all_bytes, batch);
    })?;
    Ok(Done { files: 1, bytes: tally.bytes_in, lines: lines.into_inner() })
}

/// Says how many bytes of all are done with this batch.
fn tell(options: &Options<'_>, all_bytes: &AtomicU64, batch: &Batch<'_>) {
    let bytes = batch.bytes().len() as u64;
    let before = all_bytes.fetch_add(bytes, Relaxed);
    if let Some(progress) = options.progress {
        progress(before + bytes);
    }
}

/// Appends what becomes of a batch; how many lines it has.
fn encrypt_batch(batch: &Batch<'_>, buffer: &mut Vec<u8>, passes: u32) -> u64 {
    let (base, mut lines) = (buffer.len(), 0);
    buffer.extend_from_slice(batch.bytes());
    batch.for_each_range(|line| {
        encrypt(&mut buffer[base + line.start..base + line.end], passes);
        lines += 1;
    });
    lines
}

/// Makes the passes over one line.
fn encrypt(line: &mut [u8], passes: u32) {
    for pass in 0..passes {
        let key = pass as u8;
        for byte in &mut *line {
            *byte ^= key;
        }
        // Else the passes would be folded into one: XOR with the XOR of all keys.
        black_box(&mut *line);
    }
}

/// Transforms every file of the folder `from` into a file of the same name in the folder `to`, which
/// is made where it is missing. Folders in the folder are left out.
///
/// ```
/// use sweetspot_io::transform::{self, transform_folder};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let (plain, secret) = (folder.path().join("plain"), folder.path().join("secret"));
/// std::fs::create_dir(&plain).unwrap();
/// std::fs::write(plain.join("one.txt"), "abc\n").unwrap();
/// std::fs::write(plain.join("two.txt"), "a\nb\n").unwrap();
/// let options = transform::Options { passes: 2, threads: 2, ..transform::Options::default() };
/// let done = transform_folder(&plain, &secret, &options)?;
/// assert_eq!((done.files, done.lines), (2, 3));
/// assert_eq!(std::fs::read(secret.join("one.txt")).unwrap(), b"`cb\n");
/// # Ok::<(), sweetspot_io::Error>(())
/// ```
///
/// # Errors
/// As [`transform`]; files that were complete before stay.
pub fn transform_folder(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    options: &Options<'_>,
) -> Result<Done> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let (from_name, to_name) = (from.display().to_string(), to.display().to_string());
    let files = files_of(from).map_err(Error::system("list", &from_name))?;
    std::fs::create_dir_all(to).map_err(Error::system("create", &to_name))?;
    if from.canonicalize().ok() == to.canonicalize().ok() {
        return Err(Error::new("transform into", &to_name, ErrorKind::SameFile));
    }
    let (failed, sum) = (AtomicBool::new(false), Mutex::new(Ok(Done::default())));
    let bytes = AtomicU64::new(0);
    let threads = match options.share {
        Share::Files => threads(options.threads),
        Share::Lines => 1,
    };
    let work = |first: usize| {
        for file in files.iter().skip(first).step_by(threads) {
            if failed.load(Relaxed) {
                return;
            }
            let name = file.file_name().unwrap_or_default();
            let result = transform_counting(file.into(), to.join(name).into(), options, &bytes);
            let mut sum = sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match (&mut *sum, result) {
                (Ok(sum), Ok(done)) => {
                    sum.files += done.files;
                    sum.bytes += done.bytes;
                    sum.lines += done.lines;
                }
                (Ok(_), Err(error)) => {
                    failed.store(true, Relaxed);
                    *sum = Err(error);
                }
                (Err(_), _) => {}
            }
        }
    };
    std::thread::scope(|scope| {
        for first in 1..threads.min(files.len()) {
            let inherited = Inherited::from_here();
            let work = &work;
            scope.spawn(move || {
                inherited.adopt();
                work(first);
            });
        }
        work(0);
    });
    sum.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The files of a folder, in the order of their names.
fn files_of(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in folder.read_dir()? {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::{self, Place};
    use crate::{Strategy, lines::scan};

    fn expected(content: &[u8], passes: u32) -> Vec<u8> {
        let mut expected = content.to_vec();
        for (start, end) in scan::tests::lines(content, Ends::Any) {
            for byte in &mut expected[start..end] {
                *byte = (0..passes).fold(*byte, |byte, pass| byte ^ pass as u8);
            }
        }
        expected
    }

    #[test]
    fn all_strategies_and_buffers_give_the_same_bytes() {
        for content in test::contents() {
            let place = Place::new(&content);
            for strategy in Strategy::ALL {
                for buffer_bytes in test::buffers(&content) {
                    let buffer_size = BufferSize::Bytes(buffer_bytes);
                    let strategy = Some(strategy);
                    let options = Options {
                        read: ReadOptions { strategy, buffer_size, ..ReadOptions::default() },
                        write_buffer: [buffer_size, BufferSize::Off][buffer_bytes as usize % 2],
                        passes: [0, 1, 3, 300][buffer_bytes as usize % 4],
                        ..Options::default()
                    };
                    let done = transform(place.input(), place.path("to"), &options).unwrap();
                    let found = std::fs::read(place.path("to")).unwrap();
                    assert_eq!(
                        found,
                        expected(&content, options.passes),
                        "{strategy:?} {buffer_bytes}"
                    );
                    let lines = scan::tests::lines(&content, Ends::Any).len() as u64;
                    assert_eq!((done.bytes, done.lines), (content.len() as u64, lines));
                    std::fs::remove_file(place.path("to")).unwrap();
                }
            }
        }
    }

    #[test]
    fn threads_that_share_lines_give_the_same_bytes() {
        for content in test::contents() {
            let place = Place::new(&content);
            for strategy in [None, Some(Strategy::Streaming), Some(Strategy::Pipeline)] {
                for buffer_bytes in test::buffers(&content) {
                    let buffer_size = BufferSize::Bytes(buffer_bytes);
                    let options = Options {
                        read: ReadOptions { strategy, buffer_size, ..ReadOptions::default() },
                        passes: [0, 3, 300][buffer_bytes as usize % 3],
                        threads: 3,
                        share: Share::Lines,
                        existing: Existing::Replace,
                        ..Options::default()
                    };
                    let done = transform(place.input(), place.path("to"), &options).unwrap();
                    let found = std::fs::read(place.path("to")).unwrap();
                    assert_eq!(found, expected(&content, options.passes), "{strategy:?}");
                    let lines = scan::tests::lines(&content, Ends::Any).len() as u64;
                    assert_eq!((done.bytes, done.lines), (content.len() as u64, lines));
                }
            }
        }
    }

    #[test]
    fn folders_are_transformed_by_any_number_of_threads() {
        let place = Place::new(b"");
        let from = place.path("from");
        std::fs::create_dir_all(from.join("folder")).unwrap();
        for number in 0..10 {
            std::fs::write(from.join(format!("f{number}")), format!("{number}\nx\r\n")).unwrap();
        }
        let shares = [Share::Files, Share::Lines];
        for (threads, share) in [0, 1, 2, 3, 30].map(|n| shares.map(|share| (n, share))).concat() {
            let to = place.path("to");
            let options = Options { threads, share, passes: 6, ..Options::default() };
            let done = transform_folder(&from, &to, &options).unwrap();
            assert_eq!(done, Done { files: 10, bytes: 50, lines: 20 }, "{threads} {share:?}");
            for number in 0..10 {
                let found = std::fs::read(to.join(format!("f{number}"))).unwrap();
                assert_eq!(found, expected(format!("{number}\nx\r\n").as_bytes(), 6));
            }
            let error = transform_folder(&from, &to, &options).unwrap_err();
            assert!(matches!(error.kind, ErrorKind::Exists), "{error}");
            std::fs::remove_dir_all(&to).unwrap();
        }
        let replacing = Options { existing: Existing::Replace, ..Options::default() };
        let error = transform_folder(&from, &from, &replacing).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::SameFile), "{error}");
        assert_eq!(std::fs::read(from.join("f0")).unwrap(), b"0\nx\r\n");
    }

    #[test]
    fn what_comes_behind_a_failure_is_left_alone() {
        let place = Place::new(b"");
        let (from, to) = (place.path("from"), place.path("to"));
        std::fs::create_dir_all(&from).unwrap();
        std::fs::create_dir_all(&to).unwrap();
        for number in 0..6 {
            std::fs::write(from.join(format!("f{number}")), "x\n").unwrap();
        }
        std::fs::write(to.join("f2"), "mine").unwrap();
        let options = Options { threads: 1, ..Options::default() };
        let error = transform_folder(&from, &to, &options).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Exists), "{error}");
        let there = (0..6).map(|number| to.join(format!("f{number}")).exists());
        assert_eq!(there.collect::<Vec<_>>(), [true, true, true, false, false, false]);
        assert_eq!(std::fs::read(to.join("f2")).unwrap(), b"mine");
    }
}

//! `work transform`: the work of the streaming-or-buffering experiment (Jon Skeet, 2009), which
//! "encrypts" files line by line. Each byte of each line is XORed once in every pass with the number of
//! the pass (0, 1, 2 ..., its low 8 bits); line ends stay as they are.
//!
//! The passes are really made, one after another: they stand for work that takes time. What
//! [`Strategy::Streaming`](sweetspot_io::Strategy::Streaming) and
//! [`Strategy::Whole`](sweetspot_io::Strategy::Whole) mean here is what the experiment called streaming
//! (read, transform and write a line, repeat) and buffering (read all, transform all, write all).

use crate::explain::{cannot, explain, explain_wrapped, system};
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use sweetspot_io::each_line::{self, THREADS_MAX, each_batch};
use sweetspot_io::lines::{self, Batch, Ends, Lines};
use sweetspot_io::{
    AUTO_BUFFER_BYTES, BufferSize, ErrorKind, Existing, Input, Output, ReadOptions, Writer,
};
use sweetspot_report::failure::Failure;

/// A file of one line can be transformed as well.
const LINE_BYTES_MAX: usize = usize::MAX - 1;

/// What threads share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// The files of a folder: each thread gets its list of files at the start.
    #[default]
    Files,
    /// The lines of each file, one file after another, in chunks of the buffer's size (see
    /// [`mod@each_line`]). Without a strategy all threads read; with one, a thread reads while the
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
/// Where opening, reading or writing fails, or the output is there already.
pub fn transform(input: Input, output: Output, options: &Options<'_>) -> Result<Done, Failure> {
    transform_counting(input, output, options, &AtomicU64::new(0))
}

fn transform_counting(
    input: Input,
    output: Output,
    options: &Options<'_>,
    all_bytes: &AtomicU64,
) -> Result<Done, Failure> {
    if options.share == Share::Lines {
        return transform_in_threads(input, output, options, all_bytes);
    }
    let reading =
        lines::Options::new().read(options.read).ends(options.ends).line_bytes_max(LINE_BYTES_MAX);
    let mut lines = Lines::open(input, &reading).map_err(explain)?;
    let mut writer = Writer::create(output, options.existing).map_err(explain)?;
    let write_bytes = match options.write_buffer {
        BufferSize::Off => 0,
        BufferSize::Auto => AUTO_BUFFER_BYTES,
        BufferSize::Bytes(bytes) => bytes as usize,
    };
    let mut done = Done { files: 1, ..Done::default() };
    let mut buffer = Vec::new();
    while let Some(batch) = lines.next_batch().map_err(explain)? {
        done.lines += encrypt_batch(&batch, &mut buffer, options.passes);
        done.bytes += batch.bytes().len() as u64;
        if buffer.len() >= write_bytes {
            writer.write_all(&buffer).map_err(explain_wrapped)?;
            buffer.clear();
        }
        tell(options, all_bytes, &batch);
    }
    writer.write_all(&buffer).map_err(explain_wrapped)?;
    writer.finish().map_err(explain)?;
    Ok(done)
}

/// As [`transform_counting`], with threads that share the lines.
fn transform_in_threads(
    input: Input,
    output: Output,
    options: &Options<'_>,
    all_bytes: &AtomicU64,
) -> Result<Done, Failure> {
    let sharing = each_line::Options::new()
        .read(options.read)
        .ends(options.ends)
        .line_bytes_max(LINE_BYTES_MAX)
        .threads(options.threads)
        .existing(options.existing);
    let lines = AtomicU64::new(0);
    let tally = each_batch(input, output, &sharing, |batch, buffer| {
        lines.fetch_add(encrypt_batch(batch, buffer, options.passes), Relaxed);
        tell(options, all_bytes, batch);
    })
    .map_err(explain)?;
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
/// # Errors
/// As [`transform`]; files that were complete before stay.
pub fn transform_folder(from: &Path, to: &Path, options: &Options<'_>) -> Result<Done, Failure> {
    let (from_name, to_name) = (from.display().to_string(), to.display().to_string());
    let files = files_of(from).map_err(system("list", &from_name))?;
    std::fs::create_dir_all(to).map_err(system("create", &to_name))?;
    if from.canonicalize().ok() == to.canonicalize().ok() {
        return Err(cannot("transform into", &to_name, &ErrorKind::SameFile));
    }
    let (failed, sum) = (AtomicBool::new(false), Mutex::new(Ok(Done::default())));
    let bytes = AtomicU64::new(0);
    let threads = match options.share {
        Share::Files => thread_count(options.threads),
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
            let work = &work;
            scope.spawn(move || work(first));
        }
        work(0);
    });
    sum.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// How many threads an option means.
fn thread_count(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        wanted => wanted,
    }
    .min(THREADS_MAX)
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
    use sweetspot_io::Strategy;

    /// A folder to work in.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Place {
            Place(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// Transforms `content` from file to file.
        fn transform(&self, content: &[u8], options: &Options<'_>) -> (Vec<u8>, Done) {
            std::fs::write(self.path("file"), content).unwrap();
            let options = Options { existing: Existing::Replace, ..*options };
            let input = Input::path(self.path("file"));
            let done = transform(input, Output::path(self.path("to")), &options).unwrap();
            (std::fs::read(self.path("to")).unwrap(), done)
        }
    }

    fn expected(content: &[u8], passes: u32) -> Vec<u8> {
        let key = (0..passes).fold(0, |key, pass| key ^ pass as u8);
        let change = |&byte: &u8| if b"\r\n".contains(&byte) { byte } else { byte ^ key };
        content.iter().map(change).collect()
    }

    fn contents() -> Vec<Vec<u8>> {
        let mixed: Vec<u8> = (0..40_usize)
            .flat_map(|number| {
                let end = [&b"\n"[..], b"\r", b"\r\n", b"\n\r", b"\r\r\n"][number % 5];
                [&vec![b'a' + (number % 26) as u8; number * 7 % 23], end].concat()
            })
            .collect();
        vec![vec![], b"\r".to_vec(), b"one\ntwo\r\nthree\rfour".to_vec(), mixed]
    }

    fn check(content: &[u8], options: &Options<'_>) {
        let (found, done) = Place::new().transform(content, options);
        let what = format!("{:?} {:?} {:?}", options.read, options.write_buffer, options.share);
        assert_eq!(found, expected(content, options.passes), "{what}");
        let lines = Batch::new(content, Ends::Any).count();
        assert_eq!(done, Done { files: 1, bytes: content.len() as u64, lines }, "{what}");
    }

    #[test]
    fn all_strategies_and_buffers_give_the_same_bytes() {
        for content in contents() {
            for (turn, strategy) in
                Strategy::ALL.iter().copied().map(Some).chain([None]).enumerate()
            {
                for buffer_bytes in [1, 2, 3, 7, 63, 64, 65, 4096] {
                    let buffer_size = BufferSize::Bytes(buffer_bytes);
                    let read = ReadOptions::new().strategy(strategy).buffer_size(buffer_size);
                    let passes = [0, 1, 3, 300][(turn + buffer_bytes as usize) % 4];
                    for share in [Share::Files, Share::Lines] {
                        let write_buffer =
                            [buffer_size, BufferSize::Off][buffer_bytes as usize % 2];
                        check(
                            &content,
                            &Options {
                                read,
                                passes,
                                share,
                                write_buffer,
                                threads: 3,
                                ..Options::default()
                            },
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn folders_are_transformed_by_any_number_of_threads() {
        let place = Place::new();
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
            let failure = transform_folder(&from, &to, &options).unwrap_err();
            assert!(failure.what().contains("it is there already"), "{failure}");
            std::fs::remove_dir_all(&to).unwrap();
        }
        let replacing = Options { existing: Existing::Replace, ..Options::default() };
        let failure = transform_folder(&from, &from, &replacing).unwrap_err();
        assert!(failure.what().ends_with("input and output are the same file"), "{failure}");
        assert_eq!(std::fs::read(from.join("f0")).unwrap(), b"0\nx\r\n");
    }

    #[test]
    fn what_comes_behind_a_failure_is_left_alone() {
        let place = Place::new();
        let (from, to) = (place.path("from"), place.path("to"));
        std::fs::create_dir_all(&from).unwrap();
        std::fs::create_dir_all(&to).unwrap();
        for number in 0..6 {
            std::fs::write(from.join(format!("f{number}")), "x\n").unwrap();
        }
        std::fs::write(to.join("f2"), "mine").unwrap();
        let options = Options { threads: 1, ..Options::default() };
        let failure = transform_folder(&from, &to, &options).unwrap_err();
        assert!(failure.what().contains("it is there already"), "{failure}");
        let there = (0..6).map(|number| to.join(format!("f{number}")).exists());
        assert_eq!(there.collect::<Vec<_>>(), [true, true, true, false, false, false]);
        assert_eq!(std::fs::read(to.join("f2")).unwrap(), b"mine");
    }
}

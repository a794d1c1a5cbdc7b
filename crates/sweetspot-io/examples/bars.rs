//! One job in one way, in a process of its own, for comparing: `bars JOB WAY FILE`.
//!
//! Reports the nanoseconds that the job took for a KiB of its input, and prints what came out of it, which
//! must not depend on the way. `benchmarks/library.toml` is a plan for `sweetspot bench` that runs it.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use sweetspot_io::lines::{self, Batch, Ends, Lines};
use sweetspot_io::{AUTO_BUFFER_BYTES, Output, ReadOptions, Strategy, each_line};

type Outcome = Result<String, Box<dyn std::error::Error>>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let &[job, way, file] = &words[..] else {
        eprintln!("bars JOB WAY FILE");
        std::process::exit(2);
    };
    let outcome = match (job, way) {
        ("each-line", "library") => timed(file_bytes(file), || each_line_lines(file, None)),
        ("each-line", "mapped") => {
            timed(file_bytes(file), || each_line_lines(file, Some(Strategy::Mapped)))
        }
        ("each-line", "memchr_iter") => timed(file_bytes(file), || each_line_memchr(file)),
        ("each-line", "read_until") => timed(file_bytes(file), || each_line_read_until(file)),
        ("parallel", "pread") => timed(file_bytes(file), || parallel_pread(file)),
        ("parallel", "library") => timed(file_bytes(file), || parallel_each_line(file)),
        ("each-line-in-memory", _) => each_line_in_memory(way, file),
        ("latin1", _) => latin1(way, file),
        _ => Err(format!("no job {job} in the way {way}").into()),
    };
    match outcome {
        Ok(text) => println!("{text}"),
        Err(error) => {
            eprintln!("bars: {error}");
            std::process::exit(1);
        }
    }
}

/// Takes the time of a job on so many bytes, and tells anyone who wants to know: on the descriptor that
/// `sweetspot bench` names, or else in words.
fn timed(bytes: usize, run: impl FnOnce() -> Outcome) -> Outcome {
    let start = Instant::now();
    let outcome = run()?;
    let nanoseconds = start.elapsed().as_secs_f64() * 1e9 / (bytes as f64 / 1024.0);
    let Some(descriptor) = std::env::var_os("SWEETSPOT_SAMPLES_FD") else {
        return Ok(format!("{nanoseconds} ns for a KiB\n{outcome}"));
    };
    let path = std::path::Path::new("/dev/fd").join(descriptor);
    let mut samples = File::options().write(true).open(path)?;
    writeln!(samples, "{{\"unit\": \"ns\", \"samples\": [{nanoseconds}]}}")?;
    Ok(outcome)
}

fn file_bytes(file: &str) -> usize {
    std::fs::metadata(file).map_or(1, |metadata| metadata.len() as usize)
}

/// How many threads read in the parallel jobs: one for each processor.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Reads the whole file in threads and does nothing with it: what parallel work is measured by.
fn parallel_pread(file: &str) -> Outcome {
    let (file, next, bytes) = (File::open(file)?, AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                let mut buffer = vec![0; AUTO_BUFFER_BYTES];
                loop {
                    let at = next.fetch_add(1, Relaxed) * buffer.len() as u64;
                    match file.read_at(&mut buffer, at) {
                        Ok(0) | Err(_) => return,
                        Ok(len) => bytes.fetch_add(black_box(&buffer[..len]).len() as u64, Relaxed),
                    };
                }
            });
        }
    });
    Ok(format!("{} bytes", bytes.into_inner()))
}

/// The same with something done for every line.
fn parallel_each_line(file: &str) -> Outcome {
    let options = each_line::Options::new().order(each_line::Order::Any);
    let bytes = AtomicU64::new(0);
    each_line::each_batch(file, Output::nowhere(), &options, |batch, _| {
        let mut sum = Sum::default();
        batch.for_each_line(|line| sum.add(line));
        black_box(sum.mixed);
        bytes.fetch_add(sum.bytes + sum.lines, Relaxed);
    })?;
    Ok(format!("{} bytes", bytes.into_inner()))
}

/// What is done with each line: enough that it must be looked at.
#[derive(Default)]
struct Sum {
    lines: u64,
    bytes: u64,
    mixed: u64,
}

impl Sum {
    #[inline(always)]
    fn add(&mut self, line: &[u8]) {
        self.lines += 1;
        self.bytes += line.len() as u64;
        let first = line.first().copied().unwrap_or(0);
        self.mixed = self.mixed.wrapping_add(self.lines.wrapping_mul(u64::from(first)));
    }

    fn text(&self) -> String {
        format!("{} lines, {} bytes, {:x}", self.lines, self.bytes, self.mixed)
    }
}

fn each_line_lines(file: &str, strategy: Option<Strategy>) -> Outcome {
    let mut sum = Sum::default();
    let options = lines::Options::new().read(ReadOptions::new().strategy(strategy));
    Lines::open(file, &options)?.for_each_line(|line| sum.add(line))?;
    Ok(sum.text())
}

/// A loop as one writes it by hand, with a buffer as large as the library's.
fn each_line_memchr(file: &str) -> Outcome {
    let mut file = File::open(file)?;
    let mut buffer = vec![0; AUTO_BUFFER_BYTES];
    let (mut sum, mut kept) = (Sum::default(), 0);
    loop {
        let len = file.read(&mut buffer[kept..])?;
        if len == 0 {
            if kept > 0 {
                sum.add(&buffer[..kept]);
            }
            return Ok(sum.text());
        }
        let bytes = &buffer[..kept + len];
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            sum.add(&bytes[start..end]);
            start = end + 1;
        }
        kept = bytes.len() - start;
        buffer.copy_within(start..start + kept, 0);
        if kept == buffer.len() {
            return Err("a line does not fit into the buffer".into());
        }
    }
}

fn each_line_read_until(file: &str) -> Outcome {
    let mut reader = BufReader::with_capacity(AUTO_BUFFER_BYTES, File::open(file)?);
    let (mut sum, mut line) = (Sum::default(), Vec::new());
    while reader.read_until(b'\n', &mut line)? > 0 {
        sum.add(line.strip_suffix(b"\n").unwrap_or(&line));
        line.clear();
    }
    Ok(sum.text())
}

/// The same without reading: all lines of a piece of memory, again and again.
fn each_line_in_memory(way: &str, file: &str) -> Outcome {
    const PASSES: usize = 200;
    let mut content = vec![0; 1 << 20];
    let len = File::open(file)?.read(&mut content)?;
    let end = content[..len].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let content = &content[..end];
    timed(content.len() * PASSES, || {
        let mut sum = Sum::default();
        for _ in 0..PASSES {
            let content = black_box(content);
            match way {
                "library" => Batch::new(content, Ends::Any).for_each_line(|line| sum.add(line)),
                "memchr_iter" => {
                    let mut start = 0;
                    for end in memchr::memchr_iter(b'\n', content) {
                        sum.add(&content[start..end]);
                        start = end + 1;
                    }
                }
                "read_until" => {
                    let (mut reader, mut line) = (content, Vec::new());
                    while reader.read_until(b'\n', &mut line)? > 0 {
                        sum.add(line.strip_suffix(b"\n").unwrap_or(&line));
                        line.clear();
                    }
                }
                _ => return Err("unknown".into()),
            }
        }
        Ok(sum.text())
    })
}

/// Decodes the file, which is in memory, in pieces that stay in the processor's cache.
fn latin1(way: &str, file: &str) -> Outcome {
    const PIECE_BYTES: usize = 64 << 10;
    const PASSES: usize = 4;
    let content = std::fs::read(file)?;
    let mut text = String::with_capacity(2 * PIECE_BYTES + 64);
    let mut space = vec![0; 2 * PIECE_BYTES];
    timed(content.len() * PASSES, || {
        let (mut len, mut last) = (0, 0);
        for piece in (0..PASSES).flat_map(|_| content.chunks(PIECE_BYTES)) {
            let decoded = match way {
                "library" => {
                    text.clear();
                    lines::append_latin1(&mut text, black_box(piece));
                    text.as_bytes()
                }
                "encoding_rs" => {
                    let len =
                        encoding_rs::mem::convert_latin1_to_utf8(black_box(piece), &mut space);
                    &space[..len]
                }
                _ => return Err("unknown".into()),
            };
            len += black_box(decoded).len();
            last = decoded.last().copied().unwrap_or(0);
        }
        Ok(format!("{len} bytes, the last {last}"))
    })
}

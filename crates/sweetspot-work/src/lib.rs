//! `sweetspot work`: the library `sweetspot-io` as commands, for people who want the job done and as
//! the programs of experiments.
//!
//! ```text
//! arguments  what can be typed
//! generate   makes data sets from a seed
//! transform  a file, or all files of a folder, in passes
//! rungs      ever faster ways to read lines
//! outcome    what a command says when it is done, and its progress
//! explain    what to type next when something cannot be done
//! ```
//!
//! Each command does its job, says what `cp`, `cmp` or `wc` would say and ends with their exit
//! status; with `--json` it prints one object instead. The time in it is that of the job alone; what
//! was made is hashed afterwards.
//!
//! `generate` and `transform` are experiments, and so are the slower ways of `lines --reader` (`rungs`):
//! they are made of what the library offers to everyone.
//!
//! Not here: how the rest is done (`sweetspot-io`), and measuring (`sweetspot-lab`). Who calls sees to the
//! signal of a file that becomes too large (`SIGXFSZ`), and to what is said on stderr.
#![forbid(unsafe_code)]

#[cfg(test)]
use test_start as _;

mod arguments;
mod explain;
mod generate;
mod outcome;
mod rungs;
mod transform;

pub use arguments::Work;

use arguments::{Compare, Copy, Generate, Lines, Records, Transform, Verb};
use explain::{STATUS_DIFFERENT, STATUS_FAILED, STATUS_TROUBLE, explain};
use generate::{Content, Preset};
use outcome::{Bar, Outcome, print_line};
use rungs::Rung;
use sweetspot_report::failure::Failure;
use sweetspot_report::shown::shown;

use clap::Parser;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use sweetspot_io::{Input, Output, compare, copy, each_line, lines, records};
use transform::Share;

/// Does what was typed, and returns the exit status. `say` is told what failed where the rest is done
/// all the same.
///
/// # Errors
/// Where it cannot be done.
pub fn work(arguments: &Work, say: fn(Failure)) -> Result<u8, Failure> {
    match &arguments.verb {
        Verb::Generate(arguments) => make(arguments),
        Verb::Copy(arguments) => do_copy(arguments),
        Verb::Compare(arguments) => do_compare(arguments),
        Verb::Transform(arguments) => do_transform(arguments),
        Verb::Lines(arguments) => read_lines(arguments, say),
        Verb::Records(arguments) => work_on_records(arguments),
    }
}

/// `-` is standard input, as everywhere.
fn input(path: &Path) -> Input {
    if path.as_os_str() == "-" { Input::stdin() } else { Input::path(path) }
}

fn output(path: &Path) -> Output {
    if path.as_os_str() == "-" { Output::stdout() } else { Output::path(path) }
}

/// The length of a file, for a progress bar.
fn len(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// How many bytes `work generate` makes with these arguments; none where they cannot be counted.
///
/// # Errors
/// Where they are not understood.
pub fn generated_bytes(words: &[OsString]) -> Result<Option<u64>, String> {
    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        generate: Generate,
    }
    let words = ["generate".into()].into_iter().chain(words.iter().cloned());
    match Typed::try_parse_from(words.chain(["folder".into()])) {
        Ok(typed) => Ok(content(&typed.generate).bytes()),
        Err(error) => Err(error.to_string().lines().next().unwrap_or_default().to_owned()),
    }
}

/// What is to be made.
fn content<'a>(arguments: &Generate) -> generate::Options<'a> {
    let mut options = match (&arguments.preset, arguments.records, arguments.binary) {
        (Some(preset), ..) => {
            let preset = Preset::named(preset).unwrap_or(Preset::Small);
            preset.options(arguments.scale)
        }
        (None, Some(records), _) => generate::Options::new(Content::Records {
            records,
            record_bytes: arguments.record_bytes,
        }),
        (None, None, Some(bytes)) => generate::Options::new(Content::Binary { bytes }),
        (None, None, None) => generate::Options::new(Content::Lines {
            lines: arguments.lines,
            characters: arguments.characters,
        }),
    };
    if arguments.preset.is_none() {
        options.files = arguments.files;
    }
    (options.seed, options.existing) = (arguments.seed, arguments.force.existing());
    options
}

fn make(arguments: &Generate) -> Result<u8, Failure> {
    let mut options = content(arguments);
    let bar = Bar::new(options.bytes().unwrap_or(0));
    options.progress = bar.listener();
    let started = Instant::now();
    let made = generate::generate(&arguments.folder, &options)?;
    let mut outcome = Outcome::new("generate", started);
    outcome.set("files", made.files).set("bytes", made.bytes);
    outcome.hash(&arguments.folder);
    let said =
        format!("made {} files, {} bytes in {}", made.files, made.bytes, shown(&arguments.folder));
    outcome.show(arguments.json, Some(&said))?;
    Ok(0)
}

fn do_copy(arguments: &Copy) -> Result<u8, Failure> {
    let bar = Bar::new(len(&arguments.from));
    let (read, existing) = (arguments.read.options()?, arguments.force.existing());
    let mut options = copy::Options::new().read(read).existing(existing);
    options.progress = bar.listener();
    // As `cp` does it where the second name is a folder.
    let to = match (arguments.to.is_dir(), arguments.from.file_name()) {
        (true, Some(name)) => arguments.to.join(name),
        _ => arguments.to.clone(),
    };
    let started = Instant::now();
    let copied = copy::copy(input(&arguments.from), output(&to), &options).map_err(explain)?;
    let mut outcome = Outcome::new("copy", started);
    let how = match copied.how {
        copy::How::Cloned => "clone",
        copy::How::CopyRange => "copy_file_range",
        copy::How::Spliced => "splice",
        _ => "read and write",
    };
    outcome.set("bytes", copied.bytes).set("how", how);
    outcome.hash(&to);
    outcome.show(arguments.read.json, None)?;
    Ok(0)
}

fn do_compare(arguments: &Compare) -> Result<u8, Failure> {
    let bar = Bar::new(len(&arguments.one));
    let compared = AtomicU64::new(0);
    let progress = |bytes| {
        compared.store(bytes, Relaxed);
        bar.tell(bytes);
    };
    let options = compare::Options::new().read(arguments.read.options()?).progress(&progress);
    let trouble = |error| explain(error).status(STATUS_TROUBLE);
    let unprinted = |failure: Failure| failure.status(STATUS_TROUBLE);
    let (one, other) = (&arguments.one, &arguments.other);
    let started = Instant::now();
    if arguments.silent {
        let equal = compare::content_equals(input(one), input(other), &options);
        let equal = equal.map_err(trouble)?;
        let mut outcome = Outcome::new("compare", started);
        outcome.set("equal", equal).set("bytes", compared.into_inner());
        outcome.show(arguments.read.json, None).map_err(unprinted)?;
        return Ok(if equal { 0 } else { STATUS_DIFFERENT });
    }
    let found = compare::first_difference(input(one), input(other), &options).map_err(trouble)?;
    let mut outcome = Outcome::new("compare", started);
    outcome.set("equal", found.is_none()).set("at", found.map(|difference| difference.at));
    outcome.set("bytes", compared.into_inner());
    let said = found.map(|found| match (found.one, found.other) {
        (None, _) => format!("{} ends after byte {}", shown(one), found.at),
        (_, None) => format!("{} ends after byte {}", shown(other), found.at),
        _ => format!("{} {} differ: byte {}", shown(one), shown(other), found.at + 1),
    });
    outcome.show(arguments.read.json, said.as_deref()).map_err(unprinted)?;
    Ok(if found.is_none() { 0 } else { STATUS_DIFFERENT })
}

fn do_transform(arguments: &Transform) -> Result<u8, Failure> {
    let from_folder = arguments.from.is_dir();
    let bar = Bar::new(if from_folder { 0 } else { len(&arguments.from) });
    let options = transform::Options {
        read: arguments.read.options()?,
        write_buffer: arguments::size("--write-buffer", &arguments.write_buffer)?,
        passes: arguments.work,
        existing: arguments.force.existing(),
        threads: arguments.threads,
        share: if arguments.shares_lines() { Share::Lines } else { Share::Files },
        progress: bar.listener(),
        ..transform::Options::default()
    };
    let started = Instant::now();
    let done = if from_folder {
        transform::transform_folder(&arguments.from, &arguments.to, &options)
    } else {
        transform::transform(input(&arguments.from), output(&arguments.to), &options)
    }?;
    let mut outcome = Outcome::new("transform", started);
    outcome.set("files", done.files).set("bytes", done.bytes).set("lines", done.lines);
    outcome.hash(&arguments.to);
    outcome.show(arguments.read.json, None)?;
    Ok(0)
}

/// What is known of lines that were read: their number, their bytes, and a sum in which each line's
/// place, length, first and last byte count, to compare two ways of reading by.
#[derive(Default)]
struct Seen {
    lines: u64,
    bytes: u64,
    sum: u64,
}

impl Seen {
    #[inline]
    fn add(&mut self, line: &[u8]) {
        self.lines += 1;
        self.bytes += line.len() as u64;
        let first = u64::from(line.first().copied().unwrap_or(0));
        let last = u64::from(line.last().copied().unwrap_or(0));
        let looks = line.len() as u64 + (first << 32) + (last << 40);
        self.sum = self.sum.wrapping_add(self.lines.wrapping_mul(looks));
    }

    /// As [`Seen::add`], and says now and then how far it is.
    fn add_telling(&mut self, line: &[u8], tell: &dyn Fn(u64)) {
        self.add(line);
        if self.lines.is_multiple_of(TOLD_EACH) {
            tell(self.bytes);
        }
    }

    fn hash(&self) -> String {
        format!("sum:{:016x}", self.sum)
    }
}

/// After how many lines or records progress is told.
const TOLD_EACH: u64 = 1 << 14;

fn read_lines(arguments: &Lines, say: fn(Failure)) -> Result<u8, Failure> {
    let options = lines::Options::new()
        .read(arguments.read.options()?)
        .ends(arguments.ends())
        .line_bytes_max(arguments.line_bytes_max);
    let stdin = [std::path::PathBuf::from("-")];
    let no_files = arguments.files.is_empty();
    let files = if no_files { &stdin[..] } else { &arguments.files };
    let bar = Bar::new(files.iter().map(|file| len(file)).sum());
    let (mut total, mut status, mut bytes_before) = (Seen::default(), 0, 0);
    let started = Instant::now();
    for file in files {
        let tell = |bytes| bar.tell(bytes_before + bytes);
        let result = read_lines_of(file, arguments, &options, &tell);
        bytes_before += len(file);
        let seen = match result {
            Ok(seen) => seen,
            // As `wc` does it: the others are read, and the status tells.
            Err(failure) => {
                say(failure);
                status = STATUS_FAILED;
                continue;
            }
        };
        if !arguments.read.json {
            match no_files {
                true => print_line(&seen.lines.to_string())?,
                false => print_line(&format!("{} {}", seen.lines, shown(file)))?,
            }
        }
        total.lines += seen.lines;
        total.bytes += seen.bytes;
        total.sum = total.sum.wrapping_add(seen.sum);
    }
    if files.len() > 1 && !arguments.read.json {
        print_line(&format!("{} total", total.lines))?;
    }
    if arguments.read.json {
        let mut outcome = Outcome::new("lines", started);
        outcome.set("lines", total.lines).set("bytes", total.bytes);
        // Several threads do not know the numbers of their lines.
        outcome.set("hash", (arguments.threads == 1).then(|| total.hash()));
        outcome.show(true, None)?;
    }
    Ok(status)
}

fn read_lines_of(
    file: &Path,
    arguments: &Lines,
    options: &lines::Options,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<Seen, Failure> {
    if arguments.threads != 1 {
        return read_lines_in_threads(file, arguments, options, tell).map_err(explain);
    }
    let mut seen = Seen::default();
    match (arguments.encoding(), &arguments.reader) {
        (Some(encoding), None) => lines::Lines::open(input(file), options)
            .and_then(|mut lines| {
                lines.for_each_text(encoding, |line| seen.add_telling(line.as_bytes(), tell))
            })
            .map_err(explain)?,
        (None, Some(reader)) => {
            let rung = Rung::named(reader).unwrap_or(Rung::Lines);
            rungs::climb(rung, input(file), options, |line| seen.add_telling(line, tell))?;
        }
        _ => {
            let mut lines = lines::Lines::open(input(file), options).map_err(explain)?;
            while let Some(batch) = lines.next_batch().map_err(explain)? {
                if arguments.read.json {
                    batch.for_each_line(|line| seen.add(line));
                } else {
                    seen.lines += batch.count();
                }
                tell(batch.at());
            }
        }
    }
    Ok(seen)
}

/// Line numbers are not known here, so there is no sum.
fn read_lines_in_threads(
    file: &Path,
    arguments: &Lines,
    options: &lines::Options,
    tell: &(dyn Fn(u64) + Sync),
) -> Result<Seen, sweetspot_io::Error> {
    let options = each_line::Options::new()
        .read(options.read)
        .ends(options.ends)
        .line_bytes_max(options.line_bytes_max)
        .threads(arguments.threads)
        .order(each_line::Order::Any)
        .progress(tell);
    let (lines, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    each_line::each_batch(input(file), Output::nowhere(), &options, |batch, _| {
        let mut seen = Seen::default();
        batch.for_each_line(|line| seen.add(line));
        lines.fetch_add(seen.lines, Relaxed);
        bytes.fetch_add(seen.bytes, Relaxed);
    })?;
    Ok(Seen { lines: lines.into_inner(), bytes: bytes.into_inner(), sum: 0 })
}

fn work_on_records(arguments: &Records) -> Result<u8, Failure> {
    let options = records::Options::new(arguments.record_bytes)
        .read(arguments.read.options()?)
        .existing(arguments.force.existing());
    let bar =
        Bar::new(arguments.random.map_or(len(&arguments.file), |count| {
            count.saturating_mul(arguments.record_bytes as u64)
        }));
    let tell = |bytes| bar.tell(bytes);
    let mut seen = Seen::default();
    let started = Instant::now();
    let made = match (&arguments.to, arguments.rewrite, arguments.random) {
        (Some(to), ..) => {
            copy_records(arguments, to, &options, &mut |record| seen.add_telling(record, &tell))
        }
        (None, true, _) => {
            rewrite_records(arguments, &options, &mut |record| seen.add_telling(record, &tell))
        }
        (None, false, Some(count)) => read_at_random(arguments, count, &options, &mut |record| {
            seen.add_telling(record, &tell)
        }),
        (None, false, None) => {
            records::Reader::open(input(&arguments.file), &options).and_then(|mut reader| {
                reader.for_each_record(|record| seen.add_telling(record, &tell))
            })
        }
    };
    made.map_err(explain)?;
    let mut outcome = Outcome::new("records", started);
    outcome.set("records", seen.lines).set("bytes", seen.bytes);
    outcome.set("hash", seen.hash());
    if let Some(made) = arguments.to.as_ref().or(arguments.rewrite.then_some(&arguments.file)) {
        outcome.hash(made);
    }
    let said = format!("{} {}", seen.lines, shown(&arguments.file));
    outcome.show(arguments.read.json, Some(&said))?;
    Ok(0)
}

type Ended = Result<(), sweetspot_io::Error>;

fn copy_records(
    arguments: &Records,
    to: &Path,
    options: &records::Options,
    see: &mut dyn FnMut(&[u8]),
) -> Ended {
    let mut reader = records::Reader::open(input(&arguments.file), options)?;
    let mut writer = records::Writer::create(output(to), options)?;
    while let Some(record) = reader.next_record()? {
        see(record);
        writer.write(record)?;
    }
    writer.finish().map(drop)
}

/// Writes every record again as it is.
fn rewrite_records(
    arguments: &Records,
    options: &records::Options,
    see: &mut dyn FnMut(&[u8]),
) -> Ended {
    let mut records = records::Records::open(&arguments.file, options)?;
    let mut copy = Vec::new();
    while let Some(record) = records.next_record()? {
        see(record);
        copy.clear();
        copy.extend_from_slice(record);
        records.rewrite(&copy)?;
    }
    records.finish()
}

fn read_at_random(
    arguments: &Records,
    count: u64,
    options: &records::Options,
    see: &mut dyn FnMut(&[u8]),
) -> Ended {
    let mut records = records::Records::open(&arguments.file, options)?;
    let of = records.count()?.max(1);
    let mut state = arguments.seed;
    for _ in 0..count {
        // A linear congruential generator (Knuth, MMIX); its high bits are good enough to jump by.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        see(records.get((state >> 33) % of)?);
    }
    Ok(())
}

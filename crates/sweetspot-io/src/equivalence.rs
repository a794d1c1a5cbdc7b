//! Tests only: each verb does the same whatever the strategy, the buffer and the kind of input, and
//! stays harmless where a file changes under it.

use crate::each_line::{self, each_line};
use crate::lines::{self, Ends, Lines, scan};
use crate::records::{self, Reader};
use crate::test::{self, Place};
use crate::{BufferSize, Input, Output, ReadOptions, Strategy};
use crate::{compare, copy};
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::Mutex;

/// What a verb needs besides its input.
struct Job<'a> {
    read: ReadOptions,
    /// What the input is expected to hold.
    content: &'a [u8],
    /// Is called when the verb has begun to read.
    begun: &'a (dyn Fn() + Sync),
}

/// A verb, and what must come out of it.
struct Verb {
    name: &'static str,
    run: fn(Input, &Job<'_>) -> crate::Result<Vec<u8>>,
    expected: fn(&[u8]) -> Vec<u8>,
}

const RECORD_BYTES: usize = 7;

const VERBS: &[Verb] = &[
    Verb {
        name: "lines",
        run: |input, job| {
            let options = lines::Options { read: job.read, ..lines::Options::default() };
            let mut found = Vec::new();
            Lines::open(input, &options)?.for_each_line(|line| {
                (job.begun)();
                show(line, &mut found);
            })?;
            Ok(found)
        },
        expected: shown_lines,
    },
    Verb {
        name: "lines one by one",
        run: |input, job| {
            let options = lines::Options { read: job.read, ..lines::Options::default() };
            let (mut lines, mut found) = (Lines::open(input, &options)?, Vec::new());
            while let Some(line) = lines.next_line()? {
                (job.begun)();
                show(line, &mut found);
            }
            Ok(found)
        },
        expected: shown_lines,
    },
    Verb {
        name: "reader and writer",
        run: |input, job| {
            let kept = Kept::default();
            let output = Output::writer("memory", kept.clone());
            let mut reader = crate::Reader::open(input, &job.read)?;
            let mut writer = crate::Writer::create(output, Default::default())?;
            loop {
                let block = reader.fill_buf().map_err(named)?;
                if block.is_empty() {
                    break;
                }
                (job.begun)();
                writer.write_all(block).map_err(named)?;
                let len = block.len();
                reader.consume(len);
            }
            writer.finish()?;
            Ok(kept.take())
        },
        expected: <[u8]>::to_vec,
    },
    Verb {
        name: "lines of text",
        run: |input, job| {
            let options = lines::Options { read: job.read, ..lines::Options::default() };
            let mut found = Vec::new();
            Lines::open(input, &options)?.for_each_text(lines::Encoding::Latin1, |line| {
                (job.begun)();
                show(line.as_bytes(), &mut found);
            })?;
            Ok(found)
        },
        expected: |content| {
            let text: String = shown_lines(content).iter().map(|&byte| char::from(byte)).collect();
            text.into_bytes()
        },
    },
    #[cfg(feature = "async")]
    Verb {
        name: "stream of lines",
        run: |input, job| {
            use futures_lite::{StreamExt, future::block_on};
            let options = lines::Options { read: job.read, ..lines::Options::default() };
            let (mut batches, mut found) = (crate::stream::batches(input, &options)?, Vec::new());
            while let Some(batch) = block_on(batches.next()) {
                (job.begun)();
                batch?.as_batch().for_each_line(|line| show(line, &mut found));
            }
            Ok(found)
        },
        expected: shown_lines,
    },
    Verb {
        name: "each line",
        run: |input, job| {
            let progress = |_| (job.begun)();
            let progress: Option<&(dyn Fn(u64) + Sync)> = Some(&progress);
            let options =
                each_line::Options { read: job.read, threads: 2, progress, ..Default::default() };
            let writer = Kept::default();
            let output = Output::writer("memory", writer.clone());
            each_line(input, output, &options, |line, output| {
                show(line, output);
            })?;
            Ok(writer.take())
        },
        expected: shown_lines,
    },
    Verb {
        name: "records",
        run: |input, job| {
            let options =
                records::Options { read: job.read, ..records::Options::new(RECORD_BYTES) };
            let mut found = Vec::new();
            let result = Reader::open(input, &options)?.for_each_record(|record| {
                (job.begun)();
                show(record, &mut found);
            });
            match result {
                Err(error) if matches!(error.kind, crate::ErrorKind::RecordTruncated { .. }) => {}
                result => result?,
            }
            Ok(found)
        },
        expected: |content| {
            let mut expected = Vec::new();
            content.chunks_exact(RECORD_BYTES).for_each(|record| show(record, &mut expected));
            expected
        },
    },
    Verb {
        name: "copy",
        run: |input, job| {
            let place = Place::new(b"");
            let progress = |_| (job.begun)();
            let options =
                copy::Options { read: job.read, progress: Some(&progress), ..Default::default() };
            let copied = copy::copy(input, place.path("to"), &options)?;
            let found = std::fs::read(place.path("to")).unwrap();
            assert_eq!(copied.bytes, found.len() as u64);
            Ok(found)
        },
        expected: <[u8]>::to_vec,
    },
    Verb {
        name: "compare",
        run: |input, job| {
            let progress = |_| (job.begun)();
            let options = compare::Options { read: job.read, progress: Some(&progress) };
            let other = Input::reader("memory", std::io::Cursor::new(job.content.to_vec()));
            let found = compare::first_difference(input, other, &options)?;
            // As much of the content as was equal.
            let equal = found.map_or(job.content.len(), |difference| difference.at as usize);
            Ok(job.content[..equal].to_vec())
        },
        expected: <[u8]>::to_vec,
    },
];

/// The error that the traits of std have wrapped.
fn named(error: std::io::Error) -> crate::Error {
    error.downcast().unwrap()
}

fn show(part: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(part);
    to.push(b'|');
}

fn shown_lines(content: &[u8]) -> Vec<u8> {
    let mut expected = Vec::new();
    for (start, end) in scan::tests::lines(content, Ends::Any) {
        show(&content[start..end], &mut expected);
    }
    expected
}

/// A writer that keeps everything.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Kept {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl std::io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn strategies() -> impl Iterator<Item = Option<Strategy>> {
    Strategy::ALL.iter().copied().map(Some).chain([None])
}

fn options(strategy: Option<Strategy>, buffer_bytes: u32) -> ReadOptions {
    let buffer_size = BufferSize::Bytes(buffer_bytes);
    ReadOptions { strategy, buffer_size, ..ReadOptions::default() }
}

/// Every verb and strategy, with a buffer of each size.
fn check(content: &[u8], buffers: &[u32], inputs: &[fn(&Place, &[u8]) -> Input]) {
    let place = Place::new(content);
    for verb in VERBS {
        let expected = (verb.expected)(content);
        for strategy in strategies() {
            for (turn, &buffer_bytes) in buffers.iter().enumerate() {
                let input = inputs[turn % inputs.len()](&place, content);
                let job = Job { read: options(strategy, buffer_bytes), content, begun: &|| {} };
                let found = (verb.run)(input, &job);
                let what = format!("{} {strategy:?} {buffer_bytes} {turn}", verb.name);
                let found = found.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(found == expected, "{what}: {} bytes of input", content.len());
            }
        }
    }
}

const INPUTS: &[fn(&Place, &[u8]) -> Input] = &[
    |place, _| place.input(),
    |place, _| std::fs::File::open(place.path("file")).unwrap().into(),
    |_, content| Input::reader("memory", std::io::Cursor::new(content.to_vec())),
    |_, content| test::pipe(content),
];

#[test]
fn inputs_of_all_lengths_and_kinds() {
    let content: Vec<u8> = test::contents().into_iter().flatten().cycle().take(70_000).collect();
    for len in (0..=70).chain([4095, 4096, 4097, 65_535, 65_536, 65_537, 70_000]) {
        // Large inputs in a few bytes at a time would take long.
        let buffers = if len < 4000 { [1, 7, 64, 4096] } else { [512, 4096, 4097, 65_536] };
        check(&content[..len], &buffers, INPUTS);
    }
}

#[test]
fn buffers_of_all_sizes() {
    for content in test::contents() {
        let buffers: Vec<u32> = test::buffers(&content).collect();
        check(&content, &buffers, &INPUTS[..1]);
    }
}

#[test]
fn holes_and_files_without_a_length() {
    let place = Place::new(b"");
    let file = std::fs::File::options().write(true).open(place.path("file")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"in\nthe\r\nmiddle", 100_000).unwrap();
    file.set_len(300_000).unwrap();
    let content = std::fs::read(place.path("file")).unwrap();
    let proc_content = std::fs::read("/proc/filesystems").unwrap();
    for verb in VERBS {
        for strategy in strategies() {
            for buffer_bytes in [512, 4096, 65_536] {
                let read = options(strategy, buffer_bytes);
                let job = Job { read, content: &content, begun: &|| {} };
                let found = (verb.run)(place.input(), &job).unwrap();
                let what = format!("{} {strategy:?} {buffer_bytes}", verb.name);
                assert!(found == (verb.expected)(&content), "{what}: a hole");
                let job = Job { content: &proc_content, ..job };
                let found = (verb.run)(Input::path("/proc/filesystems"), &job).unwrap();
                assert!(found == (verb.expected)(&proc_content), "{what}: /proc");
            }
        }
    }
}

#[test]
fn files_that_grow_or_shrink_meanwhile() {
    const LEN: usize = 40_000;
    let content: Vec<u8> = b"abc\n".iter().copied().cycle().take(LEN).collect();
    for verb in VERBS {
        for strategy in strategies() {
            for len_after in [0, LEN / 2 + 1, 2 * LEN] {
                let place = Place::new(&content);
                let changer = Mutex::new(None);
                let begun = || {
                    let mut changer = changer.lock().unwrap();
                    changer.get_or_insert_with(|| place.change_len(len_after as u64));
                };
                let job = Job { read: options(strategy, 512), content: &content, begun: &begun };
                let result = (verb.run)(place.input(), &job);
                changer.into_inner().unwrap().unwrap().join().unwrap();
                let what = format!("{} {strategy:?} {len_after}", verb.name);
                let found = result.unwrap_or_else(|error| panic!("{what}: {error}"));
                // All that was read was there at some time: the content, and zeros behind it.
                let grown: Vec<u8> =
                    content.iter().copied().chain(std::iter::repeat_n(0, LEN)).collect();
                let most = (verb.expected)(&grown);
                let least = (verb.expected)(&content[..LEN.min(len_after)]);
                let zeros = |bytes: &[u8]| bytes.iter().all(|byte| [0, b'|', 3].contains(byte));
                let same = found.iter().zip(&most).take_while(|(one, other)| one == other).count();
                assert!(found.len() <= most.len() + 1, "{what}: {} bytes", found.len());
                assert!(same >= least.len().saturating_sub(1), "{what}: {same} bytes are right");
                assert!(zeros(&found[same..]), "{what}: from byte {same} on");
            }
        }
    }
}

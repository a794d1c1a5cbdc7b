use super::*;
use crate::test::{self, Place};
use crate::{BufferSize, Strategy, sys};
use proptest::prelude::{Just, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as _;

fn options(record_bytes: usize, strategy: Strategy, buffer_bytes: u32) -> Options {
    let buffer_size = BufferSize::Bytes(buffer_bytes);
    let read = ReadOptions { strategy: Some(strategy), buffer_size, ..ReadOptions::default() };
    Options { read, ..Options::new(record_bytes) }
}

fn read(input: Input, options: &Options) -> (Vec<Vec<u8>>, Option<ErrorKind>) {
    let mut reader = Reader::open(input, options).unwrap();
    let mut records = Vec::new();
    // The first is pulled, the others are pushed.
    let result = match reader.next_record() {
        Ok(Some(record)) => {
            records.push(record.to_vec());
            reader.for_each_record(|record| records.push(record.to_vec()))
        }
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    assert!(reader.next_record().unwrap().is_none(), "an error is told once");
    (records, result.err().map(|error| error.kind))
}

#[test]
fn all_strategies_and_buffers_give_the_same_records() {
    let content: Vec<u8> = (0..1000u32).map(|number| (number * 7 % 251) as u8).collect();
    for len in [0, 1, 6, 7, 8, 70, 200, 999, 1000] {
        let content = &content[..len];
        let place = Place::new(content);
        for &strategy in Strategy::ALL {
            for (turn, buffer_bytes) in test::buffers(content).enumerate() {
                let record_bytes = [1, 7, 8, 69, 200][turn % 5];
                let options = options(record_bytes, strategy, buffer_bytes);
                let input = match turn % 7 {
                    0 => test::pipe(content),
                    _ => place.input(),
                };
                let (records, error) = read(input, &options);
                let what = format!("{strategy:?} {record_bytes} {buffer_bytes} {len}");
                let mut expected: Vec<_> =
                    content.chunks(record_bytes).map(<[u8]>::to_vec).collect();
                match len % record_bytes {
                    0 => assert!(error.is_none(), "{what}"),
                    rest => {
                        expected.pop();
                        let Some(ErrorKind::RecordTruncated { number, found_bytes, .. }) = error
                        else {
                            panic!("{what}: {error:?}")
                        };
                        assert_eq!((number, found_bytes), (expected.len() as u64, rest), "{what}");
                    }
                }
                assert_eq!(records, expected, "{what}");
            }
        }
    }
}

#[test]
fn records_after_a_stop_are_still_there() {
    use std::ops::ControlFlow::{Break, Continue};
    let content: Vec<u8> = (0..250).collect();
    let place = Place::new(&content);
    for &strategy in Strategy::ALL {
        for buffer_bytes in (1..70).chain([250, 1000]) {
            let options = options(10, strategy, buffer_bytes);
            let mut reader = Reader::open(place.input(), &options).unwrap();
            let mut found = Vec::new();
            loop {
                let before = found.len();
                let flow = reader.for_each_record(|record| {
                    found.extend_from_slice(record);
                    if found.len() - before == 30 { Break(record[0]) } else { Continue(()) }
                });
                match flow.unwrap() {
                    Break(first) => assert_eq!(first, found[found.len() - 10]),
                    Continue(()) => break,
                }
                found.extend_from_slice(reader.next_record().unwrap().unwrap_or_default());
            }
            assert_eq!(found, content, "{strategy:?} {buffer_bytes}");
        }
    }
}

#[test]
fn records_are_written_whole_or_not_at_all() {
    let place = Place::new(b"old");
    for buffer_bytes in 1..70 {
        let options = options(7, Strategy::Streaming, buffer_bytes);
        let path = place.path("new");
        let mut writer = Writer::create(&path, &options).unwrap();
        for number in 0..20 {
            writer.write(format!("rec{number:04}").as_bytes()).unwrap();
        }
        let error = writer.write(b"short").unwrap_err();
        assert!(matches!(error.kind, ErrorKind::RecordLength { found_bytes: 5, record_bytes: 7 }));
        assert!(place.others().is_empty(), "nothing has a name before it is complete");
        assert_eq!(writer.finish().unwrap(), 140);
        let expected: String = (0..20).map(|number| format!("rec{number:04}")).collect();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
        std::fs::remove_file(&path).unwrap();
    }
    let error = Writer::create(place.path("file"), &Options::new(7)).err().unwrap();
    assert!(matches!(error.kind, ErrorKind::Exists), "{error}");
    let replace = Options { existing: Existing::Replace, ..Options::new(3) };
    let mut writer = Writer::create(place.path("file"), &replace).unwrap();
    writer.write(b"new").unwrap();
    drop(writer);
    assert_eq!(std::fs::read(place.path("file")).unwrap(), b"old", "it was not finished");
    let mut writer = Writer::create(place.path("file"), &replace).unwrap();
    writer.write(b"new").unwrap();
    writer.finish().unwrap();
    assert_eq!(std::fs::read(place.path("file")).unwrap(), b"new");
    assert!(place.others().is_empty());
}

#[test]
fn lengths_that_make_no_sense_are_refused() {
    for (record_bytes, allowed) in [(0, false), (1, true), (1 << 30, true), ((1 << 30) + 1, false)]
    {
        let input = Input::reader("memory", &b""[..]);
        assert_eq!(Reader::open(input, &Options::new(record_bytes)).is_ok(), allowed);
    }
}

#[test]
fn rewriting_writes_nothing_else() {
    // What another process writes between rewritten records stays.
    let place = Place::new(&[b'.'; 100]);
    let mut records = Records::open(place.path("file"), &Options::new(10)).unwrap();
    assert!(records.rewrite(&[b'x'; 10]).is_err(), "nothing was read");
    for number in [0, 4, 2] {
        records.put(number, &[b'0' + number as u8; 10]).unwrap();
    }
    let other = std::fs::File::options().write(true).open(place.path("file")).unwrap();
    sys::write_all_at(&other, b"other", 12).unwrap();
    assert!(matches!(
        records.put(10, &[0; 10]).unwrap_err().kind,
        ErrorKind::NoRecord { number: 10 }
    ));
    assert!(matches!(records.get(u64::MAX).unwrap_err().kind, ErrorKind::NoRecord { .. }));
    assert_eq!(records.count().unwrap(), 10);
    records.finish().unwrap();
    let expected = b"0000000000..other...2222222222..........4444444444";
    assert_eq!(&std::fs::read(place.path("file")).unwrap()[..50], expected);
    let mut records = Records::open(place.path("file"), &Options::new(10)).unwrap();
    records.put(9, b"at the end").unwrap();
    drop(records);
    assert!(std::fs::read(place.path("file")).unwrap().ends_with(b".at the end"));
}

#[test]
fn an_open_file_is_worked_on_and_a_pipe_is_refused() {
    let place = Place::new(b"onetwo");
    let file = std::fs::File::options().read(true).write(true).open(place.path("file")).unwrap();
    let mut records = Records::open(file, &Options::new(3)).unwrap();
    assert_eq!(records.get(1).unwrap(), b"two");
    records.put(0, b"ONE").unwrap();
    records.finish().unwrap();
    assert_eq!(std::fs::read(place.path("file")).unwrap(), b"ONEtwo");
    for input in [test::pipe(b"onetwo"), Input::reader("memory", &b"onetwo"[..])] {
        let error = Records::open(input, &Options::new(3)).err().unwrap();
        assert!(matches!(error.kind, ErrorKind::Option(_)), "{error}");
    }
}

#[test]
fn records_are_numbered_in_the_error_also_where_they_were_pulled() {
    let input = Input::reader("memory", &b"aabbccd"[..]);
    let options = options(2, Strategy::Streaming, 4);
    let mut reader = Reader::open(input, &options).unwrap();
    let error = loop {
        match reader.next_record() {
            Ok(record) => assert!(record.is_some()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error.kind, ErrorKind::RecordTruncated { number: 3, .. }), "{error}");
}

/// What each call of `write` got.
#[derive(Clone, Default)]
struct Calls(std::sync::Arc<std::sync::Mutex<Vec<usize>>>);

impl std::io::Write for Calls {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().push(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_writes_when_its_buffer_is_full() {
    for (buffer_size, expected) in [
        (BufferSize::Off, &[3, 3, 3, 3, 3][..]),
        (BufferSize::Bytes(1), &[3, 3, 3, 3, 3]),
        (BufferSize::Bytes(5), &[3, 3, 3, 3, 3]),
        (BufferSize::Bytes(6), &[6, 6, 3]),
        (BufferSize::Bytes(8), &[6, 6, 3]),
        (BufferSize::Bytes(100), &[15]),
        (BufferSize::Auto, &[15]),
    ] {
        let calls = Calls::default();
        let read = ReadOptions { buffer_size, ..ReadOptions::default() };
        let options = Options { read, ..Options::new(3) };
        let output = Output::writer("calls", calls.clone());
        let mut writer = Writer::create(output, &options).unwrap();
        for _ in 0..5 {
            writer.write(b"rec").unwrap();
        }
        writer.finish().unwrap();
        assert_eq!(*calls.0.lock().unwrap(), expected, "{buffer_size:?}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Next,
    Get(u64),
    Put(u64, u8),
    Rewrite(u8),
    StartAt(u64),
    Flush,
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Next),
        2 => (0..50u64).prop_map(Step::Get),
        2 => (0..50u64, any::<u8>()).prop_map(|(number, byte)| Step::Put(number, byte)),
        3 => any::<u8>().prop_map(Step::Rewrite),
        1 => (0..50u64).prop_map(Step::StartAt),
        1 => Just(Step::Flush),
    ]
}

proptest! {
    #[test]
    fn records_in_place_are_a_vector(
        len in 0usize..600, record_bytes in 1usize..40, buffer_bytes in 1u32..200,
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let content: Vec<u8> = (0..len).map(|number| (number % 251) as u8).collect();
        let place = Place::new(&content);
        let options = options(record_bytes, Strategy::Streaming, buffer_bytes);
        let mut model: Vec<Vec<u8>> = content.chunks_exact(record_bytes).map(<[u8]>::to_vec).collect();
        let rest = &content[model.len() * record_bytes..];
        let mut records = Records::open(place.path("file"), &options).unwrap();
        let mut next = 0;
        for step in steps {
            match step {
                Step::Next => match model.get(next) {
                    Some(record) => {
                        prop_assert_eq!(records.next_record().unwrap(), Some(&record[..]));
                        next += 1;
                    }
                    None if next == model.len() && !rest.is_empty() => {
                        prop_assert!(records.next_record().is_err());
                    }
                    None => prop_assert_eq!(records.next_record().unwrap(), None),
                },
                Step::Get(number) => {
                    let found = records.get(number).ok().map(<[u8]>::to_vec);
                    prop_assert_eq!(found, model.get(number as usize).cloned());
                }
                Step::Put(number, byte) => {
                    let done = records.put(number, &vec![byte; record_bytes]).is_ok();
                    prop_assert_eq!(done, (number as usize) < model.len());
                    if done {
                        model[number as usize].fill(byte);
                    }
                }
                Step::Rewrite(byte) => {
                    let done = records.rewrite(&vec![byte; record_bytes]).is_ok();
                    prop_assert_eq!(done, next > 0 && next <= model.len());
                    if done {
                        model[next - 1].fill(byte);
                    }
                }
                Step::StartAt(number) => {
                    records.start_at(number);
                    next = number as usize;
                }
                Step::Flush => records.flush().unwrap(),
            }
        }
        records.finish().unwrap();
        let expected: Vec<u8> = model.concat().into_iter().chain(rest.iter().copied()).collect();
        prop_assert_eq!(std::fs::read(place.path("file")).unwrap(), expected);
    }
}

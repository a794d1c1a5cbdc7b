//! Tests only: each verb with each strategy, with every system call in turn at fault.
//!
//! What is interrupted or short must not be noticed at all. What fails must be told, or have been
//! avoided (the kernel's own copying has other ways); never may a wrong result look like a right
//! one, or a part of an output have its final name.

use crate::each_line::{self, each_line};
use crate::sys::fault::{self, Fault};
use crate::test::Place;
use crate::{BufferSize, Error, Existing, Output, ReadOptions, Strategy};
use crate::{compare, copy, lines, records};
use rustix::io::Errno;

type Verb = fn(&Place, ReadOptions) -> Result<Vec<u8>, Error>;

fn result(place: &Place) -> Vec<u8> {
    std::fs::read(place.path("to")).unwrap()
}

const VERBS: &[(&str, Verb)] = &[
    ("lines", |place, read| {
        let options = lines::Options { read, ..lines::Options::default() };
        let mut found = Vec::new();
        lines::Lines::open(place.input(), &options)?.for_each_line(|line| {
            found.extend_from_slice(line);
            found.push(b'|');
        })?;
        Ok(found)
    }),
    ("read and write", |place, read| {
        let mut reader = crate::Reader::open(place.input(), &read)?;
        let mut writer = crate::Writer::create(place.path("to"), Existing::Refuse)?;
        std::io::copy(&mut reader, &mut writer).map_err(|error| error.downcast().unwrap())?;
        writer.finish()?;
        Ok(result(place))
    }),
    ("read records", |place, read| {
        let options = records::Options { read, ..records::Options::new(10) };
        let mut found = Vec::new();
        let mut reader = records::Reader::open(place.input(), &options)?;
        reader.for_each_record(|record| found.extend_from_slice(record))?;
        Ok(found)
    }),
    ("write records", |place, read| {
        let options = records::Options { read, ..records::Options::new(10) };
        let mut writer = records::Writer::create(place.path("to"), &options)?;
        for number in 0..30 {
            writer.write(format!("{number:010}").as_bytes())?;
        }
        writer.finish()?;
        Ok(result(place))
    }),
    ("rewrite records", |place, read| {
        let options = records::Options { read, ..records::Options::new(10) };
        let mut records = records::Records::open(place.path("file"), &options)?;
        let mut number = 0;
        while let Some(record) = records.next_record()? {
            let changed = record.to_ascii_uppercase();
            if number % 3 == 0 {
                records.rewrite(&changed)?;
            }
            number += 1;
        }
        records.finish()?;
        Ok(std::fs::read(place.path("file")).unwrap())
    }),
    ("records by number", |place, read| {
        let options = records::Options { read, ..records::Options::new(10) };
        let mut records = records::Records::open(place.path("file"), &options)?;
        let mut found = Vec::new();
        for number in (0..records.count()?).rev() {
            found.extend_from_slice(records.get(number)?);
        }
        Ok(found)
    }),
    ("copy holes", |place, read| {
        let file = std::fs::File::options().write(true).open(place.path("file")).unwrap();
        file.set_len(20_000).unwrap();
        copy::copy(place.input(), place.path("to"), &copy::Options { read, ..Default::default() })?;
        Ok(result(place))
    }),
    #[cfg(feature = "async")]
    ("stream", |place, read| {
        use futures_lite::StreamExt;
        let options = lines::Options { read, ..lines::Options::default() };
        let mut batches = crate::stream::batches(place.input(), &options)?;
        let mut found = Vec::new();
        while let Some(batch) = futures_lite::future::block_on(batches.next()) {
            found.extend_from_slice(batch?.as_batch().bytes());
        }
        Ok(found)
    }),
    ("copy", |place, read| {
        copy::copy(place.input(), place.path("to"), &copy::Options { read, ..Default::default() })?;
        Ok(result(place))
    }),
    ("copy asking the kernel, over another file", |place, read| {
        let read = ReadOptions { strategy: None, ..read };
        std::fs::write(place.path("to"), "before").unwrap();
        let options = copy::Options { read, existing: Existing::Replace, progress: None };
        let copied = copy::copy(place.input(), place.path("to"), &options);
        let content = result(place);
        if copied.is_err() {
            assert_eq!(content, b"before", "it stays until the new one is complete");
            std::fs::remove_file(place.path("to")).unwrap();
        }
        copied.map(|_| content)
    }),
    ("compare", |place, read| {
        std::fs::copy(place.path("file"), place.path("to")).unwrap();
        let options = compare::Options { read, ..Default::default() };
        let found = compare::first_difference(place.input(), place.path("to"), &options);
        std::fs::remove_file(place.path("to")).unwrap();
        Ok(format!("{:?}", found?).into_bytes())
    }),
    ("each line", |place, read| {
        let options = each_line::Options { read, threads: 2, ..Default::default() };
        each_line(place.input(), place.path("to"), &options, |line, output| {
            output.extend_from_slice(line);
            output.push(b'|');
        })?;
        Ok(result(place))
    }),
    ("each line at positions", |place, read| {
        let read = ReadOptions { strategy: None, ..read };
        let options = each_line::Options { read, threads: 2, ..Default::default() };
        each_line(place.input(), Output::path(place.path("to")), &options, |line, output| {
            output.extend_from_slice(line);
        })?;
        Ok(result(place))
    }),
];

/// Runs a verb on a new file; also says whether the fault was reached.
fn run(verb: Verb, strategy: Strategy, nth: u64, fault: Fault) -> (Result<Vec<u8>, Error>, bool) {
    let content: Vec<u8> = (0..60)
        .flat_map(|n| format!("ln {:06}{}", n * n, ["\n", "\r"][n % 2]).into_bytes())
        .collect();
    let place = Place::new(&content);
    let buffer_size = BufferSize::Bytes(200);
    let strategy = Some(strategy);
    let read = ReadOptions { strategy, buffer_size, ..ReadOptions::default() };
    let (result, reached) = fault::with(nth, fault, || verb(&place, read));
    let others = place.others();
    let expected: &[&str] = if result.is_ok() { &["to"] } else { &[] };
    assert!(others == expected || others.is_empty(), "{others:?} after {result:?}");
    (result, reached)
}

/// More calls than any verb makes here.
const CALLS_MAX: u64 = 2000;

fn for_each_case(fault: Fault, check: impl Fn(&str, &Result<Vec<u8>, Error>, &[u8])) {
    for (name, verb) in VERBS {
        for &strategy in Strategy::ALL {
            let (expected, _) = run(*verb, strategy, u64::MAX, fault);
            let expected = expected.unwrap();
            for nth in 0..=CALLS_MAX {
                let (result, reached) = run(*verb, strategy, nth, fault);
                let what = format!("{name}, {strategy:?}, {fault:?} at call {nth}");
                check(&what, &result, &expected);
                if !reached {
                    assert!(nth > 0, "{what}: nothing was tried");
                    break;
                }
                assert!(nth < CALLS_MAX, "{what}: the test is too small");
            }
        }
    }
}

#[test]
fn interrupted_and_short_calls_are_not_noticed() {
    for fault in [Fault::Error(Errno::INTR), Fault::Short] {
        for_each_case(fault, |what, result, expected| match result {
            Ok(found) => assert_eq!(found, expected, "{what}"),
            Err(error) => panic!("{what}: {error}"),
        });
    }
    for (name, verb) in VERBS {
        for &strategy in Strategy::ALL {
            let expected = run(*verb, strategy, u64::MAX, Fault::Short).0.unwrap();
            let found = run(*verb, strategy, 0, Fault::AlwaysShort).0;
            assert_eq!(found.unwrap(), expected, "{name}, {strategy:?}");
        }
    }
}

#[test]
fn failed_calls_are_told_or_avoided() {
    for errno in [Errno::IO, Errno::NOSPC] {
        let failures = std::cell::Cell::new(0);
        for_each_case(Fault::Error(errno), |what, result, expected| match result {
            Ok(found) => assert_eq!(found, expected, "{what}"),
            Err(error) => {
                let raw = error.io().and_then(std::io::Error::raw_os_error);
                assert_eq!(raw, Some(errno.raw_os_error()), "{what}: {error}");
                failures.set(failures.get() + 1);
            }
        });
        assert!(failures.get() > 500, "{} failures were told", failures.get());
    }
}

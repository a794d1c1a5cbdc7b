//! A file of records that is worked on in place is a vector of bytes.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use sweetspot_io::records::{Options, Records};
use sweetspot_io::{BufferSize, Error, ErrorKind, ReadOptions};

#[derive(Arbitrary, Debug)]
enum Step {
    Get(u8),
    Next,
    StartAt(u8),
    Put(u8, u8),
    Rewrite(u8),
    Flush,
}

/// What the vector has at a record's place.
enum There<'a> {
    Whole(&'a [u8]),
    Part,
    Nothing,
}

fn there(content: &[u8], number: u64, record_bytes: usize) -> There<'_> {
    let rest = content.get(number as usize * record_bytes..).unwrap_or_default();
    match rest.get(..record_bytes) {
        Some(record) => There::Whole(record),
        None if rest.is_empty() => There::Nothing,
        None => There::Part,
    }
}

fn is_truncated(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::RecordTruncated { .. })
}

fn is_missing(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::NoRecord { .. } | ErrorKind::Option(_))
}

fuzz_target!(|data: (u8, u8, u16, Vec<Step>)| {
    let (record_bytes, buffer_bytes, file_bytes, steps) = data;
    let record_bytes = usize::from(record_bytes % 40).max(1);
    // Larger than windows and buffers mostly; the input's bytes are for the steps.
    let mut content: Vec<u8> = (0..file_bytes % 4096).map(|at| (at % 251) as u8).collect();
    let path = format!("/dev/shm/sweetspot-fuzz-{}", std::process::id());
    std::fs::write(&path, &content).unwrap();
    let buffer_size = match buffer_bytes {
        0 => BufferSize::Auto,
        bytes => BufferSize::Bytes(u32::from(bytes)),
    };
    let read = ReadOptions::new().buffer_size(buffer_size);
    let mut records = Records::open(&path, &Options::new(record_bytes).read(read)).unwrap();
    let mut next = 0_u64;
    for step in steps {
        match step {
            Step::Get(number) => {
                let number = u64::from(number);
                match (there(&content, number, record_bytes), records.get(number)) {
                    (There::Whole(expected), Ok(found)) => assert_eq!(found, expected),
                    (There::Part, Err(error)) => assert!(is_truncated(&error)),
                    (There::Nothing, Err(error)) => assert!(is_missing(&error)),
                    (_, found) => panic!("get {number}: {found:?}"),
                }
            }
            Step::Next => match (there(&content, next, record_bytes), records.next_record()) {
                (There::Whole(expected), Ok(Some(found))) => {
                    assert_eq!(found, expected);
                    next += 1;
                }
                (There::Part, Err(error)) => assert!(is_truncated(&error)),
                (There::Nothing, Ok(None)) => {}
                (_, found) => panic!("next {next}: {found:?}"),
            },
            Step::StartAt(number) => {
                next = u64::from(number);
                records.start_at(next);
            }
            Step::Put(..) | Step::Rewrite(_) => {
                let (number, fill, result) = match step {
                    Step::Put(number, fill) => {
                        let number = u64::from(number);
                        (number, fill, records.put(number, &vec![fill; record_bytes]))
                    }
                    Step::Rewrite(fill) => {
                        let result = records.rewrite(&vec![fill; record_bytes]);
                        (next.wrapping_sub(1), fill, result)
                    }
                    _ => unreachable!(),
                };
                let found = match number {
                    u64::MAX => There::Nothing,
                    number => there(&content, number, record_bytes),
                };
                match (found, result) {
                    (There::Whole(_), Ok(())) => {
                        let at = number as usize * record_bytes;
                        content[at..at + record_bytes].fill(fill);
                    }
                    (There::Part, Err(error)) => assert!(is_truncated(&error)),
                    (There::Nothing, Err(error)) => assert!(is_missing(&error)),
                    (_, result) => panic!("write {number}: {result:?}"),
                }
            }
            Step::Flush => {
                records.flush().unwrap();
                assert_eq!(std::fs::read(&path).unwrap(), content);
            }
        }
    }
    records.finish().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), content);
    std::fs::remove_file(&path).unwrap();
});

//! The first difference is where std finds it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use sweetspot_io::compare::{Difference, Options, content_equals, first_difference};
use sweetspot_io::{BufferSize, Input, ReadOptions};

fuzz_target!(|data: (u16, Vec<u8>, Vec<u8>)| {
    let (buffer_bytes, one, other) = data;
    let buffer_size = BufferSize::Bytes(u32::from(buffer_bytes).max(1));
    let read = ReadOptions { buffer_size, ..ReadOptions::default() };
    let options = Options { read, ..Options::default() };
    let input = |content: &[u8]| Input::reader("fuzz", Cursor::new(content.to_vec()));
    let equal = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let expected = (one != other).then(|| Difference {
        at: equal as u64,
        one: one.get(equal).copied(),
        other: other.get(equal).copied(),
    });
    assert_eq!(first_difference(input(&one), input(&other), &options).unwrap(), expected);
    assert_eq!(content_equals(input(&one), input(&other), &options).unwrap(), one == other);
});

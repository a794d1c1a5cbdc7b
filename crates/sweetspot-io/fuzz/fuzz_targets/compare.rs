//! The first difference is where std finds it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use sweetspot_io::compare::{Options, content_equals, first_difference};
use sweetspot_io::{BufferSize, Input, ReadOptions};

fuzz_target!(|data: (u16, Vec<u8>, Vec<u8>)| {
    let (buffer_bytes, one, other) = data;
    let buffer_size = BufferSize::Bytes(u32::from(buffer_bytes).max(1));
    let read = ReadOptions::new().buffer_size(buffer_size);
    let options = Options::new().read(read);
    let input = |content: &[u8]| Input::reader("fuzz", Cursor::new(content.to_vec()));
    let equal = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let byte = |of: &[u8]| of.get(equal).copied();
    let expected = (one != other).then(|| (equal as u64, byte(&one), byte(&other)));
    let found = first_difference(input(&one), input(&other), &options).unwrap();
    assert_eq!(found.map(|found| (found.at, found.one, found.other)), expected);
    assert_eq!(content_equals(input(&one), input(&other), &options).unwrap(), one == other);
});

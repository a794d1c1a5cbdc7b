//! Lines are the same whatever the buffer: the byte-by-byte reader is the specification.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use sweetspot_io::lines::{Ends, Options, Rung, climb};
use sweetspot_io::{BufferSize, Input, ReadOptions};

fuzz_target!(|data: (u8, bool, Vec<u8>)| {
    let (buffer_bytes, lf, content) = data;
    let buffer_size = BufferSize::Bytes(u32::from(buffer_bytes).max(1));
    let read = ReadOptions { buffer_size, ..ReadOptions::default() };
    let ends = if lf { Ends::Lf } else { Ends::Any };
    let options = Options { read, ends, ..Options::default() };
    let lines = |rung| {
        let mut lines = Vec::new();
        let input = Input::reader("fuzz", Cursor::new(content.clone()));
        climb(rung, input, &options, |line| lines.push(line.to_vec())).unwrap();
        lines
    };
    assert_eq!(lines(Rung::Lines), lines(Rung::SmallBuffer));
});

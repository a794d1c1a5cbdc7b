//! Records are the chunks of the content, and a rest is an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use sweetspot_io::records::{Options, Reader};
use sweetspot_io::{BufferSize, Input, ReadOptions};

fuzz_target!(|data: (u8, u8, Vec<u8>)| {
    let (buffer_bytes, record_bytes, content) = data;
    let record_bytes = usize::from(record_bytes).max(1);
    let buffer_size = BufferSize::Bytes(u32::from(buffer_bytes).max(1));
    let read = ReadOptions::new().buffer_size(buffer_size);
    let options = Options::new(record_bytes).read(read);
    let input = Input::reader("fuzz", Cursor::new(content.clone()));
    let mut expected = content.chunks_exact(record_bytes);
    let result = Reader::open(input, &options)
        .unwrap()
        .for_each_record(|record| assert_eq!(Some(record), expected.next()));
    assert!(expected.next().is_none());
    assert_eq!(result.is_ok(), content.len() % record_bytes == 0);
});

//! Decoded lines are those of std, and so is the place of the first byte that is not UTF-8.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use sweetspot_io::lines::{Batch, Encoding, Invalid, Lines, Options};
use sweetspot_io::{BufferSize, ErrorKind, Input, ReadOptions};

fuzz_target!(|data: (u8, Vec<u8>)| {
    let (buffer_bytes, content) = data;
    let buffer_size = BufferSize::Bytes(u32::from(buffer_bytes).max(1));
    let read = ReadOptions::new().buffer_size(buffer_size);
    let options = Options::new().read(read);
    let decode = |encoding| {
        let mut lines = Vec::new();
        let input = Input::reader("fuzz", Cursor::new(content.clone()));
        let result = Lines::open(input, &options)
            .unwrap()
            .for_each_text(encoding, |line| lines.push(line.to_owned()));
        (lines, result)
    };
    let raw: Vec<&[u8]> = Batch::new(&content, options.ends).iter().collect();

    let (lines, result) = decode(Encoding::Utf8(Invalid::Error));
    let valid = raw.iter().map_while(|line| std::str::from_utf8(line).ok());
    assert!(valid.eq(lines.iter()));
    let bad = std::str::from_utf8(&content).err().map(|error| error.valid_up_to() as u64);
    let found = result.err().map(|error| match error.kind {
        ErrorKind::NotUtf8 { at } => at,
        _ => panic!("{error}"),
    });
    assert_eq!(found, bad);

    let (lines, result) = decode(Encoding::Utf8(Invalid::Replace));
    result.unwrap();
    assert!(raw.iter().map(|line| String::from_utf8_lossy(line)).eq(lines));

    let (lines, result) = decode(Encoding::Latin1);
    result.unwrap();
    let latin1 = |line: &&[u8]| line.iter().map(|&byte| char::from(byte)).collect::<String>();
    assert!(raw.iter().map(latin1).eq(lines));
});

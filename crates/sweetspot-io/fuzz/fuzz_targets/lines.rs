//! Lines are the same whatever the buffer: what they are, byte by byte, is the specification.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use sweetspot_io::lines::{Ends, Lines, Options};
use sweetspot_io::{BufferSize, Input, ReadOptions};

fn lines_of(content: &[u8], ends: Ends) -> Vec<Vec<u8>> {
    let (mut lines, mut line, mut after_cr) = (Vec::new(), Vec::new(), false);
    for &byte in content {
        // The second half of a pair ends nothing.
        let pair = std::mem::replace(&mut after_cr, false) && byte == b'\n';
        let is_end = byte == b'\n' || byte == b'\r' && ends == Ends::Any;
        if is_end && !pair {
            lines.push(std::mem::take(&mut line));
            after_cr = byte == b'\r';
        } else if !pair {
            line.push(byte);
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

fuzz_target!(|data: (u8, bool, Vec<u8>)| {
    let (buffer_bytes, lf, content) = data;
    let buffer_size = BufferSize::Bytes(u32::from(buffer_bytes).max(1));
    let read = ReadOptions::new().buffer_size(buffer_size);
    let ends = if lf { Ends::Lf } else { Ends::Any };
    let options = Options::new().read(read).ends(ends);
    let mut found = Vec::new();
    let input = Input::reader("fuzz", Cursor::new(content.clone()));
    let mut lines = Lines::open(input, &options).unwrap();
    lines.for_each_line(|line| found.push(line.to_vec())).unwrap();
    assert_eq!(found, lines_of(&content, ends));
});

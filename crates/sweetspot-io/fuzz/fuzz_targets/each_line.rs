//! Threads that read a file at their own positions give the lines that one reader gives.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Write;
use sweetspot_io::each_line::{Options, each_line};
use sweetspot_io::lines::Batch;
use sweetspot_io::{BufferSize, Output, ReadOptions};

fuzz_target!(|data: (u8, Vec<u8>)| {
    let (chunk_bytes, content) = data;
    let path = format!("/dev/shm/sweetspot-fuzz-{}", std::process::id());
    std::fs::File::create(&path).unwrap().write_all(&content).unwrap();
    let buffer_size = BufferSize::Bytes(u32::from(chunk_bytes).max(1));
    let read = ReadOptions::new().buffer_size(buffer_size);
    let options = Options::new().read(read).threads(2);
    let found = std::sync::Mutex::new(Vec::new());
    each_line(&path, Output::nowhere(), &options, |line, _| {
        found.lock().unwrap().push(line.to_vec());
    })
    .unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut found = found.into_inner().unwrap();
    let mut expected: Vec<_> =
        Batch::new(&content, options.ends).iter().map(<[u8]>::to_vec).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
});

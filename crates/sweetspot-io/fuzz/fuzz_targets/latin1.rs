//! Latin-1: each byte is the character of that number.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|content: &[u8]| {
    let mut text = String::new();
    sweetspot_io::lines::append_latin1(&mut text, content);
    assert!(std::str::from_utf8(text.as_bytes()).is_ok());
    assert!(text.chars().eq(content.iter().map(|&byte| char::from(byte))));
});

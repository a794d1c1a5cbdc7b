//! Every instruction of the library says where its caller is: a thread may be cancelled, an exception thrown, or a
//! profile taken at each.

use std::collections::BTreeMap;
use std::ops::Range;

use object::{Object, ObjectSection};

use crate::library;

/// Between functions, so that the next one begins at a multiple of 16.
const PADDING_MAX: u64 = 15;

/// The functions that `.eh_frame` describes, by the sorted table before it (`.eh_frame_hdr`, as linkers make it: one
/// byte each for the version and the encodings, the place of `.eh_frame`, the number of entries, and for each where its
/// function and its description are, from the table's beginning).
fn described(file: &object::File<'_>) -> Vec<Range<u64>> {
    let section = |name: &str| {
        let section = file.section_by_name(name).unwrap_or_else(|| panic!("there is no {name}"));
        (section.address(), section.data().expect("it is in the file"))
    };
    let word = |(_, bytes): (u64, &[u8]), at: usize| {
        i64::from(i32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()))
    };
    let (table, frames) = (section(".eh_frame_hdr"), section(".eh_frame"));
    assert_eq!(table.1[..4], [1, 0x1b, 0x03, 0x3b], "another form of table");
    let entries = (12..).step_by(8).take(word(table, 8) as usize);
    let of = |at: usize| {
        let from = table.0.wrapping_add_signed(word(table, at));
        let description = table.0.wrapping_add_signed(word(table, at + 4)) - frames.0;
        // Its own length, that of what it shares with others, where the function is, how long that is.
        from..from + word(frames, description as usize + 12) as u64
    };
    entries.map(of).collect()
}

#[test]
fn each_instruction_says_where_its_caller_is() {
    let bytes = std::fs::read(library::path()).expect("the library");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let text = file.section_by_name(".text").expect("it has functions");
    let (mut at, end) = (text.address(), text.address() + text.size());
    let functions: BTreeMap<u64, u64> =
        described(&file).into_iter().map(|function| (function.start, function.end)).collect();
    assert!(functions.len() > 1000, "{} functions", functions.len());
    let mut gaps = Vec::new();
    for (from, to) in functions.into_iter().chain([(end, end)]) {
        if from > at + PADDING_MAX {
            gaps.push(at..from);
        }
        at = at.max(to);
    }
    // To where the kernel returns from a handler: unwinders know it by its instructions.
    let restorer = if cfg!(target_arch = "x86_64") { 1 } else { 0 };
    assert_eq!(gaps.len(), restorer, "not described: {gaps:x?}");
    let data = text.data().expect("it is in the file");
    for gap in gaps {
        let code =
            &data[(gap.start - text.address()) as usize..(gap.end - text.address()) as usize];
        let returns = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
        let is_it = code.windows(returns.len()).any(|part| part == returns);
        assert!(is_it && code.len() < 48, "not described: {gap:x?}");
    }
}

//! Do two contents differ, where, and is it only the time of day or a process number
//! (`sweetspot_lab::alike`)?

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use sweetspot_lab::alike::{self, Span};
use sweetspot_report::verify::FirstDifference;
use sweetspot_sandbox::{BLOCK_BYTES, Content, Kept, hashes, next_data};

/// How much of both sides is kept to be shown.
const SHOWN_BYTES: usize = 40;
/// Larger contents are not looked through for times.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// The first difference, if there is one.
///
/// # Errors
/// Where a content cannot be read.
pub fn first_difference(left: &Content, right: &Content) -> io::Result<Option<FirstDifference>> {
    let block_of = |hashes: [&[[u8; 32]]; 2]| {
        let same = hashes[0].iter().zip(hashes[1]).take_while(|(left, right)| left == right);
        let at = same.count() as u64 * BLOCK_BYTES;
        let is_same = hashes[0] == hashes[1] && left.len == right.len;
        (!is_same).then_some(FirstDifference { at, line: None, sides: None })
    };
    match (&left.kept, &right.kept) {
        (Kept::At(left), Kept::At(right)) => compare(File::open(left)?, File::open(right)?),
        (Kept::Hashes(left), Kept::Hashes(right)) => Ok(block_of([left, right])),
        (Kept::Hashes(left), Kept::At(right)) => Ok(block_of([left, &hashes(right)?])),
        (Kept::At(left), Kept::Hashes(right)) => Ok(block_of([&hashes(left)?, right])),
        (Kept::Untouched, Kept::Untouched) => Ok(None),
        (Kept::Untouched, _) | (_, Kept::Untouched) => {
            Ok(Some(FirstDifference { at: 0, line: None, sides: None }))
        }
    }
}

fn compare(mut left: File, mut right: File) -> io::Result<Option<FirstDifference>> {
    let (mut at, mut lines) = (0, 1);
    let mut blocks = [Vec::new(), Vec::new()];
    loop {
        // What is a hole in both need not be read.
        at = next_data(&left, at)?.min(next_data(&right, at)?);
        for (file, block) in [&mut left, &mut right].into_iter().zip(&mut blocks) {
            block.clear();
            file.seek(SeekFrom::Start(at))?;
            file.take(BLOCK_BYTES).read_to_end(block)?;
        }
        let [left, right] = &blocks;
        if left != right {
            let same = left.iter().zip(right).take_while(|(left, right)| left == right).count();
            lines += memchr::memchr_iter(b'\n', &left[..same]).count() as u64;
            let shown = |block: &[u8]| block[same..block.len().min(same + SHOWN_BYTES)].to_vec();
            let sides = Some([shown(left), shown(right)]);
            return Ok(Some(FirstDifference { at: at + same as u64, line: Some(lines), sides }));
        }
        if left.is_empty() {
            return Ok(None);
        }
        at += left.len() as u64;
        lines += memchr::memchr_iter(b'\n', left).count() as u64;
    }
}

/// Lines, counted from 1, that differ in nothing but times and process numbers. `None`: something
/// else differs, or it is no text, or it was not kept.
///
/// # Errors
/// Where a content cannot be read.
pub fn only_times(
    left: (&Content, &Span),
    right: (&Content, &Span),
) -> io::Result<Option<BTreeSet<usize>>> {
    let (Kept::At(left_at), Kept::At(right_at)) = (&left.0.kept, &right.0.kept) else {
        return Ok(None);
    };
    if left.0.len.max(right.0.len) > TEXT_BYTES_MAX {
        return Ok(None);
    }
    let (left_text, right_text) = (std::fs::read(left_at)?, std::fs::read(right_at)?);
    Ok(alike::only_times((&left_text, left.1), (&right_text, right.1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    fn content(folder: &Path, name: &str, bytes: &[u8]) -> Content {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        Content { len: bytes.len() as u64, kept: Kept::At(path) }
    }

    #[test]
    fn the_first_difference_is_found_whatever_was_kept() {
        let folder = tempfile::tempdir().unwrap();
        let block = BLOCK_BYTES as usize;
        let base: Vec<u8> = (0..2 * block + 10).map(|at| (at % 251) as u8).collect();
        let check = |right: &[u8], expected: Option<usize>| {
            let left = content(folder.path(), "left", &base);
            let right = content(folder.path(), "right", right);
            let found = first_difference(&left, &right).unwrap();
            assert_eq!(found.as_ref().map(|place| place.at), expected.map(|at| at as u64));
            let (mut left_hashed, mut right_hashed) = (left.clone(), right.clone());
            left_hashed.keep_hashes_only().unwrap();
            right_hashed.keep_hashes_only().unwrap();
            let in_block = expected.map(|at| (at / block * block) as u64);
            for (left, right) in
                [(&left_hashed, &right), (&left, &right_hashed), (&left_hashed, &right_hashed)]
            {
                let found = first_difference(left, right).unwrap();
                assert_eq!(found.map(|place| place.at), in_block);
            }
        };
        check(&base, None);
        for at in [0, 1, block - 1, block, 2 * block + 9] {
            let mut changed = base.clone();
            changed[at] ^= 1;
            check(&changed, Some(at));
        }
        check(&base[..block], Some(block));
        check(&base[..2 * block + 9], Some(2 * block + 9));
        check(&[], Some(0));
        check(&[&base[..], b"x"].concat(), Some(base.len()));
    }

    /// Reading so much would take minutes.
    #[test]
    fn holes_are_compared_without_reading_them() {
        const BYTES: u64 = 1 << 37;
        let folder = tempfile::tempdir().unwrap();
        let sparse = |name: &str, len: u64, data: &[u64]| {
            let path = folder.path().join(name);
            let file = File::create(&path).unwrap();
            file.set_len(len).unwrap();
            data.iter().for_each(|at| file.write_all_at(b"x", *at).unwrap());
            Content { len, kept: Kept::At(path) }
        };
        let place = BYTES / 3;
        let left = sparse("left", BYTES, &[7, place]);
        let check = |right: &Content, expected: Option<u64>| {
            let found = first_difference(&left, right).unwrap().map(|found| found.at);
            assert_eq!(found, expected);
            let mut hashed = right.clone();
            hashed.keep_hashes_only().unwrap();
            let found = first_difference(&left, &hashed).unwrap().map(|found| found.at);
            assert_eq!(found, expected.map(|at| at / BLOCK_BYTES * BLOCK_BYTES));
        };
        check(&sparse("same", BYTES, &[7, place]), None);
        check(&sparse("other", BYTES, &[7, place - 1, place]), Some(place - 1));
        check(&sparse("more", BYTES, &[7, place, BYTES - 1]), Some(BYTES - 1));
        check(&sparse("less", BYTES, &[7]), Some(place));
        check(&sparse("short", place, &[7]), Some(place));
        check(&sparse("long", BYTES + 5, &[7, place]), Some(BYTES));
    }
}

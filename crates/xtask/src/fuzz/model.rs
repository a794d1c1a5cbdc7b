//! What the files of `programs/c/kill_victim.c` must hold after so many calls.
//!
//! The victim's calls follow from its seed, so they are told again here. The call after the last
//! accepted one was in flight: of a write any prefix may be there, of a truncation all or nothing.

/// The victim's constants of the same names.
const SIZE_MAX_BYTES: usize = 1 << 20;
const WRITE_BYTES_MAX: usize = 60_000;
/// Lanes that a victim may have.
pub const LANES: usize = 4;
/// Files of one lane.
pub const FILES: usize = 2;
/// The victim's STEPS_FROM.
pub const STEPS_FROM: u64 = 300;
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const SHARED_MAGIC: u32 = 0x6b69_6c6c;
const SHARED_HEAD_BYTES: usize = 16;

fn mixed(number: u64) -> u64 {
    let mut number = number.wrapping_add(GOLDEN);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Numbers that follow from a seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(mixed(seed))
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = mixed(self.0);
        self.0 % limit
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

fn number_of(seed: u64, lane: usize, call: u64) -> u64 {
    let key = mixed((lane as u64) << 56 | call);
    mixed(seed.wrapping_mul(1_000_003).wrapping_add(key))
}

fn filling(len: usize, number: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut word = number;
    while bytes.len() < len {
        bytes.extend(word.to_ne_bytes());
        word = word.wrapping_add(GOLDEN);
    }
    bytes.truncate(len);
    bytes
}

/// What a call does to its file.
enum Effect {
    Nothing,
    Write { at: usize, len: usize, number: u64 },
    Truncate(usize),
}

/// Whether the second file of the first lane is opened by us, and is the victim's descriptor 0.
pub fn is_outside(seed: u64) -> bool {
    seed % 4 == 2
}

/// The files of one lane.
pub struct Lane {
    seed: u64,
    lane: usize,
    files: [Vec<u8>; FILES],
    positions: [usize; FILES],
    /// From this call on no kind is rare.
    all_kinds_from: u64,
}

impl Lane {
    /// The files after `done` calls. From the call `all_kinds_from` on no kind is rare.
    pub fn after(seed: u64, lane: usize, done: u64, all_kinds_from: u64) -> Lane {
        let mut model =
            Lane { seed, lane, files: Default::default(), positions: [0; FILES], all_kinds_from };
        for call in 0..done {
            let (file, effect) = model.next(call);
            apply(&mut model.files[file], &effect);
        }
        model
    }

    /// The call's file and effect; the position moves.
    fn next(&mut self, call: u64) -> (usize, Effect) {
        let number = number_of(self.seed, self.lane, call);
        let file = (number_of(self.seed, self.lane, (call / 8) | 1 << 40) % FILES as u64) as usize;
        let is_plain = !(number >> 48).is_multiple_of(8) && call < self.all_kinds_from;
        let kind = if is_plain { 63 } else { number % 64 };
        let at = ((number >> 24) % 70_000) as usize;
        let mut len = 1 + ((number >> 8) % 300) as usize;
        let appends = file == 1 && !self.seed.is_multiple_of(2);
        let position = &mut self.positions[file];
        let is_append = appends || file == 1 && self.lane == 0 && is_outside(self.seed);
        let asks = !is_append || call.is_multiple_of(256);
        if asks && *position >= SIZE_MAX_BYTES {
            *position = 0;
            return (file, Effect::Nothing);
        }
        if kind == 6 {
            len = if (number >> 40).is_multiple_of(4) { WRITE_BYTES_MAX } else { 5000 };
        }
        let size = self.files[file].len();
        let effect = match kind {
            0 => {
                *position = at;
                Effect::Nothing
            }
            1 => {
                *position = size;
                Effect::Nothing
            }
            2 => Effect::Write { at: if appends { size } else { at }, len, number },
            7 | 8 => {
                *position += len.min(size.saturating_sub(*position));
                Effect::Nothing
            }
            9 if (number >> 40).is_multiple_of(8) => Effect::Truncate(at),
            9..=12 => Effect::Nothing,
            _ => {
                let at = if appends { size } else { *position };
                *position = at + len;
                Effect::Write { at, len, number }
            }
        };
        (file, effect)
    }

    /// Compares with what is there, when `done` calls were accepted.
    ///
    /// # Errors
    /// What is wrong, where.
    pub fn check(mut self, done: u64, actual: &[Vec<u8>; FILES]) -> Result<(), String> {
        let (touched, effect) = self.next(done);
        for (file, expected) in self.files.iter().enumerate() {
            let actual = &actual[file];
            if actual == expected || (file == touched && is_partly(expected, actual, &effect)) {
                continue;
            }
            let at = expected.iter().zip(actual).take_while(|(a, b)| a == b).count();
            return Err(format!(
                "file {}-{file} after {done} calls: {} bytes, expected {}; first difference at {at}",
                self.lane,
                actual.len(),
                expected.len(),
            ));
        }
        Ok(())
    }

    /// Checks the offset of the second file, when `done` calls were accepted and perhaps one more.
    ///
    /// # Errors
    /// What it is and should be.
    pub fn check_offset(mut self, done: u64, offset: usize) -> Result<(), String> {
        let before = self.positions[1];
        let (file, effect) = self.next(done);
        let after = self.positions[1];
        let is_partly = matches!(effect, Effect::Write { .. })
            && file == 1
            && (before..=after).contains(&offset);
        if offset == before || offset == after || is_partly {
            return Ok(());
        }
        Err(format!("the shared offset is {offset} after {done} calls, expected {before}"))
    }

    /// Compares with what is there after the victim ended by itself: the call that was in flight
    /// when it was told to was made, or not begun.
    ///
    /// # Errors
    /// As [`Lane::check`].
    pub fn check_whole(mut self, done: u64, actual: &[Vec<u8>; FILES]) -> Result<(), String> {
        let before = self.files.clone();
        let (file, effect) = self.next(done);
        let mut after = before.clone();
        apply(&mut after[file], &effect);
        if *actual == before || *actual == after {
            return Ok(());
        }
        let lane = self.lane;
        Lane::after(self.seed, lane, done, self.all_kinds_from).check(done, actual)?;
        Err(format!("lane {lane}: a part of call {done} is there"))
    }
}

fn apply(file: &mut Vec<u8>, effect: &Effect) {
    match *effect {
        Effect::Nothing => {}
        Effect::Write { at, len, number } => overlay(file, at, &filling(len, number)),
        Effect::Truncate(len) => file.resize(len, 0),
    }
}

fn overlay(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = at + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[at..end].copy_from_slice(bytes);
}

/// Whether `actual` is `before` with the call in flight, or a prefix of it.
fn is_partly(before: &[u8], actual: &[u8], effect: &Effect) -> bool {
    let mut after = before.to_vec();
    match *effect {
        Effect::Nothing => {}
        Effect::Truncate(_) => apply(&mut after, effect),
        Effect::Write { at, len, number } => {
            let bytes = filling(len, number);
            let there = actual.get(at..).unwrap_or(&[]);
            // The longest prefix that is there: a shorter one that was written looks the same.
            let prefix = bytes.iter().zip(there).take_while(|(a, b)| a == b).count();
            overlay(&mut after, at, &bytes[..prefix]);
        }
    }
    after == actual
}

/// What the lane's call writes to the file that all share.
fn shared_record(seed: u64, lane: usize, call: u64) -> Vec<u8> {
    let number = number_of(seed, lane, call);
    let len = SHARED_HEAD_BYTES as u32 + (number >> 8) as u32 % 300;
    let mut bytes = filling(len as usize, number);
    for (index, field) in [SHARED_MAGIC, lane as u32, call as u32, len].into_iter().enumerate() {
        bytes[index * 4..index * 4 + 4].copy_from_slice(&field.to_ne_bytes());
    }
    bytes
}

/// Checks the file that all lanes share: each lane's records are there once and in order, all that
/// were accepted and at most one more. What the kernel cut is at the end of the file, or, where
/// others append after it, the last of its lane and ends with a page.
///
/// # Errors
/// What is wrong, where.
pub fn check_shared(seed: u64, done: &[u64; LANES], actual: &[u8]) -> Result<(), String> {
    let mut seen = [0; LANES];
    let mut is_cut = [false; LANES];
    let mut at = 0;
    while at < actual.len() {
        let rest = &actual[at..];
        let of_page = rest.len().min(4096 - at % 4096);
        let begins = |lane: usize, len: usize| {
            let record = shared_record(seed, lane, seen[lane]);
            !is_cut[lane] && record.get(..len) == rest.get(..len)
        };
        let whole = |lane: &usize| begins(*lane, shared_record(seed, *lane, seen[*lane]).len());
        if let Some(lane) = (0..LANES).find(whole) {
            at += shared_record(seed, lane, seen[lane]).len();
            seen[lane] += 1;
        } else if let Some(lane) = (0..LANES).find(|lane| begins(*lane, rest.len())) {
            is_cut[lane] = true;
            at = actual.len();
        } else if let Some(lane) = (0..LANES).find(|lane| begins(*lane, of_page)) {
            is_cut[lane] = true;
            at += of_page;
        } else {
            return Err(format!("at {at} is no record that may follow: {seen:?} came before"));
        }
    }
    for lane in 0..LANES {
        if seen[lane] < done[lane] || seen[lane] > done[lane] + 1 {
            let (seen, done) = (seen[lane], done[lane]);
            return Err(format!("thread {lane}: {seen} records there, {done} accepted"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call of the lane that writes, and the state before it.
    fn at_a_write(seed: u64) -> (u64, usize, Vec<u8>) {
        (40..)
            .find_map(|call| {
                let mut lane = Lane::after(seed, 0, call, 0);
                match lane.next(call) {
                    (file, Effect::Write { len, number, .. }) if len > 8 => {
                        Some((call, file, filling(len, number)))
                    }
                    _ => None,
                }
            })
            .expect("there is one")
    }

    #[test]
    fn lost_doubled_and_torn_bytes_are_seen() {
        for seed in 0..20 {
            let (call, file, bytes) = at_a_write(seed);
            let check = |files: &[Vec<u8>; FILES]| Lane::after(seed, 0, call, 0).check(call, files);
            let before = Lane::after(seed, 0, call, 0).files;
            let after = Lane::after(seed, 0, call + 1, 0).files;
            let later = Lane::after(seed, 0, call + 30, 0).files;
            assert_eq!(check(&before), Ok(()), "not there");
            assert_eq!(check(&after), Ok(()), "whole");
            let whole = |files| Lane::after(seed, 0, call, 0).check_whole(call, files);
            assert_eq!((whole(&before), whole(&after)), (Ok(()), Ok(())));
            let mut cut = after.clone();
            let at = cut[file].windows(bytes.len()).position(|window| window == bytes);
            cut[file][at.expect("it is there") + bytes.len() - 1] ^= 1;
            assert!(whole(&cut).is_err(), "a call that was cut, and nobody was killed");
            assert!(check(&later).is_err(), "calls that were never made");
            let mut torn = after.clone();
            let end = torn[file].windows(bytes.len()).position(|window| window == bytes);
            torn[file][end.expect("it is there")] ^= 1;
            assert!(check(&torn).is_err(), "a suffix without its beginning");
            let mut lost = before.clone();
            let len = lost[file].len();
            lost[file].truncate(len - 1);
            assert!(check(&lost).is_err(), "a lost byte");
            let mut doubled = before.clone();
            doubled[file].extend_from_slice(&[7; 3]);
            assert!(check(&doubled).is_err(), "bytes too many");
        }
    }

    #[test]
    fn shared_records_are_counted() {
        let record = |lane: usize, call: u32| shared_record(5, lane, u64::from(call));
        let check = |records: &[(usize, u32)], cut: usize| {
            let mut file: Vec<u8> =
                records.iter().flat_map(|(lane, call)| record(*lane, *call)).collect();
            file.truncate(file.len() - cut);
            check_shared(5, &[2, 1, 0, 0], &file).is_ok()
        };
        assert!(check(&[(0, 0), (1, 0), (0, 1)], 0));
        assert!(check(&[(0, 0), (0, 1), (1, 0), (1, 1)], 0), "one in flight");
        assert!(check(&[(0, 0), (0, 1), (1, 0), (1, 1)], 3), "cut");
        assert!(check_shared(5, &[1, 0, 0, 0], &[record(0, 0)].concat()).is_ok());
        // Filled up so that the next record crosses the end of a page, is cut there, and another
        // lane goes on behind it.
        let mut file = Vec::new();
        let mut calls = 0;
        while 4096 - file.len() % 4096 > record(0, calls).len() {
            file.extend(record(0, calls));
            calls += 1;
        }
        let rest = 4096 - file.len();
        file.extend(&record(0, calls)[..rest]);
        file.extend(record(1, 0));
        let done = u64::from(calls);
        assert_eq!(check_shared(5, &[done, 1, 0, 0], &file), Ok(()), "cut at a page");
        assert!(check_shared(5, &[done + 1, 1, 0, 0], &file).is_err(), "accepted and cut");
        file.extend(record(0, calls + 1));
        assert!(check_shared(5, &[done, 1, 0, 0], &file).is_err(), "more after a cut");
        assert!(!check(&[(0, 0), (1, 0), (0, 1)], 3), "an accepted one is cut");
        assert!(!check(&[(0, 0), (1, 0)], 0), "lost");
        assert!(!check(&[(0, 0), (1, 0), (0, 1), (0, 1)], 0), "doubled");
        assert!(!check(&[(0, 1), (1, 0), (0, 0)], 0), "out of order");
        assert!(!check(&[(0, 0), (1, 0), (0, 1), (0, 2), (0, 3)], 0), "two more");
    }
}

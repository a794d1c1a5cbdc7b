//! Latin-1 to UTF-8.
//!
//! Bytes below 0x80 stand for themselves; the others become two bytes, `0xC2` or `0xC3` and one of
//! 0x80 to 0xBF. With AVX2, 16 bytes at a time are spread to 16 pairs, where a plain byte has a pair
//! with a hole; a shuffle by a table (one row for each pattern of 8 plain and accented bytes) closes
//! the holes. What it costs does not depend on where the accents are, so nothing is mispredicted.
//!
//! `append_scalar` is the specification. Without AVX2 the crate encoding_rs does it.

/// Appends `bytes`, taken as Latin-1, to `text`.
///
/// ```
/// let mut text = String::from("na");
/// sweetspot_io::lines::append_latin1(&mut text, b"\xEFve");
/// assert_eq!(text, "naïve");
/// ```
pub fn append_latin1(text: &mut String, bytes: &[u8]) {
    // In pieces, so that text of few accents does not take twice its length in memory at once.
    const PIECE_BYTES: usize = 16 << 10;
    text.reserve(bytes.len() + bytes.len() / 8);
    for piece in bytes.chunks(PIECE_BYTES) {
        append_piece(text, piece);
    }
}

fn append_piece(text: &mut String, bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor has both.
        #[allow(unsafe_code)]
        unsafe {
            x86::append(text, bytes);
        }
        return;
    }
    append_portable(text, bytes);
}

/// The specification: a Latin-1 byte is the character of that number.
#[cfg(test)]
fn append_scalar(text: &mut String, bytes: &[u8]) {
    text.extend(bytes.iter().map(|&byte| char::from(byte)));
}

#[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "for processors without AVX2"))]
fn append_portable(text: &mut String, bytes: &[u8]) {
    let old = text.len();
    let mut all = std::mem::take(text).into_bytes();
    all.resize(old + 2 * bytes.len(), 0);
    let len = encoding_rs::mem::convert_latin1_to_utf8(bytes, &mut all[old..]);
    all.truncate(old + len);
    // SAFETY: the function writes UTF-8 and says how much.
    #[allow(unsafe_code)]
    let all = unsafe { String::from_utf8_unchecked(all) };
    *text = all;
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_loadu_si128, _mm_movemask_epi8, _mm_storeu_si128, _mm256_and_si256,
        _mm256_blendv_epi8, _mm256_castsi128_si256, _mm256_castsi256_si128, _mm256_cmpgt_epi16,
        _mm256_cvtepu8_epi16, _mm256_extracti128_si256, _mm256_inserti128_si256,
        _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi16,
        _mm256_shuffle_epi8, _mm256_slli_epi16, _mm256_srli_epi16, _mm256_storeu_si256,
    };

    /// For each pattern of 8 bytes (bit set: accented) which bytes of 8 pairs remain, in order.
    static CLOSE: [[u8; 16]; 256] = close_table();

    const fn close_table() -> [[u8; 16]; 256] {
        let mut table = [[0x80; 16]; 256];
        let mut pattern = 0;
        while pattern < 256 {
            let (mut place, mut to) = (0, 0);
            while place < 8 {
                table[pattern][to] = 2 * place;
                to += 1;
                if pattern >> place & 1 == 1 {
                    table[pattern][to] = 2 * place + 1;
                    to += 1;
                }
                place += 1;
            }
            pattern += 1;
        }
        table
    }

    /// What a step may write behind the bytes that count.
    const SLACK_BYTES: usize = 32;

    #[target_feature(enable = "avx2,popcnt")]
    pub fn append(text: &mut String, bytes: &[u8]) {
        // SAFETY: only whole characters are added, see below.
        let all = unsafe { text.as_mut_vec() };
        all.reserve(2 * bytes.len() + SLACK_BYTES);
        // SAFETY: there is room for two bytes for each of `bytes` and for the slack; each step
        // writes at most 32 bytes from `to` on, of which twice the bytes read count at most.
        unsafe {
            let begin = all.as_mut_ptr().add(all.len());
            let mut to = begin;
            let mut from = bytes;
            while let Some((step, rest)) = from.split_first_chunk::<32>() {
                let block = _mm256_loadu_si256(step.as_ptr().cast::<__m256i>());
                if _mm256_movemask_epi8(block) == 0 {
                    _mm256_storeu_si256(to.cast::<__m256i>(), block);
                    to = to.add(32);
                } else {
                    to = append_16(to, step.as_ptr());
                    to = append_16(to, step.as_ptr().add(16));
                }
                from = rest;
            }
            for &byte in from {
                if byte < 0x80 {
                    to.write(byte);
                    to = to.add(1);
                } else {
                    to.write(0xC0 | byte >> 6);
                    to.add(1).write(0x80 | byte & 0x3F);
                    to = to.add(2);
                }
            }
            all.set_len(all.len() + to.offset_from_unsigned(begin));
        }
    }

    /// Appends 16 bytes; returns where to go on.
    ///
    /// # Safety
    /// 16 bytes can be read at `from`, 32 written at `to`.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn append_16(to: *mut u8, from: *const u8) -> *mut u8 {
        // SAFETY: as the caller promises; the table has 16 bytes in each row.
        unsafe {
            let bytes = _mm_loadu_si128(from.cast::<__m128i>());
            let accented = _mm_movemask_epi8(bytes) as u32;
            let wide = _mm256_cvtepu8_epi16(bytes);
            // The low byte of a pair comes first: 0xC0 | byte >> 6, then 0x80 | byte & 0x3F.
            let first = _mm256_srli_epi16::<6>(wide);
            let second = _mm256_slli_epi16::<8>(_mm256_and_si256(wide, _mm256_set1_epi16(0x3F)));
            let pair = _mm256_or_si256(first, second);
            let pair = _mm256_or_si256(pair, _mm256_set1_epi16(0x80C0_u16 as i16));
            let is_accented = _mm256_cmpgt_epi16(wide, _mm256_set1_epi16(0x7F));
            let spread = _mm256_blendv_epi8(wide, pair, is_accented);
            let (low, high) = ((accented & 0xFF) as usize, (accented >> 8) as usize);
            let row = |pattern: usize| _mm_loadu_si128(CLOSE[pattern].as_ptr().cast::<__m128i>());
            let rows = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(row(low)), row(high));
            let closed = _mm256_shuffle_epi8(spread, rows);
            let low_len = 8 + low.count_ones() as usize;
            _mm_storeu_si128(to.cast::<__m128i>(), _mm256_castsi256_si128(closed));
            let to_high = to.add(low_len).cast::<__m128i>();
            _mm_storeu_si128(to_high, _mm256_extracti128_si256::<1>(closed));
            to.add(16 + accented.count_ones() as usize)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(bytes: &[u8]) {
        let mut expected = String::from("è");
        append_scalar(&mut expected, bytes);
        for append in [append_latin1, append_portable] {
            let mut found = String::from("è");
            append(&mut found, bytes);
            assert!(std::str::from_utf8(found.as_bytes()).is_ok(), "{bytes:?}");
            assert_eq!(found, expected, "{bytes:?}");
        }
    }

    #[test]
    fn every_byte_at_every_place() {
        for len in 0..100 {
            check(&vec![b'a'; len]);
            check(&vec![0xFF; len]);
            for at in 0..len {
                for byte in 0..=255 {
                    let mut bytes = vec![b'a'; len];
                    bytes[at] = byte;
                    if len < 40 || byte % 37 == 0 {
                        check(&bytes);
                    }
                }
            }
        }
        check(&(0..100_000).map(|number| (number % 257) as u8).collect::<Vec<_>>());
    }

    proptest! {
        #[test]
        fn it_does_what_the_specification_does(bytes in proptest::collection::vec(
            prop_oneof![any::<u8>(), b'a'..=b'z', 0x80..=255u8], 0..500
        )) {
            check(&bytes);
        }
    }
}

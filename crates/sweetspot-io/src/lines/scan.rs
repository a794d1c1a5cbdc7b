//! Finds line ends, 64 bytes at a time.
//!
//! Each step turns 64 bytes into a number of 64 bits, one bit for each byte, set where a line ends.
//! The set bits are then visited one by one, so that a line costs a few instructions. The two loops
//! are apart: the first is compiled for the processor's vector instructions, the second into the
//! caller's code, so that what the caller counts stays in registers.
//!
//! Most text has no CR, and whether there is one at all is cheaper to know than where. So a stretch
//! is first marked as if only LF ended lines; if there was a CR after all, it is marked again. Then
//! what ends a line follows from two numbers by shifting: a CR always does, an LF unless a CR is just
//! before it.
//!
//! Invariant: what is visited lies within the bytes, and each line begins at or after the end of
//! the one before. `masks_scalar` is the specification; every other kernel is tested against it.

use super::Ends;
use crate::flow::Flow;

/// Bytes that become one mask.
const STEP: usize = 64;

/// Steps made at a time: their bits are half a KiB, and their bytes stay in the first cache.
const STEPS: usize = 64;

/// Their bytes.
const STRETCH: usize = STEPS * STEP;

const LF: u8 = b'\n';
const CR: u8 = b'\r';

/// Calls `each` for every line of `bytes` with where its content begins and ends, until it stops. What
/// follows the last line end, if anything, is a line. Returns what `each` did last, and where the line
/// after the visited ones begins.
#[inline]
pub fn for_each<R: Flow>(
    bytes: &[u8],
    ends: Ends,
    mut each: impl FnMut(usize, usize) -> R,
) -> (R, usize) {
    let mark = marker();
    let mut marks = [0; STEPS];
    let (mut start, mut base) = (0, 0);
    while base < bytes.len() {
        let pairs = mark(bytes, base, ends, &mut marks);
        let steps = (bytes.len() - base).div_ceil(STEP).min(STEPS);
        for &(mut left) in &marks[..steps] {
            while left != 0 {
                let end = base + left.trailing_zeros() as usize;
                let flow = each(start, end);
                start = end + 1;
                if pairs == Pairs::Possible {
                    let pair = bytes[end] == CR && bytes.get(start) == Some(&LF);
                    start += usize::from(pair);
                }
                if !flow.goes_on() {
                    return (flow, start);
                }
                left &= left - 1;
            }
            base += STEP;
        }
    }
    let flow = if start < bytes.len() { each(start, bytes.len()) } else { R::GOES_ON };
    (flow, bytes.len())
}

/// How many lines `bytes` has, as [`for_each`] would visit them.
pub fn count(bytes: &[u8], ends: Ends) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has it.
        #[allow(unsafe_code)]
        let lines = unsafe { x86::count_lf(bytes, ends) };
        if let Some(lines) = lines {
            return lines;
        }
    }
    count_with(bytes, ends, marker())
}

fn count_with(bytes: &[u8], ends: Ends, mark: Mark) -> u64 {
    let mut marks = [0; STEPS];
    let mut lines = 0;
    for base in (0..bytes.len()).step_by(STRETCH) {
        mark(bytes, base, ends, &mut marks);
        let steps = (bytes.len() - base).div_ceil(STEP).min(STEPS);
        lines += marks[..steps].iter().map(|mark| u64::from(mark.count_ones())).sum::<u64>();
    }
    let open = match bytes.last() {
        None | Some(&LF) => false,
        Some(&CR) => ends == Ends::Lf,
        Some(_) => true,
    };
    lines + u64::from(open)
}

/// Sets a bit for each line end of the stretch of `bytes` that begins at `base`. The second half of
/// a pair is none, wherever the pair is cut.
type Mark = fn(&[u8], usize, Ends, &mut [u64; STEPS]) -> Pairs;

/// Whether a line of a stretch may end with two bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pairs {
    None,
    Possible,
}

#[inline]
fn marker() -> Mark {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        return |bytes, base, ends, marks| {
            // SAFETY: the processor has it; that was asked just before.
            #[allow(unsafe_code)]
            unsafe {
                x86::mark(bytes, base, ends, marks)
            }
        };
    }
    |bytes, base, ends, marks| mark_with(bytes, base, ends, marks, baseline)
}

/// Where the last line end of `bytes` ends; 0 if there is none. A CR as the last byte is none: an
/// LF may follow.
pub fn whole_lines(bytes: &[u8], ends: Ends) -> usize {
    let open = ends == Ends::Any && bytes.last() == Some(&CR);
    last_end(&bytes[..bytes.len() - usize::from(open)], ends).map_or(0, |at| at + 1)
}

/// Where the first line of `bytes` ends and the next begins.
pub fn first_end(bytes: &[u8], ends: Ends) -> Option<(usize, usize)> {
    let end = match ends {
        Ends::Lf => memchr::memchr(LF, bytes),
        Ends::Any => memchr::memchr2(LF, CR, bytes),
    }?;
    let pair = ends == Ends::Any && bytes[end] == CR && bytes.get(end + 1) == Some(&LF);
    Some((end, end + 1 + usize::from(pair)))
}

/// Where the first line begins that is longer than `limit`, complete or not. Looks at one line end
/// in each stretch of that length only.
pub fn first_too_long(bytes: &[u8], ends: Ends, limit: usize) -> Option<usize> {
    let mut at = 0;
    while bytes.len() - at > limit {
        // A line of just the limit is allowed, with its end.
        let stretch = &bytes[at..=at + limit];
        match last_end(stretch, ends) {
            Some(end) => at += end + 1,
            None => return Some(at),
        }
    }
    None
}

/// Where the last byte is that ends a line.
pub fn last_end(bytes: &[u8], ends: Ends) -> Option<usize> {
    match ends {
        Ends::Lf => memchr::memrchr(LF, bytes),
        Ends::Any => memchr::memrchr2(LF, CR, bytes),
    }
}

/// Where LF and where CR are: bit 0 stands for the first byte.
type Masks = (u64, u64);

#[cfg(any(test, not(target_arch = "x86_64")))]
fn masks_scalar(block: &[u8; STEP]) -> Masks {
    let mut masks = (0, 0);
    for (place, &byte) in block.iter().enumerate() {
        masks.0 |= u64::from(byte == LF) << place;
        masks.1 |= u64::from(byte == CR) << place;
    }
    masks
}

#[cfg(not(target_arch = "x86_64"))]
use masks_scalar as baseline;
#[cfg(target_arch = "x86_64")]
use x86::masks_sse2 as baseline;

/// The bytes of `rest`, which are fewer than a step has, and then zeros.
fn padded(rest: &[u8]) -> [u8; STEP] {
    let mut step = [0; STEP];
    step[..rest.len()].copy_from_slice(rest);
    step
}

/// The steps of the stretch of `bytes` that begins at `base`, and what is left behind them.
#[inline(always)]
fn stretch(bytes: &[u8], base: usize) -> (&[[u8; STEP]], &[u8]) {
    bytes[base..bytes.len().min(base + STRETCH)].as_chunks()
}

#[inline(always)]
fn mark_with(
    bytes: &[u8],
    base: usize,
    ends: Ends,
    marks: &mut [u64; STEPS],
    masks: impl Fn(&[u8; STEP]) -> Masks,
) -> Pairs {
    let (steps, rest) = stretch(bytes, base);
    // Bit 0: whether the byte before was a CR.
    let mut carried = u64::from(base > 0 && bytes[base - 1] == CR);
    let mut all_cr = 0;
    let mut mark = |step: &[u8; STEP]| {
        let (lf, cr) = masks(step);
        let ending = match ends {
            Ends::Lf => lf,
            Ends::Any => cr | lf & !(cr << 1 | carried),
        };
        carried = cr >> (STEP - 1);
        all_cr |= cr;
        ending
    };
    for (place, step) in marks.iter_mut().zip(steps) {
        *place = mark(step);
    }
    if !rest.is_empty() {
        marks[steps.len()] = mark(&padded(rest));
    }
    match ends {
        Ends::Any if all_cr != 0 => Pairs::Possible,
        _ => Pairs::None,
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use super::{CR, Ends, LF, Masks, Pairs, STEP, STEPS};
    use std::arch::x86_64::{
        __m128i, __m256i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8,
        _mm256_cmpeq_epi8, _mm256_extract_epi64, _mm256_loadu_si256, _mm256_movemask_epi8,
        _mm256_or_si256, _mm256_sad_epu8, _mm256_set1_epi8, _mm256_setzero_si256, _mm256_sub_epi8,
    };

    /// Every x86_64 has SSE2.
    #[inline(always)]
    pub fn masks_sse2(block: &[u8; STEP]) -> Masks {
        let mut masks = (0, 0);
        for part in 0..4 {
            // SAFETY: the block has four parts of 16 bytes, and the load needs no alignment.
            let (lf, cr) = unsafe {
                let bytes = _mm_loadu_si128(block.as_ptr().cast::<__m128i>().add(part));
                let mask = |byte| _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte)));
                (mask(LF as i8), mask(CR as i8))
            };
            masks.0 |= u64::from(lf as u32) << (16 * part);
            masks.1 |= u64::from(cr as u32) << (16 * part);
        }
        masks
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn masks_avx2(block: &[u8; STEP]) -> Masks {
        let mut masks = (0, 0);
        for part in 0..2 {
            // SAFETY: the block has two parts of 32 bytes, and the load needs no alignment.
            let bytes = unsafe { _mm256_loadu_si256(block.as_ptr().cast::<__m256i>().add(part)) };
            let mask =
                |byte| _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(byte)));
            masks.0 |= u64::from(mask(LF as i8) as u32) << (32 * part);
            masks.1 |= u64::from(mask(CR as i8) as u32) << (32 * part);
        }
        masks
    }

    #[target_feature(enable = "avx2")]
    pub fn mark(bytes: &[u8], base: usize, ends: Ends, marks: &mut [u64; STEPS]) -> Pairs {
        let after_cr = base > 0 && bytes[base - 1] == CR;
        let has_cr = mark_lf(bytes, base, marks);
        if ends == Ends::Lf || !has_cr && !after_cr {
            return Pairs::None;
        }
        super::mark_with(bytes, base, ends, marks, |step| masks_avx2(step))
    }

    /// Sets a bit for each LF. Says whether there is a CR.
    #[target_feature(enable = "avx2")]
    fn mark_lf(bytes: &[u8], base: usize, marks: &mut [u64; STEPS]) -> bool {
        let (steps, rest) = super::stretch(bytes, base);
        let mut crs = _mm256_setzero_si256();
        let mut mark = |step: &[u8; STEP]| {
            let halves = [0, 1].map(|half| {
                // SAFETY: the step has two halves of 32 bytes, and the load needs no alignment.
                unsafe { _mm256_loadu_si256(step.as_ptr().cast::<__m256i>().add(half)) }
            });
            let [low, high] = halves.map(|bytes| {
                crs = _mm256_or_si256(crs, _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(CR as i8)));
                let lf = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(LF as i8));
                u64::from(_mm256_movemask_epi8(lf) as u32)
            });
            low | high << 32
        };
        for (place, step) in marks.iter_mut().zip(steps) {
            *place = mark(step);
        }
        if !rest.is_empty() {
            marks[steps.len()] = mark(&super::padded(rest));
        }
        _mm256_movemask_epi8(crs) != 0
    }

    /// How many lines `bytes` has, if only LF ends them; `None` if a CR is in the way. Counts in
    /// each byte of a register, which takes half of the time that masks take.
    #[target_feature(enable = "avx2")]
    pub fn count_lf(bytes: &[u8], ends: Ends) -> Option<u64> {
        /// What a byte can count.
        const VECTORS_MAX: usize = 255;
        const VECTOR: usize = size_of::<__m256i>();
        let mut lines = 0;
        for stretch in bytes.chunks(VECTORS_MAX * VECTOR) {
            let (mut counts, mut crs) = (_mm256_setzero_si256(), _mm256_setzero_si256());
            let vectors = stretch.chunks_exact(VECTOR);
            let rest = vectors.remainder();
            for vector in vectors {
                // SAFETY: the chunk has as many bytes, and the load needs no alignment.
                let bytes = unsafe { _mm256_loadu_si256(vector.as_ptr().cast::<__m256i>()) };
                let lf = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(LF as i8));
                let cr = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(CR as i8));
                // Where it is equal, all bits are set, which is -1.
                counts = _mm256_sub_epi8(counts, lf);
                crs = _mm256_or_si256(crs, cr);
            }
            let any_cr = _mm256_movemask_epi8(crs) != 0 || rest.contains(&CR);
            if any_cr && ends == Ends::Any {
                return None;
            }
            let sums = _mm256_sad_epu8(counts, _mm256_setzero_si256());
            lines += (_mm256_extract_epi64::<0>(sums) + _mm256_extract_epi64::<1>(sums)) as u64;
            lines += (_mm256_extract_epi64::<2>(sums) + _mm256_extract_epi64::<3>(sums)) as u64;
            lines += rest.iter().filter(|&&byte| byte == LF).count() as u64;
        }
        Some(lines + u64::from(bytes.last().is_some_and(|&byte| byte != LF)))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What lines are, byte by byte.
    pub fn lines(bytes: &[u8], ends: Ends) -> Vec<(usize, usize)> {
        let (mut lines, mut start, mut at) = (Vec::new(), 0, 0);
        while at < bytes.len() {
            let len = match (bytes[at], bytes.get(at + 1), ends) {
                (CR, Some(&LF), Ends::Any) => 2,
                (LF, ..) | (CR, _, Ends::Any) => 1,
                _ => 0,
            };
            if len > 0 {
                lines.push((start, at));
                start = at + len;
            }
            at += len.max(1);
        }
        if start < bytes.len() {
            lines.push((start, bytes.len()));
        }
        lines
    }

    fn check(bytes: &[u8]) {
        for ends in [Ends::Any, Ends::Lf] {
            let expected = lines(bytes, ends);
            let mut found = Vec::new();
            for_each(bytes, ends, |start, end| found.push((start, end)));
            assert_eq!(found, expected, "{ends:?} {bytes:?}");
            let scalar: Mark = |b, at, e, m| mark_with(b, at, e, m, masks_scalar);
            let sse2: Mark = |b, at, e, m| mark_with(b, at, e, m, baseline);
            for base in (0..bytes.len()).step_by(STRETCH) {
                let [expected, sse2, best] = [scalar, sse2, marker()].map(|mark| {
                    let mut marks = [0; STEPS];
                    (mark(bytes, base, ends, &mut marks), marks)
                });
                assert_eq!(sse2, expected, "{ends:?} {bytes:?}");
                assert_eq!(best, expected, "{ends:?} {bytes:?}");
            }
            for mark in [scalar, sse2, marker()] {
                assert_eq!(count_with(bytes, ends, mark), expected.len() as u64);
            }
            assert_eq!(count(bytes, ends), expected.len() as u64, "{ends:?} {bytes:?}");
        }
    }

    #[test]
    fn pairs_are_found_wherever_they_are_cut() {
        let short = (0..200).flat_map(|len| (0..len).map(move |at| (len, at)));
        let long = (STRETCH - 2..STRETCH + 3).map(|at| (2 * STRETCH + 1, at));
        for (len, at) in short.chain(long) {
            {
                let mut bytes = vec![b'x'; len];
                for end in [&b"\n"[..], b"\r", b"\r\n", b"\n\r", b"\r\r\n", b"\r\n\n", b"\n\n"] {
                    let (here, end) = (&mut bytes[at..], end);
                    let fits = end.len().min(here.len());
                    here[..fits].copy_from_slice(&end[..fits]);
                    check(&bytes);
                }
            }
        }
    }

    #[test]
    fn counts_do_not_overflow() {
        for len in [8159, 8160, 8161, 100_000] {
            check(&vec![LF; len]);
            check(&[&vec![LF; len][..], b"\r"].concat());
            check(&[b"x\r", &vec![LF; len][..], b"x"].concat());
        }
    }

    proptest! {
        #[test]
        fn kernels_agree(bytes in proptest::collection::vec(
            prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'x'), any::<u8>()], 0..400
        )) {
            check(&bytes);
            for ends in [Ends::Any, Ends::Lf] {
                let first = first_end(&bytes, ends).map(|(end, _)| (0, end));
                let all = lines(&bytes, ends);
                let closed = all.first().copied().filter(|(_, end)| *end < bytes.len());
                prop_assert_eq!(first, closed);
            }
        }
    }
}

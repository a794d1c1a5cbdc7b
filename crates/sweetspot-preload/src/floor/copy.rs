//! Copying between the program's memory and ours.
//!
//! The program may hand over a bad address: natively that is EFAULT, so it must be here too. All
//! copies are made by a few instructions (in `arch`), and a section of the library lists where these are:
//! the fault handler (`engine::handlers`) recognises an instruction pointer there, and lets the copy go on at its
//! landing, where it is known to have failed.
#![allow(unsafe_code)]

pub use crate::arch::copy;

/// What `arch::copies_between` lists.
#[repr(C)]
struct Copies {
    begin: i32,
    end: i32,
    landing: i32,
}

unsafe extern "C" {
    // The linker's, around the section.
    static __start_sweetspot_copies: Copies;
    static __stop_sweetspot_copies: Copies;
}

/// What a distance leads to.
fn address(distance: &i32) -> usize {
    ((&raw const *distance) as usize).wrapping_add_signed(*distance as isize)
}

/// Copies `len` bytes, the fewest of them in place; true if nothing is done, as an address was bad (then
/// part may have been copied), or there is nothing to copy.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
pub unsafe fn copy_at_once(to: *mut u8, from: *const u8, len: usize) -> bool {
    // SAFETY: as the caller says.
    unsafe {
        if len > 16 {
            copy(to, from, len)
        } else if len >= 8 {
            crate::arch::copy_pair(to, from, len)
        } else {
            len == 0 || copy(to, from, len)
        }
    }
}

/// Whether a fault at this instruction is a bad address of the program's: then where to go on.
pub fn landing(instruction: usize) -> Option<usize> {
    let (first, end) = (&raw const __start_sweetspot_copies, &raw const __stop_sweetspot_copies);
    let count = (end as usize - first as usize) / size_of::<Copies>();
    // SAFETY: the section holds nothing else.
    let all = unsafe { core::slice::from_raw_parts(first, count) };
    let is_in =
        |copies: &&Copies| (address(&copies.begin)..address(&copies.end)).contains(&instruction);
    all.iter().find(is_in).map(|copies| address(&copies.landing))
}

#[cfg(test)]
mod tests {
    use super::copy;
    use std::vec::Vec;

    /// Around what is copied, so that a byte too many shows.
    const MARGIN: usize = 8;

    fn check(len: usize, from: usize, to: usize) {
        let source: Vec<u8> =
            (0..from + len).map(|index| (index * 7 + index / 251) as u8).collect();
        let mut target = std::vec![0xa5; to + len + MARGIN];
        // SAFETY: both sides are valid for `len` bytes.
        let bad = unsafe { copy(target[to..].as_mut_ptr(), source[from..].as_ptr(), len) };
        assert!(!bad);
        assert_eq!(target[to..to + len], source[from..], "{len} bytes from {from} to {to}");
        let around = target[..to].iter().chain(&target[to + len..]);
        assert!(around.into_iter().all(|byte| *byte == 0xa5), "{len} bytes from {from} to {to}");
    }

    #[test]
    fn every_length_is_copied_and_nothing_around_it() {
        for way in [|| true, crate::arch::use_wide_copies] {
            if !way() {
                std::eprintln!("skipped: the wide way to copy, which this machine has not");
                continue;
            }
            for len in (0..700).chain(2000..2200).chain([4095, 4096, 4097, 65_537]) {
                for (from, to) in [(0, 0), (1, 0), (0, 3), (15, 31)] {
                    check(len, from, to);
                }
            }
        }
    }
}

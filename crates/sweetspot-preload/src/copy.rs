//! Copying between the program's memory and ours.
//!
//! The program may hand over a bad address: natively that is EFAULT, so it must be here too. All
//! copies go through one routine (in `arch`) whose instructions lie between two labels; the fault handler
//! (see `fault`) recognises an instruction pointer in between and lets the routine return that it failed.
#![allow(unsafe_code)]

pub use crate::arch::copy;

unsafe extern "C" {
    static sweetspot_copy_begin: u8;
    static sweetspot_copy_fault: u8;
}

/// Whether a fault at this instruction is a bad address of the program's: then where to go on.
pub fn landing(instruction: usize) -> Option<usize> {
    let (begin, fault) = (&raw const sweetspot_copy_begin, &raw const sweetspot_copy_fault);
    (begin as usize..fault as usize).contains(&instruction).then_some(fault as usize)
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

//! Copying between the program's memory and ours.
//!
//! The program may hand over a bad address: natively that is EFAULT, so it must be here too. All
//! copies are made by a few instructions (in `arch`), and a section of the library lists where these are:
//! the fault handler (`engine::handlers`) recognises an instruction pointer there, and lets the copy go on at its
//! landing, where it is known to have failed.
//!
//! Where the program blocks the signal by which a fault shows, a fault would be its end. There the kernel copies, and
//! answers with an error; the mask stays as it is.
#![allow(unsafe_code)]

pub use crate::arch::copy;

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::floor::careful;
use crate::floor::sys::syscall;

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

/// Copies `len` bytes of the program's to our side, whatever signals it blocks; true if an address was bad (then part
/// may have been copied), or the kernel refuses.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
pub unsafe fn fetch(ours: *mut u8, programs: *const u8, len: usize) -> bool {
    // SAFETY: as the caller says.
    unsafe {
        match careful::faults_are_blocked() {
            true => kernel_copies(programs.cast_mut(), ours, len, Direction::ToOurs),
            false => copy(ours, programs, len),
        }
    }
}

/// The same the other way.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
pub unsafe fn hand_out(programs: *mut u8, ours: *const u8, len: usize) -> bool {
    // SAFETY: as the caller says.
    unsafe {
        match careful::faults_are_blocked() {
            true => kernel_copies(programs, ours.cast_mut(), len, Direction::ToPrograms),
            false => copy(programs, ours, len),
        }
    }
}

#[derive(Clone, Copy)]
enum Direction {
    ToOurs,
    ToPrograms,
}

/// Whether the kernel copies within a process, one of `COPIES_*`.
#[unsafe(link_section = ".data")]
static KERNEL_COPIES: AtomicU32 = AtomicU32::new(COPIES_UNKNOWN);
const COPIES_UNKNOWN: u32 = 0;
const COPIES_DONE: u32 = 1;
const COPIES_REFUSED: u32 = 2;

/// Whether nothing can be copied here, as the signals of faults are blocked and the kernel refuses to copy: it must
/// answer the call.
#[inline(always)]
pub fn is_refused() -> bool {
    let is_known_to = KERNEL_COPIES.load(Relaxed) == COPIES_DONE;
    !is_known_to && careful::faults_are_blocked() && !can_kernel_copy()
}

#[cold]
#[inline(never)]
fn can_kernel_copy() -> bool {
    if KERNEL_COPIES.load(Relaxed) == COPIES_UNKNOWN {
        let (mut one, mut other) = (0u8, 0u8);
        for direction in [Direction::ToOurs, Direction::ToPrograms] {
            // SAFETY: both are locals.
            unsafe { kernel_copies(&raw mut one, &raw mut other, 1, direction) };
        }
    }
    KERNEL_COPIES.load(Relaxed) == COPIES_DONE
}

/// To the kernel the program's side is the caller's memory, as in a call that reads or writes: it is checked in the same
/// way. Ours is "another" process' memory: this thread's, as the first thread may have ended, and the process then
/// has no memory by its own number.
///
/// # Safety
/// As [`copy`].
#[cold]
#[inline(never)]
unsafe fn kernel_copies(programs: *mut u8, ours: *mut u8, len: usize, to: Direction) -> bool {
    let piece = |address: *mut u8| libc::iovec { iov_base: address.cast(), iov_len: len };
    let (programs, ours) = (piece(programs), piece(ours));
    let (programs, ours) = (&raw const programs, &raw const ours);
    // SAFETY: as the caller says; the kernel checks both.
    let answer = unsafe {
        let thread = syscall!(SYS_gettid);
        match to {
            Direction::ToOurs => {
                syscall!(SYS_process_vm_writev, thread, programs, 1, ours, 1, 0)
            }
            Direction::ToPrograms => {
                syscall!(SYS_process_vm_readv, thread, programs, 1, ours, 1, 0)
            }
        }
    };
    if answer >= 0 {
        // What was refused once is not tried for long.
        let unknown = COPIES_UNKNOWN;
        let _ = KERNEL_COPIES.compare_exchange(unknown, COPIES_DONE, Relaxed, Relaxed);
    } else if answer != -(libc::EFAULT as isize) {
        KERNEL_COPIES.store(COPIES_REFUSED, Relaxed);
    }
    answer != len as isize
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

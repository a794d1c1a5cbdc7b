//! Our own entries, led to shorter ways for `profile`.
#![allow(unsafe_code)]

use crate::{next, sys};

/// Whether that is a function of libc's.
pub fn is_libc(address: usize) -> bool {
    next::find(c"getauxval").is_some_and(|libc| libc.object.holds(address))
}

const PAGE_BYTES: usize = 4096;

fn distance(from: usize, to: usize) -> Option<i32> {
    i32::try_from(to as i64 - from as i64).ok()
}

/// Makes functions of our own lead to other ones from their first instruction on. To be called before
/// there is a second thread; nothing may be executing them. The pages in between are made writable for
/// that moment together: a system call for each function costs every start of a program 0.1 ms.
#[cfg(target_arch = "x86_64")]
pub fn redirect<const N: usize>(ways: [(usize, Option<usize>); N]) {
    // Another library's, which stands before us, is not ours to change.
    let ours = |from: usize| from.abs_diff(is_libc as *const () as usize) <= OUR_BYTES_MAX;
    let ways = || {
        ways.iter()
            .filter(|(from, _)| ours(*from))
            .filter_map(|(from, to)| Some((*from, distance(from + JUMP_BYTES, (*to)?)?)))
    };
    let froms = || ways().map(|(from, _)| from);
    let (Some(first), Some(last)) = (froms().min(), froms().max()) else { return };
    let page = first & !(PAGE_BYTES - 1);
    let end = ((last + JUMP_BYTES - 1) & !(PAGE_BYTES - 1)) + PAGE_BYTES;
    let protect = |protection: i32| {
        // SAFETY: code stays readable and executable.
        unsafe { sys::syscall!(SYS_mprotect, page, end - page, protection) == 0 }
    };
    if !protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) {
        return;
    }
    for (from, distance) in ways() {
        let distance = distance.to_le_bytes();
        let jump = [0xe9, distance[0], distance[1], distance[2], distance[3]];
        // SAFETY: the start of a function, writable for now, which nobody executes.
        unsafe { (from as *mut [u8; JUMP_BYTES]).write_unaligned(jump) };
    }
    protect(libc::PROT_READ | libc::PROT_EXEC);
}

/// Our own code is smaller than that, and other libraries begin farther away.
#[cfg(target_arch = "x86_64")]
const OUR_BYTES_MAX: usize = 1 << 20;

/// A jump with a distance of 32 bits.
#[cfg(target_arch = "x86_64")]
const JUMP_BYTES: usize = 5;

#[cfg(not(target_arch = "x86_64"))]
pub fn redirect<const N: usize>(_ways: [(usize, Option<usize>); N]) {}

//! Vectors, which the program may have put anywhere, and which other threads may change meanwhile.
#![allow(unsafe_code)]

use crate::arch;
use crate::floor::copy;

/// As many pieces as the kernel takes.
const PIECES_MAX: i32 = 1024;

/// The bytes that a vector has room for; `None` where the kernel knows what to say: it cannot be read, has too many pieces
/// or none, its sum is no length, or a piece of it lies over the vector, which the kernel reads whole before it stores
/// anything.
pub fn len_to_fill(vector: *const libc::iovec, count: i32) -> Option<usize> {
    let own = vector as usize..vector.wrapping_add(count as usize) as usize;
    // Also of a piece into which nothing will be copied.
    len(vector, count, |from, end| end <= own.start || own.end <= from)
}

/// The bytes that a vector has; `None` likewise.
pub fn len_to_take(vector: *const libc::iovec, count: i32) -> Option<usize> {
    len(vector, count, |_, _| true)
}

fn len(
    vector: *const libc::iovec,
    count: i32,
    may_be: impl Fn(usize, usize) -> bool,
) -> Option<usize> {
    if !(1..=PIECES_MAX).contains(&count) {
        return None;
    }
    (0..count as usize).try_fold(0usize, |sum, index| {
        let piece = piece(vector, index)?;
        let end = (piece.iov_base as usize).checked_add(piece.iov_len)?;
        if end >= arch::USER_END || !may_be(piece.iov_base as usize, end) {
            return None;
        }
        sum.checked_add(piece.iov_len).filter(|sum| *sum < 1 << 31)
    })
}

/// One piece of a vector; `None` where it cannot be read.
pub fn piece(vector: *const libc::iovec, index: usize) -> Option<libc::iovec> {
    let mut piece = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };
    let from = vector.wrapping_add(index).cast::<u8>();
    // SAFETY: our side is a local; the program's may be anything.
    let bad = unsafe { copy::fetch((&raw mut piece).cast(), from, size_of::<libc::iovec>()) };
    (!bad).then_some(piece)
}

/// Copies so many bytes from the pieces of a vector; false where they cannot be read, or are fewer by now.
///
/// # Safety
/// There is room for `len` bytes at `to`.
pub unsafe fn take(to: *mut u8, vector: *const libc::iovec, count: i32, len: usize) -> bool {
    let mut done = 0;
    for index in 0..count as usize {
        let Some(piece) = piece(vector, index) else { return false };
        let bytes = piece.iov_len.min(len - done);
        // SAFETY: `done + bytes` is at most `len`; the program's side may be anything.
        if unsafe { copy::fetch(to.wrapping_add(done), piece.iov_base.cast(), bytes) } {
            return false;
        }
        done += bytes;
    }
    done == len
}

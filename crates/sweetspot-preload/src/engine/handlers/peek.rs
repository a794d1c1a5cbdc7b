//! Values of the program's, who may have handed over a bad address.

use core::mem::MaybeUninit;

use super::super::spawns::{is_filtered, passive};
use super::{ignores, install};
use crate::floor::{copy, next, sys};

/// Reads a value of the program's, who may have handed over a bad address. What others must be told of this
/// process depends on it also where nothing is buffered: there no handler stands in front, and none is needed.
pub fn peek<T: Copy>(from: *const T) -> Option<T> {
    if passive() {
        return peek_without_handler(from);
    }
    install();
    if ignores() {
        return peek_without_handler(from);
    }
    if from.is_null() {
        return None;
    }
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: our side is a local of that size.
    let bad = unsafe { copy::fetch(value.as_mut_ptr().cast(), from.cast(), size_of::<T>()) };
    if bad && copy::is_refused() {
        return glance(from);
    }
    // SAFETY: all its bytes were copied from a value of the same C type.
    (!bad).then(|| unsafe { value.assume_init() })
}

#[cold]
#[inline(never)]
fn peek_without_handler<T: Copy>(from: *const T) -> Option<T> {
    // Under a filter no call of ours is made, and nobody is told of anything.
    if is_filtered() { None } else { glance(from) }
}

/// The same for what is looked at also in programs that buffer nothing: no handler is needed for it.
pub fn glance<T: Copy>(from: *const T) -> Option<T> {
    /// No machine has smaller ones.
    const PAGE_BYTES: usize = 4096;
    const { assert!(0 < size_of::<T>() && size_of::<T>() <= PAGE_BYTES) };
    let first = from as usize;
    let last = first.checked_add(size_of::<T>() - 1)?;
    // It lies in two pages at most.
    let is_in_one = first / PAGE_BYTES == last / PAGE_BYTES;
    let is_sound = sys::is_readable(first) && (is_in_one || sys::is_readable(last));
    // SAFETY: it can be read, and its bytes are a value of the same C type.
    is_sound.then(|| unsafe { from.read_unaligned() })
}

/// The same for what glibc looks at by itself before the kernel does: there a bad address faults here instead.
pub fn glance_like_libc(from: *const u64) -> Option<u64> {
    if next::has_glibc() {
        // SAFETY: null, or an address that is the program's to answer for.
        return (!from.is_null()).then(|| unsafe { from.read_unaligned() });
    }
    glance(from)
}

//! Values of the program's, who may have handed over a bad address.

use core::mem::MaybeUninit;

use super::super::spawns::passive;
use super::{ignores, install};
use crate::floor::{copy, next, sys};

/// Reads a value of the program's, who may have handed over a bad address.
pub fn peek<T: Copy>(from: *const T) -> Option<T> {
    if from.is_null() || passive() {
        return None;
    }
    install();
    if ignores() {
        return None;
    }
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: our side is a local of that size.
    let bad = unsafe { copy::fetch(value.as_mut_ptr().cast(), from.cast(), size_of::<T>()) };
    if bad && copy::is_refused() && is_readable(from as usize, size_of::<T>()) {
        // SAFETY: it can be read.
        return Some(unsafe { from.read_unaligned() });
    }
    // SAFETY: all its bytes were copied from a value of the same C type.
    (!bad).then(|| unsafe { value.assume_init() })
}

/// Whether so many bytes can be read, asked of the kernel word by word.
fn is_readable(address: usize, len: usize) -> bool {
    (address & !7..address.saturating_add(len)).step_by(8).all(sys::is_readable)
}

/// The same for what is looked at also in programs that buffer nothing: no handler is needed for it.
pub fn glance(from: *const u64) -> Option<u64> {
    let is_sound = from.is_aligned() && sys::is_readable(from as usize);
    // SAFETY: it can be read, and is aligned, so it lies in one page.
    is_sound.then(|| unsafe { *from })
}

/// The same for what glibc looks at by itself before the kernel does: there a bad address faults here instead.
pub fn glance_like_libc(from: *const u64) -> Option<u64> {
    if next::has_glibc() {
        // SAFETY: null, or an address that is the program's to answer for.
        return (!from.is_null()).then(|| unsafe { from.read_unaligned() });
    }
    glance(from)
}

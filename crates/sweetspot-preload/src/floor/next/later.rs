//! Objects that were loaded after the start, by whatever way: the program's `dlopen`, or libc's own for character
//! sets and names. Some make calls of their own, which are not seen; so may a library that only such a one needs.
//!
//! No lock of the loader's is taken. It appends new objects to its list once they are filled in, so the ones behind
//! those of the start are all that is to be looked at, and the common program has none.
#![allow(unsafe_code)]

use core::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::{Object, homonyms, is_uring};
use crate::floor::atomic::{has_threads, single_threaded};
use crate::floor::sys;

/// Whose calls are not seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unseen {
    /// Those of liburing.
    Uring,
    /// Those of what Go made.
    Go,
    /// Those of a function of its own with a name of libc's, by which it calls itself.
    Homonym,
}

/// The last object of the start, which stays.
#[unsafe(link_section = ".data")]
static LAST: AtomicPtr<Object> = AtomicPtr::new(core::ptr::null_mut());

/// A hash of the later ones that were looked at.
#[unsafe(link_section = ".data")]
static LOOKED_AT: AtomicU64 = AtomicU64::new(0);

/// Later ones that are looked at: more than any program has.
const LATER_MAX: usize = 65_536;

/// All objects of the start are known.
pub(super) fn begin(last: &'static Object) {
    LAST.store(core::ptr::from_ref(last).cast_mut(), Relaxed);
}

/// One may be unloaded, and another one, or the same, be where it was.
pub fn unloading() {
    LOOKED_AT.store(0, Relaxed);
}

/// Whether an object makes calls that are not seen, of those that were loaded since the last look.
#[inline]
pub fn later() -> Option<Unseen> {
    // SAFETY: null, or the loader's record of what it never unloads.
    let last = unsafe { LAST.load(Relaxed).as_ref() }?;
    // SAFETY: a word of the record, which the loader may be about to change.
    let first = unsafe { AtomicPtr::from_ptr((&raw const last.next).cast_mut().cast()) };
    let first: *const Object = first.load(Acquire);
    if first.is_null() { None } else { look(first) }
}

#[cold]
#[inline(never)]
fn look(first: *const Object) -> Option<Unseen> {
    let (looked_at, mut known, mut hash) = (LOOKED_AT.load(Relaxed), 0, 1);
    for (index, (at, object)) in objects(first).enumerate() {
        let words = [at, object.base, object.dynamic, object.path as usize];
        let next = |hash: u64, word: usize| (hash ^ word as u64).wrapping_mul(0x0100_0000_01b3);
        hash = words.into_iter().fold(hash, next);
        if hash == looked_at {
            known = index + 1;
        }
    }
    if looked_at == hash {
        return None;
    }
    let new = || objects(first).skip(known).map(|(_, object)| object).filter(is_whole);
    let found = new().find_map(|object| unseen(&object));
    LOOKED_AT.store(hash, Release);
    // Another thread might be calling what is led elsewhere, or unloading it.
    let has_homonym = || !has_threads() && homonyms::lead_later(new);
    found.or_else(|| has_homonym().then_some(Unseen::Homonym))
}

/// The objects from one on, and where the loader keeps them. It may be unloading one for another thread: then the list
/// ends there, and is another one at the next look.
fn objects(first: *const Object) -> impl Iterator<Item = (usize, Object)> {
    let read = |at: *const Object| Some((at as usize, read(at)?));
    core::iter::successors(read(first), move |(_, object)| read(object.next)).take(LATER_MAX)
}

/// A record of the loader's, as far as there still is one.
fn read(at: *const Object) -> Option<Object> {
    let last = (at as usize).checked_add(size_of::<Object>() - 1)?;
    let is_there = || single_threaded() || sys::is_readable(at as usize) && sys::is_readable(last);
    // SAFETY: it can be read; the loader's records are laid out so.
    (!at.is_null() && is_there()).then(|| unsafe { at.read() })
}

/// Whether what a record leads to is there.
fn is_whole(object: &Object) -> bool {
    let is_there = |at: usize| at != 0 && (single_threaded() || sys::is_readable(at));
    is_there(object.base) && is_there(object.dynamic) && is_there(object.path as usize)
}

fn unseen(object: &Object) -> Option<Unseen> {
    match () {
        () if object.path().is_some_and(is_uring) || is_uring(object.name()) => Some(Unseen::Uring),
        () if object.is_of_go() => Some(Unseen::Go),
        () => None,
    }
}

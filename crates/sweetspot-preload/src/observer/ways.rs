//! The calls that come by the million, in a process that is observed: nothing stands between the
//! hook and what is counted here.
//!
//! A hook first tries to answer from a buffer; in a process that is observed there is none. Then it jumps
//! to what stands behind it, and that is a way of these: so no call of a process that is not observed has
//! an instruction more. What is rare is out of the way, in functions of its own, so that the rest has
//! registers to spare.
//!
//! Invariant: the hooks *jump*. Only so is the address that [`with_caller`] finds one of the
//! program's. The compiler makes a jump of the last call of a function that keeps nothing on the
//! stack, and the test of `profile --where` fails if it does not.
//!
//! Reads and writes may be points of cancellation: they are libc's.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sweetspot_core::observe::{Kind, LARGE_BYTES, Tally, size_bucket};

use super::state::{Counts, FOLDED, OTHER, PASS_THROUGH, SEEN, Seen};
use super::watch::{Watch, time, turn};
use super::{ACQUIRES, RELEASES, count_point};
use crate::arch::with_caller;
use crate::floor::{atomic, next, sys};

/// Whether the seek behind ours is libc's. A seek is all that libc's does, and too short for the way
/// there and back, so we make it ourselves.
#[unsafe(link_section = ".data")]
static SEEK_IS_LIBCS: AtomicBool = AtomicBool::new(false);

/// Before the first call that is observed.
pub fn start() {
    SEEK_IS_LIBCS.store(next::is_libcs(c"lseek") && next::is_libcs(c"lseek64"), Relaxed);
}

/// The descriptor, if its calls only have to be counted now.
#[inline(always)]
fn armed(kind: Kind, fd: i32, len: u64) -> Option<&'static Seen> {
    let seen = SEEN.get(fd as usize)?;
    // A program that reads thousands of small files gives each of them all the room that there is.
    let is_small = || len < LARGE_BYTES || seen.flags.load(Relaxed) & FOLDED != 0;
    (seen.left.load(Relaxed) > 0 && (kind == Kind::Seek || is_small())).then_some(seen)
}

/// Any other call begins: when, if it is to be timed; else 0.
#[cold]
#[inline(never)]
fn begin(kind: Kind, fd: i32, len: u64) -> u64 {
    match SEEN.get(fd as usize) {
        Some(seen) if seen.due.swap(0, Relaxed) != 0 => time(1),
        _ => turn(kind, len),
    }
}

/// Counts a call on a descriptor that was armed before. False: it is for [`Watch::count`].
#[inline(always)]
fn count_plain(kind: Kind, seen: &Seen, len: u64, at: Option<i64>, answer: isize) -> bool {
    let left = seen.left.load(Relaxed);
    let record = seen.record.load(Relaxed);
    let at_end = kind == Kind::Read && answer == 0 && len != 0;
    let done_nothing = answer < isize::from(kind != Kind::Seek) && !at_end;
    if left <= 0 || record.is_null() || done_nothing || !atomic::single_threaded() {
        return false;
    }
    // A handler that comes in between may disarm: then this counts as one call more or less that
    // was looked at closely.
    seen.left.store(left - 1, Relaxed);
    let flags = seen.flags.load(Relaxed);
    if flags & (OTHER | PASS_THROUGH) != 0 {
        if kind == Kind::Read || flags & OTHER != 0 {
            count_point(&ACQUIRES);
        }
        if kind == Kind::Write || flags & OTHER != 0 {
            count_point(&RELEASES);
        }
    }
    match kind {
        Kind::Seek => seen.position.store(answer as u64, Relaxed),
        _ if at.is_none() => {
            let position = seen.position.load(Relaxed).wrapping_add(answer as u64);
            seen.position.store(position, Relaxed);
        }
        _ => {}
    }
    // SAFETY: records are mapped for good.
    let counts = Counts { record: unsafe { &*record }, exclusive: true };
    let done = answer as u64;
    match kind {
        Kind::Read => {
            counts.add(&counts.record.sizes_read[size_bucket(done)], 1);
            counts.tally(Tally::ReadBytes, done);
            if at_end {
                counts.tally(Tally::Ends, 1);
            }
        }
        Kind::Write => {
            counts.add(&counts.record.sizes_written[size_bucket(done)], 1);
            counts.tally(Tally::WrittenBytes, done);
        }
        Kind::Seek => counts.tally(Tally::Seeks, 1),
    }
    true
}

/// Finishes a call that was in flight while its descriptor was armed, and that is no plain one: it
/// failed, or something else came in between. Gives the answer for the program.
#[cold]
#[inline(never)]
fn finish_unplain(kind: Kind, fd: i32, len: u64, at: Option<i64>, answer: isize) -> isize {
    // Seeks are answered by the kernel itself.
    let (answer, errno) = match sys::result(answer) {
        Err(errno) if kind == Kind::Seek => (-1, Some(errno.0)),
        _ => (answer, None),
    };
    let (by_stdio, at, began_ns, returns_to) = (false, at.unwrap_or(-1), 0, 0);
    Watch { kind, by_stdio, fd, len, at, began_ns, returns_to }.finish_slowly(answer);
    errno.map_or(answer, crate::floor::errno::fail)
}

/// What tells one of these calls from the others.
trait Call {
    const KIND: Kind;
    /// It says where; else it is at the position.
    const POSITIONED: bool = false;
}

struct Read;
impl Call for Read {
    const KIND: Kind = Kind::Read;
}

struct ReadAt;
impl Call for ReadAt {
    const KIND: Kind = Kind::Read;
    const POSITIONED: bool = true;
}

struct Write;
impl Call for Write {
    const KIND: Kind = Kind::Write;
}

struct Seek;
impl Call for Seek {
    const KIND: Kind = Kind::Seek;
}

/// The next definition of any of them. It takes as many of the registers as it has arguments.
type Next = unsafe extern "C" fn(fd: i32, second: usize, third: usize, at: i64) -> isize;

/// What a hook jumps to, with the arguments of its call as registers hold them. The third is a length,
/// or whence.
macro_rules! entries {
    ($($name:ident $call:ty;)*) => {$(
        /// # Safety
        /// As for the C function; `next` must be the address of its next definition.
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(
            fd: i32, second: usize, third: usize, at: i64, next: usize,
        ) -> isize {
            with_caller!(way::<$call>)
        }
    )*};
}
entries! {
    read Read;
    read_at ReadAt;
    write Write;
    seek Seek;
}

/// A call that mostly only has to be counted; `returns_to` is what `with_caller` adds.
unsafe extern "C" fn way<C: Call>(
    fd: i32,
    second: usize,
    third: usize,
    at: i64,
    next: usize,
    returns_to: u64,
) -> isize {
    let Some(seen) = armed(C::KIND, fd, third as u64) else {
        // SAFETY: the caller made the same call.
        return unsafe { slowly::<C>(fd, second, third, at, next, returns_to) };
    };
    let answer = if C::KIND == Kind::Seek && SEEK_IS_LIBCS.load(Relaxed) {
        sys::seek(fd, second as i64, third as i32)
    } else {
        // SAFETY: the caller made the same call.
        unsafe { call(next, fd, second, third, at) }
    };
    let at = C::POSITIONED.then_some(at);
    match count_plain(C::KIND, seen, third as u64, at, answer) {
        true => answer,
        false => finish_unplain(C::KIND, fd, third as u64, at, answer),
    }
}

/// A call that is looked at closely.
#[cold]
#[inline(never)]
unsafe extern "C" fn slowly<C: Call>(
    fd: i32,
    second: usize,
    third: usize,
    at: i64,
    next: usize,
    returns_to: u64,
) -> isize {
    let began_ns = begin(C::KIND, fd, third as u64);
    // SAFETY: the caller made the same call.
    let answer = unsafe { call(next, fd, second, third, at) };
    let at = if C::POSITIONED { at } else { -1 };
    let (kind, by_stdio, len) = (C::KIND, false, third as u64);
    Watch { kind, by_stdio, fd, len, at, began_ns, returns_to }.finish_slowly(answer);
    answer
}

/// Calls the next definition.
#[inline(always)]
unsafe fn call(next: usize, fd: i32, second: usize, third: usize, at: i64) -> isize {
    // SAFETY: the address of a function that takes these arguments, or the first of them.
    let next: Next = unsafe { core::mem::transmute(next) };
    // SAFETY: the caller made the same call.
    unsafe { next(fd, second, third, at) }
}

//! musl: the pointers in each `FILE`.
//!
//! A `FILE` of musl carries its own functions: `close`, `read`, `write`, `seek`, at the same places
//! since 2011. Those of the three standard streams say which functions musl has; each stream that is made
//! later, and has the same ones, gets ours instead.
//!
//! Standard output begins with another `write`, which looks for a terminal, and puts the usual one in
//! its place: see [`FIRST_WRITE`].
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_uint};
use core::mem::{MaybeUninit, transmute};
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use sweetspot_core::why::Why;

use super::{Stream, UNKNOWN, ask};
use crate::engine::{deaths, handlers, spawns, table};
use crate::floor::{copy, next};
use crate::front::dispatch::{self, Kind, Outcome};

/// The beginning of musl's `FILE` (src/internal/stdio_impl.h). Functions are kept as addresses.
#[repr(C)]
struct File {
    flags: c_uint,
    read_at: *mut u8,
    read_end: *mut u8,
    close: usize,
    write_end: *mut u8,
    write_at: *mut u8,
    zero: *mut u8,
    write_base: *mut u8,
    read: usize,
    write: usize,
    seek: usize,
    buffer: *mut u8,
    buffer_bytes: usize,
    previous: *mut File,
    next: *mut File,
    fd: c_int,
}

impl File {
    /// How many bytes wait in the stream's buffer to be written.
    fn held(&self) -> usize {
        (self.write_at as usize).wrapping_sub(self.write_base as usize)
    }
}

/// `F_ERR` and `F_EOF`: what `ferror` and `feof` ask for.
const ERROR: c_uint = 32;
const END: c_uint = 16;

/// musl's functions; 0: not known.
static CLOSE: AtomicUsize = AtomicUsize::new(0);
static READ: AtomicUsize = AtomicUsize::new(0);
static WRITE: AtomicUsize = AtomicUsize::new(0);
static SEEK: AtomicUsize = AtomicUsize::new(0);
/// The function that standard output begins with; 0: it was called, and never is again.
static FIRST_WRITE: AtomicUsize = AtomicUsize::new(0);
static STANDARD_OUTPUT: AtomicPtr<File> = AtomicPtr::new(ptr::null_mut());

/// A function of musl's, kept before ours was put in its place, as the C function that it is.
macro_rules! original {
    ($address:expr, fn($($type:ty),*) -> $ret:ty) => {
        transmute::<usize, unsafe extern "C" fn($($type),*) -> $ret>($address)
    };
}

/// Learns from the standard streams which functions musl has, and takes these streams. To be called
/// before there is a second thread, which might be using them.
pub fn take_standard_streams() -> Result<(), Why> {
    if is_known() {
        return Ok(());
    }
    let libc = next::find(c"stdin").ok_or(UNKNOWN)?.object;
    let names = [c"stdin", c"stdout", c"stderr"];
    let streams =
        names.map(|name| standard_stream(name).filter(|stream| libc.holds(*stream as usize)));
    let [Some(input), Some(output), Some(error)] = streams else { return Err(UNKNOWN) };
    // SAFETY: streams of libc's own, which are never freed, and at least as large.
    let [read, write, first_write, seek, close] = unsafe {
        let all = [&*input, &*output, &*error];
        let alike = |of: fn(&File) -> usize| all.iter().all(|file| of(file) == of(all[0]));
        let numbered = all.iter().enumerate().all(|(fd, file)| file.fd == fd as c_int);
        if !numbered || !alike(|file| file.seek) || !alike(|file| file.close) {
            return Err(UNKNOWN);
        }
        [(*input).read, (*error).write, (*output).write, (*input).seek, (*input).close]
    };
    if [read, write, first_write, seek, close].iter().any(|&function| !libc.holds(function)) {
        return Err(UNKNOWN);
    }
    READ.store(read, Relaxed);
    WRITE.store(write, Relaxed);
    SEEK.store(seek, Relaxed);
    if first_write != write {
        FIRST_WRITE.store(first_write, Relaxed);
    }
    STANDARD_OUTPUT.store(output, Relaxed);
    CLOSE.store(close, Relaxed);
    for stream in [input, output, error] {
        take(stream.cast());
    }
    Ok(())
}

/// Whether musl's functions are known.
fn is_known() -> bool {
    CLOSE.load(Relaxed) != 0
}

/// The stream that a variable of libc's leads to.
fn standard_stream(name: &CStr) -> Option<*mut File> {
    let variable = next::find(name)?.address as *const *mut File;
    // SAFETY: a variable of libc's of that type, set before any program runs.
    Some(unsafe { *variable }).filter(|stream| !stream.is_null() && stream.is_aligned())
}

/// Puts ours in the place of musl's functions, where the stream has these.
pub fn take(stream: Stream) {
    if !is_known() {
        return;
    }
    let is_output = stream.cast() == STANDARD_OUTPUT.load(Relaxed);
    let writes = if is_output { FIRST_WRITE.load(Relaxed) } else { 0 };
    // SAFETY: a stream that libc has made, which nobody else uses yet, or a standard stream.
    let file = unsafe { &mut *stream.cast::<File>() };
    if file.close == CLOSE.load(Relaxed) {
        file.close = close as *const () as usize;
    }
    if file.read == READ.load(Relaxed) {
        file.read = read as *const () as usize;
    }
    if is_output && file.write == WRITE.load(Relaxed) {
        // `freopen` has put the usual function there. The first one is never called then, nor does anybody
        // look for a terminal.
        FIRST_WRITE.store(0, Relaxed);
    }
    if file.write == WRITE.load(Relaxed) || writes != 0 && file.write == writes {
        file.write = write as *const () as usize;
    }
    if file.seek == SEEK.load(Relaxed) {
        file.seek = seek as *const () as usize;
    }
}

/// Reads `len` bytes: all but the last into `target`, and then as much as there is into the stream's
/// buffer, whose first byte is the last one. A stream without a buffer reads all into `target`.
unsafe extern "C" fn read(stream: *mut File, target: *mut u8, len: usize) -> usize {
    // SAFETY: musl calls the functions of a stream with that stream, while it is locked.
    let file = unsafe { &mut *stream };
    let fd = file.fd;
    let direct = len - usize::from(file.buffer_bytes != 0);
    let (to, wanted) = match direct {
        0 => (file.buffer, file.buffer_bytes),
        _ => (target, direct),
    };
    let asked = (direct + file.buffer_bytes) as u64;
    let outcome = ask(fd, Kind::Read, asked, || dispatch::read(fd, to, wanted));
    if let Outcome::Done(answer) = outcome {
        if answer <= 0 {
            file.flags |= if answer == 0 { END } else { ERROR };
            return 0;
        }
        if direct > 0 {
            // The rest is asked for by another call.
            return answer as usize;
        }
        file.read_at = file.buffer;
        // SAFETY: that many bytes were put into the buffer, at least one; `target` has room for `len`.
        unsafe {
            file.read_end = file.buffer.add(answer as usize);
            *target = *file.read_at;
            file.read_at = file.read_at.add(1);
        }
        return len;
    }
    // SAFETY: the same call.
    let answer = unsafe {
        original!(READ.load(Relaxed), fn(*mut File, *mut u8, usize) -> usize)(stream, target, len)
    };
    // What came from the kernel: the stream's buffer may have more than it was asked for.
    let in_buffer = match answer == len && file.buffer_bytes != 0 {
        true => (file.read_end as usize).wrapping_sub(file.buffer as usize),
        false => 0,
    };
    let moved = if in_buffer > 0 { direct + in_buffer } else { answer };
    match outcome {
        Outcome::Watch(watch) => watch.finish(moved as isize),
        // The engine was asked for the first part only.
        outcome => outcome.finish(moved.min(wanted) as isize),
    };
    answer
}

/// Writes what the stream's buffer holds, and then `len` bytes. Where both are none, libc asks the kernel all the
/// same, which may answer with an error.
unsafe extern "C" fn write(stream: *mut File, source: *const u8, len: usize) -> usize {
    // SAFETY: as in `read`.
    let file = unsafe { &mut *stream };
    let fd = file.fd;
    let first_write = match stream == STANDARD_OUTPUT.load(Relaxed) {
        true => FIRST_WRITE.swap(0, Relaxed),
        false => 0,
    };
    let mut done = 0;
    loop {
        let (held, from, left) = (file.held(), source.wrapping_add(done), len - done);
        let asked = (held + left) as u64;
        let outcome = match first_write {
            // SAFETY: the program's side may be anything.
            0 => ask(fd, Kind::Write, asked, || unsafe { write_at_once(file, from, left) }),
            _ => dispatch::libc_call(Kind::Write, fd, asked),
        };
        let Outcome::Done(answer) = outcome else {
            let original = if first_write != 0 { first_write } else { WRITE.load(Relaxed) };
            // SAFETY: the same call for the rest.
            let answer = unsafe {
                original!(original, fn(*mut File, *const u8, usize) -> usize)(stream, from, left)
            };
            // Where there is nothing but what the buffer held, only this tells.
            let has_failed = answer < left || file.write_base.is_null();
            outcome.finish(if has_failed { -1 } else { (held + answer) as isize });
            if has_failed {
                deaths::answered(fd, -1);
            }
            if first_write != 0 {
                // It has put the usual function there.
                take(stream.cast());
            }
            return done + answer;
        };
        if answer < 0 {
            file.flags |= ERROR;
            file.write_at = ptr::null_mut();
            file.write_base = ptr::null_mut();
            file.write_end = ptr::null_mut();
            return done;
        }
        let of_held = held.min(answer as usize);
        file.write_base = file.write_base.wrapping_add(of_held);
        done += answer as usize - of_held;
        if file.held() == 0 && done == len {
            break;
        }
    }
    file.write_end = file.buffer.wrapping_add(file.buffer_bytes);
    file.write_at = file.buffer;
    file.write_base = file.buffer;
    len
}

/// Room for what a stream holds and what comes behind it. It costs nothing until it is used.
const ROOM_BYTES: usize = 8 << 10;

struct Room(UnsafeCell<MaybeUninit<[u8; ROOM_BYTES]>>);

// SAFETY: only the write that has set `TAKEN` uses it.
unsafe impl Sync for Room {}

static ROOM: Room = Room(UnsafeCell::new(MaybeUninit::uninit()));
/// Another thread, a handler or a child of a vfork may find it taken, also for good (the handler jumped away).
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Has the engine write what the stream holds and `len` bytes behind it as one write, as libc's `writev` does: nothing
/// may come in between, nor may a kill leave half of a record.
///
/// # Safety
/// `source` may be anything: the kernel, or who copies, answers for it.
unsafe fn write_at_once(file: &File, source: *const u8, len: usize) -> Outcome {
    let (fd, held) = (file.fd, file.held());
    if held == 0 {
        return dispatch::write(fd, source, len);
    }
    if len == 0 || dispatch::is_observed() {
        // The observer looks at no bytes.
        return dispatch::write(fd, file.write_base, held + len);
    }
    if held + len <= ROOM_BYTES && may_wait(fd) && !TAKEN.swap(true, Acquire) {
        let room = ROOM.0.get().cast::<u8>();
        // SAFETY: both fit, and nobody else uses the room.
        let bad = unsafe {
            copy::fetch(room, file.write_base, held) || copy::fetch(room.add(held), source, len)
        };
        let outcome = (!bad).then(|| dispatch::write(fd, room, held + len));
        TAKEN.store(false, Release);
        if let Some(outcome) = outcome {
            return outcome;
        }
    }
    dispatch::write_vector(fd, core::ptr::null(), 0)
}

/// Whether what is written to a descriptor may wait, and a bad address shows as an error where it is copied.
fn may_wait(fd: c_int) -> bool {
    let is_other = |word| table::tag(word) == table::OTHER;
    if spawns::passive() || table::word(fd).is_none_or(|word| is_other(word.load(Relaxed))) {
        return false;
    }
    handlers::install();
    !handlers::ignores()
}

unsafe extern "C" fn seek(stream: *mut File, offset: i64, whence: c_int) -> i64 {
    // SAFETY: as in `read`.
    let fd = unsafe { (*stream).fd };
    let outcome = ask(fd, Kind::Seek, whence as u64, || dispatch::seek(fd, offset, whence));
    if let Outcome::Done(answer) = outcome {
        return answer as i64;
    }
    // SAFETY: the same call.
    let answer = unsafe {
        original!(SEEK.load(Relaxed), fn(*mut File, i64, c_int) -> i64)(stream, offset, whence)
    };
    outcome.finish(answer as isize) as i64
}

unsafe extern "C" fn close(stream: *mut File) -> c_int {
    // SAFETY: as in `read`.
    let fd = unsafe { (*stream).fd };
    // SAFETY: the same call.
    dispatch::close(fd, || unsafe {
        original!(CLOSE.load(Relaxed), fn(*mut File) -> c_int)(stream)
    })
}

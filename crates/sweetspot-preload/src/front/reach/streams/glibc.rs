//! glibc: the jump tables of `FILE`.
//!
//! Each `FILE` of a file calls five small functions through a table that it shares with others of its
//! kind: `read`, `write`, `seek`, `close`, `stat`, in this order and next to each other. There are
//! seven such tables (bytes and wide characters, each plain, mapped and perhaps mapped; pipes of
//! `popen`). The functions are exported; the tables lie in the part of libc's data that the dynamic
//! linker makes read-only (RELRO). So that part is searched for the addresses, made writable for a
//! moment, and ours are put there.
//!
//! The layout holds since glibc 2.2; tried with 2.31, 2.36, 2.41 and 2.43.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_int, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use sweetspot_core::why::Why;

use super::{Stream, UNKNOWN, ask};
use crate::engine::{deaths, life};
use crate::floor::errno::fail;
use crate::floor::{careful, next, sys};
use crate::front::dispatch::{self, Kind, Outcome};

/// One of the five: its name in libc, and its own address.
struct Leaf {
    name: &'static CStr,
    original: AtomicUsize,
}

/// In the order of the tables.
static LEAVES: [Leaf; 5] = [
    Leaf::new(c"_IO_file_read"),
    Leaf::new(c"_IO_file_write"),
    Leaf::new(c"_IO_file_seek"),
    Leaf::new(c"_IO_file_close"),
    Leaf::new(c"_IO_file_stat"),
];

/// Ours, in the same order.
#[inline(always)]
fn ours() -> [usize; 5] {
    [
        read as *const (),
        write as *const (),
        seek as *const (),
        close as *const (),
        stat as *const (),
    ]
    .map(|function| function as usize)
}

const READ: usize = 0;
const WRITE: usize = 1;
const SEEK: usize = 2;
const CLOSE: usize = 3;
const STAT: usize = 4;

/// Words of `FILE`, as <bits/types/struct_FILE.h> has them: an interface that programs are compiled
/// against, so it stays.
#[repr(C)]
struct File {
    flags: c_int,
    pointers: [usize; 13],
    fd: c_int,
    flags2: c_int,
    old_offset: i64,
    column_and_buffer: u32,
    lock: usize,
    offset: i64,
}

/// `_IO_ERR_SEEN`: what `ferror` asks for.
const ERROR: c_int = 0x20;
/// `_IO_FLAGS2_NOTCANCEL`: opened with `c`, no call on it is a cancellation point.
const NOT_CANCELLED: c_int = 2;

/// Whether the C library of this process has such tables, whatever can be done with them.
pub fn has_tables() -> bool {
    LEAVES[READ].original() != 0
}

impl Leaf {
    const fn new(name: &'static CStr) -> Leaf {
        Leaf { name, original: AtomicUsize::new(0) }
    }

    /// Its own address; 0: there is none.
    fn original(&self) -> usize {
        match self.original.load(Relaxed) {
            0 => {
                let found = next::lookup(self.name);
                self.original.store(found, Relaxed);
                found
            }
            address => address,
        }
    }
}

/// Puts our functions into all tables.
#[unsafe(link_section = ".text.startup")]
pub fn take_tables() -> Result<(), Why> {
    let found = next::find(c"_IO_file_jumps").ok_or(UNKNOWN)?;
    let relro = found.object.relro_of_libc().ok_or(UNKNOWN)?;
    let leaves: [usize; 5] = core::array::from_fn(|index| LEAVES[index].original());
    if leaves.contains(&0) || !relro.contains(&found.address) {
        return Err(UNKNOWN);
    }
    // SAFETY: the segment is mapped and readable as long as libc is. Its words are changed only here.
    let words = unsafe {
        let first = relro.start.next_multiple_of(size_of::<usize>());
        let count = relro.end.saturating_sub(first) / size_of::<usize>();
        core::slice::from_raw_parts(first as *const AtomicUsize, count)
    };
    let holds = |word: &AtomicUsize, leaf: usize| word.load(Relaxed) == leaves[leaf];
    // A kind may close in its own way.
    let is_table = |five: &&[AtomicUsize]| {
        [READ, WRITE, SEEK, STAT].iter().all(|&leaf| holds(&five[leaf], leaf))
    };
    // All there are, and the one that has a name among them; looked for once, as a program may do so at its start.
    let mut tables: [&[AtomicUsize]; TABLES_MAX] = [&[]; TABLES_MAX];
    let (mut count, mut named) = (0, false);
    for (at, _) in words.iter().enumerate().filter(|(_, word)| holds(word, READ)) {
        let five = words.get(at..at + LEAVES.len()).filter(is_table).ok_or(UNKNOWN)?;
        *tables.get_mut(count).ok_or(UNKNOWN)? = five;
        count += 1;
        named |= (five.as_ptr() as usize).wrapping_sub(found.address) < TABLE_BYTES;
    }
    if !named {
        return Err(UNKNOWN);
    }
    let pages = next::whole_pages(relro);
    if !sys::protect(&pages, libc::PROT_READ | libc::PROT_WRITE) {
        return Err(Why::StreamsLocked);
    }
    for five in tables.iter().take(count) {
        for (index, (word, ours)) in five.iter().zip(ours()).enumerate() {
            if holds(word, index) {
                word.store(ours, Relaxed);
            }
        }
    }
    sys::protect(&pages, libc::PROT_READ);
    Ok(())
}

/// More than the seven that there are.
const TABLES_MAX: usize = 32;
/// A jump table has 21 words.
const TABLE_BYTES: usize = 21 * size_of::<usize>();

/// The original of a leaf as the C function that it is; it has the name that the leaf has in libc, where
/// ours stands in its place only in the tables.
macro_rules! original {
    ($leaf:ident as fn($($type:ty),*) -> $ret:ty) => {
        transmute::<usize, unsafe extern "C" fn($($type),*) -> $ret>(
            LEAVES[$leaf].original(),
        )
    };
}

/// The descriptor under a stream of a file.
unsafe fn descriptor(stream: Stream) -> c_int {
    // SAFETY: libc calls the functions of its tables with a stream of that kind.
    unsafe { (*stream.cast::<File>()).fd }
}

/// The same where libc is about to read or write, which is a cancellation point mostly.
unsafe fn descriptor_at_point(stream: Stream) -> c_int {
    // SAFETY: as in `descriptor`.
    if unsafe { (*stream.cast::<File>()).flags2 } & NOT_CANCELLED == 0 {
        careful::cancellation_point();
    }
    // SAFETY: likewise.
    unsafe { descriptor(stream) }
}

pub unsafe extern "C" fn read(stream: Stream, buffer: *mut c_void, len: isize) -> isize {
    // SAFETY: as libc has called us.
    let fd = unsafe { descriptor_at_point(stream) };
    let outcome =
        ask(fd, Kind::Read, len as u64, || dispatch::read(fd, buffer.cast(), len as usize));
    if let Outcome::Done(answer) = outcome {
        return answer;
    }
    // SAFETY: the same call.
    let answer =
        unsafe { original!(READ as fn(Stream, *mut c_void, isize) -> isize)(stream, buffer, len) };
    outcome.finish(answer)
}

/// The original writes until all is written, keeps the offset and notes an error in the stream.
pub unsafe extern "C" fn write(stream: Stream, buffer: *const c_void, len: isize) -> isize {
    // SAFETY: as libc has called us.
    let fd = unsafe { descriptor_at_point(stream) };
    let mut done = 0;
    while done < len {
        let (rest, left) = (buffer.wrapping_byte_add(done as usize), len - done);
        let outcome =
            ask(fd, Kind::Write, left as u64, || dispatch::write(fd, rest.cast(), left as usize));
        let Outcome::Done(answer) = outcome else {
            // SAFETY: the same call for the rest; it tells the stream what it has done.
            let answer = unsafe {
                original!(WRITE as fn(Stream, *const c_void, isize) -> isize)(stream, rest, left)
            };
            outcome.finish(answer);
            if answer < left {
                deaths::answered(fd, -1);
            }
            return done + answer;
        };
        // SAFETY: the stream is locked, or its user sees to it that nobody else uses it.
        let file = unsafe { &mut *stream.cast::<File>() };
        if answer < 0 {
            file.flags |= ERROR;
            break;
        }
        done += answer;
        if file.offset >= 0 {
            file.offset += answer as i64;
        }
    }
    done
}

pub unsafe extern "C" fn seek(stream: Stream, offset: i64, whence: c_int) -> i64 {
    // SAFETY: as libc has called us.
    let fd = unsafe { descriptor(stream) };
    let outcome = ask(fd, Kind::Seek, whence as u64, || dispatch::seek(fd, offset, whence));
    if let Outcome::Done(answer) = outcome {
        return answer as i64;
    }
    // SAFETY: the same call.
    let answer =
        unsafe { original!(SEEK as fn(Stream, i64, c_int) -> i64)(stream, offset, whence) };
    outcome.finish(answer as isize) as i64
}

pub unsafe extern "C" fn close(stream: Stream) -> c_int {
    // SAFETY: as libc has called us; the same call.
    let (fd, next) = unsafe { (descriptor(stream), original!(CLOSE as fn(Stream) -> c_int)) };
    // SAFETY: the same call.
    dispatch::close(fd, || unsafe { next(stream) })
}

/// How large is the file? `fseek` from the end asks so.
pub unsafe extern "C" fn stat(stream: Stream, into: *mut c_void) -> c_int {
    // SAFETY: as libc has called us.
    let fd = unsafe { descriptor(stream) };
    let pass = dispatch::pass_through();
    let answer = match life::incomplete(fd) {
        Some(errno) => fail(errno) as c_int,
        // SAFETY: the same call.
        None => unsafe { original!(STAT as fn(Stream, *mut c_void) -> c_int)(stream, into) },
    };
    pass.done();
    answer
}

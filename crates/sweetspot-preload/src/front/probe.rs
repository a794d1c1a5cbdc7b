//! The probe: is this program, with this C library, on this kernel, buffered?
//!
//! The library, loaded and set up as for a run, reads and writes files of its own through the engine.
//! It stores in the ledger what was buffered and what was not, with the reasons, and ends the process:
//! no instruction of the program's own runs. The files have no name and lie in memory.
//!
//! Invariant: every loop has an end, and whatever fails is an answer.
#![allow(unsafe_code)]

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use sweetspot_core::ledger::{
    ANSWER_COMPLETE, ANSWER_LOADED, ANSWER_READS, ANSWER_STDIO, ANSWER_WRITES, ANSWER_WRONG, Header,
};
use sweetspot_core::policy::{READS_TO_EARN, WRITES_TO_EARN};

use crate::engine::file::Attachment;
use crate::engine::spawns::passive;
use crate::engine::{self, file};
use crate::floor::{clock, sys};
use crate::front::dispatch::{self, Outcome};

/// Where the files are made: in memory, as the ledger.
const FOLDER: &CStr = c"/dev/shm";
/// A record, eight bytes a number: a call so small that it earns a buffer.
type Record = [u64; 32];
const RECORD_BYTES: usize = size_of::<Record>();
/// Records that are there to be read: some windows full, and a multiple of what earns one.
const RECORDS: u64 = 512;
/// Reads that must come out of a window, and writes that must wait, to be believed.
const BUFFERED_MIN: u32 = 8;
/// How long the guard may take to answer: on a busy machine it has to get its turn first.
const PATIENCE_MS: u64 = 2000;
/// Pauses meanwhile, each after as many writes as earn another question, and twice as long as the one before:
/// it usually answers at once.
const PAUSE_MS_MAX: u64 = 16;
/// Records that are written at most: memory that is taken for a moment. Patience ends first.
const WRITES_MAX: u64 = 16 << 10;
const _: () = assert!(WRITES_MAX / WRITES_TO_EARN as u64 * PAUSE_MS_MAX > 2 * PATIENCE_MS);

/// Tries everything, says so, and ends the process. Where there is nobody to be told it only ends.
pub fn run(header: Option<&Header>) -> ! {
    header.into_iter().for_each(tell);
    loop {
        // SAFETY: ends this process.
        unsafe { sys::syscall!(SYS_exit_group, 0) };
    }
}

fn tell(header: &Header) {
    let say = |bits: u32| {
        header.answer.fetch_or(bits, Relaxed);
    };
    say(ANSWER_LOADED);
    if !passive() {
        if engine::streams::are_seen() {
            say(ANSWER_STDIO);
        }
        say(reads(header));
        say(writes(header));
    }
    say(ANSWER_COMPLETE);
    dispatch::end();
}

/// Reads a file in small pieces until a window answers.
fn reads(header: &Header) -> u32 {
    let Some(fd) = make_file() else { return 0 };
    for number in 0..RECORDS {
        let record = record(number);
        // SAFETY: a descriptor and a record of our own.
        unsafe { sys::write(fd, record.as_ptr().cast(), RECORD_BYTES) };
    }
    sys::seek(fd, 0, libc::SEEK_SET);
    dispatch::opened(fd, libc::O_RDWR | libc::O_CLOEXEC);
    let mut buffered = 0;
    let mut answer = 0;
    for number in 0..u64::from(READS_TO_EARN) * 2 + u64::from(BUFFERED_MIN) {
        let mut found: Record = [0; 32];
        let into: *mut u8 = found.as_mut_ptr().cast();
        let outcome = dispatch::read(fd, into, RECORD_BYTES);
        let done = match outcome {
            Outcome::Done(done) => {
                buffered += 1;
                done
            }
            passed => {
                // SAFETY: a descriptor and a record of our own.
                let done = unsafe { sys::syscall!(SYS_read, fd as isize, into, RECORD_BYTES) };
                passed.finish(done)
            }
        };
        if done != RECORD_BYTES as isize || found != record(number) {
            answer |= ANSWER_WRONG;
            break;
        }
        if buffered == BUFFERED_MIN {
            answer |= ANSWER_READS;
            break;
        }
    }
    end_file(fd, header);
    answer
}

/// Writes a file in small pieces until the guard has answered and writes wait; lets them leave, and
/// looks at what is in the file.
fn writes(header: &Header) -> u32 {
    let Some(fd) = make_file() else { return 0 };
    dispatch::opened(fd, libc::O_RDWR | libc::O_CLOEXEC);
    let (began, mut pause_ms) = (clock::now_ms(), 1);
    let (mut number, mut buffered, mut wrong) = (0, 0, false);
    while number < WRITES_MAX && buffered < BUFFERED_MIN {
        if number % u64::from(WRITES_TO_EARN) == 0 && number > 0 && buffered == 0 {
            let is_final = file::open_file(fd)
                .is_some_and(|(file, _)| file.attachment.get() == Attachment::Never);
            if is_final || clock::now_ms().saturating_sub(began) > PATIENCE_MS {
                break;
            }
            pause(pause_ms);
            pause_ms = (pause_ms * 2).min(PAUSE_MS_MAX);
        }
        let record = record(number);
        let from: *const u8 = record.as_ptr().cast();
        let done = match dispatch::write(fd, from, RECORD_BYTES) {
            Outcome::Done(done) => done,
            // SAFETY: a descriptor and a record of our own.
            passed => passed.finish(unsafe { sys::write(fd, from, RECORD_BYTES) }),
        };
        buffered += u32::from(engine::dirty::is_pending());
        wrong |= done != RECORD_BYTES as isize;
        number += 1;
    }
    engine::release_point();
    wrong |= engine::dirty::is_pending();
    for number in 0..number {
        let mut found: Record = [0; 32];
        let at = number * RECORD_BYTES as u64;
        // SAFETY: a descriptor and a record of our own.
        let done = unsafe { sys::read_at(fd, found.as_mut_ptr().cast(), RECORD_BYTES, at) };
        wrong |= done != RECORD_BYTES as isize || found != record(number);
    }
    end_file(fd, header);
    match (wrong, buffered == BUFFERED_MIN) {
        (true, _) => ANSWER_WRONG,
        (false, true) => ANSWER_WRITES,
        (false, false) => 0,
    }
}

/// What the record with that number holds: no two are alike, nor like zeros.
fn record(number: u64) -> Record {
    [(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15); 32]
}

/// A file that has no name, which nobody but the guard can find.
fn make_file() -> Option<i32> {
    let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: a string; a descriptor of our own comes back.
    let fd = unsafe {
        sys::syscall!(SYS_openat, libc::AT_FDCWD as isize, FOLDER.as_ptr(), flags, 0o600)
    };
    Some(sys::result(fd).ok()? as i32)
}

/// Closes it, and notes why its calls passed through, where they did.
fn end_file(fd: i32, header: &Header) {
    if let Some((file, _)) = file::open_file(fd) {
        header.why.fetch_or(file.why.load(Relaxed), Relaxed);
    }
    dispatch::closing(fd);
    // SAFETY: a descriptor of our own.
    unsafe { sys::syscall!(SYS_close, fd as isize) };
}

fn pause(ms: u64) {
    sys::futex_wait(&AtomicU32::new(0), 0, ms);
}

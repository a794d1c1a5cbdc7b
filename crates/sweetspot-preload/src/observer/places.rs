//! `profile --where`: where in the program the calls are made that are timed anyway, one in 64.
//!
//! A hook jumps to what observes (`ways`), so the address to which its call returns is where the
//! machine keeps it: on top of the stack, or in a register. There is no walk over the stack: calls
//! that C's stdio makes are libc's, and are not noted.
#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::observe::{Observations, Placed, Record};

use crate::engine::process;
use crate::floor::sys;

/// Counts a call on a record that returns to `address`.
#[cold]
pub fn note(all: &Observations, pid: u32, record: &Record, address: u64) {
    if process::under_seccomp() {
        // It may not be allowed to ask what lies there.
        return;
    }
    match all.place(pid, record, address) {
        Some(Placed::Known(place)) => {
            place.samples.fetch_add(1, Relaxed);
        }
        Some(Placed::New(place)) => {
            place.samples.fetch_add(1, Relaxed);
            with_module(address, |path, offset| {
                place.module.store(path);
                place.offset.store(offset, Relaxed);
                place.ready.store(1, Relaxed);
            });
        }
        None => {}
    }
}

/// Memory for lines of `/proc/self/maps`, in bytes: it is on the program's stack, which may be a small
/// one. Longer lines are left out.
const LINES_BYTES: usize = 1024;

/// Finds the file of which an address of code is, and where in it.
fn with_module(address: u64, found: impl FnOnce(&[u8], u64)) {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    let path = c"/proc/thread-self/maps".as_ptr();
    // SAFETY: a string.
    let fd = unsafe { sys::syscall!(SYS_openat, libc::AT_FDCWD as isize, path, flags, 0) };
    let Ok(fd) = sys::result(fd) else { return };
    let mut lines = [0u8; LINES_BYTES];
    let mut filled = 0;
    let module = loop {
        let free = &mut lines[filled..];
        // SAFETY: a buffer of that size and a descriptor of our own.
        let answer = unsafe { sys::syscall!(SYS_read, fd, free.as_mut_ptr(), free.len()) };
        let Ok(read @ 1..) = sys::result(answer) else { break None };
        filled = (filled + read).min(LINES_BYTES);
        let whole = lines[..filled].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut all = lines[..whole].split(|byte| *byte == b'\n');
        if let Some(line) = all.find_map(|line| module_of(line, address)) {
            break Some(line);
        }
        // A line that fills the buffer without an end is lost.
        let rest = if whole == 0 && filled == LINES_BYTES { filled } else { whole };
        lines.copy_within(rest..filled, 0);
        filled -= rest;
    };
    // SAFETY: as above.
    unsafe { sys::syscall!(SYS_close, fd) };
    if let Some((path, offset)) = module {
        found(path, offset);
    }
}

/// Path and place, if a line of `/proc/self/maps` is that of the address, and of a file.
fn module_of(line: &[u8], address: u64) -> Option<(&[u8], u64)> {
    let mut fields = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    let mut range = fields.next()?.split(|byte| *byte == b'-').map(hexadecimal);
    let (start, end) = (range.next()??, range.next()??);
    let (_rights, offset) = (fields.next()?, hexadecimal(fields.next()?)?);
    let path = line.iter().position(|byte| *byte == b'/')?;
    ((start..end).contains(&address)).then(|| (&line[path..], address - start + offset))
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |number, digit| {
        let value = (*digit as char).to_digit(16)?;
        Some(number.wrapping_mul(16).wrapping_add(u64::from(value)))
    })
}

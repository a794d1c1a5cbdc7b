//! The library that is loaded under programs nobody changes.
//!
//! `abi` holds the C functions that stand in front of libc's, and nothing else; `ops` the logic, in
//! plain Rust that answers with a value; `file`, `table`, `pool` the state; `reach` how calls come
//! here besides by symbol; `arch` what each machine does in its own way. What to decide is decided in `sweetspot-core`.
//!
//! It lives in a stranger's house: no allocation, no libc lock, no panic, no thread, no descriptor
//! kept open, no thread local; errno only with -1. System calls of its own are made without libc.
//!
//! The build script of the `sweetspot` binary compiles it as a shared library with
//! `--cfg preload_abi`; otherwise (documentation, `cargo check`) it is an ordinary crate that
//! exports no C symbol.
//!
//! Small statics are placed in `.data`, next to each other: each page that is touched at the start
//! costs every process under `run` about a microsecond, and `.bss` spreads them between large tables.
#![no_std]
#![allow(unsafe_code)]
// Without its C symbols nothing calls most of it.
#![cfg_attr(not(preload_abi), allow(dead_code))]

#[cfg(test)]
extern crate std;

pub mod abi;
mod arch;
mod aside;
mod atomic;
mod auto;
mod careful;
mod concerns;
mod copy;
mod fault;
mod file;
mod ledger;
mod lock;
mod next;
mod ops;
mod others;
mod pins;
mod pool;
mod probe;
mod process;
mod reach;
mod start;
mod sys;
mod table;

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

unsafe extern "C" {
    fn __errno_location() -> *mut i32;
}

/// Sets errno and returns -1, as a C function that failed.
fn fail(errno: i32) -> isize {
    // SAFETY: libc gives a valid pointer to this thread's errno.
    unsafe { *__errno_location() = errno };
    -1
}

/// errno, for what must come back to it later.
fn errno() -> i32 {
    // SAFETY: as in `fail`.
    unsafe { *__errno_location() }
}

/// libc's clock_gettime, which asks the vDSO; 0 until it is needed; `NO_CLOCK_GETTIME` where another
/// library stands in front of it, which may tell a time that is not the one by which the kernel stamps
/// files.
#[unsafe(link_section = ".data")]
static CLOCK_GETTIME: AtomicUsize = AtomicUsize::new(0);
const NO_CLOCK_GETTIME: usize = 1;

#[cold]
#[inline(never)]
fn find_clock_gettime() -> usize {
    let name = c"clock_gettime";
    let found = if next::is_libcs(name) { next::lookup(name) } else { 0 };
    let address = if found == 0 { NO_CLOCK_GETTIME } else { found };
    CLOCK_GETTIME.store(address, Relaxed);
    address
}

fn read_clock(clock: i32) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let address = match CLOCK_GETTIME.load(Relaxed) {
        0 => find_clock_gettime(),
        address => address,
    };
    match address {
        NO_CLOCK_GETTIME => {
            // SAFETY: `time` is a timespec.
            unsafe { sys::syscall!(SYS_clock_gettime, clock, &raw mut time) };
        }
        address => {
            // SAFETY: the address is that of clock_gettime.
            let clock_gettime: unsafe extern "C" fn(i32, *mut libc::timespec) -> i32 =
                unsafe { core::mem::transmute(address) };
            // SAFETY: `time` is a timespec.
            unsafe { clock_gettime(clock, &raw mut time) };
        }
    }
    time
}

/// The wall clock by which the kernel stamps files, in nanoseconds.
fn wall_ns() -> u64 {
    let time = read_clock(libc::CLOCK_REALTIME_COARSE);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Puts errno back to what it was.
fn set_errno(errno: i32) {
    // SAFETY: as in `fail`.
    unsafe { *__errno_location() = errno };
}

#[cfg(preload_abi)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // Nothing here panics; if it does after all, the least harm is the end the program would have
    // had with a broken library.
    loop {
        // SAFETY: kills this process, by the signal that abort uses.
        unsafe { sys::syscall!(SYS_kill, sys::process_id() as isize, libc::SIGABRT) };
    }
}

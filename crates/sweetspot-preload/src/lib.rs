//! The library that is loaded under programs nobody changes.
//!
//! Five rooms, of which each imports only from those below it: `front` is how calls arrive, `observer` counts
//! them for `profile`, `engine` is what is done with them otherwise and what is known, `floor` what both stand
//! on and knows no files, `arch` what each machine does in its own way. What to decide is decided in
//! `sweetspot-core`.
//!
//! It lives in a stranger's house: no allocation, no libc lock, no panic, no thread, no descriptor
//! kept open, no thread local; errno only with -1. System calls of its own are made without libc.
//!
//! The build script of the `sweetspot` binary compiles it as a shared library with
//! `--cfg preload_abi`; otherwise (documentation, `cargo check`) it is an ordinary crate that
//! exports no C symbol.
//!
//! Small statics are placed in `.data`, next to each other: each page that is touched at the start
//! costs every process under `run` one to three microseconds, and `.bss` spreads them between large tables.
//! Functions that most processes run (to start, to open a file), or a forked child until its exec, stand in
//! `.text.startup`, side by side, for the same reason.
#![no_std]
#![allow(unsafe_code)]
// Without its C symbols nothing calls most of it.
#![cfg_attr(not(preload_abi), allow(dead_code))]

#[cfg(test)]
extern crate std;

mod arch;
mod engine;
mod floor;
pub mod front;
mod observer;

#[cfg(preload_abi)]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // Nothing here panics; if it does after all, the least harm is the end the program would have
    // had with a broken library.
    loop {
        // SAFETY: kills this process, by the signal that abort uses.
        unsafe { floor::sys::syscall!(SYS_kill, floor::sys::process_id() as isize, libc::SIGABRT) };
    }
}

//! Streams: how the calls are seen that the C library makes for `printf`, `fread` and `fseek`.
//!
//! They go to the kernel inside libc, where preloading does not reach. But each libc calls them through
//! pointers that lie in data: glibc in tables that all streams share ([`glibc`]), musl in each stream
//! ([`musl`]). Ours stand there from the first buffer or child on, or since a stream leads to a file that was given
//! (with `--stdio`: from the start). They do what the engine wants and go on to the original.
//!
//! No instruction is decoded or changed, so this holds where code may not be made writable
//! (MemoryDenyWriteExecute), on every machine, and while other threads run.
//!
//! Not behind these pointers is what libc does with files of its own: such functions flush before
//! (`silent.txt` says which need not).
//!
//! It fails closed: pointers that are not where they are expected mean that nothing is buffered in
//! this process.
#![allow(unsafe_code)]

pub mod glibc;
mod musl;

use core::ffi::c_void;

use sweetspot_core::why::Why;

use crate::engine;
use crate::engine::process::passive_for_good;
use crate::floor::next;
use crate::front::dispatch::{self, Kind, Outcome};

/// A stream of libc's.
pub type Stream = *mut c_void;

/// Puts our functions in the way of the calls of streams: what `engine::streams` asks for.
#[unsafe(link_section = ".text.startup")]
pub fn take() -> Result<(), Why> {
    match glibc::has_tables() {
        true => glibc::take_tables(),
        false => musl::take_standard_streams(),
    }
}

/// At the start of a process, while it has one thread: streams that carry their own pointers are taken
/// before anyone uses them. Where that fails, `engine::streams` says so later.
pub fn start() {
    if !next::has_glibc() {
        let _ = musl::take_standard_streams();
    }
    engine::streams::given();
}

/// libc has made a stream; null: it has not.
pub fn made(stream: Stream) {
    if !stream.is_null() {
        musl::take(stream);
    }
}

/// What is to become of a stream's call: asked of the engine where this descriptor's streams are
/// buffered, else it goes on at the kernel's offset.
#[inline(always)]
fn ask(fd: i32, kind: Kind, len: u64, engine: impl FnOnce() -> Outcome) -> Outcome {
    match engine::streams::is_libc_buffered(fd) && !passive_for_good() {
        true => engine(),
        // Also where the process is at its end, when what streams still hold is written.
        false => dispatch::libc_call(kind, fd, len),
    }
}

/// Nothing is buffered where the streams of the C library are not understood.
const UNKNOWN: Why = Why::StreamsUnknown;

//! Lines, records, copies and comparisons of files: fast, with large enough buffers, and with the
//! same bytes whatever the buffer and the strategy.
//!
//! | module | what it does |
//! |---|---|
//! | [`lines`] | reads lines without copying them: LF, CR, CRLF; Latin-1 and UTF-8 |
//! | [`records`] | fixed-length records: in order, by number, rewriting in place |
//! | [`copy`] | copies; the kernel is asked first, holes stay holes |
//! | [`compare`] | are two inputs equal, and where do they begin to differ? |
//! | [`each_line`] | something for every line of one large input, in several threads |
//! | [`Reader`], [`Writer`] | any input as a `BufRead`, any output as a `Write` |
//! | `stream` | lines as a `Stream`, for asynchronous code (feature `async`) |
//!
//! ```
//! use sweetspot_io::lines::{self, Lines};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("access.log");
//! std::fs::write(&path, "GET /\nPOST /form\nGET /form\n").unwrap();
//!
//! let mut gets = 0;
//! Lines::open(&path, &lines::Options::new())?
//!     .for_each_line(|line| gets += u32::from(line.starts_with(b"GET ")))?;
//! assert_eq!(gets, 2);
//! # Ok::<(), sweetspot_io::Error>(())
//! ```
//!
//! # What all have in common
//!
//! Inputs are paths, open files or readers ([`Input`]); outputs are paths, open files or writers
//! ([`Output`]). An output path gets its name when the output is complete, so an interrupted job
//! leaves no half file, and nothing is replaced unless the options say so ([`Existing`]).
//!
//! Every verb has one options struct with a sensible default, and in it [`ReadOptions`]: the size of
//! a buffer, a hint to the system, and the [`Strategy`]. All strategies give the same bytes. Without
//! a wish the library chooses, and [`Choice`] says why.
//!
//! Functions that are called for each line or record may return nothing, stop early, or fail with an
//! error of their own ([`Flow`]).
//!
//! Errors name what was tried, the file and the cause ([`Error`]). Library code never prints and
//! never ends the process; interrupted and short system calls are dealt with.
//!
//! # Features
//!
//! | feature | gives | default |
//! |---|---|---|
//! | `uring` | [`Strategy::Ring`]: several reads in flight at once, through io_uring | no |
//! | `async` | `stream::batches`: a `futures_core::Stream` of batches of lines | no |
//!
//! # Where it runs
//!
//! Linux. Rust 1.88 or newer. Vector instructions are used where the processor has AVX2; SSE2 serves
//! every other x86_64, and plain code the rest.
#![deny(missing_docs)]
#![deny(missing_debug_implementations)]
#![deny(unsafe_code)]

#[cfg(not(target_os = "linux"))]
compile_error!("sweetspot-io is made of Linux's system calls");

#[cfg(test)]
use test_start as _;

mod buffer_size;
pub mod compare;
pub mod copy;
pub mod each_line;
#[cfg(test)]
mod equivalence;
mod error;
#[cfg(test)]
mod faults;
mod flow;
mod input;
pub mod lines;
mod options;
mod output;
mod reader;
pub mod records;
mod strategy;
#[cfg(feature = "async")]
pub mod stream;
mod sys;
#[cfg(test)]
mod test;
mod writer;

/// The examples of the README are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use buffer_size::BufferSize;
pub use error::{Error, ErrorKind, Result};
pub use flow::Flow;
pub use input::Input;
pub use output::{Existing, Output};
pub use reader::Reader;
pub use strategy::{AUTO_BUFFER_BYTES, Choice, Hint, ReadOptions, Strategy};
pub use writer::Writer;

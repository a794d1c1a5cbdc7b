//! Lines, records, copies and comparisons of files, fast, and with the same bytes whatever the
//! buffer and the strategy.
#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod compare;
pub mod copy;
pub mod each_line;
mod error;
#[cfg(test)]
mod faults;
pub mod generate;
mod input;
pub mod lines;
mod output;
pub mod records;
mod strategy;
#[cfg(feature = "async")]
pub mod stream;
mod sys;
#[cfg(test)]
mod test;
pub mod transform;

pub use error::{Error, ErrorKind, Result};
pub use input::{Facts, Input, InputKind};
pub use output::{Existing, Output};
pub use strategy::{AUTO_BUFFER_BYTES, Choice, Hint, ReadOptions, Strategy, choose};
/// The size of a buffer, and the grammar that all of sweetspot reads it in.
pub use sweetspot_core::size::{self, BufferSize};

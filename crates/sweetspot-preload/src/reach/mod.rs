//! How calls come to `abi`, besides by symbol; and which programs are left alone.

mod patch;
pub mod streams;
pub mod target;

pub use patch::{is_libc, redirect};
pub use streams::stdio_is_seen;

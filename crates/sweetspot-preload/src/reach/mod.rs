//! How calls come to `abi`, besides by symbol; and which programs are left alone.

mod patch;
pub mod target;

pub use patch::{is_libc, original, redirect, stdio_is_never_seen, stdio_is_seen};

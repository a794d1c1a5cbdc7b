//! How calls come to `abi`, besides by symbol; and which programs are left alone.

mod patch;
pub mod target;

pub use patch::{original, stdio_is_seen};

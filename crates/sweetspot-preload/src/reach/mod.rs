//! How calls come to `abi`, besides by symbol.

mod patch;

pub use patch::{original, stdio_is_seen};

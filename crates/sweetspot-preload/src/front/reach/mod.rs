//! How calls come to `abi`, besides by symbol; and which programs are left alone.

pub mod streams;
pub mod target;

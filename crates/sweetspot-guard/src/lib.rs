//! (module docs)

pub mod process;

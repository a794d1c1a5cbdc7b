//! The front: how calls arrive. As C functions by their names (`abi`), through the pointers by which the C
//! library calls the kernel for its streams (`reach::streams`); and how programs are started with or without us.
//!
//! Each door turns a call into one of the engine's functions, or of `dispatch` where `profile` is to know of
//! it, and carries out the answer. Another door would stand here, and nothing below would change.

pub mod abi;
mod dispatch;
mod duplicates;
mod probe;
mod reach;
mod start;

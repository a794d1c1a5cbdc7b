//! The front: how calls arrive. As C functions by their names (`abi`), through the pointers by which the C
//! library calls the kernel for its streams (`reach::streams`); and how programs are started with or without us.
//!
//! Each door turns a call into one of the engine's functions and carries out its answer. Another door
//! would stand here, and nothing below would change.

pub mod abi;
mod probe;
mod reach;
mod start;

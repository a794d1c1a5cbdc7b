//! What follows from what was found, and how it is shown, in every form: words, tables, charts, pages.
//!
//! ```text
//! numbers   counts, sizes, times, ratios in words
//! shown     names that others chose
//! shell     words as a shell reads them
//! failure   what went wrong, what to do next, and the exit status
//! print     an answer on standard output
//! origin    which of many runs it was
//! reach     why a program cannot be reached
//! summary   of a run, as data, as text, and as read again; of many runs as one
//! profile   what `profile` found: data, prediction, recorded calls under another buffer, sentence, findings, table
//! tune      what `tune` found, from its runs: advice, table, curve, rules
//! bench     what `bench` found, from its runs; published figures beside it
//! verify    what differs between runs, and the verdict
//! top       which programs make many small calls
//! doctor    what a machine offers and lacks
//! data      a report of all kinds together, as `report --json` writes it
//! sessions  those of `tune` and `bench` as such data
//! content   its sentences and tables, `figures` its charts, of `parts`; `text` and `page` show both
//! chart     draws
//! ```
//!
//! Invariant: what is shown follows from what is given. Nothing is read, measured or started here.
#![forbid(unsafe_code)]

pub mod bench;
pub mod chart;
pub mod content;
pub mod data;
pub mod doctor;
pub mod failure;
pub mod figures;
pub mod numbers;
pub mod origin;
pub mod page;
mod parts;
pub mod print;
pub mod profile;
pub mod published;
pub mod reach;
pub mod sessions;
pub mod shell;
pub mod shown;
pub mod summary;
pub mod text;
pub mod top;
pub mod tune;
pub mod verify;

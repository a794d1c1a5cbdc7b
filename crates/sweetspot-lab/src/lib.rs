//! Experiments on programs: run them as fresh processes, in an order that is fair, and say what
//! the difference is and how sure that is.
//!
//! | module | what it does |
//! |---|---|
//! | [`measure`] | runs one command as a fresh process: times, memory, calls, what disturbed it |
//! | [`plan`] | what is to be measured, from a file: cells, data, oracle, claims |
//! | [`matrix`] | its rounds: what runs next, what the runs so far say |
//! | [`grammar`] | how times and shares are typed |
//! | [`ladder`] | the sizes that are tried, and how they are typed |
//! | [`schedule`] | the order of the runs, from a seed |
//! | [`questions`] | is buffering worth it, and must a size be set? In 12 to 28 runs |
//! | [`search`] | the smallest buffer within a margin of the best, in few runs |
//! | [`paired`] | runs cells in rounds, compares their outputs, estimates ratios with an interval |
//! | [`cost`] | what a run costs: a fixed part, a call, a byte; fitted to many runs |
//! | [`statistics`] | Hodges-Lehmann, Wilcoxon, bootstrap, Holm, autocorrelation |
//! | [`output`] | hashes of what came out |
//! | [`alike`] | do two outputs differ in nothing but times and process numbers? |
//! | [`store`] | every run in one SQLite file, for sessions that go on after a kill |
//! | [`environment`] | what a record says about the machine |
//! | [`cache`] | puts files into the page cache or out of it, and checks that it worked |
//!
//! Why rounds: on a busy machine two runs that follow each other are alike (lag-1 autocorrelation
//! 0.70 on a two-core virtual machine), so that measuring all of A and then all of B declares two
//! identical commands different 43 % of the time; the same runs in random pairs do so 3 to 5 %
//! of the time.
//!
//! Deliberately not here: what a command line prints, and which programs are measured.

#![deny(unsafe_code)]

#[cfg(test)]
use test_start as _;

pub mod alike;
pub mod cache;
pub mod cost;
pub mod environment;
mod error;
pub mod grammar;
pub mod ladder;
pub mod matrix;
pub mod measure;
pub mod output;
pub mod paired;
pub mod plan;
pub mod questions;
pub mod schedule;
pub mod search;
pub mod statistics;
pub mod store;
mod sys;

pub use error::Error;

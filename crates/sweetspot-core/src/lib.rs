//! What sweetspot decides, apart from everything that it does.
//!
//! No system call, no allocation, no unsafe code: given what a program did, these modules say what
//! should happen. The preload library asks them about each call, `profile` and `tune` about recorded ones.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod append;
pub mod auto;
pub mod cost;
pub mod environment;
pub mod file_systems;
pub mod glob;
pub mod learning;
pub mod ledger;
pub mod linkers;
pub mod observe;
pub mod openers;
pub mod pending;
pub mod policy;
pub mod shadow;
pub mod shell;
pub mod shown;
pub mod size;
pub mod stamps;
pub mod threshold;
pub mod trace;
pub mod unwritten;
pub mod why;
pub mod window;

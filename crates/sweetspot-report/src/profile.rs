//! What `profile` found, as data (`data`) and in words: a sentence, findings, a table, and what changed
//! from one profile to another.

pub mod compare;
pub mod coverage;
pub mod data;
pub mod insight;
mod place;
pub mod report;
pub mod sentence;

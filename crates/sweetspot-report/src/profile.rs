//! What `profile` found, as data (`data`), what follows from it (`model`: the prediction, `reasons`, `replay` of
//! a `recording`), and in words: a sentence, findings, a table, and what changed from one profile to another.

pub mod compare;
pub mod coverage;
pub mod data;
pub mod insight;
pub mod model;
mod place;
pub mod reasons;
pub mod recording;
pub mod replay;
pub mod report;
pub mod sampled;
pub mod sentence;
pub mod timeline;

//! What the reaper has taken of a living process.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering::SeqCst;

use sweetspot_core::ledger::Entry;
use sweetspot_core::pending::{Owner, owned_by};
use sweetspot_core::stamps::Apart;

use crate::sys::Status;

/// What was taken of a process, and is being written.
pub(super) struct Taking {
    /// Still to be written, in this order: entries, with their words.
    pub(super) left: VecDeque<(usize, u64)>,
    /// Written, or not: they are given back together.
    pub(super) done: Vec<(usize, u64, Written)>,
    pub(super) apart: Apart,
    /// The slot of the process.
    pub(super) slot: u32,
}

impl Taking {
    /// Takes out what is written next. What is not the guard's any more is not.
    pub(super) fn pop(&mut self, entries: &[Entry]) -> Option<(usize, u64)> {
        let is_taken = |(index, word): &(usize, u64)| {
            entries[*index].word.load(SeqCst) == owned_by(*word, Owner::Guard)
        };
        std::iter::from_fn(|| self.left.pop_front()).find(is_taken)
    }
}

/// How a file was left, if its file system describes it.
pub(super) type Written = io::Result<Option<Status>>;

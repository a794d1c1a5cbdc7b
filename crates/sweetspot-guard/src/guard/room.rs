//! How much memory write buffers may take.

use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use super::Guard;
use crate::write_buffers::WriteBuffers;
use crate::{memory, sys};

/// How long a look at the memory available stays good: a look costs as much as a handle.
const ROOM_AGE: Duration = Duration::from_secs(1);

/// How much memory write buffers may take: a quarter of what is available, half of what the memory file
/// system has, and a quarter of what the control group has left.
#[derive(Default)]
pub(super) struct Room {
    seen: Option<(Instant, u64)>,
}

impl Room {
    pub(super) fn bytes(&mut self, guard: &Guard, write_buffers: &WriteBuffers) -> u64 {
        if let Some((at, bytes)) = self.seen
            && at.elapsed() < ROOM_AGE
        {
            return bytes;
        }
        // What is taken already is no longer free, but is part of what may be taken.
        let taken = write_buffers.taken_bytes();
        let free = sys::free_bytes(&guard.file).unwrap_or(0);
        let available = memory::available_bytes().unwrap_or(0);
        let group = memory::group_free_bytes().unwrap_or(u64::MAX);
        let memory = available.min(group).saturating_add(taken) / 4;
        guard.ledger.header.budget_bytes.store(memory, SeqCst);
        let bytes = (free.saturating_add(taken) / 2).min(memory);
        self.seen = Some((Instant::now(), bytes));
        bytes
    }
}

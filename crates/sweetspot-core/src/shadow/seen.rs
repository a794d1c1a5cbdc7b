//! What others see of a shadow.

use super::{Shadow, State, Use, World};
use crate::threshold::{Ended, Run};

impl Shadow {
    /// Whether it was open before the program started: others share its offset.
    pub fn is_from_outside(&self) -> bool {
        self.outside
    }

    /// Whether it passes through for good.
    pub fn passes_through(&self) -> bool {
        self.state == State::PassThrough
    }

    /// The reasons for which calls passed through, as bits of [`crate::why::Why`].
    pub fn why(&self) -> u64 {
        self.why
    }

    /// Whether it would have a buffer now: most calls then concern nobody else.
    pub fn is_on(&self) -> bool {
        matches!(self.state, State::On | State::AppendPlaced)
    }

    /// Another description has written to the file: its window is found to be old when it is asked.
    pub fn written_beside(&mut self) {
        self.note_times(true);
    }

    /// Whether a window of it would be found to be old when its file is asked.
    pub fn is_recent(&self) -> bool {
        self.is_recent
    }

    /// What its calls were, now that they have come to an end.
    pub(super) fn ended(&self) -> Ended {
        let reads = self.learning.reads_in_order().saturating_add(self.hits);
        let writes = self.learning.small_writes().saturating_add(self.appends);
        Ended { reads: Run::of(reads, &self.reads), writes: Run::of(writes, &self.writes) }
    }

    /// What it has of its file now.
    pub fn has(&self, world: &World) -> Use {
        let is_pending = self.pending_len > 0 && self.releases == world.releases;
        Use { window: self.is_on() && self.has_window, pending: is_pending }
    }
}

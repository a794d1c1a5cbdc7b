//! Calls that a shadow is not told of: of many, `profile` follows some.

use super::{FARTHEST, Shadow, World};
use crate::learning::Near;

impl Shadow {
    /// Calls were left out, so many times as many as were followed since the last gap, and a transfer begins
    /// `at`, as if it followed on the last one. Acquire and release points in the gap do not matter to this
    /// file, and its reads went on earning as they did.
    pub fn resume(&mut self, at: u64, world: &World, times: u32) {
        (self.acquires, self.releases) = (world.acquires, world.releases);
        let moved = at.wrapping_sub(self.end);
        // No place lies before the beginning of a file.
        let there = |place: u64| Some(place.wrapping_add(moved)).filter(|to| *to <= FARTHEST);
        self.window_at = there(self.window_at).unwrap_or_default();
        self.pending_at = there(self.pending_at).unwrap_or_default();
        (self.end, self.last_end) = (at, Near::to(at));
        let earned = self.learning.score().saturating_sub(self.score);
        self.learning = self.learning.with_more_score(earned.saturating_mul(times));
        self.score = self.learning.score();
    }
}

//! Seeks.

use super::{Shadow, World, Would};
use crate::learning::Near;

impl Shadow {
    /// A seek was answered with `position`: one that sets or asks the position where it `is_plain`, else
    /// one from the end, for data or holes.
    #[inline]
    pub fn seek(
        &mut self,
        position: u64,
        is_plain: bool,
        world: &mut World,
        mut count: impl FnMut(Would, u64),
    ) {
        self.position = position;
        if self.is_append_placed() {
            world.release_point();
            return self.flush(&mut count);
        }
        if self.is_on() && is_plain {
            return count(Would::Seek, 1);
        }
        if !is_plain {
            world.release_point();
            self.quiesce(world, &mut count);
        }
        self.learning = self.learning.after_move(position, self.last_end);
        self.last_end = Near::to(position);
    }
}

//! Time: what is old is asked again, or written.

use super::dirty;
use super::process::{acquire_point, begin_concurrency};
use crate::floor::atomic::single_threaded;
use crate::floor::{careful, clock};

/// Looks at the time, advances the epoch when enough of it has passed, and says when it is due next.
#[cold]
pub fn tock() -> u64 {
    let look = clock::look();
    careful::end_short_way_if_needed();
    if look.is_news {
        acquire_point();
    }
    if !single_threaded() {
        // Made without any function that could make one.
        begin_concurrency();
    }
    dirty::flush_old(look.now_ms);
    look.now_ms
}

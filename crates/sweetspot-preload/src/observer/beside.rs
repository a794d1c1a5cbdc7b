//! One file that is open more than once: what one open file description has waiting, or keeps a window of, matters
//! to the others. The engine knows them by their inode, the observer by their path.

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::observe::{IS_INHERITED, Record, Tally};
use sweetspot_core::shadow::Use;

use super::state::{BESIDE_OTHERS, FOLDED, Seen};
use super::{each, world_now};

/// A descriptor means the file of this record now, which others may mean, too.
pub(super) fn note(seen: &'static Seen, record: &'static Record) {
    let is_first = record.tallies[Tally::Opens as usize].load(Relaxed) == 0
        && record.what.load(Relaxed) & IS_INHERITED == 0;
    if is_first || seen.flags.load(Relaxed) & FOLDED != 0 {
        return;
    }
    let mut is_beside = 0;
    each_beside(seen, |other| {
        other.flags.fetch_or(BESIDE_OTHERS, Relaxed);
        is_beside = BESIDE_OTHERS;
    });
    seen.flags.fetch_or(is_beside, Relaxed);
}

/// All other open file descriptions of the file, by one descriptor at least.
fn each_beside(seen: &Seen, mut with: impl FnMut(&'static Seen)) {
    let (record, home) = (seen.record.load(Relaxed), seen.description.load(Relaxed));
    each(|other, _| {
        // Files that are counted by folder have a record together, and few calls.
        let is_whole = other.flags.load(Relaxed) & FOLDED == 0;
        if is_whole
            && other.record.load(Relaxed) == record
            && other.description.load(Relaxed) != home
        {
            with(other);
        }
    });
}

/// What other descriptions would have of the file.
#[inline(always)]
pub(super) fn others_have(seen: &'static Seen, exclusive: bool) -> Use {
    match seen.flags.load(Relaxed) & BESIDE_OTHERS {
        0 => Use::default(),
        _ => asked(seen, exclusive),
    }
}

#[cold]
fn asked(seen: &'static Seen, exclusive: bool) -> Use {
    let (mut all, world, mut is_alone) = (Use::default(), world_now(), true);
    each_beside(seen, |other| {
        is_alone = false;
        other.with_state(exclusive, |state| all = all.and(state.shadow.has(&world)));
    });
    if is_alone {
        seen.flags.fetch_and(!BESIDE_OTHERS, Relaxed);
    }
    all
}

//! One file that is open more than once: what one open file description has waiting, or keeps a window of, matters
//! to the others. The engine knows them by their inode, the observer by their path first.

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::observe::{IS_INHERITED, Record, Tally};
use sweetspot_core::shadow::Use;

use super::state::{BESIDE_OTHERS, FOLDED, Seen};
use super::{each, world_now};
use crate::floor::sys;

/// A descriptor means a file of this record now, which others may mean, too.
pub(super) fn note(seen: &'static Seen, fd: i32, record: &'static Record) {
    let is_first = record.tallies[Tally::Opens as usize].load(Relaxed) == 0
        && record.what.load(Relaxed) & IS_INHERITED == 0;
    // Files that are counted by folder have a record together, and few calls.
    if is_first || seen.flags.load(Relaxed) & FOLDED != 0 {
        return;
    }
    each(|other, other_fd| {
        let is_of_path = other.flags.load(Relaxed) & FOLDED == 0
            && core::ptr::eq(other.record.load(Relaxed), record)
            && other.description.load(Relaxed) != seen.description.load(Relaxed);
        // Perhaps it was removed, and made anew.
        if is_of_path && inode_of(seen, fd) == inode_of(other, other_fd) {
            for one in [seen, other] {
                one.flags.fetch_or(BESIDE_OTHERS, Relaxed);
            }
        }
    });
}

fn inode_of(seen: &Seen, fd: i32) -> u64 {
    if seen.inode.load(Relaxed) == 0 {
        seen.inode.store(sys::status(fd).map_or(0, |status| status.inode), Relaxed);
    }
    seen.inode.load(Relaxed)
}

/// What other descriptions would have of the file.
#[inline(always)]
pub(super) fn others_have(seen: &'static Seen, exclusive: bool) -> Use {
    match seen.flags.load(Relaxed) & BESIDE_OTHERS {
        0 => Use::default(),
        _ => asked(seen, exclusive),
    }
}

/// The file was written beside windows of others.
#[cold]
pub(super) fn written(seen: &'static Seen, exclusive: bool) {
    each_other(seen, |other| other.with_state(exclusive, |state| state.shadow.written_beside()));
}

#[cold]
fn asked(seen: &'static Seen, exclusive: bool) -> Use {
    let (mut all, world, mut is_alone) = (Use::default(), world_now(), true);
    each_other(seen, |other| {
        is_alone = false;
        other.with_state(exclusive, |state| all = all.and(state.shadow.has(&world)));
    });
    if is_alone {
        seen.flags.fetch_and(!BESIDE_OTHERS, Relaxed);
    }
    all
}

/// A descriptor at least of each other description of the file.
fn each_other(seen: &Seen, mut with: impl FnMut(&'static Seen)) {
    let (inode, home) = (seen.inode.load(Relaxed), seen.description.load(Relaxed));
    each(|other, _| {
        if other.inode.load(Relaxed) == inode && other.description.load(Relaxed) != home {
            with(other);
        }
    });
}

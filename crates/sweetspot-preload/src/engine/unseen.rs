//! Release and acquire points that no call shows: memory that others share, and processes that are
//! told of each write. Where there may be any, only files that nobody else looks at are buffered.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sweetspot_core::why::Why;

use super::dirty::release_point;
use super::ending::end_because;
use super::quiesce::{self, Next, quiesce};
use super::spawns::{self, passive};
use super::{file, process, rules, table};

/// Whether there is a writable mapping that a child of a fork would share.
#[unsafe(link_section = ".data")]
static SHARES_WRITABLE: AtomicBool = AtomicBool::new(false);

/// A writable mapping was made that only children can share: harmless until there is one.
pub fn shares_with_children() {
    SHARES_WRITABLE.store(true, Relaxed);
}

/// Another process may write to memory that this one reads: a load there is an acquire point that is
/// not seen. Reads pass through for good.
pub fn acquires() {
    if passive() {
        return spawns::leave_behind();
    }
    if !process::begins_to_acquire() {
        return;
    }
    for fd in table::all() {
        quiesce::wait_for_transition(fd);
        if file::open_file(fd).is_some_and(|(file, _)| file.is_on() && !file.is_unobserved()) {
            quiesce(fd, Next::Learn);
        }
    }
}

/// This process and another one share writable memory: stores and loads there are release and acquire
/// points that are not seen. All calls pass through for good, but for those on files that, as a rule
/// promises, nobody looks at before they are closed.
pub fn syncs() {
    if !rules::has_unobserved_files() {
        end_because(Why::SharedMemory);
        return;
    }
    if passive() {
        return spawns::leave_behind();
    }
    if !process::begins_to_share() {
        return;
    }
    release_point();
    for fd in table::all() {
        quiesce::wait_for_transition(fd);
        let is_unobserved = match file::open_file(fd) {
            Some((file, _)) => file.is_unobserved(),
            // Whether it may be buffered is asked when it has earned that.
            None => continue,
        };
        quiesce(fd, if is_unobserved { Next::Learn } else { Next::PassThrough(Why::SharedMemory) });
    }
}

/// Whether this process is told of each write to some file.
#[unsafe(link_section = ".data")]
static COUNTS_WRITES: AtomicBool = AtomicBool::new(false);

/// Whether only writes to files that nobody else looks at wait.
pub fn counts_writes() -> bool {
    COUNTS_WRITES.load(Relaxed)
}

/// From now on this process is told of each write to some file, and would be told once of several that
/// leave as one. Only the kernel knows which file that is, so no writes wait any more, but for files
/// that, as a rule promises, nobody looks at.
pub fn will_count_writes() {
    if passive() {
        return spawns::leave_behind();
    }
    if COUNTS_WRITES.swap(true, Relaxed) {
        return;
    }
    quiesce::wait_for_all();
    release_point();
    for fd in table::all() {
        let public = file::open_file(fd).filter(|(file, _)| !file.is_unobserved());
        if public.is_some_and(|(file, _)| file.attachment.may_wait()) {
            quiesce(fd, Next::PassThrough(Why::Watched));
        }
    }
}

/// Whether there is what only children could share, and a fork will have shared.
pub fn is_shared_by_fork() -> bool {
    SHARES_WRITABLE.load(Relaxed)
}

/// Before a fork: what only children could share is shared from now on.
pub fn before_fork() {
    if !passive() && is_shared_by_fork() {
        syncs();
    }
}

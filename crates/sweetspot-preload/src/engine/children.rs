//! New processes, and becoming another program: fork, vfork, spawn, exec.
//!
//! A fork shares every open file description with the child. Before it every file is quiesced; after it
//! calls on them pass through in both. A child made by vfork or spawn runs in our own memory until it
//! execs: whatever it does must not touch what is kept here, and only descriptors that survive the exec
//! are shared.

use sweetspot_core::why::Why;

use super::concerns::{self, COMPANY};
use super::dirty::release_point;
use super::process::{
    PASSIVE_FOR_GOOD, acquire_point, set_passive, set_under_seccomp, under_seccomp,
};
use super::sharing::{Sharing, quiesce_all, stop_transitions};
use super::spawns::{self, forking, passive};
use super::{
    changes, dirty, ending, entries, file, handle, handlers, ledger, others, pool, put_off,
    streams, unseen,
};
use crate::floor::aside;
use crate::floor::atomic::set_has_threads;
use crate::floor::lock;

/// From now on this process may notice the death of another one: also one that buffers nothing itself, by its
/// streams and its handlers.
pub fn begin_company() {
    let is_known = concerns::of(COMPANY) != 0;
    if is_known || spawns::is_spawned_child() || changes::told().is_none() {
        return;
    }
    concerns::begin_company();
    handlers::begin_to_notice_deaths();
    streams::are_taken();
}

/// Before a fork. To be followed by `after_fork` in both processes.
pub fn before_fork() {
    unseen::before_fork();
    changes::starting();
    begin_company();
    ledger::fork_begins();
    if passive() {
        return;
    }
    stop_transitions();
    release_point();
    entries::await_let_go();
    quiesce_all(Sharing::All, Some(Why::Shared));
    lock::fork_begins();
}

/// After a fork, in the parent (`child` > 0 or an error) and in the child (0).
pub fn after_fork(child: i32) {
    if child == 0 {
        set_has_threads(false);
        aside::forget_copies();
        if spawns::is_spawned_child() {
            if spawns::is_filtered() {
                set_under_seccomp();
            }
            // The child of a vfork has forked: what is kept here is of its parent's parent.
            set_passive(PASSIVE_FOR_GOOD);
        }
        // A filter may kill for the calls of these. Nothing is buffered under one.
        if !under_seccomp() {
            ledger::leave_to_parent();
            ledger::begins();
            handlers::after_fork();
            others::goes_on_unseen();
        }
        ending::forget();
        streams::forget();
        lock::fork_ends(true);
        spawns::forget_all();
    }
    if passive() {
        return;
    }
    if child == 0 {
        dirty::forget_all();
        file::release_all_locks();
        put_off::forget();
        pool::release_lock();
    } else {
        // The child of a vfork that forks does not come here: what is counted is its parent's.
        lock::fork_ends(false);
    }
    // What another thread opened meanwhile is shared too.
    quiesce_all(Sharing::All, Some(Why::Shared));
    if child != 0 {
        spawns::count_fork(false);
    }
    acquire_point();
}

/// Before a vfork or spawn by this thread, by a list of file actions (0: none). Ends by itself when the
/// parent goes on (or with `after_spawn`).
pub fn before_spawn(actions: usize) {
    // The child of a vfork, which may need the ledger, maps nothing into its parent's memory.
    changes::starting();
    begin_company();
    if spawns::is_spawned_child() || under_seccomp() {
        // Under a filter nobody asks who is whose child: it may kill for that, and nothing is kept any more.
        return;
    }
    if passive() {
        // What is kept of signals and of its death goes on, and the child must not be taken for it.
        spawns::count_fork(true);
    } else {
        stop_transitions();
        release_point();
        entries::await_let_go();
        quiesce_all(Sharing::Spawned(actions), Some(Why::Shared));
    }
    if !spawns::begin(actions, after_spawn) {
        // Its child would be taken for this process.
        ending::end_because(Why::SharedMemory);
    }
}

/// After a spawn, in the parent.
pub fn after_spawn() {
    end_spawns();
}

/// The same after a spawn in which handlers may have begun: by its calls one of them has ended it, and what it opened
/// before there was a child is shared; what the child has done since is news.
pub fn after_spawn_with_handlers(actions: usize) {
    if !end_spawns() && !passive() {
        quiesce_all(Sharing::Spawned(actions), Some(Why::Shared));
        acquire_point();
    }
}

/// Whether there was one.
fn end_spawns() -> bool {
    let mut is_any = false;
    while let Some(actions) = spawns::ended() {
        is_any = true;
        if !passive() {
            // What another thread opened meanwhile may be shared too.
            quiesce_all(Sharing::Spawned(actions), Some(Why::Shared));
        }
        spawns::end();
        acquire_point();
        if spawns::is_left_behind() {
            // What it was, and what it means for which file, only a process that goes on could have asked.
            ending::end_because(Why::SharedMemory);
        }
    }
    is_any
}

/// Before this process becomes another program; it goes on if that fails. `is_there`: there is a file to be run.
pub fn before_exec(is_there: impl FnOnce() -> bool) {
    if !spawns::is_spawned_child() {
        changes::reading_any();
    }
    others::ends_unseen();
    if passive() {
        return;
    }
    release_point();
    stop_transitions();
    quiesce_all(Sharing::Inherited, Some(Why::Shared));
    if dirty::is_pending() || entries::any_failed() {
        if !is_there() {
            // It goes on, and tries again what it could not write.
            return;
        }
        // The other program cannot.
        ending::say_what_failed();
    }
    handle::leave();
}

/// The exec failed: this process goes on.
pub fn after_exec() {
    others::goes_on_unseen();
    if !passive() && forking() {
        spawns::count_fork(false);
    }
}

/// From here to `go_on` no window opens and nothing begins to wait: libc is about to ask about files
/// while functions of the program run in between.
pub fn hold_back() {
    if !passive() {
        release_point();
        stop_transitions();
        quiesce_all(Sharing::All, None);
    }
}

/// After `hold_back`. (A function that leaves by a jump leaves the program without buffering.)
pub fn go_on() {
    if !passive() && forking() {
        spawns::count_fork(false);
        acquire_point();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the child of a vfork does, in the memory of its parent: a lock that a third thread holds there would seem to
    /// be free to the child of another fork that is in progress.
    #[test]
    fn a_fork_by_who_takes_no_part_ends_no_other() {
        lock::fork_begins();
        assert!(passive());
        before_fork();
        after_fork(1);
        assert_eq!(lock::forks(), 1);
        lock::fork_ends(false);
        assert_eq!(lock::forks(), 0);
    }
}

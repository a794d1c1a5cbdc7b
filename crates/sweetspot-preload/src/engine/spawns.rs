//! Forks, and threads that wait in a vfork or spawn: does this thread take part in anything meanwhile?
//!
//! The child of a vfork or spawn runs in the memory of its parent, with the parent's thread pointer. Whatever
//! it does must not touch what is kept here. It ends when the parent goes on. Where its hook is not told that (a raw
//! `clone`), the parent's next call finds it out, here.
#![allow(unsafe_code)]

use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use super::concerns;
use super::process::{
    PASSIVE_SPAWN, clear_passive, passive_reasons, set_under_seccomp, under_seccomp,
};
use crate::floor::sys;

/// Whether hooks must pass calls through without touching any state. The one test at the head of every
/// slow path.
#[inline(always)]
pub fn passive() -> bool {
    concerns::of(concerns::PASSIVE) != 0 && still_passive()
}

/// Threads that are inside a fork: no window opens meanwhile.
#[unsafe(link_section = ".data")]
static FORKING: AtomicU32 = AtomicU32::new(0);

/// Whether a fork is in progress.
pub fn forking() -> bool {
    if FORKING.load(Relaxed) != 0 && passive_reasons() & PASSIVE_SPAWN != 0 {
        end_of_threads_that_ended();
    }
    FORKING.load(Relaxed) != 0
}

/// A fork begins, or ends, in this process.
pub fn count_fork(begins: bool) {
    match begins {
        true => FORKING.fetch_add(1, Relaxed),
        false => FORKING.fetch_sub(1, Relaxed),
    };
}

/// In the child of a fork none is in progress, and none of the threads is there that wait in a vfork or spawn:
/// others may get their stacks, and with them their thread pointers.
pub fn forget_all() {
    FORKING.store(0, Relaxed);
    if passive_reasons() & PASSIVE_SPAWN != 0 {
        SPAWNERS.iter().for_each(|spawner| spawner.thread.store(0, Relaxed));
        clear_passive(PASSIVE_SPAWN);
    }
}

/// Threads that wait in a vfork or spawn, and their process.
struct Spawner {
    thread: AtomicU64,
    process: AtomicI32,
    /// The list of file actions by which they spawn; 0: none.
    actions: AtomicUsize,
    /// Whether the child has asked for a seccomp filter, which its parent is not under.
    is_filtered: AtomicBool,
    /// How many, it and its children in a row, wait in vforks after which [`goes_on`] is called before any other hook.
    to_be_told: AtomicU32,
    /// The thread's number where it may end meanwhile; 0: it does not, `FREED`: the place is being freed.
    may_end: AtomicI32,
    /// The signal mask before, for the child.
    mask: AtomicU64,
}

const SPAWNERS_MAX: usize = 64;

const _: () = assert!(SPAWNERS_MAX < concerns::SPAWNS_MAX);

static SPAWNERS: [Spawner; SPAWNERS_MAX] = [const {
    Spawner {
        thread: AtomicU64::new(0),
        process: AtomicI32::new(0),
        actions: AtomicUsize::new(0),
        is_filtered: AtomicBool::new(false),
        to_be_told: AtomicU32::new(0),
        may_end: AtomicI32::new(0),
        mask: AtomicU64::new(0),
    }
}; SPAWNERS_MAX];

/// What is called in the parent, once it goes on; a function of what starts processes.
#[unsafe(link_section = ".data")]
static GOES_ON: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// This thread is about to wait in a vfork or spawn, by a list of file actions (0: none). It takes part in
/// nothing until `goes_on` has been called, which calls [`ended`] and [`end`]. False: more of them wait than are
/// known here, and each may wait for all others.
pub fn begin(actions: usize, goes_on: fn()) -> bool {
    GOES_ON.store(goes_on as *mut (), Relaxed);
    let me = sys::thread_pointer();
    let is_free =
        |spawner: &&Spawner| spawner.thread.compare_exchange(0, me, Relaxed, Relaxed).is_ok();
    let find = || SPAWNERS.iter().find(is_free);
    let found = find().or_else(|| {
        end_of_threads_that_ended();
        find()
    });
    let Some(spawner) = found else { return false };
    spawner.process.store(sys::process_id(), Relaxed);
    spawner.actions.store(actions, Relaxed);
    spawner.is_filtered.store(false, Relaxed);
    spawner.to_be_told.store(0, Relaxed);
    spawner.may_end.store(0, Release);
    concerns::spawn_began();
    true
}

/// The place of this thread, if it waits; the child of a vfork finds that of its parent.
fn spawner_of_thread() -> Option<&'static Spawner> {
    let me = sys::thread_pointer();
    SPAWNERS.iter().find(|spawner| spawner.thread.load(Relaxed) == me)
}

/// The same, if it is this process that waits.
fn own_spawner() -> Option<&'static Spawner> {
    spawner_of_thread().filter(|spawner| !spawner.is_of_parent())
}

impl Spawner {
    /// Whether this process, whose thread pointer it has, is the child: it has our memory, but not our process id.
    fn is_of_parent(&self) -> bool {
        // The filter may kill for the question. The parent does not come here before it has said that it goes on.
        self.is_filtered.load(Relaxed) && self.to_be_told.load(Relaxed) != 0
            || self.process.load(Relaxed) != sys::process_id()
    }
}

/// After [`begin`], also in the child of a vfork that begins one: before any other hook, and any handler, this process
/// calls [`goes_on`].
pub fn will_go_on() {
    if let Some(spawner) = spawner_of_thread() {
        spawner.to_be_told.fetch_add(1, Relaxed);
    }
}

/// See [`will_go_on`].
pub fn goes_on() {
    if let Some(spawner) = spawner_of_thread() {
        spawner.to_be_told.fetch_sub(1, Relaxed);
    }
}

/// After [`begin`], where this thread may end before `goes_on`: it can be cancelled in what it waits for.
pub fn thread_may_end() {
    if let Some(spawner) = own_spawner() {
        spawner.may_end.store(sys::thread_id(), Relaxed);
    }
}

/// `Spawner::may_end` where somebody frees the place, alone.
const FREED: i32 = -1;

/// Threads that have ended wait for nothing.
#[cold]
fn end_of_threads_that_ended() {
    for spawner in &SPAWNERS {
        let (known, thread) = (spawner.thread.load(Relaxed), spawner.may_end.load(Acquire));
        if known == 0 || thread <= 0 || known == sys::thread_pointer() {
            continue;
        }
        // SAFETY: no signal is sent.
        let answer = unsafe { sys::syscall!(SYS_tgkill, sys::process_id() as isize, thread, 0) };
        let has_ended = answer == -libc::ESRCH as isize;
        // Once, also where several threads find it, or a new one that has its pointer.
        if has_ended && spawner.may_end.compare_exchange(thread, FREED, Relaxed, Relaxed).is_ok() {
            spawner.thread.store(0, Relaxed);
            end();
        }
    }
}

/// After [`begin`]: where this thread's signal mask of before is kept for its child. `None`: it has not begun.
pub fn keep_mask(mask: u64) -> Option<&'static AtomicU64> {
    let spawner = own_spawner()?;
    spawner.mask.store(mask, Relaxed);
    Some(&spawner.mask)
}

/// A vfork or spawn of this thread is over: takes note of that, and returns the list of file actions. `None`:
/// there is none, or this is the child, after a spawn of its own.
pub fn ended() -> Option<usize> {
    let spawner = own_spawner()?;
    let actions = spawner.actions.load(Relaxed);
    let thread = spawner.may_end.load(Relaxed);
    let free = || spawner.may_end.compare_exchange(thread, FREED, Relaxed, Relaxed);
    if thread == FREED || free().is_err() {
        // It is that of an ended thread, which had this pointer, and another one is about to free it.
        return None;
    }
    spawner.thread.store(0, Relaxed);
    Some(actions)
}

/// After [`ended`]: this thread takes part again.
pub fn end() {
    count_fork(false);
    concerns::spawn_ended();
}

/// Whether the reasons to be passive hold for this thread: the slow half of [`passive`].
#[cold]
fn still_passive() -> bool {
    let is_for_good = passive_reasons() & !PASSIVE_SPAWN != 0;
    if passive_reasons() & PASSIVE_SPAWN == 0 {
        return is_for_good;
    }
    match spawner_of_thread() {
        None => is_for_good,
        Some(spawner) if spawner.is_of_parent() => true,
        Some(_) => {
            let goes_on = GOES_ON.load(Relaxed);
            // SAFETY: stored by `begin` alone, before there was a spawner.
            let goes_on: fn() = unsafe { core::mem::transmute(goes_on) };
            goes_on();
            is_for_good
        }
    }
}

/// Whether the child of a vfork has done something that its parent, whose memory and descriptions it uses, must be
/// told of when it goes on.
#[unsafe(link_section = ".data")]
static LEAVES_BEHIND: AtomicBool = AtomicBool::new(false);

/// In the child of a vfork: memory was mapped, or somebody is told of writes, or the like. In any other process it
/// does nothing.
pub fn leave_behind() {
    if is_spawned_child() {
        LEAVES_BEHIND.store(true, Relaxed);
    }
}

/// In the parent that goes on: whether there is such a thing, once.
pub fn is_left_behind() -> bool {
    LEAVES_BEHIND.load(Relaxed) && LEAVES_BEHIND.swap(false, Relaxed)
}

/// A seccomp filter is asked for.
pub fn filtering() {
    match spawner_of_child() {
        Some(spawner) => spawner.is_filtered.store(true, Relaxed),
        None => set_under_seccomp(),
    }
}

/// Whether one is in force that may kill for a call of ours.
pub fn is_filtered() -> bool {
    let is_child = || spawner_of_child().is_some_and(|spawner| spawner.is_filtered.load(Relaxed));
    under_seccomp() || is_child()
}

/// Whether this is the child of a vfork or spawn, which runs in its parent's memory.
pub fn is_spawned_child() -> bool {
    spawner_of_child().is_some()
}

/// The thread that waits for this process, if it is the child of a vfork or spawn.
fn spawner_of_child() -> Option<&'static Spawner> {
    if passive_reasons() & PASSIVE_SPAWN == 0 {
        return None;
    }
    spawner_of_thread().filter(|spawner| spawner.is_of_parent())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Without this one the child of the later one would take part in what is kept for its parent.
    #[test]
    fn the_end_of_a_spawn_leaves_another_that_begins() {
        const ROUNDS: usize = 200_000;
        let spawn = || {
            for _ in 0..ROUNDS {
                assert!(begin(0, || {}));
                assert_ne!(passive_reasons() & PASSIVE_SPAWN, 0);
                assert_eq!(ended(), Some(0));
                count_fork(true);
                end();
            }
        };
        let others = [thread::spawn(spawn), thread::spawn(spawn)];
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(passive_reasons() & PASSIVE_SPAWN, 0);
    }
}

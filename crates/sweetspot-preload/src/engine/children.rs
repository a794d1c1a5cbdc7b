//! New processes, and becoming another program: fork, vfork, spawn, exec.
//!
//! A fork shares every open file description with the child. Before it every file is quiesced; after it
//! calls on them pass through in both. A child made by vfork or spawn runs in our own memory until it
//! execs: whatever it does must not touch what is kept here, and only descriptors that survive the exec
//! are shared.

use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
};

use sweetspot_core::learning::Learning;
use sweetspot_core::why::Why;

use super::file::{self, OpenFile};
use super::process::{
    PASSIVE_FOR_GOOD, PASSIVE_SPAWN, acquire_point, clear_passive, passive_reasons, set_passive,
    set_under_seccomp, under_seccomp,
};
use super::quiesce::{Next, quiesce};
use super::{
    alone, attach, changes, concerns, entries, ledger, pool, release_point, table, unseen,
};
use crate::floor::signals::SignalsBlocked;
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
    FORKING.load(Relaxed) != 0
}

/// Which descriptors a new process will share with us.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    All,
    /// Those that are not closed at exec.
    Inherited,
    /// And those that these file actions of a spawn duplicate, whatever the numbers mean by then.
    Spawned(usize),
}

impl Sharing {
    /// Whether a descriptor that is closed at exec is handed on all the same.
    fn names(self, fd: i32) -> bool {
        match self {
            Sharing::All => true,
            Sharing::Inherited => false,
            Sharing::Spawned(actions) => is_named(actions, fd),
        }
    }
}

/// A descriptor that a list of file actions duplicates. Which file that is, is decided when a process
/// is made by them: the number may mean nothing yet when it is written down.
struct Named {
    /// The address of the list; 0: free.
    actions: AtomicUsize,
    fd: AtomicI32,
}

/// More than all the lists that a program keeps at a time have; beyond, every spawn by a list counts
/// as sharing everything.
const NAMED_MAX: usize = 256;
static NAMED: [Named; NAMED_MAX] =
    [const { Named { actions: AtomicUsize::new(0), fd: AtomicI32::new(-1) } }; NAMED_MAX];
#[unsafe(link_section = ".data")]
static NAMED_TOO_MANY: AtomicBool = AtomicBool::new(false);

/// Lists that were begun where they are. A list that is not among them is a copy of another one, byte by
/// byte, and may name anything.
static LISTS: [AtomicUsize; NAMED_MAX] = [const { AtomicUsize::new(0) }; NAMED_MAX];

/// In the place of a descriptor: the list opens files for writing.
pub const OPENS: i32 = -2;

/// A list of file actions is going to duplicate a descriptor.
pub fn named_in_actions(actions: usize, fd: i32) {
    let is_free =
        |named: &&Named| named.actions.compare_exchange(0, actions, Relaxed, Relaxed).is_ok();
    match NAMED.iter().find(is_free) {
        Some(named) => named.fd.store(fd, Relaxed),
        None => NAMED_TOO_MANY.store(true, Relaxed),
    }
}

/// A list of file actions begins.
pub fn begin_actions(actions: usize) {
    forget_actions(actions);
    // Where there is no room, it counts as a copy.
    let _ = LISTS.iter().find(|list| list.compare_exchange(0, actions, Relaxed, Relaxed).is_ok());
}

/// A list of file actions has ended.
pub fn forget_actions(actions: usize) {
    for list in &LISTS {
        let _ = list.compare_exchange(actions, 0, Relaxed, Relaxed);
    }
    for named in &NAMED {
        if named.actions.load(Relaxed) == actions {
            named.fd.store(-1, Relaxed);
            named.actions.store(0, Relaxed);
        }
    }
}

/// Whether a list of file actions duplicates a descriptor.
pub fn is_named(actions: usize, fd: i32) -> bool {
    let is_it =
        |named: &Named| named.actions.load(Relaxed) == actions && named.fd.load(Relaxed) == fd;
    let is_copy = || LISTS.iter().all(|list| list.load(Relaxed) != actions);
    actions != 0 && (NAMED_TOO_MANY.load(Relaxed) || NAMED.iter().any(is_it) || is_copy())
}

/// Whether this process has ever shared its descriptions with a child, or its parent shared them with it.
#[unsafe(link_section = ".data")]
static HAS_SHARED: AtomicBool = AtomicBool::new(false);

/// Whether another process of the tree has the same description, and sees where it is: a process that meets
/// its end there knows that others have had what came before.
pub fn shows_its_offset(file: &OpenFile) -> bool {
    file.why.load(Relaxed) & Why::Shared.bit() != 0
        || file.is_from_outside() && HAS_SHARED.load(Relaxed)
}

/// Quiesces every file. Calls on those that will be shared pass through from then on, for the reason
/// given.
#[unsafe(link_section = ".text.startup")]
pub(super) fn quiesce_all(sharing: Sharing, why: Option<Why>) {
    if why == Some(Why::Shared) {
        HAS_SHARED.store(true, Relaxed);
    }
    for fd in table::all() {
        let Some(word) = table::word(fd) else { break };
        let value = word.load(Relaxed);
        let learned = match table::tag(value) {
            table::LEARNING => value,
            table::OPEN => match OpenFile::from_word(value) {
                file if file.is_buffered() => file.learned.load(Relaxed),
                file => file.state.load(Relaxed),
            },
            _ => continue,
        };
        let kept = Learning(learned).has(Learning::CLOSE_ON_EXEC) && !sharing.names(fd);
        // What came from outside was shared before, and is written as such.
        let outside = file::open_file(fd).map(|(file, _)| file);
        let outside = outside.filter(|file| file.is_from_outside());
        outside.into_iter().for_each(alone::forget_question);
        let kept = kept || outside.is_some();
        quiesce(fd, why.filter(|_| !kept).map_or(Next::Learn, Next::PassThrough));
    }
}

/// Before a fork. To be followed by `after_fork` in both processes.
pub fn before_fork() {
    unseen::before_fork();
    changes::starting();
    if passive() {
        return;
    }
    stop_transitions();
    release_point();
    entries::await_let_go();
    quiesce_all(Sharing::All, Some(Why::Shared));
}

/// From now on no window opens and no writes begin to wait, in any thread.
#[unsafe(link_section = ".text.startup")]
pub(super) fn stop_transitions() {
    FORKING.fetch_add(1, Relaxed);
    // A transition in progress is over once the registry can be held.
    let _signals = SignalsBlocked::new();
    drop(file::hold_registry());
}

/// After a fork, in the parent (`child` > 0 or an error) and in the child (0).
pub fn after_fork(child: i32) {
    if child == 0 {
        ledger::leave_to_parent();
    }
    if passive() {
        return;
    }
    if child == 0 {
        attach::forget_all();
        file::release_all_locks();
        pool::release_lock();
        FORKING.store(0, Relaxed);
    }
    // What another thread opened meanwhile is shared too.
    quiesce_all(Sharing::All, Some(Why::Shared));
    if child != 0 {
        FORKING.fetch_sub(1, Relaxed);
    }
    acquire_point();
}

/// Threads that wait in a vfork or spawn, and their process.
struct Spawner {
    thread: AtomicU64,
    process: AtomicI32,
    /// The list of file actions by which they spawn; 0: none.
    actions: AtomicUsize,
}

const SPAWNERS_MAX: usize = 64;
static SPAWNERS: [Spawner; SPAWNERS_MAX] = [const {
    Spawner { thread: AtomicU64::new(0), process: AtomicI32::new(0), actions: AtomicUsize::new(0) }
}; SPAWNERS_MAX];
#[unsafe(link_section = ".data")]
static SPAWNING: AtomicU32 = AtomicU32::new(0);

/// Before a vfork or spawn by this thread, by a list of file actions (0: none). Ends by itself when the
/// parent goes on (or with `after_spawn`).
pub fn before_spawn(actions: usize) {
    // The child of a vfork, which may need the ledger, maps nothing into its parent's memory.
    changes::starting();
    if passive() {
        return;
    }
    stop_transitions();
    release_point();
    entries::await_let_go();
    quiesce_all(Sharing::Spawned(actions), Some(Why::Shared));
    let me = sys::thread_pointer();
    let process = sys::process_id();
    loop {
        for spawner in &SPAWNERS {
            if spawner.thread.compare_exchange(0, me, Relaxed, Relaxed).is_ok() {
                spawner.process.store(process, Relaxed);
                spawner.actions.store(actions, Relaxed);
                SPAWNING.fetch_add(1, Relaxed);
                set_passive(PASSIVE_SPAWN);
                return;
            }
        }
        core::hint::spin_loop();
    }
}

/// After a spawn, in the parent.
pub fn after_spawn() {
    let me = sys::thread_pointer();
    for spawner in &SPAWNERS {
        if spawner.thread.load(Relaxed) == me {
            let actions = spawner.actions.load(Relaxed);
            spawner.thread.store(0, Relaxed);
            // What another thread opened meanwhile may be shared too.
            quiesce_all(Sharing::Spawned(actions), Some(Why::Shared));
            FORKING.fetch_sub(1, Relaxed);
            if SPAWNING.fetch_sub(1, Relaxed) == 1 {
                FILTERED.store(false, Relaxed);
                clear_passive(PASSIVE_SPAWN);
            }
            acquire_point();
        }
    }
}

/// Whether the reasons to be passive hold for this thread: the slow half of `children::passive`.
#[cold]
pub fn still_passive() -> bool {
    if passive_reasons() != PASSIVE_SPAWN {
        return true;
    }
    let me = sys::thread_pointer();
    match SPAWNERS.iter().find(|spawner| spawner.thread.load(Relaxed) == me) {
        None => false,
        // The child of a vfork has our memory and our thread pointer, but not our process id.
        Some(spawner) if spawner.process.load(Relaxed) != sys::process_id() => true,
        Some(_) => {
            after_spawn();
            false
        }
    }
}

/// Before this process becomes another program; it goes on if that fails.
pub fn before_exec() {
    if passive() {
        return;
    }
    release_point();
    stop_transitions();
    quiesce_all(Sharing::Inherited, Some(Why::Shared));
    attach::leave();
}

/// The exec failed: this process goes on.
pub fn after_exec() {
    if !passive() && forking() {
        FORKING.fetch_sub(1, Relaxed);
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
        FORKING.fetch_sub(1, Relaxed);
        acquire_point();
    }
}

/// This process was forked behind our back: nothing that is kept here is its own.
pub fn forked_unseen() {
    set_passive(PASSIVE_FOR_GOOD);
}

/// Whether the child of a vfork has asked for a seccomp filter, which its parent is not under.
#[unsafe(link_section = ".data")]
static FILTERED: AtomicBool = AtomicBool::new(false);

/// A seccomp filter is asked for.
pub fn filtering() {
    match is_spawned_child() {
        true => FILTERED.store(true, Relaxed),
        false => set_under_seccomp(),
    }
}

/// Whether one is in force that may kill for a call of ours.
pub fn is_filtered() -> bool {
    under_seccomp() || FILTERED.load(Relaxed) && is_spawned_child()
}

/// Whether this is the child of a vfork or spawn, which runs in its parent's memory.
pub fn is_spawned_child() -> bool {
    if passive_reasons() & PASSIVE_SPAWN == 0 {
        return false;
    }
    let me = sys::thread_pointer();
    SPAWNERS.iter().any(|spawner| {
        spawner.thread.load(Relaxed) == me && spawner.process.load(Relaxed) != sys::process_id()
    })
}

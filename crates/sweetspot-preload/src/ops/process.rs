//! fork, vfork, spawn, exec and the end of the process.
//!
//! A fork shares every open file description with the child: before it all are settled, after it
//! they go straight on in both. A child made by vfork or spawn runs in our own memory until it
//! execs: whatever it does must not touch what is kept here, and only descriptors that survive the
//! exec are shared.

use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};

use sweetspot_core::learning::Learning;
use sweetspot_core::why::Why;

use super::settle::{Next, settle};
use super::{observe, speak};
use crate::atomic::single_threaded;
use crate::file::{self, OpenFile};
use crate::process::{
    PASSIVE_FOR_GOOD, PASSIVE_SPAWN, SignalsBlocked, clear_passive, listen, passive,
    passive_reasons, set_passive,
};
use crate::{next, pins, pool, reach, sys, table};

/// Threads that are inside a fork: no window opens meanwhile.
#[unsafe(link_section = ".data")]
static FORKING: AtomicU32 = AtomicU32::new(0);

/// Whether a fork is under way.
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

fn is_named(actions: usize, fd: i32) -> bool {
    let is_it =
        |named: &Named| named.actions.load(Relaxed) == actions && named.fd.load(Relaxed) == fd;
    let is_copy = || LISTS.iter().all(|list| list.load(Relaxed) != actions);
    actions != 0 && (NAMED_TOO_MANY.load(Relaxed) || NAMED.iter().any(is_it) || is_copy())
}

/// Settles everything; what will be shared goes straight on, for the reason given.
fn settle_all(sharing: Sharing, why: Option<Why>) {
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
        let kept = kept || table::open_file(fd).is_some_and(|(file, _)| file.is_from_outside());
        settle(fd, why.filter(|_| !kept).map_or(Next::Learn, Next::Straight));
    }
}

/// Before a fork. To be followed by `after_fork` in both processes.
pub fn before_fork() {
    if passive() {
        observe::shares(observe::Sharing::All, |_| false);
    }
    let may_agree = !passive() || observe::is_on();
    if may_agree && SHARES_WRITABLE.load(Relaxed) {
        agrees_silently();
    }
    if passive() {
        return;
    }
    stop_transitions();
    speak();
    pins::await_releases();
    settle_all(Sharing::All, Some(Why::Shared));
}

/// From now on no window opens and no writes begin to wait, in any thread.
fn stop_transitions() {
    FORKING.fetch_add(1, Relaxed);
    // A transition that was under way is over when the registry can be had.
    let _signals = SignalsBlocked::new();
    drop(file::hold_registry());
}

/// After a fork, in the parent (`child` > 0 or an error) and in the child (0).
pub fn after_fork(child: i32) {
    if child == 0 {
        crate::ledger::leave_to_parent();
    }
    if passive() {
        if child == 0 {
            observe::forked();
        }
        return;
    }
    if child == 0 {
        super::write::forget_all();
        file::release_all_locks();
        pool::release_lock();
        FORKING.store(0, Relaxed);
    }
    // What another thread opened meanwhile is shared too.
    settle_all(Sharing::All, Some(Why::Shared));
    if child != 0 {
        FORKING.fetch_sub(1, Relaxed);
    }
    listen();
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

/// Before a vfork or spawn by this thread. Ends by itself when the parent goes on (or with
/// `after_spawn`).
pub fn before_spawn() {
    before_spawn_with(0);
}

/// The same, by a list of file actions (0: none).
pub fn before_spawn_with(actions: usize) {
    if passive() {
        observe::shares(observe::Sharing::Inherited, |fd| is_named(actions, fd));
        return;
    }
    stop_transitions();
    speak();
    pins::await_releases();
    settle_all(Sharing::Spawned(actions), Some(Why::Shared));
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
            settle_all(Sharing::Spawned(actions), Some(Why::Shared));
            FORKING.fetch_sub(1, Relaxed);
            if SPAWNING.fetch_sub(1, Relaxed) == 1 {
                clear_passive(PASSIVE_SPAWN);
            }
            listen();
        }
    }
}

/// Whether the reasons to be passive hold for this thread: the slow half of `process::passive`.
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
        observe::ending(None);
        return;
    }
    speak();
    stop_transitions();
    settle_all(Sharing::Inherited, Some(Why::Shared));
    super::write::leave();
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
        speak();
        stop_transitions();
        settle_all(Sharing::All, None);
    }
}

/// After `hold_back`. (A function that leaves by a jump leaves the program without buffering.)
pub fn go_on() {
    if !passive() && forking() {
        FORKING.fetch_sub(1, Relaxed);
        listen();
    }
}

/// Whether anything may be buffered here: only where what stdio does is seen, and where libc reads and
/// writes. Where that never will be, the process is passive from here on, so that no call tries again
/// what cannot be, and each costs what it costs where buffering is off. No lock is held.
pub fn can_buffer() -> bool {
    if !next::data_is_libcs() {
        end_because(Why::OtherLibrary);
        return false;
    }
    if reach::stdio_is_seen() {
        return true;
    }
    if reach::stdio_is_never_seen() {
        // The reason has been noted by who found it.
        end();
    }
    // Else another thread is finding out.
    false
}

/// This process was forked behind our back: nothing that is kept here is its own.
pub fn forked_unseen() {
    set_passive(PASSIVE_FOR_GOOD);
}

/// The process ends: everything is settled, and from now on every call goes straight on.
pub fn end() {
    end_with(None);
}

/// The process can no longer be followed, or may no longer do what we would do: as `end`, and the
/// summary says why.
pub fn end_because(why: Why) {
    end_with(Some(why));
}

/// Whether bytes that the program wrote could not be put into their files at its end.
#[unsafe(link_section = ".data")]
static LOST: AtomicBool = AtomicBool::new(false);

/// See `LOST`.
pub fn has_lost() -> bool {
    LOST.load(Relaxed)
}

/// EX_IOERR of sysexits.h.
const STATUS_LOST: i32 = 74;

/// The status with which a program ends that ends with `status`: success means that all it wrote is
/// in its files.
pub fn end_status(status: i32) -> i32 {
    if has_lost() && status == 0 { STATUS_LOST } else { status }
}

fn end_with(why: Option<Why>) {
    if passive() {
        observe::ending(why);
    } else {
        // Other threads may go on until the process is gone: nothing of theirs may begin to wait.
        stop_transitions();
        speak();
        settle_all(Sharing::All, why);
        if let Some(why) = why {
            crate::ledger::note(why);
        }
        set_passive(PASSIVE_FOR_GOOD);
        if super::write::is_pending() {
            LOST.store(true, Relaxed);
        }
        if has_lost() || crate::pins::any_failed() {
            super::write::say_what_failed();
        }
        super::write::leave();
    }
    // Also where buffering had ended before; but the child of a vfork has its parent's memory.
    let lets_go = matches!(why, Some(Why::Confined | Why::MemoryLocked));
    if lets_go && passive_reasons() & PASSIVE_FOR_GOOD != 0 && !is_spawned_child() {
        crate::ledger::let_go();
        if why == Some(Why::MemoryLocked) && single_threaded() {
            pool::unmap_free();
        }
    }
}

/// Whether there is a writable mapping that a child of a fork would share.
#[unsafe(link_section = ".data")]
static SHARES_WRITABLE: AtomicBool = AtomicBool::new(false);

/// A writable mapping was made that only children can share: harmless until there is one.
pub fn shares_with_children() {
    SHARES_WRITABLE.store(true, Relaxed);
}

/// Whether other processes share writable memory, through which they may agree in silence.
#[unsafe(link_section = ".data")]
static SHARES_MEMORY: AtomicBool = AtomicBool::new(false);

/// Whether only files that nobody else looks at are buffered.
pub fn shares_memory() -> bool {
    SHARES_MEMORY.load(SeqCst)
}

/// Whether this process may hear from others through memory that it only reads.
#[unsafe(link_section = ".data")]
static HEARS: AtomicBool = AtomicBool::new(false);

/// Whether a load may be news: then no window answers, but for files that nobody else looks at.
pub fn may_hear() -> bool {
    HEARS.load(SeqCst)
}

/// Another process may write to memory that this one reads: a load there is a word that is not seen.
/// Reads go straight on for good.
pub fn hears_silently() {
    if passive() || HEARS.swap(true, SeqCst) {
        return;
    }
    for fd in table::all() {
        super::settle::wait_for_transition(fd);
        if table::open_file(fd).is_some_and(|(file, _)| file.is_on() && !file.is_private()) {
            settle(fd, Next::Learn);
        }
    }
}

/// This process and another one share writable memory: a store there is a word that nobody hears.
/// Everything goes straight on for good, but for files of which a rule promises that nobody looks at
/// them before they are closed.
pub fn agrees_silently() {
    if !crate::ledger::has_private_files() {
        end_because(Why::SharedMemory);
        return;
    }
    if passive() || SHARES_MEMORY.swap(true, SeqCst) {
        return;
    }
    speak();
    for fd in table::all() {
        super::settle::wait_for_transition(fd);
        let is_private = match table::open_file(fd) {
            Some((file, _)) => file.is_private(),
            // Whether it may be buffered is asked when it has earned that.
            None => continue,
        };
        settle(fd, if is_private { Next::Learn } else { Next::Straight(Why::SharedMemory) });
    }
}

/// Whether this process is told of each write to some file.
#[unsafe(link_section = ".data")]
static COUNTS_WRITES: AtomicBool = AtomicBool::new(false);

/// Whether only writes to files that nobody else looks at wait.
pub fn counts_writes() -> bool {
    COUNTS_WRITES.load(Relaxed)
}

/// From now on this process is told of each write to some file: several that leave as one would be
/// one. Which file that is, nobody knows but the kernel, so none wait any more, but for files of which
/// a rule promises that nobody looks at them.
pub fn will_count_writes() {
    if passive() || COUNTS_WRITES.swap(true, Relaxed) {
        return;
    }
    speak();
    for fd in table::all() {
        let public = table::open_file(fd).filter(|(file, _)| !file.is_private());
        if public.is_some_and(|(file, _)| super::write::may_wait(file)) {
            settle(fd, Next::Straight(Why::Watched));
        }
    }
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

/// Whether a seccomp filter is in force at the start that may kill for a call of ours. Not the ones
/// that `run` started under: it has tried what the library does, and a filter can neither be taken
/// away nor exchanged, so as many filters as then are the same ones.
///
/// A kernel without seccomp, and an emulator of another machine, answer the call with an error; so
/// may a filter. What the kernel says about the process in /proc tells them apart, and opening a file
/// is no call that a filter could kill for: the dynamic linker has just done it. Where nothing can be
/// read there, a filter is taken to be in force.
pub fn confined() -> bool {
    // SAFETY: no memory is handed over.
    let mode = unsafe { sys::syscall!(SYS_prctl, libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
    if mode == 0 || mode < 0 && status_number(b"Seccomp:\t") == Some(0) {
        return false;
    }
    crate::ledger::ledger().is_none_or(|ledger| {
        let allowed = ledger.header.seccomp_filters.load(Relaxed);
        // No number before Linux 5.9.
        let count = status_number(b"Seccomp_filters:\t").unwrap_or(0);
        allowed == 0 || u64::from(allowed) != count
    })
}

/// A number that the kernel says about this process; `None`: not all of it can be read (a process in
/// many groups has a long line of them). A kernel without such a thing has no line of it.
fn status_number(name: &[u8]) -> Option<u64> {
    crate::ledger::number_in(c"/proc/self/status", name)
}

//! What a new process will share with this one, and what becomes of it: every file is quiesced, and calls on
//! those that will be shared pass through from then on.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use sweetspot_core::learning::Learning;
use sweetspot_core::why::Why;

use super::file::{self, OpenFile};
use super::quiesce::{Next, quiesce};
use super::{dirty, handle, spawns, table};
use crate::floor::signals::SignalsBlocked;

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
    /// Each bit the other way, so that none is zero: the table takes no room in the file, nor in the page that is
    /// written at the start.
    not_fd: AtomicI32,
}

/// More than all the lists that a program keeps at a time have; beyond, every spawn by a list counts
/// as sharing everything.
const NAMED_MAX: usize = 256;

static NAMED: [Named; NAMED_MAX] =
    [const { Named { actions: AtomicUsize::new(0), not_fd: AtomicI32::new(0) } }; NAMED_MAX];

#[unsafe(link_section = ".data")]
static NAMED_TOO_MANY: AtomicBool = AtomicBool::new(false);

/// A list that was begun where it is, and how it began when it was last added to. Any other list is a copy of
/// another one, byte by byte, and may name anything.
struct List {
    actions: AtomicUsize,
    content: AtomicU64,
}

static LISTS: [List; NAMED_MAX] =
    [const { List { actions: AtomicUsize::new(0), content: AtomicU64::new(0) } }; NAMED_MAX];

impl List {
    /// Whether this is the list at that address, as it was when it was last added to.
    fn is_known(&self, actions: usize) -> bool {
        self.actions.load(Relaxed) == actions && self.content.load(Relaxed) == content(actions)
    }
}

/// What tells a list from a copy that was put into its place: the first words of libc's structure, with how many
/// actions there are and where.
fn content(actions: usize) -> u64 {
    let words = actions as *const [u64; 2];
    // SAFETY: a list of the program's, which libc has just looked at, or is about to.
    let [counts, place] = unsafe { words.read_unaligned() };
    counts.rotate_left(32) ^ place
}

/// A list of file actions has been begun.
pub fn begun_actions(actions: usize) {
    if let Some(list) = LISTS.iter().find(|list| list.actions.load(Relaxed) == actions) {
        list.content.store(content(actions), Relaxed);
    }
}

/// Adds to a list of file actions by `add`, which answers with an error or 0. A copy that was put into its place stays
/// one.
pub fn adding_to_actions(actions: usize, add: impl FnOnce() -> i32) -> i32 {
    let list = LISTS.iter().find(|list| list.is_known(actions));
    let answer = add();
    if let Some(list) = list {
        list.content.store(content(actions), Relaxed);
    }
    answer
}

/// In the place of a descriptor: the list opens files for writing.
pub const OPENS: i32 = -2;
/// The same: it begins in another folder.
pub const MOVES: i32 = -3;

/// A list of file actions is going to duplicate a descriptor.
pub fn named_in_actions(actions: usize, fd: i32) {
    let is_free =
        |named: &&Named| named.actions.compare_exchange(0, actions, Relaxed, Relaxed).is_ok();
    match NAMED.iter().find(is_free) {
        Some(named) => named.not_fd.store(!fd, Relaxed),
        None => NAMED_TOO_MANY.store(true, Relaxed),
    }
}

/// A list of file actions begins.
pub fn begin_actions(actions: usize) {
    forget_actions(actions);
    // Where there is no room, it counts as a copy.
    let is_free =
        |list: &&List| list.actions.compare_exchange(0, actions, Relaxed, Relaxed).is_ok();
    let _ = LISTS.iter().find(is_free);
}

/// A list of file actions has ended.
pub fn forget_actions(actions: usize) {
    for list in &LISTS {
        let _ = list.actions.compare_exchange(actions, 0, Relaxed, Relaxed);
    }
    for named in &NAMED {
        if named.actions.load(Relaxed) == actions {
            named.not_fd.store(0, Relaxed);
            named.actions.store(0, Relaxed);
        }
    }
}

/// Whether a list of file actions duplicates a descriptor.
pub fn is_named(actions: usize, fd: i32) -> bool {
    let is_it =
        |named: &Named| named.actions.load(Relaxed) == actions && named.not_fd.load(Relaxed) == !fd;
    let is_copy = || !LISTS.iter().any(|list| list.is_known(actions));
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
        outside.into_iter().for_each(handle::forget_question);
        let kept = kept || outside.is_some();
        quiesce(fd, why.filter(|_| !kept).map_or(Next::Learn, Next::PassThrough));
    }
}

/// From now on no window opens and no writes begin to wait, in any thread.
#[unsafe(link_section = ".text.startup")]
pub(super) fn stop_transitions() {
    spawns::count_fork(true);
    // A transition in progress is over once the registry can be held.
    let _signals = SignalsBlocked::new();
    drop(file::hold_registry());
    // So is a file's way onto the list of those that wait: what is quiesced from here on stays off it.
    drop(dirty::hold_dirty());
}

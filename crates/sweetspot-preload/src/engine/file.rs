//! An open file: what is kept for one open file description, shared by all its descriptors.
//!
//! # Where the position is
//! While the state is `ON` the kernel's offset is stale and the position is ours:
//! - `cursor` is not `CLOSED`: the window's base plus the cursor;
//! - else, if `position` is `AT_END`: the end of what is pending (base plus length, so that an append
//!   and the move of the position are one store);
//! - else `position`.
//!
//! In every other state the kernel's offset is the position. While the state is `APPEND_PLACED`, that
//! holds as soon as nothing is pending: what waits leaves by a plain write, at the end of a file that
//! is open for appending, or at the shared offset of one that came from outside. Then there is no
//! window, and nobody asks for `position`, which is `AT_END`.
//!
//! # How a hit is safe without a lock
//! `cursor` is {generation, cursor in the window}, one word. A hit reads it, checks that the
//! window's description did not change meanwhile, copies, and then advances the cursor by
//! compare-and-swap. Anyone who refills, moves or closes the window first closes the cursor, which
//! advances the generation: then the swap fails and the hit starts again. So a signal handler that
//! reads the same file in the middle of a hit, or another thread that does, is just one that came
//! first. Where nobody can come in between at all (`concerns::CONCURRENT` is clear), a hit moves the cursor by
//! an addition.
//!
//! On a machine that reorders loads and stores (aarch64) this needs three things; on x86_64 they cost
//! nothing. Stores to a window come after its closing ([`OpenFile::close_cursor`] ends with a release
//! fence), loads of a window come before the second look at the cursor (an acquire fence stands
//! between them), and opening it again is a release that the first look acquires. The last look, the
//! swap, is both.
//!
//! # Locks
//! Everything that changes a window or a state is a transition: signals blocked, the file's lock held.
//! An append holds the lock too, but blocks no signal. So a handler may find the lock held by the very
//! append that it interrupted ([`Held::nested`]): then it may write out what is committed and quiesce
//! the file, but not append; the interrupted append finds its generation gone and starts again. If the
//! handler jumped out of it, the next call from a shallower frame takes the lock over; another thread
//! does so after a second. Then calls on the file pass through, and its write buffer is never used
//! again, because the old owner may still be copying into it: another thread, or a coroutine that only
//! looked as if it had been left, because it has a stack of its own. (`engine::hold`)
//!
//! Locks are taken in one order: the set of dirty files, the registry, a file, and last the pool's
//! or that of kept entries, whose holders take no other.
#![allow(unsafe_code)]

mod attachment;
mod dirty_set;
mod hit;
mod position;
mod traits;

use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicI32, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{self, Relaxed},
};

use sweetspot_core::cost::Meter;
use sweetspot_core::ledger::{Counter, Entry, FileRecord};
use sweetspot_core::pending::waiting_of;
use sweetspot_core::why::Why;
use sweetspot_core::window::Pattern;

pub use self::attachment::{Attached, Attachment, Placement};
pub use self::dirty_set::{DirtySet, InDirtySet};
pub use self::hit::{Hit, Way};
pub use self::traits::{NOTICED, SERVED_LATE, UNTIMED};
use super::{concerns, process, table};
use crate::floor::atomic::{Threads, count};
use crate::floor::lock::{self, hold};
use crate::floor::sys;

/// Open files that can be followed at the same time in one process. Calls on others pass through.
pub const OPEN_FILES_MAX: usize = 4096;

/// The cursor while the position is not in the window.
pub const CLOSED: u64 = 0xffff_ffff;

/// `position` while it is the end of what is pending.
pub const AT_END: u64 = u64::MAX;

/// Counters of one file: in the ledger where there is one, else here.
pub struct Counters(pub [AtomicU64; Counter::COUNT]);

/// See the module documentation.
#[repr(C, align(64))]
pub struct OpenFile {
    // What a hit touches, in one cache line.
    /// {generation: high 32, cursor: low 32}.
    pub cursor: AtomicU64,
    /// Address of the window's bytes.
    pub window: AtomicU64,
    /// Bytes in the window; 0: no window.
    pub window_len: AtomicU64,
    /// The epoch in which the window was filled or confirmed.
    pub epoch: AtomicU64,
    /// Position in the file of the window's first byte.
    pub window_at: AtomicU64,
    /// The file's counters in the ledger, or `counters`.
    pub record: AtomicPtr<[AtomicU64; Counter::COUNT]>,
    /// The position while nothing else says it.
    pub position: AtomicU64,
    /// 0, or the thread that holds the lock; see `TRANSITION`.
    pub lock: AtomicU64,

    // What an append touches besides.
    pub attachment: Attached,
    /// Pending bytes at which a flush is due.
    pub append_bytes_max: AtomicU64,
    /// Stack pointer of the append that holds the lock; 0: none.
    pub frame: AtomicU64,
    pub dirty: InDirtySet,
    /// Time of modification before the flush in flight; see `engine::flush`.
    pub before_ns: AtomicU64,
    /// 1 where more than the usual write buffer was asked for, and refused.
    pub is_modest: AtomicU32,
    /// 1: nobody has told what calls cost there, and they seem dear.
    pub looks_dear: AtomicU32,
    /// A descriptor of it, for flushes.
    pub fd: AtomicI32,
    /// What the file system said when a descriptor of it was closed that was not the program's, as an error number;
    /// 0: nothing. Its own close says it.
    pub close_error: AtomicI32,
    /// Where the kernel's offset was left while the position is ours.
    pub kernel_at: AtomicU64,
    /// Where `AT_END` is while nothing waits: where what waited ended, or what will wait begins.
    pub end: AtomicU64,
    /// Appends counted when the last flush was done; flushes in a row that carried few; when free space
    /// was last asked for.
    pub appends_before: AtomicU64,
    pub poor_flushes: AtomicU32,
    pub space_asked: AtomicU32,
    /// What was free then, in bytes; 0: never asked for.
    pub space_bytes: AtomicU64,
    /// Up to here the file system has positions for it, and lets it grow, as far as was asked.
    pub grows_to: AtomicU64,
    /// Errno of a flush that failed and was not reported yet.
    pub error: AtomicI32,
    /// Before that it is not tried again for calls that have nothing to do with it.
    pub retry_ns: AtomicU64,

    /// `ON`, `APPEND_PLACED`, or a word as in the table: `LEARNING`, `PASS_THROUGH`.
    pub state: AtomicU64,
    /// What was learned before the state became `ON` or `APPEND_PLACED`.
    pub learned: AtomicU64,
    /// Descriptors that share it.
    pub references: AtomicU32,
    /// Open flags as fcntl(F_GETFL) gave them.
    pub flags: AtomicU32,
    /// 1 where a rule promises that nobody looks at it before it is closed.
    pub unobserved: AtomicU32,
    /// 1 where it was open before the program started.
    pub outside: AtomicU32,
    pub traits: AtomicU32, // also `NUMBER_STAYS` of `copied_up`
    pub device: AtomicU64,
    pub inode: AtomicU64,
    /// Bytes that the window's buffer was taken for; 0: none taken.
    pub buffer_bytes: AtomicU64,
    /// What making room for the window took, in nanoseconds.
    pub room_ns: AtomicU64,
    /// The largest window allowed when one was last filled; 0: none was.
    pub window_bytes_max: AtomicU64,
    /// When the window was filled, in milliseconds.
    pub filled_ms: AtomicU64,
    /// Times of the file when the window was filled.
    pub mtime_ns: AtomicU64,
    pub ctime_ns: AtomicU64,
    pub size: AtomicU64,
    /// Wall clock when the window was filled, in nanoseconds.
    pub filled_wall_ns: AtomicU64,
    /// Hits and bytes when the window was filled.
    pub hits_before: AtomicU64,
    pub bytes_before: AtomicU64,
    /// The size in force for this file, as `Header::buffer`.
    pub buffer: AtomicU32,
    /// The reasons for which calls passed through, as bits of `Why`.
    pub why: AtomicU64,
    /// The ledger's record of this file, if there is one.
    pub file_record: AtomicPtr<FileRecord>,
    /// Next on the list of free records.
    pub next_free: AtomicU32,
    pub counters: Counters,
    /// Behind `lock`.
    pub pattern: UnsafeCell<Pattern>,
    /// What fills and flushes take. Behind `lock`.
    pub reads: UnsafeCell<Meter>,
    pub writes: UnsafeCell<Meter>,
}

// SAFETY: `pattern` and the meters are only touched with the lock held; all else is atomic.
unsafe impl Sync for OpenFile {}

/// All zero, so that the table costs nothing until it is touched.
#[allow(clippy::declare_interior_mutable_const)]
const NEW: OpenFile = OpenFile {
    cursor: AtomicU64::new(0),
    window: AtomicU64::new(0),
    window_len: AtomicU64::new(0),
    epoch: AtomicU64::new(0),
    window_at: AtomicU64::new(0),
    record: AtomicPtr::new(core::ptr::null_mut()),
    position: AtomicU64::new(0),
    kernel_at: AtomicU64::new(0),
    end: AtomicU64::new(0),
    lock: AtomicU64::new(0),
    attachment: Attached::new(),
    append_bytes_max: AtomicU64::new(0),
    frame: AtomicU64::new(0),
    dirty: InDirtySet::NOT,
    before_ns: AtomicU64::new(0),
    is_modest: AtomicU32::new(0),
    looks_dear: AtomicU32::new(0),
    fd: AtomicI32::new(0),
    close_error: AtomicI32::new(0),
    appends_before: AtomicU64::new(0),
    poor_flushes: AtomicU32::new(0),
    space_asked: AtomicU32::new(0),
    space_bytes: AtomicU64::new(0),
    grows_to: AtomicU64::new(0),
    error: AtomicI32::new(0),
    retry_ns: AtomicU64::new(0),
    state: AtomicU64::new(0),
    learned: AtomicU64::new(0),
    references: AtomicU32::new(0),
    flags: AtomicU32::new(0),
    unobserved: AtomicU32::new(0),
    outside: AtomicU32::new(0),
    traits: AtomicU32::new(0),
    device: AtomicU64::new(0),
    inode: AtomicU64::new(0),
    buffer_bytes: AtomicU64::new(0),
    room_ns: AtomicU64::new(0),
    window_bytes_max: AtomicU64::new(0),
    filled_ms: AtomicU64::new(0),
    mtime_ns: AtomicU64::new(0),
    ctime_ns: AtomicU64::new(0),
    size: AtomicU64::new(0),
    filled_wall_ns: AtomicU64::new(0),
    hits_before: AtomicU64::new(0),
    bytes_before: AtomicU64::new(0),
    buffer: AtomicU32::new(0),
    why: AtomicU64::new(0),
    file_record: AtomicPtr::new(core::ptr::null_mut()),
    next_free: AtomicU32::new(0),
    counters: Counters([const { AtomicU64::new(0) }; Counter::COUNT]),
    pattern: UnsafeCell::new(Pattern::NEW),
    reads: UnsafeCell::new(Meter::NEW),
    writes: UnsafeCell::new(Meter::NEW),
};

const _: () = assert!(OPEN_FILES_MAX < concerns::PENDING_MAX);

static FILES: [OpenFile; OPEN_FILES_MAX] = [const { NEW }; OPEN_FILES_MAX];
/// First free record, plus one; 0: none.
#[unsafe(link_section = ".data")]
static FREE: AtomicU32 = AtomicU32::new(0);
/// Records that were ever used.
#[unsafe(link_section = ".data")]
static USED: AtomicU32 = AtomicU32::new(0);
/// One transition that opens or ends open files at a time.
#[unsafe(link_section = ".data")]
static REGISTRY: AtomicU64 = AtomicU64::new(0);

/// The registry's lock: to be held while open files are made or ended, and across a fork.
pub fn hold_registry() -> lock::Held<'static> {
    hold(&REGISTRY)
}

/// After a fork: locks that other threads of the parent held are free in the child.
pub fn release_all_locks() {
    REGISTRY.store(0, Relaxed);
    for file in used() {
        file.frame.store(0, Relaxed);
        file.lock.store(0, Relaxed);
    }
}

/// The open file of a descriptor, if it has one, and the word that says so.
#[inline(always)]
pub fn open_file(fd: i32) -> Option<(&'static OpenFile, u64)> {
    let word = table::open_word(fd)?;
    Some((OpenFile::from_word(word), word))
}

/// The word under which calls on this descriptor are counted and learned from: its own, or that of
/// its open file.
#[inline(always)]
pub fn learning_word(fd: i32) -> Option<&'static AtomicU64> {
    let word = table::word(fd)?;
    let value = word.load(Relaxed);
    match table::tag(value) {
        table::LEARNING => Some(word),
        table::OPEN => Some(&OpenFile::from_word(value).state),
        _ => None,
    }
}

/// Every record that was ever used.
pub fn used() -> impl Iterator<Item = &'static OpenFile> {
    FILES[..USED.load(Relaxed) as usize].iter()
}

/// A fresh record with one reference, or `None` when all are in use. The registry is held.
pub fn allocate(_registry: &lock::Held<'_>) -> Option<&'static OpenFile> {
    process::epoch_matters();
    let file = match FREE.load(Relaxed) {
        0 => {
            let used = USED.load(Relaxed);
            let file = FILES.get(used as usize)?;
            USED.store(used + 1, Relaxed);
            file
        }
        index => {
            let file = &FILES[index as usize - 1];
            FREE.store(file.next_free.load(Relaxed), Relaxed);
            file
        }
    };
    file.close_cursor();
    file.window_len.store(0, Relaxed);
    file.record.store((&raw const file.counters.0).cast_mut(), Relaxed);
    file.file_record.store(core::ptr::null_mut(), Relaxed);
    file.counters.0.iter().for_each(|counter| counter.store(0, Relaxed));
    file.why.store(0, Relaxed);
    file.state.store(0, Relaxed);
    file.unobserved.store(0, Relaxed);
    file.outside.store(0, Relaxed);
    file.traits.store(0, Relaxed);
    file.references.store(1, Relaxed);
    file.buffer_bytes.store(0, Relaxed);
    file.room_ns.store(0, Relaxed);
    file.window_bytes_max.store(0, Relaxed);
    file.position.store(0, Relaxed);
    file.buffer.store(0, Relaxed);
    file.frame.store(0, Relaxed);
    file.lock.store(0, Relaxed);
    file.attachment.begin();
    file.append_bytes_max.store(0, Relaxed);
    file.is_modest.store(0, Relaxed);
    file.looks_dear.store(0, Relaxed);
    file.poor_flushes.store(0, Relaxed);
    file.space_asked.store(0, Relaxed);
    file.space_bytes.store(0, Relaxed);
    file.grows_to.store(0, Relaxed);
    file.error.store(0, Relaxed);
    file.close_error.store(0, Relaxed);
    file.dirty.forget();
    file.appends_before.store(0, Relaxed);
    // SAFETY: nobody else has this record.
    unsafe {
        *file.pattern.get() = Pattern::NEW;
        *file.reads.get() = Meter::NEW;
        *file.writes.get() = Meter::NEW;
    }
    Some(file)
}

/// A file's lock, held by a transition; given back when dropped.
pub struct Held {
    pub file: &'static OpenFile,
    /// An append of this thread, interrupted below, holds the lock and goes on afterwards.
    pub nested: bool,
}

impl Held {
    /// For the moment in which the lock was just taken over.
    pub fn assumed(file: &'static OpenFile) -> Held {
        Held { file, nested: false }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.nested {
            self.file.lock.store(0, Ordering::Release);
        }
    }
}

impl OpenFile {
    /// The open file that an `OPEN` word names.
    #[inline(always)]
    pub fn from_word(word: u64) -> &'static OpenFile {
        // SAFETY: `word` was made by `to_word` from a static.
        unsafe { &*((word - table::OPEN) as *const OpenFile) }
    }

    /// The word that names it.
    pub fn to_word(&'static self) -> u64 {
        (&raw const *self) as u64 + table::OPEN
    }

    pub fn is_same_inode(&self, other: &OpenFile) -> bool {
        let inode = |file: &OpenFile| (file.device.load(Relaxed), file.inode.load(Relaxed));
        inode(self) == inode(other)
    }

    /// The entry in the ledger, if it has one.
    #[inline(always)]
    pub fn entry(&self) -> Option<&'static Entry> {
        self.attachment.entry()
    }

    /// Bytes that wait.
    pub fn pending(&self) -> u64 {
        self.entry().map_or(0, |entry| waiting_of(entry.word.load(Relaxed)))
    }

    /// Whether its position is ours. Where it is, what was stored before is seen.
    pub fn is_on(&self) -> bool {
        self.state.load(Ordering::Acquire) == table::ON
    }

    /// Whether it is open for appending, as far as is known.
    pub fn appends(&self) -> bool {
        self.flags.load(Relaxed) & libc::O_APPEND as u32 != 0
    }

    /// Whether its writes wait for an append: its position is the kernel's.
    pub fn is_append_placed(&self) -> bool {
        self.state.load(Ordering::Acquire) == table::APPEND_PLACED
    }

    /// Its status by one of its descriptors; not its times where a server would have to be waited for.
    pub fn status(&self, fd: i32) -> Option<sys::Status> {
        match self.traits.load(Relaxed) & SERVED_LATE {
            0 => sys::status(fd),
            _ => sys::status_at_hand(fd),
        }
    }

    /// Whether it was open before the program started: others share its offset.
    pub fn is_from_outside(&self) -> bool {
        self.outside.load(Relaxed) != 0
    }

    /// Where its writes go, with these open flags.
    pub fn placement(&self, flags: i32) -> Placement {
        Placement::of(self.is_from_outside(), flags)
    }

    /// Whether nobody looks at it before it is closed.
    pub fn is_unobserved(&self) -> bool {
        self.unobserved.load(Relaxed) != 0
    }

    /// Whether anything of it may be here that the kernel does not know.
    pub fn is_buffered(&self) -> bool {
        self.is_on() || self.is_append_placed()
    }

    /// Adds to a counter.
    #[inline(always)]
    pub fn count(&self, counter: Counter, amount: u64) {
        // SAFETY: `record` points to counters of this file or of the ledger, both mapped for good.
        let counters = unsafe { &*self.record.load(Relaxed) };
        count(&counters[counter as usize], amount);
    }

    /// Counts a call that was answered here, and its bytes.
    #[inline(always)]
    pub fn count_call(&self, threads: Threads, calls: Counter, bytes: Counter, len: u64) {
        // SAFETY: as in `count`.
        let counters = unsafe { &*self.record.load(Relaxed) };
        threads.count(&counters[calls as usize], 1);
        threads.count(&counters[bytes as usize], len);
    }

    /// A counter's value.
    pub fn counted(&self, counter: Counter) -> u64 {
        // SAFETY: as in `count`.
        unsafe { (&*self.record.load(Relaxed))[counter as usize].load(Relaxed) }
    }

    /// Notes a reason for which calls pass through.
    pub fn note(&self, why: Why) {
        self.in_both(|reasons| reasons.fetch_or(why.bit(), Relaxed));
    }

    /// Takes a reason back that was noted for the time being.
    pub fn note_no_more(&self, why: Why) {
        if self.why.load(Relaxed) & why.bit() != 0 {
            self.in_both(|reasons| reasons.fetch_and(!why.bit(), Relaxed));
        }
    }

    fn in_both(&self, change: impl Fn(&AtomicU64) -> u64) {
        change(&self.why);
        // SAFETY: records of the ledger stay mapped.
        unsafe { self.file_record.load(Relaxed).as_ref() }.map(|record| change(&record.why));
    }

    /// Puts the record back on the free list. Nothing refers to it any more; the registry is held.
    pub fn free(&'static self, _registry: &lock::Held<'_>) {
        self.state.store(0, Relaxed);
        self.next_free.store(FREE.load(Relaxed), Relaxed);
        let first = FILES.as_ptr() as usize;
        let index = ((&raw const *self) as usize - first) / size_of::<OpenFile>();
        FREE.store(index as u32 + 1, Relaxed);
    }
}

//! An open file: what is kept for one open file description, shared by all its descriptors.
//!
//! # Where the position is
//! While the state is `ON` the kernel's offset is stale and the position is ours:
//! - `cursor` is not `CLOSED`: the window's base plus the cursor;
//! - else, if `position` is `AT_END`: the end of what is pending (base plus length, so that an append
//!   and the move of the position are one store);
//! - else `position`.
//!
//! In every other state the kernel's offset is the position. While the state is `TRAILING` it is so
//! as soon as nothing is pending: what waits leaves by a plain write, at the end of a file that is
//! open for appending, or at the offset that others share, of one that came from outside. Then there
//! is no window, and `position` is `AT_END`, of which nobody asks.
//!
//! # How a hit is safe without a lock
//! `cursor` is {generation, cursor in the window}, one word. A hit reads it, checks that the
//! window's description did not change meanwhile, copies, and then advances the cursor by
//! compare-and-swap. Whoever refills, moves or closes the window first closes the cursor, which
//! advances the generation: then the swap fails and the hit starts again. So a signal handler that
//! reads the same file in the middle of a hit, or another thread that does, is just one that came
//! first.
//!
//! On a machine that reorders loads and stores (aarch64) this needs three things; on x86_64 they cost
//! nothing. Stores to a window come after its closing ([`OpenFile::close_cursor`] ends with a release
//! fence), loads of a window come before the second look at the cursor (an acquire fence stands
//! between them), and opening it again is a release that the first look acquires. The last look, the
//! swap, is both.
//!
//! # Locks
//! Everything that changes a window or a state is a transition: signals blocked
//! (`process::SignalsBlocked`), the file's lock held. An append holds the lock too, but blocks no signal. So a handler may find the lock held by
//! the very append that it interrupted ([`Held::nested`]): then it may write out what is committed
//! and settle the file, but not append; the interrupted append finds its generation gone and starts
//! again. If the handler jumped out of it, the next call from a shallower frame takes the lock over;
//! another thread does so after [`STEAL_MS`]. Then the file goes straight on and its chunk is never used
//! again, because the old owner may still be copying into it: another thread, or a coroutine that only
//! looked as if it had been left, because it has a stack of its own.
//!
//! Locks are taken in one order: the list of dirty files, the registry, a file, and last the pool's
//! or that of kept entries, whose holders never wait.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed, fence,
};

use sweetspot_core::cost::Meter;
use sweetspot_core::ledger::{Counter, Entry, FileRecord, PLACE_BASE, PLACE_OFFSET};
use sweetspot_core::pending::{length_of, waiting_of};
use sweetspot_core::why::Why;
use sweetspot_core::window::Pattern;

use crate::atomic::{Threads, count, swap};
use crate::lock::{self, hold};
use crate::{copy, ops, pool, process, sys, table};

/// Open files that can be followed at the same time in one process. Others go straight on.
pub const OPEN_FILES_MAX: usize = 4096;

/// The cursor while the position is not in the window.
pub const CLOSED: u64 = 0xffff_ffff;

/// `position` while it is the end of what is pending.
pub const AT_END: u64 = u64::MAX;

/// How long another thread's append may hold the lock, in milliseconds, before it is taken for one
/// that a signal handler has left for good. An append copies a few hundred bytes; a thread that is
/// merely not scheduled is back sooner.
const STEAL_MS: u64 = 1000;

/// In a lock word: held by a transition, which always ends.
const TRANSITION: u64 = 1;

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
    /// Address of the chunk in which bytes wait; 0: writes go straight on.
    pub chunk: AtomicU64,
    /// Its entry in the ledger; null: none.
    pub entry: AtomicPtr<Entry>,
    /// Pending bytes at which a flush is due.
    pub append_bytes_max: AtomicU64,
    /// Stack pointer of the append that holds the lock; 0: none.
    pub frame: AtomicU64,
    /// 1 while on the list of files with pending bytes.
    pub dirty: AtomicU32,
    pub next_dirty: AtomicPtr<OpenFile>,
    /// Time of modification before the flush that is under way; see `ops::write`.
    pub before_ns: AtomicU64,
    /// Where the chunk is mapped, also while writes go straight on.
    pub mapped_chunk: AtomicU64,
    pub mapped_bytes: AtomicU64,
    /// 1 where more than the usual chunk was asked for, and refused.
    pub is_modest: AtomicU32,
    /// See `ops::write::Pin`.
    pub pin: AtomicU32,
    /// A descriptor of it, for flushes.
    pub fd: AtomicI32,
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

    /// `ON`, `TRAILING`, or a word as in the table: `LEARNING`, `STRAIGHT`.
    pub state: AtomicU64,
    /// What was learned before the state became `ON` or `TRAILING`.
    pub learned: AtomicU64,
    /// Descriptors that share it.
    pub references: AtomicU32,
    /// Open flags as fcntl(F_GETFL) gave them.
    pub flags: AtomicU32,
    /// 1 where a rule promises that nobody looks at it before it is closed.
    pub private: AtomicU32,
    /// `PLACE_OFFSET` where it came from outside, else `PLACE_BASE`.
    pub place: AtomicU32,
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
    /// The reasons for which something went straight on, as bits of `Why`.
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
    chunk: AtomicU64::new(0),
    entry: AtomicPtr::new(core::ptr::null_mut()),
    append_bytes_max: AtomicU64::new(0),
    frame: AtomicU64::new(0),
    dirty: AtomicU32::new(0),
    next_dirty: AtomicPtr::new(core::ptr::null_mut()),
    before_ns: AtomicU64::new(0),
    mapped_chunk: AtomicU64::new(0),
    mapped_bytes: AtomicU64::new(0),
    is_modest: AtomicU32::new(0),
    pin: AtomicU32::new(0),
    fd: AtomicI32::new(0),
    appends_before: AtomicU64::new(0),
    poor_flushes: AtomicU32::new(0),
    space_asked: AtomicU32::new(0),
    space_bytes: AtomicU64::new(0),
    grows_to: AtomicU64::new(0),
    error: AtomicI32::new(0),
    state: AtomicU64::new(0),
    learned: AtomicU64::new(0),
    references: AtomicU32::new(0),
    flags: AtomicU32::new(0),
    private: AtomicU32::new(0),
    place: AtomicU32::new(PLACE_BASE),
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

/// Every record that was ever used.
pub fn used() -> impl Iterator<Item = &'static OpenFile> {
    FILES[..USED.load(Relaxed) as usize].iter()
}

/// A fresh record with one reference, or `None` when all are in use. The registry is held.
pub fn allocate(_registry: &lock::Held<'_>) -> Option<&'static OpenFile> {
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
    for counter in &file.counters.0 {
        counter.store(0, Relaxed);
    }
    file.why.store(0, Relaxed);
    file.state.store(0, Relaxed);
    file.private.store(0, Relaxed);
    file.place.store(PLACE_BASE, Relaxed);
    file.references.store(1, Relaxed);
    file.buffer_bytes.store(0, Relaxed);
    file.room_ns.store(0, Relaxed);
    file.window_bytes_max.store(0, Relaxed);
    file.position.store(0, Relaxed);
    file.buffer.store(0, Relaxed);
    file.frame.store(0, Relaxed);
    file.lock.store(0, Relaxed);
    file.chunk.store(0, Relaxed);
    file.append_bytes_max.store(0, Relaxed);
    file.is_modest.store(0, Relaxed);
    file.entry.store(core::ptr::null_mut(), Relaxed);
    file.mapped_chunk.store(0, Relaxed);
    file.pin.store(0, Relaxed);
    file.poor_flushes.store(0, Relaxed);
    file.space_asked.store(0, Relaxed);
    file.space_bytes.store(0, Relaxed);
    file.grows_to.store(0, Relaxed);
    file.error.store(0, Relaxed);
    file.dirty.store(0, Relaxed);
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
    file: &'static OpenFile,
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

/// What a hit found.
pub enum Hit {
    /// The read is done: that many bytes.
    Done(usize),
    /// The window cannot answer: ask `ops`.
    Miss,
    /// Somebody came in between: look again.
    Disturbed,
    /// The program's buffer is no memory that can be written.
    BadAddress,
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

    /// Takes its lock. Signals must be blocked. See the module documentation for who may hold it.
    pub fn hold(&'static self) -> Held {
        let me = sys::thread_pointer();
        let (mut turns, mut since_ms) = (0u32, 0);
        loop {
            let holder = self.lock.load(Relaxed);
            if holder == 0 {
                if swap(&self.lock, 0, me | TRANSITION) {
                    return Held { file: self, nested: false };
                }
            } else if holder == me {
                if !self.append_was_left() {
                    return Held { file: self, nested: true };
                }
                // Only a guess: a coroutine that a handler left goes on later, on a stack of its own.
                if swap(&self.lock, me, me | TRANSITION) {
                    return self.taken_over();
                }
            } else if turns < 64 {
                core::hint::spin_loop();
            } else {
                sys::give_way();
                let now = process::now_ms();
                if since_ms == 0 {
                    since_ms = now;
                }
                let late = now.saturating_sub(since_ms) > STEAL_MS && holder & TRANSITION == 0;
                if late && swap(&self.lock, holder, me | TRANSITION) {
                    return self.taken_over();
                }
            }
            turns += 1;
        }
    }

    /// The lock was taken from an append that may yet go on.
    fn taken_over(&'static self) -> Held {
        self.frame.store(0, Relaxed);
        ops::write::abandon(self);
        Held { file: self, nested: false }
    }

    /// Whether the append of this thread that holds the lock will never go on: a signal handler
    /// jumped out of it, to a frame above it. A guess: see [`OpenFile::taken_over`].
    fn append_was_left(&self) -> bool {
        let frame = self.frame.load(Relaxed);
        let here = sys::stack_pointer();
        if frame == 0 || here <= frame {
            return false;
        }
        // Frames of different stacks cannot be compared: on the alternate stack the append may be
        // going on below us.
        !sys::on_alternate_stack()
    }

    /// Whether an append of this thread was interrupted, and goes on when its handler returns.
    pub fn is_append_interrupted(&self) -> bool {
        self.lock.load(Relaxed) == sys::thread_pointer()
    }

    /// Takes the lock for an append, without blocking signals; false if it is held.
    #[inline(always)]
    pub fn enter_append(&self) -> bool {
        let me = sys::thread_pointer();
        match Threads::now() {
            Threads::One if self.lock.load(Relaxed) != 0 => return false,
            Threads::One => self.lock.store(me, Relaxed),
            several if !several.swap(&self.lock, 0, me) => return false,
            Threads::Several => {}
        }
        self.frame.store(sys::stack_pointer(), Relaxed);
        true
    }

    /// Gives it back, unless it was taken over. A handler may have made a thread meanwhile, so the
    /// threads are asked for once more.
    #[inline(always)]
    pub fn leave_append(&self) -> Threads {
        self.frame.store(0, Relaxed);
        let threads = Threads::now();
        match threads {
            Threads::One => self.lock.store(0, Relaxed),
            Threads::Several => {
                threads.swap(&self.lock, sys::thread_pointer(), 0);
            }
        }
        threads
    }

    /// The entry in the ledger, if it has one.
    #[inline(always)]
    pub fn entry(&self) -> Option<&'static Entry> {
        // SAFETY: entries are in the ledger, which stays mapped.
        unsafe { self.entry.load(Relaxed).as_ref() }
    }

    /// Bytes that wait.
    pub fn pending(&self) -> u64 {
        self.entry().map_or(0, |entry| waiting_of(entry.word.load(Relaxed)))
    }

    /// What `position` says, with `AT_END` resolved.
    #[inline(always)]
    pub fn resolved_position(&self) -> u64 {
        loop {
            // Whoever stores `AT_END` has said before where that is.
            let position = self.position.load(Ordering::Acquire);
            if position != AT_END {
                return position;
            }
            let Some(entry) = self.entry() else { return self.end.load(Relaxed) };
            let word = entry.word.load(Ordering::Acquire);
            let end = match length_of(word) {
                // Not the base: an append that a flush has overtaken says `AT_END` after it.
                0 => self.end.load(Ordering::Acquire),
                len => entry.base.load(Ordering::Acquire) + len,
            };
            // A flush changes the position before the word: what was read belongs together.
            if self.position.load(Ordering::Acquire) == AT_END && entry.word.load(Relaxed) == word {
                return end;
            }
        }
    }

    /// Whether its position is ours. Where it is, what was stored before is seen.
    pub fn is_on(&self) -> bool {
        self.state.load(Ordering::Acquire) == table::ON
    }

    /// Whether its writes wait although its position is the kernel's.
    pub fn is_trailing(&self) -> bool {
        self.state.load(Ordering::Acquire) == table::TRAILING
    }

    /// Whether it was open before the program started: others share its offset.
    pub fn is_from_outside(&self) -> bool {
        self.place.load(Relaxed) == PLACE_OFFSET
    }

    /// Whether nobody looks at it before it is closed.
    pub fn is_private(&self) -> bool {
        self.private.load(Relaxed) != 0
    }

    /// Whether anything of it may be here that the kernel does not know.
    pub fn is_buffered(&self) -> bool {
        self.is_on() || self.is_trailing()
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

    /// Notes a reason for which something went straight on.
    pub fn note(&self, why: Why) {
        self.why.fetch_or(why.bit(), Relaxed);
        let record = self.file_record.load(Relaxed);
        if !record.is_null() {
            // SAFETY: records of the ledger stay mapped.
            unsafe { (*record).why.fetch_or(why.bit(), Relaxed) };
        }
    }

    /// Answers a read of `len` bytes at the position out of the window, and moves the position.
    #[inline(always)]
    pub fn hit(&'static self, word: u64, fd: i32, buffer: *mut u8, len: usize) -> Hit {
        let at = self.cursor.load(Ordering::Acquire);
        // The descriptor still means this file. If that ends, its cursor is closed.
        if !table::means(fd, word) {
            return Hit::Disturbed;
        }
        let cursor = at & CLOSED;
        let source = self.window.load(Relaxed) + cursor;
        // A closed cursor is larger than any window.
        if !self.is_in_window(cursor, len) || !self.is_fresh() || !process::tick() {
            return Hit::Miss;
        }
        // What was read above belongs together.
        fence(Ordering::Acquire);
        if self.cursor.load(Relaxed) != at {
            return Hit::Disturbed;
        }
        // SAFETY: the window holds `window_len` bytes; the program's side may be anything.
        if unsafe { copy::copy(buffer, source as *const u8, len) } {
            return Hit::BadAddress;
        }
        let threads = Threads::now();
        if !threads.swap(&self.cursor, at, at + len as u64) {
            return Hit::Disturbed;
        }
        self.count_call(threads, Counter::Hits, Counter::HitBytes, len as u64);
        Hit::Done(len)
    }

    /// Answers a read of `len` bytes at `offset` out of the window; the position stays.
    #[inline(always)]
    pub fn hit_at(
        &'static self,
        word: u64,
        fd: i32,
        buffer: *mut u8,
        len: usize,
        offset: u64,
    ) -> Hit {
        let at = self.cursor.load(Ordering::Acquire);
        if !table::means(fd, word) {
            return Hit::Disturbed;
        }
        let from = offset.wrapping_sub(self.window_at.load(Relaxed));
        let source = self.window.load(Relaxed).wrapping_add(from);
        if !self.is_in_window(from, len) || !self.is_fresh() || !process::tick() {
            return Hit::Miss;
        }
        let is_same = || self.cursor.load(Relaxed) >> 32 == at >> 32;
        fence(Ordering::Acquire);
        if !is_same() {
            return Hit::Disturbed;
        }
        // SAFETY: as in `hit`.
        if unsafe { copy::copy(buffer, source as *const u8, len) } {
            return Hit::BadAddress;
        }
        fence(Ordering::Acquire);
        if !is_same() {
            return Hit::Disturbed;
        }
        self.count_call(Threads::now(), Counter::Hits, Counter::HitBytes, len as u64);
        Hit::Done(len)
    }

    /// Whether the window holds `len` bytes from there on, and that is not none. What is too large for a
    /// sum is smaller than its beginning.
    #[inline(always)]
    fn is_in_window(&self, from: u64, len: usize) -> bool {
        let end = from.wrapping_add(len as u64);
        end > from && end <= self.window_len.load(Relaxed)
    }

    /// Whether nothing was learned since the window was filled or confirmed.
    #[inline(always)]
    fn is_fresh(&self) -> bool {
        self.epoch.load(Relaxed) == process::EPOCH.load(Relaxed)
    }

    /// The position of a file that is on, as far as it can be known without the lock.
    pub fn current_position(&self) -> u64 {
        match self.cursor.load(Ordering::Acquire) & CLOSED {
            CLOSED => self.resolved_position(),
            cursor => self.window_at.load(Relaxed) + cursor,
        }
    }

    /// Tells the kernel the position, which stays ours: another process may take a descriptor of this
    /// description without a word (`pidfd_getfd`), and goes on from there.
    pub fn leave_offset(&self, fd: i32) {
        let at = self.current_position();
        if self.kernel_at.swap(at, Relaxed) != at {
            sys::seek(fd, at as i64, libc::SEEK_SET);
        }
    }

    /// Whether the file system is known to have this position.
    #[inline(always)]
    pub fn has_position(&self, position: i64) -> bool {
        position >= 0 && position as u64 <= self.grows_to.load(Relaxed)
    }

    /// Whether it has, asked by a seek, as nothing else says it; the offset is put back. The lock is
    /// held.
    pub fn may_be_at(&self, fd: i32, position: u64) -> bool {
        if position <= self.grows_to.load(Relaxed) {
            return true;
        }
        let offset = sys::seek(fd, 0, libc::SEEK_CUR);
        let seek = |to: i64| sys::seek(fd, to, libc::SEEK_SET);
        let may = i64::try_from(position).is_ok_and(|position| seek(position) >= 0);
        seek(offset as i64);
        if may {
            self.grows_to.store(position, Relaxed);
        }
        may
    }

    /// Where the kernel's offset is, if somebody else has moved it since.
    pub fn moved_offset(&self, fd: i32) -> Option<u64> {
        let at = sys::seek(fd, 0, libc::SEEK_CUR);
        (at >= 0 && at as u64 != self.kernel_at.load(Relaxed)).then_some(at as u64)
    }

    /// Closes the cursor, so that no hit can succeed, and returns what it was.
    pub fn close_cursor(&self) -> u64 {
        loop {
            let at = self.cursor.load(Relaxed);
            let closed = ((at >> 32).wrapping_add(1) << 32) | CLOSED;
            if swap(&self.cursor, at, closed) {
                // What is now changed of the window may not be seen by whoever still finds it open.
                fence(Ordering::Release);
                return at & CLOSED;
            }
        }
    }

    /// Closes the cursor and puts the position where nothing else says it. The lock is held and the
    /// state is `ON`.
    pub fn take_position(&self) -> u64 {
        let cursor = self.close_cursor();
        if cursor != CLOSED {
            self.position.store(self.window_at.load(Relaxed) + cursor, Relaxed);
        }
        self.resolved_position()
    }

    /// Puts the position back into the window, if it lies there. The lock is held.
    pub fn reopen_cursor(&self) {
        let len = self.window_len.load(Relaxed);
        let cursor = self.resolved_position().wrapping_sub(self.window_at.load(Relaxed));
        if len > 0 && cursor <= len {
            let closed = self.cursor.load(Relaxed);
            self.cursor.store(((closed >> 32) << 32) | cursor, Ordering::Release);
        }
    }

    /// Takes the window away. The lock is held and the cursor closed.
    pub fn drop_window(&self, held: &Held) {
        self.window_len.store(0, Relaxed);
        if held.nested {
            // The interrupted append may be about to store into the buffer: it stays ours.
            return;
        }
        // A positioned hit that began with this window fails: the buffer may be another file's soon.
        self.close_cursor();
        let bytes = self.buffer_bytes.swap(0, Relaxed);
        if bytes > 0 {
            crate::ops::inodes::window_closed(self);
            pool::give(self.window.load(Relaxed), bytes);
        }
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

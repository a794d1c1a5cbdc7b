//! The ledger: the memory that a program, its children and the guard share.
//!
//! One file of mode 0600 in tmpfs, made by `sweetspot run`. It holds the settings in force, what is
//! pending and where it belongs, and counters. It never holds a path that anyone trusts.
//!
//! ```text
//! 0                 Ledger: header, rules, slots, files, entries; everyone maps it
//! WRITE_BUFFERS_AT  pending bytes: one write buffer an entry; the guard allocates them, and each program
//!                   maps its own
//! ```
//!
//! # Who writes what
//! Settings and rules: `run`, before the program starts. A slot, its files and its entries: the
//! process that claimed them. `Entry::state` also the guard, by compare-and-swap. Write buffers are
//! allocated and freed by the guard alone, so no allocator lock can die with a program.
//!
//! # Life of an entry
//! ```text
//!            program              guard                 program
//!   FREE ──► OWNED ──► ASKED ──► HELD (or REFUSED) ──► RELEASE ──(guard)──► OWNED, write buffer kept
//!                                                      DISCARD ──(guard)──► FREE, write buffer freed
//! ```
//! Each change of state advances the generation that shares its word, so an answer to an old
//! question is recognised as old.
//!
//! # The commit points
//! `Entry::word` is {generation, owner, length}; [`crate::pending`] has every step of it. The bytes
//! begin [`write_buffer_start`] into the write buffer. An append copies its bytes behind `length` and
//! then advances `length` with one compare-and-swap: from there the write has happened. A flush writes
//! `length` bytes at `base` and then swaps in the next generation with length 0: from there the flush
//! has happened.
//!
//! # Bytes without a place of their own
//! What is appended ([`PLACE_END`]) goes where the file ends by then, what is written to a description
//! from outside ([`PLACE_OFFSET`]) where its offset is by then, so neither can be written twice.
//! Before each write of a flush, `before` says where it is about to go, and after it `arrived` how
//! much of the beginning is there. Anyone who finishes a death in between looks from `before` on for
//! what came of that write, and writes only the rest.

use core::mem::offset_of;
use core::sync::atomic::{
    AtomicI32, AtomicU32, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

pub use self::text::Text;
use crate::cost::Cost;
use crate::openers::{Openers, Sent};

/// First eight bytes of a ledger; the last digits are the layout's version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"swspot13");
/// Processes of one tree that can have pending bytes at the same time.
pub const SLOTS_MAX: usize = 512;
/// Files, over all processes, that the summary can tell apart; later ones share the last record.
pub const FILES_MAX: usize = 4096;
/// Files with pending bytes at the same time, over all processes.
pub const ENTRIES_MAX: usize = 2048;
/// Entries that have memory from the guard's start on.
pub const ENTRIES_FIRST: u32 = 128;
/// Rules of `sweetspot.toml` that can be in force.
pub const RULES_MAX: usize = 64;
/// Bytes of a path or pattern that are kept; a longer one is cut (paths are for display only).
pub const TEXT_BYTES_MAX: usize = 256;
/// Inode of the machine's pid namespace, the first one (PROC_PID_INIT_INO).
pub const PID_NAMESPACE_OF_MACHINE: u64 = 0xefff_fffc;
/// Where ledgers are made: memory that has a name, on every Linux.
pub const FOLDER: &str = "/dev/shm";
/// How names of ledgers begin; the user's number and 16 hexadecimal digits follow.
pub const NAME_PREFIX: &str = "sweetspot-";
/// Where the rules begin, in bytes from the start of the file.
pub const RULES_AT: usize = offset_of!(Ledger, rules);
/// Where the records of files begin.
pub const FILES_AT: usize = offset_of!(Ledger, files);
/// Where the entries begin.
pub const ENTRIES_AT: usize = offset_of!(Ledger, entries);
/// Where write buffers begin, in bytes from the start of the file: a multiple of the page size.
pub const WRITE_BUFFERS_AT: u64 = (size_of::<Ledger>() as u64).next_multiple_of(65536);
/// Bytes that write buffers can take together. The file is sparse: only what is used is allocated.
pub const WRITE_BUFFERS_BYTES_MAX: u64 = 4 << 30;
/// File systems whose costs are kept; on others each file finds out by itself.
pub const DEVICES_MAX: usize = 16;

/// `Header::unseen`: no process is known to.
pub const UNSEEN_NOBODY: u32 = 0;
/// Some have, whose slots say so.
pub const UNSEEN_SLOTS: u32 = 1;
/// One has that got no slot, so nobody knows whether it lives.
pub const UNSEEN_FOR_GOOD: u32 = 2;

/// Settings, the guard's words, and what is found where.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`], stored last when the ledger is ready.
    pub magic: AtomicU64,
    /// Effective user of the one who made it.
    pub uid: AtomicU32,
    /// [`BUFFER_OFF`], [`BUFFER_AUTO`] or bytes: the size where no rule says otherwise.
    pub buffer: AtomicU32,
    /// Milliseconds that a byte may wait (`--max-age`).
    pub max_age_ms: AtomicU32,
    /// Bits of `FLAG_*`.
    pub flags: AtomicU32,
    /// The most memory that one process may use for windows and pending bytes, whatever sizes are in
    /// force: a quarter of what is available, kept up to date by the guard.
    pub budget_bytes: AtomicU64,
    /// Rules in force, in order.
    pub rules: AtomicU32,
    /// The guard's robust futex word: its thread id while it lives; 0 before there is one;
    /// `FUTEX_OWNER_DIED` (0x4000_0000) alone, stored by the kernel, when it has died.
    pub guard: AtomicU32,
    /// Futex on which the guard sleeps: advanced by anyone who asks for something.
    pub asks: AtomicU32,
    /// 1 while the guard sleeps on `asks` (so that most asks need no system call).
    pub guard_naps: AtomicU32,
    /// 1 since somebody has waited in vain for a guard that is stopped. It takes it back when it goes on.
    pub guard_is_late: AtomicU32,
    /// Processes that loaded the library.
    pub processes: AtomicU32,
    /// File records handed out (may run past [`FILES_MAX`]).
    pub files: AtomicU32,
    /// Pending order stamps handed out.
    pub order: AtomicU64,
    /// Boot time identity of the maker, for `recover`: /proc/sys/kernel/random/boot_id, folded.
    pub boot: AtomicU64,
    /// Inode of the maker's pid namespace.
    pub pid_namespace: AtomicU64,
    /// Entries that have memory: the first ones. The guard doubles them when half of them are in use.
    pub entries_ready: AtomicU32,
    /// Of each entry that is not free, one bit (and of some that are): so that nobody has to look at all.
    pub used_bits: [AtomicU64; ENTRIES_MAX / 64],
    /// Of each entry that waits for the guard, one bit.
    pub ask_bits: [AtomicU64; ENTRIES_MAX / 64],
    /// Of each slot whose process may live, and what waits of it is to be in its files now, one bit.
    pub take_bits: [AtomicU64; SLOTS_MAX / 64],
    /// Pending pieces of dead processes that could not be written where they belong, and were saved
    /// beside.
    pub saved: AtomicU32,
    /// Pending pieces that could not even be saved: they stay in the ledger, for `recover`.
    pub stuck: AtomicU32,
    /// Where the last of the saved pieces is.
    pub saved_path: Text,
    /// Bits of [`crate::why::Why`]: each reason for which a whole process was not buffered.
    pub why: AtomicU64,
    /// Seccomp filters that were in force when `run` started and allow what the library does; 0:
    /// none are known to.
    pub seccomp_filters: AtomicU32,
    /// The guard's clock: advanced [`CLOCKS_PER_AGE`] times in the time that a byte may wait, while
    /// somebody wants it. So a program sees without asking the kernel that time has passed.
    pub clock: AtomicU32,
    /// One of `CLOCK_*`.
    pub clock_wanted: AtomicU32,
    /// Advanced, before the clock, by a process that tells another one something without a call of that
    /// other one: it lets it go on after a stop, or changes its memory.
    pub news: AtomicU32,
    /// Bits of `ANSWER_*`: what the library found out by [`FLAG_PROBE`].
    pub answer: AtomicU32,
    /// The sum of `Slot::waiting`, at least.
    pub waiting: AtomicU32,
    /// One of `UNSEEN_*`: whether processes open files out of sight, so that nothing may wait.
    pub unseen: AtomicU32,
    /// Bytes that write buffers may still take, as the guard last saw it; 0: not known.
    pub write_buffer_bytes_left: AtomicU64,
    /// What calls cost, by file system.
    pub devices: Devices,
}

/// What calls on the files of one file system cost, as the last file that measured it has found.
#[repr(C)]
pub struct Device {
    /// Its number; 0: free. Claimed by compare-and-swap, and never given back.
    pub device: AtomicU64,
    /// By [`Way`]: words of [`Cost`]; 0: not known.
    pub costs: [AtomicU64; Way::COUNT],
}

/// The file systems of which that is known.
#[repr(C)]
pub struct Devices(pub [Device; DEVICES_MAX]);

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Way {
    Read,
    Write,
}

impl Way {
    /// How many there are.
    pub const COUNT: usize = 2;
}

impl Devices {
    /// What is known of a file system.
    pub fn cost(&self, device: u64, way: Way) -> Option<Cost> {
        let known = self.0.iter().find(|known| known.device.load(Relaxed) == device)?;
        Cost::from_word(known.costs[way as usize].load(Relaxed))
    }

    /// Tells what was found out about a file system. What is nearly known is not told again: this lies
    /// beside what every process reads all the time. Where there is no room for it, nobody learns it.
    pub fn tell(&self, device: u64, way: Way, cost: Cost) {
        let is_known = self.cost(device, way).is_some_and(|known| known.is_near(cost));
        if device == 0 || is_known {
            return;
        }
        let is_its_own = |known: &&Device| {
            let was = known.device.compare_exchange(0, device, Relaxed, Relaxed);
            was.map_or_else(|was| was == device, |_| true)
        };
        if let Some(known) = self.0.iter().find(is_its_own) {
            known.costs[way as usize].store(cost.to_word(), Relaxed);
        }
    }
}

/// How often the guard advances its clock in the time that a byte may wait.
pub const CLOCKS_PER_AGE: u32 = 8;
/// `Header::clock_wanted`: the clock stands. Anyone who wants it stores `CLOCK_WANTED`, advances `asks`
/// and wakes the guard.
pub const CLOCK_STANDS: u32 = 0;
/// Nobody has wanted it since it was advanced; if that stays so it stands.
pub const CLOCK_UNWANTED: u32 = 1;
/// Somebody wants it.
pub const CLOCK_WANTED: u32 = 2;

/// `Header::buffer` and `Rule::buffer`: no buffering.
pub const BUFFER_OFF: u32 = 0;
/// `Header::buffer` and `Rule::buffer`: sweetspot chooses.
pub const BUFFER_AUTO: u32 = u32::MAX;

/// A summary is wanted: processes announce themselves and record the names of files.
pub const FLAG_SUMMARY: u32 = 1;
/// Writes may wait: there is (or was) a guard.
pub const FLAG_GUARD: u32 = 2;
/// Calls that stdio makes are buffered like any others.
pub const FLAG_STDIO: u32 = 4;
/// Who copies a descriptor of another process must have been named by that one as its tracer (Yama).
pub const FLAG_TRACER: u32 = 128;
/// Nothing is buffered: processes count what they do (`crate::observe`).
pub const FLAG_OBSERVE: u32 = 8;
/// `Header::flags`: and notes where in the program calls are made.
pub const FLAG_PLACES: u32 = 16;
/// `Header::flags`: and logs the calls that are followed closely (`crate::trace`).
pub const FLAG_TRACE: u32 = 32;
/// `Header::flags`: and follows every call closely, no sample of them.
pub const FLAG_EXACT: u32 = 256;
/// `Header::flags`: nothing of the program runs. The library tries itself on files of its own, stores
/// its answer and ends the process.
pub const FLAG_PROBE: u32 = 64;

/// `Header::answer`: the library was loaded, and its constructor has run.
pub const ANSWER_LOADED: u32 = 1;
/// `Header::answer`: the calls that the C library makes to itself are seen.
pub const ANSWER_STDIO: u32 = 2;
/// `Header::answer`: a window was opened and has answered reads.
pub const ANSWER_READS: u32 = 4;
/// `Header::answer`: the guard has held a file, writes have waited, and are in the file.
pub const ANSWER_WRITES: u32 = 8;
/// `Header::answer`: what was read or written is not what should have been.
pub const ANSWER_WRONG: u32 = 16;
/// `Header::answer`: the library has tried all that there is to try.
pub const ANSWER_COMPLETE: u32 = 32;

/// One rule of `sweetspot.toml`.
#[repr(C)]
pub struct Rule {
    /// Glob over the program's file name; empty: every program.
    pub program: Text,
    /// Glob over the file's path; empty: every file.
    pub file: Text,
    /// As `Header::buffer`; [`BUFFER_UNSET`]: the rule does not say.
    pub buffer: AtomicU32,
    /// Bits of `RULE_*`.
    pub flags: AtomicU32,
}

/// `Rule::buffer`: the rule does not say.
pub const BUFFER_UNSET: u32 = u32::MAX - 1;
/// `promise = "unobserved"`.
pub const RULE_UNOBSERVED: u32 = 1;
/// `stdio = "on"`.
pub const RULE_STDIO: u32 = 2;
/// Says what `auto` means for these files, and nothing else; it stands behind all others.
pub const RULE_AUTO: u32 = 4;

/// A process of the tree.
#[repr(C)]
pub struct Slot {
    /// 0: free. Claimed by compare-and-swap; cleared by the process at a clean end, or by the guard.
    pub pid: AtomicU32,
    /// 1 once all fields are stored and the guard may look.
    pub ready: AtomicU32,
    /// Start time from /proc/PID/stat, in clock ticks after boot.
    pub start_ticks: AtomicU64,
    /// Inode of its pid namespace.
    pub pid_namespace: AtomicU64,
    /// Advanced by the guard when everything of this process has been written after its death.
    pub done: AtomicU32,
    /// Files of which something waits (or has waited, where it died).
    pub waiting: AtomicU32,
    /// 1: it opens files out of sight.
    pub unseen: AtomicU32,
    /// 1: it is dead, and somebody has waited in vain for what it left.
    pub is_late: AtomicU32,
}

/// `Slot::pid`, while a slot is cleared; no process has it.
pub const BEING_CLEARED: u32 = u32::MAX;

/// What one process did with one file, for the summary.
#[repr(C)]
pub struct FileRecord {
    /// 0: free.
    pub pid: AtomicU32,
    /// The size in force for it, as `Header::buffer`.
    pub buffer: AtomicU32,
    pub device: AtomicU64,
    pub inode: AtomicU64,
    /// Bits of [`crate::why::Why`]: each reason for which calls passed through.
    pub why: AtomicU64,
    /// By [`Counter`].
    pub counters: [AtomicU64; Counter::COUNT],
    /// By [`Way`]: what calls cost, as words of [`Cost`], and the largest size that was chosen, in
    /// bytes; 0: not known.
    pub costs: [AtomicU64; Way::COUNT],
    pub chosen: [AtomicU32; Way::COUNT],
    pub path: Text,
}

/// What is counted for each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Reads answered from a window.
    Hits,
    HitBytes,
    /// Windows filled, one system call each.
    Fills,
    FillBytes,
    /// Reads that passed through.
    PassedReads,
    PassedReadBytes,
    /// Writes that waited in the ledger.
    Appends,
    AppendBytes,
    /// Positioned writes of what waited.
    Flushes,
    FlushBytes,
    /// Writes that passed through.
    PassedWrites,
    PassedWriteBytes,
    /// Seeks that the program made; those that the kernel answered are among `KernelCalls`, too.
    Seeks,
    /// Seeks, sizes and other questions that the kernel was asked on this file's account.
    KernelCalls,
}

impl Counter {
    /// How many there are.
    pub const COUNT: usize = Counter::KernelCalls as usize + 1;
}

/// A file with pending bytes. See the module documentation for its life.
#[repr(C, align(64))]
pub struct Entry {
    /// {generation: high 56 bits, state: low 8 bits}, see `STATE_*`.
    pub state: AtomicU64,
    /// {generation, owner, length in bytes} of what is pending: see [`crate::pending`].
    pub word: AtomicU64,
    /// Where the first pending byte belongs in the file. Without a place of their own: where it was
    /// expected to go when it came.
    pub base: AtomicU64,
    /// When the last pending byte came after one of another file, in the order of all; smaller is older.
    pub order: AtomicU64,
    /// The wall clock at that moment, in nanoseconds, as coarse as the times of files.
    pub written_ns: AtomicU64,
    /// The owner: index into `Ledger::slots`. 0: none yet, so the first slot is never claimed. Of a
    /// free entry it is 0: a process that claims one may be interrupted before it stores its own.
    pub slot: AtomicU32,
    /// Its descriptor in the owner, through which the guard opens its handle on the file.
    pub fd: AtomicI32,
    /// Where the write buffer lies in the ledger, in bytes; 0: none yet.
    pub write_buffer_at: AtomicU64,
    /// Size of the write buffer. When asking: the size that is wanted.
    pub write_buffer_bytes: AtomicU64,
    pub device: AtomicU64,
    pub inode: AtomicU64,
    /// Birth time in nanoseconds, 0 where the file system has none.
    pub birth_ns: AtomicU64,
    /// One of [`FLUSH_*`](crate::unwritten); 0: nobody has tried to write what is pending.
    pub flushing: AtomicU32,
    /// The thread of the program that has begun the last flush.
    pub flusher: AtomicU32,
    /// The thread of the guard that has taken what is pending.
    pub taker: AtomicU32,
    /// Open flags of the description.
    pub open_flags: AtomicU32,
    /// Who has opened it, as far as its process knows (`openers`).
    pub opener: AtomicU32,
    /// Where what is pending belongs: one of `PLACE_*`.
    pub place: AtomicU32,
    /// What the file system said when the guard closed a descriptor of this file, as an error number; 0:
    /// nothing. It says so only once, and the program that closes the file is to learn of it.
    pub close_error: AtomicU32,
    /// Advanced by the guard, which then wakes who waits for it, when it has given back what it took.
    pub given_back: AtomicU32,
    /// Not 0: another process has done, without a word to its owner, what writes that wait would undo: it has
    /// taken a descriptor of the description, opened the file for writing (or had it open so before the
    /// guard was asked), or set a limit. Nothing of it is to wait any more. One of
    /// [`RECALLED*`](crate::unwritten).
    pub is_recalled: AtomicU32,
    /// Without a place of their own: of the pending bytes, those at the beginning that are written.
    pub arrived: AtomicU64,
    /// Likewise, while a flush has begun: where the file ended, or the offset was, just before the write. After one that
    /// failed: where it left the offset.
    pub before: AtomicU64,
    /// Where the last of what the guard has appended by a description of its own ends, for the offset of the owner's; 0:
    /// nothing was.
    pub ended: AtomicU64,
    /// The wall clock just before the write of the last flush, in nanoseconds; 0: it cannot be had.
    pub begun_ns: AtomicU64,
    /// Size and times as fstat gave them after the last flush or attempt, or when the handle was granted; times of 0:
    /// a server would have to be waited for.
    pub size: AtomicU64,
    pub mtime_ns: AtomicU64,
    pub ctime_ns: AtomicU64,
    /// For display only.
    pub path: Text,
}

/// `Entry::place`: at `base`.
pub const PLACE_BASE: u32 = 0;
/// `Entry::place`: where the file ends by then, as the description appends.
pub const PLACE_END: u32 = 1;
/// `Entry::place`: at the offset of the description by then (or at the end, if it appends): it came
/// from outside, and others share it. The guard's handle is a copy of it.
pub const PLACE_OFFSET: u32 = 2;
/// `Entry::place`: nowhere, as nothing of it waits. What is asked for is no handle, but whether the
/// description, which came from outside, is the owner's alone ([`STATE_HELD`]).
pub const PLACE_NOWHERE: u32 = 3;

pub const STATE_FREE: u8 = 0;
/// Belongs to a slot; no handle.
pub const STATE_OWNED: u8 = 1;
/// The owner wants a handle.
pub const STATE_ASKED: u8 = 2;
/// The guard holds a handle: writes may wait.
pub const STATE_HELD: u8 = 3;
/// The guard grants no handle. Final for this open file.
pub const STATE_REFUSED: u8 = 4;
/// The owner no longer needs the handle, but keeps the write buffer.
pub const STATE_RELEASE: u8 = 5;
/// The owner needs neither handle nor write buffer.
pub const STATE_DISCARD: u8 = 6;

/// Where in a write buffer the first pending byte lies, when it belongs at `base` in the file: at the
/// same place in a page. The kernel then copies whole pages between equal alignments; with others one
/// copy of 1 MiB took four times as long (AMD EPYC, `rep movsb` between addresses that differ by a
/// little modulo 4096).
pub fn write_buffer_start(base: u64) -> u64 {
    base % 4096
}

/// The state in a state word.
pub fn state_of(word: u64) -> u8 {
    word as u8
}

/// The state word that follows `word`: next generation, new state.
pub fn next_state(word: u64, state: u8) -> u64 {
    ((word >> 8).wrapping_add(1) << 8) | u64::from(state)
}

/// Everything but the write buffers.
#[repr(C)]
pub struct Ledger {
    pub header: Header,
    pub slots: [Slot; SLOTS_MAX],
    pub openers: Openers,
    pub sent: Sent,
    pub rules: [Rule; RULES_MAX],
    pub files: [FileRecord; FILES_MAX],
    entries: [Entry; ENTRIES_MAX],
}

impl Ledger {
    /// The entries that have memory. A look at any other could end the process that looks: where the
    /// memory file system is full, there is none to be had.
    pub fn entries(&self) -> &[Entry] {
        let ready = self.header.entries_ready.load(SeqCst) as usize;
        &self.entries[..ready.min(ENTRIES_MAX)]
    }
}

mod text;

#[cfg(test)]
mod tests;

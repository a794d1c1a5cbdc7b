//! From a descriptor to what is known of it: one word each.
//!
//! | tag | the rest of the word |
//! |---|---|
//! | `UNKNOWN` | 0: open before we came, or never seen; calls on it pass through |
//! | `OPEN` | address of its `OpenFile` |
//! | `LEARNING` | a [`Learning`]: opened here, no window yet |
//! | `PASS_THROUGH` | a regular file; calls on it pass through for good |
//! | `OTHER` | a pipe, socket, terminal: calls on it release and acquire |
//!
//! The table is a static of 1 MiB that costs nothing until a page of it is touched. Calls on
//! descriptors beyond it pass through.

use core::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64,
    Ordering::{Relaxed, Release},
};

use sweetspot_core::learning::{Learning, Near};

use crate::floor::atomic::swap;

/// Descriptors that can be followed.
pub const DESCRIPTORS_MAX: usize = 65536;

pub const UNKNOWN: u64 = 0;
/// The only odd one in the table: one bit tells it from the others.
pub const OPEN: u64 = 1;
pub const LEARNING: u64 = 2;
pub const PASS_THROUGH: u64 = 4;
pub const OTHER: u64 = 6;
/// Closed where somebody may come in between: as `OTHER`, until the number is opened.
pub const CLOSED: u64 = OTHER | 8;
/// A transfer came by it since then.
const CLOSED_AND_USED: u64 = OTHER | 16;
/// The bit of these two: there is nothing to learn of it.
pub const LASTS: u64 = PASS_THROUGH & OTHER;
/// Only in an open file's own word: it has (or may have) a window, its position is ours.
pub const ON: u64 = 3;
/// Likewise: its writes wait, and leave by a plain write; its position stays the kernel's.
pub const APPEND_PLACED: u64 = 5;
const TAG_BITS: u64 = 7;

/// What each descriptor has that the most frequent calls look at: in one static, so that one address is
/// enough for both.
struct Table {
    words: [AtomicU64; DESCRIPTORS_MAX],
    /// About where the last transfer of a descriptor that is learning ended: a [`Near`].
    last_ends: [AtomicU64; DESCRIPTORS_MAX],
}

static TABLE: Table = Table {
    words: [const { AtomicU64::new(UNKNOWN) }; DESCRIPTORS_MAX],
    last_ends: [const { AtomicU64::new(0) }; DESCRIPTORS_MAX],
};
/// Whether stdio's calls on a descriptor are buffered: 0 not asked yet, 1 they are, 2 they are not.
/// Touched only where rules decide that.
static STDIO: [AtomicU8; DESCRIPTORS_MAX] = [const { AtomicU8::new(0) }; DESCRIPTORS_MAX];
/// One more than the highest descriptor that ever had a word.
#[unsafe(link_section = ".data")]
static HIGHEST: AtomicU32 = AtomicU32::new(0);

/// The tag of a word.
pub fn tag(word: u64) -> u64 {
    word & TAG_BITS
}

/// The word of a descriptor, unless it is out of range.
#[inline(always)]
pub fn word(fd: i32) -> Option<&'static AtomicU64> {
    TABLE.words.get(fd as usize)
}

/// Whether the word of a descriptor is still this one.
#[inline(always)]
pub fn means(fd: i32, value: u64) -> bool {
    word(fd).is_some_and(|word| word.load(Relaxed) == value)
}

/// The word of a descriptor, unless it is out of range, and about where its last transfer ended, as
/// [`last_end`] has it.
#[inline(always)]
pub fn word_and_end(fd: i32) -> Option<(&'static AtomicU64, &'static AtomicU64)> {
    let index = fd as usize;
    (index < DESCRIPTORS_MAX).then(|| (&TABLE.words[index], &TABLE.last_ends[index]))
}

/// About where the last transfer of a descriptor ended.
#[inline(always)]
pub fn last_end(fd: i32) -> Near {
    Near(TABLE.last_ends[fd as usize % DESCRIPTORS_MAX].load(Relaxed))
}

/// Remembers it.
#[inline(always)]
pub fn set_last_end(fd: i32, end: Near) {
    TABLE.last_ends[fd as usize % DESCRIPTORS_MAX].store(end.0, Relaxed);
}

/// What is known of stdio's calls on a descriptor; `None` beyond the table.
pub fn stdio(fd: i32) -> Option<&'static AtomicU8> {
    STDIO.get(fd as usize)
}

/// The word of a descriptor that has an open file.
#[inline(always)]
pub fn open_word(fd: i32) -> Option<u64> {
    let word = word(fd)?.load(Relaxed);
    is_open(word).then_some(word)
}

/// Whether a word of the table names an open file.
#[inline(always)]
pub fn is_open(word: u64) -> bool {
    word & OPEN != 0
}

/// Sets the word of a descriptor. Anyone who finds an open file by it finds it as it was made: the
/// address that is loaded decides what is loaded next, which no machine does in the other order.
pub fn set(fd: i32, new: u64) {
    if let Some(word) = word(fd) {
        word.store(new, Release);
        if new != UNKNOWN {
            note_known(fd);
        }
    }
}

/// A descriptor within range has got a word.
pub fn note_known(fd: i32) {
    if HIGHEST.load(Relaxed) <= fd as u32 {
        HIGHEST.fetch_max(fd as u32 + 1, Relaxed);
    }
}

/// Whether a word is that of a closed number.
pub fn is_closed(word: u64) -> bool {
    matches!(word, CLOSED | CLOSED_AND_USED)
}

/// A transfer comes by a number that is not followed; false: if that was closed, it has been opened meanwhile.
pub fn is_still_closed(fd: i32) -> bool {
    let Some(word) = word(fd) else { return true };
    word.load(Relaxed) != CLOSED || swap(word, CLOSED, CLOSED_AND_USED)
}

/// A descriptor that was just opened here, by path. Somebody who came by the number before may still be on the way to
/// the kernel: what is open there now is never buffered.
pub fn opened(fd: i32, flags: u64) {
    let Some(word) = word(fd) else { return };
    match is_closed(word.load(Relaxed)) {
        false => set(fd, LEARNING | flags),
        true if swap(word, CLOSED, LEARNING | flags) => {}
        true => return set(fd, PASS_THROUGH),
    }
    if let Some(end) = TABLE.last_ends.get(fd as usize) {
        end.store(Near::to(0).0, Relaxed);
    }
}

/// All descriptors that were ever known have numbers below this.
pub fn numbers() -> usize {
    HIGHEST.load(Relaxed) as usize
}

/// Every descriptor that has a word. A shell has one at 255, far behind all others: those in between are passed
/// over by groups.
#[inline(always)]
pub fn all() -> impl Iterator<Item = i32> {
    const GROUP: usize = 8;
    let is_known = |word: &AtomicU64| word.load(Relaxed) != UNKNOWN;
    let known_in = move |fd, count| {
        TABLE.words.get(fd..fd + count).is_some_and(|words| words.iter().any(is_known))
    };
    let (mut next, end) = (0, HIGHEST.load(Relaxed) as usize);
    core::iter::from_fn(move || {
        while next < end {
            let fd = next;
            if fd % GROUP == 0 && !known_in(fd, GROUP) {
                next += GROUP;
                continue;
            }
            next += 1;
            if known_in(fd, 1) {
                return Some(fd as i32);
            }
        }
        None
    })
}

/// The bits of a word, and of all that concerns its calls, that are those of `LEARNING` where nothing has to
/// be known of a call before it, nor after it.
pub const FREE: u64 = TAG_BITS | Learning::NOT_FREE;

/// Whether a word is learning, and a call may begin by it.
#[inline(always)]
pub fn is_free(value: u64) -> bool {
    value & FREE == LEARNING
}

/// Whether a word is learning and nobody is changing it.
pub fn is_learning(value: u64) -> bool {
    tag(value) == LEARNING && !Learning(value).has(Learning::LOCKED)
}

/// Whether a transition owns the word of a file that is learning.
pub fn is_locked(word: u64) -> bool {
    tag(word) == LEARNING && Learning(word).has(Learning::LOCKED)
}

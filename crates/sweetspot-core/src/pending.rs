//! The protocol of pending bytes: who may write them, and from which moment on they are written.
//!
//! A file's pending bytes have one word, {generation, owner, length}, and every step is one
//! compare-and-swap of it:
//!
//! ```text
//!   append      {g, Nobody, n}   -> {g, Nobody, n + m}    the write has happened
//!   flush       {g, Nobody, n}   -> {g, Program, n}       the program writes them
//!               {g, Program, n}  -> {g + 1, Nobody, 0}    the flush has happened
//!               {g, Program, n}  -> {g + 1, Nobody, n}    it failed: they go on waiting, and an append in flight starts again
//!   take        {g, Nobody, n}   -> {g, Guard, n}         the guard writes them
//!               {g, Guard, n}    -> {g, Returned, n}      it has; nothing waits any more
//!               {g, Guard, n}    -> {g, Nobody, n}        it failed: they go on waiting
//!   notice      {g, Returned, n} -> {g + 1, Nobody, 0}    the program knows
//!   cancel      {g, Nobody, 0}   -> {g + 1, Nobody, 0}    an append in flight starts again
//!   recall      {g, Nobody, 0}   -> {g, Returned, 0}      no append happens before the program has looked
//! ```
//!
//! So program and guard never write at the same time, and neither writes what the other has written: a
//! program that was stopped for hours between two instructions fails its swap, instead of putting old
//! bytes over what somebody stored after he had seen the guard's.
//!
//! The guard takes bytes by itself only of a process that is *quiet*: none of its words has changed for a
//! while. Of others it does where it is asked to. It takes those of all files of a process before it
//! writes the first, and only if none has changed since it looked at them, so what it writes is a
//! consistent cut; if one take fails, the process goes on, and all are given back.
//!
//! A death at any step is finished by the one that is left: bytes of `Nobody` and `Program` (the program
//! died) and of `Guard` (the guard died) are written again; `Returned` has none. Writing the same bytes
//! to the same place twice is harmless as long as nobody else could have written in between: the reaper
//! comes right after a death, and the next one compares the file's times first.
//!
//! Somebody else may *recall* an entry: nothing is to wait in it any more. He says so in a flag and then changes
//! the word, of which nothing waits, to one that takes no append; what waits he has written. The program looks at the
//! flag after each flush, before anything begins to wait. So either it sees the flag, or what it would append
//! meets the changed word.
//!
//! The word is generic, so that `tests/pending.rs` can run every interleaving of it.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use crate::ledger::{
    Entry, Ledger, PLACE_NOWHERE, STATE_ASKED, STATE_DISCARD, STATE_HELD, STATE_RELEASE, state_of,
};

/// Whose turn it is to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Bytes wait, or none do.
    Nobody,
    /// The program is flushing.
    Program,
    /// The guard writes for a quiet process.
    Guard,
    /// The guard has written, and the program does not know it yet.
    Returned,
}

/// A word in shared memory. Every access must be sequentially consistent, and the swap atomic for other
/// processes, too.
pub trait Word {
    /// What it holds.
    fn load(&self) -> u64;
    /// Replaces `expected`; false if it holds something else.
    fn swap(&self, expected: u64, new: u64) -> bool;
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self) -> u64 {
        AtomicU64::load(self, SeqCst)
    }

    #[inline(always)]
    fn swap(&self, expected: u64, new: u64) -> bool {
        self.compare_exchange(expected, new, SeqCst, SeqCst).is_ok()
    }
}

/// Bits of the length; the owner lies above it, and the generation above that. A fast path that takes
/// everything below the generation for the length finds no room while there is an owner.
const LENGTH_BITS: u32 = 32;
const OWNER_BITS: u32 = 2;
const GENERATION_SHIFT: u32 = LENGTH_BITS + OWNER_BITS;

/// Bytes behind the base: pending, or of an owner.
pub fn length_of(word: u64) -> u64 {
    word & ((1 << LENGTH_BITS) - 1)
}

/// What every flush advances, and every notice of a take.
pub fn generation_of(word: u64) -> u64 {
    word >> GENERATION_SHIFT
}

/// The owner.
pub fn owner_of(word: u64) -> Owner {
    match (word >> LENGTH_BITS) & ((1 << OWNER_BITS) - 1) {
        0 => Owner::Nobody,
        1 => Owner::Program,
        2 => Owner::Guard,
        _ => Owner::Returned,
    }
}

/// Length and owner together: the length, or more than any length while there is an owner.
#[inline(always)]
pub fn length_unless_owned(word: u64) -> u64 {
    word & ((1 << GENERATION_SHIFT) - 1)
}

/// Bytes that are not in the file yet, as far as the word tells.
pub fn waiting_of(word: u64) -> u64 {
    if owner_of(word) == Owner::Returned { 0 } else { length_of(word) }
}

/// Whether any entry of a ledger has bytes that are not in their file.
pub fn is_anything_pending(ledger: &Ledger) -> bool {
    ledger.entries().iter().any(|entry| waiting_of(entry.word.load(SeqCst)) > 0)
}

/// Whether an entry only asks something: the guard holds nothing for it.
pub fn is_question(entry: &Entry) -> bool {
    entry.place.load(SeqCst) == PLACE_NOWHERE
}

/// Whether writes may wait in an entry, or are about to.
pub fn is_held(entry: &Entry) -> bool {
    matches!(state_of(entry.state.load(SeqCst)), STATE_ASKED | STATE_HELD) && !is_question(entry)
}

/// Whether the guard has anything to do for an entry when its process has died.
pub fn is_seen_to(entry: &Entry) -> bool {
    let is_let_go = matches!(state_of(entry.state.load(SeqCst)), STATE_RELEASE | STATE_DISCARD);
    is_held(entry) || is_let_go && !is_question(entry) || waiting_of(entry.word.load(SeqCst)) > 0
}

/// Whether the guard is about to let go of what it held for an entry. It frees the slot of a dead process first, and then
/// closes that.
pub fn is_let_go(entry: &Entry) -> bool {
    state_of(entry.state.load(SeqCst)) == STATE_DISCARD
        && waiting_of(entry.word.load(SeqCst)) == 0
        && entry.slot.load(SeqCst) != 0
        && !is_question(entry)
}

/// How many files of a process, or of all, have something that waits.
pub trait Count {
    fn add(&self, one: i32);
}

impl Count for AtomicU32 {
    #[inline(always)]
    fn add(&self, one: i32) {
        self.fetch_add(one as u32, SeqCst);
    }
}

/// One file more of which something waits, or one less. Never less in all than in one process, also if that dies in
/// between: others look at the sum before they look at each, and who clears its slot takes off what stands there.
#[inline(always)]
pub fn count_waiting(all: &impl Count, own: &impl Count, more: bool) {
    if more {
        all.add(1);
        own.add(1);
    } else {
        own.add(-1);
        all.add(-1);
    }
}

/// The word with another owner.
pub fn owned_by(word: u64, owner: Owner) -> u64 {
    let owner = match owner {
        Owner::Nobody => 0,
        Owner::Program => 1,
        Owner::Guard => 2,
        Owner::Returned => 3,
    };
    word >> GENERATION_SHIFT << GENERATION_SHIFT | owner << LENGTH_BITS | length_of(word)
}

/// The word of the next generation: nothing waits.
pub fn flushed(word: u64) -> u64 {
    (word >> GENERATION_SHIFT).wrapping_add(1) << GENERATION_SHIFT
}

/// The word of the next generation: the same bytes go on waiting. An append that was begun before may have taken its
/// place from a position that has been settled since.
pub fn unwritten(word: u64) -> u64 {
    flushed(word) | length_of(word)
}

/// What a flush finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The program is the owner now: write the bytes, then [`end_flush`] with this word.
    Begun(u64),
    /// Nothing waits; an append in flight starts again.
    Nothing,
    /// The guard has written them since; they are [`length_of`] this word.
    Returned(u64),
    /// The guard is writing, or has written since the caller looked: wait until it has given them back, and look
    /// again.
    Guard(u64),
}

/// Begins a flush, by the program, that has `seen` this word. There is one at a time. What was returned loses its
/// length here, so the program has moved its position past it, or looks again.
pub fn begin_flush(word: &impl Word, seen: u64) -> Found {
    loop {
        let now = word.load();
        let (next, found) = match (owner_of(now), length_of(now)) {
            (Owner::Guard, _) => return Found::Guard(now),
            (Owner::Returned, _) if now != seen => return Found::Guard(now),
            (Owner::Returned, _) => (flushed(now), Found::Returned(now)),
            (_, 0) => (flushed(now), Found::Nothing),
            // `Program`: a flush whose thread is gone.
            (Owner::Nobody | Owner::Program, _) => {
                let begun = owned_by(now, Owner::Program);
                (begun, Found::Begun(begun))
            }
        };
        if word.swap(now, next) {
            return found;
        }
    }
}

/// The cancel step alone. False: something waits, or is the guard's, or was returned by it: a flush comes
/// first.
pub fn cancel(word: &impl Word) -> bool {
    let now = word.load();
    length_unless_owned(now) == 0 && word.swap(now, flushed(now))
}

/// Sees to it that an append which the program has begun does not happen after this, whatever the program has looked
/// at before: nothing of the file is to wait any more, as a flag says already. False: something waits, or is
/// about to be in the file.
pub fn recall(word: &impl Word) -> bool {
    loop {
        let now = word.load();
        if length_unless_owned(now) != 0 {
            return owner_of(now) == Owner::Returned;
        }
        if word.swap(now, owned_by(now, Owner::Returned)) {
            return true;
        }
    }
}

/// Ends it: the bytes of `begun` are in the file, or could not be written and go on waiting. The program
/// alone may do so, and nobody else changes the word meanwhile.
pub fn end_flush(word: &impl Word, begun: u64, is_written: bool) {
    let next = if is_written { flushed(begun) } else { unwritten(begun) };
    let ended = word.swap(begun, next);
    debug_assert!(ended, "an owner is the only one to change the word");
}

/// Takes the bytes of `seen` for the guard. False: the program has gone on since.
pub fn take(word: &impl Word, seen: u64) -> bool {
    let is_free = owner_of(seen) == Owner::Nobody && length_of(seen) > 0;
    is_free && word.swap(seen, owned_by(seen, Owner::Guard))
}

/// Gives bytes back that were taken as `seen`: they are in the file, or go on waiting. False: somebody has changed the
/// word, which only its owner may.
pub fn give_back(word: &impl Word, seen: u64, is_written: bool) -> bool {
    let owner = if is_written { Owner::Returned } else { Owner::Nobody };
    word.swap(owned_by(seen, Owner::Guard), owned_by(seen, owner))
}

/// Takes bytes back from a guard that died while it was writing: `taken` is the word that it left. They
/// are in the file, as anyone who calls has seen, or go on waiting.
pub fn take_back(word: &impl Word, taken: u64, is_written: bool) -> bool {
    let next = if is_written { owned_by(taken, Owner::Returned) } else { unwritten(taken) };
    word.swap(taken, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    struct Given(Cell<u64>);

    impl Word for Given {
        fn load(&self) -> u64 {
            self.0.get()
        }

        fn swap(&self, expected: u64, new: u64) -> bool {
            self.0.get() == expected && self.0.replace(new) == expected
        }
    }

    #[test]
    fn there_is_never_less_in_all_than_in_one_process() {
        /// One of two counts, and the other one.
        struct Counted<'a>(&'a [Cell<i32>; 2], usize);

        impl Count for Counted<'_> {
            fn add(&self, one: i32) {
                self.0[self.1].set(self.0[self.1].get() + one);
                let [all, own] = self.0.each_ref().map(Cell::get);
                assert!(all >= own, "a death here leaves {own} of {all}");
            }
        }

        let counts = [Cell::new(0), Cell::new(0)];
        let (all, own) = (Counted(&counts, 0), Counted(&counts, 1));
        for more in [true, true, false, true, false, false] {
            count_waiting(&all, &own, more);
        }
        assert_eq!(counts.map(Cell::into_inner), [0, 0]);
    }

    #[test]
    fn what_the_guard_returns_between_two_looks_is_looked_at_again() {
        let waiting = 100;
        let word = Given(Cell::new(waiting));
        assert!(take(&word, waiting));
        assert!(give_back(&word, waiting, true));
        let returned = word.load();
        // Its position would stay before what the guard has written.
        assert_eq!(begin_flush(&word, waiting), Found::Guard(returned));
        assert_eq!(word.load(), returned, "it keeps its length");
        assert_eq!(begin_flush(&word, returned), Found::Returned(returned));
        assert_eq!(word.load(), flushed(returned));
    }

    #[test]
    fn an_append_that_a_failed_flush_has_overtaken_does_not_happen() {
        let waiting = 100;
        let word = Given(Cell::new(waiting));
        // A handler comes when the append has looked, and what waits cannot be written.
        let Found::Begun(begun) = begin_flush(&word, waiting) else { panic!("something waits") };
        end_flush(&word, begun, false);
        assert!(!Word::swap(&word, waiting, waiting + 1), "it starts again");
        let (now, is_same) = (word.load(), |now| length_of(now) == waiting);
        assert!(is_same(now) && owner_of(now) == Owner::Nobody, "the same bytes wait");
        assert!(take(&word, now), "and the guard may take them");
        assert!(take_back(&word, word.load(), false), "from whom they come back when it has died");
        assert!(is_same(word.load()) && !Word::swap(&word, now, now + 1));
    }

    #[test]
    fn what_is_recalled_takes_no_append_before_a_flush() {
        let word = Given(Cell::new(flushed(0)));
        assert!(recall(&word));
        assert!(length_unless_owned(word.load()) > u64::from(u32::MAX), "it has no room");
        assert_eq!(waiting_of(word.load()), 0);
        assert!(recall(&word), "and once more");
        let returned = word.load();
        assert_eq!(begin_flush(&word, returned), Found::Returned(returned));
        assert_eq!(word.load(), flushed(returned));
        word.0.set(100);
        assert!(!recall(&word));
        assert_eq!(word.load(), 100, "what waits is written first");
    }

    #[test]
    fn words_keep_generation_owner_and_length_apart() {
        const GIB: u64 = 1 << 30;
        let word = flushed(flushed(0)) | GIB;
        for owner in [Owner::Nobody, Owner::Program, Owner::Guard, Owner::Returned] {
            let owned = owned_by(owned_by(word, Owner::Returned), owner);
            assert_eq!((owner_of(owned), length_of(owned)), (owner, GIB));
            assert_eq!(generation_of(owned), 2);
            assert_eq!(flushed(owned), 3 << GENERATION_SHIFT);
            let is_free = owner == Owner::Nobody;
            assert_eq!(length_unless_owned(owned) <= GIB, is_free, "{owner:?} leaves no room");
            assert_eq!(waiting_of(owned), if owner == Owner::Returned { 0 } else { GIB });
        }
        assert_eq!(flushed(u64::MAX), 0, "the generation wraps, and nothing else");
    }
}

//! Writes for processes that live: what has waited for the maximum age while they are quiet, or what
//! another process wants in its files now.
//!
//! Invariant: of one process all is written or nothing, as it was at one moment; the process and the
//! guard exclude each other by the owner in the entry's word.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::SeqCst;

use sweetspot_core::ledger::{Entry, PLACE_END, STATE_HELD, state_of, write_buffer_start};
use sweetspot_core::pending::{self, Owner, length_of, owned_by, owner_of};
use sweetspot_core::stamps::Apart;
use sweetspot_core::unwritten::{FLUSH_BEGUN, FLUSH_FAILED};

use super::Guard;
use super::place::{may_go_on, note_error, note_stopped, write_where_it_belongs};
use super::reapers::{Job, Waiter};
use super::taking::{Taking, Written};
use crate::finish::{self, Extent};
use crate::quiet;
use crate::sys;

impl Guard {
    /// Hands takes to the reaper.
    pub(super) fn hand_over_takes(&self, takes: Vec<quiet::Take>) {
        self.hand_over(takes.into_iter().map(Job::Take));
    }

    /// Has what waits in processes written for which somebody asked so, and says how many they are.
    pub(super) fn take_all(&self) -> usize {
        let mut takes = Vec::new();
        for (word_index, word) in self.ledger.header.take_bits.iter().enumerate() {
            let mut bits = if word.load(SeqCst) == 0 { 0 } else { word.swap(0, SeqCst) };
            while bits != 0 {
                takes.push(self.all_of((word_index * 64) as u32 + bits.trailing_zeros()));
                bits &= bits - 1;
            }
        }
        let count = takes.len();
        self.hand_over_takes(takes);
        count
    }

    /// What is to be taken of the process of a slot, whether it is quiet or not. Words of which nothing
    /// waits belong to it: that they are still the same shows that all were so at one moment. What
    /// the process itself is writing is left to it.
    pub(super) fn all_of(&self, slot: u32) -> quiet::Take {
        let its_own = self.held_entries().filter(|(_, entry)| entry.slot.load(SeqCst) == slot);
        let words = its_own.map(|(index, entry)| (index, entry.word.load(SeqCst)));
        words.filter(|(_, word)| owner_of(*word) == Owner::Nobody).collect()
    }

    /// Entries whose bytes the guard may write while their process lives.
    pub(super) fn held_entries(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.entries().filter(|(index, entry)| {
            self.held[*index].handle.load(SeqCst) != 0
                && state_of(entry.state.load(SeqCst)) == STATE_HELD
                // What the program was told it could not write is its own, or its heirs'.
                && entry.flushing.load(SeqCst) != FLUSH_FAILED
        })
    }

    /// Writes all that was seen to wait in one process: all of it is taken before the first is written,
    /// or nothing, so that what others see is what the program had written at one moment. What lies on a file system that
    /// hangs is not seen by anyone, and waits.
    pub(super) fn take(&self, take: &quiet::Take) {
        let slot_of = |(index, _): &(usize, u64)| self.ledger.entries()[*index].slot.load(SeqCst);
        // What waits is not freed meanwhile.
        let slot = take.iter().find(|(_, word)| length_of(*word) > 0).map_or(0, slot_of);
        if self.reapers.has_put_off(slot) {
            // What it has written before comes first; anyone who asked asks again.
            return;
        }
        let holds_back = |index: usize| self.reapers.holds_back(self.device_of(index));
        if take.iter().any(|(index, word)| length_of(*word) > 0 && holds_back(*index)) {
            // What it has written elsewhere since is seen later: the call may still return. It comes again by itself.
            return;
        }
        let mut taken: Vec<(&Entry, usize, u64)> = Vec::new();
        for (index, word) in take {
            let hangs = || self.reapers.is_hung(self.device_of(*index), Waiter::Take);
            let is_left = length_of(*word) == 0 || hangs();
            let is_there = |entry: &&Entry| match is_left {
                true => entry.word.load(SeqCst) == *word,
                false => pending::take(&entry.word, *word),
            };
            let Some(entry) = self.ledger.entries().get(*index).filter(is_there) else {
                // It has gone on meanwhile, and sees to it by itself, or anyone who asked asks again.
                taken.iter().for_each(|(entry, _, word)| give_back(entry, *word, false));
                return;
            };
            if !is_left {
                taken.push((entry, *index, *word));
            }
        }
        taken.sort_unstable_by_key(|(entry, ..)| entry.order.load(SeqCst));
        let last = taken.last().map_or(0, |(entry, ..)| entry.written_ns.load(SeqCst));
        let apart = Apart::new(taken.len() as u64, last);
        let left = taken.iter().map(|(_, index, word)| (*index, *word)).collect();
        self.go_on(Taking { left, done: Vec::new(), apart, slot });
    }

    /// Writes the rest of what was taken, and gives all of it back.
    pub(super) fn go_on(&self, mut taking: Taking) {
        let entries = self.ledger.entries();
        let taker = sys::thread_id();
        let done = taking.done.iter().map(|(index, ..)| index);
        for index in taking.left.iter().map(|(index, _)| index).chain(done) {
            entries[*index].taker.store(taker, SeqCst);
        }
        while let Some((index, word)) = taking.pop(entries) {
            let (entry, device, mut apart) =
                (&entries[index], self.device_of(index), taking.apart.clone());
            if self.reapers.comes_later(device) {
                taking.left.push_front((index, word));
                return self.put_off(Job::GoOn(taking));
            }
            let mut rest = Some(taking);
            let used = (Some(index), device);
            if !self.enter(used, Waiter::Take, || rest.take().map(Job::GoOn)) {
                let Some(mut left) = rest else { return };
                // What follows it is not seen before it, if it takes but a moment longer.
                left.left.push_front((index, word));
                let Some(Job::GoOn(left)) = self.reapers.hold_back(device, Job::GoOn(left)) else {
                    // So that it is looked in time what was held back for long enough.
                    return self.poke();
                };
                taking = left;
                taking.left.pop_front();
                give_back(entry, word, false);
                continue;
            }
            let written = self.write_taken(index, entry, word, &mut apart);
            match self.leave() {
                Ok(Some(Job::GoOn(left))) => taking = Taking { apart, ..left },
                Ok(_) => return,
                Err(replaced) => {
                    end_take(entry, word, &written);
                    return self.let_go_on(device, replaced);
                }
            }
            taking.done.push((index, word, written));
        }
        for (index, word, written) in &taking.done {
            end_take(&entries[*index], *word, written);
        }
    }

    fn device_of(&self, index: usize) -> u64 {
        self.held[index].device.load(SeqCst)
    }

    /// Writes what was taken of one file. Returns the file as it is then, with a time by which it is told
    /// from those that follow; `None` where the file system does not describe it. What cannot be written
    /// goes on waiting: the program learns it at its next call.
    fn write_taken(&self, index: usize, entry: &Entry, word: u64, apart: &mut Apart) -> Written {
        let held = &self.held[index];
        // A process that says it is not taken may have lost it to another one.
        if owner_of(entry.word.load(SeqCst)) != Owner::Guard {
            return Err(io::ErrorKind::NotFound.into());
        }
        // Somebody who has learned of its death may have written since: who finishes it looks for that.
        if self.is_gone(held.owner.load(SeqCst)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let handle = held.handle().ok_or(io::ErrorKind::NotFound)?;
        let is_copy = held.is_copy.load(SeqCst);
        let start = write_buffer_start(entry.base.load(SeqCst));
        let at = held.write_buffer_at.load(SeqCst) + start;
        let bytes = length_of(word);
        if bytes > held.write_buffer_bytes.load(SeqCst).saturating_sub(start) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let whole = Extent { ledger: &self.file, at, bytes };
        let before = sys::status(handle).ok();
        if !entry.may_be_written_to(before.map(|before| before.left()))
            || !may_go_on(entry, handle, is_copy)
        {
            return Err(io::Error::from_raw_os_error(libc::ESTALE));
        }
        let its_own = (!is_copy).then(|| self.its_own(index, entry, handle)).flatten();
        let written = write_where_it_belongs(entry, handle, is_copy, its_own, &whole);
        if let Err(error) = &written {
            // The program may be able to write it, and then nobody else tells what the file system told.
            note_error(entry, error);
            let left = sys::status(handle).ok().or(before);
            // Where it has begun is noted: if a part arrived, nobody can tell which, and the offset is another one.
            let has_begun = entry.flushing.load(SeqCst) == FLUSH_BEGUN;
            entry.note_tried(left.map_or(entry.left(), |left| left.left()));
            if !has_begun {
                note_stopped(entry, handle, is_copy);
            }
        }
        written?;
        let before = before.or_else(|| sys::status(handle).ok());
        Ok(finish::tell_apart(entry, handle, before, apart))
    }

    /// A copy of the description to which the process itself would write, for the moment: who watches
    /// the file sees no open and no close by it. `None`: the system refuses that (Yama, seccomp), or
    /// its number means another description by now.
    fn its_own(&self, index: usize, entry: &Entry, handle: BorrowedFd<'_>) -> Option<File> {
        if !self.may_copy {
            return None;
        }
        let owner = self.held[index].owner.load(SeqCst);
        let copy = {
            let watch = self.lock_watch();
            let (_, pidfd) = watch.living.get(&owner)?;
            sys::copy_of(pidfd.as_fd(), entry.fd.load(SeqCst)).ok()?
        };
        let (status, wanted) = (sys::status(&copy).ok()?, sys::status(handle).ok()?);
        let flags = sys::open_flags(&copy).ok()?;
        let is_it = (status.device, status.inode) == (wanted.device, wanted.inode)
            && matches!(flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR)
            && (flags & libc::O_APPEND != 0) == (entry.place.load(SeqCst) == PLACE_END);
        is_it.then(|| copy.into())
    }
}

/// Gives back what was written of one file, or could not be, unless it is not the guard's any more.
fn end_take(entry: &Entry, word: u64, written: &Written) {
    if let Ok(left) = written
        && entry.word.load(SeqCst) == owned_by(word, Owner::Guard)
    {
        left.iter().for_each(|left| entry.note_left(left.left()));
        entry.flushing.store(0, SeqCst);
    }
    give_back(entry, word, written.is_ok());
}

/// Gives an entry back, and wakes who waits for it.
fn give_back(entry: &Entry, seen: u64, is_written: bool) {
    // Where that fails, its process keeps no rule, and has what it has.
    let _ = pending::give_back(&entry.word, seen, is_written);
    entry.given_back.fetch_add(1, SeqCst);
    sys::futex_wake(&entry.given_back);
}

//! Deaths: waits for them, finishes what a dead process left pending, and ends the guard after the last.
//!
//! Not here: what waits in processes that live (`living`); how bytes get to their place (`place`).

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use sweetspot_core::ledger::{
    BEING_CLEARED, Entry, STATE_DISCARD, STATE_FREE, Slot, next_state, state_of, write_buffer_start,
};
use sweetspot_core::pending::{flushed, is_anything_pending, waiting_of};
use sweetspot_core::stamps::Apart;

use super::place::{may_go_on, write_where_it_belongs};
use super::reapers::{Job, Waiter};
use super::{DUE, Guard};
use crate::finish::{self, Extent, Saving};
use crate::notes::Note;
use crate::sys::{self, Epoll, Naps, Status};
use crate::{costs, identity};

/// A process whose death is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watched {
    pub(super) pid: u32,
    /// 0: the program itself, before it has a slot.
    pub(super) slot: u32,
    pub(super) start_ticks: u64,
}

impl Watched {
    /// Whether a slot is this process': another one may have its number by now.
    fn is_in(&self, slot: &Slot) -> bool {
        let begun = match slot.ready.load(SeqCst) {
            1 => Some(slot.start_ticks.load(SeqCst)),
            // It has not said more than its number.
            _ => identity::process_stat(self.pid).ok().map(|stat| stat.start_ticks),
        };
        slot.pid.load(SeqCst) == self.pid && begun.is_none_or(|begun| begun == self.start_ticks)
    }
}

/// A process that is dead.
struct Dead {
    id: u64,
    watched: Watched,
    /// The slot is still its own.
    has_slot: bool,
}

/// Why a piece of a dead process is not finished now.
enum Later {
    /// Its file system hangs.
    Hung,
    /// That let go, and another thread sees to the rest.
    Replaced,
    /// It is slow.
    Slow,
}

/// The processes whose death is waited for.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) living: HashMap<u64, (Watched, OwnedFd)>,
    /// The last id for each slot.
    pub(super) of_slot: HashMap<u32, u64>,
    last_id: u64,
    /// What was found of files of processes that have died, and are not finished yet.
    looked: HashMap<u64, Looked>,
    /// The guard ends: nobody is taken on any more.
    pub(super) ends: bool,
}

impl Watch {
    pub(super) fn register(
        &mut self,
        epoll: &Epoll,
        watched: Watched,
        pidfd: OwnedFd,
    ) -> io::Result<u64> {
        if self.ends {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        self.last_id += 1;
        epoll.add(pidfd.as_fd(), self.last_id)?;
        self.living.insert(self.last_id, (watched, pidfd));
        if watched.slot != 0 {
            self.of_slot.insert(watched.slot, self.last_id);
        }
        Ok(self.last_id)
    }

    /// Whether the process of an id lives no more.
    fn is_gone(&self, id: u64) -> bool {
        let is_gone = |pidfd| sys::is_dead(pidfd) || sys::is_no_more(pidfd);
        self.living.get(&id).is_none_or(|(_, pidfd)| is_gone(pidfd.as_fd()))
    }
}

/// What was found of the files of a process that has died. Two entries may be of one file: to write what one of them
/// left changes its times, so the first look is for both.
#[derive(Default)]
pub(super) struct Looked(HashMap<(u64, u64), Status>);

impl Looked {
    /// A file may have been written again since: then it is not touched.
    fn may_be_finished(&mut self, entry: &Entry, handle: BorrowedFd<'_>) -> io::Result<()> {
        let now = sys::status(handle).ok();
        let first = now.map(|now| *self.0.entry((now.device, now.inode)).or_insert(now));
        match entry.may_be_finished_in(first.map(|now| now.left()), !sys::is_served(handle)) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ESTALE)),
        }
    }
}

impl Guard {
    /// The reaper: waits for deaths until nobody is left, or another thread is in its place.
    pub(super) fn reap(&self) -> io::Result<()> {
        let mut naps = Naps::default();
        // What another one had before it comes first.
        self.do_all_due();
        while self.reapers.is_own() {
            let is_of_use = match self.epoll.wait(None)? {
                Some(id) => self.see_to(id),
                // Only a filter of system calls answers so.
                None => {
                    self.see_to_the_gone();
                    false
                }
            };
            naps.count(is_of_use);
        }
        Ok(())
    }

    /// Sees to processes that are gone, whatever is answered where deaths are waited for.
    pub(super) fn see_to_the_gone(&self) {
        let gone: Vec<u64> = {
            let watch = self.lock_watch();
            watch.living.keys().copied().filter(|id| watch.is_gone(*id)).collect()
        };
        for id in gone {
            // Another thread sees to the rest, if one of them has kept this one.
            if !self.reapers.is_own() {
                break;
            }
            self.see_to(id);
        }
    }

    /// Sees to what the reaper woke for, and says whether there was anything to do; after the last death the
    /// process ends.
    pub(super) fn see_to(&self, id: u64) -> bool {
        if id == DUE {
            return self.do_all_due() > 0;
        }
        let Some(watched) = self.take_up(id) else { return false };
        if !self.finish(id, watched) {
            return true;
        }
        // Only now: a process that is watched is not taken on again under another id.
        self.lock_watch().living.remove(&id);
        if self.is_over() {
            self.end();
        }
        true
    }

    /// Whether the process of an id lives no more.
    pub(super) fn is_gone(&self, id: u64) -> bool {
        self.lock_watch().is_gone(id)
    }

    /// The process of an id, which is dead: nothing more is waited for.
    fn take_up(&self, id: u64) -> Option<Watched> {
        let watch = self.lock_watch();
        let (watched, pidfd) = watch.living.get(&id)?;
        self.epoll.remove(pidfd.as_fd());
        Some(*watched)
    }

    /// Does what was handed to the reaper, as long as this thread is the one. Says how much.
    fn do_all_due(&self) -> usize {
        self.due_event.iter().for_each(sys::Event::clear);
        let mut done = 0;
        while let Some((job, was_put_off)) = self.reapers.next() {
            done += 1;
            match job {
                Job::Take(take) => self.take(&take),
                Job::GoOn(taking) => self.go_on(taking),
                Job::Finish(id) => drop(self.see_to(id)),
                Job::Step(step) => self.make_step(step),
                Job::Close(index) => self.close_late(index),
            }
            // What goes on at a slow file system is made due again: deaths come before.
            if was_put_off {
                self.due_event.iter().for_each(sys::Event::raise);
                break;
            }
        }
        done
    }

    pub(super) fn end(&self) -> ! {
        // From here on nobody gets a handle, and a process that looks passes its calls through.
        self.ledger.header.guard.store(sys::FUTEX_OWNER_DIED, SeqCst);
        if !is_anything_pending(&self.ledger) {
            if identity::is_same_file(&self.path, &self.file) {
                let _ = std::fs::remove_file(&self.path);
            }
            self.note.get().into_iter().flatten().for_each(Note::remove);
        }
        let header = &self.ledger.header;
        costs::keep(&self.costs, header.boot.load(SeqCst), &header.devices);
        sys::exit_now(0)
    }

    /// Whether the last process is gone. Processes that have a slot but never asked are found here.
    fn is_over(&self) -> bool {
        let mut watch = self.lock_watch();
        if watch.living.is_empty() {
            self.sweep(&mut watch);
        }
        watch.ends = watch.living.is_empty();
        watch.ends
    }

    /// Takes on every process that lives and has a slot, and clears the slots of the dead, which,
    /// never having been taken on, left nothing pending.
    pub(super) fn sweep(&self, watch: &mut Watch) {
        for (index, slot) in self.ledger.slots.iter().enumerate().skip(1) {
            let pid = slot.pid.load(SeqCst);
            let id = watch.of_slot.get(&(index as u32)).copied().unwrap_or(0);
            let is_known = watch.living.get(&id).is_some_and(|(watched, _)| watched.is_in(slot));
            if pid == 0 || pid == BEING_CLEARED || is_known {
                continue;
            }
            match self.look_at(index as u32, slot, pid) {
                Ok((watched, pidfd)) => {
                    // Where no descriptor is left, nobody waits for the process: its calls pass through.
                    let _ = watch.register(&self.epoll, watched, pidfd);
                }
                // It may live all the same.
                Err(error) if sys::is_shortage(&error) => {}
                Err(_) => self.clear_slot(slot, pid),
            }
        }
    }

    /// The process of a slot, if it lives.
    ///
    /// # Errors
    /// It does not, or this one lacks what it takes to tell, which leaves the reserve to those that are dead.
    pub(super) fn look_at(
        &self,
        index: u32,
        slot: &Slot,
        pid: u32,
    ) -> io::Result<(Watched, OwnedFd)> {
        let pidfd = sys::pidfd_open(pid)?;
        if !self.leaves_reserve(&pidfd) {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        let stat = identity::process_stat(pid)?;
        let is_it = if slot.ready.load(SeqCst) == 1 {
            slot.start_ticks.load(SeqCst) == stat.start_ticks
                && slot.pid_namespace.load(SeqCst) == self.namespace
        } else {
            // It has not said more than its number yet; but a process that has a slot has the ledger.
            let own = sys::status(&self.file)?;
            identity::maps_file(pid, own.device, own.inode)
        };
        let watched = Watched { pid, slot: index, start_ticks: stat.start_ticks };
        match is_it && !sys::is_dead(pidfd.as_fd()) {
            true => Ok((watched, pidfd)),
            false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    }

    /// Writes everything that a dead process left, gives up its entries and frees its slot. False: something of it lies on
    /// a file system that hangs, and is seen to later.
    fn finish(&self, id: u64, dead: Watched) -> bool {
        let slot = &self.ledger.slots[dead.slot as usize];
        let has_slot = dead.slot != 0 && dead.is_in(slot);
        let dead = Dead { id, watched: dead, has_slot };
        // What was taken of it is the guard's until it is given back.
        if has_slot && self.reapers.put_behind_rest(Job::Finish(id), dead.watched.slot) {
            return false;
        }
        let mut left: Vec<(u64, usize, &Entry)> = self
            .entries()
            .filter(|(index, entry)| self.is_left_by(&dead, *index, entry) && !is_stuck(entry))
            .map(|(index, entry)| (entry.order.load(SeqCst), index, entry))
            .collect();
        left.sort_unstable_by_key(|(order, ..)| *order);
        let last = left.last().map_or(0, |(.., entry)| entry.written_ns.load(SeqCst));
        let mut apart = Apart::new(left.len() as u64, last);
        let mut looked = self.lock_watch().looked.remove(&id).unwrap_or_default();
        let mut hung = Vec::new();
        for (_, index, entry) in left {
            let device = self.held[index].device.load(SeqCst);
            if hung.contains(&device) {
                // It may go on by now, but what is older comes first.
                continue;
            }
            let held_back = || self.reapers.hold_back(device, Job::Finish(id)).is_none();
            match self.finish_entry(&dead, index, entry, (&mut looked, &mut apart)) {
                Ok(()) => continue,
                Err(Later::Hung) if !held_back() => {
                    hung.push(device);
                    continue;
                }
                Err(Later::Replaced) => return false,
                Err(Later::Hung) => {}
                Err(Later::Slow) => self.put_off(Job::Finish(id)),
            }
            self.lock_watch().looked.insert(id, looked);
            // Also so that it is looked in time what was held back for long enough.
            self.poke();
            return false;
        }
        let is_all = hung.is_empty();
        if !is_all {
            self.lock_watch().looked.insert(id, looked);
        } else if has_slot {
            self.clear_slot(slot, dead.watched.pid);
        }
        // The handles thread frees what was given up.
        self.poke();
        is_all
    }

    /// Whether an entry is a dead process'.
    fn is_left_by(&self, dead: &Dead, index: usize, entry: &Entry) -> bool {
        let is_its_own = self.held[index].owner.load(SeqCst) == dead.id
            || (dead.has_slot && entry.slot.load(SeqCst) == dead.watched.slot);
        is_its_own && state_of(entry.state.load(SeqCst)) != STATE_FREE
    }

    /// Writes what is pending in an entry of a dead process, and gives it up, unless it could neither be written nor
    /// saved, or somebody else has it by now.
    ///
    /// # Errors
    /// Not now, or the rest of the process is another thread's.
    fn finish_entry(
        &self,
        dead: &Dead,
        index: usize,
        entry: &Entry,
        (looked, apart): (&mut Looked, &mut Apart),
    ) -> Result<(), Later> {
        let (held, waiter) = (&self.held[index], Waiter::Dead(dead.id));
        let device = held.device.load(SeqCst);
        // Also of what has nothing pending: another thread may be about to give it up.
        if self.reapers.is_hung(device, waiter) {
            return Err(Later::Hung);
        }
        // Only now it shows what another thread has done. The state first: what is given up with nothing pending may be
        // free at any moment, and somebody else's.
        let state = state_of(entry.state.load(SeqCst));
        let is_given_up = state == STATE_DISCARD && waiting_of(entry.word.load(SeqCst)) == 0;
        if is_given_up {
            self.ask_again(index);
        }
        if is_given_up || state == STATE_FREE || !self.is_left_by(dead, index, entry) {
            return Ok(());
        }
        let word = entry.word.load(SeqCst);
        if held.handle().is_none() || waiting_of(word) == 0 {
            // Without a handle nothing was ever accepted.
            entry.word.store(flushed(word), SeqCst);
            self.give_up(index, entry);
            return Ok(());
        }
        if self.reapers.comes_later(device) {
            return Err(Later::Slow);
        }
        if !self.enter((Some(index), device), waiter, || Some(Job::Finish(dead.id))) {
            return Err(Later::Hung);
        }
        let start = write_buffer_start(entry.base.load(SeqCst));
        let bytes =
            waiting_of(word).min(held.write_buffer_bytes.load(SeqCst).saturating_sub(start));
        let whole =
            Extent { ledger: &self.file, at: held.write_buffer_at.load(SeqCst) + start, bytes };
        let write = |handle| {
            let handle = (handle, held.is_copy.load(SeqCst));
            self.write_or_save(entry, dead.watched.pid, handle, whole, (looked, apart))
        };
        let is_over =
            held.handle().filter(|_| bytes > 0).is_none_or(|handle| write(handle).is_ok());
        if is_over {
            // From here it has happened.
            entry.word.store(flushed(word), SeqCst);
            entry.arrived.store(0, SeqCst);
            entry.flushing.store(0, SeqCst);
            self.give_up(index, entry);
        }
        self.leave().map(drop).map_err(|replaced| {
            self.let_go_on(device, replaced);
            Later::Replaced
        })
    }

    /// Writes what is pending in an entry of a dead process, or saves it beside its file.
    ///
    /// # Errors
    /// It stays pending.
    fn write_or_save(
        &self,
        entry: &Entry,
        pid: u32,
        (handle, is_copy): (BorrowedFd<'_>, bool),
        whole: Extent<'_>,
        (looked, apart): (&mut Looked, &mut Apart),
    ) -> io::Result<()> {
        let unchanged = looked.may_be_finished(entry, handle);
        let unchanged = unchanged.and_then(|()| match may_go_on(entry, handle, is_copy) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ESTALE)),
        });
        let before = sys::status(handle).ok();
        let write = |()| write_where_it_belongs(entry, handle, is_copy, None, &whole);
        if unchanged.and_then(write).is_ok() {
            finish::tell_apart(entry, handle, before, apart);
            return Ok(());
        }
        let original = finish::known_path(handle);
        let (base, extent) = finish::left(entry, whole);
        let (original, appends) = (original.as_deref(), finish::appends(entry));
        let saving = Saving { extent, original, pid, base, appends };
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let header = &self.ledger.header;
        let saved = finish::save_beside(&saving, folder).inspect_err(|_| {
            header.stuck.fetch_add(1, SeqCst);
            // It is not the next one's that has the slot.
            entry.slot.store(0, SeqCst);
        })?;
        header.saved_path.store(saved.as_os_str().as_encoded_bytes());
        header.saved.fetch_add(1, SeqCst);
        Ok(())
    }

    /// Hands an entry of a dead process to the handles thread, which alone frees.
    fn give_up(&self, index: usize, entry: &Entry) {
        loop {
            let word = entry.state.load(SeqCst);
            if matches!(state_of(word), STATE_FREE | STATE_DISCARD) {
                break;
            }
            let next = next_state(word, STATE_DISCARD);
            if entry.state.compare_exchange(word, next, SeqCst, SeqCst).is_ok() {
                break;
            }
        }
        self.ask_again(index);
    }

    /// Frees a slot and wakes who waits for its dead process.
    pub(super) fn clear_slot(&self, slot: &Slot, pid: u32) {
        // It may have been cleared by its process, and claimed by another one, since it was looked at.
        if slot.pid.compare_exchange(pid, BEING_CLEARED, SeqCst, SeqCst).is_err() {
            return;
        }
        slot.ready.store(0, SeqCst);
        slot.unseen.store(0, SeqCst);
        slot.is_late.store(0, SeqCst);
        let waiting = slot.waiting.swap(0, SeqCst);
        self.ledger.header.waiting.fetch_sub(waiting, SeqCst);
        slot.done.fetch_add(1, SeqCst);
        // Last, as a new process may claim it from then on.
        slot.pid.store(0, SeqCst);
        sys::futex_wake(&slot.done);
    }

    /// Has the handles thread look at what was given up.
    pub(super) fn poke(&self) {
        let header = &self.ledger.header;
        header.asks.fetch_add(1, SeqCst);
        sys::futex_wake(&header.asks);
    }
}

/// Whether what waits could neither be written nor saved, and nobody's slot says whose it is any more.
fn is_stuck(entry: &Entry) -> bool {
    waiting_of(entry.word.load(SeqCst)) > 0 && entry.slot.load(SeqCst) == 0
}

#[cfg(test)]
mod tests;

//! Deaths: waits for them, finishes what a dead process left pending, and ends the guard after the last.
//!
//! Not here: what waits in processes that live (`living`); how bytes get to their place (`place`).

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use sweetspot_core::ledger::{
    Entry, STATE_DISCARD, STATE_FREE, Slot, next_state, state_of, write_buffer_start,
};
use sweetspot_core::pending::{flushed, is_anything_pending, waiting_of};

use super::place::{may_go_on, write_where_it_belongs};
use super::{DUE, Guard};
use crate::finish::{self, Extent, Saving};
use crate::notes::Note;
use crate::sys::{self, Epoll, Naps, Status};
use crate::{costs, identity};

/// In a slot's place for the number while the guard clears it; no process has it.
const BEING_CLEARED: u32 = u32::MAX;

/// A process whose death is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watched {
    pub(super) pid: u32,
    /// 0: the program itself, before it has a slot.
    pub(super) slot: u32,
    pub(super) start_ticks: u64,
}

/// The processes whose death is waited for.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) living: HashMap<u64, (Watched, OwnedFd)>,
    /// The last id for each slot.
    pub(super) of_slot: HashMap<u32, u64>,
    last_id: u64,
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
}

/// What was found of the files of a process that has died. Two entries may be of one file: to write what one of them
/// left changes its times, so the first look is for both.
#[derive(Default)]
struct Looked(HashMap<(u64, u64), Status>);

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
    /// The reaper: waits for deaths until nobody is left.
    pub(super) fn reap(&self) -> io::Result<()> {
        self.ledger.header.guard_writer.store(sys::thread_id(), SeqCst);
        let mut naps = Naps::default();
        loop {
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
    }

    /// Sees to processes that are gone, whatever is answered where deaths are waited for.
    pub(super) fn see_to_the_gone(&self) {
        let is_gone = |(_, pidfd): &(Watched, OwnedFd)| {
            sys::is_dead(pidfd.as_fd()) || sys::is_no_more(pidfd.as_fd())
        };
        let gone: Vec<u64> = {
            let watch = self.lock_watch();
            let gone = watch.living.iter().filter(|(_, living)| is_gone(living));
            gone.map(|(id, _)| *id).collect()
        };
        for id in gone {
            self.see_to(id);
        }
    }

    /// Sees to what the reaper woke for, and says whether there was anything to do; after the last death the
    /// process ends.
    pub(super) fn see_to(&self, id: u64) -> bool {
        if id == DUE {
            return self.take_all_due() > 0;
        }
        let Some(watched) = self.lock_watch().living.get(&id).map(|(watched, _)| *watched) else {
            return false;
        };
        self.finish(id, watched);
        // Only now: a process that is watched is not taken on again under another id.
        self.lock_watch().living.remove(&id);
        if self.is_over() {
            self.end();
        }
        true
    }

    pub(super) fn end(&self) -> ! {
        // From here on nobody gets a handle, and a process that looks passes its calls through.
        self.ledger.header.guard.store(sys::FUTEX_OWNER_DIED, SeqCst);
        let header = &self.ledger.header;
        costs::keep(&self.costs, header.boot.load(SeqCst), &header.devices);
        if !is_anything_pending(&self.ledger) {
            if identity::is_same_file(&self.path, &self.file) {
                let _ = std::fs::remove_file(&self.path);
            }
            self.note.get().into_iter().flatten().for_each(Note::remove);
        }
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
            let is_known = watch.living.get(&id).is_some_and(|(watched, _)| watched.pid == pid);
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

    /// Writes everything that a dead process left, gives up its entries and frees its slot.
    fn finish(&self, id: u64, dead: Watched) {
        let slot = &self.ledger.slots[dead.slot as usize];
        let has_slot = dead.slot != 0 && slot.pid.load(SeqCst) == dead.pid;
        let mut left: Vec<(u64, usize, &Entry)> = self
            .entries()
            .filter(|(index, entry)| {
                let is_its_own = self.held[*index].owner.load(SeqCst) == id
                    || (has_slot && entry.slot.load(SeqCst) == dead.slot);
                is_its_own && state_of(entry.state.load(SeqCst)) != STATE_FREE
            })
            .map(|(index, entry)| (entry.order.load(SeqCst), index, entry))
            .collect();
        left.sort_unstable_by_key(|(order, ..)| *order);
        let mut looked = Looked::default();
        for (_, index, entry) in left {
            if self.finish_entry(index, entry, dead.pid, &mut looked).is_ok() {
                self.give_up(index, entry);
            }
        }
        if has_slot {
            self.clear_slot(slot, dead.pid);
        }
        // The handles thread frees what was given up.
        self.poke();
    }

    /// Writes what is pending in an entry of a dead process.
    ///
    /// # Errors
    /// It could neither be written nor saved, and stays pending.
    fn finish_entry(
        &self,
        index: usize,
        entry: &Entry,
        pid: u32,
        looked: &mut Looked,
    ) -> io::Result<()> {
        let held = &self.held[index];
        let word = entry.word.load(SeqCst);
        let start = write_buffer_start(entry.base.load(SeqCst));
        let bytes =
            waiting_of(word).min(held.write_buffer_bytes.load(SeqCst).saturating_sub(start));
        let (Some(handle), true) = (held.handle(), bytes > 0) else {
            // Without a handle nothing was ever accepted.
            entry.word.store(flushed(word), SeqCst);
            return Ok(());
        };
        let whole =
            Extent { ledger: &self.file, at: held.write_buffer_at.load(SeqCst) + start, bytes };
        let unchanged = looked.may_be_finished(entry, handle);
        let is_copy = held.is_copy.load(SeqCst);
        let unchanged = unchanged.and_then(|()| match may_go_on(entry, handle, is_copy) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ESTALE)),
        });
        let write = |()| write_where_it_belongs(entry, handle, is_copy, None, &whole);
        let written = unchanged.and_then(write);
        if written.is_err() {
            let original = finish::known_path(handle);
            let (base, extent) = finish::left(entry, whole);
            let saving = Saving { extent, original: original.as_deref(), pid, base };
            let folder = self.path.parent().unwrap_or(Path::new("/"));
            let header = &self.ledger.header;
            let saved = finish::save_beside(&saving, folder).inspect_err(|_| {
                header.stuck.fetch_add(1, SeqCst);
            })?;
            header.saved_path.store(saved.as_os_str().as_encoded_bytes());
            header.saved.fetch_add(1, SeqCst);
        }
        // From here it has happened.
        entry.word.store(flushed(word), SeqCst);
        entry.arrived.store(0, SeqCst);
        entry.flushing.store(0, SeqCst);
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
        self.ledger.header.ask_bits[index / 64].fetch_or(1 << (index % 64), SeqCst);
    }

    /// Frees a slot and wakes who waits for its dead process.
    pub(super) fn clear_slot(&self, slot: &Slot, pid: u32) {
        // It may have been cleared by its process, and claimed by another one, since it was looked at.
        if slot.pid.compare_exchange(pid, BEING_CLEARED, SeqCst, SeqCst).is_err() {
            return;
        }
        slot.ready.store(0, SeqCst);
        slot.unseen.store(0, SeqCst);
        let waiting = slot.waiting.swap(0, SeqCst);
        self.ledger.header.waiting.fetch_sub(waiting, SeqCst);
        slot.done.fetch_add(1, SeqCst);
        // Last, as a new process may claim it from then on.
        slot.pid.store(0, SeqCst);
        sys::futex_wake(&slot.done);
    }

    /// Has the handles thread look at what was given up.
    fn poke(&self) {
        let header = &self.ledger.header;
        header.asks.fetch_add(1, SeqCst);
        sys::futex_wake(&header.asks);
    }
}

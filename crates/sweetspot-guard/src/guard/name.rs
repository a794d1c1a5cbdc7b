//! The ledger's name. A program that is started finds the ledger by it, and others' waiting bytes in the ledger.
//!
//! Whatever removes what a user has in /dev/shm removes the name, as systemd-logind may when the user logs out. What
//! the name led to stays: processes that have it mapped, and the guard, go on with it. But programs that
//! are started from then on would neither see what waits, nor tell what they open. So nothing is to wait
//! any more. That is seen at the guard's next look, of which there are several within the maximum age while
//! anything waits.
//!
//! After a death nobody is there to be found: `recover` finds the ledger by a note, which is made here, too. It names
//! each file, again when that gets another name while something waits.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering::SeqCst;

use sweetspot_core::pending::waiting_of;
use sweetspot_core::unwritten::RECALLED;
use sweetspot_core::why::Why;

use super::Guard;
use super::reapers::{Job, NOTES, Step};
use super::refused::Refused;
use crate::identity;
use crate::notes::{self, Note};
use crate::sys::Status;

impl Guard {
    /// Whether programs that are started find the ledger. Where they did not once, they count as never finding it
    /// again: such a program may be there.
    pub(super) fn is_found(&self) -> bool {
        let is_found =
            !self.is_nameless.load(SeqCst) && identity::is_same_file(&self.path, &self.file);
        if !is_found && !self.is_nameless.swap(true, SeqCst) {
            self.ledger.header.why.fetch_or(Why::NotFound.bit(), SeqCst);
        }
        is_found
    }

    /// Has all written that waits, and nothing is to wait any more.
    pub(super) fn recall_all(&self) {
        for (_, entry) in self.held_entries() {
            entry.is_recalled.fetch_max(RECALLED, SeqCst);
        }
        let slots = self.ledger.slots.iter().enumerate();
        let waiting = slots.filter(|(_, slot)| slot.waiting.load(SeqCst) != 0);
        self.hand_over(waiting.map(|(index, _)| Job::Take(self.all_of(index as u32))));
    }

    /// Notes the file of a handle before it is granted. In a pid namespace of its own (a container) a
    /// note is no condition: when that ends nobody recovers anything, and `--max-age` is short.
    pub(super) fn note(
        &'static self,
        index: usize,
        handle: BorrowedFd<'_>,
        status: Status,
    ) -> Result<(), Refused> {
        if self.states.is_empty() {
            return Ok(());
        }
        let path = notes::path_of(handle);
        let noted = self.step((index, NOTES), move || {
            let make = || Note::make(&self.states, &self.path, &self.file).ok();
            let note = self.note.get_or_init(make).as_ref();
            self.held[index].named.store(short(&path), SeqCst);
            note.map(|note| note.record(index, &path, status))
        });
        match noted? {
            Some(recorded) => Ok(recorded?),
            None if identity::is_in_own_pid_namespace().unwrap_or(false) => Ok(()),
            None => {
                self.ledger.header.why.fetch_or(Why::NotNoted.bit(), SeqCst);
                Err(Refused::ForGood)
            }
        }
    }

    /// Notes files for which something waits, and that were renamed: `recover` would not find them.
    pub(super) fn note_new_names(&'static self) {
        let Some(note) = self.note.get().and_then(Option::as_ref) else { return };
        let waiting =
            self.held_entries().filter(|(_, entry)| waiting_of(entry.word.load(SeqCst)) > 0);
        let renamed = waiting.filter_map(|(index, _)| {
            let (path, named) =
                (notes::path_of(self.held[index].handle()?), &self.held[index].named);
            // What was removed may have another name, in the same folder.
            let is_gone = path.is_empty() || path.as_bytes().ends_with(b" (deleted)");
            let (before, now) = (named.load(SeqCst), short(&path));
            let call = move || {
                // Unless the entry is another file's by now.
                if named.compare_exchange(before, now, SeqCst, SeqCst).is_ok() {
                    // Where that fails, the name before is not lost.
                    let _ = note.record_path(index, &path);
                }
                true
            };
            (before != now && !is_gone).then(|| Job::Step(Step::new(index, NOTES, call)))
        });
        self.hand_over(renamed);
    }
}

/// A path, so that another one is told from it.
fn short(path: &OsStr) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

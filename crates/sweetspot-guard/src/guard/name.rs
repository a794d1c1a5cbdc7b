//! The ledger's name. A program that is started finds the ledger by it, and others' waiting bytes in the ledger.
//!
//! Whatever removes what a user has in /dev/shm removes the name, as systemd-logind may when the user logs out. What
//! the name led to stays: processes that have it mapped, and the guard, go on with it. But programs that
//! are started from then on would neither see what waits, nor tell what they open. So nothing is to wait
//! any more. That is seen at the guard's next look, of which there are several within the maximum age while
//! anything waits.
//!
//! After a death nobody is there to be found: `recover` finds the ledger by a note, which is made here, too.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::SeqCst;

use sweetspot_core::unwritten::RECALLED;
use sweetspot_core::why::Why;

use super::Guard;
use super::handles::Refused;
use crate::identity;
use crate::notes::Note;
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
        self.hand_over(waiting.map(|(index, _)| self.all_of(index as u32)).collect());
    }

    /// Notes the file of a handle before it is granted. In a pid namespace of its own (a container) a
    /// note is no condition: when that ends nobody recovers anything, and `--max-age` is short.
    pub(super) fn note(
        &self,
        index: usize,
        handle: &OwnedFd,
        status: Status,
    ) -> Result<(), Refused> {
        if self.states.is_empty() {
            return Ok(());
        }
        let note = self.note.get_or_init(|| Note::make(&self.states, &self.path, &self.file).ok());
        match note {
            Some(note) => Ok(note.record(index, handle, status)?),
            None if identity::is_in_own_pid_namespace().unwrap_or(false) => Ok(()),
            None => {
                self.ledger.header.why.fetch_or(Why::NotNoted.bit(), SeqCst);
                Err(Refused)
            }
        }
    }
}

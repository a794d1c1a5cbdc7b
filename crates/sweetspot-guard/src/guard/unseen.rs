//! Processes that make calls which no hook sees: while one lives, nothing of others waits (rule D21).
//!
//! A process says so of itself where the library learns of it. A ring of io_uring that was made by the program's own
//! instructions is found here, among the descriptors of a process that asks for a handle.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

use sweetspot_core::ledger::{UNSEEN_FOR_GOOD, UNSEEN_NOBODY, UNSEEN_SLOTS};
use sweetspot_core::why::Why;

use super::Guard;
use crate::sys;

/// What the link of a ring's descriptor leads to.
const RING: &[u8] = b"anon_inode:[io_uring]";
/// So many descriptors are looked at each time.
const DESCRIPTORS_MAX: usize = 4096;

/// How often each process has asked, by the id under which it is watched.
#[derive(Default)]
pub(super) struct Asks(HashMap<u64, u32>);

impl Asks {
    /// Whether a process that asks is to be looked at: at its first ask, its second, its fourth and so on. So all looks
    /// together cost no more than a few times the last one, however many files it asks for.
    fn is_due(&mut self, owner: u64) -> bool {
        let asks = self.0.entry(owner).or_default();
        *asks = asks.saturating_add(1);
        asks.is_power_of_two()
    }

    /// Whether nothing may wait: of the asker, or of anyone.
    pub(super) fn are_refused(&mut self, guard: &Guard, owner: (u64, u32), slot: u32) -> bool {
        let (id, pid) = owner;
        if self.is_due(id) {
            let watch = guard.lock_watch();
            self.0.retain(|id, _| watch.living.contains_key(id));
            drop(watch);
            if has_ring(pid) {
                let header = &guard.ledger.header;
                guard.ledger.slots[slot as usize].unseen.store(1, SeqCst);
                header.unseen.fetch_max(UNSEEN_SLOTS, SeqCst);
                header.why.fetch_or(Why::IoUring.bit(), SeqCst);
            }
        }
        guard.is_anyone_unseen()
    }
}

/// Whether a process has a descriptor of a ring.
fn has_ring(pid: u32) -> bool {
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    links.take(DESCRIPTORS_MAX).any(|link| is_ring(&link.path()))
}

fn is_ring(link: &Path) -> bool {
    std::fs::read_link(link).is_ok_and(|to| to.as_os_str().as_bytes() == RING)
}

impl Guard {
    /// Whether a process of the tree opens files out of sight. The slots of those that are dead are cleared.
    fn is_anyone_unseen(&self) -> bool {
        match self.ledger.header.unseen.load(SeqCst) {
            UNSEEN_NOBODY => return false,
            UNSEEN_FOR_GOOD => return true,
            _ => {}
        }
        let slots = self.ledger.slots.iter().enumerate().skip(1);
        let mut unseen = slots.filter(|(_, slot)| slot.unseen.load(SeqCst) != 0);
        unseen.any(|(index, slot)| {
            let pid = slot.pid.load(SeqCst);
            if pid == 0 {
                return false;
            }
            match self.look_at(index as u32, slot, pid) {
                Ok(_) => true,
                Err(error) if sys::is_shortage(&error) => true,
                Err(_) => {
                    // If it has left bytes it is watched, and they are seen to there.
                    let is_watched = self.lock_watch().of_slot.contains_key(&(index as u32));
                    if !is_watched {
                        self.clear_slot(slot, pid);
                    }
                    false
                }
            }
        })
    }
}

//! A look at the file that a process asks for, by the thread that answers. Where a server has to be asked about it (NFS,
//! FUSE), the reaper looks: that server may not answer.
//!
//! A copy of a description which a server has is closed by the reaper, too: the server is told of each close, and some
//! of them store the file then. Other handles are places alone, of which nobody is told.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::place::note_close;
use super::reapers::{Job, Waiter};
use super::refused::Refused;
use super::{Guard, Held};
use crate::sys::{self, Status};

/// So many file systems are known at once.
const KNOWN_MAX: usize = 256;

/// What a file system is known by. Others get the number of an anonymous device (major number 0) when it is unmounted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Known {
    Mount(u64),
    /// Before Linux 6.8, which tells no number of a mount that does not come again.
    Device(u64),
}

impl Known {
    fn of(handle: BorrowedFd<'_>, device: u64) -> Option<Known> {
        let has_own_number = libc::major(device) != 0;
        let mount = sys::mount_at_hand(handle.as_raw_fd()).map(Known::Mount);
        mount.or(has_own_number.then_some(Known::Device(device)))
    }
}

/// Whether a server has the files of a file system.
#[derive(Default)]
pub(super) struct Servers(Mutex<HashMap<Known, bool>>);

impl Servers {
    fn lock(&self) -> MutexGuard<'_, HashMap<Known, bool>> {
        // A panic ends the process, so nobody ever sees a poisoned lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, known: Option<Known>) -> Option<bool> {
        self.lock().get(&known?).copied()
    }

    fn keep(&self, known: Option<Known>, is_served: bool) {
        let mut all = self.lock();
        if all.len() >= KNOWN_MAX {
            all.clear();
        }
        known.map(|known| all.insert(known, is_served));
    }
}

impl Guard {
    /// What is behind the handle of an entry, which may be written.
    pub(super) fn look_at_file(&'static self, index: usize) -> Result<Status, Refused> {
        let held = &self.held[index];
        let asked = (index, held.device.load(SeqCst));
        let is_served = match self.servers.find(held.known()) {
            Some(is_served) => is_served,
            None => self.step(asked, move || {
                let is_served = held.handle().is_none_or(sys::is_served);
                // Also where nobody waits for it any more.
                self.servers.keep(held.known(), is_served);
                is_served
            })?,
        };
        held.is_served.store(is_served, SeqCst);
        match is_served {
            true => Ok(self.step(asked, move || held.look())??),
            false => Ok(held.look()?),
        }
    }

    /// Whether the reaper has to close what an entry holds, and is told so; the entry is asked for again after that.
    pub(super) fn is_closed_later(&self, index: usize) -> bool {
        let held = &self.held[index];
        let is_told = held.is_copy.load(SeqCst) && held.is_served.load(SeqCst);
        if !is_told || held.handle.load(SeqCst) == 0 || self.due_event.is_none() {
            return false;
        }
        if !self.reapers.is_hung(held.device.load(SeqCst), Waiter::Asked(index)) {
            let begins = || !held.is_closing.swap(true, SeqCst);
            let begins = self.reapers.unless_in_use(index, begins) == Some(true);
            self.hand_over(begins.then_some(Job::Close(index)).into_iter());
        }
        true
    }

    /// Closes what an entry holds, where that may take long.
    pub(super) fn close_late(&self, index: usize) {
        let held = &self.held[index];
        let device = held.device.load(SeqCst);
        if self.reapers.comes_later(device) {
            return self.put_off(Job::Close(index));
        }
        let is_entered = self.enter((Some(index), device), Waiter::Asked(index), || None);
        if is_entered {
            let handle = held.handle.swap(0, SeqCst);
            if handle != 0 {
                let closed = sys::close(sys::owned(handle - 1).into());
                note_close(&self.ledger.entries()[index], closed);
            }
        }
        held.is_closing.store(false, SeqCst);
        if is_entered && let Err(replaced) = self.leave() {
            self.let_go_on(device, replaced);
        }
        self.ask_again(index);
        self.poke();
    }
}

/// Opens a handle on the file of a descriptor.
pub(super) fn open_handle(pid: u32, fd: i32) -> Result<OwnedFd, Refused> {
    let link = PathBuf::from(format!("/proc/{pid}/fd/{fd}"));
    // The bits of the link are those of the description: what the program may not write, nobody
    // writes for it.
    if std::fs::symlink_metadata(&link)?.permissions().mode() & 0o200 == 0 {
        return Err(Refused::ForGood);
    }
    Ok(sys::open(&link, libc::O_PATH, 0)?)
}

impl Held {
    fn known(&self) -> Option<Known> {
        Known::of(self.handle()?, self.device.load(SeqCst))
    }

    /// Within a call of the reaper, where a server is asked: the handle is looked for only now.
    fn look(&self) -> io::Result<Status> {
        let handle = self.handle().ok_or(io::ErrorKind::NotFound)?;
        let status = sys::status(handle)?;
        // A copy is open for writing, whatever may be opened.
        if !self.is_copy.load(SeqCst) {
            sys::may_write(handle)?;
        }
        Ok(status)
    }
}

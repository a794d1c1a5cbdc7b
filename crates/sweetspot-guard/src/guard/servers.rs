//! A look at the file that a process asks for, by the thread that answers. Where a server has to be asked about it (NFS,
//! FUSE), the reaper looks: that server may not answer.
//!
//! A copy of a description is looked at by the thread that answers, and handles are closed by it: a server that does not
//! answer keeps it there.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Guard;
use super::handles::Refused;
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
    fn of(handle: &OwnedFd, device: u64) -> Option<Known> {
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
    /// What is behind a handle, which may be written.
    pub(super) fn look_at_file(
        &'static self,
        index: usize,
        handle: &OwnedFd,
        is_copy: bool,
    ) -> Result<Status, Refused> {
        if is_copy {
            // It is open for writing, whatever may be opened. To close another copy would tell of errors here.
            return Ok(sys::status(handle)?);
        }
        let device = sys::status_at_hand(handle.as_raw_fd())?.device;
        let (asked, known) = ((index, device), Known::of(handle, device));
        let is_served = match self.servers.find(known) {
            Some(is_served) => is_served,
            None => {
                let handle = handle.try_clone()?;
                self.step(asked, move || {
                    let is_served = sys::is_served(handle);
                    // Also where nobody waits for it any more.
                    self.servers.keep(known, is_served);
                    is_served
                })?
            }
        };
        if !is_served {
            return Ok(look(handle)?);
        }
        let handle = handle.try_clone()?;
        Ok(self.step(asked, move || look(&handle))??)
    }
}

fn look(handle: &OwnedFd) -> io::Result<Status> {
    let status = sys::status(handle)?;
    sys::may_write(handle)?;
    Ok(status)
}

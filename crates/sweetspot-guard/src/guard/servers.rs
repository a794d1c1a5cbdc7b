//! A look at the file that a process asks for, by the thread that answers. Where a server has to be asked about it (NFS,
//! FUSE), the reaper looks: that server may not answer.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::Guard;
use super::handles::Refused;
use crate::sys::{self, Status};

/// So many file systems are known at once.
const KNOWN_MAX: usize = 256;

/// By device: whether a server has its files.
#[derive(Default)]
pub(super) struct Servers(HashMap<u64, bool>);

impl Servers {
    /// What is behind a handle, which may be written.
    pub(super) fn look(
        &mut self,
        guard: &'static Guard,
        index: usize,
        handle: &OwnedFd,
        is_copy: bool,
    ) -> Result<Status, Refused> {
        if is_copy {
            // It is open for writing, whatever may be opened. To close another copy would tell of errors here.
            return Ok(sys::status(handle)?);
        }
        let device = sys::status_at_hand(handle.as_raw_fd())?.device;
        let asked = (index, device);
        if self.0.len() >= KNOWN_MAX {
            self.0.clear();
        }
        let is_served = match self.0.get(&device) {
            Some(is_served) => *is_served,
            None => {
                let handle = handle.try_clone()?;
                let is_served = guard.step(asked, move || sys::is_served(handle));
                *self.0.entry(device).or_insert(is_served.ok_or(Refused::Later)?)
            }
        };
        if !is_served {
            return Ok(look(handle)?);
        }
        let handle = handle.try_clone()?;
        Ok(guard.step(asked, move || look(&handle)).ok_or(Refused::Later)??)
    }
}

fn look(handle: &OwnedFd) -> io::Result<Status> {
    let status = sys::status(handle)?;
    sys::may_write(handle)?;
    Ok(status)
}

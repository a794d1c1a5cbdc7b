//! Standard input inside: the same file, seen through the overlay that covers it.
//!
//! A descriptor leads around every overlay. By `/dev/stdin`, or `fchmod`, a program could change the file
//! itself.

use crate::lay::said;
use crate::shown::shown;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat, StatVfsMountFlags};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

const OURS: &str = "/proc/self/fd/0";
/// The name of a copy, below the folder of the run.
const COPY: &str = "input";

/// A file that is our standard input.
pub struct Input {
    path: PathBuf,
    found: Stat,
    position: u64,
}

impl Input {
    /// Looks at it, before anything is mounted. `None`: it is no file.
    ///
    /// # Errors
    /// Where it cannot be looked at.
    pub fn look() -> Result<Option<Input>, String> {
        let failed = |errno: rustix::io::Errno| said("look at standard input", errno);
        let stdin = io::stdin();
        let found = match rustix::fs::fstat(&stdin) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile => found,
            Ok(_) | Err(rustix::io::Errno::BADF) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let path = fs::read_link(OURS).map_err(|error| said("look at standard input", error))?;
        let position = rustix::fs::tell(&stdin).map_err(failed)?;
        Ok(Some(Input { path, found, position }))
    }

    /// Puts in its place what its name means now. Where that is another file, or none, it is a copy in
    /// this folder.
    ///
    /// # Errors
    /// Where there is no room for one.
    pub fn replace(&self, folder: &Path) -> Result<(), String> {
        let own = match self.by_name() {
            Some(own) => own,
            None => self.copy(&folder.join(COPY))?,
        };
        rustix::fs::seek(&own, SeekFrom::Start(self.position))
            .and_then(|_| rustix::stdio::dup2_stdin(&own))
            .map_err(|errno| said("replace standard input", errno))
    }

    fn by_name(&self) -> Option<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let own = rustix::fs::open(&self.path, flags, Mode::empty()).ok()?;
        let found = rustix::fs::fstat(&own).ok()?;
        // An overlay has a device of its own, and may have numbers of its own for inodes. On a mount
        // that can only be read, opening it again is no way around that.
        let is_apart = found.st_dev != self.found.st_dev
            || rustix::fs::fstatvfs(&own)
                .is_ok_and(|disk| disk.f_flag.contains(StatVfsMountFlags::RDONLY));
        if !is_apart || identity(&found) != identity(&self.found) {
            return None;
        }
        rustix::fs::fcntl_setfl(&own, OFlags::empty()).ok()?;
        Some(own)
    }

    fn copy(&self, to: &Path) -> Result<OwnedFd, String> {
        fs::copy(OURS, to)
            .and_then(|_| File::open(to))
            .map(OwnedFd::from)
            .map_err(|error| said(&format!("copy standard input to {}", shown(to)), error))
    }
}

/// Size and times, which every way to the same file shows.
fn identity(found: &Stat) -> (i64, i64, u64, i64, u64) {
    (found.st_size, found.st_mtime, found.st_mtime_nsec, found.st_ctime, found.st_ctime_nsec)
}

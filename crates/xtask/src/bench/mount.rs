//! A FUSE mount for as long as a benchmark runs: a folder seen through bindfs, where each call is
//! a round trip to another process.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use sweetspot_lab::Error;

/// A mounted folder; taken down when dropped.
pub struct Mount {
    at: PathBuf,
}

impl Mount {
    /// Shows the folder `below` at the new folder `at`.
    pub fn new(below: &Path, at: &Path) -> Result<Self, Error> {
        fs::create_dir_all(at).map_err(Error::system("create", at))?;
        let output = Command::new("bindfs")
            .arg("--no-allow-other")
            .args([below, at])
            .stdin(Stdio::null())
            .output()
            .map_err(Error::system("start", "bindfs"))?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::Failed { program: "bindfs".to_owned(), reason });
        }
        Ok(Mount { at: at.to_owned() })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if !unmount(&self.at) {
            eprintln!("cannot unmount {}: try umount -l on it", self.at.display());
        }
    }
}

/// Takes a mount down with whichever program is there; lazily, since a process that is ending may
/// still be in the folder.
pub fn unmount(at: &Path) -> bool {
    const COMMANDS: [&[&str]; 3] =
        [&["fusermount3", "-u", "-z"], &["fusermount", "-u", "-z"], &["umount", "-l"]];
    COMMANDS.iter().any(|command| {
        let mut unmount = Command::new(command[0]);
        unmount.args(&command[1..]).arg(at).stderr(Stdio::null());
        unmount.status().is_ok_and(|status| status.success())
    })
}

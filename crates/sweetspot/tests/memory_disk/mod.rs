//! A small disk in memory, or one of another kind. Needs root to mount it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A mounted file system, unmounted when dropped.
pub struct Disk(pub PathBuf);

impl Disk {
    /// Mounts one of so many megabytes; none where that is not allowed.
    pub fn mount(folder: PathBuf, megabytes: u32) -> Option<Disk> {
        fs::create_dir_all(&folder).ok()?;
        let size = format!("size={megabytes}m");
        let mount = ["-t", "tmpfs", "-o", &size, "sweetspot-test"];
        let status = Command::new("mount").args(mount).arg(&folder).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success()).then_some(Disk(folder))
    }

    /// Mounts one on which a file ends at some 16 GiB, from an image beside it; none where that is not
    /// allowed.
    #[allow(dead_code, reason = "not every test that uses this file needs it")]
    pub fn mount_old(folder: PathBuf) -> Option<Disk> {
        let image = folder.with_extension("image");
        fs::create_dir_all(&folder).ok()?;
        fs::File::create(&image).ok()?.set_len(8 << 20).ok()?;
        let done = |command: &mut Command| {
            command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let made = done(Command::new("mkfs.ext2").args(["-q", "-b", "1024"]).arg(&image));
        let mount = || done(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&folder));
        (made && mount()).then_some(Disk(folder))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

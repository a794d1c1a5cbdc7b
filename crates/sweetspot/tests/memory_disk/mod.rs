//! A small disk in memory. Needs root to mount it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A mounted file system, unmounted when dropped.
pub struct Disk(pub PathBuf);

impl Disk {
    /// Mounts one of four megabytes; none where that is not allowed.
    pub fn mount(folder: PathBuf) -> Option<Disk> {
        Disk::of_size(folder, "4m")
    }

    /// Mounts one of another size, as mount(8) takes it.
    pub fn of_size(folder: PathBuf, size: &str) -> Option<Disk> {
        fs::create_dir_all(&folder).ok()?;
        let size = format!("size={size}");
        let mount = ["-t", "tmpfs", "-o", &size, "sweetspot-test"];
        let status = Command::new("mount").args(mount).arg(&folder).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success()).then_some(Disk(folder))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

//! What can only be read inside.

use super::{if_gone, said};
use crate::access::may;
use crate::mounts::{self, Mount, Plan};
use crate::shown::shown;
use rustix::fs::Access;
use rustix::mount::{MountFlags, mount_bind_recursive, mount_remount};
use std::fs;
use std::path::{Path, PathBuf};

/// Lets settings of the kernel only be read, and its file systems wherever else they are mounted. They
/// are the machine's, whatever namespace asks.
pub fn close_the_kernel() -> Result<(), String> {
    for file in mounts::SETTINGS.map(Path::new) {
        // A mount of its own can be closed by itself. Recursive: what is mounted below stays there.
        mount_bind_recursive(file, file)
            .map_err(Into::into)
            .or_else(if_gone)
            .map_err(|error| said(&format!("close {} to writing", shown(file)), error))?;
    }
    // What this user cannot even look at is closed to them already.
    let closes =
        |mount: &&Mount| mount.is_to_be_closed() && mount.folder.symlink_metadata().is_ok();
    mounts_here()?.iter().filter(closes).try_for_each(close)
}

/// What is mounted, as it is seen from here.
pub fn mounts_here() -> Result<Vec<Mount>, String> {
    let text = fs::read("/proc/self/mountinfo").map_err(|error| said("read mountinfo", error))?;
    Ok(mounts::read(&text))
}

/// Where.
pub fn mounted_here() -> Result<Vec<PathBuf>, String> {
    Ok(mounts_here()?.into_iter().map(|mount| mount.folder).collect())
}

/// Lets a mount only be read from now on. What was forbidden there stays forbidden: in a user
/// namespace the kernel insists on it.
pub fn close(mount: &Mount) -> Result<(), String> {
    const KEPT: [(&str, MountFlags); 6] = [
        ("nosuid", MountFlags::NOSUID),
        ("nodev", MountFlags::NODEV),
        ("noexec", MountFlags::NOEXEC),
        ("noatime", MountFlags::NOATIME),
        ("nodiratime", MountFlags::NODIRATIME),
        ("relatime", MountFlags::RELATIME),
    ];
    let kept = KEPT.iter().filter(|(name, _)| mount.options.iter().any(|option| option == name));
    // A device could be written all the same.
    let closed = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NODEV;
    let flags = kept.fold(closed, |all, (_, flag)| all | *flag);
    match mount_remount(&mount.folder, flags, "") {
        // Others unmounted it meanwhile.
        Err(_) if !mounted_here()?.contains(&mount.folder) => Ok(()),
        closed => closed
            .map_err(|errno| said(&format!("close {} to writing", shown(&mount.folder)), errno)),
    }
}

/// Lets a mount only be read.
pub fn close_whole(folder: &Path) -> Result<(), String> {
    mounts_here()?.iter().filter(|mount| mount.folder == folder).try_for_each(close)
}

/// Closes the mounts that root may not enter (another user's FUSE), as the command may become that user. What the kernel
/// refuses to close stays as it is.
pub fn close_what_is_not_entered(plan: &Plan) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let mounted = mounted_here()?;
    let closed = plan
        .overlays
        .iter()
        .filter(|folder| mounted.contains(folder) && !may(folder, Access::EXEC_OK));
    closed.for_each(|folder| drop(close_whole(folder)));
    Ok(())
}

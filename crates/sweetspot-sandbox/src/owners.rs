//! Which folders need an overlay of their own because of who owns them.
//!
//! In a user namespace of one's own only one user and one group exist. An overlay copies a folder
//! before anything is made in it, and cannot copy one that belongs to anybody else; but such a folder
//! can be the top of an overlay. So each folder in which the command is likely to write is the top of
//! one, unless all folders up to the next top belong to the user. A file that belongs to somebody
//! else cannot be copied at all, and that is said.
//!
//! Nothing of this concerns root, who needs no user namespace; but it does where root has lost the
//! right to mount, as in many containers.

use crate::access::may;
use rustix::fs::Access;
use rustix::process::{getegid, geteuid};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Names below the folders of a command that are looked at.
const NAMES_MAX: usize = 100_000;
/// Folders in which programs make temporary files.
const TEMPORARY: &[&str] = &["/tmp", "/var/tmp"];

/// What was found.
#[derive(Debug, Default)]
pub struct Owners {
    /// Folders that are the top of an overlay.
    pub tops: BTreeSet<PathBuf>,
    /// Files that the user may write, and that cannot be written in the sandbox.
    pub fixed: Vec<PathBuf>,
}

/// The folder in which a command runs, and those of its arguments; none lies below another.
///
/// # Errors
/// Where the current folder cannot be found.
pub fn folders_of(command: &[OsString]) -> std::io::Result<BTreeSet<PathBuf>> {
    let here = std::env::current_dir()?;
    let mut folders = BTreeSet::from([here.clone()]);
    for argument in command.iter().skip(1) {
        // `of=out.dat` and `--output=out.dat` name files, too.
        let after_equals = argument.as_bytes().splitn(2, |&byte| byte == b'=').nth(1);
        for text in [Some(argument.as_bytes()), after_equals].into_iter().flatten() {
            let path = here.join(OsStr::from_bytes(text));
            let folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
            let real = folder.and_then(|folder| folder.canonicalize().ok());
            let is_kernels = |folder: &Path| {
                ["/proc", "/sys", "/dev"].iter().any(|other| folder.starts_with(other))
            };
            // The whole system is nobody's work folder.
            folders.extend(real.filter(|real| real != Path::new("/") && !is_kernels(real)));
        }
    }
    let is_above = |folder: &Path| folder.ancestors().skip(1).any(|above| folders.contains(above));
    Ok(folders.iter().filter(|folder| !is_above(folder)).cloned().collect())
}

/// Looks at the folders of a command, and at those for temporary files.
///
/// # Errors
/// Where the current folder cannot be found.
pub fn look(command: &[OsString]) -> std::io::Result<Owners> {
    let mut owners = Owners::default();
    let may_mount = |sets: CapabilitySets| sets.effective.contains(CapabilitySet::SYS_ADMIN);
    if rustix::thread::capabilities(None).is_ok_and(may_mount) {
        return Ok(owners);
    }
    let variables = ["HOME", "TMPDIR"].map(|name| std::env::var_os(name).map(PathBuf::from));
    let folders = folders_of(command)?;
    let others = TEMPORARY.iter().map(PathBuf::from).chain(variables.into_iter().flatten());
    for folder in folders.iter().cloned().chain(others) {
        owners.tops.extend(top_over(&folder));
    }
    let mut left: Vec<PathBuf> = folders.into_iter().collect();
    let mut looked = 0;
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            looked += 1;
            let Ok(data) = entry.metadata() else { continue };
            if data.is_dir() && looked < NAMES_MAX {
                left.push(entry.path());
            }
            if !is_ours(&data) && may_write(&entry.path()) && !data.is_symlink() {
                if data.is_dir() {
                    owners.tops.insert(entry.path());
                } else {
                    owners.fixed.push(entry.path());
                }
            }
        }
    }
    Ok(owners)
}

/// The nearest folder from `folder` upwards that belongs to somebody else.
fn top_over(folder: &Path) -> Option<PathBuf> {
    let real = folder.canonicalize().ok().filter(|real| real.is_dir())?;
    let is_foreign = |above: &&Path| !above.metadata().is_ok_and(|data| is_ours(&data));
    real.ancestors().find(is_foreign).map(Path::to_owned).filter(|top| top != Path::new("/"))
}

fn is_ours(data: &Metadata) -> bool {
    data.uid() == geteuid().as_raw() && data.gid() == getegid().as_raw()
}

fn may_write(path: &Path) -> bool {
    may(path, Access::WRITE_OK)
}

//! Folders of the user's own: his caches, and what must outlive a run.

use crate::sys;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// What its owner can do with a folder.
const OWNER: u32 = 0o700;

/// Whether a path lies in a folder of this user's, or of root's, as far as it exists: what is made in that of somebody
/// else would keep him from making anything beside it. Root may have another user's `HOME`.
pub fn is_over(path: &Path) -> bool {
    let above = path.ancestors().find_map(|above| fs::metadata(above).ok());
    above.is_some_and(|above| is_trusted(&above))
}

/// Whether a file is this user's, or root's, who can do everything anyway. In a user namespace the real root, and
/// everyone else who is not mapped, appears as the overflow user.
pub fn is_trusted(file: &Metadata) -> bool {
    let owner = file.uid();
    [0, sys::effective_uid()].contains(&owner)
        || (is_overflow(owner).unwrap_or(false) && is_in_user_namespace())
}

fn is_overflow(owner: u32) -> io::Result<bool> {
    let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid")?;
    Ok(overflow.trim() == owner.to_string())
}

fn is_in_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    !map.is_empty() && map.split_whitespace().ne(["0", "0", "4294967295"])
}

/// Makes a folder, and those above it that are missing. Whatever the umask says, their owner can use them: other programs
/// will, too, and would find a `~/.cache` in which they cannot write.
///
/// # Errors
/// Those of the system calls.
pub fn make(folder: &Path, mode: u32) -> io::Result<()> {
    let make_one = || DirBuilder::new().mode(mode | OWNER).create(folder);
    let made = match (make_one(), folder.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
            make(parent, mode)?;
            make_one()
        }
        (made, _) => made,
    };
    match made {
        // By another process, perhaps just now.
        Err(_) if folder.is_dir() => return Ok(()),
        made => made?,
    }
    let found = fs::symlink_metadata(folder)?.mode();
    match found & OWNER {
        OWNER => Ok(()),
        _ => fs::set_permissions(folder, Permissions::from_mode((found | OWNER) & 0o7777)),
    }
}

//! Which other processes of the tree have a file open for writing, by whatever way they write.
//!
//! Such a process may write past every hook: by C's stdio before that is looked at, by asynchronous calls,
//! by stores through a mapping. What waited elsewhere would come over that, so it does not begin to wait.
//! Who opens the file later has what waits written first (rule D21).

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Guard;
use crate::sys::{self, Status};

/// So many descriptors are looked at for one answer; where there are more, one of them counts as such.
const DESCRIPTORS_MAX: usize = 4096;

impl Guard {
    /// Whether a process of the tree other than `owner` may write to a file; `but_adds`: otherwise than at
    /// its end. One that may not be looked at does not count.
    pub(super) fn is_written_by_others(&self, owner: u32, file: Status, but_adds: bool) -> bool {
        let mut room = DESCRIPTORS_MAX;
        let mut others = self.tree();
        others.retain(|pid| ![owner, std::process::id()].contains(pid));
        others.into_iter().any(|pid| writes(pid, file, but_adds, &mut room) || room == 0)
    }

    /// The processes of the tree. When the program that it began with is dead, nobody knows whose children
    /// they are: then all of the machine.
    fn tree(&self) -> HashSet<u32> {
        let mut found = HashSet::new();
        let mut left = Vec::new();
        let mut is_rooted = false;
        for (watched, _) in self.lock_watch().living.values() {
            is_rooted |= watched.slot == 0;
            left.push(watched.pid);
        }
        if !is_rooted {
            return names_in(Path::new("/proc")).filter_map(|name| number(&name)).collect();
        }
        while let Some(pid) = left.pop() {
            if found.insert(pid) {
                for thread in names_in(&PathBuf::from(format!("/proc/{pid}/task"))) {
                    let children = fs::read_to_string(thread.join("children")).unwrap_or_default();
                    left.extend(children.split_ascii_whitespace().flat_map(str::parse::<u32>));
                }
            }
        }
        found
    }
}

/// Whether a process has a file open for writing, or mapped so that its stores reach it.
fn writes(pid: u32, file: Status, but_adds: bool, room: &mut usize) -> bool {
    let descriptors = names_in(&PathBuf::from(format!("/proc/{pid}/fd")));
    let is_open = descriptors.take(*room).any(|link| {
        *room -= 1;
        // The bits of the link are those of the description.
        let is_it = |found: Status| (found.device, found.inode) == (file.device, file.inode);
        sys::status_behind(&link).is_ok_and(is_it)
            && fs::symlink_metadata(&link).is_ok_and(|link| link.permissions().mode() & 0o200 != 0)
            && !(but_adds && adds(pid, &link))
    });
    is_open || maps_to_write(pid, file.inode)
}

/// Whether a descriptor writes at the end of its file alone.
fn adds(pid: u32, link: &Path) -> bool {
    let info =
        PathBuf::from(format!("/proc/{pid}/fdinfo")).join(link.file_name().unwrap_or_default());
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_APPEND != 0)
}

/// The number of the device is not compared: some file systems show another one here.
fn maps_to_write(pid: u32, inode: u64) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let inode = inode.to_string();
    maps.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_written = fields.next().is_some_and(|bits| bits.contains('w') && bits.contains('s'));
        is_written && fields.nth(2) == Some(&inode)
    })
}

fn names_in(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn number(path: &Path) -> Option<u32> {
    path.file_name()?.to_str()?.parse().ok()
}

//! Which other processes of the tree have a file open for writing, by whatever way they write.
//!
//! Such a process may write past every hook: by C's stdio before that is looked at, by asynchronous calls,
//! by stores through a mapping. What waited elsewhere would come over that, so it does not begin to wait.
//! A process that opens the file later has what waits written first (rule D21).

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;

use sweetspot_core::environment::LEDGER;
use sweetspot_core::ledger::{Entry, STATE_ASKED, state_of};

use super::Guard;
use super::alone::{number_of, tables};
use crate::identity;
use crate::sys::{self, Status};

/// So many descriptors are looked at for one answer; where there are more, one of them counts as such.
const DESCRIPTORS_MAX: usize = 4096;

/// What is asked for.
pub(super) struct Asked<'a> {
    pub(super) owner: u32,
    pub(super) entry: &'a Entry,
    pub(super) file: Status,
    pub(super) handle: BorrowedFd<'a>,
    /// The handle is a copy of the asker's description, which others may have as well.
    pub(super) is_copy: bool,
    /// The asker writes at the end alone.
    pub(super) adds: bool,
}

/// Who may write to a file besides the asker. One that may not be looked at may have anything open.
#[derive(Default)]
pub(super) struct Writers {
    /// When the guard was started: nobody of the tree but the first process is older.
    begun: Option<u64>,
    /// Processes that are no part of the tree, though they are children of the guard's parent. One of another
    /// tree stays that until it ends.
    strangers: HashSet<u32>,
}

impl Writers {
    /// Whether a process of the tree other than the asker may write to the file it asks for; `None`: it does not
    /// ask any more.
    pub(super) fn any(&mut self, guard: &Guard, asked: &Asked<'_>) -> Option<bool> {
        let Asked { owner, file, entry, .. } = *asked;
        let openers = &guard.ledger.openers;
        let opener = entry.opener.load(SeqCst);
        // What came from outside was opened by nobody of the tree.
        let is_alone = openers.is_alone(file.device, file.inode, opener)
            || asked.is_copy && openers.is_unopened(file.device, file.inode);
        if is_alone {
            return Some(false);
        }
        openers.begin_look(file.device, file.inode);
        let mut room = DESCRIPTORS_MAX;
        let mut others = self.tree(guard);
        others.retain(|pid| ![owner, std::process::id()].contains(pid));
        for pid in others {
            // Nobody who waits for anything else is held up by all this: for a release, or for what is to be
            // written.
            guard.take_all();
            if state_of(entry.state.load(SeqCst)) != STATE_ASKED {
                return None;
            }
            if is_hidden(pid)
                || is_open(pid, asked, &mut room)
                || is_mapped(pid, file.inode, &guard.path)
                || room == 0
            {
                return Some(true);
            }
        }
        openers.settle(file.device, file.inode, opener);
        Some(false)
    }

    /// The processes of the tree: the descendants of those that live and are known, and of those whose parents
    /// have ended. They have become children of the process that the guard has become a child of.
    fn tree(&mut self, guard: &Guard) -> HashSet<u32> {
        let adopted: Vec<u32> = children(parent_id()).collect();
        let start_ticks = |pid| identity::process_stat(pid).ok().map(|stat| stat.start_ticks);
        let begun = *self.begun.get_or_insert_with(|| start_ticks(std::process::id()).unwrap_or(0));
        let is_younger = |pid| start_ticks(pid).is_some_and(|ticks| ticks >= begun);
        let ledger = sys::status(&guard.file).ok();
        let maps_it = |pid| ledger.is_some_and(|it| identity::maps_file(pid, it.device, it.inode));
        self.strangers.retain(|pid| adopted.contains(pid));
        let watch = guard.lock_watch();
        // The number of one that is dead may be another one's by now.
        let living = watch.living.values().filter(|(_, pidfd)| !sys::is_dead(pidfd.as_fd()));
        let mut left: Vec<u32> = living.map(|(watched, _)| watched.pid).collect();
        drop(watch);
        for pid in adopted {
            if self.strangers.contains(&pid) {
                continue;
            }
            // It may have written a title over its environment, or let nobody look at it.
            let is_told_otherwise =
                || maps_it(pid) || is_hidden(pid) && identity::is_of_this_user(pid);
            match (is_started_with(&guard.path, pid), is_younger(pid)) {
                (true, _) => left.push(pid),
                (false, true) if is_told_otherwise() => left.push(pid),
                // It may be about to map the ledger.
                (false, true) => {}
                (false, false) => drop(self.strangers.insert(pid)),
            }
        }
        let mut found = HashSet::new();
        while let Some(pid) = left.pop() {
            if found.insert(pid) {
                left.extend(children(pid));
            }
        }
        found
    }
}

/// Whether a process lives that may not be looked at, as it has asked for (`PR_SET_DUMPABLE`), or as it has other
/// rights than its user.
fn is_hidden(pid: u32) -> bool {
    let is_refused = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    // Its descriptors root may list even so, but not follow.
    sys::open_in_proc(&format!("{pid}/maps"), libc::O_RDONLY).is_err_and(is_refused)
        && identity::process_stat(pid).is_ok_and(|stat| !stat.is_zombie)
}

/// Whether a process was started with this ledger.
fn is_started_with(ledger: &Path, pid: u32) -> bool {
    let environment = identity::said_of_memory(pid, "environ");
    let is_it = |variable: &[u8]| {
        let value = variable.strip_prefix(LEDGER.as_bytes());
        value.and_then(|value| value.strip_prefix(b"=")) == Some(ledger.as_os_str().as_bytes())
    };
    environment.split(|byte| *byte == 0).any(is_it)
}

fn children(pid: u32) -> impl Iterator<Item = u32> {
    let threads = names_in(&PathBuf::from(format!("/proc/{pid}/task")));
    threads.flat_map(|thread| {
        let children = fs::read_to_string(thread.join("children")).unwrap_or_default();
        let pids = children.split_ascii_whitespace().flat_map(str::parse);
        pids.collect::<Vec<u32>>()
    })
}

/// Whether a process has a file open for writing, by another description.
fn is_open(pid: u32, asked: &Asked<'_>, room: &mut usize) -> bool {
    let file = asked.file;
    let tables = tables(pid).filter_map(|table| Some((number_of(&table)?, table)));
    let mut descriptors = tables
        .flat_map(|(holder, table)| names_in(&table.join("fd")).map(move |link| (holder, link)));
    descriptors.by_ref().take(*room).any(|(holder, link)| {
        *room -= 1;
        // The bits of the link are those of the description.
        let is_it = |found: Status| (found.device, found.inode) == (file.device, file.inode);
        sys::status_behind(&link).is_ok_and(is_it)
            && fs::symlink_metadata(&link).is_ok_and(|link| link.permissions().mode() & 0o200 != 0)
            && !(asked.adds && adds(&link))
            && !(asked.is_copy && is_same_description(holder, &link, asked.handle))
    })
}

/// Whether a descriptor of another process has the description that this one's has.
fn is_same_description(pid: u32, link: &Path, own: BorrowedFd<'_>) -> bool {
    let fd = link.file_name().and_then(|name| name.to_str()?.parse().ok());
    let own = (std::process::id(), own.as_raw_fd());
    fd.is_some_and(|fd| sys::is_same_description((pid, fd), own).unwrap_or(false))
}

/// Whether a descriptor writes at the end of its file alone.
fn adds(link: &Path) -> bool {
    let table = link.ancestors().nth(2).unwrap_or(link);
    let info = table.join("fdinfo").join(link.file_name().unwrap_or_default());
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & libc::O_APPEND != 0)
}

/// Whether stores of a process to a mapping reach a file, or may do so later: one that it only reads may yet be made
/// writable. The number of the device is not compared: some file systems show another one here. So another file with
/// this number counts as well, but for the ledger.
fn is_mapped(pid: u32, inode: u64, ledger: &Path) -> bool {
    let maps = identity::said_of_memory(pid, "maps");
    let inode = inode.to_string();
    maps.split(|byte| *byte == b'\n').any(|line| {
        let mut fields =
            line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).skip(1);
        fields.next().is_some_and(|bits| bits.contains(&b's'))
            && fields.nth(2) == Some(inode.as_bytes())
            && fields.next() != Some(ledger.as_os_str().as_bytes())
    })
}

fn names_in(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

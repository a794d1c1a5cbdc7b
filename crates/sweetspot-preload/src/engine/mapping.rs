//! Files that are mapped into memory, and memory that others may share: from then on a store may be a
//! release point, and a load an acquire point, that no call shows (`unseen`).
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sweetspot_core::why::Why;

use super::children::passive;
use super::life::incomplete;
use super::process::acquire_point;
use super::{inodes, observe, quiesce, release_point, table, unseen};
use crate::floor::{proc, sys};

/// Before memory is mapped: from then on calls on the file pass through, and stores to memory that
/// other processes can map are release points that are not seen. The answer is as of
/// [`super::life::hand_over_content`].
pub fn mapping(fd: i32, protection: i32, flags: i32) -> Option<i32> {
    prepare_mapping(fd, protection, flags);
    if flags & libc::MAP_ANONYMOUS == 0 { incomplete(fd) } else { None }
}

/// After memory was mapped: a file in it shows what others have written.
pub fn mapped(flags: i32) {
    if flags & libc::MAP_ANONYMOUS == 0 && !passive() {
        acquire_point();
    }
}

/// Whether a file was mapped by a call that was seen: its map keeps the description open, and so the
/// locks on it.
#[unsafe(link_section = ".data")]
static MAPPED: AtomicBool = AtomicBool::new(false);

/// Before memory is unmapped, or mapped over: that may be the end of a description that was closed.
pub fn unmapping() {
    if MAPPED.load(Relaxed) && !passive() {
        release_point();
    }
}

fn prepare_mapping(fd: i32, protection: i32, flags: i32) {
    match flags & libc::MAP_ANONYMOUS {
        0 => MAPPED.store(true, Relaxed),
        _ if flags & libc::MAP_FIXED != 0 => unmapping(),
        _ => {}
    }
    let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    let writable = protection & libc::PROT_WRITE != 0;
    if flags & libc::MAP_ANONYMOUS != 0 {
        if shared {
            unseen::shares_with_children();
        }
        return;
    }
    if passive() && !observe::is_on() {
        return;
    }
    let Some(status) = sys::status(fd) else { return };
    if !status.regular {
        match status.mode & libc::S_IFMT {
            _ if !shared => {}
            // Those that are mapped (/dev/zero, graphics, networks) are the process' own, or its children's.
            libc::S_IFCHR => unseen::shares_with_children(),
            // Disks, maps and rings of the kernel's, which others may have open.
            _ => unseen::syncs(),
        }
        return;
    }
    if observe::is_on() {
        observe::mapped(fd);
    } else {
        quiesce_mapped(fd, &status);
    }
    if shared {
        match news_through(fd, &status) {
            News::None => {}
            News::Incoming => unseen::acquires(),
            News::Both if writable => unseen::syncs(),
            News::Both => {
                unseen::acquires();
                // It may yet be made writable.
                SHARED_READ_ONLY.store(true, Relaxed);
            }
        }
    }
}

/// Before a library is loaded by its path, which the loader maps.
///
/// # Safety
/// As of `fstatat`: a bad address is an error.
pub unsafe fn loading(path: *const core::ffi::c_char) {
    if passive() {
        return;
    }
    // SAFETY: as the caller says.
    if let Some(status) = unsafe { sys::status_at(libc::AT_FDCWD, path, 0) } {
        quiesce_mapped(NONE, &status);
    }
}

/// No descriptor.
const NONE: i32 = -1;

/// A file is about to be mapped: no descriptor of it is buffered any more.
fn quiesce_mapped(fd: i32, status: &sys::Status) {
    release_point();
    inodes::mapped(status.device, status.inode);
    for other in table::all() {
        quiesce::wait_for_transition(other);
        let same = table::open_file(other).is_some_and(|(file, _)| {
            file.device.load(Relaxed) == status.device && file.inode.load(Relaxed) == status.inode
        });
        if same || other == fd {
            quiesce::quiesce(other, quiesce::Next::PassThrough(Why::Mapped));
        }
    }
}

/// Whether a file that others can have was mapped shared and not writable.
#[unsafe(link_section = ".data")]
static SHARED_READ_ONLY: AtomicBool = AtomicBool::new(false);

/// Before the protection of memory changes.
pub fn protecting(protection: i32) {
    if protection & libc::PROT_WRITE != 0 && SHARED_READ_ONLY.load(Relaxed) {
        unseen::syncs();
    }
}

/// What can pass through a shared mapping without a call. That a file has no name (any more) does not
/// help: another process may have it open, or have it handed on or sent, or find it in /proc.
enum News {
    /// It carries no message.
    None,
    /// Others may write there what is read here.
    Incoming,
    /// And the other way round.
    Both,
}

/// Parts of the paths of files that are mapped and carry no message: the JVM's performance counters,
/// its modules and classes; memory that the JVM and .NET map twice.
const NO_MESSAGE: [&[u8]; 3] = [b"/hsperfdata_", b"/memfd:java_heap", b"/memfd:doublemapper"];

/// The same for the ends of their paths.
const NO_MESSAGE_ENDS: [&[u8]; 2] = [b"/lib/modules", b".jsa"];

/// Where a system keeps the files that are its own.
const OF_THE_SYSTEM: [&[u8]; 3] = [b"/usr/", b"/lib", b"/opt/"];

fn news_through(fd: i32, status: &sys::Status) -> News {
    let mut path = [0; 512];
    let path = proc::path_of(fd, &mut path);
    let is_writable =
        sys::open_flags(fd).is_some_and(|flags| flags & libc::O_ACCMODE == libc::O_RDWR);
    if NO_MESSAGE.iter().any(|name| path.windows(name.len()).any(|window| window == *name))
        || !is_writable && NO_MESSAGE_ENDS.iter().any(|name| path.ends_with(name))
    {
        return News::None;
    }
    match is_writable {
        true => News::Both,
        false if may_be_written(path, status) => News::Incoming,
        false => News::None,
    }
}

/// Whether somebody may write to a file that is only read here. Root may always. Files that only root
/// may write, and the files of the system, are taken to carry no messages.
fn may_be_written(path: &[u8], status: &sys::Status) -> bool {
    const BY_ANYBODY: u32 = 0o222;
    const BY_OTHERS_THAN_OWNER: u32 = 0o022;
    if status.mode & BY_ANYBODY == 0 {
        return false;
    }
    let by_root_alone = status.owner == 0 && status.mode & BY_OTHERS_THAN_OWNER == 0;
    let of_the_system = || OF_THE_SYSTEM.iter().any(|folder| path.starts_with(folder));
    !by_root_alone || sys::effective_user() == 0 && !of_the_system()
}

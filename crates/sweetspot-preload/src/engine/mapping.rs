//! Files that are mapped into memory, and memory that others may share: from then on a store may be a
//! release point, and a load an acquire point, that no call shows (`unseen`).
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sweetspot_core::why::Why;

use super::changes::{self, mapping_shared};
use super::file::OpenFile;
use super::life::incomplete;
use super::process::acquire_point;
use super::spawns::{self, passive};
use super::{concerns, copied_up, file, inodes, quiesce, release_point, table, unseen};
use crate::floor::proc;
use crate::floor::sys::{self, Status};

/// What a mapping that is about to be made means.
pub struct Meaning {
    /// The regular file that is mapped.
    pub file: Option<Status>,
    news: News,
}

impl Meaning {
    /// Whether stores and loads there will be release and acquire points that no call shows.
    pub fn syncs(&self) -> bool {
        self.news == News::Both
    }

    /// Whether loads there will be acquire points that no call shows.
    pub fn acquires(&self) -> bool {
        self.news == News::Incoming
    }
}

/// Asks that, and keeps in mind what only a later fork or protection makes matter.
pub fn meaning_of(fd: i32, protection: i32, flags: i32) -> Meaning {
    let of_no_file = |news| Meaning { file: None, news };
    let is_shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    if flags & libc::MAP_ANONYMOUS != 0 {
        if is_shared {
            unseen::shares_with_children();
        }
        return of_no_file(News::None);
    }
    let Some(status) = sys::status(fd) else { return of_no_file(News::None) };
    if !status.regular {
        return of_no_file(match status.mode & libc::S_IFMT {
            _ if !is_shared => News::None,
            // Those that are mapped (/dev/zero, graphics, networks) are the process' own, or its children's.
            libc::S_IFCHR => {
                unseen::shares_with_children();
                News::None
            }
            // Disks, maps and rings of the kernel's, which others may have open.
            _ => News::Both,
        });
    }
    let news = match is_shared {
        false => News::None,
        true => match news_through(fd, &status) {
            News::Both if protection & libc::PROT_WRITE == 0 => {
                // It may yet be made writable.
                SHARED_READ_ONLY.store(true, Relaxed);
                News::Incoming
            }
            news => news,
        },
    };
    Meaning { file: Some(status), news }
}

/// Before memory is mapped: from then on calls on the file pass through, and stores to memory that
/// other processes can map are release points that are not seen. The answer is as of
/// [`super::life::hand_over_content`].
pub fn mapping(fd: i32, protection: i32, flags: i32) -> Option<i32> {
    let is_anonymous = flags & libc::MAP_ANONYMOUS != 0;
    if !is_anonymous {
        changes::reading(fd);
        if flags & libc::MAP_TYPE != libc::MAP_PRIVATE {
            mapping_shared(fd);
        }
    }
    match is_anonymous {
        false => MAPPED.store(true, Relaxed),
        true if flags & libc::MAP_FIXED != 0 => unmapping(),
        true => {}
    }
    if !is_anonymous || flags & libc::MAP_TYPE != libc::MAP_PRIVATE {
        spawns::leave_behind();
    }
    if is_anonymous || !passive() {
        let meaning = meaning_of(fd, protection, flags);
        if let Some(status) = &meaning.file {
            quiesce_all(fd, status, Why::Mapped);
        }
        match meaning.news {
            News::None => {}
            News::Incoming => unseen::acquires(),
            News::Both => unseen::syncs(),
        }
    }
    if is_anonymous { None } else { incomplete(fd) }
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
        quiesce_all(NONE, &status, Why::Mapped);
    }
}

/// Before a library is loaded that may make calls of its own, which are not seen, or need another one that does: no file
/// is buffered until it has earned that again. Before that it is known what was loaded.
pub fn library_comes() {
    if passive() {
        return;
    }
    for fd in table::all() {
        if file::open_file(fd).is_some_and(|(file, _)| file.is_buffered()) {
            quiesce::quiesce(fd, quiesce::Next::Learn);
        }
    }
}

/// No descriptor.
const NONE: i32 = -1;

/// The kernel, or libc, is about to read or write a file when it pleases, while the program goes on.
pub fn used_later(fd: i32) {
    if !passive()
        && let Some(status) = sys::status(fd).filter(|status| status.regular)
        && !is_done(&status)
    {
        quiesce_all(fd, &status, Why::SpecialUse);
    }
}

/// Whether a file gets no buffer any more, and no description of it has one: a server sends the same file again and again,
/// and may have thousands of descriptors.
fn is_done(status: &Status) -> bool {
    inodes::is_mapped(status.device, status.inode)
        && !file::used().any(|file| file.is_buffered() && is_of(file, status))
}

fn is_of(file: &OpenFile, status: &Status) -> bool {
    file.device.load(Relaxed) == status.device && file.inode.load(Relaxed) == status.inode
}

/// Bytes are about to be moved between two descriptors. Where one of them is no file, that takes as long as somebody
/// else likes, and other threads, or handlers, go on with the file.
pub fn moving(one: i32, other: i32) {
    if passive() || !concerns::is_concurrent() {
        return;
    }
    let is_file = |fd: i32| sys::status(fd).is_some_and(|status| status.regular);
    match [one, other].map(is_file) {
        [true, false] => used_later(one),
        [false, true] => used_later(other),
        _ => {}
    }
}

/// A file is about to be used without a call that is seen: no descriptor of it is buffered any more.
fn quiesce_all(fd: i32, status: &Status, why: Why) {
    release_point();
    inodes::mapped(status.device, status.inode);
    copied_up::mapping(status);
    for other in table::all() {
        quiesce::wait_for_transition(other);
        let same = file::open_file(other).is_some_and(|(file, _)| is_of(file, status));
        if same || other == fd {
            quiesce::quiesce(other, quiesce::Next::PassThrough(why));
        }
    }
}

/// Whether a file that others can have was mapped shared and not writable.
#[unsafe(link_section = ".data")]
static SHARED_READ_ONLY: AtomicBool = AtomicBool::new(false);

/// Whether memory that gets this protection may be such a file's, which is written from now on.
pub fn begins_to_sync(protection: i32) -> bool {
    protection & libc::PROT_WRITE != 0 && SHARED_READ_ONLY.load(Relaxed)
}

/// What can pass through a shared mapping without a call. That a file has no name (any more) does not
/// help: another process may have it open, or have it handed on or sent, or find it in /proc.
#[derive(Clone, Copy, PartialEq, Eq)]
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
const OF_THE_SYSTEM: [&[u8]; 6] =
    [b"/usr/", b"/opt/", b"/lib/", b"/lib32/", b"/lib64/", b"/libx32/"];

fn news_through(fd: i32, status: &Status) -> News {
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
fn may_be_written(path: &[u8], status: &Status) -> bool {
    const BY_ANYBODY: u32 = 0o222;
    const BY_OTHERS_THAN_OWNER: u32 = 0o022;
    if status.mode & BY_ANYBODY == 0 {
        return false;
    }
    let by_root_alone = status.owner == 0 && status.mode & BY_OTHERS_THAN_OWNER == 0;
    let of_the_system = || OF_THE_SYSTEM.iter().any(|folder| path.starts_with(folder));
    !by_root_alone || sys::effective_user() == 0 && !of_the_system()
}

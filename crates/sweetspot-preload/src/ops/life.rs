//! The life of descriptors: opened, duplicated, closed, handed on.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sweetspot_core::learning::Learning;
use sweetspot_core::why::Why;

use super::{inodes, observe, process, settle, speak, transition, write};
use crate::file::{self, OpenFile};
use crate::process::{SignalsBlocked, listen, passive};
use crate::{concerns, sys, table};

/// A descriptor was opened by path, with these open flags. `fd` may be an error.
pub fn opened(fd: i32, flags: i32) {
    if fd < 0 {
        return;
    }
    if passive() {
        observe::made(fd);
        return;
    }
    forget(fd);
    table::opened(fd, close_on_exec(flags));
    listen();
}

fn close_on_exec(flags: i32) -> u64 {
    if flags & libc::O_CLOEXEC != 0 { Learning::CLOSE_ON_EXEC } else { 0 }
}

/// The same after a call that nothing concerned; returns the descriptor.
#[inline(always)]
pub fn opened_alone(fd: i32, flags: i32) -> i32 {
    listen();
    if concerns::any() || !is_plain(fd) {
        return opened_after_all(fd, flags);
    }
    table::opened(fd, close_on_exec(flags));
    fd
}

#[inline(never)]
extern "C" fn opened_after_all(fd: i32, flags: i32) -> i32 {
    opened(fd, flags);
    fd
}

/// Whether nothing is kept for a descriptor but its word.
#[inline(always)]
fn is_plain(fd: i32) -> bool {
    table::word(fd).is_some_and(|word| !table::is_open(word.load(Relaxed)))
        && crate::process::stdio() != crate::process::STDIO_BY_RULE
}

/// A descriptor was made that is no file opened by path: it is never buffered.
pub fn made(fd: i32) {
    if fd < 0 {
        return;
    }
    if passive() {
        observe::made(fd);
        return;
    }
    forget(fd);
    table::set(fd, table::OTHER);
    listen();
}

/// A descriptor was taken from another process by one of it; it is never buffered.
pub fn fetched(pidfd: i32, fd: i32) {
    made(fd);
    super::deaths::descriptor_made();
    if fd >= 0 && !crate::process::under_seccomp() && !process::is_spawned_child() {
        crate::others::fetched(pidfd, fd);
    }
}

/// Whether the position of a descriptor may be ours.
pub fn is_followed(fd: i32) -> bool {
    !passive() && table::open_file(fd).is_some()
}

/// Descriptors were made and written to where `list` points, which the kernel has just done.
pub fn made_several(list: *const i32, count: usize) {
    for index in 0..count {
        // SAFETY: the call that wrote there has succeeded.
        made(unsafe { *list.add(index) });
    }
}

/// A call that is not followed gave a small number, which may be a new descriptor.
pub fn perhaps_made(fd: i32) {
    if fd < 0 {
        return;
    }
    if passive() {
        observe::made(fd);
    } else {
        settle::settle(fd, settle::Next::Learn);
        forget(fd);
    }
}

/// Before a stream is closed: libc still writes what it holds, at the kernel's offset.
pub fn stream_closing(fd: i32) {
    if fd >= 0 && !passive() {
        speak();
        settle::settle(fd, settle::Next::Learn);
        forget(fd);
    }
}

/// Before `close_range`: the descriptors end, or are closed at exec from now on. That may yet fail,
/// so the kernel knows all positions first.
pub fn range(first: u32, last: u32, flags: u32) {
    if passive() || first > last {
        observe::range_closed(first, last, flags);
        return;
    }
    if flags & libc::CLOSE_RANGE_UNSHARE != 0 {
        // Other threads keep what this one closes.
        process::end_because(Why::Shared);
        return;
    }
    speak();
    for fd in table::all().filter(|fd| (first..=last).contains(&(*fd as u32))) {
        if flags & libc::CLOSE_RANGE_CLOEXEC == 0 {
            settle::settle(fd, settle::Next::Learn);
            forget(fd);
        }
    }
}

/// Before a descriptor is closed: what was kept for it ends.
///
/// Returns the error with which the close is to fail (after it was done), or 0: what was written
/// before cannot be brought to the file.
pub fn closing(fd: i32) -> i32 {
    if passive() {
        observe::closed(fd);
        return 0;
    }
    speak();
    let failed = write::failing_descriptor(fd).unwrap_or(0);
    forget(fd);
    failed
}

/// The same where nothing concerns it and nothing is kept: false, if that is not so.
#[inline(always)]
pub fn closes_alone(fd: i32) -> bool {
    let is_alone = !concerns::any() && is_plain(fd);
    if is_alone && let Some(word) = table::word(fd) {
        word.store(table::UNKNOWN, Relaxed);
    }
    is_alone
}

/// Ends what is known of a descriptor, whose number may now mean something else.
pub fn forget(fd: i32) {
    let Some(word) = table::word(fd) else { return };
    if crate::process::stdio() == crate::process::STDIO_BY_RULE
        && let Some(known) = table::stdio(fd)
    {
        known.store(0, Relaxed);
    }
    if table::tag(word.load(Relaxed)) != table::OPEN {
        word.store(table::UNKNOWN, Relaxed);
        return;
    }
    // In order with what other files have pending; what is pending after this cannot be written.
    speak();
    let _signals = SignalsBlocked::new();
    let _dirty = write::hold_dirty();
    let registry = file::hold_registry();
    let Some((file, open)) = table::open_file(fd) else { return };
    word.store(table::UNKNOWN, Relaxed);
    if file.references.fetch_sub(1, Relaxed) > 1 {
        if file.fd.load(Relaxed) == fd
            && let Some(other) = table::all()
                .find(|other| table::open_file(*other).is_some_and(|(_, word)| word == open))
        {
            file.fd.store(other, Relaxed);
            // The guard, too, looks for it there.
            file.entry().into_iter().for_each(|entry| entry.fd.store(other, Relaxed));
        }
        return;
    }
    let held = file.hold();
    if held.nested {
        // A handler closes the file to which the interrupted frame is appending: that goes on with
        // the record and the chunk, so neither is used again.
        return;
    }
    write::settle_held(file, &held);
    write::take_off(file);
    file.close_cursor();
    file.drop_window(&held);
    write::unpin(file);
    drop(held);
    file.free(&registry);
}

/// Before a descriptor is duplicated: both will share one open file.
pub fn duplicating(fd: i32) {
    if !passive() {
        let _signals = SignalsBlocked::new();
        let registry = file::hold_registry();
        transition::make_known(fd, &registry);
    }
}

/// Before a descriptor may be replaced by a duplicate (or not, if that fails): the kernel knows its
/// position.
pub fn may_be_replaced(fd: i32) {
    if !passive() {
        speak();
        settle::settle(fd, settle::Next::Learn);
    }
}

/// `new` is now a duplicate of `old`.
pub fn duplicated(old: i32, new: i32) {
    if new < 0 || old == new {
        return;
    }
    if passive() {
        kept_by_child(old);
        observe::duplicated(old, new);
        return;
    }
    if table::word(new).is_none() {
        // Nobody knows the number yet; whoever uses it later is not seen to use the same position.
        special_use(old, Why::Shared);
        return;
    }
    forget(new);
    let _signals = SignalsBlocked::new();
    let _registry = file::hold_registry();
    match table::open_file(old) {
        Some((file, word)) => {
            file.references.fetch_add(1, Relaxed);
            // The duplicate may outlive an exec, whatever holds for the first.
            survives_exec(file);
            table::set(new, word);
        }
        None => {
            let word = table::word(old).map_or(table::UNKNOWN, |word| word.load(Relaxed));
            // A word that is still learning is never shared: then nothing is known of both.
            let shared = if table::tag(word) == table::LEARNING { table::STRAIGHT } else { word };
            table::set(old, shared);
            table::set(new, shared);
        }
    }
}

/// Close-on-exec was set or cleared.
pub fn set_close_on_exec(fd: i32, flags: i32) {
    let closed = flags & libc::FD_CLOEXEC != 0;
    if passive() {
        if !closed {
            kept_by_child(fd);
        }
        observe::set_close_on_exec(fd, flags);
        return;
    }
    if let Some((file, _)) = table::open_file(fd) {
        // Set for one of several descriptors, it says nothing about the others.
        if !closed {
            survives_exec(file);
        }
        return;
    }
    let Some(word) = table::word(fd) else { return };
    let value = word.load(Relaxed);
    if table::is_learning(value) {
        let learning = Learning(value);
        let next = match closed {
            false => learning.without(Learning::CLOSE_ON_EXEC),
            true => learning.with(Learning::CLOSE_ON_EXEC),
        };
        crate::atomic::swap(word, value, next.0);
    }
}

/// Some descriptor of an open file is not closed at exec: a new program will share its offset.
fn survives_exec(file: &OpenFile) {
    for word in [&file.learned, &file.state] {
        loop {
            let value = word.load(Relaxed);
            let with = Learning(value).has(Learning::CLOSE_ON_EXEC);
            if table::tag(value) != table::LEARNING || !with {
                break;
            }
            let without = Learning(value).without(Learning::CLOSE_ON_EXEC);
            if crate::atomic::swap(word, value, without.0) {
                break;
            }
        }
    }
}

/// The child of a vfork duplicated a descriptor or let it survive the exec: then the parent shares
/// it for good, though it was to be closed. The child's descriptor means the same open file.
fn kept_by_child(fd: i32) {
    let was_shared = table::open_file(fd).is_some_and(|(file, _)| file.is_from_outside());
    if process::is_spawned_child() && !was_shared {
        settle::settle(fd, settle::Next::Straight(Why::Shared));
    }
}

/// Before memory is mapped: a file goes straight on from then, and memory that other processes can
/// write is a way to speak that nobody sees. The answer is as of [`hand_over_content`].
pub fn mapping(fd: i32, protection: i32, flags: i32) -> Option<i32> {
    prepare_mapping(fd, protection, flags);
    if flags & libc::MAP_ANONYMOUS == 0 { incomplete(fd) } else { None }
}

fn prepare_mapping(fd: i32, protection: i32, flags: i32) {
    let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    let writable = protection & libc::PROT_WRITE != 0;
    if flags & libc::MAP_ANONYMOUS != 0 {
        if shared {
            process::shares_with_children();
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
            libc::S_IFCHR | libc::S_IFBLK => process::shares_with_children(),
            // Maps and rings of the kernel's, which others may have open.
            _ => process::agrees_silently(),
        }
        return;
    }
    if observe::is_on() {
        observe::mapped(fd);
    } else {
        settle_mapped(fd, &status);
    }
    if shared {
        match news_through(fd, &status) {
            News::None => {}
            News::Heard => process::hears_silently(),
            News::Both if writable => process::agrees_silently(),
            News::Both => {
                process::hears_silently();
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
        settle_mapped(NONE, &status);
    }
}

/// No descriptor.
const NONE: i32 = -1;

/// A file is about to be mapped: no descriptor of it is buffered any more.
fn settle_mapped(fd: i32, status: &sys::Status) {
    speak();
    inodes::mapped(status.device, status.inode);
    for other in table::all() {
        settle::wait_for_transition(other);
        let same = table::open_file(other).is_some_and(|(file, _)| {
            file.device.load(Relaxed) == status.device && file.inode.load(Relaxed) == status.inode
        });
        if same || other == fd {
            settle::settle(other, settle::Next::Straight(Why::Mapped));
        }
    }
}

/// Whether a file that others can have was mapped shared and not writable.
#[unsafe(link_section = ".data")]
static SHARED_READ_ONLY: AtomicBool = AtomicBool::new(false);

/// Before the protection of memory changes.
pub fn protecting(protection: i32) {
    if protection & libc::PROT_WRITE != 0 && SHARED_READ_ONLY.load(Relaxed) {
        process::agrees_silently();
    }
}

/// What can pass through a shared mapping without a call. That a file has no name (any more) does not
/// help: another process may have it open, or have it handed on or sent, or find it in /proc.
enum News {
    /// It carries no message.
    None,
    /// Others may write there what is read here.
    Heard,
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
    let path = crate::ledger::path_of(fd, &mut path);
    let is_writable =
        sys::open_flags(fd).is_some_and(|flags| flags & libc::O_ACCMODE == libc::O_RDWR);
    if NO_MESSAGE.iter().any(|name| path.windows(name.len()).any(|window| window == *name))
        || !is_writable && NO_MESSAGE_ENDS.iter().any(|name| path.ends_with(name))
    {
        return News::None;
    }
    match is_writable {
        true => News::Both,
        false if may_be_written(path, status) => News::Heard,
        false => News::None,
    }
}

/// Whether somebody may write to a file that is only read here. Root may always; of what only root may
/// write, and of the files of the system, it is taken that nobody speaks through them.
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

/// Before the rights on a file change, by descriptor: the guard gives its handle back, for it may not
/// be able to write there afterwards.
pub fn rights_changing(fd: i32) {
    if !passive()
        && crate::pins::has_slot()
        && let Some(status) = sys::status(fd)
    {
        give_handles_back(&status);
    }
}

/// The same by path.
///
/// # Safety
/// As of `fstatat`: a bad address is an error.
pub unsafe fn rights_changing_at(folder: i32, path: *const core::ffi::c_char, flags: i32) {
    if passive() || !crate::pins::has_slot() {
        return;
    }
    let flags = flags & (libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH);
    // SAFETY: as the caller says.
    if let Some(status) = unsafe { sys::status_at(folder, path, flags) } {
        give_handles_back(&status);
    }
}

fn give_handles_back(of: &sys::Status) {
    for fd in table::all() {
        let Some((file, _)) = table::open_file(fd) else { continue };
        let inode = (file.device.load(Relaxed), file.inode.load(Relaxed));
        if inode == (of.device, of.inode) {
            write::give_handle_back(fd, file);
        }
    }
}

/// The descriptor is about to be used in a way that is not followed: straight on for good.
pub fn special_use(fd: i32, why: Why) {
    if passive() {
        observe::special_use(fd, why);
        return;
    }
    speak();
    settle::settle(fd, settle::Next::Straight(why));
}

/// The kernel is about to use the descriptor's offset, or its content, behind our back.
pub fn hand_over(fd: i32) {
    if passive() {
        observe::handed_over(fd);
        return;
    }
    speak();
    settle::settle(fd, settle::Next::Learn);
}

/// The same for a call by which the kernel uses what the file holds. If that is not what was written to
/// it, and cannot be, the call fails with this error, as a read does.
pub fn hand_over_content(fd: i32) -> Option<i32> {
    hand_over(fd);
    incomplete(fd)
}

fn incomplete(fd: i32) -> Option<i32> {
    if passive() { None } else { write::failing_descriptor(fd) }
}

/// Bytes were moved inside the kernel, from one descriptor to another.
pub fn transferred(from: i32, to: i32, answer: isize) {
    write::written_straight(answer.max(0) as u64);
    if passive() {
        observe::transferred(from, to, answer);
    }
}

//! Changes that this process is about to make to files, or to what is known of them: what other processes of
//! the tree have waiting for the same files comes first.
//!
//! This holds also where the process is not buffered itself, and in the child of a vfork. Who else there is
//! and what waits there, `others` knows. Not here: what opening does (`life`).
#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::ledger::Ledger;
use sweetspot_core::why::Why;

use super::file::{self, Attachment};
use super::quiesce::{Next, give_handle_back, quiesce, wait_for_all};
use super::spawns::{is_filtered, passive};
use super::{answers, dirty, entries, flush, handle, ledger, others, table, transition};
use crate::floor::sys;

/// The ledger, by which others are told what this process does to files: also where it is not buffered
/// itself, and in the child of a vfork, which touches nothing of what is kept here by that.
pub(super) fn told() -> Option<&'static Ledger> {
    (ledger::is_given() && !is_filtered()).then(ledger::ledger).flatten()
}

/// Whether there is anybody to be told.
pub fn tells() -> bool {
    told().is_some()
}

/// Whether anything may wait in other processes of the tree.
pub(super) fn do_others_write() -> bool {
    told().is_some_and(others::any_waits)
}

/// Before a write that does not wait: what others have waiting for its file comes first. `is_placed`: it goes to a
/// position that is given.
#[inline(always)]
pub fn writing(fd: i32, is_placed: bool) {
    if ledger::may_be_waiting() {
        writing_beside_others(fd, is_placed);
    }
}

#[cold]
fn writing_beside_others(fd: i32, is_placed: bool) {
    if is_filtered() {
        return;
    }
    match table::word(fd).map(|word| word.load(Relaxed)) {
        // A stream writes while it is being closed.
        Some(word) if table::tag(word) == table::OTHER && word != table::CLOSED => return,
        // Most processes write to nothing but a pipe, and need no ledger.
        Some(table::UNKNOWN) if sys::status(fd).is_some_and(|status| !status.regular) => {
            if !passive() {
                // So that this is remembered.
                transition::classify(fd);
            }
            return;
        }
        _ => {}
    }
    if let Some(ledger) = told() {
        others::writing(ledger, fd, is_placed);
    }
}

/// A file is about to be cut or filled: what others have waiting for it comes first.
pub fn changing(fd: i32) {
    changing_of(|| sys::status(fd));
}

/// The same by name.
///
/// # Safety
/// As of `fstatat`: a bad address is an error.
pub unsafe fn changing_at(path: *const core::ffi::c_char) {
    what_failed_first();
    // SAFETY: as the caller says.
    changing_of(|| unsafe { status_at(libc::AT_FDCWD, path, 0) });
}

/// Whether a file that is opened with these flags is cut.
#[inline(always)]
pub fn cuts(flags: i32) -> bool {
    flags & libc::O_TRUNC != 0 && flags & libc::O_PATH == 0
}

/// Before a file is opened by path, relative to a folder: what others have waiting for it comes before it is cut.
/// What they write while it is cut may come after that, as without us.
///
/// # Safety
/// As of `openat`: a bad address is an error.
#[inline(always)]
pub unsafe fn opening(folder: i32, path: *const core::ffi::c_char, flags: i32) {
    if cuts(flags) {
        // SAFETY: as the caller says.
        unsafe { cutting_at(folder, path) };
    }
}

#[inline(never)]
unsafe fn cutting_at(folder: i32, path: *const core::ffi::c_char) {
    what_failed_first();
    // SAFETY: as the caller of `opening` says.
    changing_of(|| unsafe { status_at(folder, path, 0) });
}

fn changing_of(status: impl FnOnce() -> Option<sys::Status>) {
    if do_others_write()
        && let Some(status) = status()
    {
        others::changing(&status);
    }
}

/// A process is about to be made by file actions, some of which may open files for writing.
pub fn spawn_opens() {
    if do_others_write() {
        others::opening();
    }
}

/// A file is about to be mapped so that stores reach it, or may do so later: nobody is told of them.
pub fn mapping_shared(fd: i32) {
    let is_writable =
        || sys::open_flags(fd).is_some_and(|flags| flags & libc::O_ACCMODE == libc::O_RDWR);
    // Also what no call in this tree has opened.
    if let Some(ledger) = told()
        && is_writable()
        && let Some(status) = sys::status(fd).filter(|status| status.regular)
    {
        others::opened(ledger, &status, libc::O_RDWR);
    }
}

/// The offset of a description, or how it is used, is about to change, which other processes may share:
/// what they have waiting for it goes to where it is now.
pub fn moving(fd: i32) {
    if do_others_write()
        && let Some(status) = sys::status(fd)
    {
        others::moving(&status);
    }
}

/// Before the times of a file are set, by descriptor: what waits in other processes would move them again.
pub fn times_changing(fd: i32) {
    changing(fd);
}

/// The same by path. Without one it is the descriptor's.
///
/// # Safety
/// As of `fstatat`: a bad address is an error.
pub unsafe fn times_changing_at(folder: i32, path: *const core::ffi::c_char, flags: i32) {
    if path.is_null() {
        return times_changing(folder);
    }
    // SAFETY: as the caller says.
    changing_of(|| unsafe { status_at(folder, path, flags) });
}

/// Before the rights on a file change, by descriptor: the guard gives back its handles, this process' and
/// others', for it may not be able to write there afterwards.
pub fn rights_changing(fd: i32) {
    rights_changing_of(|| sys::status(fd));
}

/// The same by path.
///
/// # Safety
/// As of `fstatat`: a bad address is an error.
pub unsafe fn rights_changing_at(folder: i32, path: *const core::ffi::c_char, flags: i32) {
    // SAFETY: as the caller says.
    rights_changing_of(|| unsafe { status_at(folder, path, flags) });
}

/// The same of all files of the file system, or the subvolume, of this descriptor.
pub fn rights_of_all_changing(fd: i32) {
    if told().is_some_and(others::any_asked) {
        others::opening();
    }
    if passive() || !entries::has_slot() {
        return;
    }
    if let Some(status) = sys::status(fd) {
        give_handles_back(|device, _| device == status.device);
    }
}

/// Mounts have changed: how a file may be buffered is asked again.
pub fn mounts_changed() {
    if passive() {
        return;
    }
    for fd in table::all() {
        if file::open_file(fd).is_some() {
            quiesce(fd, Next::Learn);
        }
    }
}

fn rights_changing_of(status: impl FnOnce() -> Option<sys::Status>) {
    let is_held = !passive() && entries::has_slot();
    let may_be_held_by_others = told().is_some_and(others::any_asked);
    if !is_held && !may_be_held_by_others {
        return;
    }
    let Some(status) = status() else { return };
    if is_held {
        let same = (status.device, status.inode);
        give_handles_back(|device, inode| (device, inode) == same);
    }
    if may_be_held_by_others {
        others::changing(&status);
    }
}

fn give_handles_back(is: impl Fn(u64, u64) -> bool) {
    wait_for_all();
    for fd in table::all() {
        let Some((file, _)) = file::open_file(fd) else { continue };
        if is(file.device.load(Relaxed), file.inode.load(Relaxed)) {
            give_handle_back(fd, file);
        }
    }
}

/// A limit on the size of files was set: from now on each write must meet it by itself.
pub fn limits_changed() {
    if passive() || sys::file_size_unlimited() {
        return;
    }
    wait_for_all();
    for fd in table::all() {
        let Some((file, _)) = file::open_file(fd) else { continue };
        if file.attachment.get() == Attachment::Never {
            continue;
        }
        // First, so that nothing begins to wait again; also where what waits could not be written so far, and goes on.
        handle::give_up(file, Why::FileSizeLimit);
        give_handle_back(fd, file);
    }
}

/// A new process is about to be made, which may read anything that others have waiting.
pub fn starting() {
    entries::end_opener();
    if let Some(ledger) = told().filter(|ledger| others::any_waits(ledger)) {
        others::write_all_out_quickly(ledger);
    }
}

/// This process is about to read files, nobody knows which; or to become another program, which does so.
pub fn reading_any() {
    if ledger::may_wait_for_reader()
        && let Some(ledger) = told().filter(|ledger| others::any_waits(ledger))
    {
        others::write_all_out_quickly(ledger);
    }
}

/// This process is about to read a file, or to learn where it ends, by a descriptor.
#[inline(always)]
pub fn reading(fd: i32) {
    if ledger::may_be_waiting() {
        others_first(fd);
    }
}

#[cold]
#[unsafe(link_section = ".text.startup")]
fn others_first(fd: i32) {
    if ledger::may_wait_for_reader()
        && let Some(ledger) = told().filter(|ledger| others::any_waits(ledger))
    {
        others::reading(ledger, fd);
    }
}

/// Somebody was told of a file, by device and inode. Whether others had bytes pending for it, which are written now.
#[cold]
pub fn told_of(file: &dyn Fn() -> (u64, u64)) -> bool {
    ledger::may_wait_for_reader()
        && told().filter(|ledger| others::any_waits(ledger)).is_some_and(|ledger| {
            let (device, inode) = file();
            others::write_inode_out(ledger, device, inode)
        })
}

/// A file is about to be made durable, with what others have waiting for it.
pub fn syncing(fd: i32) {
    changing(fd);
}

/// Of this process, what could not be written so far, and was put off, but may be written by now.
fn what_failed_first() {
    if flush::any_failed() && !passive() {
        dirty::flush_all();
    }
}

/// All files are.
pub fn syncing_all() {
    what_failed_first();
    if let Some(ledger) = told().filter(|ledger| others::any_waits(ledger)) {
        others::write_all_out(ledger);
    }
}

/// A file system is about to stop taking writes: what others have waiting comes first, and what they write later
/// waits in the kernel, where it keeps nothing else of theirs waiting.
pub fn freezing() {
    if told().is_some_and(others::any_asked) {
        others::opening();
    }
}

/// A descriptor is about to be sent to another process.
pub fn sending(fd: i32) {
    if let Some(ledger) = told()
        && let Some(status) = sys::status(fd).filter(|status| status.regular)
    {
        ledger.sent.note(status.device, status.inode);
    }
}

/// A descriptor came from another process, perhaps one by which a file can be written. Writes to it are not followed.
pub fn received(fd: i32) {
    let flags = sys::open_flags(fd).unwrap_or(libc::O_RDONLY);
    if flags & libc::O_ACCMODE != libc::O_RDONLY {
        answers::opened(told(), fd, flags);
    }
}

/// # Safety
/// As of `fstatat`: a bad address is an error.
unsafe fn status_at(
    folder: i32,
    path: *const core::ffi::c_char,
    flags: i32,
) -> Option<sys::Status> {
    let flags = flags & (libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH);
    // SAFETY: as the caller says.
    unsafe { sys::status_at(folder, path, flags) }
}

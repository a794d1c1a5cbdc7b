//! Whether there is room for what waits: on the disk, and below the largest size of a file.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use sweetspot_core::auto::usual_bytes;
use sweetspot_core::policy;
use sweetspot_core::why::Why;

use super::file::{Held, OpenFile, SERVED_LATE};
use super::handle::{detach, give_up};
use super::process::EPOCH;
use super::{auto, entries};
use crate::floor::atomic::count;
use crate::floor::atomic::single_threaded;
use crate::floor::clock::now_ms;
use crate::floor::sys;

/// The most that may wait for a file, in bytes.
pub(super) fn append_bytes_max(file: &OpenFile) -> u64 {
    // Wherever in a page the first byte lies, there is room.
    auto::append_bytes(file).min(file.attachment.mapped().1 - PAGE_BYTES)
}

/// The largest [`sweetspot_core::ledger::write_buffer_start`], rounded up. It is not the size of a page
/// here, but the alignment that copies notice.
pub(super) const PAGE_BYTES: u64 = 4096;

pub(super) fn has_space(file: &OpenFile) -> bool {
    let usual = usual_bytes(file.buffer.load(Relaxed));
    let needed = usual.saturating_mul(policy::SPACE_BUFFERS).max(policy::SPACE_BYTES_MIN);
    look_for_space(file, file.fd.load(Relaxed)) > needed
}

/// Bytes that are free on the file system of a file.
pub(super) fn look_for_space(file: &OpenFile, fd: i32) -> u64 {
    let file_system = sys::file_system(fd);
    if file_system.is_some_and(|file_system| file_system.is_served_late()) {
        file.traits.fetch_or(SERVED_LATE, Relaxed);
    }
    let free = file_system.map_or(0, |file_system| file_system.free_bytes);
    file.space_bytes.store(free, Relaxed);
    free
}

/// What this process has brought to files, a small flush as its part of [`policy::SPACE_CHECK_BYTES`].
#[unsafe(link_section = ".data")]
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Bytes reached a file by a write that passed through, or were moved there inside the kernel.
pub fn written_through(bytes: u64) {
    count(&WRITTEN, bytes);
}

/// Bytes reach a file, nobody knows how many: of an operation that goes on meanwhile, say. Free space is asked
/// for before anything waits again.
pub fn written_unseen() {
    count(&WRITTEN, policy::SPACE_CHECK_BYTES);
}

/// A flush has written so many bytes.
pub(super) fn count_flushed(len: u64) {
    let least = policy::SPACE_CHECK_BYTES / u64::from(policy::FLUSHES_PER_SPACE_CHECK);
    WRITTEN.fetch_add(len.max(least), Relaxed);
}

/// Whether free space is to be asked for. Since this file's last question much was written, to whichever file, as
/// they may share their disk; or time has passed, and others may have written; or where little is free, they may have
/// said that they have.
fn is_space_check_due(file: &OpenFile) -> bool {
    let is_little = file.space_bytes.load(Relaxed) < policy::SPACE_BYTES_AMPLE;
    let news = if is_little { EPOCH.load(Relaxed) } else { 0 };
    let written = WRITTEN.load(Relaxed) / policy::SPACE_CHECK_BYTES;
    // Each of them only grows.
    let turn = (written + now_ms() / policy::SPACE_CHECK_MS).wrapping_add(news) as u32;
    file.space_asked.load(Relaxed) != turn && file.space_asked.swap(turn, Relaxed) != turn
}

/// Ends the waiting where the disk may be full soon. False: it was not asked, or there is room. Nothing
/// waits, and the lock is held. Only the descriptor of an attached file is known.
pub(super) fn is_disk_nearly_full(file: &OpenFile, held: &Held) -> bool {
    let is_full = file.attachment.waits() && is_space_check_due(file) && !has_space(file);
    if is_full {
        detach(file, held);
        give_up(file, Why::DiskNearlyFull);
    }
    is_full
}

/// Whether somebody else has limited the size of files, as of the last look.
#[unsafe(link_section = ".data")]
static LIMITED: AtomicBool = AtomicBool::new(false);

/// Whether somebody else has limited the size of files meanwhile. What was accepted before does not meet that limit: the
/// guard, which is under none, writes it. By a write of this process the kernel would end it.
pub(super) fn look_for_limit() -> bool {
    LIMITED.store(!sys::file_size_unlimited(), Relaxed);
    is_limited()
}

/// The same, as of the last look. Without a guard nobody else can write.
pub(super) fn is_limited() -> bool {
    LIMITED.load(Relaxed) && entries::guarded()
}

/// The largest size of files where no large ones are known (`MAX_NON_LFS` of Linux). So far each file system goes.
const NO_LARGE_FILE_BYTES: u64 = (1 << 31) - 1;

/// So far most file systems go, and hardly any file: then it is asked once.
const FAR_BYTES: u64 = 1 << 43;

/// Whether the file system, and a limit, let the file grow so far beyond `position` that no write that waits could
/// meet its largest size.
pub(super) fn may_grow(file: &OpenFile, fd: i32, position: u64) -> bool {
    if is_limited() && look_for_limit() {
        return false;
    }
    let needed = position + file.attachment.mapped().1;
    if needed <= file.grows_to.load(Relaxed) {
        return true;
    }
    let beyond = policy::SPACE_BYTES_MIN.max(append_bytes_max(file).saturating_mul(2));
    let beyond = position.saturating_add(beyond);
    let places = [beyond.max(FAR_BYTES), beyond];
    // A seek moves the offset, which others share there, or which is the program's: another thread would see that.
    if file.is_from_outside() || file.is_append_placed() && !single_threaded() {
        return needed <= NO_LARGE_FILE_BYTES
            || places.into_iter().any(|place| file.reaches(fd, place));
    }
    places.into_iter().any(|place| file.may_be_at(fd, place))
}

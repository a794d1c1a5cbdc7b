//! Files that come to have another number while they are open: overlayfs copies a file up when somebody opens it for
//! writing, and tells from then on which one the copy is, also to who has the old one open for reading.
//!
//! What is kept by number (`inodes`) would take the two descriptions for two files. So whenever one by which can be
//! written becomes known, those are asked anew that may have been copied up before. It is known before its writes
//! wait, and as long as it is not known they concern every window.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sweetspot_core::why::Why;

use super::file::{self, OpenFile};
use super::process::acquire_point;
use super::{flush, inodes, quiesce, table};
use crate::floor::lock::Held;
use crate::floor::signals::SignalsBlocked;
use crate::floor::sys::{self, Status};

/// In `OpenFile::traits`: its number stays, as it was open for writing when it became known.
pub const NUMBER_STAYS: u32 = 8;

/// Whether a file of this device may be one of an overlayfs, none of which has a device of its own: the kernel tells a
/// number without one.
fn may_be_overlaid(device: u64) -> bool {
    libc::major(device) == 0
}

/// An open file has become known by this number. The registry is held.
pub fn known(file: &'static OpenFile, fd: i32, registry: &Held<'_>) {
    if !may_be_overlaid(file.device.load(Relaxed)) {
        return;
    }
    let flags = sys::open_flags(fd).unwrap_or(libc::O_RDONLY);
    if flags & libc::O_ACCMODE == libc::O_RDONLY {
        ANY_MAY_CHANGE.store(true, Relaxed);
        return;
    }
    file.traits.fetch_or(NUMBER_STAYS, Relaxed);
    ask_anew(registry);
}

/// Whether there has been a file whose number may change.
#[unsafe(link_section = ".data")]
static ANY_MAY_CHANGE: AtomicBool = AtomicBool::new(false);

/// A file of this status is about to be mapped: those that are open are known by the number that it has.
pub fn mapping(status: &Status) {
    if may_be_overlaid(status.device) {
        let _signals = SignalsBlocked::new();
        ask_anew(&file::hold_registry());
    }
}

/// Asks those whose number may have changed. The registry is held.
fn ask_anew(_registry: &Held<'_>) {
    if !ANY_MAY_CHANGE.load(Relaxed) {
        return;
    }
    let may_change = |file: &OpenFile| {
        file.traits.load(Relaxed) & NUMBER_STAYS == 0 && may_be_overlaid(file.device.load(Relaxed))
    };
    for fd in table::all() {
        let Some((file, _)) = file::open_file(fd).filter(|(file, _)| may_change(file)) else {
            continue;
        };
        if let Some(status) = sys::status_at_hand(fd).filter(|status| status.regular)
            && !flush::is_of(&status, file)
        {
            renumber(file, fd, &status);
        }
    }
}

/// A file has another number.
fn renumber(file: &'static OpenFile, fd: i32, status: &Status) {
    let _signals = SignalsBlocked::new();
    let held = file.hold();
    if held.nested {
        return;
    }
    let has_window = file.buffer_bytes.load(Relaxed) != 0;
    if has_window {
        inodes::window_closed(file);
    }
    file.device.store(status.device, Relaxed);
    file.inode.store(status.inode, Relaxed);
    if has_window {
        inodes::window_opened(file);
    }
    if inodes::is_mapped(status.device, status.inode) {
        quiesce::quiesce_held(file, fd, quiesce::Next::PassThrough(Why::Mapped), &held);
    }
    acquire_point();
}

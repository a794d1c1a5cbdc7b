//! The attachment of an open file to the ledger: asking the guard for a handle on the file, letting
//! writes wait once it has answered, giving it back.
#![allow(unsafe_code)]

use core::sync::atomic::Ordering::{Relaxed, Release};

use sweetspot_core::append::{Handle, writes_between_tries};
use sweetspot_core::auto::usual_bytes;
use sweetspot_core::learning::Learning;
use sweetspot_core::ledger::{BUFFER_OFF, Counter, Entry};
use sweetspot_core::why::Why;

use super::eligible::may_wait;
use super::entries::{self, Mapped};
use super::file::{self, AT_END, Attachment, OpenFile, Placement};
use super::flush::is_recalled;
use super::handle::{give_up, note_asked};
use super::space::{PAGE_BYTES, append_bytes_max, has_space, look_for_space};
use super::spawns::forking;
use super::thresholds::asked;
use super::{
    auto, ending, handle, handlers, inodes, others, process, quiesce, records, rules, table,
    transition, unseen,
};
use crate::floor::atomic::swap;
use crate::floor::signals::SignalsBlocked;
use crate::floor::sys;

/// Whether a file's write buffer has been full, at least twice as much should wait as it holds, and that is
/// worth its while. The lock is held.
pub(super) fn wants_more(file: &OpenFile) -> bool {
    let (_, mapped_bytes) = file.attachment.mapped();
    file.append_bytes_max.load(Relaxed) >= mapped_bytes.saturating_sub(PAGE_BYTES)
        && auto::is_worth_enlarging(file, mapped_bytes)
}

/// Gives back a file's write buffer, in which nothing waits, and asks for a larger one. Writes pass
/// through until that is there.
pub(super) fn enlarge(file: &'static OpenFile, fd: i32) {
    if quiesce::give_handle_back(fd, file) {
        let _signals = SignalsBlocked::new();
        let _registry = file::hold_registry();
        // Another thread may have been faster.
        if file.attachment.get() == Attachment::None {
            ask(file, fd);
        }
    }
}

/// A larger write buffer than usual was refused: the usual one is asked for once it is earned.
fn be_modest(file: &'static OpenFile, refused: &'static Entry) {
    let _signals = SignalsBlocked::new();
    let _registry = file::hold_registry();
    if file.entry().is_some_and(|entry| core::ptr::eq(entry, refused)) {
        file.is_modest.store(1, Relaxed);
        handle::let_go(file);
    }
}

/// Asks for a handle on a file that is open for writing. The registry is held.
pub(super) fn ask(file: &'static OpenFile, fd: i32) {
    // Beside an exec that has given all back, the new program would keep what is asked for.
    if forking() {
        return;
    }
    let flags = sys::open_flags(fd).unwrap_or(0);
    let buffer = match file.buffer.load(Relaxed) {
        BUFFER_OFF => rules::buffer_for(fd),
        buffer => buffer,
    };
    let status = sys::status_at_hand(fd).unwrap_or_default();
    file.device.store(status.device, Relaxed);
    file.inode.store(status.inode, Relaxed);
    file.buffer.store(buffer, Relaxed);
    file.unobserved.store(u32::from(rules::is_unobserved(fd)), Relaxed);
    records::begin(file, fd);
    if let Some(why) = against(file, fd, flags, &status) {
        return give_up(file, why);
    }
    match file.is_direct_by_server(fd) {
        Some(false) => {}
        Some(true) => return give_up(file, Why::OpenFlags),
        None => return note_asked(file, None),
    }
    if auto::may_want_more_than_usual(file, fd) {
        look_for_space(file, fd);
    }
    let asked = entries::ask(&entries::Ask {
        fd,
        device: status.device,
        inode: status.inode,
        open_flags: flags as u32,
        place: file.placement(flags).place(),
        // A whole number of pages more than may wait, so that a power of two stays one.
        write_buffer_bytes: auto::write_buffer_bytes(file).max(2 * PAGE_BYTES),
    });
    match asked {
        Ok(mapped) => {
            file.flags.store(flags as u32, Relaxed);
            note_asked(file, Some(&mapped));
        }
        Err(entries::NotAsked::Yet) => note_asked(file, None),
        Err(entries::NotAsked::Ever) => give_up(file, Why::NoGuard),
    }
}

/// Why the writes of a file are never to wait, as far as that does not ask its server.
fn against(file: &OpenFile, fd: i32, flags: i32, status: &sys::Status) -> Option<Why> {
    if process::shares_memory() && !file.is_unobserved() {
        Some(Why::SharedMemory)
    } else if unseen::counts_writes() && !file.is_unobserved() {
        Some(Why::Watched)
    } else if !may_wait(flags) || sys::is_synchronous(fd) {
        Some(Why::OpenFlags)
    } else if !status.regular {
        Some(Why::NotRegular)
    } else if file.buffer.load(Relaxed) == BUFFER_OFF {
        Some(Why::Off)
    } else if inodes::is_mapped(status.device, status.inode) {
        Some(Why::Mapped)
    } else if !sys::file_size_unlimited() {
        Some(Why::FileSizeLimit)
    } else {
        None
    }
}

/// Whether a larger write buffer than usual was asked for, for the first time.
fn is_large(file: &OpenFile, entry: &Entry) -> bool {
    let usual = usual_bytes(file.buffer.load(Relaxed)).max(2 * PAGE_BYTES);
    file.is_modest.load(Relaxed) == 0 && entry.write_buffer_bytes.load(Relaxed) > usual
}

/// What an open file is before it is attached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// `ON`, as it has a window.
    On,
    /// Learning, with this word.
    Learning(u64),
}

/// If the guard holds a handle on the file, lets its writes wait from now on. It is asked only where what
/// stdio does is seen (`earn`).
pub(super) fn attach(file: &'static OpenFile, fd: i32) {
    let Some(entry) = file.entry() else { return };
    match entries::answer(entry) {
        entries::Answer::Waiting => return,
        entries::Answer::Refused if entries::is_unseen() => {
            return ending::end_because(Why::IoUring);
        }
        entries::Answer::Refused if is_recalled(file) => return give_up(file, Why::OpenTwice),
        entries::Answer::Refused if is_large(file, entry) => return be_modest(file, entry),
        entries::Answer::Refused if file.is_from_outside() => return give_up(file, Why::NotCopied),
        entries::Answer::Refused => return give_up(file, Why::HandleRefused),
        entries::Answer::Held => {}
    }
    if !ending::ends_by_library() {
        attach_to(file, fd, entry);
    }
}

/// The same, by an entry whose handle is held.
fn attach_to(file: &'static OpenFile, fd: i32, entry: &'static Entry) {
    let _signals = SignalsBlocked::new();
    let _registry = file::hold_registry();
    // Or another thread was faster, and bytes may be waiting already.
    if forking() || file.attachment.waits() || !table::means(fd, file.to_word()) {
        return;
    }
    // They may have been changed since the handle was asked for.
    let flags = sys::open_flags(fd).unwrap_or(0);
    if !may_wait(flags) {
        return give_up(file, Why::OpenFlags);
    }
    file.flags.store(flags as u32, Relaxed);
    entry.open_flags.store(flags as u32, Relaxed);
    let placement = file.placement(flags);
    let Some(before) = lock_state(file, placement) else { return };
    let held = file.hold();
    let now = file.state.load(Relaxed);
    let before = match before {
        Before::On if now == table::ON => before,
        Before::Learning(_) if table::is_locked(now) => {
            Before::Learning(Learning(now).without(Learning::LOCKED).0)
        }
        // Another thread has quiesced it, or made it pass through, and is now at the kernel's offset.
        _ => return,
    };
    let learns_on = || {
        if let Before::Learning(value) = before {
            file.state.store(value, Release);
        }
    };
    if !is_still(file, fd, entry) {
        return learns_on();
    }
    let position = if placement.is_append() { 0 } else { sys::seek(fd, 0, libc::SEEK_CUR) };
    let against = match held.nested || position < 0 || !map_write_buffer(file, entry, fd) {
        true => Some(Why::Budget),
        false if !has_space(file) => Some(Why::DiskNearlyFull),
        false if others::overwrite(fd, entry) => Some(Why::OpenTwice),
        false => None,
    };
    match against {
        None => begin_to_wait(file, entry, placement, before, position as u64),
        Some(why) => {
            learns_on();
            give_up(file, why);
        }
    }
}

/// Whether a descriptor still is one of this file, and its entry the one that was looked at: before the locks were held
/// another thread may have closed it, or let go of the entry, which may be another file's by now.
fn is_still(file: &'static OpenFile, fd: i32, entry: &'static Entry) -> bool {
    let is_held = |now: &Entry| {
        core::ptr::eq(now, entry) && matches!(entries::answer(now), entries::Answer::Held)
    };
    table::means(fd, file.to_word()) && file.entry().is_some_and(is_held)
}

/// Sees to it that no call that passes through begins on a file that is about to be attached. `None`: not
/// now.
fn lock_state(file: &OpenFile, placement: Placement) -> Option<Before> {
    let value = file.state.load(Relaxed);
    if value == table::ON {
        // With append placement, the next write of a file that has a window quiesces it first.
        return (!placement.is_append()).then_some(Before::On);
    }
    let learning = Learning(value);
    let is_free = table::is_learning(value) && learning.in_flight() == 0;
    let is_locked = is_free && swap(&file.state, value, learning.with(Learning::LOCKED).0);
    is_locked.then_some(Before::Learning(value))
}

/// Maps the write buffer of an entry that the guard has answered; false: there is no room.
fn map_write_buffer(file: &OpenFile, entry: &'static Entry, fd: i32) -> bool {
    let (write_buffer, write_buffer_bytes) = file.attachment.mapped();
    let Some(mapped) = entries::map(Mapped { entry, write_buffer, write_buffer_bytes }) else {
        return false;
    };
    file.fd.store(fd, Relaxed);
    file.attachment.hold((mapped.write_buffer, mapped.write_buffer_bytes));
    true
}

/// The writes of a file wait from now on. Its lock is held.
fn begin_to_wait(
    file: &OpenFile,
    entry: &Entry,
    placement: Placement,
    before: Before,
    position: u64,
) {
    handlers::install();
    file.note_no_more(Why::NotAnswered);
    if let Some(status) = file.status(file.fd.load(Relaxed)) {
        entry.note_left(status.left());
    }
    entry.place.store(placement.place(), Relaxed);
    let max = append_bytes_max(file);
    file.append_bytes_max.store(auto::append_bytes_first(file).min(max), Relaxed);
    file.appends_before.store(file.counted(Counter::Appends), Relaxed);
    let is_append = placement.is_append();
    if let Before::Learning(value) = before {
        file.learned.store(value, Relaxed);
        file.close_cursor();
        file.position.store(if is_append { AT_END } else { position }, Relaxed);
        file.kernel_at.store(position, Relaxed);
    }
    file.attachment.wait_from(0);
    file.state.store(if is_append { table::APPEND_PLACED } else { table::ON }, Release);
}

/// Small writes after which the inode of a file is worth knowing while windows are open: until then
/// each write makes every window ask again (410 ns a window), afterwards only those of its inode.
const WRITES_TO_BE_KNOWN: u32 = 2;

/// Whether the inode of a learning descriptor is known, or has been worth knowing while windows are open.
pub fn is_known_by(learning: Learning) -> bool {
    learning.small_writes() >= WRITES_TO_BE_KNOWN
}

/// Whether a learning descriptor has made enough small writes for `earn`.
pub fn earned(learning: Learning, file: Option<&OpenFile>) -> bool {
    let writes = learning.small_writes();
    let asked = || asked().writes();
    let Some(file) = file else {
        // Once for each so many, as long as nothing can be had.
        return writes >= WRITES_TO_BE_KNOWN && inodes::any_window()
            || Handle::None.is_earned(writes, asked)
                && writes.is_multiple_of(writes_between_tries(asked()));
    };
    handle::stand(file).is_earned(writes, asked)
}

/// Small writes were seen: learns the inode, so that they disturb only windows of their own file; asks
/// for a handle; lets writes wait.
pub fn earn(fd: i32) {
    let Some(word) = file::learning_word(fd) else { return };
    let writes = Learning(word.load(Relaxed)).small_writes();
    let asks = Handle::None.is_earned(writes, || asked().writes());
    if !asks && !inodes::any_window() && file::open_file(fd).is_none() {
        return;
    }
    if asks && !ending::can_buffer() {
        return;
    }
    let signals = SignalsBlocked::new();
    let registry = file::hold_registry();
    let Some(file) = transition::make_known(fd, &registry) else { return };
    if file.attachment.get() == Attachment::None && asks {
        ask(file, fd);
        if file.attachment.get() == Attachment::None && !file.is_told_by_write() {
            // The guard is still starting: after as many writes once more.
            let value = file.state.load(Relaxed);
            if table::is_learning(value) {
                swap(&file.state, value, Learning(value).start_again().0);
            }
        }
    }
    drop(registry);
    drop(signals);
    if file.attachment.may_wait() {
        attach(file, fd);
    }
}

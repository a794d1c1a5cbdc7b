//! The attachment of an open file to the ledger: asking the guard for a handle on the file, letting
//! writes wait once it has answered, giving it back.
#![allow(unsafe_code)]

use core::sync::atomic::Ordering::{Relaxed, Release};

use sweetspot_core::append::Handle;
use sweetspot_core::auto::usual_bytes;
use sweetspot_core::learning::Learning;
use sweetspot_core::ledger::{BUFFER_OFF, Counter, Entry};
use sweetspot_core::pending::waiting_of;
use sweetspot_core::policy;
use sweetspot_core::why::Why;

use super::children::passive;
use super::entries::{self, Mapped};
use super::file::{self, AT_END, Attachment, Held, OpenFile, Placement};
use super::flush::{drain_held, is_recalled, remember_status};
use super::space::{PAGE_BYTES, append_bytes_max, has_space, look_for_space};
use super::{
    auto, dirty, handlers, inodes, lane, others, quiesce, records, rules, table, transition,
};
use crate::floor::atomic::swap;
use crate::floor::signals::SignalsBlocked;
use crate::floor::{shared, sys};

/// Another append held the lock and was perhaps left for good: writes out what it committed, and lets
/// go of its write buffer without ever using it again. The lock is held.
pub fn abandon(file: &'static OpenFile) {
    let held = Held::assumed(file);
    drain_held(file, &held);
    detach(file, &held);
    core::mem::forget(held);
    file.attachment.set(Attachment::Never);
    // Nor is its window's memory, into which the old owner may still be copying.
    let position = file.take_position();
    file.position.store(position, Relaxed);
    file.window_len.store(0, Relaxed);
    if file.buffer_bytes.swap(0, Relaxed) > 0 {
        inodes::window_closed(file);
    }
    if file.pending() == 0 {
        file.entry.store(core::ptr::null_mut(), Relaxed);
    }
}

/// Lets go of the memory in which bytes of a file wait; none do.
fn drop_write_buffer(file: &OpenFile) {
    let (write_buffer, bytes) =
        (file.mapped_write_buffer.swap(0, Relaxed), file.mapped_bytes.load(Relaxed));
    if file.is_append_interrupted() {
        shared::disconnect_write_buffer(write_buffer, bytes);
    } else {
        shared::unmap_write_buffer(write_buffer, bytes);
    }
}

/// Gives every handle back: the process ends or becomes another program. Every file is quiesced.
#[unsafe(link_section = ".text.startup")]
pub fn leave() {
    if !entries::has_slot() {
        return;
    }
    let _signals = SignalsBlocked::new();
    for file in file::used() {
        if file.references.load(Relaxed) > 0 {
            if file.is_append_interrupted() {
                drop_write_buffer(file);
            }
            let_go(file);
        }
    }
    // What was closed is free when this process has ended, or is another program.
    entries::await_let_go();
    entries::leave();
}

/// Writes of this file pass through from now on, at the position that is ours or the kernel's. The
/// lock is held and nothing is pending.
pub(super) fn detach(file: &OpenFile, held: &Held) {
    if !held.nested {
        file.write_buffer.store(0, Relaxed);
        if file.is_append_placed() {
            let learned = Learning(file.learned.load(Relaxed)).start_again();
            file.state.store(learned.0, Release);
        }
    }
}

pub(super) fn give_up(file: &OpenFile, why: Why) {
    file.note(why);
    file.attachment.set(Attachment::Never);
}

/// Lets go of a file's entry: nothing is pending, or what is cannot be written.
pub fn let_go(file: &OpenFile) {
    let entry = file.entry.swap(core::ptr::null_mut(), Relaxed);
    file.write_buffer.store(0, Relaxed);
    // SAFETY: entries are in the ledger, which stays mapped.
    if let Some(entry) = unsafe { entry.as_ref() } {
        if waiting_of(entry.word.load(Relaxed)) > 0 {
            remember_status(entry, file.fd.load(Relaxed));
            entries::mark_failed(entry);
        }
        entries::let_go(Mapped {
            entry,
            write_buffer: file.mapped_write_buffer.swap(0, Relaxed),
            write_buffer_bytes: file.mapped_bytes.load(Relaxed),
        });
    }
    if file.attachment.get() != Attachment::Never {
        file.attachment.set(Attachment::None);
    }
}

/// A limit on the size of files was set: from now on each write must meet it by itself.
pub fn limits_changed() {
    if passive() || sys::file_size_unlimited() {
        return;
    }
    for fd in table::all() {
        let Some((file, _)) = file::open_file(fd) else { continue };
        if file.attachment.get() == Attachment::Never {
            continue;
        }
        if give_handle_back(fd, file) {
            give_up(file, Why::FileSizeLimit);
        }
    }
}

/// Quiesces a file and has the guard let go of it; false: not now. Its writes may earn a handle anew.
pub fn give_handle_back(fd: i32, file: &'static OpenFile) -> bool {
    quiesce::quiesce(fd, quiesce::Next::Learn);
    let _signals = SignalsBlocked::new();
    let held = file.hold();
    let can = !held.nested && file.write_buffer.load(Relaxed) == 0;
    if can {
        let_go(file);
    }
    can
}

/// Whether a file's write buffer has been full, and at least twice as much should wait as it holds. The
/// lock is held.
pub(super) fn wants_more(file: &OpenFile) -> bool {
    let mapped_bytes = file.mapped_bytes.load(Relaxed);
    file.append_bytes_max.load(Relaxed) >= mapped_bytes.saturating_sub(PAGE_BYTES)
        && auto::write_buffer_bytes(file) >= mapped_bytes.saturating_mul(2)
}

/// Gives back a file's write buffer, in which nothing waits, and asks for a larger one. Writes pass
/// through until that is there.
pub(super) fn enlarge(file: &'static OpenFile, fd: i32) {
    if give_handle_back(fd, file) {
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
        let_go(file);
    }
}

/// Asks for a handle on a file that is open for writing. The registry is held.
pub(super) fn ask(file: &'static OpenFile, fd: i32) {
    let flags = sys::open_flags(fd).unwrap_or(0);
    let buffer = match file.buffer.load(Relaxed) {
        BUFFER_OFF => rules::buffer_for(fd),
        buffer => buffer,
    };
    let status = sys::status(fd).unwrap_or_default();
    file.device.store(status.device, Relaxed);
    file.inode.store(status.inode, Relaxed);
    file.buffer.store(buffer, Relaxed);
    file.unobserved.store(u32::from(rules::is_unobserved(fd)), Relaxed);
    records::begin(file, fd);
    let against = if super::unseen::shares_memory() && !file.is_unobserved() {
        Some(Why::SharedMemory)
    } else if super::unseen::counts_writes() && !file.is_unobserved() {
        Some(Why::Watched)
    } else if !transition::may_wait(flags) || sys::is_synchronous(fd) {
        Some(Why::OpenFlags)
    } else if !status.regular {
        Some(Why::NotRegular)
    } else if buffer == BUFFER_OFF {
        Some(Why::Off)
    } else if inodes::is_mapped(status.device, status.inode) {
        Some(Why::Mapped)
    } else if !sys::file_size_unlimited() {
        Some(Why::FileSizeLimit)
    } else {
        None
    };
    if let Some(why) = against {
        return give_up(file, why);
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
            note_asked(file, &mapped);
        }
        Err(entries::NotAsked::Yet) => {}
        Err(entries::NotAsked::Ever) => give_up(file, Why::NoGuard),
    }
}

/// The guard was asked for a file, by this entry. The registry is held.
pub(super) fn note_asked(file: &OpenFile, by: &Mapped) {
    file.mapped_write_buffer.store(by.write_buffer, Relaxed);
    file.mapped_bytes.store(by.write_buffer_bytes, Relaxed);
    file.entry.store((&raw const *by.entry).cast_mut(), Relaxed);
    file.attachment.set(Attachment::Asked);
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
        entries::Answer::Refused if is_recalled(file) => return give_up(file, Why::OpenTwice),
        entries::Answer::Refused if is_large(file, entry) => return be_modest(file, entry),
        entries::Answer::Refused if file.is_from_outside() => return give_up(file, Why::NotCopied),
        entries::Answer::Refused => return give_up(file, Why::HandleRefused),
        entries::Answer::Held => {}
    }
    let _signals = SignalsBlocked::new();
    let _registry = file::hold_registry();
    // Or another thread was faster, and bytes may be waiting already.
    if super::children::forking() || file.write_buffer.load(Relaxed) != 0 {
        return;
    }
    // They may have been changed since the handle was asked for.
    let flags = sys::open_flags(fd).unwrap_or(0);
    if !transition::may_wait(flags) {
        return give_up(file, Why::OpenFlags);
    }
    file.flags.store(flags as u32, Relaxed);
    let placement = file.placement(flags);
    let Some(before) = lock_state(file, placement) else { return };
    let held = file.hold();
    let now = file.state.load(Relaxed);
    let before = match before {
        Before::On if now == table::ON => before,
        Before::Learning(_) if transition::is_locked(now) => {
            Before::Learning(Learning(now).without(Learning::LOCKED).0)
        }
        // Another thread has quiesced it, or made it pass through, and is now at the kernel's offset.
        _ => return,
    };
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
            if let Before::Learning(value) = before {
                file.state.store(value, Release);
            }
            give_up(file, why);
        }
    }
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
    let write_buffer = file.mapped_write_buffer.load(Relaxed);
    let write_buffer_bytes = file.mapped_bytes.load(Relaxed);
    let Some(mapped) = entries::map(Mapped { entry, write_buffer, write_buffer_bytes }) else {
        return false;
    };
    file.mapped_write_buffer.store(mapped.write_buffer, Relaxed);
    file.mapped_bytes.store(mapped.write_buffer_bytes, Relaxed);
    file.fd.store(fd, Relaxed);
    file.attachment.set(Attachment::Held);
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
    remember_status(entry, file.fd.load(Relaxed));
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
    file.write_buffer.store(file.mapped_write_buffer.load(Relaxed), Relaxed);
    file.state.store(if is_append { table::APPEND_PLACED } else { table::ON }, Release);
}

/// Small writes after which the inode of a file is worth knowing while windows are open: until then
/// each write makes every window ask again (410 ns a window), afterwards only those of its inode.
const WRITES_TO_BE_KNOWN: u32 = 2;

/// Whether the inode of a learning descriptor is known, or has been worth knowing while windows are open.
pub fn is_known_by(learning: Learning) -> bool {
    learning.small_writes() >= WRITES_TO_BE_KNOWN
}

/// How a file stands with the guard.
pub fn stand(file: &OpenFile) -> Handle {
    let is_waiting = |entry| matches!(entries::answer(entry), entries::Answer::Waiting);
    match file.attachment.get() {
        Attachment::None => Handle::None,
        Attachment::Asked => Handle::Asked { is_answered: !file.entry().is_some_and(is_waiting) },
        Attachment::Held => Handle::Held,
        Attachment::Never => Handle::Never,
    }
}

/// Whether a learning descriptor has made enough small writes for `earn`.
pub fn earned(learning: Learning, file: Option<&OpenFile>) -> bool {
    let writes = learning.small_writes();
    let Some(file) = file else {
        return writes >= WRITES_TO_BE_KNOWN && inodes::any_window()
            || writes == policy::WRITES_TO_EARN;
    };
    stand(file).is_earned(writes)
}

/// Small writes were seen: learns the inode, so that they disturb only windows of their own file; asks
/// for a handle; lets writes wait.
pub fn earn(fd: i32) {
    let Some(word) = file::learning_word(fd) else { return };
    let writes = Learning(word.load(Relaxed)).small_writes();
    let wanted = writes >= policy::WRITES_TO_EARN || inodes::any_window();
    if !wanted && file::open_file(fd).is_none() {
        return;
    }
    if writes >= policy::WRITES_TO_EARN && !super::ending::can_buffer() {
        return;
    }
    let signals = SignalsBlocked::new();
    let registry = file::hold_registry();
    let Some(file) = transition::make_known(fd, &registry) else { return };
    if file.attachment.get() == Attachment::None && writes >= policy::WRITES_TO_EARN {
        ask(file, fd);
        if file.attachment.get() == Attachment::None {
            // The guard is still starting: after as many writes once more.
            let value = file.state.load(Relaxed);
            if table::is_learning(value) {
                swap(&file.state, value, Learning(value).start_again().0);
            }
        }
    }
    drop(registry);
    drop(signals);
    if may_wait(file) {
        attach(file, fd);
    }
}

/// Whether writes to a file wait, or may begin to.
pub fn may_wait(file: &OpenFile) -> bool {
    matches!(file.attachment.get(), Attachment::Asked | Attachment::Held)
}

/// After a fork, in the child: nothing is pending, and no lock will be held.
pub fn forget_all() {
    lane::close();
    dirty::forget();
    for file in file::used() {
        file.entry.store(core::ptr::null_mut(), Relaxed);
        file.write_buffer.store(0, Relaxed);
        drop_write_buffer(file);
        file.dirty.store(0, Relaxed);
        file.error.store(0, Relaxed);
        file.attachment.set(Attachment::Never);
    }
    entries::forget_all();
}

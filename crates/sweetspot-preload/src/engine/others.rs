//! Other processes of the tree, as the ledger shows them, and what waits of them.
//!
//! Anyone who learns that one of them has died waits until the guard has finished it. Anyone who learns that
//! one has stopped, or takes a descriptor of one that works, has the guard write what waits of it: it
//! makes no call at which that could leave by itself.

mod write_out;

use core::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
};

use sweetspot_core::ledger::{Entry, Ledger, SLOTS_MAX, Slot};
use sweetspot_core::pending::{
    self, Owner, is_held, is_let_go, is_seen_to, length_of, owner_of, waiting_of,
};
use sweetspot_core::unwritten::RECALLED;

pub use self::write_out::write_out;
use self::write_out::{ask_for, may_begin, write_out_within, write_recalled_out};
use super::file::{self, Placement};
use super::patience::{LATE_MS_MAX, Patience};
use super::spawns::is_filtered;
use super::{entries, ledger, table};
use crate::floor::atomic::single_threaded;
use crate::floor::{proc, sys};

/// How long to wait for the guard to finish a dead process, or to write for a living one, in
/// milliseconds.
const FINISH_MS_MAX: u64 = 10_000;
/// How long the guard may take to begin, in milliseconds: somebody may have stopped it.
const BEGIN_MS_MAX: u64 = 1000;
/// How long the guard may take where it is better, but not needed, that it has finished: a process goes on as it
/// would with a guard that is stopped, or a file system that waits for this very process. In milliseconds.
const QUICK_MS_MAX: u64 = 100;

/// Whether anything may wait in another process of the tree.
pub fn any_waits(ledger: &Ledger) -> bool {
    let own = || ledger.slots[entries::slot() as usize].waiting.load(SeqCst);
    let before = own();
    if ledger.header.waiting.load(SeqCst) != before || own() != before {
        return true;
    }
    // What another thread has waiting may have ended between the looks, and have been counted for somebody else's.
    before != 0 && !single_threaded() && waiting(ledger).next().is_some()
}

/// Whether the guard has been asked, by anyone, whether writes may wait.
pub fn any_asked(ledger: &Ledger) -> bool {
    ledger.header.used_bits.iter().any(|bits| bits.load(SeqCst) != 0)
}

/// The others of which something may wait: {slot, process}.
pub fn waiting(ledger: &Ledger) -> impl Iterator<Item = (usize, u32)> {
    let slots = ledger.slots.iter().enumerate();
    let slots = slots.filter(|(index, slot)| {
        *index != entries::slot() as usize && slot.waiting.load(Relaxed) != 0
    });
    slots.map(|(index, slot)| (index, slot.pid.load(Relaxed))).filter(|(_, process)| *process != 0)
}

/// A wait has told of this process: if it is dead, waits until the guard has written what it left
/// pending and let go of its files, else it has stopped.
pub fn was_told_of(process: u32) {
    if !ledger::is_given() {
        return;
    }
    let Some(ledger) = ledger::ledger().filter(|ledger| any_asked(ledger)) else { return };
    if sys::is_dead(process as i32) {
        wait_until_finished(ledger, process);
    } else if any_waits(ledger) {
        // Those of its group have stopped with it, whose children they may be.
        write_all_out(ledger);
    }
}

/// Waits for the guard as far as others have died that have asked it for anything.
pub fn wait_for_the_dead(ledger: &Ledger) {
    let mut asked = [0_u64; SLOTS_MAX / 64];
    for entry in used(ledger) {
        let index = entry.slot.load(SeqCst) as usize % SLOTS_MAX;
        asked[index / 64] |= 1 << (index % 64);
    }
    let own = entries::slot() as usize;
    for (word, bits) in asked.into_iter().enumerate() {
        for index in set_bits(bits).map(|bit| word * 64 + bit).filter(|index| *index != own) {
            let process = ledger.slots[index].pid.load(SeqCst);
            if process as i32 > 0 && sys::is_dead(process as i32) {
                wait_until_finished(ledger, process);
            }
        }
    }
    wait_until_let_go(ledger);
}

/// Has the guard write what waits in all other processes.
pub fn write_all_out(ledger: &Ledger) {
    // All of them first: where one is waited for in vain, the others are written meanwhile.
    waiting(ledger).for_each(|(index, _)| ask_for(ledger, index));
    let mut patience = Patience::new(u64::MAX);
    let mut write_out = |index| write_out_within(ledger, index, &mut patience, |_| true, |_| {});
    waiting(ledger).for_each(|(index, _)| write_out(index));
}

/// The same, without waiting long for all of them.
pub fn write_all_out_quickly(ledger: &Ledger) {
    let mut patience = Patience::with_guard(&ledger.header, QUICK_MS_MAX);
    let mut write_out = |index| write_out_within(ledger, index, &mut patience, |_| true, |_| {});
    waiting(ledger).for_each(|(index, _)| write_out(index));
}

/// The slot of a process.
pub fn slot_of(ledger: &Ledger, process: u32) -> Option<(usize, &Slot)> {
    let mut slots = ledger.slots.iter().enumerate();
    slots.find(|(_, slot)| slot.pid.load(SeqCst) == process).filter(|_| ledger::knows_processes())
}

/// The entries of a slot.
pub fn entries_of(ledger: &Ledger, index: usize) -> impl Iterator<Item = (usize, &Entry)> {
    let entries = ledger.entries().iter().enumerate();
    entries.filter(move |(_, entry)| entry.slot.load(SeqCst) as usize == index)
}

/// Waits until the guard has finished a process that is known to end: what it left is written, and its
/// files are free.
pub fn wait_until_finished(ledger: &Ledger, process: u32) {
    let is_late = slot_of(ledger, process).is_some_and(|(_, slot)| slot.is_late.load(SeqCst) != 0);
    let ms_max = if is_late { LATE_MS_MAX } else { FINISH_MS_MAX };
    let mut until_written = Patience::with_guard(&ledger.header, ms_max);
    let mut to_begin = Patience::with_guard(&ledger.header, BEGIN_MS_MAX);
    let mut until_free = Patience::with_guard(&ledger.header, QUICK_MS_MAX);
    while let Some((index, slot)) = slot_of(ledger, process) {
        let done = slot.done.load(SeqCst);
        let is_pending = |entry: &Entry| waiting_of(entry.word.load(SeqCst)) > 0;
        let any =
            |is_it: fn(&Entry) -> bool| entries_of(ledger, index).any(|(_, entry)| is_it(entry));
        let goes_on = if any(is_pending) {
            until_free = Patience::with_guard(&ledger.header, QUICK_MS_MAX);
            let guard = entries::guard_thread(ledger);
            let lasts = may_go_on(ledger, &mut until_written);
            if !lasts && entries::is_guard_alive(ledger) {
                // Its file system hangs: nobody waits as long again, at whatever call may tell of this death.
                slot.is_late.store(1, SeqCst);
            }
            lasts && may_begin(&mut to_begin, guard)
        } else {
            any(is_seen_to) && may_go_on(ledger, &mut until_free)
        };
        if !goes_on || slot.pid.load(SeqCst) != process {
            break;
        }
        sys::futex_wait(&slot.done, done, 100);
    }
    wait_until_let_go(ledger);
}

fn wait_until_let_go(ledger: &Ledger) {
    let mut patience = Patience::with_guard(&ledger.header, QUICK_MS_MAX);
    while let Some((entry, given_back)) = let_go(ledger)
        && may_go_on(ledger, &mut patience)
    {
        sys::futex_wait(&entry.given_back, given_back, 1);
    }
}

/// Whether to go on waiting for the guard.
fn may_go_on(ledger: &Ledger, patience: &mut Patience) -> bool {
    entries::is_guard_alive(ledger) && patience.lasts(entries::guard_thread(ledger))
}

/// An entry that the guard is about to let go of.
fn let_go(ledger: &Ledger) -> Option<(&Entry, u32)> {
    used(ledger).find_map(|entry| {
        let given_back = entry.given_back.load(SeqCst);
        is_let_go(entry).then_some((entry, given_back))
    })
}

/// This process has taken a descriptor of a description of another one (`pidfd_getfd`), which is not
/// told of it: what waits there is written, the offset is where that ends, and nothing waits there any
/// more as soon as its owner writes again.
pub fn fetched(pidfd: i32, fd: i32) {
    let Some(ledger) = ledger::is_given().then(ledger::ledger).flatten() else { return };
    let Some(status) = sys::status(fd).filter(|status| status.regular) else { return };
    let Some(process) = proc::process_behind(pidfd) else { return };
    let Some((index, _)) = slot_of(ledger, process_of(ledger, process) as u32) else { return };
    let is_it = |entry: &Entry| {
        (entry.device.load(SeqCst), entry.inode.load(SeqCst)) == (status.device, status.inode)
    };
    recall(ledger, index, is_it);
    for (_, entry) in entries_of(ledger, index).filter(|(_, entry)| is_it(entry)) {
        let (word, base) = (entry.word.load(SeqCst), entry.base.load(SeqCst));
        let is_left = Placement::of_entry(entry) == Placement::AtPosition
            && owner_of(word) == Owner::Returned;
        // Elsewhere it has been moved since, or is another description's.
        if is_left && sys::seek(fd, 0, libc::SEEK_CUR) as u64 == base {
            sys::seek(fd, (base + length_of(word)) as i64, libc::SEEK_SET);
        }
    }
}

/// What waits of some files of a process is written, and nothing of them waits any more.
fn recall(ledger: &Ledger, index: usize, is_it: impl Fn(&Entry) -> bool) {
    for (_, entry) in entries_of(ledger, index).filter(|(_, entry)| is_it(entry)) {
        // First, so that the next write does not wait again.
        recall_entry(entry);
    }
    write_recalled_out(ledger, index, &mut Patience::new(u64::MAX), is_it);
}

/// Nothing of an entry is to wait any more: neither what its process is about to append, nor what it thinks of later.
fn recall_entry(entry: &Entry) {
    entry.is_recalled.fetch_max(RECALLED, SeqCst);
    pending::recall(&entry.word);
}

/// Another process, found in the ledger by its number, or by that of one of its threads.
fn other(process: i32) -> Option<(&'static Ledger, usize)> {
    let ledger = ledger::is_given().then(ledger::ledger).flatten()?;
    let process =
        u32::try_from(process_of(ledger, process)).ok().filter(|process| *process != 0)?;
    let (index, _) = slot_of(ledger, process)?;
    (index != entries::slot() as usize).then_some((ledger, index))
}

/// The process that a call means by a number: most calls take that of any thread.
#[unsafe(link_section = ".text.startup")]
pub fn process_of(ledger: &Ledger, number: i32) -> i32 {
    match u32::try_from(number).map(|number| slot_of(ledger, number)) {
        Ok(None) if number != 0 => proc::leader_of(number).unwrap_or(number),
        _ => number,
    }
}

/// This process has set a limit on the size of files of another one: its writes are to meet it.
pub fn limited(process: i32) {
    if let Some((ledger, index)) = other(process) {
        recall(ledger, index, |_| true);
    }
}

/// This process is about to change a file, or what may be done with it: what others have waiting for it
/// is written first, while it still may be, and nothing of theirs waits any more.
pub fn changing(status: &sys::Status) {
    recall_inode(status.device, status.inode, |_| true);
}

/// An offset that others may share is about to move: what they have waiting there is written first, and
/// nothing of it waits any more.
pub fn moving(status: &sys::Status) {
    let is_shared = |entry: &Entry| Placement::of_entry(entry) == Placement::AtSharedOffset;
    recall_inode(status.device, status.inode, is_shared);
}

/// A file was opened for writing, with these flags. What others have waiting for it comes before what this
/// process writes there, and nothing of them waits there any more, lest it come over that. What is only added
/// at the end, by all of them, may wait. (Where it was cut, all of that has come before, see `changes::opening`.)
pub fn opened(ledger: &Ledger, status: &sys::Status, flags: i32) {
    ledger.openers.note(status.device, status.inode, entries::opener(ledger));
    if !any_asked(ledger) {
        return;
    }
    let is_placed = flags & libc::O_APPEND == 0;
    recall_inode(status.device, status.inode, |entry| is_placed || !only_adds(entry));
}

/// From here on nobody sees what this process writes. What it can write by descriptors that no call of its own has
/// opened, as those that it was started with, counts as opened now.
pub fn writing_unseen() {
    /// Nobody is started with higher numbers; higher ones that were used are known.
    const NUMBERS: usize = 1024;
    let is_told = ledger::is_given() && !is_filtered();
    let Some(ledger) = is_told.then(ledger::ledger).flatten() else { return };
    for fd in 0..table::numbers().max(NUMBERS) as i32 {
        let flags = sys::open_flags(fd).unwrap_or(libc::O_RDONLY);
        if flags & libc::O_ACCMODE != libc::O_RDONLY
            // Nobody is asked, who may be this very process.
            && let Some(status) = sys::status_at_hand(fd).filter(|status| status.regular)
        {
            opened(ledger, &status, flags);
        }
    }
}

/// No call of this process is followed.
pub fn is_unseen() {
    writing_unseen();
    opens_unseen();
}

/// Whether this process opens files by calls that are not seen.
#[unsafe(link_section = ".data")]
static OPENS_UNSEEN: AtomicBool = AtomicBool::new(false);

/// From here on this process may open files, for writing too, by calls that are not seen: while it lives nothing of
/// others waits.
pub fn opens_unseen() {
    let is_told = ledger::is_given() && !is_filtered();
    let Some(ledger) = is_told.then(ledger::ledger).flatten() else { return };
    OPENS_UNSEEN.store(true, SeqCst);
    // First, so that the guard grants nothing that is not recalled.
    entries::say_unseen(ledger);
    opening();
}

/// In the child of a fork, which has what its parent opens files by; and where an exec failed.
pub fn goes_on_unseen() {
    if OPENS_UNSEEN.load(SeqCst) {
        opens_unseen();
    }
}

/// This process is about to become another program.
pub fn ends_unseen() {
    if OPENS_UNSEEN.load(SeqCst)
        && !is_filtered()
        && let Some(ledger) = ledger::ledger()
    {
        entries::unsay_unseen(ledger);
    }
}

/// A file was opened for reading: what others have waiting for it is there before it is read, for this
/// process may cut the file when it has read it.
pub fn reading(ledger: &Ledger, fd: i32) {
    if let Some(status) = sys::status(fd).filter(|status| status.regular) {
        write_inode_out(ledger, status.device, status.inode);
    }
}

/// Has the guard write what waits in processes that have something waiting for a file, without waiting long. Whether
/// there was anything.
pub fn write_inode_out(ledger: &Ledger, device: u64, inode: u64) -> bool {
    let own = entries::slot() as usize;
    let mut patience = Patience::with_guard(&ledger.header, QUICK_MS_MAX);
    let is_it =
        |entry: &Entry| (entry.device.load(SeqCst), entry.inode.load(SeqCst)) == (device, inode);
    let mut waited = false;
    for entry in used(ledger) {
        let index = entry.slot.load(SeqCst) as usize;
        let waits = is_it(entry) && waiting_of(entry.word.load(SeqCst)) > 0;
        if waits && index != own && index < ledger.slots.len() {
            // Nobody waits here for what lies elsewhere, on a file system that hangs.
            write_out_within(ledger, index, &mut patience, is_it, |_| {});
            waited = true;
        }
    }
    waited
}

/// A process is about to be made that opens files for writing before it can say so: what others have
/// waiting, for whatever file, is written first, and nothing of theirs waits any more.
pub fn opening() {
    let Some(ledger) = ledger::ledger() else { return };
    let is_of_others = |entry: &&Entry| entry.slot.load(SeqCst) != entries::slot();
    let held = used(ledger).filter(is_of_others).filter(|entry| is_held(entry));
    held.for_each(recall_entry);
    waiting(ledger).for_each(|(index, _)| ask_for(ledger, index));
    let mut patience = Patience::new(u64::MAX);
    let mut write_out = |index| write_recalled_out(ledger, index, &mut patience, |_| true);
    waiting(ledger).for_each(|(index, _)| write_out(index));
}

/// This process is about to write to a file what does not wait: what others have waiting for it comes
/// first, and nothing of theirs waits any more. What all of them add, at the end or through one description,
/// cannot come over anything, and goes on waiting. `is_placed`: this goes to a position that is given.
pub fn writing(ledger: &Ledger, fd: i32, is_placed: bool) {
    if !any_waits(ledger) {
        return;
    }
    let known = file::open_file(fd).map(|(file, _)| file);
    let inode = known.map(|file| (file.device.load(Relaxed), file.inode.load(Relaxed)));
    let asked = || sys::status(fd).map(|status| (status.device, status.inode));
    let Some((device, inode)) = inode.filter(|(_, inode)| *inode != 0).or_else(asked) else {
        return;
    };
    let appends =
        || !is_placed && sys::open_flags(fd).is_some_and(|flags| flags & libc::O_APPEND != 0);
    recall_inode(device, inode, |entry| match Placement::of_entry(entry) {
        Placement::AtSharedOffset if !is_placed && shares(ledger, fd, entry) => false,
        _ => !only_adds(entry) || !appends(),
    });
}

/// Whether others write to a file at positions of their own, or this process does while they write. If
/// so, nothing of theirs waits any more.
pub fn overwrite(fd: i32, own: &Entry) -> bool {
    let Some(ledger) = ledger::ledger() else { return false };
    let (device, inode) = (own.device.load(SeqCst), own.inode.load(SeqCst));
    let is_shared = Placement::of_entry(own) == Placement::AtSharedOffset;
    recall_inode(device, inode, |entry| match Placement::of_entry(entry) {
        Placement::AtSharedOffset if is_shared && shares(ledger, fd, entry) => false,
        _ => !only_adds(own) || !only_adds(entry),
    })
}

/// Whether what waits in an entry goes to the end of its file, wherever that is by then.
fn only_adds(entry: &Entry) -> bool {
    match Placement::of_entry(entry) {
        Placement::AtPosition => false,
        Placement::AtEnd => true,
        Placement::AtSharedOffset => entry.open_flags.load(SeqCst) as i32 & libc::O_APPEND != 0,
    }
}

/// Whether a descriptor of this process has the description of another's entry: then both write at one
/// offset, one behind the other.
fn shares(ledger: &Ledger, fd: i32, entry: &Entry) -> bool {
    let Some(slot) = ledger.slots.get(entry.slot.load(SeqCst) as usize) else { return false };
    ledger::knows_processes()
        && sys::is_same_description(fd, (slot.pid.load(SeqCst), entry.fd.load(SeqCst)))
            == Some(true)
}

/// What other processes have waiting for a file is written, and nothing of it waits any more. False:
/// there are no such entries.
fn recall_inode(device: u64, inode: u64, is_it: impl Fn(&Entry) -> bool) -> bool {
    let Some(ledger) = ledger::is_given().then(ledger::ledger).flatten() else { return false };
    let own = entries::slot() as usize;
    let of_others = || {
        used(ledger).filter_map(|entry| {
            let found = (entry.device.load(SeqCst), entry.inode.load(SeqCst));
            let index = entry.slot.load(SeqCst) as usize;
            let concerned = found == (device, inode)
                && index != own
                && index < ledger.slots.len()
                && is_held(entry)
                && is_it(entry);
            concerned.then_some((entry, index))
        })
    };
    of_others().for_each(|(entry, _)| recall_entry(entry));
    // What their processes wrote before comes with that, but for what lies on a file system that hangs: nobody waits for
    // it here.
    let mut patience = Patience::new(u64::MAX);
    let is_wanted =
        |entry: &Entry| (entry.device.load(SeqCst), entry.inode.load(SeqCst)) == (device, inode);
    of_others().for_each(|(_, index)| write_recalled_out(ledger, index, &mut patience, is_wanted));
    of_others().next().is_some()
}

/// All entries that are not free.
fn used(ledger: &Ledger) -> impl Iterator<Item = &Entry> {
    let words = ledger.header.used_bits.iter().map(|bits| bits.load(SeqCst));
    words.enumerate().flat_map(move |(word, bits)| {
        set_bits(bits).filter_map(move |bit| ledger.entries().get(word * 64 + bit))
    })
}

fn set_bits(mut bits: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(bit)
    })
}

/// This process has looked into the memory of another one, where it may have seen what that one did.
pub fn looked_into(process: i32) {
    if let Some((ledger, index)) = other(process) {
        write_out(ledger, index);
    }
}

/// This process is about to tell others something without a call of theirs: their windows ask again.
pub fn tell() {
    if let Some(ledger) = ledger::is_given().then(ledger::ledger).flatten() {
        ledger.header.news.fetch_add(1, SeqCst);
        ledger.header.clock.fetch_add(1, SeqCst);
    }
}

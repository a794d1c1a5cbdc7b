//! This process' entries in the ledger, its side of the guard's protocol: it asks for a handle on a file,
//! does not wait for the answer, and gives the handle back.
//!
//! A file whose writes may wait has an [`Entry`] in the ledger. The guard answers an ask whenever it
//! gets to it; until then the file's writes pass through. Everything here happens inside
//! transitions, with signals blocked.
#![allow(unsafe_code)]

mod let_go;
mod slot;

use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, SeqCst},
};

use sweetspot_core::ledger::{
    BEING_CLEARED, Entry, FLAG_GUARD, Ledger, PLACE_NOWHERE, PLACE_OFFSET, STATE_ASKED,
    STATE_DISCARD, STATE_FREE, STATE_HELD, STATE_OWNED, STATE_REFUSED, STATE_RELEASE, next_state,
    state_of,
};
use sweetspot_core::pending::{flushed, waiting_of};
use sweetspot_core::unwritten::FLUSH_FAILED;

pub use self::let_go::await_let_go;
use self::let_go::{forget_let_go, note_let_go, wait_given_back};
use self::slot::{OWNER_DIED, claim_slot, forget_slot, give_slot_up};
pub use self::slot::{
    before_descriptors_are_noticed, before_threads, count_waiting, end_opener, guard_thread,
    guarded, has_slot, is_fork_unseen, is_guard_alive, is_unseen, look_ahead, opener, say_unseen,
    slot, tracer_is_chosen, unsay_unseen, wait_until_given_back, wake_guard,
};
use super::{ledger, pool};
use crate::arch::PAGE_BYTES_MAX;
use crate::floor::lock::hold;
use crate::floor::{proc, shared, sys};

/// Entries that are kept, with their write buffers mapped, for files opened later.
const IDLE_MAX: usize = 8;
/// An entry that is mapped here: which one, and where its write buffer is.
#[derive(Clone, Copy)]
pub struct Mapped {
    pub entry: &'static Entry,
    /// Address and size of the mapped write buffer; 0: not mapped yet.
    pub write_buffer: u64,
    pub write_buffer_bytes: u64,
}

/// Entries that no file uses now.
struct Idle {
    entry: AtomicPtr<Entry>,
    write_buffer: AtomicU64,
    write_buffer_bytes: AtomicU64,
}
#[unsafe(link_section = ".data")]
static IDLE: [Idle; IDLE_MAX] = [const {
    Idle {
        entry: AtomicPtr::new(core::ptr::null_mut()),
        write_buffer: AtomicU64::new(0),
        write_buffer_bytes: AtomicU64::new(0),
    }
}; IDLE_MAX];

/// The lock of that list; nobody waits for another one while holding it.
#[unsafe(link_section = ".data")]
static KEEPING: AtomicU64 = AtomicU64::new(0);

/// The size of the write buffer that the guard gives for as many bytes: no less than a page.
fn reserved_for(write_buffer_bytes: u64) -> u64 {
    write_buffer_bytes.next_power_of_two().max(PAGE_BYTES_MAX)
}

/// The write buffer of an entry is given back.
fn unreserve(entry: &Entry) {
    let bytes = reserved_for(entry.write_buffer_bytes.load(Relaxed));
    pool::unreserve(bytes);
}

/// What a file tells the guard about itself.
pub struct Ask {
    pub fd: i32,
    pub device: u64,
    pub inode: u64,
    pub open_flags: u32,
    /// One of `PLACE_*`.
    pub place: u32,
    /// The size of the write buffer that is wanted.
    pub write_buffer_bytes: u64,
}

/// Why the guard was not asked.
pub enum NotAsked {
    /// It is still starting, or everything is taken for now: try again later.
    Yet,
    /// There is none, or this process cannot be finished by it.
    Ever,
}

/// Asks the guard for a handle on a file.
pub fn ask(ask: &Ask) -> Result<Mapped, NotAsked> {
    let ledger = ledger::ledger().ok_or(NotAsked::Ever)?;
    let guard = ledger.header.guard.load(Relaxed);
    if ledger.header.flags.load(Relaxed) & FLAG_GUARD == 0 || guard & OWNER_DIED != 0 {
        return Err(NotAsked::Ever);
    }
    if guard == 0 {
        return Err(NotAsked::Yet);
    }
    if !claim_slot(ledger) || !guarded() {
        return Err(NotAsked::Ever);
    }
    let mapped = match take_idle(ask.write_buffer_bytes) {
        Some(mapped) => mapped,
        None if !pool::has_room(reserved_for(ask.write_buffer_bytes)) => return Err(NotAsked::Yet),
        None => {
            let mapped = claim_entry(ledger).ok_or(NotAsked::Yet)?;
            pool::reserve(reserved_for(ask.write_buffer_bytes));
            mapped
        }
    };
    let entry = mapped.entry;
    entry.fd.store(ask.fd, Relaxed);
    entry.device.store(ask.device, Relaxed);
    entry.inode.store(ask.inode, Relaxed);
    entry.open_flags.store(ask.open_flags, Relaxed);
    entry.opener.store(opener(ledger), Relaxed);
    entry.place.store(ask.place, Relaxed);
    entry.arrived.store(0, Relaxed);
    entry.ended.store(0, Relaxed);
    entry.close_error.store(0, Relaxed);
    entry.is_recalled.store(0, Relaxed);
    entry.write_buffer_bytes.store(ask.write_buffer_bytes.max(mapped.write_buffer_bytes), Relaxed);
    let mut path = [0; 512];
    entry.path.store(proc::path_of(ask.fd, &mut path));
    let word = entry.state.load(Relaxed);
    let asked = next_state(word, STATE_ASKED);
    if entry.state.compare_exchange(word, asked, SeqCst, Relaxed).is_err() {
        return Err(NotAsked::Ever);
    }
    poke(ledger, index_of(ledger, entry));
    Ok(mapped)
}

/// Nobody tries any more to write what could not be written, and the program was told, or is about to be: when
/// this process has ended, the guard writes it only if the file is still as it was left, else it saves it beside.
pub fn mark_failed(entry: &Entry) {
    entry.flushing.store(FLUSH_FAILED, SeqCst);
    ANY_FAILED.store(true, Relaxed);
}

/// Whether a descriptor was closed here of which bytes could not be written.
pub fn any_failed() -> bool {
    ANY_FAILED.load(Relaxed)
}

#[unsafe(link_section = ".data")]
static ANY_FAILED: AtomicBool = AtomicBool::new(false);

/// Each piece of this process that could not be written: its path, for display.
pub fn unwritten() -> impl Iterator<Item = &'static Entry> {
    let slot = if is_fork_unseen() { 0 } else { slot() };
    let entries = match (slot, ledger::ledger()) {
        (1.., Some(ledger)) => ledger.entries(),
        _ => &[],
    };
    entries.iter().filter(move |entry| {
        entry.slot.load(Relaxed) == slot && waiting_of(entry.word.load(Relaxed)) > 0
    })
}

/// What the guard says.
pub enum Answer {
    Waiting,
    Held,
    Refused,
}

/// Looks for the guard's answer.
#[inline(always)]
pub fn answer(entry: &Entry) -> Answer {
    match state_of(entry.state.load(Acquire)) {
        STATE_HELD => Answer::Held,
        STATE_REFUSED => Answer::Refused,
        _ => Answer::Waiting,
    }
}

/// Maps the write buffer of an entry whose handle was just granted, and touches what will be used
/// first, so that no page is missing when bytes are appended.
pub fn map(mapped: Mapped) -> Option<Mapped> {
    let at = mapped.entry.write_buffer_at.load(Relaxed);
    let bytes = mapped.entry.write_buffer_bytes.load(Relaxed);
    if mapped.write_buffer != 0 && mapped.write_buffer_bytes == bytes {
        return Some(mapped);
    }
    unmap(&mapped);
    let write_buffer = shared::map_write_buffer(at, bytes)?;
    Some(Mapped { write_buffer, write_buffer_bytes: bytes, ..mapped })
}

fn unmap(mapped: &Mapped) {
    shared::unmap_write_buffer(mapped.write_buffer, mapped.write_buffer_bytes);
}

/// The file no longer needs its entry; nothing is pending. What the file system said when the guard closed
/// a descriptor of the file, as an error number; 0: nothing.
pub fn let_go(mapped: Mapped) -> i32 {
    let Some(ledger) = ledger::ledger() else { return 0 };
    if is_fork_unseen() {
        // It is the parent's, also while a fork is not over (functions of the program's run in between).
        return 0;
    }
    let _held = hold(&KEEPING);
    let entry = mapped.entry;
    if waiting_of(entry.word.load(Relaxed)) > 0 {
        // They could not be written. Handle and bytes stay until this process has ended; then the guard
        // writes them, or saves them beside.
        return 0;
    }
    let place = IDLE.iter().find(|idle| idle.entry.load(Relaxed).is_null());
    let is_held = state_of(entry.state.load(Relaxed)) == STATE_HELD;
    let keep = place.filter(|_| is_held && mapped.write_buffer != 0);
    let is_copy = entry.place.load(Relaxed) == PLACE_OFFSET;
    if is_copy {
        give_copy_back(ledger, entry);
    }
    let close_error = entry.close_error.load(Relaxed) as i32;
    let left = match keep {
        Some(_) if is_copy => entry.state.load(Relaxed),
        Some(_) => leave_state(entry, STATE_RELEASE),
        None => leave_state(entry, STATE_DISCARD),
    };
    match keep {
        Some(idle) => {
            idle.write_buffer.store(mapped.write_buffer, Relaxed);
            idle.write_buffer_bytes.store(mapped.write_buffer_bytes, Relaxed);
            idle.entry.store((&raw const *entry).cast_mut(), Relaxed);
        }
        None => {
            unreserve(entry);
            unmap(&mapped);
        }
    }
    poke(ledger, index_of(ledger, entry));
    match entry.place.load(Relaxed) {
        // The guard holds nothing of it.
        PLACE_OFFSET | PLACE_NOWHERE => {}
        _ => note_let_go(entry, left),
    }
    close_error
}

/// Has the guard close its copy of a description. The entry stays ours: it holds what the file system said.
fn give_copy_back(ledger: &Ledger, entry: &Entry) {
    let left = leave_state(entry, STATE_RELEASE);
    poke(ledger, index_of(ledger, entry));
    wait_given_back(entry, left);
}

/// Changes the state of an entry, whatever it is now (the guard may be changing it too), and returns
/// its word.
fn leave_state(entry: &Entry, state: u8) -> u64 {
    loop {
        let word = entry.state.load(Relaxed);
        let next = next_state(word, state);
        if entry.state.compare_exchange(word, next, SeqCst, Relaxed).is_ok() {
            return next;
        }
    }
}

/// An idle entry whose handle the guard has closed, and whose write buffer is large enough.
fn take_idle(write_buffer_bytes: u64) -> Option<Mapped> {
    let _held = hold(&KEEPING);
    for idle in &IDLE {
        let entry = idle.entry.load(Relaxed);
        // SAFETY: entries are in the ledger, which stays mapped.
        let Some(entry) = (unsafe { entry.as_ref() }) else { continue };
        if state_of(entry.state.load(Acquire)) == STATE_OWNED
            && idle.write_buffer_bytes.load(Relaxed) >= write_buffer_bytes
        {
            idle.entry.store(core::ptr::null_mut(), Relaxed);
            return Some(Mapped {
                entry,
                write_buffer: idle.write_buffer.load(Relaxed),
                write_buffer_bytes: idle.write_buffer_bytes.load(Relaxed),
            });
        }
    }
    None
}

fn claim_entry(ledger: &'static Ledger) -> Option<Mapped> {
    let slot = slot();
    let entries = ledger.entries();
    // Processes begin at different places, so that they rarely meet.
    let (before, after) = entries.split_at((slot as usize * 7).checked_rem(entries.len())?);
    for entry in after.iter().chain(before) {
        let word = entry.state.load(Relaxed);
        if state_of(word) == STATE_FREE
            && entry
                .state
                .compare_exchange(word, next_state(word, STATE_OWNED), SeqCst, Relaxed)
                .is_ok()
        {
            let index = index_of(ledger, entry);
            ledger.header.used_bits[index / 64].fetch_or(1 << (index % 64), SeqCst);
            entry.slot.store(slot, SeqCst);
            entry.flushing.store(0, SeqCst);
            entry.word.store(flushed(entry.word.load(Relaxed)), SeqCst);
            return Some(Mapped { entry, write_buffer: 0, write_buffer_bytes: 0 });
        }
    }
    // The guard makes more when it sees how many are in use.
    wake_guard(ledger);
    None
}

fn index_of(ledger: &Ledger, entry: &Entry) -> usize {
    let first = ledger.entries().as_ptr() as usize;
    ((&raw const *entry) as usize - first) / size_of::<Entry>()
}

/// Tells the guard that an entry waits for it.
fn poke(ledger: &Ledger, index: usize) {
    ledger.header.ask_bits[index / 64].fetch_or(1 << (index % 64), SeqCst);
    wake_guard(ledger);
}

/// This process leaves the ledger: at its end, or because it becomes another program.
pub fn leave() {
    let index = if is_fork_unseen() { 0 } else { give_slot_up() };
    if index == 0 {
        return;
    }
    let Some(ledger) = ledger::ledger() else { return };
    let _held = hold(&KEEPING);
    for idle in &IDLE {
        let entry = idle.entry.swap(core::ptr::null_mut(), Relaxed);
        // SAFETY: as in `take_idle`.
        if let Some(entry) = unsafe { entry.as_ref() } {
            let write_buffer = idle.write_buffer.load(Relaxed);
            unmap(&Mapped {
                entry,
                write_buffer,
                write_buffer_bytes: idle.write_buffer_bytes.load(Relaxed),
            });
            unreserve(entry);
            leave_state(entry, STATE_DISCARD);
            poke(ledger, index_of(ledger, entry));
        }
    }
    let mine = |entry: &&Entry| entry.slot.load(Relaxed) as usize == index;
    if ledger.entries().iter().filter(mine).any(|entry| waiting_of(entry.word.load(Relaxed)) > 0) {
        // Something could not be written: the guard must find us when we are dead.
        return;
    }
    let (slot, process) = (&ledger.slots[index], sys::process_id() as u32);
    // The guard clears it, too, if it cannot tell that this process lives: then it may be another's by now.
    if slot.pid.compare_exchange(process, BEING_CLEARED, SeqCst, Relaxed).is_ok() {
        slot.ready.store(0, SeqCst);
        slot.unseen.store(0, SeqCst);
        slot.pid.store(0, SeqCst);
    }
}

/// In the child of a fork: nothing in the ledger is ours.
pub fn forget_all() {
    forget_slot();
    KEEPING.store(0, Relaxed);
    forget_let_go();
    pool::reserve_nothing();
    for idle in &IDLE {
        if !idle.entry.swap(core::ptr::null_mut(), Relaxed).is_null() {
            shared::unmap_write_buffer(
                idle.write_buffer.load(Relaxed),
                idle.write_buffer_bytes.load(Relaxed),
            );
        }
    }
}

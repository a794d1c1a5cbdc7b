//! This process' side of the guard's protocol: asking for a pin, waiting for nobody, giving it back.
//!
//! A file whose writes may wait has an [`Entry`] in the ledger. The guard answers an ask whenever it
//! gets to it; until then the file's writes go straight on. Everything here happens inside
//! transitions, with signals blocked.
#![allow(unsafe_code)]

use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use sweetspot_core::ledger::{
    ENTRIES_MAX, Entry, FLAG_GUARD, FLUSH_FAILED, Ledger, PLACE_OFFSET, SLOTS_MAX, STATE_ASKED,
    STATE_DISCARD, STATE_FREE, STATE_OWNED, STATE_PINNED, STATE_REFUSED, STATE_RELEASE, next_state,
    state_of,
};
use sweetspot_core::pending::{Owner, flushed, owner_of, waiting_of};

use crate::arch::{OwnPage, PAGE_BYTES_MAX};
use crate::ledger;
use crate::lock::hold;
use crate::{pool, sys};

/// Entries that are kept, with their chunks mapped, for files opened later.
const IDLE_MAX: usize = 8;
/// The kernel's marks on a robust futex: its owner died; somebody waits for it.
const OWNER_DIED: u32 = 0x4000_0000;
const WAITERS: u32 = 0x8000_0000;

/// The guard's word, or a zero of our own: no guard.
#[unsafe(link_section = ".data")]
static GUARD: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NO_GUARD).cast_mut());
#[unsafe(link_section = ".data")]
static NO_GUARD: AtomicU32 = AtomicU32::new(0);
/// The slot of this process in the ledger; 0: none yet.
#[unsafe(link_section = ".data")]
static SLOT: AtomicU32 = AtomicU32::new(0);

/// 1 where this memory is ours; zero in every child, also in one that was forked behind our back.
static IS_OURS: OwnPage<AtomicU32> = OwnPage(AtomicU32::new(0));

/// Whether there is a guard that lives, and this process is the one that claimed its slot. Two
/// loads and a comparison: asked before each write that is to wait.
#[inline(always)]
pub fn guarded() -> bool {
    // SAFETY: the word is a static or in the ledger, which stays mapped.
    let guard = unsafe { (*GUARD.load(Relaxed)).load(Relaxed) };
    is_alive(guard) && IS_OURS.0.load(Relaxed) != 0
}

/// Whether this word says that the guard lives: it is the number of a thread, below all marks.
#[inline(always)]
fn is_alive(guard: u32) -> bool {
    (guard & !WAITERS).wrapping_sub(1) < OWNER_DIED - 1
}

/// How long the guard may have what it took of a file, in milliseconds. It has at most what fits into a
/// buffer; only somebody who stops it keeps it that long, or a file system that hangs.
const TAKEN_MS_MAX: u64 = 1000;
/// How long is waited between two looks at whether it still lives.
const TAKEN_LOOK_MS: u64 = 50;

/// Waits until the guard has given back what it took of an entry. Afterwards either it has, or it is
/// dead. One that was stopped in the middle is killed: nobody else could go on.
pub fn wait_until_given_back(entry: &Entry) {
    let begun_ms = crate::process::now_ms();
    let is_taken = || owner_of(entry.word.load(Acquire)) == Owner::Guard;
    while is_taken() && guarded() {
        let seen = entry.given_back.load(Acquire);
        if is_taken() {
            sys::futex_wait(&entry.given_back, seen, TAKEN_LOOK_MS);
        }
        if crate::process::now_ms().saturating_sub(begun_ms) > TAKEN_MS_MAX {
            kill_guard();
        }
    }
}

/// Kills the guard by its number, which is its own as long as its word says that it lives.
fn kill_guard() {
    const THREAD: u32 = 0x3fff_ffff;
    // SAFETY: the word is a static or in the ledger, which stays mapped.
    let guard = unsafe { (*GUARD.load(Relaxed)).load(Acquire) };
    if guard & OWNER_DIED == 0 && guard & THREAD != 0 {
        // SAFETY: no memory is handed over.
        unsafe { sys::syscall!(SYS_kill, (guard & THREAD) as isize, libc::SIGKILL) };
    }
}

/// Whether this memory was claimed by this very process (or by nobody).
pub fn is_fork_unseen() -> bool {
    SLOT.load(Relaxed) != 0 && IS_OURS.0.load(Relaxed) == 0
}

/// Whether this process has (or had) anything in the ledger.
pub fn has_slot() -> bool {
    slot() != 0
}

/// The slot of this process; 0: none.
pub fn slot() -> u32 {
    SLOT.load(Relaxed)
}

/// Whether the guard of a ledger lives, whether this process has anything to do with it or not.
pub fn is_guard_alive(ledger: &Ledger) -> bool {
    let guard = ledger.header.guard.load(SeqCst);
    guard != 0 && guard & OWNER_DIED == 0
}

/// An entry that is mapped here: which one, and where its chunk is.
#[derive(Clone, Copy)]
pub struct Pinned {
    pub entry: &'static Entry,
    /// Address and size of the mapped chunk; 0: not mapped yet.
    pub chunk: u64,
    pub chunk_bytes: u64,
}

/// Entries that no file uses now.
struct Idle {
    entry: AtomicPtr<Entry>,
    chunk: AtomicU64,
    chunk_bytes: AtomicU64,
}
static IDLE: [Idle; IDLE_MAX] = [const {
    Idle {
        entry: AtomicPtr::new(core::ptr::null_mut()),
        chunk: AtomicU64::new(0),
        chunk_bytes: AtomicU64::new(0),
    }
}; IDLE_MAX];

/// The lock of that list; nobody waits for another one while holding it.
#[unsafe(link_section = ".data")]
static KEEPING: AtomicU64 = AtomicU64::new(0);

/// Bytes of the chunks that this process has, or has asked for.
#[unsafe(link_section = ".data")]
static RESERVED: AtomicU64 = AtomicU64::new(0);

/// See `RESERVED`.
pub fn reserved_bytes() -> u64 {
    RESERVED.load(Relaxed)
}

/// The size of the chunk that the guard gives for as many bytes: no less than a page.
fn reserved_for(chunk_bytes: u64) -> u64 {
    chunk_bytes.next_power_of_two().max(PAGE_BYTES_MAX)
}

/// The chunk of an entry is given back.
fn unreserve(entry: &Entry) {
    let bytes = reserved_for(entry.chunk_bytes.load(Relaxed));
    RESERVED.store(RESERVED.load(Relaxed).saturating_sub(bytes), Relaxed);
}

/// What a file tells the guard about itself.
pub struct Ask {
    pub fd: i32,
    pub device: u64,
    pub inode: u64,
    pub open_flags: u32,
    /// One of `PLACE_*`.
    pub place: u32,
    /// The size of chunk that is wanted.
    pub chunk_bytes: u64,
}

/// Why the guard was not asked.
pub enum NotAsked {
    /// It is still starting, or everything is taken for now: try again later.
    Yet,
    /// There is none, or this process cannot be finished by it.
    Ever,
}

/// Asks the guard to pin a file.
pub fn ask(ask: &Ask) -> Result<Pinned, NotAsked> {
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
    let pinned = match take_idle(ask.chunk_bytes) {
        Some(pinned) => pinned,
        None if !pool::has_room(reserved_for(ask.chunk_bytes)) => return Err(NotAsked::Yet),
        None => {
            let pinned = claim_entry(ledger).ok_or(NotAsked::Yet)?;
            RESERVED.fetch_add(reserved_for(ask.chunk_bytes), Relaxed);
            pinned
        }
    };
    let entry = pinned.entry;
    entry.fd.store(ask.fd, Relaxed);
    entry.device.store(ask.device, Relaxed);
    entry.inode.store(ask.inode, Relaxed);
    entry.open_flags.store(ask.open_flags, Relaxed);
    entry.place.store(ask.place, Relaxed);
    entry.arrived.store(0, Relaxed);
    entry.is_recalled.store(0, Relaxed);
    entry.chunk_bytes.store(ask.chunk_bytes.max(pinned.chunk_bytes), Relaxed);
    let mut path = [0; 512];
    entry.path.store(ledger::path_of(ask.fd, &mut path));
    let word = entry.state.load(Relaxed);
    let asked = next_state(word, STATE_ASKED);
    if entry.state.compare_exchange(word, asked, SeqCst, Relaxed).is_err() {
        return Err(NotAsked::Ever);
    }
    poke(ledger, index_of(ledger, entry));
    Ok(pinned)
}

/// The descriptor is being closed although bytes of it could not be written, and the program was
/// told: the guard writes them only if the file is still as it is now, else it saves them beside.
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
    let slot = SLOT.load(Relaxed);
    let entries = match (slot, ledger::ledger()) {
        (1.., Some(ledger)) => &ledger.entries[..],
        _ => &[],
    };
    entries.iter().filter(move |entry| {
        entry.slot.load(Relaxed) == slot && waiting_of(entry.word.load(Relaxed)) > 0
    })
}

/// What the guard says.
pub enum Answer {
    Waiting,
    Pinned,
    Refused,
}

/// Looks for the guard's answer.
#[inline(always)]
pub fn answer(entry: &Entry) -> Answer {
    match state_of(entry.state.load(Acquire)) {
        STATE_PINNED => Answer::Pinned,
        STATE_REFUSED => Answer::Refused,
        _ => Answer::Waiting,
    }
}

/// Maps the chunk of an entry that was just pinned, and touches what will be used first, so that no
/// page is missing when bytes are appended.
pub fn map(pinned: Pinned) -> Option<Pinned> {
    let at = pinned.entry.chunk_at.load(Relaxed);
    let bytes = pinned.entry.chunk_bytes.load(Relaxed);
    if pinned.chunk != 0 && pinned.chunk_bytes == bytes {
        return Some(pinned);
    }
    unmap(&pinned);
    let chunk = ledger::map_chunk(at, bytes)?;
    Some(Pinned { chunk, chunk_bytes: bytes, ..pinned })
}

fn unmap(pinned: &Pinned) {
    ledger::unmap_chunk(pinned.chunk, pinned.chunk_bytes);
}

/// The file needs its entry no more; nothing is pending.
pub fn release(pinned: Pinned) {
    let Some(ledger) = ledger::ledger() else { return };
    let _held = hold(&KEEPING);
    let entry = pinned.entry;
    if waiting_of(entry.word.load(Relaxed)) > 0 {
        // Could not be written: pin and bytes stay until this process has ended; the guard then
        // writes them, or saves them beside.
        return;
    }
    let place = IDLE.iter().find(|idle| idle.entry.load(Relaxed).is_null());
    let pinned_now = state_of(entry.state.load(Relaxed)) == STATE_PINNED;
    let keep = place.filter(|_| pinned_now && pinned.chunk != 0);
    let is_copied = entry.place.load(Relaxed) == PLACE_OFFSET;
    let left = leave_state(entry, if keep.is_some() { STATE_RELEASE } else { STATE_DISCARD });
    match keep {
        Some(idle) => {
            idle.chunk.store(pinned.chunk, Relaxed);
            idle.chunk_bytes.store(pinned.chunk_bytes, Relaxed);
            idle.entry.store((&raw const *entry).cast_mut(), Relaxed);
        }
        None => {
            unreserve(entry);
            unmap(&pinned);
        }
    }
    poke(ledger, index_of(ledger, entry));
    if is_copied {
        wait_given_back(entry, left);
    } else {
        note_release(entry, left);
    }
}

/// Releases that the guard has not been seen to answer: until then it holds the file, which keeps its
/// file system busy and its space taken. Waiting for the answer is left to the moment at which somebody
/// could notice ([`await_releases`]); who closes and works on pays nothing.
struct Unanswered {
    entry: AtomicPtr<Entry>,
    /// Its state word as it was left; the answer is another one.
    left: AtomicU64,
}
/// More than a guard that gets its turn ever has before it.
const RELEASES_MAX: usize = 32;
static RELEASES: [Unanswered; RELEASES_MAX] = [const {
    Unanswered { entry: AtomicPtr::new(core::ptr::null_mut()), left: AtomicU64::new(0) }
}; RELEASES_MAX];
/// Of them, those that are in use, from the first one on.
#[unsafe(link_section = ".data")]
static RELEASED: AtomicU32 = AtomicU32::new(0);

/// Keeps a release in mind. `KEEPING` is held.
fn note_release(entry: &Entry, left: u64) {
    if RELEASED.load(Relaxed) as usize == RELEASES_MAX {
        await_all();
    }
    let count = RELEASED.load(Relaxed);
    let release = &RELEASES[count as usize % RELEASES_MAX];
    release.entry.store((&raw const *entry).cast_mut(), Relaxed);
    release.left.store(left, Relaxed);
    RELEASED.store(count + 1, Relaxed);
}

/// Waits until what was closed is free: before somebody unmounts its file system, asks for free space,
/// removes a name, or hears of it.
#[inline(always)]
pub fn await_releases() {
    if RELEASED.load(Relaxed) != 0 {
        await_held();
    }
}

#[cold]
fn await_held() {
    let _signals = crate::process::SignalsBlocked::new();
    let _held = hold(&KEEPING);
    await_all();
}

/// `KEEPING` is held.
fn await_all() {
    let count = RELEASED.load(Relaxed) as usize;
    for release in &RELEASES[..count.min(RELEASES_MAX)] {
        // SAFETY: entries are in the ledger, which stays mapped.
        if let Some(entry) = unsafe { release.entry.load(Relaxed).as_ref() } {
            wait_given_back(entry, release.left.load(Relaxed));
        }
    }
    RELEASED.store(0, Relaxed);
}

/// How long the guard may take to give a copy back, in milliseconds.
const GIVE_BACK_MS_MAX: u64 = 1000;

/// Waits until the guard has closed its copy of a description: whoever closes it after us is the last
/// one, to locks, to watchers, and to whoever wants to run the file.
fn wait_given_back(entry: &Entry, left: u64) {
    let begun_ms = crate::process::now_ms();
    while entry.state.load(Acquire) == left && guarded() {
        sys::give_way();
        if crate::process::now_ms().saturating_sub(begun_ms) > GIVE_BACK_MS_MAX {
            return;
        }
    }
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

/// An idle entry that the guard has unpinned and whose chunk is large enough.
fn take_idle(chunk_bytes: u64) -> Option<Pinned> {
    let _held = hold(&KEEPING);
    for idle in &IDLE {
        let entry = idle.entry.load(Relaxed);
        // SAFETY: entries are in the ledger, which stays mapped.
        let Some(entry) = (unsafe { entry.as_ref() }) else { continue };
        if state_of(entry.state.load(Acquire)) == STATE_OWNED
            && idle.chunk_bytes.load(Relaxed) >= chunk_bytes
        {
            idle.entry.store(core::ptr::null_mut(), Relaxed);
            return Some(Pinned {
                entry,
                chunk: idle.chunk.load(Relaxed),
                chunk_bytes: idle.chunk_bytes.load(Relaxed),
            });
        }
    }
    None
}

fn claim_entry(ledger: &'static Ledger) -> Option<Pinned> {
    let slot = SLOT.load(Relaxed);
    // Processes begin at different places, so that they rarely meet.
    let start = slot as usize * 7;
    for step in 0..ENTRIES_MAX {
        let entry = &ledger.entries[(start + step) % ENTRIES_MAX];
        let word = entry.state.load(Relaxed);
        if state_of(word) == STATE_FREE
            && entry
                .state
                .compare_exchange(word, next_state(word, STATE_OWNED), SeqCst, Relaxed)
                .is_ok()
        {
            entry.slot.store(slot, SeqCst);
            entry.flushing.store(0, SeqCst);
            entry.word.store(flushed(entry.word.load(Relaxed)), SeqCst);
            return Some(Pinned { entry, chunk: 0, chunk_bytes: 0 });
        }
    }
    None
}

fn index_of(ledger: &Ledger, entry: &Entry) -> usize {
    let first = ledger.entries.as_ptr() as usize;
    ((&raw const *entry) as usize - first) / size_of::<Entry>()
}

/// Tells the guard that an entry waits for it.
fn poke(ledger: &Ledger, index: usize) {
    ledger.header.ask_bits[index / 64].fetch_or(1 << (index % 64), SeqCst);
    wake_guard(ledger);
}

/// Makes the guard look at what it is asked.
pub fn wake_guard(ledger: &Ledger) {
    ledger.header.asks.fetch_add(1, SeqCst);
    if ledger.header.guard_naps.load(SeqCst) == 1 {
        sys::futex_wake(&ledger.header.asks);
    }
}

/// Makes this process known in the ledger, once.
fn claim_slot(ledger: &'static Ledger) -> bool {
    if SLOT.load(Relaxed) != 0 {
        return true;
    }
    let (Some(start_ticks), Some(namespace)) = (start_ticks(), pid_namespace()) else {
        return false;
    };
    if ledger.header.pid_namespace.load(Relaxed) != namespace {
        return false;
    }
    let bytes = size_of_val(&IS_OURS);
    // SAFETY: the pages are ours, whole, and anonymous memory.
    let answer =
        unsafe { sys::syscall!(SYS_madvise, &raw const IS_OURS, bytes, libc::MADV_WIPEONFORK) };
    if answer != 0 {
        // A child that was forked behind our back would not be seen.
        return false;
    }
    let process = sys::process_id() as u32;
    for index in 1..SLOTS_MAX {
        let slot = &ledger.slots[index];
        if slot.pid.load(Relaxed) == 0
            && slot.pid.compare_exchange(0, process, SeqCst, Relaxed).is_ok()
        {
            slot.start_ticks.store(start_ticks, Relaxed);
            slot.pid_namespace.store(namespace, Relaxed);
            slot.ready.store(1, Release);
            IS_OURS.0.store(1, Relaxed);
            GUARD.store((&raw const ledger.header.guard).cast_mut(), Relaxed);
            SLOT.store(index as u32, Relaxed);
            return true;
        }
    }
    ledger.header.asks.fetch_add(1, SeqCst);
    sys::futex_wake(&ledger.header.asks);
    false
}

/// This process leaves the ledger: at its end, or because it becomes another program.
pub fn leave() {
    let index = SLOT.swap(0, Relaxed) as usize;
    if index == 0 || IS_OURS.0.load(Relaxed) == 0 {
        return;
    }
    let Some(ledger) = ledger::ledger() else { return };
    let _held = hold(&KEEPING);
    for idle in &IDLE {
        let entry = idle.entry.swap(core::ptr::null_mut(), Relaxed);
        // SAFETY: as in `take_idle`.
        if let Some(entry) = unsafe { entry.as_ref() } {
            let chunk = idle.chunk.load(Relaxed);
            unmap(&Pinned { entry, chunk, chunk_bytes: idle.chunk_bytes.load(Relaxed) });
            unreserve(entry);
            leave_state(entry, STATE_DISCARD);
            poke(ledger, index_of(ledger, entry));
        }
    }
    let mine = |entry: &&Entry| entry.slot.load(Relaxed) as usize == index;
    if ledger.entries.iter().filter(mine).any(|entry| waiting_of(entry.word.load(Relaxed)) > 0) {
        // Something could not be written: the guard must find us when we are dead.
        return;
    }
    ledger.slots[index].ready.store(0, SeqCst);
    ledger.slots[index].pid.store(0, SeqCst);
}

/// In the child of a fork: nothing in the ledger is ours.
pub fn forget_all() {
    SLOT.store(0, Relaxed);
    KEEPING.store(0, Relaxed);
    RELEASED.store(0, Relaxed);
    RESERVED.store(0, Relaxed);
    for idle in &IDLE {
        if !idle.entry.swap(core::ptr::null_mut(), Relaxed).is_null() {
            ledger::unmap_chunk(idle.chunk.load(Relaxed), idle.chunk_bytes.load(Relaxed));
        }
    }
}

/// Field 22 of /proc/self/stat: when this process started, in ticks after boot.
fn start_ticks() -> Option<u64> {
    const START: usize = 22;
    let mut buffer = [0; 1024];
    let len = ledger::read_small(c"/proc/self/stat", &mut buffer)?;
    sys::decimal(stat_field(&buffer[..len], START)?)
}

/// `/proc/PID/stat`.
pub fn stat_of(process: i32, buffer: &mut [u8; 1024]) -> Option<&[u8]> {
    let path = ledger::proc_path(b"/proc/", process, b"/stat");
    let path = core::ffi::CStr::from_bytes_until_nul(&path).ok()?;
    let len = ledger::read_small(path, buffer)?;
    Some(&buffer[..len])
}

/// A field of it, from the third on, counted as its manual does.
pub fn stat_field(text: &[u8], number: usize) -> Option<&[u8]> {
    // The second field is the name in brackets, which may hold anything.
    let after_name = text.iter().rposition(|byte| *byte == b')')? + 2;
    text.get(after_name..)?.split(|byte| *byte == b' ').nth(number - 3)
}

/// One file more of which something waits (`more`), or one less.
pub fn count_waiting(more: bool) {
    let slot = SLOT.load(Relaxed) as usize;
    let Some(ledger) = ledger::ledger().filter(|_| slot != 0) else { return };
    // First more in all than in one: others look at the sum before they look at each.
    let change = if more { 1 } else { u32::MAX };
    ledger.header.waiting.fetch_add(change, SeqCst);
    ledger.slots[slot].waiting.fetch_add(change, SeqCst);
}

/// Inode of this process' pid namespace.
fn pid_namespace() -> Option<u64> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let path = c"/proc/self/ns/pid";
    // SAFETY: a string and a struct of the right size.
    let (answer, stat) = unsafe {
        let answer = sys::syscall!(
            SYS_newfstatat,
            libc::AT_FDCWD as isize,
            path.as_ptr(),
            stat.as_mut_ptr(),
            0
        );
        (answer, stat.assume_init())
    };
    (answer == 0).then_some(stat.st_ino)
}

//! The guard: pins files for the living and finishes what the dead left pending.
//!
//! A process of its own, no child of the program and in nobody's way: its own session, no
//! descriptor of the caller's, no terminal, ended by no signal that a shell or a shutdown sends.
//! It ends with the last process of the tree.
//!
//! Two threads, no lock across a call that may block on data:
//! - *pins* answers asks and alone allocates and frees chunks and pins. It never touches file data.
//! - the *undertaker* sleeps until a process dies and then writes what that one left. It also writes for
//!   a living process what has waited for the maximum age, if that process is quiet (`quiet`), or what
//!   another process wants in its files now. It may block on a slow file system; asks are answered
//!   meanwhile. It begins with the first ask: before, no death leaves anything, and a thread counts among
//!   the processes that a user may have.
//!
//! What a process stores in shared memory is believed only where it can do no harm beyond the
//! process' own rights: which file is written is decided by the pin, which bytes by the chunk that
//! this guard gave out, and both are remembered here and not read back.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use sweetspot_core::ledger::{
    CHUNKS_AT, CHUNKS_BYTES_MAX, CLOCK_STANDS, CLOCK_UNWANTED, CLOCK_WANTED, CLOCKS_PER_AGE,
    ENTRIES_MAX, Entry, FLUSH_FAILED, Ledger, PLACE_BASE, PLACE_END, PLACE_OFFSET, SLOTS_MAX,
    STATE_ASKED, STATE_DISCARD, STATE_FREE, STATE_OWNED, STATE_PINNED, STATE_REFUSED,
    STATE_RELEASE, Slot, chunk_start, next_state, state_of,
};
use sweetspot_core::pending::{self, Owner, flushed, length_of, owner_of, waiting_of};
use sweetspot_core::size::BUFFER_BYTES_MAX;
use sweetspot_core::stamps::{Stamped, told_apart};
use sweetspot_core::why::Why;

use crate::chunks::{Chunk, Chunks};
use crate::costs;
use crate::filters;
use crate::finish::{self, Extent, Saving};
use crate::identity;
use crate::memory;
use crate::notes::Note;
use crate::quiet::{self, Quiet};
use crate::session::{ENTRIES_AT, is_anything_pending};
use crate::sys::{self, Epoll, Mapping, Resource, Status};

/// As `ps` and `pkill` see it: 15 bytes, the most that the kernel keeps.
const NAME: &std::ffi::CStr = c"sweetspot-guard";
/// In a slot's place for the number while the guard clears it; no process has it.
const BEING_CLEARED: u32 = u32::MAX;
/// How long the guard leaves the processor to the program that starts. Without it one start in ten
/// took 0.50 ms instead of 0.36 (60 starts, 2 cores, median 0.37 and 0.32).
const HEAD_START: Duration = Duration::from_micros(200);
/// How long a look at the memory available stays good: a look costs as much as a pin.
const ROOM_AGE: Duration = Duration::from_secs(1);
/// How often the slots of the dead are looked for at most.
const SWEEP_AGE: Duration = Duration::from_secs(1);
/// The undertaker calls nothing deep.
const UNDERTAKER_STACK_BYTES: usize = 1 << 20;
/// Without an undertaker deaths are looked for after this part of the time since the guard began, so
/// that it ends soon after a short program and does not keep a machine awake below a long one.
const LIFE_PER_LOOK: u32 = 8;
/// At most, and at least.
const LOOK_MAX: Duration = Duration::from_secs(1);
const LOOK_MIN: Duration = Duration::from_millis(1);
/// The id of `due_event` among those of processes, which count from 1.
const DUE: u64 = 0;

/// Starts the guard of a ledger for `program`; the caller has one thread. The state folders are those
/// for notes and for costs.
pub(crate) fn start(
    file: &File,
    path: &Path,
    program: u32,
    states: [&[PathBuf]; 2],
) -> io::Result<()> {
    // Before the copy is made: the number cannot have passed to another process yet.
    let program_pidfd = sys::pidfd_open(program)?;
    let file = file.try_clone()?;
    sys::detach(move || {
        // Whatever happens in here, the program runs: writes just do not wait.
        let _ = live(file, path, program, program_pidfd, states);
    })
}

fn live(
    file: File,
    path: &Path,
    program: u32,
    program_pidfd: OwnedFd,
    states: [&[PathBuf]; 2],
) -> io::Result<()> {
    // The program first: it will not ask before it has been loaded.
    std::thread::sleep(HEAD_START);
    let arguments = identity::process_stat(std::process::id()).ok().map(|stat| stat.arguments);
    let path = path.to_owned();
    sys::settle_signals();
    sys::set_private_umask();
    let [file, program_pidfd] = sys::keep_only([file.into(), program_pidfd])?;
    sys::rename_process(NAME, arguments);
    // It holds what others wrote: it should be the last to go. Both may be refused.
    for score in ["-900", "0"] {
        if std::fs::write("/proc/self/oom_score_adj", score).is_ok() {
            break;
        }
    }
    // A pin is a descriptor; and what the program wrote under its own limits, it wrote.
    for resource in [Resource::Descriptors, Resource::FileBytes, Resource::CpuSeconds] {
        let _ = resource.raise();
    }
    std::env::set_current_dir("/")?;
    // A guard that lost a thread would be worse than none.
    std::panic::set_hook(Box::new(|_| sys::exit_now(1)));

    let file = File::from(file);
    // Leaked: both threads use it until the process ends.
    let guard: &'static Guard = Box::leak(Box::new(Guard {
        ledger: Mapping::new(&file)?,
        file,
        path,
        states: states[0].to_vec(),
        costs: states[1].to_vec(),
        note: OnceLock::new(),
        held: (0..ENTRIES_MAX).map(|_| Held::default()).collect(),
        watch: Mutex::new(Watch::default()),
        epoll: Epoll::new()?,
        namespace: identity::pid_namespace()?,
        may_copy: !filters::any(),
        due: Mutex::default(),
        due_event: sys::Event::new().ok(),
    }));
    if let Some(event) = &guard.due_event {
        guard.epoll.add(event.as_fd(), DUE)?;
    }
    guard.lock_watch().register(
        &guard.epoll,
        Watched { pid: program, slot: 0, start_ticks: 0 },
        program_pidfd,
    )?;
    // What the maker has not done already; processes touch it once they see the guard's word.
    sys::allocate(&guard.file, ENTRIES_AT as u64, (size_of::<Ledger>() - ENTRIES_AT) as u64)?;
    sys::own_until_death(&guard.ledger.header.guard)?;
    Pins::new(guard).live()
}

/// What the guard holds for an entry. Written by the pins thread, before the entry's state says so.
#[derive(Default)]
struct Held {
    /// The `O_PATH` descriptor, or the copy of the description, plus one; 0: none.
    pin: AtomicI32,
    is_copy: AtomicBool,
    /// From the start of the ledger; 0: none.
    chunk_at: AtomicU64,
    chunk_bytes: AtomicU64,
    /// The id under which the owner is watched; 0: nobody.
    owner: AtomicU64,
}

impl Held {
    fn pin(&self) -> Option<BorrowedFd<'_>> {
        let pin = self.pin.load(SeqCst);
        // The pins thread closes it only when nothing is pending, the undertaker uses it only while
        // something is.
        (pin != 0).then(|| sys::borrow(pin - 1))
    }
}

/// A process whose death is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watched {
    pid: u32,
    /// 0: the program itself, before it has a slot.
    slot: u32,
    start_ticks: u64,
}

/// The processes whose death is waited for.
#[derive(Default)]
struct Watch {
    living: HashMap<u64, (Watched, OwnedFd)>,
    /// The last id for each slot.
    of_slot: HashMap<u32, u64>,
    last_id: u64,
    /// The guard ends: nobody is taken on any more.
    ends: bool,
}

impl Watch {
    fn register(&mut self, epoll: &Epoll, watched: Watched, pidfd: OwnedFd) -> io::Result<u64> {
        if self.ends {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        self.last_id += 1;
        epoll.add(pidfd.as_fd(), self.last_id)?;
        self.living.insert(self.last_id, (watched, pidfd));
        if watched.slot != 0 {
            self.of_slot.insert(watched.slot, self.last_id);
        }
        Ok(self.last_id)
    }
}

struct Guard {
    ledger: Mapping,
    /// Its description has the ledger's flock.
    file: File,
    path: PathBuf,
    /// Where the ledger may be noted; none: it is not.
    states: Vec<PathBuf>,
    /// Where what calls cost is kept.
    costs: Vec<PathBuf>,
    /// The note, made before the first grant; `None`: it could not be made.
    note: OnceLock<Option<Note>>,
    held: Vec<Held>,
    watch: Mutex<Watch>,
    epoll: Epoll,
    namespace: u64,
    /// Whether no filter of system calls could end this process for a copy that is not needed.
    may_copy: bool,
    /// Takes that are due, and what wakes the undertaker for them.
    due: Mutex<Vec<quiet::Take>>,
    due_event: Option<sys::Event>,
}

/// Why a pin is not granted: the program goes straight on and nobody reads more than that.
#[derive(Debug)]
struct Refused;

impl From<io::Error> for Refused {
    fn from(_: io::Error) -> Refused {
        Refused
    }
}

impl Guard {
    fn lock_watch(&self) -> std::sync::MutexGuard<'_, Watch> {
        // A panic ends the process, so nobody ever sees a poisoned lock.
        self.watch.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn entries(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.ledger.entries.iter().enumerate()
    }

    // ---- the undertaker ----------------------------------------------------------------------

    /// Waits for deaths until nobody is left.
    fn bury_the_dead(&self) -> io::Result<()> {
        loop {
            if let Some(id) = self.epoll.wait(None)? {
                self.see_to(id);
            }
        }
    }

    /// Sees to what the undertaker woke for; after the last death the process ends.
    fn see_to(&self, id: u64) {
        if id == DUE {
            self.take_all_due();
            return;
        }
        let Some(watched) = self.lock_watch().living.get(&id).map(|(watched, _)| *watched) else {
            return;
        };
        self.finish(id, watched);
        // Only now: whoever is watched is not taken on again under another id.
        self.lock_watch().living.remove(&id);
        if self.is_over() {
            self.end();
        }
    }

    fn end(&self) -> ! {
        // From here nobody gets a pin, and whoever looks goes straight on.
        self.ledger.header.guard.store(sys::FUTEX_OWNER_DIED, SeqCst);
        let header = &self.ledger.header;
        costs::keep(&self.costs, header.boot.load(SeqCst), &header.devices);
        if !is_anything_pending(&self.ledger) {
            if is_same_file(&self.path, &self.file) {
                let _ = std::fs::remove_file(&self.path);
            }
            self.note.get().into_iter().flatten().for_each(Note::remove);
        }
        sys::exit_now(0)
    }

    /// Whether the last process is gone. Processes that have a slot but never asked are found here.
    fn is_over(&self) -> bool {
        let mut watch = self.lock_watch();
        if watch.living.is_empty() {
            self.sweep(&mut watch);
        }
        watch.ends = watch.living.is_empty();
        watch.ends
    }

    /// Takes on every process that lives and has a slot, and clears the slots of the dead, which,
    /// never having been taken on, left nothing pending.
    fn sweep(&self, watch: &mut Watch) {
        for (index, slot) in self.ledger.slots.iter().enumerate().skip(1) {
            let pid = slot.pid.load(SeqCst);
            let id = watch.of_slot.get(&(index as u32)).copied().unwrap_or(0);
            let is_known = watch.living.get(&id).is_some_and(|(watched, _)| watched.pid == pid);
            if pid == 0 || pid == BEING_CLEARED || is_known {
                continue;
            }
            match self.look_at(index as u32, slot, pid) {
                Some((watched, pidfd)) => {
                    // Without a descriptor left the process is not waited for; it goes straight on.
                    let _ = watch.register(&self.epoll, watched, pidfd);
                }
                None => self.clear_slot(slot, pid),
            }
        }
    }

    /// The process of a slot, if it lives.
    fn look_at(&self, index: u32, slot: &Slot, pid: u32) -> Option<(Watched, OwnedFd)> {
        let pidfd = sys::pidfd_open(pid).ok()?;
        let stat = identity::process_stat(pid).ok()?;
        let is_it = if slot.ready.load(SeqCst) == 1 {
            slot.start_ticks.load(SeqCst) == stat.start_ticks
                && slot.pid_namespace.load(SeqCst) == self.namespace
        } else {
            // It has not said more than its number yet; but whoever has a slot has the ledger.
            let own = sys::status(&self.file).ok()?;
            identity::maps_file(pid, own.device, own.inode)
        };
        let watched = Watched { pid, slot: index, start_ticks: stat.start_ticks };
        (is_it && !sys::is_dead(pidfd.as_fd())).then_some((watched, pidfd))
    }

    /// Writes everything that a dead process left, gives up its entries and frees its slot.
    fn finish(&self, id: u64, dead: Watched) {
        let slot = &self.ledger.slots[dead.slot as usize];
        let has_slot = dead.slot != 0 && slot.pid.load(SeqCst) == dead.pid;
        let mut left: Vec<(u64, usize, &Entry)> = self
            .entries()
            .filter(|(index, entry)| {
                let is_its_own = self.held[*index].owner.load(SeqCst) == id
                    || (has_slot && entry.slot.load(SeqCst) == dead.slot);
                is_its_own && state_of(entry.state.load(SeqCst)) != STATE_FREE
            })
            .map(|(index, entry)| (entry.order.load(SeqCst), index, entry))
            .collect();
        left.sort_unstable_by_key(|(order, ..)| *order);
        for (_, index, entry) in left {
            if self.finish_entry(index, entry, dead.pid).is_ok() {
                self.give_up(index, entry);
            }
        }
        if has_slot {
            self.clear_slot(slot, dead.pid);
        }
        // The pins thread frees what was given up.
        self.poke();
    }

    /// Writes what is pending in an entry of a dead process.
    ///
    /// # Errors
    /// It could neither be written nor saved, and stays pending.
    fn finish_entry(&self, index: usize, entry: &Entry, pid: u32) -> io::Result<()> {
        let held = &self.held[index];
        let word = entry.word.load(SeqCst);
        let start = chunk_start(entry.base.load(SeqCst));
        let bytes = waiting_of(word).min(held.chunk_bytes.load(SeqCst).saturating_sub(start));
        let (Some(pin), true) = (held.pin(), bytes > 0) else {
            // Without a pin nothing was ever accepted.
            entry.word.store(flushed(word), SeqCst);
            return Ok(());
        };
        let whole = Extent { ledger: &self.file, at: held.chunk_at.load(SeqCst) + start, bytes };
        let unchanged = self.may_still_be_written(entry, pin);
        let is_copy = held.is_copy.load(SeqCst);
        let write = |()| write_where_it_belongs(entry, pin, is_copy, None, &whole);
        let written = unchanged.and_then(write);
        if written.is_err() {
            let original = finish::known_path(pin);
            let (base, extent) = finish::left(entry, whole);
            let saving = Saving { extent, original: original.as_deref(), pid, base };
            let folder = self.path.parent().unwrap_or(Path::new("/"));
            let header = &self.ledger.header;
            let saved = finish::save_beside(&saving, folder).inspect_err(|_| {
                header.stuck.fetch_add(1, SeqCst);
            })?;
            header.saved_path.store(saved.as_os_str().as_encoded_bytes());
            header.saved.fetch_add(1, SeqCst);
        }
        // From here it has happened.
        entry.word.store(flushed(word), SeqCst);
        entry.arrived.store(0, SeqCst);
        entry.flushing.store(0, SeqCst);
        Ok(())
    }

    /// A file that was closed with an error may have been written again since: then it is not
    /// touched.
    fn may_still_be_written(&self, entry: &Entry, pin: BorrowedFd<'_>) -> io::Result<()> {
        if entry.flushing.load(SeqCst) != FLUSH_FAILED {
            return Ok(());
        }
        let now = sys::status(pin)?;
        let same = now.size == entry.size.load(SeqCst)
            && now.mtime_ns == entry.mtime_ns.load(SeqCst)
            && now.ctime_ns == entry.ctime_ns.load(SeqCst);
        if same { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESTALE)) }
    }

    /// Hands an entry of a dead process to the pins thread, which alone frees.
    fn give_up(&self, index: usize, entry: &Entry) {
        loop {
            let word = entry.state.load(SeqCst);
            if matches!(state_of(word), STATE_FREE | STATE_DISCARD) {
                break;
            }
            let next = next_state(word, STATE_DISCARD);
            if entry.state.compare_exchange(word, next, SeqCst, SeqCst).is_ok() {
                break;
            }
        }
        self.ledger.header.ask_bits[index / 64].fetch_or(1 << (index % 64), SeqCst);
    }

    /// Frees a slot and wakes who waits for its dead process.
    fn clear_slot(&self, slot: &Slot, pid: u32) {
        // It may have been cleared by its process, and claimed by another one, since it was looked at.
        if slot.pid.compare_exchange(pid, BEING_CLEARED, SeqCst, SeqCst).is_err() {
            return;
        }
        slot.ready.store(0, SeqCst);
        let waiting = slot.waiting.swap(0, SeqCst);
        self.ledger.header.waiting.fetch_sub(waiting, SeqCst);
        slot.done.fetch_add(1, SeqCst);
        // Last, as a new process may claim it from then on.
        slot.pid.store(0, SeqCst);
        sys::futex_wake(&slot.done);
    }

    /// Writes for processes that live and are quiet.
    fn take_all_due(&self) {
        self.due_event.iter().for_each(sys::Event::clear);
        let due = std::mem::take(&mut *self.lock_due());
        due.iter().for_each(|take| self.take(take));
    }

    /// Hands takes to the undertaker.
    fn hand_over(&self, takes: Vec<quiet::Take>) {
        if let Some(event) = &self.due_event
            && !takes.is_empty()
        {
            self.lock_due().extend(takes);
            event.raise();
        }
    }

    fn lock_due(&self) -> std::sync::MutexGuard<'_, Vec<quiet::Take>> {
        // As with `watch`.
        self.due.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// What is to be taken of the process of a slot, whether it is quiet or not. Words of which nothing
    /// waits belong to it: that they are still the same shows that all were so at one moment. What
    /// the process itself is writing is left to it.
    fn all_of(&self, slot: u32) -> quiet::Take {
        let its_own = self.pinned().filter(|(_, entry)| entry.slot.load(SeqCst) == slot);
        let words = its_own.map(|(index, entry)| (index, entry.word.load(SeqCst)));
        words.filter(|(_, word)| owner_of(*word) == Owner::Nobody).collect()
    }

    /// Entries whose bytes the guard may write while their process lives.
    fn pinned(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.entries().filter(|(index, entry)| {
            self.held[*index].pin.load(SeqCst) != 0
                && state_of(entry.state.load(SeqCst)) == STATE_PINNED
                // What the program was told it could not write is its own, or its heirs'.
                && entry.flushing.load(SeqCst) != FLUSH_FAILED
        })
    }

    /// Writes all that was seen to wait in one process: all of it is taken before the first is written,
    /// or nothing, so that what others see is what the program had written at one moment.
    fn take(&self, take: &quiet::Take) {
        let mut taken: Vec<(&Entry, usize, u64)> = Vec::new();
        for (index, word) in take {
            let entry = &self.ledger.entries[*index];
            let is_there = match length_of(*word) {
                0 => entry.word.load(SeqCst) == *word,
                _ => pending::take(&entry.word, *word),
            };
            if !is_there {
                // It has gone on meanwhile, and sees to it by itself, or whoever asked asks again.
                taken.iter().for_each(|(entry, _, word)| give_back(entry, *word, false));
                return;
            }
            if length_of(*word) > 0 {
                taken.push((entry, *index, *word));
            }
        }
        taken.sort_unstable_by_key(|(entry, ..)| entry.order.load(SeqCst));
        let began_ns = sys::coarse_clock_ns();
        let mut written: Vec<_> = taken
            .iter()
            .map(|&(entry, index, word)| self.write_taken(index, entry, word))
            .collect();
        self.tell_apart(&taken, &mut written, began_ns);
        for ((entry, _, word), written) in taken.iter().zip(written) {
            if let Ok((_, left)) = &written {
                entry.size.store(left.size, SeqCst);
                entry.mtime_ns.store(left.mtime_ns, SeqCst);
                entry.ctime_ns.store(left.ctime_ns, SeqCst);
            }
            entry.flushing.store(0, SeqCst);
            give_back(entry, *word, written.is_ok());
        }
    }

    /// Gives files that were just written times by which they are told apart, from the last one on, as
    /// their program would have.
    fn tell_apart(
        &self,
        taken: &[(&Entry, usize, u64)],
        written: &mut [io::Result<(u64, Status)>],
        began_ns: u64,
    ) {
        let mut later: Option<Stamped> = None;
        for ((entry, index, _), written) in taken.iter().zip(written).rev() {
            let (Ok((before_ns, left)), Some(pin)) = (written, self.held[*index].pin()) else {
                continue;
            };
            let written_ns = entry.written_ns.load(SeqCst);
            let mut stamped =
                Stamped { written_ns, before_ns: *before_ns, modified_ns: left.mtime_ns };
            let wanted = later.and_then(|later| told_apart(&stamped, &later, began_ns));
            // What somebody else has written since has its own time.
            if let Some(wanted_ns) = wanted
                && sys::status(pin).is_ok_and(|status| status == *left)
            {
                // It may be refused to who does not own the file.
                let _ = sys::set_modified(pin, wanted_ns);
                *left = sys::status(pin).unwrap_or(*left);
                stamped.modified_ns = left.mtime_ns;
            }
            later = Some(stamped);
        }
    }

    /// What cannot be written goes on waiting: the program learns it at its next call. Else when the file
    /// was modified before, and what it is now.
    fn write_taken(&self, index: usize, entry: &Entry, word: u64) -> io::Result<(u64, Status)> {
        let held = &self.held[index];
        let pin = held.pin().ok_or(io::ErrorKind::NotFound)?;
        let is_copy = held.is_copy.load(SeqCst);
        let start = chunk_start(entry.base.load(SeqCst));
        let at = held.chunk_at.load(SeqCst) + start;
        let bytes = length_of(word);
        if bytes > held.chunk_bytes.load(SeqCst).saturating_sub(start) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let whole = Extent { ledger: &self.file, at, bytes };
        let before = sys::status(pin)?;
        let its_own = (!is_copy).then(|| self.its_own(index, entry, pin)).flatten();
        write_where_it_belongs(entry, pin, is_copy, its_own, &whole)?;
        Ok((before.mtime_ns, sys::status(pin).unwrap_or(before)))
    }

    /// A copy of the description to which the process itself would write, for the moment: who watches the
    /// file sees no open and no close by it. `None`: the system refuses that (Yama, seccomp), or its number
    /// means another description by now.
    fn its_own(&self, index: usize, entry: &Entry, pin: BorrowedFd<'_>) -> Option<File> {
        if !self.may_copy {
            return None;
        }
        let owner = self.held[index].owner.load(SeqCst);
        let copy = {
            let watch = self.lock_watch();
            let (_, pidfd) = watch.living.get(&owner)?;
            sys::copy_of(pidfd.as_fd(), entry.fd.load(SeqCst)).ok()?
        };
        let (status, wanted) = (sys::status(&copy).ok()?, sys::status(pin).ok()?);
        let flags = sys::open_flags(&copy).ok()?;
        let is_it = (status.device, status.inode) == (wanted.device, wanted.inode)
            && matches!(flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR)
            && (flags & libc::O_APPEND != 0) == (entry.place.load(SeqCst) == PLACE_END);
        is_it.then(|| copy.into())
    }

    /// Notes the file of a pin before it is granted. In a pid namespace of its own (a container) a
    /// note is no condition: when that ends nobody recovers anything, and `--max-age` is short.
    fn note(&self, index: usize, pin: &OwnedFd, status: Status) -> Result<(), Refused> {
        if self.states.is_empty() {
            return Ok(());
        }
        let note = self.note.get_or_init(|| Note::make(&self.states, &self.path, &self.file).ok());
        match note {
            Some(note) => Ok(note.record(index, pin, status)?),
            None if identity::is_in_own_pid_namespace() => Ok(()),
            None => {
                self.ledger.header.why.fetch_or(Why::NotNoted.bit(), SeqCst);
                Err(Refused)
            }
        }
    }

    fn poke(&self) {
        let header = &self.ledger.header;
        header.asks.fetch_add(1, SeqCst);
        sys::futex_wake(&header.asks);
    }
}

/// Gives an entry back, and wakes who waits for it.
fn give_back(entry: &Entry, seen: u64, is_written: bool) {
    pending::give_back(&entry.word, seen, is_written);
    entry.given_back.fetch_add(1, SeqCst);
    sys::futex_wake(&entry.given_back);
}

/// Writes what is pending, as `Entry::place` says, by a description of the process itself where there is
/// one.
fn write_where_it_belongs(
    entry: &Entry,
    pin: BorrowedFd<'_>,
    is_copy: bool,
    its_own: Option<File>,
    whole: &Extent<'_>,
) -> io::Result<()> {
    match (is_copy, entry.place.load(SeqCst)) {
        (false, PLACE_BASE) => write_at_base(entry, pin, its_own, whole),
        _ => write_behind(entry, &Behind::new(pin, is_copy, its_own)?, whole),
    }
}

/// Writes all that is pending where it belongs; again, perhaps.
fn write_at_base(
    entry: &Entry,
    pin: BorrowedFd<'_>,
    its_own: Option<File>,
    whole: &Extent<'_>,
) -> io::Result<()> {
    // If this process is killed in the middle, `recover` finds a death inside a flush.
    entry.flushing.store(1, SeqCst);
    // O_WRONLY: a file may be writable and not readable.
    let target = its_own.map_or_else(|| reopen(pin, libc::O_WRONLY), Ok)?;
    finish::write_and_close(whole, target, entry.base.load(SeqCst))
}

/// A file to which bytes go by plain writes.
struct Behind<'a> {
    pin: BorrowedFd<'a>,
    target: File,
    /// Its offset counts, not its end.
    has_offset: bool,
}

impl<'a> Behind<'a> {
    fn new(pin: BorrowedFd<'a>, is_copy: bool, its_own: Option<File>) -> io::Result<Behind<'a>> {
        let has_offset = is_copy && sys::open_flags(pin)? & libc::O_APPEND == 0;
        let target = match its_own {
            Some(target) => target,
            // The same description: its offset moves for whoever shares it, too.
            None if is_copy => File::from(pin.try_clone_to_owned()?),
            None => reopen(pin, libc::O_WRONLY | libc::O_APPEND)?,
        };
        Ok(Behind { pin, target, has_offset })
    }

    /// Where the next plain write goes.
    fn next(&self) -> io::Result<u64> {
        if self.has_offset { sys::offset(self.pin) } else { Ok(sys::status(self.pin)?.size) }
    }
}

/// Writes what has not arrived yet behind what has.
fn write_behind(entry: &Entry, file: &Behind<'_>, whole: &Extent<'_>) -> io::Result<()> {
    let next = file.next()?;
    let left = whole.from(entry.arrived.load(SeqCst));
    if entry.flushing.load(SeqCst) == 1 {
        // It died in a write, or just after it.
        let since = entry.before.load(SeqCst)..next;
        let seen = reopen(file.pin, libc::O_RDONLY)
            .and_then(|readable| finish::arrived(&left, &readable, since.clone()));
        // Where it may not be read: what came was its own, if nobody else wrote.
        let seen = seen.unwrap_or(next.saturating_sub(since.start)).min(left.bytes);
        entry.arrived.fetch_add(seen, SeqCst);
    }
    entry.before.store(next, SeqCst);
    entry.flushing.store(1, SeqCst);
    whole.from(entry.arrived.load(SeqCst)).append_to(&file.target)
}

/// Opens the file of a pin.
fn reopen(pin: BorrowedFd<'_>, flags: i32) -> io::Result<File> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", pin.as_raw_fd()));
    sys::open(&path, flags | libc::O_NOCTTY, 0).map(File::from)
}

/// Whether `path` still leads to `file`.
pub(crate) fn is_same_file(path: &Path, file: &File) -> bool {
    match (sys::status_at(path), sys::status(file)) {
        (Ok(there), Ok(here)) => (there.device, there.inode) == (here.device, here.inode),
        _ => false,
    }
}

/// The thread that answers asks.
struct Pins {
    guard: &'static Guard,
    chunks: Chunks,
    room: Room,
    /// Whether there is an undertaker, and until then since when there is none.
    has_undertaker: bool,
    begun: Instant,
    swept: Option<Instant>,
    clock_step: Duration,
    clock_advanced: Instant,
    quiet: Quiet,
}

impl Pins {
    fn new(guard: &'static Guard) -> Pins {
        let chunks = Chunks::new(CHUNKS_BYTES_MAX, sys::page_bytes().max(4096));
        let age_ms = u64::from(guard.ledger.header.max_age_ms.load(SeqCst));
        let clock_step = Duration::from_millis((age_ms / u64::from(CLOCKS_PER_AGE)).max(1));
        let begun = Instant::now();
        let (room, quiet) = (Room::default(), Quiet::new(clock_step));
        Pins {
            guard,
            chunks,
            room,
            has_undertaker: false,
            begun,
            swept: None,
            clock_step,
            clock_advanced: begun,
            quiet,
        }
    }

    fn live(mut self) -> io::Result<()> {
        let header = &self.guard.ledger.header;
        // As in a new ledger: somebody may have asked before this thread began.
        let mut answered_to = 0;
        loop {
            let asks = header.asks.load(SeqCst);
            let answered = self.answer_all();
            if answered > 0 {
                answered_to = asks;
                continue;
            }
            if asks != answered_to {
                // Somebody asked for no entry: there is no free slot. (Or for one that was answered
                // already; then this look is for nothing, once a second at most.)
                answered_to = asks;
                self.sweep();
            }
            // Windows, which nobody asks for, keep to it too; and who asks for more than usual.
            let room_bytes = self.room.bytes(self.guard, &self.chunks);
            let left_bytes = room_bytes.saturating_sub(self.chunks.taken_bytes());
            header.chunks_left.store(left_bytes, SeqCst);
            header.guard_naps.store(1, SeqCst);
            // Whoever asked before the line above did not wake us, but has advanced `asks`; whoever
            // asks after it wakes us.
            if header.asks.load(SeqCst) == asks {
                sys::futex_wait(&header.asks, asks, self.nap());
            }
            header.guard_naps.store(0, SeqCst);
            self.advance_clock();
            self.look_for_deaths()?;
        }
    }

    /// How long this thread may sleep, should nobody wake it.
    fn nap(&self) -> Option<Duration> {
        let stands = self.guard.ledger.header.clock_wanted.load(SeqCst) == CLOCK_STANDS;
        let clock = (!stands).then_some(self.clock_step);
        let look = (self.begun.elapsed() / LIFE_PER_LOOK).clamp(LOOK_MIN, LOOK_MAX);
        let look = (!self.has_undertaker).then_some(look);
        [clock, look].into_iter().flatten().min()
    }

    /// Does the undertaker's work while there is none.
    fn look_for_deaths(&self) -> io::Result<()> {
        while !self.has_undertaker
            && let Some(id) = self.guard.epoll.wait(Some(Duration::ZERO))?
        {
            self.guard.see_to(id);
        }
        Ok(())
    }

    /// Lets the undertaker begin, unless it has; what is granted afterwards is finished, whoever dies.
    fn need_undertaker(&mut self) -> io::Result<()> {
        if self.has_undertaker {
            return Ok(());
        }
        let guard = self.guard;
        let undertaker = move || {
            // A guard that waits for no death would be worse than none.
            let _ = guard.bury_the_dead();
            sys::exit_now(1)
        };
        std::thread::Builder::new().stack_size(UNDERTAKER_STACK_BYTES).spawn(undertaker)?;
        self.has_undertaker = true;
        Ok(())
    }

    /// Advances the clock by which programs notice that time passes. It stands when nobody has wanted
    /// it between two steps: a tree that sleeps does not keep a machine awake.
    fn advance_clock(&mut self) {
        let header = &self.guard.ledger.header;
        let wanted = header.clock_wanted.load(SeqCst);
        if wanted == CLOCK_STANDS || self.clock_advanced.elapsed() < self.clock_step {
            return;
        }
        self.clock_advanced = Instant::now();
        header.clock.fetch_add(1, SeqCst);
        let waits = self.look_for_the_quiet();
        let is_wanted = wanted == CLOCK_WANTED || waits;
        let next = if is_wanted { CLOCK_UNWANTED } else { CLOCK_STANDS };
        // Where that fails, somebody has just begun to want it.
        let _ = header.clock_wanted.compare_exchange(wanted, next, SeqCst, SeqCst);
    }

    /// Hands to the undertaker what has waited too long in processes that are quiet; whether anything
    /// waits at all.
    fn look_for_the_quiet(&mut self) -> bool {
        let guard = self.guard;
        let words = guard.pinned().map(|(index, entry)| quiet::Seen {
            index,
            process: entry.slot.load(SeqCst),
            word: entry.word.load(SeqCst),
        });
        let (waits, due) = self.quiet.look(Instant::now(), words);
        guard.hand_over(due);
        waits
    }

    fn sweep(&mut self) {
        if self.swept.is_none_or(|swept| swept.elapsed() >= SWEEP_AGE) {
            let mut watch = self.guard.lock_watch();
            if !watch.ends {
                self.guard.sweep(&mut watch);
            }
            drop(watch);
            self.swept = Some(Instant::now());
        }
    }

    /// Answers every ask that is there and says how many.
    fn answer_all(&mut self) -> usize {
        let guard = self.guard;
        let mut answered = 0;
        for (word_index, word) in guard.ledger.header.ask_bits.iter().enumerate() {
            if word.load(SeqCst) == 0 {
                continue;
            }
            let mut bits = word.swap(0, SeqCst);
            while bits != 0 {
                self.answer(word_index * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
                answered += 1;
            }
        }
        let mut takes = Vec::new();
        for (word_index, word) in guard.ledger.header.take_bits.iter().enumerate() {
            let mut bits = word.swap(0, SeqCst);
            while bits != 0 {
                takes.push(guard.all_of((word_index * 64) as u32 + bits.trailing_zeros()));
                bits &= bits - 1;
            }
        }
        answered += takes.len();
        guard.hand_over(takes);
        answered
    }

    fn answer(&mut self, index: usize) {
        let entry = &self.guard.ledger.entries[index];
        let word = entry.state.load(SeqCst);
        let is_pending = waiting_of(entry.word.load(SeqCst)) > 0;
        match state_of(word) {
            STATE_ASKED => {
                let state = match self.grant(index, entry) {
                    Ok(()) => STATE_PINNED,
                    Err(Refused) => STATE_REFUSED,
                };
                let next = next_state(word, state);
                let answer = entry.state.compare_exchange(word, next, SeqCst, SeqCst);
                // Where that fails, the file was closed meanwhile or its owner died.
                if state == STATE_REFUSED || answer.is_err() {
                    self.drop_pin(index);
                    self.drop_chunk(index);
                }
            }
            // With bytes pending (which no owner does) pin and chunk stay, until it has died and the
            // undertaker has written them.
            STATE_RELEASE if !is_pending => {
                self.drop_pin(index);
                let next = next_state(word, STATE_OWNED);
                // Where that fails, its owner wants it discarded, and says so.
                let _ = entry.state.compare_exchange(word, next, SeqCst, SeqCst);
            }
            STATE_DISCARD if !is_pending => {
                self.drop_pin(index);
                self.drop_chunk(index);
                entry.chunk_at.store(0, SeqCst);
                entry.slot.store(0, SeqCst);
                entry.state.store(next_state(word, STATE_FREE), SeqCst);
            }
            _ => (),
        }
    }

    /// Takes the pin and the chunk that an entry asks for.
    fn grant(&mut self, index: usize, entry: &Entry) -> Result<(), Refused> {
        let guard = self.guard;
        let slot = entry.slot.load(SeqCst);
        let fd = entry.fd.load(SeqCst);
        if slot == 0 || slot as usize >= SLOTS_MAX || fd < 0 {
            return Err(Refused);
        }
        self.need_undertaker()?;
        let (owner, pid) = self.owner(slot)?;
        let is_copy = entry.place.load(SeqCst) == PLACE_OFFSET;
        let pin = if is_copy { self.copy(owner, fd)? } else { pin(pid, fd)? };
        let status = sys::status(&pin)?;
        let is_it = status.is_regular()
            && status.device == entry.device.load(SeqCst)
            && status.inode == entry.inode.load(SeqCst);
        if !is_it {
            return Err(Refused);
        }
        if !is_copy {
            // A copy is open for writing, whatever may be opened.
            sys::may_write(&pin)?;
        }
        // If it lives now, its number was its own all along.
        let lives =
            guard.lock_watch().living.get(&owner).is_some_and(|(_, fd)| !sys::is_dead(fd.as_fd()));
        if !lives {
            return Err(Refused);
        }
        guard.note(index, &pin, status)?;
        let chunk = self.chunk(index, entry.chunk_bytes.load(SeqCst))?;

        self.drop_pin(index);
        let held = &guard.held[index];
        held.owner.store(owner, SeqCst);
        held.is_copy.store(is_copy, SeqCst);
        held.pin.store(pin.into_raw_fd() + 1, SeqCst);
        entry.chunk_at.store(CHUNKS_AT + chunk.at, SeqCst);
        entry.chunk_bytes.store(chunk.bytes, SeqCst);
        entry.birth_ns.store(status.birth_ns, SeqCst);
        entry.size.store(status.size, SeqCst);
        entry.mtime_ns.store(status.mtime_ns, SeqCst);
        entry.ctime_ns.store(status.ctime_ns, SeqCst);
        Ok(())
    }

    /// A copy of a description that its owner shares with others, which may be refused (Yama,
    /// seccomp, a process that may not be looked at).
    fn copy(&self, owner: u64, fd: i32) -> Result<OwnedFd, Refused> {
        let watch = self.guard.lock_watch();
        let (_, pidfd) = watch.living.get(&owner).ok_or(Refused)?;
        let copy = sys::copy_of(pidfd.as_fd(), fd)?;
        match sys::open_flags(&copy)? & libc::O_ACCMODE {
            libc::O_WRONLY | libc::O_RDWR => Ok(copy),
            _ => Err(Refused),
        }
    }

    /// The process of a slot, watched from its first ask on: {id, process number}.
    fn owner(&self, slot_index: u32) -> Result<(u64, u32), Refused> {
        let guard = self.guard;
        let slot = &guard.ledger.slots[slot_index as usize];
        if slot.ready.load(SeqCst) != 1 {
            return Err(Refused);
        }
        let pid = slot.pid.load(SeqCst);
        let start_ticks = slot.start_ticks.load(SeqCst);
        let mut watch = guard.lock_watch();
        let id = watch.of_slot.get(&slot_index).copied().unwrap_or(0);
        let wanted = Watched { pid, slot: slot_index, start_ticks };
        if watch.living.get(&id).is_some_and(|(watched, _)| *watched == wanted) {
            return Ok((id, pid));
        }
        let (watched, pidfd) = guard.look_at(slot_index, slot, pid).ok_or(Refused)?;
        Ok((watch.register(&guard.epoll, watched, pidfd)?, pid))
    }

    /// The chunk of an entry, at least `wanted_bytes` large: the one it kept, or a new one.
    fn chunk(&mut self, index: usize, wanted_bytes: u64) -> Result<Chunk, Refused> {
        let held = &self.guard.held[index];
        let kept = Chunk {
            at: held.chunk_at.load(SeqCst).wrapping_sub(CHUNKS_AT),
            bytes: held.chunk_bytes.load(SeqCst),
        };
        if kept.bytes >= wanted_bytes.max(1) {
            return Ok(kept);
        }
        self.drop_chunk(index);
        if wanted_bytes > BUFFER_BYTES_MAX {
            return Err(Refused);
        }
        let bytes = self.chunks.chunk_bytes(wanted_bytes).ok_or(Refused)?;
        if self.chunks.taken_bytes() + bytes > self.room.bytes(self.guard, &self.chunks) {
            return Err(Refused);
        }
        let chunk = self.chunks.take(bytes).ok_or(Refused)?;
        if sys::allocate(&self.guard.file, CHUNKS_AT + chunk.at, chunk.bytes).is_err() {
            self.chunks.give_back(chunk);
            return Err(Refused);
        }
        held.chunk_at.store(CHUNKS_AT + chunk.at, SeqCst);
        held.chunk_bytes.store(chunk.bytes, SeqCst);
        Ok(chunk)
    }

    fn drop_pin(&self, index: usize) {
        let held = &self.guard.held[index];
        held.owner.store(0, SeqCst);
        let pin = held.pin.swap(0, SeqCst);
        if pin != 0 {
            drop(sys::owned(pin - 1));
        }
    }

    fn drop_chunk(&mut self, index: usize) {
        let held = &self.guard.held[index];
        let bytes = held.chunk_bytes.swap(0, SeqCst);
        let at = held.chunk_at.swap(0, SeqCst);
        if bytes != 0 {
            // Where the memory cannot be given back it is used again as it is.
            let _ = sys::punch(&self.guard.file, at, bytes);
            self.chunks.give_back(Chunk { at: at - CHUNKS_AT, bytes });
        }
    }
}

/// A pin on the file of a descriptor.
fn pin(pid: u32, fd: i32) -> Result<OwnedFd, Refused> {
    let link = PathBuf::from(format!("/proc/{pid}/fd/{fd}"));
    // The bits of the link are those of the description: what the program may not write, nobody
    // writes for it.
    if std::fs::symlink_metadata(&link)?.permissions().mode() & 0o200 == 0 {
        return Err(Refused);
    }
    Ok(sys::open(&link, libc::O_PATH, 0)?)
}

/// How much memory chunks may take: a quarter of what is available, half of what the memory file
/// system has, and a quarter of what the control group has left.
#[derive(Default)]
struct Room {
    seen: Option<(Instant, u64)>,
}

impl Room {
    fn bytes(&mut self, guard: &Guard, chunks: &Chunks) -> u64 {
        if let Some((at, bytes)) = self.seen
            && at.elapsed() < ROOM_AGE
        {
            return bytes;
        }
        // What is taken already is no longer free, but is part of what may be taken.
        let taken = chunks.taken_bytes();
        let free = sys::free_bytes(&guard.file).unwrap_or(0);
        let available = memory::available_bytes().unwrap_or(0);
        let group = memory::group_free_bytes().unwrap_or(u64::MAX);
        let memory = available.min(group).saturating_add(taken) / 4;
        guard.ledger.header.budget_bytes.store(memory, SeqCst);
        let bytes = (free.saturating_add(taken) / 2).min(memory);
        self.seen = Some((Instant::now(), bytes));
        bytes
    }
}

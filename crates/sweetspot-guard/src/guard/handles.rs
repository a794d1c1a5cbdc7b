//! The thread that answers asks, and alone opens and closes handles, allocates and frees write
//! buffers. It never touches file data.

use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use sweetspot_core::ledger::{
    CLOCK_STANDS, CLOCK_UNWANTED, CLOCK_WANTED, CLOCKS_PER_AGE, Entry, Ledger, PLACE_NOWHERE,
    PLACE_OFFSET, SLOTS_MAX, STATE_ASKED, STATE_DISCARD, STATE_FREE, STATE_HELD, STATE_OWNED,
    STATE_REFUSED, STATE_RELEASE, WRITE_BUFFERS_AT, WRITE_BUFFERS_BYTES_MAX, next_state, state_of,
};
use sweetspot_core::pending::waiting_of;
use sweetspot_core::size::BUFFER_BYTES_MAX;
use sweetspot_core::unwritten::RECALLED;

use super::Guard;
use super::alone::{Looker, Question};
use super::deaths::Watched;
use super::place::note_close;
use super::refused::Refused;
use super::room::Room;
use super::servers::open_handle;
use super::unseen::Asks;
use super::writers::{Asked, Writers};
use crate::quiet::{self, Quiet};
use crate::sys::{self, Naps};
use crate::write_buffers::{WriteBuffer, WriteBuffers};

/// How often the slots of the dead are looked for at most.
const SWEEP_AGE: Duration = Duration::from_secs(1);
/// Until the reaper starts, the guard looks for deaths at intervals of its age divided by this. So it
/// ends soon after a short program, and does not keep the machine awake beside a long one.
const LIFE_PER_LOOK: u32 = 4;
/// At most, and at least.
const LOOK_MAX: Duration = Duration::from_secs(1);
const LOOK_MIN: Duration = Duration::from_millis(4);

/// The thread that answers asks.
pub(super) struct Handles {
    guard: &'static Guard,
    write_buffers: WriteBuffers,
    room: Room,
    /// Whether the reaper has started.
    has_reaper: bool,
    /// When the guard began.
    begun: Instant,
    swept: Option<Instant>,
    clock_step: Duration,
    clock_advanced: Instant,
    quiet: Quiet,
    writers: Writers,
    asks: Asks,
    looker: Looker,
    naps: Naps,
}

impl Handles {
    pub(super) fn new(guard: &'static Guard) -> Handles {
        let write_buffers = WriteBuffers::new(WRITE_BUFFERS_BYTES_MAX, sys::page_bytes().max(4096));
        let clock_step = clock_step(&guard.ledger);
        let begun = Instant::now();
        let (room, quiet) = (Room::default(), Quiet::new(clock_step));
        Handles {
            guard,
            write_buffers,
            room,
            has_reaper: false,
            begun,
            swept: None,
            clock_step,
            clock_advanced: begun,
            quiet,
            writers: Writers::default(),
            asks: Asks::default(),
            looker: Looker::default(),
            naps: Naps::default(),
        }
    }

    pub(super) fn live(mut self) -> io::Result<()> {
        let header = &self.guard.ledger.header;
        // As in a new ledger: somebody may have asked before this thread began.
        let mut answered_to = 0;
        loop {
            let asks = header.asks.load(SeqCst);
            let answered = self.answer_all();
            self.guard.look_after_reaper();
            self.guard.make_more_entries();
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
            self.tell_room();
            header.guard_naps.store(1, SeqCst);
            // Anyone who asked before the line above did not wake us, but has advanced `asks`; anyone who
            // asks after it wakes us.
            if header.asks.load(SeqCst) == asks {
                let nap = self.nap();
                self.naps.futex_wait(&header.asks, asks, nap);
            }
            header.guard_naps.store(0, SeqCst);
            if header.guard_is_late.load(SeqCst) != 0 {
                header.guard_is_late.store(0, SeqCst);
            }
            self.advance_clock();
            self.look_for_deaths()?;
        }
    }

    /// Tells how much memory there is: windows, which nobody asks for, keep to it too, and so does who asks
    /// for more than usual. A program that is over at once is not held up by the look.
    fn tell_room(&mut self) {
        if self.begun.elapsed() < LOOK_MIN {
            return;
        }
        let room_bytes = self.room.bytes(self.guard, &self.write_buffers);
        let left_bytes = room_bytes.saturating_sub(self.write_buffers.taken_bytes());
        self.guard.ledger.header.write_buffer_bytes_left.store(left_bytes, SeqCst);
    }

    /// How long this thread may sleep, should nobody wake it.
    fn nap(&self) -> Option<Duration> {
        let stands = self.guard.ledger.header.clock_wanted.load(SeqCst) == CLOCK_STANDS;
        let clock = (!stands).then_some(self.clock_step);
        let look = (self.begun.elapsed() / LIFE_PER_LOOK).clamp(LOOK_MIN, LOOK_MAX);
        let look = (!self.has_reaper).then_some(look);
        let reaper = self.guard.look_after_reaper();
        [clock, look, reaper].into_iter().flatten().min()
    }

    /// Does the reaper's work until it starts.
    fn look_for_deaths(&self) -> io::Result<()> {
        while !self.has_reaper
            && let Some(id) = self.guard.epoll.wait(Some(Duration::ZERO))?
        {
            self.guard.see_to(id);
        }
        if !self.has_reaper {
            self.guard.see_to_the_gone();
        }
        Ok(())
    }

    /// Starts the reaper unless it runs.
    fn start_reaper(&mut self) -> io::Result<()> {
        if !self.has_reaper {
            self.guard.start_reaper()?;
            self.has_reaper = true;
        }
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
        if !self.guard.is_found() {
            self.guard.recall_all();
        }
        self.guard.note_new_names();
        let waits = self.look_for_the_quiet();
        let is_wanted = wanted == CLOCK_WANTED || waits;
        let next = if is_wanted { CLOCK_UNWANTED } else { CLOCK_STANDS };
        // Where that fails, somebody has just begun to want it.
        let _ = header.clock_wanted.compare_exchange(wanted, next, SeqCst, SeqCst);
    }

    /// Hands to the reaper what has waited too long in quiet processes, and says whether anything waits
    /// at all.
    fn look_for_the_quiet(&mut self) -> bool {
        let guard = self.guard;
        let words = guard.held_entries().map(|(index, entry)| quiet::Seen {
            index,
            process: entry.slot.load(SeqCst),
            word: entry.word.load(SeqCst),
        });
        let (waits, due) = self.quiet.look(Instant::now(), words);
        guard.hand_over_takes(due);
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

    /// Answers every ask that is there and says how many. An ask may take a while: what is due in between is
    /// not held up.
    fn answer_all(&mut self) -> usize {
        let guard = self.guard;
        let mut answered = guard.take_all();
        for (word_index, word) in guard.ledger.header.ask_bits.iter().enumerate() {
            if word.load(SeqCst) == 0 {
                continue;
            }
            let mut bits = word.swap(0, SeqCst);
            while bits != 0 {
                self.answer(word_index * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
                answered += 1 + guard.take_all();
                guard.look_after_reaper();
                self.advance_clock();
            }
        }
        answered
    }

    fn answer(&mut self, index: usize) {
        let Some(entry) = self.guard.ledger.entries().get(index) else { return };
        let word = entry.state.load(SeqCst);
        let is_pending = waiting_of(entry.word.load(SeqCst)) > 0;
        if state_of(word) != STATE_ASKED {
            self.guard.held[index].late_answers.store(0, SeqCst);
        }
        match state_of(word) {
            STATE_ASKED if entry.place.load(SeqCst) == PLACE_NOWHERE => {
                let asked = self.look_whether_alone(index, entry, word);
                let refused = asked.err().map(|_| next_state(word, STATE_REFUSED));
                let refuse = |next| entry.state.compare_exchange(word, next, SeqCst, SeqCst);
                let _ = refused.map(refuse);
            }
            STATE_ASKED => {
                let state = match self.grant(index, entry, word) {
                    Ok(()) => STATE_HELD,
                    Err(Refused::ForGood) => STATE_REFUSED,
                    Err(Refused::Later) => return,
                };
                self.guard.held[index].late_answers.store(0, SeqCst);
                let next = next_state(word, state);
                let answer = entry.state.compare_exchange(word, next, SeqCst, SeqCst);
                // Where that fails, the file was closed meanwhile or its owner died.
                if (state == STATE_REFUSED || answer.is_err())
                    && let Some(closed) = self.drop_handle(index)
                {
                    note_close(entry, closed);
                    self.drop_write_buffer(index);
                }
            }
            // With bytes pending (which no owner does) handle and write buffer stay until it has died
            // and the reaper has written them.
            STATE_RELEASE if !is_pending => {
                let Some(closed) = self.drop_handle(index) else { return };
                note_close(entry, closed);
                let next = next_state(word, STATE_OWNED);
                // Where that fails, its owner wants it discarded, and says so.
                let _ = entry.state.compare_exchange(word, next, SeqCst, SeqCst);
            }
            STATE_DISCARD if !is_pending => {
                // Its owner has what a copy had to say: it was given back before.
                let Some(_) = self.drop_handle(index) else { return };
                // From here the file is free, and who waits for that goes on.
                entry.slot.store(0, SeqCst);
                entry.given_back.fetch_add(1, SeqCst);
                sys::futex_wake(&entry.given_back);
                self.drop_write_buffer(index);
                entry.write_buffer_at.store(0, SeqCst);
                let used = &self.guard.ledger.header.used_bits[index / 64];
                used.fetch_and(!(1 << (index % 64)), SeqCst);
                entry.state.store(next_state(word, STATE_FREE), SeqCst);
            }
            _ => (),
        }
    }

    /// Has it found out whether a description from outside is its owner's alone.
    fn look_whether_alone(
        &mut self,
        index: usize,
        entry: &Entry,
        word: u64,
    ) -> Result<(), Refused> {
        let (slot, fd) = asker(entry)?;
        let (_, pid) = self.owner(slot)?;
        Ok(self.looker.ask(self.guard, Question { pid, fd, index, word })?)
    }

    /// Takes the handle and the write buffer that an entry asks for.
    fn grant(&mut self, index: usize, entry: &Entry, word: u64) -> Result<(), Refused> {
        let (slot, fd) = asker(entry)?;
        self.start_reaper()?;
        // What it had is nothing more than a place by now, unless a call still uses it.
        let _ = self.drop_handle(index).ok_or(Refused::Later)?;
        let held = &self.guard.held[index];
        if held.refused.load(SeqCst) == word {
            return Err(Refused::ForGood);
        }
        let (owner, pid) = self.owner(slot)?;
        if self.asks.are_refused(self.guard, (owner, pid), slot) {
            entry.is_recalled.store(RECALLED, SeqCst);
            return Err(Refused::ForGood);
        }
        let is_copy = entry.place.load(SeqCst) == PLACE_OFFSET;
        let handle = if is_copy { self.copy(owner, fd)? } else { open_handle(pid, fd)? };
        let device = sys::status_at_hand(handle.as_raw_fd())?.device;
        held.owner.store(owner, SeqCst);
        held.is_copy.store(is_copy, SeqCst);
        // Until it is known.
        held.is_served.store(true, SeqCst);
        held.device.store(device, SeqCst);
        held.handle.store(handle.into_raw_fd() + 1, SeqCst);
        let Err(refused) = self.prepare(index, entry, (owner, pid)) else { return Ok(()) };
        if matches!(refused, Refused::ForGood) {
            held.refused.store(word, SeqCst);
        }
        // Before the answer: who closes the file after that is the last one.
        note_close(entry, self.drop_handle(index).ok_or(Refused::Later)?);
        Err(refused)
    }

    /// Looks at a handle, and makes what an entry needs besides.
    fn prepare(
        &mut self,
        index: usize,
        entry: &Entry,
        (owner, pid): (u64, u32),
    ) -> Result<(), Refused> {
        let guard = self.guard;
        let is_copy = guard.held[index].is_copy.load(SeqCst);
        let handle = guard.held[index].handle().ok_or(Refused::ForGood)?;
        if !guard.leaves_reserve(&handle) || !guard.is_found() {
            return Err(Refused::ForGood);
        }
        let status = guard.look_at_file(index)?;
        let is_it = status.is_regular()
            && status.device == entry.device.load(SeqCst)
            && status.inode == entry.inode.load(SeqCst);
        if !is_it {
            return Err(Refused::ForGood);
        }
        // If it lives now, its number was its own all along.
        let lives =
            guard.lock_watch().living.get(&owner).is_some_and(|(_, fd)| !sys::is_dead(fd.as_fd()));
        if !lives {
            return Err(Refused::ForGood);
        }
        let appends = entry.open_flags.load(SeqCst) as i32 & libc::O_APPEND != 0;
        let asked = Asked { owner: pid, entry, file: status, handle, is_copy, adds: appends };
        match self.writers.any(guard, &asked) {
            Some(false) => {}
            Some(true) => {
                entry.is_recalled.store(RECALLED, SeqCst);
                return Err(Refused::ForGood);
            }
            None => return Err(Refused::ForGood),
        }
        guard.note(index, handle, status)?;
        let write_buffer = self.write_buffer(index, entry.write_buffer_bytes.load(SeqCst))?;
        entry.write_buffer_at.store(WRITE_BUFFERS_AT + write_buffer.at, SeqCst);
        entry.write_buffer_bytes.store(write_buffer.bytes, SeqCst);
        entry.birth_ns.store(status.birth_ns, SeqCst);
        entry.note_left(status.left());
        Ok(())
    }

    /// A copy of a description that its owner shares with others, which may be refused (Yama,
    /// seccomp, a process that may not be looked at).
    fn copy(&self, owner: u64, fd: i32) -> Result<OwnedFd, Refused> {
        let watch = self.guard.lock_watch();
        let (_, pidfd) = watch.living.get(&owner).ok_or(Refused::ForGood)?;
        let copy = sys::copy_of(pidfd.as_fd(), fd)?;
        match sys::open_flags(&copy)? & libc::O_ACCMODE {
            libc::O_WRONLY | libc::O_RDWR => Ok(copy),
            _ => Err(Refused::ForGood),
        }
    }

    /// The process of a slot, watched from its first ask on: {id, process number}.
    fn owner(&self, slot_index: u32) -> Result<(u64, u32), Refused> {
        let guard = self.guard;
        let slot = &guard.ledger.slots[slot_index as usize];
        if slot.ready.load(SeqCst) != 1 {
            return Err(Refused::ForGood);
        }
        let pid = slot.pid.load(SeqCst);
        let start_ticks = slot.start_ticks.load(SeqCst);
        let mut watch = guard.lock_watch();
        let id = watch.of_slot.get(&slot_index).copied().unwrap_or(0);
        let wanted = Watched { pid, slot: slot_index, start_ticks };
        if watch.living.get(&id).is_some_and(|(watched, _)| *watched == wanted) {
            return Ok((id, pid));
        }
        let (watched, pidfd) = guard.look_at(slot_index, slot, pid)?;
        Ok((watch.register(&guard.epoll, watched, pidfd)?, pid))
    }

    /// The write buffer of an entry, at least `wanted_bytes` large: the one it kept, or a new one.
    fn write_buffer(&mut self, index: usize, wanted_bytes: u64) -> Result<WriteBuffer, Refused> {
        let held = &self.guard.held[index];
        let kept = WriteBuffer {
            at: held.write_buffer_at.load(SeqCst).wrapping_sub(WRITE_BUFFERS_AT),
            bytes: held.write_buffer_bytes.load(SeqCst),
        };
        if kept.bytes >= wanted_bytes.max(1) {
            return Ok(kept);
        }
        self.drop_write_buffer(index);
        if wanted_bytes > BUFFER_BYTES_MAX {
            return Err(Refused::ForGood);
        }
        let bytes = self.write_buffers.bytes_for(wanted_bytes).ok_or(Refused::ForGood)?;
        if self.write_buffers.taken_bytes() + bytes
            > self.room.bytes(self.guard, &self.write_buffers)
        {
            return Err(Refused::ForGood);
        }
        let write_buffer = self.write_buffers.take(bytes).ok_or(Refused::ForGood)?;
        if sys::allocate(&self.guard.file, WRITE_BUFFERS_AT + write_buffer.at, write_buffer.bytes)
            .is_err()
        {
            self.write_buffers.give_back(write_buffer);
            return Err(Refused::ForGood);
        }
        held.write_buffer_at.store(WRITE_BUFFERS_AT + write_buffer.at, SeqCst);
        held.write_buffer_bytes.store(write_buffer.bytes, SeqCst);
        Ok(write_buffer)
    }

    /// Closes the handle of an entry, and returns what its file system says to that. `None`: a call uses it, or the
    /// reaper closes it; the entry will be asked for again.
    fn drop_handle(&self, index: usize) -> Option<io::Result<()>> {
        if self.guard.is_closed_later(index) {
            return None;
        }
        let held = &self.guard.held[index];
        let handle = self.guard.reapers.unless_in_use(index, || {
            held.owner.store(0, SeqCst);
            held.device.store(0, SeqCst);
            held.handle.swap(0, SeqCst)
        });
        Some(match handle? {
            0 => Ok(()),
            handle => sys::close(sys::owned(handle - 1).into()),
        })
    }

    fn drop_write_buffer(&mut self, index: usize) {
        let held = &self.guard.held[index];
        let bytes = held.write_buffer_bytes.swap(0, SeqCst);
        let at = held.write_buffer_at.swap(0, SeqCst);
        if bytes != 0 {
            // Where the memory cannot be given back it is used again as it is.
            let _ = sys::punch(&self.guard.file, at, bytes);
            self.write_buffers.give_back(WriteBuffer { at: at - WRITE_BUFFERS_AT, bytes });
        }
    }
}

/// How long a step of the clock is.
pub(super) fn clock_step(ledger: &Ledger) -> Duration {
    let age_ms = u64::from(ledger.header.max_age_ms.load(SeqCst));
    Duration::from_millis((age_ms / u64::from(CLOCKS_PER_AGE)).max(1))
}

/// The slot and the descriptor for which an entry asks.
fn asker(entry: &Entry) -> Result<(u32, i32), Refused> {
    let (slot, fd) = (entry.slot.load(SeqCst), entry.fd.load(SeqCst));
    if slot == 0 || slot as usize >= SLOTS_MAX || fd < 0 {
        Err(Refused::ForGood)
    } else {
        Ok((slot, fd))
    }
}

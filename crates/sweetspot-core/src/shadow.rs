//! What buffering would do with a file that is only observed: the engine's own decisions (`learning`,
//! `window`, `append`, `auto`), taken beside the calls instead of under them.
//!
//! `profile` lets every call go to the kernel and asks its file's [`Shadow`] what would have become
//! of it. The answer is counted: so many reads would have been hits, so many windows filled. Of calls
//! that were recorded the same is asked again for other sizes (`profile --record`, `tune --from`):
//! [`Shadow::with_buffer`]. What is not here: what the counts cost (`profile`'s model), and the file
//! itself.
//!
//! `auto` measures what transfers take. A shadow makes none, so it has a clock of its own: a transfer
//! takes what earlier runs have told of its file system, or else what is usual, and the program what is
//! usual between two calls.
//!
//! Invariant: a shadow decides from what the engine would have known at that call, never from what
//! came later. And it decides nothing by itself: where it has a rule that the engine has, too, both call
//! one function.

mod answers;
mod gaps;
mod seeks;
mod seen;
mod state;
mod terms;

pub use terms::{Told, Transfer, Use, Wish, World, Would};

use crate::append::{self, Handle, may_wait};
use crate::auto::{Windows, append_bytes_first, append_bytes_wanted};
use crate::cost::{Cost, Meter};
use crate::learning::{Learning, Near};
use crate::ledger::BUFFER_AUTO;
use crate::threshold::Ended;
use crate::why::Why;
use crate::window::{self, Decision, Miss};
use state::State;

/// What a program takes between two calls, in nanoseconds: 10 in a loop in C, 170 in COBOL, 300 in
/// Python.
const PROGRAM_NS: u64 = 100;

/// The last position that a file can have.
const FARTHEST: u64 = i64::MAX as u64;

/// One open file description, as the engine would have known it.
#[derive(Clone, Copy, Debug)]
pub struct Shadow {
    learning: Learning,
    /// What reads had earned when calls were last left out.
    score: u32,
    state: State,
    /// It was open before the program started, and is not known to be the process' alone: no window.
    outside: bool,
    /// The guard was asked whether it is.
    is_asked_after: bool,
    /// Its writes go to the end of the file.
    at_end: bool,
    handle: Handle,
    window: window::Pattern,
    append: append::Pattern,
    /// The size in force.
    buffer: u32,
    told: Told,
    reads: Meter,
    writes: Meter,
    /// Its own clock.
    now_ns: u64,
    /// Size of the file when it was last asked for, or more.
    size: u64,
    /// The position, as the calls that it was told of have left it.
    position: u64,
    /// Where the last transfer ended, and about where that was or what was set since.
    end: u64,
    last_end: Near,
    /// It has memory for a window.
    has_window: bool,
    window_at: u64,
    window_len: u64,
    served: u64,
    served_bytes: u64,
    /// `World::acquires` when the window was filled or confirmed.
    acquires: u64,
    /// The file was changed since its window was filled, or so shortly before that its times tell nothing: the window
    /// is found to be old when the file is asked.
    is_recent: bool,
    pending_at: u64,
    pending_len: u64,
    /// Writes that wait.
    carried: u64,
    /// All writes that passed through.
    passed_writes: u64,
    /// `World::releases` when the first byte began to wait.
    releases: u64,
    /// Reads answered from windows, and writes that waited, all in all.
    hits: u32,
    appends: u32,
    /// Reasons for which calls passed through, as bits of [`Why`].
    why: u64,
}

impl Shadow {
    /// A file that was just opened.
    pub const NEW: Shadow = Shadow {
        learning: Learning(0),
        score: 0,
        state: State::Learning,
        outside: false,
        is_asked_after: false,
        at_end: false,
        handle: Handle::None,
        window: window::Pattern::NEW,
        append: append::Pattern { bytes_max: 0, poor: 0 },
        buffer: BUFFER_AUTO,
        told: Told { read: None, write: None },
        reads: Meter::NEW,
        writes: Meter::NEW,
        now_ns: 1,
        size: 0,
        position: 0,
        end: 0,
        last_end: Near::to(0),
        has_window: false,
        window_at: 0,
        window_len: 0,
        served: 0,
        served_bytes: 0,
        acquires: 0,
        is_recent: false,
        pending_at: 0,
        pending_len: 0,
        carried: 0,
        passed_writes: 0,
        releases: 0,
        hits: 0,
        appends: 0,
        why: 0,
    };

    /// A file that was open before the program started: its writes wait, and it gets a window once it is known
    /// to be the process' alone.
    pub const OUTSIDE: Shadow = Shadow { outside: true, ..Shadow::NEW };

    /// The same file under a buffer of that size ([`BUFFER_AUTO`] or bytes).
    #[must_use]
    pub fn with_buffer(self, buffer: u32) -> Shadow {
        Shadow { buffer, ..self }
    }

    /// Whether its writes wait with append placement.
    fn is_append_placed(&self) -> bool {
        self.state == State::AppendPlaced
    }

    fn move_on(&mut self, transfer: Transfer) {
        self.end = transfer.at.wrapping_add(transfer.done);
        if !transfer.is_positioned {
            self.position = self.end;
        }
    }

    /// A read was made. What would have become of it is told to `count`.
    #[inline]
    pub fn read(
        &mut self,
        read: Transfer,
        world: &mut World,
        mut count: impl FnMut(Would, u64),
    ) -> Wish {
        self.move_on(read);
        if self.state == State::PassThrough {
            world.before_read();
            world.acquire_point();
            return Wish::Nothing;
        }
        self.catch_up(world, &mut count);
        if self.is_append_placed() || self.is_on() && read.len == 0 {
            // A file that is read again learns from its reads; of an empty read the kernel knows what to
            // say.
            self.quiesce(world, &mut count);
        }
        if !self.is_on() {
            return self.learn_read(read, world);
        }
        let mut wish = Wish::Nothing;
        let end = self.window_at + self.window_len;
        let inside = read.at >= self.window_at && read.at.saturating_add(read.len) <= end;
        let is_asked = inside && self.acquires != world.acquires;
        if is_asked {
            count(Would::Ask, 1);
        }
        if inside && !(is_asked && self.is_recent) {
            self.acquires = world.acquires;
            self.served += 1;
            self.served_bytes += read.len;
        } else if !self.miss(read, world, &mut count) {
            return Wish::Nothing;
        } else if self.is_recent {
            wish = Wish::Times;
        }
        self.now_ns += PROGRAM_NS;
        self.hits = self.hits.saturating_add(1);
        count(Would::Hit, 1);
        count(Would::HitBytes, read.done);
        wish
    }

    fn learn_read(&mut self, read: Transfer, world: &mut World) -> Wish {
        world.before_read();
        world.acquire_point();
        if read.is_positioned {
            let end = Near::to(read.at.wrapping_add(read.len));
            let was = core::mem::replace(&mut self.last_end, end);
            if self.learning.has_no_score() && !was.has(read.at) {
                return Wish::Nothing;
            }
            self.learning = self.learning.after_move(read.at, was);
        } else {
            self.last_end = self.last_end.moved(read.done);
        }
        let before = self.learning;
        self.learning = before.after_read(read.len, read.done);
        if before.ends_reads(self.learning) {
            world.ended_reads = before.reads_in_order();
        }
        if !append::is_small(read.len) {
            self.why |= Why::LargeTransfers.bit();
        }
        if self.learning.earned(world.asked.reads()) { Wish::Window } else { Wish::Nothing }
    }

    /// A read that the window cannot answer. Whether a new one answers it.
    #[cold]
    fn miss(
        &mut self,
        read: Transfer,
        world: &mut World,
        count: &mut impl FnMut(Would, u64),
    ) -> bool {
        self.reads.begin(self.now_ns, self.served_bytes);
        let Windows { bytes_max, bytes_sweet, bytes_first, dense_bytes } =
            Windows::new(self.buffer, &self.reads, self.told.read);
        let reach = read.at.saturating_add(read.len.max(bytes_max));
        let is_pending_there = self.pending_at < reach && read.at < self.pending_end();
        if self.pending_len > 0 && (is_pending_there || world.beside.pending) {
            world.release_point();
            self.flush(count);
        } else {
            world.before_read();
        }
        let miss = Miss {
            at: read.at,
            len: read.len,
            window_at: self.window_at,
            window_len: self.window_len,
            served: self.served,
            served_bytes: self.served_bytes,
            bytes_max,
            bytes_sweet,
            bytes_first,
            dense_bytes,
        };
        let is_refused = !self.has_window && self.why & Why::SharedMemory.bit() != 0;
        match self.window.miss(&miss) {
            Decision::Fill(_) if is_refused => {
                world.acquire_point();
                false
            }
            Decision::Fill(bytes) => {
                self.fill(read, bytes, world, count);
                true
            }
            Decision::PassThrough => {
                self.why |= Why::LargeTransfers.bit();
                world.acquire_point();
                false
            }
            Decision::Close(why) => {
                self.why |= why.bit();
                self.quiesce(world, count);
                self.learning = self.learning.back_off();
                let _ = self.learn_read(read, world);
                false
            }
        }
    }

    /// A window of `bytes` is filled, as far as the file goes.
    fn fill(
        &mut self,
        read: Transfer,
        bytes: u64,
        world: &mut World,
        count: &mut impl FnMut(Would, u64),
    ) {
        self.size = self.size.max(read.at + read.done);
        let bytes = bytes.min(self.size - read.at);
        count(Would::Fill, 1);
        count(Would::FillBytes, bytes);
        world.acquire_point();
        (self.window_at, self.window_len, self.acquires) = (read.at, bytes, world.acquires);
        (self.served, self.served_bytes) = (u64::from(bytes > 0), read.done);
        self.has_window = true;
        let began_ns = self.now_ns;
        self.now_ns += self.told.read.unwrap_or(Cost::USUAL).of_ns(bytes);
        self.reads.end(began_ns, self.now_ns, bytes);
    }

    /// A write was made. What would have become of it is told to `count`.
    #[inline]
    pub fn write(
        &mut self,
        write: Transfer,
        world: &mut World,
        mut count: impl FnMut(Would, u64),
    ) -> Wish {
        self.move_on(write);
        if self.state == State::PassThrough {
            world.write_passes();
            return Wish::Nothing;
        }
        // Only the kernel knows where the end is.
        let is_elsewhere = self.state == State::On && self.at_end;
        if is_elsewhere || self.handle.gains_nothing(self.has_window) {
            self.quiesce(world, &mut count);
        }
        if !self.is_on() {
            return self.learn_write(write, world);
        }
        self.catch_up(world, &mut count);
        if let Handle::Asked { .. } = self.handle {
            self.begin_to_wait();
        }
        let bytes_max = self.append.bytes_max;
        if self.handle != Handle::Held || !may_wait(write.len, bytes_max) || write.done == 0 {
            world.write_passes();
            self.flush(&mut count);
            self.note_times(true);
            let asks = append::is_asked_after(self.passed_writes, world.asked.writes());
            self.passed_writes += 1;
            return if asks && self.handle == Handle::None { Wish::Handle } else { Wish::Nothing };
        }
        let follows = self.is_append_placed() || write.at == self.pending_end();
        if self.pending_len > 0 && !(follows && self.pending_len + write.len <= bytes_max) {
            world.release_point();
            self.flush(&mut count);
        }
        if self.pending_len == 0 {
            if world.beside != Use::default() {
                self.why |= Why::OpenTwice.bit();
                self.passed_writes += 1;
                world.write_passes();
                return Wish::Nothing;
            }
            (self.pending_at, self.releases, self.carried) = (write.at, world.releases, 0);
        }
        self.pending_len += write.done;
        self.carried += 1;
        self.appends = self.appends.saturating_add(1);
        self.now_ns += PROGRAM_NS;
        self.size = self.size.max(write.at + write.done);
        count(Would::Append, 1);
        count(Would::AppendBytes, write.done);
        Wish::Nothing
    }

    fn learn_write(&mut self, write: Transfer, world: &mut World) -> Wish {
        world.write_passes();
        self.passed_writes += 1;
        self.last_end = self.last_end.moved(write.done);
        self.learning = self.learning.after_write(write.len, write.done);
        if !append::is_small(write.len) {
            self.why |= Why::LargeTransfers.bit();
            return Wish::Nothing;
        }
        let is_earned =
            self.handle.is_earned(self.learning.small_writes(), || world.asked.writes());
        match self.handle {
            _ if !is_earned => Wish::Nothing,
            Handle::None => Wish::Handle,
            _ => {
                self.begin_to_wait();
                Wish::Nothing
            }
        }
    }

    fn pending_end(&self) -> u64 {
        self.pending_at + self.pending_len
    }

    fn turn_on(&mut self, state: State) {
        if !self.is_on() {
            (self.state, self.has_window, self.window_len) = (state, false, 0);
        }
    }

    fn begin_to_wait(&mut self) {
        self.handle = Handle::Held;
        self.turn_on(if self.at_end { State::AppendPlaced } else { State::On });
        let had = self.append.bytes_max;
        let first = append_bytes_first(self.buffer, self.told.write, had);
        self.append.bytes_max = first.min(self.append_bytes_limit());
    }

    /// The most that may wait.
    fn append_bytes_limit(&self) -> u64 {
        append_bytes_wanted(self.buffer, &self.writes, self.told.write, self.append.bytes_max)
    }

    /// A write that is never buffered: a vector, or one at a position.
    pub fn write_past(
        &mut self,
        write: Transfer,
        world: &mut World,
        mut count: impl FnMut(Would, u64),
    ) {
        self.move_on(write);
        world.write_passes();
        if self.is_append_placed() {
            self.flush(&mut count);
        } else {
            self.quiesce(world, &mut count);
        }
    }

    /// The kernel is about to use offset or content of the file.
    pub fn hand_over(&mut self, world: &mut World, mut count: impl FnMut(Would, u64)) {
        world.release_point();
        self.quiesce(world, &mut count);
    }

    fn quiesce(&mut self, world: &mut World, count: &mut impl FnMut(Would, u64)) {
        if !self.is_on() {
            return;
        }
        self.catch_up(world, count);
        if self.pending_len > 0 {
            world.release_point();
            self.flush(count);
        }
        // It may have ended with that flush.
        if self.state == State::On {
            count(Would::Quiesce, 1);
        }
        self.turn_off();
    }

    fn turn_off(&mut self) {
        self.state = State::Learning;
        self.has_window = false;
        (self.learning, self.score) = (self.learning.start_again(), 0);
        // What the last window was worth is remembered for the next one.
        self.window_len = 0;
    }

    /// The file is closed, or the program ends.
    pub fn close(&mut self, mut count: impl FnMut(Would, u64)) -> Ended {
        self.flush(&mut count);
        self.ended()
    }

    /// After a release point since bytes began to wait: they were written before it.
    fn catch_up(&mut self, world: &World, count: &mut impl FnMut(Would, u64)) {
        if self.pending_len > 0 && self.releases != world.releases {
            self.flush(count);
        }
    }

    /// What waits goes out, as one write.
    fn flush(&mut self, count: &mut impl FnMut(Would, u64)) {
        let len = core::mem::take(&mut self.pending_len);
        if len == 0 {
            return;
        }
        count(Would::Flush, 1);
        count(Would::FlushBytes, len);
        // A change of its own shows in its times like any other.
        self.note_times(true);
        let began_ns = self.now_ns;
        self.writes.begin(began_ns, len);
        self.now_ns += self.told.write.unwrap_or(Cost::USUAL).of_ns(len);
        let limit = self.append_bytes_limit();
        let flush = append::Flush { len, carried: self.carried, took_ns: self.now_ns - began_ns };
        if let Some(why) = self.append.flushed(flush, limit) {
            self.refuse_writes(why);
        }
        self.writes.end(began_ns, self.now_ns, len);
    }
}

#[cfg(test)]
mod tests;

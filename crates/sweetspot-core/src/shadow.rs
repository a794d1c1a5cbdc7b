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

use crate::append::{self, Pin, may_wait};
use crate::auto::{Windows, append_bytes_first, append_bytes_wanted};
use crate::cost::{Cost, Meter};
use crate::learning::{Learning, is_near};
use crate::ledger::BUFFER_AUTO;
use crate::policy::WINDOW_BYTES_MIN;
use crate::why::Why;
use crate::window::{self, Decision, Miss};

/// What would have been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Would {
    /// Reads answered from a window.
    Hit,
    HitBytes,
    /// Windows filled.
    Fill,
    FillBytes,
    /// Windows that would have been asked, by fstat, whether they are still right.
    Ask,
    /// Writes that would have waited.
    Append,
    AppendBytes,
    /// Positioned writes of what waited.
    Flush,
    FlushBytes,
    /// Seeks answered without the kernel.
    Seek,
    /// Times the kernel would have been told the position.
    Settle,
    /// Files that would have got a window, or begun to wait, which takes some questions.
    Open,
    /// Calls that this was asked about: where only some were, all else is a part of these.
    AskedReads,
    AskedWrites,
    AskedSeeks,
}

impl Would {
    /// How many there are.
    pub const COUNT: usize = Would::AskedSeeks as usize + 1;
}

/// What a process as a whole has heard and said, as far as buffers depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// Advanced by whatever may have brought news: a window is asked again.
    pub news: u64,
    /// Advanced by whatever others can notice: everything that waits is written first.
    pub speech: u64,
}

impl World {
    /// News may have come.
    pub fn listen(&mut self) {
        self.news = self.news.wrapping_add(1);
    }

    /// Others may have noticed something.
    pub fn speak(&mut self) {
        self.speech = self.speech.wrapping_add(1);
    }
}

/// One read or write: where it began, what was asked for, what was done, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    pub at: u64,
    pub len: u64,
    pub done: u64,
    /// The call named the place (`pread`).
    pub is_positioned: bool,
}

/// What the engine would ask the kernel about now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Wish {
    Nothing,
    /// Reads have earned a window: answer with [`Shadow::open_window`] or [`Shadow::refuse`].
    Window,
    /// Writes have earned a pin: answer with [`Shadow::pin`] or [`Shadow::refuse_writes`].
    Pin,
}

/// What transfers of a file cost, as earlier runs have told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub read: Option<Cost>,
    pub write: Option<Cost>,
}

/// What a program takes between two calls, in nanoseconds: 10 in a loop in C, 170 in COBOL, 300 in
/// Python.
const PROGRAM_NS: u64 = 100;

/// One open file description, as the engine would have known it.
#[derive(Clone, Copy, Debug)]
pub struct Shadow {
    learning: Learning,
    /// Its position would be the engine's, and seeks answered; where its writes are appended: they wait.
    on: bool,
    /// It goes straight on for good.
    straight: bool,
    /// It was open before the program started: no window.
    outside: bool,
    /// Its writes would wait at the kernel's offset, which stays its position.
    trails: bool,
    pin: Pin,
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
    last_end: u64,
    /// It has memory for a window.
    has_window: bool,
    window_at: u64,
    window_len: u64,
    served: u64,
    served_bytes: u64,
    /// `World::news` when the window was filled or confirmed.
    news: u64,
    pending_at: u64,
    pending_len: u64,
    /// Writes that wait; all those that went straight on.
    carried: u64,
    straight_writes: u64,
    /// `World::speech` when the first byte began to wait.
    speech: u64,
    /// Reasons for which calls went straight on, as bits of [`Why`].
    why: u64,
}

impl Default for Shadow {
    fn default() -> Self {
        Shadow::NEW
    }
}

impl Shadow {
    /// A file that was just opened.
    pub const NEW: Shadow = Shadow {
        learning: Learning(0),
        on: false,
        straight: false,
        outside: false,
        trails: false,
        pin: Pin::None,
        window: window::Pattern::NEW,
        append: append::Pattern { bytes_max: 0, poor: 0 },
        buffer: BUFFER_AUTO,
        told: Told { read: None, write: None },
        reads: Meter::NEW,
        writes: Meter::NEW,
        now_ns: 1,
        size: 0,
        last_end: 0,
        has_window: false,
        window_at: 0,
        window_len: 0,
        served: 0,
        served_bytes: 0,
        news: 0,
        pending_at: 0,
        pending_len: 0,
        carried: 0,
        straight_writes: 0,
        speech: 0,
        why: 0,
    };

    /// A file that was open before the program started: it gets no window, its writes wait.
    pub const OUTSIDE: Shadow = Shadow { outside: true, ..Shadow::NEW };

    /// The same file under a buffer of that size ([`BUFFER_AUTO`] or bytes).
    #[must_use]
    pub fn with_buffer(self, buffer: u32) -> Shadow {
        Shadow { buffer, ..self }
    }

    /// Whether it was open before the program started: others share its offset.
    pub fn is_from_outside(&self) -> bool {
        self.outside
    }

    /// Whether it goes straight on for good.
    pub fn is_straight(&self) -> bool {
        self.straight
    }

    /// The reasons for which calls went straight on, as bits of [`Why`].
    pub fn why(&self) -> u64 {
        self.why
    }

    /// Whether it would have a buffer now: most calls then concern nobody else.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Calls were left out: whatever was heard or said meanwhile is no matter to this file.
    pub fn resume(&mut self, world: &World) {
        (self.news, self.speech) = (world.news, world.speech);
    }

    /// What earlier runs have told of its file system.
    pub fn tell(&mut self, told: Told) {
        self.told = told;
    }

    /// Whether its writes wait at the kernel's offset.
    fn is_trailing(&self) -> bool {
        self.on && self.trails
    }

    /// A read was made. What would have become of it is told to `count`.
    #[inline]
    pub fn read(
        &mut self,
        read: Transfer,
        world: &mut World,
        mut count: impl FnMut(Would, u64),
    ) -> Wish {
        if self.straight {
            world.listen();
            return Wish::Nothing;
        }
        self.catch_up(world, &mut count);
        if self.is_trailing() || self.on && read.len == 0 {
            // A file that is read again learns from its reads; of an empty read the kernel knows what to
            // say.
            self.settle(world, &mut count);
        }
        if !self.on {
            return self.learn_read(read, world);
        }
        let end = self.window_at + self.window_len;
        let inside = read.at >= self.window_at && read.at.saturating_add(read.len) <= end;
        if inside {
            if self.news != world.news {
                count(Would::Ask, 1);
                self.news = world.news;
            }
            self.served += 1;
            self.served_bytes += read.len;
        } else if !self.miss(read, world, &mut count) {
            return Wish::Nothing;
        }
        self.now_ns += PROGRAM_NS;
        count(Would::Hit, 1);
        count(Would::HitBytes, read.done);
        Wish::Nothing
    }

    fn learn_read(&mut self, read: Transfer, world: &mut World) -> Wish {
        world.listen();
        if read.is_positioned {
            let was = core::mem::replace(&mut self.last_end, read.at.wrapping_add(read.len));
            if self.learning.has_no_score() && !is_near(read.at, was) {
                return Wish::Nothing;
            }
            self.learning = self.learning.after_move(read.at, was);
        } else {
            self.last_end = self.last_end.wrapping_add(read.done);
        }
        self.learning = self.learning.after_read(read.len, read.done);
        if !append::is_small(read.len) {
            self.why |= Why::LargeTransfers.bit();
        }
        if self.learning.earned() { Wish::Window } else { Wish::Nothing }
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
        if self.pending_len > 0 && self.pending_at < reach && read.at < self.pending_end() {
            world.speak();
            self.flush(count);
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
        match self.window.miss(&miss) {
            Decision::Fill(bytes) => {
                self.size = self.size.max(read.at + read.done);
                let bytes = bytes.min(self.size - read.at);
                count(Would::Fill, 1);
                count(Would::FillBytes, bytes);
                world.listen();
                (self.window_at, self.window_len, self.news) = (read.at, bytes, world.news);
                (self.served, self.served_bytes) = (u64::from(bytes > 0), read.done);
                self.has_window = true;
                let began_ns = self.now_ns;
                self.now_ns += self.told.read.unwrap_or(Cost::USUAL).of_ns(bytes);
                self.reads.end(began_ns, self.now_ns, bytes);
                true
            }
            Decision::PassOn => {
                self.why |= Why::LargeTransfers.bit();
                world.listen();
                false
            }
            Decision::Close(why) => {
                self.why |= why.bit();
                self.settle(world, count);
                self.learning = self.learning.back_off();
                let _ = self.learn_read(read, world);
                false
            }
        }
    }

    /// A write was made. What would have become of it is told to `count`.
    #[inline]
    pub fn write(
        &mut self,
        write: Transfer,
        world: &mut World,
        mut count: impl FnMut(Would, u64),
    ) -> Wish {
        if self.straight {
            world.speak();
            return Wish::Nothing;
        }
        if self.on && self.pin.gains_nothing(self.has_window) {
            self.settle(world, &mut count);
        }
        if !self.on {
            return self.learn_write(write, world);
        }
        self.catch_up(world, &mut count);
        if let Pin::Asked { .. } = self.pin {
            self.begin_to_wait();
        }
        let bytes_max = self.append.bytes_max;
        if self.pin != Pin::Held || !may_wait(write.len, bytes_max) || write.done == 0 {
            world.speak();
            self.flush(&mut count);
            let asks = self.pin.is_asked_after(self.straight_writes);
            self.straight_writes += 1;
            return if asks { Wish::Pin } else { Wish::Nothing };
        }
        let follows = self.trails || write.at == self.pending_end();
        if self.pending_len > 0 && !(follows && self.pending_len + write.len <= bytes_max) {
            world.speak();
            self.flush(&mut count);
        }
        if self.pending_len == 0 {
            (self.pending_at, self.speech, self.carried) = (write.at, world.speech, 0);
        }
        self.pending_len += write.done;
        self.carried += 1;
        self.now_ns += PROGRAM_NS;
        self.size = self.size.max(write.at + write.done);
        count(Would::Append, 1);
        count(Would::AppendBytes, write.done);
        Wish::Nothing
    }

    fn learn_write(&mut self, write: Transfer, world: &mut World) -> Wish {
        world.speak();
        self.straight_writes += 1;
        self.last_end = self.last_end.wrapping_add(write.done);
        self.learning = self.learning.after_write(write.len, write.done);
        if !append::is_small(write.len) {
            self.why |= Why::LargeTransfers.bit();
            return Wish::Nothing;
        }
        match self.pin {
            pin if !pin.is_earned(self.learning.small_writes()) => Wish::Nothing,
            Pin::None => Wish::Pin,
            _ => {
                self.begin_to_wait();
                Wish::Nothing
            }
        }
    }

    fn pending_end(&self) -> u64 {
        self.pending_at + self.pending_len
    }

    fn turn_on(&mut self) {
        if !self.on {
            (self.on, self.has_window, self.window_len) = (true, false, 0);
        }
    }

    fn begin_to_wait(&mut self) {
        self.pin = Pin::Held;
        self.turn_on();
        let had = self.append.bytes_max;
        let first = append_bytes_first(self.buffer, self.told.write, had);
        self.append.bytes_max = first.min(self.append_bytes_limit());
    }

    /// The most that may wait.
    fn append_bytes_limit(&self) -> u64 {
        append_bytes_wanted(self.buffer, &self.writes, self.told.write, self.append.bytes_max)
    }

    /// The window that reads have earned opens: the file has that many bytes, and this is the position.
    pub fn open_window(&mut self, size: u64, position: u64) {
        self.size = size;
        if size < position + WINDOW_BYTES_MIN / 2 {
            self.learning = self.learning.back_off();
        } else {
            self.turn_on();
        }
    }

    /// The pin that writes have earned was asked for. The guard answers before the next one: where it
    /// is later, as many more go straight on.
    pub fn pin(&mut self) {
        self.pin = Pin::Asked { is_answered: true };
    }

    /// The same for a file whose writes wait at the kernel's offset: one that is open for appending,
    /// or came from outside.
    pub fn pin_trailing(&mut self) {
        self.trails = true;
        self.pin();
    }

    /// Writes never wait, for this reason.
    pub fn refuse_writes(&mut self, why: Why) {
        self.why |= why.bit();
        self.pin = Pin::Never;
        if self.is_trailing() {
            self.turn_off();
        }
    }

    /// The file goes straight on for good, for this reason.
    pub fn refuse(&mut self, why: Why, world: &mut World, mut count: impl FnMut(Would, u64)) {
        self.settle(world, &mut count);
        self.straight = true;
        self.why |= why.bit();
    }

    /// A seek was answered with `position`: one that sets or asks the position where it `is_plain`, else
    /// one from the end, for data or holes.
    #[inline]
    pub fn seek(
        &mut self,
        position: u64,
        is_plain: bool,
        world: &mut World,
        mut count: impl FnMut(Would, u64),
    ) {
        if self.is_trailing() {
            world.speak();
            return self.flush(&mut count);
        }
        if self.on && is_plain {
            return count(Would::Seek, 1);
        }
        if !is_plain {
            world.speak();
            self.settle(world, &mut count);
        }
        self.learning = self.learning.after_move(position, self.last_end);
        self.last_end = position;
    }

    /// A write that is never buffered: a vector, or one at a position.
    pub fn write_past(&mut self, world: &mut World, mut count: impl FnMut(Would, u64)) {
        world.speak();
        if self.is_trailing() {
            self.flush(&mut count);
        } else {
            self.settle(world, &mut count);
        }
    }

    /// The kernel is about to use offset or content of the file.
    pub fn hand_over(&mut self, world: &mut World, mut count: impl FnMut(Would, u64)) {
        world.speak();
        self.settle(world, &mut count);
    }

    fn settle(&mut self, world: &mut World, count: &mut impl FnMut(Would, u64)) {
        if !self.on {
            return;
        }
        self.catch_up(world, count);
        if self.pending_len > 0 {
            world.speak();
            self.flush(count);
        }
        // It may have ended with that flush.
        if self.on && !self.trails {
            count(Would::Settle, 1);
        }
        self.turn_off();
    }

    fn turn_off(&mut self) {
        self.on = false;
        self.has_window = false;
        self.learning = self.learning.start_again();
        // What the last window was worth is remembered for the next one.
        self.window_len = 0;
    }

    /// The file is closed, or the program ends.
    pub fn close(&mut self, mut count: impl FnMut(Would, u64)) {
        self.flush(&mut count);
    }

    /// What others could notice was said since bytes began to wait: by then they were written.
    fn catch_up(&mut self, world: &World, count: &mut impl FnMut(Would, u64)) {
        if self.pending_len > 0 && self.speech != world.speech {
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
        let began_ns = self.now_ns;
        self.writes.begin(began_ns, len);
        self.now_ns += self.told.write.unwrap_or(Cost::USUAL).of_ns(len);
        let limit = self.append_bytes_limit();
        if let Some(why) = self.append.flushed(len, self.carried, limit) {
            self.refuse_writes(why);
        }
        self.writes.end(began_ns, self.now_ns, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{POOR_FLUSHES_MAX, WRITES_TO_EARN};
    use std::vec::Vec;

    /// Counts over one made-up program.
    struct Program {
        shadow: Shadow,
        world: World,
        counts: [u64; Would::COUNT],
        at: u64,
        /// Whether its writes wait at the kernel's offset.
        trails: bool,
    }

    impl Program {
        fn new() -> Program {
            Program {
                shadow: Shadow::NEW,
                world: World::default(),
                counts: [0; Would::COUNT],
                at: 0,
                trails: false,
            }
        }

        fn read(&mut self, len: u64) {
            let counts = &mut self.counts;
            let read = Transfer { at: self.at, len, done: len, is_positioned: false };
            let wish = self.shadow.read(read, &mut self.world, |would, n| {
                counts[would as usize] += n;
            });
            match wish {
                Wish::Window if self.shadow.is_from_outside() => {
                    self.shadow.refuse(Why::FromOutside, &mut self.world, |_, _| {});
                }
                Wish::Window => self.shadow.open_window(1 << 40, self.at),
                _ => {}
            }
            self.at += len;
        }

        fn write(&mut self, len: u64) {
            let counts = &mut self.counts;
            let write = Transfer { at: self.at, len, done: len, is_positioned: false };
            let wish = self.shadow.write(write, &mut self.world, |would, n| {
                counts[would as usize] += n;
            });
            match wish {
                Wish::Pin if self.trails => self.shadow.pin_trailing(),
                Wish::Pin => self.shadow.pin(),
                _ => {}
            }
            self.at += len;
        }

        fn seek(&mut self, at: u64) {
            let counts = &mut self.counts;
            self.shadow.seek(at, true, &mut self.world, |would, n| counts[would as usize] += n);
            self.at = at;
        }

        fn count(&self, would: Would) -> u64 {
            self.counts[would as usize]
        }

        fn check(&self, expected: &[(Would, u64)]) {
            let found: Vec<_> =
                expected.iter().map(|(would, _)| (*would, self.count(*would))).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn records_that_are_read_in_order_are_hits_after_sixteen() {
        let mut program = Program::new();
        (0..10_000).for_each(|_| program.read(200));
        program.check(&[(Would::Hit, 9_984), (Would::HitBytes, 9_984 * 200), (Would::Ask, 0)]);
        let fills = program.count(Would::Fill);
        assert!((16..64).contains(&fills), "2 MB in windows that grow to what pays: {fills}");
    }

    #[test]
    fn records_that_are_written_in_order_wait_after_sixty_four() {
        let mut program = Program::new();
        (0..10_000).for_each(|_| program.write(200));
        // Of the answer the one after them learns.
        program.check(&[(Would::Append, 9_936 - 1)]);
        let flushes = program.count(Would::Flush);
        assert!((7..12).contains(&flushes), "2 MB, 64 KiB growing to 256 KiB: {flushes}");
    }

    #[test]
    fn whoever_speaks_after_each_write_gains_nothing() {
        let mut program = Program::new();
        for _ in 0..1000 {
            program.write(200);
            program.world.speak();
        }
        let flushes = u64::from(POOR_FLUSHES_MAX);
        program.check(&[(Would::Append, flushes), (Would::Flush, flushes)]);
        assert_eq!(program.shadow.why(), Why::NotWorthIt.bit());
    }

    #[test]
    fn whoever_listens_before_each_read_asks_each_time() {
        let mut program = Program::new();
        for _ in 0..1000 {
            program.world.listen();
            program.read(200);
        }
        let (asks, fills) = (program.count(Would::Ask), program.count(Would::Fill));
        assert_eq!(asks + fills, 1000 - 16);
    }

    #[test]
    fn random_and_large_reads_go_straight_on() {
        let mut random = Program::new();
        let mut at = 1u64;
        for _ in 0..1000 {
            at = at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            random.seek(at >> 34);
            random.read(200);
        }
        random.check(&[(Would::Hit, 0), (Would::Fill, 0)]);
        let mut large = Program::new();
        (0..1000).for_each(|_| large.read(128 << 10));
        large.check(&[(Would::Hit, 0), (Would::Fill, 0)]);
        assert_eq!(large.shadow.why(), Why::LargeTransfers.bit());
    }

    #[test]
    fn writes_that_are_appended_or_come_from_outside_wait_and_reads_end_that() {
        let mut program = Program::new();
        program.shadow = Shadow::OUTSIDE;
        program.trails = true;
        (0..1000).for_each(|_| program.write(100));
        let waited = 1000 - u64::from(WRITES_TO_EARN) - 1;
        // Others move the offset meanwhile; no seek is answered here.
        program.at += 12_345;
        program.write(100);
        program
            .shadow
            .seek(program.at, true, &mut program.world, |would, _| assert_ne!(would, Would::Seek));
        program.check(&[(Would::Append, waited + 1), (Would::Settle, 0), (Would::Seek, 0)]);
        (0..1000).for_each(|_| program.read(100));
        program.check(&[(Would::Append, waited + 1), (Would::Hit, 0), (Would::Settle, 0)]);
        assert_eq!(program.shadow.why(), Why::FromOutside.bit());
    }

    #[test]
    fn dear_calls_make_larger_buffers_and_a_size_that_was_asked_for_stays() {
        let transfers = |buffer, call_ns| {
            let cost = Some(Cost { call_ns, unit_ns: 7_000 });
            let mut program = Program::new();
            program.shadow = Shadow::NEW.with_buffer(buffer);
            program.shadow.tell(Told { read: cost, write: cost });
            (0..100_000).for_each(|_| program.read(200));
            let fills = program.count(Would::Fill);
            let mut program = Program { shadow: program.shadow, ..Program::new() };
            program.shadow = Shadow::NEW.with_buffer(buffer);
            program.shadow.tell(Told { read: cost, write: cost });
            (0..100_000).for_each(|_| program.write(200));
            (fills, program.count(Would::Flush))
        };
        let (local, far) = (transfers(BUFFER_AUTO, 1_000), transfers(BUFFER_AUTO, 1_000_000));
        assert!(local.0 > 10 * far.0 && local.1 > 10 * far.1, "{local:?} {far:?}");
        assert_eq!(transfers(64 << 10, 1_000), transfers(64 << 10, 1_000_000));
    }

    #[test]
    fn a_position_that_is_kept_to_no_purpose_is_given_back() {
        let mut program = Program::new();
        (0..100).for_each(|_| program.write(200));
        program.shadow.refuse_writes(Why::NoGuard);
        program.write(200);
        program.seek(0);
        program.check(&[(Would::Append, 35), (Would::Settle, 1), (Would::Seek, 0)]);
        // With a window it is of use.
        let mut program = Program::new();
        (0..100).for_each(|_| program.read(200));
        program.shadow.refuse_writes(Why::NoGuard);
        program.write(200);
        program.seek(0);
        program.check(&[(Would::Settle, 0), (Would::Seek, 1)]);
    }

    #[test]
    fn what_takes_a_handle_back_is_asked_for_again() {
        let mut program = Program::new();
        (0..20).for_each(|_| program.read(200));
        // On for its reads: the pin is asked for at the sixty-fourth write.
        (0..100).for_each(|_| program.write(200));
        program.check(&[(Would::Append, 100 - u64::from(WRITES_TO_EARN)), (Would::Settle, 0)]);
        // A vector ends the waiting, which is earned again by a few writes.
        program.shadow.write_past(&mut program.world, |_, _| {});
        (0..20).for_each(|_| program.write(200));
        let again = 20 - u64::from(crate::policy::WRITES_TO_EARN_AGAIN);
        program.check(&[(Would::Append, 100 - u64::from(WRITES_TO_EARN) + again)]);
    }

    #[test]
    fn reads_at_random_positions_earn_nothing_and_those_in_order_do() {
        let pread = |program: &mut Program, at| {
            let read = Transfer { at, len: 100, done: 100, is_positioned: true };
            let wish = program.shadow.read(read, &mut program.world, |_, _| {});
            wish == Wish::Window
        };
        let mut program = Program::new();
        assert!((0..1000).all(|n| !pread(&mut program, n * 7919 % 1000 * 10_000)));
        assert!((0..20).any(|n| pread(&mut program, (1 << 30) | (n * 100))));
    }

    #[test]
    fn a_refusal_is_final_and_keeps_its_reason() {
        let mut program = Program::new();
        (0..100).for_each(|_| program.read(200));
        let hits = program.count(Would::Hit);
        program.shadow.refuse(Why::Mapped, &mut program.world, |_, _| {});
        (0..100).for_each(|_| program.read(200));
        program.check(&[(Would::Hit, hits)]);
        assert_eq!(program.shadow.why(), Why::Mapped.bit());
    }
}

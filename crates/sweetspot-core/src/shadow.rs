//! What buffering would do with a file that is only observed: the same decisions as the engine's
//! (`learning`, `window`, `policy`), taken beside the calls instead of under them.
//!
//! `profile` lets every call go to the kernel and asks its file's [`Shadow`] what would have become
//! of it. The answer is counted: so many reads would have been hits, so many windows filled. What
//! is not here: time (the cost model of `profile`, and with it what `auto` would find to pay: it is taken
//! to use what is usual), and the file itself.
//!
//! Of calls that were recorded the same is asked again for other sizes (`profile --record`,
//! `tune --from`): [`Shadow::with_buffer`].
//!
//! Invariant: a shadow decides from what the engine would have known at that call, never from what
//! came later.

use crate::learning::Learning;
use crate::policy::{
    APPEND_BYTES_FIRST, AUTO_BYTES_USUAL, AUTO_DENSE_BYTES, NEAR_BYTES, POOR_FLUSHES_MAX,
    WINDOW_BYTES_MIN, WRITES_TO_EARN, WRITES_TO_EARN_AGAIN, WRITES_WORTH,
};
use crate::why::Why;
use crate::window::{Decision, Miss, Pattern};

/// Transfers at least that large never earn a window, in bytes.
const BYTES_SMALL: u64 = 64 << 10;

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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pin {
    #[default]
    None,
    Held,
    Never,
}

/// One open file description, as the engine would have known it.
#[derive(Clone, Copy, Debug)]
pub struct Shadow {
    learning: Learning,
    /// Its position would be the engine's, and seeks answered.
    on: bool,
    /// It goes straight on for good.
    straight: bool,
    /// It was open before the program started: no window.
    outside: bool,
    /// Its writes would wait at the kernel's offset, which stays its position.
    trails: bool,
    pin: Pin,
    pattern: Pattern,
    /// Size of the file when it was last asked for, or more.
    size: u64,
    last_end: u64,
    window_at: u64,
    window_len: u64,
    served: u64,
    served_bytes: u64,
    /// `World::news` when the window was filled or confirmed.
    news: u64,
    pending_at: u64,
    pending_len: u64,
    /// Writes that wait; those that went straight on while the file was on; flushes in a row that
    /// carried few.
    carried: u64,
    straight_writes: u64,
    poor: u32,
    append_bytes_max: u64,
    /// The size in force, in bytes; 0: `auto`.
    buffer: u32,
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
        pattern: Pattern::NEW,
        size: 0,
        last_end: 0,
        window_at: 0,
        window_len: 0,
        served: 0,
        served_bytes: 0,
        news: 0,
        pending_at: 0,
        pending_len: 0,
        carried: 0,
        straight_writes: 0,
        poor: 0,
        append_bytes_max: APPEND_BYTES_FIRST,
        buffer: 0,
        speech: 0,
        why: 0,
    };

    /// A file that was open before the program started: it gets no window, its writes wait.
    pub const OUTSIDE: Shadow = Shadow { outside: true, ..Shadow::NEW };

    /// The same file under a buffer of that many bytes; 0: `auto`.
    #[must_use]
    pub fn with_buffer(self, bytes: u32) -> Shadow {
        let append_bytes_max = if bytes == 0 { APPEND_BYTES_FIRST } else { u64::from(bytes) };
        Shadow { buffer: bytes, append_bytes_max, ..self }
    }

    fn window_bytes_max(&self) -> u64 {
        if self.buffer == 0 { AUTO_BYTES_USUAL } else { u64::from(self.buffer) }
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
        if self.trails {
            // A file that is read again learns from its reads.
            self.settle(world, &mut count);
        }
        if !self.on {
            return self.learn_read(read, world);
        }
        let end = self.window_at + self.window_len;
        let inside = read.at >= self.window_at && read.at + read.len <= end && read.len > 0;
        if inside {
            if self.news != world.news {
                count(Would::Ask, 1);
                self.news = world.news;
            }
            self.serve(read.len);
        } else if !self.miss(read, world, &mut count) {
            return Wish::Nothing;
        }
        count(Would::Hit, 1);
        count(Would::HitBytes, read.done);
        Wish::Nothing
    }

    fn learn_read(&mut self, read: Transfer, world: &mut World) -> Wish {
        if read.at.abs_diff(self.last_end) > NEAR_BYTES {
            self.learning = self.learning.with(Learning::JUMPED);
        }
        self.last_end = read.at + read.done;
        self.learning = match read.len < BYTES_SMALL {
            true if read.done == read.len => self.learning.small_read(),
            true => self.learning,
            false => self.learning.large_read(),
        };
        if read.len >= BYTES_SMALL {
            self.why |= Why::LargeTransfers.bit();
        }
        world.listen();
        if self.learning.earned() { Wish::Window } else { Wish::Nothing }
    }

    fn serve(&mut self, bytes: u64) {
        self.served += 1;
        self.served_bytes += bytes;
    }

    /// A read that the window cannot answer. Whether a new one answers it.
    #[cold]
    fn miss(
        &mut self,
        read: Transfer,
        world: &mut World,
        count: &mut impl FnMut(Would, u64),
    ) -> bool {
        let bytes_max = self.window_bytes_max();
        let reach = read.at + read.len.max(bytes_max);
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
            bytes_sweet: bytes_max,
            bytes_first: WINDOW_BYTES_MIN,
            dense_bytes: if self.buffer == 0 { AUTO_DENSE_BYTES } else { u64::MAX },
        };
        match self.pattern.miss(&miss) {
            Decision::Fill(bytes) => {
                self.size = self.size.max(read.at + read.done);
                let bytes = bytes.min(self.size - read.at);
                count(Would::Fill, 1);
                count(Would::FillBytes, bytes);
                world.listen();
                (self.window_at, self.window_len, self.news) = (read.at, bytes, world.news);
                (self.served, self.served_bytes) = (1, read.done);
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
        if !self.on {
            return self.learn_write(write, world);
        }
        if self.pending_len > 0 && self.speech != world.speech {
            self.flush(&mut count);
        }
        if self.pin != Pin::Held || write.len >= self.append_bytes_max || write.done == 0 {
            world.speak();
            self.flush(&mut count);
            self.straight_writes += 1;
            let asks = self.pin == Pin::None
                && (self.straight_writes + 1).is_multiple_of(u64::from(WRITES_TO_EARN));
            return if asks { Wish::Pin } else { Wish::Nothing };
        }
        let follows = self.trails || write.at == self.pending_end();
        let fits = self.pending_len + write.len <= self.append_bytes_max;
        if self.pending_len > 0 && !(follows && fits) {
            world.speak();
            if !fits && self.buffer == 0 {
                self.append_bytes_max = (self.append_bytes_max * 2).min(AUTO_BYTES_USUAL);
            }
            self.flush(&mut count);
        }
        if self.pending_len == 0 {
            (self.pending_at, self.speech, self.carried) = (write.at, world.speech, 0);
        }
        self.pending_len += write.done;
        self.carried += 1;
        self.size = self.size.max(write.at + write.done);
        count(Would::Append, 1);
        count(Would::AppendBytes, write.done);
        Wish::Nothing
    }

    fn learn_write(&mut self, write: Transfer, world: &mut World) -> Wish {
        world.speak();
        self.last_end = write.at + write.done;
        if write.len >= BYTES_SMALL {
            self.why |= Why::LargeTransfers.bit();
            return Wish::Nothing;
        }
        if write.done > 0 {
            self.learning = self.learning.small_write();
        }
        let writes = self.learning.small_writes();
        match self.pin {
            Pin::None if writes >= WRITES_TO_EARN => Wish::Pin,
            Pin::Held if writes >= WRITES_TO_EARN_AGAIN => {
                self.turn_on();
                Wish::Nothing
            }
            _ => Wish::Nothing,
        }
    }

    fn pending_end(&self) -> u64 {
        self.pending_at + self.pending_len
    }

    fn turn_on(&mut self) {
        self.on = true;
        self.window_len = 0;
    }

    /// The window that reads have earned opens: the file has that many bytes, and the position is
    /// where the last transfer ended.
    pub fn open_window(&mut self, size: u64) {
        self.size = size;
        if size < self.last_end + WINDOW_BYTES_MIN / 2 {
            self.learning = self.learning.back_off();
        } else {
            self.turn_on();
        }
    }

    /// The pin that writes have earned was given.
    pub fn pin(&mut self) {
        self.pin = Pin::Held;
        self.turn_on();
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
    }

    /// The file goes straight on for good, for this reason.
    pub fn refuse(&mut self, why: Why, world: &mut World, mut count: impl FnMut(Would, u64)) {
        self.settle(world, &mut count);
        self.straight = true;
        self.why |= why.bit();
    }

    /// A seek that only sets or asks the position.
    #[inline]
    pub fn seek(&mut self, world: &mut World, mut count: impl FnMut(Would, u64)) {
        if self.trails {
            world.speak();
            self.flush(&mut count);
        } else if self.on {
            count(Would::Seek, 1);
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
        if self.pending_len > 0 {
            world.speak();
            self.flush(count);
        }
        if !self.trails {
            count(Would::Settle, 1);
        }
        self.on = false;
        self.learning = self.learning.start_again();
        (self.window_len, self.served, self.served_bytes) = (0, 0, 0);
    }

    /// The file is closed, or the program ends.
    pub fn close(&mut self, mut count: impl FnMut(Would, u64)) {
        self.flush(&mut count);
    }

    /// What waits goes out, as one write.
    fn flush(&mut self, count: &mut impl FnMut(Would, u64)) {
        if self.pending_len == 0 {
            return;
        }
        count(Would::Flush, 1);
        count(Would::FlushBytes, self.pending_len);
        self.pending_len = 0;
        self.poor = if self.carried < WRITES_WORTH { self.poor + 1 } else { 0 };
        if self.poor >= POOR_FLUSHES_MAX {
            self.refuse_writes(Why::NotWorthIt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let read = Transfer { at: self.at, len, done: len };
            let wish = self.shadow.read(read, &mut self.world, |would, n| {
                counts[would as usize] += n;
            });
            match wish {
                Wish::Window if self.shadow.is_from_outside() => {
                    self.shadow.refuse(Why::FromOutside, &mut self.world, |_, _| {});
                }
                Wish::Window => self.shadow.open_window(1 << 40),
                _ => {}
            }
            self.at += len;
        }

        fn write(&mut self, len: u64) {
            let counts = &mut self.counts;
            let write = Transfer { at: self.at, len, done: len };
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
        assert!((8..16).contains(&fills), "2 MB in windows that grow to 256 KiB: {fills}");
    }

    #[test]
    fn records_that_are_written_in_order_wait_after_sixty_four() {
        let mut program = Program::new();
        (0..10_000).for_each(|_| program.write(200));
        program.check(&[(Would::Append, 9_936)]);
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
            random.at = at >> 34;
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
        let waited = 1000 - u64::from(WRITES_TO_EARN);
        // Others move the offset meanwhile; no seek is answered here.
        program.at += 12_345;
        program.write(100);
        program.shadow.seek(&mut program.world, |would, _| assert_ne!(would, Would::Seek));
        program.check(&[(Would::Append, waited + 1), (Would::Settle, 0), (Would::Seek, 0)]);
        (0..1000).for_each(|_| program.read(100));
        program.check(&[(Would::Append, waited + 1), (Would::Hit, 0), (Would::Settle, 0)]);
        assert_eq!(program.shadow.why(), Why::FromOutside.bit());
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

//! What the hooks do, apart from being C functions: plain Rust that answers with a value.
//!
//! `abi` asks, gets an [`Outcome`], and only `abi` calls the next definition; so that "call the
//! original" is a value and not an accident.

pub mod deaths;
pub mod embed;
pub mod inodes;
pub mod life;
pub mod observe;
pub mod own_files;
pub mod process;
pub mod read;
pub mod seek;
pub mod settle;
pub mod transition;
pub mod write;

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use sweetspot_core::learning::Learning;
use sweetspot_core::ledger::Counter;
use sweetspot_core::policy::{self, NEAR_BYTES};
use sweetspot_core::why::Why;

use crate::atomic::swap;
use crate::process::{self as process_wide, listen, passive};
use crate::{concerns, ledger, pins, sys, table};

/// What became of a call.
pub enum Outcome {
    /// Done: return this.
    Done(isize),
    /// Call the next definition, then [`Pass::finish`].
    PassOn(Pass),
    /// The same, with [`observe::Watch::finish`].
    Watch(observe::Watch),
}

impl Outcome {
    /// Tidies up after the call that went straight on and gave `answer`, and hands the answer back.
    #[inline(always)]
    pub fn finish(self, answer: isize) -> isize {
        match self {
            Outcome::PassOn(pass) => pass.finish(answer),
            Outcome::Watch(watch) => watch.finish(answer),
            Outcome::Done(_) => answer,
        }
    }
}

/// What is left to do after a call went straight on.
#[derive(Clone, Copy)]
pub struct Pass {
    kind: Kind,
    fd: i32,
    len: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    /// Nothing.
    Nothing,
    /// It may have brought news.
    Listen,
    /// And among them that of a death.
    Death,
    /// A read, write or seek that is counted as under way.
    Read,
    ReadAt,
    Write,
    WriteAt,
    Seek,
}

impl Pass {
    /// The hook takes no part in this call.
    pub const NOTHING: Pass = Pass { kind: Kind::Nothing, fd: -1, len: 0 };
    /// The call may bring news.
    pub const LISTEN: Pass = Pass { kind: Kind::Listen, fd: -1, len: 0 };
    /// The call may bring news of a death, too.
    pub const DEATH: Pass = Pass { kind: Kind::Death, fd: -1, len: 0 };

    /// Tidies up after the call that gave `answer`, and hands the answer back.
    #[inline(always)]
    pub fn finish(self, answer: isize) -> isize {
        match self.kind {
            Kind::Nothing => {}
            Kind::Listen => {
                listen();
            }
            Kind::Death => {
                listen();
                deaths::heard();
            }
            _ => return self.learn(answer),
        }
        answer
    }

    /// The same where it was known at the call that nothing concerned it: so what mostly has to be done
    /// is done in place.
    #[inline(always)]
    pub fn finish_alone(self, answer: isize) -> isize {
        match self.kind {
            Kind::Listen => {
                listen();
                answer
            }
            _ if self.learn_alone(answer) => answer,
            _ => self.learn_fully(answer),
        }
    }

    /// Tidies up after a call whose answer is no length.
    #[inline(always)]
    pub fn done(self) {
        self.finish(0);
    }

    /// Keeps in mind where the next call would follow on; true for a seek that goes elsewhere.
    fn remember_position(self, answer: isize) -> bool {
        let last_end = table::last_end(self.fd);
        let before = last_end.load(Relaxed);
        match self.kind {
            Kind::Read | Kind::Write if answer > 0 => {
                last_end.store(before.wrapping_add(answer as u64), Relaxed);
                false
            }
            Kind::Seek if answer >= 0 => {
                last_end.store(answer as u64, Relaxed);
                !is_near(answer as u64, before)
            }
            _ => false,
        }
    }

    /// Why a file that makes many such calls earns nothing. Where nothing of this process can be
    /// buffered, that is why.
    fn why_straight(self) -> Option<Why> {
        let noted = ledger::noted();
        if noted.is_some_and(|why| why != Why::Stdio) {
            return noted;
        }
        match self.kind {
            _ if self.len >= BYTES_SMALL => Some(Why::LargeTransfers),
            Kind::Read | Kind::ReadAt => Some(Why::RandomAccess),
            // It is only waiting for the guard.
            _ => None,
        }
    }

    #[inline(never)]
    fn learn(self, answer: isize) -> isize {
        match !ledger::wants_summary() && self.learn_alone(answer) {
            true => answer,
            false => self.learn_fully(answer),
        }
    }

    /// What mostly has to be done: for a seek, or a read or write that earns no buffer yet, of a file of
    /// which nothing else is known. False: something else has to be done.
    #[inline(always)]
    fn learn_alone(self, answer: isize) -> bool {
        let Some(word) = table::word(self.fd) else { return false };
        let value = word.load(Relaxed);
        let learning = Learning(value);
        if !table::is_learning(value) || learning.under_way() == 0 || answer < 0 {
            return false;
        }
        let last_end = table::last_end(self.fd);
        let (before, answer) = (last_end.load(Relaxed), answer as u64);
        let (next, end) = match self.kind {
            Kind::Seek if is_near(answer, before) => (learning, answer),
            Kind::Seek => (learning.with(Learning::JUMPED), answer),
            Kind::Read if answer == self.len && self.len < BYTES_SMALL => {
                (learning.small_read(), before.wrapping_add(answer))
            }
            Kind::Read => (learning.large_read(), before.wrapping_add(answer)),
            Kind::Write if answer > 0 && self.len < BYTES_SMALL => {
                (learning.small_write(), before.wrapping_add(answer))
            }
            _ => return false,
        };
        let earns = match self.kind {
            // After a jump there is less than there was before.
            Kind::Read => !learning.has(Learning::JUMPED) && next.earned(),
            Kind::Write => write::earned(next, None),
            _ => false,
        };
        if earns || !swap(word, value, next.leave().0) {
            return false;
        }
        last_end.store(end, Relaxed);
        match self.kind {
            Kind::Read => {
                listen();
            }
            Kind::Write => {
                write::written_straight(answer);
                inodes::written(None);
            }
            _ => {}
        }
        true
    }

    #[inline(always)]
    fn learn_fully(self, answer: isize) -> isize {
        learn_fully(self.kind, self.fd, self.len, answer)
    }
}

/// Everything that may have to be done after a call; returns its answer. Its arguments are few, so that
/// none is handed over in memory.
#[inline(never)]
extern "C" fn learn_fully(kind: Kind, fd: i32, len: u64, answer: isize) -> isize {
    Pass { kind, fd, len }.learn_all(answer);
    answer
}

impl Pass {
    fn learn_all(self, answer: isize) {
        let Some(word) = table::learning_word(self.fd) else { return };
        let known = table::open_file(self.fd).map(|(file, _)| file);
        let done = answer.max(0) as u64;
        let reads = matches!(self.kind, Kind::Read | Kind::ReadAt);
        let writes = matches!(self.kind, Kind::Write | Kind::WriteAt);
        if writes {
            write::written_straight(done);
        }
        let jumps = self.remember_position(answer);
        let (mut earned_window, mut earned_more) = (false, false);
        loop {
            let value = word.load(Relaxed);
            let learning = Learning(value);
            if table::tag(value) != table::LEARNING || learning.under_way() == 0 {
                break;
            }
            let small = self.len < BYTES_SMALL;
            let next = match small {
                true if reads && done == self.len => learning.small_read(),
                _ if reads => learning.large_read(),
                true if writes && done > 0 => learning.small_write(),
                _ if jumps => learning.with(Learning::JUMPED),
                _ => learning,
            };
            let next = next.leave();
            if swap(word, value, next.0) {
                let quiet = next.under_way() == 0 && !next.has(Learning::STDIO);
                earned_window = quiet && reads && next.earned();
                earned_more = quiet && writes && write::earned(next, known);
                break;
            }
        }
        // For the summary a file is known from its first call on, so that this one is counted, too.
        let file = known.or_else(|| transition::make_listed(self.fd));
        if let Some(file) = file {
            let (calls, also) = match (reads, writes) {
                (true, _) => (Counter::StraightReads, (Counter::StraightReadBytes, done)),
                (_, true) => (Counter::StraightWrites, (Counter::StraightWriteBytes, done)),
                _ => (Counter::Seeks, (Counter::KernelCalls, 1)),
            };
            file.count(calls, 1);
            file.count(also.0, also.1);
            if (reads || writes) && ledger::wants_summary() {
                transition::list(self.fd, file, self.why_straight());
            }
        }
        if reads {
            listen();
        } else if writes {
            inodes::written(known);
        }
        if earned_window {
            transition::open_window(self.fd);
        } else if earned_more {
            write::earn(self.fd);
        }
    }
}

/// Whether a position is about where another one is.
#[inline(always)]
fn is_near(position: u64, other: u64) -> bool {
    position.wrapping_sub(other).wrapping_add(NEAR_BYTES) <= 2 * NEAR_BYTES
}

/// Transfers at least that large never earn a window, in bytes.
const BYTES_SMALL: u64 = 64 << 10;

/// Turns after which a call that keeps being disturbed (by handlers, by other threads) sends its file
/// straight on for good: the only state in which nothing can come in between.
const TURNS_MAX: u32 = 64;

/// The word of a descriptor that calls are counted under, or that goes straight on for good; `None`:
/// it is not followed, and then nobody else's call can meet this one.
fn is_followed(fd: i32) -> bool {
    table::word(fd)
        .is_some_and(|word| matches!(table::tag(word.load(Relaxed)), table::OPEN | table::LEARNING))
}

/// Ends the turns of a call: see `TURNS_MAX`.
fn disturbed(fd: i32, turn: u32) {
    if turn == TURNS_MAX {
        settle::settle(fd, settle::Next::Straight(Why::NotWorthIt));
    }
}

/// The common call on a file of which nothing is kept, while nothing concerns it: counts it as under
/// way. `None`: there is more to be done.
#[inline(always)]
fn enter_alone(fd: i32, kind: Kind, len: u64) -> Option<Pass> {
    if concerns::any() {
        return None;
    }
    let word = table::word(fd)?;
    let value = word.load(Relaxed);
    let entered = table::is_free(value) && swap(word, value, Learning(value).enter_free().0);
    entered.then_some(Pass { kind, fd, len })
}

/// A call on a descriptor that has no window: counts it as under way where that matters. `None`:
/// something changed meanwhile, look again.
fn enter(fd: i32, kind: Kind, len: u64) -> Option<Pass> {
    let word = table::learning_word(fd)?;
    let value = word.load(Relaxed);
    if table::tag(value) == table::STRAIGHT {
        return Some(match kind {
            Kind::Write | Kind::WriteAt => Pass { kind, fd, len },
            _ => Pass::LISTEN,
        });
    }
    if table::tag(value) == table::TRAILING {
        return enter_trailing(fd, kind, len);
    }
    if table::tag(value) != table::LEARNING {
        return None;
    }
    if Learning(value).has(Learning::LOCKED) {
        // Another thread is at work on it, for the time of a few system calls.
        sys::give_way();
        return None;
    }
    match Learning(value).enter() {
        Some(next) => swap(word, value, next.0).then_some(Pass { kind, fd, len }),
        None => {
            // 255 calls under way at once, or lost by handlers that jumped away.
            swap(word, value, table::STRAIGHT);
            None
        }
    }
}

/// A call on a descriptor whose writes wait at the kernel's offset: once they are written the kernel
/// answers it. A file that is read again learns from its reads, so it is settled.
fn enter_trailing(fd: i32, kind: Kind, len: u64) -> Option<Pass> {
    if matches!(kind, Kind::Read | Kind::ReadAt) {
        settle::settle(fd, settle::Next::Learn);
        return None;
    }
    speak();
    Some(Pass { kind, fd, len })
}

/// Whether the writes of a descriptor wait at the kernel's offset.
fn is_trailing(fd: i32) -> bool {
    table::open_file(fd).is_some_and(|(file, _)| file.is_trailing())
}

/// The next read of a descriptor that is learning does not follow the last one.
fn jumped(fd: i32) {
    if let Some(word) = table::learning_word(fd) {
        let value = word.load(Relaxed);
        if table::is_learning(value) {
            swap(word, value, Learning(value).with(Learning::JUMPED).0);
        }
    }
}

/// Before the program can be heard, or sleeps: everything written before is written out.
#[inline(always)]
pub fn speak() {
    if write::is_pending() {
        write::flush_all();
    }
}

/// Whether it matters to anybody that this process speaks: something waits, or is said to (`profile`).
#[inline(always)]
pub fn is_heard() -> bool {
    write::is_pending() || observe::is_on()
}

/// The same where only others hear of it, and the call looks at no file: what nobody else looks at
/// goes on waiting.
#[inline(always)]
pub fn talk() -> Pass {
    if passive() {
        observe::spoke();
        return Pass::NOTHING;
    }
    pins::await_releases();
    if write::is_pending() {
        write::flush_public();
    }
    Pass::LISTEN
}

/// Before a call that shows whether what was closed is free, and one that starts a process, which may
/// make such a call.
#[inline(always)]
pub fn before_it_is_seen_free() {
    if !passive() {
        pins::await_releases();
    }
}

/// A call that both speaks and listens, on nothing that is buffered: the common kind.
#[inline(always)]
pub fn pass_on() -> Pass {
    if passive() {
        observe::spoke();
        return Pass::NOTHING;
    }
    speak();
    Pass::LISTEN
}

/// Whether a call that libc makes on its own account (stdio, mostly) is buffered like any other.
pub fn is_libc_buffered(fd: i32) -> bool {
    match process_wide::stdio() {
        process_wide::STDIO_NONE => false,
        process_wide::STDIO_ALL => true,
        _ => {
            let Some(known) = table::stdio(fd) else { return false };
            if known.load(Relaxed) == 0 && !passive() {
                known.store(if crate::ledger::buffers_stdio(fd) { 1 } else { 2 }, Relaxed);
            }
            known.load(Relaxed) == 1
        }
    }
}

/// Calls of libc's own that went straight on, of which nothing is known but that.
#[unsafe(link_section = ".data")]
static STDIO_CALLS: AtomicU32 = AtomicU32::new(0);

/// For the summary: stdio makes many calls on a file, so that there is something to say should nothing
/// be buffered.
#[cold]
fn note_stdio(fd: i32) {
    let calls = STDIO_CALLS.fetch_add(1, Relaxed) + 1;
    if calls == policy::CALLS_LISTED {
        match sys::status(fd).is_some_and(|status| status.regular) {
            true => ledger::note(Why::Stdio),
            // A pipe or a terminal: the next ones may be on a file.
            false => STDIO_CALLS.store(0, Relaxed),
        }
    }
}

/// libc reads, writes or seeks on its own account, and is not buffered, on a descriptor that may have
/// a window: at the kernel's offset, and what stdio uses earns no window.
pub fn libc_call(fd: i32) -> Pass {
    if passive() {
        return Pass::NOTHING;
    }
    if ledger::wants_summary() {
        note_stdio(fd);
    }
    settle::settle(fd, settle::Next::Learn);
    if let Some(word) = table::learning_word(fd) {
        let value = word.load(Relaxed);
        if table::is_learning(value) && !Learning(value).has(Learning::STDIO) {
            swap(word, value, Learning(value).with(Learning::STDIO).0);
        }
    }
    speak();
    Pass::LISTEN
}

//! Calls that pass through: what is counted before them, and learned from them afterwards.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use sweetspot_core::append::is_small;
use sweetspot_core::learning::{LEN_UNKNOWN, Learning, Near};
use sweetspot_core::ledger::Counter;
use sweetspot_core::policy;
use sweetspot_core::why::Why;

use super::concerns::PASSED_THROUGH;
use super::dirty::release_point;
use super::file::{Attachment, OpenFile};
use super::process::acquire_point;
use super::spawns::passive;
use super::thresholds::{self, asked};
use super::{attach, concerns, deaths, file, inodes, ledger, quiesce, space, table, transition};
use crate::floor::atomic::swap;
use crate::floor::sys;

/// What became of a call.
pub enum Outcome {
    /// Done: return this.
    Done(isize),
    /// Call the next definition, then [`Pass::finish`].
    PassThrough(Pass),
}

/// What is left to do after a call has passed through.
#[derive(Clone, Copy)]
pub struct Pass {
    pub(super) kind: Kind,
    pub(super) fd: i32,
    pub(super) len: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Kind {
    /// Nothing.
    Nothing,
    /// An acquire point: it may have brought news.
    Acquire,
    /// The same, and the news may be that of a death.
    Death,
    /// A read, write or seek that is counted as in flight:
    Read,
    ReadAt,
    Write,
    WriteAt,
    Seek,
    /// A seek whose answer others may have changed, as the end of a file: counted, and an acquire
    /// point.
    SeekAcquire,
}

impl Pass {
    /// The hook takes no part in this call.
    pub const NOTHING: Pass = Pass { kind: Kind::Nothing, fd: -1, len: 0 };
    /// The call is an acquire point: it may bring news.
    pub const ACQUIRE: Pass = Pass { kind: Kind::Acquire, fd: -1, len: 0 };
    /// The same, and the news may be that of a death.
    pub const DEATH: Pass = Pass { kind: Kind::Death, fd: -1, len: 0 };

    /// The hook takes no part in this transfer.
    pub(super) fn nothing_by(fd: i32) -> Pass {
        Pass { fd, ..Pass::NOTHING }
    }

    /// The transfer is an acquire point.
    pub(super) fn acquire_by(fd: i32) -> Pass {
        Pass { fd, ..Pass::ACQUIRE }
    }

    /// Tidies up after the call that gave `answer`, and hands the answer back.
    #[inline(always)]
    pub fn finish(self, answer: isize) -> isize {
        match self.kind {
            Kind::Read | Kind::ReadAt | Kind::Write | Kind::WriteAt | Kind::Seek => {
                return self.learn(answer);
            }
            Kind::Nothing => deaths::answered(self.fd, answer),
            Kind::Acquire => {
                acquire_point();
                deaths::answered(self.fd, answer);
            }
            Kind::Death => self.done(),
            Kind::SeekAcquire => {
                self.learn(answer);
                acquire_point();
            }
        }
        answer
    }

    /// The same where it was known at the call that nothing concerned it: so what mostly has to be done
    /// is done in place.
    #[inline(always)]
    pub fn finish_alone(self, answer: isize) -> isize {
        match self.kind {
            Kind::Acquire => {
                acquire_point();
                deaths::answered(self.fd, answer);
                answer
            }
            _ if self.learn_alone(answer) => answer,
            _ => self.learn_fully(answer),
        }
    }

    /// Tidies up after a call whose answer is no length.
    #[inline(always)]
    pub fn done(self) {
        match self.kind {
            Kind::Nothing => {}
            Kind::Death => {
                acquire_point();
                deaths::learned();
            }
            // Other calls than reads, writes and seeks are not counted.
            _ => acquire_point(),
        }
    }

    /// Keeps in mind where the next call would follow on; true for a seek that goes elsewhere.
    fn remember_position(self, answer: isize) -> bool {
        let before = table::last_end(self.fd);
        match self.kind {
            Kind::Read | Kind::Write if answer > 0 => {
                table::set_last_end(self.fd, before.moved(answer as u64));
                false
            }
            Kind::Seek | Kind::SeekAcquire if answer >= 0 => {
                if self.len != 0 && !before.is(answer as u64) {
                    acquire_point();
                }
                table::set_last_end(self.fd, Near::to(answer as u64));
                !before.has(answer as u64)
            }
            _ => false,
        }
    }

    /// Why a file that makes many such calls earns nothing. Where nothing of this process can be
    /// buffered, that is why.
    fn why_passed_through(self) -> Option<Why> {
        let noted = ledger::noted();
        if noted.is_some_and(|why| why != Why::Stdio) {
            return noted;
        }
        match self.kind {
            _ if self.len != LEN_UNKNOWN && !is_small(self.len) => Some(Why::LargeTransfers),
            Kind::Read | Kind::ReadAt => Some(Why::RandomAccess),
            // It is only waiting for the guard.
            _ => None,
        }
    }

    #[inline(never)]
    fn learn(self, answer: isize) -> isize {
        let is_simple = !ledger::wants_summary();
        match is_simple && (self.learn_alone(answer) || self.learn_nothing(answer)) {
            true => answer,
            false => self.learn_fully(answer),
        }
    }

    /// What has to be done after a write to a known file for which nothing will ever wait. False: it is another
    /// call.
    fn learn_nothing(self, answer: isize) -> bool {
        let Some((file, _)) = file::open_file(self.fd) else { return false };
        let value = file.state.load(Relaxed);
        let is_over = self.kind == Kind::Write && file.attachment.get() == Attachment::Never;
        let is_whole = answer >= 0 && answer as u64 == self.len;
        if !is_over || !table::is_learning(value) || Learning(value).in_flight() == 0 || !is_whole {
            return false;
        }
        if !swap(&file.state, value, Learning(value).leave().0) {
            return false;
        }
        let end = table::last_end(self.fd).moved(answer as u64);
        table::set_last_end(self.fd, end);
        space::written_through(answer as u64);
        inodes::written(self.fd, Some(file));
        true
    }

    /// What mostly has to be done: for a seek, or a read or write that earns no buffer yet, of a file of
    /// which nothing else is known. False: something else has to be done.
    #[inline(always)]
    fn learn_alone(self, answer: isize) -> bool {
        let Some(word) = table::word(self.fd) else { return false };
        let value = word.load(Relaxed);
        let learning = Learning(value);
        if !table::is_learning(value) || learning.in_flight() == 0 || answer < 0 {
            return false;
        }
        let (before, answer) = (table::last_end(self.fd), answer as u64);
        let (next, end) = match self.kind {
            Kind::Seek => (learning.after_move(answer, before), Near::to(answer)),
            Kind::Read => (learning.after_read(self.len, answer), before.moved(answer)),
            Kind::Write => (learning.after_write(self.len, answer), before.moved(answer)),
            _ => return false,
        };
        let earns = match self.kind {
            // After a jump there is less than there was before.
            Kind::Read => {
                !learning.has(Learning::JUMPED) && next.earned(asked().reads())
                    || learning.ends_reads(next)
            }
            Kind::Write => attach::earned(next, None),
            _ => false,
        };
        if earns || !swap(word, value, next.leave().0) {
            return false;
        }
        table::set_last_end(self.fd, end);
        match self.kind {
            Kind::Read => {
                acquire_point();
                if answer == 0 {
                    deaths::answered(self.fd, 0);
                }
            }
            Kind::Write => {
                space::written_through(answer);
                inodes::written(self.fd, None);
            }
            Kind::Seek if self.len != 0 && !before.is(answer) => acquire_point(),
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
    if !matches!(kind, Kind::Seek | Kind::SeekAcquire) {
        deaths::answered(fd, answer);
    }
    answer
}

impl Pass {
    /// Counts a call that has moved so many bytes.
    fn count_in(self, file: &OpenFile, done: u64) {
        let (calls, also) = match self.kind {
            Kind::Read | Kind::ReadAt => (Counter::PassedReads, (Counter::PassedReadBytes, done)),
            Kind::Write | Kind::WriteAt => {
                (Counter::PassedWrites, (Counter::PassedWriteBytes, done))
            }
            _ => (Counter::Seeks, (Counter::KernelCalls, 1)),
        };
        file.count(calls, 1);
        file.count(also.0, also.1);
    }

    /// After a read or a write: what windows have to ask again for.
    fn is_news(self, answer: isize, known: Option<&OpenFile>) {
        match self.kind {
            Kind::Read | Kind::ReadAt => acquire_point(),
            Kind::Write | Kind::WriteAt if answer < 0 => inodes::not_written(),
            // There was no room for more, or no time.
            Kind::Write | Kind::WriteAt if (answer as u64) < self.len => inodes::not_written(),
            Kind::Write | Kind::WriteAt => inodes::written(self.fd, known),
            _ => {}
        }
    }

    fn learn_all(self, answer: isize) {
        let known = file::open_file(self.fd).map(|(file, _)| file);
        let done = answer.max(0) as u64;
        let reads = matches!(self.kind, Kind::Read | Kind::ReadAt);
        let writes = matches!(self.kind, Kind::Write | Kind::WriteAt);
        if writes {
            space::written_through(done);
            known.filter(|_| done > 0).inspect(|file| file.look_after_write(self.fd));
        }
        let Some(word) = file::learning_word(self.fd) else {
            // It passes through for good, by now at least: nothing is learned, but what was written is news.
            self.is_news(answer, known);
            return;
        };
        let jumps = self.remember_position(answer);
        let (mut earned_window, mut earned_more) = (false, false);
        loop {
            let value = word.load(Relaxed);
            let learning = Learning(value);
            if table::tag(value) != table::LEARNING || learning.in_flight() == 0 {
                break;
            }
            let next = match () {
                () if reads => learning.after_read(self.len, done),
                // One at a position will not wait: it only makes the inode known.
                () if self.kind == Kind::WriteAt && attach::is_known_by(learning) => learning,
                () if writes => learning.after_write(self.len, done),
                () if jumps => learning.with(Learning::JUMPED),
                () => learning,
            };
            let next = next.leave();
            if swap(word, value, next.0) {
                let quiet = next.in_flight() == 0 && !next.has(Learning::STDIO);
                earned_window = quiet && reads && next.earned(asked().reads());
                if reads && learning.ends_reads(next) && !next.has(Learning::STDIO) {
                    thresholds::reads_ended(learning);
                }
                // Where one was refused, the next ones may be: none begins to wait by it.
                earned_more = quiet && writes && done > 0 && attach::earned(next, known);
                break;
            }
        }
        // For the summary a file is known from its first call on, so that this one is counted, too.
        let file = known.or_else(|| transition::make_listed(self.fd));
        if let Some(file) = file {
            self.count_in(file, done);
            if (reads || writes) && ledger::wants_summary() {
                transition::list(self.fd, file, self.why_passed_through());
            }
        }
        self.is_news(answer, known);
        if earned_window {
            transition::open_window(self.fd);
        } else if earned_more {
            attach::earn(self.fd);
        }
    }
}

/// After so many turns of a call that keeps being disturbed (by handlers, by other threads) its file
/// passes through for good. That is the only state in which nothing can come in between.
const TURNS_MAX: u32 = 64;

/// Whether the descriptor's open file is known, or calls are counted for one. Where not, nobody else's
/// call can meet this one.
pub(super) fn is_followed(fd: i32) -> bool {
    table::word(fd)
        .is_some_and(|word| matches!(table::tag(word.load(Relaxed)), table::OPEN | table::LEARNING))
}

/// Ends the turns of a call: see `TURNS_MAX`.
pub(super) fn disturbed(fd: i32, turn: u32) {
    if turn == TURNS_MAX {
        quiesce::quiesce(fd, quiesce::Next::PassThrough(Why::NotWorthIt));
    }
}

/// The common call on a file of which nothing is kept, while nothing concerns it: counts it as in
/// flight. `None`: there is more to be done.
#[inline(always)]
pub(super) fn enter_alone(fd: i32, kind: Kind, len: u64) -> Option<Pass> {
    if concerns::any() {
        return None;
    }
    enter_by(table::word(fd)?, fd, kind, len)
}

#[inline(always)]
fn enter_by(word: &AtomicU64, fd: i32, kind: Kind, len: u64) -> Option<Pass> {
    let value = word.load(Relaxed);
    let entered = table::is_free(value) && swap(word, value, Learning(value).enter_free().0);
    entered.then_some(Pass { kind, fd, len })
}

/// The same for a write to a known file for which nothing will ever wait.
pub(super) fn enter_given_up(file: &OpenFile, fd: i32, len: u64) -> Option<Pass> {
    if concerns::any() || file.attachment.get() != Attachment::Never {
        return None;
    }
    enter_by(&file.state, fd, Kind::Write, len)
}

/// Counts a call on a descriptor without a window as in flight, where that matters. `None`: something
/// changed meanwhile, look again.
pub(super) fn enter(fd: i32, kind: Kind, len: u64) -> Option<Pass> {
    let word = file::learning_word(fd)?;
    let value = word.load(Relaxed);
    if table::tag(value) == table::PASS_THROUGH {
        let is_counted = match kind {
            Kind::Write | Kind::WriteAt => true,
            // A seek is an acquire point here, whether it is counted or not.
            Kind::Read | Kind::ReadAt => ledger::wants_summary(),
            _ => false,
        };
        return Some(if is_counted { Pass { kind, fd, len } } else { Pass::ACQUIRE });
    }
    if table::tag(value) == table::APPEND_PLACED {
        return enter_append_placed(fd, kind, len);
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
            // 255 calls are in flight at once, or handlers that jumped away left them counted.
            swap(word, value, table::PASS_THROUGH);
            None
        }
    }
}

/// A call on a file with append placement: the kernel answers it once the pending writes are written.
/// A file that is read again learns from its reads, so it is quiesced.
fn enter_append_placed(fd: i32, kind: Kind, len: u64) -> Option<Pass> {
    if matches!(kind, Kind::Read | Kind::ReadAt) {
        quiesce::quiesce(fd, quiesce::Next::Learn);
        return None;
    }
    release_point();
    Some(Pass { kind, fd, len })
}

/// Whether the file of a descriptor has append placement.
pub(super) fn is_append_placed(fd: i32) -> bool {
    file::open_file(fd).is_some_and(|(file, _)| file.is_append_placed())
}

/// The next read of a descriptor that is learning does not follow the last one.
pub(super) fn jumped(fd: i32) {
    if let Some(word) = file::learning_word(fd) {
        let value = word.load(Relaxed);
        if table::is_learning(value) {
            swap(word, value, Learning(value).with(Learning::JUMPED).0);
        }
    }
}

/// What a hook can do at once, without a look at anything but one word of the descriptor and one of the
/// process.
pub enum AtOnce {
    /// There is an open file, of this word.
    Kept(u64),
    /// Nothing has to be known of the call, before or after it: jump to the next definition.
    Pass,
    /// More must be asked first.
    Ask,
}

impl AtOnce {
    /// Where the two words leave it open: a process that passes everything through for good has nothing
    /// to ask, and unless it is in company no answer to look at.
    #[inline(always)]
    pub(super) fn otherwise() -> AtOnce {
        let is_over = concerns::of(PASSED_THROUGH) != 0;
        if is_over { AtOnce::Pass } else { AtOnce::Ask }
    }
}

/// Calls of libc's own that passed through. Nothing else is known of them.
#[unsafe(link_section = ".data")]
static STDIO_CALLS: AtomicU32 = AtomicU32::new(0);

/// For the summary, should nothing be buffered: stdio makes many calls on a file.
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

/// libc reads, writes (so many bytes) or seeks on its own account, and is not buffered, on a descriptor that
/// may have a window: at the kernel's offset, and what stdio uses earns no window.
pub fn libc_call(fd: i32, written: u64) -> Pass {
    if passive() {
        return Pass::nothing_by(fd);
    }
    space::written_through(written);
    if ledger::wants_summary() {
        note_stdio(fd);
    }
    quiesce::quiesce(fd, quiesce::Next::Learn);
    if let Some(word) = file::learning_word(fd) {
        let value = word.load(Relaxed);
        if table::is_learning(value) && !Learning(value).has(Learning::STDIO) {
            swap(word, value, Learning(value).with(Learning::STDIO).0);
        }
    }
    release_point();
    Pass::acquire_by(fd)
}

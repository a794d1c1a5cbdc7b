//! Writes. They wait in the ledger where the guard holds a handle on the file; else they pass through, in
//! order.
//!
//! A write that waits has happened for the program: it sees its bytes, its position, its size. What
//! *others* see of it is put off until the next release point: there everything that waits, of every
//! file, is written out, oldest first ([`flush_all`]).
#![allow(unsafe_code)]

use core::sync::atomic::Ordering::{Relaxed, Release};

use sweetspot_core::append::{is_asked_after, is_small, may_wait};
use sweetspot_core::learning::{LEN_UNKNOWN, Learning, Near};
use sweetspot_core::ledger::{Counter, Entry, write_buffer_start};
use sweetspot_core::pending::{self, length_unless_owned};
use sweetspot_core::why::Why;

use super::append::{
    Append, LAST_WRITTEN, Refused, Source, append, cut_window, is_append_due, put_into_window,
    stamp_order,
};
use super::attach::{ask, attach, enlarge, wants_more};
use super::dirty::{flush_all, take_out};
use super::failing::may_be_failing;
use super::file::{self, AT_END, Attachment, OpenFile, Way};
use super::flush::{expected_place, follow_offset, is_another, is_recalled};
use super::handle::{detach, give_up, stand};
use super::life::failing_descriptor;
use super::process::passive_for_good;
use super::space::{is_disk_nearly_full, may_grow, written_through};
use super::spawns::{forking, passive};
use super::thresholds::{self, asked};
use super::{
    AtOnce, Kind, Outcome, Pass, age, changes, concerns, dirty, disturbed, enter, enter_alone,
    enter_given_up, entries, flush, inodes, is_followed, lane, ledger, life, passed_for_good,
    public_sync_point, quiesce, release_point, table, transition, vector,
};
use crate::floor::atomic::Threads;
use crate::floor::errno::fail;
use crate::floor::signals::SignalsBlocked;
use crate::floor::{clock, copy, sys};

/// What can be done with a `write` at once. One that passes through here earns nothing, whatever becomes of it, and
/// concerns no other file that is open: so it is learned from before it is made.
#[inline(always)]
pub fn at_once(fd: i32, len: usize) -> AtOnce {
    let Some((word, end)) = table::word_and_end(fd) else { return AtOnce::otherwise() };
    let value = word.load(Relaxed);
    if table::is_open(value) {
        return AtOnce::Kept(value);
    }
    let next = Learning(value).small_write_ahead();
    let is_free = concerns::with(next.0 & table::FREE) == table::LEARNING && is_small(len as u64);
    let is_between = next.0 & thresholds::writes_between() != 0;
    if !is_free || !is_between || ledger::may_be_waiting() || inodes::any_window() {
        return AtOnce::otherwise();
    }
    word.store(next.0, Relaxed);
    end.store(Near(end.load(Relaxed)).moved(len as u64).0, Relaxed);
    written_through(len as u64);
    AtOnce::Pass
}

/// Lets a write wait where nothing has to be done but to copy it behind what waits already, for the
/// file of which a descriptor has this word; `None`: go on with [`not_waiting`]. Nothing is called in
/// it, so that nothing has to be saved.
///
/// Another file may be written to after the look at the order of all: by somebody who came in between,
/// so of the two writes either may be the later one.
#[inline(always)]
pub fn waits(word: u64, fd: i32, buffer: *const u8, len: usize) -> Option<isize> {
    let file = OpenFile::from_word(word);
    let is_last_written = core::ptr::eq(LAST_WRITTEN.load(Relaxed), file);
    if !is_last_written || !is_append_due(file, len as u64, Way::Short) || !file.enter_append() {
        return None;
    }
    let append = Append { file, word, fd, source: Source::Buffer(buffer), len: len as u64 };
    if file.window_len.load(Relaxed) != 0 || append.commit(Way::Short, |_| {}).is_err() {
        file.leave_append();
        return None;
    }
    let threads = file.leave_append();
    file.count_call(threads, Counter::Appends, Counter::AppendBytes, len as u64);
    Some(len as isize)
}

/// The same where the file has a lane (see [`lane::word`]): nothing is asked but the time, the
/// guard, and whether the bytes fit. `None`: go on with [`waits`].
#[inline(always)]
pub fn waits_alone(word: u64, buffer: *const u8, len: usize) -> Option<isize> {
    if word != lane::word() {
        return None;
    }
    let file = OpenFile::from_word(word);
    // SAFETY: a file with a lane has an entry, and those are mapped for good.
    let entry = || unsafe { file.attachment.entry_unchecked() };
    let before = entry().word.load(Relaxed);
    let pending = length_unless_owned(before);
    // While it has an owner that is more than fits.
    let room = file.append_bytes_max.load(Relaxed).checked_sub(pending)?;
    // SAFETY: nobody comes in between.
    if !unsafe { clock::tick_alone() } || !entries::guarded() || room < len as u64 {
        return None;
    }
    let to = file.attachment.write_buffer().wrapping_add(pending) as *mut u8;
    // SAFETY: the write buffer has room, as checked; the program's side may be anything.
    if unsafe { copy::copy_at_once(to, buffer, len) } {
        return None;
    }
    // From here the write has happened.
    if !pending::Word::swap(&entry().word, before, before + len as u64) {
        return None;
    }
    file.count_call(Threads::One, Counter::Appends, Counter::AppendBytes, len as u64);
    Some(len as isize)
}

/// Whether a write that does not wait passes through, as nothing concerns it; `None`: go on with
/// [`not_waiting`].
#[inline(always)]
pub fn passes(fd: i32, len: usize) -> Option<Pass> {
    if ledger::may_be_waiting() {
        return None;
    }
    enter_alone(fd, Kind::Write, len as u64)
}

/// The other writes.
pub fn not_waiting(fd: i32, buffer: *const u8, len: usize) -> Outcome {
    if passive_for_good() {
        return passed_for_good(Some(fd), Pass::NOTHING);
    }
    if let Some((file, word)) = file::open_file(fd) {
        let is_simple = !ledger::may_be_waiting() && !flush::any_failed();
        if is_simple && let Some(pass) = enter_given_up(file, fd, len as u64) {
            return Outcome::PassThrough(pass);
        }
        let source = Source::Buffer(buffer);
        if append(Append { file, word, fd, source, len: len as u64 }, Way::Short).is_ok() {
            return Outcome::Done(len as isize);
        }
    }
    slowly(fd, Source::Buffer(buffer), len as u64, Kind::Write)
}

/// `pwrite`.
pub fn write_at(fd: i32, buffer: *const u8, len: usize) -> Outcome {
    slowly(fd, Source::Buffer(buffer), len as u64, Kind::WriteAt)
}

/// `writev`. Where the file's writes wait, there are handlers for what cannot be read.
pub fn write_vector(fd: i32, vector: *const libc::iovec, count: i32) -> Outcome {
    let file = file::open_file(fd).filter(|(file, _)| file.is_buffered() && !passive());
    let len = file.and_then(|_| vector::len_to_take(vector, count));
    let len = len.map_or(LEN_UNKNOWN, |len| len as u64);
    slowly(fd, Source::Vector(vector, count), len, Kind::Write)
}

/// `pwritev`: handed to the kernel, after all that waits.
pub fn write_vector_at(fd: i32) -> Outcome {
    slowly(fd, Source::Vector(core::ptr::null(), 0), LEN_UNKNOWN, Kind::WriteAt)
}

/// A write of `len` bytes, or of [`LEN_UNKNOWN`].
fn slowly(fd: i32, source: Source, len: u64, kind: Kind) -> Outcome {
    if passive() {
        if !passive_for_good() {
            // Nobody has been told of its descriptors.
            changes::writing(fd, kind == Kind::WriteAt);
        }
        return passed_for_good(Some(fd), Pass::NOTHING);
    }
    if entries::is_fork_unseen() {
        super::dirty::forked_unseen();
        return Outcome::PassThrough(Pass::NOTHING);
    }
    if copy::is_refused() {
        quiesce::quiesce(fd, quiesce::Next::PassThrough(Why::SpecialUse));
    }
    let is_worth_asking = inodes::any_window() || ledger::is_given();
    if is_worth_asking && table::word(fd).is_some_and(|word| word.load(Relaxed) == 0) {
        // Whether it may wait, and whether it is news for a window: one question for good.
        transition::classify(fd);
    }
    let mut turn = 0;
    while is_followed(fd) {
        turn += 1;
        disturbed(fd, turn);
        // In each turn: the clock may have moved during the flush of the last one, and until that is
        // noticed no append is taken.
        age::tock();
        let done = match file::open_file(fd).filter(|(file, _)| file.is_buffered()) {
            Some((file, word)) if kind == Kind::Write && len != LEN_UNKNOWN => {
                write_buffered(Append { file, word, fd, source, len })
            }
            Some((file, _)) => write_past(file, Pass { kind, fd, len }),
            None => match failing_descriptor(fd) {
                Some(errno) => Some(Outcome::Done(fail(errno))),
                None => enter(fd, kind, len).map(pass_through),
            },
        };
        if let Some(outcome) = done {
            return outcome;
        }
    }
    match table::word(fd).map(|word| table::tag(word.load(Relaxed))) {
        Some(table::OTHER) if !table::is_still_closed(fd) => slowly(fd, source, len, kind),
        // A pipe, whose reader now goes on.
        Some(table::OTHER) => Outcome::PassThrough(public_sync_point()),
        Some(table::PASS_THROUGH) => pass_through(Pass { kind, fd, len }),
        // A descriptor that is not followed: perhaps a file that has a window elsewhere.
        _ => {
            changes::writing(fd, kind == Kind::WriteAt);
            pass_through(Pass::ACQUIRE)
        }
    }
}

/// A write to a file whose position is ours, or whose writes wait; `None`: look again.
fn write_buffered(write: Append) -> Option<Outcome> {
    let (file, len) = (write.file, write.len);
    if !file.is_append_placed() && file.appends() {
        return write_past(file, write.pass());
    }
    match append(write, Way::Careful) {
        Ok(()) => Some(Outcome::Done(len as isize)),
        Err(Refused::NotReady) => write_prepared(write),
        Err(Refused::BadAddress) => write_on(write),
    }
}

/// A write that never waits, after all that does; `None`: look again, its position is the kernel's by now.
fn write_past(file: &OpenFile, pass: Pass) -> Option<Outcome> {
    if file.is_append_placed() {
        return Some(pass_through(pass));
    }
    quiesce::quiesce(pass.fd, quiesce::Next::Learn);
    None
}

/// A write for which something has to be done first; `None`: that is done, look again.
fn write_prepared(write: Append) -> Option<Outcome> {
    let (file, fd) = (write.file, write.fd);
    match prepare(file, fd, write.len) {
        Prepared::Append => {}
        Prepared::Replaced => {
            life::forget_file(fd, file);
        }
        Prepared::Shared => {
            let is_limit = !sys::file_size_unlimited();
            let why = if is_limit { Why::FileSizeLimit } else { Why::Shared };
            quiesce::quiesce(fd, quiesce::Next::PassThrough(why));
        }
        Prepared::Enlarge => enlarge(file, fd),
        Prepared::Failed => return failing_descriptor(fd).map(|errno| Outcome::Done(fail(errno))),
        Prepared::PassThrough if gains_nothing(file) => quiesce::quiesce(fd, quiesce::Next::Learn),
        Prepared::PassThrough => return write_on(write),
    }
    None
}

fn pass_through(pass: Pass) -> Outcome {
    release_point();
    if let Some(errno) = failing_descriptor(pass.fd) {
        // What comes before it is not there yet.
        return Outcome::Done(fail(errno));
    }
    if matches!(pass.kind, Kind::Write | Kind::WriteAt) {
        changes::writing(pass.fd, pass.kind == Kind::WriteAt);
    }
    Outcome::PassThrough(pass)
}

/// Whether the position of a file is kept here to no purpose.
fn gains_nothing(file: &OpenFile) -> bool {
    file.is_on() && stand(file).gains_nothing(file.buffer_bytes.load(Relaxed) != 0)
}

/// What is to be done with a write that the fast path did not take.
enum Prepared {
    /// Try to append again.
    Append,
    /// Write it at the position that is ours.
    PassThrough,
    /// An earlier flush failed: the program learns it now.
    Failed,
    /// The descriptor means another file than the one that is kept for it: it was closed, and another
    /// file opened, by system calls of the program's own.
    Replaced,
    /// Another process has taken a descriptor of this description, and moved its offset; or has set a
    /// limit that each write is to meet by itself.
    Shared,
    /// Calls have proved so dear that more should wait than the write buffer holds.
    Enlarge,
}

/// Makes room for an append, or says why there is none.
fn prepare(file: &'static OpenFile, fd: i32, len: u64) -> Prepared {
    if may_be_failing(file) {
        return Prepared::Failed;
    }
    if is_recalled(file) {
        return recalled(file, fd);
    }
    if !file.attachment.waits() && !may_attach(file, fd) {
        return Prepared::PassThrough;
    }
    if !entries::guarded() {
        quiesce::quiesce(fd, quiesce::Next::Learn);
        give_up(file, Why::NoGuard);
        return Prepared::PassThrough;
    }
    if !may_wait(len, file.append_bytes_max.load(Relaxed)) {
        flush_all();
        return Prepared::PassThrough;
    }
    if file.dirty.is_in() {
        // Full, or the position is elsewhere: everything that waits goes out, in order.
        flush_all();
    }
    begin_waiting(file, fd)
}

/// Attaches a file whose writes pass through to the ledger, if the guard has answered; asks the guard
/// where it is time to ask again. Whether the file is attached.
fn may_attach(file: &'static OpenFile, fd: i32) -> bool {
    if file.attachment.may_wait() {
        attach(file, fd);
    } else if file.attachment.get() == Attachment::None
        && is_asked_after(file.counted(Counter::PassedWrites), asked().writes())
    {
        let _signals = SignalsBlocked::new();
        let _registry = file::hold_registry();
        if table::means(fd, file.to_word()) {
            ask(file, fd);
        }
    }
    file.attachment.waits()
}

/// What waits from now on begins here; nothing of the file does yet.
fn begin_waiting(file: &'static OpenFile, fd: i32) -> Prepared {
    let _signals = SignalsBlocked::deferring();
    let _dirty = dirty::hold_dirty();
    let held = file.hold();
    if !table::means(fd, file.to_word()) {
        return Prepared::Append;
    }
    // While another thread quiesces all files, nothing begins to wait: see `sharing::stop_transitions`.
    if held.nested || forking() || !file.is_buffered() || !file.attachment.waits() {
        return Prepared::PassThrough;
    }
    if file.dirty.is_in() || is_recalled(file) {
        // Recalled from here on, its word takes no append (`pending::recall`).
        return Prepared::Append;
    }
    if wants_more(file) {
        return Prepared::Enlarge;
    }
    if inodes::others_use(file) {
        file.note(Why::OpenTwice);
        return Prepared::PassThrough;
    }
    // Since the last flush the disk may have been filled by writes that did not wait, or by others.
    if is_disk_nearly_full(file, &held) {
        return Prepared::PassThrough;
    }
    let Some(entry) = file.entry() else { return Prepared::PassThrough };
    let status = file.status(fd);
    if is_another(fd, status.as_ref(), file) {
        return Prepared::Replaced;
    }
    if let Some(status) = status {
        // What passed through since the last flush came before what waits from now on. A change after
        // this moment is somebody else's, and `recover` makes way for it.
        entry.note_left(status.left());
    }
    if file.is_on() && follow_offset(file, fd) {
        return Prepared::Shared;
    }
    let position =
        if file.is_append_placed() { expected_place(file, entry) } else { file.take_position() };
    if !may_grow(file, fd, position) {
        // Each write must meet the end by itself.
        if !file.is_append_placed() {
            file.reopen_cursor();
        }
        detach(file, &held);
        give_up(file, Why::FileSizeLimit);
        return Prepared::PassThrough;
    }
    place_at(file, entry, position);
    dirty::put_in(file);
    if inodes::meets_use(file) {
        // That began since it was looked for: nothing waits beside it.
        file.note(Why::OpenTwice);
        take_out(file);
        return Prepared::PassThrough;
    }
    Prepared::Append
}

/// Says where in the file the next bytes that wait begin.
fn place_at(file: &OpenFile, entry: &Entry, position: u64) {
    entry.base.store(position, Relaxed);
    file.end.store(position, Relaxed);
    file.attachment.wait_from(write_buffer_start(position));
    stamp_order(file, entry);
    clock::want();
    // After where the end is: another thread may ask without the lock (`resolved_position`).
    file.position.store(AT_END, Release);
    file.reopen_cursor();
}

/// A write of a file that another process has recalled: all that waited is written, and the position
/// is where the other one left it.
fn recalled(file: &'static OpenFile, fd: i32) -> Prepared {
    flush_all();
    if file.error.load(Relaxed) != 0 {
        return Prepared::Failed;
    }
    let _signals = SignalsBlocked::new();
    let held = file.hold();
    if file.is_on() && !held.nested {
        follow_offset(file, fd);
    }
    Prepared::Shared
}

/// A write that does not wait, after all that does: at the end, or at the position that is ours; `None` when it is ours
/// no longer.
fn write_on(write: Append) -> Option<Outcome> {
    let Append { file, fd, source: Source::Buffer(buffer), len, .. } = write else {
        return write_past(write.file, write.pass());
    };
    if file.is_append_placed() {
        return Some(pass_through(write.pass()));
    }
    let len = len as usize;
    release_point();
    changes::writing(fd, false);
    let _signals = SignalsBlocked::new();
    let held = file.hold();
    if !file.is_on() || held.nested || file.pending() > 0 || file.appends() {
        return None;
    }
    // Another thread may have closed the number: then its record is another file's.
    if !table::means(fd, file.to_word()) {
        return None;
    }
    let at = file.take_position();
    // Where the kernel knows the position, it is to know it afterwards, too: see `leave_offset`.
    let is_known = file.kernel_at.load(Relaxed) == at;
    // No positioned hit before they are in the file, nor one that has found the window fresh.
    let epoch = file.epoch.swap(0, Relaxed);
    file.close_cursor();
    let source = put_into_window(file, at, buffer, len as u64).unwrap_or(buffer);
    // SAFETY: the kernel checks the program's memory.
    let answer = unsafe {
        match is_known {
            true => sys::write(fd, source, len),
            false => sys::write_at(fd, source, len, at),
        }
    };
    if source == buffer || answer < len as isize {
        cut_window(file, at, len as u64);
    }
    file.epoch.store(epoch, Relaxed);
    file.count(Counter::PassedWrites, 1);
    written_through(answer.max(0) as u64);
    if answer > 0 {
        file.count(Counter::PassedWriteBytes, answer as u64);
        file.position.store(at + answer as u64, Relaxed);
        if is_known {
            file.kernel_at.store(at + answer as u64, Relaxed);
        }
        inodes::wrote(file);
    }
    match answer < len as isize {
        true => inodes::not_written(),
        false => inodes::is_written_again(),
    }
    file.reopen_cursor();
    if !is_known {
        file.leave_offset(fd);
    }
    Some(Outcome::Done(if answer < 0 { fail(-answer as i32) } else { answer }))
}

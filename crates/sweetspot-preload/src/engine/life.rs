//! The life of descriptors: opened, closed, handed on. Those that share a file are in `duplicates`.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sweetspot_core::learning::Learning;
use sweetspot_core::why::Why;

use super::dirty::release_point;
use super::file::{self, OpenFile};
use super::process::acquire_point;
use super::spawns::passive;
use super::{
    answers, changes, concerns, deaths, dirty, ending, failing, flush, handle, inodes, ledger,
    others, pool, process, quiesce, table, thresholds, transition,
};
use crate::floor::atomic::{has_threads, swap};
use crate::floor::signals::SignalsBlocked;
use crate::floor::sys;

/// A descriptor was opened by path, with these open flags. `fd` may be an error.
#[unsafe(link_section = ".text.startup")]
pub fn opened(fd: i32, flags: i32) {
    began(fd, |fd| table::opened(fd, close_on_exec(flags)));
    if fd < 0 {
        deaths::not_opened();
        return;
    }
    deaths::opened_with(flags);
    if is_for_writing(flags) {
        deaths::opened_for_writing();
        answers::opened(changes::told(), fd, flags);
    } else {
        changes::reading(fd);
    }
}

/// Whether a file that is opened with these flags may be written, or is cut. With `O_PATH` the kernel looks at
/// neither flag.
#[inline(always)]
pub fn is_for_writing(flags: i32) -> bool {
    flags & (libc::O_ACCMODE | libc::O_TRUNC) != 0 && flags & libc::O_PATH == 0
}

/// A descriptor was made, and gets its word.
fn began(fd: i32, set_word: impl FnOnce(i32)) {
    if fd < 0 {
        return;
    }
    if passive() {
        return failing::ended_for_good(fd);
    }
    forget(fd);
    set_word(fd);
    acquire_point();
}

fn close_on_exec(flags: i32) -> u64 {
    if flags & libc::O_CLOEXEC != 0 { Learning::CLOSE_ON_EXEC } else { 0 }
}

/// The same after a call that nothing concerned; returns the descriptor.
#[inline(always)]
pub fn opened_alone(fd: i32, flags: i32) -> i32 {
    acquire_point();
    let has_open_file = || table::word(fd).is_none_or(|word| table::is_open(word.load(Relaxed)));
    let is_alone = !concerns::any() && !has_open_file() && !has_stdio_rules();
    if !is_alone || is_for_writing(flags) || ledger::may_be_waiting() {
        return opened_after_all(fd, flags);
    }
    table::opened(fd, close_on_exec(flags));
    fd
}

#[inline(never)]
#[unsafe(link_section = ".text.startup")]
extern "C" fn opened_after_all(fd: i32, flags: i32) -> i32 {
    opened(fd, flags);
    fd
}

/// Whether rules decide for which descriptors stdio's calls are buffered, which is kept for each.
#[inline(always)]
fn has_stdio_rules() -> bool {
    process::stdio() == process::STDIO_BY_RULE
}

/// A descriptor was made that is no file opened by path: it is never buffered.
pub fn made(fd: i32) {
    began(fd, |fd| table::set(fd, table::OTHER));
}

/// A descriptor was taken from another process by one of it; it is never buffered.
pub fn fetched(pidfd: i32, fd: i32) {
    made(fd);
    deaths::descriptor_made();
    // The child of a vfork tells of itself, too: it may write there before it is another program.
    if fd >= 0 && !process::under_seccomp() {
        others::fetched(pidfd, fd);
        changes::received(fd);
    }
}

/// Whether the position of a descriptor may be ours.
pub fn is_followed(fd: i32) -> bool {
    !passive() && file::open_file(fd).is_some()
}

/// Whether a handler may come between the moment in which nothing more is kept for a descriptor and that in which it is
/// closed, and use what its description has. Beside other threads it finds all that at the kernel: see [`leaving`].
pub fn meets_handlers(fd: i32) -> bool {
    concerns::is_concurrent() && !has_threads() && is_followed(fd)
}

/// Whether another process may have the same description, and so set its flags: anything but a file
/// that was opened here and goes on being followed.
pub fn may_be_shared(fd: i32) -> bool {
    let is_own = |word: u64| match table::tag(word) {
        table::LEARNING => true,
        table::OPEN => {
            let file = OpenFile::from_word(word);
            !file.is_from_outside() && file.state.load(Relaxed) != table::PASS_THROUGH
        }
        _ => false,
    };
    !passive() && !table::word(fd).is_some_and(|word| is_own(word.load(Relaxed)))
}

/// A call that is not followed gave a small number, which may be a new descriptor.
pub fn perhaps_made(fd: i32) {
    if fd < 0 || passive() {
        return;
    }
    if file::open_file(fd).is_some_and(|(file, _)| file.references.load(Relaxed) > 1) {
        // It may be a count as well. A duplicate that is forgotten would no longer be seen to move the
        // position.
        special_use(fd, Why::Shared);
    } else {
        quiesce::quiesce(fd, quiesce::Next::Learn);
        replace(fd, table::UNKNOWN, None);
    }
}

/// Before a stream is closed: libc still writes what it holds, at the kernel's offset. The answer is that of
/// [`closing`].
pub fn stream_closing(fd: i32) -> i32 {
    if passive() {
        return failing::closing_for_good(fd);
    }
    release_point();
    quiesce::quiesce(fd, quiesce::Next::Learn);
    end(fd)
}

/// The same where the call that closes it has no way to tell of an error.
pub fn stream_ending(fd: i32) {
    if passive() {
        failing::ended_for_good(fd);
    } else if fd >= 0 {
        release_point();
        end_unreported(fd);
    }
}

/// Before a descriptor is closed: until it is, other threads may go on with it, and for good with others of its
/// description (see `duplicates`). They do so at the kernel's offset.
fn leaving(fd: i32) {
    if has_threads() && file::open_file(fd).is_some() {
        quiesce::quiesce(fd, quiesce::Next::Close);
    }
}

/// Ends what is known of a descriptor. The error with which its close is to fail, or 0.
fn end(fd: i32) -> i32 {
    leaving(fd);
    let known = failing_descriptor(fd).or_else(|| late_error(fd));
    let late = forget(fd);
    known.unwrap_or(late)
}

/// The same in a call that has no way to tell of an error: the end of the process does.
fn end_unreported(fd: i32) {
    leaving(fd);
    quiesce::quiesce(fd, quiesce::Next::Learn);
    note_unreported(fd);
    forget(fd);
}

/// A call may end a descriptor that has no way to tell that its bytes cannot be written.
pub(super) fn note_unreported(fd: i32) {
    let is_last = |(file, _): (&OpenFile, u64)| file.references.load(Relaxed) == 1;
    if file::open_file(fd).is_some_and(is_last) && failing_descriptor(fd).is_some() {
        ending::lose();
    }
}

/// Before `close_range`: the descriptors end, or are closed at exec from now on. That may yet fail,
/// so the kernel knows all positions first.
pub fn range(first: u32, last: u32, flags: u32) {
    const KNOWN: u32 = libc::CLOSE_RANGE_UNSHARE | libc::CLOSE_RANGE_CLOEXEC;
    if first > last || flags & !KNOWN != 0 {
        // It will fail where it is wrong, and all goes on as it was.
        return;
    }
    let closed = || table::all().filter(|fd| (first..=last).contains(&(*fd as u32)));
    if passive() {
        if flags & libc::CLOSE_RANGE_CLOEXEC == 0 {
            closed().for_each(failing::ended_for_good);
        }
        return;
    }
    if flags & libc::CLOSE_RANGE_UNSHARE != 0 {
        // Other threads keep what this one closes.
        ending::end_because(Why::Shared);
        return;
    }
    release_point();
    for fd in closed() {
        if flags & libc::CLOSE_RANGE_CLOEXEC == 0 {
            end_unreported(fd);
        }
    }
}

/// Before a descriptor is closed: what was kept for it ends.
///
/// Returns the error with which the close is to fail (after it was done), or 0: what was written
/// before cannot be brought to the file.
pub fn closing(fd: i32) -> i32 {
    if passive() {
        return failing::closing_for_good(fd);
    }
    release_point();
    end(fd)
}

/// The same where nothing concerns it and nothing is kept: false, if that is not so. Beside threads something is to be
/// done after it (`aside::await_copies`).
#[inline(always)]
pub fn closes_alone(fd: i32) -> bool {
    if concerns::any() || has_stdio_rules() || has_threads() {
        return false;
    }
    let Some(word) = table::word(fd) else { return false };
    let value = word.load(Relaxed);
    value & (table::OPEN | table::LASTS | Learning::MANY_CALLS) == 0
        && swap(word, value, closed_word(value))
}

/// Ends what is known of a descriptor, whose number may now mean something else. What a close of it is still to say,
/// as an error number; 0: nothing.
pub fn forget(fd: i32) -> i32 {
    let value = table::word(fd).map_or(table::UNKNOWN, |word| word.load(Relaxed));
    replace(fd, closed_word(value), None)
}

/// The same, if the descriptor still has this file: another thread may have seen to it.
pub fn forget_file(fd: i32, file: &'static OpenFile) {
    replace(fd, closed_word(file.to_word()), Some(file.to_word()));
}

/// The next word of a descriptor that is about to be closed: a thread or a handler that makes calls by it
/// meanwhile learns nothing of the old file.
#[inline(always)]
fn closed_word(value: u64) -> u64 {
    match concerns::is_concurrent() && value != table::UNKNOWN {
        true => table::CLOSED,
        false => table::UNKNOWN,
    }
}

/// Gives a descriptor another word, and ends what is known of it; `of`: only if it has this one.
#[unsafe(link_section = ".text.startup")]
pub(super) fn replace(fd: i32, new: u64, of: Option<u64>) -> i32 {
    let Some(word) = table::word(fd) else { return 0 };
    if has_stdio_rules()
        && let Some(known) = table::stdio(fd)
    {
        known.store(0, Relaxed);
    }
    let Some(value) = open_word(fd, word, new, of) else { return 0 };
    inodes::closing(fd, OpenFile::from_word(value));
    // In order with what other files have pending; what is pending after this cannot be written.
    release_point();
    let _signals = SignalsBlocked::deferring();
    let _dirty = dirty::hold_dirty();
    let registry = file::hold_registry();
    let found = file::open_file(fd);
    if of.is_some_and(|of| !table::means(fd, of)) {
        return 0;
    }
    table::set(fd, new);
    let Some((file, open)) = found else { return 0 };
    if file.references.fetch_sub(1, Relaxed) > 1 {
        handle::forget_number(file, fd);
        look_elsewhere(file, fd, open);
        return 0;
    }
    // What waits is written, and the guard is told.
    let _signals = file.entry().is_some().then(SignalsBlocked::new);
    let held = file.hold();
    if held.nested {
        // A handler closes the file to which the interrupted frame is appending: that goes on with
        // the record and the write buffer, so neither is used again.
        return 0;
    }
    flush::drain_held(file, &held);
    dirty::take_out(file);
    file.close_cursor();
    thresholds::open_file_closed(file);
    pool::drop_window(file, &held);
    handle::let_go(file);
    drop(held);
    let close_error = file.close_error.swap(0, Relaxed);
    file.free(&registry);
    close_error
}

/// The word of a descriptor that has a file; one that has none has the new word then.
#[inline(always)]
fn open_word(fd: i32, word: &AtomicU64, new: u64, of: Option<u64>) -> Option<u64> {
    let value = loop {
        let value = word.load(Relaxed);
        if of.is_some_and(|of| of != value) || table::is_closed(value) && table::is_closed(new) {
            return None;
        }
        if table::tag(value) == table::OPEN {
            return Some(value);
        }
        // Another thread may be about to give it a file.
        if swap(word, value, new) {
            break value;
        }
    };
    if new != table::UNKNOWN {
        table::note_known(fd);
    }
    match table::tag(value) {
        table::LEARNING => thresholds::closed(Learning(value)),
        // A close may wait until somebody has taken what was sent, or has served it.
        table::OTHER if !table::is_closed(value) => inodes::written(fd, None),
        _ => {}
    }
    None
}

/// Another descriptor than `fd` stands for a file from now on, of those with this word. The registry is held.
pub(super) fn look_elsewhere(file: &OpenFile, fd: i32, open: u64) {
    let is_same = |other: &i32| file::open_file(*other).is_some_and(|(_, word)| word == open);
    if file.fd.load(Relaxed) == fd
        && let Some(other) = table::all().filter(|other| *other != fd).find(is_same)
    {
        file.fd.store(other, Relaxed);
        // The guard, too, looks for it there.
        file.entry().into_iter().for_each(|entry| entry.fd.store(other, Relaxed));
    }
}

/// The descriptor is about to be used in a way that is not followed: its calls pass through for good.
pub fn special_use(fd: i32, why: Why) {
    if !passive() {
        release_point();
        if table::word(fd).is_some_and(|word| word.load(Relaxed) == table::UNKNOWN) {
            // So that this is remembered.
            transition::classify(fd);
        }
        quiesce::quiesce(fd, quiesce::Next::PassThrough(why));
    }
}

/// The kernel is about to use the descriptor's offset, or its content, behind our back.
pub fn hand_over(fd: i32) {
    if !passive() {
        release_point();
        quiesce::quiesce(fd, quiesce::Next::Learn);
    }
}

/// The same for a call that sets flags of the description, also of what is kept for another number by which this process
/// was given it.
pub fn hand_over_flags(fd: i32) {
    hand_over(fd);
    let is_given = |file: &OpenFile| file.is_from_outside() && file.is_buffered();
    let may_be_given = |word: u64| match table::tag(word) {
        table::OPEN => OpenFile::from_word(word).is_from_outside(),
        tag => matches!(tag, table::UNKNOWN | table::PASS_THROUGH),
    };
    let may_be_kept = table::word(fd).is_none_or(|word| may_be_given(word.load(Relaxed)));
    if passive() || !may_be_kept || !file::used().any(is_given) {
        return;
    }
    let Some(status) = sys::status(fd) else { return };
    let is_kin = |file: &OpenFile| is_given(file) && flush::is_of(&status, file);
    table::all()
        .filter(|other| file::open_file(*other).is_some_and(|(file, _)| is_kin(file)))
        .for_each(|other| quiesce::quiesce(other, quiesce::Next::Learn));
}

/// The same for a call that uses the offset. Where a handler or another thread may come in between, its calls could
/// have the file buffered again before that one is made: so it never is.
pub fn hand_over_offset(fd: i32) {
    match concerns::is_concurrent() {
        true => special_use(fd, Why::SpecialUse),
        false => hand_over(fd),
    }
}

/// The same for a call by which the kernel uses what the file holds. If that is not what was written to
/// it, and cannot be, the call fails with this error, as a read does.
pub fn hand_over_content(fd: i32) -> Option<i32> {
    hand_over(fd);
    changes::changing(fd);
    incomplete(fd)
}

/// The error with which calls on a descriptor's file fail, as it does not hold what was written to it; `None` if the
/// descriptor means another file by now.
#[unsafe(link_section = ".text.startup")]
pub fn failing_descriptor(fd: i32) -> Option<i32> {
    if !flush::any_failed() {
        return None;
    }
    let Some((file, _)) = file::open_file(fd) else { return failing::failing_by(fd) };
    let errno = failing::failing(file)?;
    if flush::is_another(fd, sys::status(fd).as_ref(), file) {
        // As with `Prepared::Replaced`. What waits for the old file is the guard's.
        forget_file(fd, file);
        return None;
    }
    Some(errno)
}

/// The error with which a sync is to fail that follows: what was written cannot be brought to the file, or the file
/// system has told so once, to somebody else.
pub fn sync_error(fd: i32) -> Option<i32> {
    if passive() {
        return failing::failing_for_good(fd);
    }
    failing_descriptor(fd).or_else(|| late_error(fd))
}

/// The error with which a sync of the whole file system is to fail that has this descriptor: what was written cannot be
/// brought to one of its files.
pub fn sync_error_beside(fd: i32) -> Option<i32> {
    if !flush::any_failed() || passive() && !process::passive_for_good() {
        return None;
    }
    let device = sys::status(fd)?.device;
    failing::failing_of(|file| file.device.load(Relaxed) == device)
}

/// What the file system has told once of a file, to somebody else, and not yet to the program.
fn late_error(fd: i32) -> Option<i32> {
    let (file, _) = file::open_file(fd)?;
    let of_entry = file.entry().map_or(0, |entry| entry.close_error.swap(0, Relaxed) as i32);
    let of_file = file.close_error.swap(0, Relaxed);
    [of_file, of_entry].into_iter().find(|errno| *errno != 0)
}

/// The error with which a call is to fail whose answer, or effect, follows from what was written to the descriptor's
/// file, if that cannot be brought there. What waits has gone out before, or could not.
#[inline(always)]
pub fn incomplete(fd: i32) -> Option<i32> {
    incomplete_of(|| fd)
}

/// The same where it takes a look which descriptor that is.
#[inline(always)]
pub fn incomplete_of(fd: impl FnOnce() -> i32) -> Option<i32> {
    if flush::any_failed() { incomplete_now(fd()) } else { None }
}

#[cold]
fn incomplete_now(fd: i32) -> Option<i32> {
    if passive() { failing::failing_for_good(fd) } else { failing_descriptor(fd) }
}

//! The life of descriptors: opened, duplicated, closed, handed on.

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::learning::Learning;
use sweetspot_core::why::Why;

use super::dirty::release_point;
use super::file::{self, OpenFile};
use super::process::acquire_point;
use super::spawns::{is_spawned_child, passive};
use super::{
    alone, answers, changes, concerns, deaths, dirty, ending, failing, flush, handle, inodes,
    ledger, others, pool, process, quiesce, table, thresholds, transition,
};
use crate::floor::signals::SignalsBlocked;
use crate::floor::sys;

/// A descriptor was opened by path, with these open flags. `fd` may be an error.
pub fn opened(fd: i32, flags: i32) {
    began(fd, |fd| table::opened(fd, close_on_exec(flags)));
    if fd < 0 {
        deaths::not_opened();
        return;
    }
    if is_for_writing(flags) {
        deaths::opened_for_writing();
        answers::opened(changes::told(), fd, flags);
    } else if ledger::any_waits()
        && let Some(ledger) = changes::told().filter(|ledger| others::any_waits(ledger))
    {
        others::reading(ledger, fd);
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
    if fd < 0 || passive() {
        return;
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
    if !is_alone || is_for_writing(flags) || ledger::any_waits() {
        return opened_after_all(fd, flags);
    }
    table::opened(fd, close_on_exec(flags));
    fd
}

#[inline(never)]
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
        forget(fd);
    }
}

/// Before a stream is closed: libc still writes what it holds, at the kernel's offset. The answer is that of
/// [`closing`].
pub fn stream_closing(fd: i32) -> i32 {
    if fd < 0 || passive() {
        return 0;
    }
    release_point();
    quiesce::quiesce(fd, quiesce::Next::Learn);
    end(fd)
}

/// The same where the call that closes it has no way to tell of an error.
pub fn stream_ending(fd: i32) {
    if fd >= 0 && !passive() {
        release_point();
        end_unheard(fd);
    }
}

/// Ends what is known of a descriptor. The error with which its close is to fail, or 0.
fn end(fd: i32) -> i32 {
    let known = failing_descriptor(fd).or_else(|| late_error(fd));
    let late = forget(fd);
    known.unwrap_or(late)
}

/// The same in a call that has no way to tell of an error: the end of the process does.
fn end_unheard(fd: i32) {
    quiesce::quiesce(fd, quiesce::Next::Learn);
    note_unheard(fd);
    forget(fd);
}

/// A call may end a descriptor that has no way to tell that its bytes cannot be written.
fn note_unheard(fd: i32) {
    let is_last = |(file, _): (&OpenFile, u64)| file.references.load(Relaxed) == 1;
    if file::open_file(fd).is_some_and(is_last) && failing_descriptor(fd).is_some() {
        ending::lose();
    }
}

/// Before `close_range`: the descriptors end, or are closed at exec from now on. That may yet fail,
/// so the kernel knows all positions first.
pub fn range(first: u32, last: u32, flags: u32) {
    const KNOWN: u32 = libc::CLOSE_RANGE_UNSHARE | libc::CLOSE_RANGE_CLOEXEC;
    if passive() || first > last || flags & !KNOWN != 0 {
        // It will fail where it is wrong, and all goes on as it was.
        return;
    }
    if flags & libc::CLOSE_RANGE_UNSHARE != 0 {
        // Other threads keep what this one closes.
        ending::end_because(Why::Shared);
        return;
    }
    release_point();
    for fd in table::all().filter(|fd| (first..=last).contains(&(*fd as u32))) {
        if flags & libc::CLOSE_RANGE_CLOEXEC == 0 {
            end_unheard(fd);
        }
    }
}

/// Before a descriptor is closed: what was kept for it ends.
///
/// Returns the error with which the close is to fail (after it was done), or 0: what was written
/// before cannot be brought to the file.
pub fn closing(fd: i32) -> i32 {
    if passive() {
        return 0;
    }
    release_point();
    end(fd)
}

/// The same where nothing concerns it and nothing is kept: false, if that is not so.
#[inline(always)]
pub fn closes_alone(fd: i32) -> bool {
    if concerns::any() || has_stdio_rules() {
        return false;
    }
    let Some(word) = table::word(fd) else { return false };
    let is_alone = word.load(Relaxed) & (table::OPEN | table::LASTS | Learning::MANY_CALLS) == 0;
    if is_alone {
        word.store(table::UNKNOWN, Relaxed);
    }
    is_alone
}

/// Ends what is known of a descriptor, whose number may now mean something else. What a close of it is still to say,
/// as an error number; 0: nothing.
#[unsafe(link_section = ".text.startup")]
pub fn forget(fd: i32) -> i32 {
    let Some(word) = table::word(fd) else { return 0 };
    if has_stdio_rules()
        && let Some(known) = table::stdio(fd)
    {
        known.store(0, Relaxed);
    }
    let value = word.load(Relaxed);
    if table::tag(value) != table::OPEN {
        word.store(table::UNKNOWN, Relaxed);
        match table::tag(value) {
            table::LEARNING => thresholds::closed(Learning(value)),
            // A close may wait until somebody has taken what was sent, or has served it.
            table::OTHER => inodes::written(fd, None),
            _ => {}
        }
        return 0;
    }
    inodes::closing(fd, OpenFile::from_word(value));
    // In order with what other files have pending; what is pending after this cannot be written.
    release_point();
    let _signals = SignalsBlocked::deferring();
    let _dirty = dirty::hold_dirty();
    let registry = file::hold_registry();
    let Some((file, open)) = file::open_file(fd) else { return 0 };
    word.store(table::UNKNOWN, Relaxed);
    if file.references.fetch_sub(1, Relaxed) > 1 {
        handle::forget_question(file);
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
    dirty::take_off(file);
    file.close_cursor();
    thresholds::open_file_closed(file);
    pool::drop_window(file, &held);
    handle::let_go(file);
    drop(held);
    let close_error = file.close_error.swap(0, Relaxed);
    file.free(&registry);
    close_error
}

/// Before a descriptor is duplicated: both will share one open file, and others can see the new number.
pub fn duplicating(fd: i32) {
    dirty::before_it_is_shown();
    if passive() {
        return;
    }
    if table::word(fd).is_some_and(|word| table::tag(word.load(Relaxed)) == table::LEARNING) {
        let _signals = SignalsBlocked::new();
        let registry = file::hold_registry();
        transition::make_known(fd, &registry);
    }
    alone::ask_no_more(fd);
}

/// Another descriptor than `fd` stands for a file from now on, of those with this word. The registry is held.
fn look_elsewhere(file: &OpenFile, fd: i32, open: u64) {
    let is_same = |other: &i32| file::open_file(*other).is_some_and(|(_, word)| word == open);
    if file.fd.load(Relaxed) == fd
        && let Some(other) = table::all().filter(|other| *other != fd).find(is_same)
    {
        file.fd.store(other, Relaxed);
        // The guard, too, looks for it there.
        file.entry().into_iter().for_each(|entry| entry.fd.store(other, Relaxed));
    }
}

/// Whether another descriptor of its description keeps what is kept for `fd`; it stands for the file then.
fn is_kept_elsewhere(fd: i32) -> bool {
    let Some((file, open)) = file::open_file(fd) else { return false };
    if file.references.load(Relaxed) < 2 {
        return false;
    }
    if file.fd.load(Relaxed) == fd {
        let _signals = SignalsBlocked::deferring();
        let _registry = file::hold_registry();
        look_elsewhere(file, fd, open);
    }
    file.fd.load(Relaxed) != fd
}

/// Before a descriptor may be replaced by a duplicate (or not, if that fails): the kernel knows its
/// position, unless the description has other descriptors. A shell does so for each line that it reads or
/// writes elsewhere (`read line <&3`).
pub fn may_be_replaced(fd: i32) {
    if !passive() {
        alone::ask_no_more(fd);
        release_point();
        if !is_kept_elsewhere(fd) {
            quiesce::quiesce(fd, quiesce::Next::Learn);
            note_unheard(fd);
        }
    }
}

/// `new` is now a duplicate of `old`.
pub fn duplicated(old: i32, new: i32) {
    if new < 0 || old == new {
        return;
    }
    if passive() {
        kept_by_child(old);
        return;
    }
    if table::word(new).is_none() {
        // Nobody knows the number yet; anyone who uses it later is not seen to use the same position.
        special_use(old, Why::Shared);
        return;
    }
    forget(new);
    let word_of = |fd| table::word(fd).map_or(table::UNKNOWN, |word| word.load(Relaxed));
    let word = word_of(old);
    if matches!(table::tag(word), table::OTHER | table::PASS_THROUGH) {
        // All that is known of it, for good, is this word. (Of an unknown one another thread may be about to
        // learn more.)
        table::set(new, word);
        return;
    }
    let _signals = SignalsBlocked::deferring();
    let _registry = file::hold_registry();
    match file::open_file(old) {
        Some((file, word)) => {
            file.references.fetch_add(1, Relaxed);
            // The duplicate may outlive an exec, whatever holds for the first.
            survives_exec(file);
            table::set(new, word);
        }
        None => {
            let word = word_of(old);
            // A word that is still learning is never shared: then nothing is known of both.
            let shared =
                if table::tag(word) == table::LEARNING { table::PASS_THROUGH } else { word };
            table::set(old, shared);
            table::set(new, shared);
        }
    }
}

/// Close-on-exec was set or cleared.
pub fn set_close_on_exec(fd: i32, flags: i32) {
    let closed = flags & libc::FD_CLOEXEC != 0;
    if passive() {
        if !closed {
            kept_by_child(fd);
        }
        return;
    }
    if let Some((file, _)) = file::open_file(fd) {
        // Set for one of several descriptors, it says nothing about the others.
        if !closed {
            survives_exec(file);
        }
        return;
    }
    let Some(word) = table::word(fd) else { return };
    let value = word.load(Relaxed);
    if table::is_learning(value) {
        let learning = Learning(value);
        let next = match closed {
            false => learning.without(Learning::CLOSE_ON_EXEC),
            true => learning.with(Learning::CLOSE_ON_EXEC),
        };
        crate::floor::atomic::swap(word, value, next.0);
    }
}

/// Some descriptor of an open file is not closed at exec: a new program will share its offset.
fn survives_exec(file: &OpenFile) {
    for word in [&file.learned, &file.state] {
        loop {
            let value = word.load(Relaxed);
            let with = Learning(value).has(Learning::CLOSE_ON_EXEC);
            if table::tag(value) != table::LEARNING || !with {
                break;
            }
            let without = Learning(value).without(Learning::CLOSE_ON_EXEC);
            if crate::floor::atomic::swap(word, value, without.0) {
                break;
            }
        }
    }
}

/// The child of a vfork duplicated a descriptor or let it survive the exec: then the parent shares
/// it for good, though it was to be closed. The child's descriptor means the same open file.
fn kept_by_child(fd: i32) {
    let was_shared = file::open_file(fd).is_some_and(|(file, _)| file.is_from_outside());
    if is_spawned_child() && !was_shared {
        quiesce::quiesce(fd, quiesce::Next::PassThrough(Why::Shared));
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

/// The same for a call by which the kernel uses what the file holds. If that is not what was written to
/// it, and cannot be, the call fails with this error, as a read does.
pub fn hand_over_content(fd: i32) -> Option<i32> {
    hand_over(fd);
    changes::changing(fd);
    incomplete(fd)
}

/// The same for a descriptor, unless it means another file by now.
#[unsafe(link_section = ".text.startup")]
pub fn failing_descriptor(fd: i32) -> Option<i32> {
    if !flush::any_failed() {
        return None;
    }
    let Some((file, _)) = file::open_file(fd) else { return failing::failing_by(fd) };
    let errno = failing::failing(file)?;
    if flush::is_another(fd, sys::status(fd).as_ref(), file) {
        // As with `Prepared::Replaced`. What waits for the old file is the guard's.
        forget(fd);
        return None;
    }
    Some(errno)
}

/// The error with which a sync is to fail that follows: what was written cannot be brought to the file, or the file
/// system has told so once, to somebody else.
pub fn sync_error(fd: i32) -> Option<i32> {
    if passive() {
        return None;
    }
    failing_descriptor(fd).or_else(|| late_error(fd))
}

/// What the file system has told once of a file, to somebody else, and not yet to the program.
fn late_error(fd: i32) -> Option<i32> {
    let (file, _) = file::open_file(fd)?;
    let of_entry = file.entry().map_or(0, |entry| entry.close_error.swap(0, Relaxed) as i32);
    let of_file = file.close_error.swap(0, Relaxed);
    [of_file, of_entry].into_iter().find(|errno| *errno != 0)
}

pub(super) fn incomplete(fd: i32) -> Option<i32> {
    if passive() { None } else { failing_descriptor(fd) }
}

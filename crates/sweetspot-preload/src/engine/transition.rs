//! From learning to a window: what is asked of a file before its position becomes ours.

use core::sync::atomic::Ordering::{Relaxed, Release};

use sweetspot_core::learning::Learning;
use sweetspot_core::ledger::{BUFFER_OFF, Counter};
use sweetspot_core::policy;
use sweetspot_core::why::Why;

use super::eligible::{Refusal, Trust, may_have_window, may_wait};
use super::file::{self, OpenFile};
use super::spawns::{self, passive};
use super::table::is_locked;
use super::{
    alone, answers, copied_up, deaths, ending, handlers, inodes, ledger, records, rules, table,
};
use crate::floor::atomic::swap;
use crate::floor::lock::Held;
use crate::floor::signals::SignalsBlocked;
use crate::floor::sys::{self, Status};

/// Tries to give the file of a descriptor a window. Where it may not have one, it stays as it was or
/// passes through for good.
pub fn open_window(fd: i32) {
    if passive() || !ending::can_buffer() {
        return;
    }
    let _signals = SignalsBlocked::new();
    let registry = file::hold_registry();
    if spawns::forking() {
        return;
    }
    let Some(word) = file::learning_word(fd) else { return };
    let value = word.load(Relaxed);
    if !table::is_learning(value) || Learning(value).in_flight() > 0 {
        return;
    }
    // From here on no call that passes through begins on it.
    if !swap(word, value, Learning(value).with(Learning::LOCKED).0) {
        return;
    }
    let known = file::open_file(fd).map(|(file, _)| file);
    let from_outside = known.is_some_and(OpenFile::is_from_outside);
    let outcome = examine(fd, known, Learning(value)).and_then(|facts| {
        let file = known.or_else(|| file::allocate(&registry)).ok_or(Refusal::Later)?;
        prepare(file, &facts, fd, &registry);
        Ok(file)
    });
    if let (Err(Refusal::Final(why)), Some(file)) = (&outcome, known) {
        records::begin(file, fd);
        file.note(*why);
    }
    loop {
        let now = word.load(Relaxed);
        if !is_locked(now) {
            // Another thread has made it pass through, and may be using the kernel's offset.
            if let (Ok(file), None) = (outcome, known) {
                file.free(&registry);
            }
            return;
        }
        let learned = Learning(now).without(Learning::LOCKED);
        let next = match &outcome {
            Ok(file) => {
                // What took so long was the answer.
                let learned = if from_outside { learned.without_backoff() } else { learned };
                file.learned.store(learned.0, Relaxed);
                match known {
                    Some(_) => table::ON,
                    None => {
                        file.state.store(table::ON, Release);
                        file.to_word()
                    }
                }
            }
            Err(Refusal::Later) => learned.back_off().0,
            Err(Refusal::Final(_)) => table::PASS_THROUGH,
        };
        if swap(word, now, next) {
            return;
        }
    }
}

/// Gives a descriptor that has none an open file, still learning: its inode becomes known, or
/// another descriptor is about to share it. The registry is held.
pub fn make_known(fd: i32, registry: &Held<'_>) -> Option<&'static OpenFile> {
    let word = table::word(fd)?;
    let value = word.load(Relaxed);
    if table::tag(value) == table::OPEN {
        return Some(OpenFile::from_word(value));
    }
    if !table::is_learning(value) {
        return None;
    }
    let status = sys::status_at_hand(fd)?;
    let file = file::allocate(registry)?;
    file.device.store(status.device, Relaxed);
    file.inode.store(status.inode, Relaxed);
    file.state.store(value, Relaxed);
    if status.is_noticed {
        file.traits.store(file::NOTICED, Relaxed);
    }
    if swap(word, value, file.to_word()) {
        copied_up::known(file, fd, registry);
        Some(file)
    } else {
        file.free(registry);
        None
    }
}

/// For the summary, if one is wanted: the open file of a descriptor that has none yet, to count its
/// calls in.
#[cold]
pub fn make_listed(fd: i32) -> Option<&'static OpenFile> {
    if !ledger::wants_summary() {
        return None;
    }
    let _signals = SignalsBlocked::new();
    make_known(fd, &file::hold_registry())
}

/// For the summary: a file that makes many calls is listed, whether it ever earns a buffer or not.
/// Until it is known that there will be many, they are only counted.
pub fn list(fd: i32, file: &'static OpenFile, why: Option<Why>) {
    let calls = file.counted(Counter::PassedReads) + file.counted(Counter::PassedWrites);
    if calls == u64::from(policy::CALLS_LISTED) {
        let _signals = SignalsBlocked::new();
        let _registry = file::hold_registry();
        // What is known for certain is reason enough; and one from outside waits for an answer.
        let waits = |why: &Why| file.is_from_outside() && *why == Why::RandomAccess;
        let why = why.filter(|why| file.why.load(Relaxed) == 0 && !waits(why));
        why.into_iter().for_each(|why| file.note(why));
        if file.buffer.load(Relaxed) == BUFFER_OFF {
            file.buffer.store(rules::buffer_for(fd), Relaxed);
        }
        records::begin(file, fd);
    }
}

/// Finds out what a descriptor is of which that was not known: so that its writes may wait, and so
/// that reading it does not make everything that waits go out. A file gets an open file of its own,
/// anything else is marked.
pub fn classify(fd: i32) {
    let unknown = table::word(fd).filter(|word| word.load(Relaxed) == table::UNKNOWN);
    if let (Some(word), Some(status)) = (unknown, sys::status(fd))
        && !status.regular
    {
        answers::look_at(&status);
        if status.is_nameless {
            // It may tell of deaths: this process was given it, by an exec, say.
            deaths::descriptor_made();
        }
        // A pipe, most often. If its number has come to mean something else, that is known.
        swap(word, table::UNKNOWN, table::OTHER);
        return;
    }
    let _signals = SignalsBlocked::deferring();
    let registry = file::hold_registry();
    let Some(word) = table::word(fd) else { return };
    let value = word.load(Relaxed);
    if table::tag(value) != table::UNKNOWN {
        make_known(fd, &registry);
        return;
    }
    let Some(status) = sys::status(fd) else { return };
    if !status.regular {
        table::set(fd, table::OTHER);
        return;
    }
    let Some(file) = file::allocate(&registry) else { return };
    file.device.store(status.device, Relaxed);
    file.inode.store(status.inode, Relaxed);
    file.outside.store(1, Relaxed);
    file.state.store(table::LEARNING, Relaxed);
    table::set(fd, file.to_word());
    copied_up::known(file, fd, &registry);
}

struct Facts {
    status: Status,
    flags: i32,
    position: u64,
    buffer: u32,
    trust: Trust,
}

fn examine(fd: i32, known: Option<&OpenFile>, learned: Learning) -> Result<Facts, Refusal> {
    let flags = sys::open_flags(fd).ok_or(Refusal::Later)?;
    if !may_wait(flags) || flags & libc::O_ACCMODE == libc::O_WRONLY {
        return Err(Refusal::Final(Why::OpenFlags));
    }
    let status = sys::status(fd).ok_or(Refusal::Later)?;
    if !status.regular {
        return Err(Refusal::Final(Why::NotRegular));
    }
    if inodes::is_mapped(status.device, status.inode) {
        return Err(Refusal::Final(Why::Mapped));
    }
    let trust = may_have_window(fd)?;
    let buffer = match known.map(|file| file.buffer.load(Relaxed)) {
        Some(buffer) if buffer != BUFFER_OFF => buffer,
        _ => rules::buffer_for(fd),
    };
    if buffer == BUFFER_OFF {
        return Err(Refusal::Final(Why::Off));
    }
    let position = sys::seek(fd, 0, libc::SEEK_CUR);
    if position < 0 {
        return Err(Refusal::Final(Why::NotRegular));
    }
    // Too little is left for a window to pay (and empty files that yield bytes are made up).
    if status.size < position as u64 + policy::WINDOW_BYTES_MIN / 2 {
        return Err(Refusal::Later);
    }
    if let Some(file) = known.filter(|file| file.is_from_outside()) {
        alone::take(file, fd, flags, &alone::Seen { status, position: position as u64, learned })?;
    }
    Ok(Facts { status, flags, position: position as u64, buffer, trust })
}

/// Prepares a file for its position to become ours.
fn prepare(file: &'static OpenFile, facts: &Facts, fd: i32, registry: &Held<'_>) {
    handlers::install();
    file.device.store(facts.status.device, Relaxed);
    file.inode.store(facts.status.inode, Relaxed);
    file.size.store(facts.status.size, Relaxed);
    // Positions within it are there.
    file.grows_to.fetch_max(facts.status.size, Relaxed);
    file.mtime_ns.store(facts.status.mtime_ns, Relaxed);
    file.ctime_ns.store(facts.status.ctime_ns, Relaxed);
    file.flags.store(facts.flags as u32, Relaxed);
    file.position.store(facts.position, Relaxed);
    file.kernel_at.store(facts.position, Relaxed);
    file.buffer.store(facts.buffer, Relaxed);
    facts.trust.keep(file);
    records::begin(file, fd);
    copied_up::known(file, fd, registry);
    file.close_cursor();
}

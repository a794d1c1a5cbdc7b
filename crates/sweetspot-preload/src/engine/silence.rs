//! Words that nobody hears: memory that others share, and whoever is told of each write. Where there may
//! be any, only files that nobody else looks at are buffered.

use core::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
};

use sweetspot_core::why::Why;

use super::children::passive;
use super::ending::end_because;
use super::quiesce::{self, Next, quiesce};
use super::{attach, observe, rules, speak, table};

/// Whether there is a writable mapping that a child of a fork would share.
#[unsafe(link_section = ".data")]
static SHARES_WRITABLE: AtomicBool = AtomicBool::new(false);

/// A writable mapping was made that only children can share: harmless until there is one.
pub fn shares_with_children() {
    SHARES_WRITABLE.store(true, Relaxed);
}

/// Whether other processes share writable memory, through which they may agree in silence.
#[unsafe(link_section = ".data")]
static SHARES_MEMORY: AtomicBool = AtomicBool::new(false);

/// Whether only files that nobody else looks at are buffered.
pub fn shares_memory() -> bool {
    SHARES_MEMORY.load(SeqCst)
}

/// Whether this process may hear from others through memory that it only reads.
#[unsafe(link_section = ".data")]
static HEARS: AtomicBool = AtomicBool::new(false);

/// Whether a load may be news: then no window answers, but for files that nobody else looks at.
pub fn may_hear() -> bool {
    HEARS.load(SeqCst)
}

/// Another process may write to memory that this one reads: a load there is a word that is not seen.
/// Reads pass through for good.
pub fn hears_silently() {
    if passive() || HEARS.swap(true, SeqCst) {
        return;
    }
    for fd in table::all() {
        quiesce::wait_for_transition(fd);
        if table::open_file(fd).is_some_and(|(file, _)| file.is_on() && !file.is_private()) {
            quiesce(fd, Next::Learn);
        }
    }
}

/// This process and another one share writable memory: a store there is a word that nobody hears.
/// Everything passes through for good, but for files of which a rule promises that nobody looks at
/// them before they are closed.
pub fn agrees_silently() {
    if !rules::has_private_files() {
        end_because(Why::SharedMemory);
        return;
    }
    if passive() || SHARES_MEMORY.swap(true, SeqCst) {
        return;
    }
    speak();
    for fd in table::all() {
        quiesce::wait_for_transition(fd);
        let is_private = match table::open_file(fd) {
            Some((file, _)) => file.is_private(),
            // Whether it may be buffered is asked when it has earned that.
            None => continue,
        };
        quiesce(fd, if is_private { Next::Learn } else { Next::PassThrough(Why::SharedMemory) });
    }
}

/// Whether this process is told of each write to some file.
#[unsafe(link_section = ".data")]
static COUNTS_WRITES: AtomicBool = AtomicBool::new(false);

/// Whether only writes to files that nobody else looks at wait.
pub fn counts_writes() -> bool {
    COUNTS_WRITES.load(Relaxed)
}

/// From now on this process is told of each write to some file: several that leave as one would be
/// one. Which file that is, nobody knows but the kernel, so none wait any more, but for files of which
/// a rule promises that nobody looks at them.
pub fn will_count_writes() {
    if passive() || COUNTS_WRITES.swap(true, Relaxed) {
        return;
    }
    speak();
    for fd in table::all() {
        let public = table::open_file(fd).filter(|(file, _)| !file.is_private());
        if public.is_some_and(|(file, _)| attach::may_wait(file)) {
            quiesce(fd, Next::PassThrough(Why::Watched));
        }
    }
}

/// Before a fork: what only children could share is shared from now on.
pub fn before_fork() {
    let may_agree = !passive() || observe::is_on();
    if may_agree && SHARES_WRITABLE.load(Relaxed) {
        agrees_silently();
    }
}

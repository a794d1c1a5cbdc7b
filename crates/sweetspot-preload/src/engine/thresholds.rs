//! After how many calls the files of this process earn buffers: what `core::threshold` is told, and has said.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sweetspot_core::learning::Learning;
use sweetspot_core::ledger::{Counter, Way};
use sweetspot_core::threshold::{Asked, Ended, Run, Thresholds};

use super::file::OpenFile;
use super::{auto, table};

#[unsafe(link_section = ".data")]
static THRESHOLDS: Thresholds = Thresholds::NEW;
/// See [`not_free`].
#[unsafe(link_section = ".data")]
static NOT_FREE: AtomicU64 =
    AtomicU64::new(table::FREE | Learning::earns_nothing(Asked::NEW.reads()));
/// See [`writes_between`].
#[unsafe(link_section = ".data")]
static WRITES_BETWEEN: AtomicU64 = AtomicU64::new(Learning::writes_between(Asked::NEW.writes()));

/// How many calls are asked for now.
#[inline(always)]
pub fn asked() -> Asked {
    THRESHOLDS.asked()
}

/// The bits of a word, after a small read in order, that are those of `LEARNING` where that read has earned
/// nothing, and nothing has to be known of it.
#[inline(always)]
pub fn not_free() -> u64 {
    NOT_FREE.load(Relaxed)
}

/// The bits of a word, after a small write, of which one is set where that has earned nothing.
#[inline(always)]
pub fn writes_between() -> u64 {
    WRITES_BETWEEN.load(Relaxed)
}

/// Calls on a file have come to an end.
pub fn ended(ended: Ended) {
    if THRESHOLDS.ended(ended) {
        NOT_FREE.store(table::FREE | Learning::earns_nothing(asked().reads()), Relaxed);
        WRITES_BETWEEN.store(Learning::writes_between(asked().writes()), Relaxed);
    }
}

/// The program has waited so long until a handle was given back.
pub fn waited_for_handle(ns: u64) {
    THRESHOLDS.waited_for_handle(ns);
}

/// Reads of a file that is still learning have come to an end.
pub fn reads_ended(learning: Learning) {
    ended(Ended::reads(learning.reads_in_order()));
}

/// A file is closed that has no open file.
pub fn closed(learning: Learning) {
    tell(learning, [Run::default(); 2]);
}

/// One is closed that has. Its lock is held.
pub fn open_file_closed(file: &OpenFile) {
    let answered =
        |counter, way| auto::run(file, way, file.counted(counter).try_into().unwrap_or(u32::MAX));
    let answered = [answered(Counter::Hits, Way::Read), answered(Counter::Appends, Way::Write)];
    let word = if file.is_buffered() { &file.learned } else { &file.state };
    tell(Learning(word.load(Relaxed)), answered);
}

fn tell(learning: Learning, [reads, writes]: [Run; 2]) {
    if learning.has(Learning::STDIO) {
        // Nothing is answered for stdio here, so it says nothing of what buffers are worth.
        return;
    }
    let more = |run: Run, calls: u32| Run { calls: run.calls.saturating_add(calls), ..run };
    ended(Ended {
        reads: more(reads, learning.reads_in_order()),
        writes: more(writes, learning.small_writes()),
    });
}

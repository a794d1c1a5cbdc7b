//! After how many calls the files of this process earn buffers: what `core::threshold` is told, and has said.

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::learning::Learning;
use sweetspot_core::ledger::{Counter, Way};
use sweetspot_core::threshold::{Ended, Run, Thresholds};

use super::auto;
use super::file::OpenFile;

#[unsafe(link_section = ".data")]
static THRESHOLDS: Thresholds = Thresholds::NEW;

/// Those of this process.
#[inline(always)]
pub fn thresholds() -> &'static Thresholds {
    &THRESHOLDS
}

/// Reads of a file that is still learning have come to an end.
pub fn reads_ended(learning: Learning) {
    let reads = Run { calls: learning.reads_in_order(), is_dear: None };
    THRESHOLDS.ended(Ended { reads, writes: Run::default() });
}

/// A file is closed that has no open file.
#[cold]
#[inline(never)]
pub fn closed(learning: Learning) {
    tell(learning, [Run::default(); 2]);
}

/// One is closed that has. Its lock is held.
pub fn open_file_closed(file: &OpenFile) {
    let answered = |counter, way| Run {
        calls: file.counted(counter).try_into().unwrap_or(u32::MAX),
        is_dear: auto::is_dear(file, way),
    };
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
    THRESHOLDS.ended(Ended {
        reads: more(reads, learning.reads_in_order()),
        writes: more(writes, learning.small_writes()),
    });
}

//! What waits in other processes that live is written by the guard, because somebody asks for it.

use core::sync::atomic::Ordering::SeqCst;

use sweetspot_core::ledger::{Entry, Ledger};
use sweetspot_core::pending::{Owner, generation_of, owner_of, waiting_of};
use sweetspot_core::unwritten::{FLUSH_FAILED, FLUSH_TRIED, RECALLED, RECALLED_IN_VAIN};

use super::{BEGIN_MS_MAX, FINISH_MS_MAX, entries_of};
use crate::engine::entries;
use crate::engine::patience::{self, Patience, is_stopped};
use crate::floor::{proc, sys};

/// How long a process that was seen to be stopped in the middle of a flush may take for that, in
/// milliseconds: it may have been let go on.
const FLUSH_MS_MAX: u64 = 2;

/// Whether the guard may still do what it was asked: one that is only busy with many processes does in the end, one
/// that somebody has stopped is waited for as long as this lasts.
pub(super) fn may_begin(to_begin: &mut Patience, guard: u32) -> bool {
    to_begin.lasts(guard) || !is_stopped(guard)
}

/// Has the guard write what waits, at this moment, of a process that lives. One that works may be held
/// up for a moment, as by any flush of its own.
pub fn write_out(ledger: &Ledger, index: usize) {
    write_out_within(ledger, index, &mut Patience::new(u64::MAX), |_| true, |_| {});
}

/// Has the guard look at what waits in a process, without waiting for that.
pub(super) fn ask_for(ledger: &Ledger, index: usize) {
    ledger.header.take_bits[index / 64].fetch_or(1 << (index % 64), SeqCst);
    entries::wake_guard(ledger);
}

/// `patience`: for all of it, and what else is waited for with it. `is_wanted`: which entries are waited for. `in_vain`:
/// what is done with one of which something waits all the same.
pub(super) fn write_out_within(
    ledger: &Ledger,
    index: usize,
    patience: &mut Patience,
    is_wanted: impl Fn(&Entry) -> bool,
    in_vain: impl Fn(&Entry),
) {
    if ledger.slots[index].waiting.load(SeqCst) == 0 {
        return;
    }
    let mut last = 0;
    while let Some((at, word)) = waiting_from(ledger, index, last, &is_wanted) {
        if !wait_for(ledger, index, (at, word), patience)
            && let Some(entry) = ledger.entries().get(at)
        {
            in_vain(entry);
        }
        last = at + 1;
    }
}

/// What waits in a process whose entries are recalled is written. Where that was asked in vain, it comes before what is
/// done next: the process that writes it in the end looks whether that was done to its file.
pub(super) fn write_recalled_out(
    ledger: &Ledger,
    index: usize,
    patience: &mut Patience,
    is_wanted: impl Fn(&Entry) -> bool,
) {
    write_out_within(ledger, index, patience, is_wanted, |entry| {
        let _ = entry.is_recalled.compare_exchange(RECALLED, RECALLED_IN_VAIN, SeqCst, SeqCst);
        // What is done next is told from what an attempt of the guard left.
        patience::await_later_times(entry.left());
    });
}

/// Whether this process traces a thread, and has stopped it: it goes on when this one lets it.
fn has_stopped(thread: u32) -> bool {
    patience::state_of(thread) == Some(b't')
        && proc::tracer_of(thread as i32).and_then(proc::leader_of) == Some(sys::process_id())
}

/// The next entry of a slot, from one on, of which something waits; with its word.
fn waiting_from(
    ledger: &Ledger,
    index: usize,
    from: usize,
    is_wanted: impl Fn(&Entry) -> bool,
) -> Option<(usize, u64)> {
    let entries = entries_of(ledger, index).skip_while(|(entry, _)| *entry < from);
    entries.filter(|(_, entry)| is_wanted(entry)).find_map(|(entry, now)| {
        let word = now.word.load(SeqCst);
        (waiting_of(word) > 0).then_some((entry, word))
    })
}

/// Whether the guard cannot write what waits. `has_tried`: since it was asked it has given that back.
fn is_in_vain(entry: &Entry, has_tried: bool) -> bool {
    match entry.flushing.load(SeqCst) {
        // It writes that when the process has ended.
        FLUSH_FAILED => true,
        FLUSH_TRIED => has_tried,
        // Somebody has changed the file since that was asked in vain.
        _ => has_tried && entry.is_recalled.load(SeqCst) == RECALLED_IN_VAIN,
    }
}

/// Asks until what a word said to wait is written. False: in vain.
fn wait_for(
    ledger: &Ledger,
    index: usize,
    (entry, seen): (usize, u64),
    patience: &mut Patience,
) -> bool {
    let Some(entry) = ledger.entries().get(entry) else { return true };
    // A flush that fails advances the generation, too.
    let is_tried = |word| waiting_of(word) > 0 && entry.was_tried();
    let given_back_before = entry.given_back.load(SeqCst);
    let mut to_begin = Patience::with_guard(&ledger.header, BEGIN_MS_MAX);
    while entries::is_guard_alive(ledger) {
        let given_back = entry.given_back.load(SeqCst);
        let word = entry.word.load(SeqCst);
        let mut worker = entries::guard_thread(ledger);
        let ms_max = match owner_of(word) {
            _ if generation_of(word) != generation_of(seen) && !is_tried(word) => return true,
            Owner::Returned => return true,
            Owner::Program => {
                worker = entry.flusher.load(SeqCst);
                if patience::state_of(worker).is_none() {
                    // It has ended with its process.
                    worker = ledger.slots[index].pid.load(SeqCst);
                }
                if has_stopped(worker) {
                    return true;
                }
                if is_stopped(worker) { FLUSH_MS_MAX } else { FINISH_MS_MAX }
            }
            Owner::Guard => FINISH_MS_MAX,
            Owner::Nobody if is_in_vain(entry, given_back != given_back_before) => return false,
            Owner::Nobody => {
                ask_for(ledger, index);
                match may_begin(&mut to_begin, worker) {
                    true => FINISH_MS_MAX,
                    false => return false,
                }
            }
        };
        if patience.waited_ms() > ms_max || !patience.lasts(worker) {
            // What it writes itself it writes when it goes on.
            return owner_of(word) == Owner::Program;
        }
        sys::futex_wait(&entry.given_back, given_back, 1);
    }
    // Without a guard it is the process' own to write.
    true
}

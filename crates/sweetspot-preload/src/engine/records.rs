//! What the summary says of each file: its record in the ledger, where one is wanted.
#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::cost::Cost;
use sweetspot_core::ledger::{FILES_MAX, FLAG_SUMMARY, Way};

use super::file::OpenFile;
use super::ledger::ledger;
use crate::floor::{proc, sys};

/// Gives an open file its record in the ledger, if a summary is wanted: counters go there.
pub fn begin(file: &OpenFile, fd: i32) {
    if !file.file_record.load(Relaxed).is_null() {
        return;
    }
    let Some(ledger) = ledger() else { return };
    if ledger.header.flags.load(Relaxed) & FLAG_SUMMARY == 0 {
        // The memory of the records is only there when somebody wants them.
        return;
    }
    let index = ledger.header.files.fetch_add(1, Relaxed) as usize;
    // The last record is shared by all that come too late.
    let record = &ledger.files[index.min(FILES_MAX - 1)];
    record.device.store(file.device.load(Relaxed), Relaxed);
    record.inode.store(file.inode.load(Relaxed), Relaxed);
    record.buffer.store(file.buffer.load(Relaxed), Relaxed);
    let mut path = [0; 512];
    record.path.store(proc::path_of(fd, &mut path));
    record.pid.store(sys::process_id() as u32, Relaxed);
    for (shared, own) in record.counters.iter().zip(&file.counters.0) {
        shared.fetch_add(own.load(Relaxed), Relaxed);
    }
    record.why.fetch_or(file.why.load(Relaxed), Relaxed);
    file.record.store((&raw const record.counters).cast_mut(), Relaxed);
    file.file_record.store((&raw const *record).cast_mut(), Relaxed);
}

/// Another size is in force for an open file: the summary says so, if there is one.
pub fn buffer_changed(file: &OpenFile) {
    // SAFETY: records of the ledger stay mapped.
    if let Some(record) = unsafe { file.file_record.load(Relaxed).as_ref() } {
        record.buffer.store(file.buffer.load(Relaxed), Relaxed);
    }
}

/// Says in the summary, if there is one, what transfers of a file cost, and which size was chosen.
pub fn tell_cost(file: &OpenFile, way: Way, cost: Option<Cost>, chosen_bytes: u64) {
    // SAFETY: records of the ledger stay mapped.
    if let Some(record) = unsafe { file.file_record.load(Relaxed).as_ref() } {
        record.costs[way as usize].store(cost.map_or(0, Cost::to_word), Relaxed);
        record.chosen[way as usize].fetch_max(chosen_bytes as u32, Relaxed);
    }
}

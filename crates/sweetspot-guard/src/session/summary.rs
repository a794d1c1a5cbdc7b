//! What the processes of a tree did, as they have recorded it in the ledger.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use sweetspot_core::cost::Cost;
use sweetspot_core::ledger::{BUFFER_AUTO, BUFFER_OFF, Counter, FLAG_SUMMARY, TEXT_BYTES_MAX, Way};
use sweetspot_core::size::BufferSize;
use sweetspot_core::why::Why;

use super::{OwnedLedger, buffer_word};

/// What the processes of a tree did, as far as they recorded it.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Processes that loaded the library.
    pub processes: u32,
    /// Files, one for each device, inode and path, in the order of their first use.
    pub files: Vec<FileSummary>,
    /// Files for which there was no record of their own any more.
    pub files_beyond: u32,
    /// Pieces that could not be written where they belong and were saved beside.
    pub saved: u32,
    /// Pieces that could not even be saved; `sweetspot recover` can try again.
    pub stuck: u32,
    /// Where the last of the saved pieces is; its last 256 bytes.
    pub saved_path: Vec<u8>,
    /// Each reason for which a whole process was not buffered.
    pub why: Vec<Why>,
}

impl OwnedLedger {
    /// What the processes of the tree have recorded so far.
    pub fn summary(&self) -> Summary {
        let header = &self.ledger.header;
        let mut files: Vec<FileSummary> = Vec::new();
        let mut places: BTreeMap<(u64, u64, Vec<u8>), usize> = BTreeMap::new();
        // Without a summary wanted the records may have no memory.
        let is_wanted = header.flags.load(Relaxed) & FLAG_SUMMARY != 0;
        let records = if is_wanted { &self.ledger.files[..] } else { &[] };
        for record in records.iter().filter(|record| record.pid.load(SeqCst) != 0) {
            let path = record.path.load(&mut [0; TEXT_BYTES_MAX]).to_vec();
            let (device, inode) = (record.device.load(Relaxed), record.inode.load(Relaxed));
            let place = *places.entry((device, inode, path.clone())).or_insert_with(|| {
                files.push(FileSummary { path, device, inode, ..FileSummary::default() });
                files.len() - 1
            });
            files[place].add(record);
        }
        Summary {
            processes: header.processes.load(Relaxed),
            files_beyond: header.files.load(Relaxed).saturating_sub(self.ledger.files.len() as u32),
            saved: header.saved.load(Relaxed),
            stuck: header.stuck.load(Relaxed),
            saved_path: header.saved_path.load(&mut [0; TEXT_BYTES_MAX]).to_vec(),
            why: Why::among(header.why.load(Relaxed)).collect(),
            files,
        }
    }
}

/// What all processes did with one file.
#[derive(Clone, Debug, Default)]
pub struct FileSummary {
    /// The path at which it was opened; its last 256 bytes.
    pub path: Vec<u8>,
    pub device: u64,
    pub inode: u64,
    /// Records that are added up here: one for each process that used it.
    pub records: u32,
    /// The size in force; the largest where processes differ.
    pub buffer: Option<BufferSize>,
    /// Each reason for which calls passed through.
    pub why: Vec<Why>,
    /// By [`Way`].
    chosen: [Option<Chosen>; Way::COUNT],
    counters: [u64; Counter::COUNT],
}

/// The size of buffer that was chosen, in bytes, and what calls cost there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub bytes: u32,
    pub cost: Cost,
}

impl FileSummary {
    /// What was chosen for one way that bytes go; of several processes the largest.
    pub fn chosen(&self, way: Way) -> Option<Chosen> {
        self.chosen[way as usize]
    }

    /// What was counted, over all processes.
    pub fn count(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    /// The path, as far as it is known.
    pub fn path(&self) -> &Path {
        Path::new(std::ffi::OsStr::from_bytes(&self.path))
    }

    fn add(&mut self, record: &sweetspot_core::ledger::FileRecord) {
        self.records += 1;
        for (sum, counter) in self.counters.iter_mut().zip(&record.counters) {
            *sum = sum.saturating_add(counter.load(Relaxed));
        }
        for way in [Way::Read, Way::Write] {
            let bytes = record.chosen[way as usize].load(Relaxed);
            let cost = Cost::from_word(record.costs[way as usize].load(Relaxed));
            let known = &mut self.chosen[way as usize];
            // What calls cost may be known, and nothing chosen: no buffer came of it.
            if let Some(cost) = cost
                && bytes > 0
                && known.is_none_or(|known| known.bytes <= bytes)
            {
                *known = Some(Chosen { bytes, cost });
            }
        }
        let buffer = record.buffer.load(Relaxed);
        // BUFFER_AUTO is the largest word, BUFFER_OFF the smallest.
        let buffer = self.buffer.map_or(buffer, |known| buffer_word(known).max(buffer));
        self.buffer = Some(buffer_size(buffer));
        let known = self.why.iter().fold(0, |bits, why| bits | why.bit());
        self.why = Why::among(known | record.why.load(Relaxed)).collect();
    }
}

/// The size that a word of the ledger says.
fn buffer_size(word: u32) -> BufferSize {
    match word {
        BUFFER_OFF => BufferSize::Off,
        BUFFER_AUTO => BufferSize::Auto,
        bytes => BufferSize::Bytes(bytes),
    }
}

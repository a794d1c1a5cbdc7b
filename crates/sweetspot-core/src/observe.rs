//! What `profile` records: the memory in which the processes of a tree count their calls.
//!
//! It lies in the ledger's file, where under `run` the write buffers lie ([`OBSERVATIONS_AT`]): a tree
//! that is observed buffers nothing, so it has no write buffers. Counters are shared memory, so those
//! of a process that is killed are kept.
//!
//! # Who writes what
//! A [`Process`] and its [`Record`]s: that process. While there is room ([`RECORDS_APART`]) a process
//! has a record of its own for each path; later ones share one for each path, and count in it by
//! locked additions. Records are found by a chain from `buckets` and are never given back.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::ledger::{Text, WRITE_BUFFERS_AT};
use crate::shadow::Would;

/// Where the observations begin, in bytes from the start of the ledger's file.
pub const OBSERVATIONS_AT: u64 = WRITE_BUFFERS_AT;
/// Programs, over all processes (an exec begins another one), that are told apart.
pub const PROCESSES_MAX: usize = 4096;
/// Paths, for each process that has records of its own. Whatever comes later is counted in the last.
pub const RECORDS_MAX: usize = 8192;
/// Processes that begin when so many records are in use share theirs from then on: the other half
/// is for paths.
pub const RECORDS_APART: usize = RECORDS_MAX / 2;
/// Chains of records.
pub const BUCKETS: usize = 4096;
/// Sizes of transfers: bucket 0 for nothing, `n` for 2^(n-1) to 2^n - 1 bytes, the last for more.
pub const SIZES: usize = 26;

/// The bucket of a size in bytes.
#[inline(always)]
pub fn size_bucket(bytes: u64) -> usize {
    ((64 - bytes.leading_zeros()) as usize).min(SIZES - 1)
}

/// A kind of call that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    Read,
    Write,
    Seek,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Seek];
}

/// What is counted for each record besides sizes and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Tally {
    Opens,
    ReadBytes,
    WrittenBytes,
    Seeks,
    /// Seeks to where the position was.
    SeeksNowhere,
    /// Other calls on the file: sizes, syncs, flags.
    OtherCalls,
    /// Bytes moved inside the kernel: sendfile, copy_file_range.
    TransferCalls,
    TransferBytes,
    /// Times it was mapped into memory.
    Maps,
    /// Calls that C's stdio made.
    StdioReads,
    StdioWrites,
    StdioSeeks,
    /// Transfers that did not begin where the one before ended: at the same distance again, else.
    Strided,
    Random,
    /// Transfers of bytes that had been read or written before, as far as one stretch tells.
    ReReads,
    ReWrites,
    /// Reads that found the end.
    Ends,
    /// Calls that failed.
    Failed,
}

impl Tally {
    /// How many there are.
    pub const COUNT: usize = Tally::Failed as usize + 1;
}

/// Sampled times of one kind of call, in nanoseconds.
#[repr(C)]
pub struct Times {
    /// Small calls that were timed, one in [`SAMPLE_GAP`] on average, and their time, without
    /// those that waited.
    pub timed: AtomicU64,
    pub timed_ns: AtomicU64,
    /// Of the small calls that were timed, those that took [`WAIT_NS`] or longer.
    pub waits: AtomicU64,
    pub waits_ns: AtomicU64,
    /// Calls that moved [`LARGE_BYTES`] or more. Each is timed, but for those of files that are
    /// counted by folder.
    pub large: AtomicU64,
    pub large_ns: AtomicU64,
}

/// Small calls between two that are timed, on average. Two readings of the clock cost 46 ns: less
/// than a nanosecond a call.
pub const SAMPLE_GAP: u32 = 64;
/// Calls that ask for at least that many bytes are timed: they take microseconds.
pub const LARGE_BYTES: u64 = 32 << 10;
pub use crate::policy::WAIT_NS;

/// One path, as used by one process (or by all that came late).
#[repr(C, align(64))]
pub struct Record {
    // What a call touches, close together.
    pub sizes_read: [AtomicU64; SIZES],
    pub sizes_written: [AtomicU64; SIZES],
    pub tallies: [AtomicU64; Tally::COUNT],
    pub would: [AtomicU64; Would::COUNT],
    pub times: [Times; Kind::ALL.len()],
    /// 1 more than the index of its process; 0: of all that share records.
    pub owner: AtomicU32,
    /// 1 more than the index of the next record in its chain; 0: the last.
    pub next: AtomicU32,
    pub hash: AtomicU64,
    /// Bits of [`crate::why::Why`]: each reason for which calls would have passed through.
    pub why: AtomicU64,
    /// Bits of `IS_*`.
    pub what: AtomicU32,
    /// 1 once everything above is stored.
    pub ready: AtomicU32,
    /// The largest size that was seen, in bytes.
    pub size: AtomicU64,
    pub path: Text,
}

/// `Record::what`: known to be a regular file, or something else.
pub const IS_REGULAR: u32 = 1;
pub const IS_OTHER: u32 = 2;
/// It was open before the program started.
pub const IS_INHERITED: u32 = 4;

/// A program in a process.
#[repr(C)]
pub struct Process {
    pub pid: AtomicU32,
    pub parent: AtomicU32,
    /// Bits of [`crate::why::Why`] that hold for all of its files.
    pub why: AtomicU64,
    /// Calls that are no reads, writes or seeks and that buffering would notice.
    pub other_calls: AtomicU64,
    /// 1: calls that libc makes on its own account are seen; 2: they are not.
    pub stdio: AtomicU32,
    _reserved: AtomicU32,
    /// How long its first thread has waited for a processor until it ended, in nanoseconds.
    pub delayed_ns: AtomicU64,
    /// The name of its program.
    pub program: Text,
}

/// Where in a program calls on a record are made: a sample of them (`profile --where`).
#[repr(C)]
pub struct CallSite {
    /// Tells it from others: a hash of process, record and address; 0: free.
    key: AtomicU64,
    /// 1 more than the index of its record.
    pub record: AtomicU32,
    /// 1 once everything but `samples` is stored.
    pub ready: AtomicU32,
    pub samples: AtomicU64,
    /// Where such a call returns to, in bytes from the start of the module's file.
    pub offset: AtomicU64,
    /// The path of the module: a program or a library.
    pub module: Text,
}

/// Places, over all processes. Samples of others are lost.
pub const PLACES_MAX: usize = 2048;
/// Neighbours that are tried for a place before its sample is lost.
const PLACES_TRIED: usize = 64;

/// Where a sample is counted.
pub enum Placed<'a> {
    Known(&'a CallSite),
    /// To be described, and made ready, by anyone who got it.
    New(&'a CallSite),
}

/// What the program was given to read is nobody else's.
pub const OUTSIDE_ALONE: u32 = 0;
/// It is another process', too.
pub const OUTSIDE_SHARED: u32 = 1;
/// Somebody who might have what the program, or any child, is given cannot be looked at.
pub const OUTSIDE_UNKNOWN: u32 = 2;

/// Everything.
#[repr(C)]
pub struct Observations {
    /// Processes and records handed out (may run past the limits).
    pub processes_used: AtomicU32,
    pub records_used: AtomicU32,
    /// `OUTSIDE_...`: what is known of descriptions that come from outside.
    pub outside: AtomicU32,
    pub _reserved: AtomicU32,
    /// 1 more than the index of the first record in each chain.
    pub buckets: [AtomicU32; BUCKETS],
    pub processes: [Process; PROCESSES_MAX],
    pub records: [Record; RECORDS_MAX],
    pub places: [CallSite; PLACES_MAX],
}

/// A hash of a path, for the chains: eight bytes at a time, as it is taken at each opening.
fn hash(path: &[u8]) -> u64 {
    let (words, rest) = path.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash = words.iter().chain([&last]).fold(path.len() as u64, |hash, word| {
        (hash.rotate_left(29) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    // The low bits choose the chain, and the fewest bytes have reached them.
    hash ^ (hash >> 32)
}

impl Observations {
    /// The record of `path` for `owner`, if there is one.
    pub fn find(&self, owner: u32, path: &[u8]) -> Option<&Record> {
        self.find_hashed(owner, path, hash(path))
    }

    fn find_hashed(&self, owner: u32, path: &[u8], hash: u64) -> Option<&Record> {
        let mut index = self.bucket(owner, hash).load(Relaxed);
        while let Some(record) = self.record_at(index) {
            if record.hash.load(Relaxed) == hash
                && record.owner.load(Relaxed) == owner
                && record.path.is(path)
            {
                return Some(record);
            }
            index = record.next.load(Relaxed);
        }
        None
    }

    fn bucket(&self, owner: u32, hash: u64) -> &AtomicU32 {
        &self.buckets[(hash ^ u64::from(owner)) as usize % BUCKETS]
    }

    /// The record of `path` for `owner`, made if there is none yet. The last record is that of all
    /// for which there was no room.
    pub fn record(&self, owner: u32, path: &[u8]) -> &Record {
        let hash = hash(path);
        if let Some(record) = self.find_hashed(owner, path, hash) {
            return record;
        }
        let bucket = self.bucket(owner, hash);
        let last = RECORDS_MAX - 1;
        let index = (self.records_used.fetch_add(1, Relaxed) as usize).min(last);
        let record = &self.records[index];
        if index == last {
            record.ready.store(1, Relaxed);
            return record;
        }
        record.hash.store(hash, Relaxed);
        record.owner.store(owner, Relaxed);
        record.path.store(path);
        record.ready.store(1, Relaxed);
        let mut first = bucket.load(Relaxed);
        loop {
            record.next.store(first, Relaxed);
            let swapped = bucket.compare_exchange(
                first,
                index as u32 + 1,
                core::sync::atomic::Ordering::AcqRel,
                Relaxed,
            );
            match swapped {
                Ok(_) => return record,
                Err(now) => first = now,
            }
        }
    }

    /// The place of a call on `record` that returns to `address` in the process `pid`.
    pub fn place(&self, pid: u32, record: &Record, address: u64) -> Option<Placed<'_>> {
        let first = self.records.as_ptr() as usize;
        let index = ((&raw const *record) as usize).wrapping_sub(first) / size_of::<Record>();
        let words = [u64::from(pid), index as u64, address];
        let key = hash(words.map(u64::to_le_bytes).as_flattened()) | 1;
        for step in 0..PLACES_TRIED {
            let place = &self.places[(key as usize >> 1).wrapping_add(step) % PLACES_MAX];
            let found = match place.key.load(Relaxed) {
                0 => match place.key.compare_exchange(0, key, Relaxed, Relaxed) {
                    Ok(_) => {
                        place.record.store(index as u32 + 1, Relaxed);
                        return Some(Placed::New(place));
                    }
                    Err(found) => found,
                },
                found => found,
            };
            if found == key {
                return Some(Placed::Known(place));
            }
        }
        None
    }

    /// The owner of the records of a process that begins now: 1 more than its index, or 0.
    pub fn owner(&self, process: usize) -> u32 {
        let is_apart = (self.records_used.load(Relaxed) as usize) < RECORDS_APART;
        // The last place is shared by all for which there was no room.
        if is_apart && process < PROCESSES_MAX - 1 { process as u32 + 1 } else { 0 }
    }

    fn record_at(&self, index: u32) -> Option<&Record> {
        self.records.get((index as usize).wrapping_sub(1))
    }

    /// Whether a record is that of all for which there was no room, or one that many share.
    pub fn is_shared(&self, record: &Record) -> bool {
        record.owner.load(Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::format;

    fn observations() -> Box<Observations> {
        // This crate has no unsafe code, so zeros are made field by field.
        let text = || {
            let text = Text::new();
            text.store(b"");
            text
        };
        let zeros = || AtomicU64::new(0);
        let times = || Times {
            timed: zeros(),
            timed_ns: zeros(),
            waits: zeros(),
            waits_ns: zeros(),
            large: zeros(),
            large_ns: zeros(),
        };
        let process = |_| Process {
            pid: AtomicU32::new(0),
            parent: AtomicU32::new(0),
            why: zeros(),
            other_calls: zeros(),
            stdio: AtomicU32::new(0),
            _reserved: AtomicU32::new(0),
            delayed_ns: zeros(),
            program: text(),
        };
        let record = |_| Record {
            sizes_read: core::array::from_fn(|_| zeros()),
            sizes_written: core::array::from_fn(|_| zeros()),
            tallies: core::array::from_fn(|_| zeros()),
            would: core::array::from_fn(|_| zeros()),
            times: core::array::from_fn(|_| times()),
            owner: AtomicU32::new(0),
            next: AtomicU32::new(0),
            hash: zeros(),
            why: zeros(),
            what: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            size: zeros(),
            path: text(),
        };
        let place = |_| CallSite {
            key: zeros(),
            record: AtomicU32::new(0),
            ready: AtomicU32::new(0),
            samples: zeros(),
            offset: zeros(),
            module: text(),
        };
        Box::new(Observations {
            processes_used: AtomicU32::new(0),
            records_used: AtomicU32::new(0),
            outside: AtomicU32::new(OUTSIDE_ALONE),
            _reserved: AtomicU32::new(0),
            buckets: core::array::from_fn(|_| AtomicU32::new(0)),
            processes: core::array::from_fn(process),
            records: core::array::from_fn(record),
            places: core::array::from_fn(place),
        })
    }

    #[test]
    fn sizes_have_their_bucket() {
        for (bytes, bucket) in
            [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (200, 8), (4096, 13), (u64::MAX, SIZES - 1)]
        {
            assert_eq!(size_bucket(bytes), bucket, "{bytes}");
        }
    }

    #[test]
    fn places_are_told_apart_and_bounded() {
        std::thread::Builder::new()
            .stack_size(128 << 20)
            .spawn(|| {
                let all = observations();
                let is_new = |pid, record: usize, address| {
                    let placed = all.place(pid, &all.records[record], address);
                    placed.map(|placed| matches!(placed, Placed::New(_)))
                };
                assert_eq!(is_new(1, 5, 0x1000), Some(true));
                assert_eq!(is_new(1, 5, 0x1000), Some(false));
                for (pid, record, address) in [(2, 5, 0x1000), (1, 6, 0x1000), (1, 5, 0x1001)] {
                    assert_eq!(is_new(pid, record, address), Some(true));
                }
                let ready = (0..3 * PLACES_MAX as u64).filter(|n| is_new(1, 0, *n) == Some(true));
                assert!(ready.count() > PLACES_MAX / 2);
                assert_eq!(is_new(1, 5, 0x1000), Some(false));
                let used = all.places.iter().filter(|place| place.record.load(Relaxed) > 0);
                assert!(used.count() <= PLACES_MAX);
            })
            .unwrap()
            .join()
            .unwrap();
    }

    #[test]
    fn records_are_found_again_and_the_last_one_is_shared() {
        // Far more than a test's stack.
        std::thread::Builder::new()
            .stack_size(128 << 20)
            .spawn(|| {
                let all = observations();
                assert_eq!(all.owner(PROCESSES_MAX - 2), PROCESSES_MAX as u32 - 1);
                assert_eq!(all.owner(PROCESSES_MAX - 1), 0);
                let first = all.record(1, b"/data/in");
                assert!(core::ptr::eq(first, all.record(1, b"/data/in")));
                assert!(!core::ptr::eq(first, all.record(2, b"/data/in")));
                assert!(!core::ptr::eq(first, all.record(1, b"/data/out")));
                let long = [b'x'; 300];
                assert!(core::ptr::eq(all.record(1, &long), all.record(1, &long)));
                let used = all.records_used.load(Relaxed) as usize;
                for index in used..RECORDS_MAX - 1 {
                    let owner = if index < RECORDS_APART { 8 } else { 0 };
                    assert_eq!(all.owner(7), owner, "{index} records in use");
                    let path = format!("/{index}");
                    assert!(!all.is_shared(all.record(1, path.as_bytes())), "{index}");
                }
                let beyond = all.record(1, b"/beyond");
                assert!(all.is_shared(beyond));
                assert!(core::ptr::eq(beyond, all.record(7, b"/farther")));
                assert!(core::ptr::eq(first, all.record(1, b"/data/in")));
            })
            .unwrap()
            .join()
            .unwrap();
    }
}

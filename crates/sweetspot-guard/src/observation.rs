//! The counters of a tree of processes that is observed (`profile`): made before it starts, read
//! while it runs and afterwards.
//!
//! They lie in a ledger of their own kind: nothing is pending in it, so there is no guard. Processes
//! write there, also ones that have given up rights since: what is read is taken for numbers and
//! names, never for places.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use sweetspot_core::ledger::{
    FLAG_EXACT, FLAG_OBSERVE, FLAG_PLACES, FLAG_TRACE, FOLDER, TEXT_BYTES_MAX, Text,
};
use sweetspot_core::observe::{
    self, IS_INHERITED, IS_OTHER, IS_REGULAR, Kind, OBSERVATIONS_AT, OUTSIDE_ALONE, OUTSIDE_SHARED,
    OUTSIDE_UNKNOWN, Observations, PROCESSES_MAX, RECORDS_MAX, Record, SIZES, Tally,
};
use sweetspot_core::shadow::Would;
use sweetspot_core::size::BufferSize;
use sweetspot_core::trace::{self, Line, TRACE_AT, Trace};
use sweetspot_core::why::Why;

use crate::error::{Error, ErrorKind};
use crate::guard::alone::{can_tell, is_alone};
use crate::session::{MAKE, Rule, Settings, fill, make_file, not_made};
use crate::sys::{self, Mapped};

/// Counters of a tree that this process is about to start.
pub struct Observation {
    counters: Mapped<Observations>,
    trace: Option<Mapped<Trace>>,
    path: PathBuf,
    /// Its flock says that the file is in use.
    _file: File,
}

/// What is wanted besides counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of a sample of calls: where in the program they are made.
    pub places: bool,
    /// The calls that are followed closely, one by one.
    pub trace: bool,
    /// All calls are followed closely, no sample of them.
    pub exact: bool,
    /// State folders in which runs keep what calls cost, as far as `auto` will know it.
    pub costs: Vec<PathBuf>,
    /// Rules that `run` would follow.
    pub rules: Vec<Rule>,
}

impl Observation {
    /// Makes the counters, in memory that has a name.
    ///
    /// # Errors
    /// Each means that nothing was left behind. Without counters there is nothing to observe with.
    pub fn create(what: Wanted) -> Result<Observation, Error> {
        let folder = Path::new(FOLDER);
        let size = match what.trace {
            true => TRACE_AT + size_of::<Trace>() as u64,
            false => OBSERVATIONS_AT + size_of::<Observations>() as u64,
        };
        let (limit_bytes, _) =
            sys::Resource::FileBytes.limit().map_err(|error| Error::system(MAKE, folder, error))?;
        if limit_bytes < size {
            return Err(Error::new(MAKE, folder, ErrorKind::FileSizeLimit, None));
        }
        let (path, file) = make_file(folder)?;
        let Wanted { costs, places, trace, exact, rules } = what;
        let settings =
            Settings { buffer: BufferSize::Off, guard: false, costs, rules, ..Settings::default() };
        let made = fill(&file, size, &settings, false).and_then(|ledger| {
            // All of it before anyone may touch it: a full memory file system is an error here.
            sys::allocate(&file, OBSERVATIONS_AT, size - OBSERVATIONS_AT)?;
            let places = if places { FLAG_PLACES } else { 0 };
            let log = if trace { FLAG_TRACE } else { 0 };
            let exact = if exact { FLAG_EXACT } else { 0 };
            ledger.header.flags.store(FLAG_OBSERVE | places | log | exact, Relaxed);
            Ok((Mapped::new(&file)?, trace.then(|| Mapped::new(&file)).transpose()?))
        });
        match made {
            Ok((counters, trace)) => Ok(Observation { counters, trace, path, _file: file }),
            Err(error) => Err(not_made(&path, folder, error)),
        }
    }

    /// Finds out whether others have what this process, which is about to become the program, was given to read, and
    /// whether that could be known of anything: a file that others have is not buffered.
    pub fn look_at_input(&self, pid: u32) {
        let is_file = fs::metadata(format!("/proc/{pid}/fd/0")).is_ok_and(|file| file.is_file());
        let outside = match () {
            () if !can_tell(pid) => OUTSIDE_UNKNOWN,
            () if is_file && !is_alone(pid, 0) => OUTSIDE_SHARED,
            () => OUTSIDE_ALONE,
        };
        self.counters.outside.store(outside, Relaxed);
    }

    /// The file, for the program's environment.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls and bytes so far, over all processes: for anyone who watches.
    pub fn so_far(&self) -> (u64, u64) {
        self.records().fold((0, 0), |(calls, bytes), record| {
            let tally = |tally: Tally| record.tallies[tally as usize].load(Relaxed);
            let transfers = record.sizes_read.iter().chain(&record.sizes_written);
            let transfers: u64 = transfers.map(|count| count.load(Relaxed)).sum();
            (
                calls + transfers + tally(Tally::Seeks),
                bytes + tally(Tally::ReadBytes) + tally(Tally::WrittenBytes),
            )
        })
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.numbered_records().map(|(_, record)| record)
    }

    fn numbered_records(&self) -> impl Iterator<Item = (usize, &Record)> {
        let used = self.counters.records_used.load(Relaxed) as usize;
        let records = self.counters.records[..used.min(RECORDS_MAX)].iter().enumerate();
        records.filter(|(_, record)| record.ready.load(Relaxed) != 0)
    }

    /// The calls that were followed closely, in order, as far as there was room; and how many found
    /// none. Empty where none were wanted.
    pub fn calls(&self) -> (Vec<Line>, u64) {
        let Some(trace) = &self.trace else { return (Vec::new(), 0) };
        let used = trace.used.load(Relaxed);
        let events = trace.events[..(used as usize).min(trace::EVENTS_MAX)].iter();
        let lost = used.saturating_sub(trace::EVENTS_MAX as u64);
        (events.filter_map(trace::Event::read).collect(), lost)
    }

    fn places(&self) -> Vec<CallSite> {
        let ready = |place: &&observe::CallSite| place.ready.load(Relaxed) != 0;
        let place = |place: &observe::CallSite| {
            let record = (place.record.load(Relaxed) as usize).checked_sub(1)?;
            Some(CallSite {
                path: text(&self.counters.records.get(record)?.path),
                samples: place.samples.load(Relaxed),
                module: text(&place.module),
                offset: place.offset.load(Relaxed),
            })
        };
        self.counters.places.iter().filter(ready).filter_map(place).collect()
    }

    /// What was counted.
    pub fn read(&self) -> Observed {
        let used = self.counters.processes_used.load(Relaxed) as usize;
        let processes = self.counters.processes[..used.min(PROCESSES_MAX)].iter();
        Observed {
            processes: processes
                .map(|process| Process {
                    pid: process.pid.load(Relaxed),
                    parent: process.parent.load(Relaxed),
                    program: text(&process.program),
                    why: Why::among(process.why.load(Relaxed)).collect(),
                    other_calls: process.other_calls.load(Relaxed),
                    delayed: Duration::from_nanos(process.delayed_ns.load(Relaxed)),
                    sees_stdio: process.stdio.load(Relaxed) == 1,
                })
                .collect(),
            processes_beyond: used.saturating_sub(PROCESSES_MAX),
            records: self.numbered_records().map(usage).collect(),
            places: self.places(),
            records_beyond: (self.counters.records_used.load(Relaxed) as usize)
                .saturating_sub(RECORDS_MAX - 1),
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        // Processes that live on keep their mapping.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Everything that was counted.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Programs in processes, in the order of their start.
    pub processes: Vec<Process>,
    /// Those for which there was no room.
    pub processes_beyond: usize,
    pub records: Vec<Usage>,
    /// Where in programs calls were made, where that was wanted.
    pub places: Vec<CallSite>,
    /// Paths that share the last record, for want of room.
    pub records_beyond: usize,
}

/// Where in a program, or a library of it, calls on a path were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSite {
    pub path: Vec<u8>,
    /// Calls that were looked at.
    pub samples: u64,
    /// The file of the program or library; where in it the calls return to, in bytes from its start.
    pub module: Vec<u8>,
    pub offset: u64,
}

/// A program in a process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub pid: u32,
    pub parent: u32,
    pub program: Vec<u8>,
    /// Reasons for which nothing of it would be buffered.
    pub why: Vec<Why>,
    /// Calls that are no reads, writes or seeks and that buffering would notice.
    pub other_calls: u64,
    /// How long its first thread has waited for a processor; zero where it was killed.
    pub delayed: Duration,
    /// Whether calls of libc's own were seen.
    pub sees_stdio: bool,
}

/// What one process did with one path, or all later ones together.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// By which number the trace knows it.
    pub record: usize,
    /// Index into `Observed::processes`; `None`: several.
    pub process: Option<usize>,
    pub path: Vec<u8>,
    /// Whether it is a regular file, where that is known.
    pub regular: Option<bool>,
    /// It was open before the program started.
    pub inherited: bool,
    pub why: Vec<Why>,
    pub size: u64,
    pub sizes_read: [u64; SIZES],
    pub sizes_written: [u64; SIZES],
    pub times: [Times; Kind::ALL.len()],
    tallies: [u64; Tally::COUNT],
    would: [u64; Would::COUNT],
}

/// Sampled times of one kind of call; see `sweetspot_core::observe::Times`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub timed: u64,
    pub timed_ns: u64,
    pub waits: u64,
    pub waits_ns: u64,
    pub large: u64,
    pub large_ns: u64,
}

impl Usage {
    /// What was counted.
    pub fn tally(&self, tally: Tally) -> u64 {
        self.tallies[tally as usize]
    }

    /// What buffering would have done.
    pub fn would(&self, would: Would) -> u64 {
        self.would[would as usize]
    }

    /// Calls of one kind.
    pub fn calls(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Read => self.sizes_read.iter().sum(),
            Kind::Write => self.sizes_written.iter().sum(),
            Kind::Seek => self.tally(Tally::Seeks),
        }
    }
}

fn usage((number, record): (usize, &Record)) -> Usage {
    let load = |counter: &AtomicU64| counter.load(Relaxed);
    let what = record.what.load(Relaxed);
    let owner = record.owner.load(Relaxed) as usize;
    Usage {
        record: number,
        process: owner.checked_sub(1).filter(|index| *index < PROCESSES_MAX),
        path: text(&record.path),
        regular: match what {
            what if what & IS_OTHER != 0 => Some(false),
            what if what & IS_REGULAR != 0 => Some(true),
            _ => None,
        },
        inherited: what & IS_INHERITED != 0,
        why: Why::among(load(&record.why)).collect(),
        size: load(&record.size),
        sizes_read: record.sizes_read.each_ref().map(load),
        sizes_written: record.sizes_written.each_ref().map(load),
        times: record.times.each_ref().map(|times| Times {
            timed: load(&times.timed),
            timed_ns: load(&times.timed_ns),
            waits: load(&times.waits),
            waits_ns: load(&times.waits_ns),
            large: load(&times.large),
            large_ns: load(&times.large_ns),
        }),
        tallies: record.tallies.each_ref().map(load),
        would: record.would.each_ref().map(load),
    }
}

fn text(text: &Text) -> Vec<u8> {
    text.load(&mut [0; TEXT_BYTES_MAX]).to_vec()
}

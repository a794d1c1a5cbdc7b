//! From counters to a profile: names, kinds of files, sums for each process.

use super::Run;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use sweetspot_core::observe::{Kind, LARGE_BYTES, SIZES, Tally, size_bucket};
use sweetspot_core::shadow::Would;
use sweetspot_core::why::Why;
use sweetspot_guard::observation::{self, Observed, Usage};
use sweetspot_report::origin::Origin;
use sweetspot_report::profile::coverage;
use sweetspot_report::profile::data::{
    Costs, File, FileKind, Pattern, Process, Profile, SCHEMA, Size, Timed, Times,
};
use sweetspot_report::profile::sampled::{buffered, scaled};

/// Folders of files that the kernel makes up, or that are devices.
const MADE_UP: [&str; 3] = ["/proc/", "/sys/", "/dev/"];

/// Everything but what follows from costs.
pub fn profile(command: &[OsString], counted: &Observed, run: &Run) -> Profile {
    let mut kinds = HashMap::new();
    let files: Vec<File> =
        counted.records.iter().map(|usage| file(usage, &mut kinds)).filter(is_used).collect();
    let mut processes: Vec<Process> = counted.processes.iter().map(process).collect();
    for file in &files {
        if let Some(process) = file.process.and_then(|index| processes.get_mut(index)) {
            process.calls += file.calls();
            process.bytes += file.moved_bytes();
        }
    }
    Profile {
        sweetspot_profile: SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_string(),
        origin: Origin::default(),
        command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        ended: run.ended.to_string(),
        sentence: String::new(),
        seconds: run.seconds,
        observing_seconds: 0.0,
        processor_seconds: run.taken.processor.as_secs_f64(),
        evicted_seconds: evicted(run, counted),
        file_seconds: 0.0,
        other_seconds: 0.0,
        prediction: None,
        prediction_stdio: None,
        obstacle: run.obstacle.clone(),
        coverage: coverage::coverage(run.kernel.children, &files, &processes, &run.reach),
        costs: Costs::default(),
        insights: Vec::new(),
        files,
        processes,
        timeline: run.timeline.clone(),
        files_beyond: counted.records_beyond,
        processes_beyond: counted.processes_beyond,
    }
}

/// How long the program stood still though it could have gone on: that of its processes which did so
/// longest, as they mostly wait for each other. Of first threads the kernel
/// knows; of others it is the part of the time off the processor that evictions are of all pauses.
fn evicted(run: &Run, counted: &Observed) -> f64 {
    let idle = (run.seconds - run.taken.processor.as_secs_f64()).max(0.0);
    let pauses = run.taken.sleeps + run.taken.evictions;
    let estimate = idle * run.taken.evictions as f64 / pauses.max(1) as f64;
    let longest = counted.processes.iter().map(|process| process.delayed).max();
    let delayed = run.delayed.max(longest.unwrap_or_default()).as_secs_f64().min(idle);
    // A program that leaves the work to others is not delayed itself.
    if delayed > idle * 0.05 { delayed } else { estimate }
}

fn is_used(file: &File) -> bool {
    file.calls() + file.opens + file.transfers + file.maps > 0
}

fn process(process: &observation::Process) -> Process {
    let mut reasons = texts(&process.why);
    if !process.sees_stdio {
        reasons.push("the entries of this C library are not known, so stdio is not seen".into());
    }
    Process {
        pid: process.pid,
        parent: process.parent,
        program: String::from_utf8_lossy(&process.program).into_owned(),
        reasons,
        other_calls: process.other_calls,
        delayed_seconds: process.delayed.as_secs_f64(),
        ..Process::default()
    }
}

fn texts(why: &[Why]) -> Vec<String> {
    why.iter().map(|why| why.text().to_string()).collect()
}

fn file(usage: &Usage, kinds: &mut HashMap<String, FileKind>) -> File {
    let is_folder = usage.path.ends_with(b"/");
    let path = match usage.path.is_empty() {
        true => "(all further files)".to_string(),
        false => String::from_utf8_lossy(&usage.path).into_owned(),
    };
    let path = if is_folder { format!("{path}*") } else { path };
    let tally = |tally| usage.tally(tally);
    let would = |would| usage.would(would);
    let kind = match usage.regular {
        Some(true) => FileKind::File,
        Some(false) => FileKind::Other,
        None => *kinds.entry(path.clone()).or_insert_with(|| kind_of(&path)),
    };
    let calls = Kind::ALL.map(|kind| usage.calls(kind));
    let [reads, writes, seeks] = calls;
    let transfers = reads + writes;
    let empty = usage.sizes_read[0] + usage.sizes_written[0];
    let (strided, random) = (tally(Tally::Strided), tally(Tally::Random));
    File {
        record: usage.record,
        path,
        together: if is_folder { tally(Tally::Opens) } else { 0 },
        process: usage.process,
        kind,
        reasons: texts(&usage.why),
        opens: tally(Tally::Opens),
        reads,
        read_bytes: tally(Tally::ReadBytes),
        read_sizes: sizes(&usage.sizes_read),
        writes,
        written_bytes: tally(Tally::WrittenBytes),
        write_sizes: sizes(&usage.sizes_written),
        seeks,
        seeks_nowhere: scaled(tally(Tally::SeeksNowhere), would(Would::AskedSeeks), seeks),
        other_calls: tally(Tally::OtherCalls),
        transfers: tally(Tally::TransferCalls),
        transferred_bytes: tally(Tally::TransferBytes),
        maps: tally(Tally::Maps),
        stdio_calls: tally(Tally::StdioReads)
            + tally(Tally::StdioWrites)
            + tally(Tally::StdioSeeks),
        pattern: Pattern {
            sequential: transfers.saturating_sub(empty + strided + random),
            strided,
            random,
            re_reads: tally(Tally::ReReads),
            re_writes: tally(Tally::ReWrites),
        },
        failed: tally(Tally::Failed),
        ends: tally(Tally::Ends),
        buffered: buffered(would, calls, is_folder),
        timed: Timed {
            reads: times(&usage.times[Kind::Read as usize], &usage.sizes_read),
            writes: times(&usage.times[Kind::Write as usize], &usage.sizes_written),
            seeks: times(&usage.times[Kind::Seek as usize], &[0; SIZES]),
        },
        ..File::default()
    }
}

fn times(times: &observation::Times, sizes: &[u64; SIZES]) -> Times {
    // Of files that are counted by folder only some are timed: these stand for the others.
    let large = match times.large {
        0 => 0,
        timed => sizes[size_bucket(LARGE_BYTES)..].iter().sum::<u64>().max(timed),
    };
    Times {
        small: times.timed,
        small_ns: times.timed_ns,
        waits: times.waits,
        waits_ns: times.waits_ns,
        large,
        large_ns: scaled(times.large_ns, times.large, large),
    }
}

fn sizes(counts: &[u64; SIZES]) -> Vec<Size> {
    let used = counts.iter().enumerate().filter(|(_, calls)| **calls > 0);
    used.map(|(bucket, calls)| {
        let bytes_min = if bucket == 0 { 0 } else { 1 << (bucket - 1) };
        let bytes_max = match bucket {
            0 => 0,
            bucket if bucket == SIZES - 1 => u64::MAX,
            bucket => (1 << bucket) - 1,
        };
        Size { bytes_min, bytes_max, calls: *calls }
    })
    .collect()
}

fn kind_of(path: &str) -> FileKind {
    if MADE_UP.iter().any(|folder| path.starts_with(folder)) && !path.starts_with("/dev/shm/") {
        return FileKind::Other;
    }
    match Path::new(path).metadata() {
        Ok(metadata) if !metadata.is_file() => FileKind::Other,
        // Gone by now: most likely a temporary file.
        _ => FileKind::File,
    }
}

//! What calls cost on this machine and file system: measured by making them, for about a tenth of a
//! second, in the folder of the file that matters.
//!
//! Unbuffered calls are measured, small ones and those as large as windows and flushes. What the
//! engine itself adds to a call is known from `run` on one machine and scaled by how fast calls are
//! here: it is a few nanoseconds of some hundred. A file of at most some megabytes is written, and
//! removed.

use crate::own;
use std::ffi::OsString;
use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use sweetspot_core::cost::{APPEND_PS, COPIED_BYTE_PS, HIT_PS, SEEK_PS};
use sweetspot_core::environment as names;
use sweetspot_guard::process::taken_by_children;
use sweetspot_report::profile::data::{Cost, Costs, CostsOfCalls};

/// Two sizes of transfer give the cost of a call and of a byte; a window's and a flush's size that
/// of a byte under buffering.
const SIZES: [usize; 2] = [200, 4000];
const WINDOW_BYTES: usize = 256 << 10;
const FLUSH_BYTES: usize = 256 << 10;
/// Bytes that are read and written with each size.
const FILE_BYTES: usize = 1 << 20;
/// Rounds; each cost is the median over them, after one that warms up.
const ROUNDS: usize = 5;

/// Costs on a 2-core AMD EPYC virtual machine (Linux 6.18, ext4), those of the engine measured by
/// running the same calls unbuffered, under `run`, and observed: for where none can be measured, and
/// for what the engine adds.
const TYPICAL: Costs = Costs {
    passed_through: CostsOfCalls {
        read: Cost { call_ns: 457.0, byte_ns: 0.03 },
        write: Cost { call_ns: 734.0, byte_ns: 0.7 },
        seek_ns: 161.0,
    },
    buffered: CostsOfCalls {
        read: Cost { call_ns: HIT_PS as f64 / 1e3, byte_ns: 0.107 },
        write: Cost { call_ns: APPEND_PS as f64 / 1e3, byte_ns: 0.249 },
        seek_ns: SEEK_PS as f64 / 1e3,
    },
    observing_ns: 9.0,
    passing_ns: 20.0,
    ask_ns: 440.0,
    start_ns: 2.5e6,
    process_ns: 0.4e6,
    sampling_ns: 23.0,
    spread: 0.3,
};
/// What copying a byte out of a window or into the ledger adds, there.
const COPY_BYTE_NS: f64 = COPIED_BYTE_PS as f64 / 1e3;

/// The costs in `folder`, or in the folder for temporary files where it cannot be written.
/// `observed` are the variables by which processes are observed.
pub fn costs(folder: &Path, observed: &[(OsString, OsString)]) -> Costs {
    let measured = measure(folder).or_else(|_| measure(&std::env::temp_dir()));
    let costs = measured.unwrap_or(TYPICAL);
    match starts(observed) {
        Some((start_ns, process_ns)) => Costs { start_ns, process_ns, ..costs },
        None => costs,
    }
}

/// What `sweetspot run` adds to the start of a program, and what being observed adds to that of a
/// process; `None` where the shortest program of all does not run here.
fn starts(observed: &[(OsString, OsString)]) -> Option<(f64, f64)> {
    let mut rounds = [[0.0; 3]; ROUNDS];
    for round in &mut rounds {
        *round = [
            start(&mut Command::new("true"))?,
            start(Command::new("true").envs(observed.iter().cloned()))?,
            start(Command::new(own::FILE).args(["run", "--", "true"]).env(names::BUFFER, "auto"))?,
        ];
    }
    let added = |of: usize| {
        let mut added: Vec<f64> = rounds.iter().map(|round| round[of] - round[0]).collect();
        added.sort_by(f64::total_cmp);
        added[ROUNDS / 2].max(0.0)
    };
    Some((added(2), added(1)))
}

/// What a program takes of the processor from its start to its end, in nanoseconds: a start waits
/// for little else, and the time by the clock says more about a busy machine.
fn start(command: &mut Command) -> Option<f64> {
    let before = taken_by_children().processor;
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let ended_well = quiet.status().ok()?.success();
    ended_well.then(|| (taken_by_children().processor - before).as_nanos() as f64)
}

/// One round, in nanoseconds a call; of large calls, a byte.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    reads: [f64; 2],
    writes: [f64; 2],
    window_byte: f64,
    flush_byte: f64,
    seek: f64,
    ask: f64,
}

/// By files without names: the folder is the user's, and keeps its times where the file system has such files.
fn measure(folder: &Path) -> std::io::Result<Costs> {
    let mut old = tempfile::tempfile_in(folder)?;
    old.write_all(&vec![b'x'; FILE_BYTES])?;
    round(&mut old, folder)?;
    let rounds: Vec<Round> =
        (0..ROUNDS).map(|_| round(&mut old, folder)).collect::<Result<_, _>>()?;
    let sorted = |of: fn(&Round) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let median = |of| sorted(of)[ROUNDS / 2];
    let spread = |of| {
        let values = sorted(of);
        (values[ROUNDS - 2] - values[1]) / values[ROUNDS / 2]
    };
    let line = |small: f64, large: f64| {
        let byte_ns = ((large - small) / (SIZES[1] - SIZES[0]) as f64).max(0.0);
        Cost { call_ns: (small - byte_ns * SIZES[0] as f64).max(1.0), byte_ns }
    };
    let seek_ns = median(|round| round.seek);
    // How fast this processor enters the kernel and comes back, against the one above.
    let scale = (seek_ns / TYPICAL.passed_through.seek_ns).clamp(0.2, 5.0);
    let buffered = TYPICAL.buffered;
    let engine = |cost: Cost, byte_ns: f64| Cost {
        call_ns: cost.call_ns * scale,
        byte_ns: byte_ns + COPY_BYTE_NS * scale,
    };
    Ok(Costs {
        passed_through: CostsOfCalls {
            read: line(median(|round| round.reads[0]), median(|round| round.reads[1])),
            write: line(median(|round| round.writes[0]), median(|round| round.writes[1])),
            seek_ns,
        },
        buffered: CostsOfCalls {
            read: engine(buffered.read, median(|round| round.window_byte)),
            write: engine(buffered.write, median(|round| round.flush_byte)),
            seek_ns: buffered.seek_ns * scale,
        },
        observing_ns: TYPICAL.observing_ns * scale,
        passing_ns: TYPICAL.passing_ns * scale,
        ask_ns: median(|round| round.ask),
        start_ns: TYPICAL.start_ns * scale,
        process_ns: TYPICAL.process_ns * scale,
        sampling_ns: timed(256 * BATCH, || Ok(Instant::now()))?,
        spread: f64::midpoint(spread(|round| round.reads[0]), spread(|round| round.writes[0]))
            .min(0.5),
    })
}

fn round(old: &mut File, folder: &Path) -> std::io::Result<Round> {
    let mut found = Round::default();
    for (index, size) in SIZES.into_iter().enumerate() {
        found.reads[index] = reads(old, size)?;
        found.writes[index] = writes(folder, size)?;
    }
    found.window_byte = reads(old, WINDOW_BYTES)? / WINDOW_BYTES as f64;
    found.flush_byte = writes(folder, FLUSH_BYTES)? / FLUSH_BYTES as f64;
    found.seek = timed(32 * BATCH, || old.seek(SeekFrom::Start(0)))?;
    found.ask = timed(8 * BATCH, || old.metadata())?;
    Ok(found)
}

fn reads(file: &mut File, size: usize) -> std::io::Result<f64> {
    file.rewind()?;
    let mut buffer = vec![0; size];
    timed(FILE_BYTES / size, || file.read(&mut buffer))
}

/// Into a new file each time: its pages have to be made, as those of most output.
fn writes(folder: &Path, size: usize) -> std::io::Result<f64> {
    let mut file = tempfile::tempfile_in(folder)?;
    let buffer = vec![b'x'; size];
    timed(FILE_BYTES / size, || file.write(&buffer))
}

/// Calls between two looks at the clock.
const BATCH: usize = 64;
/// A batch that took that much longer than twice what most did was interrupted: a turn of another
/// process lasts a millisecond or more.
const INTERRUPTED_NS: f64 = 100_000.0;

/// Nanoseconds a call, without those that were interrupted.
fn timed<T>(calls: usize, mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Result<f64> {
    let batch = BATCH.min(calls);
    let mut batches = Vec::with_capacity(calls / batch);
    for _ in 0..calls / batch {
        let started = Instant::now();
        for _ in 0..batch {
            black_box(call()?);
        }
        batches.push(started.elapsed().as_nanos() as f64);
    }
    batches.sort_by(f64::total_cmp);
    let longest = batches[batches.len() / 2] * 2.0 + INTERRUPTED_NS;
    let kept = batches.iter().take_while(|ns| **ns <= longest);
    let (number, sum) = kept.fold((0, 0.0), |sum, ns| (sum.0 + 1, sum.1 + ns));
    Ok(sum / (number * batch) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_plausible_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let costs = costs(folder.path(), &[]);
        assert!(costs.passed_through.read.call_ns > costs.buffered.read.call_ns, "{costs:?}");
        assert!(costs.passed_through.write.call_ns > costs.buffered.write.call_ns, "{costs:?}");
        assert!(costs.buffered.read.byte_ns > 0.0 && costs.ask_ns > 0.0, "{costs:?}");
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
        // Where nothing can be written, elsewhere.
        assert!(super::costs(Path::new("/proc"), &[]).ask_ns > 0.0);
    }
}

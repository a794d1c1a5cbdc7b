//! `tune --machine DIR`: what `auto` should mean for files in a folder, on its file system.
//!
//! `dd` with records of 200 bytes stands for any program that reads and writes in order. Its answer
//! is kept in the user's own file of rules, which count only where `auto` is in force.

use super::{Kept, tune_command};
use crate::arguments::Tune;
use crate::config;
use crate::interrupts::Interrupts;
use std::io::Write;
use std::path::Path;
use std::time::Instant;
use sweetspot_core::ledger::TEXT_BYTES_MAX;
use sweetspot_guard::own_folder;
use sweetspot_lab::measure::{self, Job};
use sweetspot_report::failure::Failure;
use sweetspot_report::shown::shown;
use sweetspot_sandbox::Scratch;

const RECORD_BYTES: u64 = 200;
/// Records of the first look at how slow calls are here.
const RECORDS_FIRST: u64 = 2_000;
/// How long the copy should take without buffering: long beside the start of a process.
const SECONDS_WANTED: f64 = 0.5;
/// However slow or fast: 1 MB is more than most buffers, 100 MB is enough for all.
const RECORDS_MIN: u64 = 5_000;
const RECORDS_MAX: u64 = 500_000;

/// Tunes a copy in `folder`, and keeps what comes out.
///
/// # Errors
/// As `tune`; and where nothing can be made in `folder`.
pub fn tune(arguments: &Tune, folder: &Path) -> Result<u8, Failure> {
    let failure = |error: std::io::Error| {
        Failure::own(format!("{}: {error}", shown(folder)))
            .next("name a folder in which you may make files: --machine DIR")
    };
    let folder = folder.canonicalize().map_err(failure)?;
    // Root that came with a user's HOME would leave folders there that are not the user's.
    let at = config::machine_place().filter(|at| own_folder::is_over(at)).ok_or_else(|| {
        Failure::own("there is no home folder of yours to keep the answer in")
            .next("name a folder for it: XDG_CONFIG_HOME=/etc/xdg sweetspot tune --machine ...")
    })?;
    let pattern = folder.to_str().map(|folder| format!("{}/*", folder.trim_end_matches('/')));
    let pattern = pattern.filter(|pattern| pattern.len() <= TEXT_BYTES_MAX).ok_or_else(|| {
        Failure::own(format!("{}: this name cannot be used in a rule", shown(&folder)))
            .next("name a folder above it")
    })?;
    let interrupts = Interrupts::watch()?;
    let scratch = Scratch::new(&folder, "sweetspot-machine-").map_err(failure)?;
    interrupts.remove_at_end([scratch.path().to_owned()]);
    let records = records(scratch.path())?;
    make(&scratch.path().join("in"), records).map_err(failure)?;
    if let Some(parent) = at.parent() {
        own_folder::make(parent, 0o777)
            .map_err(|error| Failure::own(format!("{}: {error}", shown(parent))))?;
    }
    // What it writes is looked for in the current folder.
    std::env::set_current_dir(scratch.path()).map_err(failure)?;
    let command = ["dd", "if=in", "of=out", "bs=200", "status=none"];
    let arguments = Tune {
        command: command.map(Into::into).into(),
        machine: None,
        smallest: true,
        ..arguments.clone()
    };
    let ended = tune_command(&arguments, Some(Kept { at, pattern }), interrupts);
    // A folder that is in use cannot be removed everywhere.
    let _ = std::env::set_current_dir("/");
    ended
}

/// How many records take as long as is wanted.
fn records(folder: &Path) -> Result<u64, Failure> {
    let failure = |error: std::io::Error| Failure::own(format!("{}: {error}", shown(folder)));
    make(&folder.join("in"), RECORDS_FIRST).map_err(failure)?;
    let mut job = Job::new(["dd", "if=in", "of=out", "bs=200", "status=none"]);
    job.folder = Some(folder.to_owned());
    let started = Instant::now();
    let measurement = measure::run(&job).map_err(super::lab)?;
    if !measurement.status.success() {
        return Err(Failure::own(format!("dd failed with {}", measurement.status)));
    }
    let record_seconds = started.elapsed().as_secs_f64() / RECORDS_FIRST as f64;
    Ok(((SECONDS_WANTED / record_seconds) as u64).clamp(RECORDS_MIN, RECORDS_MAX))
}

/// Makes a file of that many records.
fn make(path: &Path, records: u64) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    for number in 0..records {
        let width = RECORD_BYTES as usize;
        write!(file, "{number:width$}")?;
    }
    file.into_inner()?.sync_all()
}

//! Three jobs for an hour under `run`, while any of their processes, and their guards, are stopped and
//! continued at random: PostgreSQL under pgbench, copies in Java, and a program that writes its log
//! (`programs/c/soak_log.c`) while somebody reads it, as `tail -f` does.
//!
//! ```text
//! jobs     the three, and what each must find
//! trouble  who is stopped, and what guards need: neither their memory nor their descriptors may grow
//! ```

mod jobs;
mod trouble;

use super::kit::Kit;
use crate::commands::untold;
use jobs::{Batch, Database, Log};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use sweetspot_core::environment::CACHE;
use trouble::Trouble;

/// Marks processes of a soak: in their environment, and so in that of their guards.
const MARK: &str = "SWEETSPOT_SOAK";

/// What all jobs have in common.
struct Soak {
    folder: PathBuf,
    /// A copy: the user that runs the database need not be able to reach ours.
    sweetspot: PathBuf,
    log: PathBuf,
    ends: Instant,
    seconds: u64,
    seed: u64,
}

impl Soak {
    /// A program in a folder of the soak, by itself.
    fn plain(&self, program: impl AsRef<OsStr>, folder: &Path) -> Command {
        let mut command = Command::new(program);
        untold(&mut command);
        command.env(CACHE, folder.join("cache")).env("HOME", folder);
        command.env("LC_ALL", "C").env(MARK, &self.folder).current_dir(folder);
        command
    }

    /// The same under `run`.
    fn buffered(&self, program: impl AsRef<OsStr>, folder: &Path) -> Command {
        let mut command = self.plain(&self.sweetspot, folder);
        command.args(["run", "--"]).arg(program);
        command
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.ends
    }
}

/// Lets the jobs run for so many seconds. Returns the closing line.
///
/// # Errors
/// The first job that lost something, or a guard that grew.
pub fn run(kit: Kit, seconds: u64, seed: u64) -> Result<String, String> {
    kit.compile("soak_log")?;
    let work = kit.work()?;
    let folder = work.path().canonicalize().map_err(|error| error.to_string())?;
    let sweetspot = folder.join("sweetspot");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::copy(&kit.sweetspot, &sweetspot).map_err(failed)?;
    let (log, ends) = (kit.program("soak_log"), Instant::now() + Duration::from_secs(seconds));
    let soak = Soak { folder, sweetspot, log, ends, seconds, seed };
    let trouble = Trouble::new(&soak);
    let found = std::thread::scope(|scope| {
        let jobs = [
            scope.spawn(|| Database::run(&soak).map(|done| done.to_string())),
            scope.spawn(|| Batch::run(&soak).map(|done| done.to_string())),
            scope.spawn(|| Log::run(&soak, &trouble).map(|done| done.to_string())),
        ];
        let troubled = trouble.make(|| jobs.iter().all(|job| job.is_finished()));
        let jobs = jobs.map(|job| job.join().expect("a job ends"));
        let [database, batch, log] = jobs;
        Ok(format!("{seconds} s: {}; {}; {}; {}; 0 lost", database?, batch?, log?, troubled?))
    });
    found.map_err(|wrong: String| {
        let kept = work.keep();
        kit.keep();
        format!("{wrong}\n  seed {seed}; files in {}", kept.display())
    })
}

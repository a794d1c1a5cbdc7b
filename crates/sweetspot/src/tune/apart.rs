//! Runs of the command in a sandbox: each begins with the same files, and what it wrote is looked at
//! and thrown away.
//!
//! Invariant: [`Apart::last`] is what the last run that has ended left.

use super::files::Outputs;
use crate::arguments::Tune;
use crate::home;
use crate::inherited;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use sweetspot_lab::measure::Measurement;
use sweetspot_report::failure::Failure;
use sweetspot_report::shown::shown;
use sweetspot_sandbox::{End, Isolation, Kept, Ran, Sandbox, Wanted};

/// What an overlay does to the figures, for the report.
const SAID: &str = "each run was in a sandbox of overlays, from the same files, and what it wrote was \
                    thrown away. There opening a file and the first write to one that is there take \
                    longer, and nothing reaches the disk; in all settings alike, so real ratios may lie \
                    a little farther from 1. The memory is at least that of the sandbox itself";

/// The sandbox, and which run it is at.
pub struct Apart {
    sandbox: Sandbox,
    run: usize,
    /// The files that the last run made or changed; `None` for one that it removed.
    pub last: Outputs,
}

impl Apart {
    /// Makes the place.
    ///
    /// # Errors
    /// Where there can be none.
    pub fn new(arguments: &Tune) -> Result<Apart, Failure> {
        inherited::nothing_outside()?;
        let sandbox = Sandbox::new(&Wanted {
            isolation: Isolation::Overlays,
            command: &arguments.command,
            folder: None,
            notes: home::notes(),
            costs: home::states(),
        })
        .map_err(|refused| {
            Failure::own(refused.to_string())
                .next("nothing was run; tune in place, without --sandbox, and with --prepare CMD")
        })?;
        Ok(Apart { sandbox, run: 0, last: Outputs::default() })
    }

    /// What the reader should know.
    pub fn notes(&self) -> Vec<String> {
        let fixed = self.sandbox.fixed().first().map(|file| {
            format!(
                "{} belongs to another user or group, so it could not be written in the sandbox",
                shown(file)
            )
        });
        std::iter::once(SAID.to_string()).chain(fixed).collect()
    }

    /// Where what is of no use afterwards lies.
    pub fn scratches(&self) -> Vec<PathBuf> {
        self.sandbox.scratches()
    }

    /// A folder for a ledger that the next run shall find: what lies in `/dev/shm` is not seen inside.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn ledger_folder(&self) -> Result<PathBuf, Failure> {
        let (_, outside) = self.sandbox.beside(self.run + 1, "ledger");
        std::fs::create_dir_all(&outside).map_err(cannot)?;
        Ok(outside)
    }

    /// The path inside of a file in [`Apart::ledger_folder`].
    pub fn inside(&self, outside: &Path) -> PathBuf {
        let name = outside.file_name().unwrap_or_default();
        self.sandbox.beside(self.run + 1, "ledger").0.join(name)
    }

    /// The words that run `command` as the next run.
    ///
    /// # Errors
    /// Where its folders cannot be made.
    pub fn words(&mut self, command: &[OsString]) -> Result<Vec<OsString>, Failure> {
        self.run += 1;
        self.sandbox.command(self.run, command).map_err(cannot)
    }

    /// Looks at what the run has left, throws it away, and corrects what was measured from outside.
    ///
    /// # Errors
    /// Where it did not start, or what it left cannot be looked at.
    pub fn end(&mut self, measurement: &mut Measurement) -> Result<(), Failure> {
        self.sandbox.has_room().map_err(|full| {
            Failure::own(full).next("name a folder on a larger one: TMPDIR=DIR sweetspot tune ...")
        })?;
        let ran = self.sandbox.ran(self.run).map_err(Failure::own)?;
        measurement.wall = Duration::from_secs_f64(ran.seconds);
        measurement.status = ExitStatus::from_raw(match ran.end {
            End::Exited(status) => i32::from(status) << 8,
            End::Killed(signal) => signal,
        });
        self.last = self.outputs(&ran)?;
        self.sandbox.forget(self.run).map_err(cannot)
    }

    fn outputs(&self, ran: &Ran) -> Result<Outputs, Failure> {
        let mut outputs = Outputs::default();
        for (path, entry) in self.sandbox.changes(self.run, ran).map_err(cannot)? {
            let content = entry.as_ref().map(|entry| entry.content());
            let output = match content {
                None => None,
                // Folders, links and the like are not compared.
                Some(None) => continue,
                Some(Some(content)) => match &content.kept {
                    Kept::At(at) => Outputs::of([at].into_iter())?.0.into_values().next().flatten(),
                    Kept::Hashes(_) | Kept::Untouched => continue,
                },
            };
            outputs.0.insert(path, output);
        }
        Ok(outputs)
    }
}

fn cannot(error: std::io::Error) -> Failure {
    Failure::own(format!("the sandbox: {error}"))
        .next("name a folder with more room: TMPDIR=DIR sweetspot tune ...")
}

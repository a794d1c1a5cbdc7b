//! What `--summary` says after the run.
//!
//! The text goes to stderr or to a file; into a folder goes a [`Record`], in a file of its own, for `summary`.

use crate::environment::{Environment, SWITCHED_OFF};
use crate::origin;
use crate::reach::Reach;
use crate::session::Summary;
use crate::target::Target;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use sweetspot_core::size::BufferSize;
use sweetspot_guard::process::Ended;
use sweetspot_report::failure::Failure;
use sweetspot_report::numbers;
use sweetspot_report::origin::Origin;
use sweetspot_report::shown::shown;
use sweetspot_report::summary::{Record, SCHEMA, TITLE};

/// Where the summary of one run goes, and in which form.
pub struct Wanted {
    target: Target,
    /// A [`Record`] of this run, one of many.
    record_of: Option<Origin>,
}

impl Wanted {
    /// Opens the target, as [`Target::open`] does; in a folder, a file of its own.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub fn open(path: Option<&Path>, environment: &Environment) -> Result<Wanted, Failure> {
        match path.filter(|path| origin::is_folder(path)) {
            None => {
                let target = match path {
                    None => Target::Stderr,
                    Some(path) => Target::open("--summary=", path, TITLE)?,
                };
                Ok(Wanted { target, record_of: None })
            }
            Some(folder) => {
                let origin = origin::here(environment);
                let file = origin::file_in(folder, "summary", &origin, "--summary=")?;
                Ok(Wanted { target: Target::New(file), record_of: Some(origin) })
            }
        }
    }

    /// Writes the summary.
    pub fn write(self, report: &Preview, ran: &Ran<'_>) {
        let text = match self.record_of {
            None => report.record(ran, Origin::default()).text(ran.program, ran.pid),
            Some(origin) => report.record(ran, origin).json(),
        };
        self.target.write(&text);
    }
}

/// A run that is over.
pub struct Ran<'a> {
    pub program: &'a Path,
    /// As they were typed.
    pub command: &'a [OsString],
    pub pid: u32,
    pub ended: Ended,
    pub seconds: f64,
    /// None: there was no session.
    pub learned: Option<&'a Summary>,
}

/// What was known before the program started.
pub struct Preview {
    state: InForce,
}

enum InForce {
    SwitchedOff,
    Unbuffered(String),
    WithLibrary { size: BufferSize, rules: Option<PathBuf>, reach: Reach },
}

impl Preview {
    /// The program is started untouched.
    pub fn switched_off() -> Preview {
        Preview { state: InForce::SwitchedOff }
    }

    /// Nothing is buffered, for a reason.
    pub fn unbuffered(why: impl Into<String>) -> Preview {
        Preview { state: InForce::Unbuffered(why.into()) }
    }

    /// The program is started with a buffer of `size`, and the rules in a file, if there is one.
    pub fn new(size: BufferSize, rules: Option<PathBuf>, reach: Reach) -> Preview {
        Preview { state: InForce::WithLibrary { size, rules, reach } }
    }

    /// What there is to say of a run.
    fn record(&self, ran: &Ran<'_>, origin: Origin) -> Record {
        let learned = ran.learned.cloned().unwrap_or_default();
        let inactive = self.inactive(ran);
        Record {
            sweetspot_summary: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            origin,
            command: ran.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            ended: ran.ended.to_string(),
            seconds: ran.seconds,
            buffer: inactive.is_none().then(|| numbers::size(self.size())),
            inactive,
            rules: self.rules().map(|path| path.display().to_string()),
            processes: learned.processes,
            notes: learned.notes(ran.program),
            files: learned.files,
        }
    }

    /// Why nothing was buffered.
    fn inactive(&self, ran: &Ran<'_>) -> Option<String> {
        match &self.state {
            InForce::SwitchedOff => Some(SWITCHED_OFF.to_owned()),
            InForce::Unbuffered(why) => Some(why.clone()),
            InForce::WithLibrary { reach: Reach::Unreachable(why), .. } => {
                Some(format!("{} cannot be buffered: {why}", shown(ran.program)))
            }
            InForce::WithLibrary { .. } => {
                match ran.learned.and_then(|learned| learned.processes) {
                    Some(0) => Some("no process loaded the library".to_owned()),
                    _ => None,
                }
            }
        }
    }

    fn size(&self) -> BufferSize {
        match self.state {
            InForce::SwitchedOff | InForce::Unbuffered(_) => BufferSize::Off,
            InForce::WithLibrary { size, .. } => size,
        }
    }

    /// The file of the rules, where they could be in force.
    fn rules(&self) -> Option<&Path> {
        match &self.state {
            InForce::WithLibrary { reach: Reach::Unreachable(_), .. } => None,
            InForce::SwitchedOff | InForce::Unbuffered(_) => None,
            InForce::WithLibrary { rules, .. } => rules.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests;

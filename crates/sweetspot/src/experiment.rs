//! What `tune` and `bench` share: in what surroundings a session began, and how failures of an
//! experiment are said.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use sweetspot_core::environment as names;
use sweetspot_lab::environment::Environment;
use sweetspot_lab::store::Kept;
use sweetspot_report::failure::Failure;
use sweetspot_report::shown::shown;

/// How much of a failed program's error output is shown, in bytes.
const SAID_BYTES_MAX: u64 = 1000;
/// Variables that would make a measured program another one than was asked for.
pub const NOT_PASSED_ON: [&str; 4] = [names::BUFFER, names::SWITCH, names::LEDGER, names::SUMMARY];

/// An error of the experiment, in words for the user who typed the command.
pub fn lab(error: sweetspot_lab::Error) -> Failure {
    Failure::own(error.to_string())
}

/// Why a session that is kept does not go on: what has changed.
pub fn cannot_go_on(what: &str) -> Failure {
    Failure::own(format!("the session cannot go on: {what} has changed since it began"))
        .next("begin a new one: the same command without --resume")
}

/// What a text of a session says, where it is of that form.
pub fn understood<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// How to refuse a session that is kept in a file, what was asked for, and what only the session itself knew.
///
/// # Errors
/// What was asked for is not understood.
pub fn begin_to_read<Subject: DeserializeOwned, Said: DeserializeOwned + Default>(
    kept: &Kept,
    path: &Path,
) -> Result<(impl Fn(String) -> Failure, Subject, Said), Failure> {
    let (path, number) = (shown(path), kept.number);
    let unknown = move |what: String| Failure::own(format!("{path}: session {number}: {what}"));
    let subject = serde_json::from_str(&kept.session.subject);
    let subject = subject.map_err(|error| unknown(error.to_string()))?;
    let said = kept.result.as_deref().and_then(understood).unwrap_or_default();
    Ok((unknown, subject, said))
}

/// The end of what a program said, in the form in which it is added to a message.
pub fn tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(SAID_BYTES_MAX)))?;
        let mut text = Vec::new();
        file.take(SAID_BYTES_MAX).read_to_end(&mut text)?;
        Ok(text)
    };
    match String::from_utf8_lossy(&read().unwrap_or_default()).trim() {
        "" => String::new(),
        said => format!("; it said:\n  {}", said.replace('\n', "\n  ")),
    }
}

/// A seed where none is named.
pub fn seed_by_lot() -> u64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_epoch.map_or(0, |time| time.as_secs())
}

/// In what surroundings a session began; it only goes on in the same.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Circumstances {
    pub seed: u64,
    version: String,
    kernel: String,
    machine: String,
    file_system: String,
    /// Of programs and inputs: size and time of the last change.
    files: Vec<(PathBuf, u64, Option<SystemTime>)>,
}

impl Circumstances {
    /// Those of now.
    pub fn now(
        seed: u64,
        environment: &Environment,
        files: impl IntoIterator<Item = PathBuf>,
    ) -> Circumstances {
        Circumstances {
            seed,
            version: env!("CARGO_PKG_VERSION").to_string(),
            machine: environment.machine(),
            kernel: environment.kernel.clone(),
            file_system: environment.file_system.kind.clone(),
            files: (files.into_iter())
                .filter_map(|path| {
                    let metadata = path.metadata().ok()?;
                    Some((path, metadata.len(), metadata.modified().ok()))
                })
                .collect(),
        }
    }

    /// What is other than it was; the seed is not looked at.
    pub fn changed(&self, now: &Circumstances) -> Option<String> {
        let now = Circumstances { seed: self.seed, ..now.clone() };
        let file = std::iter::zip(&self.files, &now.files).find(|(then, now)| then != now);
        if *self == now {
            None
        } else if let Some((then, _)) = file {
            Some(shown(&then.0))
        } else if self.files != now.files {
            Some("what the command reads".to_string())
        } else if self.version != now.version {
            Some("sweetspot's version".to_string())
        } else {
            Some("the machine, its kernel or file system".to_string())
        }
    }
}

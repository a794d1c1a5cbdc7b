//! What `--summary` says after the run.
//!
//! The text goes to stderr or to a file. A file that is there and is no summary of ours is never
//! overwritten: `--summary=data.dat` is a mistake, not an order. Into a folder goes a [`Record`], in a
//! file of its own, for `merge`.

mod target;

use crate::environment::{Environment, SWITCHED_OFF};
use crate::failure::Failure;
use crate::origin;
use crate::reach::Reach;
use crate::session::{FileSummary, Summary};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use sweetspot_core::size::{self, BufferSize, Parsed};
use sweetspot_guard::process::Ended;
use sweetspot_report::numbers::{self, bytes, count};
use sweetspot_report::origin::Origin;
use sweetspot_report::profile::data;
use sweetspot_report::shown::shown;
use sweetspot_report::summary::{BUFFERED_NO, NOTE, calls};
use sweetspot_report::text;

pub use target::Target;

/// First line of every summary, by which an older one is recognised.
pub const TITLE: &str = "sweetspot summary\n";

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
            None => Ok(Wanted { target: Target::open(path)?, record_of: None }),
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
            None => report.text(ran),
            Some(origin) => report.record(ran, origin).text(),
        };
        self.target.write(&text);
    }
}

/// The version of the schema of [`Record`].
pub const SCHEMA: u32 = 1;

/// A summary as data: what each run leaves in a folder. The version changes when a field changes its
/// meaning or goes away, not when one is added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The version of this schema.
    pub sweetspot_summary: u32,
    /// The version of sweetspot that wrote it.
    pub version: String,
    pub origin: Origin,
    /// Program and arguments as they were typed.
    pub command: Vec<String>,
    /// How it ended: `exit status 0`, `signal 9`.
    pub ended: String,
    /// From start to end.
    pub seconds: f64,
    /// The size in force, in the size grammar.
    pub buffer: Option<String>,
    /// Why nothing was buffered.
    pub inactive: Option<String>,
    /// The file of the rules in force.
    pub rules: Option<String>,
    /// Processes that loaded the library; none: not known.
    pub processes: Option<u32>,
    pub notes: Vec<String>,
    pub files: Vec<FileSummary>,
}

impl Record {
    fn text(&self) -> String {
        format!("{}\n", serde_json::to_string_pretty(self).unwrap_or_default())
    }
}

/// How a program ended, for records.
pub fn ended(ended: Ended) -> String {
    match ended {
        Ended::Exited(status) => format!("exit status {status}"),
        Ended::Killed(signal) => format!("signal {signal}"),
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

    /// The whole summary.
    pub fn text(&self, ran: &Ran<'_>) -> String {
        let Ran { pid, learned, .. } = *ran;
        let seconds = numbers::seconds(ran.seconds);
        let program = shown(ran.program);
        let mut text = TITLE.to_string();
        let ended = match ran.ended {
            Ended::Exited(_) => ended(ran.ended),
            Ended::Killed(_) => format!("ended by {}", ended(ran.ended)),
        };
        let _ = writeln!(text, "program   {program}, pid {pid}, {ended}, {seconds}");
        match self.inactive(ran) {
            Some(why) => {
                let _ = writeln!(text, "{BUFFERED_NO}{why}");
            }
            None => {
                let _ = writeln!(text, "buffered  {}", in_force(self.size(), learned));
            }
        }
        if let Some(rules) = self.rules() {
            let _ = writeln!(text, "rules     {}", shown(rules));
        }
        for note in learned.iter().flat_map(|learned| learned.notes(ran.program)) {
            let _ = writeln!(text, "{NOTE}{note}");
        }
        if let Some(learned) = learned.filter(|learned| !learned.files.is_empty()) {
            let _ = writeln!(text, "{}", total(&learned.files));
            let _ = writeln!(text, "\n{}", table(&learned.files));
            text += &chosen(&learned.files);
        }
        text
    }

    /// The same as data.
    fn record(&self, ran: &Ran<'_>, origin: Origin) -> Record {
        let learned = ran.learned.cloned().unwrap_or_default();
        let inactive = self.inactive(ran);
        Record {
            sweetspot_summary: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            origin,
            command: ran.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            ended: ended(ran.ended),
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

fn total(files: &[FileSummary]) -> String {
    let sum = |of: fn(&FileSummary) -> u64| data::total(files.iter().map(of));
    calls(sum(|file| file.requested), sum(|file| file.made))
}

fn in_force(size: BufferSize, learned: Option<&Summary>) -> String {
    let size = numbers::typed(size);
    match learned.and_then(|learned| learned.processes) {
        Some(1) => format!("size {size}, in 1 process"),
        Some(processes) => {
            format!("size {size}, in {} processes", numbers::count(processes.into()))
        }
        None => format!("size {size}"),
    }
}

const CHOSEN: &str = "chosen    ";
/// Files of which it is said which sizes were chosen, those with the most calls: of more, nobody reads it.
const CHOSEN_MAX: usize = 16;

/// Which sizes were chosen, and why.
fn chosen(files: &[FileSummary]) -> String {
    let mut busiest: Vec<_> = files.iter().filter(|file| !file.chosen.is_empty()).collect();
    busiest.sort_by_key(|file| std::cmp::Reverse(file.requested));
    let mut text = String::new();
    for file in busiest.into_iter().take(CHOSEN_MAX) {
        for chosen in &file.chosen {
            let start = if text.is_empty() { "\n" } else { "" };
            let _ = writeln!(text, "{start}{CHOSEN}{}: {chosen}", shown(&file.path));
        }
    }
    text
}

fn table(files: &[FileSummary]) -> String {
    let header = ["file", "buffer", "calls", "made", "read", "written", "passed through"];
    let row = |file: &FileSummary| {
        let passed = match file.passed_through_calls {
            0 => String::new(),
            calls if file.reasons.is_empty() => {
                format!("{}: before it had a buffer", count(calls))
            }
            calls => format!("{}: {}", count(calls), file.reasons.join("; ")),
        };
        [
            shown(&file.path),
            match size::parse(file.buffer.as_bytes()) {
                Parsed::Size(size) => numbers::typed(size),
                _ => file.buffer.clone(),
            },
            count(file.requested),
            count(file.made),
            bytes(file.read_bytes),
            bytes(file.written_bytes),
            passed,
        ]
    };
    text::table(header, files.iter().map(row), 2..6)
}

#[cfg(test)]
mod tests;

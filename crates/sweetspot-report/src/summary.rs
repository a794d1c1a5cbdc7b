//! What `run --summary` says of a run: as data ([`Record`]), as text, and in figures as that is read again.

pub mod many;
pub mod run_file;

use crate::numbers::{self, bytes, count, counted};
use crate::origin::Origin;
use crate::profile::data::total;
use crate::shown::shown;
use crate::text;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::Path;
use sweetspot_core::size::{self, Parsed};

/// First line of every summary, by which an older one is recognised.
pub const TITLE: &str = "sweetspot summary\n";
/// The version of the schema of [`Record`].
pub const SCHEMA: u32 = 1;

pub const BUFFERED_NO: &str = "buffered  no: ";
pub const NOTE: &str = "note      ";
const CALLS: &str = "calls     ";
const REQUESTED: &str = " requested, ";
const MADE: &str = " made";
/// How a note begins that says why nothing was.
pub const NOTHING: &str = "nothing was buffered: ";

/// The line that says how many calls the program requested, and how many were made.
pub fn calls(requested: u64, made: u64) -> String {
    format!("{CALLS}{}{REQUESTED}{}{MADE}", count(requested), count(made))
}

/// How [`Record::ended`] begins of a program that a signal has ended.
const SIGNAL: &str = "signal";

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

/// One file in the summary, also where that is data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSummary {
    pub path: String,
    /// The buffer in force, in the size grammar.
    pub buffer: String,
    /// Reads, writes and seeks that the program requested, and system calls that were made for them.
    #[serde(rename = "calls")]
    pub requested: u64,
    #[serde(rename = "calls_made", alias = "calls_left")]
    pub made: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Reads that a window answered, and writes that waited.
    #[serde(skip)]
    pub buffered_calls: u64,
    /// Calls that passed through, and each reason.
    #[serde(alias = "straight_calls")]
    pub passed_through_calls: u64,
    pub reasons: Vec<String>,
    /// The sizes that were chosen, and what calls cost there, in plain words.
    #[serde(default)]
    pub chosen: Vec<String>,
}

impl Record {
    /// As a file of its own says it.
    pub fn json(&self) -> String {
        format!("{}\n", serde_json::to_string_pretty(self).unwrap_or_default())
    }

    /// As it is read. The program is named by the path where it was found, with the number of its process.
    pub fn text(&self, program: &Path, pid: u32) -> String {
        let mut text = TITLE.to_owned();
        let by = if self.ended.starts_with(SIGNAL) { "ended by " } else { "" };
        let (program, seconds) = (shown(program), numbers::seconds(self.seconds));
        let _ = writeln!(text, "program   {program}, pid {pid}, {by}{}, {seconds}", self.ended);
        let _ = match &self.inactive {
            Some(why) => writeln!(text, "{BUFFERED_NO}{why}"),
            None => writeln!(text, "buffered  {}", self.in_force()),
        };
        if let Some(rules) = &self.rules {
            let _ = writeln!(text, "rules     {}", shown(rules));
        }
        for note in &self.notes {
            let _ = writeln!(text, "{NOTE}{note}");
        }
        if !self.files.is_empty() {
            let sum = |of: fn(&FileSummary) -> u64| total(self.files.iter().map(of));
            let calls = calls(sum(|file| file.requested), sum(|file| file.made));
            let _ = writeln!(text, "{calls}\n\n{}", table(&self.files));
            text += &chosen(&self.files);
        }
        text
    }

    fn in_force(&self) -> String {
        let size = in_words(self.buffer.as_deref().unwrap_or_default());
        match self.processes {
            Some(1) => format!("size {size}, in 1 process"),
            Some(processes) => format!("size {size}, in {} processes", count(processes.into())),
            None => format!("size {size}"),
        }
    }
}

/// A size in the size grammar, as it is typed.
fn in_words(size: &str) -> String {
    match size::parse(size.as_bytes()) {
        Parsed::Size(size) => numbers::typed(size),
        _ => size.to_owned(),
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

/// Of calls that passed through for no other reason.
pub const BEFORE_ITS_BUFFER: &str = "before it had a buffer";

fn table(files: &[FileSummary]) -> String {
    let header = ["file", "buffer", "calls", "made", "read", "written", "passed through"];
    let row = |file: &FileSummary| {
        let passed = match file.passed_through_calls {
            0 => String::new(),
            calls if file.reasons.is_empty() => {
                format!("{}: {BEFORE_ITS_BUFFER}", count(calls))
            }
            calls => format!("{}: {}", count(calls), file.reasons.join("; ")),
        };
        [
            shown(&file.path),
            in_words(&file.buffer),
            count(file.requested),
            count(file.made),
            bytes(file.read_bytes),
            bytes(file.written_bytes),
            passed,
        ]
    };
    text::table(header, files.iter().map(row), 2..6)
}

/// What a summary says in figures, for `verify`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Why nothing was buffered.
    pub inactive: Option<String>,
    /// Calls that the program requested, and system calls that were made, for all files.
    pub calls: Option<(u64, u64)>,
}

impl Figures {
    /// Reads them in the text of a summary.
    pub fn read(text: &str) -> Figures {
        let calls = text.lines().find_map(|line| {
            let counts = line.strip_prefix(CALLS)?.strip_suffix(MADE)?;
            let (requested, made) = counts.split_once(REQUESTED)?;
            Some((counted(requested)?, counted(made)?))
        });
        let inactive = text.lines().find_map(|line| line.strip_prefix(BUFFERED_NO));
        let notes = text.lines().filter_map(|line| line.strip_prefix(NOTE));
        let nothing = notes.filter_map(|note| note.strip_prefix(NOTHING)).next();
        Figures { inactive: inactive.or(nothing).map(str::to_owned), calls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_calls_is_read_again() {
        assert_eq!(Figures::read(&calls(200_002, 244)).calls, Some((200_002, 244)));
    }
}

//! What `--summary` says after the run.
//!
//! The text goes to stderr or to a file. A file that is there and is no summary of ours is never
//! overwritten: `--summary=data.dat` is a mistake, not an order.

use crate::buffer;
use crate::failure::Failure;
use crate::reach::Reach;
use crate::session::{FileSummary, Summary};
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use sweetspot_core::size::BufferSize;
use sweetspot_guard::process::Ended;

/// First line of every summary, by which an older one is recognised.
pub const TITLE: &str = "sweetspot summary\n";

/// Where the summary goes.
pub enum Target {
    Stderr,
    /// After what the program wrote there.
    Stdout,
    File(PathBuf, File),
}

impl Target {
    /// Opens the target before the program starts, so that a mistake costs no run. An older summary
    /// in the file stays until there is a new one.
    ///
    /// # Errors
    /// Where the file cannot be written, or holds something else.
    pub fn open(file: Option<&Path>) -> Result<Target, Failure> {
        match file {
            None => Ok(Target::Stderr),
            Some(path) => Target::open_file("--summary=", path, TITLE),
        }
    }

    /// The same for the file of any option, `-` for stdout; `title` is how all that it writes begins.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub fn open_file(option: &str, path: &Path, title: &str) -> Result<Target, Failure> {
        if path == "-" {
            return Ok(Target::Stdout);
        }
        let shown = path.display();
        let failure = |cause: &str| Failure::own(format!("{option}{shown}: {cause}"));
        let special = path.metadata().is_ok_and(|metadata| !metadata.is_file());
        let mut options = OpenOptions::new();
        options.write(true).read(!special).create(!special);
        let mut file = options.open(path).map_err(|error| {
            failure(&error.to_string()).next("name a file in a folder of yours")
        })?;
        if !special {
            let mut start = Vec::new();
            let read = (&mut file).take(title.len() as u64).read_to_end(&mut start);
            read.map_err(|error| failure(&error.to_string()))?;
            if !start.is_empty() && start != title.as_bytes() {
                return Err(failure("the file holds something else, which is not overwritten")
                    .next(format!("name another one: {option}{shown}.new")));
            }
        }
        Ok(Target::File(path.to_path_buf(), file))
    }

    /// Writes the summary. The program has ended: a failure is said, and changes nothing else.
    pub fn write(self, text: &str) {
        if let Err(failure) = self.try_write(text) {
            crate::failure::say(failure);
        }
    }

    /// The same for whom a failure is one.
    ///
    /// # Errors
    /// Where not everything could be written; never for stderr.
    pub fn try_write(self, text: &str) -> Result<(), Failure> {
        let failure = |place: &str, error| Failure::own(format!("{place}: {error}"));
        match self {
            Target::Stderr => {
                let _ = std::io::stderr().write_all(text.as_bytes());
                Ok(())
            }
            Target::Stdout => {
                let mut stdout = std::io::stdout();
                let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
                written.map_err(|error| failure("stdout", error))
            }
            Target::File(path, mut file) => {
                // A pipe or a terminal cannot be emptied or rewound, and need not be.
                let _ = file.set_len(0);
                let _ = file.rewind();
                let written = file.write_all(text.as_bytes());
                written.map_err(|error| failure(&path.display().to_string(), error))
            }
        }
    }
}

/// What was known before the program started.
pub struct Report {
    state: State,
}

enum State {
    SwitchedOff,
    InForce { size: BufferSize, rules: Option<PathBuf>, reach: Reach },
}

impl Report {
    /// The program is started untouched.
    pub fn switched_off() -> Report {
        Report { state: State::SwitchedOff }
    }

    /// The program is started with a buffer of `size`, and the rules in a file, if there is one.
    pub fn new(size: BufferSize, rules: Option<PathBuf>, reach: Reach) -> Report {
        Report { state: State::InForce { size, rules, reach } }
    }

    /// The whole summary.
    pub fn text(
        &self,
        program: &str,
        pid: u32,
        ended: Ended,
        seconds: f64,
        learned: Option<&Summary>,
    ) -> String {
        let mut text = TITLE.to_string();
        let ended = match ended {
            Ended::Exited(status) => format!("exit status {status}"),
            Ended::Killed(signal) => format!("ended by signal {signal}"),
        };
        let _ = writeln!(text, "program   {program}, pid {pid}, {ended}, {seconds:.3} s");
        match &self.state {
            State::SwitchedOff => {
                text.push_str("buffered  no: SWEETSPOT=off is set in the environment\n");
            }
            State::InForce { reach: Reach::Unreachable(why), .. } => {
                let _ = writeln!(text, "buffered  no: {program} cannot be reached: {why}");
            }
            State::InForce { size, rules, .. } => {
                let _ = writeln!(text, "buffered  {}", in_force(*size, learned));
                if let Some(rules) = rules {
                    let _ = writeln!(text, "rules     {}", rules.display());
                }
            }
        }
        for note in learned.iter().flat_map(|learned| &learned.notes) {
            let _ = writeln!(text, "note      {note}");
        }
        if let Some(learned) = learned.filter(|learned| !learned.files.is_empty()) {
            let _ = writeln!(text, "{}", total(&learned.files));
            let _ = writeln!(text, "\n{}", table(&learned.files).trim_fmt());
        }
        text
    }
}

const BUFFERED_NO: &str = "buffered  no: ";
const CALLS: &str = "calls     ";
const LEFT: &str = ", left of them ";

fn total(files: &[FileSummary]) -> String {
    let sum = |of: fn(&FileSummary) -> u64| files.iter().map(of).sum::<u64>();
    format!("{CALLS}{}{LEFT}{}", sum(|file| file.calls_before), sum(|file| file.calls_after))
}

/// What a summary says in figures, for `verify`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Why nothing was buffered.
    pub inactive: Option<String>,
    /// Calls that the program made, and system calls that were left of them, for all files.
    pub calls: Option<(u64, u64)>,
}

impl Figures {
    /// Reads them in the text of a summary.
    pub fn read(text: &str) -> Figures {
        let calls = text.lines().find_map(|line| {
            let (calls, left) = line.strip_prefix(CALLS)?.split_once(LEFT)?;
            Some((calls.parse().ok()?, left.parse().ok()?))
        });
        let inactive = text.lines().find_map(|line| line.strip_prefix(BUFFERED_NO));
        Figures { inactive: inactive.map(str::to_owned), calls }
    }
}

fn in_force(size: BufferSize, learned: Option<&Summary>) -> String {
    let size = buffer::text(size);
    match learned.and_then(|learned| learned.processes) {
        Some(0) => "no: no process has said that it loaded the library".to_string(),
        Some(1) => format!("size {size}, in 1 process"),
        Some(processes) => format!("size {size}, in {processes} processes"),
        None => format!("size {size}"),
    }
}

fn table(files: &[FileSummary]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "file",
        "buffer",
        "calls",
        "left",
        "read",
        "written",
        "straight on",
    ]);
    for file in files {
        let straight = match file.straight_calls {
            0 => String::new(),
            calls if file.reasons.is_empty() => format!("{calls}: before it had earned its buffer"),
            calls => format!("{calls}: {}", file.reasons.join("; ")),
        };
        table.add_row([
            file.path.clone(),
            file.buffer.clone(),
            file.calls_before.to_string(),
            file.calls_after.to_string(),
            file.read_bytes.to_string(),
            file.written_bytes.to_string(),
            straight,
        ]);
    }
    for column in 2..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::Why;

    #[test]
    fn says_what_was_buffered_and_what_was_not() {
        let file = FileSummary {
            path: "/data/in.dat".to_string(),
            buffer: "auto".to_string(),
            calls_before: 1000,
            calls_after: 4,
            read_bytes: 200_000,
            written_bytes: 0,
            straight_calls: 64,
            reasons: vec!["too few calls to be worth it", "mapped into memory"],
        };
        let files = vec![file];
        let learned = Summary { processes: Some(2), files, ..Summary::default() };
        let check = |report: Report, learned: Option<&Summary>, parts: &[&str]| {
            let text = report.text("./job", 42, Ended::Exited(3), 1.5, learned);
            assert!(text.starts_with(TITLE));
            for part in parts {
                assert!(text.contains(part), "{part:?} is missing in:\n{text}");
            }
            let figures = Figures::read(&text);
            assert_eq!(figures.inactive.is_some(), text.contains("buffered  no: "));
            let files = learned.is_some_and(|learned| !learned.files.is_empty());
            assert_eq!(figures.calls, files.then_some((1000, 4)), "{text}");
        };
        let reachable = || Report::new(BufferSize::Bytes(65536), None, Reach::Reachable);
        check(
            reachable(),
            Some(&learned),
            &[
                "./job, pid 42, exit status 3, 1.500 s",
                "size 65536, in 2 processes",
                "/data/in.dat",
                "1000",
                "64: too few calls to be worth it; mapped into memory",
            ],
        );
        let silent = Summary { processes: Some(0), ..Summary::default() };
        check(reachable(), Some(&silent), &["buffered  no: no process has said"]);
        check(reachable(), Some(&Summary::default()), &["buffered  size 65536\n"]);
        let fixed = Report::new(BufferSize::Auto, None, Reach::Unreachable(Why::Go));
        check(fixed, None, &["buffered  no: ./job cannot be reached: it is a Go program"]);
        check(Report::switched_off(), None, &["buffered  no: SWEETSPOT=off"]);
    }
}

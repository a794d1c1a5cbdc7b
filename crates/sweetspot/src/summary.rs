//! What `--summary` says after the run.
//!
//! The text goes to stderr or to a file. A file that is there and is no summary of ours is never
//! overwritten: `--summary=data.dat` is a mistake, not an order. Into a folder goes a [`Record`], in a
//! file of its own, for `merge`.

use crate::environment::{Environment, SWITCHED_OFF};
use crate::failure::Failure;
use crate::origin;
use crate::reach::Reach;
use crate::session::{FileSummary, Summary};
use comfy_table::{CellAlignment, Table, presets};
use rustix::fs::{Mode, OFlags, fcntl_setfl};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use sweetspot_core::size::BufferSize;
use sweetspot_guard::process::Ended;
use sweetspot_report::numbers;
use sweetspot_report::origin::Origin;
use sweetspot_report::shown::shown;
use sweetspot_report::summary::{BUFFERED_NO, NOTE, calls};
use tempfile::NamedTempFile;

/// First line of every summary, by which an older one is recognised.
pub const TITLE: &str = "sweetspot summary\n";

/// Where the summary goes.
pub enum Target {
    Stderr,
    /// After what the program wrote there.
    Stdout,
    File(Own),
    /// A file that is not there before. If nothing is written it goes away again.
    New(NamedTempFile),
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
    pub fn open_file(
        option: &str,
        path: &Path,
        title: impl AsRef<[u8]>,
    ) -> Result<Target, Failure> {
        let title = title.as_ref();
        if path == "-" {
            return Ok(Target::Stdout);
        }
        let shown = shown(path);
        let failure = |cause: &str| Failure::own(format!("{option}{shown}: {cause}"));
        let kind = path.metadata().ok().map(|metadata| metadata.file_type());
        let special = kind.is_some_and(|kind| !kind.is_file());
        let is_fifo = kind.is_some_and(|kind| kind.is_fifo());
        let opened = match is_fifo {
            true => open_fifo(path),
            false => OpenOptions::new().write(true).read(!special).create(!special).open(path),
        };
        let nobody = Some(Errno::NXIO.raw_os_error());
        let file = opened.map_err(|error| match is_fifo && error.raw_os_error() == nobody {
            true => failure("nobody reads there")
                .next(format!("start its reader first, such as: cat {shown} &")),
            false => failure(&error.to_string()).next("name a file in a folder of yours"),
        })?;
        let own = Own { path: path.to_path_buf(), title: title.to_vec(), was: None, file };
        if special {
            return Ok(Target::File(own));
        }
        let io = |error: std::io::Error| failure(&error.to_string());
        if !own.is_replaceable().map_err(io)? {
            return Err(failure("the file holds something else, which is not overwritten")
                .next(format!("name another one: {option}{shown}.new")));
        }
        let was = Some(State::of(&own.file.metadata().map_err(io)?));
        Ok(Target::File(Own { was, ..own }))
    }

    /// Writes the summary. The program has ended: a failure is said, and changes nothing else.
    pub fn write(self, text: impl AsRef<[u8]>) {
        if let Err(failure) = self.try_write(text) {
            crate::failure::say(failure);
        }
    }

    /// The same for whom a failure is one.
    ///
    /// # Errors
    /// Where not everything could be written; never for stderr.
    pub fn try_write(self, text: impl AsRef<[u8]>) -> Result<(), Failure> {
        let text = text.as_ref();
        let failure = |place: &str, error| Failure::own(format!("{place}: {error}"));
        match self {
            Target::Stderr => {
                let _ = std::io::stderr().write_all(text);
                Ok(())
            }
            Target::Stdout => {
                let mut stdout = std::io::stdout();
                let written = stdout.write_all(text).and_then(|()| stdout.flush());
                written.map_err(|error| failure("stdout", error))
            }
            Target::File(own) if !own.is_as_it_was() => {
                let cause = "somebody has written to it meanwhile, so it is left alone";
                let instead = "what was meant for it follows here";
                crate::failure::say(format_args!("sweetspot: {}: {cause}; {instead}", own.shown()));
                let _ = std::io::stderr().write_all(text);
                Ok(())
            }
            Target::File(mut own) => {
                // A pipe or a terminal cannot be emptied or rewound, and need not be.
                let _ = own.file.set_len(0);
                let _ = own.file.rewind();
                let written = own.file.write_all(text);
                written.map_err(|error| failure(&own.shown(), error))
            }
            Target::New(mut file) => {
                let path = shown(file.path());
                let written = file.write_all(text);
                let kept = written.and_then(|()| file.keep().map_err(|failed| failed.error));
                kept.map(drop).map_err(|error| failure(&path, error))
            }
        }
    }
}

/// How long the reader of a FIFO may take to open it: started together with `sweetspot`, it may come
/// a moment later.
const READER_WAIT: Duration = Duration::from_secs(1);

/// Opens a FIFO if it has a reader. Writing to it later waits for that reader, as usual.
fn open_fifo(path: &Path) -> std::io::Result<File> {
    let started = Instant::now();
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    loop {
        match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NXIO) if started.elapsed() < READER_WAIT => {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => {
                let file = opened?;
                fcntl_setfl(&file, OFlags::empty())?;
                return Ok(file.into());
            }
        }
    }
}

/// A file that was opened before the program started, and is replaced only if it is still what it
/// was then: the program may have written it.
pub struct Own {
    path: PathBuf,
    file: File,
    /// How all that is written there begins.
    title: Vec<u8>,
    /// None: not a regular file, so there is nothing to lose.
    was: Option<State>,
}

/// What tells that a file was not written.
#[derive(PartialEq, Eq)]
struct State {
    size: u64,
    times: [i64; 4],
}

impl State {
    fn of(file: &Metadata) -> State {
        let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
        State { size: file.len(), times }
    }
}

impl Own {
    fn shown(&self) -> String {
        shown(&self.path)
    }

    /// Whether it holds nothing, or what was written for the same purpose before.
    fn is_replaceable(&self) -> std::io::Result<bool> {
        let mut start = Vec::new();
        (&self.file).rewind()?;
        (&self.file).take(self.title.len() as u64).read_to_end(&mut start)?;
        Ok(start.is_empty() || start == self.title)
    }

    fn is_as_it_was(&self) -> bool {
        let Some(was) = &self.was else { return true };
        let (Ok(there), Ok(here)) = (self.path.metadata(), self.file.metadata()) else {
            return false;
        };
        (there.dev(), there.ino()) == (here.dev(), here.ino())
            && State::of(&here) == *was
            && self.is_replaceable().unwrap_or(false)
    }
}

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
    pub fn write(self, report: &Report, ran: &Ran<'_>) {
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
    pub files: Vec<FileRecord>,
}

/// One file in a [`Record`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileRecord {
    pub path: String,
    /// The size in force for it.
    pub buffer: String,
    /// Reads, writes and seeks that the program made, and system calls that were left of them.
    pub calls: u64,
    pub calls_left: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Calls that went straight on, and why.
    pub straight_calls: u64,
    pub reasons: Vec<String>,
    /// The sizes that were chosen, and what calls cost there.
    #[serde(default)]
    pub chosen: Vec<String>,
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
pub struct Report {
    state: InForce,
}

enum InForce {
    SwitchedOff,
    WithoutLibrary(&'static str),
    WithLibrary { size: BufferSize, rules: Option<PathBuf>, reach: Reach },
}

impl Report {
    /// The program is started untouched.
    pub fn switched_off() -> Report {
        Report { state: InForce::SwitchedOff }
    }

    /// The program is started untouched, for a reason.
    pub fn without_library(why: &'static str) -> Report {
        Report { state: InForce::WithoutLibrary(why) }
    }

    /// The program is started with a buffer of `size`, and the rules in a file, if there is one.
    pub fn new(size: BufferSize, rules: Option<PathBuf>, reach: Reach) -> Report {
        Report { state: InForce::WithLibrary { size, rules, reach } }
    }

    /// The whole summary.
    pub fn text(&self, ran: &Ran<'_>) -> String {
        let Ran { pid, seconds, learned, .. } = *ran;
        let program = shown(ran.program);
        let mut text = TITLE.to_string();
        let ended = match ran.ended {
            Ended::Exited(_) => ended(ran.ended),
            Ended::Killed(_) => format!("ended by {}", ended(ran.ended)),
        };
        let _ = writeln!(text, "program   {program}, pid {pid}, {ended}, {seconds:.3} s");
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
            let _ = writeln!(text, "\n{}", table(&learned.files).trim_fmt());
            text += &chosen(&learned.files);
        }
        text
    }

    /// The same as data.
    fn record(&self, ran: &Ran<'_>, origin: Origin) -> Record {
        let learned = ran.learned.cloned().unwrap_or_default();
        let inactive = self.inactive(ran);
        let file = |file: FileSummary| FileRecord {
            path: file.path,
            buffer: file.buffer,
            calls: file.calls_before,
            calls_left: file.calls_after,
            read_bytes: file.read_bytes,
            written_bytes: file.written_bytes,
            straight_calls: file.straight_calls,
            reasons: file.reasons.into_iter().map(str::to_owned).collect(),
            chosen: file.chosen,
        };
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
            files: learned.files.into_iter().map(file).collect(),
        }
    }

    /// Why nothing was buffered.
    fn inactive(&self, ran: &Ran<'_>) -> Option<String> {
        match &self.state {
            InForce::SwitchedOff => Some(SWITCHED_OFF.to_owned()),
            InForce::WithoutLibrary(why) => Some((*why).to_owned()),
            InForce::WithLibrary { reach: Reach::Unreachable(why), .. } => {
                Some(format!("{} cannot be reached: {why}", shown(ran.program)))
            }
            InForce::WithLibrary { .. } => {
                match ran.learned.and_then(|learned| learned.processes) {
                    Some(0) => Some("no process has said that it loaded the library".to_owned()),
                    _ => None,
                }
            }
        }
    }

    fn size(&self) -> BufferSize {
        match self.state {
            InForce::SwitchedOff | InForce::WithoutLibrary(_) => BufferSize::Off,
            InForce::WithLibrary { size, .. } => size,
        }
    }

    /// The file of the rules, where they could be in force.
    fn rules(&self) -> Option<&Path> {
        match &self.state {
            InForce::WithLibrary { reach: Reach::Unreachable(_), .. } => None,
            InForce::SwitchedOff | InForce::WithoutLibrary(_) => None,
            InForce::WithLibrary { rules, .. } => rules.as_deref(),
        }
    }
}

fn total(files: &[FileSummary]) -> String {
    let sum = |of: fn(&FileSummary) -> u64| files.iter().map(of).sum::<u64>();
    calls(sum(|file| file.calls_before), sum(|file| file.calls_after))
}

fn in_force(size: BufferSize, learned: Option<&Summary>) -> String {
    let size = numbers::size(size);
    match learned.and_then(|learned| learned.processes) {
        Some(1) => format!("size {size}, in 1 process"),
        Some(processes) => format!("size {size}, in {processes} processes"),
        None => format!("size {size}"),
    }
}

const CHOSEN: &str = "chosen    ";
/// Files of which it is said which sizes were chosen, those with the most calls: of more, nobody reads it.
const CHOSEN_MAX: usize = 16;

/// Which sizes were chosen, and why.
fn chosen(files: &[FileSummary]) -> String {
    let mut busiest: Vec<_> = files.iter().filter(|file| !file.chosen.is_empty()).collect();
    busiest.sort_by_key(|file| std::cmp::Reverse(file.calls_before));
    let mut text = String::new();
    for file in busiest.into_iter().take(CHOSEN_MAX) {
        for chosen in &file.chosen {
            let start = if text.is_empty() { "\n" } else { "" };
            let _ = writeln!(text, "{start}{CHOSEN}{}: {chosen}", shown(&file.path));
        }
    }
    text
}

fn table(files: &[FileSummary]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "file",
        "buffer",
        "calls",
        "made",
        "read",
        "written",
        "passed through",
    ]);
    for file in files {
        let straight = match file.straight_calls {
            0 => String::new(),
            calls if file.reasons.is_empty() => format!("{calls}: before it had earned its buffer"),
            calls => format!("{calls}: {}", file.reasons.join("; ")),
        };
        table.add_row([
            shown(&file.path),
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
    use sweetspot_report::summary::Figures;

    #[test]
    fn says_what_was_buffered_and_what_was_not() {
        let file = FileSummary {
            path: "/data/in.dat".to_string(),
            buffer: "auto".to_string(),
            calls_before: 1000,
            calls_after: 4,
            read_bytes: 200_000,
            written_bytes: 0,
            buffered_calls: 936,
            chosen: vec!["64 KiB: a call costs 0.9 us here".to_owned()],
            straight_calls: 64,
            reasons: vec!["too few calls to be worth it", "mapped into memory"],
        };
        let files = vec![file];
        let learned = Summary { processes: Some(2), files, ..Summary::default() };
        let check = |report: Report, learned: Option<&Summary>, parts: &[&str]| {
            let command = ["./job".into(), "x".into()];
            let ran = Ran {
                program: Path::new("./job"),
                command: &command,
                pid: 42,
                ended: Ended::Exited(3),
                seconds: 1.5,
                learned,
            };
            let text = report.text(&ran);
            let record = report.record(&ran, Origin::default());
            let again: Record = serde_json::from_str(&record.text()).unwrap();
            assert_eq!(again, record);
            assert_eq!(record.inactive.is_some(), text.contains(BUFFERED_NO));
            assert_eq!(record.files.len(), learned.map_or(0, |learned| learned.files.len()));
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
                "chosen    /data/in.dat: 64 KiB: a call costs 0.9 us here\n",
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

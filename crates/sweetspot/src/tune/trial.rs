//! Runs the command in one setting: brings everything into the state it should begin in, runs it as
//! a fresh process, and checks that it ended well, left its inputs alone and wrote what it should.
//!
//! Invariant: a measurement comes back only if all of that was so. What is wrong is told apart:
//! the setting changes what comes out (a fault of ours, which ends everything), or the program
//! itself writes something else each time (which is said, and cannot be checked any more).

mod start;

use super::apart::Apart;
use super::files::{Files, Outputs, Scan, named};
use crate::arguments::Tune;
use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use sweetspot_core::size::BufferSize;
use sweetspot_guard::session as guarded;
use sweetspot_lab::ladder::Ladder;
use sweetspot_lab::measure::Measurement;
use sweetspot_lab::search::{OFF, Setting};
use sweetspot_report::failure::Failure;
use sweetspot_report::numbers::typed;
use sweetspot_report::profile::data::Profile;
use sweetspot_report::shell::quoted;
use sweetspot_report::shown::shown;
use sweetspot_sandbox::Scratch;

/// How names of the folders begin that take what the command says.
const SCRATCH_PREFIX: &str = "sweetspot-tune-";
const STANDARD_INPUT: &str = "/proc/self/fd/0";
/// What to do where runs begin with something else.
const BRING_BACK: &str = "bring it back before each run: --prepare 'cp saved.dat input.dat'";
/// No run takes longer.
const RUN_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// A command and what is known of it.
pub struct Trial<'a> {
    arguments: &'a Tune,
    folder: PathBuf,
    /// Takes what the command says.
    scratch: Scratch,
    /// The sandbox, if it runs in one.
    apart: Option<Apart>,
    files: Files,
    /// What came out of the first runs.
    expected: Outputs,
    /// What the program itself writes differently each time.
    varying: BTreeSet<PathBuf>,
    /// No inputs are brought into the cache any more: they do not stay there.
    is_cache_as_it_is: bool,
    /// What the reader should know.
    pub notes: Vec<String>,
    /// Runs so far, those of learning among them.
    pub runs: usize,
}

/// How the command is started.
enum Way<'a> {
    /// As it is, or under `run` with that size.
    Setting(BufferSize),
    /// Under `run` with these rules and nothing else.
    Rules(&'a Path),
    /// With the library and a ledger that takes notes.
    Learning(&'a guarded::OwnedLedger),
    /// Under `profile`, which keeps its calls in this file.
    Recording(&'a Path),
}

/// The first run: how long it took, and what was in the files before.
pub struct First {
    pub seconds: f64,
    contents: Outputs,
}

impl<'a> Trial<'a> {
    /// Prepares to try the command of `arguments`.
    ///
    /// # Errors
    /// Where there is no room for what it says.
    pub fn new(arguments: &'a Tune) -> Result<Trial<'a>, Failure> {
        let place = std::env::temp_dir();
        let scratch = Scratch::new(&place, SCRATCH_PREFIX).map_err(|error| {
            Failure::own(format!("{}: no temporary folder: {error}", shown(&place)))
                .next("name a folder that is there: TMPDIR=DIR sweetspot tune ...")
        })?;
        let folder = std::env::current_dir()
            .and_then(|folder| folder.canonicalize())
            .map_err(|error| Failure::own(format!("the current folder is not usable: {error}")))?;
        let mut notes = Vec::new();
        if is_pipe_or_socket(Path::new(STANDARD_INPUT)) {
            notes.push(
                "its standard input is not a file, so each run finds it empty; cmd < file can be tuned"
                    .to_string(),
            );
        }
        let apart = arguments.sandbox.then(|| Apart::new(arguments)).transpose()?;
        notes.extend(apart.iter().flat_map(Apart::notes));
        Ok(Trial {
            arguments,
            folder,
            scratch,
            apart,
            files: Files::default(),
            expected: Outputs::default(),
            varying: BTreeSet::new(),
            is_cache_as_it_is: false,
            notes,
            runs: 0,
        })
    }

    /// Runs the command once, as it is, to learn what it writes.
    ///
    /// # Errors
    /// Where it fails, or cannot be run again and again.
    pub fn learn_first(&mut self) -> Result<First, Failure> {
        let mut named = named(&self.folder, &self.arguments.command);
        named.extend(standard_input());
        match self.apart {
            None => self.learn_in_place(&named),
            Some(_) => self.learn_apart(&named),
        }
    }

    /// Runs it once more with the library taking notes, unless a profile tells as much, to learn what it
    /// reads.
    ///
    /// # Errors
    /// Where it fails, or changes what it reads.
    pub fn learn_rest(&mut self, first: &First, known: Option<&Profile>) -> Result<(), Failure> {
        match known {
            Some(profile) => self.files.learn_from_profile(profile),
            None => self.learn_by_library()?,
        }
        let altered = self.files.altered_input(&first.contents, &self.expected);
        if let (Some(path), None) = (altered, &self.arguments.prepare) {
            let shown = shown(path);
            return Err(Failure::own(format!(
                "'{}' reads {shown} and has changed it, so that every run after the first began with \
                 something else",
                self.name()
            ))
            .next(format!(
                "restore it first, and before each run: --prepare {}",
                quoted(format!("cp saved.dat {}", quoted(path)))
            )));
        }
        self.check_outputs("with buffered reads")?;
        let known = self.outputs()?;
        known.0.into_iter().for_each(|(path, output)| {
            self.expected.0.entry(path).or_insert(output);
        });
        if self.files.unknown > 0 {
            self.notes.push(format!(
                "{} files have paths too long to be followed, and are not checked",
                self.files.unknown
            ));
        }
        if self.arguments.cold && self.files.inputs().is_empty() {
            return Err(Failure::own("no input file is known that could be made cold")
                .next("name it in the command, or tune without --cold"));
        }
        Ok(())
    }

    /// Runs it with the library taking notes.
    fn learn_by_library(&mut self) -> Result<(), Failure> {
        let settings = guarded::Settings { summary: true, guard: false, ..Default::default() };
        let created = match &self.apart {
            None => guarded::OwnedLedger::create(&settings),
            Some(apart) => guarded::OwnedLedger::create_in(&settings, &apart.ledger_folder()?),
        };
        let ledger = match created {
            Ok(ledger) => ledger,
            Err(error) => {
                self.notes.push(format!("could not learn what it reads: {error}"));
                return Ok(());
            }
        };
        let start = SystemTime::now();
        let ended = self.start(&Way::Learning(&ledger));
        match self.apart {
            None => self.files.learn_from_access(start),
            Some(_) => self.learn_written_apart(),
        }
        let summary = ledger.summary();
        let _ = ledger.remove(); // nothing is pending in it; the next run removes it, too
        ended?;
        if summary.processes == 0 {
            self.notes.push("the library was loaded by no process of it".to_string());
        }
        self.files.learn_from_ledger(&summary);
        Ok(())
    }

    /// Runs the command once as it is, and keeps its calls in a file.
    ///
    /// # Errors
    /// Where it fails, or there is no room for them.
    pub fn record(&mut self) -> Result<PathBuf, Failure> {
        let path = self.scratch.path().join("recording");
        self.start(&Way::Recording(&path))?;
        Ok(path)
    }

    /// Learns what is written by looking at folders before and after.
    fn learn_in_place(&mut self, named: &[PathBuf]) -> Result<First, Failure> {
        let before = Scan::of(&self.folder, named).with_contents();
        let measurement = self.start(&Way::Setting(BufferSize::Off))?;
        let after = Scan::of(&self.folder, named);
        self.files.learn_from_scans(&before, &after);
        self.files.learn_from_names(named);
        let scratch = self.scratch.path();
        self.files.written.retain(|path| !path.starts_with(scratch));
        if after.is_partial {
            self.notes.push(format!(
                "{} holds too many files to look at each; outputs were learned from some of them \
                 and from what the library saw",
                shown(&self.folder)
            ));
        }
        if let Some(gone) = self.files.removed.first()
            && self.arguments.prepare.is_none()
        {
            return Err(Failure::own(format!(
                "'{}' removes {}, so it cannot be run again and again",
                self.name(),
                shown(gone)
            ))
            .next(BRING_BACK));
        }
        self.expected = self.outputs()?;
        Ok(First { seconds: measurement.wall.as_secs_f64(), contents: before.contents })
    }

    /// The same from what the first run left in the sandbox: every file that it wrote, wherever.
    fn learn_apart(&mut self, named: &[PathBuf]) -> Result<First, Failure> {
        let measurement = self.start(&Way::Setting(BufferSize::Off))?;
        self.learn_written_apart();
        self.files.learn_from_names(named);
        self.expected = self.outputs()?;
        Ok(First { seconds: measurement.wall.as_secs_f64(), contents: Outputs::default() })
    }

    fn learn_written_apart(&mut self) {
        let written = self.apart.iter().flat_map(|apart| apart.last.0.keys().cloned());
        self.files.written.extend(written);
    }

    /// Runs the command once in a setting of `ladder`.
    ///
    /// # Errors
    /// Where anything about the run is not as it should be.
    pub fn run(&mut self, ladder: &Ladder, setting: Setting) -> Result<Measurement, Failure> {
        let buffer = ladder.buffer(setting);
        let measurement = self.start(&Way::Setting(buffer))?;
        let how = match setting {
            OFF => "without buffering".to_string(),
            _ => format!("with buffer-size {}", typed(buffer)),
        };
        self.check_outputs(&how)?;
        Ok(measurement)
    }

    /// Runs the command once with the rules in a file.
    ///
    /// # Errors
    /// As [`Trial::run`].
    pub fn run_with_rules(&mut self, rules: &Path) -> Result<Measurement, Failure> {
        let measurement = self.start(&Way::Rules(rules))?;
        self.check_outputs("with rules for single files")?;
        Ok(measurement)
    }

    /// The command's name, as it was typed.
    pub fn name(&self) -> String {
        self.arguments.command[0].to_string_lossy().into_owned()
    }

    /// Where what is of no use afterwards lies.
    pub fn scratches(&self) -> Vec<PathBuf> {
        let apart = self.apart.iter().flat_map(Apart::scratches);
        std::iter::once(self.scratch.path().to_owned()).chain(apart).collect()
    }

    /// Where the command runs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The files that are read, and those that are written.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The outputs that are compared after each run.
    pub fn checked(&self) -> Vec<String> {
        let checked = self.expected.0.iter().filter(|(path, _)| !self.varying.contains(*path));
        // A standard output to which nothing is written need not be named.
        let is_something = |output: &Option<(String, u64)>, path: &Path| {
            *path != self.stdout() || output.as_ref().is_some_and(|(_, size)| *size > 0)
        };
        checked
            .filter(|(path, output)| is_something(output, path))
            .map(|(path, _)| self.shown(path))
            .collect()
    }

    fn stdout(&self) -> PathBuf {
        self.scratch.path().join("stdout")
    }

    fn stderr(&self) -> PathBuf {
        self.scratch.path().join("stderr")
    }

    fn shown(&self, path: &Path) -> String {
        match path == self.stdout() {
            true => "its standard output".to_string(),
            false => shown(path),
        }
    }
}

/// What each run reads as its standard input: the file that was given, from its start; else nothing.
fn standard_input() -> Option<PathBuf> {
    let link = Path::new(STANDARD_INPUT);
    let is_file = link.metadata().is_ok_and(|metadata| metadata.is_file());
    is_file.then(|| link.read_link().ok()).flatten()
}

/// Whether something could come from there that can be read once only.
fn is_pipe_or_socket(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| {
        let kind = metadata.file_type();
        kind.is_fifo() || kind.is_socket()
    })
}

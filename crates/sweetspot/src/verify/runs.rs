//! The runs that are compared: each from the same state, in a sandbox or in place, watched and ended.

use crate::arguments::Verify;
use crate::home;
use crate::inherited;
use crate::interrupts::Asked;
use crate::own;
use crate::reach::{self};
use crate::say::say;
use crate::verify::compare::{Elsewhere, Outcome};
use crate::verify::place::{Seen, WatchedFolders};
use crate::verify::{END_PATIENCE, INPUT_PATIENCE, LOOK, TICK, cannot_compare, files, place};
use indicatif::ProgressBar;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};
use sweetspot_lab::alike::{Pids, Span};
use sweetspot_report::failure::{Failure, STATUS_OWN};
use sweetspot_report::shown::shown;
use sweetspot_report::summary::Figures;
use sweetspot_sandbox::{
    Changes, Content, End, Isolation, Kept, Kind, Ran, Refused, Sandbox, Wanted,
};

/// How the command is run.
pub(super) enum Way {
    Plain,
    Buffered(Option<OsString>),
}

/// Everything that all runs have in common.
pub(super) struct Runs<'a> {
    pub(super) arguments: &'a Verify,
    rules: Option<PathBuf>,
    pub(super) sandbox: Sandbox,
    /// Where there is no sandbox: what is looked at before and after.
    pub(super) place: Option<WatchedFolders>,
    input: Input,
    asked: Asked,
    bar: ProgressBar,
    count: usize,
}

impl<'a> Runs<'a> {
    pub(super) fn new(arguments: &'a Verify, rules: Option<PathBuf>) -> Result<Runs<'a>, Failure> {
        let in_place = arguments.in_place || arguments.prepare.is_some();
        let isolation = match in_place {
            true => Isolation::None,
            false => {
                inherited::nothing_outside()?;
                Isolation::Overlays
            }
        };
        let asked = Asked::watch()?;
        let sandbox = Sandbox::new(&Wanted {
            isolation,
            command: &arguments.command,
            folder: arguments.dir.as_deref(),
            notes: home::notes(),
            costs: home::states(),
        })
        .map_err(|cause| refused(&cause))?;
        let place = in_place
            .then(|| WatchedFolders::of(&arguments.command))
            .transpose()
            .map_err(|error| Failure::own(format!("the current folder: {error}")))?;
        let input = Input::take(&sandbox)?;
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(200));
        Ok(Runs { arguments, rules, sandbox, place, input, asked, bar, count: 0 })
    }

    /// Runs the command once more and looks at all that it did.
    pub(super) fn run(&mut self, way: &Way) -> Result<Outcome, Failure> {
        if self.asked.is_so() {
            return Err(self.interruption());
        }
        self.count += 1;
        let number = self.count;
        self.bar.set_message(format!("run {number}: {}", in_words(way)));
        self.prepare()?;
        let before = self.place.as_ref().map(WatchedFolders::look).transpose()?;
        if before.is_some() {
            std::thread::sleep(TICK);
        }
        let (stdout, stderr) = (self.output(number, "stdout"), self.output(number, "stderr"));
        let failed = |error: io::Error| Failure::own(format!("a run cannot be started: {error}"));
        let words = self.words(way, number).map_err(failed)?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(self.input.again().map_err(failed)?);
        command.stdout(File::create(&stdout).map_err(failed)?);
        command.stderr(File::create(&stderr).map_err(failed)?);
        let started = seconds_now();
        let child = command.spawn().map_err(failed)?;
        // It has the input open, which is to be the run's alone.
        drop(command);
        self.wait(child)?;
        // Before the report is read: it lies on the same disk.
        self.sandbox
            .has_room()
            .map_err(|full| Failure::own(full).next("name a folder on a larger one: --dir DIR"))?;
        let ran = self.sandbox.ran(number).map_err(Failure::own)?;
        let (changes, elsewhere) = self.changes(number, &ran, before)?;
        let content = |path: PathBuf| -> Result<Content, Failure> {
            let len = fs::metadata(&path).map_err(cannot_compare)?.len();
            Ok(Content { len, kept: Kept::At(path) })
        };
        Ok(Outcome {
            end: ran.end,
            stdout: content(stdout)?,
            stderr: content(stderr)?,
            changes,
            elsewhere,
            span: Span {
                seconds: started - 1..=seconds_now() + 1,
                pids: Pids { first: ran.pids.0.into(), last: ran.pids.1.into(), max: pid_max() },
                names: Vec::new(),
            },
            seconds: ran.seconds,
            left_running: ran.left_running,
        })
    }

    /// Where what a run printed is kept.
    fn output(&self, number: usize, name: &str) -> PathBuf {
        self.sandbox.scratch().join(format!("{number}.{name}"))
    }

    /// What a run changed: in the folders that are watched, or in the sandbox.
    fn changes(
        &self,
        number: usize,
        ran: &Ran,
        before: Option<Seen>,
    ) -> Result<(Changes, Elsewhere), Failure> {
        let (Some(place), Some(before)) = (&self.place, before) else {
            let changes = self.sandbox.changes(number, ran).map_err(cannot_compare)?;
            return Ok((changes, Elsewhere::AsItIs));
        };
        let after = place.look()?;
        let kept = self.sandbox.scratch().join(format!("{number}.kept"));
        let changes = place::changes(&before, &after, &kept).map_err(cannot_keep)?;
        Ok((changes, Elsewhere::Before(place::untouched(before))))
    }

    fn prepare(&self) -> Result<(), Failure> {
        let Some(script) = &self.arguments.prepare else { return Ok(()) };
        let status = Command::new(reach::SHELL)
            .arg("-c")
            .arg(script)
            .stdin(Stdio::null())
            .stdout(io::stderr())
            .status()
            .map_err(|error| Failure::own(format!("{}: {error}", reach::SHELL)))?;
        if !status.success() {
            return Err(Failure::own(format!("--prepare failed ({status})"))
                .next("what it said stands above"));
        }
        Ok(())
    }

    fn words(&self, way: &Way, number: usize) -> io::Result<Vec<OsString>> {
        let mut words = Vec::new();
        if let Way::Buffered(size) = way {
            let mut summary = OsString::from("--summary=");
            summary.push(self.sandbox.beside(number, "summary").0);
            let rules = self.rules.clone().unwrap_or_else(|| "/dev/null".into());
            words.push(own::FILE.into());
            words.extend(["run".into(), summary, "--config".into(), rules.into()]);
            if let Some(size) = size {
                words.extend(["--buffer-size".into(), size.clone()]);
            }
            words.extend(self.arguments.stdio.then(|| "--stdio".into()));
            words.push("--".into());
        }
        words.extend(self.arguments.command.iter().cloned());
        self.sandbox.command(number, &words)
    }

    fn wait(&self, mut child: Child) -> Result<(), Failure> {
        loop {
            let ended = child.try_wait();
            if self.asked.is_so() {
                self.end(&mut child);
                return Err(self.interruption());
            }
            match ended {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => std::thread::sleep(LOOK),
                Err(error) => return Err(Failure::own(format!("waiting for a run: {error}"))),
            }
        }
    }

    /// Ends a run early. It is a session of its own, so that nothing has reached it yet.
    pub(super) fn end(&self, child: &mut Child) {
        let group = Pid::from_child(child);
        for signal in [Signal::TERM, Signal::KILL] {
            let _ = kill_process_group(group, signal);
            let asked = Instant::now();
            while asked.elapsed() < END_PATIENCE {
                if !matches!(child.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::sleep(LOOK);
            }
        }
    }

    fn interruption(&self) -> Failure {
        Failure::own("interrupted").next(match self.place {
            None => "your files did not change",
            Some(_) => "the last run may be half done, and it ran in place",
        })
    }

    /// What `run` did in the last run, which had this outcome.
    pub(super) fn figures(&self, outcome: &Outcome) -> Result<Figures, Failure> {
        let (_, path) = self.sandbox.beside(self.count, "summary");
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Figures::read(&text)),
            Err(_) if outcome.end == End::Exited(STATUS_OWN) => Err(self.refusal()),
            Err(error) => Err(Failure::own(format!("`run` has left no summary: {error}"))),
        }
    }

    /// `run` itself has failed in the last run, and no program has run.
    fn refusal(&self) -> Failure {
        let said = fs::read(self.output(self.count, "stderr")).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let said = said.strip_prefix("sweetspot: ").unwrap_or(&said).trim_end();
        let failed = |what: &str| Failure::own(format!("`run` itself has failed: {what}"));
        match said.split_once('\n') {
            Some((what, next)) => failed(what).next(next.trim_start()),
            None => failed(said),
        }
    }

    /// Where two more runs like the first might not fit, keeps only hashes of what plain runs wrote.
    pub(super) fn save_space(&self, plain: &mut [Outcome]) -> Result<(), Failure> {
        let written: u64 = files(&plain[0]).map(|(_, content)| content.len).sum();
        let free = self.sandbox.free_bytes().unwrap_or(u64::MAX);
        if free / 3 > written {
            return Ok(());
        }
        self.bar.suspend(|| {
            say("sweetspot: the outputs are too large to be kept; only hashes are kept");
        });
        for (number, outcome) in (1..).zip(plain) {
            for entry in outcome.changes.values_mut().flatten() {
                if let Kind::File(content) = &mut entry.kind {
                    content.keep_hashes_only().map_err(cannot_keep)?;
                }
            }
            self.forget(number)?;
        }
        Ok(())
    }

    /// The number of the last run.
    pub(super) fn last(&self) -> usize {
        self.count
    }

    /// Removes what a run has left.
    pub(super) fn forget(&self, number: usize) -> Result<(), Failure> {
        let kept = self.sandbox.scratch().join(format!("{number}.kept"));
        let _ = fs::remove_dir_all(kept);
        self.sandbox.forget(number).map_err(cannot_keep)
    }

    pub(super) fn notes(&self, plain: &Outcome, command: &[OsString]) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(place) = &self.place {
            let folders: Vec<_> = place.folders().map(shown).collect();
            notes.push(format!("in place: looked at all below {}", folders.join(", ")));
        } else {
            notes.push("every run began with the same files; your files did not change".into());
        }
        if self.place.is_none() && plain.end != End::Exited(0) {
            notes.push(format!(
                "if {} ends differently outside the sandbox, use --in-place or --prepare",
                shown(&command[0])
            ));
        }
        if let Some(file) = self.sandbox.fixed().first() {
            notes.push(format!(
                "{} belongs to another user or group, so it could not be written in the sandbox{}",
                shown(file),
                match self.sandbox.fixed().len() - 1 {
                    0 => String::new(),
                    more => format!("; nor could {more} more"),
                }
            ));
        }
        if self.input.is_terminal() {
            notes.push(
                "no run had a terminal: standard input was empty, /dev/tty could not be opened"
                    .to_owned(),
            );
        }
        if !plain.left_running.is_empty() {
            notes.push(format!(
                "still running after the command and ended by force: {}",
                plain.left_running.join(", ")
            ));
        }
        notes
    }
}

/// How a run is done, for the line of progress.
fn in_words(way: &Way) -> String {
    match way {
        Way::Plain => "as it is".to_owned(),
        Way::Buffered(Some(size)) => format!("buffered by {}", shown(size)),
        Way::Buffered(None) => "buffered".to_owned(),
    }
}

fn cannot_keep(error: io::Error) -> Failure {
    Failure::own(format!("what a run wrote cannot be kept: {error}"))
        .next("name a folder with more room: --dir DIR")
}

fn refused(cause: &Refused) -> Failure {
    Failure::own(cause.to_string()).next(match cause {
        Refused::NotHere(_) => {
            "nothing was run; to run in place: --prepare CMD (sets everything back before each \
             run) or --in-place"
        }
        Refused::NoScratch(_) => "name another folder: --dir DIR",
    })
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The highest process number that there can be, here or on any machine of 64 bits.
fn pid_max() -> u64 {
    let text = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    text.trim().parse().unwrap_or(1 << 22)
}

/// The standard input that every run gets.
pub(super) enum Input {
    Nothing,
    Terminal,
    /// The path of a file, and where it begins.
    File(PathBuf, u64),
}

impl Input {
    /// Takes ours: a file is read again from where it stands, anything else is read once and kept.
    pub(super) fn take(sandbox: &Sandbox) -> Result<Input, Failure> {
        let stdin = io::stdin();
        if rustix::termios::isatty(&stdin) {
            return Ok(Input::Terminal);
        }
        let failed = |error: io::Error| Failure::own(format!("standard input: {error}"));
        let data = rustix::fs::fstat(&stdin).map_err(|errno| failed(errno.into()))?;
        match rustix::fs::FileType::from_raw_mode(data.st_mode) {
            rustix::fs::FileType::RegularFile => {
                let at = rustix::fs::tell(&stdin).map_err(|errno| failed(errno.into()))?;
                Ok(Input::File("/proc/self/fd/0".into(), at))
            }
            rustix::fs::FileType::CharacterDevice => Ok(Input::Nothing),
            _ => {
                let path = sandbox.scratch().join("stdin");
                let done = Arc::new(AtomicBool::new(false));
                let copied = Arc::clone(&done);
                std::thread::spawn(move || {
                    std::thread::sleep(INPUT_PATIENCE);
                    if !copied.load(Relaxed) {
                        say(
                            "sweetspot: reading standard input to its end, because every run gets \
                             the same; for none: < /dev/null",
                        );
                    }
                });
                let copy =
                    File::create(&path).and_then(|mut file| io::copy(&mut stdin.lock(), &mut file));
                done.store(true, Relaxed);
                copy.map_err(failed)?;
                Ok(Input::File(path, 0))
            }
        }
    }

    pub(super) fn again(&self) -> io::Result<Stdio> {
        let Input::File(path, at) = self else { return Ok(Stdio::null()) };
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(*at))?;
        Ok(file.into())
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Input::Terminal)
    }
}

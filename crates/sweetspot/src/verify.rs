//! `sweetspot verify`: proof on the user's own job that buffering changes nothing.
//!
//! The command runs twice as it is, to learn what differs by itself, and then under `run` at each
//! size; everything that can be seen is compared. Where something differs the command runs once more
//! as it is: what a plain run can do, too, is not held against buffering.
//!
//! ```text
//! compare   two runs in all that can be seen; what differs by itself
//! content   the first difference of two contents; times and process numbers in texts
//! place     which files a run changed, where there is no sandbox
//! verdict   what is said in the end
//! ```
//!
//! Invariant: with a sandbox nothing outside of its scratch folder is written, but the library's
//! file in the cache.

mod compare;
mod content;
mod place;
mod verdict;

use crate::arguments::Verify;
use crate::failure::{self, Failure, say};
use crate::home;
use crate::reach::{self, Reach};
use crate::{buffer, config, preload, probe, recover, resolve};
use compare::{Difference, Elsewhere, Noise, Outcome};
use content::Span;
use indicatif::ProgressBar;
use place::Place;
use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};
use sweetspot_core::environment as names;
use sweetspot_core::size::{Parsed, parse};
use sweetspot_report::shown::lines;
use sweetspot_report::shown::shown;
use sweetspot_report::summary::Figures;
use sweetspot_sandbox::{Content, Isolation, Kept, Kind, Refused, Sandbox, Wanted};
use verdict::{Buffered, Verdict, Word};

/// Exit statuses: as `cmp`, and one for what cannot be told.
const STATUS_DIFFERS: u8 = 1;
const STATUS_TROUBLE: u8 = 2;
const STATUS_CANNOT_TELL: u8 = 3;
/// How many more plain runs are spent on a difference that a plain run might show, too.
const CONFIRMATIONS_MAX: usize = 2;
/// How often is looked whether a run has ended, or Ctrl-C was typed.
const LOOK: Duration = Duration::from_millis(5);
/// How long an interrupted run may take to end before it is killed.
const END_PATIENCE: Duration = Duration::from_secs(12);
/// Clocks of files run a tick behind: a change this soon after a look might go unseen.
const TICK: Duration = Duration::from_millis(20);
/// Whoever gives us a pipe that nobody writes into learns after this why nothing happens.
const INPUT_PATIENCE: Duration = Duration::from_secs(2);

/// Runs the command again and again, and prints the verdict.
///
/// # Errors
/// Where it cannot be run or compared; the exit status is 2.
pub fn verify(arguments: &Verify) -> Result<u8, Failure> {
    let verdict = story(arguments).map_err(|failure| failure.status(STATUS_TROUBLE))?;
    let _ = io::stdout().write_all(lines(&verdict.text(arguments)).as_bytes());
    Ok(match verdict.word {
        Word::Identical => 0,
        Word::Differs(..) => STATUS_DIFFERS,
        Word::CannotTell(_) => STATUS_CANNOT_TELL,
    })
}

fn story(arguments: &Verify) -> Result<Verdict, Failure> {
    let path = std::env::var_os("PATH");
    let name = &arguments.command[0];
    let program =
        resolve::find(name, path.as_deref()).map_err(|missing| resolve::failure(name, &missing))?;
    check_environment()?;
    // A program that is not buffered itself may start others that are.
    let takes_library = match reach::inspect(&program, path.as_deref()) {
        Reach::Reachable => false,
        unreachable => unreachable.takes_library(),
    };
    let answer = probe::ask(&program, &std::env::vars_os().collect());
    if let (Some(obstacle), false) = (answer.obstacle(), takes_library) {
        let shown = shown(&program);
        return Ok(Verdict::never_run(format!("{shown} cannot be buffered: {obstacle}")));
    }
    let mut warnings = Vec::new();
    let here = std::env::current_dir().ok();
    let named = config::named(arguments.config.as_deref());
    let config = config::load(named.as_deref(), here.as_deref(), &mut warnings)?;
    let sizes = sizes(arguments, &mut warnings)?;
    for warning in warnings {
        say(format_args!("sweetspot: {warning}"));
    }
    // Before anything runs, so that no run finds more to do than the others.
    recover::finish_stale();
    preload::install()?;

    let mut runs = Runs::new(arguments, config.path)?;
    let mut noise = Noise::default();
    let mut plain = vec![runs.run(&Way::Plain)?, runs.run(&Way::Plain)?];
    noise.learn(&plain[0], &plain[1]).map_err(cannot_compare)?;
    runs.save_space(&mut plain)?;
    let mut buffered = Vec::new();
    let mut notes = Vec::new();
    for size in &sizes {
        for _ in 0..arguments.runs {
            let way = Way::Buffered(size.clone());
            let outcome = runs.run(&way)?;
            let seconds = outcome.seconds;
            buffered.push(Buffered { size: size.clone(), figures: runs.figures()?, seconds });
            let mut found = differences(&plain, &outcome, &noise, &mut notes)?;
            for _ in 0..CONFIRMATIONS_MAX {
                if found.is_empty() {
                    break;
                }
                plain.push(runs.run(&Way::Plain)?);
                let again = plain.last().expect("just pushed");
                let has_learned = noise.learn(&plain[0], again).map_err(cannot_compare)?;
                found = differences(&plain, &outcome, &noise, &mut notes)?;
                if !has_learned {
                    break;
                }
            }
            if !found.is_empty() {
                let word = Word::Differs(found, size.clone());
                return Ok(Verdict::new(word, &plain[0], &noise, buffered, notes));
            }
            runs.forget_last()?;
        }
    }
    notes.extend(runs.notes(&plain[0], &arguments.command));
    let inactive = buffered.iter().find_map(|run| run.figures.inactive.clone());
    let word = match inactive {
        Some(why) => Word::CannotTell(Some(why)),
        None if noise.unexplained().next().is_some() => Word::CannotTell(None),
        None => Word::Identical,
    };
    Ok(Verdict::new(word, &plain[0], &noise, buffered, notes))
}

/// What would make plain runs buffered, or buffered runs plain.
fn check_environment() -> Result<(), Failure> {
    if !failure::has_processes() {
        return Err(failure::no_processes());
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if set(names::SWITCH).is_some_and(|value| value.eq_ignore_ascii_case("off")) {
        return Err(Failure::own("SWEETSPOT=off is set, so no run would be buffered")
            .next("try: env -u SWEETSPOT sweetspot verify ..."));
    }
    if set(names::PRELOAD).is_some_and(|value| value.to_string_lossy().contains("libsweetspot")) {
        return Err(Failure::own("LD_PRELOAD names sweetspot's library, so no run would be plain")
            .next("try: env -u LD_PRELOAD sweetspot verify ..."));
    }
    if let Some(value) = set(names::BUFFER)
        && !matches!(parse(value.as_encoded_bytes()), Parsed::Size(_))
    {
        let (name, value) = (names::BUFFER, shown(&value));
        return Err(Failure::own(format!("{name}: '{value}' is not a size (such as 64K or auto)"))
            .next(format!("try: env -u {name} sweetspot verify ...")));
    }
    Ok(())
}

/// The sizes at which it runs; `None` is the size that `run` chooses.
fn sizes(arguments: &Verify, warnings: &mut Vec<String>) -> Result<Vec<Option<OsString>>, Failure> {
    for text in &arguments.sizes {
        buffer::read(text, "--sizes", warnings)?;
    }
    if let Some(warning) = warnings.iter().find(|warning| warning.starts_with("--sizes")) {
        return Err(Failure::own(warning.clone()).next("try: --sizes 4K,64K,1M"));
    }
    let typed: Vec<_> = arguments.sizes.iter().cloned().map(Some).collect();
    Ok(if typed.is_empty() { vec![None] } else { typed })
}

fn cannot_compare(error: io::Error) -> Failure {
    Failure::own(format!("the runs cannot be compared: {error}"))
}

/// What a buffered run does that no plain run did.
fn differences(
    plain: &[Outcome],
    outcome: &Outcome,
    noise: &Noise,
    notes: &mut Vec<String>,
) -> Result<Vec<Difference>, Failure> {
    let mut found = compare::differences(&plain[0], outcome, noise).map_err(cannot_compare)?;
    if let Some(reversed) = compare::reversed(plain, outcome, noise) {
        if reversed.is_beyond_the_limit {
            found.push(reversed.difference);
        } else {
            let note = verdict::note_of_order(&reversed.difference);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    Ok(found)
}

/// How the command is run.
enum Way {
    Plain,
    Buffered(Option<OsString>),
}

/// Everything that all runs have in common.
struct Runs<'a> {
    arguments: &'a Verify,
    rules: Option<PathBuf>,
    sandbox: Sandbox,
    /// Where there is no sandbox: what is looked at before and after.
    place: Option<Place>,
    input: Input,
    interrupted: Arc<AtomicBool>,
    bar: ProgressBar,
    count: usize,
}

impl<'a> Runs<'a> {
    fn new(arguments: &'a Verify, rules: Option<PathBuf>) -> Result<Runs<'a>, Failure> {
        let in_place = arguments.in_place || arguments.prepare.is_some();
        let isolation = if in_place { Isolation::None } else { Isolation::Overlays };
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))
                .map_err(|error| Failure::own(format!("signal handlers: {error}")))?;
        }
        let sandbox = Sandbox::new(&Wanted {
            isolation,
            command: &arguments.command,
            folder: arguments.dir.as_deref(),
            notes: home::notes(),
        })
        .map_err(|cause| refused(&cause))?;
        let place = in_place
            .then(|| Place::of(&arguments.command))
            .transpose()
            .map_err(|error| Failure::own(format!("the current folder: {error}")))?;
        let input = Input::take(&sandbox)?;
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(Duration::from_millis(200));
        Ok(Runs { arguments, rules, sandbox, place, input, interrupted, bar, count: 0 })
    }

    /// Runs the command once more and looks at all that it did.
    fn run(&mut self, way: &Way) -> Result<Outcome, Failure> {
        if self.interrupted.load(Relaxed) {
            return Err(self.interruption());
        }
        self.count += 1;
        let number = self.count;
        self.bar.set_message(match way {
            Way::Plain => format!("run {number}: as it is"),
            Way::Buffered(Some(size)) => format!("run {number}: buffered by {}", shown(size)),
            Way::Buffered(None) => format!("run {number}: buffered"),
        });
        self.prepare()?;
        let before = self.place.as_ref().map(Place::look).transpose()?;
        if before.is_some() {
            std::thread::sleep(TICK);
        }
        let output = |name: &str| self.sandbox.scratch().join(format!("{number}.{name}"));
        let (stdout, stderr) = (output("stdout"), output("stderr"));
        let failed = |error: io::Error| Failure::own(format!("a run cannot be started: {error}"));
        let words = self.words(way, number).map_err(failed)?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(self.input.again().map_err(failed)?);
        command.stdout(File::create(&stdout).map_err(failed)?);
        command.stderr(File::create(&stderr).map_err(failed)?);
        let started = seconds_now();
        let child = command.spawn().map_err(failed)?;
        self.wait(child)?;
        // Before the report is read: it lies on the same disk.
        if self.sandbox.is_full() {
            return Err(Failure::own(format!(
                "{}: the disk is full, so what the run did tells nothing",
                shown(self.sandbox.scratch())
            ))
            .next("name a folder on a larger one: --dir DIR"));
        }
        let ran = self.sandbox.ran(number).map_err(Failure::own)?;
        let (changes, elsewhere) = match (&self.place, before) {
            (Some(place), Some(before)) => {
                let after = place.look()?;
                let kept = self.sandbox.scratch().join(format!("{number}.kept"));
                let changes = place::changes(&before, &after, &kept).map_err(cannot_keep)?;
                (changes, Elsewhere::Before(place::untouched(before)))
            }
            _ => (self.sandbox.changes(number, &ran).map_err(cannot_compare)?, Elsewhere::AsItIs),
        };
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
                pids: u64::from(ran.pids.0)..=u64::from(ran.pids.1),
                names: Vec::new(),
            },
            seconds: ran.seconds,
            left_running: ran.left_running,
        })
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
            words.push(std::env::current_exe()?.into());
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
            if self.interrupted.load(Relaxed) {
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
    fn end(&self, child: &mut Child) {
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
            None => "nothing of yours was changed",
            Some(_) => "the last run may be half done, and it ran in place",
        })
    }

    /// What `run` did in the last run.
    fn figures(&self) -> Result<Figures, Failure> {
        let (_, path) = self.sandbox.beside(self.count, "summary");
        let text = fs::read_to_string(&path)
            .map_err(|error| Failure::own(format!("`run` has left no summary: {error}")))?;
        Ok(Figures::read(&text))
    }

    /// Where two more runs like the first might not fit, keeps only hashes of what plain runs wrote.
    fn save_space(&self, plain: &mut [Outcome]) -> Result<(), Failure> {
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

    fn forget_last(&self) -> Result<(), Failure> {
        self.forget(self.count)
    }

    fn forget(&self, number: usize) -> Result<(), Failure> {
        let kept = self.sandbox.scratch().join(format!("{number}.kept"));
        let _ = fs::remove_dir_all(kept);
        self.sandbox.forget(number).map_err(cannot_keep)
    }

    fn notes(&self, plain: &Outcome, command: &[OsString]) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(place) = &self.place {
            let folders: Vec<_> = place.folders().map(shown).collect();
            notes.push(format!("in place: looked at all below {}", folders.join(", ")));
        } else {
            notes.push("every run began with the same files; nothing of yours was changed".into());
        }
        if self.place.is_none() && plain.end != sweetspot_sandbox::End::Exited(0) {
            notes.push(format!(
                "if {} ends otherwise outside of the sandbox, use --in-place or --prepare",
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

fn cannot_keep(error: io::Error) -> Failure {
    Failure::own(format!("what a run wrote cannot be kept: {error}"))
        .next("name a folder with more room: --dir DIR")
}

fn refused(cause: &Refused) -> Failure {
    match cause {
        Refused::NotHere(cause) => Failure::own(format!("there can be no sandbox here: {cause}"))
            .next(
                "nothing was run; to run in place: --prepare CMD (sets everything back before each \
                 run) or --in-place",
            ),
        Refused::NoScratch(cause) => {
            Failure::own(cause.clone()).next("name another folder: --dir DIR")
        }
    }
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The files that a run wrote.
fn files(outcome: &Outcome) -> impl Iterator<Item = (&PathBuf, &Content)> {
    let there = outcome.changes.iter().filter_map(|(path, change)| Some((path, change.as_ref()?)));
    there.filter_map(|(path, entry)| Some((path, entry.content()?)))
}

/// The standard input that every run gets.
enum Input {
    Nothing,
    Terminal,
    /// The path of a file, and where it begins.
    File(PathBuf, u64),
}

impl Input {
    /// Takes ours: a file is read again from where it stands, anything else is read once and kept.
    fn take(sandbox: &Sandbox) -> Result<Input, Failure> {
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

    fn again(&self) -> io::Result<Stdio> {
        let Input::File(path, at) = self else { return Ok(Stdio::null()) };
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(*at))?;
        Ok(file.into())
    }

    fn is_terminal(&self) -> bool {
        matches!(self, Input::Terminal)
    }
}

//! `cargo xtask matrix`: the product on other C libraries, kernels and machines.
//!
//! ```text
//! made     what is taken there, made here: static, so that it needs nobody's C library
//! root     a Debian of another release in a folder, entered in namespaces of its own
//! machine  a virtual machine with another kernel, which answers over its serial line
//! inside   what is done there, step by step; each answer is one line
//! older    one system call after the other is missing, as on an older kernel
//! table    systems as rows: for the terminal, and as the record below `measurements/`
//! ```
//!
//! A step that fails does not stop the next, so that one run tells everything. What this machine
//! lacks (root, qemu) is said; in CI that is a failure.
//!
//! Invariant: outside of `target/matrix` nothing is left, however this ends. Every mount and every
//! process is in namespaces that end with the process that made them, and that one ends with us.

mod inside;
mod machine;
mod made;
mod older;
mod root;
mod table;

use crate::commands::{call, ends_with_us, no_command};
use crate::debian::{self, folder};
use crate::needs::in_ci;
use crate::project;
use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use std::env::consts::ARCH;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What begins a line that answers for a step.
const ANSWER: &str = "MATRIX ";

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Works,
    /// Less than elsewhere, and the product says so itself.
    Less,
    Fails,
    Skipped,
}

/// One step in a system.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Step {
    name: String,
    state: State,
    /// One line for the table.
    says: String,
    /// What differs, or what is missing.
    details: Vec<String>,
    seconds: f64,
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
struct System {
    name: String,
    /// What it shows: a C library, a kernel, a machine.
    what: String,
    /// What was tried: `git describe --always --dirty`.
    source: Option<String>,
    steps: Vec<Step>,
}

/// How much is done in a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Extent {
    /// Everything, in a root.
    Full,
    /// The table of programs, in a root with few packages.
    Short,
    /// What a kernel could do in another way, as far as emulation gets in minutes.
    Kernel,
    /// The same for a processor.
    Processor,
}

impl Extent {
    /// Whether the machine is emulated, and slow.
    fn is_emulated(self) -> bool {
        self.groups().is_some()
    }

    /// The groups of the table of programs that are run, where it is not all of them: those that share
    /// what a kernel keeps for them; or all that need neither a compiler nor packages.
    fn groups(self) -> Option<&'static [&'static str]> {
        match self {
            Extent::Full | Extent::Short => None,
            Extent::Kernel => Some(&["c_calls", "c_sharing", "shell"]),
            Extent::Processor => Some(&[
                "c_calls",
                "c_ends",
                "c_errors",
                "c_fuzz",
                "c_sharing",
                "coreutils",
                "perl",
                "shell",
                "tools",
            ]),
        }
    }

    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

#[derive(Debug, Default, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Settings {
    /// Only systems whose name contains this; may be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The form for CI: two roots with few packages, and the table of programs only
    #[arg(long)]
    short: bool,
    /// Write measurements/DATE-MACHINE-matrix/matrix.json and matrix.md
    #[arg(long)]
    record: bool,
    /// Skip systems that were gone through before from the same source, and tell what they said
    #[arg(long)]
    go_on: bool,
    /// With --go-on: from this source, too, where what has changed since is none of theirs; each row of the record
    /// names its own source (`git describe --always`)
    #[arg(long, value_name = "SOURCE")]
    also: Vec<String>,
    /// Leave the files of each system in target/matrix/work
    #[arg(long)]
    keep: bool,
    /// Name the systems and end
    #[arg(long)]
    list: bool,
    #[command(subcommand)]
    part: Option<Part>,
}

/// What is started of this program elsewhere.
#[derive(Debug, Subcommand)]
enum Part {
    /// Do all steps of an extent
    #[command(hide = true)]
    Inside { extent: Extent, folder: PathBuf, harness: PathBuf },
    /// Compile all programs of `programs/c` into a folder
    #[command(hide = true)]
    Victims { folder: PathBuf, compiler: String },
    /// Become a command without one of the system calls, which fails with that error
    #[command(hide = true)]
    Without {
        number: u32,
        errno: u32,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
}

/// One of the systems, before anything is made.
enum Planned {
    Root(&'static root::Suite),
    Machine(&'static machine::Machine),
}

impl Planned {
    fn name(&self) -> String {
        match self {
            Planned::Root(suite) => suite.name.to_owned(),
            Planned::Machine(machine) => machine.name.to_owned(),
        }
    }

    fn what(&self) -> String {
        match self {
            Planned::Root(suite) => suite.c_library.to_owned(),
            Planned::Machine(machine) => machine.what.to_owned(),
        }
    }
}

/// The root of the oldest release in the short form, where it is.
///
/// # Errors
/// It is not there and cannot be made.
pub fn oldest_root() -> Result<PathBuf, String> {
    root::Root::open(&root::SUITES[0], Extent::Short).map(|root| root.path)
}

fn planned(settings: &Settings) -> Vec<Planned> {
    let roots = root::SUITES.iter().filter(|suite| !settings.short || suite.is_short);
    let machines = machine::MACHINES.iter().filter(|_| !settings.short);
    let all = roots.map(Planned::Root).chain(machines.map(Planned::Machine));
    let is_wanted = |name: &str| settings.only.iter().any(|only| name.contains(only));
    all.filter(|system| settings.only.is_empty() || is_wanted(&system.name())).collect()
}

/// Goes through all systems that are asked for. Returns whether everything works.
///
/// # Errors
/// It could not begin, or what was found not be kept.
pub fn run(settings: &Settings) -> Result<bool, String> {
    match &settings.part {
        Some(Part::Inside { extent, folder, harness }) => {
            inside::all_steps(*extent, folder, harness)?;
            return Ok(true);
        }
        Some(Part::Victims { folder, compiler }) => {
            made::victims(folder, compiler)?;
            return Ok(true);
        }
        Some(Part::Without { number, errno, command }) => {
            return Err(older::become_without(*number, *errno, command));
        }
        None => {}
    }
    let planned = planned(settings);
    if planned.is_empty() {
        return Err("no system has such a name; `cargo xtask matrix --list` names all".to_owned());
    }
    if settings.list {
        planned.iter().for_each(|system| println!("{:<20} {}", system.name(), system.what()));
        return Ok(true);
    }
    let mut systems = Vec::new();
    for system in &planned {
        let (name, what) = (system.name(), system.what());
        println!("\n== {name}: {what}");
        let answers = Answers::of(&name, settings);
        let known = if settings.go_on { answers.kept(&settings.also) } else { None };
        if let Some((source, steps)) = known {
            let steps = steps.into_iter().map(told).collect();
            systems.push(System { name, what, source: Some(source), steps });
            continue;
        }
        let steps = match system {
            Planned::Root(suite) => in_root(suite, settings),
            Planned::Machine(machine) => in_machine(machine, settings),
        };
        let steps = steps.unwrap_or_else(|wrong| vec![told(Step::new("system", wrong))]);
        answers.keep(&steps)?;
        systems.push(System { name, what, source: project::source(), steps });
    }
    println!("\n{}", table::text(&systems));
    if settings.record {
        println!("{}", table::record(&systems)?.display());
    }
    Ok(systems.iter().flat_map(|system| &system.steps).all(|step| match step.state {
        State::Works | State::Less => true,
        State::Fails => false,
        State::Skipped => !in_ci(),
    }))
}

/// Where the answers of a system are kept, so that a session of hours can be gone on with.
struct Answers {
    path: PathBuf,
    /// What was tried, if it can be known again.
    source: Option<String>,
}

impl Answers {
    fn of(name: &str, settings: &Settings) -> Answers {
        let extent = if settings.short { "-short" } else { "" };
        let name = format!("{}{extent}.json", name.replace(' ', "-"));
        // What is not committed has no name.
        let source = project::source().filter(|source| !source.ends_with("-dirty"));
        Answers { path: folder().join("answers").join(name), source }
    }

    /// Those of the same source or of another that counts, if the system was gone through to its end; and
    /// the source.
    fn kept(&self, also: &[String]) -> Option<(String, Vec<Step>)> {
        let text = fs::read_to_string(&self.path).ok()?;
        let (source, steps): (String, Vec<Step>) = serde_json::from_str(&text).ok()?;
        let is_whole = steps.iter().all(|step| step.name != "system");
        let counts = self.source.as_ref() == Some(&source) || also.contains(&source);
        (counts && is_whole).then_some((source, steps))
    }

    fn keep(&self, steps: &[Step]) -> Result<(), String> {
        let Some(source) = &self.source else { return Ok(()) };
        let failed = |error: std::io::Error| format!("{}: {error}", self.path.display());
        let text = serde_json::to_string(&(source, steps)).map_err(|error| error.to_string())?;
        self.path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        fs::write(&self.path, text).map_err(failed)
    }
}

fn in_root(suite: &root::Suite, settings: &Settings) -> Result<Vec<Step>, String> {
    if let Some(reason) = debian::lacking() {
        return Ok(vec![told(Step::skipped("system", reason))]);
    }
    let extent = if settings.short { Extent::Short } else { Extent::Full };
    let root = root::Root::open(suite, extent)?;
    let made = made::made_for(ARCH)?;
    let work = Work::new(&root.name, settings.keep)?;
    let beside = made.sweetspot.parent().ok_or("sweetspot lies nowhere")?;
    root.run(&made, &work, &inside::words(&made, extent, beside))
}

fn in_machine(machine: &machine::Machine, settings: &Settings) -> Result<Vec<Step>, String> {
    if let Some(reason) = debian::lacking().or_else(|| machine.lacking()) {
        return Ok(vec![told(Step::skipped("system", reason))]);
    }
    let work = Work::new(machine.name, settings.keep)?;
    machine.run(&work)
}

impl Step {
    /// A step that failed before it could say anything.
    fn new(name: &str, wrong: String) -> Step {
        let (name, state, details) = (name.to_owned(), State::Fails, Vec::new());
        Step { name, state, says: wrong, details, seconds: 0.0 }
    }

    fn skipped(name: &str, reason: String) -> Step {
        Step { state: State::Skipped, ..Step::new(name, reason) }
    }

    fn word(&self) -> &'static str {
        match self.state {
            State::Works => "works",
            State::Less => "less",
            State::Fails => "FAILS",
            State::Skipped => "skipped",
        }
    }
}

/// Prints a step as soon as it is known.
fn told(step: Step) -> Step {
    println!("{:<12} {:<8} {:6.1} s  {}", step.name, step.word(), step.seconds, step.says);
    for detail in &step.details {
        println!("{:31}{detail}", "");
    }
    let _ = std::io::stdout().flush();
    step
}

/// Where the files of one system are while it is tried.
struct Work {
    path: PathBuf,
    keep: bool,
}

impl Work {
    fn new(name: &str, keep: bool) -> Result<Work, String> {
        let path = folder().join("work").join(name.replace([' ', ','], "-"));
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => fs::create_dir_all(&path).map_err(failed)?,
        }
        Ok(Work { path, keep })
    }

    /// A folder in it.
    fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Where everything is that a system says besides its answers.
fn log(name: &str) -> PathBuf {
    folder().join(format!("{}.log", name.replace([' ', ','], "-")))
}

/// Starts a command that ends when we do, and collects the answers among what it prints; all the
/// rest goes to `target/matrix/NAME.log`.
///
/// # Errors
/// It cannot be started, or gave no answer.
fn listen(command: &mut Command, name: &str) -> Result<Vec<Step>, String> {
    let log = log(name);
    let failed = |error: std::io::Error| format!("{}: {error}", log.display());
    let mut file = File::create(&log).map_err(failed)?;
    let errors = file.try_clone().map_err(failed)?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
    let program = command.get_program().to_string_lossy().into_owned();
    let started = ends_with_us(command).spawn();
    let mut child = started.map_err(|error| format!("{program}: {error}"))?;
    let mut steps = Vec::new();
    let output = child.stdout.take().into_iter().flat_map(|pipe| BufReader::new(pipe).split(b'\n'));
    for line in output.map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        // A kernel may have written to the same line before.
        let answer = line.split_once(ANSWER).and_then(|(_, json)| serde_json::from_str(json).ok());
        match answer {
            Some(step) => steps.push(told(step)),
            None => writeln!(file, "{line}").map_err(failed)?,
        }
    }
    let status = child.wait().map_err(|error| format!("{program}: {error}"))?;
    match status.success() && !steps.is_empty() {
        true => Ok(steps),
        false => {
            let wrong = format!("{program} ended with {status}; see {}", log.display());
            steps.push(told(Step::new("system", wrong)));
            Ok(steps)
        }
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{} to {}: {error}", from.display(), to.display());
    to.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    fs::copy(from, to).map(drop).map_err(failed)
}

#[cfg(test)]
mod tests;

//! `cargo xtask bench`: what `sweetspot run` does to the time of real programs.
//!
//! Each benchmark runs a command as it is and the same under `sweetspot run`, in fair rounds, and
//! requires equal outputs. The benchmarks are data ([`table`]); the method is `sweetspot-lab`'s.
//!
//! Timings are printed and recorded, never asserted. What fails a benchmark is a program that does
//! not end well or outputs that differ.

mod arguments;
mod data;
mod execute;
mod figures;
mod instructions;
mod languages;
mod library;
mod mount;
mod noise;
#[cfg(test)]
mod pages;
mod picks;
mod planned;
mod predict;
#[cfg(test)]
mod readme;
mod record;
mod report;
mod table;
mod tools;

use crate::build::{self, Machine};
use arguments::{Settings, USAGE, parse};
use execute::Runner;
use mount::Mount;
pub use record::new_folder;
use record::{Finding, Record};
use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};
use sweetspot_lab::{
    Error, cache,
    environment::Environment,
    measure::{self, Job},
    paired::{self, Executor, Options, Stop},
    statistics,
};
use table::{Benchmark, FileAccess};
use tempfile::TempDir;
use tools::Tools;

/// Runs `cargo xtask bench` with the arguments after `bench`.
pub fn main(arguments: &[&str]) -> ExitCode {
    if let ["noise", words @ ..] = arguments {
        return noise::main(words);
    }
    if let ["null", words @ ..] = arguments {
        return noise::null(words);
    }
    if let ["predict", words @ ..] = arguments {
        return predict::main(words);
    }
    if let ["picks", words @ ..] = arguments {
        return picks::main(words);
    }
    if let ["instructions"] = arguments {
        return instructions::main();
    }
    if arguments.iter().any(|word| ["--help", "-h", "help"].contains(word)) {
        print!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let settings = match parse(arguments) {
        Ok(settings) => settings,
        Err(problem) => {
            eprint!("xtask bench: {problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if settings.list {
        list(&settings);
        return ExitCode::SUCCESS;
    }
    match run(&settings) {
        Ok(Tally { failed: 0, skipped, .. }) if skipped == 0 || env::var_os("CI").is_none() => {
            ExitCode::SUCCESS
        }
        Ok(tally) => {
            eprintln!("{} failed, {} skipped", tally.failed, tally.skipped);
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("xtask bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list(settings: &Settings) {
    for benchmark in &settings.chosen() {
        let what = record::what(benchmark, settings.count(benchmark));
        println!("{:<24} {what}", benchmark.name);
    }
}

/// How many benchmarks ended how.
#[derive(Default)]
struct Tally {
    failed: usize,
    skipped: usize,
}

/// How a benchmark ended, when it did not fail.
enum Outcome {
    Found(Box<Finding>),
    Skipped(String),
}

fn run(settings: &Settings) -> Result<Tally, Error> {
    let chosen = settings.chosen();
    if chosen.is_empty() {
        return Err(failed("--filter", "no benchmark has such a name; see --list"));
    }
    if settings.install {
        languages::install();
    }
    let (wrapper, wrapper_name) = wrapper(settings)?;
    let mut session = Workbench::new(settings, wrapper)?;
    let versions: Vec<&[&str]> = settings.tools().iter().map(|tool| tool.version).collect();
    let environment = Environment::of(&session.data, &versions)?;
    let mut record = Record::new(environment, wrapper_name, settings.telling());
    record.source = source();
    record.load.push(load()?);
    let mut tally = Tally::default();
    for (number, benchmark) in chosen.iter().enumerate() {
        // A seed for each, so that not all have one and the same order.
        let seed = settings.seed.wrapping_add(number as u64);
        match session.measure(benchmark, seed) {
            Ok(Outcome::Found(finding)) => {
                match settings.quick {
                    true => println!("{}: works", finding.name),
                    false => print!("{}", finding.text()),
                }
                finding.said.iter().for_each(|said| print!("{}", said.text()));
                record.findings.push(*finding);
            }
            Ok(Outcome::Skipped(reason)) => {
                println!("{}: skipped: {reason}", benchmark.name);
                record.skipped.push((benchmark.name.to_owned(), reason));
                tally.skipped += 1;
            }
            Err(error) => {
                println!("{}: FAILED: {}", benchmark.name, explain(benchmark, error));
                tally.failed += 1;
            }
        }
    }
    record.load.push(load()?);
    match (settings.record, tally.failed) {
        (true, 0) => {
            let suffix = if settings.languages { "-languages" } else { "" };
            let folder = record.write(&root().join("measurements"), suffix)?;
            println!("recorded in {}", folder.display());
            if settings.languages {
                languages::write_table(&folder)?;
            }
        }
        (true, _) => println!("not recorded: fix what failed first, or leave it out by --filter"),
        _ => {}
    }
    Ok(tally)
}

/// What all benchmarks of one session share.
struct Workbench<'a> {
    settings: &'a Settings,
    wrapper: Vec<OsString>,
    sources: PathBuf,
    /// Inputs, kept for the next session.
    data: PathBuf,
    /// Programs and outputs, removed at the end.
    scratch: TempDir,
    tools: Tools,
}

impl<'a> Workbench<'a> {
    fn new(settings: &'a Settings, wrapper: Vec<OsString>) -> Result<Self, Error> {
        let folder = std::path::absolute(&settings.folder)
            .map_err(Error::system("find", &settings.folder))?
            .join("sweetspot-bench");
        fs::create_dir_all(&folder).map_err(Error::system("create", &folder))?;
        remove_leftovers(&folder)?;
        // On the file system of the data, which is the one that is measured.
        let scratch = tempfile::Builder::new()
            .prefix(&format!("{SCRATCH}{}-", std::process::id()))
            .tempdir_in(&folder)
            .map_err(Error::system("use", &folder))?;
        let programs = scratch.path().join("programs");
        fs::create_dir(&programs).map_err(Error::system("create", &programs))?;
        let sources = root().join(if settings.languages { "programs" } else { "benchmarks" });
        let tools = Tools::new(settings.tools(), &programs, &sources);
        Ok(Workbench { settings, wrapper, sources, data: folder, scratch, tools })
    }

    fn measure(&mut self, benchmark: &Benchmark, seed: u64) -> Result<Outcome, Error> {
        for tool in benchmark.needs {
            if let Some(reason) = self.tools.missing(tool) {
                return Ok(Outcome::Skipped(reason));
            }
        }
        let count = self.settings.count(benchmark);
        let input = data::prepare(benchmark.input, count, &self.data)?;
        let folder = self.scratch.path().join(benchmark.name);
        fs::create_dir(&folder).map_err(Error::system("create", &folder))?;
        let outcome = match benchmark.place {
            FileAccess::Plain => self.compare(benchmark, seed, folder.join("work"), input),
            FileAccess::Fuse => {
                let (below, at) = (folder.join("below"), folder.join("mount"));
                fs::create_dir(&below).map_err(Error::system("create", &below))?;
                let input = copy_into(input, &below, &at)?;
                match Mount::new(&below, &at) {
                    Ok(_mount) => self.compare(benchmark, seed, at.join("work"), input),
                    Err(error) => Ok(Outcome::Skipped(format!("no FUSE mount here: {error}"))),
                }
            }
        };
        data::remove(&folder)?;
        outcome
    }

    fn compare(
        &self,
        benchmark: &Benchmark,
        seed: u64,
        work: PathBuf,
        input: Option<PathBuf>,
    ) -> Result<Outcome, Error> {
        fs::create_dir(&work).map_err(Error::system("create", &work))?;
        // What is seen through FUSE leaves the cache whenever it is opened.
        let stays = benchmark.place == FileAccess::Plain;
        if let Some(input) = input.as_deref().filter(|input| stays && input.is_file()) {
            cache::bring(cache::State::Warm, &[input.to_owned()])?;
        }
        let count = self.settings.count(benchmark);
        let mut runner = Runner {
            benchmark,
            wrapper: &self.wrapper,
            programs: &self.scratch.path().join("programs"),
            sources: &self.sources,
            work,
            input,
            count,
            runs: Vec::new(),
        };
        if !self.settings.quick {
            // Once before all, unrecorded: programs and libraries are in the cache from then on.
            (0..benchmark.cells.len()).try_for_each(|cell| runner.execute(cell).map(drop))?;
            runner.runs.clear();
        }
        let binary = Path::new(&self.wrapper[0]);
        let stop = match (self.settings.quick, self.settings.rounds) {
            (true, _) => Stop::Rounds(1),
            (false, Some(rounds)) => Stop::Rounds(rounds.clamp(1, statistics::SAMPLES_MAX)),
            (false, None) => Stop::Looks(self.settings.budget),
        };
        let options = Options { seed, stop, ..Options::default() };
        let comparison = paired::compare(&mut runner, benchmark.cells.len(), &options)?;
        let runs = std::mem::take(&mut runner.runs);
        let mut finding = Finding::new(benchmark, count, seed, comparison, runs)?;
        if self.settings.languages {
            finding.said = Some(languages::ask(&runner, binary)?);
        }
        Ok(Outcome::Found(Box::new(finding)))
    }
}

/// What the name of a session's scratch folder starts with; its process follows.
const SCRATCH: &str = "scratch-";

/// Removes what sessions left that were interrupted: mounts first, since a folder that is seen
/// through a dead mount cannot be removed.
fn remove_leftovers(folder: &Path) -> Result<(), Error> {
    let list = |folder: &Path| -> Result<Vec<PathBuf>, Error> {
        fs::read_dir(folder)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
            .map_err(Error::system("list", folder))
    };
    for scratch in list(folder)?.into_iter().filter(|path| is_leftover(path)) {
        for mount in list(&scratch)?.iter().map(|benchmark| benchmark.join("mount")) {
            // No error where it is no mount.
            mount::unmount(&mount);
        }
        data::remove(&scratch)?;
    }
    Ok(())
}

/// Whether a path is the scratch folder of a process that is gone.
fn is_leftover(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let process = name.strip_prefix(SCRATCH).and_then(|rest| rest.split('-').next());
    process.is_some_and(|process| !Path::new("/proc").join(process).exists())
}

/// Puts a copy of `input` into the folder `below`; the name it has when that is seen at `at`.
fn copy_into(input: Option<PathBuf>, below: &Path, at: &Path) -> Result<Option<PathBuf>, Error> {
    let Some(input) = input else {
        return Ok(None);
    };
    fs::copy(&input, below.join("input")).map_err(Error::system("copy", &input))?;
    Ok(Some(at.join("input")))
}

/// What went wrong, in the benchmark's own names.
fn explain(benchmark: &Benchmark, error: Error) -> String {
    match error {
        Error::OutputsDiffer { round, reference, cell, expected, found } => {
            let (reference, cell) = (benchmark.cells[reference].name, benchmark.cells[cell].name);
            format!(
                "the outputs differ in round {round}: {cell:?} gave {found}, \
                 {reference:?} gave {expected}"
            )
        }
        other => other.to_string(),
    }
}

/// What is put before a buffered command, and what a record calls it.
fn wrapper(settings: &Settings) -> Result<(Vec<OsString>, String), Error> {
    let (wrapper, name) = match &settings.wrapper {
        Some(text) => {
            let words = text.split_whitespace().map(absolute).collect::<Result<_, _>>()?;
            let name = text.split_whitespace().map(without_folder).collect::<Vec<_>>().join(" ");
            let name = if name.is_empty() { "nothing, for the noise".to_owned() } else { name };
            (words, name)
        }
        None => {
            let built = build::binary("release", Machine::HERE);
            let binary = built.map_err(|reason| failed("cargo build", &reason))?.binary;
            let binary = binary.into_os_string();
            (vec![binary, "run".into(), "--".into()], "sweetspot run --".to_owned())
        }
    };
    let status = measure::run(&Job::new(wrapper.iter().cloned().chain(["true".into()])))?.status;
    match status.success() {
        true => Ok((wrapper, name)),
        false => Err(failed(&format!("`true` under `{name}`"), &status.to_string())),
    }
}

/// A word of a command, made absolute where it is the path of something: commands run elsewhere.
fn absolute(word: &str) -> Result<OsString, Error> {
    match word.contains('/') && Path::new(word).exists() {
        true => Ok(std::path::absolute(word).map_err(Error::system("find", word))?.into()),
        false => Ok(word.into()),
    }
}

/// A word of a command without the folders of a path in it.
fn without_folder(word: &str) -> &str {
    word.rsplit_once('/').map_or(word, |(_, name)| name)
}

/// What is measured, as git names it.
pub fn source() -> Option<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty"]).current_dir(root());
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// How many processes wanted a processor in the last minute.
fn load() -> Result<f64, Error> {
    const PATH: &str = "/proc/loadavg";
    let text = fs::read_to_string(PATH).map_err(Error::system("read", PATH))?;
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| failed(PATH, "no number at its beginning"))
}

/// The project's folder.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

fn failed(program: &str, reason: &str) -> Error {
    Error::Failed { program: program.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_understood() {
        let settings = parse(&["--filter", "cobol", "--seed", "7", "--rounds", "9", "--full"]);
        let settings = settings.unwrap();
        assert_eq!((settings.seed, settings.rounds, settings.full), (7, Some(9), true));
        let names: Vec<&str> = settings.chosen().iter().map(|benchmark| benchmark.name).collect();
        assert!(names.contains(&"cobol-copy-5m") && !names.contains(&"cp"), "{names:?}");
    }

    #[test]
    fn wrong_options_are_named() {
        for (arguments, expected) in [
            (&["--no"][..], "unknown option --no"),
            (&["--filter"], "--filter needs a value after it"),
            (&["--rounds", "x"], "--rounds needs a whole number, not \"x\""),
            (&["--quick", "--record"], "--quick measures nothing that --record could keep"),
        ] {
            assert_eq!(parse(arguments).unwrap_err(), expected);
        }
    }

    #[test]
    fn leftovers_are_those_of_the_dead() {
        let own = format!("/x/scratch-{}-abc", std::process::id());
        for (path, expected) in [
            (&*own, false),
            // The kernel gives no process such a number (PID_MAX_LIMIT is 2^22).
            ("/x/scratch-9999999-abc", true),
            ("/x/records-100.txt", false),
        ] {
            assert_eq!(is_leftover(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn a_record_tells_no_path() {
        let settings = parse(&["--dir", "/home/me", "--seed", "1"]).unwrap();
        assert_eq!(settings.telling(), ["--record", "--seed 1"]);
        assert_eq!(without_folder("/home/me/sweetspot"), "sweetspot");
        assert_eq!(without_folder("run"), "run");
    }
}

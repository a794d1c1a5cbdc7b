//! `cargo xtask bench languages`: what `run` reaches, a row a language.
//!
//! Each row is a small program in `programs/`, written in the way of its language that does not
//! buffer, which copies records of 200 bytes. It runs as it is and under `sweetspot run`, in fair rounds
//! with equal outputs; besides, `sweetspot profile` is asked what it says, and `run --summary` what was
//! left. A program that does not end well, and outputs that differ, are failures; times never are.
//!
//! The languages are not among the needs of the tests: what is not installed is skipped, and said.

mod arguments;
mod execute;
mod page;
mod record;
mod said;
mod table;
mod tools;

use super::command::remove;
use crate::build::{self, Machine};
use crate::needs;
use crate::project::{failed, root, source};
pub use arguments::Settings;
use execute::Runner;
use record::{Finding, Record};
use std::{
    env, fs,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    time::Duration,
};
use sweetspot_lab::{
    Error, cache,
    environment::Environment,
    paired::{self, Executor, Options, Stop},
    statistics,
};
use table::{Language, TOOLS};
use tempfile::TempDir;
use tools::Tools;

/// How many languages ended how.
#[derive(Default)]
struct Tally {
    failed: usize,
    skipped: usize,
}

/// How a language ended, when it did not fail.
enum Outcome {
    Found(Box<Finding>),
    Skipped(String),
}

/// Measures all that are asked for. Returns whether none failed, and in CI none was skipped.
///
/// # Errors
/// What none of them can do without.
pub fn run(settings: &Settings) -> Result<bool, Error> {
    let chosen: Vec<&Language> = settings.chosen().collect();
    if chosen.is_empty() {
        return Err(failed("--filter", "no language has such a name"));
    }
    if settings.install {
        install();
    }
    let built = build::binary("release", Machine::HERE);
    let binary = built.map_err(|reason| failed("cargo build", &reason))?.binary;
    let mut session = Session::new(settings, binary)?;
    let versions: Vec<&[&str]> = TOOLS.iter().map(|tool| tool.version).collect();
    let environment = Environment::of(&session.data, &versions)?;
    let mut record = Record::new(environment, source(), settings.telling());
    record.load.push(load()?);
    let mut tally = Tally::default();
    for (number, language) in chosen.into_iter().enumerate() {
        // A seed for each, so that not all have one and the same order.
        let seed = settings.seed.wrapping_add(number as u64);
        match session.measure(language, seed) {
            Ok(Outcome::Found(finding)) => {
                match settings.quick {
                    true => println!("{}: works", finding.name),
                    false => print!("{}", finding.text()),
                }
                record.findings.push(*finding);
            }
            Ok(Outcome::Skipped(reason)) => {
                println!("{}: skipped: {reason}", language.name);
                record.skipped.push((language.name.to_owned(), reason));
                tally.skipped += 1;
            }
            Err(error) => {
                println!("{}: FAILED: {}", language.name, explain(error));
                tally.failed += 1;
            }
        }
    }
    record.load.push(load()?);
    match (settings.record, tally.failed) {
        (true, 0) => {
            let folder = record.write()?;
            println!("recorded in {}", folder.display());
            page::write_table(&folder)?;
        }
        (true, _) => println!("not recorded: fix what failed first, or leave it out by --filter"),
        _ => {}
    }
    if tally.failed > 0 || tally.skipped > 0 {
        eprintln!("{} failed, {} skipped", tally.failed, tally.skipped);
    }
    Ok(tally.failed == 0 && (tally.skipped == 0 || env::var_os("CI").is_none()))
}

/// What all languages of one session share.
struct Session<'a> {
    settings: &'a Settings,
    binary: PathBuf,
    sources: PathBuf,
    /// Inputs, kept for the next session.
    data: PathBuf,
    /// Programs and outputs, removed at the end.
    scratch: TempDir,
    tools: Tools,
}

impl<'a> Session<'a> {
    fn new(settings: &'a Settings, binary: PathBuf) -> Result<Self, Error> {
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
        let sources = root().join("programs");
        let tools = Tools::new(&programs, &sources);
        Ok(Session { settings, binary, sources, data: folder, scratch, tools })
    }

    fn measure(&mut self, language: &Language, seed: u64) -> Result<Outcome, Error> {
        if let Some(reason) = self.tools.missing(language.tool) {
            return Ok(Outcome::Skipped(reason));
        }
        let count = if self.settings.quick { RECORDS_QUICK } else { language.records };
        let input = records(count, &self.data)?;
        cache::bring(cache::State::Warm, std::slice::from_ref(&input))?;
        let work = self.scratch.path().join(language.name);
        fs::create_dir(&work).map_err(Error::system("create", &work))?;
        let mut runner = Runner {
            language,
            binary: &self.binary,
            programs: &self.scratch.path().join("programs"),
            sources: &self.sources,
            work,
            input,
            runs: Vec::new(),
        };
        if !self.settings.quick {
            // Once before all, unrecorded: programs and libraries are in the cache from then on.
            (0..WAYS.len()).try_for_each(|way| runner.execute(way).map(drop))?;
            runner.runs.clear();
        }
        let stop = match (self.settings.quick, self.settings.rounds) {
            (true, _) => Stop::Rounds(1),
            (false, Some(rounds)) => Stop::Rounds(rounds.clamp(1, statistics::SAMPLES_MAX)),
            (false, None) => Stop::Looks(Duration::from_secs(self.settings.budget)),
        };
        let options = Options { seed, stop, ..Options::default() };
        let comparison = paired::compare(&mut runner, WAYS.len(), &options)?;
        let said = said::ask(&runner)?;
        let finding = Finding::new(language, seed, comparison, &runner.runs, said)?;
        remove(&runner.work)?;
        Ok(Outcome::Found(Box::new(finding)))
    }
}

/// How a program is started.
const WAYS: [&str; 2] = ["plain", "run"];
/// Records that show that it works.
const RECORDS_QUICK: u64 = 1_000;
/// What the name of a session's scratch folder starts with; its process follows.
const SCRATCH: &str = "scratch-";

/// Removes what sessions left that were interrupted.
fn remove_leftovers(folder: &Path) -> Result<(), Error> {
    let entries = fs::read_dir(folder).map_err(Error::system("list", folder))?;
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(|path| is_leftover(path)).try_for_each(|path| remove(&path))
}

/// Whether a path is the scratch folder of a process that is gone.
fn is_leftover(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let process = name.strip_prefix(SCRATCH).and_then(|rest| rest.split('-').next());
    process.is_some_and(|process| !Path::new("/proc").join(process).exists())
}

/// A file of `count` lines of 200 bytes: made once, kept, and used again.
fn records(count: u64, folder: &Path) -> Result<PathBuf, Error> {
    const RECORD_BYTES: usize = 200;
    const NUMBER_LEN: usize = 12;
    const TEXT: &[u8] = b"the quick brown fox jumps over the lazy dog and back again; ";
    let path = folder.join(format!("records-{count}.txt"));
    if path.exists() {
        return Ok(path);
    }
    // What has its final name is complete.
    let unfinished = path.with_extension("unfinished");
    let mut record: Vec<u8> = TEXT.iter().copied().cycle().take(RECORD_BYTES).collect();
    record[NUMBER_LEN] = b' ';
    record[RECORD_BYTES - 1] = b'\n';
    let mut fill = || -> std::io::Result<()> {
        let mut writer = BufWriter::with_capacity(1 << 20, fs::File::create(&unfinished)?);
        for number in 0..count {
            write!(&mut record[..NUMBER_LEN], "{number:012}")?;
            writer.write_all(&record)?;
        }
        writer.into_inner()?.sync_all()?;
        fs::rename(&unfinished, &path)
    };
    fill().map_err(Error::system("write", &unfinished))?;
    Ok(path)
}

/// Installs the packages of the tools that are missing.
fn install() {
    let missing = TOOLS.iter().filter(|tool| !needs::is_there(tool.program));
    let packages: Vec<&str> = missing.flat_map(|tool| tool.package.split(' ')).collect();
    // What is still missing then is skipped, and said.
    let _ = packages.is_empty() || needs::install_packages(&packages);
}

/// What went wrong, in the names of the ways.
fn explain(error: Error) -> String {
    match error {
        Error::OutputsDiffer { round, reference, cell, expected, found } => {
            let (reference, cell) = (WAYS[reference], WAYS[cell]);
            format!(
                "the outputs differ in round {round}: {cell:?} gave {found}, \
                 {reference:?} gave {expected}"
            )
        }
        other => other.to_string(),
    }
}

/// How many processes wanted a processor in the last minute.
fn load() -> Result<f64, Error> {
    const PATH: &str = "/proc/loadavg";
    let text = fs::read_to_string(PATH).map_err(Error::system("read", PATH))?;
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| failed(PATH, "no number at its beginning"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn records_are_made_once_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("records-2.unfinished"), "half").unwrap();
        let path = records(2, folder.path()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), text.len()), (2, 400));
        assert!(lines[1].starts_with("000000000001 "), "{}", lines[1]);
        fs::write(&path, "kept").unwrap();
        assert_eq!(fs::read_to_string(records(2, folder.path()).unwrap()).unwrap(), "kept");
    }
}

//! A check that is a line of shell: its exit status, what it says, and every file that it leaves.

use super::table::Script;
use super::{Bench, Results, Under};
use crate::fuzz::process;
use crate::saved::saved;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use sweetspot_lab::output::Hash;

/// A script that takes longer hangs.
const LIFE_MAX: Duration = Duration::from_secs(1200);
/// Operations of a check that is given a number of them.
const OPERATIONS: u32 = 1_000_000;
const OPERATIONS_QUICK: u32 = 30_000;

/// A folder for one run, the same path each time that a check runs: paths get into what is compared.
pub struct Work<'a> {
    bench: &'a Bench,
    under: Under<'a>,
    folder: PathBuf,
}

impl<'a> Work<'a> {
    /// Makes it, empty.
    ///
    /// # Errors
    /// The system's.
    pub fn new(bench: &'a Bench, name: &str, under: Under<'a>) -> Result<Work<'a>, String> {
        let folder = bench.kit.program(&format!("check-{}", name.replace(' ', "-")));
        let _ = fs::remove_dir_all(&folder);
        let work = Work { bench, under, folder };
        for inside in [work.inside(), work.outside().join("summaries")] {
            fs::create_dir_all(&inside).map_err(|error| format!("{inside:?}: {error}"))?;
        }
        Ok(work)
    }

    /// Where the programs work.
    pub fn inside(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// Where what is about them is.
    pub fn outside(&self) -> &Path {
        &self.folder
    }

    /// The words that stand before a program.
    fn wrapper(&self) -> Vec<String> {
        let sweetspot = self.bench.kit.sweetspot.display().to_string();
        let run = |option: &str, value: &str| {
            [&sweetspot, "run", option, value, "--"].map(str::to_owned).to_vec()
        };
        match self.under {
            Under::Nothing => Vec::new(),
            Under::Size(size) => run("--buffer-size", size),
            Under::Summary => vec![self.folder.join("run").display().to_string()],
        }
    }

    /// A program with what stands before it.
    pub fn command(&self, program: &Path) -> Command {
        let mut words = self.wrapper();
        words.push(program.display().to_string());
        let mut command = self.bench.kit.command(Path::new(&words[0]), &self.inside());
        command.args(&words[1..]);
        if matches!(self.under, Under::Summary) {
            // Each program of a script gets a summary of its own.
            let text = format!(
                "#!/bin/sh\nexec '{}' run --summary=\"$(mktemp '{}/XXXXXX')\" -- \"$@\"\n",
                self.bench.kit.sweetspot.display(),
                self.folder.join("summaries").display(),
            );
            let path = self.folder.join("run");
            let made = fs::write(&path, text)
                .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)));
            debug_assert!(made.is_ok(), "{made:?}");
        }
        command
    }

    /// Under a summary: something was buffered.
    ///
    /// # Errors
    /// Nothing was.
    pub fn finish(&self) -> Result<(), String> {
        if !matches!(self.under, Under::Summary) {
            return Ok(());
        }
        let summaries = fs::read_dir(self.folder.join("summaries")).into_iter().flatten().flatten();
        let texts = summaries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
        match texts.map(|text| saved(&text)).sum::<u64>() {
            0 => Err("nothing was buffered, so it shows nothing".to_owned()),
            _ => Ok(()),
        }
    }

    /// Copies it where the next run does not remove it.
    pub fn keep(&self) -> PathBuf {
        let kept = std::env::temp_dir().join("sweetspot-conformance");
        let _ = fs::create_dir_all(&kept);
        let _ = Command::new("cp").arg("-a").args([&self.folder, &kept]).status();
        kept.join(self.folder.file_name().unwrap_or_default())
    }
}

/// Runs a script in a fresh folder.
///
/// # Errors
/// It could not be prepared or started, or hung.
pub fn perform(bench: &Bench, script: &Script, under: Under) -> Result<Results, String> {
    let work = Work::new(bench, &script.name, under)?;
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs");
    let operations = if bench.quick { OPERATIONS_QUICK } else { OPERATIONS };
    // Makes what a summary needs, too.
    let _ = work.command(Path::new("sh"));
    for (text, wrapper) in [(&script.prepare, Vec::new()), (&script.command, work.wrapper())] {
        let mut command = bench.kit.command(Path::new("/bin/sh"), &work.inside());
        command.args(["-c", text]).env("RUN", wrapper.join(" "));
        command.env("SRC", &sources).env("TOOLS", &bench.tools).env("OUTSIDE", work.outside());
        command.env("OPERATIONS", operations.to_string()).env("LC_ALL", "C").env("TZ", "UTC");
        let ended = bounded(&mut command, &work, LIFE_MAX)?;
        if ended != "exit 0" && text == &script.prepare {
            return Err(format!("it cannot be prepared: {ended}; see {}", work.keep().display()));
        }
        if text == &script.prepare {
            continue;
        }
        let mut results = Results::new();
        results.insert("the end".to_owned(), ended);
        results.insert("stdout".to_owned(), hash(&work.outside().join("stdout")));
        list_files(&work.inside(), "", script, &mut results);
        work.finish()?;
        return Ok(results);
    }
    unreachable!("the second of two returns");
}

/// Mode, kind, links and content of each file.
fn list_files(folder: &Path, above: &str, script: &Script, results: &mut Results) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = format!("{above}{}", entry.file_name().to_string_lossy());
        if script.ignore.iter().any(|ignored| name.contains(ignored)) {
            continue;
        }
        let Ok(data) = fs::symlink_metadata(entry.path()) else { continue };
        let what = if data.is_dir() {
            list_files(&entry.path(), &format!("{name}/"), script, results);
            "a folder".to_owned()
        } else if data.is_file() {
            format!("{} bytes, {}", data.len(), hash(&entry.path()))
        } else {
            format!("{:?}", fs::read_link(entry.path()).ok())
        };
        results.insert(name, format!("{:o}, {what}", data.mode()));
    }
}

fn hash(path: &Path) -> String {
    let mut hash = Hash::default();
    match hash.add_file(path) {
        Ok(()) => hash.text()[..16].to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Runs a command, its output to files. Returns how it ended.
///
/// # Errors
/// It could not be started, or took longer than `life_max` and was killed.
pub fn bounded(command: &mut Command, work: &Work, life_max: Duration) -> Result<String, String> {
    let outputs = ["stdout", "stderr"].map(|name| work.outside().join(name));
    match process::bounded(command.stdin(Stdio::null()), outputs, life_max)? {
        None => Err(format!("it hung; see {}", work.keep().display())),
        Some(status) => Ok(match status.code() {
            Some(code) => format!("exit {code}"),
            None => status.to_string(),
        }),
    }
}

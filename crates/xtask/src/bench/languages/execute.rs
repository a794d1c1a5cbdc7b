//! Runs a program once, as it is or under `sweetspot run`: clears the way, runs it as a fresh process,
//! and turns what came out into a hash.

use super::WAYS;
use super::table::Language;
use crate::bench::command::{environment, remove};
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use sweetspot_core::environment::ABOUT_BUFFERING;
use sweetspot_lab::{
    Error,
    measure::{self, Job, Measurement},
    output::Hash,
    paired::{Executor, Observation},
};

/// No run takes that long; a program that hangs must not hang the benchmark.
const RUN_LIMIT: Duration = Duration::from_secs(600);

/// How much of the error output of a failed command is shown, in bytes.
const ERROR_OUTPUT_LEN_MAX: usize = 2000;

/// Runs one language.
pub struct Runner<'a> {
    pub language: &'a Language,
    /// That of sweetspot.
    pub binary: &'a Path,
    /// The folder with the compiled programs.
    pub programs: &'a Path,
    /// The folder with their sources.
    pub sources: &'a Path,
    /// An empty folder for outputs.
    pub work: PathBuf,
    /// The file that is copied.
    pub input: PathBuf,
    /// What each run took, in the order in which they ran, by the number of its way.
    pub runs: Vec<(usize, Measurement)>,
}

/// Fills the placeholders of a command (the list is in `table`).
pub fn fill(text: &str, values: &[(&str, &Path)]) -> OsString {
    let mut text = text.to_owned();
    for (name, value) in values {
        text = text.replace(name, &value.to_string_lossy());
    }
    text.into()
}

impl Executor for Runner<'_> {
    fn execute(&mut self, way: usize) -> Result<Observation, Error> {
        remove(&self.output())?;
        let measurement = measure::run(&self.job(way))?;
        if !measurement.status.success() {
            let reason = format!("{}; it said: {}", measurement.status, tail(&self.stderr()));
            return Err(Error::Failed { program: format!("{:?}", WAYS[way]), reason });
        }
        self.runs.push((way, measurement));
        let mut hash = Hash::default();
        hash.add_file(&self.stdout())?;
        hash.add_tree(&self.output())?;
        let output = format!("sha256:{}", hash.text());
        Ok(Observation { figure: measurement.wall.as_secs_f64(), output })
    }
}

impl Runner<'_> {
    /// What the command makes.
    pub fn output(&self) -> PathBuf {
        self.work.join("output")
    }

    fn stdout(&self) -> PathBuf {
        self.work.with_extension("stdout")
    }

    fn stderr(&self) -> PathBuf {
        self.work.with_extension("stderr")
    }

    /// The command, without what stands before it.
    pub fn command(&self) -> Vec<OsString> {
        let output = self.output();
        let values = [
            ("{input}", self.input.as_path()),
            ("{output}", &output),
            ("{programs}", self.programs),
            ("{sources}", self.sources),
        ];
        self.language.command.iter().map(|word| fill(word, &values)).collect()
    }

    fn job(&self, way: usize) -> Job {
        let mut words: Vec<OsString> = Vec::new();
        if WAYS[way] == "run" {
            words.extend([self.binary.as_os_str().to_owned(), "run".into()]);
            words.extend(self.language.options.iter().map(OsString::from));
            words.push("--".into());
        }
        let mut job = Job::new(words.into_iter().chain(self.command()));
        job.environment = environment();
        job.without = ABOUT_BUFFERING.map(Into::into).into();
        // No sweetspot.toml lies there or above.
        job.folder = Some(self.work.clone());
        job.stdout = Some(self.stdout());
        job.stderr = Some(self.stderr());
        job.limit = RUN_LIMIT;
        job
    }
}

/// The end of what is in a file, as far as it is worth showing.
fn tail(path: &Path) -> String {
    // Only to explain another error: where it cannot be read there is nothing to show.
    let text = fs::read(path).unwrap_or_default();
    let start = text.len().saturating_sub(ERROR_OUTPUT_LEN_MAX);
    match String::from_utf8_lossy(&text[start..]).trim() {
        "" => "nothing".to_owned(),
        said => said.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled() {
        let values = [("{input}", Path::new("/a b")), ("{sources}", Path::new("/s"))];
        for (text, expected) in
            [("if={input}", "if=/a b"), ("{sources}{sources}", "/s/s"), ("{other}", "{other}")]
        {
            assert_eq!(fill(text, &values), expected);
        }
    }
}

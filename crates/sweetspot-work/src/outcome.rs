//! What a command says when it is done, and its progress bar.

use crate::explain::STATUS_FAILED;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Instant;
use sweetspot_lab::output::Hash;
use sweetspot_report::failure::Failure;
use sweetspot_report::print::print;

/// What was done, as it is told to programs.
pub struct Outcome {
    fields: Map<String, Value>,
    /// What was made, to be hashed if anyone wants to know.
    made: Option<PathBuf>,
}

impl Outcome {
    /// The command `verb` is done now; it was `started` then.
    pub fn new(verb: &str, started: Instant) -> Outcome {
        let seconds = started.elapsed().as_secs_f64();
        let mut outcome = Outcome { fields: Map::new(), made: None };
        outcome.set("verb", verb).set("seconds", seconds);
        outcome.set("peak_memory_bytes", peak_memory_bytes());
        outcome
    }

    pub fn set(&mut self, name: &str, value: impl Into<Value>) -> &mut Outcome {
        self.fields.insert(name.to_string(), value.into());
        self
    }

    /// What was made is at `path`.
    pub fn hash(&mut self, path: &Path) {
        self.made = Some(path.to_path_buf());
    }

    /// Prints it: one JSON object, or `said`.
    ///
    /// # Errors
    /// Where standard output does not take it; the exit status is 1.
    pub fn show(&mut self, json: bool, said: Option<&str>) -> Result<(), Failure> {
        let text = if json {
            if let Some(made) = self.made.take() {
                self.set("hash", hash(&made));
            }
            Value::Object(std::mem::take(&mut self.fields)).to_string()
        } else {
            match said {
                Some(said) => said.to_string(),
                None => return Ok(()),
            }
        };
        print_line(&text)
    }
}

/// Prints one line.
///
/// # Errors
/// Where standard output does not take it; the exit status is 1.
pub fn print_line(line: &str) -> Result<(), Failure> {
    print(&format!("{line}\n")).map_err(|failure| failure.status(STATUS_FAILED))
}

/// The most memory that this process had resident.
fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The hash of a file, or of all files of a folder one after another in the order of their names.
fn hash(path: &Path) -> Option<String> {
    let mut files = vec![path.to_path_buf()];
    if path.is_dir() {
        let entries = path.read_dir().ok()?;
        files = entries.map(|entry| Some(entry.ok()?.path())).collect::<Option<_>>()?;
        files.retain(|file| file.is_file());
        files.sort_unstable();
    }
    let mut hash = Hash::default();
    for file in files.iter().map(|file| file.is_file().then_some(file)) {
        hash.add_file(file?).ok()?;
    }
    Some(format!("sha256:{}", hash.text()))
}

/// A progress bar on standard error, where that is a terminal.
pub struct Bar {
    tell: Option<Box<dyn Fn(u64) + Sync>>,
    bar: ProgressBar,
}

impl Bar {
    /// A bar for so many bytes; 0: nobody knows how many.
    pub fn new(bytes: u64) -> Bar {
        if !io::stderr().is_terminal() {
            return Bar { tell: None, bar: ProgressBar::hidden() };
        }
        let (bar, template) = match bytes {
            0 => (ProgressBar::no_length(), "{bytes} {bytes_per_sec}"),
            _ => (ProgressBar::new(bytes), "{wide_bar} {bytes}/{total_bytes} {eta} left"),
        };
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let told = bar.clone();
        Bar { tell: Some(Box::new(move |done| told.set_position(done))), bar }
    }

    /// Says how many bytes are done.
    pub fn tell(&self, bytes: u64) {
        if let Some(tell) = &self.tell {
            tell(bytes);
        }
    }

    /// Who is told; nobody where there is no terminal, so that nothing is slower for it.
    pub fn listener(&self) -> Option<&(dyn Fn(u64) + Sync)> {
        self.tell.as_deref()
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

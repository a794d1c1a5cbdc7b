//! The cells of a plan of `benchmarks/`, with their commands, as `sweetspot bench --dry-run` says.

use crate::project::{failed, root};
use serde_json::Value;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};
use sweetspot_lab::Error;

/// A session of `sweetspot bench`, done or to be done.
pub struct Planned<'a> {
    pub binary: &'a Path,
    /// The plan, in `benchmarks/`.
    pub plan: &'static str,
    pub scale: Option<&'a str>,
    /// Its `--dir`.
    pub folder: &'a Path,
}

/// A cell of a plan.
pub struct Cell {
    pub name: String,
    pub cache: String,
    words: Vec<String>,
    pub environment: Vec<(OsString, OsString)>,
}

impl Planned<'_> {
    /// The command that runs it, but for what else is wanted.
    pub fn bench(&self) -> Command {
        let mut bench = Command::new(self.binary);
        bench.arg("bench").arg(root().join("benchmarks").join(self.plan));
        bench.args(self.scale.map(|scale| format!("--scale={scale}")));
        bench.arg("--dir").arg(self.folder);
        bench
    }

    /// What it runs. Commands name data where it has been made.
    pub fn cells(&self) -> Result<Vec<Cell>, Error> {
        let output = self.bench().args(["--dry-run", "--json"]).output();
        let output = output.map_err(Error::system("start", self.binary))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let plan: Value = serde_json::from_slice(&output.stdout)
            .map_err(|_| failed("sweetspot bench", said.trim()))?;
        Ok(super::report::list(&plan["cells"]).iter().map(cell).collect())
    }
}

fn cell(cell: &Value) -> Cell {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let variables = cell["environment"].as_object().into_iter().flatten();
    Cell {
        name: text(&cell["name"]),
        cache: text(&cell["cache"]),
        words: super::report::list(&cell["command"]).iter().map(text).collect(),
        environment: variables.map(|(name, value)| (name.into(), text(value).into())).collect(),
    }
}

impl Cell {
    /// Its command where `{output}` is that path.
    pub fn command(&self, output: &Path) -> Vec<OsString> {
        let output = output.to_string_lossy();
        self.words.iter().map(|word| word.replace("{output}", &output).into()).collect()
    }

    /// Whether it makes a file or folder.
    pub fn has_output(&self) -> bool {
        self.words.iter().any(|word| word.contains("{output}"))
    }

    /// The command without what stands before it: `sweetspot run` with its options.
    pub fn bare(&self, output: &Path) -> Vec<OsString> {
        let command = self.command(output);
        let dashes = command.iter().position(|word| word == "--").map_or(0, |at| at + 1);
        command[dashes..].to_vec()
    }

    /// The file that it reads, if it is one, in the folder of the session.
    pub fn input(&self, folder: &Path) -> Option<PathBuf> {
        let name = |word: &String| PathBuf::from(word.strip_prefix("if=").unwrap_or(word));
        let data = folder.join("data");
        self.words.iter().map(name).find(|path| path.starts_with(&data) && path.is_file())
    }
}

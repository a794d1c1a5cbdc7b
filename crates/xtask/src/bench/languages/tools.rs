//! The toolchains: whether they are there, and compiling the programs with them.

use super::execute::fill;
use super::table::{TOOLS, Tool};
use crate::commands::call;
use crate::needs::is_there;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::Command,
};

/// Compiles each tool's programs when they are first asked for.
pub struct Tools {
    programs: PathBuf,
    sources: PathBuf,
    /// For each tool that was asked for, why it cannot be used.
    known: HashMap<&'static str, Option<String>>,
}

impl Tools {
    /// Programs go from `sources` to `programs`.
    pub fn new(programs: &Path, sources: &Path) -> Self {
        let known = HashMap::new();
        Tools { programs: programs.to_owned(), sources: sources.to_owned(), known }
    }

    /// Why the tool `name` cannot be used; `None` when its programs are ready.
    pub fn missing(&mut self, name: &str) -> Option<String> {
        let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
            return Some(format!("the table names no tool {name}"));
        };
        if !self.known.contains_key(tool.name) {
            let reason = self.make(tool);
            self.known.insert(tool.name, reason);
        }
        self.known[tool.name].clone()
    }

    fn make(&self, tool: &Tool) -> Option<String> {
        if !is_there(tool.program) {
            let package = tool.package;
            return Some(format!("{} is not there (apt-get install {package})", tool.program));
        }
        tool.compile.iter().find_map(|command| self.compile(command))
    }

    fn compile(&self, command: &[&str]) -> Option<String> {
        let values =
            [("{programs}", self.programs.as_path()), ("{sources}", self.sources.as_path())];
        let words: Vec<_> = command.iter().map(|word| fill(word, &values)).collect();
        let mut compiler = Command::new(&words[0]);
        // Compilers leave their own files where they stand.
        let failed = call(compiler.args(&words[1..]).current_dir(&self.programs)).err()?;
        Some(format!("{} does not compile: {failed}", command.join(" ")))
    }
}

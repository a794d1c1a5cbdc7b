//! A place to try the command line in: a cache and a working folder of its own, and an environment
//! that says nothing to sweetspot.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;
use test_start::untold;

/// A folder with a cache and a working folder of its own.
pub struct Place {
    pub folder: TempDir,
}

impl Place {
    pub fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        Place { folder }
    }

    pub fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        untold(&mut command).env("SWEETSPOT_CACHE", self.cache()).current_dir(self.work());
        command
    }

    pub fn sweetspot(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_sweetspot"));
        command.args(arguments);
        command
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }
}

//! What the fuzzers run, and where: the command line, the programs of `programs/c`, and folders of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::file_systems::FileSystem;
use crate::build;
use crate::commands::{call, untold};
use sweetspot_core::environment::CACHE;
use tempfile::TempDir;

/// Names a folder with a `sweetspot`, where there is no cargo to build it, and perhaps with victims
/// in `c`, where there is no compiler.
pub const MADE_VARIABLE: &str = "SWEETSPOT_FUZZ_MADE";

/// What every C compiler of the tests is told, as its argument.
pub fn compiler_options() -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/c");
    format!("@{}", sources.join("options.txt").display())
}

/// What the fuzzers run: the command line and the victim, built.
pub struct Kit {
    pub sweetspot: PathBuf,
    /// Where both may have been made before.
    made: Option<PathBuf>,
    folder: TempDir,
    /// Where the programs run, if that is not beside them.
    works: Option<FileSystem>,
}

impl Kit {
    /// Builds both.
    ///
    /// # Errors
    /// What a compiler said.
    pub fn build() -> Result<Kit, String> {
        let made = std::env::var_os(MADE_VARIABLE).map(PathBuf::from);
        let sweetspot = match &made {
            Some(made) => made.join("sweetspot"),
            None => tested()?,
        };
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let kit = Kit { sweetspot, made, folder, works: None };
        kit.compile("kill_victim")?;
        Ok(kit)
    }

    /// The same, whose programs run on a file system of this kind.
    ///
    /// # Errors
    /// It cannot be mounted.
    pub fn on(self, kind: &str) -> Result<Kit, String> {
        Ok(Kit { works: Some(FileSystem::mount(kind)?), ..self })
    }

    /// Compiles `programs/c/NAME.c`; the program is `kit.program(NAME)`.
    ///
    /// # Errors
    /// What the compiler said.
    pub fn compile(&self, name: &str) -> Result<(), String> {
        if let Some(made) = self.made.as_ref().map(|made| made.join("c").join(name))
            && made.is_file()
        {
            let linked = std::os::unix::fs::symlink(made, self.program(name));
            return linked.map_err(|error| format!("{name}: {error}"));
        }
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/c");
        let mut command = Command::new("gcc");
        command.arg(compiler_options()).arg("-o").arg(self.program(name));
        call(command.arg(sources.join(format!("{name}.c")))).map(drop)
    }

    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A fresh folder to run in.
    ///
    /// # Errors
    /// The system's.
    pub fn work(&self) -> Result<TempDir, String> {
        let beside = || self.folder.path().to_owned();
        let place = self.works.as_ref().map_or_else(beside, FileSystem::root);
        tempfile::tempdir_in(place).map_err(|error| error.to_string())
    }

    /// A command in a folder, without what this process inherited.
    pub fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        untold(&mut command).env(CACHE, self.folder.path().join("cache"));
        command.current_dir(folder).stdin(Stdio::null());
        command
    }

    /// Leaves everything where it is and says where.
    pub fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}

/// The binary that the tests here are of: whatever builds another one of that name would replace it under them. Asked
/// for once, as the fuzzers are many.
fn tested() -> Result<PathBuf, String> {
    static TESTED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    TESTED.get_or_init(|| build::tested().map(|built| built.binary)).clone()
}

/// What a program said on standard error, without what its `run` said of others: what they left behind is
/// finished by whichever `run` comes first.
pub fn own_words(stderr: &Path) -> String {
    let said = fs::read_to_string(stderr).unwrap_or_default();
    let own = said.lines().filter(|line| !line.starts_with("sweetspot: from a killed program"));
    own.collect::<Vec<_>>().join("\n")
}

/// How many times as slow as others this machine is, at most: `SWEETSPOT_TEST_PATIENCE`, as in the table
/// of programs.
pub fn patience() -> u32 {
    let times = std::env::var("SWEETSPOT_TEST_PATIENCE").ok().and_then(|times| times.parse().ok());
    times.unwrap_or(1)
}

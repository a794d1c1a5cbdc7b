//! The C compiler as every test of this crate calls it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// gcc with the options of `programs/c/options.txt`, which is the only place that decides them:
/// every warning is an error, so that no test goes by what a compiler happened to make of a mistake;
/// and nothing is fortified where a distribution's compiler does so by itself, as the programs test
/// the functions that they name.
pub fn gcc() -> Command {
    let mut command = Command::new("gcc");
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/c");
    command.arg(format!("@{programs}/options.txt")).env("LC_ALL", "C");
    command
}

/// Compiles `programs/c/NAME.c`, with further options.
#[allow(dead_code, reason = "some tests have all their sources in them")]
pub fn compile(name: &str, options: &[&str], program: &Path) {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/c");
    let source: PathBuf = programs.join(format!("{name}.c"));
    let status = gcc().args(options).arg("-o").arg(program).arg(source).status();
    let made = status.expect("gcc is there (apt-get install build-essential)").success();
    assert!(made, "programs/c/{name}.c does not compile");
}

//! Running a command once for what it prints, and clearing away what it made.

use crate::project::failed;
use std::{
    ffi::{OsStr, OsString},
    fs,
    path::Path,
    process::{Command, Stdio},
};
use sweetspot_lab::Error;

/// The environment of every command: in one language.
pub fn environment() -> Vec<(OsString, OsString)> {
    vec![("LC_ALL".into(), "C".into())]
}

/// Runs a command in a folder, and returns what it printed.
pub fn run(folder: &Path, words: &[&OsStr]) -> Result<Vec<u8>, Error> {
    let name = Path::new(words[0]).file_name().unwrap_or(words[0]).to_string_lossy().into_owned();
    let output = Command::new(words[0])
        .args(&words[1..])
        .envs(environment())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(Error::system("start", &name))?;
    // `tune` ends with 1 where it could not decide.
    match output.status.code() {
        Some(0 | 1) => Ok(output.stdout),
        _ => Err(failed(&name, String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Removes a file or a folder with all that is in it; nothing is no error.
pub fn remove(path: &Path) -> Result<(), Error> {
    let result = match path.symlink_metadata() {
        Err(_) => return Ok(()),
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    result.map_err(Error::system("remove", path))
}

//! The project: where it lies, which state of it this is, and where its records go.

use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use sweetspot_lab::Error;
use sweetspot_lab::environment::Environment;

/// The project's folder.
pub fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// What is measured, as git names it.
pub fn source() -> Option<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty"]).current_dir(root());
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Makes `name`, or `name-2`, `name-3` and so on where that is there already.
fn new_folder(parent: &Path, name: &str) -> Result<PathBuf, Error> {
    const RECORDS_A_DAY_MAX: u32 = 100;
    let names = (2..=RECORDS_A_DAY_MAX).map(|number| format!("{name}-{number}"));
    for name in std::iter::once(name.to_owned()).chain(names) {
        let folder = parent.join(name);
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::system("create", folder)(error)),
        }
    }
    Err(failed("the record", &format!("there are {RECORDS_A_DAY_MAX} named {name} already")))
}

/// Writes NAME.json and NAME.md into a new folder of `measurements`, named after the day, the machine and what it
/// is about. Returns the folder.
pub fn record(
    environment: &Environment,
    about: &str,
    name: &str,
    record: &impl Serialize,
    markdown: &str,
) -> Result<PathBuf, Error> {
    let measurements = root().join("measurements");
    fs::create_dir_all(&measurements).map_err(Error::system("create", &measurements))?;
    let day = format!("{}-{}-{about}", environment.date, environment.machine());
    let folder = new_folder(&measurements, &day)?;
    let json = serde_json::to_string(record);
    let json = json.map_err(|error| failed("the record", &error.to_string()))? + "\n";
    for (ending, text) in [("json", &*json), ("md", markdown)] {
        let path = folder.join(name).with_extension(ending);
        fs::write(&path, text).map_err(Error::system("write", &path))?;
    }
    Ok(folder)
}

#[cfg(test)]
/// A page before what stands between two marks, that, and what comes after it; the marks stay outside.
pub fn marked<'a>(page: &'a str, name: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let begin = format!("<!-- {name}:begin -->\n");
    let from = page.find(&begin)? + begin.len();
    let to = from + page[from..].find(&format!("<!-- {name}:end -->\n"))?;
    Some((&page[..from], &page[from..to], &page[to..]))
}

/// A failure that is no system call's.
pub fn failed(program: &str, reason: &str) -> Error {
    Error::Failed { program: program.to_owned(), reason: reason.to_owned() }
}

#[test]
fn a_second_record_of_a_day_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..3).map(|_| new_folder(folder.path(), "day").unwrap()).collect();
    assert_eq!(names, ["day", "day-2", "day-3"].map(|name| folder.path().join(name)));
}

//! The files of a folder, and what they say.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use sweetspot_report::failure::Failure;
use sweetspot_report::shell::quoted;
use sweetspot_report::shown::shown;
use sweetspot_report::summary::many::{Folder, Run, Skipped};
use sweetspot_report::summary::run_file::RunFile;

/// A larger file is none of ours: a profile has at most some ten thousand files and processes.
const BYTES_MAX: u64 = 256 << 20;

/// Reads all files of these folders, and these files.
///
/// # Errors
/// Where a name does not exist or cannot be read, or nothing of it is ours.
pub fn all(paths: &[PathBuf]) -> Result<Folder, Failure> {
    let (mut summaries, mut profiles, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for path in files(paths)? {
        let name = path.display().to_string();
        match read(&path) {
            Ok(RunFile::Summary(record)) => summaries.push(Run::of_summary(name, *record)),
            Ok(RunFile::Profile(profile)) => profiles.push(Run::of_profile(name, *profile)),
            Err(why) => skipped.push(Skipped { file: name, why }),
        }
    }
    if summaries.is_empty() && profiles.is_empty() {
        let shown: Vec<_> = paths.iter().map(shown).collect();
        let why = match skipped.first() {
            None => "nothing is in it".to_owned(),
            Some(first) => format!("no file of a run is in it; {}: {}", first.file, first.why),
        };
        return Err(Failure::own(format!("{}: {why}", shown.join(" "))).next(format!(
            "each run puts one there with: sweetspot run --summary={} -- CMD",
            quoted(paths[0].join(""))
        )));
    }
    Ok(Folder::new(summaries, profiles, skipped))
}

/// The files that are meant, in the order of their names; without folders in folders.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    let mut seen = HashSet::new();
    for path in paths {
        let failure = |error| {
            Failure::own(format!("{}: {error}", shown(path)))
                .next("name the folder of run --summary=DIR/ or profile --json DIR/")
        };
        // The same by another name counts once, too.
        if !seen.insert(path.canonicalize().map_err(failure)?) {
            continue;
        }
        if !path.metadata().map_err(failure)?.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut inside = Vec::new();
        for entry in fs::read_dir(path).map_err(failure)? {
            let entry = entry.map_err(failure)?;
            if entry.path().metadata().is_ok_and(|metadata| !metadata.is_dir()) {
                inside.push(entry.path());
            }
        }
        inside.sort();
        files.append(&mut inside);
    }
    Ok(files)
}

/// Reads one file, or says why not.
fn read(path: &Path) -> Result<RunFile, String> {
    let metadata = path.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("not a regular file".to_owned());
    }
    if metadata.len() == 0 {
        return Err("empty: its run is not over, or was killed together with sweetspot".to_owned());
    }
    if metadata.len() > BYTES_MAX {
        return Err("too large for a file of a run".to_owned());
    }
    let content = fs::read(path).map_err(|error| error.to_string())?;
    RunFile::understood(&content)
}

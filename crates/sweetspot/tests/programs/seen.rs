//! What can be seen of a run: how it ended, what it said, every file; and what differs between two.
//!
//! Nothing is compared loosely: a program that may differ says so in the table, file by file.

use crate::table::Case;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Everything that can be seen of a run.
pub struct Seen {
    /// "exit 0", "signal 11", or that it did not end.
    pub ended: String,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub files: BTreeMap<PathBuf, Entry>,
}

/// One file of the work folder.
pub struct Entry {
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    links: u64,
    modified: SystemTime,
}

#[derive(PartialEq)]
pub enum Kind {
    File(Vec<u8>),
    Folder,
    Link(PathBuf),
    Other,
}

/// Every file below a folder.
pub fn snapshot(folder: &Path) -> Result<BTreeMap<PathBuf, Entry>, String> {
    let mut files = BTreeMap::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(next) = left.pop() {
        let wrong = |error: std::io::Error| format!("{}: {error}", next.display());
        for entry in fs::read_dir(&next).map_err(wrong)? {
            let path = entry.map_err(wrong)?.path();
            let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
            let data = fs::symlink_metadata(&path).map_err(wrong)?;
            let kind = if data.is_symlink() {
                Kind::Link(fs::read_link(&path).map_err(wrong)?)
            } else if data.is_dir() {
                left.push(path.clone());
                Kind::Folder
            } else if data.is_file() {
                Kind::File(fs::read(&path).map_err(wrong)?)
            } else {
                Kind::Other
            };
            let links = if data.is_dir() { 0 } else { data.nlink() };
            let modified = data.modified().map_err(wrong)?;
            let mode = data.mode() & 0o7777;
            let name = path.strip_prefix(folder).expect("below the folder").to_path_buf();
            files.insert(name, Entry { kind, mode, links, modified });
        }
    }
    Ok(files)
}

/// What differs between two runs, one line each.
pub fn differences(case: &Case, native: &Seen, seen: &Seen) -> Vec<String> {
    let mut found = Vec::new();
    if native.ended != seen.ended {
        found.push(format!("ended with {}, natively {}", seen.ended, native.ended));
    }
    found.extend(content("stdout", &native.stdout, &seen.stdout));
    found.extend(content("stderr", &native.stderr, &seen.stderr));
    let differs = |name: &Path| case.may_differ.iter().any(|other| name == Path::new(other));
    for (name, entry) in native.files.iter().filter(|(name, _)| !differs(name)) {
        match seen.files.get(name) {
            None => found.push(format!("file {} is missing", name.display())),
            Some(other) => entry_differences(case, name, entry, other, &mut found),
        }
    }
    for name in seen.files.keys().filter(|name| !differs(name)) {
        if !native.files.contains_key(name) {
            found.push(format!("file {} should not be there", name.display()));
        }
    }
    found
}

/// What differs between two files of one name.
fn entry_differences(
    case: &Case,
    name: &Path,
    native: &Entry,
    seen: &Entry,
    found: &mut Vec<String>,
) {
    let shown = name.display();
    match (&native.kind, &seen.kind) {
        (Kind::File(before), Kind::File(now)) => {
            found.extend(content(&format!("file {shown}"), before, now))
        }
        (before, now) if before != now => found.push(format!("file {shown}: another kind")),
        _ => {}
    }
    if native.mode != seen.mode {
        found.push(format!("file {shown}: mode {:o}, natively {:o}", seen.mode, native.mode));
    }
    if native.links != seen.links {
        found.push(format!("file {shown}: {} links, natively {}", seen.links, native.links));
    }
    let timed = case.times.iter().any(|other| name == Path::new(other));
    if timed && native.modified != seen.modified {
        let (before, now) = (native.modified, seen.modified);
        found.push(format!("file {shown}: modified {now:?}, natively {before:?}"));
    }
}

/// Where two byte strings differ first, with what is there.
fn content(what: &str, native: &[u8], seen: &[u8]) -> Option<String> {
    if native == seen {
        return None;
    }
    let at = native.iter().zip(seen).take_while(|(before, now)| before == now).count();
    let around = |bytes: &[u8]| {
        let start = bytes[..at.min(bytes.len())]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |newline| newline + 1)
            .max(at.saturating_sub(120));
        let end = bytes.len().min(at + 60);
        let part = bytes.get(start..end).unwrap_or(&[]);
        part.escape_ascii().to_string()
    };
    Some(format!(
        "{what}: {} bytes, natively {}; first difference at {at}:\n        \"{}\"\n        \
         natively\n        \"{}\"",
        seen.len(),
        native.len(),
        around(seen),
        around(native),
    ))
}

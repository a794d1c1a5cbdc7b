//! Makes the data sets of a plan, once, and checks before they are used that they are what was made.
//!
//! Invariant: what has its final name is complete: it is made under another name first.

use super::place::{KEY_DIGITS, Workspace, cannot, utf8};
use crate::experiment::{lab, tail};
use crate::own;
use crate::say::say;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use sweetspot_lab::measure::{self, Job};
use sweetspot_lab::output::Hash;
use sweetspot_lab::plan::{Data, MadeBy, Plan};
use sweetspot_report::bench::Skipped;
use sweetspot_report::failure::Failure;
use sweetspot_work::generated_bytes;

/// Making data takes no longer.
const LIMIT: Duration = Duration::from_secs(24 * 3600);
const CONTENT: &str = "content";
const NOTE: &str = "made.json";

/// A data set that is there.
#[derive(Clone, Debug)]
pub struct DataSet {
    /// What its placeholder stands for.
    pub path: String,
    pub files: Vec<Checked>,
    pub hash: String,
}

impl DataSet {
    fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }
}

/// A file as it was when it was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    pub path: PathBuf,
    len: u64,
    modified: Option<SystemTime>,
}

impl Checked {
    /// The file as it is now.
    ///
    /// # Errors
    /// Where it is not there.
    pub fn now(path: &Path) -> Result<Checked, Failure> {
        let metadata = path.metadata().map_err(cannot("look at", path))?;
        let modified = metadata.modified().ok();
        Ok(Checked { path: path.to_path_buf(), len: metadata.len(), modified })
    }
}

/// What stands beside a data set.
#[derive(Serialize, Deserialize)]
struct Note {
    command: String,
    sha256: String,
    bytes: u64,
}

/// How it is seen that data is what was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By reading all of it.
    Hash,
    /// By its length: on a machine that has just started, reading it would put it into the cache.
    Length,
}

/// One data set with the levels of a cell.
pub struct Wanted {
    /// Its name in the plan.
    pub name: String,
    folder: PathBuf,
    words: Vec<OsString>,
    is_generated: bool,
}

impl Wanted {
    /// How many bytes it has, or will have; none where only its command knows.
    ///
    /// # Errors
    /// Where `work generate` does not understand its arguments.
    pub fn bytes(&self) -> Result<Option<u64>, Failure> {
        match (self.note(), self.is_generated) {
            (Some(note), _) => Ok(Some(note.bytes)),
            (None, true) => generated_bytes(&self.words).map_err(|error| {
                let typed = shown(&self.words);
                Failure::own(format!(
                    "the data set '{}' cannot be made: {typed}: {error}",
                    self.name
                ))
                .next("sweetspot work generate --help")
            }),
            (None, false) => Ok(None),
        }
    }

    /// Where it lies, if it has been made.
    ///
    /// # Errors
    /// Where it cannot be looked at.
    pub fn path(&self) -> Result<Option<String>, Failure> {
        let note = self.note();
        Ok(note.map(|note| looked_at(&self.folder, note.sha256)).transpose()?.map(|set| set.path))
    }

    /// Whether it has been made.
    pub fn is_there(&self) -> bool {
        self.note().is_some()
    }

    fn note(&self) -> Option<Note> {
        let text = fs::read_to_string(self.folder.join(NOTE)).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// All different data sets of a plan, and for each cell which of them it reads.
pub struct Inventory {
    pub wanted: Vec<Wanted>,
    of_cells: Vec<Vec<usize>>,
}

impl Inventory {
    /// Looks what the cells of `plan` read, but for those that cannot run here: what makes their data
    /// may be missing, too.
    ///
    /// # Errors
    /// Where a path is no text, or a file of the plan's folder cannot be read.
    pub fn of(plan: &Plan, place: &Workspace, skipped: &[Skipped]) -> Result<Inventory, Failure> {
        let mut inventory = Inventory { wanted: Vec::new(), of_cells: Vec::new() };
        for cell in 0..plan.cells.len() {
            let mut numbers = Vec::new();
            let runs = skipped.iter().all(|skipped| skipped.program != plan.cells[cell].program());
            for data in plan.data.iter().filter(|data| runs && plan.reads(cell, &data.name)) {
                let wanted = wanted(plan, place, data, cell)?;
                let same = |known: &Wanted| known.folder == wanted.folder;
                numbers.push(inventory.wanted.iter().position(same).unwrap_or_else(|| {
                    inventory.wanted.push(wanted);
                    inventory.wanted.len() - 1
                }));
            }
            inventory.of_cells.push(numbers);
        }
        Ok(inventory)
    }

    /// Makes what is missing, and checks what is there.
    ///
    /// # Errors
    /// Where a data set cannot be made.
    pub fn make(
        &self,
        place: &Workspace,
        proof: Proof,
        bar: &ProgressBar,
    ) -> Result<Vec<DataSet>, Failure> {
        self.wanted.iter().map(|wanted| make(wanted, place, proof, bar)).collect()
    }

    /// The data sets that a cell reads: their names and numbers.
    pub fn of_cell(&self, cell: usize) -> impl Iterator<Item = (&str, usize)> {
        self.of_cells[cell].iter().map(|number| (self.wanted[*number].name.as_str(), *number))
    }
}

fn wanted(plan: &Plan, place: &Workspace, data: &Data, cell: usize) -> Result<Wanted, Failure> {
    let mut values: BTreeMap<String, String> = place.values()?.into_iter().collect();
    values.extend(plan.levels(cell));
    // Where it is made is known later.
    let path = place.runs.path().join(CONTENT);
    values.insert("path".to_owned(), utf8(&path)?.to_owned());
    let is_generated = matches!(data.made_by, MadeBy::Generate(_));
    let words: Vec<OsString> =
        data.made_by.words().iter().map(|word| word.fill(|name| values[name].as_str())).collect();
    let mut key = Hash::default();
    key.add(place.hash(&[data.made_by.words().to_vec()])?.as_bytes());
    key.add(if is_generated { env!("CARGO_PKG_VERSION") } else { "" }.as_bytes());
    plan.levels(cell).iter().filter(|(name, _)| data.made_by.names(name)).for_each(|(_, level)| {
        key.add(level.as_bytes());
        key.add(&[0]);
    });
    let folder = format!("{}-{}", data.name, &key.text()[..KEY_DIGITS]);
    Ok(Wanted { name: data.name.clone(), folder: place.data.join(folder), words, is_generated })
}

fn make(
    wanted: &Wanted,
    place: &Workspace,
    proof: Proof,
    bar: &ProgressBar,
) -> Result<DataSet, Failure> {
    let name = &wanted.name;
    if let Some(note) = wanted.note() {
        bar.set_message(format!("checking the data '{name}'"));
        if let Some(found) = proven(&wanted.folder, note, proof) {
            return Ok(found);
        }
        let what = format!("sweetspot: the data '{name}' is not what was made: it is made again");
        bar.suspend(|| say(what));
    }
    remove(&wanted.folder)?;
    bar.set_message(format!("making the data '{name}'"));
    // It is made in the folder of this process, which others remove if this one is killed.
    let unfinished = place.runs.path().join(format!("made-{name}"));
    remove(&unfinished)?;
    fs::create_dir(&unfinished).map_err(cannot("make", &unfinished))?;
    let content = unfinished.join(CONTENT);
    run(wanted, place, &content)?;
    let sha256 = hash_of(&unfinished)?;
    let bytes = looked_at(&unfinished, String::new())?.bytes();
    let note = Note { command: shown(&wanted.words), sha256: sha256.clone(), bytes };
    let text = serde_json::to_string_pretty(&note).unwrap_or_default();
    fs::write(unfinished.join(NOTE), text).map_err(cannot("write in", &unfinished))?;
    fs::rename(&unfinished, &wanted.folder).map_err(cannot("rename", &unfinished))?;
    looked_at(&wanted.folder, sha256)
}

/// The data set in `folder`, if it is what the note says.
fn proven(folder: &Path, note: Note, proof: Proof) -> Option<DataSet> {
    let is_same = match proof {
        Proof::Hash => hash_of(folder).is_ok_and(|hash| hash == note.sha256),
        Proof::Length => true,
    };
    let found = looked_at(folder, note.sha256).ok()?;
    (is_same && found.bytes() == note.bytes).then_some(found)
}

/// The hash of a data set in `folder`.
fn hash_of(folder: &Path) -> Result<String, Failure> {
    let mut hash = Hash::default();
    hash.add_tree(&folder.join(CONTENT)).map_err(lab)?;
    Ok(hash.text())
}

/// Runs the command that makes `content`.
fn run(wanted: &Wanted, place: &Workspace, content: &Path) -> Result<(), Failure> {
    let failure = |what: String, next: &str| {
        let typed = shown(&wanted.words);
        let what = format!("the data set '{}' cannot be made: {typed}: {what}", wanted.name);
        Failure::own(what).next(next)
    };
    wanted.bytes()?; // says what is wrong with the arguments, as far as they are ours
    let mut words = wanted.words.clone();
    if wanted.is_generated {
        let generate = [own::FILE, "work", "generate"].map(OsString::from);
        words = generate.into_iter().chain(words).collect();
        words.push(content.into());
    } else {
        // The command was filled with a path in the folder of this process, where it is moved from.
        remove(&place.runs.path().join(CONTENT))?;
    }
    let said = place.runs.path().join("said");
    let mut job = Job::new(words);
    (job.folder, job.stderr, job.limit) = (Some(place.folder.clone()), Some(said.clone()), LIMIT);
    let hint = "try the command by hand; sweetspot work generate --help";
    let measured = measure::run(&job).map_err(|error| failure(error.to_string(), hint))?;
    if !measured.status.success() {
        return Err(failure(format!("it failed with {}{}", measured.status, tail(&said)), hint));
    }
    let made = place.runs.path().join(CONTENT);
    if !wanted.is_generated {
        let missing = |_| failure("it made no {path}".to_owned(), "let it write what {path} names");
        fs::rename(&made, content).map_err(missing)?;
    }
    Ok(())
}

/// How much there is room for in a folder.
///
/// # Errors
/// Where the system does not tell.
pub fn free_bytes(folder: &Path) -> Result<u64, Failure> {
    sweetspot_sandbox::free_bytes(folder).map_err(cannot("look at", folder))
}

/// What there is of a data set in `folder`.
fn looked_at(folder: &Path, hash: String) -> Result<DataSet, Failure> {
    let content = folder.join(CONTENT);
    let mut files = Vec::new();
    collect(&content, &mut files)?;
    // One single file is named itself: who asks for one wants to read it.
    let path = match files.as_slice() {
        [file] => &file.path,
        _ => &content,
    };
    let path = utf8(path)?.to_owned();
    Ok(DataSet { path, files, hash })
}

/// All files below `path`, in the order of their names.
fn collect(path: &Path, files: &mut Vec<Checked>) -> Result<(), Failure> {
    let metadata = path.metadata().map_err(cannot("look at", path))?;
    if !metadata.is_dir() {
        files.push(Checked::now(path)?);
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(cannot("list", path))?;
    let mut below: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    below.sort_unstable();
    below.iter().try_for_each(|path| collect(path, files))
}

fn remove(path: &Path) -> Result<(), Failure> {
    let removed = match path.symlink_metadata() {
        Err(_) => return Ok(()),
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    removed.map_err(cannot("remove", path))
}

fn shown(words: &[OsString]) -> String {
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

//! Which files a command reads and writes, and whether they come out as they should.
//!
//! Two sources. A *scan* compares folders before and after a run: it sees every file that was
//! written there, by whatever means, but not outside. The *ledger* of a run with the library says
//! what was read and written through it, wherever that lies, but only files that were used in many
//! small pieces. Whether a file that is written is read, too, is also seen by its time of access,
//! where the file system keeps one. A file that all miss is not checked; the report names what is.
//!
//! Not here: running anything.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use sweetspot_core::ledger::{Counter, TEXT_BYTES_MAX};
use sweetspot_core::policy::CALLS_LISTED;
use sweetspot_guard::session::Summary;
use sweetspot_lab::output::Hash;
use sweetspot_report::failure::Failure;
use sweetspot_report::profile::data::{FileKind, Profile};

/// Files that are looked at in all scanned folders together.
const SCANNED_MAX: usize = 20_000;
/// Bytes that are read beforehand, to know afterwards what was changed: the smallest files first.
const CONTENT_BYTES_MAX: u64 = 256 << 20;

/// By what a file is known to be as it was: device, inode, size, and both its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark([i64; 7]);

impl Mark {
    fn of(metadata: &Metadata) -> Mark {
        Mark([
            metadata.dev().cast_signed(),
            metadata.ino().cast_signed(),
            metadata.size().cast_signed(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        ])
    }
}

impl Mark {
    fn size(&self) -> i64 {
        self.0[2]
    }
}

/// What is in some folders at one time.
pub struct Scan {
    files: BTreeMap<PathBuf, Mark>,
    /// There was more than could be looked at.
    pub is_partial: bool,
    /// What was in the files, as far as it was read.
    pub contents: Outputs,
}

impl Scan {
    /// Looks at `folder` and all below it, and at the folders of `named` files.
    pub fn of(folder: &Path, named: &[PathBuf]) -> Scan {
        let (files, contents) = (BTreeMap::new(), Outputs::default());
        let mut scan = Scan { files, is_partial: false, contents };
        let beside: BTreeSet<&Path> = named.iter().filter_map(|path| path.parent()).collect();
        for folder in beside {
            scan.look(folder, Depth::This);
        }
        scan.look(folder, Depth::All);
        scan
    }

    /// Reads what is in the files, as far as that takes no long time.
    pub fn with_contents(mut self) -> Scan {
        let mut by_size: Vec<(i64, &PathBuf)> =
            self.files.iter().map(|(path, mark)| (mark.size(), path)).collect();
        by_size.sort_unstable();
        let mut left = CONTENT_BYTES_MAX.cast_signed();
        let affordable = by_size.into_iter().take_while(|(size, _)| {
            left -= size;
            left >= 0
        });
        // What cannot be read is not known to be changed.
        let read = affordable.filter_map(|(_, path)| Outputs::of([path].into_iter()).ok());
        self.contents = Outputs(read.flat_map(|outputs| outputs.0).collect());
        self
    }

    fn look(&mut self, folder: &Path, depth: Depth) {
        // What may not be listed cannot be compared; the program may not write there either.
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if self.files.len() >= SCANNED_MAX {
                self.is_partial = true;
                return;
            }
            if metadata.is_file() {
                self.files.insert(entry.path(), Mark::of(&metadata));
            } else if metadata.is_dir() && depth == Depth::All {
                self.look(&entry.path(), depth);
            }
        }
    }

    /// The files that are other than `before`, or new.
    fn changed(&self, before: &Scan) -> impl Iterator<Item = &PathBuf> {
        let is_changed = |(path, mark): &(&PathBuf, &Mark)| before.files.get(*path) != Some(mark);
        self.files.iter().filter(is_changed).map(|(path, _)| path)
    }

    /// The files that are gone.
    fn gone(&self, before: &Scan) -> Vec<PathBuf> {
        before.files.keys().filter(|path| !self.files.contains_key(*path)).cloned().collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    This,
    All,
}

/// Existing files, and names in existing folders, that a command's words may mean: as they are, and
/// after an equals sign (`if=in.dat`).
pub fn named(folder: &Path, words: &[OsString]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for word in words {
        let bytes = word.as_encoded_bytes();
        let after = bytes.iter().position(|byte| *byte == b'=').map(|at| &bytes[at + 1..]);
        for text in [Some(bytes), after].into_iter().flatten() {
            let path = folder.join(OsStr::from_bytes(text));
            let is_possible = !text.is_empty() && !path.is_dir();
            if is_possible && path.parent().is_some_and(Path::is_dir) {
                found.push(path.canonicalize().unwrap_or(path));
            }
        }
    }
    found
}

/// What is known of the files of a command.
#[derive(Debug, Default)]
pub struct Files {
    /// Written, at their latest names.
    pub written: BTreeSet<PathBuf>,
    /// Read and not written, as they were.
    read: BTreeMap<PathBuf, Mark>,
    /// Read, and written, too.
    both: BTreeSet<PathBuf>,
    /// Written, and there already before the first run.
    was_there: BTreeSet<PathBuf>,
    /// Gone after the first run.
    pub removed: Vec<PathBuf>,
    /// Fetched in larger pieces than were used: a smaller window or none may be better.
    pub wasteful: Vec<PathBuf>,
    /// Paths that were too long to be known whole.
    pub unknown: usize,
}

impl Files {
    /// Learns from scans around the first run.
    pub fn learn_from_scans(&mut self, before: &Scan, after: &Scan) {
        self.written.extend(after.changed(before).cloned());
        let was_there = |path: &&PathBuf| before.files.contains_key(*path);
        self.was_there = self.written.iter().filter(was_there).cloned().collect();
        self.removed = after.gone(before);
    }

    /// Learns from the names in the command, when it is known what is written.
    pub fn learn_from_names(&mut self, named: &[PathBuf]) {
        for path in named {
            if !self.written.contains(path)
                && let Ok(metadata) = path.metadata()
                && metadata.is_file()
            {
                self.read.insert(path.clone(), Mark::of(&metadata));
            }
        }
    }

    /// Learns from what a run with the library recorded.
    pub fn learn_from_ledger(&mut self, summary: &Summary) {
        for file in &summary.files {
            let count = |counter| file.count(counter);
            let read = count(Counter::HitBytes) + count(Counter::PassedReadBytes);
            let written = count(Counter::AppendBytes) + count(Counter::PassedWriteBytes);
            let Some(path) = now_at(file.path(), file.inode) else {
                self.unknown += usize::from(file.path.len() >= TEXT_BYTES_MAX);
                continue;
            };
            self.learn_used(&path, read > 0, written > 0);
            if count(Counter::FillBytes) > 2 * count(Counter::HitBytes).max(1) {
                self.wasteful.push(path);
            }
        }
    }

    /// Learns from a profile of a run that was recorded.
    pub fn learn_from_profile(&mut self, profile: &Profile) {
        // Of the same files a ledger would tell: used in many pieces. What was open before is standard
        // input or output, which each run gets anew.
        let is_one = |file: &&sweetspot_report::profile::data::File| {
            let calls = file.reads + file.writes;
            let is_listed = file.together == 0 && calls >= u64::from(CALLS_LISTED);
            file.kind == FileKind::File && file.opens > 0 && is_listed
        };
        for file in profile.files.iter().filter(is_one) {
            let path = PathBuf::from(&file.path);
            if path.is_file() {
                self.learn_used(&path, file.read_bytes > 0, file.written_bytes > 0);
            }
            let buffered = &file.buffered;
            if buffered.fill_bytes > 2 * buffered.hit_bytes.max(1) {
                self.wasteful.push(path);
            }
        }
    }

    fn learn_used(&mut self, path: &Path, is_read: bool, is_written: bool) {
        if is_written {
            self.read.remove(path);
            if is_read {
                self.both.insert(path.to_owned());
            }
            self.written.insert(path.to_owned());
        } else if is_read
            && !self.written.contains(path)
            && let Ok(metadata) = path.metadata()
        {
            self.read.insert(path.to_owned(), Mark::of(&metadata));
        }
    }

    /// Learns from times of access which of the written files were read in the run that began at
    /// `start`. Counts only if nobody else has read them since the run before: hashing does not.
    pub fn learn_from_access(&mut self, start: SystemTime) {
        let was_read = |path: &&PathBuf| {
            let accessed = path.metadata().and_then(|metadata| metadata.accessed());
            // These times tick with the kernel's clock, some milliseconds behind.
            accessed.is_ok_and(|time| time + Duration::from_millis(10) >= start)
        };
        let both = self.written.iter().filter(|path| self.was_there.contains(*path));
        let both: Vec<PathBuf> = both.filter(was_read).cloned().collect();
        self.both.extend(both);
    }

    /// The files that are only read.
    pub fn inputs(&self) -> Vec<PathBuf> {
        self.read.keys().cloned().collect()
    }

    /// An input that is not any more as it was.
    pub fn changed_input(&self) -> Option<&Path> {
        let is_changed = |(path, mark): &(&PathBuf, &Mark)| {
            path.metadata().map_or(true, |metadata| Mark::of(&metadata) != **mark)
        };
        self.read.iter().find(is_changed).map(|(path, _)| path.as_path())
    }

    /// A file that the program reads, and that is after the first run not what it was before it.
    pub fn altered_input<'a>(&'a self, before: &Outputs, after: &Outputs) -> Option<&'a Path> {
        let is_altered = |path: &&PathBuf| {
            self.was_there.contains(*path)
                && before.0.get(*path).is_some_and(|known| after.0.get(*path) != Some(known))
        };
        self.both.iter().find(is_altered).map(PathBuf::as_path)
    }

    /// Whether the program reads the file that it writes, and that was there before.
    pub fn is_read_too(&self, path: &Path) -> bool {
        self.both.contains(path)
    }
}

/// Where a file is now that was opened as `path`: there, or renamed in its folder. `None` where it is
/// in neither place, or is no file that could be looked at again.
fn now_at(path: &Path, inode: u64) -> Option<PathBuf> {
    let is_it = |metadata: &Metadata| metadata.is_file() && metadata.ino() == inode;
    if !path.is_absolute() || path.metadata().is_ok_and(|metadata| is_it(&metadata)) {
        return path.is_absolute().then(|| path.to_path_buf());
    }
    let entries = std::fs::read_dir(path.parent()?).ok()?;
    let entry = entries.flatten().find(|entry| entry.metadata().is_ok_and(|m| is_it(&m)));
    match entry {
        Some(entry) => Some(entry.path()),
        // Another file of the same name was put in its place: that is what came out.
        None => {
            path.metadata().is_ok_and(|metadata| metadata.is_file()).then(|| path.to_path_buf())
        }
    }
}

/// Opens a file without moving its time of access, where that is allowed.
fn open_unnoticed(path: &Path) -> Result<File, sweetspot_lab::Error> {
    let flag = rustix::fs::OFlags::NOATIME.bits().cast_signed();
    let unnoticed = OpenOptions::new().read(true).custom_flags(flag).open(path);
    unnoticed.or_else(|_| File::open(path)).map_err(sweetspot_lab::Error::system("open", path))
}

/// What came out of a run: by file, a hash and the size; `None` where there is no such file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outputs(pub BTreeMap<PathBuf, Option<(String, u64)>>);

impl Outputs {
    /// Hashes `files`.
    ///
    /// # Errors
    /// Where one is there and cannot be read.
    pub fn of<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Result<Outputs, Failure> {
        let hashed = files.map(|path| {
            let Ok(metadata) = path.metadata() else { return Ok((path.clone(), None)) };
            let mut hash = Hash::default();
            hash.add_open_file(open_unnoticed(path)?, path)?;
            Ok((path.clone(), Some((hash.text(), metadata.len()))))
        });
        hashed.collect::<Result<_, sweetspot_lab::Error>>().map(Outputs).map_err(|error| {
            Failure::own(format!("an output cannot be checked: {error}"))
                .next("make it readable for you, or try as the user who owns it")
        })
    }

    /// The files that both know and that differ.
    pub fn differing<'a>(&'a self, other: &'a Outputs) -> impl Iterator<Item = &'a PathBuf> {
        let differs = |(path, output): &(&PathBuf, &Option<(String, u64)>)| {
            other.0.get(*path).is_some_and(|known| known != *output)
        };
        self.0.iter().filter(differs).map(|(path, _)| path)
    }

    /// How much longer `path` is than in `before`.
    pub fn growth(&self, before: &Outputs, path: &Path) -> Option<u64> {
        let size = |outputs: &Outputs| outputs.0.get(path)?.as_ref().map(|(_, size)| *size);
        size(self)?.checked_sub(size(before)?).filter(|growth| *growth > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_scan_sees_what_was_written_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["same", "changed", "gone", "input"] {
            fs::write(path(name), "before").unwrap();
        }
        fs::create_dir(path("below")).unwrap();
        let before = Scan::of(folder.path(), &[]);
        fs::write(path("changed"), "after!").unwrap();
        fs::write(path("below/new"), "").unwrap();
        fs::remove_file(path("gone")).unwrap();
        let mut files = Files::default();
        let named = [path("input"), path("changed"), path("absent")];
        files.learn_from_scans(&before, &Scan::of(folder.path(), &[]));
        files.learn_from_names(&named);
        let written: Vec<_> = files.written.iter().cloned().collect();
        assert_eq!(written, [path("below/new"), path("changed")]);
        assert_eq!(files.removed, [path("gone")]);
        assert_eq!(files.inputs(), [path("input")]);
        assert_eq!(files.changed_input(), None);
        fs::write(path("input"), "other!").unwrap();
        assert_eq!(files.changed_input(), Some(path("input").as_path()));
    }

    #[test]
    fn names_are_found_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        fs::write(folder.join("in.dat"), "").unwrap();
        fs::create_dir(folder.join("sub")).unwrap();
        let words = ["if=in.dat", "of=sub/out", "-x", "no/such/folder/file", "sub", "bs=200"];
        let found = named(&folder, &words.map(OsString::from));
        for expected in ["in.dat", "sub/out"] {
            assert!(found.contains(&folder.join(expected)), "{expected} is not in {found:?}");
        }
        for other in ["no/such/folder/file", "sub"] {
            assert!(!found.contains(&folder.join(other)), "{other} is in {found:?}");
        }
    }

    #[test]
    fn a_renamed_file_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("out.tmp"), folder.path().join("out"));
        fs::write(&new, "x").unwrap();
        let inode = new.metadata().unwrap().ino();
        assert_eq!(now_at(&old, inode), Some(new.clone()));
        assert_eq!(now_at(&new, inode), Some(new.clone()));
        assert_eq!(now_at(&old, inode + 1), None);
        assert_eq!(now_at(Path::new("pipe:[123]"), inode), None);
    }

    #[test]
    fn outputs_differ_by_content_and_by_being_there() {
        let folder = tempfile::tempdir().unwrap();
        let files = [folder.path().join("a"), folder.path().join("b")];
        fs::write(&files[0], "one").unwrap();
        let before = Outputs::of(files.iter()).unwrap();
        assert_eq!(before.differing(&before).count(), 0);
        fs::write(&files[0], "other").unwrap();
        fs::write(&files[1], "").unwrap();
        let after = Outputs::of(files.iter()).unwrap();
        assert_eq!(after.differing(&before).collect::<Vec<_>>(), [&files[0], &files[1]]);
        assert_eq!(after.growth(&before, &files[0]), Some(2));
        assert_eq!(before.growth(&after, &files[0]), None);
    }
}

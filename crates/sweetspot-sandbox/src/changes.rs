//! What a run left: every name that was made, changed or removed.
//!
//! Only what can be seen in the end counts. How an overlay keeps it (whiteouts for names that are
//! gone, a mark on folders that were replaced) does not leave this module.

use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Attributes of this prefix are the overlay's own.
const OVERLAYS_OWN: &[u8] = b"user.overlay.";
const OPAQUE: &str = "user.overlay.opaque";
/// What all attributes of a file may take together, by the kernel's limit.
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;
/// Contents that are not kept are remembered by a hash for each stretch of this length.
pub const BLOCK_BYTES: u64 = 1 << 20;

/// Every name that a run made, changed or removed (`None`), with what is there now.
pub type Changes = BTreeMap<PathBuf, Option<Entry>>;

/// One file, folder, link or other thing, as it can be seen.
#[derive(Clone, Debug)]
pub struct Entry {
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    pub owner: (u32, u32),
    /// When it was modified, in nanoseconds since 1970.
    pub modified: i128,
    pub links: u64,
    /// Names with the same number are one file.
    pub inode: u64,
    /// Extended attributes, access lists among them.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// What an entry is.
#[derive(Clone, Debug)]
pub enum Kind {
    File(Content),
    Folder,
    Link(PathBuf),
    /// A pipe, a socket, a device: its type and number.
    Other(u32, u64),
}

/// The bytes of a file.
#[derive(Clone, Debug)]
pub struct Content {
    pub len: u64,
    pub kept: Kept,
}

/// Where the bytes are.
#[derive(Clone, Debug)]
pub enum Kept {
    /// In this file.
    At(PathBuf),
    /// Nowhere: a hash for each block.
    Hashes(Vec<[u8; 32]>),
    /// Nowhere: they are what they were before the first run.
    Untouched,
}

impl Content {
    /// Forgets where the bytes are; from then on only hashes are compared.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub fn keep_hashes_only(&mut self) -> io::Result<()> {
        if let Kept::At(path) = &self.kept {
            self.kept = Kept::Hashes(hashes(path)?);
        }
        Ok(())
    }
}

/// A hash for each block of a file. Blocks that are holes are not read.
///
/// # Errors
/// Where it cannot be read.
pub fn hashes(path: &Path) -> io::Result<Vec<[u8; 32]>> {
    static OF_A_HOLE: LazyLock<[u8; 32]> =
        LazyLock::new(|| Sha256::digest(vec![0; BLOCK_BYTES as usize]).into());
    let mut file = File::open(path)?;
    let mut hashes = Vec::new();
    let mut block = Vec::new();
    loop {
        let at = hashes.len() as u64 * BLOCK_BYTES;
        let holes = (next_data(&file, at)? - at) / BLOCK_BYTES;
        hashes.resize(hashes.len() + holes as usize, *OF_A_HOLE);
        file.seek(SeekFrom::Start(at + holes * BLOCK_BYTES))?;
        block.clear();
        if (&mut file).take(BLOCK_BYTES).read_to_end(&mut block)? == 0 {
            return Ok(hashes);
        }
        hashes.push(Sha256::digest(&block).into());
    }
}

/// Where data begins in a file, from a place on: before it are only holes, which read as zeros. Its end,
/// if there is none any more.
///
/// # Errors
/// Where the file cannot be looked at.
pub fn next_data(file: &File, at: u64) -> io::Result<u64> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(next) => Ok(next),
        Err(Errno::NXIO) => Ok(file.metadata()?.len().max(at)),
        // This file system knows no holes.
        Err(_) => Ok(at),
    }
}

impl Entry {
    /// What is at a path; links are not followed.
    ///
    /// # Errors
    /// Where it cannot be looked at.
    pub fn at(path: &Path) -> io::Result<Entry> {
        Entry::new(path, &fs::symlink_metadata(path)?)
    }

    /// The same where the metadata is known.
    pub fn new(path: &Path, data: &Metadata) -> io::Result<Entry> {
        let kind = if data.is_file() {
            Kind::File(Content { len: data.len(), kept: Kept::At(path.to_owned()) })
        } else if data.is_dir() {
            Kind::Folder
        } else if data.is_symlink() {
            Kind::Link(fs::read_link(path)?)
        } else {
            Kind::Other(data.mode() & 0o170_000, data.rdev())
        };
        let modified = i128::from(data.mtime()) * 1_000_000_000 + i128::from(data.mtime_nsec());
        Ok(Entry {
            kind,
            mode: data.mode() & 0o7777,
            owner: (data.uid(), data.gid()),
            modified,
            // The kernel counts folders in a folder differently from one file system to the next.
            links: if data.is_dir() { 1 } else { data.nlink() },
            inode: data.ino(),
            attributes: attributes(path),
        })
    }

    /// Its content, if it is a file.
    pub fn content(&self) -> Option<&Content> {
        match &self.kind {
            Kind::File(content) => Some(content),
            _ => None,
        }
    }
}

/// The extended attributes; none where the file system has none.
fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; ATTRIBUTE_BYTES_MAX];
    let len = rustix::fs::llistxattr(path, names.as_mut_slice()).unwrap_or(0);
    let names = names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let own = names.filter(|name| !name.starts_with(OVERLAYS_OWN));
    own.filter_map(|name| Some((name.to_vec(), attribute(path, OsStr::from_bytes(name))?)))
        .collect()
}

fn attribute(path: &Path, name: &OsStr) -> Option<Vec<u8>> {
    let mut value = vec![0; ATTRIBUTE_BYTES_MAX];
    let len = rustix::fs::lgetxattr(path, name, value.as_mut_slice()).ok()?;
    value.truncate(len);
    Some(value)
}

/// Adds what lies in the upper folder of an overlay over `folder`. What the program closed to its
/// own user is opened, after its mode was noted.
///
/// # Errors
/// Where something cannot be looked at.
pub fn add(changes: &mut Changes, folder: &Path, upper: &Path) -> io::Result<()> {
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    open(upper)?;
    let mut closed = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(inside) = left.pop() {
        for entry in fs::read_dir(upper.join(&inside))? {
            let inside = inside.join(entry?.file_name());
            let (path, at) = (folder.join(&inside), upper.join(&inside));
            let data = fs::symlink_metadata(&at)?;
            if data.file_type().is_char_device() && data.rdev() == 0 {
                changes.insert(path, None);
                continue;
            }
            let entry = Entry::new(&at, &data)?;
            if data.is_dir() {
                if attribute(&at, OsStr::new(OPAQUE)).is_some() {
                    add_removed(changes, &path, &at);
                }
                if entry.mode & 0o700 != 0o700 {
                    open(&at)?;
                }
                left.push(inside);
            } else if data.is_file() && entry.mode & 0o400 == 0 {
                closed.push(at);
            }
            changes.insert(path, Some(entry));
        }
    }
    // Only now: a file may have another name, under which its mode was still to be noted.
    closed.iter().try_for_each(|path| open(path))
}

/// A folder was replaced: what was in the old one and is not in the new one is removed.
fn add_removed(changes: &mut Changes, folder: &Path, upper: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if fs::symlink_metadata(upper.join(entry.file_name())).is_err() {
            changes.insert(entry.path(), None);
        }
    }
}

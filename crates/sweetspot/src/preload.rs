//! Where the preload library lies, and whether it is still ours.
//!
//! The library travels inside this binary. It is written once to the user's cache folder, under a
//! name made of its content hash: first to a temporary file, then renamed, so nobody ever loads half
//! of it. A package can ship it as a file instead (`SWEETSPOT_LIBDIR` at compile time).
//!
//! Anyone who can change the library runs code in every program that is started. So before each use:
//! the folder and all above it belong to the user or to root and cannot be changed by others, the
//! file is a plain file of the same kind, and every byte of it is ours: it is compared, or has not been
//! changed since it was (`seen`). No symbolic link is followed
//! below the cache folder (the cache folder itself may be one: home folders are often spread so).
//!
//! Not here: what the library does, and whether the program can load it (`reach`).

use crate::seen;
use rustix::fs::{Mode, OFlags, StatVfsMountFlags, fchmod, fstatvfs};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use sweetspot_core::environment::{CACHE, PRELOAD};
use sweetspot_guard::own_folder;
use sweetspot_guard::process::with_size_errors;
use sweetspot_report::failure::Failure;
use sweetspot_report::shell::quoted;
use sweetspot_report::shown::shown;
use tempfile::NamedTempFile;

/// The library's bytes.
const LIBRARY: &[u8] = include_bytes!(env!("SWEETSPOT_PRELOAD_SO"));
/// Tells builds of the library apart.
pub const HASH: &str = env!("SWEETSPOT_PRELOAD_HASH");
/// The library's name in the cache folder.
const FILE_NAME: &str = concat!("libsweetspot-", env!("SWEETSPOT_PRELOAD_HASH"), ".so");
/// A folder of the package that ships the library as a file, and its name there.
const PACKAGE_FOLDER: Option<&str> = option_env!("SWEETSPOT_LIBDIR");
const PACKAGE_FILE_NAME: &str = "libsweetspot.so";
/// Where root's library goes when `HOME` is missing, someone else's (`sudo`), or closed to others: a program
/// that root starts may give up its rights and start another one, which must be able to load it.
pub const FOLDER_OF_ROOT: &str = "/var/cache/sweetspot";
/// Bytes at which the dynamic linker splits `LD_PRELOAD`, and `$`, which it expands.
const SPECIAL: &[u8] = b" :\t\n$";
/// Only its owner may change the folder, and only the owner's programs load from it. Root starts
/// programs that give up their rights and then start others, which must still be able to load it.
const FOLDER_MODE: u32 = 0o700;
const FOLDER_MODE_OF_ROOT: u32 = 0o755;
const FILE_MODE: u32 = 0o555;

/// Why there is no library to be loaded.
pub enum Refusal {
    /// What lies at its place, or could be put there, cannot be trusted: somebody should look.
    Unsafe(Failure),
    /// It cannot be kept or loaded there.
    NoPlace(Failure),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        match refusal {
            Refusal::Unsafe(failure) | Refusal::NoPlace(failure) => failure,
        }
    }
}

/// The absolute path of a library that may be loaded; writes it first where it is missing.
///
/// # Errors
/// Where there is no place for it, or what lies there cannot be trusted.
pub fn install() -> Result<PathBuf, Failure> {
    Ok(find_or_write()?)
}

/// The file that a package has brought along.
pub fn packaged() -> Option<PathBuf> {
    let packaged = Path::new(PACKAGE_FOLDER?).join(PACKAGE_FILE_NAME);
    packaged.symlink_metadata().is_ok().then_some(packaged)
}

/// The same, for callers that can do without.
///
/// # Errors
/// As [`install`], with the kind.
pub fn find_or_write() -> Result<PathBuf, Refusal> {
    if let Some(packaged) = packaged() {
        return check_packaged(packaged);
    }
    let folder = folder()?;
    let library = folder.join(FILE_NAME);
    let refusal = |unusable: Unusable| unusable.refusal(&library);
    match verify(&library) {
        Ok(()) => return Ok(library),
        Err(Unusable::Missing) => {
            write(&folder, &library).map_err(|error| cannot_write(&folder, &error))?;
        }
        // Nobody but us could change it: it is damaged, and gives way to a whole one.
        Err(Unusable::OtherContent) => {
            replace(&folder, &library).map_err(|_| refusal(Unusable::OtherContent))?;
        }
        Err(unusable) => return Err(refusal(unusable)),
    }
    verify(&library).map_err(refusal)?;
    Ok(library)
}

/// What `LD_PRELOAD` says without a library of ours; `None`: nothing is left.
pub fn without(all: &OsStr) -> Option<OsString> {
    let elements = all.as_bytes().split(|byte| matches!(byte, b':' | b' '));
    let others: Vec<&[u8]> = elements.filter(|path| !path.is_empty() && !is_ours(path)).collect();
    (!others.is_empty()).then(|| OsStr::from_bytes(&others.join(&b':')).to_owned())
}

/// Whether a library is one of ours, of any version and in any folder: two of them in one process would take
/// each other for libc.
fn is_ours(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name.starts_with(b"libsweetspot") && name.ends_with(b".so")
}

/// Whether what `LD_PRELOAD` says names AddressSanitizer, which must be the first.
pub fn names_sanitizer(all: &OsStr) -> bool {
    let mut elements = all.as_bytes().split(|byte| matches!(byte, b':' | b' '));
    elements.any(|path| {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        name.starts_with(b"libasan.so") || name.starts_with(b"libclang_rt.asan")
    })
}

/// `LD_PRELOAD` with our library first and then what else the caller had, in the caller's separators.
pub fn chain(library: &OsStr, others: Option<&OsStr>) -> OsString {
    let others = others.unwrap_or_default().as_bytes();
    let is_separator = |byte: &u8| matches!(byte, b':' | b' ');
    let separator = others.iter().copied().find(|byte| is_separator(byte)).unwrap_or(b':');
    // A `run` inside a `run` has one of ours there already, which may lie elsewhere.
    let others = others.split(is_separator).filter(|other| !other.is_empty() && !is_ours(other));
    let mut all = library.as_bytes().to_vec();
    for other in others {
        all.push(separator);
        all.extend_from_slice(other);
    }
    OsStr::from_bytes(&all).to_os_string()
}

/// Whether a process with other rights can get to this folder, as far as it is there.
fn others_may_reach(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let searchable = |folder: &Path| match folder.metadata() {
        Ok(metadata) => metadata.permissions().mode() & 0o001 != 0,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    folder.ancestors().all(searchable)
}

/// The folder for the library: made if it is missing, and safe.
fn folder() -> Result<PathBuf, Refusal> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let usual = |base: PathBuf| made_and_safe(&base, &base.join("sweetspot"));
    if let Some(folder) = variable(CACHE).map(PathBuf::from) {
        return made_and_safe(&folder, &folder);
    }
    // The specification says that a relative XDG_CACHE_HOME is to be ignored.
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let is_root = rustix::process::geteuid().is_root();
    // Root could make a home folder that is not there, and must not.
    let home = || {
        let home = variable("HOME").map(PathBuf::from).and_then(absolute)?;
        (!is_root || home.is_dir()).then(|| home.join(".cache"))
    };
    let base = variable("XDG_CACHE_HOME").map(PathBuf::from).and_then(absolute).or_else(home);
    match base {
        Some(base) if is_root && !(own_folder::is_over(&base) && others_may_reach(&base)) => {
            made_and_safe(Path::new(FOLDER_OF_ROOT), Path::new(FOLDER_OF_ROOT))
        }
        Some(base) => usual(base),
        None if is_root => made_and_safe(Path::new(FOLDER_OF_ROOT), Path::new(FOLDER_OF_ROOT)),
        None => {
            let failure = Failure::own("no place for the preload library: HOME is not set");
            Err(Refusal::NoPlace(failure.next(way_out())))
        }
    }
}

/// Makes `base` (links in it are followed) and below it, if different, `folder` (a real folder).
fn made_and_safe(base: &Path, folder: &Path) -> Result<PathBuf, Refusal> {
    let is_root = rustix::process::geteuid().is_root();
    let mode = if is_root { FOLDER_MODE_OF_ROOT } else { FOLDER_MODE };
    let make = |path: &Path| own_folder::make(path, mode);
    make(base).map_err(|error| cannot_write(base, &error))?;
    // Absolute, and without links whose owner could turn them elsewhere.
    let real = base.canonicalize().map_err(|error| cannot_write(base, &error))?;
    let real = match folder.strip_prefix(base) {
        Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
        _ => real,
    };
    let named = shown(&real);
    if real.as_os_str().as_bytes().iter().any(|byte| SPECIAL.contains(byte)) {
        let cause = format!("{named}: {PRELOAD} cannot hold a path with a space, a colon or a $");
        return Err(Refusal::NoPlace(Failure::own(cause).next(way_out())));
    }
    match real.symlink_metadata() {
        Err(_) => make(&real).map_err(|error| cannot_write(&real, &error))?,
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => {
            let cause = format!("{named}: not a folder of its own (a link or a file)");
            let next = format!("move it away, or: {}", way_out());
            return Err(Refusal::Unsafe(Failure::own(cause).next(next)));
        }
    }
    for ancestor in real.ancestors() {
        let metadata =
            ancestor.symlink_metadata().map_err(|error| cannot_write(ancestor, &error))?;
        let place = if ancestor == real { Folder::Library } else { Folder::Above };
        if let Some(cause) = danger(&metadata, place) {
            let above = shown(ancestor);
            let cause = format!("{above}: {cause}, so the preload library is not safe there");
            return Err(Refusal::Unsafe(Failure::own(cause).next(way_out())));
        }
    }
    Ok(real)
}

/// Which folder is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Folder {
    /// The one that holds the library: nobody else may make names in it.
    Library,
    /// One above it: nobody else may rename or remove what leads to the library.
    Above,
}

/// Who else could replace the library by what they may do in this folder.
fn danger(metadata: &Metadata, place: Folder) -> Option<&'static str> {
    let mode = metadata.mode();
    let is_sticky_above = place == Folder::Above && mode & 0o1000 != 0;
    // A home folder is often writable to its user's own group.
    let is_own_group_above =
        place == Folder::Above && metadata.gid() == rustix::process::getegid().as_raw();
    if !own_folder::is_trusted(metadata) {
        Some("it belongs to someone else")
    } else if mode & 0o002 != 0 && !is_sticky_above {
        Some("everyone can write there")
    } else if mode & 0o020 != 0 && !is_sticky_above && !is_own_group_above {
        Some("its group can write there")
    } else {
        None
    }
}

/// Why what lies at the library's place cannot be loaded.
enum Unusable {
    Missing,
    Unreadable(std::io::Error),
    NotAPlainFile,
    SomeoneElses,
    WritableByOthers,
    OtherContent,
    NotExecutable,
}

impl Unusable {
    fn refusal(&self, library: &Path) -> Refusal {
        let shown = shown(library);
        let cause = match self {
            Unusable::Missing => "it has vanished".to_string(),
            Unusable::Unreadable(error) => format!("it cannot be read: {error}"),
            Unusable::NotAPlainFile => "it is not a plain file".to_string(),
            Unusable::SomeoneElses => "it belongs to someone else".to_string(),
            Unusable::WritableByOthers => "others can write to it".to_string(),
            Unusable::OtherContent => "its content is not what was written there".to_string(),
            Unusable::NotExecutable => {
                let cause = "the file system is mounted noexec, so nothing can be loaded from it";
                let failure = Failure::own(format!("{shown}: {cause}")).next(way_out());
                return Refusal::NoPlace(failure);
            }
        };
        let failure = Failure::own(format!("{shown}: the preload library is not used: {cause}"))
            .next(format!("try: rm -f {}, or: {}", quoted(library), way_out()));
        match self {
            Unusable::Missing | Unusable::Unreadable(_) => Refusal::NoPlace(failure),
            _ => Refusal::Unsafe(failure),
        }
    }
}

/// Opens the file without following a link, and looks only at what it opened.
fn open_verified(library: &Path) -> Result<(File, Metadata), Unusable> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::open(library, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Err(Unusable::Missing),
        Err(rustix::io::Errno::LOOP) => return Err(Unusable::NotAPlainFile),
        Err(error) => return Err(Unusable::Unreadable(error.into())),
    };
    let metadata = file.metadata().map_err(Unusable::Unreadable)?;
    if !metadata.is_file() {
        return Err(Unusable::NotAPlainFile);
    }
    if !own_folder::is_trusted(&metadata) {
        return Err(Unusable::SomeoneElses);
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(Unusable::WritableByOthers);
    }
    let mount = fstatvfs(&file).map_err(|error| Unusable::Unreadable(error.into()))?;
    if mount.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(Unusable::NotExecutable);
    }
    Ok((file, metadata))
}

fn verify(library: &Path) -> Result<(), Unusable> {
    let (file, metadata) = open_verified(library)?;
    if metadata.len() != LIBRARY.len() as u64 {
        return Err(Unusable::OtherContent);
    }
    if !seen::is_noted(HASH, &metadata) {
        compare(file)?;
        seen::note(HASH, &metadata);
    }
    Ok(())
}

/// In pieces: memory for the whole of it would cost more than the comparison. Not on the stack, which may have room for
/// less (`ulimit -s 64`).
fn compare(mut file: File) -> Result<(), Unusable> {
    let mut piece = vec![0; 64 << 10];
    for expected in LIBRARY.chunks(piece.len()) {
        let read = &mut piece[..expected.len()];
        file.read_exact(read).map_err(Unusable::Unreadable)?;
        if read != expected {
            return Err(Unusable::OtherContent);
        }
    }
    Ok(())
}

/// A package's library is not compared: it was built from the same source, not by the same build.
fn check_packaged(library: PathBuf) -> Result<PathBuf, Refusal> {
    match open_verified(&library) {
        Ok(_) => Ok(library),
        Err(unusable) => Err(unusable.refusal(&library)),
    }
}

fn write(folder: &Path, library: &Path) -> std::io::Result<()> {
    match whole(folder)?.persist_noclobber(library) {
        Ok(_) => Ok(()),
        // Another `run` was faster; the caller verifies what it wrote.
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.error),
    }
}

/// A process that has loaded the old one keeps it.
fn replace(folder: &Path, library: &Path) -> std::io::Result<()> {
    whole(folder)?.persist(library)?;
    Ok(())
}

/// All of the library, under another name.
fn whole(folder: &Path) -> std::io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix(".libsweetspot-").tempfile_in(folder)?;
    with_size_errors(|| file.write_all(LIBRARY))?;
    fchmod(&file, Mode::from_raw_mode(FILE_MODE))?;
    // After a power failure an empty file under the right name would need a hand to remove it.
    file.as_file().sync_data()?;
    Ok(file)
}

fn cannot_write(folder: &Path, error: &std::io::Error) -> Refusal {
    let cause = format!("{}: the preload library cannot be kept there: {error}", shown(folder));
    Refusal::NoPlace(Failure::own(cause).next(way_out()))
}

fn way_out() -> String {
    format!("name a folder of your own for it: {CACHE}=DIR sweetspot run ...")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains() {
        let check = |others: Option<&str>, expected: &str| {
            let all = chain(OsStr::new("/c/libsweetspot-1.so"), others.map(OsStr::new));
            assert_eq!(all, expected, "{others:?}");
        };
        check(None, "/c/libsweetspot-1.so");
        check(Some(""), "/c/libsweetspot-1.so");
        check(Some("a.so"), "/c/libsweetspot-1.so:a.so");
        check(Some("a.so:b.so"), "/c/libsweetspot-1.so:a.so:b.so");
        check(Some("a.so b.so"), "/c/libsweetspot-1.so a.so b.so");
        check(Some("/c/libsweetspot-1.so:a.so"), "/c/libsweetspot-1.so:a.so");
        check(Some("a.so:/c/libsweetspot-1.so"), "/c/libsweetspot-1.so:a.so");
        check(Some("/c/libsweetspot-1.so"), "/c/libsweetspot-1.so");
        check(Some("/d/libsweetspot-0.so:a.so"), "/c/libsweetspot-1.so:a.so");
        check(Some("/usr/lib/libsweetspot.so a.so"), "/c/libsweetspot-1.so a.so");
        check(Some(" a.so "), "/c/libsweetspot-1.so a.so");
    }
}

//! Enters new namespaces and lays an overlay over everything that could be written.
//!
//! A folder below which something is mounted cannot have an overlay. If the user may write there (a
//! `/tmp` in which somebody has mounted something) a *substitute* takes its place: a new folder in
//! which every name of the old one is there, the folders with their overlays, the files to be read
//! only. Where that would be too many names, and for the root folder, the folder stays closed.
//!
//! Every folder is opened before the first mount, because a mount hides what lies below it, and in the
//! new namespace, because the kernel lays no overlay with folders of another one.

mod apart;
mod closed;
mod top;

use self::closed::{
    close, close_the_kernel, close_what_is_not_entered, close_whole, mounted_here, mounts_here,
};
use crate::access::may;
use crate::arguments::Step;
use crate::mounts::{self, OVERLAYS_MAX, Plan};
use crate::scratch::remove_tree;
use crate::shown::shown;
use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_bind, mount_bind_recursive};
use serde::{Deserialize, Serialize};
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use sweetspot_guard::notes::folders;
use top::{Top, TopKind};

/// Where shared memory is.
pub const SHARED_MEMORY: &str = "/dev/shm";
/// Where devices are.
const DEVICES: &str = "/dev";
/// Names there behind which nothing is kept: what is written is gone, is shown, or is computed with.
const HARMLESS_DEVICES: [&str; 18] = [
    "null",
    "zero",
    "full",
    "random",
    "urandom",
    "tty",
    "console",
    "ptmx",
    "pts",
    "shm",
    "fd",
    "stdin",
    "stdout",
    "stderr",
    "log",
    "dri",
    "kfd",
    "nvidiactl",
];
/// Stands in the sandbox where the folder of the run stands outside: for the summary of `run`.
pub const INSIDE: &str = "inside";
/// So many names of substituted folders are shown. Each is a mount; twice as many take four times as long.
const KEPT_NAMES_MAX: usize = 2_000;

/// What was laid, as the parent must know it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Laid {
    /// The folders under an overlay, in the order of the numbered upper folders, as bytes.
    folders: Vec<Vec<u8>>,
    /// Names that were put into substitutes: nobody's changes.
    put: Vec<Vec<u8>>,
    /// Folders whose direct files cannot be written.
    closed: Vec<Vec<u8>>,
}

impl Laid {
    /// The folders under an overlay.
    pub fn folders(&self) -> impl Iterator<Item = PathBuf> {
        paths(&self.folders)
    }

    /// Names that are no changes of the program.
    pub fn put(&self) -> impl Iterator<Item = PathBuf> {
        paths(&self.put)
    }

    /// Whether files directly in this folder cannot be written.
    pub fn is_closed(&self, folder: &Path) -> bool {
        paths(&self.closed).any(|closed| closed == folder)
    }
}

fn paths(all: &[Vec<u8>]) -> impl Iterator<Item = PathBuf> {
    all.iter().map(|bytes| OsString::from_vec(bytes.clone()).into())
}

/// Where what is written to a numbered folder lands.
pub fn upper_folder(run: &Path, number: usize) -> PathBuf {
    run.join("upper").join(number.to_string())
}

/// "cannot do this: reason"
pub fn said(operation: &str, error: impl Into<std::io::Error>) -> String {
    format!("cannot {operation}: {}", error.into())
}

/// Namespaces, overlays, substitutes, and back into the folder in which it was started.
///
/// # Errors
/// Where the kernel refuses something.
pub fn enter(arguments: &Step, notes: &[PathBuf]) -> Result<Laid, String> {
    let here = std::env::current_dir().map_err(|error| said("find the current folder", error))?;
    // Looked at from outside: in a user namespace all owners but one look alike.
    let outside = tops(&plan_here()?, &arguments.top);
    let memory = Top::look(Path::new(SHARED_MEMORY));
    apart::enter()?;
    close_the_kernel()?;
    // Planned again inside, where nobody else mounts or unmounts anything any more.
    let mounted = mounted_here()?;
    let plan = plan_here()?;
    let known = |top: Top| match outside.iter().find(|other| other.folder == top.folder) {
        Some(known) => known.clone().with_kind(top.kind),
        None => top,
    };
    let tops: Vec<Top> = tops(&plan, &arguments.top).into_iter().map(known).collect();
    let run = mount_of_its_own(&arguments.folder)?;
    let shared = arguments.shared_folder.as_deref().map(mount_of_its_own).transpose()?;
    let opened = opened(&tops)?;
    let devices = Kept::devices()?;
    plan.closed.iter().try_for_each(close)?;
    close_what_is_not_entered(&plan)?;

    let mut laid = Laid::default();
    for (top, below) in tops.iter().zip(&opened) {
        let place = TopFolders { run: path_of(&run), number: laid.folders.len() };
        let is_laid = match below {
            Some(Below::Overlay(lower)) => place.lay_or_close(top, lower, &mounted, &here)?,
            Some(Below::Substitute(kept)) => {
                laid.put.extend(place.lay_substitute(top, kept)?);
                true
            }
            None => false,
        };
        let of_its_kind = if is_laid { &mut laid.folders } else { &mut laid.closed };
        of_its_kind.push(bytes_of(&top.folder));
    }
    if let Some((top, kept)) = devices {
        let place = TopFolders { run: path_of(&run), number: laid.folders.len() };
        laid.put.extend(place.lay_substitute(&top, &kept)?);
        laid.folders.push(DEVICES.into());
    }
    if let (Some(shared), Ok(memory)) = (shared, memory) {
        // It begins empty: what lies there belongs to processes outside.
        let place = TopFolders { run: path_of(&shared), number: laid.folders.len() };
        place.lay_substitute(&memory, &Kept { folder: shared, names: Vec::new() })?;
        laid.folders.push(SHARED_MEMORY.into());
    }
    show_inside(&path_of(&run), &arguments.folder)?;
    bind_notes(&path_of(&run), notes)?;
    std::env::set_current_dir(&here).map_err(|error| said("return to the folder", error))?;
    laid.closed.push(b"/".to_vec());
    Ok(laid)
}

/// What lies below each of them, opened before anything is mounted over it.
fn opened(tops: &[Top]) -> Result<Vec<Option<Below>>, String> {
    let mut laid: Vec<&Path> = tops.iter().map(|top| top.folder.as_path()).collect();
    let mut room = KEPT_NAMES_MAX;
    let mut opened = Vec::with_capacity(tops.len());
    // The innermost first: what gets no substitute of its own is shown by the one around it as it is.
    for top in tops.iter().rev() {
        let below = match top.kind {
            // It may have gone meanwhile.
            TopKind::Overlay => open_path(&top.folder).ok().map(Below::Overlay),
            TopKind::Substitute => Kept::open(&top.folder, &laid, &mut room).map(Below::Substitute),
        };
        if below.is_none() {
            laid.retain(|folder| *folder != top.folder);
        }
        opened.push(below);
    }
    opened.reverse();
    Ok(opened)
}

/// Puts the folder for what `run` says where the folder of the run is outside.
fn show_inside(run: &Path, folder: &Path) -> Result<(), String> {
    let failed = |error| said("show the folder of the run", error);
    if !folder.exists() {
        // It lies in shared memory, which begins empty. There its name is no change of the program's.
        fs::create_dir_all(folder).map_err(failed)?;
    }
    mount_bind(run.join(INSIDE), folder).map_err(|errno| failed(errno.into()))
}

/// Gives the run folders of its own for the notes of guards: they are nobody's change, and in an overlay
/// they would take long.
fn bind_notes(run: &Path, notes: &[PathBuf]) -> Result<(), String> {
    for (number, notes) in folders(notes).filter(|notes| notes.is_dir()).enumerate() {
        let own = run.join("notes").join(number.to_string());
        let failed = |error| said("prepare the folder of notes", error);
        fs::create_dir_all(&own).map_err(failed)?;
        fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).map_err(failed)?;
        mount_bind(&own, &notes).map_err(|errno| failed(errno.into()))?;
    }
    Ok(())
}

fn plan_here() -> Result<Plan, String> {
    let plan = mounts::plan(&mounts_here()?, folders_in);
    if plan.overlays.len() > OVERLAYS_MAX {
        return Err(format!("{} folders would need an overlay each", plan.overlays.len()));
    }
    Ok(plan)
}

/// What gets an overlay or a substitute, each folder before those below it.
fn tops(plan: &Plan, others: &[PathBuf]) -> Vec<Top> {
    let is_hidden = |folder: &&PathBuf| {
        folder.ancestors().skip(1).any(|above| plan.overlays.iter().any(|other| other == above))
    };
    let overlays = plan.overlays.iter().chain(others.iter().filter(is_hidden));
    // Nobody can write what this user cannot even enter; nor what has gone meanwhile.
    let mut tops: Vec<Top> = overlays
        .filter(|folder| may(folder, Access::EXEC_OK))
        .filter_map(|folder| Top::look(folder).ok())
        .collect();
    let writable = plan.uncovered.iter().filter(|folder| {
        folder.as_path() != Path::new("/") && may(folder, Access::WRITE_OK | Access::EXEC_OK)
    });
    let substitutes = writable.filter_map(|folder| Top::look(folder).ok());
    tops.extend(substitutes.map(|top| top.with_kind(TopKind::Substitute)));
    tops.sort_by(|left, right| left.folder.cmp(&right.folder));
    tops
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// Opens a folder as a mount of its own, which stays writable when what is around it is closed.
fn mount_of_its_own(folder: &Path) -> Result<OwnedFd, String> {
    mount_bind(folder, folder).map_err(|errno| said(&format!("mount {}", shown(folder)), errno))?;
    open_path(folder)
}

/// What must be opened before the first mount.
enum Below {
    Overlay(OwnedFd),
    Substitute(Kept),
}

/// What a substitute shows as it is.
struct Kept {
    /// The folder under the substitute. Its names are found through it: whatever is mounted meanwhile
    /// is mounted over what is seen from outside.
    folder: OwnedFd,
    names: Vec<(OsString, What)>,
}

enum What {
    /// A place for what gets an overlay or a substitute itself.
    Place,
    Folder,
    File,
    Link(PathBuf),
}

impl Kept {
    /// All names in a folder; `None` where they are too many, or where it has gone.
    fn open(folder: &Path, laid: &[&Path], room: &mut usize) -> Option<Kept> {
        let mut names = Vec::new();
        let mut left = *room;
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            let is_laid = laid.contains(&path.as_path());
            let what = if is_laid { Some(What::Place) } else { What::of(&path, kind) };
            let Some(what) = what else { continue };
            if let What::Folder | What::File = what {
                left = left.checked_sub(1)?;
            }
            names.push((entry.file_name(), what));
        }
        *room = left;
        Some(Kept { folder: open_path(folder).ok()?, names })
    }

    /// The devices of a run: those that hold nothing. A disk, or whatever else keeps what is written to
    /// it, is not there. `None`: there is no such folder.
    fn devices() -> Result<Option<(Top, Kept)>, String> {
        let folder = Path::new(DEVICES);
        let Ok(top) = Top::look(folder) else { return Ok(None) };
        // A plain folder would be closed with the root, and what it holds would be no device any more.
        // With the mounts on it: a user namespace does not let them be left out.
        mount_bind_recursive(folder, folder)
            .map_err(|errno| said(&format!("mount {DEVICES}"), errno))?;
        let found = HARMLESS_DEVICES.iter().filter_map(|name| {
            let path = folder.join(name);
            let kind = fs::symlink_metadata(&path).ok()?.file_type();
            Some((name.into(), What::of(&path, kind)?))
        });
        Ok(Some((top, Kept { names: found.collect(), folder: open_path(folder)? })))
    }

    /// Puts a name into the folder `upper`. False: what it names has gone meanwhile.
    fn put(&self, (name, what): &(OsString, What), upper: &Path) -> std::io::Result<bool> {
        let at = upper.join(name);
        match what {
            What::Place => fs::create_dir(at)?,
            What::Link(target) => symlink(target, at)?,
            What::Folder => {
                fs::create_dir(&at)?;
                if !self.is_shown(name, &at)? {
                    return fs::remove_dir(&at).map(|()| false);
                }
            }
            What::File => {
                fs::File::create(&at)?;
                if !self.is_shown(name, &at)? {
                    return fs::remove_file(&at).map(|()| false);
                }
            }
        }
        Ok(true)
    }

    /// Shows a file or folder at another place, unless it has gone meanwhile, or is another one.
    fn is_shown(&self, name: &OsStr, at: &Path) -> std::io::Result<bool> {
        // By descriptor, as a name is followed where it has become a link.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(fd) = rustix::fs::openat(&self.folder, name, flags, Mode::empty()) else {
            return Ok(false);
        };
        match mount_bind_recursive(path_of(&fd), at) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl What {
    /// `None`: a link that has gone meanwhile.
    fn of(path: &Path, kind: fs::FileType) -> Option<What> {
        let what = if kind.is_symlink() {
            What::Link(fs::read_link(path).ok()?)
        } else if kind.is_dir() {
            What::Folder
        } else {
            What::File
        };
        Some(what)
    }
}

/// Others remove files while we look at them: what is gone needs nothing.
fn if_gone(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Where one top is laid: below the folder of the run, seen through a descriptor, by a number.
struct TopFolders {
    run: PathBuf,
    number: usize,
}

impl TopFolders {
    fn upper(&self, top: &Top) -> Result<PathBuf, String> {
        let upper = upper_folder(&self.run, self.number);
        let failed = |error| said(&format!("prepare {}", shown(&top.folder)), error);
        fs::create_dir_all(&upper).map_err(failed)?;
        top.give_looks_to(&upper).map_err(failed)?;
        Ok(upper)
    }

    /// Whether an overlay lies there; else it can only be read: not each file system can lie under one (vfat).
    fn lay_or_close(
        &self,
        top: &Top,
        lower: &OwnedFd,
        mounted: &[PathBuf],
        here: &Path,
    ) -> Result<bool, String> {
        let Err(refused) = self.lay_overlay(top, lower) else { return Ok(true) };
        if !mounted.contains(&top.folder) {
            return Err(refused);
        }
        let is_hidden = !mounted_here()?.contains(&top.folder);
        if is_hidden && mount_bind_recursive(path_of(lower), &top.folder).is_err() {
            // Anyone who removes a mount point outside unmounts it here, too. What is seen there now lies in the
            // overlay or substitute above it.
            return Ok(true);
        }
        if here.starts_with(&top.folder) {
            return Err(refused);
        }
        // The next one has the number, and folders of its own.
        for folder in [upper_folder(&self.run, self.number), self.work_folder()] {
            // Where that fails, so does the next overlay.
            let _ = remove_tree(&folder);
        }
        close_whole(&top.folder).map(|()| false)
    }

    fn work_folder(&self) -> PathBuf {
        self.run.join("work").join(self.number.to_string())
    }

    fn lay_overlay(&self, top: &Top, lower: &OwnedFd) -> Result<(), String> {
        let failed = |error: std::io::Error| {
            // An option that overlayfs does not know is an invalid argument.
            let is_unknown = error.kind() == std::io::ErrorKind::InvalidInput && !knows_userxattr();
            let hint =
                if is_unknown { ": userxattr of overlayfs came with Linux 5.11" } else { "" };
            said(&format!("lay an overlay over {}", shown(&top.folder)), error) + hint
        };
        let upper = self.upper(top)?;
        let work = self.work_folder();
        fs::create_dir_all(&work).map_err(failed)?;
        // By descriptor: a path may hold commas and colons, which mean something in options.
        // Volatile: else the whole disk is synchronised at the end of each overlay.
        let options = format!(
            "lowerdir={},upperdir={},workdir={},userxattr,volatile",
            path_of(lower).display(),
            upper.display(),
            work.display()
        );
        let options = CString::new(options).map_err(|error| error.to_string())?;
        // A device that somebody has made in a folder is one all the same.
        mount("sweetspot", &top.folder, "overlay", MountFlags::NODEV, options.as_c_str())
            .map_err(Into::into)
            .or_else(if_gone)
            .map_err(failed)
    }

    /// Returns the names that it shows.
    fn lay_substitute(&self, top: &Top, kept: &Kept) -> Result<Vec<Vec<u8>>, String> {
        let upper = self.upper(top)?;
        let failed = |error| said(&format!("substitute {}", shown(&top.folder)), error);
        let mut put = Vec::new();
        for name in &kept.names {
            if kept.put(name, &upper).map_err(failed)? {
                put.push(bytes_of(&top.folder.join(&name.0)));
            }
        }
        // Recursive: what was put into it comes with it. Of a folder that went before the one around it
        // was looked at there is no place.
        let laid = mount_bind_recursive(&upper, &top.folder).map_err(Into::into);
        laid.or_else(if_gone).map_err(failed)?;
        Ok(put)
    }
}

/// Whether this kernel's overlays can mark what was removed without rights of root's.
fn knows_userxattr() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(5), Some(11))
}

fn open_path(path: &Path) -> Result<OwnedFd, String> {
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| said(&format!("open {}", shown(path)), errno))
}

fn path_of(fd: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into()
}

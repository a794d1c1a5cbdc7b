//! Writing what a dead process left pending, and saving it beside where that fails.
//!
//! Used by the guard (which holds a handle) and by `recover` (which must prove first that the file is
//! still the one it was). Writing the same bytes to the same place again does no harm, so anyone who
//! is interrupted here starts again. What is appended is looked for first ([`arrived`]).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use sweetspot_core::ledger::{Entry, FOLDER, PLACE_BASE, PLACE_END, PLACE_OFFSET};
use sweetspot_core::stamps::{Apart, Stamped};
use sweetspot_core::unwritten::{FLUSH_BEGUN, INTERRUPTED_MAX};

use crate::own_folder;
use crate::sys::{self, Status};

/// Bytes that are copied at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Names that are tried for a saved piece before giving up.
const SAVE_NAMES_MAX: u32 = 100;
/// The longest name in a folder, in bytes (`NAME_MAX` of Linux).
const NAME_BYTES_MAX: usize = 255;

/// Pending bytes in a ledger.
pub(crate) struct Extent<'a> {
    pub ledger: &'a File,
    /// From the start of the ledger.
    pub at: u64,
    pub bytes: u64,
}

impl<'a> Extent<'a> {
    /// It without so many bytes of its beginning.
    pub(crate) fn from(&self, bytes: u64) -> Extent<'a> {
        let bytes = bytes.min(self.bytes);
        Extent { ledger: self.ledger, at: self.at + bytes, bytes: self.bytes - bytes }
    }

    /// Writes what is not `done` of it to its place in `target`, where it begins at `base`.
    pub(crate) fn copy_to(&self, target: &File, base: u64, done: &mut u64) -> io::Result<()> {
        let mut buffer = vec![0; PIECE_BYTES.min(self.bytes as usize)];
        while *done < self.bytes {
            let piece = &mut buffer[..PIECE_BYTES.min((self.bytes - *done) as usize)];
            self.ledger.read_exact_at(piece, self.at + *done)?;
            let at = base.checked_add(*done).filter(|at| i64::try_from(*at).is_ok());
            let at = at.ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))?;
            let mut written = 0;
            let all = write_all(piece, &mut written, |left, from| target.write_at(left, at + from));
            *done += written;
            all?;
        }
        Ok(())
    }

    /// Writes all of it behind what `target` holds, in one piece, so that nobody else's bytes come in
    /// between. `done`: how much of it is there then, also where not all is.
    pub(crate) fn append_to(&self, mut target: &File, done: &mut u64) -> io::Result<()> {
        let mut buffer = vec![0; self.bytes as usize];
        self.ledger.read_exact_at(&mut buffer, self.at)?;
        write_all(&buffer, done, |left, _| target.write(left))
    }

    /// Whether `target` holds exactly the first `bytes` of it at `base`.
    pub(crate) fn starts_with(&self, target: &File, base: u64, bytes: u64) -> io::Result<bool> {
        let size = PIECE_BYTES.min(bytes as usize);
        let (mut pending, mut found) = (vec![0; size], vec![0; size]);
        let mut done = 0;
        while done < bytes {
            let len = size.min((bytes - done) as usize);
            self.ledger.read_exact_at(&mut pending[..len], self.at + done)?;
            target.read_exact_at(&mut found[..len], base + done)?;
            if pending[..len] != found[..len] {
                return Ok(false);
            }
            done += len as u64;
        }
        Ok(true)
    }
}

/// Writes until all of `bytes` are `done`. `write` is given what is left, and where in them that begins.
fn write_all(
    bytes: &[u8],
    done: &mut u64,
    mut write: impl FnMut(&[u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let mut interrupted = 0;
    while let left @ [_, ..] = &bytes[*done as usize..] {
        match write(left, *done) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => *done += written as u64,
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {
                interrupted += 1;
                if interrupted > INTERRUPTED_MAX {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// How many bytes of the beginning of `pending` a write brought into a file, of which the process
/// died: `range` is what came into the file since just before. Others may have written there too.
///
/// All of them, wherever they are; else the longest beginning that ends where the kernel stops in
/// the middle of a write: at the end of a page, or of what is there. Where others have written, too, a short one
/// is rather theirs: records begin alike, as lines of a log do, and end as others begin.
pub(crate) fn arrived(pending: &Extent<'_>, file: &File, range: Range<u64>) -> io::Result<u64> {
    if pending.bytes == 0 {
        return Ok(0);
    }
    let mut wanted = vec![0; pending.bytes as usize];
    pending.ledger.read_exact_at(&mut wanted, pending.at)?;
    let borders = borders(&wanted);
    let mut buffer = vec![0; PIECE_BYTES];
    let (mut at, mut matched, mut longest) = (range.start, 0, 0);
    while at < range.end {
        let piece = &mut buffer[..PIECE_BYTES.min((range.end - at) as usize)];
        file.read_exact_at(piece, at)?;
        for byte in piece.iter() {
            while matched > 0 && wanted[matched] != *byte {
                matched = borders[matched - 1] as usize;
            }
            matched += usize::from(wanted[matched] == *byte);
            at += 1;
            if matched == wanted.len() {
                return Ok(pending.bytes);
            }
            let ends = at == range.end || at.is_multiple_of(PAGE_BYTES);
            let is_all = range.start + matched as u64 == range.end;
            if ends && (is_all || matched >= LIKENESS_BYTES) {
                longest = longest.max(matched);
            }
        }
    }
    Ok(longest as u64)
}

/// The kernel copies what is written page by page; larger pages end at these places too.
const PAGE_BYTES: u64 = 4096;

/// Records of two processes are alike in no more than that.
const LIKENESS_BYTES: usize = 512;

/// Of each beginning of `text`, the longest shorter beginning that it ends with (Knuth, Morris,
/// Pratt: the search then looks at each byte once).
fn borders(text: &[u8]) -> Vec<u32> {
    let mut borders = vec![0u32; text.len()];
    let mut matched = 0usize;
    for index in 1..text.len() {
        while matched > 0 && text[matched] != text[index] {
            matched = borders[matched - 1] as usize;
        }
        matched += usize::from(text[matched] == text[index]);
        borders[index] = matched as u32;
    }
    borders
}

/// What is left of the pending bytes of an entry, and where in the file it is known, or was
/// expected, to belong.
pub(crate) fn left<'a>(entry: &Entry, whole: Extent<'a>) -> (u64, Extent<'a>) {
    let base = match entry.place.load(Relaxed) {
        PLACE_BASE => return (entry.base.load(Relaxed), whole),
        _ if entry.flushing.load(Relaxed) == FLUSH_BEGUN => entry.before.load(Relaxed),
        _ if appends(entry) => entry.size.load(Relaxed),
        // Where the attempt stopped: who shares the offset may have moved it since the first byte came.
        _ if entry.was_tried() => entry.before.load(Relaxed),
        _ => entry.base.load(Relaxed) + entry.arrived.load(Relaxed),
    };
    (base, whole.from(entry.arrived.load(Relaxed)))
}

/// Whether what is pending goes to where the file ends by then.
pub(crate) fn appends(entry: &Entry) -> bool {
    match entry.place.load(Relaxed) {
        PLACE_OFFSET => entry.open_flags.load(Relaxed) as i32 & libc::O_APPEND != 0,
        place => place == PLACE_END,
    }
}

/// Gives a file that was just written out a time by which it is told from those that follow, unless somebody else
/// has written since. `before` is the file as it was. Returns it as it is then; `None` where the file system does not
/// describe it.
pub(crate) fn tell_apart(
    entry: &Entry,
    file: impl AsFd + Copy,
    before: Option<Status>,
    apart: &mut Apart,
) -> Option<Status> {
    let before = before?;
    let left = sys::status(file).unwrap_or(before);
    let written_ns = entry.written_ns.load(Relaxed);
    let (before_ns, modified_ns) = (before.mtime_ns, left.mtime_ns);
    let stamped = Stamped { written_ns, before_ns, modified_ns };
    // What somebody else has written since has its own time.
    if let Some(wanted_ns) = apart.time_of(&stamped, sys::coarse_clock_ns())
        && sys::status(file).is_ok_and(|status| status == left)
    {
        // Only the owner of the file may do it.
        let _ = sys::set_modified(file, wanted_ns);
        return Some(sys::status(file).unwrap_or(left));
    }
    Some(left)
}

/// Writes the extent to `target` and closes that; errors that only a close tells count.
pub(crate) fn write_and_close(extent: &Extent<'_>, target: File, base: u64) -> io::Result<()> {
    extent.copy_to(&target, base, &mut 0)?;
    sys::close(target)
}

/// In the name of what was saved, between the name of its file and the process and offset that it is of.
const SAVED: &str = ".sweetspot-saved-";

/// A piece that is to be saved beside.
pub(crate) struct Saving<'a> {
    pub extent: Extent<'a>,
    /// The file it belongs to, where a path is known.
    pub original: Option<&'a Path>,
    pub pid: u32,
    /// Where in that file it belongs.
    pub base: u64,
    /// It belongs to the end of that file, which was there.
    pub appends: bool,
}

/// What stands before the offset in the name of a piece that belongs to a file's end.
pub const APPENDED: &str = "-appended-at-";

/// Saves a piece as `FILE.sweetspot-saved-PID-at-OFFSET`, or `-appended-at-`: beside the file, or else in the
/// user's state folder, or else in `last_folder`. Nothing that exists is overwritten, and no link is followed
/// to where the file was: the path is the kernel's own, and had none. The path tells how to
/// put the bytes back. Of a very long name only the beginning stands there.
pub(crate) fn save_beside(saving: &Saving<'_>, last_folder: &Path) -> io::Result<PathBuf> {
    let original = saving.original.filter(|path| path.is_absolute());
    let name = original.and_then(Path::file_name).unwrap_or("pending".as_ref());
    let mut result = Err(io::Error::from(io::ErrorKind::NotFound));
    if let Some(folder) = original.and_then(Path::parent) {
        let opened = sys::open_folder_without_links(folder);
        result = opened.and_then(|at| save_in(saving, at.as_fd(), folder, name));
    }
    if let Some(folder) = state_folders().first() {
        result = result.or_else(|_| {
            make_own(folder)?;
            save_in(saving, open_folder(folder)?.as_fd(), folder, name)
        });
    }
    result.or_else(|_| save_in(saving, open_folder(last_folder)?.as_fd(), last_folder, name))
}

fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    sys::open(folder, libc::O_PATH | libc::O_DIRECTORY, 0)
}

/// Saves a piece in the folder opened as `at`, which is called `folder`.
fn save_in(
    saving: &Saving<'_>,
    at: BorrowedFd<'_>,
    folder: &Path,
    name: &OsStr,
) -> io::Result<PathBuf> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    for attempt in 0..SAVE_NAMES_MAX {
        let at_base = if saving.appends { APPENDED } else { "-at-" };
        let mut suffix = format!("{SAVED}{}{at_base}{}", saving.pid, saving.base);
        if attempt > 0 {
            suffix += &format!(".{attempt}");
        }
        let name = with_suffix(name, &suffix);
        match sys::open_at(at, &name, flags, 0o600) {
            Ok(file) => {
                let written = write_and_close(&saving.extent, file.into(), 0);
                if written.is_err() {
                    // Half a piece is worse than none: the next folder gets all of it.
                    let _ = sys::remove_at(at, &name);
                }
                return written.map(|()| folder.join(name));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// A name with something behind it, which stays whole: of a name that would become too long the end is
/// cut off, between two characters.
fn with_suffix(name: &OsStr, suffix: &str) -> OsString {
    let mut name = name.as_bytes();
    let room = NAME_BYTES_MAX.saturating_sub(suffix.len());
    if name.len() > room {
        let is_border = |at: &usize| name[*at] & 0xc0 != 0x80;
        // A name that is no UTF-8 need not have one.
        let border = (room.saturating_sub(3)..=room).rev().find(is_border);
        name = &name[..border.unwrap_or(room)];
    }
    OsString::from_vec([name, suffix.as_bytes()].concat())
}

/// The state folders of this user, the one to be used first: `$XDG_STATE_HOME/sweetspot`, root's own, and
/// `~/.local/state/sweetspot`. Root may have another user's variables (`sudo`), and other ones when it looks for what
/// was saved.
fn state_folders() -> Vec<PathBuf> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let named = absolute("XDG_STATE_HOME");
    let of_root = (sys::effective_uid() == 0).then(|| PathBuf::from("/var/lib"));
    let usual = absolute("HOME").map(|home| home.join(".local/state"));
    let usual = usual.filter(|usual| named.as_ref() != Some(usual));
    let states = [named, of_root, usual].into_iter().flatten();
    states.filter(|state| is_roots_way(state)).map(|state| state.join("sweetspot")).collect()
}

/// Whether everything that is there on the way to a folder is root's, if this is root: in another
/// user's folders a link could lead its bytes anywhere.
fn is_roots_way(folder: &Path) -> bool {
    let mut there = folder.ancestors().filter_map(|above| std::fs::symlink_metadata(above).ok());
    sys::effective_uid() != 0 || there.all(|above| above.uid() == 0)
}

/// What this user's was saved where it could not be saved beside its file: there, by name. A state folder is this
/// user's; what lies there may have another owner, as on NFS, where root is somebody else.
pub(crate) fn saved_apart() -> Vec<PathBuf> {
    let user = sys::effective_uid();
    let is_saved = |path: &PathBuf| {
        path.to_string_lossy().contains(SAVED)
            && std::fs::symlink_metadata(path).is_ok_and(|data| {
                data.is_file() && (data.uid() == user || !path.starts_with(FOLDER))
            })
    };
    let folders = state_folders().into_iter().chain([PathBuf::from(FOLDER)]);
    let entries = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let mut saved: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_saved).collect();
    saved.sort();
    saved
}

/// Makes a folder that is this user's, unless it is there.
fn make_own(folder: &Path) -> io::Result<()> {
    let refused = || Err(io::Error::from(io::ErrorKind::PermissionDenied));
    if !is_roots_way(folder) {
        return refused();
    }
    own_folder::make(folder, 0o700)?;
    match std::fs::symlink_metadata(folder)? {
        found if found.is_dir() && found.uid() == sys::effective_uid() => Ok(()),
        _ => refused(),
    }
}

/// The path at which the kernel last saw the file of a descriptor, if it is still there.
pub(crate) fn known_path(fd: impl std::os::fd::AsFd + Copy) -> Option<PathBuf> {
    let path = sys::own_path(fd).ok()?;
    let (there, here) = (sys::status_at(&path).ok()?, sys::status(fd).ok()?);
    ((there.device, there.inode) == (here.device, here.inode)).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `arrived` says of `pending` in a file that holds `before`, and then `since`.
    fn found(pending: &[u8], before: &[u8], since: &[u8]) -> u64 {
        let file = |bytes: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            file
        };
        let ledger = file(pending);
        let target = file(&[before, since].concat());
        let extent = Extent { ledger: &ledger, at: 0, bytes: pending.len() as u64 };
        let range = before.len() as u64..(before.len() + since.len()) as u64;
        arrived(&extent, &target, range).unwrap()
    }

    #[test]
    fn files_with_the_longest_names_are_saved_beside_too() {
        let folder = tempfile::tempdir().unwrap();
        let long = |last: &str| "ä".repeat(127) + last;
        let mut saved = Vec::new();
        for (name, bytes) in [(long("1"), b"one"), (long("2"), b"two"), (long(""), b"six")] {
            let mut ledger = tempfile::tempfile().unwrap();
            ledger.write_all(bytes).unwrap();
            let original = folder.path().join(name);
            File::create(&original).unwrap();
            let extent = Extent { ledger: &ledger, at: 0, bytes: bytes.len() as u64 };
            let (pid, base) = (u32::MAX, i64::MAX as u64);
            let saving = Saving { extent, original: Some(&original), pid, base, appends: false };
            let path = save_beside(&saving, Path::new("/nowhere")).unwrap();
            assert_eq!(path.parent(), Some(folder.path()), "beside it");
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
            let name = path.file_name().unwrap().to_str().expect("cut between characters");
            assert!(name.contains(&format!(".sweetspot-saved-{pid}-at-{base}")), "{name}");
            saved.push(path);
        }
        saved.dedup();
        assert_eq!(saved.len(), 3);
    }

    #[test]
    fn root_saves_nothing_in_the_folders_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own/state/sweetspot");
        make_own(&own).unwrap();
        make_own(&own).unwrap();
        assert_eq!(own.metadata().unwrap().mode() & 0o777, 0o700);
        std::os::unix::fs::symlink(&own, folder.path().join("link")).unwrap();
        assert!(make_own(&folder.path().join("link")).is_err(), "a link is no folder");
        if sys::effective_uid() != 0 {
            return println!("skipped: only root can be two users");
        }
        let home = folder.path().join("home");
        std::fs::create_dir(&home).unwrap();
        std::os::unix::fs::symlink(&own, home.join("link")).unwrap();
        let give = |path: &Path| std::os::unix::fs::lchown(path, Some(54321), None).unwrap();
        [home.clone(), home.join("link")].iter().for_each(|path| give(path));
        for name in [".local/state/sweetspot", "link/sweetspot", "link"] {
            assert!(make_own(&home.join(name)).is_err(), "{name}");
        }
        assert!(!home.join(".local").exists() && !own.join("sweetspot").exists());
    }

    #[test]
    fn names_are_cut_only_where_they_must_be() {
        let check = |name: &[u8], kept: usize| {
            let found = with_suffix(OsStr::from_bytes(name), ".saved");
            assert_eq!(found.as_bytes(), [&name[..kept], b".saved"].concat());
        };
        check(b"", 0);
        check(&[b'x'; 249], 249);
        check(&[b'x'; 250], 249);
        check(&[&[b'x'; 248][..], "äx".as_bytes()].concat(), 248);
        check(&[&[b'x'; 246][..], "\u{10348}x".as_bytes()].concat(), 246);
        check(&[0x80; 255], 249);
    }

    #[test]
    fn what_arrived_of_an_append_is_found_among_what_others_appended() {
        let pending: Vec<u8> = (0..20_000u32).flat_map(|n| n.to_le_bytes()).collect();
        let before = vec![b'o'; 5000];
        // The first page ends here, counted from the start of the file.
        let page = 8192 - before.len();
        let others = vec![b'o'; page];
        let mixed = |parts: &[&[u8]]| parts.concat();
        for (since, expected, name) in [
            (mixed(&[]), 0, "nothing"),
            (mixed(&[&pending]), pending.len(), "all"),
            (mixed(&[&pending[..777]]), 777, "cut at the end of the file"),
            (mixed(&[b"other\n", &pending, b"other\n"]), pending.len(), "all, between others"),
            (mixed(&[&pending[..page], b"other\n"]), page, "cut at a page, others behind"),
            (mixed(&[&others[400..], &pending[..400], b"other\n"]), 0, "others' that begins alike"),
            (mixed(&[&others[600..], &pending[..600], b"other\n"]), 600, "cut, others around"),
            (mixed(&[b"other\n", &pending[..777]]), 777, "cut at the end, others before"),
            (mixed(&[b"other\n", &pending[..3]]), 0, "others' that ends as this begins"),
            (mixed(&[&pending[..3]]), 3, "cut at the end, and nothing else"),
            (mixed(&[&pending[..100], b"other\n"]), 0, "a likeness that no write could leave"),
        ] {
            assert_eq!(found(&pending, &before, &since), expected as u64, "{name}");
        }
        assert_eq!(found(b"", &before, b"other"), 0);
        // Bytes that repeat themselves.
        assert_eq!(found(&[b'x'; 9000], &before, &[b'x'; 9000]), 9000);
        assert_eq!(found(&[b'x'; 9000], &before, &[b'x'; 4321]), 4321);
        assert_eq!(found(b"aabaabaac", b"", b"zaabaabaabaac"), 9, "borders are followed");
    }
}

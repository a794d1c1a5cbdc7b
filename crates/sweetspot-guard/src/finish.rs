//! Writing what a dead process left pending, and saving it beside where that fails.
//!
//! Used by the guard (which holds a pin) and by `recover` (which must prove first that the file is
//! still the one it was). Writing the same bytes to the same place again does no harm, so whoever
//! is interrupted here starts again.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::sys;

/// Bytes that are copied at a time.
const PIECE_BYTES: usize = 1 << 20;
/// Names that are tried for a saved piece before giving up.
const SAVE_NAMES_MAX: u32 = 100;

/// Pending bytes in a ledger.
pub(crate) struct Extent<'a> {
    pub ledger: &'a File,
    /// From the start of the ledger.
    pub at: u64,
    pub bytes: u64,
}

impl Extent<'_> {
    /// Writes all of it at `base` of `target`.
    pub(crate) fn copy_to(&self, target: &File, base: u64) -> io::Result<()> {
        let mut buffer = vec![0; PIECE_BYTES.min(self.bytes as usize)];
        let mut done = 0;
        while done < self.bytes {
            let piece = &mut buffer[..PIECE_BYTES.min((self.bytes - done) as usize)];
            self.ledger.read_exact_at(piece, self.at + done)?;
            let at = base.checked_add(done).filter(|at| i64::try_from(*at).is_ok());
            let at = at.ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))?;
            target.write_all_at(piece, at)?;
            done += piece.len() as u64;
        }
        Ok(())
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

/// Writes the extent to `target` and closes that; errors that only a close tells count.
pub(crate) fn write_and_close(extent: &Extent<'_>, target: File, base: u64) -> io::Result<()> {
    extent.copy_to(&target, base)?;
    sys::close(target)
}

/// A piece that is to be saved beside.
pub(crate) struct Saving<'a> {
    pub extent: Extent<'a>,
    /// The file it belongs to, where a path is known.
    pub original: Option<&'a Path>,
    pub pid: u32,
    /// Where in that file it belongs.
    pub base: u64,
}

/// Saves a piece as `FILE.sweetspot-saved-PID-at-OFFSET`: beside the file, or else in the user's
/// state folder, or else in `last_folder`. Nothing that exists is overwritten. The path tells how to
/// put the bytes back: `dd if=SAVED of=FILE bs=1 seek=OFFSET conv=notrunc`.
pub(crate) fn save_beside(saving: &Saving<'_>, last_folder: &Path) -> io::Result<PathBuf> {
    let original = saving.original.filter(|path| path.is_absolute());
    let name = original.and_then(Path::file_name).unwrap_or("pending".as_ref());
    let folders = [
        original.and_then(Path::parent).map(Path::to_owned),
        state_folder(),
        Some(last_folder.to_owned()),
    ];
    let mut result = Err(io::Error::from(io::ErrorKind::NotFound));
    for folder in folders.into_iter().flatten() {
        result = save_in(saving, &folder, name.to_owned());
        if result.is_ok() {
            break;
        }
    }
    result
}

fn save_in(saving: &Saving<'_>, folder: &Path, mut name: OsString) -> io::Result<PathBuf> {
    name.push(format!(".sweetspot-saved-{}-at-{}", saving.pid, saving.base));
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    for attempt in 0..SAVE_NAMES_MAX {
        let mut name = name.clone();
        if attempt > 0 {
            name.push(format!(".{attempt}"));
        }
        let path = folder.join(name);
        match sys::open(&path, flags, 0o600) {
            Ok(file) => {
                let written = write_and_close(&saving.extent, file.into(), 0);
                if written.is_err() {
                    // Half a piece is worse than none: the next folder gets all of it.
                    let _ = std::fs::remove_file(&path);
                }
                return written.map(|()| path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// `$XDG_STATE_HOME/sweetspot`, or `~/.local/state/sweetspot`, made where it is missing.
fn state_folder() -> Option<PathBuf> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    let folder = state.join("sweetspot");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder)
}

/// The path at which the kernel last saw the file of a descriptor, if it is still there.
pub(crate) fn known_path(fd: impl std::os::fd::AsFd + Copy) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    let link = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
    let path = PathBuf::from(OsString::from_vec(
        std::fs::read_link(link).ok()?.into_os_string().into_vec(),
    ));
    let (there, here) = (sys::status_at(&path).ok()?, sys::status(fd).ok()?);
    ((there.device, there.inode) == (here.device, here.inode)).then_some(path)
}

//! Small files of this user's, kept from run to run, which nobody else can have written.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::sys;

/// What the file holds, as far as `bytes_max`; `None` where it is another user's, or its mode has one of the
/// bits `others`. In one call, as each start of a program makes it: what is cut must not be believed.
pub fn read(path: &Path, others: u32, bytes_max: usize) -> Option<String> {
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut file = File::from(sys::open(path, flags, 0).ok()?);
    let found = file.metadata().ok()?;
    if !found.is_file() || found.uid() != sys::effective_uid() || found.mode() & others != 0 {
        return None;
    }
    let mut bytes = vec![0; bytes_max];
    let len = file.read(&mut bytes).ok()?;
    bytes.truncate(len);
    String::from_utf8(bytes).ok()
}

/// Puts another file in its place, for this user alone: who reads finds the one or the other, whole.
///
/// # Errors
/// Where the folder takes no file.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{:016x}", sys::random()?));
    let new = Path::new(&new);
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    let mut file = File::from(sys::open(new, flags, 0o600)?);
    let written = file.write_all(text.as_bytes());
    written.and_then(|()| std::fs::rename(new, path)).inspect_err(|_| {
        let _ = std::fs::remove_file(new);
    })
}

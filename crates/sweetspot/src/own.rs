//! This program's own file, for those who start it again.
//!
//! While a session of many runs lasts, its name may come to lead to another file, or to none (an upgrade): what is
//! started then is still what runs here.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use sweetspot_report::failure::Failure;

/// For starts by this program itself, in its sandboxes too.
pub const FILE: &str = "/proc/self/exe";

/// For starts by others (a launcher), as long as this process lives: by its name, if that still leads to it.
///
/// # Errors
/// Where the system does not tell.
pub fn running() -> Result<PathBuf, Failure> {
    let name = name()?;
    let inode = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    Ok(match inode(&name) == inode(Path::new(FILE)) {
        true => name,
        false => format!("/proc/{}/exe", std::process::id()).into(),
    })
}

/// Its name, for what is started when this process is gone.
///
/// # Errors
/// Where the system does not tell.
pub fn name() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::own(format!("sweetspot cannot find itself: {error}")))
}

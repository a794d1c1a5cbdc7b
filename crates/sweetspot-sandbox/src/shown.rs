//! Names in what is said.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sweetspot_core::shown::Shown;

/// A name for people to read.
pub fn shown(path: &Path) -> Shown<'_> {
    Shown(path.as_os_str().as_bytes())
}

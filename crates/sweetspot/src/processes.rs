//! What most verbs know processes and files by.

use std::path::Path;
use sweetspot_report::failure::Failure;

/// Whether there is a `/proc`, by which processes and files are known.
pub fn has_processes() -> bool {
    Path::new("/proc/self/exe").exists()
}

/// What is said where there is none.
pub fn no_processes() -> Failure {
    Failure::own("there is no /proc here").next("as root: mount -t proc proc /proc")
}

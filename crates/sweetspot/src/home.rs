//! The user's own folders for what sweetspot keeps, where the XDG specification puts them.
//!
//! Not here: the folder for the library, which has to be safe besides (`preload`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use sweetspot_guard::own_folder;

/// What can be made again: the library, data and programs of `bench`.
pub fn cache() -> Option<PathBuf> {
    folder("XDG_CACHE_HOME", ".cache")
}

/// What `tune --machine` found out.
pub fn config() -> Option<PathBuf> {
    folder("XDG_CONFIG_HOME", ".config")
}

/// Where ledgers are noted: in the first that can be used. Root's is not where a user may have led its
/// `HOME` (`sudo`), and the same for its jobs, which have none. A variable may be another user's (`su`).
pub fn notes() -> Vec<PathBuf> {
    let root = rustix::process::geteuid().is_root().then(|| PathBuf::from("/var/lib/sweetspot"));
    let usual = home().map(|home| home.join(".local/state/sweetspot"));
    let usual = usual.filter(|usual| usual.is_absolute() && state().as_ref() != Some(usual));
    root.into_iter().chain(state()).chain(usual).collect()
}

/// Where what calls cost is kept, and the runs of `tune`: beside the notes. Nothing is written to a file because of
/// them, so a place of one's own that a variable names is the only one: what is known elsewhere is not asked for.
pub fn costs() -> Vec<PathBuf> {
    named_state()
        .filter(|folder| own_folder::is_over(folder))
        .map_or_else(notes, |folder| vec![folder])
}

/// Wherever something of both may lie.
pub fn states() -> Vec<PathBuf> {
    let named = named_state();
    let others = notes().into_iter().filter(|folder| Some(folder) != named.as_ref());
    named.iter().cloned().chain(others).collect()
}

fn named_state() -> Option<PathBuf> {
    named("XDG_STATE_HOME").and_then(|_| state())
}

fn state() -> Option<PathBuf> {
    folder("XDG_STATE_HOME", ".local/state")
}

/// The specification says that a relative path in the variable is to be ignored.
fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn folder(variable: &str, usual: &str) -> Option<PathBuf> {
    let base = named(variable).or_else(|| home().map(|home| home.join(usual)))?;
    Some(base.join("sweetspot"))
}

/// `HOME`, or what /etc/passwd says. libc would ask modules for it, which it loads: in a program without shared
/// libraries they end it by SIGSEGV.
fn home() -> Option<PathBuf> {
    let named = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    named
        .or_else(|| listed(&std::fs::read("/etc/passwd").ok()?, rustix::process::getuid().as_raw()))
}

/// The home folder of a user in the text of /etc/passwd.
fn listed(users: &[u8], user: u32) -> Option<PathBuf> {
    const USER: usize = 2;
    const HOME: usize = 5;
    let number = user.to_string();
    users.split(|byte| *byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        (*fields.get(USER)? == number.as_bytes())
            .then(|| fields.get(HOME).map(|home| PathBuf::from(OsStr::from_bytes(home))))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_folder_is_found_by_the_number_of_its_user() {
        let users =
            b"root:x:0:0:root:/root:/bin/sh\n\nshort:x:7\nme:x:1000:1000:,,,:/home/me:/bin/bash\n";
        assert_eq!(listed(users, 1000), Some("/home/me".into()));
        assert_eq!(listed(users, 0), Some("/root".into()));
        assert_eq!((listed(users, 7), listed(users, 100)), (None, None));
    }
}

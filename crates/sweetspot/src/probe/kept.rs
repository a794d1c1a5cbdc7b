//! Answers that are kept: that a program was buffered, by everything on which that depends.
//!
//! One small file a program, in the user's cache folder, which holds a hash of the facts. Another
//! kernel, C library, environment, container or build of ours gives another hash, and then the
//! question is asked anew. There are at most 4,096 files, or a program that is built in a new folder each
//! time would leave one there each time; programs that share a file are asked anew in turns. Anyone who can
//! write there could make sweetspot promise what does not come true, and nothing else. Where nothing can be
//! kept, it is asked each time.

use crate::environment::Environment;
use crate::home;
use crate::preload;
use crate::reach::{self, Executable};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use sweetspot_core::environment as names;
use sweetspot_core::ledger::FOLDER as SHARED_MEMORY;
use sweetspot_guard::{own_file, own_folder};
use sweetspot_lab::output::Hash;

/// The folder, in the user's cache folder.
const FOLDER: &str = "buffered";
/// Characters of a hash: all that a file holds.
const HASH_LETTERS: usize = 64;
/// Of those, so many name the file.
const NAME_LETTERS: usize = 3;
/// Lines of `/proc/self/status` on which an answer depends.
const STATUS: [&str; 4] = ["Uid:", "NoNewPrivs:", "Seccomp:", "Seccomp_filters:"];
/// Files of the kernel's that tell places and confinements apart.
const LINKS: [&str; 3] = ["ns/mnt", "ns/pid", "ns/user"];

/// Everything on which an answer depends, as a hash, and where the answer is kept.
pub struct Facts {
    place: PathBuf,
    hash: String,
}

impl Facts {
    /// Gathers them; `None` where something cannot be known, or nothing can be kept.
    pub fn of(executable: &Executable, environment: &Environment) -> Option<Facts> {
        let file = executable.file.canonicalize().ok()?;
        let linker = executable.linker.as_deref()?;
        let mut facts = format!("{} {}\n", env!("CARGO_PKG_VERSION"), preload::HASH);
        let system = rustix::system::uname();
        let _ = writeln!(facts, "{:?} {:?}", system.release(), system.version());
        // The C library comes with its dynamic linker; a build of both has one number.
        let _ = writeln!(facts, "{:?} {:?}", reach::build_id(linker), identity(linker)?);
        let _ = writeln!(facts, "{:?} {:?}", file, identity(&file)?);
        let is_linkers =
            |entry: &[u8]| entry.starts_with(b"LD_") || entry.starts_with(b"GLIBC_TUNABLES=");
        for entry in environment.entries().iter().filter(|entry| is_linkers(entry.as_bytes())) {
            let _ = writeln!(facts, "{entry:?}");
        }
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let told = status.lines().filter(|line| STATUS.iter().any(|name| line.starts_with(name)));
        told.for_each(|line| facts.extend([line, "\n"]));
        for link in LINKS {
            let _ = writeln!(facts, "{:?}", fs::read_link(format!("/proc/self/{link}")));
        }
        // The confinement by AppArmor or SELinux, where there is one.
        let _ = writeln!(facts, "{:?}", fs::read("/proc/self/attr/current").ok());
        let limits = fs::read_to_string("/proc/self/limits").ok()?;
        let of_size = |line: &&str| line.starts_with("Max file size") || line.contains("address");
        limits.lines().filter(of_size).for_each(|line| facts.extend([line, "\n"]));
        let memory = rustix::fs::statvfs(SHARED_MEMORY).ok()?;
        let _ = writeln!(facts, "{} {:?}", memory.f_blocks, memory.f_flag);
        // The guard of process 1 would die with it.
        let _ = writeln!(facts, "{}", std::process::id() == 1);
        let place = folder()?.join(&Hash::of(file.as_os_str().as_bytes())[..NAME_LETTERS]);
        Some(Facts { place, hash: Hash::of(facts.as_bytes()) })
    }

    /// Whether this very program has been buffered in all these circumstances.
    pub fn are_known(&self) -> bool {
        let known = own_file::read(&self.place, 0o077, HASH_LETTERS + 1);
        known.is_some_and(|hash| hash == self.hash)
    }

    /// Keeps it. Where that cannot be, it will be asked again.
    pub fn keep(&self) {
        let folder = self.place.parent().unwrap_or(Path::new("."));
        let made = own_folder::make(folder, 0o700);
        let _ = made.and_then(|()| own_file::replace(&self.place, &self.hash));
    }
}

/// In the user's own folder. Nothing is left in that of somebody else (`sudo` keeps `HOME`).
fn folder() -> Option<PathBuf> {
    let base = match std::env::var_os(names::CACHE).filter(|name| !name.is_empty()) {
        Some(named) => PathBuf::from(named),
        None => home::cache()?,
    };
    own_folder::is_over(&base).then(|| base.join(FOLDER))
}

/// What is another after each change of a file.
fn identity(file: &Path) -> Option<[i64; 5]> {
    let data = fs::metadata(file).ok()?;
    let times = [data.mtime(), data.mtime_nsec()];
    Some([data.dev() as i64, data.ino() as i64, data.len() as i64, times[0], times[1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_a_file_of_ours_that_says_the_same_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        let facts =
            |hash: &str| Facts { place: folder.path().join("new/place"), hash: hash.into() };
        let (known, other) = (facts(&Hash::of(b"known")), facts(&Hash::of(b"other")));
        assert!(!known.are_known());
        known.keep();
        assert!(known.are_known() && !other.are_known());
        assert_eq!(fs::metadata(&known.place).unwrap().mode() & 0o777, 0o600);
        other.keep();
        assert!(other.are_known() && !known.are_known());
        let set = |mode| fs::set_permissions(&other.place, fs::Permissions::from_mode(mode));
        set(0o644).unwrap();
        assert!(!other.are_known(), "others could have been given it to write");
        set(0o600).unwrap();
        fs::write(&other.place, format!("{} and more", other.hash)).unwrap();
        assert!(!other.are_known());
        fs::remove_file(&other.place).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &other.place).unwrap();
        assert!(!other.are_known());
        // A folder in its place: nothing can be kept, which is no failure.
        fs::remove_file(&other.place).unwrap();
        fs::create_dir(&other.place).unwrap();
        other.keep();
        assert!(!other.are_known());
    }

    #[test]
    fn facts_tell_programs_and_circumstances_apart() {
        let of = |file: &str, variable: &str| {
            let linker = Some("/proc/self/exe".into());
            let executable = Executable { file: file.into(), linker };
            let mut environment = Environment::default();
            crate::environment::set(&mut environment, "LD_LIBRARY_PATH", variable);
            Facts::of(&executable, &environment).map(|facts| facts.hash)
        };
        if of("/bin/sh", "a").is_none() {
            // There is no home folder of ours here.
            return;
        }
        assert_eq!(of("/bin/sh", "a"), of("/bin/sh", "a"));
        assert_ne!(of("/bin/sh", "a"), of("/bin/sh", "b"));
        assert_ne!(of("/bin/sh", "a"), of("/usr/bin/env", "a"));
        assert_eq!(of("/no/such", "a"), None);
    }
}

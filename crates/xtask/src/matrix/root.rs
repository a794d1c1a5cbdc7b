//! A Debian of another release in a folder: made by mmdebstrap from where this machine's apt has its
//! packages, kept in `target/matrix/roots`, and entered as one would enter a container.
//!
//! Inside, the project's folder lies at its own path, and can only be read: the paths in what was
//! built here are right there, too. What is written goes to a folder of its own. Mounts, processes
//! and shared memory are the namespaces' own, so that nothing of this machine is touched: a ledger in
//! the shared memory of the machine would look as if all its programs were dead.
//!
//! Not here: what is run in it, and how a root is made (`debian`).

use super::made::{self, Made};
use super::{Extent, Step, Work, folder, listen};
use crate::debian::{apart, make};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A release of Debian.
#[derive(Debug)]
pub struct Suite {
    pub name: &'static str,
    pub c_library: &'static str,
    /// Names of packages that not all have.
    packages: &'static [&'static str],
    /// Belongs to the short form: the oldest and the newest.
    pub is_short: bool,
}

/// The oldest first.
pub const SUITES: &[Suite] = &[
    // No GnuCOBOL in this one.
    Suite { name: "bullseye", c_library: "glibc 2.31", packages: &[], is_short: true },
    Suite { name: "bookworm", c_library: "glibc 2.36", packages: COBOL, is_short: false },
    Suite { name: "trixie", c_library: "glibc 2.41", packages: COBOL, is_short: false },
    Suite { name: "sid", c_library: "glibc 2.43", packages: COBOL, is_short: true },
];

const COBOL: &[&str] = &["gnucobol4"];
/// What the table of programs needs of every suite in the short form: made in a minute.
const FEW: &[&str] = &[
    "gcc",
    "libc6-dev",
    "make",
    "perl",
    "python3",
    "musl-tools",
    "bc",
    "patch",
    "xxd",
    "file",
    "sqlite3",
];
/// What the table, the fuzzers and the conformance run need besides.
const MANY: &[&str] = &[
    "g++",
    "gfortran",
    "default-jdk-headless",
    "nodejs",
    "git",
    "tcl",
    "ruby",
    "lua5.4",
    "php-cli",
    "fio",
    "stress-ng",
    "bzip2",
    "procps",
];

/// A root that was made.
pub struct Root {
    pub name: String,
    pub path: PathBuf,
}

impl Root {
    /// The root of a suite, made now unless it was before.
    ///
    /// # Errors
    /// What mmdebstrap said.
    pub fn open(suite: &Suite, extent: Extent) -> Result<Root, String> {
        let name = match extent {
            Extent::Short => format!("{}-short", suite.name),
            _ => suite.name.to_owned(),
        };
        let path = folder().join("roots").join(&name);
        let root = Root { name, path };
        if !root.path.is_dir() {
            root.make(suite, extent)?;
        }
        // What ran in it has left these, and the trial of a package takes them for its own.
        for left in ["var/cache/sweetspot", "var/lib/sweetspot"] {
            let left = root.path.join(left);
            if left.exists() {
                fs::remove_dir_all(&left)
                    .map_err(|error| format!("{}: {error}", left.display()))?;
            }
        }
        Ok(root)
    }

    fn make(&self, suite: &Suite, extent: Extent) -> Result<(), String> {
        let mut packages = FEW.to_vec();
        if extent == Extent::Full {
            packages.extend(MANY.iter().chain(suite.packages));
        }
        make(&self.path, suite.name, |make| {
            make.args(["--variant=minbase", "--dpkgopt=force-unsafe-io"]);
            for folder in ["man", "doc", "locale"] {
                make.arg(format!("--dpkgopt=path-exclude=/usr/share/{folder}/*"));
            }
            // Java's package makes links in it and fails without.
            make.arg("--essential-hook=mkdir -p \"$1/usr/share/man/man1\"");
            make.arg(format!("--include={}", packages.join(",")));
        })
    }

    /// Runs the words of an `xtask matrix` in it and collects the answers.
    ///
    /// # Errors
    /// It could not be entered.
    pub fn run(&self, made: &Made, work: &Work, words: &[String]) -> Result<Vec<Step>, String> {
        let mut command = self.enter(made, work)?;
        command.arg(&made.xtask).arg("matrix").args(words);
        listen(&mut command, &self.name)
    }

    /// A command to which the words of another are added, which then runs in this root.
    ///
    /// # Errors
    /// A folder cannot be made.
    pub fn enter(&self, made: &Made, work: &Work) -> Result<Command, String> {
        let mut command = apart();
        command.args(["sh", "-euc", ENTER, "sh"]);
        command.arg(&self.path).arg(work.folder("root")?).arg(crate::project::root());
        command.arg(&made.folder).arg(&made.scratch).arg(made::toolchain()?);
        command.args(["env", "-i", "PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/root", "LC_ALL=C"]);
        command.arg(format!("RUSTC={}", made::toolchain()?.join("bin/rustc").display()));
        Ok(command)
    }
}

/// Mounts, changes the root and runs the rest of its words. Process 1 of the namespace stays this
/// shell: it takes the ends of the guards.
const ENTER: &str = r#"
root=$1 work=$2 project=$3 built=$4 scratch=$5 toolchain=$6; shift 6
mkdir -p "$work/tmp" "$work/target" "$work/scratch"
chmod 1777 "$work/tmp"
mount --rbind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount --bind "$work/tmp" "$root/tmp"
readable() { mkdir -p "$root$1"; mount --bind "$1" "$root$1"; mount -o remount,bind,ro "$root$1"; }
readable "$project"
mount --bind "$work/target" "$root$project/target"
readable "$built"
mkdir -p "$root$scratch"
mount --bind "$work/scratch" "$root$scratch"
readable "$toolchain"
cd "$root"
mkdir -p mnt
pivot_root . mnt
cd /
umount -l /mnt
"$@" || exit
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_package_is_named_twice() {
        for suite in SUITES {
            let all: Vec<_> = FEW.iter().chain(MANY).chain(suite.packages).collect();
            let mut different = all.clone();
            different.sort();
            different.dedup();
            assert_eq!(all.len(), different.len(), "{}", suite.name);
        }
    }

    #[test]
    fn the_project_lies_where_its_paths_say() {
        assert!(folder().starts_with(crate::project::root()));
        assert!(
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).starts_with(crate::project::root())
        );
    }
}

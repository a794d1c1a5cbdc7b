//! `cargo xtask deb | tarball | wheel`: packages, and `cargo xtask packages`: all three, tried.
//!
//! All are made of one staged folder with the layout of `/usr/local`: the binary, manual pages,
//! completions, licences. Each is then put together by the tool of its format (dpkg-deb, tar, the
//! `wheel` of the Python Packaging Authority), which needs no download and cannot disagree with who
//! installs it: cargo-deb and maturin would build the binary a second time, and stage the same files.
//!
//! Not here: what is in a page or a completion (`sweetspot generate`).

pub mod deb;
pub mod tarball;
mod tried;
pub mod wheel;

use crate::build::{self, Built, Machine};
use crate::commands::call;
use clap::Args;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The oldest glibc whose programs are buffered: Debian 10's, RHEL 8's.
const GLIBC_FLOOR: (u32, u32) = (2, 28);

/// What went wrong, in words.
type Error = String;

/// How much is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// In clean roots of another release.
    Whole,
    /// Only this machine's, in a clean root of this release.
    Quick,
}

/// Makes and tries the packages of this machine, and checks the other one, as a step of `cargo xtask
/// test`: of the binary that was built for the tests already, as everything but its speed is the same.
pub fn quick() -> bool {
    let tried =
        build::tested().and_then(|built| staged(Machine::HERE, &built, &built.binary, &packages()));
    let works = has_passed(Machine::HERE, tried.map(|staged| tried::all(&staged, Trial::Quick)));
    let others = Machine::ALL.into_iter().filter(|machine| *machine != Machine::HERE);
    let checked = others.map(tried::other_machine).fold(true, |well, other| well & other);
    works && checked
}

/// Makes and tries them; true if nothing failed.
pub fn all(settings: &Settings, trial: Trial) -> bool {
    settings.machines.iter().fold(true, |well, machine| {
        let tried = settings.stage(*machine).map(|staged| tried::all(&staged, trial));
        well & has_passed(*machine, tried)
    })
}

fn has_passed(machine: Machine, tried: Result<bool, Error>) -> bool {
    tried.unwrap_or_else(|error| {
        println!("packages for {}: FAILED: {error}", machine.name());
        false
    })
}

/// Each is made for x86_64 and for aarch64, from either.
#[derive(Debug, Args)]
pub struct Settings {
    /// Only for this machine
    #[arg(long = "target", value_name = "MACHINE", default_values = Machine::ALL.map(Machine::name))]
    machines: Vec<Machine>,
    /// The profile in which cargo builds the binary
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
    /// Where the packages go
    #[arg(long = "dir", value_name = "DIR", default_value_os_t = packages())]
    folder: PathBuf,
}

fn packages() -> PathBuf {
    root().join("target/packages")
}

fn root() -> &'static Path {
    crate::project::root()
}

/// The files of all packages, and where packages go.
pub struct Staged {
    machine: Machine,
    /// The library that the binary carries.
    library: PathBuf,
    /// With `bin`, `share/man` and so on in it.
    prefix: TempDir,
    packages: PathBuf,
}

impl Settings {
    /// Makes one kind of package for each machine, and says where they are.
    pub fn make(&self, one: fn(&Staged) -> Result<PathBuf, Error>) -> Result<bool, Error> {
        for machine in &self.machines {
            println!("{}", one(&self.stage(*machine)?)?.display());
        }
        Ok(true)
    }

    /// Builds the binary and puts together what is installed.
    fn stage(&self, machine: Machine) -> Result<Staged, Error> {
        let built = build::binary(&self.profile, machine)?;
        // Pages and completions are the same on all machines.
        let for_here = match machine == Machine::HERE {
            true => built.binary.clone(),
            false => build::binary(&self.profile, Machine::HERE)?.binary,
        };
        staged(machine, &built, &for_here, &self.folder)
    }
}

/// Puts together what is installed, with the pages and completions that a binary for this machine writes.
fn staged(
    machine: Machine,
    built: &Built,
    for_here: &Path,
    folder: &Path,
) -> Result<Staged, Error> {
    let Built { binary: built, library } = built;
    let prefix = tempfile::tempdir().map_err(|error| error.to_string())?;
    let at = |path: &str| prefix.path().join(path);
    let binary = at("bin/sweetspot");
    copy(built, &binary)?;
    // The symbols of a development build are most of it, and no package carries any.
    call(Command::new(machine.tool("strip")).arg("--strip-unneeded").arg(&binary))?;
    let generate =
        |what: &str, folder: &Path| call(dated(for_here).args(["generate", what]).arg(folder));
    generate("man", &at("share/man/man1"))?;
    let pages = fs::read_dir(at("share/man/man1")).map_err(|error| error.to_string())?;
    let pages = pages.flatten().map(|page| page.path());
    call(Command::new("gzip").arg("-9n").args(pages))?;
    generate("completions", &at("completions"))?;
    for (made, installed) in [
        ("sweetspot.bash", "share/bash-completion/completions/sweetspot"),
        ("_sweetspot", "share/zsh/vendor-completions/_sweetspot"),
        ("sweetspot.fish", "share/fish/vendor_completions.d/sweetspot.fish"),
    ] {
        copy(&at("completions").join(made), &at(installed))?;
    }
    fs::remove_dir_all(at("completions")).map_err(|error| error.to_string())?;
    for name in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        copy(&root().join(name), &at("share/doc/sweetspot").join(name))?;
    }
    call(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(prefix.path()))?;
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let packages = folder.canonicalize().map_err(|error| error.to_string())?;
    Ok(Staged { machine, library: library.clone(), prefix, packages })
}

impl Staged {
    fn prefix(&self) -> &Path {
        self.prefix.path()
    }

    /// Copies one file of it.
    fn put(&self, name: &str, to: &Path) -> Result<(), Error> {
        copy(&self.prefix().join(name), to)
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let failed = |error: std::io::Error| format!("{} to {}: {error}", from.display(), to.display());
    to.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    fs::copy(from, to).map(drop).map_err(failed)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    fs::write(path, text).map_err(failed)
}

/// The time of the last commit, so that the same source makes the same package.
fn source_date() -> String {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(root());
    env::var("SOURCE_DATE_EPOCH").or_else(|_| call(&mut git)).unwrap_or_else(|_| "0".to_owned())
}

/// A command with that time in its environment.
fn dated(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("SOURCE_DATE_EPOCH", source_date());
    command
}

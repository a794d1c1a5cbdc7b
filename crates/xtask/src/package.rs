//! `cargo xtask deb | tarball | wheel`: packages, and `cargo xtask packages`: all three, tried.
//!
//! All are made of one staged folder with the layout of `/usr/local`: the binary, manual pages,
//! completions, licences. Each is then put together by the tool of its format (dpkg-deb, tar, the
//! `wheel` of the Python Packaging Authority), which needs no download and cannot disagree with who
//! installs it: cargo-deb and maturin would build the binary a second time, and stage the same files.
//!
//! Not here: what is in a page or a completion (`sweetspot generate`).

mod deb;
mod tarball;
mod tried;
mod wheel;

use crate::build::{self, Machine};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use tempfile::TempDir;

const USAGE: &str = "\
cargo xtask deb | tarball | wheel | packages [OPTIONS]

  deb       a Debian package
  tarball   for any Linux: to be unpacked into a prefix such as /usr/local
  wheel     a Python wheel that carries the binary
  packages  all three; then each is installed, used and removed, in clean roots of other releases of
            Debian than this one: bullseye and trixie, those of the other machine by an emulator

Each is made for x86_64 and for aarch64, from either.

  --target MACHINE  only for this machine
  --profile NAME    the profile in which cargo builds the binary (release)
  --dir DIR         where the packages go (target/packages)

cargo xtask packages --quick: what `cargo xtask test` does, with a development build of this machine
only; of the other machine, that everything compiles for it, and that its library can be loaded
";

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The oldest glibc whose programs are buffered: Debian 10's, RHEL 8's.
const GLIBC_FLOOR: (u32, u32) = (2, 28);

/// What went wrong, in words.
type Error = String;

/// Runs one of the commands with the words after it.
pub fn main(words: &[&str]) -> ExitCode {
    if words == ["packages", "--quick"] {
        return crate::exit_code(quick());
    }
    let (which, options) = words.split_first().expect("a command");
    let mut settings = Settings::default();
    let mut options = options.iter();
    while let Some(&option) = options.next() {
        let value = options.next();
        match (option, value) {
            ("--target", Some(name)) if Machine::named(name).is_some() => {
                settings.machines = Machine::named(name).into_iter().collect();
            }
            ("--profile", Some(name)) => settings.profile = (*name).to_owned(),
            ("--dir", Some(folder)) => settings.folder = folder.into(),
            ("--help" | "-h", None) => {
                print!("{USAGE}");
                return ExitCode::SUCCESS;
            }
            _ => {
                eprint!("xtask {which}: unknown option, or no value: {option}\n\n{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let make = match *which {
        "deb" => deb::make,
        "tarball" => tarball::make,
        "wheel" => wheel::make,
        _ => return crate::exit_code(all(&settings, Trial::Whole)),
    };
    let each = |machine: &Machine| settings.stage(*machine).and_then(|staged| make(&staged));
    settings.machines.iter().try_for_each(|machine| each(machine).map(show)).map_or_else(
        |error| {
            eprintln!("xtask {which}: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn show(package: PathBuf) {
    println!("{}", package.display());
}

/// How much is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// In clean roots of another release.
    Whole,
    /// Only this machine's, in a clean root of this release.
    Quick,
}

/// Makes and tries the packages of this machine, and checks the other one, as a step of `cargo xtask
/// test`: of the binary that was built for the tests already, as everything but its speed is the same.
pub fn quick() -> bool {
    let settings = Settings {
        profile: "dev".to_owned(),
        machines: vec![Machine::HERE],
        ..Settings::default()
    };
    let others = Machine::ALL.into_iter().filter(|machine| *machine != Machine::HERE);
    let checked = others.map(tried::other_machine).fold(true, |well, other| well & other);
    all(&settings, Trial::Quick) && checked
}

fn all(settings: &Settings, trial: Trial) -> bool {
    settings.machines.iter().fold(true, |well, machine| {
        let tried = settings.stage(*machine).map(|staged| tried::all(&staged, trial));
        let passed = tried.unwrap_or_else(|error| {
            println!("packages for {}: FAILED: {error}", machine.name());
            false
        });
        well & passed
    })
}

struct Settings {
    profile: String,
    folder: PathBuf,
    machines: Vec<Machine>,
}

impl Default for Settings {
    fn default() -> Settings {
        let folder = root().join("target/packages");
        Settings { profile: "release".to_owned(), folder, machines: Machine::ALL.to_vec() }
    }
}

fn root() -> &'static Path {
    crate::project::root()
}

/// The files of all packages, and where packages go.
struct Staged {
    machine: Machine,
    /// The library that the binary carries.
    library: PathBuf,
    /// With `bin`, `share/man` and so on in it.
    prefix: TempDir,
    packages: PathBuf,
}

impl Settings {
    /// Builds the binary and puts together what is installed.
    fn stage(&self, machine: Machine) -> Result<Staged, Error> {
        let built = build::binary(&self.profile, machine)?;
        // Pages and completions are the same on all machines.
        let speaks = match machine == Machine::HERE {
            true => built.binary.clone(),
            false => build::binary(&self.profile, Machine::HERE)?.binary,
        };
        let prefix = tempfile::tempdir().map_err(|error| error.to_string())?;
        let at = |path: &str| prefix.path().join(path);
        let binary = at("bin/sweetspot");
        copy(&built.binary, &binary)?;
        // The symbols of a development build are most of it, and no package carries any.
        call(Command::new(machine.tool("strip")).arg("--strip-unneeded").arg(&binary))?;
        let generate =
            |what: &str, folder: &Path| call(dated(&speaks).args(["generate", what]).arg(folder));
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
        fs::create_dir_all(&self.folder).map_err(|error| error.to_string())?;
        let packages = self.folder.canonicalize().map_err(|error| error.to_string())?;
        Ok(Staged { machine, library: built.library, prefix, packages })
    }
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

/// Runs a command, which must end well; what it says is shown only where it does not.
fn call(command: &mut Command) -> Result<String, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        let _ = std::io::stderr().write_all(&output.stdout);
        let _ = std::io::stderr().write_all(&output.stderr);
        return Err(format!("{program} ended with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
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

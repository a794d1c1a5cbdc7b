//! `cargo xtask build`: the binary, for this machine or for another one.
//!
//! For another machine cargo must be told a linker, and rustup must have its standard library. Both
//! are seen to here, so that nobody has to configure anything.
//!
//! Not here: what goes into the binary. Its build script compiles the library for the same machine,
//! and links without shared libraries.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::commands::ends_with_us;
use crate::needs::is_there;
use crate::project::root;
use clap::{Args, ValueEnum};
use serde_json::Value;

/// A machine for which there is a binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Machine {
    #[value(name = "x86_64")]
    X86_64,
    Aarch64,
}

impl Machine {
    pub const ALL: [Machine; 2] = [Machine::X86_64, Machine::Aarch64];

    /// The one that this is built for.
    pub const HERE: Machine =
        if cfg!(target_arch = "x86_64") { Machine::X86_64 } else { Machine::Aarch64 };

    /// Its name in Rust, in wheels and in archives.
    pub fn name(self) -> &'static str {
        match self {
            Machine::X86_64 => "x86_64",
            Machine::Aarch64 => "aarch64",
        }
    }

    /// Its name at Debian.
    pub fn debian(self) -> &'static str {
        match self {
            Machine::X86_64 => "amd64",
            Machine::Aarch64 => "arm64",
        }
    }

    /// The C compiler of another machine, and the tools beside it.
    pub fn tool(self, name: &str) -> String {
        match self == Machine::HERE {
            true => name.to_owned(),
            false => format!("{}-linux-gnu-{name}", self.name()),
        }
    }

    pub fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.name())
    }

    /// What runs its programs here; `None`: nothing is needed.
    pub fn emulator(self) -> Option<String> {
        (self != Machine::HERE).then(|| format!("qemu-{}-static", self.name()))
    }
}

/// What cargo has built.
pub struct Built {
    pub binary: PathBuf,
    /// The library that it carries.
    pub library: PathBuf,
}

#[derive(Debug, Args)]
pub struct Settings {
    /// For this machine
    #[arg(long, value_name = "MACHINE", default_value = Machine::HERE.name())]
    target: Machine,
    /// Cargo's profile
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
}

impl Settings {
    pub fn build(&self) -> Result<Built, String> {
        binary(&self.profile, self.target)
    }
}

/// Builds the binary in a profile of cargo's.
///
/// # Errors
/// It does not build, or what is needed for that machine is missing, with what to install.
pub fn binary(profile: &str, machine: Machine) -> Result<Built, String> {
    let messages = cargo(&["build", "-p", "sweetspot", "--profile", profile], machine, &[])?;
    let binary = messages.iter().find_map(|message| message["executable"].as_str());
    let binary = binary.ok_or("cargo names no executable")?.into();
    Ok(Built { binary, library: library(&messages)? })
}

/// The binary that the tests here are of: as everything but its speed is that of any other.
///
/// # Errors
/// It does not build.
pub fn tested() -> Result<Built, String> {
    let messages = tests()?;
    Ok(Built { binary: executable(&messages, "sweetspot")?, library: library(&messages)? })
}

/// Builds all tests of the workspace, with what they need; returns what cargo says.
///
/// # Errors
/// They do not build.
pub fn tests() -> Result<Vec<Value>, String> {
    cargo(&["test", "--no-run", "--workspace", "--quiet"], Machine::HERE, &[])
}

/// The executable of a program, or of a test program, in what cargo says.
///
/// # Errors
/// It is not named.
pub fn executable(messages: &[Value], name: &str) -> Result<PathBuf, String> {
    let found = messages.iter().find(|message| {
        // A program's unit tests have its name, too.
        let is_test = message["profile"]["test"] == true;
        let is_it = message["target"]["name"] == name && message["executable"].is_string();
        is_it && is_test == (message["target"]["kind"][0] == "test")
    });
    let path = found.and_then(|message| message["executable"].as_str());
    path.map(PathBuf::from).ok_or_else(|| format!("cargo names no executable of {name}"))
}

/// Checks that the product compiles for a machine, and builds the library for it. Returns the library.
///
/// # Errors
/// It does not, or what is needed for that machine is missing, with what to install.
pub fn check(machine: Machine) -> Result<PathBuf, String> {
    // SQLite's quarter of a million lines of C are not compiled: nothing is linked.
    let without_sqlite = [("LIBSQLITE3_SYS_USE_PKG_CONFIG", "1"), ("SQLITE3_LIB_DIR", "/nowhere")];
    library(&cargo(&["check", "--package", "sweetspot"], machine, &without_sqlite)?)
}

/// The library that the build script says it has built.
fn library(messages: &[Value]) -> Result<PathBuf, String> {
    let path = messages.iter().find_map(|message| {
        let set = message["env"].as_array()?;
        set.iter().find(|pair| pair[0] == "SWEETSPOT_PRELOAD_SO")?[1].as_str()
    });
    path.map(PathBuf::from).ok_or_else(|| "cargo names no library".to_owned())
}

/// Runs cargo for a machine, and returns what it says about what it has built.
fn cargo(
    words: &[&str],
    machine: Machine,
    variables: &[(&str, &str)],
) -> Result<Vec<Value>, String> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(words).arg("--message-format=json-render-diagnostics");
    cargo.envs(variables.iter().copied()).current_dir(root()).stderr(Stdio::inherit());
    if machine != Machine::HERE {
        let linker = can_link(machine)?;
        let variable = machine.target().to_uppercase().replace('-', "_");
        cargo.args(["--target", &machine.target()]);
        cargo.env(format!("CARGO_TARGET_{variable}_LINKER"), linker);
    }
    said(&mut cargo)
}

/// What a cargo that was told to speak JSON says about what it has built.
///
/// # Errors
/// It failed; why is on the terminal.
pub fn said(cargo: &mut Command) -> Result<Vec<Value>, String> {
    let output = ends_with_us(cargo).output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("{cargo:?} ended with {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Sees to it that programs of another machine can be linked, and says by what.
///
/// # Errors
/// What is missing, and what to install.
pub fn can_link(machine: Machine) -> Result<String, String> {
    let linker = machine.tool("gcc");
    let archive = format!("/usr/{}-linux-gnu/lib/libc.a", machine.name());
    let debian = machine.debian();
    for (needed, package) in [
        (&linker, format!("gcc-{}-linux-gnu", machine.name().replace('_', "-"))),
        (&archive, format!("libc6-dev-{debian}-cross")),
    ] {
        if !is_there(needed) {
            return Err(format!("no {needed} (apt-get install {package})"));
        }
    }
    add_target(&machine.target())?;
    Ok(linker)
}

/// Adds the standard library of another machine, where rustup has not got it.
fn add_target(target: &str) -> Result<(), String> {
    let mut asked = Command::new("rustc");
    let asked = asked.args(["--print", "target-libdir", "--target", target]).output();
    let folder = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    if folder.is_ok_and(|folder| PathBuf::from(folder).is_dir()) {
        return Ok(());
    }
    println!("$ rustup target add {target}");
    let status = Command::new("rustup").args(["target", "add", target]).status();
    match status.is_ok_and(|status| status.success()) {
        true => Ok(()),
        false => Err(format!("no Rust for {target} (rustup target add {target})")),
    }
}

//! What the tests need beside the Rust toolchain, and installing it from Debian's packages.
//!
//! The list is `programs/needs.txt`, the same that the tests probe: a command, or the path of a file,
//! and its package. `fsx` is no package; cargo installs it below `target`.
//! Without root nothing is installed and what is missing is printed; the tests then say themselves
//! what they skip.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NEEDS: &str = include_str!("../../../programs/needs.txt");

/// Installs the packages of all commands that are missing. True if nothing is missing afterwards,
/// or if only tests will be skipped and `CI` is not set.
pub fn install() -> bool {
    toolchain();
    fsx();
    let mut packages: Vec<&str> = missing().map(|(_, package)| package).collect();
    packages.sort_unstable();
    packages.dedup();
    if packages.is_empty() {
        println!("every package that the tests need is there");
        return is_there("fsx") || !in_ci();
    }
    let installed = install_packages(&packages);
    let mut left = 0;
    for (command, package) in missing() {
        println!("skipped: tests of {command} (apt-get install {package})");
        left += 1;
    }
    if !installed && left > 0 {
        println!("{left} commands are missing; the tests that need them are skipped");
    }
    left == 0 && is_there("fsx") || !in_ci()
}

/// Installs packages by apt. True if all of them are there then.
pub fn install_packages(packages: &[&str]) -> bool {
    println!("missing: {}", packages.join(" "));
    match privileged() {
        None => {
            println!("cannot install: neither root nor sudo without a password");
            false
        }
        Some(prefix) if !is_there("apt-get") => {
            println!("cannot install: no apt-get ({prefix:?})");
            false
        }
        Some(prefix) => apt(&prefix, &["update"]) && apt_install(&prefix, packages),
    }
}

/// The version of fsx whose operations follow from a seed as the checks know them.
const FSX_VERSION: &str = "0.3.2";

/// Where programs are that are no packages: `target/tools`.
pub fn tools() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools")
}

/// Installs fsx.
fn fsx() {
    if is_there("fsx") {
        return;
    }
    let words = ["install", "fsx", "--quiet", "--locked", "--version", FSX_VERSION, "--root"];
    println!("$ cargo {} target/tools", words.join(" "));
    let status = Command::new("cargo").args(words).arg(tools()).stdin(Stdio::null()).status();
    if !status.is_ok_and(|status| status.success()) {
        println!("skipped: checks of fsx (cargo install fsx)");
    }
}

/// Adds the toolchain's formatter and lints, where a minimal toolchain came without.
fn toolchain() {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        let mut asked = Command::new("cargo");
        asked.args([subcommand, "--version"]).stdin(Stdio::null());
        if asked.output().is_ok_and(|output| output.status.success()) {
            continue;
        }
        println!("$ rustup component add {component}");
        if !Command::new("rustup")
            .args(["component", "add", component])
            .status()
            .is_ok_and(|status| status.success())
        {
            println!("cargo {subcommand} is missing, and rustup cannot add it");
        }
    }
}

/// Whether a skip is a failure.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1")
}

/// The commands that are not there, with their packages.
fn missing() -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = NEEDS.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|line| line.split_once(' ')).filter(|(command, _)| !is_there(command))
}

/// Whether a command can be found, or a file is there.
pub fn is_there(command: &str) -> bool {
    if command.starts_with('/') {
        return Path::new(command).exists();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = ["/usr/bin", "/bin", "/usr/sbin"].into_iter().chain(path.split(':'));
    let folders = folders.map(PathBuf::from).chain([tools().join("bin")]);
    folders.map(|folder| folder.join(command)).any(|path| {
        std::fs::metadata(path)
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    })
}

/// The words to put before a command that needs root: none as root, else sudo if it asks nothing.
fn privileged() -> Option<Vec<&'static str>> {
    let succeeds = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.output().ok().filter(|output| output.status.success())
    };
    let user = succeeds(&["id", "-u"])?;
    if user.stdout.trim_ascii() == b"0" {
        return Some(Vec::new());
    }
    succeeds(&["sudo", "-n", "true"]).map(|_| vec!["sudo", "-n"])
}

/// Installs all at once; where one package is unknown, one by one, so that the others come.
fn apt_install(prefix: &[&str], packages: &[&str]) -> bool {
    let install = |names: &[&str]| {
        let mut words = vec!["install", "-y", "--no-install-recommends"];
        words.extend(names);
        apt(prefix, &words)
    };
    install(packages) || packages.iter().filter(|package| !install(&[package])).count() == 0
}

fn apt(prefix: &[&str], arguments: &[&str]) -> bool {
    let mut words = prefix.to_vec();
    words.extend(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q"]);
    words.extend(arguments);
    println!("$ {}", words.join(" "));
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

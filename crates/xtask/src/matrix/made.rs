//! What is taken to other systems, built here: the harness of the table of programs, this program,
//! and `sweetspot`. Static, so that they need nobody's C library. Those for this machine are the ones
//! that are tested here (their build scripts see to it), the others have a target folder of their own.
//!
//! Victims must be dynamic, and of the other system's C library: they are compiled there, or for
//! another machine by a cross compiler.

use super::{call, folder};
use crate::build::{self, Machine, can_link, executable};
use crate::fuzz::kit::compiler_options;
use clap::ValueEnum;
use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What was built for one machine.
pub struct Made {
    /// This program.
    pub xtask: PathBuf,
    /// The test program of the table.
    pub harness: PathBuf,
    pub sweetspot: PathBuf,
    /// The folder in which all of them are.
    pub folder: PathBuf,
    /// Where the harness writes: fixed when it was compiled.
    pub scratch: PathBuf,
}

/// The name that compilers have for a machine of this kind.
pub fn target(architecture: &str) -> String {
    format!("{architecture}-unknown-linux-gnu")
}

/// Builds everything for a machine.
///
/// # Errors
/// What the compiler said goes to the terminal.
pub fn made_for(architecture: &str) -> Result<Made, String> {
    let (xtask, built) = match architecture == ARCH {
        true => (std::env::current_exe().map_err(|error| error.to_string())?, build::tests()?),
        false => {
            let harness = ["test", "--no-run", "-p", "sweetspot", "--test", "programs"];
            let mut built = build::said(&mut cargo_elsewhere(&harness, architecture)?)?;
            let xtask = cargo_elsewhere(&["build", "-p", "xtask"], architecture);
            built.extend(build::said(&mut xtask?)?);
            (executable(&built, "xtask")?, built)
        }
    };
    let harness = executable(&built, "programs")?;
    let above = |levels| harness.ancestors().nth(levels).map(Path::to_path_buf);
    // TARGET/debug/deps/programs-HASH
    let folder = above(2).filter(|folder| xtask.starts_with(folder));
    Ok(Made {
        folder: folder.ok_or("built elsewhere (type: cargo xtask matrix)")?,
        scratch: above(3).unwrap_or_default().join("tmp"),
        sweetspot: executable(&built, "sweetspot")?,
        xtask,
        harness,
    })
}

/// A cargo that builds for a machine of another kind, without shared libraries.
fn cargo_elsewhere(words: &[&str], architecture: &str) -> Result<Command, String> {
    let (target, folder) = (target(architecture), folder().join("build"));
    println!("building for {target} in {}", folder.display());
    let linker = can_link(Machine::from_str(architecture, false)?)?;
    let variable = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(words).args(["--quiet", "--message-format=json-render-diagnostics"]);
    cargo.args(["--target", &target]).env("CARGO_TARGET_DIR", &folder).env(variable, linker);
    cargo.env("RUSTFLAGS", "-Ctarget-feature=+crt-static").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.current_dir(crate::project::root()).stdin(Stdio::null()).stderr(Stdio::inherit());
    Ok(cargo)
}

/// The C compiler for a machine of another kind.
pub fn cross_compiler(architecture: &str) -> String {
    format!("{architecture}-linux-gnu-gcc")
}

/// Where the Rust toolchain is, which compiles the victims in Rust.
///
/// # Errors
/// There is none.
pub fn toolchain() -> Result<PathBuf, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    call(Command::new(rustc).args(["--print", "sysroot"])).map(PathBuf::from)
}

/// What includes this needs more than a C library, and is started by a test that compiles it itself.
const MORE_THAN_C: &str = "#include <fuse3/";
/// Likewise what says this: only the table of programs knows which, and how they are made.
const MORE_LIBRARIES: &str = "linked to libraries of its own";

/// Compiles the programs of `programs/c` that need nothing but a C library into a folder.
///
/// # Errors
/// What the compiler said.
pub fn victims(into: &Path, compiler: &str) -> Result<(), String> {
    let sources = crate::project::root().join("programs/c");
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(into).map_err(|error| failed(into, error))?;
    for entry in fs::read_dir(&sources).map_err(|error| failed(&sources, error))?.flatten() {
        let source = entry.path();
        let Some(name) =
            source.file_stem().filter(|_| source.extension().is_some_and(|e| e == "c"))
        else {
            continue;
        };
        let text = fs::read_to_string(&source).map_err(|error| failed(&source, error))?;
        if text.contains(MORE_THAN_C) || text.contains(MORE_LIBRARIES) {
            continue;
        }
        let mut command = Command::new(compiler);
        command.arg(compiler_options());
        if !text.contains("main(") {
            // To be preloaded.
            command.args(["-shared", "-fPIC"]);
        }
        call(command.arg("-o").arg(into.join(name)).arg(&source))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn victims_for_other_machines_need_only_a_c_library() {
        let sources = crate::project::root().join("programs/c");
        let read = |entry: fs::DirEntry| fs::read_to_string(entry.path()).unwrap();
        let texts: Vec<String> =
            fs::read_dir(sources).unwrap().map(|entry| read(entry.unwrap())).collect();
        let folders: BTreeSet<&str> = texts
            .iter()
            .filter(|text| !text.contains(MORE_THAN_C))
            .flat_map(|text| text.lines().filter_map(|line| line.strip_prefix("#include <")))
            .filter_map(|header| header.split_once('/').map(|(folder, _)| folder))
            .collect();
        assert_eq!(folders, BTreeSet::from(["linux", "netinet", "sys"]));
    }
}

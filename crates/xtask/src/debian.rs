//! A Debian of any release in a folder, by mmdebstrap, from where this machine's apt has its packages;
//! and namespaces in which it can be entered.
//!
//! Mounts and processes are the namespaces' own, and end with anyone who made them.
//!
//! Not here: what is done in it (`matrix`, `package`).

use crate::build::Machine;
use crate::commands::{call, no_command};
use crate::project;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder `target/matrix`.
pub fn folder() -> PathBuf {
    project::root().join("target/matrix")
}

/// What must be there to make and enter roots.
const NEEDS: &[(&str, &str)] = &[
    ("mmdebstrap", "mmdebstrap"),
    ("unshare", "util-linux"),
    ("pivot_root", "util-linux"),
    ("apt-get", "apt"),
];

/// Namespaces that end with the process that has them, and that one with its parent.
const APART: &[&str] = &["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"];

/// What this machine lacks to have roots.
pub fn lacking() -> Option<String> {
    no_command(NEEDS)
        .or_else(|| {
            let user = call(Command::new("id").arg("-u")).unwrap_or_default();
            (user != "0").then(|| "only root can make and enter a root".to_owned())
        })
        .or_else(|| call(apart().arg("true")).err().map(|wrong| format!("no namespaces: {wrong}")))
}

/// A root with nothing but what is essential, and Python: made now unless it was before. One for
/// another machine is only unpacked: nothing of it runs here.
///
/// # Errors
/// What mmdebstrap said.
pub fn clean(release: &str, machine: Machine) -> Result<PathBuf, String> {
    let path = folder().join("roots").join(format!("{release}-clean-{}", machine.debian()));
    if !path.is_dir() {
        make(&path, release, |make| {
            make.arg(format!("--architectures={}", machine.debian()));
            make.arg("--dpkgopt=force-unsafe-io");
            match machine == Machine::HERE {
                true => make.args(["--variant=essential", "--include=python3-venv"]),
                false => make.args([
                    "--variant=extract",
                    "--include=?essential",
                    "--include=dpkg,python3-venv,mawk",
                ]),
            };
        })?;
    }
    Ok(path)
}

/// Makes a root with the words that are added to mmdebstrap's. It has its name when it is whole.
pub fn make(path: &Path, release: &str, add: impl FnOnce(&mut Command)) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let begun = path.with_extension("begun");
    if begun.is_dir() {
        fs::remove_dir_all(&begun).map_err(failed)?;
    }
    fs::create_dir_all(begun.parent().unwrap_or(&begun)).map_err(failed)?;
    println!("making {}", path.display());
    let mut make = mmdebstrap();
    add(&mut make);
    call(make.arg(release).arg(&begun).arg(mirror()?))?;
    fs::rename(&begun, path).map_err(failed)
}

/// A command to which the words of another are added, which then runs in namespaces of its own.
pub fn apart() -> Command {
    let mut command = Command::new("unshare");
    command.args(APART).arg("--");
    command
}

/// From where apt has the packages of this machine's release.
///
/// # Errors
/// It has none of Debian's.
pub fn mirror() -> Result<String, String> {
    let format = ["indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)"];
    let known = call(Command::new("apt-get").args(format).args(["Created-By: Packages"]))?;
    let mut known = known.lines().filter_map(|line| line.strip_prefix("Debian Debian "));
    let mirror = known.next().ok_or("apt knows no mirror of Debian")?;
    Ok(mirror.trim_end_matches('/').to_owned())
}

/// mmdebstrap with what all uses of it have in common, in namespaces of its own.
pub fn mmdebstrap() -> Command {
    let mut command = apart();
    command.args(["mmdebstrap", "--mode=root", "--format=directory"]);
    // A mirror may be older than its signature promises.
    command.arg("--aptopt=Acquire::Check-Valid-Until \"false\"");
    command.arg("--aptopt=Acquire::Languages \"none\"");
    command
}

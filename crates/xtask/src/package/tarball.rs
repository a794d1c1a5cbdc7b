//! `cargo xtask tarball`: the staged folder, below one folder with the version in its name.

use super::{Error, Staged, VERSION, call, source_date};
use std::path::PathBuf;
use std::process::Command;

/// Makes it and says where it is.
pub fn make(staged: &Staged) -> Result<PathBuf, Error> {
    let name = format!("sweetspot-{VERSION}-{}-linux", staged.machine.name());
    let package = staged.packages.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .arg(format!("--mtime=@{}", source_date()))
        .arg(format!("--transform=s,^\\.,{name},"))
        .args(["--use-compress-program", "gzip -9n", "-cf"])
        .arg(&package)
        .arg("-C")
        .arg(staged.prefix())
        .arg(".");
    call(&mut tar).map(|_| package)
}

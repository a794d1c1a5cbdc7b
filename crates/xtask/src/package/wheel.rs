//! `cargo xtask wheel`: a Python wheel that carries the binary as a script, as ruff and uv do.
//!
//! Its tag says which glibc it needs at least, and is read from the binary and from the library that it
//! carries: a binary without shared libraries runs everywhere, but the library is loaded into programs
//! that use the machine's own glibc.

use super::{Error, Staged, VERSION, call, dated, write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's own, of which `python3-wheel` is a package; another one on the PATH may lack it.
pub const PYTHON: &str = "/usr/bin/python3";
/// The oldest for which there is a name; newer ones are named by their number.
const GLIBC_MIN: (u32, u32) = (2, 17);

/// Makes it and says where it is.
pub fn make(staged: &Staged) -> Result<PathBuf, Error> {
    let tree = tempfile::tempdir().map_err(|error| error.to_string())?;
    let at = |path: &str| tree.path().join(format!("sweetspot-{VERSION}.{path}"));
    let (major, minor) = glibc(&staged.binary())?;
    let tag = format!("py3-none-manylinux_{major}_{minor}_{}", std::env::consts::ARCH);
    staged.put("bin/sweetspot", &at("data/scripts/sweetspot"))?;
    for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
        staged
            .put(&format!("share/doc/sweetspot/{license}"), &at(&format!("dist-info/{license}")))?;
    }
    let readme = std::fs::read_to_string(super::root().join("README.md"));
    let readme = readme.map_err(|error| format!("README.md: {error}"))?;
    write(
        &at("dist-info/METADATA"),
        &format!(
            "Metadata-Version: 2.1\nName: sweetspot\nVersion: {VERSION}\n\
             Summary: {}\nLicense: MIT OR Apache-2.0\nLicense-File: LICENSE-MIT\n\
             License-File: LICENSE-APACHE\n\
             Classifier: Environment :: Console\nClassifier: Operating System :: POSIX :: Linux\n\
             Classifier: Programming Language :: Rust\nRequires-Python: >=3.7\n\
             Description-Content-Type: text/markdown\n\n{readme}",
            "Finds the right I/O buffering for a program and applies it, without changing the program"
        ),
    )?;
    write(
        &at("dist-info/WHEEL"),
        &format!(
            "Wheel-Version: 1.0\nGenerator: sweetspot xtask {VERSION}\nRoot-Is-Purelib: false\n\
             Tag: {tag}\n"
        ),
    )?;
    let mut pack = dated(PYTHON);
    pack.args(["-m", "wheel", "pack", "--dest-dir"]).arg(&staged.packages).arg(tree.path());
    call(&mut pack)?;
    Ok(staged.packages.join(format!("sweetspot-{VERSION}-{tag}.whl")))
}

/// The newest version of glibc that the binary or its library asks for.
fn glibc(binary: &Path) -> Result<(u32, u32), Error> {
    let cache = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut run = Command::new(binary);
    run.args(["run", "--", "printenv", "LD_PRELOAD"])
        .env_remove("LD_PRELOAD")
        .env_remove("SWEETSPOT")
        .env("SWEETSPOT_CACHE", cache.path());
    let library = call(&mut run)?;
    let needs = call(Command::new("readelf").arg("-VW").arg(binary).arg(&library))?;
    Ok(newest_glibc(&needs).max(GLIBC_MIN))
}

fn newest_glibc(needs: &str) -> (u32, u32) {
    let versions = needs.split("GLIBC_").skip(1).filter_map(|text| {
        let number = |text: &str| {
            let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
            text[..end].parse().ok()
        };
        let (major, minor) = text.split_once('.')?;
        Some((number(major)?, number(minor)?))
    });
    versions.max().unwrap_or(GLIBC_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts() {
        let check = |needs: &str, newest| assert_eq!(newest_glibc(needs), newest, "{needs}");
        check("No version information found in this file.", GLIBC_MIN);
        check("2 (GLIBC_2.2.5)  3 (GLIBC_2.34)\n Name: GLIBC_2.9  Flags: none", (2, 34));
        check("Name: GLIBC_2.2.5  Name: GLIBC_PRIVATE", (2, 2));
    }
}

//! `cargo xtask wheel`: a Python wheel that carries the binary as a script, as ruff and uv do.
//!
//! Its tags say two things: that programs with glibc [`GLIBC_FLOOR`] or newer can be buffered, into
//! which the library that it carries is loaded; and that it starts where there is only musl. The binary
//! itself needs no library of the machine's.

use super::{Error, GLIBC_FLOOR, Staged, VERSION, call, dated, write};
use std::path::PathBuf;

/// Debian's own, of which `python3-wheel` is a package; another one on the PATH may lack it.
pub const PYTHON: &str = "/usr/bin/python3";
/// The oldest musl for which pip has been told of wheels and which is still in use (Alpine 3.13).
const MUSL_FLOOR: (u32, u32) = (1, 2);

/// Makes it and says where it is.
pub fn make(staged: &Staged) -> Result<PathBuf, Error> {
    let tree = tempfile::tempdir().map_err(|error| error.to_string())?;
    let at = |path: &str| tree.path().join(format!("sweetspot-{VERSION}.{path}"));
    let platforms = platforms(staged.machine.name());
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
             {}",
            platforms.iter().map(|tag| format!("Tag: py3-none-{tag}\n")).collect::<String>()
        ),
    )?;
    let mut pack = dated(PYTHON);
    pack.args(["-m", "wheel", "pack", "--dest-dir"]).arg(&staged.packages).arg(tree.path());
    call(&mut pack)?;
    let tags = platforms.join(".");
    Ok(staged.packages.join(format!("sweetspot-{VERSION}-py3-none-{tags}.whl")))
}

/// The platforms on which it can be installed, in the order in which a file's name has them.
fn platforms(machine: &str) -> [String; 2] {
    let tag =
        |libc: &str, (major, minor): (u32, u32)| format!("{libc}linux_{major}_{minor}_{machine}");
    [tag("many", GLIBC_FLOOR), tag("musl", MUSL_FLOOR)]
}

#[cfg(test)]
mod tests {
    use super::platforms;

    #[test]
    fn a_wheel_is_for_glibc_and_for_musl() {
        let expected = ["manylinux_2_28_aarch64", "musllinux_1_2_aarch64"];
        assert_eq!(platforms("aarch64"), expected);
    }
}

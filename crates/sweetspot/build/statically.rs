//! Binaries that need no shared library: for build scripts.

use std::env::{var, var_os};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Libraries of the C compiler and of libc that rustc names when it links.
const LIBRARIES: [&str; 7] = ["gcc_s", "c", "m", "util", "rt", "pthread", "dl"];

/// Links the binary without any shared library, where libc is there as an archive: to load and
/// relocate them takes a third of the time that `sweetspot run` adds to a start.
///
/// At a fixed address, too: to relocate twelve thousand words, in fifty pages, takes another third.
///
/// rustc can do it (`crt-static`), but cargo has no way to ask for it for one package. So the
/// linker finds scripts in place of the shared libraries, which name the archives.
///
/// `kinds` are cargo's words for the targets: `bins`, `tests`.
pub fn link(kinds: &[&str]) {
    let wanted = var("CARGO_CFG_TARGET_ENV").is_ok_and(|libc| libc == "gnu")
        && !var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default().contains("crt-static");
    let Some(compiler) = compiler().filter(|_| wanted) else { return };
    let archives =
        ["libc.a", "libm.a", "libgcc.a", "libgcc_eh.a"].map(|name| archive(&compiler, name));
    let [Some(c), Some(m), Some(gcc), Some(gcc_eh)] = archives else { return };
    let folder = Path::new(&var("OUT_DIR").unwrap()).join("static");
    std::fs::create_dir_all(&folder).unwrap();
    for name in LIBRARIES {
        let script = match name {
            "m" => format!("INPUT({m})\n"),
            "c" => format!("GROUP({c} {gcc} {gcc_eh})\n"),
            // Something that is there already: GNU's linker takes no empty list.
            _ => format!("INPUT({gcc})\n"),
        };
        std::fs::write(folder.join(format!("lib{name}.so")), script).unwrap();
    }
    for kind in kinds {
        println!("cargo::rustc-link-arg-{kind}=-L{}", folder.display());
        println!("cargo::rustc-link-arg-{kind}=-static");
        println!("cargo::rustc-link-arg-{kind}=-no-pie");
    }
}

/// The C compiler that rustc links with. For another machine than this one it must have been named
/// (`CARGO_TARGET_..._LINKER`): `cc` makes programs for this one.
fn compiler() -> Option<OsString> {
    let named = var_os("RUSTC_LINKER");
    named.or_else(|| (var("HOST") == var("TARGET")).then(|| "cc".into()))
}

/// The path of an archive that the C compiler would link.
fn archive(compiler: &OsString, name: &str) -> Option<String> {
    let asked = Command::new(compiler).arg(format!("-print-file-name={name}")).output().ok()?;
    let path = String::from_utf8(asked.stdout).ok()?.trim().to_string();
    Path::new(&path).is_absolute().then_some(path)
}

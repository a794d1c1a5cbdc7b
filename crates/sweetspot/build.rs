//! Builds the preload library from its own crate and lets the binary embed it.
//!
//! A cdylib without the standard library needs a panic handler, exported C names and linker
//! arguments that its rlib, used by tests beside std, must not have. So it is built by a second
//! cargo, in a target folder of its own (no lock is shared), with `--cfg preload_abi`.
//!
//! Tells the crate: `SWEETSPOT_PRELOAD_SO` (path of the library), `SWEETSPOT_PRELOAD_HASH` (its
//! content hash), and passes on `SWEETSPOT_LIBDIR` where a package sets it.

#[path = "build/statically.rs"]
mod statically;

use std::env::{var, var_os};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let preload = PathBuf::from(var("DEP_SWEETSPOT_PRELOAD_MANIFEST_DIR").unwrap());
    let core = PathBuf::from(var("DEP_SWEETSPOT_CORE_MANIFEST_DIR").unwrap());
    rerun_if_changed(&preload, &core);

    println!("cargo::rerun-if-env-changed=DOCS_RS");
    let mut content = Vec::new();
    // Where nothing but documentation is made, nothing is run (and docs.rs can download nothing).
    if var_os("DOCS_RS").is_none() {
        let built = build(&preload, &core);
        content = std::fs::read(&built)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", built.display()));
        take_sizes(&mut content);
    }
    let library = Path::new(&var("OUT_DIR").unwrap()).join("libsweetspot_preload.so");
    std::fs::write(&library, &content).unwrap();
    println!("cargo::rustc-env=SWEETSPOT_PRELOAD_SO={}", library.display());
    println!("cargo::rustc-env=SWEETSPOT_PRELOAD_HASH={:032x}", hash(&content));
    println!("cargo::rerun-if-env-changed=SWEETSPOT_LIBDIR");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    // The table of programs runs on other systems, too.
    statically::link(&["bins", "tests"]);
}

fn rerun_if_changed(preload: &Path, core: &Path) {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    for folder in [preload, core] {
        for name in ["src", "Cargo.toml", "build.rs"] {
            println!("cargo::rerun-if-changed={}", folder.join(name).display());
        }
    }
    for name in ["link.txt", "profile.toml"] {
        println!("cargo::rerun-if-changed={}", preload.join(name).display());
    }
    // In a workspace, its profile and lock file decide too; from a registry there is none.
    let workspace = Path::new(&var("CARGO_MANIFEST_DIR").unwrap()).join("../..");
    for name in ["Cargo.toml", "Cargo.lock"] {
        let path = workspace.join(name);
        if path.is_file() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}

/// Builds the cdylib and returns its path.
fn build(preload: &Path, core: &Path) -> PathBuf {
    let target = var("TARGET").unwrap();
    let folder = Path::new(&var("OUT_DIR").unwrap()).join("preload");
    let mut cargo = Command::new(var_os("CARGO").unwrap());
    cargo
        .args(["rustc", "--lib", "--release", "--crate-type", "cdylib"])
        .arg("--manifest-path")
        .arg(preload.join("Cargo.toml"))
        .arg("--config")
        .arg(preload.join("profile.toml"))
        .args(["--target", &target])
        .arg("--target-dir")
        .arg(&folder);
    if !preload.join("../../Cargo.lock").is_file() {
        // From a registry: core is not beside it under a version that is published already.
        cargo
            .arg("--config")
            .arg(format!("patch.crates-io.sweetspot-core.path={:?}", core.display().to_string()));
    }
    cargo.args(["--", "--cfg", "preload_abi"]).args(link_arguments(preload));
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"]
    {
        cargo.env_remove(name);
    }
    let status = cargo.status().expect("cargo can be started");
    assert!(status.success(), "building the preload library failed; its errors are above");
    folder.join(target).join("release/libsweetspot_preload.so")
}

/// Sets the sizes of all functions that the library exports to 0, which means that they are not known.
///
/// A program may use a variable of one of its libraries that has the name of a hook. glibc's loader would copy
/// from the hook what the variable is to hold at the start, and say on standard error that it had another size.
fn take_sizes(library: &mut [u8]) {
    const SECTION_BYTES: usize = 64;
    const SYMBOL_BYTES: usize = 24;
    const SHT_DYNSYM: usize = 11;
    const STT_FUNC: u8 = 2;
    let word = |library: &[u8], at: usize, bytes: usize| {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&library[at..at + bytes]);
        usize::try_from(u64::from_le_bytes(word)).unwrap()
    };
    assert_eq!(&library[..6], b"\x7fELF\x02\x01", "64 bits, little-endian");
    let (first, count) = (word(library, 0x28, 8), word(library, 0x3c, 2));
    let mut sections = (0..count).map(|index| first + index * SECTION_BYTES);
    let symbols = sections.find(|at| word(library, at + 4, 4) == SHT_DYNSYM).expect("symbols");
    let (from, bytes) = (word(library, symbols + 0x18, 8), word(library, symbols + 0x20, 8));
    for symbol in library[from..from + bytes].chunks_exact_mut(SYMBOL_BYTES) {
        if symbol[4] & 15 == STT_FUNC {
            symbol[16..].fill(0);
        }
    }
}

/// The lines of the preload crate's `link.txt`.
fn link_arguments(preload: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(preload.join("link.txt")).expect("link.txt can be read");
    let lines = text.lines().filter(|line| line.starts_with('-'));
    lines.map(str::to_owned).collect()
}

/// FNV-1a with 128 bits. It only names the file: anyone who uses the file compares every byte.
fn hash(content: &[u8]) -> u128 {
    content.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, &byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

//! Builds the library as the `sweetspot` binary's build script does, once for all tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The built library.
pub fn path() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build)
}

fn build() -> PathBuf {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preload");
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo
        .args(["rustc", "--quiet", "--lib", "--release", "--crate-type", "cdylib"])
        .arg("--manifest-path")
        .arg(package.join("Cargo.toml"))
        .arg("--config")
        .arg(package.join("profile.toml"))
        .args(["--target", &target, "--target-dir"])
        .arg(&folder)
        .args(["--", "--cfg", "preload_abi"])
        .args(include_str!("../../link.txt").lines().filter(|line| line.starts_with('-')));
    for variable in
        ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"]
    {
        cargo.env_remove(variable);
    }
    let status = cargo.status().expect("cargo runs");
    assert!(status.success(), "the library does not build: {cargo:?}");
    folder.join(target).join("release/libsweetspot_preload.so")
}

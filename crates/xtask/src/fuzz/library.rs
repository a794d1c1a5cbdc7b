//! `cargo xtask fuzz library`: the fuzz targets of `sweetspot-io`, with libFuzzer.
//!
//! Each compares a verb with a few lines of std that say the same. libFuzzer keeps the inputs that
//! reach new code and changes these further. The stable compiler can count what is reached, by a pass
//! of LLVM; only sanitizers of memory would need another.

use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sweetspot-io/fuzz");

/// Makes the compiler count what is reached, as libFuzzer reads it (`cargo fuzz` passes the same).
const COVERAGE: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
];

/// Inputs as long as some stretches of the vector code.
const INPUT_BYTES_MAX: usize = 16 << 10;

/// Runs each target for `seconds`.
///
/// # Errors
/// Where one cannot be built, or fails: with the file of the input that it fails for.
pub fn run(seconds: u64, seed: u64) -> Result<String, String> {
    let built = cargo("build").status().map_err(|error| format!("cannot start cargo: {error}"))?;
    if !built.success() {
        return Err("a fuzz target does not compile".into());
    }
    let targets = targets()?;
    let mut inputs = 0;
    for target in &targets {
        let found = fuzz(target, seconds, seed)?;
        println!("{target}: {found} inputs");
        inputs += found;
    }
    Ok(format!("{} targets, {inputs} inputs, all as expected", targets.len()))
}

/// The names of all targets.
fn targets() -> Result<Vec<String>, String> {
    let folder = Path::new(FOLDER).join("fuzz_targets");
    let entries =
        folder.read_dir().map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut names: Vec<_> =
        paths.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort_unstable();
    Ok(names)
}

/// Runs one target. Says how many inputs it tried.
fn fuzz(target: &str, seconds: u64, seed: u64) -> Result<u64, String> {
    let failed = target_folder().join(format!("failed-{target}-"));
    let output = cargo("run")
        .args(["--bin", target, "--"])
        // 0 would mean any seed.
        .arg(format!("-seed={}", seed.clamp(1, u64::from(u32::MAX))))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={INPUT_BYTES_MAX}"))
        .arg(format!("-artifact_prefix={}", failed.display()))
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let done = said.lines().find_map(|line| line.strip_prefix("Done ")?.split(' ').next());
    match (output.status.success(), done.and_then(|number| number.parse().ok())) {
        (true, Some(inputs)) if inputs > 0 => Ok(inputs),
        _ => Err(format!("{target} failed:\n{said}")),
    }
}

fn target_folder() -> PathBuf {
    Path::new(FOLDER).join("../../../target/fuzz")
}

/// Cargo, in the workspace of the targets. Without `--target` its build scripts would be counted too,
/// which do not link so.
fn cargo(verb: &str) -> Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([verb, "--release", "--locked", "--target", "host-tuple"]);
    command.current_dir(FOLDER);
    command.env("CARGO_TARGET_DIR", target_folder());
    command.env("CARGO_ENCODED_RUSTFLAGS", COVERAGE.join("\u{1f}"));
    command
}

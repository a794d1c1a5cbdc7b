//! Each package is made, installed, used and removed, and must leave nothing.
//!
//! What the machine lacks is said; in CI that is a failure.

use super::{Error, GLIBC_FLOOR, Staged, Trial, VERSION, call, deb, root, tarball, wheel};
use crate::build::{self, Machine};
use crate::commands::{no_command, untold};
use crate::debian;
use crate::fuzz::kit::compiler_options;
use crate::matrix;
use crate::needs::in_ci;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use sweetspot_core::environment::CACHE;
use sweetspot_report::summary::Figures;

/// How trying one ended, when it did not fail.
enum Outcome {
    Works(String),
    Skipped(String),
}

type Try = fn(&Staged) -> Result<Outcome, Error>;

/// Tries all; true if nothing failed.
pub fn all(staged: &Staged, trial: Trial) -> bool {
    let quick: [(&str, Try); 5] = [
        ("library", try_library),
        ("manual", try_manual),
        ("deb", try_deb),
        ("wheel", try_wheel),
        ("tarball", try_tarball),
    ];
    let whole: [(&str, Try); 5] = [
        ("library", try_library),
        ("manual", try_manual),
        ("deb", |staged| elsewhere(staged, deb::make)),
        ("wheel", |staged| elsewhere(staged, wheel::make)),
        ("tarball", |staged| elsewhere(staged, tarball::make)),
    ];
    let tries = if trial == Trial::Quick { quick } else { whole };
    tries.into_iter().fold(true, |well, (name, attempt)| {
        well & report(&format!("{name} {}", staged.machine.name()), || attempt(staged))
    })
}

/// Another machine without a package for it: that all of the project compiles for it, and that its
/// library, which is really built, can be loaded there and asks for no newer C library.
pub fn other_machine(machine: Machine) -> bool {
    report(&format!("check {}", machine.name()), || {
        // Its linker is among what the tests need; in CI it is there.
        let library = match build::can_link(machine) {
            Err(reason) => return Ok(Outcome::Skipped(reason)),
            Ok(_) => build::check(machine)?,
        };
        let floor = floor_of(&library)?;
        let emulator = machine.emulator().unwrap_or_default();
        if let Some(skipped) = lacking(&[(&emulator, "qemu-user-static")]) {
            return Ok(skipped);
        }
        loads(&library, machine, &emulator)?;
        Ok(Outcome::Works(format!("its library loads, and {floor}")))
    })
}

/// Starts a program of another machine with its library, switched on.
fn loads(library: &Path, machine: Machine, emulator: &str) -> Result<(), Error> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let at = |name: &str| scratch.path().join(name);
    let mut compile = Command::new(machine.tool("gcc"));
    compile.arg(compiler_options()).arg("-o").arg(at("copy"));
    call(compile.arg(root().join("programs/c/copy.c")))?;
    fs::write(at("in"), vec![b'x'; 10_000]).map_err(|error| error.to_string())?;
    let mut run = Command::new(emulator);
    run.args(["-L", &format!("/usr/{}-linux-gnu", machine.name())]);
    run.args(["-E", &format!("LD_PRELOAD={}", library.display()), "-E", "IO_BUFFER_SIZE=auto"]);
    run.arg(at("copy")).args(["in", "out", "7"]).current_dir(scratch.path());
    run.stdin(Stdio::null());
    // What the dynamic linker cannot load it only says.
    let output = run.output().map_err(|error| format!("{emulator}: {error}"))?;
    if !output.status.success() || !output.stderr.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{emulator} ended with {}: {said}", output.status));
    }
    call(Command::new("cmp").arg(at("in")).arg(at("out"))).map(drop)
}

/// Says how one attempt ended; false if it failed.
fn report(name: &str, attempt: impl FnOnce() -> Result<Outcome, Error>) -> bool {
    let started = Instant::now();
    let (said, well) = match attempt() {
        Ok(Outcome::Works(what)) => (what, true),
        Ok(Outcome::Skipped(reason)) => (format!("skipped: {reason}"), !in_ci()),
        Err(error) => (format!("FAILED: {error}"), false),
    };
    println!("{name:<16} {:5.1} s  {said}", started.elapsed().as_secs_f64());
    well
}

/// What the library asks of the C library into whose programs it is loaded: nothing newer than the
/// floor.
fn try_library(staged: &Staged) -> Result<Outcome, Error> {
    floor_of(&staged.library).map(Outcome::Works)
}

fn floor_of(library: &Path) -> Result<String, Error> {
    let symbols = call(Command::new("readelf").args(["-W", "--version-info"]).arg(library))?;
    let newest = newest_glibc(&symbols).ok_or("the library asks for no version of glibc")?;
    let text = |(major, minor): (u32, u32)| format!("glibc {major}.{minor}");
    match newest <= GLIBC_FLOOR {
        true => Ok(format!("asks for {}", text(newest))),
        false => Err(format!("the library asks for {}, not {}", text(newest), text(GLIBC_FLOOR))),
    }
}

/// The newest version among those that readelf names.
fn newest_glibc(symbols: &str) -> Option<(u32, u32)> {
    let number = |text: &str| {
        let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        text[..end].parse().ok()
    };
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|text| {
        let (major, minor) = text.split_once('.')?;
        Some((number(major)?, number(minor)?))
    });
    versions.max()
}

/// The first of the commands that is not there, as a reason to skip.
fn lacking(needs: &[(&str, &str)]) -> Option<Outcome> {
    no_command(needs).map(Outcome::Skipped)
}

/// The pages are set without a warning, but for mandoc's about line breaks that clap_mangen makes.
fn try_manual(staged: &Staged) -> Result<Outcome, Error> {
    if let Some(skipped) = lacking(&[("groff", "groff-base"), ("mandoc", "mandoc")]) {
        return Ok(skipped);
    }
    let script = "for page in \"$1\"/*.1.gz; do
            gunzip -c \"$page\" > page
            groff -man -ww -Tutf8 -z page 2>> warnings
            mandoc -T lint -W warning page | grep -v 'paragraph macro: br' >> warnings || true
        done
        ls \"$1\" | wc -l
        cat warnings >&2
        ! test -s warnings";
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let pages = staged.prefix().join("share/man/man1");
    let mut sh = Command::new("sh");
    sh.args(["-euc", script, "sh"]).arg(pages).current_dir(scratch.path());
    call(&mut sh).map(|count| Outcome::Works(format!("{count} pages, no warning")))
}

/// In the root of another release that the matrix has in its short form.
fn try_deb(staged: &Staged) -> Result<Outcome, Error> {
    let package = deb::make(staged)?;
    if let Some(skipped) = lacking(&[("lintian", "lintian")]) {
        return Ok(skipped);
    }
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning"]).arg(&package);
    call(&mut lintian)?;
    let skipped = no_roots(staged);
    skipped.map_or_else(|| in_root(staged, &package, &matrix::oldest_root()?), Ok)
}

/// In clean roots of other releases than this one.
fn elsewhere(
    staged: &Staged,
    make: fn(&Staged) -> Result<PathBuf, Error>,
) -> Result<Outcome, Error> {
    let package = make(staged)?;
    if let Some(skipped) = no_roots(staged) {
        return Ok(skipped);
    }
    // What is emulated takes minutes.
    let releases: &[&str] =
        if staged.machine == Machine::HERE { &["bullseye", "trixie"] } else { &["trixie"] };
    let mut said = Vec::new();
    for release in releases {
        let within = debian::clean(release, staged.machine)?;
        match in_root(staged, &package, &within)? {
            Outcome::Works(what) => said.push(what),
            skipped => return Ok(skipped),
        }
    }
    Ok(Outcome::Works(said.join("; ")))
}

/// What this machine lacks to try packages in roots.
fn no_roots(staged: &Staged) -> Option<Outcome> {
    let emulator = staged.machine.emulator();
    let needs = emulator.iter().map(|emulator| (emulator.as_str(), "qemu-user-static"));
    let skipped = lacking(&needs.collect::<Vec<_>>());
    skipped.or_else(|| debian::lacking().map(Outcome::Skipped))
}

fn in_root(staged: &Staged, package: &Path, within: &Path) -> Result<Outcome, Error> {
    let mut script = Command::new(root().join("scripts/try-package.sh"));
    script.arg(within).arg(package);
    script.args(staged.machine.emulator().map(|emulator| Path::new("/usr/bin").join(emulator)));
    let said = call(&mut script)?.replace('\n', ", ");
    let name = within.file_name().unwrap_or_default().to_string_lossy();
    Ok(Outcome::Works(format!("{name}: {said}")))
}

/// In a virtual environment of its own.
fn try_wheel(staged: &Staged) -> Result<Outcome, Error> {
    let needs = [
        (wheel::PYTHON, "python3"),
        ("/usr/lib/python3/dist-packages/wheel/__init__.py", "python3-wheel"),
        ("/usr/lib/python3.11/ensurepip/__init__.py", "python3.11-venv"),
    ];
    if let Some(skipped) = lacking(&needs) {
        return Ok(skipped);
    }
    let package = wheel::make(staged)?;
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let at = |name: &str| scratch.path().join(name);
    call(Command::new(wheel::PYTHON).args(["-m", "venv"]).arg(at("venv")))?;
    let before = files(&at("venv"))?;
    let pip = |words: &[&str]| {
        let mut pip = Command::new(at("venv/bin/pip"));
        pip.args(["--disable-pip-version-check", "--no-cache-dir"]).args(words);
        // Only what pip itself leaves is looked at, not what Python compiles of pip.
        pip.env("PYTHONDONTWRITEBYTECODE", "1");
        pip
    };
    call(pip(&["install", "--no-index"]).arg(&package))?;
    let said = use_it(&at("venv/bin/sweetspot"), scratch.path())?;
    call(&mut pip(&["uninstall", "--yes", "sweetspot"]))?;
    nothing_left(&before, &files(&at("venv"))?)?;
    let name = package.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Outcome::Works(format!("{name}: {said}")))
}

/// Unpacked into a prefix.
fn try_tarball(staged: &Staged) -> Result<Outcome, Error> {
    let package = tarball::make(staged)?;
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let prefix = scratch.path().join("prefix");
    fs::create_dir(&prefix).map_err(|error| error.to_string())?;
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(&prefix).args(["--strip-components=1", "-xf"]).arg(&package);
    call(&mut tar)?;
    let page = prefix.join("share/man/man1/sweetspot-run.1.gz");
    if !page.is_file() {
        return Err(format!("no {}", page.display()));
    }
    use_it(&prefix.join("bin/sweetspot"), scratch.path()).map(Outcome::Works)
}

/// Asks for the version, and copies records under `run`, which must be buffered.
fn use_it(binary: &Path, scratch: &Path) -> Result<String, Error> {
    let at = |name: &str| scratch.join(name);
    let version = call(Command::new(binary).arg("--version"))?;
    if version != format!("sweetspot {VERSION}") {
        return Err(format!("it says that it is {version:?}"));
    }
    fs::write(at("in"), vec![b'x'; 40_000_000]).map_err(|error| error.to_string())?;
    let mut run = Command::new(binary);
    run.arg("run").arg(format!("--summary={}", at("summary").display()));
    run.args(["--", "dd", "if=in", "of=out", "bs=200", "status=none"]);
    run.current_dir(scratch).env(CACHE, at("cache"));
    call(untold(&mut run))?;
    call(Command::new("cmp").arg(at("in")).arg(at("out")))?;
    let summary = fs::read_to_string(at("summary")).map_err(|error| error.to_string())?;
    match Figures::read(&summary).calls {
        // On a busy machine the guard may answer late, and until then writes pass through.
        Some((requested, made)) if made * 2 < requested => {
            Ok(format!("{requested} calls requested, {made} made"))
        }
        _ => Err(format!("nothing was buffered:\n{summary}")),
    }
}

fn files(folder: &Path) -> Result<Vec<String>, Error> {
    let list = call(Command::new("find").arg(folder))?;
    let mut list: Vec<String> = list.lines().map(str::to_owned).collect();
    list.sort_unstable();
    Ok(list)
}

fn nothing_left(before: &[String], after: &[String]) -> Result<(), Error> {
    let left: Vec<&String> = after.iter().filter(|file| !before.contains(file)).collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(format!("left after it was uninstalled: {left:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts() {
        let check = |symbols: &str, newest| assert_eq!(newest_glibc(symbols), newest, "{symbols}");
        check("No version information found in this file.", None);
        check("2 (GLIBC_2.2.5)  3 (GLIBC_2.34)\n Name: GLIBC_2.9  Flags: none", Some((2, 34)));
        check("Name: GLIBC_2.2.5  Name: GLIBC_PRIVATE", Some((2, 2)));
    }
}

//! Each package is made, installed, used and removed, and must leave nothing.
//!
//! What the machine lacks is said; in CI that is a failure.

use super::{Error, Staged, VERSION, call, deb, root, tarball, wheel};
use crate::needs::{in_ci, is_there, tools};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// How trying one ended, when it did not fail.
enum Outcome {
    Works(String),
    Skipped(String),
}

type Try = fn(&Staged) -> Result<Outcome, Error>;

/// Tries all; true if nothing failed.
pub fn all(staged: &Staged) -> bool {
    let tries: [(&str, Try); 4] =
        [("manual", try_manual), ("deb", try_deb), ("wheel", try_wheel), ("tarball", try_tarball)];
    let mut all_well = true;
    for (name, attempt) in tries {
        let started = Instant::now();
        let said = match attempt(staged) {
            Ok(Outcome::Works(what)) => what,
            Ok(Outcome::Skipped(reason)) => {
                all_well &= !in_ci();
                format!("skipped: {reason}")
            }
            Err(error) => {
                all_well = false;
                format!("FAILED: {error}")
            }
        };
        println!("{name:<8} {:5.1} s  {said}", started.elapsed().as_secs_f64());
    }
    all_well
}

/// The first of the commands that is not there, as a reason to skip.
fn lacking(needs: &[(&str, &str)]) -> Option<Outcome> {
    let (command, package) = needs.iter().find(|(command, _)| !is_there(command))?;
    Some(Outcome::Skipped(format!("no {command} (apt-get install {package})")))
}

fn is_root() -> bool {
    call(Command::new("id").arg("-u")).is_ok_and(|user| user == "0")
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

/// In a clean root of its own, which is made once.
fn try_deb(staged: &Staged) -> Result<Outcome, Error> {
    let package = deb::make(staged)?;
    let needs = [("lintian", "lintian"), ("mmdebstrap", "mmdebstrap"), ("unshare", "util-linux")];
    if let Some(skipped) = lacking(&needs) {
        return Ok(skipped);
    }
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning"]).arg(&package);
    call(&mut lintian)?;
    if !is_root() {
        return Ok(Outcome::Skipped("only root can install it in a clean root".to_owned()));
    }
    let clean = clean_root()?;
    let script = root().join("scripts/try-deb.sh");
    call(Command::new(script).arg(clean).arg(&package)).map(Outcome::Works)
}

/// A Debian without anything, of this machine's release, as an archive below `target/tools`.
fn clean_root() -> Result<PathBuf, Error> {
    let suite =
        call(Command::new("sh").args(["-ec", ". /etc/os-release; echo $VERSION_CODENAME"]))?;
    let archive = tools().join(format!("{suite}.tar"));
    if archive.is_file() {
        return Ok(archive);
    }
    fs::create_dir_all(tools()).map_err(|error| error.to_string())?;
    // From where this machine has its packages.
    let targets = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"];
    let mirrors = call(Command::new("apt-get").args(targets))?;
    let mirror = mirrors.lines().next().ok_or("apt knows no mirror")?;
    let begun = tools().join(format!("{suite}.begun.tar"));
    let mut make = Command::new("mmdebstrap");
    make.args(["--variant=essential", &suite]).arg(&begun).arg(mirror);
    call(&mut make)?;
    fs::rename(&begun, &archive).map_err(|error| error.to_string())?;
    Ok(archive)
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
    run.current_dir(scratch).env("SWEETSPOT_CACHE", at("cache"));
    for variable in ["LD_PRELOAD", "SWEETSPOT", "SWEETSPOT_LEDGER", "IO_BUFFER_SIZE"] {
        run.env_remove(variable);
    }
    call(&mut run)?;
    call(Command::new("cmp").arg(at("in")).arg(at("out")))?;
    let summary = fs::read_to_string(at("summary")).map_err(|error| error.to_string())?;
    let calls = summary.lines().find_map(|line| line.strip_prefix("calls"));
    // "50000, left of them 489"
    let counts = calls.and_then(|calls| calls.trim().split_once(", left of them "));
    let number = |text: &str| text.trim().parse::<u64>().ok();
    match counts.and_then(|(made, left)| Some((number(made)?, number(left)?))) {
        // On a busy machine the guard may answer late, and until then writes go straight on.
        Some((made, left)) if left * 2 < made => Ok(format!("{made} calls, left of them {left}")),
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

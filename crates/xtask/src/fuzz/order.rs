//! An observer outside the tree, while a program (`programs/c/observed.c`) writes to several files and
//! makes known by names and through a pipe how far it is: it never sees an effect before its cause.
//!
//! Within a round the program writes the files one after the other, so a file that holds anything of
//! a round means that those before it hold all of it. A name, or a number from the pipe, means that
//! every file holds the whole round.

use super::kit::Kit;
use super::process::{PATIENCE, wait_until};
use crate::saved::saved;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Stdio;

/// Sizes among which the rounds are shared out.
const SIZES: &[&str] = &["auto", "512", "64K", "1M"];
/// The victim's constants.
const FILES: usize = 5;
const RECORDS: u64 = 24;
const RECORD_BYTES: u64 = 16;

/// Observes `rounds` rounds. Returns the closing line.
///
/// # Errors
/// What was seen too early; or that nothing was buffered, or too little observed.
pub fn run(kit: Kit, rounds: u64, seed: u64) -> Result<String, String> {
    kit.compile("observed")?;
    let each = rounds.div_ceil(SIZES.len() as u64);
    let (mut looks, mut all_saved) = (0, 0);
    for (index, size) in SIZES.iter().enumerate() {
        let work = kit.work()?;
        let own = seed + index as u64;
        let observed = observe(&kit, work.path(), size, each, own)
            .map_err(|wrong| format!("size {size}, seed {own}: {wrong}"))?;
        looks += observed.looks;
        all_saved += observed.saved;
    }
    if all_saved == 0 || looks < rounds / 10 {
        return Err(format!("{looks} looks at {rounds} rounds, {all_saved} calls buffered"));
    }
    Ok(format!(
        "{looks} looks at {rounds} rounds, {all_saved} calls buffered, nothing seen too early"
    ))
}

struct Observed {
    looks: u64,
    saved: u64,
}

fn observe(
    kit: &Kit,
    folder: &Path,
    size: &str,
    rounds: u64,
    seed: u64,
) -> Result<Observed, String> {
    let errors = File::create(folder.join("stderr")).map_err(|error| error.to_string())?;
    let mut command = kit.command(&kit.sweetspot, folder);
    command.args(["run", "--summary=summary", "--buffer-size", size, "--"]);
    command.arg(kit.program("observed")).args([rounds.to_string(), seed.to_string()]);
    let child = command.stdout(Stdio::piped()).stderr(errors).spawn();
    let mut child = child.map_err(|error| error.to_string())?;
    let mut told = child.stdout.take().ok_or("no pipe")?;
    never_wait(&told)?;
    let last = folder.join(format!("order-{}", FILES - 1));
    wait_until("the program to begin", PATIENCE, || last.exists())?;
    let mut files = Vec::new();
    for file in 0..FILES {
        let path = folder.join(format!("order-{file}"));
        files.push(File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?);
    }
    let mut looks = 0;
    let outcome = loop {
        // Asked first: the last look is at a program that has ended.
        let ended = child.try_wait().map_err(|error| error.to_string())?;
        if let Err(wrong) = look(folder, &files, &mut told) {
            break Err(wrong);
        }
        looks += 1;
        if let Some(status) = ended {
            break if status.success() { Ok(()) } else { Err(status.to_string()) };
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    outcome?;
    if let Some(short) = sizes(&files)?.iter().find(|size| **size != rounds * ROUND_BYTES) {
        return Err(format!("at the end a file has {short} bytes"));
    }
    let summary = fs::read_to_string(folder.join("summary")).map_err(|error| error.to_string())?;
    Ok(Observed { looks, saved: saved(&summary) })
}

const ROUND_BYTES: u64 = RECORDS * RECORD_BYTES;

/// Looks once: at what was made known and then at the files; at the files from the last to the first.
fn look(folder: &Path, files: &[File], told: &mut impl Read) -> Result<(), String> {
    let mut known = named(folder);
    let mut bytes = [0; 8];
    while told.read_exact(&mut bytes).is_ok() {
        known = known.max(u64::from_ne_bytes(bytes));
    }
    let sizes = sizes(files)?;
    if let Some(file) = sizes.iter().position(|size| *size < known * ROUND_BYTES) {
        let size = sizes[file];
        return Err(format!("round {known} was made known, and file {file} has {size} bytes"));
    }
    // A file that was looked at earlier is not further than one before it, looked at later.
    for (file, pair) in sizes.windows(2).enumerate() {
        let begun = pair[1].div_ceil(ROUND_BYTES);
        if pair[0] < begun * ROUND_BYTES {
            let (before, after) = (pair[0], pair[1]);
            return Err(format!(
                "file {} has {after} bytes, of round {begun}, and file {file} {before} only",
                file + 1
            ));
        }
    }
    Ok(())
}

/// The sizes, asked for from the last file to the first.
fn sizes(files: &[File]) -> Result<Vec<u64>, String> {
    let asked = files.iter().rev().map(|file| file.metadata().map(|data| data.len()));
    let mut sizes: Vec<u64> = asked.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    sizes.reverse();
    Ok(sizes)
}

/// The last round that a name tells of.
fn named(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let rounds =
        entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("said-")?.parse().ok());
    rounds.max().unwrap_or(0)
}

/// Reading what is not there yet fails instead of waiting.
#[allow(unsafe_code)]
fn never_wait(pipe: &impl AsRawFd) -> Result<(), String> {
    // SAFETY: no pointers; the descriptor is open.
    match unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().to_string()),
    }
}

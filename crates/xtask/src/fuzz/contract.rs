//! Random programs of calls (`programs/c/fuzz_calls.c`) with and without buffering: what each call
//! returned and what the files hold must be equal at every size. A failing program is made as short
//! as it can be while it still fails.

use super::kit::{Kit, own_words, patience};
use super::model::Random;
use super::process::bounded;
use super::workers::side_by_side;
use std::collections::BTreeMap;
use std::fs;
use std::io::Seek;
use std::path::Path;
use std::time::Duration;

/// Sizes at which each program runs.
const SIZES: &[&str] = &["auto", "1", "2", "7", "512", "4096", "64K", "1M"];
/// Kinds of programs, and calls in one.
const KINDS: &[(&str, u64)] = &[
    ("sequential", 150),
    ("mixed", 300),
    ("wild", 500),
    ("appending", 300),
    ("outside", 300),
    ("input", 200),
    ("company", 200),
    ("handed", 300),
];
/// A program that takes longer hangs, unless the machine is said to be slow.
const LIFE_MAX: Duration = Duration::from_secs(20);

/// A random program.
#[derive(Clone, Copy, Debug)]
struct Program {
    seed: u64,
    calls: u64,
    kind: &'static str,
}

/// What can be seen of a run.
#[derive(PartialEq)]
struct Seen {
    ended: String,
    output: Vec<u8>,
    /// Where it left the offset that it shares with us.
    offset: u64,
    files: BTreeMap<String, Vec<u8>>,
}

/// Runs programs of `operations` calls together, each at every size. Returns the closing line.
///
/// # Errors
/// The first program that differs, shortened, with the commands that repeat it.
pub fn run(kit: Kit, operations: u64, seed: u64) -> Result<String, String> {
    kit.compile("fuzz_calls")?;
    let (mut calls, mut programs) = (0, 0);
    let cases = std::iter::from_fn(|| {
        let left = operations.checked_sub(calls).filter(|left| *left > 0)?;
        let program = Program::new(seed + programs, left);
        calls += program.calls;
        programs += 1;
        Some(program)
    });
    side_by_side(cases, |program| {
        let native = see(&kit, program, None)?;
        for size in SIZES {
            let seen = see(&kit, program, Some(size))?;
            if seen != native {
                let first = difference(&native, &seen);
                return Err(shortened(&kit, program, size, &first)?);
            }
        }
        Ok(())
    })?;
    Ok(format!("{calls} calls in {programs} programs at {} sizes, 0 differences", SIZES.len()))
}

impl Program {
    /// The one that follows from a seed, of so many calls at most.
    fn new(seed: u64, calls_max: u64) -> Program {
        let (kind, calls) = Random::new(seed).pick(KINDS);
        Program { seed, calls: calls.min(calls_max), kind }
    }
}

fn differs(kit: &Kit, program: Program, size: &str) -> Result<bool, String> {
    Ok(see(kit, program, None)? != see(kit, program, Some(size))?)
}

/// The shortest beginning of a program that still differs, and where. What differs once in a while says how it
/// differed first.
fn shortened(kit: &Kit, program: Program, size: &str, first: &str) -> Result<String, String> {
    let with = |calls| Program { calls, ..program };
    // `fails` does, `passes` does not; a program is a beginning of the longer one.
    let (mut passes, mut fails) = (0, program.calls);
    while fails - passes > 1 {
        let middle = passes.midpoint(fails);
        if differs(kit, with(middle), size)? {
            fails = middle;
        } else {
            passes = middle;
        }
    }
    let Program { seed, kind, calls } = with(fails);
    let native = see(kit, with(fails), None)?;
    let seen = see(kit, with(fails), Some(size))?;
    let differs = match native == seen {
        true => format!("not every time; at first: {first}"),
        false => difference(&native, &seen),
    };
    let mut text = format!("a program of {calls} calls differs at size {size}: {differs}\n");
    text.push_str(&format!(
        "  again: cargo xtask fuzz contract --ops {} --seed {seed}\n  program: fuzz_calls {seed} {calls} {kind}",
        program.calls
    ));
    Ok(text)
}

fn difference(native: &Seen, seen: &Seen) -> String {
    if native.ended != seen.ended {
        return format!("it ended with {}, natively {}", seen.ended, native.ended);
    }
    let lines = |seen: &Seen| {
        let text = String::from_utf8_lossy(&seen.output).into_owned();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (before, now) = (lines(native), lines(seen));
    let place = before.iter().zip(&now).position(|(before, now)| before != now);
    if let Some(place) = place {
        let earlier = before[..place].iter().rev().take(5).rev();
        let earlier: String = earlier.map(|line| format!("\n    {line}")).collect();
        return format!("{earlier}\n  - {}\n  + {}", before[place], now[place]);
    }
    if native.offset != seen.offset {
        return format!("the shared offset {}, natively {}", seen.offset, native.offset);
    }
    let name = native.files.iter().find(|(name, bytes)| seen.files.get(*name) != Some(bytes));
    name.map_or("more is there".to_owned(), |(name, _)| format!("the file {name}"))
}

/// Runs a program in a fresh folder; `None`: as it is.
fn see(kit: &Kit, program: Program, size: Option<&str>) -> Result<Seen, String> {
    let work = kit.work()?;
    let calls = kit.program("fuzz_calls");
    let mut command = match size {
        None => kit.command(&calls, work.path()),
        Some(size) => {
            let mut command = kit.command(&kit.sweetspot, work.path());
            command.args(["run", "--buffer-size", size, "--"]).arg(&calls);
            command
        }
    };
    let words = [program.seed.to_string(), program.calls.to_string(), program.kind.to_owned()];
    let path = work.path().join("outside");
    let bytes: Vec<u8> = (0..60_000).map(|at| (at % 251) as u8).collect();
    fs::write(&path, bytes).map_err(|error| error.to_string())?;
    let is_input = program.kind == "input";
    let outside = fs::File::options().read(true).write(!is_input).open(&path);
    let mut outside = outside.map_err(|error| error.to_string())?;
    command.stdin(outside.try_clone().map_err(|error| error.to_string())?);
    if is_input && program.seed % 2 == 1 {
        // What it reads is its own: we have another description.
        outside = fs::File::open(&path).map_err(|error| error.to_string())?;
    }
    let outputs = ["output", "errors"].map(|name| work.path().join(name));
    let ended = bounded(command.args(words), outputs, LIFE_MAX * patience())?;
    let ended = ended.map_or("a kill, as it hung".to_owned(), |status| status.to_string());
    let offset = outside.stream_position().map_err(|error| error.to_string())?;
    let mut files = contents(work.path())?;
    let output = files.remove("output").unwrap_or_default();
    files.insert("errors".to_owned(), own_words(&work.path().join("errors")).into_bytes());
    Ok(Seen { ended, output, offset, files })
}

fn contents(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(|error| error.to_string())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        files.insert(name, fs::read(entry.path()).map_err(|error| error.to_string())?);
    }
    Ok(files)
}

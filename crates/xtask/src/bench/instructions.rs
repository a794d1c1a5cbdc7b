//! `cargo xtask bench instructions`: how many instructions the library adds to a call, and to the
//! start of a process, as valgrind's callgrind counts them.
//!
//! Instructions do not scatter as times do, so each has a budget, and a test asserts that none grows.
//! What is counted of a loop is the difference of two lengths of it under `sweetspot run`, or `profile`,
//! less what the same takes natively; of a start, all that a program takes that does nothing.
//!
//! They are those of an x86_64 with registers of 32 bytes (AVX2).
//!
//! Not here: time. Instructions say nothing of memory, of the kernel, of locked instructions.

use crate::fuzz::kit::{Kit, compiler_options};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// What `programs/c/instructions.c` does again and again.
struct Calls {
    /// As the program names it.
    name: &'static str,
    what: &'static str,
    /// The instructions that it should add.
    budget: u64,
    /// The instructions that it may add, asserted: what is counted today and a few percent.
    most: u64,
    /// What does the same through C's stdio, if anything.
    stdio: Option<&'static str>,
    under: Under<'static>,
}

const fn calls(name: &'static str, what: &'static str, budget: u64, most: u64) -> Calls {
    Calls { name, what, budget, most, stdio: None, under: Under::Run }
}

const fn profiled(name: &'static str, what: &'static str, budget: u64, most: u64) -> Calls {
    Calls { under: Under::Profile, ..calls(name, what, budget, most) }
}

const CALLS: &[Calls] = &[
    Calls { stdio: Some("fread8"), ..calls("read8", "read of 8 bytes, hit", 45, 42) },
    Calls { stdio: Some("fread200"), ..calls("read200", "read of 200 bytes, hit", 60, 62) },
    Calls { stdio: Some("fwrite200"), ..calls("write200", "write of 200 bytes, append", 80, 79) },
    calls("shown", "write of 200 bytes that never waits, and fstat", 245, 242),
    calls("pread", "pread, passed through", 20, 20),
    calls("seek", "lseek and read, passed through", 50, 47),
    calls("small", "open, two reads, close of a small file", 200, 145),
    calls("reads", "open, 20 reads, close", 800, 800),
    calls("writes", "open, 60 writes, close", 3000, 2850),
    calls("fstat", "fstat", 15, 16),
    calls("masks", "a signal blocked, and no longer", 90, 92),
    calls("unbuffered", "read in a process that is not buffered", 25, 25),
    // Which calls are followed is chance: these counts scatter a little. Later fewer are.
    profiled("read200", "read of 200 bytes, under profile", 125, 128),
    profiled("write200", "write of 200 bytes, under profile", 125, 125),
    profiled("seek", "lseek and read, under profile", 225, 225),
    profiled("tree", "open, two reads, close, under profile", 860, 860),
];

/// The start of a process: the instructions that the library adds to it.
const START_BUDGET: u64 = 20_000;
const START_MOST: u64 = 20_000;

/// Lengths of the loop.
const SHORT: u64 = 5_000;
const LONG: u64 = 25_000;

/// Counts of the same, of which the smallest counts: the guard may answer late, and what a clock says
/// decides a little of what is done.
const TRIES: u32 = 3;

/// Counts them all. Returns whether each is within its budget.
///
/// # Errors
/// What could not be compiled or run.
pub fn run() -> Result<bool, String> {
    let counted = count_all(&Kit::build()?)?;
    print!("{}", table(&counted));
    Ok(counted.iter().all(|counted| counted.added <= counted.budget))
}

/// What was counted of one row of the table.
struct Counted {
    what: &'static str,
    added: u64,
    budget: u64,
    most: u64,
    /// The same by other means, and what they are.
    compared: Option<(&'static str, u64)>,
}

fn count_all(kit: &Kit) -> Result<Vec<Counted>, String> {
    kit.compile("instructions")?;
    let counter = Counter { kit, folder: kit.work()? };
    // As large as the program jumps, and one read more.
    let large = fs::File::create(counter.folder.path().join("large"));
    large.and_then(|file| file.set_len(17 << 20)).map_err(|error| error.to_string())?;
    let small = counter.folder.path().join("small");
    fs::write(&small, [b'x'; 100]).map_err(|error| error.to_string())?;
    tree_of(&small, counter.folder.path()).map_err(|error| error.to_string())?;
    let mut counted = Vec::new();
    for calls in CALLS {
        let native = counter.of_a_call(calls.name, Under::Nothing)?;
        let added = || Ok(counter.of_a_call(calls.name, calls.under)?.saturating_sub(native));
        let stdio = calls.stdio.map(|name| counter.of_a_call(name, Under::Nothing)).transpose()?;
        counted.push(Counted {
            what: calls.what,
            added: fewest(added, calls.budget.min(calls.most))?,
            budget: calls.budget,
            most: calls.most,
            compared: stdio.map(|stdio| ("stdio", stdio.saturating_sub(native))),
        });
    }
    counted.push(count_start(&counter)?);
    Ok(counted)
}

/// Makes folders `aa` to `hh`, each with files `a` to `p`.
fn tree_of(file: &Path, within: &Path) -> io::Result<()> {
    for (first, second) in (b'a'..=b'h').flat_map(|one| (b'a'..=b'h').map(move |two| (one, two))) {
        let folder = within.join(format!("{}{}", char::from(first), char::from(second)));
        fs::create_dir(&folder)?;
        (b'a'..=b'p')
            .try_for_each(|name| fs::hard_link(file, folder.join(char::from(name).to_string())))?;
    }
    Ok(())
}

fn count_start(counter: &Counter) -> Result<Counted, String> {
    let empty = counter.empty_library()?;
    let native = counter.of_a_start(Under::Nothing)?;
    let added = || Ok(counter.of_a_start(Under::Run)?.saturating_sub(native));
    Ok(Counted {
        what: "the start of a process",
        added: fewest(added, START_BUDGET)?,
        budget: START_BUDGET,
        most: START_MOST,
        compared: Some(("an empty library", counter.of_a_start(Under::Library(&empty))? - native)),
    })
}

/// The smallest of some counts; one is enough if it is no more than is asked for.
fn fewest(count: impl Fn() -> Result<u64, String>, asked: u64) -> Result<u64, String> {
    let mut least = u64::MAX;
    for _ in 0..TRIES {
        least = least.min(count()?);
        if least <= asked {
            break;
        }
    }
    Ok(least)
}

fn table(counted: &[Counted]) -> String {
    let head = ["instructions added to", "counted", "budget", "at most"];
    let mut text = format!("{:<40} {:>7} {:>7} {:>7}\n", head[0], head[1], head[2], head[3]);
    for row in counted {
        let Counted { what, added, budget, most, compared } = row;
        let compared = compared.map_or(String::new(), |(how, count)| format!("  {how} {count}"));
        text += &format!("{what:<40} {added:>7} {budget:>7} {most:>7}{compared}\n");
    }
    text
}

/// What the program runs under, besides callgrind.
#[derive(Clone, Copy)]
enum Under<'a> {
    Nothing,
    Run,
    Profile,
    /// This library is loaded first.
    Library(&'a Path),
}

/// Runs the program under callgrind.
struct Counter<'a> {
    kit: &'a Kit,
    folder: TempDir,
}

impl Counter<'_> {
    /// The instructions of one turn of a loop of these calls.
    fn of_a_call(&self, name: &str, under: Under) -> Result<u64, String> {
        let lengths = [SHORT, LONG].map(|length| length.to_string());
        let options = ["--zero-before=measured", "--dump-after=measured"];
        self.run(under, &options, &[name, &lengths[0], &lengths[1]])?;
        let (short, long) = (self.summary("counts.1")?, self.summary("counts.2")?);
        Ok(match under {
            // It follows the first calls closely, and later ones in bursts.
            Under::Profile => long / LONG,
            _ => long.saturating_sub(short) / (LONG - SHORT),
        })
    }

    /// The instructions of a program that does nothing, from its first to its last.
    fn of_a_start(&self, under: Under) -> Result<u64, String> {
        // Ends before it does anything: it is told too little.
        self.run(under, &[], &[])?;
        self.summary("counts")
    }

    fn run(&self, under: Under, options: &[&str], words: &[&str]) -> Result<(), String> {
        let program = self.kit.program("instructions");
        let mut command = self.kit.command(Path::new("valgrind"), self.folder.path());
        let verb: &[&str] = match under {
            Under::Run => &["run", "--", "valgrind"],
            Under::Profile => &["profile", "--output", "report", "--", "valgrind"],
            Under::Nothing | Under::Library(_) => &[],
        };
        if !verb.is_empty() {
            command = self.kit.command(&self.kit.sweetspot, self.folder.path());
            command.args(verb);
        }
        if let Under::Library(library) = under {
            command.env("LD_PRELOAD", library);
        }
        // Else the library stays out of what valgrind runs. Each variable takes time at a start: it is in all of them.
        command.env(sweetspot_core::environment::VALGRIND, "1");
        command.args(["--quiet", "--tool=callgrind", "--callgrind-out-file=counts"]);
        let ended = command.args(options).arg(&program).args(words).output();
        let ended = ended.map_err(|error| format!("valgrind: {error}"))?;
        // 2: it was told too little.
        match ended.status.code() {
            Some(0) => Ok(()),
            Some(2) if words.is_empty() => Ok(()),
            _ => Err(format!("{words:?}: {}", String::from_utf8_lossy(&ended.stderr))),
        }
    }

    /// What a file of callgrind's says in all.
    fn summary(&self, file: &str) -> Result<u64, String> {
        let path = self.folder.path().join(file);
        let text = fs::read_to_string(&path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        let found = text.lines().find_map(|line| line.strip_prefix("summary: ")?.parse().ok());
        found.ok_or_else(|| format!("no summary in {}", path.display()))
    }

    /// A library without anything in it.
    fn empty_library(&self) -> Result<PathBuf, String> {
        let folder = self.folder.path();
        let (source, library) = (folder.join("empty.c"), folder.join("empty.so"));
        fs::write(&source, "").map_err(|error| error.to_string())?;
        let mut gcc = Command::new("gcc");
        gcc.arg(compiler_options()).args(["-shared", "-fPIC", "-nostdlib", "-o"]);
        let made = gcc.arg(&library).arg(&source).status().map_err(|error| error.to_string())?;
        if made.success() { Ok(library) } else { Err("gcc makes no empty library".to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_takes_more_instructions_than_it_did() {
        let _turn = crate::fuzz::turn();
        if Command::new("valgrind").arg("--version").output().is_err() {
            return test_start::skip("valgrind is not installed");
        }
        let counted = Kit::build().and_then(|kit| count_all(&kit));
        let counted = counted.unwrap_or_else(|wrong| panic!("{wrong}"));
        let is_more = |row: &Counted| row.added > row.most;
        assert!(!counted.iter().any(is_more), "\n{}", table(&counted));
    }
}

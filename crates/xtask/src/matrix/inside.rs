//! What is done in another system, step by step: `xtask matrix inside EXTENT FOLDER HARNESS`.
//!
//! The answer of each step is one line of JSON behind a fixed word, so that it can be told from what
//! else a serial line carries. Everything else that is printed belongs into a log.
//!
//! `FOLDER` holds `sweetspot`, and in a virtual machine, which has no compiler, the victims.

use super::made::Made;
use super::{ANSWER, Extent, State, Step, call, older};
use crate::commands::untold;
use crate::fuzz::kit::MADE_VARIABLE;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;

/// A fuzzer or a group of programs that takes longer hangs, seconds.
const STEP_SECONDS_MAX: &str = "7200";
/// At most one call in so many is left where something is buffered.
const CALLS_PER_LEFT_MIN: u64 = 4;
/// How many times as slow as others an emulated machine is, about.
const EMULATED: &str = "20";
/// Tries at counting: a program of milliseconds may be over before the guard has begun.
const COUNTS_MAX: u32 = 5;

/// The words after `cargo xtask matrix` for this.
pub fn words(made: &Made, extent: Extent, folder: &Path) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    vec!["inside".to_owned(), extent.name(), path(folder), path(&made.harness)]
}

/// What the steps need.
struct Inside {
    extent: Extent,
    /// With `sweetspot`, and perhaps victims.
    folder: PathBuf,
    harness: PathBuf,
    scratch: TempDir,
}

/// What a step found.
struct Found {
    state: State,
    says: String,
    details: Vec<String>,
}

type Answer = Result<Found, String>;
/// A step: its name, and what it does.
type Task = (&'static str, fn(&Inside) -> Answer);

/// Does all steps of an extent. What fails is in the answers.
///
/// # Errors
/// It could not begin.
pub fn all_steps(extent: Extent, folder: &Path, harness: &Path) -> Result<(), String> {
    let inside = Inside::new(extent, folder, harness)?;
    let mut steps: Vec<Task> =
        vec![("doctor", Inside::doctor), ("calls", Inside::calls), ("older", Inside::older)];
    if inside.extent != Extent::Short {
        steps.push(("profile", Inside::profile));
        steps.push(("verify", Inside::verify));
        steps.push(("contract", Inside::contract));
        steps.push(("kills", Inside::kills));
    }
    if inside.extent.is_emulated() {
        steps.push(("tracer", Inside::tracer));
    }
    steps.push(("programs", Inside::programs));
    if inside.extent == Extent::Full {
        steps.push(("demo", Inside::demo));
        steps.push(("conformance", Inside::conformance));
    }
    for (name, step) in steps {
        println!("\n== {name}");
        let begun = Instant::now();
        let found = step(&inside).unwrap_or_else(Found::fails);
        let Found { state, says, details } = found;
        let seconds = begun.elapsed().as_secs_f64();
        let step = Step { name: name.to_owned(), state, says, details, seconds };
        println!("{ANSWER}{}", serde_json::to_string(&step).unwrap_or_default());
    }
    Ok(())
}

impl Found {
    fn works(says: impl Into<String>) -> Found {
        Found { state: State::Works, says: says.into(), details: Vec::new() }
    }

    fn fails(says: impl Into<String>) -> Found {
        Found { state: State::Fails, ..Found::works(says) }
    }

    fn less(says: impl Into<String>) -> Found {
        Found { state: State::Less, ..Found::works(says) }
    }

    fn with(self, details: Vec<String>) -> Found {
        Found { details, ..self }
    }
}

impl Inside {
    fn new(extent: Extent, folder: &Path, harness: &Path) -> Result<Inside, String> {
        let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
        // Enough records that a buffer shows, where the guard starts a hundred times more slowly.
        let records = "seq -f '%0199.0f' 20000 > in; seq 20000 > lines";
        call(Command::new("sh").args(["-c", records]).current_dir(scratch.path()))?;
        Ok(Inside { extent, folder: folder.into(), harness: harness.into(), scratch })
    }

    /// A command in the scratch folder, without what this process inherited.
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        untold(&mut command).env_remove("CI");
        command.env("SWEETSPOT_CACHE", self.scratch.path().join("cache"));
        command.env(MADE_VARIABLE, &self.folder);
        command.current_dir(self.scratch.path()).stdin(Stdio::null());
        command
    }

    fn sweetspot(&self) -> Command {
        self.command(self.folder.join("sweetspot"))
    }

    /// What the product says of this system; where it says that nothing is buffered, that fails.
    fn doctor(&self) -> Answer {
        let output = self.sweetspot().args(["doctor", "--json"]).output();
        let output = output.map_err(|error| format!("sweetspot: {error}"))?;
        let report: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
            format!("no report: {error}: {}", String::from_utf8_lossy(&output.stderr).trim())
        })?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let findings = report["findings"].as_array().into_iter().flatten();
        let lacking = findings.filter(|finding| {
            finding["state"] == "lacks"
                && (finding["part"] == "run" || finding["name"] == "sandbox")
        });
        let details = lacking
            .map(|finding| format!("{}: {}", text(&finding["name"]), text(&finding["says"])))
            .collect();
        let says = format!("{} ({})", text(&report["sentence"]), text(&report["kernel"]));
        Ok(match report["run_works"] == true {
            true => Found::works(says).with(details),
            false => Found::fails(says).with(details),
        })
    }

    /// What is left of the calls of two programs: one that calls `read` and `write`, and one whose
    /// stdio does, without a buffer of its own.
    fn calls(&self) -> Answer {
        let programs =
            [("dd", "dd if=in of=out bs=200 status=none"), ("sed -u", "sed -u -n 'w out' lines")];
        let mut says = Vec::new();
        let mut is_buffered = true;
        for (name, command) in programs {
            let (native, left) = self.counts(|| self.command("/bin/sh"), command)?;
            is_buffered &= left * CALLS_PER_LEFT_MIN <= native;
            says.push(format!("{name} {native} -> {left}"));
        }
        let says = says.join(", ");
        Ok(if is_buffered { Found::works(says) } else { Found::fails(says) })
    }

    /// The calls of a command without and with `run`, by a shell: the fewest of some tries.
    fn counts(&self, shell: impl Fn() -> Command, command: &str) -> Result<(u64, u64), String> {
        let native = counted(&mut shell(), "", command)?;
        let run = format!("{} run --stdio --", self.folder.join("sweetspot").display());
        let mut left = counted(&mut shell(), &run, command)?;
        for _ in 1..COUNTS_MAX {
            if left * CALLS_PER_LEFT_MIN > native {
                left = left.min(counted(&mut shell(), &run, command)?);
            }
        }
        Ok((native, left))
    }

    /// An ordinary user where a process is traced only by those whom it names, as Yama has it: what was open before is
    /// buffered, and the program's own word stands.
    fn tracer(&self) -> Answer {
        const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";
        let user = self.scratch.path().join("user");
        std::fs::create_dir(&user).map_err(|error| format!("{}: {error}", user.display()))?;
        call(self.command("cp").args(["in", "user"]))?;
        call(self.command("chown").args(["-R", "65534", "user"]))?;
        call(self.command("chmod").args(["755", "."]))?;
        let shell = || {
            let mut command = self.command("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "/bin/sh"]);
            command
                .env("SWEETSPOT_CACHE", user.join("cache"))
                .env("HOME", &user)
                .current_dir(&user);
            command
        };
        let before = std::fs::read(SCOPE).map_err(|error| format!("{SCOPE}: {error}"))?;
        let set = |scope: &[u8]| {
            std::fs::write(SCOPE, scope).map_err(|error| format!("{SCOPE}: {error}"))
        };
        set(b"1")?;
        let counts = self.counts(shell, "dd if=in bs=200 status=none > out");
        let program = self.folder.join("c/tracer").display().to_string();
        let words = |run: &str| {
            let each = format!("{run} {program} $way > $way; tail -n 1 $way");
            let all = format!("for way in silent named before raw nobody; do {each}; done");
            call(shell().args(["-c", &all]))
        };
        let run = format!("{} run --", self.folder.join("sweetspot").display());
        let said = (words(""), words(&run));
        set(&before)?;
        let ((native, left), expected, found) = (counts?, said.0?, said.1?);
        let said = expected.replace('\n', ", ");
        let says = format!("dd > out {native} -> {left}; who may: {said}");
        // Else this system does not ask who was named.
        let is_asked = expected.contains("silent: 1\n") && expected.contains("named: 0\n");
        match is_asked && expected == found && left * CALLS_PER_LEFT_MIN <= native {
            true => Ok(Found::works(says)),
            false => Err(format!("{says} under run: {}", found.replace('\n', ", "))),
        }
    }

    /// The table of programs. What is there decides which rows are run; the others are named.
    fn programs(&self) -> Answer {
        let mut command = self.limited(&self.harness);
        command.arg("--test-threads=2");
        // Its guards go before others, and would hold up the rows that run beside it.
        command.args(["--skip", "predicted::as_many_calls_are_left_as_predicted"]);
        if self.extent == Extent::Short {
            // They look at the harness, which is the same everywhere.
            command.args(["--skip", "sees::"]);
        }
        if self.extent != Extent::Full {
            command.env("SWEETSPOT_TEST_SIZES", "auto");
        }
        command.env("SWEETSPOT_TEST_LONG", if self.extent == Extent::Short { "no" } else { "all" });
        if self.extent.is_emulated() {
            command.env("SWEETSPOT_TEST_BIN", &self.folder);
            command.env("SWEETSPOT_TEST_PATIENCE", EMULATED);
        }
        if let Some(groups) = self.extent.groups() {
            command.arg("--exact").args(groups).arg("active::programs_make_fewer_calls");
        }
        let text = said(&mut command)?;
        let begins = |line: &&str, word: &str| line.starts_with(word);
        let skipped: Vec<&str> = text.lines().filter(|line| begins(line, "skipped: ")).collect();
        let details = text.lines().filter(is_of_a_failure).map(str::to_owned).collect();
        let result = text.lines().rev().find_map(|line| line.strip_prefix("test result: "));
        let result = result.ok_or_else(|| format!("it did not end: {}", last_line(&text)))?;
        let tests = result.split("; ").next().unwrap_or_default().trim_start_matches("FAILED. ");
        let says =
            format!("{} groups, {} rows skipped", tests.trim_start_matches("ok. "), skipped.len());
        Ok(match result.starts_with("ok.") {
            true => Found::works(says),
            false => Found::fails(says).with(details),
        })
    }

    fn profile(&self) -> Answer {
        let mut command = self.sweetspot();
        command.args(["profile", "--", "dd", "if=in", "of=out", "bs=200", "status=none"]);
        let text = said(&mut command)?;
        let report = text.split_once("sweetspot profile\n");
        let (_, report) = report.ok_or_else(|| format!("no report: {}", text.trim()))?;
        let sentence = report.lines().find(|line| !line.trim().is_empty());
        Ok(Found::works(sentence.unwrap_or_default().trim()))
    }

    /// 0 is equal; 2, where it cannot be tried apart, must say what can be done instead.
    fn verify(&self) -> Answer {
        let verify = |words: &[&str]| {
            let mut command = self.sweetspot();
            command.arg("verify").args(words);
            command.args(["--", "dd", "if=in", "of=out", "bs=200", "status=none"]);
            let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
            output.map_err(|error| format!("sweetspot: {error}"))
        };
        let output = verify(&[])?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        println!("{text}");
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
        match output.status.code() {
            Some(0) => Ok(Found::works(first)),
            Some(2) if text.contains("--in-place") => {
                let again = verify(&["--in-place"])?;
                match again.status.success() {
                    true => Ok(Found::less(format!("{first}; with --in-place it works"))),
                    false => Err(format!("--in-place: {}", String::from_utf8_lossy(&again.stderr))),
                }
            }
            _ => Err(format!("{}: {}", output.status, text.trim())),
        }
    }

    fn contract(&self) -> Answer {
        let operations = if self.extent.is_emulated() { "1000" } else { "6000" };
        self.fuzz(&["contract", "--ops", operations])
    }

    fn kills(&self) -> Answer {
        // Some at a time, on processors that are emulated one after the other.
        let (kills, slower) = if self.extent.is_emulated() { ("40", "80") } else { ("200", "1") };
        self.fuzz(&["kill", "--kills", kills, "--slower", slower])
    }

    fn fuzz(&self, words: &[&str]) -> Answer {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = self.limited(&own);
        if self.extent.is_emulated() {
            command.env("SWEETSPOT_TEST_PATIENCE", EMULATED);
        }
        command.arg("fuzz").args(words).args(["--seed", "1"]);
        let text = call(&mut command)?;
        println!("{text}");
        Ok(Found::works(last_line(&text)))
    }

    fn older(&self) -> Answer {
        let rows = older::rows(&|| self.sweetspot())?;
        rows.iter().for_each(|row| println!("{row}"));
        let wrong: Vec<String> =
            rows.iter().filter(|row| row.is_wrong()).map(ToString::to_string).collect();
        let less: Vec<String> =
            rows.iter().filter(|row| row.is_less()).map(ToString::to_string).collect();
        let says = format!(
            "{} calls missing one at a time: {} wrong, {} with less buffering",
            rows.len(),
            wrong.len(),
            less.len()
        );
        Ok(match wrong.is_empty() {
            true => Found::works(says).with(less),
            false => Found::fails(says).with([wrong, less].concat()),
        })
    }

    fn demo(&self) -> Answer {
        let mut command = self.sweetspot();
        command.args(["demo", "--records", "200000", "--pairs", "3"]);
        let text = call(&mut command)?;
        println!("{text}");
        let run = text.lines().find_map(|line| line.strip_prefix("run "));
        Ok(Found::works(run.unwrap_or("it says nothing").trim()))
    }

    fn conformance(&self) -> Answer {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let text = said(self.limited(&own).args(["conformance", "--quick"]))?;
        let skipped = text.lines().filter(|line| line.starts_with("skipped: ")).count();
        let line = text.lines().find(|line| line.contains(" checks, "));
        let line = line.ok_or_else(|| format!("it did not end: {}", last_line(&text)))?;
        let says = line.split("; ").next().unwrap_or(line);
        let says = format!("{says}, {skipped} skipped");
        let differences = text.lines().filter(|other| other.contains(": ") && *other != line);
        let differences = differences.filter(|line| !line.starts_with("skipped: "));
        Ok(match line.contains(" 0 differences") {
            true => Found::works(says),
            false => Found::fails(says).with(differences.map(str::to_owned).collect()),
        })
    }

    /// A command that is killed when it takes far too long.
    fn limited(&self, program: &Path) -> Command {
        let mut command = self.command("timeout");
        command.args(["--kill-after=5", STEP_SECONDS_MAX]).arg(program);
        command
    }
}

/// The read and write calls of a command, as the kernel counts them for the shell that waited.
fn counted(shell: &mut Command, run: &str, command: &str) -> Result<u64, String> {
    let script = format!("{run} {command}; cat /proc/$$/io");
    let text = call(shell.args(["-c", &script]))?;
    let count = |key: &str| -> Result<u64, String> {
        let value = text.lines().find_map(|line| line.strip_prefix(key));
        let value = value.and_then(|value| value.trim().parse().ok());
        value.ok_or_else(|| format!("the kernel counts no calls: {text}"))
    };
    Ok(count("syscr:")? + count("syscw:")?)
}

/// Whether a line of the harness belongs to what failed: the row, what differs, or the test.
fn is_of_a_failure(line: &&str) -> bool {
    line.contains(" at size ") || line.starts_with("    ") || line.ends_with("FAILED")
}

/// All that a command says, however it ends; each line is told on at once, so that a log shows where
/// one hangs.
fn said(command: &mut Command) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("a pipe: {error}");
    let (reader, writer) = std::io::pipe().map_err(failed)?;
    command.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
    // Ours; the pipe ends with the last of theirs.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut text = String::new();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.map_err(failed)?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        text.push_str(&line);
        text.push('\n');
    }
    child.wait().map_err(|error| format!("{name}: {error}"))?;
    Ok(text)
}

fn last_line(text: &str) -> &str {
    text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim()
}

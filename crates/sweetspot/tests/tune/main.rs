//! What a user of `sweetspot tune` sees. Nothing here asserts a time: commands whose speed hardly
//! depends on buffers (they sleep) stand for those that are measured.

use test_start::{assert_has, stderr, stdout, untold, wait_until};

mod ended;
mod predicted;
mod sandbox;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Few sizes, and any of them is good enough: the answer is certain and comes soon.
const EASY: [&str; 3] = ["--smallest", "--sizes=4K..16K", "--within=100%"];

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    /// Where `tune` keeps what it needs for itself.
    fn scratch(&self) -> PathBuf {
        let folder = self.folder.path().join("scratch");
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn sweetspot(&self, verb: &str) -> Command {
        fs::create_dir_all(self.path("")).unwrap();
        let mut sweetspot = Command::new(env!("CARGO_BIN_EXE_sweetspot"));
        untold(&mut sweetspot);
        sweetspot
            .env("SWEETSPOT_CACHE", self.folder.path().join("cache"))
            .env("TMPDIR", self.scratch())
            .env("XDG_STATE_HOME", self.folder.path().join("state"))
            .env("XDG_CONFIG_HOME", self.folder.path().join("config"))
            .current_dir(self.path(""))
            .arg(verb)
            .stdin(Stdio::null());
        sweetspot
    }

    fn tune(&self, options: &[&str], command: &[&str]) -> Command {
        let mut tune = self.sweetspot("tune");
        tune.args(options).arg("--").args(command);
        tune
    }

    fn shell(&self, options: &[&str], script: &str) -> Output {
        self.tune(options, &["sh", "-c", script]).output().unwrap()
    }

    /// A shell script that must fail in sight of the user, with all of `parts` in the message.
    fn refused(&self, options: &[&str], script: &str, parts: &[&str]) {
        let output = self.shell(options, script);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{script}: {said}");
        assert_has(&said, parts.iter().chain(&["\n  "]));
        assert!(!self.path("sweetspot.toml").exists(), "nothing is written");
    }
}

fn is_confirmed(output: &Output) -> bool {
    let said = stderr(output);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{:?}: {said}", output.status);
    output.status.code() == Some(0)
}

/// Tunes until an answer is confirmed: where others keep the machine very busy it may stay open.
fn confirmed(mut tune: impl FnMut() -> Output) -> Output {
    const TRIES: usize = 8;
    let mut outputs = (0..TRIES).map(|_| tune());
    outputs.find(is_confirmed).unwrap_or_else(|| panic!("undecided {TRIES} times"))
}

#[test]
fn what_gains_nothing_is_said_first_and_gets_no_rule() {
    let place = Place::new();
    fs::create_dir_all(place.path("")).unwrap();
    let rules = "[[rule]]\nprogram = \"a*\"\nbuffer = \"4K\"\n";
    let old = "\n[[rule]]\nprogram = \"sh\"\nbuffer = \"1M\"\ntuned = \"2026-01-01\"\n";
    fs::write(place.path("sweetspot.toml"), format!("{rules}{old}")).unwrap();
    // It would have to be twice as fast.
    let output = confirmed(|| place.shell(&["--within=100%"], "sleep 0.1; echo said >out"));
    let said = stdout(&output);
    assert!(said.starts_with("Leave it as it is: `sweetspot run` "), "{said}");
    let parts =
        ["14 runs, each a fresh", "Compared by wall time.", "work/out", "earlier tune is gone"];
    assert_has(&said, parts);
    assert_eq!(fs::read_to_string(place.path("sweetspot.toml")).unwrap(), rules);
}

/// Takes long without buffers, less with automatic ones, and hardly any time with one size.
const BEST_AT_16K: &str =
    "case \"$IO_BUFFER_SIZE\" in '') sleep 1.5 ;; 16384) sleep 0.02 ;; *) sleep 0.6 ;; esac";

#[test]
fn a_size_that_is_faster_than_auto_becomes_a_rule() {
    let place = Place::new();
    let options = ["--json", "--sizes=4K..16K", "--within=20%"];
    let mut told = serde_json::Value::Null;
    let has_size = |told: &serde_json::Value| told["questions"]["size"]["reply"] == "yes";
    for _ in 0..4 {
        let output = place.shell(&options, BEST_AT_16K);
        is_confirmed(&output);
        told = serde_json::from_slice(&output.stdout).unwrap();
        if has_size(&told) {
            break;
        }
    }
    assert!(has_size(&told), "{told:#}");
    let sentence = told["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("Use `sweetspot run`: it is "), "{sentence}");
    assert!(sentence.contains(". Set the size to 16 KiB: that is "), "{sentence}");
    assert_eq!((&told["buffer"], &told["base"]), (&"16K".into(), &"auto".into()));
    let runs = told["runs"].as_u64().unwrap();
    assert!((14..=30).contains(&runs), "{runs} runs");
    let rules = fs::read_to_string(place.path("sweetspot.toml")).unwrap();
    assert!(rules.contains("program = \"sh\"\nbuffer = \"16K\"\n"), "{rules}");
}

/// Where the file that is named is still to be made, its runs read none.
#[test]
fn rules_may_go_to_a_new_file() {
    let place = Place::new();
    let options = ["--config=new.toml", "--within=100%"];
    is_confirmed(&place.shell(&options, "sleep 0.1; echo said >out"));
}

#[test]
fn the_answer_becomes_a_rule_that_run_uses() {
    let place = Place::new();
    fs::create_dir_all(place.path("")).unwrap();
    fs::write(place.path("in.dat"), "x".repeat(5000)).unwrap();
    let mine = "# mine\n[[rule]]\nfile = \"*.log\"\nbuffer = \"off\"\n";
    fs::write(place.path("sweetspot.toml"), mine).unwrap();
    let command = ["sh", "-c", "sleep 0.2; cat in.dat > out.dat"];
    let output = confirmed(|| place.tune(&EASY, &command).output().unwrap());
    let said = stdout(&output);
    assert_has(
        &said,
        ["buffer", "The same in every run:", "out.dat", "Written to", "program sh: buffer"],
    );
    let rules = fs::read_to_string(place.path("sweetspot.toml")).unwrap();
    // auto, or none at all where starting costs more than the sleep: both are right here.
    let value = |key: &str| {
        let rest = rules.rsplit(&format!("{key} = \"")).next().unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let (buffer, date) = (value("buffer"), value("tuned"));
    assert!(["auto", "off"].contains(&buffer.as_str()), "{rules}");
    let own = format!("\n[[rule]]\nprogram = \"sh\"\nbuffer = \"{buffer}\"\ntuned = \"{date}\"\n");
    assert_eq!(rules, format!("{mine}{own}"));

    let mut run = place.sweetspot("run");
    let summary = stderr(&run.args(["--summary", "--", "sh", "-c", "true"]).output().unwrap());
    let in_force = format!("size {buffer}");
    assert!(summary.contains(&in_force) && summary.contains("sweetspot.toml"), "{summary}");
}

/// Reads a file in order and another one here and there, and sleeps for each call and byte too many
/// that the kernel counts: so that the one is faster with a buffer, the other without.
const INDEX_AND_DATA: &str = "\
import os, random, time
data = os.open('data.dat', os.O_RDONLY)
while os.read(data, 16): pass
index = os.open('index.dat', os.O_RDONLY)
for run in range(1000):
    os.lseek(index, random.randrange(1000) * 4096, os.SEEK_SET)
    for part in range(6): os.read(index, 16)
counts = dict(line.split(': ') for line in open('/proc/self/io').read().splitlines())
time.sleep(0.1 + 0.8 * (int(counts['syscr']) > 15000) + 0.4 * (int(counts['rchar']) > 2500000))
";

#[test]
fn a_file_with_another_best_answer_gets_a_rule_of_its_own() {
    const PYTHON: &str = "/usr/bin/python3";
    if !Path::new(PYTHON).exists() {
        test_start::skip(&format!("a rule for one file ({PYTHON} is not there)"));
        return;
    }
    let place = Place::new();
    fs::create_dir_all(place.path("")).unwrap();
    fs::write(place.path("data.dat"), "x".repeat(320_000)).unwrap();
    fs::write(place.path("index.dat"), "x".repeat(4_096_000)).unwrap();
    confirmed(|| {
        let output = place.tune(&EASY, &[PYTHON, "-c", INDEX_AND_DATA]).output().unwrap();
        eprintln!("{}", stdout(&output));
        output
    });
    let rules = fs::read_to_string(place.path("sweetspot.toml")).unwrap();
    let of_index = format!("file = \"{}\"\nbuffer = \"off\"", place.path("index.dat").display());
    assert!(rules.contains(&of_index), "{rules}");
    assert!(rules.contains("program = \"python3\"\nbuffer = \"auto\""), "{rules}");
}

#[test]
fn what_auto_means_in_a_folder_is_found_and_used() {
    let place = Place::new();
    let folder = place.path("data");
    fs::create_dir_all(&folder).unwrap();
    confirmed(|| {
        let mut tune = place.sweetspot("tune");
        let output = tune.args(EASY).arg("--machine").arg(&folder).output().unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing is left there");
        output
    });
    let rules = place.folder.path().join("config/sweetspot/machine.toml");
    let written = fs::read_to_string(&rules).unwrap();
    let pattern = format!("file = \"{}/*\"", folder.canonicalize().unwrap().display());
    assert!(written.contains(&pattern) && !written.contains("program"), "{written}");

    fs::write(&rules, format!("[[rule]]\n{pattern}\nbuffer = \"8K\"\npromise = \"unobserved\"\n"))
        .unwrap();
    fs::write(folder.join("in"), "x".repeat(100_000)).unwrap();
    let check = |options: &[&str], own_rule: &str, expected: &str| {
        fs::write(place.path("sweetspot.toml"), own_rule).unwrap();
        let mut run = place.sweetspot("run");
        run.arg("--summary").args(options).args(["--", "dd", "if=data/in", "of=out", "bs=100"]);
        let said = String::from_utf8_lossy(&run.output().unwrap().stderr).into_owned();
        let line = said.lines().find(|line| line.contains("data/in")).unwrap_or("no such file");
        let size = line.split_whitespace().nth(1);
        assert_eq!(size, Some(expected), "{options:?} {own_rule:?}: {said}");
    };
    check(&[], "", "8K");
    check(&["--buffer-size", "auto"], "", "8K");
    check(&[], "[[rule]]\nprogram = \"dd\"\nbuffer = \"auto\"\n", "8K");
    check(&[], "[[rule]]\nprogram = \"dd\"\nbuffer = \"16K\"\n", "16K");
    check(&["--buffer-size", "4K"], "", "4K");

    fs::write(&rules, format!("[[rule]]\n{pattern}\nbuffer = \"lots\"\n")).unwrap();
    let output = place.sweetspot("run").args(["--", "true"]).output().unwrap();
    let said = stderr(&output);
    assert!(said.ends_with("so the file is ignored\n"), "{said}");
    check(&["--buffer-size", "auto"], "", "auto");
}

#[test]
fn the_json_has_a_schema_and_every_round() {
    let place = Place::new();
    let mut options = EASY.to_vec();
    options.extend(["--json", "--keep-rules", "--curve"]);
    let output = place.shell(&options, "sleep 0.05; echo said");
    is_confirmed(&output);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schema"], 1);
    let runs: usize = json["rounds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|round| round["figures"].as_array().unwrap().len())
        .sum();
    let settings = json["settings"].as_array().unwrap();
    let by_setting: u64 = settings.iter().map(|row| row["runs"].as_u64().unwrap()).sum();
    assert_eq!(by_setting, runs as u64);
    assert_eq!(settings.len(), 5, "the curve has every size: {settings:?}");
    assert_eq!(json["checked"][0], "its standard output");
    assert!(!place.path("sweetspot.toml").exists(), "--keep-rules");
}

#[test]
fn a_program_that_writes_something_else_when_it_is_buffered_is_refused() {
    let place = Place::new();
    // Only then is the library there.
    place.refused(
        &EASY,
        "echo ${LD_PRELOAD:+buffered} > out",
        &["work/out comes out differently", "nothing was written", "report"],
    );
    // Not in the run in which only reads are buffered, but with a size that is tried.
    place.refused(
        &EASY,
        "case $IO_BUFFER_SIZE in 16384) echo 16 ;; esac",
        &["its standard output comes out differently with buffer-size 16K"],
    );
}

#[test]
fn what_differs_from_run_to_run_is_said_and_not_checked() {
    let place = Place::new();
    let output = place.shell(&EASY, "sleep 0.05; date +%N > time; echo x >> log; echo same > out");
    is_confirmed(&output);
    let said = stdout(&output);
    assert_has(
        &said,
        [
            "work/time comes out differently from run to run, also without sweetspot",
            "work/log comes out differently from run to run, also without sweetspot (",
            "bytes more than at first",
            "The same in every run:",
        ],
    );
    let same = said.lines().find(|line| line.starts_with("The same in every run:")).unwrap();
    assert!(same.contains("work/out") && !same.contains("work/time"), "{same}");
}

#[test]
fn a_program_that_changes_its_input_needs_a_preparation() {
    let place = Place::new();
    fs::create_dir_all(place.path("")).unwrap();
    fs::write(place.path("in"), "some\n").unwrap();
    place.refused(&EASY, "exit 3", &["'sh' failed with exit status: 3", "make it succeed first"]);
    place.refused(&EASY, "echo why >&2; exit 3", &["it said:\n  why"]);
    place.refused(&EASY, "mv in out", &["'sh' removes", "work/in", "--prepare"]);
    fs::write(place.path("in"), "some\n").unwrap();
    // A counter: what the next run reads is what this one wrote.
    fs::write(place.path("counter"), "1\n").unwrap();
    let count = "read n < counter; echo $((n + 1)) > counter";
    place.refused(&EASY, count, &["'sh' reads", "work/counter and has changed it", "--prepare"]);
    // After the first run all runs are alike, but not like the first.
    fs::write(place.path("mixed"), "Some\n").unwrap();
    let capitals = "text=$(tr a-z A-Z < mixed); echo $text > mixed";
    place.refused(&EASY, capitals, &["'sh' reads", "work/mixed and has changed it", "--prepare"]);
    assert_eq!(fs::read_to_string(place.path("mixed")).unwrap(), "SOME\n", "nothing is restored");
    // Something that is only read, and that someone else changes meanwhile.
    fs::write(place.path("table"), "1\n").unwrap();
    let output = place
        .tune(&EASY, &["sh", "-c", "cat $0 > out; (sleep 0.2; date > table) & sleep 0.01", "table"])
        .output()
        .unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("table"), "{said}");

    // Another folder: what was left running above may still change its file.
    let place = Place::new();
    fs::create_dir_all(place.path("")).unwrap();
    let mut options = EASY.to_vec();
    options.push("--prepare=echo some > in; echo 1 > counter");
    let output = place.shell(&options, &format!("sleep 0.05; mv in out; {count}"));
    is_confirmed(&output);
    assert!(stdout(&output).contains("work/out"), "{}", stdout(&output));
    let failing = ["--prepare=exit 4"];
    place.tune(&failing, &["true"]).output().unwrap();
    let output = place.tune(&failing, &["true"]).output().unwrap();
    let said = stderr(&output);
    assert!(said.contains("--prepare 'exit 4' failed with exit status: 4"), "{said}");
}

#[test]
fn what_was_there_already_is_made_again() {
    let place = Place::new();
    fs::create_dir_all(place.path("")).unwrap();
    // Written and read again, and from the last time there with the same bytes.
    fs::write(place.path("out"), "made\n").unwrap();
    let output = place.shell(&EASY, "sleep 0.05; echo made > out; cat out");
    is_confirmed(&output);
    assert!(stdout(&output).contains("work/out"), "{}", stdout(&output));
}

#[test]
fn a_file_as_standard_input_is_an_input() {
    let place = Place::new();
    fs::create_dir_all(place.path("")).unwrap();
    fs::write(place.path("in"), "some\n").unwrap();
    let mut tune = place.tune(&["--dry-run"], &["cat"]);
    let output = tune.stdin(fs::File::open(place.path("in")).unwrap()).output().unwrap();
    let inputs = stdout(&output);
    let inputs = inputs.lines().find(|line| line.starts_with("inputs")).unwrap_or_default();
    assert!(inputs.contains("work/in"), "{}", stdout(&output));
}

#[test]
fn a_pipe_is_not_read_and_that_is_said() {
    let place = Place::new();
    let mut tune = place.tune(&["--dry-run"], &["cat"]);
    let mut child = tune.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert!(stdout(&output).contains("its standard input is not a file"), "{}", stdout(&output));
}

#[test]
fn a_run_that_would_not_be_cold_is_refused() {
    // Nothing ever leaves a memory file system's cache.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let data = folder.path().join("data");
    fs::write(&data, "x".repeat(100_000)).unwrap();
    let place = Place::new();
    let output = place.tune(&["--cold"], &["cat", data.to_str().unwrap()]).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("no run is a cold one") && said.contains("without --cold"), "{said}");
    place.refused(&["--cold"], "true", &["no input file is known"]);
}

#[test]
fn a_dry_run_measures_nothing() {
    let place = Place::new();
    fs::create_dir_all(place.path("")).unwrap();
    fs::write(place.path("in.dat"), "x").unwrap();
    let output = place.tune(&["--dry-run"], &["cp", "in.dat", "out.dat"]).output().unwrap();
    let said = stdout(&output);
    assert_has(
        &said,
        ["about 30 runs", "inputs   ", "in.dat", "outputs  ", "out.dat", "sweetspot.toml"],
    );
    assert!(!place.folder.path().join("state").exists(), "no session began");
}

#[test]
fn what_cannot_be_tuned_says_why() {
    let place = Place::new();
    for (options, command, code, part) in [
        (&[][..], &["no-such-program"][..], 127, "no-such-program"),
        (&["--sizes=4K"], &["true"], 2, "two sizes"),
        (&["--within=0"], &["true"], 2, "from 1% to 100%"),
        (&["--budget=soon"], &["true"], 2, "90s, 5m or 1h"),
        (&["--store=/no/such/folder/file"], &["true"], 125, "--store FILE"),
    ] {
        let output = place.tune(options, command).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {said}");
        assert_has(&said, [part]);
    }
}

impl Place {
    /// Makes the input of [`COPY`].
    fn with_input() -> Place {
        let place = Place::new();
        fs::create_dir_all(place.path("")).unwrap();
        fs::write(place.path("in.dat"), "x".repeat(4 << 20)).unwrap();
        place
    }

    /// Records a run of a command.
    fn record(&self, command: &[&str]) -> PathBuf {
        let recording = self.folder.path().join("job.recording");
        let mut profile = self.sweetspot("profile");
        profile.args(["--output", "../report", "--record"]).arg(&recording).arg("--").args(command);
        let output = profile.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        recording
    }

    fn tune_from(&self, recording: &Path, options: &[&str], command: &[&str]) -> Output {
        let mut tune = self.sweetspot("tune");
        tune.arg("--from").arg(recording).args(options);
        if !command.is_empty() {
            tune.arg("--").args(command);
        }
        tune.output().unwrap()
    }
}

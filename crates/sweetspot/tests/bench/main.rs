//! What a user of `sweetspot bench` sees. Nothing here asserts a time: a claim that must hold is about
//! a command that sleeps.

use test_start::{assert_has, stderr, stdout, wait_until};

mod launched;
#[path = "../memory_disk/mod.rs"]
mod memory_disk;
#[path = "../place/mod.rs"]
mod place;
mod refused;
mod sessions;

use memory_disk::Disk;
use place::Place;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Two ways to sort, one of them after a nap.
const PLAN: &str = r#"
title = "Sorting"
question = "Does a nap cost anything?"
seed = 3
rounds = 6
limit = "60s"

[factors]
lines = [50]

[scale.full.factors]
lines = [50, 60]

[data.input]
generate = ["--lines", "{lines}", "--characters", "20"]

[programs.nap]
needs = ["sort"]
build = [["sh", "-c", "cd {plan}; cp {plan}/nap.sh '{build}/nap.sh'"]]
command = ["sh", "{build}/nap.sh", "{input}", "{output}"]

[programs.quick]
command = ["sort", "-o", "{output}", "{input}"]

[baseline]
program = "nap"

[[claim]]
name = "awake"
cell = { program = "quick" }
at-least = 2

[published]
file = "published.csv"
figures = "seconds"
"#;

const NAP: &str = "sleep 0.2; sort -o \"$2\" \"$1\"";

struct Bench {
    place: Place,
}

impl Bench {
    /// A folder with a plan and what it needs.
    fn new(plan: &str) -> Bench {
        let bench = Bench { place: Place::new() };
        bench.place.write("plans/sorting/plan.toml", plan);
        bench.place.write("plans/sorting/nap.sh", NAP);
        let published = "program,lines_then,seconds\nquick,1000,23\nquick,5000,79\n";
        bench.place.write("plans/sorting/published.csv", published);
        bench
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut bench = self.place.sweetspot(&["bench"]);
        bench.args(options).arg("plans/sorting").stdin(Stdio::null());
        bench
    }

    fn run(&self, options: &[&str]) -> Output {
        self.command(options).output().unwrap()
    }

    /// The report that a run with this exit status gives.
    fn json(&self, options: &[&str], status: i32) -> Value {
        let output = self.run(&[options, &["--json"]].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{said}\n{}", stdout(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What must fail with 125, with all of `parts` in the message.
    fn refused(&self, options: &[&str], parts: &[&str]) {
        let output = self.run(options);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert_has(&said, parts.iter().chain(&["\n  "]));
        assert_eq!(stdout(&output), "");
    }

    /// What lies in the folders that are kept, by name.
    fn kept(&self, folder: &str) -> Vec<PathBuf> {
        let folder = self.place.cache().join("bench").join(folder);
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

#[test]
fn a_title_controls_no_terminal() {
    let title = r#"title = "Sor\u001b]0;ting""#;
    let bench = Bench::new(&PLAN.replace("title = \"Sorting\"", title));
    for options in [&["--dry-run"][..], &["--rounds", "2"]] {
        let shown = stdout(&bench.run(options));
        assert!(shown.contains("Sor\\x1b]0;ting") && !shown.contains('\u{1b}'), "{shown}");
    }
}

#[test]
fn the_answer_comes_first() {
    let bench = Bench::new(PLAN);
    let output = bench.run(&[]);
    let shown = stdout(&output);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{shown}");
    for part in [
        "Sorting\nDoes a nap cost anything?\n\nawake: 'quick' is ",
        " times as fast (95 % interval ",
        ", 6 rounds) as 'nap'; claimed: at least 2 times as fast: holds.\n",
        "published seconds",
        "23 / 79",
        "baseline",
        "faster",
        "14 runs, each a fresh",
        "6\nrounds after one to warm up, warm cache, in random order from seed 3.",
        "All runs: sorting.sqlite",
    ] {
        let flat = shown.replace('\n', " ");
        assert!(
            shown.contains(part) || flat.contains(&part.replace('\n', " ")),
            "{part:?}:\n{shown}"
        );
    }
    assert!(bench.place.work().join("sorting.sqlite").exists());
    assert!(bench.kept("runs").is_empty(), "nothing is left of the runs");

    // Data and programs are kept; a changed source is built again.
    let (data, build) = (&bench.kept("data")[0], &bench.kept("build")[0]);
    let stamps = || {
        [data.join("made.json"), build.join("nap.sh")]
            .map(|p| p.metadata().unwrap().modified().unwrap())
    };
    let before = stamps();
    let report = bench.json(&["--rounds", "1"], 1);
    assert_eq!(stamps(), before);
    assert_eq!(report["claims"][0]["judgement"], "open", "one round shows nothing");
    let version = report["environment"]["versions"]["sort"].as_str().unwrap();
    assert!(version.starts_with("sort (GNU coreutils)"), "{version}");
    bench.place.write("plans/sorting/nap.sh", format!("{NAP} # changed"));
    bench.json(&["--rounds", "1"], 1);
    assert!(stamps()[0] == before[0] && stamps()[1] != before[1]);
    // Data that is not what was made is made again.
    fs::write(data.join("content/000000.txt"), "shorter").unwrap();
    let again = bench.json(&["--rounds", "1"], 1);
    assert_eq!(again["cells"][0]["output"], report["cells"][0]["output"]);
}

#[test]
fn a_scale_has_other_cells() {
    let bench = Bench::new(PLAN);
    let report = bench.json(&["--rounds", "1", "--scale", "full"], 1);
    let names: Vec<&str> = report["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| cell["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["nap, lines 50", "nap, lines 60", "quick, lines 50", "quick, lines 60"]);
    assert_eq!(bench.kept("data").len(), 2);
    assert_ne!(report["cells"][0]["output"], report["cells"][1]["output"]);
}

#[test]
fn a_wrong_answer_is_never_a_fast_answer() {
    let wrong = r#"
[programs.wrong]
command = ["cp", "{input}", "{output}"]
[programs.none]
command = ["true", "{output}"]
[programs.fails]
command = ["sh", "-c", "echo why >&2; exit 3", "{output}"]
[programs.missing]
command = ["/no/such/program", "{output}"]
[programs.forever]
command = ["sh", "-c", "sleep 1000", "{output}"]
[programs.link]
command = ["ln", "-s", "{input}", "{output}"]
[programs.later]
command = ["sh", "-c", "sort -o $2 $1; test -e $3/2 && echo more >> $2; test -e $3/1 && touch $3/2; touch $3/1", "sh", "{input}", "{output}", "{build}"]
"#;
    let plan = PLAN.replace("limit = \"60s\"", "limit = \"5s\"");
    let bench = Bench::new(&plan.replace("\n[baseline]", &format!("{wrong}\n[baseline]")));
    let output = bench.run(&["--json", "--rounds", "6"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (cell, (name, reason)) in [
        ("wrong", "its output is wrong: "),
        ("none", "it ended well, but made no {output}"),
        ("fails", "it failed with exit status: 3; it said:\n  why"),
        ("missing", "cannot start /no/such/program: No such file"),
        ("forever", "sh ran longer than 5 s and was killed"),
        ("link", "its output holds something that is neither a file nor a folder"),
        ("later", "its output is wrong: "),
    ]
    .iter()
    .enumerate()
    {
        let row = &report["cells"][cell + 2];
        assert_eq!(row["name"], *name);
        let given_up = row["given_up"].as_str().unwrap();
        assert!(given_up.contains(reason), "{given_up}");
        assert!(stderr(&output).contains(&format!("given up: {name}: ")), "{}", stderr(&output));
        assert_eq!(
            (&row["runs"], &row["median"], &row["effect"]),
            (&0.into(), &Value::Null, &Value::Null)
        );
    }
    assert_eq!(report["cells"][1]["runs"], 6, "the others go on");
    // Six rounds on a busy machine may leave it open.
    let judgement = report["claims"][0]["judgement"].as_str().unwrap();
    assert!(["holds", "open"].contains(&judgement), "{judgement}");
}

#[test]
fn known_hashes_folders_and_standard_output_are_checked() {
    let plan = r#"
title = "Outputs"
rounds = 1
[factors]
text = ["one", "two"]
[programs.folder]
command = ["sh", "-c", "mkdir -p $1/sub; printf $2 > $1/sub/file", "sh", "{output}", "{text}"]
[programs.printed]
command = ["printf", "one"]
[programs.same]
command = ["sh", "-c", "mkdir -p $1/sub; printf $TEXT > $1/sub/file", "sh", "{output}"]
env = { TEXT = "{text}" }
[programs.lonely]
command = ["printf", "{text}"]
output = "none"
[[exclude]]
program = "printed"
text = "two"
[baseline]
program = "folder"
[oracle]
same-within = ["text"]
[[oracle.known]]
program = "printed"
sha256 = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
"#;
    let bench = Bench::new(plan);
    let report = bench.json(&[], 1);
    let given_up: Vec<bool> = report["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| cell["given_up"].is_string())
        .collect();
    // What is printed is not what the folder holds, though its hash is the one that is known.
    assert_eq!(given_up, [false, false, true, false, false, false, false], "{report}");
    let outputs = |cell: usize| report["cells"][cell]["output"].as_str();
    assert_eq!(outputs(0), outputs(3));
    assert_ne!(outputs(0), outputs(1));
    assert_eq!(outputs(5), None);
    let wrong =
        bench.place.write("plans/sorting/plan.toml", plan.replace("sha256 = \"7", "sha256 = \"8"));
    let output = bench.run(&[]);
    assert!(
        stderr(&output).contains("which should be 8692c3"),
        "{}: {}",
        wrong.display(),
        stderr(&output)
    );
}

#[test]
fn a_subject_that_writes_to_the_data_ends_it() {
    let writes = "[\"sh\", \"-c\", \"sort -o $2 $1; chmod u+w $1; echo x 1<> $1\", \"sh\", ";
    let bench = Bench::new(&PLAN.replace(
        "[\"sort\", \"-o\", \"{output}\", \"{input}\"]",
        &format!("{writes}\"{{input}}\", \"{{output}}\"]"),
    ));
    bench.refused(
        &[],
        &["000000.txt has changed since it was checked", "may be writing to the data"],
    );
    // The next session makes it again.
    let again = bench.run(&[]);
    assert!(stderr(&again).contains("changed since"), "{}", stderr(&again));
}

#[test]
fn a_full_disk_is_no_fault_of_a_cell() {
    let bench = Bench::new(&PLAN.replace("\"--lines\", \"{lines}\"", "\"--lines\", \"100000\""));
    let Some(_disk) = Disk::mount(bench.place.work().join("disk"), 4) else {
        test_start::skip("only root can mount a disk of four megabytes");
        return;
    };
    bench.refused(&["--dir", "disk"], &["'input' cannot be made", "2100000 bytes are needed"]);
    let plan = PLAN.replace(
        "generate = [\"--lines\", \"{lines}\", \"--characters\", \"20\"]",
        "command = [\"sh\", \"-c\", \"seq {lines} > $0\", \"{path}\"]",
    );
    let plan = plan.replace("\"sort\", \"-o\"", "\"sh\", \"-c\", \"head -c 9M /dev/zero > $0\"");
    bench.place.write("plans/sorting/plan.toml", plan);
    bench.refused(&["--dir", "disk"], &["cannot write in", "no storage space", "--dir DIR"]);
    let report = bench.json(&["--rounds", "1"], 1);
    assert_eq!(
        report["cells"][1]["given_up"].as_str().map(|why| &why[..19]),
        Some("its output is wrong")
    );
}

#[test]
fn a_run_that_is_not_cold_is_not_called_so() {
    // Nothing leaves the page cache of a memory file system: there is nowhere else.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let folder = memory.path().to_str().unwrap();
    let cold = PLAN.replace("rounds = 6", "rounds = 1\ncache = \"cold\"");
    let bench = Bench::new(&cold);
    bench.refused(&["--dir", folder], &["stay in the page cache", "cache = \"none\""]);
    // A factor of that name goes before it.
    let factor = cold.replace("lines = [50]", "lines = [50]\ncache = [\"warm\", \"none\"]");
    bench.place.write("plans/sorting/plan.toml", factor);
    let report = bench.json(&["--dir", folder], 1);
    let caches: Vec<&str> = report["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| cell["cache"].as_str().unwrap())
        .collect();
    assert_eq!(caches, ["warm", "none", "warm", "none"]);
}

#[test]
fn a_cell_is_held_against_itself() {
    let output = Bench::new(PLAN).run(&["--check", "--rounds", "6"]);
    let shown = stdout(&output);
    assert!(shown.contains("Check: the baseline against itself is "), "{shown}");
    assert!(shown.contains("noise floor "), "{shown}");
    let is_same = shown.contains("is same within 2 %: noise");
    let verdict = if is_same { "fast: holds." } else { "fast: perhaps holds." };
    assert!(shown.contains(verdict), "{shown}");
    assert_eq!(shown.contains("marked down"), !is_same, "{shown}");
}

#[test]
fn subjects_report_what_they_measured() {
    let plan = r#"
title = "Samples"
rounds = 6
figure = "samples"
[programs.eight]
command = ["sh", "-c", "eval \"echo '{{\\\"unit\\\": \\\"ms\\\", \\\"samples\\\": [8, 16, 12]}}' >&$SWEETSPOT_SAMPLES_FD\""]
[programs.four]
command = ["sh", "-c", "eval \"echo '{{\\\"unit\\\": \\\"ms\\\", \\\"samples\\\": [3, 2, 40, 4]}}' > /dev/fd/$SWEETSPOT_SAMPLES_FD\""]
[programs.silent]
command = ["true"]
[programs.babbles]
command = ["sh", "-c", "eval \"echo 17 >&$SWEETSPOT_SAMPLES_FD\""]
[baseline]
program = "eight"
[[claim]]
name = "median"
cell = { program = "four" }
at-least = 3
"#;
    let bench = Bench::new(plan);
    let report = bench.json(&[], 1);
    let cells = &report["cells"];
    assert_eq!((&cells[0]["median"], &cells[0]["unit"]), (&12.0.into(), &"ms".into()), "{report}");
    assert_eq!(cells[0]["samples"], serde_json::json!([12.0, 12.0, 15.2, 15.92, 16.0]));
    assert_eq!(cells[1]["median"], 3.5);
    assert_eq!(report["claims"][0]["judgement"], "holds", "12 is more than three times 3.5");
    assert!(cells[2]["given_up"].as_str().unwrap().contains("reported no samples"));
    assert!(cells[3]["given_up"].as_str().unwrap().contains("not understood"));
    let shown = stdout(&bench.run(&[]));
    assert_has(&shown, ["P50", "P99", "12.0 ms", "15.9"]);
}

/// The store, as others would read it.
fn connection(bench: &Bench) -> rusqlite::Result<rusqlite::Connection> {
    let path = bench.place.work().join("sorting.sqlite");
    rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// Three cells that take next to nothing.
const TINY: &str = r#"
title = "Tiny"
seed = 5
rounds = 6
[data.input]
generate = ["--lines", "3"]
[programs.a]
command = ["cat", "{input}"]
[programs.b]
build = [["cp", "/bin/cat", "{build}/cat"]]
command = ["{build}/cat", "{input}"]
[programs.c]
command = ["cp", "{input}", "{output}"]
[baseline]
program = "a"
"#;

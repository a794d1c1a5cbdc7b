//! What a user of `sweetspot bench` sees. Nothing here asserts a time: a claim that must hold is about
//! a command that sleeps.

use test_start as _;

mod memory_disk;
mod place;

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
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{said}\n{}", text(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What must fail with 125, with all of `parts` in the message.
    fn refused(&self, options: &[&str], parts: &[&str]) {
        let output = self.run(options);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{said}");
        for part in parts.iter().chain(&["\n  "]) {
            assert!(said.contains(part), "{part:?} is missing in {said:?}");
        }
        assert_eq!(text(&output), "");
    }

    /// What lies in the folders that are kept, by name.
    fn kept(&self, folder: &str) -> Vec<PathBuf> {
        let folder = self.place.cache().join("bench").join(folder);
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_answer_comes_first() {
    let bench = Bench::new(PLAN);
    let output = bench.run(&[]);
    let shown = text(&output);
    assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""), "{shown}");
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
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
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
        assert!(said(&output).contains(&format!("given up: {name}: ")), "{}", said(&output));
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
        said(&output).contains("which should be 8692c3"),
        "{}: {}",
        wrong.display(),
        said(&output)
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
    assert!(said(&again).contains("changed since"), "{}", said(&again));
}

#[test]
fn a_full_disk_is_no_fault_of_a_cell() {
    let bench = Bench::new(&PLAN.replace("\"--lines\", \"{lines}\"", "\"--lines\", \"100000\""));
    let Some(_disk) = Disk::mount(bench.place.work().join("disk"), 4) else {
        assert!(std::env::var_os("CI").is_none(), "root is needed to mount a disk");
        eprintln!("skipped: only root can mount a disk of four megabytes");
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
fn what_is_not_installed_is_skipped_with_the_line_that_installs_it() {
    let needs = "needs = [\"sort\", \"no-such-compiler\"]\ninstall = \"apt-get install it\"";
    // Its data would be made by what it is built of.
    let other = "[data.other]\ncommand = [\"no-such-command\", \"{path}\"]\n";
    let plan = PLAN
        .replace("[programs.quick]\n", &format!("{other}\n[programs.quick]\n{needs}\n"))
        .replace("\"{output}\", \"{input}\"]", "\"{output}\", \"{input}\", \"{other}\"]");
    let output = Bench::new(&plan).run(&["--rounds", "1"]);
    let (shown, loud) = (text(&output), said(&output));
    let line = "'quick' needs no-such-compiler; to install it: apt-get install it";
    assert!(shown.contains(&format!("Skipped: {line}.")), "{shown}");
    assert!(loud.contains(&format!("sweetspot: {line}: skipped")), "{loud}");
    assert!(shown.contains("awake: 'quick' was not measured against 'nap'"), "{shown}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn mistakes_are_said_before_anything_runs() {
    let bench = Bench::new(&PLAN.replace("rounds = 6", "round = 6"));
    bench.refused(&[], &["plans/sorting/plan.toml:5: 'round' is not known in a plan", "rounds"]);
    bench.place.write("plans/sorting/plan.toml", PLAN);
    bench.refused(&["--scale", "huge"], &["there is no scale 'huge'", "--scale full"]);
    bench.refused(&["--resume"], &["no unfinished session", "without --resume"]);
    bench.place.write("plans/sorting/published.csv", "a,b\n1,2\n");
    bench.refused(&[], &["published.csv: there is no column 'seconds'", "a, b"]);
    bench.place.write("plans/sorting/published.csv", "seconds\n1\n");
    bench.place.write("plans/sorting/plan.toml", PLAN.replace("\"--lines\"", "\"--line\""));
    bench.refused(&[], &["the data set 'input' cannot be made", "--line", "generate --help"]);
    bench.place.write("plans/sorting/plan.toml", PLAN.replace("; cp", "; false"));
    bench.refused(&[], &["'nap' cannot be built: sh -c cd ", "exit status: 1", "by hand"]);
    let missing = bench.place.sweetspot(&["bench", "nowhere"]).output().unwrap();
    assert!(said(&missing).contains("nowhere: the plan cannot be read"), "{}", said(&missing));
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let bench = Bench::new(PLAN);
    let output = bench.run(&["--dry-run"]);
    let shown = text(&output);
    for part in [
        "2 cells:",
        "1  nap (cache warm, a baseline)",
        "2  quick (cache warm, against 1)",
        "Order, from seed 3:",
        "input: 1 MiB, will be made",
        "14 runs; how long they take is known after the first round",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in:\n{shown}");
    }
    assert!(!bench.place.cache().join("bench").exists(), "nothing was made");
    assert!(!bench.place.work().join("sorting.sqlite").exists());
    bench.json(&["--rounds", "1"], 1);
    let after = text(&bench.run(&["--dry-run"]));
    assert!(after.contains("input: 1 MiB, is there"), "{after}");
    assert!(after.contains(" s of running, as the last session went"), "{after}");

    // As data: what each cell would run; data that is missing keeps its placeholder.
    let cells = |options: &[&str]| {
        let cells = bench.json(&[&["--dry-run"], options].concat(), 0)["cells"].take();
        let words = |cell: &Value| {
            let words = cell["command"].as_array().unwrap().iter();
            words.map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        (words(&cells[0]), words(&cells[1]), cells)
    };
    let (nap, quick, told) = cells(&[]);
    let input = nap[2].clone();
    assert!(nap[1].ends_with("/nap.sh") && input.ends_with("/000000.txt"), "{told}");
    assert!(PathBuf::from(&input).is_file(), "{input}");
    assert_eq!(quick, ["sort", "-o", "{output}", input.as_str()]);
    assert_eq!((&told[1]["against"], &told[0]["against"]), (&"nap".into(), &Value::Null));
    assert_eq!(cells(&["--dir", "nowhere"]).1[3], "{input}");
}

/// `--dir` may name a folder in which the user has things of the same names.
#[test]
fn what_the_user_has_in_the_folder_stays() {
    let bench = Bench::new(TINY);
    let names = ["runs/results", "runs/.tmpAbCdEf", "runs/sweetspot-run-mine", "linked"];
    for name in names {
        bench.place.write(&format!("mine/{name}/data.csv"), "years of work");
    }
    let links = bench.place.work().join("mine/runs");
    std::os::unix::fs::symlink("../linked", links.join("sweetspot-run-link")).unwrap();
    bench.place.write("mine/linked/.sweetspot-scratch", "");
    bench.place.write("mine/lock", "a file of the user's");
    for options in [&["--dir", "mine", "--dry-run"][..], &["--dir", "mine", "--rounds", "1"]] {
        let output = bench.run(options);
        assert_ne!(output.status.code(), Some(125), "{}", said(&output));
        for name in names {
            let path = bench.place.work().join("mine").join(name).join("data.csv");
            assert_eq!(fs::read_to_string(path).unwrap(), "years of work", "{name} {options:?}");
        }
        let lock = fs::read_to_string(bench.place.work().join("mine/lock")).unwrap();
        assert_eq!(lock, "a file of the user's");
    }
}

#[test]
fn a_cell_is_held_against_itself() {
    let output = Bench::new(PLAN).run(&["--check", "--rounds", "6"]);
    let shown = text(&output);
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
    let shown = text(&bench.run(&[]));
    for part in ["P50", "P99", "12.0 ms", "15.9"] {
        assert!(shown.contains(part), "{part:?} is missing in:\n{shown}");
    }
}

#[test]
fn ctrl_c_says_what_is_known_and_a_session_goes_on() {
    let bench = Bench::new(PLAN);
    let running = bench.command(&[]).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    wait_for_runs(&bench, 4);
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let output = running.wait_with_output().unwrap();
    let shown = text(&output);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("Interrupted: this is what is known so far."), "{shown}");
    let partial = "SELECT round, figure FROM cell_run GROUP BY round HAVING count(*) = 1";
    let partial: Option<(i64, f64)> = connection(&bench)
        .unwrap()
        .query_row(partial, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .ok();
    bench.refused(&["--resume", "--seed", "99"], &["began with the seed 3", "--seed"]);

    // Another source is another program.
    bench.place.write("plans/sorting/nap.sh", format!("{NAP} # other"));
    bench.refused(&["--resume"], &["a file of the plan's folder has changed", "--accept-changes"]);
    bench.place.write("plans/sorting/nap.sh", NAP);
    // An edited plan is never mixed; another program is, where one says so.
    bench.place.write("plans/sorting/plan.toml", PLAN.replace("0.2", "0.3") + "# new\n");
    bench.refused(&["--resume"], &["the plan has changed since it began", "without --resume"]);
    bench.refused(&["--resume", "--accept-changes"], &["the plan has changed"]);
    bench.place.write("plans/sorting/plan.toml", PLAN);
    let report = bench.json(&["--resume"], 0);
    assert_eq!((&report["rounds"], &report["cells"][0]["runs"]), (&6.into(), &6.into()));
    bench.refused(&["--resume"], &["no unfinished session"]);
    // What there was of a round was measured anew, as its runs are only comparable with each other.
    if let Some((round, before)) = partial {
        let now = "SELECT figure FROM cell_run WHERE round = ? AND place = 0";
        let now: f64 =
            connection(&bench).unwrap().query_row(now, [round], |row| row.get(0)).unwrap();
        assert_ne!(now, before, "round {round}");
    }
}

#[test]
fn a_budget_ends_it_after_a_round_and_it_goes_on() {
    // A round naps for 0.2 seconds at the least, and there are seven with the one to warm up.
    let bench = Bench::new(PLAN);
    let report = bench.json(&["--budget=1s"], 1);
    assert_eq!(report["stopped"], "budget", "{report:#}");
    let shown = text(&bench.run(&["--budget=1s", "--seed=4"]));
    assert!(shown.contains("The time is up: this is what is known so far."), "{shown}");
    // Whether what is claimed holds is another question, which a busy machine leaves open.
    let whole = bench.run(&["--resume", "--json"]);
    let report: Value = serde_json::from_slice(&whole.stdout).unwrap();
    assert_eq!((&report["rounds"], &report["stopped"]), (&6.into(), &Value::Null));
}

#[test]
fn a_changed_machine_is_refused_unless_told_otherwise() {
    let bench = Bench::new(
        &PLAN
            .replace("command = [\"sort\"", "command = [\"{build}/mine\"")
            .replace("build = [[", "build = [[\"cp\", \"/usr/bin/sort\", \"{build}/mine\"], ["),
    );
    let running = bench.command(&[]).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    wait_for_runs(&bench, 3);
    kill_process_group(Pid::from_child(&running), Signal::KILL).unwrap();
    running.wait_with_output().unwrap();
    fs::File::open(bench.kept("build")[0].join("mine"))
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    bench.refused(&["--resume"], &["mine has changed since it began", "--accept-changes"]);
    let report = bench.json(&["--resume", "--accept-changes"], 0);
    assert!(report["notes"].to_string().contains("mine has changed"), "{report}");
}

/// Waits until a session has stored so many runs.
fn wait_for_runs(bench: &Bench, runs: usize) {
    let begun = Instant::now();
    while stored(bench) < runs {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is stored");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn stored(bench: &Bench) -> usize {
    let count = "SELECT count(*) FROM cell_run";
    let found = connection(bench).and_then(|found| found.query_row(count, [], |row| row.get(0)));
    found.unwrap_or(0)
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

/// What must not depend on how often a session was killed: the order of all rounds, the cells, how
/// often each ran, and what came out.
fn essence(report: &Value) -> Value {
    let cells = report["cells"].as_array().unwrap().iter();
    let cells: Vec<Value> = cells
        .map(|cell| {
            serde_json::json!([cell["name"], cell["runs"], cell["output"], cell["given_up"]])
        })
        .collect();
    serde_json::json!([report["order"], cells, report["rounds"], report["runs"]])
}

#[test]
fn killed_at_any_instant_a_session_comes_to_the_same_table() {
    const KILLS: usize = 100;
    let undisturbed = Bench::new(TINY);
    let begun = Instant::now();
    let expected = essence(&undisturbed.json(&[], 0));
    assert_eq!(expected[3], 21, "{expected}");
    let usual = begun.elapsed().min(Duration::from_millis(600)); // where others keep it busy

    let bench = Bench::new(TINY);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut finished = 0;
    let mut kills = 0;
    let mut options: &[&str] = &[];
    while kills < KILLS {
        // xorshift64: any instant from before the first file to after the last.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let instant = usual.mul_f64(0.8 * (random >> 11) as f64 / (1_u64 << 53) as f64);
        let mut command = bench.command(options);
        command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let running = command.spawn().unwrap();
        std::thread::sleep(instant);
        let _ = kill_process_group(Pid::from_child(&running), Signal::KILL);
        let output = running.wait_with_output().unwrap();
        match output.status.code() {
            None => {
                kills += 1;
                options = &["--resume"];
            }
            Some(0) => {
                let report = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(essence(&report), expected, "after {kills} kills");
                finished += 1;
                options = &[];
            }
            // It was killed before the session began, or after it had ended.
            Some(125) if said(&output).contains("no unfinished session") => options = &[],
            Some(_) => panic!("{}", said(&output)),
        }
    }
    let last = bench.run(&[options, &["--json"]].concat());
    let last =
        if said(&last).contains("no unfinished session") { bench.run(&["--json"]) } else { last };
    assert_eq!(essence(&serde_json::from_slice(&last.stdout).unwrap()), expected);
    assert!(bench.kept("runs").len() <= 1, "what was killed is cleared away");
    eprintln!("{kills} kills, {} sessions came to an end", finished + 1);
}

#[test]
fn the_queue_survives_restarts() {
    let undisturbed = Bench::new(TINY);
    let expected = essence(&undisturbed.json(&["--rounds", "2"], 0));

    let bench = Bench::new(TINY);
    // Ends the process as a restart would, once the machine has been told.
    bench.place.write("reboot.sh", "echo restart >> restarts; kill -9 $PPID; sleep 1");
    let units = bench.place.work().join("units");
    let options = ["--rounds=2", "--json", "--between=reboot", "--settle=1s", "--unit-dir=units"];
    let reboot = ["--reboot-command=sh reboot.sh"];
    let first = bench.run(&[&options[..], &reboot].concat());
    assert_eq!(first.status.code(), None, "{}", said(&first));
    let unit = units.join("sweetspot-bench-sorting.service");
    let link = units.join("multi-user.target.wants/sweetspot-bench-sorting.service");
    let mut starts = 0;
    while link.exists() {
        starts += 1;
        assert!(starts < 20, "it does not end");
        let text = fs::read_to_string(&unit).unwrap();
        let of = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.unwrap_or_else(|| panic!("no {key} in\n{text}")).to_owned()
        };
        // As systemd starts it: in a folder and an environment of the unit's, and no other.
        let begun = Instant::now();
        let started = Command::new("sh")
            .args(["-c", &format!("exec {}", of("ExecStart="))])
            .env_clear()
            .env("PATH", of("Environment=\"PATH=").trim_end_matches('"'))
            .current_dir(of("WorkingDirectory="))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(matches!(started.status.code(), None | Some(0)), "{}", said(&started));
        assert!(begun.elapsed() >= Duration::from_secs(1), "it settles first");
    }
    let restarts = fs::read_to_string(bench.place.work().join("restarts")).unwrap();
    assert_eq!((starts, restarts.lines().count()), (6, 6), "one run after each start");
    assert!(!unit.exists(), "nothing goes on at the next start");
    let report = fs::read_to_string(bench.place.work().join("sorting.json")).unwrap();
    assert_eq!(essence(&serde_json::from_str(&report).unwrap()), expected);
}

#[test]
fn a_unit_that_cannot_be_written_is_said_and_nothing_restarts() {
    let bench =
        Bench::new(&TINY.replace(
            "[\"cat\", \"{input}\"]",
            "[\"sh\", \"-c\", \"sleep 0.5; cat $0\", \"{input}\"]",
        ));
    bench.place.write("units", "a file");
    let options = ["--between=reboot", "--unit-dir=units", "--reboot-command=touch restarted"];
    bench.refused(&options, &["cannot write units/multi-user.target.wants", "sudo"]);
    assert!(!bench.place.work().join("restarted").exists());
    assert_eq!(stored(&bench), 0, "that is known before anything is measured");

    // Where it is interrupted before the first restart, nothing goes on by itself.
    fs::remove_file(bench.place.work().join("units")).unwrap();
    let running = bench.command(&options).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    wait_for_runs(&bench, 1);
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let output = running.wait_with_output().unwrap();
    let is_restarted = bench.place.work().join("restarted").exists();
    assert!(is_restarted || text(&output).contains("Interrupted"), "{}", text(&output));
    let unit = bench.place.work().join("units/sweetspot-bench-sorting.service");
    assert_eq!(unit.exists(), is_restarted);
}

/// Brings runs to one of two nodes, as a scheduler would; every seventh is lost.
const LAUNCHER: &str = r#"
echo "queued and waiting for resources"
n=$(($(cat launched 2>/dev/null || echo 0) + 1))
echo $n > launched
test $(($n % 7)) = 0 && { echo "node failure" >&2; exit 1; }
SLURMD_NODENAME=node$(($n / 3 % 2)) exec "$@"
"#;

#[test]
fn runs_go_where_a_launcher_brings_them() {
    let bench = Bench::new(&TINY.replace("rounds = 6", "rounds = 12"));
    bench.place.write("launcher.sh", LAUNCHER);
    let options = ["--launcher", "sh launcher.sh", "--json"];
    let output = bench.run(&options);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    assert_eq!((&report["rounds"], &report["runs"]), (&12.into(), &39.into()), "{report}");
    assert!(said(&output).contains("lost a node (exit status: 1, node failure): it is repeated"));
    // Only runs of one round on one node are pairs.
    let pairs = report["cells"][1]["effect"]["rounds"].as_u64().unwrap();
    assert!((1..12).contains(&pairs), "{report}");
    let nodes = report["nodes"].as_array().unwrap();
    assert_eq!(nodes, &["node0", "node1"].map(Value::from));
    let known: String = connection(&bench)
        .unwrap()
        .query_row("SELECT environment FROM node WHERE name = 'node1'", [], |row| row.get(0))
        .unwrap();
    assert!(known.contains("\"kernel\""), "{known}");

    bench.refused(
        &["--launcher", "/no/such/launcher"],
        &["'/no/such/launcher' cannot be used: cannot start /no"],
    );
    bench.refused(&["--launcher", "false"], &["lost a node", "4. time in a row", "--resume"]);
    let by_hand = bench.place.sweetspot(&["measure", "by hand"]).output().unwrap();
    assert!(said(&by_hand).contains("not by people"), "{}", said(&by_hand));
}

/// More names than fit into a command.
#[test]
fn a_launcher_brings_runs_with_thousands_of_inputs() {
    let many = r#"
title = "Many"
[data.input]
generate = ["--preset", "small", "--scale", "0.2"]
[programs.count]
command = ["sh", "-c", "ls \"$0\" | wc -l > \"$1\"", "{input}", "{output}"]
[baseline]
program = "count"
"#;
    let bench = Bench::new(many);
    let report = bench.json(&["--launcher", "nice -n 1", "--rounds", "1"], 0);
    assert_eq!(report["cells"][0]["runs"], 1, "{report}");
}

#[test]
fn a_launcher_dies_with_the_bench() {
    let bench = Bench::new(TINY);
    bench.place.write("launcher.sh", "echo $$ > pid.new; mv pid.new pid; exec sleep 1000");
    let mut command = bench.command(&["--launcher", "sh launcher.sh"]);
    let mut running = command.process_group(0).stdout(Stdio::null()).spawn().unwrap();
    let pid = bench.place.work().join("pid");
    let begun = Instant::now();
    let wait_for = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for(&|| pid.exists());
    let launcher = format!("/proc/{}", fs::read_to_string(&pid).unwrap().trim());
    assert!(PathBuf::from(&launcher).exists());
    kill_process_group(Pid::from_child(&running), Signal::KILL).unwrap();
    running.wait().unwrap();
    wait_for(&|| !PathBuf::from(&launcher).exists());
}

#[test]
fn what_several_run_at_once_is_one_run() {
    let bench = Bench::new(TINY);
    bench.place.write("both.sh", "\"$@\" & \"$@\"; wait");
    let report = bench.json(&["--launcher", "sh both.sh", "--rounds", "1"], 0);
    assert_eq!(report["runs"], 6, "{report}");
    assert_eq!(report["cells"][0]["ranks"], 2);
    // One that says nothing is missed, though the launcher ends well.
    bench.place.write(
        "both.sh",
        "n=$(($(cat n || echo 0) + 1)); echo $n > n\n\"$@\" & test $n = 3 || \"$@\"; wait",
    );
    let output = bench.run(&["--launcher", "sh both.sh", "--rounds", "1"]);
    assert!(said(&output).contains("only 1 of 2 answered"), "{}", said(&output));
    assert_eq!(output.status.code(), Some(0));
}

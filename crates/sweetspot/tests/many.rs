//! Many runs, one answer: each run leaves a file of its own in a folder, whatever started it, and
//! `sweetspot summary` makes one of them.

use test_start::{assert_has, stderr};

mod place;

use place::Place;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Records of 100 bytes that each run copies.
const RECORDS: u64 = 5000;
/// What a run does: $1 is its number, by which its file is named.
const COPY: &str = "dd if=in of=out.$1 bs=100 2>/dev/null";

impl Place {
    /// With input, and a script that runs the command line with `$SWEETSPOT` in front.
    fn with_input() -> Place {
        let place = Place::new();
        place.write("in", vec![b'r'; RECORDS as usize * 100]);
        place.write("copy", COPY);
        place
    }

    /// Runs a shell command in which `$SWEETSPOT` is the program.
    fn shell(&self, command: &str) -> Output {
        let mut shell = self.command("sh");
        shell
            .args(["-c", command])
            .env_remove("MAKEFLAGS")
            .env("SWEETSPOT_BINARY", env!("CARGO_BIN_EXE_sweetspot"));
        shell.output().unwrap()
    }

    fn summary(&self, folder: &str) -> (String, Value) {
        let text = self.sweetspot(&["summary", folder]).output().unwrap();
        assert!(text.status.success(), "{text:?}");
        let json = self.sweetspot(&["summary", "--json", folder]).output().unwrap();
        let json = serde_json::from_slice(&json.stdout).unwrap_or_else(|_| panic!("{json:?}"));
        (String::from_utf8(text.stdout).unwrap(), json)
    }
}

fn names(folder: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// `number` runs by this shell command, each of which copied all records.
#[track_caller]
fn check_runs(command: &str, number: u64) -> (Place, String, Value) {
    let place = Place::with_input();
    let output = place.shell(command);
    assert!(output.status.success() && output.stderr.is_empty(), "{command}: {output:?}");
    assert_eq!(names(&place.work().join("job")).len() as u64, number, "{command}");
    let (text, json) = place.summary("job");
    let merged = &json["summaries"];
    assert_eq!(merged["runs"].as_array().unwrap().len() as u64, number, "{text}");
    let total = |name: &str| merged["total"][name].as_u64().unwrap();
    assert_eq!(total("written_bytes") / 1000, number * RECORDS / 10, "{text}");
    // Each copies with two calls a record.
    let calls = total("calls");
    assert!(calls >= number * (2 * RECORDS - 4) && calls <= number * (2 * RECORDS + 16), "{calls}");
    assert!(total("calls_made") < calls, "{text}");
    assert!(text.contains(&format!("{number} runs of sh on ")), "{text}");
    let (sum, spread) = (merged["total"]["seconds"].as_f64(), &merged["spread"]["seconds"]);
    let [min, median, max] = ["min", "median", "max"].map(|name| spread[name].as_f64().unwrap());
    assert!(0.0 < min && min <= median && median <= max && max <= sum.unwrap(), "{spread}");
    let slowest = merged["slowest"].as_u64().unwrap() as usize;
    assert_eq!(merged["runs"][slowest]["seconds"].as_f64(), Some(max));
    assert!(text.contains(&format!("out.* ({number} files)")), "{text}");
    (place, text, json)
}

#[test]
fn runs_of_xargs_make_and_loops_are_one_answer() {
    check_runs("seq 8 | xargs -P 4 -n 1 $SWEETSPOT_BINARY run --summary=job/ -- sh copy", 8);
    let make = "printf 'all: 1.run 2.run 3.run 4.run 5.run\\n%%.run:\\n\\t@$$SWEETSPOT_BINARY run \
                --summary=job -- sh copy $*\\n' > Makefile; mkdir job; make -s -j 3";
    check_runs(make, 5);
    check_runs(
        "for n in 1 2 3; do $SWEETSPOT_BINARY run --summary=a/../job/ -- sh copy $n; done",
        3,
    );
}

#[test]
fn ranks_of_mpi_are_told_apart() {
    let has_mpi = Command::new("mpirun").arg("--version").output().is_ok();
    if !has_mpi {
        test_start::skip("apt-get install openmpi-bin");
        return;
    }
    let command = "mpirun --allow-run-as-root --oversubscribe -n 4 $SWEETSPOT_BINARY run \
                   --summary=job/ -- sh -c 'set -- $OMPI_COMM_WORLD_RANK; . ./copy'";
    let (place, text, json) = check_runs(command, 4);
    let runs = json["summaries"]["runs"].as_array().unwrap();
    for (rank, run) in runs.iter().enumerate() {
        assert_eq!(run["origin"]["rank"], rank, "{text}");
        assert_eq!(run["origin"]["ranks"], 4, "{text}");
    }
    assert!(text.contains("slowest   rank "), "{text}");
    fs::remove_file(place.work().join(runs[2]["file"].as_str().unwrap())).unwrap();
    let (text, json) = place.summary("job");
    assert!(text.contains("note      nothing was found of rank 2\n"), "{text}");
    assert_eq!(json["summaries"]["missing_ranks"], serde_json::json!([2]));
}

#[test]
fn what_is_no_file_of_a_run_is_skipped_and_named() {
    let (place, ..) =
        check_runs("for n in 1 2; do $SWEETSPOT_BINARY run --summary=job/ -- sh copy $n; done", 2);
    let ours = fs::read_to_string(names(&place.work().join("job")).first().unwrap()).unwrap();
    let newer = ours.replace("\"sweetspot_summary\": 1", "\"sweetspot_summary\": 99");
    let strange = ours.replace("\"seconds\": ", "\"seconds\": [], \"x\": ");
    let cases = [
        ("a-note", "hello", "not a file of a run"),
        ("binary", "\u{0}\u{1}", "not a file of a run"),
        ("other.json", "{\"a\": 1}", "not a file of a run"),
        ("list.json", "[1]", "not a file of a run"),
        ("running.json", "", "empty: its run is not over"),
        ("cut.json", &ours[..ours.len() / 2], "not complete: it ends too early"),
        ("strange.json", &strange, "broken: invalid type"),
        ("newer.json", &newer, "with schema 99; this one reads 1"),
        ("text", "sweetspot summary\nprogram", "a text summary"),
    ];
    for (name, content, _) in cases {
        place.write(&format!("job/{name}"), content);
    }
    assert!(
        place.shell("mkfifo job/pipe; mkdir job/folder; ln -s nowhere job/link").status.success()
    );
    let (text, json) = place.summary("job");
    assert_eq!(json["summaries"]["runs"].as_array().unwrap().len(), 2, "{text}");
    let skipped = json["skipped"].as_array().unwrap();
    assert_eq!(skipped.len(), cases.len() + 1, "{skipped:#?}");
    let all = cases.iter().map(|(name, _, why)| (*name, *why));
    for (name, why) in all.chain([("pipe", "not a regular file")]) {
        let file = format!("job/{name}");
        let said = skipped.iter().find(|skipped| skipped["file"] == *file);
        let said =
            said.unwrap_or_else(|| panic!("{file} in {skipped:#?}"))["why"].as_str().unwrap();
        assert!(said.contains(why), "{file}: {said}");
    }
    assert!(text.contains("skipped   job/a-note: not a file of a run\n"), "{text}");
    assert!(text.contains("skipped   and 4 files more"), "{text}");
    // A field that is new to this version is no reason.
    let grown = ours.replace("\"seconds\": ", "\"new\": {}, \"seconds\": ");
    let grown = place.write("grown.json", grown);
    let (text, _) = place.summary(grown.to_str().unwrap());
    assert!(text.starts_with("1 run of sh on "), "{text}");
}

#[test]
fn what_went_wrong_in_single_runs_is_said() {
    let place = Place::with_input();
    place.shell(
        "$SWEETSPOT_BINARY run --summary=job/ -- sh copy 1
         SWEETSPOT=off $SWEETSPOT_BINARY run --summary=job/ -- sh copy 2
         $SWEETSPOT_BINARY run --summary=job/ -- sh -c 'kill -9 $$'
         for n in 1 2; do $SWEETSPOT_BINARY run --summary=job/ -- sh -c 'exit 3'; done",
    );
    let (text, json) = place.summary("job");
    assert_has(
        &text,
        [
            "5 runs of sh on ",
            "note      ended with exit status 3: ",
            " and 1 run more\n",
            "note      ended with signal 9: ",
            "note      not buffered (SWEETSPOT=off is set in the environment): ",
        ],
    );
    assert_eq!(json["summaries"]["missing_ranks"], serde_json::json!([]));
}

#[test]
fn profiles_are_merged_too() {
    let place = Place::with_input();
    let output = place.shell(
        "for n in 0 1; do OMPI_COMM_WORLD_RANK=$n OMPI_COMM_WORLD_SIZE=2 \
         $SWEETSPOT_BINARY profile --json job/ -- sh copy $n; done",
    );
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let (text, json) = place.summary("job");
    assert!(json["summaries"].is_null() && json["sweetspot_merge"] == 1, "{json:#}");
    let merged = &json["profiles"];
    let of = |file: &Value, path: &str| file["path"].as_str().unwrap().ends_with(path);
    let input = merged["files"].as_array().unwrap().iter().find(|file| of(file, "/in")).unwrap();
    assert_eq!(input["runs"], 2);
    let single = names(&place.work().join("job")).into_iter().map(|path| {
        let profile: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let files = profile["files"].as_array().unwrap();
        let input = files.iter().find(|file| of(file, "/in")).unwrap();
        let count = |name: &str| input[name].as_u64().unwrap();
        count("reads") + count("writes") + count("seeks")
    });
    let calls: u64 = single.sum();
    assert!(calls > 2 * RECORDS, "{calls}");
    assert_eq!(input["calls"], calls);
    assert_eq!(input["read_bytes"], 2 * RECORDS * 100);
    let [all, most] = ["seconds", "seconds_max"].map(|name| input[name].as_f64().unwrap());
    assert!(0.0 < most && most < all, "{input}");
    assert!(text.contains("estimate  with sweetspot run the slowest takes "), "{text}");
    assert!(text.contains("rank 0 on ") && text.contains("out.* (2 files)"), "{text}");
    // Both kinds in one folder are two tables.
    place.shell("$SWEETSPOT_BINARY run --summary=job -- sh copy 3");
    let (text, json) = place.summary("job");
    assert!(json["summaries"].is_object() && json["profiles"].is_object());
    assert!(text.contains("1 run of sh on ") && text.contains("2 runs of sh on "), "{text}");
    // The report is there where it is asked for.
    let asked = "$SWEETSPOT_BINARY profile --json job/ --output report -- true";
    assert!(place.shell(asked).status.success() && place.work().join("report").is_file());
}

#[test]
fn a_mistake_costs_no_run() {
    let place = Place::with_input();
    let check = |command: &str, status: i32, said: &str| {
        let output = place.shell(command);
        assert_eq!(output.status.code(), Some(status), "{command}: {output:?}");
        let stderr = stderr(&output);
        assert!(stderr.contains(said), "{command}: {stderr}");
    };
    place.write("file", "x");
    for way in ["run --summary=", "profile --json "] {
        let command = format!("$SWEETSPOT_BINARY {way}file/ -- touch ran");
        check(&command, 125, &format!("{}file/: ", way.split_once(' ').unwrap().1));
        assert!(!place.work().join("ran").exists());
    }
    check("$SWEETSPOT_BINARY run --summary=empty/ -- ./missing", 127, "./missing");
    assert!(names(&place.work().join("empty")).is_empty(), "a run that never was leaves no file");
    check("$SWEETSPOT_BINARY summary nowhere", 125, "nowhere: No such file");
    check("mkdir none; $SWEETSPOT_BINARY summary none", 125, "none: nothing is in it");
    check("$SWEETSPOT_BINARY summary file", 125, "file: no file of a run is in it");
    check("$SWEETSPOT_BINARY summary", 2, "no folder of summaries\n  try: sweetspot summary job/");
}

/// By what it asks of the kernel for each: a time would be that of a busy machine.
#[test]
fn a_thousand_ranks_take_a_few_system_calls_each() {
    const CALLS_EACH_MAX: usize = 8;
    let place = Place::with_input();
    place.shell("$SWEETSPOT_BINARY run --summary=one/ -- sh copy 1");
    let one = names(&place.work().join("one")).pop_first().unwrap();
    let one: Value = serde_json::from_slice(&fs::read(one).unwrap()).unwrap();
    let calls = |ranks: u64| {
        let folder = place.work().join(ranks.to_string());
        fs::create_dir(&folder).unwrap();
        for rank in 0..ranks {
            let mut record = one.clone();
            record["origin"]["rank"] = rank.into();
            record["origin"]["ranks"] = ranks.into();
            fs::write(folder.join(format!("{rank}.json")), record.to_string()).unwrap();
        }
        let output = place.shell(&format!("strace -f -o calls $SWEETSPOT_BINARY summary {ranks}"));
        if output.status.code() == Some(127) {
            test_start::skip("strace is not installed");
            return None;
        }
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with(&format!("{},000 runs of sh on ", ranks / 1000)), "{text}");
        assert!(!text.contains("nothing was found of rank"), "{text}");
        Some(fs::read_to_string(place.work().join("calls")).unwrap().lines().count())
    };
    let Some((thousand, two)) = calls(1000).zip(calls(2000)) else { return };
    let each = (two - thousand).div_ceil(1000);
    assert!((4..=CALLS_EACH_MAX).contains(&each), "{each} calls for each file");
}

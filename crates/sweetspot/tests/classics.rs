//! The classic experiments, and the benchmarks: their plans are understood, some of them run for real on
//! little data, and the classics' programs give the same lines.
//!
//! What the machine lacks is skipped as the plans say, which is printed.

use test_start::{stderr, stdout};

use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CLASSICS: [&str; 5] =
    ["cobol-copy", "streaming-vs-buffering", "transfer-size", "copy-percentiles", "line-readers"];

/// What README's figures come from, from the folder of the classics.
const BENCHMARKS: &str = "../benchmarks";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../classics")
}

/// `sweetspot bench` on a classic, with its files in `place`.
fn bench(place: &Path, arguments: &[&str], classic: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sweetspot"));
    command.args(["bench", "--dir"]).arg(place).args(arguments).arg(folder().join(classic));
    command.env("PATH", path_without_cargo()).current_dir(place).output().unwrap()
}

/// The programs in Rust are compiled with the workspace; building them anew takes a minute each.
fn path_without_cargo() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| !folder.join("cargo").exists());
    std::env::join_paths(folders).unwrap()
}

/// The scales that a plan names.
fn scales(classic: &str) -> Vec<String> {
    let named = folder().join(classic);
    let file = if named.is_dir() { named.join("plan.toml") } else { named };
    let text = fs::read_to_string(file).unwrap();
    let plan: toml::Table = text.parse().unwrap();
    plan["scale"].as_table().unwrap().keys().cloned().collect()
}

#[test]
fn every_plan_is_understood_at_every_scale() {
    let place = tempfile::tempdir().unwrap();
    for classic in CLASSICS {
        let scales = scales(classic);
        assert!(scales.iter().any(|scale| scale == "full"), "{classic}");
        let scaled = scales.iter().map(|scale| vec!["--dry-run", "--scale", scale]);
        for arguments in scaled.chain([vec!["--dry-run"]]) {
            let output = bench(place.path(), &arguments, classic);
            let said = stderr(&output);
            assert!(output.status.success(), "{classic} {arguments:?}: {said}");
        }
    }
}

/// That of our own: whether `auto` finds the best size.
#[test]
fn the_plan_for_auto_is_understood_at_every_scale_and_runs() {
    let place = tempfile::tempdir().unwrap();
    for scale in scales("auto") {
        let output = bench(place.path(), &["--dry-run", "--scale", &scale], "auto");
        assert!(output.status.success(), "{scale}: {output:?}");
    }
    let output = bench(place.path(), &["--json", "--scale", "quick"], "auto");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    // One round decides no claim, but each cell has run, with the right output.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let cells = found["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 3 * 3 * 13, "{found}");
}

/// And those that say how fast `run` and the library are.
#[test]
fn the_plans_of_the_benchmarks_are_understood_at_every_scale() {
    let place = tempfile::tempdir().unwrap();
    for name in ["plan.toml", "languages.toml", "library.toml", "picks.toml"] {
        let plan = format!("{BENCHMARKS}/{name}");
        for scale in scales(&plan) {
            let output = bench(place.path(), &["--dry-run", "--scale", &scale], &plan);
            assert!(output.status.success(), "{plan} {scale}: {output:?}");
        }
    }
}

#[test]
fn some_plans_run_on_little_data() {
    for (classic, rounds) in [("cobol-copy", 2), ("transfer-size", 2), (BENCHMARKS, 1)] {
        let place = tempfile::tempdir().unwrap();
        let output = bench(place.path(), &["--scale", "quick", "--json"], classic);
        let said = stderr(&output);
        let report: Value = serde_json::from_slice(&output.stdout).expect(&said);
        let skipped = report["skipped"].as_array().unwrap();
        let skipped: Vec<&str> = skipped.iter().map(|why| why.as_str().unwrap()).collect();
        for why in &skipped {
            println!("skipped: {why}");
            let is_left_out = ["needs cargo", "needs rustc"].iter().any(|out| why.contains(out));
            assert!(is_left_out || std::env::var_os("CI").is_none(), "{why}");
        }
        let cells = report["cells"].as_array().unwrap();
        let ran = cells.iter().filter(|cell| {
            let program = format!("'{}' needs", cell["levels"][0].as_str().unwrap());
            !skipped.iter().any(|why| why.starts_with(&program))
        });
        assert!(!cells.is_empty());
        for cell in ran {
            // Nothing failed, and no output was other than that of the baseline.
            assert_eq!(
                (&cell["given_up"], &cell["runs"]),
                (&Value::Null, &rounds.into()),
                "{cell}"
            );
        }
        let published = report["published"].as_array().unwrap();
        assert_eq!(published.is_empty(), classic == BENCHMARKS);
    }
}

/// Lines whose ends lie at every place around the ends of the readers' buffers.
fn texts() -> Vec<Vec<u8>> {
    let mut texts = vec![b"".to_vec(), b"\n".to_vec(), b"\r".to_vec(), b"one".to_vec()];
    texts.push(b"\r\n\r\r\n\n\rx\r\n\ny\r".to_vec());
    for end in ["\n", "\r", "\r\n"] {
        // No buffer's size is a multiple of such a line's, so every place is met.
        texts.push(["a line of a length that is odd", end].concat().repeat(3000).into_bytes());
        for before in [2047, 8191, 16383] {
            texts.push([&vec![b'x'; before][..], end.as_bytes(), b"rest"].concat());
        }
    }
    texts
}

#[test]
fn readers_in_java_give_the_same_lines_as_the_library() {
    let place = tempfile::tempdir().unwrap();
    let sources = [folder().join("line-readers/LineReaders.java"), folder().join("Samples.java")];
    let built = Command::new("javac").arg("-d").arg(place.path()).args(sources).output();
    let Ok(built) = built else {
        println!("skipped: javac is not there (apt-get install default-jdk-headless)");
        assert!(std::env::var_os("CI").is_none());
        return;
    };
    assert!(built.status.success(), "{}", stderr(&built));
    for (number, text) in texts().iter().enumerate() {
        let file = place.path().join(format!("{number}.txt"));
        fs::write(&file, text).unwrap();
        let mut library = Command::new(env!("CARGO_BIN_EXE_sweetspot"));
        let said = library.args(["work", "lines", "--json"]).arg(&file).output().unwrap().stdout;
        let said: Value = serde_json::from_slice(&said).unwrap();
        let sum = said["hash"].as_str().unwrap().trim_start_matches("sum:");
        let expected = format!("lines {}\nsum {sum}\n", said["lines"]);
        for way in ["unbuffered", "buffered", "buffered-8k", "reader", "own", "own-converter"] {
            let mut java = Command::new("java");
            java.arg("-cp").arg(place.path()).args(["LineReaders", way]).arg(&file).arg("2");
            let found = java.output().unwrap();
            let found = stdout(&found);
            assert_eq!(found, expected, "{way}, text {number}");
        }
    }
}

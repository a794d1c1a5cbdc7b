//! The tables of docs/measured.md, and the short one in README.md, from the record that the page names:
//! no figure is typed by hand.
//!
//! `UPDATE_README=1 cargo test -p xtask pages_say` writes them anew; the test fails where a page says
//! something else than its record.

use super::figures::{named, ratio, time};
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- measured:begin -->\n";
const END: &str = "<!-- measured:end -->\n";

/// A row: a benchmark, and what README calls it.
struct Row {
    name: &'static str,
    words: &'static str,
    /// Another cell that it is compared with as well, and what that is called.
    also: Option<(&'static str, &'static str)>,
}

const fn row(name: &'static str, words: &'static str) -> Row {
    Row { name, words, also: None }
}

const fn beside(
    name: &'static str,
    words: &'static str,
    also: (&'static str, &'static str),
) -> Row {
    Row { name, words, also: Some(also) }
}

const BY_HAND: (&str, &str) = ("by hand", "one by hand in C with large buffers");
const FREAD: (&str, &str) = ("fread", "`fread`");

/// What gains.
const GAINS: [Row; 16] = [
    beside("cobol-copy", "GnuCOBOL copies 1,000,000 records of 200 bytes", BY_HAND),
    row("cobol-copy-5m", "the same with 5,000,000 records"),
    row("cobol-copy-cold", "the same with 1,000,000, cold cache"),
    row("cobol-copy-fuse", "the same with 100,000, on a FUSE mount (bindfs)"),
    beside("c-copy", "a loop in C that copies 1,000,000 records by `read` and `write`", BY_HAND),
    beside("transfer-8", "`read` of 8 bytes", FREAD),
    beside("transfer-1024", "`read` of 1 KiB", FREAD),
    beside("transfer-8192", "`read` of 8 KiB", FREAD),
    beside("transfer-65536", "`read` of 64 KiB", FREAD),
    row("java-readline", "Java `DataInputStream.readLine`, unbuffered"),
    row("rust-write", "Rust `File::write_all`, a line at a time"),
    row("rust-println", "Rust `println!` to a file that it inherits"),
    row("python-copy", "Python `buffering=0` copy"),
    row("dd-200", "`dd bs=200`"),
    row("fortran-flush", "gfortran, formatted integers, a flush after each record"),
    row("fortran-flush-real", "the same with a real number in each record"),
];

/// What does not.
const THE_REST: [Row; 11] = [
    row("start", "`/bin/true`, once: what a start costs"),
    beside(
        "true-loop",
        "a shell loop of 1,000 `/bin/true`",
        ("empty preload", "one with an empty library preloaded"),
    ),
    row("random-pread", "500,000 random `pread`s of 4 KiB"),
    row("random-seek", "500,000 random `lseek` and `read` of 4 KiB"),
    row("small-files-read", "10,000 files of 1,000 bytes, read 20 times"),
    row("git-status", "`git status`, 40 times"),
    row("gcc", "gcc, ten times"),
    row("sqlite-separate", "sqlite3, 500 transactions"),
    row("cp", "`cp` of 256 MiB"),
    row("dd-1m", "`dd bs=1M` of 256 MiB"),
    row("stdio-copy", "a C program with `fgetc` and `fputs`"),
];

/// The rows of both tables that README shows.
const IN_README: [&str; 8] = [
    "cobol-copy",
    "cobol-copy-fuse",
    "java-readline",
    "rust-println",
    "python-copy",
    "dd-200",
    "git-status",
    "dd-1m",
];

/// Where and how a record was measured.
fn origin(record: &Value, folder: &str) -> String {
    let environment = &record["environment"];
    let said = |name: &str| environment[name].as_str().unwrap_or_default().to_owned();
    let kernel: Vec<String> = said("kernel").split('.').take(2).map(str::to_owned).collect();
    let machine = match environment["virtual_machine"].as_bool() {
        Some(true) => "a virtual machine",
        _ => "a machine",
    };
    format!(
        "One session on {machine} with {} cores ({}), Linux {}, {}, warm cache;\nmedians, and the \
         ratio from alternating pairs with its 95 % interval; outputs equal in every round\n\
         (`{folder}`).\n\n",
        environment["processors"],
        said("processor"),
        kernel.join("."),
        environment["file_system"]["kind"].as_str().unwrap_or_default(),
    )
}

const HEAD: &str = "| program, unchanged | plain | under `run` | ratio |\n|---|---|---|---|\n";

/// Both tables, from a record.
fn whole(record: &Value, folder: &str) -> String {
    format!(
        "{}{HEAD}{}\nWhat buffering cannot help, in the same session:\n\n{HEAD}{}",
        origin(record, folder),
        lines(record, GAINS.iter()),
        lines(record, THE_REST.iter())
    )
}

/// The table of README.
fn short(record: &Value, folder: &str) -> String {
    let rows = GAINS.iter().chain(&THE_REST).filter(|row| IN_README.contains(&row.name));
    format!("{}{HEAD}{}", origin(record, folder), lines(record, rows))
}

fn lines<'a>(record: &Value, rows: impl Iterator<Item = &'a Row>) -> String {
    let mut text = String::new();
    for row in rows {
        let finding = named(&record["findings"], "name", row.name);
        let cells = finding["cells"].as_array().map_or(&[][..], Vec::as_slice);
        let (Some(plain), Some(run)) = (cells.first(), cells.last()) else {
            panic!("the record has no '{}'", row.name)
        };
        let scale = if finding["unit"] == "seconds" { 1.0 } else { 1e-9 };
        let median = |cell: &Value| time(cell["median"].as_f64().unwrap() * scale);
        let _ = write!(text, "| {} | {} | {} | ", row.words, median(plain), median(run));
        let reference = plain["name"].as_str().unwrap();
        text.push_str(&ratio(finding, reference));
        if let Some((against, words)) = row.also {
            let _ = write!(text, "; {} of {words}", ratio(finding, against));
        }
        text.push_str(" |\n");
    }
    text
}

#[test]
fn pages_say_what_their_record_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (name, is_short) in [("docs/measured.md", false), ("README.md", true)] {
        let page = fs::read_to_string(root.join(name)).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the mark of the beginning");
        let (said, after) = rest.split_once(END).expect("the mark of the end");
        let at = said.find("`measurements/").expect("the page names its record");
        let folder = said[at + 1..].split('`').next().unwrap();
        let record = fs::read_to_string(root.join(folder).join("run.json"))
            .unwrap_or_else(|error| panic!("{folder}/run.json: {error}"));
        let record: Value = serde_json::from_str(&record).unwrap();
        let measured = if is_short { short(&record, folder) } else { whole(&record, folder) };
        if std::env::var_os("UPDATE_README").is_some() {
            fs::write(root.join(name), format!("{before}{BEGIN}{measured}{END}{after}")).unwrap();
        } else {
            assert!(
                said == measured,
                "UPDATE_README=1 cargo test -p xtask pages_say; {name} should say:\n{measured}"
            );
        }
    }
}

#[test]
fn readme_is_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let lines = fs::read_to_string(root.join("README.md")).unwrap().lines().count();
    assert!(lines <= 150, "{lines} lines: what README need not say belongs into docs/");
}

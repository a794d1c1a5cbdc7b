//! `sweetspot work` as it is typed: exit statuses as `cp`, `cmp` and `wc` have them, messages that say
//! what to type next, and nothing half-done under a final name.

use test_start::{stderr, stdout};

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

struct Place(TempDir);

impl Place {
    fn new(files: &[(&str, &str)]) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        for (name, content) in files {
            fs::write(place.path(name), content).unwrap();
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sweetspot"));
        command.arg("work").args(arguments.split_whitespace()).current_dir(self.0.path());
        command.stdin(Stdio::null());
        command
    }

    fn work(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Exit status, output and errors.
    fn check(&self, arguments: &str, status: i32, expected: &str, error: &str) {
        let output = self.work(arguments);
        let (found, said) = (stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(status), "{arguments}: {found} {said}");
        assert_eq!(found, expected, "{arguments}");
        match error {
            "" => assert_eq!(said, "", "{arguments}: no bar, since this is no terminal"),
            text => assert!(said.contains(text), "{arguments}: {said}"),
        }
    }

    fn json(&self, arguments: &str) -> serde_json::Value {
        let output = self.work(&format!("{arguments} --json"));
        assert!(output.status.success(), "{arguments}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

#[test]
fn lines_are_counted_as_wc_does() {
    let place = Place::new(&[("a", "one\ntwo\n"), ("b", "x\r\ny\rz\n"), ("bad", "\u{e9}\nab")]);
    place.check("lines a", 0, "2 a\n", "");
    place.check("lines a b", 0, "2 a\n3 b\n5 total\n", "");
    place.check("lines --ends lf b", 0, "2 b\n", "");
    place.check("lines nosuch a", 1, "2 a\n2 total\n", "cannot open nosuch: No such file");
    place.check("lines nosuch", 1, "", "\n  check the path: ls -ld nosuch\n");
    place.check("lines --line-bytes-max 2 a", 1, "", "\n  to allow it: --line-bytes-max 32\n");
    fs::write(place.path("bad"), b"ok\n\xFF\n").unwrap();
    place.check(
        "lines --encoding utf8 bad",
        1,
        "",
        "byte 3 is not UTF-8\n  try: --encoding utf8-replace",
    );
    place.check("lines --encoding latin1 bad", 0, "2 bad\n", "");
    place.check("lines --buffer-size 1X a", 2, "", "that is no size\n  try: --buffer-size 64K");
    let mut piped = place.command("lines");
    piped.stdin(fs::File::open(place.path("a")).unwrap());
    assert_eq!(piped.output().unwrap().stdout, b"2\n");
    let expected = place.json("lines b --reader byte")["hash"].clone();
    for way in
        ["--reader 2k", "--reader 8k", "--reader string", "--reader lines", "--reader latin1", ""]
    {
        for strategy in ["streaming", "whole", "mapped", "ring", "direct", "uncached"] {
            let found = place.json(&format!("lines b {way} --strategy {strategy} --buffer-size 2"));
            assert_eq!(
                (&found["lines"], &found["hash"]),
                (&3.into(), &expected),
                "{way} {strategy}"
            );
        }
    }
    let threads = place.json("lines b --threads 2");
    assert_eq!((&threads["lines"], &threads["bytes"]), (&3.into(), &3.into()));
    assert!(threads["hash"].is_null(), "the numbers of lines are not known");
}

#[test]
fn copies_and_comparisons_end_as_cp_and_cmp_do() {
    let place = Place::new(&[("a", "content"), ("b", "con-ent"), ("c", "con")]);
    fs::create_dir(place.path("folder")).unwrap();
    place.check("copy a d", 0, "", "");
    assert_eq!(fs::read(place.path("d")).unwrap(), b"content");
    place.check(
        "copy b d",
        1,
        "",
        "cannot create d: it is there already\n  to replace it: --force",
    );
    assert_eq!(fs::read(place.path("d")).unwrap(), b"content");
    place.check("copy --force b d", 0, "", "");
    assert_eq!(fs::read(place.path("d")).unwrap(), b"con-ent");
    place.check("copy a folder", 0, "", "");
    place.check("copy --force a a", 1, "", "input and output are the same file");
    place.check("copy a -", 0, "content", "");
    place.check("copy a /dev/null", 0, "", "");
    place.check("copy nosuch e", 1, "", "cannot open nosuch");
    assert!(!place.path("e").exists());
    place.check("compare a folder/a", 0, "", "");
    place.check("compare a b", 1, "a b differ: byte 4\n", "");
    place.check("compare a c", 1, "c ends after byte 3\n", "");
    place.check("compare -s a c", 1, "", "");
    place.check("compare a nosuch", 2, "", "cannot open nosuch");
    let compared = place.json("compare a folder/a");
    assert_eq!((&compared["equal"], &compared["bytes"]), (&true.into(), &7.into()));
    let copied = place.json("copy a f --strategy streaming");
    // As sha256sum says.
    let hash = "sha256:ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73";
    assert_eq!((&copied["bytes"], &copied["hash"]), (&7.into(), &hash.into()));
    assert!(copied["seconds"].is_f64() && copied["peak_memory_bytes"].is_u64());
}

#[test]
fn data_is_made_transformed_and_read_as_records() {
    let place = Place::new(&[]);
    place.check(
        "generate data --files 3 --lines 4 --characters 9",
        0,
        "made 3 files, 120 bytes in data\n",
        "",
    );
    place.check("generate data --files 3", 1, "", "it is there already\n  to replace it: --force");
    let huge = "generate data --binary 999999999999999999";
    place.check(huge, 1, "", "may be used\n  make less, or in another place; see: df -h .");
    let once = place.json("transform data once --work 3 --threads 2");
    assert_eq!(
        (&once["files"], &once["lines"], &once["bytes"]),
        (&3.into(), &12.into(), &120.into())
    );
    let whole = place.json("transform data whole --work 3 --strategy whole");
    assert_eq!(once["hash"], whole["hash"]);
    place.check("transform data once", 1, "", "to replace it: --force");
    place.check("transform once twice --work 3", 0, "", "");
    place.check("compare data/000002.txt twice/000002.txt", 0, "", "");
    place.check(
        "compare data/000002.txt once/000002.txt",
        1,
        "data/000002.txt once/000002.txt differ: byte 1\n",
        "",
    );
    place.check("records --record-bytes 10 data/000000.txt", 0, "4 data/000000.txt\n", "");
    place.check(
        "records --record-bytes 15 data/000000.txt",
        1,
        "",
        "record 2, the last, is cut off: 10 of 15 bytes",
    );
    place.check(
        "records --record-bytes 10 --to copy data/000000.txt",
        0,
        "4 data/000000.txt\n",
        "",
    );
    place.check("records --record-bytes 10 --rewrite copy", 0, "4 copy\n", "");
    place.check("records --record-bytes 10 --random 50 copy", 0, "50 copy\n", "");
    place.check("compare data/000000.txt copy", 0, "", "");
}

#[test]
fn an_interrupted_job_leaves_nothing_half_done() {
    let place = Place::new(&[]);
    let mut job = place.command("copy /dev/zero zeros").spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    job.kill().unwrap();
    job.wait().unwrap();
    assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), 0);
}

#[test]
fn exit_statuses_are_those_of_cp_cmp_and_wc() {
    let place = Place::new(&[("a", "one\ntwo\n"), ("b", "one\ntwx\n"), ("c", "one\n")]);
    fs::create_dir(place.path("folder")).unwrap();
    for (theirs, ours) in [
        ("wc -l a", "lines a"),
        ("wc -l a b", "lines a b"),
        ("wc -l nosuch", "lines nosuch"),
        ("wc -l nosuch a", "lines nosuch a"),
        ("wc -l folder", "lines folder"),
        ("cmp a a", "compare a a"),
        ("cmp a b", "compare a b"),
        ("cmp a c", "compare a c"),
        ("cmp -s a c", "compare -s a c"),
        ("cmp a nosuch", "compare a nosuch"),
        ("cmp -s nosuch a", "compare -s nosuch a"),
        ("cmp a folder", "compare a folder"),
        ("cp a to", "copy -f a to"),
        ("cp a folder", "copy -f a folder"),
        ("cp nosuch to", "copy nosuch to"),
        ("cp a a", "copy -f a a"),
        ("cp a nosuch/to", "copy a nosuch/to"),
        ("cp folder to", "copy -f folder to"),
    ] {
        let mut words = theirs.split_whitespace();
        let mut other = Command::new(words.next().unwrap());
        let other = other.args(words).current_dir(place.0.path()).output().unwrap();
        let own = place.work(ours);
        assert_eq!(own.status.code(), other.status.code(), "{theirs}, {ours}: {own:?}");
    }
}

#[test]
fn every_command_has_its_object() {
    let place = Place::new(&[]);
    for (arguments, fields) in [
        ("generate data --files 2 --lines 50", &["files", "hash"][..]),
        ("copy data/000000.txt to", &["how", "hash"]),
        ("compare data/000000.txt to", &["equal"]),
        ("compare -s data/000000.txt to", &["equal"]),
        ("transform data/000000.txt other", &["files", "lines", "hash"]),
        ("transform data others", &["files", "lines", "hash"]),
        ("lines data/000000.txt data/000001.txt", &["lines", "hash"]),
        ("lines --threads 0 data/000000.txt", &["lines"]),
        ("records --record-bytes 81 data/000000.txt", &["records", "hash"]),
        ("records --record-bytes 81 --to copy data/000000.txt", &["records", "hash"]),
        ("records --record-bytes 81 --rewrite copy", &["records", "hash"]),
        ("records --record-bytes 81 --random 9 copy", &["records", "hash"]),
    ] {
        let outcome = place.json(arguments);
        assert_eq!(outcome["verb"], arguments.split(' ').next().unwrap());
        assert!(outcome["seconds"].as_f64().unwrap() > 0.0, "{outcome}");
        assert!(outcome["peak_memory_bytes"].as_u64().unwrap() > 100_000, "{outcome}");
        assert!(outcome["bytes"].as_u64().is_some(), "{outcome}");
        for field in fields {
            assert!(!outcome[field].is_null(), "{field} in {outcome}");
        }
    }
    let hash = |arguments| place.json(arguments)["hash"].clone();
    assert_eq!(hash("copy -f data/000000.txt to"), hash("copy -f data/000000.txt other"));
    assert_ne!(hash("copy -f data/000000.txt to"), hash("copy -f data/000001.txt to"));
}

#[test]
fn threads_change_nothing_and_work_does() {
    let place = Place::new(&[]);
    place.json("generate data --files 7 --lines 3000");
    let lines = place.json("lines data/000000.txt");
    for threads in [0, 1, 2, 5] {
        let in_threads = place.json(&format!("lines --threads {threads} data/000000.txt"));
        assert_eq!(
            (&in_threads["lines"], &in_threads["bytes"]),
            (&lines["lines"], &lines["bytes"])
        );
    }
    let mut hashes = Vec::new();
    for work in [0, 1, 2, 3, 299] {
        let of = |threads| {
            let command = format!("transform -f --work {work} --threads {threads} data changed");
            place.json(&command)["hash"].clone()
        };
        let hash = of(1);
        assert!([0, 2, 9].into_iter().all(|threads| of(threads) == hash), "{work} passes");
        hashes.push(hash);
    }
    // The first pass XORs with 0; the others change something.
    assert_eq!(hashes[0], hashes[1]);
    assert!((2..5).all(|place| !hashes[..place].contains(&hashes[place])), "{hashes:?}");
}

/// What a command shows on standard error, where that is a terminal.
fn shown_on_a_terminal(mut command: Command) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::io::Read;
    use std::os::unix::ffi::OsStrExt;
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let name = ptsname(&keyboard, Vec::new()).unwrap();
    let name = std::ffi::OsStr::from_bytes(name.as_bytes());
    let screen = fs::File::options().read(true).write(true).open(name).unwrap();
    let mut child = command.stderr(screen).stdout(Stdio::null()).spawn().unwrap();
    // The command holds the last handle of the screen; without it the read ends.
    drop(command);
    let (mut shown, mut keyboard) = (Vec::new(), fs::File::from(keyboard));
    let _ = keyboard.read_to_end(&mut shown);
    assert!(child.wait().unwrap().success());
    String::from_utf8_lossy(&shown).into_owned()
}

#[test]
fn a_terminal_sees_how_far_it_is() {
    let place = Place::new(&[]);
    place.json("generate data --lines 100000");
    for arguments in [
        "generate -f data --lines 100000",
        "copy -f --strategy streaming data/000000.txt to",
        "compare data/000000.txt to",
        "transform -f data/000000.txt other",
        "transform -f data others",
        "lines data/000000.txt",
        "lines --threads 2 data/000000.txt",
        "records --record-bytes 81 data/000000.txt",
    ] {
        let shown = shown_on_a_terminal(place.command(arguments));
        assert!(shown.contains("iB"), "{arguments}: {shown:?}");
        let elsewhere = place.work(arguments);
        assert!(elsewhere.stderr.is_empty(), "{arguments}: {elsewhere:?}");
    }
}

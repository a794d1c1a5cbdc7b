//! `sweetspot work` as it is typed: exit statuses as `cp`, `cmp` and `wc` have them, messages that say
//! what to type next, and nothing half-done under a final name.

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
    fn check(&self, arguments: &str, status: i32, stdout: &str, stderr: &str) {
        let output = self.work(arguments);
        let (found, said) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(status), "{arguments}: {found} {said}");
        assert_eq!(found, stdout, "{arguments}");
        match stderr {
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
    place.check("lines nosuch", 1, "", "\n  is it there? ls -ld \"nosuch\"\n");
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
        for strategy in ["streaming", "whole", "pipeline", "mapped", "ring", "direct", "uncached"] {
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

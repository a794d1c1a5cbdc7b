//! Calls whose answer, or effect, follows from bytes that cannot be written.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{DISK_MEGABYTES, Disk, Victim, turn, victim};

const RECORD_BYTES: usize = 200;

/// As the victim makes them.
fn record(number: usize) -> Vec<u8> {
    let mut record = vec![b'a' + (number % 26) as u8; RECORD_BYTES];
    record[..8].copy_from_slice(format!("{number:07} ").as_bytes());
    record
}

/// What the victim says, how many records it wrote, what is in the file, and how many pieces were saved beside.
struct Left {
    said: String,
    records: usize,
    content: Vec<u8>,
    saved: usize,
    /// Whether something was said to be lost.
    warned: bool,
}

impl Left {
    /// Whether all records are there, in their order and once.
    fn is_whole(&self) -> bool {
        self.content == (0..self.records).flat_map(record).collect::<Vec<u8>>()
    }
}

/// Changes the last byte of a file, of which the times say nothing: some file systems keep whole seconds.
fn change_unseen(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    let before = file.metadata().unwrap();
    file.write_at(CHANGE, before.len() - CHANGE.len() as u64).unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
}

const CHANGE: &[u8] = b"N";

/// Runs the victim while others have its descriptor 1. None: nothing can be mounted.
fn run(program: &Path, way: &str) -> Option<Left> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("asked-{way}"));
    let disk = Disk::mount(folder, DISK_MEGABYTES)?;
    let home = tempfile::tempdir().expect("a folder");
    let (path, log) = (disk.0.join("file"), home.path().join("log"));
    let is_given = matches!(way, "start" | "child");
    // Nobody else has the file that the victim opens itself.
    let own = home.path().join("out");
    let out = File::create(if is_given { &path } else { &own }).expect("a file");
    let step = tempfile::tempfile().expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sweetspot"));
    // Nothing leaves before the disk is full, however long that takes.
    command.args(["run", "--wait", "--max-age", "60000", "--buffer-size", "64K", "--"]);
    command.arg(program).arg(&path).arg(way).arg(&log).current_dir(&disk.0);
    command.env("XDG_STATE_HOME", home.path());
    command.stdin(step.try_clone().expect("a descriptor")).stderr(Stdio::piped());
    let child = command.stdout(out.try_clone().expect("a descriptor")).spawn().expect("started");
    let mut victim = Victim { child, step, disk: disk.0.clone() };
    victim.fill();
    victim.await_step(3);
    if way == "arrived" {
        change_unseen(&path);
    }
    fs::remove_file(victim.filler()).unwrap();
    victim.go_on(4);
    let output = victim.end();
    let warned = !output.stderr.is_empty();
    // 74: what it was told is not in its file.
    assert_eq!(output.status.code(), Some(if warned { 74 } else { 0 }), "{way}: {output:?}");
    let said = fs::read_to_string(&log).unwrap();
    let (said, records) = said.trim_end().rsplit_once('\n').expect("lines");
    let mut content = Vec::new();
    File::open(&path).unwrap().read_to_end(&mut content).unwrap();
    let names = fs::read_dir(&disk.0).unwrap().map(|entry| entry.unwrap().file_name());
    let saved = names.filter(|name| name.to_string_lossy().contains("sweetspot-saved")).count();
    Some(Left { said: said.to_owned(), records: records.parse().unwrap(), content, saved, warned })
}

/// Natively all was written before: who asks where it ends, or moves where it goes, is told that it is not there, as
/// who reads is.
#[test]
fn what_follows_from_bytes_that_cannot_be_written_fails() {
    let _turn = turn();
    let program = victim("asked", "asks_unwritten");
    const WAYS: &[&str] = &[
        "end",
        "size",
        "statx",
        "own-end",
        "own-size",
        "flags",
        "append",
        "stream",
        "start",
        "stream-read",
        "stream-put",
        "vector-read",
        "vector-put",
        "own-read",
        "own-put",
        "own-read-at",
        "sync-all",
        "sync-range",
        "own-sync-all",
        "own-sync-range",
        "sync-async",
        "read-async",
        "put-async",
        "put-list",
        "control",
        "clone",
    ];
    for &way in WAYS {
        let Some(left) = run(&program, way) else {
            return test_start::skip("mounting a file system needs root");
        };
        assert_eq!(left.said, format!("{way} -1 28\nwritten 1 0\nsync 0 0"), "{way}");
        assert!(left.is_whole() && left.saved == 0, "{way}: {} bytes", left.content.len());
    }
}

/// A child moves the offset, or sets how it is used: the rest goes nowhere else than behind the first part. What has a
/// place of its own is put there when the program has ended.
#[test]
fn what_goes_on_elsewhere_is_set_aside() {
    let _turn = turn();
    let program = victim("moved", "asks_unwritten");
    for way in ["child", "child-flags"] {
        let Some(left) = run(&program, way) else {
            return test_start::skip("mounting a file system needs root");
        };
        assert_eq!(left.said, format!("{way} 0 0\nwritten 0 28\nsync 0 0"), "{way}");
        let expected: Vec<u8> = (0..left.records).flat_map(record).collect();
        assert!(expected.starts_with(&left.content), "{way}: {} bytes", left.content.len());
        let saved = usize::from(way == "child");
        assert!((left.saved, left.is_whole()) == (saved, saved == 0), "{way}: {}", left.saved);
    }
}

#[test]
fn a_limit_that_is_set_while_a_disk_is_full_is_met() {
    let _turn = turn();
    let Some(left) = run(&victim("limited", "asks_unwritten"), "limit") else {
        return test_start::skip("mounting a file system needs root");
    };
    assert_eq!(left.said, "limit 0 0\nwritten 300 27\nsync -1 28", "told once");
    assert!(left.is_whole() && left.saved == 0, "{} bytes", left.content.len());
}

/// It goes on as before.
#[test]
fn an_exec_that_fails_while_a_disk_is_full_loses_nothing() {
    let _turn = turn();
    for way in ["exec", "exec-name"] {
        let Some(left) = run(&victim("became", "asks_unwritten"), way) else {
            return test_start::skip("mounting a file system needs root");
        };
        let said = "written 1 0\nsync -1 28";
        assert_eq!(left.said, format!("{way} -1 2\n{said}"), "once, as natively at the write");
        assert!(
            left.is_whole() && left.saved == 0 && !left.warned,
            "{way}: {} bytes",
            left.content.len()
        );
    }
}

/// What could not be written by then is not tried again, so no later call on that descriptor goes on as if it were there.
#[test]
fn the_end_of_buffering_while_a_disk_is_full_is_not_the_end_of_the_error() {
    let _turn = turn();
    for way in ["locked", "rights"] {
        let Some(left) = run(&victim("ended", "asks_unwritten"), way) else {
            return test_start::skip("mounting a file system needs root");
        };
        let said = "written 0 28\nsync -1 28\nend -1 duplicate -1 close -1 28 next 1 0";
        assert_eq!(left.said, format!("{way} 0 0\n{said}"));
        assert!(left.is_whole() && left.warned, "{way}: {} bytes", left.content.len());
    }
}

/// Natively it was written before.
#[test]
fn what_has_arrived_does_not_come_again() {
    let _turn = turn();
    let Some(left) = run(&victim("arrived", "asks_unwritten"), "arrived") else {
        return test_start::skip("mounting a file system needs root");
    };
    assert_eq!(left.said, "arrived -1 28\nwritten 1 0\nsync 0 0");
    let whole: Vec<u8> = (0..left.records).flat_map(record).collect();
    let other = (0..whole.len()).filter(|at| left.content.get(*at) != Some(&whole[*at])).count();
    assert_eq!((left.content.len(), other), (whole.len(), CHANGE.len()));
    assert_eq!(left.saved, 0);
}

//! A disk that others fill while bytes wait: the program learns it, and nothing newer is overwritten.
//!
//! Needs root, to mount a memory file system of four megabytes; without it the skip is printed, and
//! with `CI` set a skip is a failure.

use test_start as _;

mod compiler;
mod memory_disk;

use memory_disk::Disk;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Runs the victim, fills the disk while it computes, and returns what it said and how it ended.
/// What cannot be saved on the disk itself is saved below `home`.
fn run(victim: &Path, disk: &Path, home: &Path, how: &str) -> Output {
    let child = Command::new(env!("CARGO_BIN_EXE_sweetspot"))
        // Nothing leaves before the disk is full, though it computes for more than a second.
        .args(["run", "--wait", "--max-age", "60000", "--"])
        .arg(victim)
        .arg(disk.join("file"))
        .arg(how)
        .current_dir(disk)
        .env("HOME", home)
        .env_remove("XDG_STATE_HOME")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    std::thread::sleep(Duration::from_millis(1500));
    // Until nothing more goes in.
    let _ = fs::write(disk.join("filler"), vec![0u8; 8 << 20]);
    if how == "again" {
        // Space comes back once the close has failed.
        std::thread::sleep(Duration::from_millis(1200));
    }
    child.wait_with_output().expect("waited for")
}

/// Compiles the victim, for one test: what runs cannot be compiled anew.
fn victim(name: &str) -> PathBuf {
    let victim = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-victim"));
    compiler::compile("full_disk", &[], &victim);
    victim
}

/// Runs the victim in each of these ways, each on a disk of its own; `check` gets the way, the disk,
/// the folder for what must be saved elsewhere, and what came out.
fn check_each(name: &str, ways: &[&str], check: impl Fn(&str, &Path, &Path, &Output)) {
    let victim = victim(name);
    for how in ways {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{how}"));
        let Some(disk) = Disk::mount(folder) else {
            assert!(std::env::var_os("CI").is_none(), "a skip: mounting needs root");
            eprintln!("skipped: mounting a file system of four megabytes needs root");
            return;
        };
        let home = tempfile::tempdir().expect("a folder");
        let output = run(&victim, &disk.0, home.path(), how);
        check(how, &disk.0, home.path(), &output);
    }
}

#[test]
fn a_full_disk_is_said_and_newer_bytes_stay() {
    let expected = |how: &str| match how {
        "again" | "close" => "close -1 28\n".to_owned(),
        "next" => "write -1 28\nread -1 28\nclose -1 28\n".to_owned(),
        call => format!("{call} -1 28\nclose -1 28\n"),
    };
    check_each(
        "full-disk",
        &[
            "fsync", "write", "next", "send", "map", "cut", "allocate", "own-sync", "own-send",
            "own-cut", "own-map", "close", "again",
        ],
        |how, disk, _, output| {
            assert!(output.status.success(), "{how}: {output:?}");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.starts_with(&expected(how)), "{how}: {said}");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("could not be written where they belong"), "{how}: {said}");
            assert!(said.contains("/file: the last bytes cannot be written"), "{how}: {said}");
            if how == "again" {
                let content = fs::read(disk.join("file")).unwrap_or_default();
                assert!(content.is_empty() || content == b"new\n", "{} old bytes", content.len());
            }
        },
    );
}

#[test]
fn a_program_that_loses_its_last_bytes_ends_with_status_74() {
    let ways = ["return", "exit", "_exit", "quick_exit", "raw", "three"];
    check_each("lost-bytes", &ways, |how, disk, home, output| {
        let expected = if how == "three" { 3 } else { 74 };
        assert_eq!(output.status.code(), Some(expected), "{how}: {output:?}");
        let flushed = matches!(how, "return" | "exit" | "three");
        assert_eq!(output.stdout, if flushed { &b"unflushed"[..] } else { b"" }, "{how}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("/file: the last bytes cannot be written"), "{how}: {said}");
        // All 200,000 bytes are in the file or in what was saved beside.
        let state = home.join(".local/state/sweetspot");
        let saved = fs::read_dir(state).into_iter().flatten().map(|entry| entry.unwrap().path());
        let bytes: u64 = saved.map(|path| path.metadata().unwrap().len()).sum();
        let written = disk.join("file").metadata().map_or(0, |data| data.len());
        assert!(bytes > 0 && written + bytes >= 200_000, "{how}: {written} and {bytes}");
    });
}

/// The guard holds files, too. What the program has closed is free before anybody can know of the close:
/// space of removed files, and a file system that is unmounted next.
#[test]
fn what_was_closed_is_free_at_once() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("free");
    let mount = || Disk::of_size(folder.clone(), "256m");
    let Some(disk) = mount() else {
        assert!(std::env::var_os("CI").is_none(), "a skip: mounting needs root");
        eprintln!("skipped: mounting a file system needs root");
        return;
    };
    let victim = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("free-victim");
    compiler::compile("free", &[], &victim);
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sweetspot"));
        command.args(["run", "--"]).arg(&victim).arg(&folder);
        command
    };
    let output = run().output().expect("started");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "not free: 0 of 25\n");
    drop(disk);
    for round in 0..25 {
        let disk = mount().expect("mounted before");
        // Its own words are lost: it is about the end.
        run().stdout(Stdio::null()).status().expect("started");
        let unmounted = Command::new("umount").arg(&folder).status().expect("started");
        std::mem::forget(disk);
        assert!(unmounted.success(), "round {round}: busy after the program's end");
    }
}

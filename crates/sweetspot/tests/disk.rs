//! A disk that others fill while bytes wait: the program learns it, and nothing newer is overwritten.
//!
//! Needs root, to mount a memory file system of four megabytes; without it the skip is printed, and
//! with `CI` set a skip is a failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A mounted file system, unmounted when dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(folder: PathBuf) -> Option<Disk> {
        fs::create_dir_all(&folder).ok()?;
        let mount = ["-t", "tmpfs", "-o", "size=4m", "sweetspot-test"];
        let status = Command::new("mount").args(mount).arg(&folder).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success()).then_some(Disk(folder))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Runs the victim, fills the disk while it computes, and returns what it said.
fn run(victim: &Path, disk: &Path, how: &str) -> String {
    let child = Command::new(env!("CARGO_BIN_EXE_sweetspot"))
        .args(["run", "--wait", "--"])
        .arg(victim)
        .arg(disk.join("file"))
        .arg(how)
        .current_dir(disk)
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
    let output = child.wait_with_output().expect("waited for");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_full_disk_is_said_and_newer_bytes_stay() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("full-disk");
    let victim = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("full_disk");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../programs/c/full_disk.c");
    let built = Command::new("cc").args(["-O1", "-o"]).arg(&victim).arg(source).status();
    assert!(built.is_ok_and(|status| status.success()), "cc is needed: apt-get install gcc");
    for (how, expected) in [
        ("fsync", "fsync -1 28\nclose -1 28\n"),
        ("write", "write -1 28\nclose -1 28\n"),
        ("close", "close -1 28\n"),
        ("again", "close -1 28\n"),
    ] {
        let Some(disk) = Disk::mount(folder.clone()) else {
            assert!(std::env::var_os("CI").is_none(), "a skip: mounting needs root");
            eprintln!("skipped: mounting a file system of four megabytes needs root");
            return;
        };
        let said = run(&victim, &disk.0, how);
        assert!(said.starts_with(expected), "{how}: {said}");
        if how == "again" {
            let content = fs::read(disk.0.join("file")).unwrap_or_default();
            assert!(content.is_empty() || content == b"new\n", "{} old bytes", content.len());
        }
    }
}

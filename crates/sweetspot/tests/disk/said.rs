//! What is said of bytes that could not be written, where nobody reads it, or somebody could be misled by it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use test_start::turn;

use super::{DISK_MEGABYTES, Disk, PATIENCE, Victim, run_on, victim};

/// A program that loses its last bytes, on a disk of its own and with this standard error. How it ends.
fn end_with(errors: Stdio, file: &str) -> Option<Option<i32>> {
    let program = victim("said", "full_disk");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("said");
    let Some(disk) = Disk::mount(folder, DISK_MEGABYTES) else {
        test_start::skip("mounting a file system needs root");
        return None;
    };
    let home = tempfile::tempdir().expect("a folder");
    let mut run = run_on(&disk.0, home.path());
    run.args(["--max-age", "60000", "--"]).arg(&program).arg(disk.0.join(file)).arg("return");
    let mut victim = Victim::begin(run.stderr(errors), &disk.0);
    victim.fill();
    let until = Instant::now() + PATIENCE;
    while victim.child.try_wait().expect("waited for").is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    let ended = victim.child.try_wait().expect("waited for");
    let _ = victim.child.kill();
    let ended = ended.expect("it ends, whoever reads what it says");
    assert_eq!(ended.signal(), None);
    Some(ended.code())
}

/// Neither by SIGPIPE, nor by waiting for ever.
#[test]
fn nobody_has_to_read_that_bytes_are_lost() {
    let _turn = turn();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let Some(code) = end_with(writer.into(), "file") else { return };
    assert_eq!(code, Some(74), "nobody reads");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    fill(&writer);
    assert_eq!(end_with(writer.into(), "file"), Some(Some(74)), "nobody reads yet");
    drop(reader);
}

/// Fills a pipe.
fn fill(pipe: &std::io::PipeWriter) {
    rustix::io::ioctl_fionbio(pipe, true).expect("it does not wait");
    let mut pipe = pipe;
    while pipe.write(&[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(pipe, false).expect("it waits");
}

#[test]
fn a_name_that_is_said_controls_no_terminal_and_forges_no_line() {
    let _turn = turn();
    let errors = tempfile::NamedTempFile::new().expect("a file");
    let file = "a\u{1b}[31m\nsweetspot: all is well\u{9b}";
    let Some(code) = end_with(errors.reopen().expect("opened").into(), file) else { return };
    assert_eq!(code, Some(74));
    let mut said = String::new();
    File::open(errors.path()).expect("opened").read_to_string(&mut said).expect("read");
    let shown = r"/a\x1b[31m\x0asweetspot: all is well\u{9b}: the last bytes cannot be written";
    assert!(said.contains(shown), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

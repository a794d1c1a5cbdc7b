//! What a user of the command line sees: the program that was started, rules, the summary, the library's
//! place, mistakes, the demo.
//!
//! Each rule is checked in the ways a program can be started: by becoming it, and by waiting for
//! it. Not here: whether the bytes are right (the library's tests).

use test_start::{assert_has, is_root, skip, skip_without_root, stderr, stdout, wait_until};

#[path = "../compiler/mod.rs"]
mod compiler;
mod filtered;
mod input;
mod killed;
mod library;
#[path = "../place/mod.rs"]
mod place;
mod reached;
mod rules;
mod said;
mod started;
mod summary;
mod waiting;

use place::Place;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// The ways to start a program: options of `run`.
const WAYS: [&[&str]; 2] = [&[], &["--wait"]];

/// Nothing here takes longer, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(20);

impl Place {
    fn run(&self, options: &[&str], program: &[&str]) -> Command {
        let mut command = self.sweetspot(&["run"]);
        command.args(options).arg("--").args(program);
        command
    }

    /// The one library in the cache.
    fn library(&self) -> PathBuf {
        let paths = fs::read_dir(self.cache()).unwrap().map(|entry| entry.unwrap().path());
        let mut libraries: Vec<_> = paths.filter(|path| path.is_file()).collect();
        assert_eq!(libraries.len(), 1, "{libraries:?}");
        libraries.remove(0)
    }

    fn write_program(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.work().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }
}

#[track_caller]
fn assert_fails(command: &mut Command, status: i32, parts: &[&str]) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(status), "{command:?}: {said}");
    assert_has(&said, parts);
    assert_eq!(stdout(&output), "", "{command:?}");
}

#[track_caller]
fn assert_says(command: &mut Command, expected: &str) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {} {}", output.status, stderr(&output));
    assert_eq!(stdout(&output), expected, "{command:?}");
    assert_eq!(stderr(&output), "", "{command:?}");
}

/// Starts the command and waits for its first line.
fn start(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    (child, reader, line.trim().to_string())
}

fn wait(child: &mut Child) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

fn make_fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, mknodat};
    mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0).unwrap();
}

/// Compiles `programs/c/NAME.c`.
fn compile_program(place: &Place, name: &str) -> PathBuf {
    let program = place.work().join(name);
    compiler::compile(name, &[], &program);
    program
}

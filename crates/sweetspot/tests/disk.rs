//! Disks with little room. One that others fill while bytes wait: the program learns it, and nothing newer
//! is overwritten. One that is small, or where a file has its largest size: the call that fails is the one
//! that would have failed. One far away, that says so when a file is closed.
//!
//! Needs root, to mount a small memory file system; without it the skip is printed, and
//! with `CI` set a skip is a failure.

use test_start::{stderr, stdout, turn};

#[path = "disk/asked.rs"]
mod asked;
mod compiler;
mod memory_disk;
#[path = "disk/room.rs"]
mod room;
#[path = "disk/said.rs"]
mod said;
mod unwritten;

use memory_disk::Disk;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Nothing here takes longer, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes wait on no smaller one.
const DISK_MEGABYTES: u32 = 96;

/// A victim that writes to a file of a disk. Both have the file of its descriptor 0, whose offset says how far they
/// are: 1 when writes wait, 2 when the disk is full.
struct Victim {
    child: Child,
    step: File,
    disk: PathBuf,
}

impl Victim {
    /// Nothing leaves before it is `max_age` old.
    fn start(program: &Path, disk: &Path, home: &Path, how: &str, max_age: &str) -> Victim {
        let mut run = run_on(disk, home);
        run.args(["--wait", "--max-age", max_age, "--"])
            .arg(program)
            .arg(disk.join("file"))
            .arg(how);
        Victim::begin(run.stderr(Stdio::piped()), disk)
    }

    /// Begins such a command.
    fn begin(run: &mut Command, disk: &Path) -> Victim {
        let step = tempfile::tempfile().expect("a file");
        let child = run.stdin(step.try_clone().expect("a descriptor")).spawn().expect("started");
        Victim { child, step, disk: disk.to_owned() }
    }

    fn await_step(&mut self, step: u64) {
        let until = Instant::now() + PATIENCE;
        while self.step.stream_position().expect("an offset") != step && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn go_on(&mut self, step: u64) {
        self.step.seek(SeekFrom::Start(step)).expect("an offset");
    }

    fn filler(&self) -> PathBuf {
        self.disk.join("filler")
    }

    /// Fills the disk when its writes wait.
    fn fill(&mut self) {
        self.await_step(1);
        // Until nothing more goes in.
        let _ = fs::write(self.filler(), vec![0u8; (DISK_MEGABYTES as usize) << 20]);
        self.go_on(2);
    }

    fn end(self) -> Output {
        self.child.wait_with_output().expect("waited for")
    }
}

/// `sweetspot run` on a disk. What cannot be saved on it is saved below `home`.
fn run_on(disk: &Path, home: &Path) -> Command {
    let mut run = Command::new(env!("CARGO_BIN_EXE_sweetspot"));
    run.args(["run", "--buffer-size", "64K"]).current_dir(disk);
    run.env("XDG_STATE_HOME", home.join(".local/state")).stdout(Stdio::piped());
    run
}

/// Runs the victim, fills the disk when its writes wait, and returns what it said and how it ended.
fn run(victim: &Path, disk: &Path, home: &Path, how: &str) -> Output {
    // Nothing leaves before the disk is full, however long that takes.
    let mut victim = Victim::start(victim, disk, home, how, "60000");
    victim.fill();
    victim.end()
}

/// Compiles the victim, for one test: what runs cannot be compiled anew.
fn victim(name: &str, source: &str) -> PathBuf {
    let victim = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-victim"));
    compiler::compile(source, &[], &victim);
    victim
}

/// Runs the victim in each of these ways, each on a disk of its own; `check` gets the way, the disk,
/// the folder for what must be saved elsewhere, and what came out.
fn check_each(name: &str, ways: &[&str], check: impl Fn(&str, &Path, &Path, &Output)) {
    let _turn = turn();
    let victim = victim(name, "full_disk");
    for how in ways {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{how}"));
        let Some(disk) = Disk::mount(folder, DISK_MEGABYTES) else {
            test_start::skip("mounting a file system needs root");
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
            "fsync", "read", "write", "next", "send", "map", "cut", "allocate", "own-sync",
            "own-send", "own-cut", "own-map", "daemon", "close", "again",
        ],
        |how, disk, _, output| {
            assert_eq!(output.status.code(), Some(74), "{how}: {output:?}");
            let said = stdout(output);
            assert!(said.starts_with(&expected(how)), "{how}: {said}");
            let said = stderr(output);
            assert!(said.contains("could not be written to "), "{how}: {said}");
            assert!(said.contains("/file: the last bytes cannot be written"), "{how}: {said}");
            if how == "again" {
                let content = fs::read(disk.join("file")).unwrap_or_default();
                assert!(content.is_empty() || content == b"new\n", "{} old bytes", content.len());
            }
        },
    );
}

/// Bytes that could not be written go on waiting. What is done to the file meanwhile is not undone when there is room
/// again: the program is told once more, and they are saved beside.
#[test]
fn what_is_changed_while_a_disk_is_full_stays() {
    let _turn = turn();
    let program = victim("changed", "unwritten");
    let written = "sync -1 28\nsync 0 0\nsync 0 0\nclose 0 0\n";
    let again = "sync -1 28\nsync -1 28\nsync 0 0\nclose 0 0\n";
    let cut = |path: &Path| File::options().write(true).open(path).unwrap().set_len(100).unwrap();
    let open = |path: &Path| File::options().write(true).open(path).unwrap();
    type Case<'a> = (&'a str, &'a str, &'a dyn Fn(&Path));
    let all_is_written = ["nobody", "rights", "rename", "append", "print", "flags"];
    // It writes nothing while older bytes cannot be written, by whatever call.
    let not = |done: &str| format!("sync -1 28\nnot {done}\nsync 0 0\nsync 0 0\nclose 0 0\n");
    let [unprinted, unwritten] = &["printed", "written"].map(not);
    let cases: [Case<'_>; 12] = [
        ("nobody", written, &|_| {}),
        ("rights", written, &|_| {}),
        ("rename", written, &|_| {}),
        ("append", "sync -1 28\nwrite -1 28\nsync 0 0\nsync 0 0\nclose 0 0\n", &|_| {}),
        ("another-cuts", again, &cut),
        ("another-writes", again, &|path| open(path).write_all_at(b"new", 0).unwrap()),
        ("another-appends", again, &|path| {
            File::options().append(true).open(path).unwrap().write_all(b"new").unwrap();
        }),
        ("cut", again, &|_| {}),
        ("empty", again, &|_| {}),
        ("print", unprinted, &|_| {}),
        ("flags", unwritten, &|_| {}),
        ("end", "sync -1 28\n", &cut),
    ];
    for (way, expected, change) in cases {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("changed-{way}"));
        let Some(disk) = Disk::mount(folder, DISK_MEGABYTES) else {
            return test_start::skip("mounting a file system needs root");
        };
        let home = tempfile::tempdir().expect("a folder");
        let mut victim = Victim::start(&program, &disk.0, home.path(), way, "60000");
        victim.fill();
        victim.await_step(3);
        let file = disk.0.join("file");
        fs::remove_file(victim.filler()).unwrap();
        change(&file);
        let changed = fs::read(&file).unwrap();
        victim.go_on(4);
        let output = victim.end();
        let status = if all_is_written.contains(&way) { 0 } else { 74 };
        assert_eq!(output.status.code(), Some(status), "{way}");
        assert_eq!(stdout(&output), expected, "{way}");
        let content = fs::read(&file).unwrap();
        if all_is_written.contains(&way) {
            let is_whole = content.len() > changed.len() && content.len() % 200 == 0;
            assert!(is_whole && content.iter().all(|byte| *byte == b'r'), "{way}");
            continue;
        }
        assert!(content == changed, "{way}: {} of {} bytes", content.len(), changed.len());
        let saved = fs::read_dir(home.path().join(".local/state/sweetspot"))
            .into_iter()
            .chain(fs::read_dir(&disk.0))
            .flatten()
            .filter(|entry| {
                entry.as_ref().unwrap().file_name().to_string_lossy().contains("sweetspot-saved")
            })
            .count();
        assert_eq!(saved, 1, "{way}: what could not be written is saved beside");
    }
}

#[test]
fn a_program_that_loses_its_last_bytes_ends_with_status_74() {
    let ways = ["return", "exit", "_exit", "quick_exit", "raw", "alone", "three", "ignored"];
    check_each("lost-bytes", &ways, |how, disk, home, output| {
        let expected = if how == "three" { 3 } else { 74 };
        assert_eq!(output.status.code(), Some(expected), "{how}: {output:?}");
        let flushed = matches!(how, "return" | "exit" | "three" | "ignored");
        assert_eq!(output.stdout, if flushed { &b"unflushed"[..] } else { b"" }, "{how}");
        let said = stderr(output);
        assert!(said.contains("/file: the last bytes cannot be written"), "{how}: {said}");
        // All 200,000 bytes are in the file or in what was saved beside.
        let state = home.join(".local/state/sweetspot");
        let saved = fs::read_dir(state).into_iter().flatten().map(|entry| entry.unwrap().path());
        let bytes: u64 = saved.map(|path| path.metadata().unwrap().len()).sum();
        let written = disk.join("file").metadata().map_or(0, |data| data.len());
        assert!(bytes > 0 && written + bytes >= 200_000, "{how}: {written} and {bytes}");
        let mut list = Command::new(env!("CARGO_BIN_EXE_sweetspot"));
        list.args(["recover", "--list"]).env("XDG_STATE_HOME", home.join(".local/state"));
        let list = String::from_utf8(list.output().expect("started").stdout).unwrap();
        let is_of_file = |line: &str| line.contains("/sweetspot/file.sweetspot-saved-");
        assert!(list.lines().any(is_of_file), "{how}: {list}");
    });
}

/// The guard holds files, too. What the program has closed is free before anybody can know of the close:
/// space of removed files, and a file system that is unmounted next.
#[test]
fn what_was_closed_is_free_at_once() {
    let _turn = turn();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("free");
    let mount = || Disk::mount(folder.clone(), 256);
    let Some(disk) = mount() else {
        test_start::skip("mounting a file system needs root");
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
    assert_eq!(stdout(&output), "not free: 0 of 25\n");
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

/// A file system that answers as those far away do: see `programs/c/far_away.c`.
struct FarAway {
    server: Child,
    folder: TempDir,
    program: PathBuf,
}

impl FarAway {
    /// Serves one of a kind; none where that is not allowed.
    fn serve(kind: &str) -> Option<FarAway> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let program = folder.path().join("far_away");
        compiler::compile("far_away", &["-Wl,--no-as-needed", "-lfuse3"], &program);
        let mountpoint = folder.path().join("mounted");
        fs::create_dir(&mountpoint).expect("a folder");
        let server =
            Command::new(&program).arg(kind).arg(&mountpoint).stderr(Stdio::null()).spawn();
        let far_away = FarAway { server: server.expect("started"), folder, program };
        let until = Instant::now() + PATIENCE / 10;
        while !far_away.out().exists() {
            if Instant::now() > until {
                test_start::skip("mounting a file system needs root");
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(far_away)
    }

    /// Its one file.
    fn out(&self) -> PathBuf {
        self.folder.path().join("mounted/out")
    }

    /// What a program says that uses it, with a buffer of a size.
    fn output(&self, how: &str, size: &str, stdout: Stdio) -> Output {
        self.output_under(Command::new(env!("CARGO_BIN_EXE_sweetspot")), how, size, stdout)
    }

    fn output_under(&self, mut command: Command, how: &str, size: &str, stdout: Stdio) -> Output {
        // Quiet for so long that the guard writes what waits.
        command.args(["run", "--max-age", "100", "--buffer-size", size, "--"]).arg(&self.program);
        command.arg(how).stdout(stdout);
        // What cannot be written is saved there.
        command.env("XDG_STATE_HOME", self.folder.path());
        if !matches!(how, "write" | "pause") {
            command.arg(self.out());
        }
        command.output().expect("started")
    }
}

impl Drop for FarAway {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.folder.path().join("mounted")).status();
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn what_a_file_system_says_only_at_a_close_is_heard() {
    let _turn = turn();
    let Some(far_away) = FarAway::serve("late") else { return };
    let check = |how: &str, size: &str, appends: bool| {
        let outside = fs::OpenOptions::new().append(appends).write(true).open(far_away.out());
        let output = far_away.output(how, size, outside.expect("opened").into());
        assert_eq!(output.stderr, b"close: 28\n", "{how}, {size}, {appends}: {output:?}");
    };
    for appends in [false, true] {
        for size in ["off", "auto", "512", "64K", "1M"] {
            check("write", size, appends);
        }
        for size in ["off", "auto"] {
            check("pause", size, appends);
            check(if appends { "append" } else { "open" }, size, appends);
            check("twice", size, appends);
        }
    }
}

/// What it inherits it closes before the program begins, however late it comes to its work.
#[test]
fn a_guard_that_is_late_hears_nothing_that_is_for_the_program() {
    const LATE: &str = "inject=clock_nanosleep:delay_enter=300000";
    let _turn = turn();
    if Command::new("strace").arg("-V").output().is_err() {
        return test_start::skip("strace is not installed");
    }
    let Some(far_away) = FarAway::serve("late") else { return };
    let mut strace = Command::new("strace");
    strace.args(["--seccomp-bpf", "-fqqo", "/dev/null", "-e", "trace=clock_nanosleep"]);
    strace.args(["-e", LATE, env!("CARGO_BIN_EXE_sweetspot")]);
    let outside = fs::OpenOptions::new().write(true).open(far_away.out()).expect("opened");
    let output = far_away.output_under(strace, "one", "auto", outside.into());
    assert_eq!(output.stderr, b"close: 28\n", "{output:?}");
}

#[test]
fn what_lies_before_a_broken_place_is_read_and_written() {
    check_broken("broken", &["until", "read", "read_at"], &SIZES);
}

#[test]
fn an_error_that_is_told_once_is_told_to_the_program() {
    // Of a write that is several requests the kernel itself drops the error of a later one.
    check_broken("once", &["until"], &SIZES[1..2]);
}

#[test]
fn who_closes_by_a_stream_or_by_another_file_is_told() {
    check_broken("broken", &["stream", "over", "second"], &SIZES);
}

/// A server in user space need not describe a file that is open, or may call it by another number.
#[test]
fn a_file_that_is_not_described_is_written_all_the_same() {
    let _turn = turn();
    for kind in ["silent", "renumbered"] {
        let Some(far_away) = FarAway::serve(kind) else { return };
        let expected = "error 0, length 1200000, misplaced 0";
        // Five sizes, four times: with each of them each call is once the first that is not answered.
        for size in ["off", "auto", "512", "64K", "1M"].repeat(4) {
            let output = far_away.output("whole", size, Stdio::null());
            assert_eq!(first_line(&output), expected, "{kind}, {size}: {output:?}");
        }
        // The guard writes it for a quiet process, too; on a busy machine not always in time.
        for size in ["off", "auto", "1M"].repeat(4) {
            let quiet = || far_away.output("quiet", size, Stdio::null());
            let is_late =
                |output: &Output| first_line(output) == format!("{expected}, written late");
            let output = (0..2).map(|_| quiet()).find(|output| !is_late(output));
            let output = output.unwrap_or_else(quiet);
            assert_eq!(first_line(&output), expected, "quiet, {kind}, {size}: {output:?}");
        }
    }
}

const SIZES: [&str; 4] = ["auto", "512", "64K", "1M"];

/// A program says the same at each size, or its status does; but for what is named in more lines than one.
fn check_broken(kind: &str, ways: &[&str], sizes: &[&str]) {
    let _turn = turn();
    let Some(far_away) = FarAway::serve(kind) else { return };
    for how in ways {
        let native = far_away.output(how, "off", Stdio::null());
        let expected = first_line(&native);
        assert!(expected.contains("error 5") || expected == "told: 1", "{how}: {native:?}");
        for size in sizes {
            let output = far_away.output(how, size, Stdio::null());
            let is_status = *how == "over" && output.status.code() == Some(74);
            assert!(is_status || first_line(&output) == expected, "{how}, {size}: {output:?}");
        }
    }
}

fn first_line(output: &Output) -> String {
    stderr(output).lines().next().unwrap_or_default().to_owned()
}

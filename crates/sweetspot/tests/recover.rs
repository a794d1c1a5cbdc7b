//! Program and guard are both killed while bytes are pending: `recover` and the next `run` finish
//! them, and never overwrite what was written since.
//!
//! A binary of its own: every `run` finishes what it finds, so nothing else may run beside these.

use test_start::{assert_has, stderr, stdout, turn, untold, wait_until};

mod compiler;

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use sweetspot_core::ledger::{Header, Ledger};
use sweetspot_guard::{OwnedLedger, Settings};
use tempfile::TempDir;

/// Where the victim keeps its counters (programs/c/kill_victim.c).
const VICTIM_PAGE: u64 = 0x2_0000_0000;
/// What the victim writes before it holds still, in two files.
const FILES: [&str; 2] = ["0-0", "0-1"];
/// How often a victim is started until its bytes wait: on a busy machine a guard comes late.
const STARTS_MAX: u32 = 20;

struct Place {
    folder: TempDir,
    /// The folder of the files, in that of the work.
    below: PathBuf,
}

impl Place {
    fn new() -> Place {
        Place::of("kill_victim")
    }

    /// With another victim.
    fn of(victim: &str) -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap(), below: PathBuf::new() };
        fs::create_dir(place.work()).unwrap();
        compiler::compile(victim, &[], &place.victim());
        place
    }

    fn victim(&self) -> PathBuf {
        self.folder.path().join("victim")
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work").join(&self.below)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    fn contents(&self) -> [Vec<u8>; 2] {
        FILES.map(|name| fs::read(self.file(name)).unwrap())
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        untold(&mut command);
        command.env("SWEETSPOT_CACHE", self.folder.path().join("cache"));
        command.env("XDG_STATE_HOME", self.folder.path().join("state"));
        command.current_dir(self.work()).stdin(Stdio::null());
        command
    }

    fn sweetspot(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(env!("CARGO_BIN_EXE_sweetspot"));
        command.args(arguments).output().unwrap()
    }

    /// What the files hold when the victim holds still, without sweetspot.
    fn native(&self) -> [Vec<u8>; 2] {
        let mut victim = Victim::start(&mut self.command(self.victim()));
        victim.kill();
        let contents = self.contents();
        for name in FILES {
            fs::remove_file(self.file(name)).unwrap();
        }
        contents
    }

    /// Kills a victim and its guard while bytes are pending. Returns the ledger.
    fn leave_pending(&self) -> PathBuf {
        for _ in 0..STARTS_MAX {
            let mut command = self.command(env!("CARGO_BIN_EXE_sweetspot"));
            let mut victim = Victim::start(command.args(["run", "--"]).arg(self.victim()));
            let ledger = victim.ledger();
            let guard = guard_of(&ledger);
            kill_process(guard, Signal::STOP).unwrap();
            wait_for_state(guard, 'T');
            victim.kill();
            kill_process(guard, Signal::KILL).unwrap();
            wait_until("the guard ends", || is_gone(guard));
            let listed = self.sweetspot(&["recover", "--list", ledger.to_str().unwrap()]);
            if stdout(&listed).contains("to be written") {
                return ledger;
            }
            self.sweetspot(&["recover", ledger.to_str().unwrap()]);
        }
        panic!("nothing was ever pending in {STARTS_MAX} starts");
    }
}

struct Victim {
    child: Child,
}

impl Victim {
    /// Starts it and waits until it holds still.
    fn start(command: &mut Command) -> Victim {
        let child = command.args(["1", "steps"]).stdout(Stdio::null()).spawn().unwrap();
        let memory = format!("/proc/{}/mem", child.id());
        wait_until("the victim holds still", || {
            let mut word = [0; 8];
            let memory = fs::File::open(&memory);
            memory.is_ok_and(|memory| memory.read_exact_at(&mut word, VICTIM_PAGE).is_ok())
                && u64::from_ne_bytes(word) == 2
        });
        Victim { child }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn ledger(&self) -> PathBuf {
        let all = fs::read_to_string(format!("/proc/{}/environ", self.child.id())).unwrap();
        let value = all.split('\0').find_map(|text| text.strip_prefix("SWEETSPOT_LEDGER="));
        value.expect("it runs with a ledger").into()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn guard_of(ledger: &Path) -> Pid {
    let at = offset_of!(Ledger, header) + offset_of!(Header, guard);
    let mut word = [0; 4];
    wait_until("the guard begins", || {
        fs::File::open(ledger).unwrap().read_exact_at(&mut word, at as u64).unwrap();
        word != [0; 4]
    });
    Pid::from_raw(i32::from_ne_bytes(word)).expect("a process")
}

fn state_of(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    stat[stat.rfind(')')? + 2..].chars().next()
}

fn is_gone(pid: Pid) -> bool {
    state_of(pid).is_none_or(|state| state == 'Z')
}

fn wait_for_state(pid: Pid, state: char) {
    wait_until("it stops", || state_of(pid) == Some(state));
}

#[track_caller]
fn assert_ends(output: &Output, status: i32, out_parts: &[&str], err_parts: &[&str]) {
    let (out, err) = (stdout(output), stderr(output));
    assert_eq!(output.status.code(), Some(status), "{out}{err}");
    for (text, parts) in [(&out, out_parts), (&err, err_parts)] {
        assert_eq!(text.is_empty(), parts.is_empty(), "{out}\n--\n{err}");
        assert_has(text, parts);
    }
}

#[test]
fn what_is_pending_is_listed_and_then_finished() {
    let _turn = turn();
    let place = Place::new();
    let native = place.native();
    for names_it in [true, false] {
        let ledger = place.leave_pending();
        let before = place.contents();
        assert_ne!(before, native, "bytes are pending");
        let name: &[&str] = if names_it { &[ledger.to_str().unwrap()] } else { &[] };
        let command = |options: &[&'static str]| -> Output {
            place.sweetspot(&[&["recover"], options, name].concat())
        };
        let file = place.file("0-");
        let parts = [ledger.to_str().unwrap(), file.to_str().unwrap()];
        let also = |word| [parts[0], parts[1], word];
        assert_ends(&command(&["--list"]), 0, &also(": to be written\n"), &[]);
        let report = stdout(&place.sweetspot(&["doctor"]));
        assert!(report.contains("from killed programs\n"), "{report}");
        assert!(report.contains("-> sweetspot recover\n"), "{report}");
        assert_eq!(place.contents(), before, "a list changes nothing");
        assert_ends(&command(&[]), 0, &also(": written\n"), &[]);
        assert!(place.contents() == native);
        assert!(!ledger.exists());
        if names_it {
            // Finished already: this name is nobody's.
            assert_ends(&command(&[]), 125, &[], &["cannot use the ledger", "--list"]);
        }
    }
}

#[test]
fn the_next_run_finishes_it_before_its_program_starts() {
    let _turn = turn();
    let place = Place::new();
    let native = place.native();
    let ledger = place.leave_pending();
    assert_ne!(place.contents(), native);
    let output = place.sweetspot(&["run", "--", "cat", "0-0", "0-1"]);
    assert!(output.status.success());
    assert!(output.stdout == native.concat(), "the next program sees all bytes");
    assert_eq!(stderr(&output), "", "nothing went wrong, so nothing is said");
    assert!(!ledger.exists());
}

#[test]
fn a_ledger_that_no_guard_noted_is_taken_by_name_alone() {
    let _turn = turn();
    let place = Place::new();
    let native = place.native();
    let noted = place.leave_pending();
    let before = place.contents();
    // As if somebody else had put it there.
    let planted = noted.with_file_name(format!(
        "sweetspot-{}-fedcba9876543210",
        rustix::process::geteuid().as_raw()
    ));
    fs::rename(&noted, &planted).unwrap();
    let name = planted.to_str().unwrap();
    let file = place.file("0-");
    assert_ends(&place.sweetspot(&["run", "--", "true"]), 0, &[], &[]);
    let parts = [name, file.to_str().unwrap(), "not recorded", "recover --unverified"];
    assert_ends(&place.sweetspot(&["recover", "--list"]), 0, &parts, &[]);
    assert_ends(&place.sweetspot(&["recover"]), 1, &parts, &[]);
    assert_ends(&place.sweetspot(&["recover", name]), 1, &parts, &[]);
    assert_eq!(place.contents(), before, "nobody has asked for it");
    let parts = [file.to_str().unwrap(), ": to be written\n", ": written\n"];
    assert_ends(&place.sweetspot(&["recover", "--unverified", name]), 0, &parts, &[]);
    assert!(place.contents() == native);
    assert!(!planted.exists());
}

#[test]
fn names_that_others_put_into_shared_memory_cost_nothing() {
    let _turn = turn();
    let place = Place::new();
    let uid = rustix::process::geteuid().as_raw();
    let planted: Vec<PathBuf> =
        (0..20).map(|n| format!("/dev/shm/sweetspot-{uid}-000000000000{n:04x}").into()).collect();
    planted.iter().for_each(|path| fs::write(path, "").unwrap());
    let output = place
        .command("strace")
        .args([
            "-f",
            "-e",
            "trace=openat,open",
            env!("CARGO_BIN_EXE_sweetspot"),
            "run",
            "--",
            "true",
        ])
        .output();
    planted.iter().for_each(|path| fs::remove_file(path).unwrap());
    let Ok(output) = output else { return println!("skipped: there is no strace") };
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("openat("), "{}", stderr(&output));
    assert!(!stderr(&output).contains("-000000000000"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("\"/dev/shm\""), "{}", stderr(&output));
}

#[test]
fn a_switched_off_run_touches_nothing() {
    let _turn = turn();
    let place = Place::new();
    let ledger = place.leave_pending();
    let before = place.contents();
    let mut command = place.command(env!("CARGO_BIN_EXE_sweetspot"));
    let status = command.args(["run", "--", "true"]).env("SWEETSPOT", "off").status().unwrap();
    assert!(status.success());
    assert_eq!(place.contents(), before);
    let output = place.sweetspot(&["recover", "--discard", ledger.to_str().unwrap()]);
    assert_ends(&output, 0, &[": discarded\n"], &[]);
    assert_eq!(place.contents(), before);
    assert!(!ledger.exists());
}

#[test]
fn what_passed_through_before_is_no_change_by_others() {
    let _turn = turn();
    let place = Place::of("large_first");
    let native = place.native();
    let ledger = place.leave_pending();
    assert_ends(&place.sweetspot(&["recover", ledger.to_str().unwrap()]), 0, &[": written"], &[]);
    assert!(place.contents() == native);
}

#[test]
fn a_path_longer_than_the_ledger_keeps_is_whole() {
    let _turn = turn();
    let mut place = Place::new();
    for _ in 0..3 {
        place.below.push("d".repeat(120));
    }
    fs::create_dir_all(place.work()).unwrap();
    let native = place.native();
    let ledger = place.leave_pending();
    let file = place.file("0-");
    let parts = [file.to_str().unwrap(), ": written"];
    assert_ends(&place.sweetspot(&["recover", ledger.to_str().unwrap()]), 0, &parts, &[]);
    assert!(place.contents() == native);
}

#[test]
fn what_was_written_since_is_never_overwritten() {
    let _turn = turn();
    let place = Place::new();
    for by_run in [true, false] {
        let ledger = place.leave_pending();
        // The job is run again, without sweetspot, before anybody recovered.
        for name in FILES {
            fs::write(place.file(name), format!("the next run's {name}")).unwrap();
        }
        let listed = place.sweetspot(&["recover", "--list", ledger.to_str().unwrap()]);
        assert_ends(&listed, 0, &["to be saved beside"], &[]);
        let output = if by_run {
            let output = place.sweetspot(&["run", "--", "true"]);
            assert_ends(&output, 0, &[], &["from a killed program", "saved as"]);
            output
        } else {
            let output = place.sweetspot(&["recover"]);
            assert_ends(&output, 1, &["saved as", "dd if="], &[]);
            output
        };
        for name in FILES {
            let now = fs::read_to_string(place.file(name)).unwrap();
            assert_eq!(now, format!("the next run's {name}"));
        }
        let saved: Vec<PathBuf> = fs::read_dir(place.work())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().contains(".sweetspot-saved-"))
            .collect();
        assert!(!saved.is_empty(), "{}{}", stdout(&output), stderr(&output));
        for path in saved {
            let said = stdout(&output) + &stderr(&output);
            assert!(said.contains(path.to_str().unwrap()), "{}: {said}", path.display());
            fs::remove_file(path).unwrap();
        }
        assert!(!ledger.exists());
    }
}

/// Where it may not be written it is not saved beside either: without the limit it can be written.
#[test]
fn what_a_limit_on_file_size_forbids_stays_and_stops_nobody() {
    let _turn = turn();
    let place = Place::new();
    let native = place.native();
    let ledger = place.leave_pending();
    let before = place.contents();
    for limit in ["ulimit -f 0", "ulimit -f 100", "trap '' XFSZ; ulimit -f 0"] {
        let limited = |arguments: &str| {
            let sweetspot = env!("CARGO_BIN_EXE_sweetspot");
            let script = format!("{limit}; exec {sweetspot} {arguments}");
            place.command("bash").args(["-c", &script]).output().unwrap()
        };
        let parts = ["stays in the ledger", "ulimit -f"];
        assert_ends(&limited("run -- echo ran"), 0, &["ran\n"], &parts);
        assert_ends(&limited("recover"), 1, &parts, &[]);
        assert_eq!(place.contents(), before, "{limit}");
        assert!(ledger.exists());
    }
    assert_ends(&place.sweetspot(&["recover"]), 0, &[": written\n"], &[]);
    assert!(place.contents() == native);
    assert!(!ledger.exists());
}

/// A user who may write to a folder above could lead the bytes anywhere by a link in its place.
#[test]
fn nothing_is_saved_behind_a_link_that_took_the_place_of_the_folder() {
    let _turn = turn();
    let place = Place::new();
    let ledger = place.leave_pending();
    let moved = place.folder.path().join("moved");
    let elsewhere = place.folder.path().join("elsewhere");
    fs::rename(place.work(), &moved).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, place.folder.path().join("work")).unwrap();
    let output = place.sweetspot(&["recover", ledger.to_str().unwrap()]);
    assert_ends(&output, 1, &["saved as"], &[]);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "saved behind the link");
    let state = place.folder.path().join("state/sweetspot");
    let names = fs::read_dir(state).unwrap().map(|entry| entry.unwrap().file_name());
    let saved = names.filter(|name| name.to_string_lossy().contains(".sweetspot-saved-"));
    assert_eq!(saved.count(), FILES.len(), "{}", stdout(&output));
}

#[test]
fn a_ledger_that_cannot_be_used_is_a_clear_error() {
    let _turn = turn();
    let place = Place::new();
    fs::write(place.file("text"), "no ledger").unwrap();
    let check = |name: &str, parts: &[&str]| {
        assert_ends(&place.sweetspot(&["recover", name]), 125, &[], parts);
    };
    check("missing", &["cannot use the ledger missing", "No such file"]);
    check("text", &["cannot use the ledger text"]);

    // One of another version is named, left alone by `run`, and can be discarded.
    let uid = rustix::process::geteuid().as_raw();
    let old = PathBuf::from(format!("/dev/shm/sweetspot-{uid}-0123456789abcdef"));
    fs::write(&old, b"swspot01 and what came then").unwrap();
    fs::set_permissions(&old, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert_ends(&place.sweetspot(&["run", "--", "true"]), 0, &[], &[]);
    let list = place.sweetspot(&["recover", "--list"]);
    assert_ends(&list, 1, &["0123456789abcdef: not finished", "another version", "--discard"], &[]);
    place.sweetspot(&["recover", "--discard", old.to_str().unwrap()]);
    assert!(!old.exists());

    let mut command = place.command(env!("CARGO_BIN_EXE_sweetspot"));
    let mut victim = Victim::start(command.args(["run", "--"]).arg(place.victim()));
    let ledger = victim.ledger();
    let output = place.sweetspot(&["recover", ledger.to_str().unwrap()]);
    assert_ends(&output, 1, &["not finished", "in use"], &[]);
    victim.kill();
    wait_until("the guard ends", || !ledger.exists());
}

/// No guard has noted what was killed before its program began. A start looks at none of it.
#[test]
fn what_was_killed_at_its_start_is_removed_by_what_stays() {
    let _turn = turn();
    let place = Place::new();
    for (age_s, command, stays) in [
        (3600, "recover", false),
        (30, "recover", true), // it may be about to be used
        (3600, "recover --list", true),
        (3600, "run --wait -- true", false),
        (3600, "profile --output report -- true", false),
        (3600, "run -- true", true),
    ] {
        let left = OwnedLedger::create(&Settings::default()).unwrap().path().to_owned();
        let time = std::time::SystemTime::now() - Duration::from_secs(age_s);
        fs::File::options().write(true).open(&left).unwrap().set_modified(time).unwrap();
        assert!(place.sweetspot(&command.split(' ').collect::<Vec<_>>()).status.success());
        assert_eq!(left.exists(), stays, "{command} after {age_s} s");
        let _ = fs::remove_file(left);
    }
}

/// Only its place and its name tell that an empty file is a ledger that was never finished.
#[test]
fn a_file_that_is_no_ledger_is_never_removed() {
    let _turn = turn();
    let place = Place::new();
    let uid = rustix::process::geteuid().as_raw();
    let old = std::time::SystemTime::now() - Duration::from_secs(3600);
    let make = |path: &Path, content: &[u8], len: u64| {
        fs::write(path, content).unwrap();
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_len(len).unwrap();
        file.set_modified(old).unwrap();
    };
    let shared = |name: &str| PathBuf::from(format!("/dev/shm/{name}"));
    let ledger = format!("sweetspot-{uid}-fedcba9876543210");
    let zeros = [&[0; 8192][..], b"and what matters"].concat();
    for (path, content, len, stays) in [
        (place.file("image.raw"), &zeros[..], zeros.len() as u64, true),
        (place.file("empty"), b"", 0, true),
        (place.file("sparse"), b"", 1 << 20, true),
        (place.file(&ledger), b"", 1 << 20, true),
        (shared("mine-of-this-test"), b"", 1 << 20, true),
        (shared(&ledger), &zeros, zeros.len() as u64, true),
        (shared(&ledger), b"", 1 << 20, false),
    ] {
        for option in ["--discard", "--list", "--unverified"] {
            make(&path, content, len);
            let output = place.sweetspot(&["recover", option, path.to_str().unwrap()]);
            let said = stderr(&output);
            assert!(said.contains("not a ledger"), "{path:?} {option}: {said}");
            let is_there = path.exists();
            assert_eq!(is_there, stays || option != "--discard", "{path:?} {option}: {said}");
        }
        let _ = fs::remove_file(&path);
    }
}

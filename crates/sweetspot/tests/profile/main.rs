//! `sweetspot profile` as its user sees it: the program is its own, counts are exact, verdicts and
//! coverage are right.
//!
//! Not here: how right predictions are (`cargo xtask bench predict`; the model has tests of its
//! own).

use test_start::{stderr, stdout};

mod cannot;
#[path = "../compiler/mod.rs"]
mod compiler;
mod counted;
mod followed;
#[path = "../place/mod.rs"]
mod place;

use place::Place;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

impl Place {
    /// Profiles a program; its output and what `--json` says.
    fn profile(&self, program: &[&str]) -> (Output, Value) {
        let json = self.folder.path().join("profile.json");
        let mut command = self.sweetspot(&["profile", "--json"]);
        command.arg(&json).args(["--output", "../report", "--"]).args(program);
        let output = command.output().unwrap();
        let content = fs::read_to_string(&json).unwrap_or_else(|_| panic!("{output:?}"));
        (output, serde_json::from_str(&content).unwrap())
    }

    fn report(&self) -> String {
        fs::read_to_string(self.folder.path().join("report")).unwrap()
    }
}

/// What was said of a file, over all processes that used it: the one with most calls.
fn file<'a>(profile: &'a Value, path: &Path) -> &'a Value {
    let path = path.canonicalize().unwrap();
    let calls = |file: &Value| number(file, "reads") + number(file, "writes");
    let found = profile["files"].as_array().unwrap().iter();
    let found = found.filter(|file| file["path"] == path.to_str().unwrap());
    found.max_by_key(|file| calls(file)).unwrap_or_else(|| panic!("{path:?} in {profile:#}"))
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value:#}"))
}

#[test]
fn status_output_and_signals_are_the_programs() {
    let place = Place::new();
    let (output, profile) = place.profile(&["sh", "-c", "echo out; echo err >&2; exit 3"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.stdout, b"out\n");
    assert_eq!(output.stderr, b"err\n");
    assert_eq!(profile["ended"], "exit status 3");
    let (output, profile) = place.profile(&["sh", "-c", "kill -TERM $$"]);
    assert_eq!(output.status.signal(), Some(15));
    assert_eq!(profile["ended"], "signal 15");
    let piped = place.sweetspot(&["profile", "--json", "-", "--", "echo", "out"]).output().unwrap();
    let json = piped.stdout.strip_prefix(b"out\n").expect("the program's own comes first");
    assert_eq!(serde_json::from_slice::<Value>(json).unwrap()["ended"], "exit status 0");
    assert!(!place.work().join("-").exists());
    let missing = place.sweetspot(&["profile", "--", "no-such-program"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(127));
}

/// Compiles `programs/c/NAME.c`.
fn compile_program(place: &Place, name: &str, options: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../programs/c/{name}.c"));
    compile(place, name, &fs::read_to_string(source).unwrap(), options);
}

fn compile(place: &Place, name: &str, source: &str, options: &[&str]) {
    place.write(&format!("{name}.c"), source);
    let mut compiler = compiler::gcc();
    compiler.args(["-o", name, &format!("{name}.c")]).args(options);
    assert!(compiler.current_dir(place.work()).status().unwrap().success());
}

/// Before each line of progress, and when it goes.
const OVER: &str = "\r\x1b[K";
/// A program that something came in the way of has another chance.
const TRIES_MAX: u32 = 3;

/// A line that is written over and over, and gone in the end; in a pipe there is none.
#[test]
fn progress_is_shown_on_a_terminal_and_nowhere_else() {
    let place = Place::new();
    let words = ["profile", "--", "timeout", "3.5", "dd", "if=/dev/zero", "of=/dev/null", "bs=100"];
    let mut piped = place.sweetspot(&words);
    let piped = piped.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let own = place.sweetspot(&words);
    let typed: Vec<&str> =
        [own.get_program()].into_iter().chain(own.get_args()).map(text).collect();
    let shown = || {
        let mut terminal = Command::new("script");
        terminal.args(["-qec", &typed.join(" "), "/dev/null"]).current_dir(place.work());
        terminal.env("SWEETSPOT_CACHE", place.cache()).env("TERM", "xterm").env_remove("NO_COLOR");
        let shown = terminal.stdin(Stdio::null()).output().unwrap();
        assert_eq!(shown.status.code(), Some(124), "{shown:?}");
        String::from_utf8(shown.stdout).unwrap()
    };
    // One a second, from the second on; on a busy machine one is left out at times.
    let is_written_over = |shown: &String| shown.split(OVER).count() >= 4;
    let shown = (0..TRIES_MAX).map(|_| shown()).find(is_written_over).expect("twice in 3.5 s");
    let lines: Vec<&str> = shown.split(OVER).collect();
    assert!(lines[0].is_empty(), "{shown}");
    let mut most = 0;
    for line in &lines[1..lines.len() - 1] {
        let (seconds, rates) = line.split_once(" s: ").unwrap_or_else(|| panic!("{shown}"));
        assert!((2.0..60.0).contains(&seconds.parse().unwrap()), "{line}");
        let (calls, bytes) = rates.split_once(" calls/s, ").unwrap_or_else(|| panic!("{line}"));
        most = most.max(calls.replace(',', "").parse::<u64>().unwrap());
        assert!(bytes.ends_with("B/s") || bytes.ends_with("bytes/s"), "{line}");
    }
    assert!(most > 1000, "{shown}");
    let report = lines[lines.len() - 1];
    assert!(report.starts_with("\x1b[1m") && report.contains("seen  "), "{report}");
    let piped = piped.wait_with_output().unwrap();
    let said = String::from_utf8(piped.stderr).unwrap();
    assert!(!said.contains(['\r', '\x1b']) && !said.contains("calls/s"), "{said}");
}

fn text(word: &std::ffi::OsStr) -> &str {
    word.to_str().unwrap()
}

#[test]
fn two_profiles_are_compared() {
    let place = Place::new();
    place.write("in.dat", vec![b'x'; 200 * 1000]);
    for (name, size) in [("a.json", "bs=200"), ("b.json", "bs=20000")] {
        let dd = ["profile", "--json", name, "--", "dd", "if=in.dat", "of=out.dat", size];
        assert!(place.sweetspot(&dd).output().unwrap().status.success());
    }
    let compare = ["profile", "--compare", "a.json", "b.json"];
    let output = place.sweetspot(&compare).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("in.dat\n  calls 1,00"), "{text}");
    let both = place.sweetspot(&[&compare[..], &["--json", "c.json"]].concat()).output().unwrap();
    assert_eq!(both.status.code(), Some(125), "{both:?}");
    place.write("c.json", b"{}");
    let output = place.sweetspot(&["profile", "--compare", "a.json", "c.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("c.json: not a profile"));
}

#[test]
fn a_file_that_holds_something_else_is_not_overwritten() {
    let place = Place::new();
    place.write("data", b"precious");
    for option in ["--json", "--output"] {
        let output = place.sweetspot(&["profile", option, "data", "--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert_eq!(fs::read(place.work().join("data")).unwrap(), b"precious");
    }
}

#[test]
fn results_that_would_go_to_one_file_are_refused() {
    let place = Place::new();
    for options in [
        &["--json", "one", "--record", "one"][..],
        &["--output", "./one", "--json", "one"],
        &["--output", "-", "--record", "-"],
    ] {
        let output = place.sweetspot(&["profile"]).args(options).args(["--", "true"]).output();
        let output = output.unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("name one file"), "{said}");
        assert!(output.stdout.is_empty() && !place.work().join("one").exists(), "{said}");
    }
    let null = ["profile", "--output", "/dev/null", "--json", "/dev/null", "--", "true"];
    assert!(place.sweetspot(&null).status().unwrap().success());
    // Nor is a recording printed where the program has written to its file.
    let script = "echo mine >one";
    let record = ["profile", "--output", "../report", "--record", "one", "--", "sh", "-c", script];
    let said = place.sweetspot(&record).output().unwrap().stderr;
    let said = String::from_utf8(said).expect("a message alone");
    assert!(said.contains("one: somebody has written to it"), "{said}");
}

#[test]
fn nothing_is_left_behind() {
    let place = Place::new();
    let count = || {
        let uid = rustix::process::geteuid().as_raw();
        let own = format!("sweetspot-{uid}-");
        let names = fs::read_dir("/dev/shm").unwrap().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count()
    };
    let before = count();
    place.profile(&["true"]);
    // Other tests make and remove ledgers of their own meanwhile: wait for a moment without.
    let mut tries = 0;
    while count() > before && tries < 100 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        tries += 1;
    }
    assert!(count() <= before);
    assert!(fs::read_dir(place.work()).unwrap().next().is_none(), "costs are measured and removed");
}

/// However the program ends, or this process is asked to, its counters go.
#[test]
fn nothing_is_left_behind_by_signals() {
    use std::io::{BufRead, BufReader};
    let place = Place::new();
    let profile = |script: &str| {
        let mut command = place.sweetspot(&["profile", "--", "sh", "-c"]);
        command.arg(script).stderr(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut path = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut path).unwrap();
        (child, path.trim().to_owned())
    };
    let check = |child: &mut std::process::Child, path: &str, what: &str| {
        assert!(child.wait().unwrap().signal().is_some(), "{what}");
        assert!(path.starts_with("/dev/shm/sweetspot-"), "{path:?}");
        assert!(!fs::exists(path).unwrap(), "{what}: {path} is left");
    };
    for signal in ["TERM", "KILL", "SEGV"] {
        let (mut child, path) = profile(&format!("echo $SWEETSPOT_LEDGER; kill -{signal} $$"));
        check(&mut child, &path, signal);
    }
    for signal in [Signal::TERM, Signal::HUP] {
        let (mut child, path) = profile("echo $SWEETSPOT_LEDGER; exec sleep 100");
        kill_process(Pid::from_child(&child), signal).unwrap();
        check(&mut child, &path, &format!("{signal:?} to this process"));
    }
}

impl Place {
    /// Writes a source, compiles it, and says where the program is.
    fn compile(&self, name: &str, source: &str, compiler: &str) -> String {
        let path = self.write(name, source);
        let mut words = compiler.split(' ');
        let built = Command::new(words.next().unwrap())
            .args(words)
            .args([path.to_str().unwrap()])
            .current_dir(self.work())
            .status();
        assert!(built.is_ok_and(|status| status.success()), "{compiler}");
        self.work().join("program").to_str().unwrap().to_owned()
    }

    /// What `--where` says of the file `out`: its only place, and the report.
    fn place_of(&self, program: &[&str]) -> (Value, String) {
        let json = self.folder.path().join("profile.json");
        let mut command = self.sweetspot(&["profile", "--where", "--json"]);
        command.arg(&json).args(["--output", "../report", "--"]).args(program);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let profile: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        let found = file(&profile, &self.work().join("out"));
        let places = found["places"].as_array().unwrap();
        assert_eq!(places.len(), 1, "{places:#?}");
        assert_eq!(places[0]["share"], 1.0);
        (places[0].clone(), self.report())
    }
}

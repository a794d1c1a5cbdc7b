//! What somebody meets who has just installed it: `doctor`, and what shells complete.
//!
//! Not here: packages and manual pages (`cargo xtask packages`).

use test_start::{skip_without_root, stdout};

mod memory_disk;
mod place;

use memory_disk::Disk;
use place::Place;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// How often a disk that others fill, too, is found nearly full in a row.
const FULL_MAX: usize = 60;

fn doctor(command: &mut Command) -> (Option<i32>, Value) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stderr);
    (
        status.code(),
        serde_json::from_slice(&stdout).unwrap_or_else(|error| panic!("{error}: {said}")),
    )
}

/// State, words and remedy of the line of that name.
fn line(report: &Value, name: &str) -> (String, String, String) {
    let lines = report["findings"].as_array().unwrap();
    let found = lines.iter().find(|line| line["name"] == name);
    let found = found.unwrap_or_else(|| panic!("no {name} in {report:#}"));
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    (text("state"), text("says"), text("mend"))
}

#[track_caller]
fn assert_lacks(report: &Value, name: &str, says: &str, mend: &str) {
    let (state, words, remedy) = line(report, name);
    assert_eq!(state, "lacks", "{name}: {words}");
    assert!(words.contains(says), "{name}: {words}");
    assert!(remedy.contains(mend), "{name}: {remedy}");
}

/// The same once more where the disk was nearly full: others may fill it, too, for a moment.
fn with_room(asked: impl Fn() -> (Option<i32>, Value)) -> (Option<i32>, Value) {
    let was_full = |report: &Value| line(report, "writes").1.contains("nearly full");
    for _ in 0..FULL_MAX {
        let answer = asked();
        if !was_full(&answer.1) {
            return answer;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    asked()
}

#[test]
fn a_machine_that_runs_the_tests_is_well() {
    let place = Place::new();
    let (status, report) = with_room(|| doctor(&mut place.sweetspot(&["doctor", "--json"])));
    assert_eq!(status, Some(0), "{report:#}");
    assert_eq!(report["schema_version"], 1);
    assert_eq!(report["run_works"], true, "{report:#}");
    for name in ["library", "reads", "writes", "answer", "C library", "/dev/shm", "pidfd"] {
        assert_eq!(line(&report, name).0, "ok", "{report:#}");
    }
    let text = place.sweetspot(&["doctor"]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("their reads and writes are buffered.\n\nTo run programs:\n"), "{text}");
    // What it tried is gone.
    assert_eq!(std::fs::read_dir(place.work()).unwrap().count(), 0);
    let mut kept = report["findings"].as_array().unwrap().iter().filter(|l| l["name"] == "cache");
    let cache = place.cache().display().to_string();
    assert!(kept.any(|line| line["says"].as_str().unwrap().contains(&cache)), "{report:#}");
}

#[test]
fn what_stands_in_the_way_is_named_with_its_remedy() {
    let place = Place::new();
    let asked = || place.sweetspot(&["doctor", "--json"]);

    let (status, report) = doctor(asked().env("SWEETSPOT", "off"));
    assert_eq!(status, Some(1));
    assert_lacks(&report, "switch", "start untouched", "unset SWEETSPOT");

    let file = place.write("file", "");
    let (status, report) = doctor(asked().env("SWEETSPOT_CACHE", file));
    assert_eq!((status, &report["run_works"]), (Some(1), &Value::Bool(false)));
    assert_lacks(&report, "library", "file", "SWEETSPOT_CACHE=DIR");

    let cache = place.folder.path().join("open");
    std::fs::create_dir(&cache).unwrap();
    std::fs::set_permissions(&cache, Permissions::from_mode(0o777)).unwrap();
    let (status, report) = doctor(asked().env("SWEETSPOT_CACHE", &cache));
    assert_eq!((status, &report["run_works"]), (Some(1), &Value::Bool(false)));
    assert!(report["sentence"].as_str().unwrap().contains("starts no program"), "{report:#}");
    assert_lacks(&report, "library", "everyone can write there", "SWEETSPOT_CACHE=DIR");

    let (status, _) = doctor(asked().env("TMPDIR", "/no/such/folder"));
    assert!(status.is_some_and(|status| status < 2), "{status:?}");

    // Neither toolchains nor a program for the trial; and with one.
    let empty = place.folder.path().join("programs");
    std::fs::create_dir(&empty).unwrap();
    let (status, report) = doctor(asked().env("PATH", &empty));
    assert_eq!(status, Some(1));
    assert_lacks(&report, "trial", "'dd'", "");
    assert_lacks(&report, "cobc", "COBOL", "apt-get install gnucobol4");
    let dd = ["/usr/bin/dd", "/bin/dd"].into_iter().find(|dd| Path::new(dd).exists()).unwrap();
    symlink(dd, empty.join("dd")).unwrap();
    let (status, report) = doctor(asked().env("PATH", &empty));
    assert_eq!(status, Some(0), "{report:#}");
    assert_lacks(&report, "C library", "no glibc", "");
}

#[test]
fn a_cache_from_which_nothing_can_be_loaded() {
    let place = Place::new();
    let Some(disk) = Disk::mount(place.folder.path().join("disk"), 4) else {
        return skip_without_root("doctor with a cache that is mounted noexec");
    };
    let remount = ["-o", "remount,noexec"];
    assert!(Command::new("mount").args(remount).arg(&disk.0).status().unwrap().success());
    let mut asked = place.sweetspot(&["doctor", "--json"]);
    let (status, report) = doctor(asked.env("SWEETSPOT_CACHE", disk.0.join("cache")));
    assert_eq!(status, Some(1), "{report:#}");
    assert_lacks(&report, "library", "noexec", "SWEETSPOT_CACHE=DIR");
}

fn in_the_environment_of<'a>(command: &'a mut Command, other: &Command) -> &'a mut Command {
    for (name, value) in other.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[test]
fn without_shared_memory_only_reads_are_buffered() {
    let place = Place::new();
    let script = "mount -t tmpfs -o ro tmpfs /dev/shm || exit 99; exec \"$0\" doctor --json";
    let asked = place.sweetspot(&[]);
    let mut apart = Command::new("unshare");
    apart.args(["--mount", "sh", "-c", script]).arg(asked.get_program());
    in_the_environment_of(&mut apart, &asked);
    let Output { status, stdout, .. } = apart.output().unwrap();
    let Ok(report) = serde_json::from_slice::<Value>(&stdout) else {
        return skip_without_root("doctor without shared memory");
    };
    assert_eq!(status.code(), Some(0), "{report:#}");
    assert_eq!(line(&report, "reads").0, "ok", "{report:#}");
    assert_lacks(&report, "writes", "only reads are buffered", "");
    assert_lacks(&report, "/dev/shm", "writes are not buffered", "mount -o remount,rw /dev/shm");
}

/// Two programs, and two ways to start them.
const PLAN: &str = r#"
title = "Copies"
question = "Which one is faster?"
rounds = 4

[data.input]
generate = ["--lines", "50", "--characters", "20"]

[programs]
plain = { command = ["cp", "{input}", "{output}"] }
run = { command = ["{sweetspot}", "run", "--", "cp", "{input}", "{output}"] }

[baseline]
program = "plain"
"#;

/// As an upgrade does: what began is what goes on.
#[test]
fn the_programs_file_may_be_replaced_while_it_runs() {
    let place = Place::new();
    place.write("in.dat", "a line of text\n".repeat(5000));
    place.write("plan.toml", PLAN);
    let own = place.folder.path().join("sweetspot");
    let check = |arguments: &[&str], expected: &str| {
        std::fs::copy(env!("CARGO_BIN_EXE_sweetspot"), &own).unwrap();
        let asked = place.sweetspot(arguments);
        // Gone before it begins, so whenever it looks.
        let mut copy = Command::new("sh");
        copy.args(["-c", "exec 9< \"$0\"; rm \"$0\"; exec /proc/self/fd/9 \"$@\""]).arg(&own);
        in_the_environment_of(&mut copy, &asked).current_dir(place.work()).args(arguments);
        let output = copy.output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(said.contains(expected), "{arguments:?}: {said}");
    };
    let copy = ["--", "dd", "if=in.dat", "of=out", "bs=15", "status=none"];
    check(&[&["verify"], &copy[..]].concat(), "identical");
    let tune = ["tune", "--smallest", "--sizes=4K..16K", "--within=100%", "--keep-rules"];
    check(&[&tune, &copy[..]].concat(), "The same in every run: ");
    check(&["bench", "--dir", "kept", "plan.toml"], "run");
}

#[test]
fn bash_completes_verbs_options_and_values() {
    let place = Place::new();
    let folder = place.work().join("completions");
    let generated = place.sweetspot(&["generate", "completions"]).arg(&folder).status().unwrap();
    assert!(generated.success());
    for name in ["_sweetspot", "sweetspot.fish"] {
        assert!(folder.join(name).metadata().unwrap().len() > 1000, "{name}");
    }
    let check = |typed: &[&str], expected: &[&str], absent: &[&str]| {
        let script = ". \"$0\"
            COMP_WORDS=(sweetspot \"$@\") COMP_CWORD=$#
            _sweetspot sweetspot \"${!#}\" \"${COMP_WORDS[$(($# - 1))]}\"
            printf '%s\\n' \"${COMPREPLY[@]}\"";
        let mut bash = Command::new("bash");
        bash.args(["-c", script]).arg(folder.join("sweetspot.bash")).args(typed);
        let output = bash.output().unwrap();
        let said = stdout(&output);
        let words: Vec<&str> = said.split_whitespace().collect();
        assert!(expected.iter().all(|word| words.contains(word)), "{typed:?}: {words:?}");
        assert!(!absent.iter().any(|word| words.contains(word)), "{typed:?}: {words:?}");
    };
    check(&[""], &["run", "tune", "doctor", "work"], &["sandbox-step", "measure", "generate"]);
    check(&["r"], &["run", "recover"], &["tune"]);
    check(&["run", "--"], &["--summary", "--buffer-size", "--require"], &["--json"]);
    check(&["doctor", "--"], &["--json", "--help"], &[]);
    check(&["work", "l"], &["lines"], &["copy"]);
    check(&["bench", "--between", ""], &["reboot"], &[]);
}

#[test]
fn what_was_saved_away_from_its_file_is_listed_and_not_to_be_removed() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join("state/sweetspot");
    fs::create_dir_all(&state).unwrap();
    let folders = [state.as_path(), Path::new("/dev/shm")];
    let name = format!("out.dat.sweetspot-saved-{}-at-4096", std::process::id());
    let names = folders.map(|folder| folder.join(&name));
    names.iter().for_each(|saved| fs::write(saved, "bytes").unwrap());
    let others = Path::new("/dev/shm").join(format!("{name}.1"));
    fs::write(&others, "bytes").unwrap();
    // On some file systems what root writes is another user's.
    let is_root = [&names[0], &others].iter().all(|saved| chown(saved, Some(54_307), None).is_ok());
    let [listed, found] = [["recover", "--list"].as_slice(), &["doctor"]].map(|words| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sweetspot"));
        command
            .args(words)
            .env("XDG_STATE_HOME", home.path().join("state"))
            .env("HOME", home.path());
        let said = command.env_remove("SWEETSPOT_LEDGER").output().unwrap().stdout;
        String::from_utf8_lossy(&said).into_owned()
    });
    names.iter().chain([&others]).for_each(|saved| fs::remove_file(saved).unwrap());
    assert!(!is_root || !listed.contains(others.to_str().unwrap()), "{listed}");
    for saved in names {
        let line = format!("{}: 5 bytes", saved.display());
        assert!(listed.contains(&line), "{listed}");
    }
    let line = found.lines().find(|line| line.contains("with bytes of a program"));
    assert!(line.is_some_and(|line| line.contains("recover --list")), "{found}");
}

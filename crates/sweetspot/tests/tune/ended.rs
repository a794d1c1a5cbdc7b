//! Runs that end early: an interrupt, a hang-up, a kill; sessions that go on.

use super::*;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_ctrl_c_finishes_a_preparation() {
    let place = Place::new();
    let log = place.folder.path().join("log");
    let prepare = format!("--prepare=echo x >> {}; sleep 1", log.display());
    let mut options = EASY.to_vec();
    options.push(&prepare);
    let mut tune = place.tune(&options, &["true"]);
    // As a terminal does it: the signal goes to the whole foreground group.
    let child =
        tune.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it runs", || lines(&log) == 4);
    kill_process_group(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(stdout(&output).contains("Interrupted. This is what is known so far"), "{said}");
}

/// Starts a tuning of a slow command, and waits until it has run a few times.
fn started(place: &Place, options: &[&str]) -> (Child, PathBuf) {
    fs::create_dir_all(place.path("")).unwrap();
    let log = place.folder.path().join("log");
    let script = format!("echo $$ >> {}; exec sleep 0.2", log.display());
    let child = place
        .tune(options, &["sh", "-c", &script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("it runs on", || lines(&log) >= 5);
    (child, log)
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

#[test]
fn an_interrupt_says_what_is_known_and_the_session_goes_on() {
    let place = Place::new();
    let (mut child, log) = started(&place, &EASY);
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).unwrap();
    let status = child.wait().unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("Interrupted. This is what is known so far"), "{said}");
    let before = lines(&log);

    let script = format!("echo $$ >> {}; exec sleep 0.2", log.display());
    let mut options = EASY.to_vec();
    options.extend(["--resume", "--json"]);
    let output = place.tune(&options, &["sh", "-c", &script]).output().unwrap();
    is_confirmed(&output);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rounds = json["rounds"].as_array().unwrap();
    let runs: usize = rounds.iter().map(|round| round["order"].as_array().unwrap().len()).sum();
    let again = lines(&log) - before;
    // Two runs learn; the others are the ones that were not done before.
    assert!(again - 2 < runs, "{again} runs for {runs} in all");

    let other = place.tune(&options, &["sh", "-c", "true"]).output().unwrap();
    let said = stderr(&other);
    assert!(said.contains("there is no unfinished session"), "{said}");
}

#[test]
fn a_second_interrupt_stops_at_once_and_leaves_nothing_running() {
    for (signal, status) in [(Signal::INT, 130), (Signal::HUP, 129)] {
        let place = Place::new();
        fs::create_dir_all(place.path("")).unwrap();
        let pid_file = place.folder.path().join("pid");
        let script = format!("echo $$ > {}; exec sleep 100", pid_file.display());
        let mut child = place.tune(&EASY, &["sh", "-c", &script]).spawn().unwrap();
        wait_until("it runs", || lines(&pid_file) == 1);
        let pid = Pid::from_child(&child);
        kill_process(pid, signal).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert!(child.try_wait().unwrap().is_none(), "the first one waits for the run");
        kill_process(pid, signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(status));
        let program = fs::read_to_string(&pid_file).unwrap().trim().to_owned();
        wait_until("its program ends", || !Path::new("/proc").join(&program).exists());
        assert_eq!(fs::read_dir(place.scratch()).unwrap().count(), 0, "and nothing in its folder");
    }
}

/// `nohup` has it go on when the terminal goes.
#[test]
fn a_hang_up_that_is_ignored_stays_ignored() {
    let place = Place::new();
    fs::create_dir_all(place.path("")).unwrap();
    let begun = place.folder.path().join("begun");
    let script = format!("echo >> {}; sleep 1", begun.display());
    let tune = place.tune(&["--dry-run"], &["sh", "-c", &script]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(tune.get_program());
    command.args(tune.get_args()).current_dir(place.path("")).stdout(Stdio::null());
    command.env("XDG_STATE_HOME", place.folder.path().join("state"));
    command.env("SWEETSPOT_CACHE", place.folder.path().join("cache"));
    let mut child = command.spawn().unwrap();
    wait_until("it begins", || lines(&begun) == 1);
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_session_that_was_killed_goes_on() {
    let place = Place::new();
    let (mut child, log) = started(&place, &EASY);
    child.kill().unwrap();
    child.wait().unwrap();
    let script = format!("echo $$ >> {}; exec sleep 0.2", log.display());
    let mut options = EASY.to_vec();
    options.push("--resume");
    let output = place.tune(&options, &["sh", "-c", &script]).output().unwrap();
    assert!(is_confirmed(&output), "{}", stdout(&output));
}

#[test]
fn an_interrupt_ends_a_confirmation() {
    let place = Place::with_input();
    let script = "echo >> ../ran; sleep 0.2; dd if=in.dat of=out.dat bs=50 status=none";
    let recording = place.record(&["sh", "-c", script]);
    let mut tune = place.sweetspot("tune");
    tune.arg("--from").arg(&recording).args(["--", "sh", "-c", script]);
    let tune = tune.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ran = || fs::read_to_string(place.path("../ran")).unwrap().len();
    wait_until("it runs three times", || ran() >= 3);
    kill_process(Pid::from_raw(tune.id() as i32).unwrap(), Signal::INT).unwrap();
    let output = tune.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stdout(&output).contains("interrupted, so nothing confirms it"), "{}", stdout(&output));
    assert!(ran() < 8 && !place.path("sweetspot.toml").exists());
}

/// `su` and `sudo` may keep the variables of the user who calls them.
#[test]
fn no_runs_are_kept_in_a_folder_of_somebody_else() {
    let place = Place::new();
    let state = place.folder.path().join("state/sweetspot");
    fs::create_dir_all(&state).unwrap();
    let led_to = place.folder.path().join("led to");
    std::os::unix::fs::symlink(&led_to, state.join("runs.sqlite")).unwrap();
    for folder in [&state, state.parent().unwrap()] {
        if std::os::unix::fs::chown(folder, Some(54321), None).is_err() {
            return println!("skipped: only root can give a folder away");
        }
    }
    let home = place.folder.path().join("home");
    let options = [&EASY[..], &["--patience", "2", "--budget", "1s", "--keep-rules"]].concat();
    let mut tune = place.tune(&options, &["sh", "-c", "exec sleep 0.02"]);
    let output = tune.env("HOME", &home).output().unwrap();
    assert!(!led_to.exists(), "{}", stdout(&output));
    assert!(!home.exists() && Path::new("/var/lib/sweetspot/runs.sqlite").exists());
}

/// A session takes minutes: what would be in vain is refused at its start.
#[test]
fn where_no_rule_can_be_kept_nothing_runs() {
    let place = Place::new();
    let check = |options: &[&str], parts: &[&str]| {
        let output = place.shell(options, "echo ran >>ran");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert_has(&said, parts.iter().chain(&["\n  "]));
        assert!(!place.path("ran").exists(), "{said}");
    };
    let rules = place.path("sweetspot.toml");
    fs::create_dir_all(place.path("")).unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(&place.path(""), 0o775);
    check(&[], &["sweetspot.toml: ", "would ignore it", "chmod go-w ", "--config "]);
    assert!(!rules.exists());
    mode(&place.path(""), 0o755);
    fs::write(&rules, "").unwrap();
    mode(&rules, 0o664);
    check(&[], &["would ignore it", "chmod go-w ", "sweetspot.toml, or"]);
    mode(&rules, 0o644);
    fs::write(&rules, "rule = [{ buffer = \"4K\" }]\n").unwrap();
    check(&[], &["sweetspot.toml: no rule can be written", "[[rule]]", "--keep-rules"]);
    check(&["--config", "/dev/null"], &["/dev/null", "not a regular file", "--keep-rules"]);
    let mut tune = place.tune(&["--keep-rules", "--dry-run"], &["sh", "-c", "echo ran >ran"]);
    let output = tune.env("TMPDIR", ".").output().unwrap();
    assert!(output.status.success() && !stdout(&output).contains("sweetspot-tune-"), "{output:?}");
}

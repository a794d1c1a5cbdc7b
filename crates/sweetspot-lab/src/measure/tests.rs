use super::*;
use std::fs;

/// Not a test: the launcher of all tests here (see `this_program`).
#[test]
fn the_launcher() {
    launch_if_asked();
}

fn shell(script: &str) -> Job {
    Job::new(["sh", "-c", script])
}

#[test]
fn time_and_status_are_those_of_the_process() {
    for (script, status, wall_ms_min) in
        [("true", "exit status: 0", 0), ("sleep 0.2; exit 3", "exit status: 3", 200)]
    {
        let found = run(&shell(script)).unwrap();
        assert_eq!(found.status.to_string(), status, "{script}");
        assert!(found.wall >= Duration::from_millis(wall_ms_min), "{script}: {found:?}");
    }
    assert_eq!(run(&shell("kill -9 $$")).unwrap().status.to_string(), "signal: 9 (SIGKILL)");
}

#[test]
fn processor_time_is_told_apart_from_sleep() {
    let idle = run(&shell("sleep 0.3")).unwrap();
    let busy = run(&shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")).unwrap();
    assert!(idle.usage.user + idle.usage.system < Duration::from_millis(150), "{idle:?}");
    assert!(busy.usage.user > idle.usage.user, "{busy:?} {idle:?}");
}

#[test]
fn peak_memory_is_seen() {
    // dd takes a buffer of this size and fills it.
    let large = run(&shell("dd if=/dev/zero of=/dev/null bs=64M count=1 2>&-")).unwrap();
    assert!(large.usage.peak_memory_bytes >= 64 << 20, "{large:?}");
}

#[test]
fn memory_of_the_measuring_process_is_not_the_commands() {
    let large = vec![1_u8; 256 << 20];
    let found = run(&shell("true")).unwrap();
    assert!(found.usage.peak_memory_bytes < 64 << 20, "{found:?}");
    assert_eq!(std::hint::black_box(large)[1000], 1);
}

#[test]
fn transfers_of_all_that_was_waited_for_are_counted_and_no_others() {
    let idle = run(&shell(":")).unwrap().transfers;
    // One process does it, and the shell waits for it.
    let copy = "dd if=/dev/zero of=/dev/null bs=100 count=5000 2>&-; true";
    let busy = run(&shell(copy)).unwrap().transfers;
    let (reads, writes) = (busy.read_calls - idle.read_calls, busy.write_calls - idle.write_calls);
    // The dynamic linker reads a few headers.
    assert!((5000..5020).contains(&reads), "{busy:?} {idle:?}");
    assert!((5000..5005).contains(&writes), "{busy:?} {idle:?}");
    assert!((500_000..600_000).contains(&(busy.read_bytes - idle.read_bytes)), "{busy:?}");
    assert_eq!(idle.write_calls, 0, "what the launcher does is not counted");
}

#[test]
fn a_command_dies_with_the_one_that_measures_it() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    // A launcher whose parent is gone: the sheet belongs to a process that ends at once.
    let mut job = shell(&format!("echo $$ > {}; exec sleep 60", pid.display()));
    job.limit = Duration::from_secs(50);
    let mut parent = Command::new("sleep").arg("0.3").spawn().unwrap();
    let watched = pidfd_open(Pid::from_child(&parent), PidfdFlags::empty()).unwrap();
    let start = Instant::now();
    assert!(matches!(supervise(&job, &watched), LauncherReport::TimeLimit));
    assert!(start.elapsed() < Duration::from_secs(40));
    parent.wait().unwrap();
    let pid = fs::read_to_string(&pid).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "{pid} is still there");
}

#[test]
fn input_output_folder_and_environment_are_the_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("in"), "line\n").unwrap();
    let mut job = shell("read line; echo $line; echo $COLOUR ${HOME-away}; pwd; echo no >&2");
    job.stdin = Some(path("in"));
    job.stdout = Some(path("out"));
    job.stderr = Some(path("err"));
    job.environment.push(("COLOUR".into(), "green".into()));
    job.without.push("HOME".into());
    job.folder = Some(folder.path().to_owned());
    assert!(run(&job).unwrap().status.success());
    let expected = format!("line\ngreen away\n{}\n", folder.path().display());
    // Before it stands what the test program itself says, which is the launcher here.
    let found = fs::read_to_string(path("out")).unwrap();
    assert!(found.ends_with(&expected), "{found}");
    assert_eq!(fs::read_to_string(path("err")).unwrap(), "no\n");
}

#[test]
fn a_command_can_report_samples() {
    let folder = tempfile::tempdir().unwrap();
    let mut job = shell("eval \"echo '[1, 2]' >&$SWEETSPOT_SAMPLES_FD\"");
    job.samples = Some(folder.path().join("samples"));
    assert!(run(&job).unwrap().status.success());
    assert_eq!(fs::read_to_string(folder.path().join("samples")).unwrap(), "[1, 2]\n");
    let without = run(&shell("test -z \"$SWEETSPOT_SAMPLES_FD\"")).unwrap();
    assert!(without.status.success(), "there is no descriptor where none was asked for");
}

#[test]
fn a_command_that_does_not_end_is_killed() {
    let mut job = Job::new(["sleep", "60"]);
    job.limit = Duration::from_millis(50);
    let start = Instant::now();
    let error = run(&job).unwrap_err();
    assert!(matches!(error, Error::TimeLimit { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn what_cannot_run_says_why() {
    let mut unreadable = shell("true");
    unreadable.stdin = Some("/no/such/file".into());
    for (job, expected) in [
        (Job::new(["/no/such/program"]), "cannot start /no/such/program: No such file"),
        (unreadable, "cannot open /no/such/file: No such file"),
        (Job::new([""; 0]), "it has no command"),
    ] {
        let message = run(&job).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

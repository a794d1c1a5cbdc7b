//! Sessions: what ends them, and what goes on afterwards.

use super::*;

#[test]
fn ctrl_c_says_what_is_known_and_a_session_goes_on() {
    let bench = Bench::new(PLAN);
    let running = bench.command(&[]).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    wait_for_runs(&bench, 4);
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let output = running.wait_with_output().unwrap();
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("Interrupted: this is what is known so far."), "{shown}");
    let partial = "SELECT round, figure FROM cell_run GROUP BY round HAVING count(*) = 1";
    let partial: Option<(i64, f64)> = connection(&bench)
        .unwrap()
        .query_row(partial, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .ok();
    bench.refused(&["--resume", "--seed", "99"], &["began with the seed 3", "--seed"]);

    // Another source is another program.
    bench.place.write("plans/sorting/nap.sh", format!("{NAP} # other"));
    bench.refused(&["--resume"], &["a file of the plan's folder has changed", "--accept-changes"]);
    bench.place.write("plans/sorting/nap.sh", NAP);
    // An edited plan is never mixed; another program is, where one says so.
    bench.place.write("plans/sorting/plan.toml", PLAN.replace("0.2", "0.3") + "# new\n");
    bench.refused(&["--resume"], &["the plan has changed since it began", "without --resume"]);
    bench.refused(&["--resume", "--accept-changes"], &["the plan has changed"]);
    bench.place.write("plans/sorting/plan.toml", PLAN);
    let report = bench.json(&["--resume"], 0);
    assert_eq!((&report["rounds"], &report["cells"][0]["runs"]), (&6.into(), &6.into()));
    bench.refused(&["--resume"], &["no unfinished session"]);
    // What there was of a round was measured anew, as its runs are only comparable with each other.
    if let Some((round, before)) = partial {
        let now = "SELECT figure FROM cell_run WHERE round = ? AND place = 0";
        let now: f64 =
            connection(&bench).unwrap().query_row(now, [round], |row| row.get(0)).unwrap();
        assert_ne!(now, before, "round {round}");
    }
}

#[test]
fn a_budget_ends_it_after_a_round_and_it_goes_on() {
    // A round naps for 0.2 seconds at the least, and there are seven with the one to warm up.
    let bench = Bench::new(PLAN);
    let report = bench.json(&["--budget=1s"], 1);
    assert_eq!(report["stopped"], "budget", "{report:#}");
    let shown = stdout(&bench.run(&["--budget=1s", "--seed=4"]));
    assert!(shown.contains("The time is up: this is what is known so far."), "{shown}");
    // Whether what is claimed holds is another question, which a busy machine leaves open.
    let whole = bench.run(&["--resume", "--json"]);
    let report: Value = serde_json::from_slice(&whole.stdout).unwrap();
    assert_eq!((&report["rounds"], &report["stopped"]), (&6.into(), &Value::Null));
}

#[test]
fn a_changed_machine_is_refused_unless_told_otherwise() {
    let bench = Bench::new(
        &PLAN
            .replace("command = [\"sort\"", "command = [\"{build}/mine\"")
            .replace("build = [[", "build = [[\"cp\", \"/usr/bin/sort\", \"{build}/mine\"], ["),
    );
    let running = bench.command(&[]).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    wait_for_runs(&bench, 3);
    kill_process_group(Pid::from_child(&running), Signal::KILL).unwrap();
    running.wait_with_output().unwrap();
    fs::File::open(bench.kept("build")[0].join("mine"))
        .unwrap()
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    bench.refused(&["--resume"], &["mine has changed since it began", "--accept-changes"]);
    let report = bench.json(&["--resume", "--accept-changes"], 0);
    assert!(report["notes"].to_string().contains("mine has changed"), "{report}");
}

/// Waits until a session has stored so many runs.
fn wait_for_runs(bench: &Bench, runs: usize) {
    wait_until("runs are stored", || stored(bench) >= runs);
}

fn stored(bench: &Bench) -> usize {
    let count = "SELECT count(*) FROM cell_run";
    let found = connection(bench).and_then(|found| found.query_row(count, [], |row| row.get(0)));
    found.unwrap_or(0)
}

/// What must not depend on how often a session was killed: the order of all rounds, the cells, how
/// often each ran, and what came out.
fn essence(report: &Value) -> Value {
    let cells = report["cells"].as_array().unwrap().iter();
    let cells: Vec<Value> = cells
        .map(|cell| {
            serde_json::json!([cell["name"], cell["runs"], cell["output"], cell["given_up"]])
        })
        .collect();
    serde_json::json!([report["order"], cells, report["rounds"], report["runs"]])
}

#[test]
fn killed_at_any_instant_a_session_comes_to_the_same_table() {
    const KILLS: usize = 100;
    let undisturbed = Bench::new(TINY);
    let begun = Instant::now();
    let expected = essence(&undisturbed.json(&[], 0));
    assert_eq!(expected[3], 21, "{expected}");
    let usual = begun.elapsed().min(Duration::from_millis(600)); // where others keep it busy

    let bench = Bench::new(TINY);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut finished = 0;
    let mut kills = 0;
    let mut options: &[&str] = &[];
    while kills < KILLS {
        // xorshift64: any instant from before the first file to after the last.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let instant = usual.mul_f64(0.8 * (random >> 11) as f64 / (1_u64 << 53) as f64);
        let mut command = bench.command(options);
        command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let running = command.spawn().unwrap();
        std::thread::sleep(instant);
        let _ = kill_process_group(Pid::from_child(&running), Signal::KILL);
        let output = running.wait_with_output().unwrap();
        match output.status.code() {
            None => {
                kills += 1;
                options = &["--resume"];
            }
            Some(0) => {
                let report = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(essence(&report), expected, "after {kills} kills");
                finished += 1;
                options = &[];
            }
            // It was killed before the session began, or after it had ended.
            Some(125) if stderr(&output).contains("no unfinished session") => options = &[],
            Some(_) => panic!("{}", stderr(&output)),
        }
    }
    let last = bench.run(&[options, &["--json"]].concat());
    let last =
        if stderr(&last).contains("no unfinished session") { bench.run(&["--json"]) } else { last };
    assert_eq!(essence(&serde_json::from_slice(&last.stdout).unwrap()), expected);
    // What a killed session had started may have outlived it, on a busy machine; the next one clears it away.
    for _ in 0..10 {
        if !bench.kept("runs").is_empty() {
            bench.run(&["--json"]);
        }
    }
    assert_eq!(bench.kept("runs"), Vec::<PathBuf>::new(), "what was killed is cleared away");
    eprintln!("{kills} kills, {} sessions came to an end", finished + 1);
}

#[test]
fn the_queue_survives_restarts() {
    let undisturbed = Bench::new(TINY);
    let expected = essence(&undisturbed.json(&["--rounds", "2"], 0));

    let bench = Bench::new(TINY);
    // Ends the process as a restart would, once the machine has been told.
    bench.place.write("reboot.sh", "echo restart >> restarts; kill -9 $PPID; sleep 1");
    let units = bench.place.work().join("units");
    let options = ["--rounds=2", "--json", "--between=reboot", "--settle=1s", "--unit-dir=units"];
    let reboot = ["--reboot-command=sh reboot.sh"];
    let first = bench.run(&[&options[..], &reboot].concat());
    assert_eq!(first.status.code(), None, "{}", stderr(&first));
    let unit = units.join("sweetspot-bench-sorting.service");
    let link = units.join("multi-user.target.wants/sweetspot-bench-sorting.service");
    let mut starts = 0;
    while link.exists() {
        starts += 1;
        assert!(starts < 20, "it does not end");
        let text = fs::read_to_string(&unit).unwrap();
        let of = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.unwrap_or_else(|| panic!("no {key} in\n{text}")).to_owned()
        };
        // As systemd starts it: in a folder and an environment of the unit's, and no other.
        let begun = Instant::now();
        let started = Command::new("sh")
            .args(["-c", &format!("exec {}", of("ExecStart="))])
            .env_clear()
            .env("PATH", of("Environment=\"PATH=").trim_end_matches('"'))
            .current_dir(of("WorkingDirectory="))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(matches!(started.status.code(), None | Some(0)), "{}", stderr(&started));
        assert!(begun.elapsed() >= Duration::from_secs(1), "it settles first");
    }
    let restarts = fs::read_to_string(bench.place.work().join("restarts")).unwrap();
    assert_eq!((starts, restarts.lines().count()), (6, 6), "one run after each start");
    assert!(!unit.exists(), "nothing goes on at the next start");
    let report = fs::read_to_string(bench.place.work().join("sorting.json")).unwrap();
    assert_eq!(essence(&serde_json::from_str(&report).unwrap()), expected);
}

#[test]
fn a_unit_that_cannot_be_written_is_said_and_nothing_restarts() {
    let bench =
        Bench::new(&TINY.replace(
            "[\"cat\", \"{input}\"]",
            "[\"sh\", \"-c\", \"sleep 0.5; cat $0\", \"{input}\"]",
        ));
    bench.place.write("units", "a file");
    let options = ["--between=reboot", "--unit-dir=units", "--reboot-command=touch restarted"];
    bench.refused(&options, &["cannot write units/multi-user.target.wants", "sudo"]);
    assert!(!bench.place.work().join("restarted").exists());
    assert_eq!(stored(&bench), 0, "that is known before anything is measured");

    // Where it is interrupted before the first restart, nothing goes on by itself.
    fs::remove_file(bench.place.work().join("units")).unwrap();
    let running = bench.command(&options).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    wait_for_runs(&bench, 1);
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let output = running.wait_with_output().unwrap();
    let is_restarted = bench.place.work().join("restarted").exists();
    assert!(is_restarted || stdout(&output).contains("Interrupted"), "{}", stdout(&output));
    let unit = bench.place.work().join("units/sweetspot-bench-sorting.service");
    assert_eq!(unit.exists(), is_restarted);
}

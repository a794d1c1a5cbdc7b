//! Runs that a launcher brings elsewhere, and several at once.

use super::*;

/// Brings runs to one of two nodes, as a scheduler would; every seventh is lost.
const LAUNCHER: &str = r#"
echo "queued and waiting for resources"
n=$(($(cat launched 2>/dev/null || echo 0) + 1))
echo $n > launched
test $(($n % 7)) = 0 && { echo "node failure" >&2; exit 1; }
SLURMD_NODENAME=node$(($n / 3 % 2)) exec "$@"
"#;

#[test]
fn runs_go_where_a_launcher_brings_them() {
    let bench = Bench::new(&TINY.replace("rounds = 6", "rounds = 12"));
    bench.place.write("launcher.sh", LAUNCHER);
    let options = ["--launcher", "sh launcher.sh", "--json"];
    let output = bench.run(&options);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    assert_eq!((&report["rounds"], &report["runs"]), (&12.into(), &39.into()), "{report}");
    assert!(stderr(&output).contains("lost a node (exit status: 1, node failure): it is repeated"));
    // Only runs of one round on one node are pairs.
    let pairs = report["cells"][1]["effect"]["rounds"].as_u64().unwrap();
    assert!((1..12).contains(&pairs), "{report}");
    let nodes = report["nodes"].as_array().unwrap();
    assert_eq!(nodes, &["node0", "node1"].map(Value::from));
    let known: String = connection(&bench)
        .unwrap()
        .query_row("SELECT environment FROM node WHERE name = 'node1'", [], |row| row.get(0))
        .unwrap();
    assert!(known.contains("\"kernel\""), "{known}");

    bench.refused(
        &["--launcher", "/no/such/launcher"],
        &["'/no/such/launcher' cannot be used: cannot start /no"],
    );
    bench.refused(&["--launcher", "false"], &["lost a node", "4. time in a row", "--resume"]);
    let by_hand = bench.place.sweetspot(&["measure", "by hand"]).output().unwrap();
    assert!(stderr(&by_hand).contains("not by people"), "{}", stderr(&by_hand));
}

/// More names than fit into a command.
#[test]
fn a_launcher_brings_runs_with_thousands_of_inputs() {
    let many = r#"
title = "Many"
[data.input]
generate = ["--preset", "small", "--scale", "0.2"]
[programs.count]
command = ["sh", "-c", "ls \"$0\" | wc -l > \"$1\"", "{input}", "{output}"]
[baseline]
program = "count"
"#;
    let bench = Bench::new(many);
    let report = bench.json(&["--launcher", "nice -n 1", "--rounds", "1"], 0);
    assert_eq!(report["cells"][0]["runs"], 1, "{report}");
}

#[test]
fn a_launcher_dies_with_the_bench() {
    let bench = Bench::new(TINY);
    bench.place.write("launcher.sh", "echo $$ > pid.new; mv pid.new pid; exec sleep 1000");
    let mut command = bench.command(&["--launcher", "sh launcher.sh"]);
    let mut running = command.process_group(0).stdout(Stdio::null()).spawn().unwrap();
    let pid = bench.place.work().join("pid");
    wait_until("the launcher begins", || pid.exists());
    let launcher = format!("/proc/{}", fs::read_to_string(&pid).unwrap().trim());
    assert!(PathBuf::from(&launcher).exists());
    kill_process_group(Pid::from_child(&running), Signal::KILL).unwrap();
    running.wait().unwrap();
    wait_until("the launcher ends", || !PathBuf::from(&launcher).exists());
}

#[test]
fn what_several_run_at_once_is_one_run() {
    let bench = Bench::new(TINY);
    bench.place.write("both.sh", "\"$@\" & \"$@\"; wait");
    let report = bench.json(&["--launcher", "sh both.sh", "--rounds", "1"], 0);
    assert_eq!(report["runs"], 6, "{report}");
    assert_eq!(report["cells"][0]["ranks"], 2);
    // One that says nothing is missed, though the launcher ends well.
    bench.place.write(
        "both.sh",
        "n=$(($(cat n || echo 0) + 1)); echo $n > n\n\"$@\" & test $n = 3 || \"$@\"; wait",
    );
    let output = bench.run(&["--launcher", "sh both.sh", "--rounds", "1"]);
    assert!(stderr(&output).contains("only 1 of 2 answered"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(0));
}

//! Before anything runs: mistakes, what is missing, a dry run, and what the user has in the folder.

use super::*;

#[test]
fn what_is_not_installed_is_skipped_with_the_line_that_installs_it() {
    let needs = "needs = [\"sort\", \"no-such-compiler\"]\ninstall = \"apt-get install it\"";
    // Its data would be made by what it is built of.
    let other = "[data.other]\ncommand = [\"no-such-command\", \"{path}\"]\n";
    let plan = PLAN
        .replace("[programs.quick]\n", &format!("{other}\n[programs.quick]\n{needs}\n"))
        .replace("\"{output}\", \"{input}\"]", "\"{output}\", \"{input}\", \"{other}\"]");
    let output = Bench::new(&plan).run(&["--rounds", "1"]);
    let (shown, loud) = (stdout(&output), stderr(&output));
    let line = "'quick' needs no-such-compiler; to install it: apt-get install it";
    assert!(shown.contains(&format!("Skipped: {line}.")), "{shown}");
    assert!(loud.contains(&format!("sweetspot: {line}: skipped")), "{loud}");
    assert!(shown.contains("awake: 'quick' was not measured against 'nap'"), "{shown}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn mistakes_are_said_before_anything_runs() {
    let bench = Bench::new(&PLAN.replace("rounds = 6", "round = 6"));
    bench.refused(&[], &["plans/sorting/plan.toml:5: 'round' is not known in a plan", "rounds"]);
    bench.place.write("plans/sorting/plan.toml", PLAN);
    bench.refused(&["--scale", "huge"], &["there is no scale 'huge'", "--scale full"]);
    bench.refused(&["--resume"], &["no unfinished session", "without --resume"]);
    bench.place.write("plans/sorting/published.csv", "a,b\n1,2\n");
    bench.refused(&[], &["published.csv: there is no column 'seconds'", "a, b"]);
    bench.place.write("plans/sorting/published.csv", "seconds\n1\n");
    bench.place.write("plans/sorting/plan.toml", PLAN.replace("\"--lines\"", "\"--line\""));
    bench.refused(&[], &["the data set 'input' cannot be made", "--line", "generate --help"]);
    bench.place.write("plans/sorting/plan.toml", PLAN.replace("; cp", "; false"));
    bench.refused(&[], &["'nap' cannot be built: sh -c cd ", "exit status: 1", "by hand"]);
    let missing = bench.place.sweetspot(&["bench", "nowhere"]).output().unwrap();
    assert!(stderr(&missing).contains("nowhere: the plan cannot be read"), "{}", stderr(&missing));
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let bench = Bench::new(PLAN);
    let output = bench.run(&["--dry-run"]);
    let shown = stdout(&output);
    let parts = [
        "2 cells:",
        "1  nap (cache warm, a baseline)",
        "2  quick (cache warm, against 1)",
        "Order, from seed 3:",
        "input: 1.03 KiB, will be made",
        "14 runs; how long they take is known after the first round",
    ];
    assert_has(&shown, parts);
    assert!(!bench.place.cache().join("bench").exists(), "nothing was made");
    assert!(!bench.place.work().join("sorting.sqlite").exists());
    bench.json(&["--rounds", "1"], 1);
    let after = stdout(&bench.run(&["--dry-run"]));
    assert!(after.contains("input: 1.03 KiB, is there"), "{after}");
    assert!(after.contains(" s of running, as the last session went"), "{after}");

    // As data: what each cell would run; data that is missing keeps its placeholder.
    let cells = |options: &[&str]| {
        let cells = bench.json(&[&["--dry-run"], options].concat(), 0)["cells"].take();
        let words = |cell: &Value| {
            let words = cell["command"].as_array().unwrap().iter();
            words.map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        (words(&cells[0]), words(&cells[1]), cells)
    };
    let (nap, quick, told) = cells(&[]);
    let input = nap[2].clone();
    assert!(nap[1].ends_with("/nap.sh") && input.ends_with("/000000.txt"), "{told}");
    assert!(PathBuf::from(&input).is_file(), "{input}");
    assert_eq!(quick, ["sort", "-o", "{output}", input.as_str()]);
    assert_eq!((&told[1]["against"], &told[0]["against"]), (&"nap".into(), &Value::Null));
    assert_eq!(cells(&["--dir", "nowhere"]).1[3], "{input}");
}

/// `--dir` may name a folder in which the user has things of the same names.
#[test]
fn what_the_user_has_in_the_folder_stays() {
    let bench = Bench::new(TINY);
    let names = ["runs/results", "runs/.tmpAbCdEf", "runs/sweetspot-run-mine", "linked"];
    for name in names {
        bench.place.write(&format!("mine/{name}/data.csv"), "years of work");
    }
    let links = bench.place.work().join("mine/runs");
    std::os::unix::fs::symlink("../linked", links.join("sweetspot-run-link")).unwrap();
    bench.place.write("mine/linked/.sweetspot-scratch", "");
    bench.place.write("mine/lock", "a file of the user's");
    for options in [&["--dir", "mine", "--dry-run"][..], &["--dir", "mine", "--rounds", "1"]] {
        let output = bench.run(options);
        assert_ne!(output.status.code(), Some(125), "{}", stderr(&output));
        for name in names {
            let path = bench.place.work().join("mine").join(name).join("data.csv");
            assert_eq!(fs::read_to_string(path).unwrap(), "years of work", "{name} {options:?}");
        }
        let lock = fs::read_to_string(bench.place.work().join("mine/lock")).unwrap();
        assert_eq!(lock, "a file of the user's");
    }
}

//! What a user of `sweetspot report` sees, of small sessions that really ran; and the page in a real
//! browser that can reach nothing. Nothing here asserts a time.

use test_start::{assert_has, stderr, stdout};

mod place;

use place::Place;
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A plan with everything that has a figure or a table of its own; its title wants to be a tag.
const PLAN: &str = r#"
title = "<script>alerted = true</script> & | copies"
question = "Does the size matter?"
seed = 3
rounds = 6
limit = "60s"

[factors]
bytes = [512, 4096, 65536]
how = ["without", "run"]

[data.input]
generate = ["--records", "1000", "--record-bytes", "200"]

[programs.dd]
command = ["sh", "-c", "eval \"echo '{{\\\"unit\\\": \\\"ms\\\", \\\"samples\\\": [3, 2, 4]}}' >&$SWEETSPOT_SAMPLES_FD\"; exec \"$@\"", "sh", "dd", "if={input}", "of={output}", "bs={bytes}", "status=none"]
[programs.dd.when.how]
run = { before = ["{sweetspot}", "run", "--"] }

[baseline]
how = "without"

[[claim]]
name = "never a thousand times slower"
cell = { bytes = 512, how = "run" }
at-least = 0.001

[published]
file = "published.csv"
figures = "seconds"
"#;

/// A folder with the stores that the tests look at. They are made once, as they take seconds.
struct Results {
    place: Place,
}

impl Results {
    fn of_all_tests() -> &'static Results {
        static RESULTS: OnceLock<Results> = OnceLock::new();
        RESULTS.get_or_init(|| {
            let place = Place::new();
            place.write("plan/plan.toml", PLAN);
            place.write("plan/published.csv", "bytes,how,seconds\n512,without,79\n");
            let bench = place.sweetspot(&["bench", "--check", "--store=bench.db", "plan"]).output();
            let bench = bench.unwrap();
            assert!(matches!(bench.status.code(), Some(0 | 1)), "{}", stderr(&bench));
            place.write("in.dat", "x".repeat(200_000));
            let tune = ["tune", "--sizes=4K..32K", "--within=100%", "--curve", "--keep-rules"];
            let mut tune = place.sweetspot(&tune);
            tune.args(["--store=tune.db", "--seed=1", "--", "dd", "if=in.dat", "of=out.dat"]);
            let tune = tune.args(["bs=200", "status=none"]).stdin(Stdio::null()).output().unwrap();
            assert!(matches!(tune.status.code(), Some(0 | 1)), "{}", stderr(&tune));
            for (file, size) in [("before.json", "bs=200"), ("after.json", "bs=20000")] {
                let mut profile = place.sweetspot(&["profile", "--json", file, "--", "dd"]);
                profile.args(["if=in.dat", "of=out.dat", size, "status=none"]);
                assert!(profile.output().unwrap().status.success());
            }
            let mut run = place.sweetspot(&["run", "--summary=summary.txt", "--", "dd"]);
            run.args(["if=in.dat", "of=out.dat", "bs=200", "status=none"]);
            assert!(run.output().unwrap().status.success());
            Results { place }
        })
    }

    fn report(&self, arguments: &[&str]) -> Output {
        let mut report = self.place.sweetspot(&["report"]);
        report.args(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// What a report says that must succeed.
    fn says(&self, arguments: &[&str]) -> String {
        let output = self.report(arguments);
        assert_eq!(
            (output.status.code(), stderr(&output).as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, file: &str) -> Value {
        serde_json::from_str(&self.says(&[file, "--json"])).unwrap()
    }

    /// What must fail with 125, with all of `parts` in the message.
    fn refused(&self, arguments: &[&str], parts: &[&str]) {
        let output = self.report(arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {said}");
        assert_has(&said, parts.iter().chain(&["\n  "]));
        assert!(output.stdout.is_empty());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.work().join(name)
    }
}

#[test]
fn a_terminal_and_a_pull_request_get_the_answer_and_the_tables() {
    let results = Results::of_all_tests();
    let before = fs::read(results.path("bench.db")).unwrap();
    let text = results.says(&["bench.db"]);
    assert_has(
        &text,
        &[
            "<script>alerted = true</script> & | copies\nsweetspot bench, session 1, begun 20",
            "Does the size matter?",
            "never a thousand times slower: 'dd, bytes 512, how run' is ",
            "claimed: at least 0.001 times as fast: ",
            "holds.",
            "3.8 ms",
            "of the baseline",
            "100 %",
            "Published, here, and with sweetspot",
            "79",
            "P99",
            "Check: the baseline against itself is ",
            "49 runs",
            "seed 3",
            "warm cache",
            "file system",
        ],
    );
    let markdown = results.says(&["bench.db", "--markdown"]);
    assert_has(
        &markdown,
        &[
            "### &lt;script>alerted = true&lt;/script> &amp; \\| copies\n",
            "| bytes | how | runs | median | of the baseline | 95 % interval | memory |  |\n\
         | --- | --- | ---: |",
        ],
    );
    assert!(!markdown.contains("<script>"));
    let tuned = results.says(&["tune.db", "summary.txt"]);
    assert_has(
        &tuned,
        &[
            "dd if=in.dat of=out.dat bs=200 status=none\nsweetspot tune",
            "no buffering",
            "sweetspot summary\nprogram ",
            "reads, writes and seeks were requested, ",
        ],
    );
    assert_eq!(fs::read(results.path("bench.db")).unwrap(), before, "nothing is changed");
    let left = ["bench.db-wal", "bench.db-shm"].map(|name| results.path(name).exists());
    assert_eq!(left, [false, false], "nothing is left behind");
}

#[test]
fn data_has_every_run_and_is_read_again() {
    let results = Results::of_all_tests();
    let report = results.json("bench.db");
    assert_eq!(report["sweetspot_report"], 1);
    let session = &report["sessions"][0];
    let runs = session["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &session["rounds"], &session["seed"]), (49, &6.into(), &3.into()));
    assert_eq!(runs.iter().filter(|run| run["counts"] == true).count(), 42);
    assert!(runs.iter().all(|run| run["read_calls"].as_u64().unwrap() > 0));
    let cell = &session["cells"][1];
    assert_eq!((&cell["baseline"], &cell["without"]), (&0.into(), &0.into()));
    assert_eq!(
        (&cell["ratio"]["rounds"], cell["samples"].as_array().unwrap().len()),
        (&6.into(), 5)
    );
    assert!(session["null_control"]["ratio"]["value"].is_f64());

    let csv = results.says(&["bench.db", "--csv"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 50);
    assert!(lines[0].starts_with("session,run,round,place,cell,"), "{}", lines[0]);
    let tune = results.json("tune.db");
    let session = &tune["sessions"][0];
    assert_eq!(session["cells"][0]["levels"][0], "off");
    assert_eq!(session["cells"][1]["buffer_bytes"], 4096);
    assert!(!session["environment"].as_array().unwrap().is_empty());
    let runs = session["runs"].as_array().unwrap().len();
    assert_eq!(results.says(&["tune.db", "--csv"]).lines().count(), runs + 1);

    fs::write(results.path("again.json"), results.says(&["bench.db", "--json"])).unwrap();
    let page = |file: &str| results.says(&[file, "--html", "-"]);
    assert_eq!(page("bench.db"), page("again.json"));
}

#[test]
fn profiles_are_before_and_after() {
    let results = Results::of_all_tests();
    let text = results.says(&["before.json", "after.json"]);
    assert_has(
        &text,
        &["Before and after", "calls before", "all files", "sweetspot profile, from before.json"],
    );
    let page = results.says(&["before.json", "--html", "-"]);
    assert_has(&page, &["Reads by size", "Writes by size", "Files by time"]);
    results.refused(&["before.json", "--csv"], &["there are no runs", "--json"]);
}

/// What a file says need not be true: it is shown as far as it can be.
#[test]
fn a_profile_with_figures_beyond_all_bounds_is_shown() {
    fn make_huge(value: &mut Value) {
        match value {
            Value::Number(number) if number.is_u64() => *value = u64::MAX.into(),
            Value::Array(all) => all.iter_mut().for_each(make_huge),
            Value::Object(all) => {
                let kept = ["sweetspot_profile", "process", "line", "pid", "parent"];
                let others = all.iter_mut().filter(|(name, _)| !kept.contains(&name.as_str()));
                others.for_each(|(_, value)| make_huge(value));
            }
            _ => {}
        }
    }
    let results = Results::of_all_tests();
    let text = fs::read_to_string(results.path("before.json")).unwrap();
    let mut profile: Value = serde_json::from_str(&text).unwrap();
    // By its first field it is known.
    let write = |profile: &Value| {
        let mut others = profile.as_object().unwrap().clone();
        let version = others.remove("sweetspot_profile").unwrap();
        let others = Value::Object(others).to_string();
        let text = format!("{{\"sweetspot_profile\":{version},{}", &others[1..]);
        results.place.write("odd.json", text);
    };
    for seconds in [-1e300, 1e300] {
        profile["observing_seconds"] = seconds.into();
        write(&profile);
        results.says(&["odd.json", "--html", "-"]);
        results.says(&["odd.json"]);
    }
    make_huge(&mut profile);
    write(&profile);
    for arguments in [
        &["report", "odd.json"][..],
        &["report", "odd.json", "--html", "-"],
        &["report", "before.json", "odd.json"],
        &["profile", "--compare", "before.json", "odd.json"],
        &["profile", "--compare", "odd.json", "odd.json"],
        &["summary", "odd.json", "odd.json"],
    ] {
        let output = results.place.sweetspot(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn a_page_is_one_file_and_never_overwrites_what_is_not_one() {
    let results = Results::of_all_tests();
    let first = results.says(&["bench.db", "--html", "page.html", "--figure", "figure.svg"]);
    assert_has(
        &first,
        &["never a thousand times slower", "Written: page.html", "Written: figure.svg"],
    );
    results.says(&["tune.db", "--html", "page.html", "--figure", "figure.svg"]);
    let page = fs::read_to_string(results.path("page.html")).unwrap();
    assert_has(&page, &["<title>dd if=in.dat", "prefers-color-scheme:dark", "default-src 'none'"]);
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script"));
    let figure = fs::read_to_string(results.path("figure.svg")).unwrap();
    assert_has(&figure, &["<svg xmlns=", "buffer size", "unbuffered: ", "</svg>\n"]);

    results.place.write("mine.html", "<!DOCTYPE html>\n<p>mine");
    let older = ["holds something else, which is not overwritten", "mine.html.new"];
    results.refused(&["bench.db", "--html", "mine.html"], &older);
    results.refused(&["bench.db", "--figure", "mine.html"], &older);
    results.refused(&["bench.db", "--html", "bench.db"], &older[..1]);
    assert_eq!(fs::read_to_string(results.path("mine.html")).unwrap(), "<!DOCTYPE html>\n<p>mine");
    results.refused(&["bench.db", "--html", "none/page.html"], &["none/page.html", "folder"]);
}

#[test]
fn what_cannot_be_shown_is_said_with_what_to_type() {
    let results = Results::of_all_tests();
    let wanted = ["--store"];
    results.refused(&["none.db"], &["none.db: No such file", wanted[0]]);
    results.place.write("text.txt", "hello");
    results.refused(&["text.txt"], &["text.txt: report cannot read this kind of file", wanted[0]]);
    results.place.write("empty", "");
    results.refused(&["empty"], &["empty: report cannot read"]);
    results.place.write("broken.db", b"SQLite format 3\0 and then nothing of the kind");
    results.refused(&["broken.db"], &["broken.db", wanted[0]]);
    let other = rusqlite::Connection::open(results.path("other.db")).unwrap();
    other.execute_batch("CREATE TABLE mine (x)").unwrap();
    drop(other);
    results.refused(&["other.db"], &["other.db", "no runs of ours"]);
    fs::copy(results.path("tune.db"), results.path("fresh.db")).unwrap();
    let fresh = rusqlite::Connection::open(results.path("fresh.db")).unwrap();
    fresh.execute_batch("DELETE FROM run").unwrap();
    drop(fresh);
    results.refused(&["fresh.db"], &["fresh.db: no run is finished yet", "sweetspot bench PLAN"]);
    fs::copy(results.path("tune.db"), results.path("damaged.db")).unwrap();
    let damaged = rusqlite::Connection::open(results.path("damaged.db")).unwrap();
    damaged.execute_batch("UPDATE run SET measurement = '{'").unwrap();
    drop(damaged);
    results.refused(&["damaged.db"], &["sweetspot: cannot read damaged.db: EOF", "--session"]);
    results.refused(&["tune.db", "--session", "7"], &["no runs of a session 7", "its sessions: 1"]);
    results.place.write("later.json", "{\"sweetspot_report\": 99}");
    results.refused(&["later.json"], &["later.json"]);
    let changed = results.says(&["tune.db", "--json"]).replacen("\"cell\":0", "\"cell\":99", 1);
    results.place.write("changed.json", changed);
    results.refused(&["changed.json"], &["changed.json: it names cells that it does not have"]);
    let output = results.report(&[]);
    assert_eq!(output.status.code(), Some(2), "as with the other verbs");
}

#[test]
fn a_session_that_runs_is_shown_as_far_as_it_is() {
    let place = Place::new();
    let plan = "title = \"Naps\"\nrounds = 400\n[programs.nap]\ncommand = [\"sleep\", \"0.05\"]\n\
                output = \"none\"\n[programs.blink]\ncommand = [\"true\"]\noutput = \"none\"\n\
                [baseline]\nsubject = \"nap\"\n";
    place.write("naps.toml", plan);
    let mut bench = place.sweetspot(&["bench", "--store=naps.db", "naps.toml"]);
    let mut bench = bench
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let text = loop {
        let report = place.sweetspot(&["report", "naps.db"]).output().unwrap();
        let text = stdout(&report);
        if report.status.success() && text.contains("rounds) as 'nap'")
            || text.contains("needs six)")
        {
            break text;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{text}{}", stderr(&report));
        assert!(bench.try_wait().unwrap().is_none(), "it must still run");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(bench.try_wait().unwrap().is_none(), "it still runs");
    bench.kill().unwrap();
    bench.wait().unwrap();
    assert_has(&text, &["Naps", "This session is not finished"]);
    let killed = place.sweetspot(&["report", "naps.db", "--html", "naps.html"]).output().unwrap();
    assert!(killed.status.success(), "{}", stderr(&killed));
}

#[test]
fn each_picture_of_a_page_is_of_its_record() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (page, picture) in [("docs/tune.md", "cobol-copy.svg"), ("README.md", "docs/auto.svg")] {
        let page = root.join(page);
        let text = fs::read_to_string(&page).unwrap();
        let (_, after) = text.split_once(picture).expect("the page shows the picture");
        let at = after.find("`measurements/").expect("the page names the picture's record");
        let record = root.join(after[at + 1..].split('`').next().unwrap());
        let place = Place::new();
        let drawn = place.work().join("drawn.svg");
        let mut report = place.sweetspot(&["report"]);
        report.args(files_of(&record)).arg("--figure").arg(&drawn);
        let output = report.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let drawn = fs::read_to_string(drawn).unwrap();
        let picture = page.with_file_name(picture);
        if std::env::var_os("UPDATE_README").is_some() {
            fs::write(&picture, &drawn).unwrap();
        }
        let shown = fs::read_to_string(&picture).unwrap_or_default();
        assert!(shown == drawn, "UPDATE_README=1 cargo test -p sweetspot --test report picture");
    }
}

/// A record: one file, or all that lie in a folder.
fn files_of(record: &Path) -> Vec<PathBuf> {
    let Ok(folder) = fs::read_dir(record) else { return vec![record.to_owned()] };
    let mut files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|name| name == "json"));
    files.sort();
    files
}

/// The browser, if it is there, and what drives it.
fn browser() -> Option<String> {
    let is_there = |name: &str| Command::new(name).arg("--version").output().is_ok();
    let missing: Vec<&str> =
        ["chromium", "node"].into_iter().filter(|name| !is_there(name)).collect();
    if missing.is_empty() {
        return Some("chromium".to_owned());
    }
    assert!(std::env::var_os("CI").is_none(), "{missing:?} must be there");
    println!("skipped: {missing:?} (apt-get install chromium nodejs)");
    None
}

fn look(browser: &str, page: &Path, width: u32, scheme: &str) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser/look.mjs");
    let output = Command::new("node")
        .args([script, browser, page.to_str().unwrap(), &width.to_string(), scheme])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_browser_that_can_reach_nothing_shows_every_chart() {
    let Some(browser) = browser() else { return };
    let results = Results::of_all_tests();
    results.says(&["bench.db", "--html", "bench.html"]);
    let files = ["tune.db", "before.json", "after.json", "summary.txt", "--html", "rest.html"];
    results.says(&files);
    let mut backgrounds = Vec::new();
    let of_both =
        ["Time as a share of the baseline's", "Memory beside time", "Every run, in order of time"];
    let of_bench = [
        "Time of a run against bytes",
        "Median by bytes and how",
        "Time of a run of each cell",
        "What a run costs: dd",
    ];
    // What a run of these few calls costs may be lost in the noise of a busy machine, and is not drawn then.
    let of_the_rest =
        ["Time against buffer size", "Files by time", "Reads by size", "Writes by size"];
    for (page, charts) in [("bench.html", &of_bench[..]), ("rest.html", &of_the_rest[..])] {
        let file = results.path(page);
        for (width, scheme) in [(390, "light"), (390, "dark"), (1100, "light"), (1100, "dark")] {
            let seen = look(&browser, &file, width, scheme);
            let about = format!("{page}, {width} pixels, {scheme}: {seen:#}");
            let requests = seen["requests"].as_array().unwrap();
            assert_eq!(requests.len(), 1, "but for the page itself there is none: {about}");
            assert_eq!(seen["said"].as_array().unwrap().len(), 0, "{about}");
            assert_eq!((&seen["scripts"], &seen["alerted"]), (&0.into(), &false.into()));
            assert_eq!(seen["isWiderThanScreen"], false, "{about}");
            let all = seen["charts"].as_array().unwrap();
            for title in charts.iter().chain(&of_both) {
                assert!(all.iter().any(|chart| chart["title"] == *title), "{title}: {about}");
            }
            for chart in all {
                let number = |name: &str| chart[name].as_f64().unwrap();
                assert!(number("width") > 300.0 && number("height") > 60.0, "{chart:#}");
                assert!(number("drawn") >= 3.0 && number("textPixels") >= 10.0, "{chart:#}");
                assert_eq!(chart["outside"].as_array().unwrap().len(), 0, "{chart:#}");
                assert_eq!((&chart["role"], &chart["hasTable"]), (&"img".into(), &true.into()));
                assert!(chart["name"].as_str().unwrap().len() > 10, "{chart:#}");
            }
            backgrounds.push((scheme, seen["background"].clone(), seen["ink"].clone()));
        }
    }
    backgrounds.dedup();
    assert_ne!(backgrounds[0].1, backgrounds[1].1, "light and dark differ: {backgrounds:?}");
    assert_ne!(backgrounds[0].2, backgrounds[1].2);
}

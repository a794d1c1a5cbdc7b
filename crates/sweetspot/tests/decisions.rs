//! One engine decides, and three drivers ask it: the library (`run`), the shadows beside an observed run
//! (`profile`), and those of a recorded one (`tune --from`). The same calls lead to the same number of
//! system calls, no matter who is asked.
//!
//! How long things take is kept out: the files are older than a window may be, the guard gets the time
//! to answer, and with `auto`, which measures, only `profile` and its recording are compared. With real
//! programs, `auto` and real times, the two agree nearly: `tests/programs/predicted.rs`.

use test_start as _;

mod compiler;
mod place;

use place::Place;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use sweetspot_core::policy;

/// What the program can do, each in a way of its own: see `programs/c/decisions.c`.
const WAYS: &[&str] = &[
    "read",
    "write",
    "short-reads",
    "short-and-long-reads",
    "short-writes",
    "copy",
    "append",
    "refused",
    "back-and-forth",
    "borrowed",
    "update",
    "update-mapped",
    "append-update",
    "jumps",
    "random",
    "positions",
    "random-positions",
    "written-at-positions",
    "vectors",
    "vector-writes",
    "vector-appends",
    "vector-reads",
    "vector-reads-at",
    "bad-address",
    "releases",
    "releases-always",
    "large",
    "ends",
    "read-and-write",
];
/// Sizes of buffers: a few records, and many.
const SIZES: &[&str] = &["512", "64K"];
/// The guard may answer within the very call that asks it, and on a busy machine many calls later.
const TRIES_MAX: u32 = 12;
/// Of the file that is read, in bytes.
const FILE_BYTES: usize = 600_000;
/// Longer than the program lives, so that nothing leaves because of its age.
const MAX_AGE_MS: &str = "4000";
/// Longer than a file must be unchanged for a window to be believed, which is the maximum age.
const OLD_ENOUGH: Duration = Duration::from_millis(4_200);

impl Place {
    fn json(&self, name: &str) -> Value {
        let content = fs::read_to_string(self.folder.path().join(name)).unwrap();
        serde_json::from_str(&content).unwrap()
    }

    /// Before each run what was written is gone.
    fn prepare(&self) {
        let _ = fs::remove_file(self.work().join("out.dat"));
    }

    /// The calls of one way as `profile` counts them, what it says that would be left of them, and their recording.
    fn profiled(&self, way: &str) -> (u64, u64, PathBuf) {
        let recording = self.folder.path().join(format!("{way}.recording"));
        self.prepare();
        let mut profile = self.sweetspot(&["profile", "--output", "../report"]);
        profile.arg("--json").arg(self.folder.path().join("profile.json"));
        profile.arg("--record").arg(&recording).args(["--", "./calls", way]);
        let ended = profile.output().unwrap();
        assert!(ended.status.success(), "{way}: {ended:?}");
        let profile = self.json("profile.json");
        let files = profile["files"].as_array().unwrap().iter();
        let all = ["reads", "writes", "seeks"]
            .map(|calls| files.clone().map(|file| file[calls].as_u64().unwrap()).sum::<u64>());
        let left = profile["prediction"]["calls_made"].as_u64().unwrap();
        (all.iter().sum(), left, recording)
    }

    /// What the summary of a run says of its files.
    fn summary(&self, way: &str, size: &str) -> Vec<Value> {
        let folder = self.folder.path().join(format!("{way}-{size}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        self.prepare();
        let mut run = self.sweetspot(&["run", "--max-age", MAX_AGE_MS, "--buffer-size", size]);
        run.arg(format!("--summary={}/", folder.display())).args(["--", "./calls", way]);
        let ended = run.output().unwrap();
        assert!(ended.status.success(), "{way} {size}: {ended:?}");
        let record = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        let record: Value = serde_json::from_str(&fs::read_to_string(record).unwrap()).unwrap();
        record["files"].as_array().unwrap().clone()
    }

    /// What `run` left of so many calls of one way. Files that had no buffer and few calls are not listed.
    fn left(&self, way: &str, size: &str, calls: u64) -> u64 {
        let files = self.summary(way, size);
        let all = |what: &str| files.iter().map(|file| file[what].as_u64().unwrap()).sum::<u64>();
        calls - all("calls") + all("calls_made")
    }

    /// The program, and what it reads.
    fn with_program() -> Place {
        let place = Place::new();
        place.write("in.dat", vec![b'x'; FILE_BYTES]);
        place.write("both.dat", vec![b'x'; FILE_BYTES]);
        compiler::compile("decisions", &[], &place.work().join("calls"));
        place
    }
}

/// A process that has a window on a file is shown what is written to it by another descriptor, so that does
/// not wait; and it is said.
#[test]
fn a_file_that_is_open_twice_says_so() {
    let place = Place::with_program();
    let says = |file: &Value| file["reasons"].to_string().contains("open twice, once for writing");
    // On a busy machine the guard may answer after the last write: then no write was to wait yet.
    let mut sizes = ["64K", "32K", "16K", "128K", "256K"].iter();
    assert!(sizes.any(|size| place.summary("twice", size).iter().any(says)));
}

/// A buffer costs more than a file saves that ends soon after it got one. Where many do, such files get none, and
/// longer ones still do.
#[test]
fn files_that_end_soon_get_no_buffers() {
    let place = Place::with_program();
    std::thread::sleep(OLD_ENOUGH);
    let calls = 3000;
    let short = place.left("short-reads", "64K", calls);
    assert!((calls - 10..calls).contains(&short), "{short} of {calls}, but for the first file");
    let both = place.left("short-and-long-reads", "64K", calls);
    assert!(both < calls / 2, "{both} of {calls}");
}

/// A sample stands for about as many.
#[test]
fn each_call_is_followed_where_that_is_asked_for() {
    const READS: u64 = 30_000;
    let place = Place::new();
    place.write("in.dat", vec![b'x'; READS as usize]);
    std::thread::sleep(OLD_ENOUGH);
    let hits = |options: &[&str]| {
        let mut profile = place.sweetspot(&["profile", "--output", "../report"]);
        profile.env("IO_BUFFER_SIZE", "64K").args(options);
        profile.arg("--json").arg(place.folder.path().join("profile.json"));
        profile.args(["--", "dd", "if=in.dat", "of=/dev/null", "bs=1", "status=none"]);
        assert!(profile.status().unwrap().success());
        let files = place.json("profile.json")["files"].as_array().unwrap().clone();
        let is_read = |file: &&Value| file["path"].as_str().unwrap().ends_with("/in.dat");
        files.iter().find(is_read).unwrap()["buffered"]["hits"].as_u64().unwrap()
    };
    // One more read finds the end.
    assert_eq!(hits(&["--exact"]) + u64::from(policy::READS_TO_EARN), READS + 1);
}

#[test]
fn the_same_calls_lead_to_the_same_system_calls_no_matter_who_is_asked() {
    let place = Place::with_program();
    std::thread::sleep(OLD_ENOUGH);
    let mut wrong = Vec::new();
    for way in WAYS {
        let (calls, profiled, recording) = place.profiled(way);
        let told = place
            .sweetspot(&["tune", "--json", "--sizes", "512..1M", "--from"])
            .arg(&recording)
            .output()
            .unwrap();
        let told: Value =
            serde_json::from_slice(&told.stdout).unwrap_or_else(|_| panic!("{told:?}"));
        let rows = told["predicted"].as_array().unwrap();
        let replayed = |size: &str| {
            let row = rows.iter().find(|row| row["buffer"] == size).unwrap();
            row["calls_made"].as_u64().unwrap()
        };
        if replayed("auto") != profiled {
            wrong.push(format!(
                "{way}: {profiled} by the profile, {} by its recording",
                replayed("auto")
            ));
        }
        for size in SIZES {
            let replayed = replayed(size);
            let mut left = place.left(way, size, calls);
            for _ in 1..TRIES_MAX {
                if replayed == left {
                    break;
                }
                left = place.left(way, size, calls);
            }
            if replayed != left {
                wrong.push(format!("{way} {size}: {replayed} predicted, {left} made"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

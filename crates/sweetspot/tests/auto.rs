//! `auto` measures itself: what calls cost decides how large its buffers become, for this file, for the
//! next one, and for the next run.
//!
//! What a file system far away does is done by strace: it delays each call, or none.

use test_start::stderr;

mod place;

use place::Place;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const RUN: &str = env!("CARGO_BIN_EXE_sweetspot");
/// Of what is read and written, in bytes: a few of the largest buffers.
const FILE_BYTES: u64 = 24 << 20;
const USUAL_BYTES: u64 = 256 << 10;
/// Runs that a test gets to show what a busy machine hides.
const RUNS_MAX: usize = 5;
/// No larger windows are filled before it is seen what they take.
const READ_AHEAD_BYTES: u64 = 128 << 10;
/// What a call takes in the file system far away, in microseconds: so much that a busy machine adds
/// little to it.
const FAR_US: u32 = 4_000;

/// By records of 500 bytes. One that only reads makes no other call: strace stops each, and that would
/// count as the program's own time.
const READS: [&str; 3] =
    ["python3", "-c", "import os\nf = os.open('in', 0)\nwhile os.read(f, 500): 0"];
/// A file whose records earn a buffer, or none, and then twenty of few: reads or writes 100 bytes at a time.
/// After the tenth record of each the guard, which strace stops, too, gets some time, in seconds.
const FEW_RECORDS: &str = "import os, sys, time
def transfer(name, records):
    reads = sys.argv[1] == 'read'
    f = os.open(name, os.O_RDONLY if reads else os.O_WRONLY | os.O_CREAT)
    for number in range(records):
        os.read(f, 100) if reads else os.write(f, bytes(100))
        if number == 9:
            time.sleep(NAP)
    os.close(f)
transfer('many', MANY)
for number in range(20):
    transfer('few%d' % number, FEW)
";
const COPIES: [&str; 5] = ["dd", "if=in", "of=out", "bs=500", "status=none"];

impl Place {
    fn with_input() -> Place {
        let place = Place::new();
        place.write("in", vec![b'x'; FILE_BYTES as usize]);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    /// With a state folder of its own.
    fn own(&self, program: &str) -> Command {
        let mut command = self.command(program);
        command.env("XDG_STATE_HOME", self.path("state")).stdin(Stdio::null());
        command
    }

    /// The sizes of all calls of one name, in order, of a program that reads or copies, each of them
    /// delayed by so many microseconds. Without those of the loader, which are small. `None`: no strace.
    fn sizes(&self, call: &str, delay_us: u32, options: &[&str]) -> Option<Vec<u64>> {
        let mut strace = self.own("strace");
        strace.args(["-f", "-o", "trace", "-e"]).arg(format!("trace={call}"));
        if delay_us > 0 {
            strace.arg("-e").arg(format!("inject={call}:delay_enter={delay_us}"));
        }
        strace.args([RUN, "run"]).args(options).arg("--");
        strace.args(if call == "pread64" { &READS[..] } else { &COPIES });
        let Ok(ended) = strace.status() else {
            test_start::skip("strace is not installed");
            return None;
        };
        assert!(ended.success());
        let is_copied =
            || fs::read(self.path("in")).unwrap() == fs::read(self.path("out")).unwrap();
        assert!(call == "pread64" || is_copied());
        let trace = fs::read_to_string(self.path("trace")).unwrap();
        // 1234 pread64(3, "..."..., 262144, 0) = 262144
        let size = |line: &str| line.rsplit_once(" = ")?.1.split(' ').next()?.parse().ok();
        let sizes = trace.lines().filter(|line| line.contains(call)).filter_map(size);
        Some(sizes.filter(|bytes| *bytes >= 4096).collect())
    }

    /// How many calls on the files with few records reach the kernel from [`FEW_RECORDS`], of so many each, where the calls that are
    /// made for buffers are slow: so many times as slow as usual, and the guard gets as many times as long to answer.
    /// `None`: no strace.
    fn few(&self, way: &str, [many, few]: [u32; 2], times: u32) -> Option<usize> {
        let mut strace = self.own("strace");
        strace.args(["-f", "-o", "trace", "-e", "trace=openat,read,write,pread64,pwrite64", "-e"]);
        strace.arg(format!("inject=pread64,pwrite64:delay_enter={}", FAR_US * times));
        let nap = 0.03 * f64::from(times);
        let script = FEW_RECORDS.replace("FEW", &few.to_string()).replace("NAP", &nap.to_string());
        let script = script.replace("MANY", &many.to_string());
        let Ok(ended) = strace.args([RUN, "run", "--", "python3", "-c", &script, way]).status()
        else {
            test_start::skip("strace is not installed");
            return None;
        };
        assert!(ended.success());
        let trace = fs::read_to_string(self.path("trace")).unwrap();
        // The guard's calls may come in between.
        let calls = [format!(" {way}("), format!("<... {way} resumed>")];
        let is_one = |line: &&str| {
            calls.iter().any(|call| line.contains(call)) && line.ends_with(", 100) = 100")
        };
        let few = trace.lines().skip_while(|line| !line.contains("\"few0\""));
        Some(few.filter(is_one).count())
    }

    /// The same of flushes. How many records are written before the guard has answered is the machine's
    /// affair: a run in which it came too late is followed by another.
    fn flushes(&self, delay_us: u32, options: &[&str]) -> Option<Vec<u64>> {
        for _ in 0..RUNS_MAX {
            let sizes = self.sizes("pwrite64", delay_us, options)?;
            if sizes.iter().sum::<u64>() > FILE_BYTES * 3 / 4 {
                return Some(sizes);
            }
        }
        panic!("the guard answered late in each run");
    }

    /// The largest of the calls in a run in which one is larger than so much, or in the last one. A
    /// transfer that a busy machine holds up, or the program between two, makes the others smaller.
    fn largest(&self, call: &str, delay_us: u32, beyond: u64) -> Option<u64> {
        let mut found = 0;
        let known = fs::read(self.costs());
        for _ in 0..RUNS_MAX {
            // Each begins with what was known before the first.
            let _ = match &known {
                Ok(known) => fs::write(self.costs(), known),
                Err(_) => fs::remove_file(self.costs()),
            };
            found = largest(&self.sizes(call, delay_us, &[])?);
            if found > beyond {
                break;
            }
        }
        Some(found)
    }

    /// What a summary says of a copy. What is free on a disk that others fill, too, may be little for a moment, and
    /// on a busy machine the guard may get no processor before the copy is over.
    fn summary(&self) -> String {
        let copy = || {
            let mut run = self.sweetspot(&["run", "--summary", "--", "dd", "if=in", "of=out"]);
            run.args(["bs=200", "status=none"]).env("XDG_STATE_HOME", self.path("state"));
            said(&run.output().unwrap())
        };
        let is_disturbed = |said: &str| {
            said.contains("the file system is nearly full")
                || said.contains("closed before the guard answered")
        };
        let said = std::iter::repeat_with(copy).take(RUNS_MAX).find(|said| !is_disturbed(said));
        said.expect("there is room on the disk, and a processor for the guard")
    }

    fn costs(&self) -> PathBuf {
        self.path("state/sweetspot/costs/devices")
    }

    /// As an earlier run would have left it: both ways cost as much here.
    fn know(&self, call_ns: u32, unit_ns: u32) {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let digits: String = boot.chars().filter(char::is_ascii_hexdigit).collect();
        let number = u128::from_str_radix(&digits, 16).unwrap();
        let boot = (number >> 64) as u64 ^ number as u64;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let device = self.folder.path().metadata().unwrap().dev();
        let text = format!(
            "sweetspot costs 1\nwritten {} kernel {} boot {boot}\n\
             device {device} read {call_ns} {unit_ns} write {call_ns} {unit_ns}\n",
            now.as_secs(),
            kernel.trim()
        );
        fs::create_dir_all(self.costs().parent().unwrap()).unwrap();
        fs::write(self.costs(), text).unwrap();
    }
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    stderr(output)
}

fn largest(sizes: &[u64]) -> u64 {
    sizes.iter().copied().max().unwrap_or(0)
}

/// While a larger write buffer is asked for, every write is one of the dear calls: so where a question
/// to the file system takes long, the first one is large. Writes also pass through while the guard of
/// a busy machine is late: it goes before everybody else, if it may, with strace that stops it at each call; and
/// a run with such writes is followed by another.
#[test]
fn where_a_question_takes_long_no_larger_write_buffer_is_asked_for_later() {
    let has = |command: &mut Command| command.output().is_ok_and(|ended| ended.status.success());
    if !has(Command::new("strace").arg("-V")) {
        return test_start::skip("strace is not installed");
    }
    let goes_first = has(Command::new("chrt").args(["-f", "1", "true"]));
    let place = Place::with_input();
    let mut passed = Vec::new();
    for _ in 0..RUNS_MAX {
        // Nobody has told what they cost: a file that cannot be understood comes before all others.
        fs::create_dir_all(place.costs().parent().unwrap()).unwrap();
        fs::write(place.costs(), "nothing").unwrap();
        let mut strace = place.own(if goes_first { "chrt" } else { "strace" });
        if goes_first {
            strace.args(["-f", "1", "strace"]);
        }
        strace.args(["-f", "-o", "trace", "-e", "trace=pwrite64,write,fstatfs"]);
        strace.args(["-e", "inject=fstatfs:delay_enter=1000"]);
        strace.arg("-e").arg(format!("inject=pwrite64:delay_enter={FAR_US}"));
        strace.args([RUN, "run", "--", "chrt", "-o", "0"]).args(COPIES);
        let ended = strace.status();
        assert!(ended.unwrap().success());
        let trace = fs::read_to_string(place.path("trace")).unwrap();
        let mut flushed = trace.lines().skip_while(|line| !line.contains(" pwrite64(1, "));
        if flushed.next().is_some() {
            passed.push(flushed.filter(|line| line.contains(" write(1, ")).count());
        }
        if passed.last() == Some(&0) {
            return;
        }
    }
    panic!("writes that passed through after the first flush: {passed:?}");
}

#[test]
fn windows_become_large_where_calls_are_slow() {
    let place = Place::with_input();
    let Some(far) = place.largest("pread64", FAR_US, USUAL_BYTES) else { return };
    assert!(far > USUAL_BYTES, "{far}");
    // Also where it was known to be otherwise before.
    place.know(1_000, 100);
    let changed = place.largest("pread64", FAR_US, USUAL_BYTES).unwrap();
    assert!(changed > USUAL_BYTES, "{changed}");
    let asked_for = place.sizes("pread64", FAR_US, &["--buffer-size", "64K"]).unwrap();
    assert!(largest(&asked_for) <= 65536, "a size that was asked for stays what it is");
}

#[test]
fn as_much_waits_as_slow_calls_are_worth() {
    let place = Place::with_input();
    let Some(far) = place.largest("pwrite64", FAR_US, USUAL_BYTES) else { return };
    assert!(far > USUAL_BYTES, "{far}");
    let asked_for = place.flushes(FAR_US, &["--buffer-size", "64K"]).unwrap();
    assert!(largest(&asked_for) <= 65536, "{asked_for:?}");
}

/// What a buffer costs, in calls, decides after how many a file gets one: where a call takes as long as getting a buffer,
/// after two reads or eight writes instead of 16 and 64.
#[test]
fn where_calls_are_slow_a_file_needs_few_for_a_buffer() {
    let place = Place::with_input();
    place.write("many", vec![b'x'; 400_000]);
    for number in 0..20 {
        place.write(&format!("few{number}"), vec![b'x'; 10_000]);
    }
    let Some(reads) = place.few("read", [4000, 12], 1) else { return };
    assert_eq!(reads, 20 * 2, "of 20 times 12");
    // Of files with one slow call each the second one shows it.
    let reads = place.few("read", [0, 40], 1).unwrap();
    assert_eq!(reads, 2 * 16 + 18 * 2, "of 20 times 40");
    // On a busy machine the guard answers later, and a buffer costs more. With 64 all would pass through.
    let runs = (0..RUNS_MAX as u32).map(|run| place.few("write", [4000, 60], 1 << run));
    let writes = runs.map(Option::unwrap);
    let writes: Vec<_> = writes.take_while(|writes| *writes > 20 * 30).collect();
    assert!(writes.len() < RUNS_MAX, "of 20 times 60: {writes:?}");
}

#[test]
fn the_next_run_begins_with_what_this_one_has_learned() {
    let place = Place::with_input();
    place.know(1_000_000, 1_000);
    let Some(reads) = place.sizes("pread64", 0, &[]) else { return };
    // The first window is as large as what is known is worth, and the kernel reads ahead; it ends on a page.
    assert!((READ_AHEAD_BYTES - 4096..=READ_AHEAD_BYTES).contains(&reads[0]), "{reads:?}");
    let writes = place.flushes(0, &[]).unwrap();
    assert!(largest(&writes) > 4 * USUAL_BYTES, "{writes:?}");
    place.know(1_000, 1_000_000);
    let reads = place.sizes("pread64", 0, &[]).unwrap();
    assert_eq!(reads[0], 4096, "{reads:?}");
}

#[test]
fn what_was_learned_is_said_and_kept() {
    let place = Place::with_input();
    let said = place.summary();
    let chosen: Vec<_> = said.lines().filter(|line| line.starts_with("chosen    ")).collect();
    assert_eq!(chosen.len(), 2, "{said}");
    for (line, name) in chosen.iter().zip(["/in: ", "/out: "]) {
        let words = line.split_once(name).unwrap_or_else(|| panic!("{name} {said}")).1;
        let (size, cost) = words.split_once(": a call costs ").unwrap_or_else(|| panic!("{said}"));
        assert!(size.ends_with("iB"), "{said}");
        assert!(cost.contains("s here, a byte ") && cost.ends_with('s'), "{said}");
    }
    // The guard writes it down when the last process has ended.
    let kept = (0..500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        fs::read_to_string(place.costs()).ok()
    });
    let kept = kept.expect("it is written down");
    let device = place.folder.path().metadata().unwrap().dev();
    assert!(kept.contains(&format!("\ndevice {device} read ")), "{kept}");
    assert_eq!(place.costs().metadata().unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn whatever_the_file_of_costs_holds_a_copy_is_a_copy() {
    let place = Place::with_input();
    let long = "device 1 ".repeat(10_000);
    for text in ["", "\0\0\0\0", "sweetspot costs 1\n", "sweetspot costs 1\nwritten x", &long] {
        fs::create_dir_all(place.costs().parent().unwrap()).unwrap();
        fs::write(place.costs(), text).unwrap();
        place.summary();
        assert!(same(&place.path("in"), &place.path("out")), "{text:.40}");
    }
    for cost in [(0, 0), (0, u32::MAX), (u32::MAX, 0), (u32::MAX, u32::MAX)] {
        place.know(cost.0, cost.1);
        place.summary();
        assert!(same(&place.path("in"), &place.path("out")), "{cost:?}");
    }
}

fn same(one: &Path, other: &Path) -> bool {
    fs::read(one).unwrap() == fs::read(other).unwrap()
}

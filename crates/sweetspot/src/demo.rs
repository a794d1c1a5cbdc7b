//! `sweetspot demo`: what it gains on this machine, with a real program that is there.
//!
//! A COBOL program (compiled here from its source) or `dd` copies records of 200 bytes. It goes the
//! way of a user: `profile` says what it does, `tune` what buffers gain (with fewer records), and then it
//! runs without and with that in alternating pairs; each copy is compared with the original, byte by
//! byte. Everything happens in a temporary folder, which is removed also on Ctrl-C.
//!
//! Not here: how any of the three works; they are started as a user starts them.

mod program;
mod watch;

use crate::arguments::Demo;
use indicatif::{ProgressBar, ProgressStyle};
use program::CopyProgram;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use sweetspot_lab::paired::CONFIDENCE_FIXED;
use sweetspot_lab::statistics::{self, Estimate, Interval};
use sweetspot_report::failure::Failure;
use sweetspot_report::numbers::{bytes, count};
use sweetspot_report::print::print;
use sweetspot_report::shell;
use sweetspot_report::shown::shown;
use sweetspot_sandbox::{Scratch, free_bytes};
use watch::Watch;

const SOURCE: &str = include_str!("demo/seqcopy.cob");
/// As in many a batch job; `seqcopy.cob` has the same number.
const RECORD_BYTES: u64 = 200;
/// What else is put into the folder: a source, a program; and some air.
const SPARE_BYTES: u64 = 32 << 20;
/// Exit status of a demo that failed.
const STATUS_FAILED: u8 = 1;
const COMPARED_BYTES: usize = 1 << 20;
const NAME: &str = "sweetspot";
/// Letters of the longest bar.
const BAR: usize = 50;
/// `tune` runs the program up to 30 times, so it gets this part of the records.
const TUNED_PART: u64 = 10;
/// How long `tune` may take.
const TUNE_BUDGET: &str = "60s";

/// Runs the demo and prints what came out.
///
/// # Errors
/// Where there is no room, a program fails, or a copy differs.
pub fn demo(arguments: &Demo) -> Result<u8, Failure> {
    let place = arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
    let folder = Scratch::new(&place, "sweetspot-demo-").map_err(|error| {
        failure(format!("{}: no temporary folder: {error}", shown(&place)))
            .next("name another place: --dir DIR")
    })?;
    let watch = Watch::start(folder.path());
    let ended = in_folder(arguments, folder.path(), &watch);
    watch.let_it_end();
    let report = ended?;
    print(&report).map_err(|failure| failure.status(STATUS_FAILED))?;
    Ok(0)
}

fn failure(what: impl Into<String>) -> Failure {
    Failure::own(what).status(STATUS_FAILED)
}

fn in_folder(arguments: &Demo, folder: &Path, watch: &Watch) -> Result<String, Failure> {
    let bytes = arguments.records * RECORD_BYTES;
    check_room(folder, 2 * bytes + 2 * bytes / TUNED_PART + SPARE_BYTES)?;
    let steps = u64::from(arguments.pairs + 1) * 2 + 2;
    let bar = ProgressBar::new(steps).with_style(
        ProgressStyle::with_template("{msg:38} {wide_bar} {pos}/{len}, {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.enable_steady_tick(Duration::from_millis(200));

    bar.set_message("making the records");
    let (input, output) = (folder.join("records.dat"), folder.join("copy.dat"));
    make_records(&input, arguments.records)
        .map_err(|error| failure(format!("{}: {error}", shown(&input))))?;
    let program = CopyProgram::find(folder, &bar);
    let copy = Copy { program: &program, input: &input, output: &output, folder, watch };
    bar.set_message(format!("profile {}", program.name()));
    let profiled = copy.profile()?;
    bar.inc(1);
    bar.set_message(format!("tune {}, up to 30 runs", program.name()));
    let tuned = copy.tune(arguments.records.div_ceil(TUNED_PART))?;
    bar.inc(1);

    let mut pairs = Vec::new();
    // The first pair warms everything up, checks its copies like the others, and is not counted.
    for number in 0..=arguments.pairs {
        // ABBA: what grows or shrinks steadily meanwhile falls on both alike.
        let order =
            if number % 2 == 0 { [Way::Plain, Way::Buffered] } else { [Way::Buffered, Way::Plain] };
        let mut seconds = [0.0; 2];
        for way in order {
            bar.set_message(format!("{} {}", program.name(), way.name()));
            seconds[way as usize] = copy.time(way, &tuned.buffer)?;
            compare(&input, &output, way)?;
            // Its pages need not be written to disk during the next run.
            std::fs::remove_file(&output)
                .map_err(|error| failure(format!("{}: {error}", shown(&output))))?;
            bar.inc(1);
        }
        if number > 0 {
            pairs.push((seconds[Way::Plain as usize], seconds[Way::Buffered as usize]));
        }
    }
    bar.finish_and_clear();
    let measured = report(program.name(), arguments.records, &pairs);
    let records = count(arguments.records.div_ceil(TUNED_PART));
    Ok(format!(
        "profile  {profiled}\n\ntune     {} (With {records} records.)\n\nrun      {measured}\n\
         Next, what would a program of yours gain? It runs unchanged:\n  {} profile -- ./program its \
         arguments\n",
        tuned.sentence,
        typed_here()
    ))
}

fn check_room(folder: &Path, wanted: u64) -> Result<(), Failure> {
    let shown = shown(folder.parent().unwrap_or(folder));
    let free = free_bytes(folder).map_err(|error| failure(format!("{shown}: {error}")))?;
    if free < wanted {
        return Err(failure(format!(
            "{shown}: {} are free, the demo needs {}",
            bytes(free),
            bytes(wanted)
        ))
        .next("name another place: --dir DIR, or make fewer records: --records 100000"));
    }
    Ok(())
}

/// Records that differ, so that a lost, doubled or exchanged one is found by comparing.
fn make_records(path: &Path, records: u64) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(COMPARED_BYTES, File::create_new(path)?);
    for number in 0..records {
        let padding = RECORD_BYTES as usize - 32;
        let letter = char::from(b'A' + (number % 26) as u8);
        let letters = [letter as u8; RECORD_BYTES as usize];
        write!(file, "record {number:020}{:>5}", number % 99_991)?;
        file.write_all(&letters[..padding])?;
    }
    let file = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    // On disk now, so that writing it back does not fall into the first runs.
    file.sync_all()
}

/// Without or with sweetspot; the number is the place in a pair.
#[derive(Clone, Copy)]
enum Way {
    Plain = 0,
    Buffered = 1,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Plain => "without sweetspot",
            Way::Buffered => "with sweetspot",
        }
    }
}

/// The program at work in the folder of the demo.
struct Copy<'a> {
    program: &'a CopyProgram,
    input: &'a Path,
    output: &'a Path,
    folder: &'a Path,
    watch: &'a Watch,
}

/// What `tune` said.
struct Tuned {
    sentence: String,
    /// The size in force for the pairs: `auto`, where none was confirmed.
    buffer: String,
}

impl Copy<'_> {
    /// Seconds from the start of the program to its end.
    fn time(&self, way: Way, buffer: &str) -> Result<f64, Failure> {
        let size = format!("--buffer-size={buffer}");
        // With `off`, nothing is to be buffered: what `run` itself costs is measured.
        let waits = if buffer == "off" { "--wait" } else { "--require" };
        let run = ["run", waits, &size, "--config=/dev/null"].map(OsStr::new);
        let verb: &[&OsStr] = match way {
            Way::Plain => &[],
            Way::Buffered => &run,
        };
        let (seconds, _) = self.start(verb, self.input, &format!(" {}", way.name()), &[0])?;
        Ok(seconds)
    }

    /// The sentence of `sweetspot profile`.
    fn profile(&self) -> Result<String, Failure> {
        let (json, report) = (self.folder.join("profile.json"), self.folder.join("profile"));
        let verb = ["profile".as_ref(), "--json".as_ref(), json.as_os_str(), "--output".as_ref()];
        let verb: Vec<&OsStr> = verb.into_iter().chain([report.as_os_str()]).collect();
        self.start(&verb, self.input, " under profile", &[0])?;
        let text = std::fs::read_to_string(&json);
        let text = text.map_err(|error| failure(format!("{}: {error}", shown(&json))))?;
        Ok(field(&text, "sentence").unwrap_or_default())
    }

    /// The sentence and the size of `sweetspot tune`, with that many records.
    fn tune(&self, records: u64) -> Result<Tuned, Failure> {
        let part = self.folder.join("part.dat");
        let store = self.folder.join("runs.sqlite");
        make_records(&part, records)
            .map_err(|error| failure(format!("{}: {error}", shown(&part))))?;
        let verb = ["tune", "--json", "--keep-rules", "--budget", TUNE_BUDGET, "--store"];
        let verb: Vec<&OsStr> =
            verb.map(OsStr::new).into_iter().chain([store.as_os_str()]).collect();
        // 1: there is no answer that was confirmed.
        let (_, said) = self.start(&verb, &part, " under tune", &[0, 1])?;
        let buffer = field(&said, "buffer").unwrap_or_else(|| "auto".to_owned());
        Ok(Tuned { sentence: field(&said, "sentence").unwrap_or_default(), buffer })
    }

    /// Runs it once: seconds, and what was printed. `ends`: exit statuses that are no failure.
    fn start(
        &self,
        verb: &[&OsStr],
        input: &Path,
        how: &str,
        ends: &[i32],
    ) -> Result<(f64, String), Failure> {
        let name = self.program.name();
        let cannot_start =
            |error: std::io::Error| failure(format!("{name} cannot be started{how}: {error}"));
        let said = self.folder.join("said");
        let mut command = self.program.command(verb, input, self.output);
        command.current_dir(self.folder).stdout(File::create(&said).map_err(cannot_start)?);
        let started = Instant::now();
        let mut child = command.spawn().map_err(cannot_start)?;
        self.watch.look_after(Some(child.id()));
        // Not reaped yet: until nobody looks after it, the pid is the child's own.
        if let Some(pid) = Pid::from_raw(child.id() as i32) {
            while waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
                .is_err_and(|error| error == rustix::io::Errno::INTR)
            {}
        }
        let seconds = started.elapsed().as_secs_f64();
        self.watch.look_after(None);
        let status = child.wait().map_err(cannot_start)?;
        if status.code().is_some_and(|code| ends.contains(&code)) {
            let said = std::fs::read_to_string(&said).unwrap_or_default();
            return Ok((seconds, said));
        }
        if status.signal().is_some() {
            // Ctrl-C reaches the program first; our own signal is on its way.
            std::thread::sleep(Duration::from_millis(200));
        }
        Err(failure(format!("{name} failed{how}: {status}"))
            .next("what it said stands above; nothing was measured"))
    }
}

/// A text of a JSON object.
fn field(json: &str, name: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    value[name].as_str().map(str::to_owned)
}

fn compare(input: &Path, output: &Path, way: Way) -> Result<(), Failure> {
    let read = |path: &Path| {
        File::open(path).map_err(|error| failure(format!("{}: {error}", shown(path))))
    };
    let (mut original, mut copy) = (read(input)?, read(output)?);
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    let mut at = 0;
    loop {
        expected.clear();
        found.clear();
        for (file, buffer) in [(&mut original, &mut expected), (&mut copy, &mut found)] {
            file.take(COMPARED_BYTES as u64)
                .read_to_end(buffer)
                .map_err(|error| failure(format!("comparing the copy: {error}")))?;
        }
        if expected != found {
            let first = expected.iter().zip(&found).take_while(|(a, b)| a == b).count();
            return Err(failure(format!(
                "the copy made {} differs from the original at byte {}",
                way.name(),
                at + first
            ))
            .next("this must not happen: please report it"));
        }
        if expected.is_empty() {
            return Ok(());
        }
        at += expected.len();
    }
}

fn report(program: &str, records: u64, pairs: &[(f64, f64)]) -> String {
    let (plain, buffered): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let middle = |seconds: &[f64]| statistics::median(seconds).unwrap_or_default();
    // Of the time without to the time with: how many times as fast it is.
    let Ok(estimate) = statistics::ratio(&buffered, &plain, CONFIDENCE_FIXED) else {
        return String::new(); // there are no pairs
    };
    let (plain, buffered) = (middle(&plain), middle(&buffered));
    let interval = estimate.interval.map_or_else(String::new, |Interval { low, high }| {
        format!(" (95 % interval {low:.2} to {high:.2}, {} pairs)", pairs.len())
    });
    format!(
        "{program} copied {} records of {RECORD_BYTES} bytes in {buffered:.2} s with sweetspot, \
         in {plain:.2} s without: {}{interval}. All copies are identical to the original.\n\n\
         without sweetspot  {}\nwith sweetspot     {}\n",
        count(records),
        verdict(&estimate),
        bar(plain, plain.max(buffered)),
        bar(buffered, plain.max(buffered)),
    )
}

/// A time as a bar, of which the longest has `BAR` letters; in eighths of a letter.
fn bar(seconds: f64, longest: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (seconds / longest * (8 * BAR) as f64).round().max(1.0) as usize;
    format!("{}{} {seconds:.2} s", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// How this program is called here: by its name where that leads to it, else by its path.
fn typed_here() -> String {
    let Ok(own) = std::env::current_exe() else { return NAME.to_owned() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_own = |folder: PathBuf| folder.join(NAME).canonicalize().is_ok_and(|file| file == own);
    match std::env::split_paths(&path).any(is_own) {
        true => NAME.to_owned(),
        false => shell::quoted(own),
    }
}

fn verdict(estimate: &Estimate) -> String {
    let speed = if estimate.value >= 1.0 {
        format!("{:.1} times as fast", estimate.value)
    } else {
        format!("{:.2} times slower", 1.0 / estimate.value)
    };
    match estimate.interval {
        None => format!("{speed} (too few pairs to be sure)"),
        Some(Interval { low, high }) if low <= 1.0 && high >= 1.0 => {
            "no difference can be shown".to_string()
        }
        Some(_) => speed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_differ_and_have_their_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records");
        make_records(&path, 1000).unwrap();
        let content = std::fs::read(&path).unwrap();
        let records: std::collections::HashSet<_> = content.chunks(RECORD_BYTES as usize).collect();
        assert_eq!((content.len() as u64, records.len()), (1000 * RECORD_BYTES, 1000));
    }

    #[test]
    fn a_copy_that_differs_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (folder.path().join("in"), folder.path().join("out"));
        let content = vec![7; COMPARED_BYTES + 10];
        std::fs::write(&input, &content).unwrap();
        let check = |copy: &[u8], expected: Option<usize>| {
            std::fs::write(&output, copy).unwrap();
            let found = compare(&input, &output, Way::Buffered).err().map(|e| e.to_string());
            match expected {
                Some(at) => assert!(found.unwrap().contains(&format!("at byte {at}\n"))),
                None => assert_eq!(found, None),
            }
        };
        check(&content, None);
        check(&content[..COMPARED_BYTES], Some(COMPARED_BYTES));
        check(&[], Some(0));
        let mut changed = content.clone();
        changed[COMPARED_BYTES + 3] = 8;
        check(&changed, Some(COMPARED_BYTES + 3));
        changed[COMPARED_BYTES + 3] = 7;
        changed.push(7);
        check(&changed, Some(COMPARED_BYTES + 10));
    }

    #[test]
    fn bars_are_as_long_as_times() {
        for (seconds, expected) in [
            (1.0, format!("{} 1.00 s", "█".repeat(50))),
            (0.5, format!("{} 0.50 s", "█".repeat(25))),
            (0.11, format!("{}▌ 0.11 s", "█".repeat(5))),
            (0.0001, "▏ 0.00 s".to_owned()),
        ] {
            assert_eq!(bar(seconds, 1.0), expected);
        }
    }

    #[test]
    fn the_sentence_claims_no_more_than_the_interval() {
        let check = |pairs: &[(f64, f64)], expected: &str| {
            let report = report("dd", 1000, pairs);
            assert!(report.contains(expected), "{report}");
        };
        check(&[(4.0, 2.0); 6], "2.0 times as fast");
        check(&[(2.0, 4.0); 6], "2.00 times slower");
        check(&[(4.0, 2.0); 5], "2.0 times as fast (too few pairs to be sure)");
        let mut mixed = [(4.0, 2.0); 6];
        mixed[3] = (2.0, 2.1);
        check(&mixed, "no difference can be shown");
    }
}

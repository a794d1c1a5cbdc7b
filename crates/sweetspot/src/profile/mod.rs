//! `sweetspot profile`: runs a program as it is, and says what buffering would do for it.
//!
//! The library is loaded in its observing mode: every call goes to the kernel and is counted in
//! memory that this process shares (`sweetspot_guard::observation`). Afterwards the costs of calls
//! are measured on the file system that matters (`calibrate`), the cost model says what buffering
//! would save, and a report is made (`sweetspot_report::profile`).
//!
//! A parent waits, as `time` does: exit status, output and signals are the program's own.

mod calibrate;
pub mod compare;
mod gather;
mod kernel;
mod places;
pub mod recording;

use crate::arguments;
use crate::buffer::Asked;
use crate::config::Rule;
use crate::environment::{Environment, is_switched_off, set, value};
use crate::home;
use crate::origin;
use crate::preload;
use crate::probe::{self, Answer, Calls};
use crate::reach::{self, Reach};
use crate::recover;
use crate::run::{Start, end_as, find, sizes_and_rules};
use crate::session::in_ledger;
use crate::target::Target;
use kernel::Kernel;
use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use sweetspot_core::environment as names;
use sweetspot_core::size::BufferSize;
use sweetspot_guard::observation::{Observation, Wanted};
use sweetspot_guard::process::{Ended, Taken, taken_by_children};
use sweetspot_report::failure::Failure;
use sweetspot_report::numbers;
use sweetspot_report::origin::Origin;
use sweetspot_report::profile::data::{self, Costs, Obstacle, Profile};
use sweetspot_report::profile::recording::Recording;
use sweetspot_report::profile::report::{self, Style};
use sweetspot_report::profile::timeline::{self, Timeline};
use sweetspot_report::profile::{insight, model, reasons, sentence};
use sweetspot_report::shown::{plain, shown};

/// How all reports begin, by which an older one in the file is recognised.
const TITLE: &str = "sweetspot profile\n";
/// How all JSON profiles begin.
const JSON_START: &str = "{\n  \"sweetspot_profile\":";
/// How often the progress line changes, and after how long there is one.
const BEAT: Duration = Duration::from_millis(500);
const QUIET: Duration = Duration::from_secs(2);
/// Threads of the program that are looked at.
const THREADS_MAX: usize = 64;

/// Runs the program and reports, or compares two profiles. Returns the exit status.
///
/// # Errors
/// Where sweetspot itself fails, or the program cannot be started.
pub fn profile(arguments: &arguments::Profile) -> Result<u8, Failure> {
    if let Some(files) = &arguments.compare {
        return compare::compare(&files[0], &files[1]);
    }
    let mut environment = Environment::own();
    if is_switched_off(&environment) {
        return Err(Failure::own(
            "SWEETSPOT=off is set in the environment, so nothing is observed",
        )
        .next("try: env -u SWEETSPOT sweetspot profile ..."));
    }
    let origin = origin::here(&environment);
    let Targets { json, report, record } = Targets::open(arguments, &origin)?;
    let program = find(&arguments.command[0], &environment)?;
    let reach = reach::inspect_in(&program, &environment);
    let obstacle = obstacle(&reach, &program, &environment);
    let (asked, rules) = in_force(&arguments.command[0], record.is_some(), &environment)?;
    recover::clear_up();

    let rules = rules.iter().map(in_ledger).collect();
    let (places, trace) = (arguments.r#where, record.is_some());
    let wanted = Wanted { places, trace, exact: arguments.exact, costs: home::costs(), rules };
    let observation = Observation::create(wanted).map_err(|error| {
        let needed = if record.is_some() { 36 << 20 } else { 12 << 20 };
        let next = format!("profile needs some {} in /dev/shm", numbers::bytes(needed));
        Failure::own(format!("{error}")).next(next)
    })?;
    let observed = observed(&observation, asked, &environment)?;
    if reach.takes_library() {
        for (name, value) in &observed {
            set(&mut environment, &name.to_string_lossy(), value.clone());
        }
    }
    let start = Start { program: &program, arguments: &arguments.command, environment };
    let run = Run { obstacle, ..watch(&start, &observation, &reach)? };
    let counted = observation.read();
    let mut profile = gather::profile(&arguments.command, &counted, &run);
    places::name(&mut profile.files, &counted.places);
    profile.costs = costs(&profile, &observed);
    judge(&mut profile, &run.reach);
    profile.origin = origin;

    if let Some(json) = json {
        json.write(format!("{}\n", serde_json::to_string_pretty(&profile).unwrap_or_default()));
    }
    if let Some(target) = report {
        say(&profile, target);
    }
    if let Some(target) = record {
        let (lines, lost) = observation.calls();
        match recording::bytes(&Recording::new(profile, &lines, lost)) {
            Ok(bytes) => target.write(bytes),
            Err(error) => crate::say::say(Failure::own(format!("--record: {error}"))),
        }
    }
    // Where the program ended by a signal this process does, too, and drops nothing.
    drop(observation);
    end_as(run.ended)
}

/// Where the results go.
struct Targets {
    json: Option<Target>,
    report: Option<Target>,
    record: Option<Target>,
}

impl Targets {
    /// Opens them, before the program runs.
    fn open(arguments: &arguments::Profile, origin: &Origin) -> Result<Targets, Failure> {
        differ(arguments)?;
        let folder = arguments.json.as_deref().filter(|path| origin::is_folder(path));
        let json = match (&arguments.json, folder) {
            (_, Some(folder)) => {
                Some(Target::New(origin::file_in(folder, "profile", origin, "--json ")?))
            }
            (Some(path), None) => Some(Target::open("--json ", path, JSON_START)?),
            (None, None) => None,
        };
        let report = match &arguments.output {
            Some(path) => Some(Target::open("--output ", path, TITLE)?),
            // One of many: they are read together.
            None if folder.is_some() => None,
            None => Some(Target::Stderr),
        };
        let record = arguments.record.as_deref();
        let record =
            record.map(|path| Target::open("--record ", path, recording::START)).transpose()?;
        if record.as_ref().is_some_and(Target::is_terminal) {
            return Err(Failure::own("--record: a recording is not for a terminal")
                .next("name a file: --record FILE"));
        }
        Ok(Targets { json, report, record })
    }
}

/// One file has room for one result: the second would find that somebody has written the first. What is no file
/// takes any number, as `/dev/null` does.
fn differ(arguments: &arguments::Profile) -> Result<(), Failure> {
    let arguments::Profile { json, output, record, .. } = arguments;
    let mut taken: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path) in [("--json", json), ("--output", output), ("--record", record)] {
        let Some(whole) = path.as_deref().and_then(place_of_file) else { continue };
        if let Some((other, _)) = taken.iter().find(|(_, place)| *place == whole) {
            return Err(Failure::own(format!(
                "{}: {other} and {option} name one file",
                shown(&whole)
            ))
            .next("name a file for each of them"));
        }
        taken.push((option, whole));
    }
    Ok(())
}

/// The path of a file from the root, without links, also where there is none yet. `None`: it is no file.
fn place_of_file(path: &Path) -> Option<PathBuf> {
    match path.canonicalize() {
        Ok(whole) => whole.is_file().then_some(whole),
        Err(_) => {
            let path = std::path::absolute(path).ok()?;
            Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
        }
    }
}

fn say(profile: &Profile, target: Target) {
    let style = match target {
        Target::Stderr => Style::of_stderr(),
        _ => Style::Plain,
    };
    let text = report::text(&plain(profile), style);
    target.write(&match style {
        Style::Plain => format!("{TITLE}{text}"),
        Style::Colours => text,
    });
}

/// The variables by which processes of the tree count for `observation`.
fn observed(
    observation: &Observation,
    asked: Asked,
    environment: &Environment,
) -> Result<Vec<(OsString, OsString)>, Failure> {
    let library = preload::install()?;
    let others = value(environment, names::PRELOAD);
    Ok(vec![
        (names::PRELOAD.into(), preload::chain(library.as_os_str(), others)),
        (names::LEDGER.into(), observation.path().into()),
        (names::SUMMARY.into(), "1".into()),
        (names::BUFFER.into(), asked.said()),
    ])
}

/// The size and the rules under which `run` would start the program: what is promised is true of them. A
/// recording is asked about every size, so none is in force while it is made.
fn in_force(
    program: &OsStr,
    records: bool,
    environment: &Environment,
) -> Result<(Asked, Vec<Rule>), Failure> {
    let mut warnings = Vec::new();
    let (asked, mut config) = sizes_and_rules(program, None, None, environment, &mut warnings)?;
    for warning in warnings {
        crate::say::say(format_args!("sweetspot: {warning}"));
    }
    if !records {
        return Ok((asked, config.rules));
    }
    config.rules.retain(|rule| !rule.for_auto);
    config.rules.iter_mut().for_each(|rule| rule.buffer = None);
    Ok((Asked::Explicitly(BufferSize::Auto), config.rules))
}

/// One run, as seen from outside.
struct Run {
    ended: Ended,
    seconds: f64,
    taken: Taken,
    /// How long that thread of the program itself could have gone on that did so longest, and others had
    /// the processor.
    delayed: Duration,
    kernel: Kernel,
    reach: Reach,
    /// Why `run` could not buffer it here.
    obstacle: Option<Obstacle>,
    timeline: Vec<data::Moment>,
}

/// Starts the program and waits for it, with a line of progress where somebody looks.
fn watch(start: &Start<'_>, observation: &Observation, reach: &Reach) -> Result<Run, Failure> {
    let mut kernel = Kernel::before();
    let before = taken_by_children();
    let (child, started) = start.as_child(|pid| observation.look_at_input(pid))?;
    let is_watched = std::io::stderr().is_terminal();
    let mut lines = Progress { started, is_shown: false, before: (0, 0), looked: started };
    let pid = child.pid();
    let mut delayed = Duration::ZERO;
    let mut timeline = Timeline::default();
    let ended = child.wait_with(timeline::GAP, || {
        delayed = delay(pid).unwrap_or_default().max(delayed);
        timeline.look(started.elapsed().as_secs_f64(), || observation.so_far());
        if is_watched && started.elapsed() > QUIET && lines.looked.elapsed() >= BEAT {
            lines.show(observation.so_far());
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    let after = taken_by_children();
    lines.clear();
    kernel.after();
    Ok(Run {
        ended,
        seconds,
        taken: Taken {
            processor: after.processor.saturating_sub(before.processor),
            sleeps: after.sleeps - before.sleeps,
            evictions: after.evictions - before.evictions,
        },
        delayed,
        kernel,
        reach: reach.clone(),
        obstacle: None,
        timeline: timeline.end(seconds, observation.so_far()),
    })
}

/// How long threads of a process have waited for a processor so far. Which one the others wait for is not
/// known: that of Java is not the first. One that ends is remembered as it was last seen.
fn delay(pid: u32) -> Option<Duration> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let delay = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
    };
    tasks.take(THREADS_MAX).filter_map(|task| delay(task.ok()?)).max()
}

/// The line that says what is going on.
struct Progress {
    started: Instant,
    /// Whether a line stands there.
    is_shown: bool,
    before: (u64, u64),
    looked: Instant,
}

impl Progress {
    fn show(&mut self, now: (u64, u64)) {
        let seconds = self.looked.elapsed().as_secs_f64();
        let rate = |now: u64, before: u64| (now.saturating_sub(before) as f64 / seconds) as u64;
        let line = format!(
            "\r\x1b[K{}: {} calls/s, {}/s",
            numbers::duration(self.started.elapsed().as_secs_f64()),
            numbers::count(rate(now.0, self.before.0)),
            numbers::bytes(rate(now.1, self.before.1)),
        );
        let _ = std::io::stderr().write_all(line.as_bytes());
        self.is_shown = true;
        (self.before, self.looked) = (now, Instant::now());
    }

    fn clear(&mut self) {
        if self.is_shown {
            let _ = std::io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

/// Why `run` could not buffer what it should: asked of the library inside the program. What a look at
/// the program's file has told is said otherwise.
fn obstacle(reach: &Reach, program: &Path, environment: &Environment) -> Option<Obstacle> {
    if *reach != Reach::Reachable {
        return None;
    }
    let (is_whole, found) = match probe::ask(program, environment) {
        Answer::Not(obstacle) => (true, obstacle),
        Answer::Without(Calls::Writes, obstacle) => (false, obstacle),
        // Without windows next to nothing is worth it.
        Answer::Without(Calls::Reads, obstacle) => (true, obstacle),
        Answer::Buffered | Answer::Unknown(_) => return None,
    };
    Some(Obstacle { is_whole, reason: found.reason, mend: found.mend })
}

/// What follows from counts and costs.
fn judge(profile: &mut Profile, reach: &Reach) {
    reasons::hinder(profile);
    model::judge(profile);
    reasons::judge(profile);
    model::judge_stdio(profile);
    profile.insights = insight::all(profile, reach);
    profile.sentence = sentence::sentence(profile, reach, probe::mend);
}

/// Measures what calls cost where the file with most of them lies.
fn costs(profile: &Profile, observed: &[(OsString, OsString)]) -> Costs {
    let files = profile.files.iter().filter(|file| file.kind == data::FileKind::File);
    let main = files.max_by_key(|file| file.calls());
    let folder = main.and_then(|file| Path::new(&file.path).parent()).filter(|path| path.is_dir());
    calibrate::costs(folder.unwrap_or(Path::new(".")), observed)
}

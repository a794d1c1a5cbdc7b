//! Runs one command as a fresh process and measures it from outside.
//!
//! ```text
//! this process ── starts ──► launcher ── starts, in a process group of its own ──► the command
//!              ◄── report ──          ◄── wait4 ──
//! ```
//!
//! The *launcher* is this same program, started anew for each run, which does nothing but this:
//! so peak memory is not that of a large parent (the kernel lets a child inherit it), and what the
//! command and all that it waited for read and wrote is what the launcher's own account in
//! `/proc/self/io` grows by across `wait4`, which needs no privileges. A program that uses this
//! module calls [`launch_if_asked`] first thing in `main`.
//!
//! The wall time runs from just before the process is made to just after its end was seen, so it
//! contains the start of the program. Standard input and output are files, never pipes: a pipe
//! would have to be drained meanwhile, and this process would compete with the one it measures.
//!
//! Invariants: the command is in no process group of ours, so a Ctrl-C in the terminal does not
//! reach it; if this process dies or the time limit passes, its whole group is killed.
//!
//! Deliberately not here: repetitions, and what is done with the output (`paired`, `output`).

pub use crate::sys::Usage;
use crate::{Error, sys};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{MemfdFlags, memfd_create},
    io::{FdFlags, fcntl_setfd},
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
    stdio::dup2_stdin,
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};
use sweetspot_core::environment::{LAUNCHER, SAMPLES};

/// A command to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The program and its arguments; the program is looked for on the `PATH`.
    pub command: Vec<OsString>,
    /// Environment variables that are set, over those of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// Environment variables that are taken away.
    pub without: Vec<OsString>,
    /// The folder it runs in; that of this process where none is given.
    pub folder: Option<PathBuf>,
    /// The file it reads as standard input; nothing where none is given.
    pub stdin: Option<PathBuf>,
    /// The file, made anew, that takes its standard output; thrown away where none is given.
    pub stdout: Option<PathBuf>,
    /// The file, made anew, that takes its error output; thrown away where none is given.
    pub stderr: Option<PathBuf>,
    /// The file, made anew, on which it may report what it measured itself: it finds the number of
    /// its descriptor in the environment, as [`SAMPLES`].
    pub samples: Option<PathBuf>,
    /// After this long it is killed, and the run is an error.
    pub limit: Duration,
}

/// A job runs for an hour at most unless it says otherwise.
pub const LIMIT_DEFAULT: Duration = Duration::from_secs(3600);

impl Job {
    /// A job that runs `command`, reads nothing and shows nothing.
    pub fn new(command: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Job {
            command: command.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            without: Vec::new(),
            folder: None,
            stdin: None,
            stdout: None,
            stderr: None,
            samples: None,
            limit: LIMIT_DEFAULT,
        }
    }

    fn name(&self) -> String {
        self.command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The launcher's process: in the folder and with the files of the job, and nothing else of it.
    fn launcher(&self, report: &Path) -> Result<Command, Error> {
        let mut command = this_program();
        command.env(LAUNCHER, report).process_group(0);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdin(match &self.stdin {
            Some(path) => File::open(path).map_err(Error::system("open", path))?.into(),
            None => Stdio::null(),
        });
        let sink = |path: &Option<PathBuf>| match path {
            Some(path) => {
                File::create(path).map(Stdio::from).map_err(Error::system("create", path))
            }
            None => Ok(Stdio::null()),
        };
        command.stdout(sink(&self.stdout)?).stderr(sink(&self.stderr)?);
        Ok(command)
    }

    /// The command itself, with what the launcher was given.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).env_remove(LAUNCHER).process_group(0);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        for name in &self.without {
            command.env_remove(name);
        }
        command
    }

    /// The file for samples, which the command inherits.
    fn samples(&self) -> io::Result<Option<File>> {
        let Some(path) = &self.samples else { return Ok(None) };
        let file = File::create(path)?;
        fcntl_setfd(&file, FdFlags::empty())?;
        Ok(Some(file))
    }
}

/// What one run took.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// From before its start to after its end.
    pub wall: Duration,
    /// What the kernel says that it used.
    #[serde(flatten)]
    pub usage: Usage,
    /// What it and those it waited for read and wrote.
    pub transfers: Transfers,
    /// What the machine did besides: the cause of a slow run, not a reason to drop it.
    pub disturbance: Disturbance,
    /// How it ended, as `wait` gives it.
    #[serde(with = "raw_status")]
    pub status: ExitStatus,
}

/// A run was disturbed when others took this share of its time, or more.
pub const DISTURBED_SHARE: f64 = 0.1;

impl Measurement {
    /// In how large a share of its time something waited for a processor or memory, or others had the
    /// processor: 0.1 is a tenth. Above 1 where several causes came together.
    pub fn disturbed_share(&self) -> f64 {
        let Disturbance { stolen, processor_pressure, memory_pressure, .. } = self.disturbance;
        let others = stolen + processor_pressure + memory_pressure;
        others.as_secs_f64() / self.wall.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Whether something waited for a processor or memory for much of its time.
    pub fn is_disturbed(&self) -> bool {
        self.disturbed_share() > DISTURBED_SHARE
    }

    /// Processor time in seconds, of the process and of those that it waited for.
    pub fn processor_seconds(&self) -> f64 {
        (self.usage.user + self.usage.system).as_secs_f64()
    }
}

#[cfg(test)]
impl Measurement {
    /// What a test takes that is about something else.
    pub(crate) fn of_nothing() -> Measurement {
        use std::os::unix::process::ExitStatusExt;
        Measurement {
            wall: Duration::from_millis(5),
            usage: Usage { peak_memory_bytes: 1 << 20, ..Usage::default() },
            transfers: Transfers::default(),
            disturbance: Disturbance::default(),
            status: ExitStatus::from_raw(0),
        }
    }
}

/// Reading and writing, as `/proc/self/io` counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfers {
    /// System calls that read or wrote, and what they moved.
    pub read_calls: u64,
    pub write_calls: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// What came from and is due to go to a device.
    pub device_read_bytes: u64,
    pub device_written_bytes: u64,
}

impl Transfers {
    fn minus(self, before: Transfers) -> Transfers {
        Transfers {
            read_calls: self.read_calls.saturating_sub(before.read_calls),
            write_calls: self.write_calls.saturating_sub(before.write_calls),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            device_read_bytes: self.device_read_bytes.saturating_sub(before.device_read_bytes),
            device_written_bytes: self
                .device_written_bytes
                .saturating_sub(before.device_written_bytes),
        }
    }
}

/// What happened on the machine meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Processor time that the hypervisor gave to others, over all processors.
    pub stolen: Duration,
    /// Time in which some process waited for a processor, a device, memory (PSI); zero where the
    /// kernel does not tell.
    pub processor_pressure: Duration,
    pub device_pressure: Duration,
    pub memory_pressure: Duration,
}

mod raw_status {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::{os::unix::process::ExitStatusExt, process::ExitStatus};

    pub fn serialize<S: Serializer>(status: &ExitStatus, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i32(status.into_raw())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ExitStatus, D::Error> {
        i32::deserialize(from).map(ExitStatus::from_raw)
    }
}

/// What the launcher says.
#[derive(Serialize, Deserialize)]
enum LauncherReport {
    Measured(Box<Measurement>),
    TimeLimit,
    /// The number of the error with which the command could not be started, or waited for.
    NotStarted(i32),
    NotWaited(i32),
}

/// Runs `job` and waits for its end. How it ended is part of the answer, not an error.
///
/// # Errors
/// Where it cannot be started, or runs longer than its limit.
pub fn run(job: &Job) -> Result<Measurement, Error> {
    let Some(program) = job.command.first() else {
        let reason = "it has no command".to_owned();
        return Err(Error::Failed { program: "the job".to_owned(), reason });
    };
    let launch = |error| Error::system("start the launcher of", program)(error);
    let mut paper = exchange(job).map_err(launch)?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), paper.as_raw_fd());
    // The command is gone while this waits, and with it what it holds: the job alone has its input.
    let mut launcher = job.launcher(Path::new(&path))?.spawn().map_err(launch)?;
    let ended = launcher.wait().map_err(launch)?;
    let mut text = String::new();
    paper.rewind().and_then(|()| paper.read_to_string(&mut text)).map_err(launch)?;
    let report = serde_json::from_str(&text).map_err(|_| {
        launch(io::Error::other(format!("the launcher said nothing and ended with {ended}")))
    })?;
    match report {
        LauncherReport::Measured(measurement) => Ok(*measurement),
        LauncherReport::TimeLimit => {
            Err(Error::TimeLimit { program: job.name(), limit: job.limit })
        }
        LauncherReport::NotStarted(errno) => {
            Err(Error::system("start", program)(io::Error::from_raw_os_error(errno)))
        }
        LauncherReport::NotWaited(errno) => {
            Err(Error::system("wait for", program)(io::Error::from_raw_os_error(errno)))
        }
    }
}

/// The sheet of memory on which the job stands, and in its place then the report.
fn exchange(job: &Job) -> io::Result<File> {
    let mut paper = File::from(memfd_create(c"sweetspot-run", MemfdFlags::CLOEXEC)?);
    paper.write_all(serde_json::to_string(job)?.as_bytes())?;
    Ok(paper)
}

/// This program, to be started as a launcher.
fn this_program() -> Command {
    let mut command = Command::new("/proc/self/exe");
    if cfg!(test) {
        // The test program is not ours to begin: a test of that name is the launcher.
        command.args(["--exact", "measure::tests::the_launcher", "--test-threads=1"]);
    }
    command
}

/// Where this process was started as a launcher it is one, and ends. To be called first thing in
/// `main` by every program that measures.
pub fn launch_if_asked() {
    let Some(path) = std::env::var_os(LAUNCHER) else { return };
    std::process::exit(match launch(Path::new(&path)) {
        Ok(()) => 0,
        // Nobody to tell but the one who started it, who finds no report.
        Err(_) => 125,
    });
}

fn launch(path: &Path) -> io::Result<()> {
    let mut paper = OpenOptions::new().read(true).write(true).open(path)?;
    let mut text = String::new();
    paper.read_to_string(&mut text)?;
    let job: Job = serde_json::from_str(&text)?;
    // Holds the pid of this very parent: its memory could just be read through it.
    let parent = path.components().nth(2).and_then(|pid| pid.as_os_str().to_str()?.parse().ok());
    let parent = parent.and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let report = supervise(&job, &pidfd_open(parent, PidfdFlags::empty())?);
    paper.set_len(0)?;
    paper.rewind()?;
    paper.write_all(serde_json::to_string(&report)?.as_bytes())
}

/// Runs the command of `job`; kills its group when the time is up or the parent dies.
fn supervise(job: &Job, parent: &OwnedFd) -> LauncherReport {
    let mut command = job.command();
    let number = |error: &io::Error| error.raw_os_error().unwrap_or_default();
    let samples = match job.samples() {
        Ok(samples) => samples,
        Err(error) => return LauncherReport::NotStarted(number(&error)),
    };
    match &samples {
        Some(file) => command.env(SAMPLES, file.as_raw_fd().to_string()),
        None => command.env_remove(SAMPLES),
    };
    let machine = Disturbance::so_far();
    // What two looks at the account add to it themselves is taken away again.
    let (first, second) = (account(), account());
    let start = Instant::now();
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return LauncherReport::NotStarted(number(&error)),
    };
    // Lest another process have what the command reads, which would keep it from being buffered. Where that
    // fails, it is as ever.
    let _ = File::open("/dev/null").map(dup2_stdin);
    let group = Pid::from_child(&child);
    let ended = ended_within(group, job.limit, parent);
    let wall = start.elapsed();
    if !matches!(ended, Ok(true)) {
        // May fail only because it has just ended, which changes nothing.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let waited = sys::wait_with_usage(&child);
    let transfers = account().minus(second).minus(second.minus(first));
    match (ended, waited) {
        (Ok(false), _) => LauncherReport::TimeLimit,
        (Err(error), _) | (_, Err(error)) => LauncherReport::NotWaited(number(&error)),
        (Ok(true), Ok((status, usage))) => LauncherReport::Measured(Box::new(Measurement {
            wall,
            usage,
            transfers,
            disturbance: Disturbance::so_far().minus(machine),
            status,
        })),
    }
}

/// Waits until `child` ends, `limit` at most and only while `parent` lives; it stays there to be
/// waited for.
fn ended_within(child: Pid, limit: Duration, parent: &OwnedFd) -> io::Result<bool> {
    let end = Instant::now() + limit;
    let pidfd = pidfd_open(child, PidfdFlags::empty())?;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        // A limit that the kernel's type cannot hold is as good as none.
        let timeout = left.try_into().ok();
        let mut both = [PollFd::new(&pidfd, PollFlags::IN), PollFd::new(parent, PollFlags::IN)];
        match poll(&mut both, timeout.as_ref()) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(!both[0].revents().is_empty()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// What this process, and all that it has waited for, have read and written so far.
fn account() -> Transfers {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let figure = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.strip_prefix(": ")?.parse().ok()).unwrap_or_default()
    };
    Transfers {
        read_calls: figure("syscr"),
        write_calls: figure("syscw"),
        read_bytes: figure("rchar"),
        written_bytes: figure("wchar"),
        device_read_bytes: figure("read_bytes"),
        device_written_bytes: figure("write_bytes"),
    }
}

impl Disturbance {
    fn so_far() -> Disturbance {
        // cpu  user nice system idle iowait irq softirq steal ..., in hundredths of a second.
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let stolen = stat.split_whitespace().nth(8).and_then(|ticks| ticks.parse::<u64>().ok());
        Disturbance {
            stolen: Duration::from_millis(10 * stolen.unwrap_or_default()),
            processor_pressure: pressure("/proc/pressure/cpu"),
            device_pressure: pressure("/proc/pressure/io"),
            memory_pressure: pressure("/proc/pressure/memory"),
        }
    }

    fn minus(self, before: Disturbance) -> Disturbance {
        let since = Duration::saturating_sub;
        Disturbance {
            stolen: since(self.stolen, before.stolen),
            processor_pressure: since(self.processor_pressure, before.processor_pressure),
            device_pressure: since(self.device_pressure, before.device_pressure),
            memory_pressure: since(self.memory_pressure, before.memory_pressure),
        }
    }
}

/// The total of the line `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345` (microseconds).
fn pressure(path: &str) -> Duration {
    let text = fs::read_to_string(path).unwrap_or_default();
    let total = text.lines().find(|line| line.starts_with("some "));
    let total = total.and_then(|line| line.split_once("total=")?.1.parse().ok());
    Duration::from_micros(total.unwrap_or_default())
}

#[cfg(test)]
mod tests;

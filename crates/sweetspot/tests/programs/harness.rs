//! Runs one program as it is and at every buffer size, and lists what differs.
//!
//! Each run gets a fresh copy of the prepared files in a work folder of the same path. The command
//! line is a shell text in which `$RUN` stands for `sweetspot run --buffer-size N --`, or for
//! nothing; the shell that reads it is outside of what is buffered, so redirections in it are
//! descriptors from outside. `$BIN` is the folder of executables, `$SRC` the folder `programs/`.
//!
//! Not here: what is seen of a run, and how two are compared (`seen.rs`).

use crate::build;
use crate::seen::{Kind, Seen, differences, snapshot};
use crate::table::{self, Case};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// The sizes at which every program runs: chosen, the smallest, below a page, the usual, large.
const SIZES: &str = "auto 1 512 64K 1M";
/// Those of which one row has the first, another one the second, and so on.
const SIZES_OF_ROWS: [&str; 4] = ["auto 1", "auto 512", "auto 64K", "auto 1M"];
/// Those of rows that take long: likewise.
const SIZES_OF_LONG: [&str; 2] = ["auto", "64K"];
/// How long a guard may take to finish a process that was killed, milliseconds.
const LATE_MS_MAX: u64 = 3_000;
/// How many differences are printed for one run.
const DIFFERENCES_SHOWN_MAX: usize = 8;

/// The words that stand before a program, from `SWEETSPOT_TEST_RUN` or `sweetspot run`.
pub fn wrapper(size: &str) -> String {
    let words = std::env::var("SWEETSPOT_TEST_RUN").unwrap_or_else(|_| {
        format!("{} run --buffer-size {{size}} --", env!("CARGO_BIN_EXE_sweetspot"))
    });
    words.replace("{size}", size)
}

/// Whether a program is among those that `SWEETSPOT_TEST_ONLY` keeps.
pub fn is_wanted(name: &str) -> bool {
    name.contains(&std::env::var("SWEETSPOT_TEST_ONLY").unwrap_or_default())
}

/// How much is done of what takes long.
#[derive(PartialEq)]
pub enum Long {
    /// It is built.
    No,
    /// It runs at one size.
    Few,
    All,
}

/// What `SWEETSPOT_TEST_LONG` says.
pub fn long() -> Long {
    match std::env::var("SWEETSPOT_TEST_LONG").as_deref() {
        Err(_) | Ok("few") => Long::Few,
        Ok("no") => Long::No,
        Ok("all") => Long::All,
        Ok(other) => panic!("SWEETSPOT_TEST_LONG={other}: it is no, few or all"),
    }
}

/// The sizes at which a program runs.
fn sizes(case: &Case) -> String {
    let turn = case.name.len();
    let usual = match long() {
        Long::No if case.long => return String::new(),
        Long::Few if case.long => SIZES_OF_LONG[turn % SIZES_OF_LONG.len()],
        Long::Few => SIZES_OF_ROWS[turn % SIZES_OF_ROWS.len()],
        _ => SIZES,
    };
    std::env::var("SWEETSPOT_TEST_SIZES").unwrap_or_else(|_| usual.to_owned())
}

/// Runs every program of a group; fails with what differs, or in CI with what is missing.
pub fn check_group(group: &str) {
    let mut wrong = Vec::new();
    let of_group = |case: &&Case| case.group == group && is_wanted(case.name);
    let (cases, missed): (Vec<&Case>, Vec<&Case>) =
        table::cases().filter(of_group).partition(|case| missing(case).is_none());
    for case in missed {
        let missing = missing(case).unwrap_or_default();
        skipped(&format!("{group} {}: {missing}", case.name), &mut wrong);
    }
    let (ran, found) = (cases.len(), Mutex::new(&mut wrong));
    crate::at_once(2, &cases, |case| {
        let start = Instant::now();
        if let Err(message) = check(case, &sizes(case)) {
            found.lock().expect("no one panics").push(message);
        }
        say_time(start, group, case.name);
    });
    assert!(
        wrong.is_empty(),
        "{} of {ran} programs in {group} differ:\n\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Prints past the capture of the test runner, so that it is seen when the test passes, too.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints how long a row took, where that is asked for.
pub fn say_time(start: Instant, group: &str, name: &str) {
    if std::env::var_os("SWEETSPOT_TEST_TIMES").is_some() {
        say(&format!("{:6.2} s {group} {name}", start.elapsed().as_secs_f64()));
    }
}

/// Prints what is skipped; where `CI` is set a skip is a failure.
pub fn skipped(what: &str, wrong: &mut Vec<String>) {
    say(&format!("skipped: {what}"));
    if std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1") {
        wrong.push(format!("{what}: skipped, and in CI a skip is a failure"));
    }
}

/// What the machine lacks for a program, and how to get it.
pub fn missing(case: &Case) -> Option<String> {
    let needs = case.needs.iter().find_map(|command| no_command(command));
    needs.or_else(|| case.build.iter().find_map(|build| build::missing(*build)))
}

/// What to do where a file is not there, such as a header.
pub fn no_file(path: &str) -> Option<String> {
    let package = table::package_of(path);
    (!Path::new(path).is_file()).then(|| format!("no {path} (apt-get install {package})"))
}

/// What to do where a command is not there.
pub fn no_command(name: &str) -> Option<String> {
    let package = table::package_of(name);
    (!is_there(name)).then(|| format!("no {name} (apt-get install {package})"))
}

/// Whether a command is there.
pub fn is_there(name: &str) -> bool {
    search_path().split(':').any(|folder| {
        let path = Path::new(folder).join(name);
        fs::metadata(path)
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    })
}

/// The distribution's folders first: a version manager's script in front of a language's real
/// binary starts dozens of processes of its own.
fn search_path() -> String {
    let inherited = std::env::var("PATH").unwrap_or_default();
    format!("/usr/bin:/bin:/usr/sbin:/sbin:{inherited}")
}

/// Builds, prepares, runs as it is and at every size; where there are no sizes, builds and prepares.
///
/// # Errors
/// A text that says what differs, where the files are and how to run it again.
fn check(case: &Case, sizes: &str) -> Result<(), String> {
    let place = Place::new(case)?;
    if sizes.trim().is_empty() {
        place.remove();
        return Ok(());
    }
    let native = place.run(case, "")?;
    if native.ended != case.ends {
        let said = String::from_utf8_lossy(&native.stderr);
        let (name, ends) = (case.name, case.ends);
        return Err(format!("{name}: natively {}, expected {ends}: {said}", native.ended));
    }
    if std::env::var_os("SWEETSPOT_TEST_SHOW").is_some() {
        say(&format!("== {} {}: {}", case.group, case.name, native.ended));
        say(&String::from_utf8_lossy(&native.stdout));
        say(&format!("-- errors\n{}", String::from_utf8_lossy(&native.stderr)));
        for (name, entry) in &native.files {
            let length = if let Kind::File(bytes) = &entry.kind { bytes.len() } else { 0 };
            say(&format!("-- {:o} {length} {}", entry.mode, name.display()));
        }
    }
    let mut wrong = String::new();
    for size in sizes.split_whitespace() {
        let run = wrapper(size);
        let (seen, found) = place.run_compared(case, &run, &native)?;
        if found.is_empty() {
            continue;
        }
        let kept = place.keep(size);
        let _ = writeln!(wrong, "{} {} at size {size}:", case.group, case.name);
        for difference in found.iter().take(DIFFERENCES_SHOWN_MAX) {
            let _ = writeln!(wrong, "    {difference}");
        }
        if found.len() > DIFFERENCES_SHOWN_MAX {
            let _ = writeln!(wrong, "    and {} more", found.len() - DIFFERENCES_SHOWN_MAX);
        }
        let _ = fs::write(place.folder.join(format!("stdout.{size}")), &seen.stdout);
        let _ = fs::write(place.folder.join(format!("stderr.{size}")), &seen.stderr);
        let _ = writeln!(
            wrong,
            "    files kept in {}; again: cd {} && rm -rf work && cp -a base work && cd work && \
             BIN={} SRC={} RUN='{run}' sh -c '{}'",
            kept.display(),
            place.folder.display(),
            build::executables().display(),
            build::sources().display(),
            case.command.replace('\'', r"'\''"),
        );
    }
    if wrong.is_empty() {
        place.remove();
        return Ok(());
    }
    let _ = fs::write(place.folder.join("stdout.native"), &native.stdout);
    let _ = fs::write(place.folder.join("stderr.native"), &native.stderr);
    let again = place.run(case, "")?;
    place.keep("native");
    for difference in differences(case, &native, &again) {
        let _ = writeln!(wrong, "    the program differs from itself: {difference}");
    }
    Err(wrong)
}

/// Where one case lives: `base` with the prepared files, `work` where it runs.
pub struct Place {
    folder: PathBuf,
}

impl Place {
    /// Builds the programs and prepares the files.
    ///
    /// # Errors
    /// What the compiler or the preparing script said.
    pub fn new(case: &Case) -> Result<Place, String> {
        for build in case.build {
            build::make(*build)?;
        }
        let name = format!("{}-{}", case.group, case.name.replace([' ', '/'], "_"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("programs-{}", std::process::id()))
            .join(name);
        let place = Place { folder };
        let _ = fs::remove_dir_all(&place.folder);
        let base = place.folder.join("base");
        fs::create_dir_all(&base).map_err(|error| format!("{}: {error}", base.display()))?;
        let seen = place.shell(case, &base, case.prepare, "")?;
        if seen.ended != "exit 0" {
            let said = String::from_utf8_lossy(&seen.stderr);
            return Err(format!("{}: preparing: {}: {said}", case.name, seen.ended));
        }
        Ok(place)
    }

    /// Runs the command in a fresh copy of the prepared files.
    ///
    /// # Errors
    /// What could not be copied or started.
    pub fn run(&self, case: &Case, run: &str) -> Result<Seen, String> {
        let work = self.folder.join("work");
        let _ = fs::remove_dir_all(&work);
        copy(&self.folder.join("base"), &work)?;
        self.shell(case, &work, case.command, run)
    }

    /// Runs and compares; where the table allows that a guard finishes after the end, looks again
    /// until it has.
    ///
    /// # Errors
    /// As [`Place::run`].
    pub fn run_compared(
        &self,
        case: &Case,
        run: &str,
        native: &Seen,
    ) -> Result<(Seen, Vec<String>), String> {
        let mut seen = self.run(case, run)?;
        let deadline = Instant::now() + Duration::from_millis(LATE_MS_MAX);
        loop {
            let found = differences(case, native, &seen);
            if found.is_empty() || !case.finished_late || Instant::now() > deadline {
                return Ok((seen, found));
            }
            thread::sleep(Duration::from_millis(10));
            seen.files = snapshot(&self.folder.join("work"))?;
        }
    }

    /// Removes everything, and the folder of this test runner with its last case.
    pub fn remove(&self) {
        let _ = fs::remove_dir_all(&self.folder);
        let _ = self.folder.parent().map(fs::remove_dir);
    }

    /// Moves the work folder aside.
    fn keep(&self, name: &str) -> PathBuf {
        let kept = self.folder.join(format!("work.{name}"));
        let _ = fs::remove_dir_all(&kept);
        let _ = fs::rename(self.folder.join("work"), &kept);
        kept
    }

    /// Runs a shell text in a folder, with its own process group, and waits for its end and for
    /// the end of its output.
    fn shell(&self, case: &Case, folder: &Path, script: &str, run: &str) -> Result<Seen, String> {
        // Background processes must not outlive the comparison, cores must not be dumped.
        let script = format!("umask 022; ulimit -c 0\n{script}");
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script).current_dir(folder).env_clear();
        command.envs([
            ("PATH", search_path().as_str()),
            ("LC_ALL", "C"),
            ("TZ", "UTC"),
            ("RUN", run),
        ]);
        command.env("HOME", &self.folder).env("XDG_CACHE_HOME", cache());
        command.env("BIN", build::executables()).env("SRC", build::sources());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        let mut child = spawn(&mut command).map_err(|error| format!("/bin/sh: {error}"))?;
        let group = child.id();
        let stdout = collect(child.stdout.take().expect("piped"));
        let stderr = collect(child.stderr.take().expect("piped"));
        let (sender, ended) = channel();
        thread::spawn(move || sender.send(child.wait()));
        let seconds_max = case.seconds_max * patience();
        let deadline = Instant::now() + Duration::from_secs(seconds_max);
        let remaining = || deadline.saturating_duration_since(Instant::now());
        let mut status = match ended.recv_timeout(remaining()) {
            Ok(Ok(status)) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit {code}"),
                (None, signal) => format!("signal {}", signal.unwrap_or(0)),
            },
            Ok(Err(error)) => format!("no status: {error}"),
            Err(_) => format!("still running after {seconds_max} s"),
        };
        let mut output = |receiver: Receiver<Vec<u8>>, name: &str| {
            receiver.recv_timeout(remaining().max(Duration::from_secs(1))).unwrap_or_else(|_| {
                let _ = write!(status, ", {name} still held open");
                Vec::new()
            })
        };
        let (stdout, stderr) = (output(stdout, "stdout"), output(stderr, "stderr"));
        if status.contains("still") {
            let kill = format!("kill -9 -{group} 2>/dev/null");
            let _ = Command::new("/bin/sh").arg("-c").arg(kill).status();
        }
        Ok(Seen { ended: status, stdout, stderr, files: snapshot(folder)? })
    }
}

/// How many times as slow as others this machine is, at most.
pub fn patience() -> u64 {
    let times = std::env::var("SWEETSPOT_TEST_PATIENCE");
    times.map_or(1, |times| times.parse().expect("SWEETSPOT_TEST_PATIENCE is a number"))
}

/// Starts a process while no other thread of this test runner does.
fn spawn(command: &mut Command) -> std::io::Result<std::process::Child> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    command.spawn()
}

/// The cache folder in which `run` keeps its library: one for all cases.
fn cache() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("programs-cache");
        let _ = fs::create_dir_all(&folder);
        folder
    })
}

/// Reads a pipe to its end in a thread.
fn collect(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

/// Copies a tree with its modes, times and links.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let mut command = Command::new("cp");
    command.arg("-a").arg("--").arg(from).arg(to).stdin(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cp -a to {}: {status}", to.display())),
        Err(error) => Err(format!("cp: {error}")),
    }
}

//! The jobs of a soak. Each ends by itself, soon after the soak is over, with what it counted.

use super::Soak;
use super::trouble::Trouble;
use crate::commands::call;
use crate::fuzz::process::{monotonic, signal, wait_until};
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A step of a job that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// PostgreSQL, and pgbench with four clients that move money. No money is lost.
pub struct Database {
    transactions: u64,
}

/// The user that runs the database where we are root, as which it refuses to run.
const NOBODY: u32 = 65534;
const PGBENCH_SECONDS: u64 = 15;
const SUMS: &str = "select sum(abalance), (select sum(tbalance) from pgbench_tellers), (select
    sum(bbalance) from pgbench_branches), (select coalesce(sum(delta), 0) from pgbench_history),
    (select count(*) from pgbench_history) from pgbench_accounts";

impl Database {
    pub fn run(soak: &Soak) -> Result<Database, String> {
        let programs = programs()?;
        let folder = soak.folder.join("database");
        made_for_nobody(&folder)?;
        let tool = |name: &str, is_buffered: bool| {
            let program = programs.join(name);
            let mut command = match is_buffered {
                true => soak.buffered(program, &folder),
                false => soak.plain(program, &folder),
            };
            command.env("PGHOST", &folder).env("PGUSER", "soak").env("PGDATABASE", "postgres");
            command.env("PGDATA", folder.join("data"));
            as_nobody(&mut command);
            command
        };
        let initialize = ["--data-checksums", "--auth=trust", "--username=soak"];
        call(tool("initdb", true).args(initialize))?;
        let mut server = tool("postgres", true);
        server.arg("-k").arg(&folder).args(["-c", "listen_addresses="]);
        let mut server = Server(quietly(&mut server, &folder.join("log"))?);
        wait_until("PostgreSQL to begin", PATIENCE, || {
            std::thread::sleep(Duration::from_millis(50));
            call(&mut tool("pg_isready", false)).is_ok()
        })?;
        call(tool("pgbench", true).args(["-i", "-s", "2"]))?;
        let mut round = 0;
        while !soak.is_over() {
            let seconds = PGBENCH_SECONDS.min(soak.seconds).to_string();
            let seed = (soak.seed + round).to_string();
            let words = ["-c", "4", "-j", "2", "-l", "-n", "-T", &seconds, "--random-seed", &seed];
            // By its process alone it has the name of an older log now and then, and replaces that.
            let prefix = format!("--log-prefix={LOG_PREFIX}{round}");
            call(tool("pgbench", true).args(words).arg(prefix))?;
            round += 1;
        }
        let sums = call(tool("psql", true).args(["-At", "-c", SUMS]))?;
        let sums: Vec<i64> = sums.trim().split('|').filter_map(|sum| sum.parse().ok()).collect();
        let &[accounts, tellers, branches, moved, transactions] = &sums[..] else {
            return Err(format!("PostgreSQL: no sums: {sums:?}"));
        };
        if [tellers, branches, moved] != [accounts; 3] {
            return Err(format!("PostgreSQL: its sums differ: {sums:?}"));
        }
        let logged = logged(&folder)?;
        if logged != transactions {
            return Err(format!("pgbench logged {logged} of {transactions} transactions"));
        }
        server.end()?;
        call(tool("pg_checksums", true).arg("--check"))?;
        Ok(Database { transactions: transactions.unsigned_abs() })
    }
}

impl fmt::Display for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} transactions in PostgreSQL", self.transactions)
    }
}

/// A server, which does not outlive us.
struct Server(Child);

impl Server {
    /// Ends it as its service does: with SIGINT, a fast shutdown.
    fn end(&mut self) -> Result<(), String> {
        signal(self.0.id() as i32, libc::SIGINT);
        let mut ended = None;
        wait_until("PostgreSQL to end", PATIENCE, || {
            std::thread::sleep(Duration::from_millis(20));
            ended = self.0.try_wait().ok().flatten();
            ended.is_some()
        })?;
        match ended {
            Some(status) if status.success() => Ok(()),
            ended => Err(format!("PostgreSQL ended with {ended:?}")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Where Debian has PostgreSQL's programs.
fn programs() -> Result<PathBuf, String> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort();
    folders.pop().ok_or_else(|| "no PostgreSQL (apt-get install postgresql)".to_owned())
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|data| std::os::unix::fs::MetadataExt::uid(&data) == 0)
}

fn as_nobody(command: &mut Command) {
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
}

/// Makes a folder, which with those above it can be reached by nobody, and is his.
fn made_for_nobody(folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir(folder).map_err(failed)?;
    if is_root() {
        chown(folder, Some(NOBODY), Some(NOBODY)).map_err(failed)?;
        for above in folder.ancestors().skip(1).take(2) {
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
            fs::set_permissions(above, open).map_err(failed)?;
        }
    }
    Ok(())
}

/// How the names of pgbench's logs begin.
const LOG_PREFIX: &str = "pgbench_log.";

/// Lines in pgbench's logs: one for each transaction.
fn logged(folder: &Path) -> Result<i64, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut lines = 0;
    for entry in fs::read_dir(folder).map_err(failed)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(LOG_PREFIX) {
            let text = fs::read(entry.path()).map_err(failed)?;
            lines += text.iter().filter(|byte| **byte == b'\n').count();
        }
    }
    i64::try_from(lines).map_err(|error| error.to_string())
}

/// Copies of records in Java, compared.
pub struct Batch {
    copies: u64,
}

const BATCH_BYTES: usize = 4_000_000;

impl Batch {
    pub fn run(soak: &Soak) -> Result<Batch, String> {
        let folder = soak.folder.join("batch");
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir(&folder).map_err(failed)?;
        let source = crate::project::root().join("programs/java/RecordCopy.java");
        call(soak.plain("javac", &folder).args(["-d", "."]).arg(source))?;
        let bytes: Vec<u8> = (0..BATCH_BYTES).map(|at| (at / 7 + at / 200) as u8).collect();
        fs::write(folder.join("in"), &bytes).map_err(failed)?;
        let mut copies = 0;
        while !soak.is_over() {
            let way = if copies % 2 == 0 { "stream" } else { "random" };
            let words = ["-XX:+UseSerialGC", "-cp", ".", "RecordCopy", way, "in", "out"];
            call(soak.buffered("java", &folder).args(words))?;
            if fs::read(folder.join("out")).map_err(failed)? != bytes {
                return Err(format!("copy {copies} in Java differs"));
            }
            fs::remove_file(folder.join("out")).map_err(failed)?;
            copies += 1;
        }
        Ok(Batch { copies })
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} copies in Java", self.copies)
    }
}

/// A log that is read while it is written: every line comes, once and in order.
pub struct Log {
    lines: u64,
    /// How old the oldest line was when it could be read, while its guard was not stopped.
    oldest: Duration,
}

impl Log {
    pub fn run(soak: &Soak, trouble: &Trouble) -> Result<Log, String> {
        let folder = soak.folder.join("log");
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (path, output) = (folder.join("lines"), folder.join("output"));
        let mut writer = soak.buffered(&soak.log, &folder);
        writer.arg(&path).args([soak.seconds.to_string(), soak.seed.to_string()]);
        let mut writer = Server(quietly(&mut writer, &output)?);
        let mut reader = Reader::default();
        let mut status = None;
        while status.is_none() {
            std::thread::sleep(Duration::from_millis(5));
            // What was written before its end can be read after it.
            status = writer.0.try_wait().map_err(|error| error.to_string())?;
            reader.read(&path, trouble)?;
        }
        let wrote = fs::read_to_string(&output).unwrap_or_default();
        let wrote: Option<u64> = wrote.trim().parse().ok();
        if wrote != Some(reader.lines) || !reader.rest.is_empty() {
            return Err(format!(
                "the log: {} lines were read, {wrote:?} written; {status:?}",
                reader.lines
            ));
        }
        Ok(Log { lines: reader.lines, oldest: reader.oldest })
    }
}

impl fmt::Display for Log {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Log { lines, oldest } = self;
        let oldest = oldest.as_secs_f64();
        write!(formatter, "{lines} lines of a log, none seen later than {oldest:.2} s")
    }
}

#[derive(Default)]
struct Reader {
    file: Option<File>,
    lines: u64,
    /// Of a line that has begun.
    rest: Vec<u8>,
    oldest: Duration,
}

impl Reader {
    fn read(&mut self, path: &Path, trouble: &Trouble) -> Result<(), String> {
        if self.file.is_none() {
            self.file = File::open(path).ok();
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let now = monotonic();
        file.read_to_end(&mut self.rest).map_err(|error| error.to_string())?;
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let lines: Vec<u8> = self.rest.drain(..=end).collect();
        let lines = String::from_utf8_lossy(&lines);
        for line in lines.lines() {
            let mut words = line.split(' ').map(str::parse::<u64>);
            let (Some(Ok(number)), Some(Ok(written)), None) =
                (words.next(), words.next(), words.next())
            else {
                return Err(format!("the log: line {} is {line:?}", self.lines));
            };
            if number != self.lines {
                return Err(format!("the log: line {number} after {} lines", self.lines));
            }
            self.lines += 1;
            let written = Duration::from_nanos(written);
            if !trouble.has_stopped_a_guard_since(written) {
                self.oldest = self.oldest.max(now.saturating_sub(written));
            }
        }
        Ok(())
    }
}

/// Starts a program whose output goes into a file; what else it says is shown where it fails.
fn quietly(command: &mut Command, output: &Path) -> Result<Child, String> {
    let file = File::create(output).map_err(|error| format!("{}: {error}", output.display()))?;
    let errors = File::create(output.with_extension("errors"));
    let errors = errors.map_err(|error| format!("{}: {error}", output.display()))?;
    let child = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
    child.map_err(|error| format!("{command:?}: {error}"))
}

//! Runs one command as a fresh process and measures it from outside.
//!
//! The wall time runs from just before the process is made to just after its end was seen, so it
//! contains the start of the program. Standard input and output are files, never pipes: a pipe
//! would have to be drained meanwhile, and this process would compete with the one it measures.
//!
//! Peak memory is that of the largest single process, and at least what this process itself had
//! resident when it started the other (the kernel inherits it): tell small programs apart only
//! from a small launcher.
//!
//! Deliberately not here: repetitions, and what is done with the output (`paired`).

use crate::{Error, sys};
use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use serde::Serialize;
use std::{
    ffi::OsString,
    fs::File,
    io,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

/// A command to run.
#[derive(Clone, Debug)]
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
            limit: LIMIT_DEFAULT,
        }
    }

    fn name(&self) -> String {
        self.command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    fn prepare(&self) -> Result<Command, Error> {
        let (program, arguments) = self.command.split_first().ok_or_else(|| Error::Failed {
            program: "the job".to_owned(),
            reason: "it has no command".to_owned(),
        })?;
        let mut command = Command::new(program);
        command.args(arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        for name in &self.without {
            command.env_remove(name);
        }
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
}

/// What one run took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measurement {
    /// From before its start to after its end.
    pub wall: Duration,
    /// Processor time in user mode, of the process and of those that it waited for.
    pub user: Duration,
    /// Processor time in the kernel, likewise.
    pub system: Duration,
    /// The largest resident set of one process, in bytes (see the module's words).
    pub peak_memory_bytes: u64,
    /// How it ended.
    #[serde(skip)]
    pub status: ExitStatus,
}

/// Runs `job` and waits for its end. How it ended is part of the answer, not an error.
pub fn run(job: &Job) -> Result<Measurement, Error> {
    let mut command = job.prepare()?;
    let start = Instant::now();
    let mut child = command.spawn().map_err(Error::system("start", &job.command[0]))?;
    let in_time = ended_within(&child, job.limit).map_err(Error::system("wait for", job.name()))?;
    let wall = start.elapsed();
    if !in_time {
        // Both may fail only because it has just ended, which changes nothing.
        let _ = child.kill();
        let _ = child.wait();
        return Err(Error::TimeLimit { program: job.name(), limit: job.limit });
    }
    let (status, usage) =
        sys::wait_with_usage(&child).map_err(Error::system("wait for", job.name()))?;
    Ok(Measurement {
        wall,
        user: usage.user,
        system: usage.system,
        peak_memory_bytes: usage.peak_memory_bytes,
        status,
    })
}

/// Waits until `child` ends, `limit` at most; it stays there to be waited for.
fn ended_within(child: &Child, limit: Duration) -> io::Result<bool> {
    let end = Instant::now() + limit;
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        // A limit that the kernel's type cannot hold is as good as none.
        let timeout = left.try_into().ok();
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], timeout.as_ref()) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn shell(script: &str) -> Job {
        Job::new(["sh", "-c", script])
    }

    #[test]
    fn time_and_status_are_those_of_the_process() {
        for (script, status, wall_ms_min) in
            [("true", "exit status: 0", 0), ("sleep 0.2; exit 3", "exit status: 3", 200)]
        {
            let found = run(&shell(script)).unwrap();
            assert_eq!(found.status.to_string(), status, "{script}");
            assert!(found.wall >= Duration::from_millis(wall_ms_min), "{script}: {found:?}");
        }
        assert_eq!(run(&shell("kill -9 $$")).unwrap().status.to_string(), "signal: 9 (SIGKILL)");
    }

    #[test]
    fn processor_time_is_told_apart_from_sleep() {
        let idle = run(&shell("sleep 0.3")).unwrap();
        let busy = run(&shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")).unwrap();
        assert!(idle.user + idle.system < Duration::from_millis(150), "{idle:?}");
        assert!(busy.user > idle.user, "{busy:?} {idle:?}");
    }

    #[test]
    fn peak_memory_is_seen() {
        // dd takes a buffer of this size and fills it.
        let large = run(&shell("dd if=/dev/zero of=/dev/null bs=64M count=1 2>&-")).unwrap();
        assert!(large.peak_memory_bytes >= 64 << 20, "{large:?}");
    }

    #[test]
    fn input_output_folder_and_environment_are_the_jobs() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("in"), "line\n").unwrap();
        let mut job = shell("read line; echo $line; echo $COLOUR ${HOME-away}; pwd; echo no >&2");
        job.stdin = Some(path("in"));
        job.stdout = Some(path("out"));
        job.stderr = Some(path("err"));
        job.environment.push(("COLOUR".into(), "green".into()));
        job.without.push("HOME".into());
        job.folder = Some(folder.path().to_owned());
        assert!(run(&job).unwrap().status.success());
        let expected = format!("line\ngreen away\n{}\n", folder.path().display());
        assert_eq!(fs::read_to_string(path("out")).unwrap(), expected);
        assert_eq!(fs::read_to_string(path("err")).unwrap(), "no\n");
    }

    #[test]
    fn a_command_that_does_not_end_is_killed() {
        let mut job = Job::new(["sleep", "60"]);
        job.limit = Duration::from_millis(50);
        let start = Instant::now();
        assert!(matches!(run(&job), Err(Error::TimeLimit { .. })));
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn what_cannot_run_says_why() {
        let mut unreadable = shell("true");
        unreadable.stdin = Some("/no/such/file".into());
        for (job, expected) in [
            (Job::new(["/no/such/program"]), "cannot start /no/such/program: No such file"),
            (unreadable, "cannot open /no/such/file: No such file"),
            (Job::new([""; 0]), "it has no command"),
        ] {
            let message = run(&job).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }
}

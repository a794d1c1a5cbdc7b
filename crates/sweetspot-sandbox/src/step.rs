//! What happens inside: runs the program, waits for everything that it started, and reports.
//!
//! This runs as a process of its own (a verb that is not listed), because namespaces are entered by
//! a process and not by a function. It prints nothing: all it has to say goes into its report.

use crate::arguments::Step;
use crate::input::Input;
use crate::lay::{self, Laid, said};
use crate::shown::shown;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, setsid, wait};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use sweetspot_guard::process::{Child, Ended, Image};

/// How long what the program left running may go on after its end.
const AFTERWARDS: Duration = Duration::from_secs(5);
/// How long the guards may take to finish what was killed then.
const AFTER_KILL: Duration = Duration::from_secs(5);
/// How often is looked whether it has ended.
const LOOK: Duration = Duration::from_millis(2);
/// Exit status of a step that could not start the program; the report says why.
const STATUS_REFUSED: u8 = 125;

/// What the process inside asks anyone who started it.
pub struct Inside<'a> {
    /// Finds the program's file by its name, or says why there is none.
    pub find: &'a dyn Fn(&OsStr) -> Result<PathBuf, String>,
    /// Says why a file could not be started under this name.
    pub refused: &'a dyn Fn(&OsString, &Path, &io::Error) -> String,
    /// Where guards note ledgers.
    pub notes: &'a [PathBuf],
}

/// What the step reports, as JSON in a file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct StepReport {
    pub end: Option<End>,
    /// From the start of the program to its end, without what the sandbox costs.
    pub seconds: f64,
    /// Why the program was not started.
    pub refused: Option<String>,
    pub laid: Laid,
    /// Names of processes that had to be ended after the program.
    pub left_running: Vec<String>,
    /// The first and the last process number that was given out meanwhile.
    pub pids: (u32, u32),
}

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    Exited(u8),
    Killed(i32),
}

/// The report's name below the folder of a run.
pub const REPORT: &str = "report";

/// Runs the step. The exit status says nothing about the program; the report does.
///
/// # Errors
/// Where not even the report can be written.
pub fn run(arguments: &Step, inside: &Inside<'_>) -> Result<u8, String> {
    let path = arguments.folder.join(REPORT);
    // Opened before anything is mounted over its folder.
    let mut file = File::create(&path).map_err(|error| format!("{}: {error}", shown(&path)))?;
    // Anyone who made the sandbox may be killed: it stays until this has ended.
    let folders = [Some(&arguments.folder), arguments.shared_folder.as_ref()];
    let scratches = folders.into_iter().flatten().filter_map(|folder| folder.parent());
    let _locks: Vec<File> = scratches
        .filter_map(|scratch| File::open(scratch).ok())
        .filter(|lock| flock(lock, FlockOperation::NonBlockingLockShared).is_ok())
        .collect();
    let mut report = StepReport::default();
    let status = match attempt(arguments, inside, &mut report) {
        Ok(()) => 0,
        Err(cause) => {
            report.refused = Some(cause);
            STATUS_REFUSED
        }
    };
    let text = serde_json::to_vec(&report).unwrap_or_default();
    file.write_all(&text).map_err(|error| format!("{}: {error}", shown(&path)))?;
    Ok(status)
}

fn attempt(arguments: &Step, inside: &Inside<'_>, report: &mut StepReport) -> Result<(), String> {
    // Without a terminal: a program that asks for one fails at once instead of waiting for answers.
    // Who is the leader of a group already stays that, so that anyone who made the group can end it.
    match setsid() {
        Ok(_) | Err(rustix::io::Errno::PERM) => {}
        Err(errno) => return Err(said("begin a session", errno)),
    }
    if !arguments.in_place {
        let input = Input::look()?;
        report.laid = lay::enter(arguments, inside.notes)?;
        input.iter().try_for_each(|input| input.replace(&arguments.folder))?;
    }
    let Some(name) = arguments.command.first() else { return Ok(()) };
    set_child_subreaper(Pid::from_raw(1)).map_err(|errno| said("look after processes", errno))?;
    let program = (inside.find)(name)?;
    let environment = sweetspot_guard::given::environment();
    let refused = |error| (inside.refused)(name, &program, &error);
    let image = Image::new(&program, &arguments.command, &environment).map_err(refused)?;
    report.pids.0 = std::process::id();
    let started = Instant::now();
    let child = Child::start(&[&image], |_| {}).map_err(refused)?;
    let end = child.wait();
    report.seconds = started.elapsed().as_secs_f64();
    report.end = Some(match end {
        Ended::Exited(status) => End::Exited(status),
        Ended::Killed(signal) => End::Killed(signal),
    });
    report.left_running = wait_for_all();
    report.pids.1 = last_pid().unwrap_or(report.pids.0);
    Ok(())
}

/// Waits for all that the program left running, guards included, and ends what does not end.
/// Returns the names of what was ended.
fn wait_for_all() -> Vec<String> {
    let ended = Instant::now();
    let mut names = Vec::new();
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => continue,
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return names,
        }
        if ended.elapsed() > AFTERWARDS + AFTER_KILL {
            return names;
        }
        if ended.elapsed() > AFTERWARDS {
            end_children(&mut names);
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends the children that are not guards: these end by themselves, when nothing is left to do.
fn end_children(names: &mut Vec<String>) {
    let ours = fs::read_link("/proc/self/exe").ok();
    for pid in children() {
        if fs::read_link(format!("/proc/{pid}/exe")).ok() == ours {
            continue;
        }
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let name = name.trim().to_owned();
        if let Some(process) = Pid::from_raw(pid)
            && kill_process(process, Signal::KILL).is_ok()
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
}

fn children() -> Vec<i32> {
    let us = std::process::id().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |pid: &i32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name, in parentheses, may hold anything; the state and the parent follow it.
        let after = text.rsplit_once(')').map(|(_, after)| after);
        after.and_then(|after| after.split_whitespace().nth(1)).is_some_and(|parent| parent == us)
    };
    numbers.filter(is_child).collect()
}

/// The number that was given out last.
fn last_pid() -> Option<u32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().last()?.parse().ok()
}

//! What is known of a program that makes many calls: its name, the command to type next, and why a
//! buffer could not help it. Only the programs that are shown are looked at.

use crate::environment::Environment;
use crate::probe;
use crate::reach::{self, Reach};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use sweetspot_core::environment as names;

/// Programs that are known by what they run.
const INTERPRETERS: &[&str] =
    &["bash", "dash", "java", "node", "perl", "php", "python", "ruby", "sh"];
/// Descriptors of one process that are looked at.
const DESCRIPTORS_MAX: usize = 256;

/// The program of a process: its file, and for an interpreter what it runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Program {
    pub file: PathBuf,
    pub script: Option<String>,
}

impl Program {
    /// The program of a process; `None` where it has ended or is none (a kernel thread).
    pub fn of(pid: u32) -> Option<Program> {
        let link = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let file = match link.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
            Some(name) => PathBuf::from(OsStr::from_bytes(name)),
            None => link,
        };
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let version = |letter: char| letter.is_ascii_digit() || letter == '.';
        let runs_others = INTERPRETERS.contains(&name.trim_end_matches(version));
        let script = runs_others.then(|| script(&command_of(pid))).flatten();
        Some(Program { file, script })
    }

    /// A short name for people.
    pub fn name(&self) -> String {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match &self.script {
            Some(script) => format!("{name} {script}"),
            None => name,
        }
    }
}

/// The first argument that is no option; after `-c` and the like there is none.
fn script(command: &[String]) -> Option<String> {
    let mut arguments = command.iter().skip(1);
    let first = arguments.find(|argument| !argument.starts_with('-') || is_inline(argument))?;
    if is_inline(first) {
        return None;
    }
    // `java -cp lib Main`: the value of an option is not what runs.
    if command
        .iter()
        .any(|argument| ["-cp", "-classpath", "--class-path"].contains(&argument.as_str()))
    {
        return command.iter().skip(1).rfind(|argument| !argument.starts_with('-')).cloned();
    }
    let name = Path::new(first).file_name()?.to_string_lossy().into_owned();
    Some(name)
}

fn is_inline(argument: &str) -> bool {
    ["-c", "-e", "-E", "-r"].contains(&argument)
}

/// The words with which a process was started.
pub fn command_of(pid: u32) -> Vec<String> {
    let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = text.strip_suffix(b"\0").unwrap_or(&text);
    text.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Remembers what was found about executables.
#[derive(Default)]
pub struct Obstacles {
    known: HashMap<(u64, u64), Option<String>>,
}

impl Obstacles {
    /// Why a buffer would not help this process, if there is a reason.
    pub fn of(&mut self, pid: u32) -> Option<String> {
        let path = PathBuf::from(format!("/proc/{pid}/exe"));
        let data = fs::metadata(&path).ok()?;
        let known = self.known.entry((data.dev(), data.ino())).or_insert_with(|| {
            match reach::inspect(&path, None) {
                Reach::Reachable if may_be_asked(pid, &data) => {
                    let program = fs::read_link(&path).ok()?;
                    let answer = probe::ask(&program, &Environment::own());
                    answer.obstacle().map(ToString::to_string)
                }
                Reach::Reachable => None,
                Reach::Unreachable(why) => Some(why.to_string()),
            }
        });
        known.clone().or_else(|| state(pid))
    }
}

/// Whether the program of a process can be asked: its libraries are loaded then, so it must be one
/// that this user would start, from the same files as the process.
fn may_be_asked(pid: u32, program: &fs::Metadata) -> bool {
    let is_trusted = [0, rustix::process::geteuid().as_raw()].contains(&program.uid());
    let root =
        |pid: &str| fs::metadata(format!("/proc/{pid}/root")).map(|data| (data.dev(), data.ino()));
    let has_our_root =
        matches!((root(&pid.to_string()), root("self")), (Ok(its), Ok(ours)) if its == ours);
    is_trusted && has_our_root
}

/// What the process itself shows.
fn state(pid: u32) -> Option<String> {
    let variable = format!("{}=", names::LEDGER);
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    if environment.split(|&byte| byte == 0).any(|line| line.starts_with(variable.as_bytes())) {
        return Some("it runs under sweetspot already".to_owned());
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    if status.lines().any(|line| line.trim_end() == "Seccomp:\t2") {
        return Some("a seccomp filter is in force, under which nothing is buffered".to_owned());
    }
    if shares_memory(pid) {
        return Some("it shares writable memory with other processes".to_owned());
    }
    (!has_files(pid)).then(|| "it has no file open, only pipes, sockets or devices".to_owned())
}

/// Whether a process has writable memory that others can map by a name, in which they may agree
/// unseen. Devices are none, nor are the JVM's performance counters.
fn shares_memory(pid: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| {
        let mut fields = line.split_whitespace();
        let is_shared =
            fields.nth(1).is_some_and(|rights| rights.starts_with("rw") && rights.ends_with('s'));
        let name = fields.nth(3).unwrap_or_default();
        let has_name = name.starts_with('/') && !line.ends_with("(deleted)");
        let is_of_system_v = name.starts_with("/SYSV");
        let is_device = name.starts_with("/dev/") && !name.starts_with("/dev/shm/");
        is_shared && (is_of_system_v || has_name && !is_device && !name.contains("/hsperfdata_"))
    })
}

/// Whether a process has a file open besides those that every process has. Where that may not be
/// asked, it may have.
fn has_files(pid: u32) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return true };
    let mut entries = entries.flatten().take(DESCRIPTORS_MAX);
    entries.any(|entry| fs::metadata(entry.path()).is_ok_and(|data| data.is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts() {
        let check = |command: &str, expected: Option<&str>| {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(script(&words).as_deref(), expected, "{command}");
        };
        check("python3 job.py in out", Some("job.py"));
        check("python3 -u /srv/job.py", Some("job.py"));
        check("sh -c dd", None);
        check("sh -e nightly.sh", None);
        check("bash", None);
        check("java -cp lib Main", Some("Main"));
        check("java -jar app.jar", Some("app.jar"));
    }

    #[test]
    fn this_process() {
        let us = std::process::id();
        let program = Program::of(us).unwrap();
        assert_eq!(Some(program.file), std::env::current_exe().ok());
        assert_eq!(program.script, None);
        assert!(!command_of(us).is_empty());
    }
}

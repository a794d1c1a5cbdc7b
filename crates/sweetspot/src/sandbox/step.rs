//! What happens inside: enters new namespaces, lays the overlays, runs the program, waits for
//! everything that it started, and reports.
//!
//! This runs as a process of its own (a verb that is not listed), because namespaces are entered by
//! a process and not by a function. It prints nothing: all it has to say goes into its report.

use super::mounts::{self, Mount, OVERLAYS_MAX};
use crate::arguments::SandboxStep;
use crate::failure::Failure;
use crate::resolve;
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Access, AtFlags, CWD, Gid, Mode, OFlags, Uid};
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount, mount_bind, mount_change, mount_remount,
};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_child_subreaper, wait};
use serde::{Deserialize, Serialize};
use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
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

/// What the step reports, as JSON in a file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    pub end: Option<End>,
    /// From the start of the program to its end, without what the sandbox costs.
    pub seconds: f64,
    /// Why the program was not started.
    pub refused: Option<String>,
    /// The folders under an overlay, in the order of the numbered upper folders, as bytes.
    folders: Vec<Vec<u8>>,
    /// Folders whose direct files could not be written.
    uncovered: Vec<Vec<u8>>,
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

impl Report {
    /// The folders under an overlay.
    pub fn folders(&self) -> impl Iterator<Item = PathBuf> {
        self.folders.iter().map(|bytes| OsString::from_vec(bytes.clone()).into())
    }

    /// Whether files directly in this folder could not be written.
    pub fn is_uncovered(&self, folder: &Path) -> bool {
        self.uncovered.iter().any(|bytes| bytes == folder.as_os_str().as_bytes())
    }
}

/// Where shared memory is.
pub const SHARED_MEMORY: &str = "/dev/shm";

/// The names below the folder of a run.
pub fn upper_folder(run: &Path, number: usize) -> PathBuf {
    run.join("upper").join(number.to_string())
}
pub const REPORT: &str = "report";
/// Stands in the sandbox where the folder of the run stands outside: for the summary of `run`.
pub const INSIDE: &str = "inside";

/// Runs the step. The exit status says nothing about the program; the report does.
///
/// # Errors
/// Where not even the report can be written.
pub fn run(arguments: &SandboxStep) -> Result<u8, Failure> {
    let path = arguments.folder.join(REPORT);
    // Opened before anything is mounted over its folder.
    let mut file = File::create(&path)
        .map_err(|error| Failure::own(format!("{}: {error}", path.display())))?;
    let mut report = Report::default();
    let status = match attempt(arguments, &mut report) {
        Ok(()) => 0,
        Err(cause) => {
            report.refused = Some(cause);
            STATUS_REFUSED
        }
    };
    let text = serde_json::to_vec(&report).unwrap_or_default();
    file.write_all(&text).map_err(|error| Failure::own(format!("{}: {error}", path.display())))?;
    Ok(status)
}

fn attempt(arguments: &SandboxStep, report: &mut Report) -> Result<(), String> {
    if !arguments.in_place {
        enter(arguments, report)?;
    }
    let Some(name) = arguments.command.first() else { return Ok(()) };
    set_child_subreaper(Pid::from_raw(1)).map_err(|errno| said("look after processes", errno))?;
    let path = std::env::var_os("PATH");
    let program = resolve::find(name, path.as_deref())
        .map_err(|missing| resolve::failure(name, &missing).to_string())?;
    let environment: Vec<_> = std::env::vars_os().collect();
    let refused = |error| resolve::refused(name, &program, &error).to_string();
    let image = Image::new(&program, &arguments.command, &environment).map_err(refused)?;
    report.pids.0 = std::process::id();
    let started = Instant::now();
    let child = Child::start(&image).map_err(refused)?;
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

fn said(operation: &str, error: impl Into<std::io::Error>) -> String {
    format!("cannot {operation}: {}", error.into())
}

/// Namespaces, overlays, and back into the folder in which it was started.
fn enter(arguments: &SandboxStep, report: &mut Report) -> Result<(), String> {
    let here = std::env::current_dir().map_err(|error| said("find the current folder", error))?;
    let text = fs::read("/proc/self/mountinfo").map_err(|error| said("read mountinfo", error))?;
    let plan = mounts::plan(&mounts::read(&text), folders_in);
    if plan.overlays.len() > OVERLAYS_MAX {
        return Err(format!("{} folders would need an overlay each", plan.overlays.len()));
    }
    let tops = plan.overlays.iter().chain(
        // Of the others, those that an overlay would hide.
        arguments.top.iter().filter(|top| is_below(&plan.overlays, top)),
    );
    // Nobody can write what this user cannot even enter.
    let tops: Vec<Top> = tops
        .filter(|folder| may(folder, Access::EXEC_OK))
        .map(|folder| {
            Top::look(folder).map_err(|error| said(&format!("look at {}", folder.display()), error))
        })
        .collect::<Result<_, _>>()?;
    let memory = Top::look(Path::new(SHARED_MEMORY));
    enter_namespaces()?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|errno| said("keep mounts to itself", errno))?;
    // By descriptor from here on: the paths will soon lead to what lies in an overlay. Opened in
    // the new namespace: the kernel lays no overlay with folders of another one.
    let run = open_path(&arguments.folder)?;
    let shared = arguments.shared_folder.as_deref().map(open_path).transpose()?;
    // All are opened before the first overlay lies over any of them.
    let lowers =
        tops.iter().map(|top| open_path(&top.folder)).collect::<Result<Vec<_>, String>>()?;
    for (number, (top, lower)) in tops.iter().zip(&lowers).enumerate() {
        lay_overlay(Path::new(&path_of(&run)), number, top, lower)?;
        report.folders.push(top.folder.as_os_str().as_bytes().to_vec());
    }
    if let (Some(shared), Ok(memory)) = (shared, memory) {
        give_shared_memory(Path::new(&path_of(&shared)), &memory, report)?;
    }
    mount_bind(Path::new(&path_of(&run)).join(INSIDE), &arguments.folder)
        .map_err(|errno| said("show the folder of the run", errno))?;
    plan.closed.iter().try_for_each(close)?;
    std::env::set_current_dir(&here).map_err(|error| said("return to the folder", error))?;
    report.uncovered =
        plan.uncovered.into_iter().map(|folder| folder.into_os_string().into_vec()).collect();
    Ok(())
}

/// Whether one of the folders is strictly above it.
fn is_below(folders: &[PathBuf], folder: &Path) -> bool {
    folder.ancestors().skip(1).any(|above| folders.iter().any(|other| other == above))
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// A mount namespace of its own; where the right to that is missing, in a user namespace in which
/// everybody keeps the numbers that they have outside.
fn enter_namespaces() -> Result<(), String> {
    if unshare(CloneFlags::CLONE_NEWNS).is_ok() {
        return Ok(());
    }
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)
        .map_err(|errno| said("make a user namespace", errno))?;
    let write = |file: &str, text: &str| {
        let path = format!("/proc/self/{file}");
        fs::write(&path, text).map_err(|error| said(&format!("write {path}"), error))
    };
    // Root in a container may map everybody; anybody may map themselves.
    if uid == 0 && write("uid_map", "0 0 4294967295").is_ok() {
        return write("gid_map", "0 0 4294967295");
    }
    write("setgroups", "deny")?;
    write("uid_map", &format!("{uid} {uid} 1"))?;
    write("gid_map", &format!("{gid} {gid} 1"))
}

/// Lays one overlay; what is written lands below the folder `run`.
fn lay_overlay(run: &Path, number: usize, top: &Top, lower: &OwnedFd) -> Result<(), String> {
    let shown = top.folder.display();
    let (upper, work) = (upper_folder(run, number), run.join("work").join(number.to_string()));
    for path in [&upper, &work] {
        fs::create_dir_all(path)
            .map_err(|error| said(&format!("make {}", path.display()), error))?;
    }
    top.give_looks_to(&upper)?;
    // Volatile: else the whole disk is synchronised at the end of each overlay.
    // By descriptor: a path may hold commas and colons, which mean something in options.
    let options = format!(
        "lowerdir={},upperdir={},workdir={},userxattr,volatile",
        path_of(lower),
        upper.display(),
        work.display()
    );
    let options = CString::new(options).map_err(|error| error.to_string())?;
    mount("sweetspot", &top.folder, "overlay", MountFlags::empty(), options.as_c_str())
        .map_err(|errno| said(&format!("lay an overlay over {shown}"), errno))
}

/// Shared memory begins empty: what lies there belongs to processes outside.
fn give_shared_memory(run: &Path, memory: &Top, report: &mut Report) -> Result<(), String> {
    let upper = upper_folder(run, report.folders.len());
    let failed = |error| said(&format!("give shared memory in {SHARED_MEMORY}"), error);
    fs::create_dir_all(&upper).map_err(failed)?;
    memory.give_looks_to(&upper)?;
    mount_bind(&upper, SHARED_MEMORY).map_err(|errno| failed(errno.into()))?;
    report.folders.push(SHARED_MEMORY.into());
    Ok(())
}

/// A folder that is the top of an overlay, as it looks from outside of the namespaces.
struct Top {
    folder: PathBuf,
    owner: (u32, u32),
    is_ours: bool,
    mode: u32,
    /// The bits of an owner who may do what this user may do.
    allowed: u32,
}

impl Top {
    fn look(folder: &Path) -> std::io::Result<Top> {
        let data = fs::metadata(folder)?;
        let rights =
            [(Access::READ_OK, 0o400), (Access::WRITE_OK, 0o200), (Access::EXEC_OK, 0o100)];
        let allowed = rights.iter().filter(|(right, _)| may(folder, *right)).map(|(_, bit)| bit);
        Ok(Top {
            folder: folder.to_owned(),
            owner: (data.uid(), data.gid()),
            is_ours: data.uid() == rustix::process::geteuid().as_raw(),
            mode: data.mode() & 0o7777,
            allowed: allowed.sum(),
        })
    }

    /// Gives another folder its mode and owner. Where the owner cannot be given, the mode leaves
    /// this user what they may do in the real one, and no more.
    fn give_looks_to(&self, upper: &Path) -> Result<(), String> {
        let (uid, gid) = (Uid::from_raw(self.owner.0), Gid::from_raw(self.owner.1));
        let is_given = self.is_ours || rustix::fs::chown(upper, Some(uid), Some(gid)).is_ok();
        let mode = if is_given { self.mode } else { self.mode & !0o700 | self.allowed };
        fs::set_permissions(upper, fs::Permissions::from_mode(mode))
            .map_err(|error| said(&format!("prepare {}", upper.display()), error))
    }
}

fn may(folder: &Path, access: Access) -> bool {
    rustix::fs::accessat(CWD, folder, access, AtFlags::EACCESS).is_ok()
}

fn open_path(path: &Path) -> Result<OwnedFd, String> {
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| said(&format!("open {}", path.display()), errno))
}

fn path_of(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Lets a mount only be read from now on. What was forbidden there stays forbidden: in a user
/// namespace the kernel insists on it.
fn close(mount: &Mount) -> Result<(), String> {
    const KEPT: [(&str, MountFlags); 6] = [
        ("nosuid", MountFlags::NOSUID),
        ("nodev", MountFlags::NODEV),
        ("noexec", MountFlags::NOEXEC),
        ("noatime", MountFlags::NOATIME),
        ("nodiratime", MountFlags::NODIRATIME),
        ("relatime", MountFlags::RELATIME),
    ];
    let kept = KEPT.iter().filter(|(name, _)| mount.options.iter().any(|option| option == name));
    let flags = kept.fold(MountFlags::BIND | MountFlags::RDONLY, |all, (_, flag)| all | *flag);
    mount_remount(&mount.folder, flags, "")
        .map_err(|errno| said(&format!("close {} to writing", mount.folder.display()), errno))
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

/// The words that start a step, before the program.
pub fn words(executable: &Path, arguments: &SandboxStep) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![
        executable.into(),
        SandboxStep::NAME.into(),
        "--folder".into(),
        (&arguments.folder).into(),
    ];
    let shared = arguments.shared_folder.iter().map(|folder| ("--shared-folder", folder));
    for (name, folder) in shared.chain(arguments.top.iter().map(|top| ("--top", top))) {
        words.extend([name.into(), folder.into()]);
    }
    if arguments.in_place {
        words.push("--in-place".into());
    }
    words.push("--".into());
    words.extend(arguments.command.iter().cloned());
    words
}

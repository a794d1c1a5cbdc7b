//! Who a process is beyond its number, and which boot and namespace that number belongs to; which file a
//! path leads to.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sweetspot_core::ledger::PID_NAMESPACE_OF_MACHINE;

use crate::sys;

fn malformed(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{path} has an unknown form"))
}

/// What /proc/PID/stat says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    /// It has ended, and nobody has waited for it yet.
    pub is_zombie: bool,
    /// It has begun to end, or was killed and is about to.
    pub is_ending: bool,
    pub parent: u32,
    pub session: u32,
    /// Start time in clock ticks after boot.
    pub start_ticks: u64,
    /// Where its arguments lie in its memory: from, to. Zeros where the reader may not know.
    pub arguments: (usize, usize),
}

/// Reads /proc/PID/stat of a process of this pid namespace.
///
/// # Errors
/// Not found: there is no such process.
pub(crate) fn process_stat(pid: u32) -> io::Result<ProcessStat> {
    let path = format!("{pid}/stat");
    let text = sys::read_in_proc(&path)?;
    // The second field is the name in brackets, which may itself hold anything; the last bracket
    // ends it.
    let after_name = text.iter().rposition(|byte| *byte == b')').ok_or_else(|| malformed(&path))?;
    let rest = std::str::from_utf8(&text[after_name + 1..]).map_err(|_| malformed(&path))?;
    // Numbered as in proc(5): the state is field 3.
    let field = |index: usize| rest.split_ascii_whitespace().nth(index - 3);
    let number = |index: usize| field(index)?.parse::<u64>().ok();
    let id = |index: usize| number(index).map(|id| id as u32).ok_or_else(|| malformed(&path));
    Ok(ProcessStat {
        is_zombie: field(3) == Some("Z"),
        is_ending: number(9).is_some_and(|flags| flags & PF_EXITING != 0)
            || number(31).is_some_and(|pending| pending & SIGKILL_PENDING != 0),
        parent: id(4)?,
        session: id(6)?,
        start_ticks: number(22).ok_or_else(|| malformed(&path))?,
        arguments: (number(48).unwrap_or(0) as usize, number(49).unwrap_or(0) as usize),
    })
}

/// Flag of a process that has begun to end (the kernel's `PF_EXITING`).
const PF_EXITING: u64 = 0x4;
/// SIGKILL among the signals that a thread has not yet met: in that of every thread, once a process is to end by it.
const SIGKILL_PENDING: u64 = 1 << (libc::SIGKILL - 1);

/// Whether a process is traced by its forebears only, and by whom it names (`kernel.yama.ptrace_scope` 1).
pub(crate) fn names_its_tracer() -> bool {
    fs::read("/proc/sys/kernel/yama/ptrace_scope").is_ok_and(|text| text.trim_ascii() == b"1")
}

/// Inode of this process' pid namespace.
pub(crate) fn pid_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// Whether the next child of this process is the first one of a pid namespace (`unshare --pid` without `--fork`): when
/// it ends, there can be no others.
pub(crate) fn begins_a_pid_namespace() -> io::Result<bool> {
    let path = "/proc/self/ns/pid_for_children";
    let own = pid_namespace()?;
    // Where there is no process in it yet, the kernel has nothing to show. Before 4.12 it has no such file.
    Ok(fs::metadata(path)
        .map_or_else(|_| fs::symlink_metadata(path).is_ok(), |theirs| theirs.ino() != own))
}

/// Whether this process lives in a pid namespace other than that of the machine.
pub(crate) fn is_in_own_pid_namespace() -> io::Result<bool> {
    Ok(pid_namespace()? != PID_NAMESPACE_OF_MACHINE)
}

/// The identity of this boot, folded to 64 bits: asked once, and not for each ledger that lies there.
pub(crate) fn boot() -> io::Result<u64> {
    static BOOT: OnceLock<u64> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return Ok(*boot);
    }
    let path = "/proc/sys/kernel/random/boot_id";
    let text = fs::read_to_string(path)?;
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let number = u128::from_str_radix(&digits, 16).map_err(|_| malformed(path))?;
    Ok(*BOOT.get_or_init(|| (number >> 64) as u64 ^ number as u64))
}

/// What /proc says of a process' memory, by this name; where its first thread has ended, that of another one says
/// it. Nothing of a process that cannot be looked into.
pub(crate) fn said_of_memory(pid: u32, name: &str) -> Vec<u8> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let said = |folder: PathBuf| fs::read(folder.join(name)).ok().filter(|said| !said.is_empty());
    said(folder.clone())
        .or_else(|| {
            let threads = fs::read_dir(folder.join("task")).into_iter().flatten().flatten();
            threads.map(|thread| thread.path()).find_map(said)
        })
        .unwrap_or_default()
}

/// Whether a process is the user's who runs this one, whatever rights it has besides.
pub(crate) fn is_of_this_user(pid: u32) -> bool {
    let user = |process: &str| {
        let said = sys::read_in_proc(&format!("{process}/status")).ok()?;
        let said = String::from_utf8_lossy(&said).into_owned();
        let line = said.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        line.split_ascii_whitespace().next().map(str::to_owned)
    };
    user(&pid.to_string()).is_some_and(|theirs| user("self").is_some_and(|own| own == theirs))
}

/// Whether the process has the file mapped. A process that cannot be looked into has not.
pub(crate) fn maps_file(pid: u32, device: u64, inode: u64) -> bool {
    let maps = said_of_memory(pid, "maps");
    let maps = String::from_utf8_lossy(&maps);
    let device = format!("{:02x}:{:02x}", libc::major(device), libc::minor(device));
    let inode = inode.to_string();
    maps.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(3);
        fields.next() == Some(&device) && fields.next() == Some(&inode)
    })
}

/// Threads of this process.
pub(crate) fn thread_count() -> io::Result<u64> {
    // Two links are the folder's own.
    Ok(fs::metadata(Path::new("/proc/self/task"))?.nlink().saturating_sub(2))
}

/// Whether `path` still leads to `file`.
pub(crate) fn is_same_file(path: &Path, file: &File) -> bool {
    match (sys::status_at(path), sys::status(file)) {
        (Ok(there), Ok(here)) => (there.device, there.inode) == (here.device, here.inode),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known() {
        let stat = process_stat(std::process::id()).unwrap();
        assert!(stat.start_ticks > 0);
        assert!(stat.arguments.0 < stat.arguments.1);
        assert_ne!(boot().unwrap(), 0);
        assert_ne!(pid_namespace().unwrap(), 0);
        assert!(thread_count().unwrap() >= 2, "the test harness has a thread for each test");
        assert_eq!(process_stat(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
        let own = crate::sys::status_at(&fs::read_link("/proc/self/exe").unwrap()).unwrap();
        assert!(maps_file(std::process::id(), own.device, own.inode));
        assert!(!maps_file(std::process::id(), own.device, own.inode + 1));
    }
}

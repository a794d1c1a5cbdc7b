//! Leaves the namespaces of the caller: what is mounted from then on, and what is said to the kernel by System V
//! messages, stays within the run.

use super::said;
use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountPropagationFlags, mount_change};
use std::fs;

/// From here on what is mounted is seen by this process and its children alone.
pub fn enter() -> Result<(), String> {
    enter_namespaces()?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|errno| said("keep mounts to itself", errno))
}

/// Namespaces of its own for mounts, for System V and POSIX messages, and for the machine's name; where
/// the right to that is missing, in a user namespace in which everybody keeps the numbers that they have
/// outside.
fn enter_namespaces() -> Result<(), String> {
    // Segments, semaphores and queues of a run go with it.
    let own = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    if unshare(own).is_ok() {
        return Ok(());
    }
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | own)
        .map_err(|errno| said("make a user namespace", errno))?;
    let write = |file: &str, text: &str| {
        let path = format!("/proc/self/{file}");
        fs::write(&path, text).map_err(|error| said(&format!("write {path}"), error))
    };
    write("setgroups", "deny")?;
    write("uid_map", &format!("{uid} {uid} 1"))?;
    write("gid_map", &format!("{gid} {gid} 1"))
}

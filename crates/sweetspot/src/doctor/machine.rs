//! The kernel, shared memory, the sandbox, folders, and what was left behind.

use crate::home;
use crate::preload::FOLDER_OF_ROOT;
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::{PidfdFlags, geteuid, getpid, pidfd_open};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use sweetspot_core::environment::CACHE;
use sweetspot_core::ledger::FOLDER as SHARED_MEMORY;
use sweetspot_guard::own_folder;
use sweetspot_guard::process::with_size_errors;
use sweetspot_guard::recover::{Mode, recover, saved_apart, stale_ledgers};
use sweetspot_guard::{Error, ErrorKind};
use sweetspot_lab::{cache, environment::Environment};
use sweetspot_report::doctor::{Finding, Part};
use sweetspot_report::numbers;
use sweetspot_report::shell::quoted;
use sweetspot_report::shown::shown;
use sweetspot_sandbox::{Isolation, Refused, Sandbox, Wanted};

/// Docker's default. What waits takes at most half of what is free there.
const SHARED_BYTES_MIN: u64 = 64 << 20;
/// A file that is dropped from the page cache, to see whether that works.
const CACHED_BYTES: usize = 1 << 20;

/// What else than the trial `run` rests on.
pub fn for_run() -> Vec<Finding> {
    vec![shared_memory(), pidfd(), left_behind()]
}

/// What `tune`, `bench` and `verify` need.
pub fn for_experiments(environment: &Environment) -> Vec<Finding> {
    let part = Part::Experiments;
    let quiet = match environment.hindrance() {
        None => {
            Finding::ok(part, "quiet memory", "the host does not take small blocks of memory back")
        }
        Some(hindrance) => {
            Finding::lacks(part, "quiet memory", hindrance.cause).mend(as_root(&hindrance.command))
        }
    };
    let folders = [
        ("answers", home::config()),
        ("runs", home::costs().into_iter().find(|folder| own_folder::is_over(folder))),
    ];
    let kept = folders.map(|(name, folder)| writable(name, folder));
    [sandbox(), cold_cache(), cachestat(), quiet].into_iter().chain(kept).collect()
}

/// The version of the system's C library, which the trial has just used.
pub fn c_library(is_reached: bool) -> Finding {
    let asked = Command::new("getconf").arg("GNU_LIBC_VERSION").stderr(Stdio::null()).output();
    let version = asked.ok().filter(|output| output.status.success());
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match (version, is_reached) {
        (Some(version), true) => {
            Finding::ok(Part::Run, "C library", format!("{version}, supported"))
        }
        (Some(version), false) => {
            let says = format!("{version}; nothing was buffered under it, for the reason above");
            Finding::lacks(Part::Run, "C library", says)
        }
        (None, _) => {
            Finding::lacks(Part::Run, "C library", "no glibc: getconf names no version of it")
        }
    }
}

fn shared_memory() -> Finding {
    let part = Part::Run;
    let lacks = |says: String| Finding::lacks(part, SHARED_MEMORY, says);
    let mount = format!("mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs {SHARED_MEMORY}");
    let room = match statvfs(SHARED_MEMORY) {
        Ok(room) => room,
        Err(error) => {
            return lacks(format!("{error}: writes are not buffered")).mend(as_root(&mount));
        }
    };
    if let Err(error) = tempfile::tempfile_in(SHARED_MEMORY) {
        let mend = match room.f_flag.contains(StatVfsMountFlags::RDONLY) {
            true => format!("mount -o remount,rw {SHARED_MEMORY}"),
            false => format!("chmod 1777 {SHARED_MEMORY}"),
        };
        return lacks(format!("{error}: writes are not buffered")).mend(as_root(&mend));
    }
    let (size, free) = (room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize);
    let says = format!("{}, {} free", numbers::bytes(size), numbers::bytes(free));
    match free < SHARED_BYTES_MIN / 2 {
        false => Finding::ok(part, SHARED_MEMORY, says),
        true => lacks(format!("{says}: too little for many files"))
            .mend(as_root(&format!("mount -o remount,size=1G {SHARED_MEMORY}"))),
    }
}

/// By it the guard learns of deaths.
fn pidfd() -> Finding {
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => Finding::ok(Part::Run, "pidfd", "the guard notices at once when a program dies"),
        Err(error) => {
            let says =
                format!("{error}: there is no guard, so writes are not buffered (needs Linux 5.3)");
            Finding::lacks(Part::Run, "pidfd", says)
        }
    }
}

fn left_behind() -> Finding {
    let part = Part::Run;
    let ledgers = stale_ledgers(geteuid().as_raw());
    let looked: Vec<_> = ledgers.iter().map(|ledger| recover(ledger, Mode::List)).collect();
    let is_of_another = |error: &&Error| error.kind == ErrorKind::OtherVersion;
    if let Some(error) =
        looked.iter().filter_map(|looked| looked.as_ref().err()).find(is_of_another)
    {
        return Finding::lacks(part, "left behind", error.to_string());
    }
    let pieces = looked.iter().flatten().flatten();
    let (count, bytes) =
        pieces.fold((0, 0), |(count, bytes), piece| (count + 1, bytes + piece.bytes));
    match count {
        0 => Finding::ok(part, "left behind", "nothing is pending from killed programs"),
        _ => {
            let says = format!(
                "{} in {}, from killed programs",
                numbers::bytes(bytes),
                if count == 1 { "1 part".to_owned() } else { format!("{count} parts") }
            );
            Finding::lacks(part, "left behind", says).mend("sweetspot recover".to_owned())
        }
    }
}

fn sandbox() -> Finding {
    let part = Part::Experiments;
    match Sandbox::new(&Wanted {
        isolation: Isolation::Overlays,
        command: &["true".into()],
        folder: None,
        notes: home::notes(),
        costs: home::states(),
    }) {
        Ok(_) => Finding::ok(part, "sandbox", "namespaces and overlays, tried in this folder"),
        Err(Refused::NoScratch(cause)) => {
            let mend = "name a folder with free space: TMPDIR=DIR sweetspot doctor".to_owned();
            Finding::lacks(part, "sandbox", cause).mend(mend)
        }
        Err(Refused::NotHere(cause)) => Finding::lacks(part, "sandbox", cause).mend(mend_sandbox()),
    }
}

/// The switch that keeps users from making namespaces, or the way without any.
fn mend_sandbox() -> String {
    let switches = [
        ("user.max_user_namespaces", "0", "15000"),
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ];
    let closed = switches.into_iter().find(|(name, closed, _)| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        fs::read_to_string(path).is_ok_and(|text| text.trim() == *closed)
    });
    match closed {
        Some((name, _, open)) => as_root(&format!("sysctl {name}={open}")),
        None => "do without: sweetspot verify --in-place, sweetspot tune --prepare CMD".to_owned(),
    }
}

fn cold_cache() -> Finding {
    let part = Part::Experiments;
    let tried = || -> Result<PathBuf, String> {
        let here = std::env::current_dir().map_err(|error| error.to_string())?;
        let file = tempfile::NamedTempFile::new_in(&here).map_err(|error| error.to_string())?;
        with_size_errors(|| fs::write(file.path(), vec![1; CACHED_BYTES]))
            .map_err(|error| error.to_string())?;
        let inputs = [file.path().to_owned()];
        cache::bring(cache::State::Cold, &inputs).map_err(|error| error.to_string())?;
        Ok(here)
    };
    match tried() {
        Ok(_) => Finding::ok(
            part,
            "cold cache",
            "files in this folder can be dropped from the page cache",
        ),
        Err(cause) => {
            let mend =
                "measure in a folder of yours on a disk: sweetspot bench --dir DIR".to_owned();
            Finding::lacks(part, "cold cache", cause).mend(mend)
        }
    }
}

fn cachestat() -> Finding {
    let part = Part::Experiments;
    match cache::has_cachestat() {
        true => {
            Finding::ok(part, "cachestat", "shows what is in the page cache without mapping files")
        }
        false => {
            let says =
                "not in this kernel (needs Linux 6.5); mincore is used instead, which is slower";
            Finding::lacks(part, "cachestat", says)
        }
    }
}

/// Whether something can be kept in a folder, which need not be there yet.
fn writable(name: &'static str, folder: Option<PathBuf>) -> Finding {
    let part = Part::Experiments;
    let Some(folder) = folder else {
        let mend = "name one: export HOME=DIR".to_owned();
        return Finding::lacks(part, name, "there is no home folder to keep them in").mend(mend);
    };
    let shown = shown(&folder);
    let there = folder.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    match tempfile::tempfile_in(there) {
        Ok(_) => Finding::ok(part, name, format!("kept in {shown}")),
        Err(error) => {
            let mend = format!("sudo chown -R \"$(id -u)\" {}", quoted(there));
            Finding::lacks(part, name, format!("nothing can be kept in {shown}: {error}"))
                .mend(mend)
        }
    }
}

/// What lies there, so that who uninstalls can take it away.
pub fn yours() -> Vec<Finding> {
    let named = std::env::var_os(CACHE).map(PathBuf::from);
    let of_root = geteuid().is_root().then(|| PathBuf::from(FOLDER_OF_ROOT));
    let called = |name: &'static str| move |folder: PathBuf| (name, folder);
    let all = [named, home::cache(), of_root].into_iter().flatten().map(called("cache"));
    let all = all.chain(home::config().map(called("config")));
    let mut folders: Vec<(&'static str, PathBuf)> = all
        .chain(home::states().into_iter().map(called("state")))
        .filter(|(_, folder)| folder.is_dir())
        .collect();
    folders.dedup_by(|(_, next), (_, folder)| next == folder);
    let saved = saved_apart();
    let says = |folder: &Path| {
        let size = numbers::bytes(bytes(folder));
        match saved.iter().any(|saved| saved.starts_with(folder)) {
            true => format!("{size}, with bytes of a program: sweetspot recover --list"),
            false => format!("{size}; to remove it: rm -rf {}", quoted(folder)),
        }
    };
    let found = |(name, folder): (_, PathBuf)| Finding::ok(Part::Yours, name, says(&folder));
    folders.into_iter().map(found).collect()
}

fn bytes(folder: &Path) -> u64 {
    let mut left = vec![folder.to_owned()];
    let mut sum = 0;
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(data) if data.is_dir() => left.push(entry.path()),
                Ok(data) => sum += data.len(),
                Err(_) => {}
            }
        }
    }
    sum
}

fn as_root(command: &str) -> String {
    match (geteuid().is_root(), command.contains('>')) {
        (true, _) => command.to_owned(),
        (false, false) => format!("sudo {command}"),
        (false, true) => format!("sudo sh -c {}", quoted(command)),
    }
}

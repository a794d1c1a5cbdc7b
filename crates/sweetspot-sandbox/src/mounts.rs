//! Which folders get an overlay, so that whatever a program writes lands elsewhere.
//!
//! An overlay can lie over a folder only if nothing is mounted below it. So each file system is
//! covered by one overlay if it can be, and otherwise folder by folder around the mount points; the
//! files that lie directly in a folder on the way are then closed to writing.
//!
//! Invariant: after `plan` is carried out every path on storage either lies below an overlay or can
//! only be read. So can the kernel's settings ([`SETTINGS`]) and the kernel's file systems where they
//! are mounted elsewhere (huge pages with somebody's files, `/proc` in the root of a container). The
//! rest of these (`/proc`, `/dev` with all that is below them) is left as it is; `step` gives each run
//! shared memory of its own.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// File systems over which no overlay can lie.
const OF_THE_KERNEL: &[&str] = &[
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];
/// Folders that belong to the kernel whatever is mounted on them: in containers `/dev` is a tmpfs.
const FOLDERS_OF_THE_KERNEL: &[&str] = &["/proc", "/sys", "/dev"];
/// What changes the machine when it is written: what containers, too, let be read only.
pub const SETTINGS: [&str; 6] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/sys"];
/// More overlays than this are not tried: each costs a mount at every run.
pub const OVERLAYS_MAX: usize = 500;

/// One mount that can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub folder: PathBuf,
    pub file_system: String,
    /// Options of the mount and of its file system, such as `ro` and `nosuid`.
    pub options: Vec<String>,
}

impl Mount {
    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }

    /// Whether a program could change there what is not its own, and no overlay could catch it:
    /// settings of the kernel, and whatever else a file system of the kernel's keeps. (Looking at an
    /// autofs would mount something, and it keeps nothing.)
    pub fn is_to_be_closed(&self) -> bool {
        let holds_settings = SETTINGS.iter().any(|folder| self.folder.starts_with(folder));
        self.file_system != "autofs"
            && !self.has("ro")
            && (holds_settings || self.is_of_the_kernel() && !self.is_in_the_kernels_folders())
    }

    fn holds_files(&self) -> bool {
        !self.is_of_the_kernel() && !self.is_in_the_kernels_folders()
    }

    fn is_of_the_kernel(&self) -> bool {
        OF_THE_KERNEL.contains(&self.file_system.as_str())
    }

    fn is_in_the_kernels_folders(&self) -> bool {
        FOLDERS_OF_THE_KERNEL.iter().any(|folder| self.folder.starts_with(folder))
    }
}

/// What is to be done, in this order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Folders that get an overlay each.
    pub overlays: Vec<PathBuf>,
    /// Mounts that can only be read afterwards, but for the overlays on them.
    pub closed: Vec<Mount>,
    /// Folders whose direct files cannot be written.
    pub uncovered: Vec<PathBuf>,
}

/// Reads `/proc/self/mountinfo`; mounts that are hidden by others are left out.
pub fn read(text: &[u8]) -> Vec<Mount> {
    let lines: Vec<Line> = text.split(|&byte| byte == b'\n').filter_map(read_line).collect();
    // The first mount of all names itself (what a machine that runs from its initial RAM disk has as its root).
    let is_root = |line: &&Line| {
        line.parent == line.number || lines.iter().all(|other| other.number != line.parent)
    };
    let mut left: Vec<&Line> = lines.iter().filter(is_root).collect();
    let mut mounts = Vec::new();
    while let Some(line) = left.pop() {
        let is_on_it = |other: &&Line| other.parent == line.number && other.number != line.number;
        let on_it: Vec<&Line> = lines.iter().filter(is_on_it).collect();
        let is_hidden = |line: &&Line| {
            let folder = &line.mount.folder;
            on_it.iter().any(|other| {
                other.number != line.number
                    && folder != &other.mount.folder
                    && folder.starts_with(&other.mount.folder)
            })
        };
        // Mounted on the same folder again: that one is seen, and what is on it.
        match on_it.iter().find(|other| other.mount.folder == line.mount.folder) {
            Some(above) => left.push(above),
            None => {
                left.extend(on_it.iter().copied().filter(|line| !is_hidden(line)));
                mounts.push(line.mount.clone());
            }
        }
    }
    mounts
}

/// One line: a mount, and the mount on which it lies.
struct Line {
    number: Vec<u8>,
    parent: Vec<u8>,
    mount: Mount,
}

fn read_line(line: &[u8]) -> Option<Line> {
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    // number parent device root FOLDER OPTIONS [tag ...] - FILE-SYSTEM source OPTIONS
    let dash = 6 + words.get(6..)?.iter().position(|word| *word == b"-")?;
    let text = |at: usize| words.get(at).map(|word| String::from_utf8_lossy(word).into_owned());
    let options = [text(5)?, text(dash + 3)?].join(",");
    let mount = Mount {
        folder: PathBuf::from(OsString::from_vec(unescape(words[4]))),
        file_system: text(dash + 1)?,
        options: options.split(',').map(str::to_owned).collect(),
    };
    Some(Line { number: words[0].to_vec(), parent: words[1].to_vec(), mount })
}

/// Undoes `\040` and the like.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, after)) = rest.split_first() {
        let octal = || {
            let digits = std::str::from_utf8(after.get(..3)?).ok()?;
            u8::from_str_radix(digits, 8).ok()
        };
        match (first == b'\\').then(octal).flatten() {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

/// Decides for every mount. `folders_in` lists the folders in a folder, without links.
pub fn plan(mounts: &[Mount], folders_in: impl Fn(&Path) -> Vec<PathBuf>) -> Plan {
    let mut plan = Plan::default();
    for mount in mounts.iter().filter(|mount| mount.holds_files() && !mount.has("ro")) {
        let mut left = vec![mount.folder.clone()];
        let mut is_split = false;
        while let Some(folder) = left.pop() {
            let is_below =
                |other: &Mount| other.folder != folder && other.folder.starts_with(&folder);
            if !mounts.iter().any(is_below) {
                plan.overlays.push(folder);
                continue;
            }
            is_split = true;
            let mut inside = folders_in(&folder);
            inside.retain(|child| !mounts.iter().any(|other| other.folder == *child));
            left.extend(inside);
            plan.uncovered.push(folder);
        }
        if is_split {
            plan.closed.push(mount.clone());
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 27 0:21 / /proc rw - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
24 27 0:6 / /dev rw,nosuid - tmpfs tmpfs rw
25 24 0:23 / /dev/shm rw shared:3 - tmpfs tmpfs rw
26 25 0:24 / /dev/shm rw shared:4 - ramfs ramfs rw
40 27 0:40 / /home/ann/my\\040disk rw,nosuid,nodev shared:9 - fuse.sshfs x rw
41 27 0:41 / /opt/sealed ro - squashfs x ro
42 27 0:42 / /hidden/below rw - tmpfs x rw
43 27 0:43 / /hidden rw - tmpfs x rw
";

    #[test]
    fn mounts_are_read() {
        let mut mounts = read(MOUNTS.as_bytes());
        mounts.sort_by(|left, right| left.folder.cmp(&right.folder));
        let found: Vec<_> = mounts
            .iter()
            .map(|mount| (mount.folder.to_str().unwrap(), mount.file_system.as_str()))
            .collect();
        let expected = [
            ("/", "ext4"),
            ("/dev", "tmpfs"),
            ("/dev/shm", "ramfs"),
            ("/hidden", "tmpfs"),
            ("/home/ann/my disk", "fuse.sshfs"),
            ("/opt/sealed", "squashfs"),
            ("/proc", "proc"),
        ];
        assert_eq!(found, expected);
        assert!(mounts[4].has("nodev") && mounts[5].has("ro") && !mounts[4].has("ro"));
    }

    #[test]
    fn the_first_mount_of_all_is_one_too() {
        let text = b"1 1 0:2 / / rw - rootfs rootfs rw\n20 1 0:21 / /proc rw - proc proc rw\n";
        let mounts = read(text);
        let folders: Vec<_> = mounts.iter().map(|mount| mount.folder.to_str().unwrap()).collect();
        assert_eq!(folders, ["/", "/proc"]);
        let plan = plan(&mounts, |_| vec!["/data".into(), "/proc".into()]);
        assert_eq!((plan.overlays, plan.closed.len()), (vec![PathBuf::from("/data")], 1));
    }

    #[test]
    fn what_no_overlay_covers_is_closed() {
        let mount = |folder: &str, file_system: &str, options: &str| Mount {
            folder: folder.into(),
            file_system: file_system.to_owned(),
            options: vec![options.to_owned()],
        };
        for (folder, file_system, options, expected) in [
            ("/sys", "sysfs", "rw", true),
            ("/sys/fs/cgroup/cpu", "cgroup", "rw", true),
            ("/proc/sys", "proc", "rw", true),
            ("/proc/sys/fs/binfmt_misc", "autofs", "rw", false),
            ("/proc/sys", "proc", "ro", false),
            ("/proc", "proc", "rw", false),
            ("/system", "ext4", "rw", false),
            ("/mnt/huge", "hugetlbfs", "rw", true),
            ("/srv/root/proc", "proc", "rw", true),
            ("/srv/root/proc", "proc", "ro", false),
            ("/srv/root/dev", "devtmpfs", "rw", true),
            ("/dev/hugepages", "hugetlbfs", "rw", false),
            ("/net", "autofs", "rw", false),
        ] {
            let found = mount(folder, file_system, options).is_to_be_closed();
            assert_eq!(found, expected, "{folder} {file_system} {options}");
        }
    }

    #[test]
    fn every_folder_is_covered_or_closed() {
        let mounts = read(MOUNTS.as_bytes());
        let folders_in = |folder: &Path| -> Vec<PathBuf> {
            let names: &[&str] = match folder.to_str().unwrap() {
                "/" => &["/home", "/opt", "/usr", "/dev", "/proc", "/hidden"],
                "/home" => &["/home/ann", "/home/bob"],
                "/home/ann" => &["/home/ann/my disk", "/home/ann/jobs"],
                "/opt" => &["/opt/sealed"],
                other => panic!("{other} need not be listed"),
            };
            names.iter().map(PathBuf::from).collect()
        };
        let plan = plan(&mounts, folders_in);
        let mut overlays = plan.overlays;
        overlays.sort();
        let expected = ["/hidden", "/home/ann/jobs", "/home/ann/my disk", "/home/bob", "/usr"];
        assert_eq!(overlays, expected.map(PathBuf::from));
        let mut uncovered = plan.uncovered;
        uncovered.sort();
        assert_eq!(uncovered, ["/", "/home", "/home/ann", "/opt"].map(PathBuf::from));
        assert_eq!(plan.closed.len(), 1);
        assert_eq!(plan.closed[0].folder, Path::new("/"));
    }
}

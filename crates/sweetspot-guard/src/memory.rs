//! How much memory is left: on the machine, and in the control groups that this process is in.
//!
//! A control group of either version counts, and every group above it as far as it can be seen; in a
//! container only its own can. What a group has in its page cache and has not used of late is free:
//! the kernel takes it back before it kills.

use std::path::{Path, PathBuf};

/// What the machine has available, in bytes.
pub(crate) fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.saturating_mul(1024))
}

/// What the control groups of this process may still take, in bytes; none where there is no limit.
pub(crate) fn group_free_bytes() -> Option<u64> {
    group_free_bytes_in(Path::new("/"))
}

/// The same where `/proc` and `/sys` are in another folder.
fn group_free_bytes_in(root: &Path) -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let (mounts, groups) = (read("proc/self/mountinfo"), read("proc/self/cgroup"));
    let mounts = mounts.lines().filter_map(Mount::of);
    let free = mounts.filter_map(|mount| {
        let own = groups.lines().find_map(|line| mount.version.own_group(line))?;
        let top = root.join(mount.point.strip_prefix("/").ok()?);
        // Of a group outside of what is mounted, the top of the mount is all that can be seen.
        let below = Path::new(own).strip_prefix(&mount.root).unwrap_or(Path::new(""));
        let folders = below.ancestors().map(|group| top.join(group));
        folders.filter_map(|folder| mount.version.free_bytes(&folder)).min()
    });
    free.min()
}

/// Version 1 says the largest number where there is no limit; to read all figures takes its time then.
const NO_LIMIT: u64 = 1 << 60;

/// How a hierarchy of groups says what it allows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A mounted hierarchy that counts memory.
struct Mount {
    version: Version,
    /// The group that is mounted.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// A line of `mountinfo`: `36 35 98:0 ROOT POINT OPTIONS [FIELDS] - TYPE SOURCE OPTIONS`.
    fn of(line: &str) -> Option<Mount> {
        let (mounted, system) = line.split_once(" - ")?;
        let mut mounted = mounted.split(' ').skip(3);
        // Blanks in names are written as numbers.
        let mut path = || Some(PathBuf::from(mounted.next()?.replace("\\040", " ")));
        let (root, point) = (path()?, path()?);
        let mut system = system.split(' ');
        let version = match (system.next()?, system.nth(1)?) {
            ("cgroup2", _) => Version::Two,
            ("cgroup", options) if options.split(',').any(|word| word == "memory") => Version::One,
            _ => return None,
        };
        Some(Mount { version, root, point })
    }
}

impl Version {
    /// The path in a line of `/proc/self/cgroup`, `ID:CONTROLLERS:PATH`, if it is of this hierarchy.
    fn own_group(self, line: &str) -> Option<&str> {
        let (id, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_it = match self {
            Version::One => controllers.split(',').any(|name| name == "memory"),
            Version::Two => id == "0" && controllers.is_empty(),
        };
        is_it.then_some(path)
    }

    /// What the group in a folder may still take; none where it has no limit.
    fn free_bytes(self, folder: &Path) -> Option<u64> {
        let number = |name: &str| -> Option<u64> {
            let text = std::fs::read_to_string(folder.join(name)).ok()?;
            text.trim().parse().ok().filter(|number| *number < NO_LIMIT)
        };
        let (limits, used, unused): (&[&str], _, _) = match self {
            Version::One => {
                (&["memory.limit_in_bytes"], "memory.usage_in_bytes", "total_inactive_file ")
            }
            // Beyond `high` it is not killed, but slowed down so that it hardly goes on.
            Version::Two => (&["memory.max", "memory.high"], "memory.current", "inactive_file "),
        };
        let limit = limits.iter().filter_map(|name| number(name)).min()?;
        let stat = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let unused = stat.lines().find_map(|line| line.strip_prefix(unused)?.trim().parse().ok());
        let used = number(used)?.saturating_sub(unused.unwrap_or(0));
        Some(limit.saturating_sub(used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const DOCKER: &str =
        "35 31 0:32 /docker/c0ffee /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";

    /// What is left with these mounts, groups and files below `/sys/fs/cgroup`.
    fn free(mounts: &str, groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        let write = |path: String, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/self/mountinfo".to_owned(), mounts);
        write("proc/self/cgroup".to_owned(), groups);
        files.iter().for_each(|(name, text)| write(format!("sys/fs/cgroup/{name}"), text));
        group_free_bytes_in(root.path())
    }

    #[test]
    fn limits_of_every_group_count_in_both_versions() {
        let used = ("job/step/memory.current", "300\n");
        let check = |files: &[(&str, &str)], expected| {
            assert_eq!(free(UNIFIED, "0::/job/step\n", files), expected, "{files:?}");
        };
        check(&[], None);
        check(&[used, ("job/step/memory.max", "max\n")], None);
        check(&[used, ("job/step/memory.max", "1000\n")], Some(700));
        check(&[used, ("job/step/memory.max", "200\n")], Some(0));
        check(
            &[used, ("job/step/memory.max", "max\n"), ("job/step/memory.high", "400\n")],
            Some(100),
        );
        let above = [("job/memory.max", "2000\n"), ("job/memory.current", "1950\n")];
        check(&[used, ("job/step/memory.max", "1000\n"), above[0], above[1]], Some(50));
        let cache = ("job/step/memory.stat", "anon 1\ninactive_file 250\nactive_file 9\n");
        check(&[used, ("job/step/memory.max", "1000\n"), cache], Some(950));

        let one = [
            ("memory/job/memory.limit_in_bytes", "1000\n"),
            ("memory/job/memory.usage_in_bytes", "400\n"),
        ];
        let groups = "4:memory:/job/step\n1:cpu,cpuacct:/\n0::/\n";
        assert_eq!(free(HYBRID, groups, &one), Some(600), "a group above");
        let cache = ("memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n");
        assert_eq!(free(HYBRID, groups, &[one[0], one[1], cache]), Some(700));
        let two = [("unified/memory.max", "500\n"), ("unified/memory.current", "1\n")];
        assert_eq!(free(HYBRID, groups, &[one[0], one[1], two[0], two[1]]), Some(499));
        let together = groups.replace("memory", "hugetlb,memory");
        assert_eq!(free(HYBRID, &together, &one), Some(600), "controllers that share a hierarchy");
    }

    #[test]
    fn containers_see_their_own_group() {
        let files =
            [("memory/memory.limit_in_bytes", "1000"), ("memory/memory.usage_in_bytes", "1")];
        // With the host's name of it, with a namespace of its own, and from outside of it.
        for group in ["/docker/c0ffee", "/", "/../other"] {
            let groups = format!("4:memory:{group}\n");
            assert_eq!(free(DOCKER, &groups, &files), Some(999), "{group}");
        }
        assert_eq!(free(DOCKER, "4:memory:/docker/c0ffee/below\n", &files), Some(999));
        assert_eq!(free("", "", &files), None);
    }
}

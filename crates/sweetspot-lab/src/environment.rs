//! What a record says about the machine it was made on: enough to judge a figure by, and nothing
//! that tells whose machine it is (no host name, no user name, no path, no address).

use crate::Error;
use jiff::{Timestamp, tz::TimeZone};
use rustix::system::uname;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap, fmt, fs, os::linux::fs::MetadataExt, path::Path, process::Command,
};

/// The machine and what matters of its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The day, in UTC: `2026-11-21`.
    pub date: String,
    /// The kernel's release: `6.18.44`.
    pub kernel: String,
    /// The architecture: `x86_64`.
    pub architecture: String,
    /// The distribution: `Debian GNU/Linux 12 (bookworm)`.
    pub distribution: Option<String>,
    /// The processor's model name.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Whether this is a virtual machine (there, the host has a cache of its own).
    pub virtual_machine: bool,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The frequency governor of the first processor, where it can be read.
    pub governor: Option<String>,
    /// Whether transparent huge pages are in use: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// The host takes free memory back in blocks of at least that size, where it does.
    pub reported_bytes: Option<u64>,
    /// The file system of the folder that the data is in.
    pub file_system: FileSystem,
    /// What each program says of its version.
    pub versions: BTreeMap<String, String>,
}

/// The file system that a folder is on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystem {
    /// Its type: `ext4`.
    pub kind: String,
    /// Its mount options, without those that hold a path, an address or a name.
    pub options: Vec<String>,
}

/// What makes times scatter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hindrance {
    /// In the user's words.
    pub cause: String,
    /// What ends it until the next boot; only root may.
    pub command: String,
}

impl fmt::Display for Hindrance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hindrance { cause, command } = self;
        write!(
            formatter,
            "{cause}; for quieter figures, as root and until the next boot: {command}"
        )
    }
}

impl Environment {
    /// Looks at this machine, at the file system of `folder`, and at the versions of `programs`
    /// (each the command that prints it, such as `["gcc", "--version"]`; what is not there is
    /// left out).
    pub fn of(folder: &Path, programs: &[&[&str]]) -> Result<Self, Error> {
        let cpuinfo = read("/proc/cpuinfo")?;
        let uname = uname();
        let architecture = uname.machine().to_string_lossy().into_owned();
        Ok(Environment {
            date: Timestamp::now().to_zoned(TimeZone::UTC).date().to_string(),
            kernel: uname.release().to_string_lossy().into_owned(),
            distribution: read("/etc/os-release").ok().and_then(|text| distribution(&text)),
            processor: processor(&cpuinfo).unwrap_or_else(|| architecture.clone()),
            architecture,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            virtual_machine: is_virtual(&cpuinfo),
            memory_bytes: memory_bytes(&read("/proc/meminfo")?),
            governor: line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            huge_pages: line_of("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| bracketed(&text)),
            reported_bytes: line_of(REPORTING).and_then(|order| reported_bytes(&order)),
            file_system: file_system(folder)?,
            versions: programs.iter().filter_map(|command| version(command)).collect(),
        })
    }

    /// What makes times of programs that write scatter here, and what to do about it.
    ///
    /// The pages of a file that is written anew are made in blocks of up to the size of the write.
    /// Blocks that the host has taken back are given again page by page, at the first touch: writes
    /// of 128 KiB took up to ten times as long as ones of 64 KiB where the least such block was
    /// 128 KiB, and no longer where it was 4 MiB.
    pub fn hindrance(&self) -> Option<Hindrance> {
        let bytes = self.reported_bytes.filter(|bytes| *bytes <= BUFFER_BYTES_USUAL)?;
        Some(Hindrance {
            cause: format!(
                "the host takes free memory back in blocks of {} KiB, so writes of that size and \
                 larger take several times as long now and then",
                bytes >> 10
            ),
            command: format!("echo {ORDER_MAX} > {REPORTING}"),
        })
    }

    /// A name for the kind of machine, for a folder: `amd-epyc-2core`.
    pub fn machine(&self) -> String {
        let mut name = String::new();
        // "Intel(R) Core(TM) i7-8700K CPU @ 3.70GHz" -> "intel-core-i7-8700k"
        let plain = self.processor.replace("(R)", " ").replace("(TM)", " ");
        let plain = plain.split('@').next().unwrap_or_default();
        for word in plain.split(|c: char| !c.is_ascii_alphanumeric()) {
            if !word.is_empty() && !["CPU", "Processor"].contains(&word) {
                name.push_str(&word.to_ascii_lowercase());
                name.push('-');
            }
        }
        format!("{name}{}core", self.processors)
    }
}

/// The least block of free memory that is reported to the host, as the power of two of its pages.
const REPORTING: &str = "/sys/module/page_reporting/parameters/page_reporting_order";
/// The largest there is: 4 MiB of pages of 4 KiB. Where nobody asks for reports the order is larger.
const ORDER_MAX: u32 = 10;
/// Few buffers are larger.
const BUFFER_BYTES_USUAL: u64 = 1 << 20;

fn reported_bytes(order: &str) -> Option<u64> {
    let order = order.parse::<u32>().ok().filter(|order| *order <= ORDER_MAX)?;
    Some((rustix::param::page_size() as u64) << order)
}

fn read(path: &str) -> Result<String, Error> {
    fs::read_to_string(path).map_err(Error::system("read", path))
}

fn line_of(path: &str) -> Option<String> {
    read(path).ok().map(|text| text.trim().to_owned())
}

/// The value after the colon of the first line that starts with `key`.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
}

fn processor(cpuinfo: &str) -> Option<String> {
    // x86 has a model name; ARM has numbers only, and then the architecture has to do.
    value(cpuinfo, "model name").map(str::to_owned)
}

fn is_virtual(cpuinfo: &str) -> bool {
    value(cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"))
}

fn memory_bytes(meminfo: &str) -> u64 {
    let kib = value(meminfo, "MemTotal").and_then(|total| total.strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse().ok()).map_or(0, |kib: u64| kib * 1024)
}

fn distribution(os_release: &str) -> Option<String> {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

/// The word in brackets: `always [madvise] never` says `madvise`.
fn bracketed(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}

fn version(command: &[&str]) -> Option<(String, String)> {
    let (program, arguments) = command.split_first()?;
    let output = Command::new(program).args(arguments).output().ok()?;
    // Some (java) say it on the error output.
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    let name = Path::new(program).file_name()?.to_string_lossy().into_owned();
    Some((name, line.trim().to_owned()))
}

fn file_system(folder: &Path) -> Result<FileSystem, Error> {
    let device = fs::metadata(folder).map_err(Error::system("look at", folder))?.st_dev();
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let unknown = FileSystem { kind: "unknown".to_owned(), options: Vec::new() };
    let whole = folder.canonicalize().unwrap_or_default();
    Ok(find_mount(&read("/proc/self/mountinfo")?, &device, &whole).unwrap_or(unknown))
}

/// Finds the mount of `device` (`major:minor`) in the text of /proc/self/mountinfo, whose lines
/// are `36 35 98:0 /root /mount/point rw,noatime shared:1 - ext4 /dev/sda rw,errors=continue`. Files of
/// btrfs have other devices than their mount: then it is the last of those that are nearest above the folder.
fn find_mount(mountinfo: &str, device: &str, folder: &Path) -> Option<FileSystem> {
    let field = |line: &&str, number: usize| line.split(' ').nth(number).map(str::to_owned);
    let point = |line: &&str| field(line, 4).unwrap_or_default().replace("\\040", " ");
    let mut lines = mountinfo.lines();
    let line = lines.find(|line| field(line, 2).as_deref() == Some(device)).or_else(|| {
        let above = mountinfo.lines().filter(|line| folder.starts_with(point(line)));
        above.max_by_key(|line| point(line).len())
    })?;
    let (mount, rest) = line.split_once(" - ")?;
    let mut rest = rest.split(' ');
    let kind = rest.next()?.to_owned();
    let options = mount.split(' ').nth(5)?.split(',').chain(rest.nth(1)?.split(','));
    let mut options: Vec<String> =
        options.filter(|option| tells_nobody(option)).map(str::to_owned).collect();
    options.sort_unstable();
    options.dedup();
    Some(FileSystem { kind, options })
}

/// Whether a mount option is free of paths, addresses and names.
fn tells_nobody(option: &str) -> bool {
    const PERSONAL: [&str; 4] = ["addr", "user", "name", "domain"];
    let (key, value) = option.split_once('=').unwrap_or((option, ""));
    !value.contains(['/', ':']) && !PERSONAL.iter().any(|word| key.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_described() {
        let found = Environment::of(Path::new("/"), &[&["sh", "-c", "echo; echo 1.2 x"]]).unwrap();
        assert!(found.memory_bytes > 1 << 20, "{found:?}");
        assert!(found.processors >= 1 && !found.processor.is_empty() && !found.kernel.is_empty());
        assert_eq!(found.versions["sh"], "1.2 x");
        assert_eq!(found.date.len(), "2026-11-21".len());
        assert_ne!(found.file_system.kind, "");
    }

    #[test]
    fn memory_that_goes_back_to_the_host_is_said() {
        let mut environment = Environment::of(Path::new("/"), &[]).unwrap();
        let page = rustix::param::page_size() as u64;
        for (order, bytes) in
            [("5", Some(page << 5)), ("10", Some(page << 10)), ("4294967295", None), ("", None)]
        {
            assert_eq!(reported_bytes(order), bytes, "{order}");
        }
        environment.reported_bytes = Some(128 << 10);
        assert!(environment.hindrance().unwrap().cause.contains("blocks of 128 KiB"));
        for quiet in [None, Some(4 << 20)] {
            environment.reported_bytes = quiet;
            assert_eq!(environment.hindrance(), None);
        }
    }

    #[test]
    fn nothing_tells_whose_machine_it_is() {
        let found = Environment::of(&std::env::temp_dir(), &[]).unwrap();
        let text = format!("{found:?}");
        let node = uname().nodename().to_string_lossy().into_owned();
        assert!(node.len() < 3 || !text.contains(&node), "the host name is in {text}");
        let options = found.file_system.options.concat();
        assert!(!options.contains('/'), "a path is in {options}");
    }

    #[test]
    fn a_folder_can_be_named_after_the_machine() {
        let mut environment = Environment::of(Path::new("/"), &[]).unwrap();
        for (processor, processors, expected) in [
            ("AMD EPYC", 2, "amd-epyc-2core"),
            ("Intel(R) Core(TM) i7-8700K CPU @ 3.70GHz", 12, "intel-core-i7-8700k-12core"),
            ("AMD Ryzen 7 5800X 8-Core Processor", 16, "amd-ryzen-7-5800x-8-core-16core"),
            ("aarch64", 4, "aarch64-4core"),
        ] {
            environment.processor = processor.to_owned();
            environment.processors = processors;
            assert_eq!(environment.machine(), expected);
        }
    }

    #[test]
    fn mounts_are_found_and_cleaned() {
        let mountinfo = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro
30 22 0:40 / /m rw,nosuid - nfs4 box:/home rw,vers=4.2,addr=10.0.0.1,clientaddr=10.0.0.2
31 22 0:41 / /o rw - overlay overlay rw,lowerdir=/a:/b,index=off
32 22 0:42 / /f rw,nosuid - fuse.bindfs bindfs rw,user_id=0,group_id=0,default_permissions
";
        for (device, kind, options) in [
            ("254:0", "ext4", &["errors=remount-ro", "relatime", "rw"][..]),
            ("0:40", "nfs4", &["nosuid", "rw", "vers=4.2"]),
            ("0:41", "overlay", &["index=off", "rw"]),
            ("0:42", "fuse.bindfs", &["default_permissions", "group_id=0", "nosuid", "rw"]),
        ] {
            let found = find_mount(mountinfo, device, Path::new("/gone")).unwrap();
            assert_eq!(found.kind, kind);
            assert_eq!(found.options, options);
        }
        // As of btrfs, whose files have other devices than the mount.
        let below = |folder: &str| find_mount(mountinfo, "0:99", Path::new(folder)).unwrap().kind;
        assert_eq!(["/o/x", "/of", "/m"].map(below), ["overlay", "ext4", "nfs4"]);
        assert_eq!(find_mount("", "9:9", Path::new("/")), None);
    }

    #[test]
    fn words_are_picked_from_the_kernels_texts() {
        assert_eq!(bracketed("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(bracketed("nothing"), None);
        assert_eq!(memory_bytes("MemTotal:       2048 kB\nMemFree: 1 kB\n"), 2048 * 1024);
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu hypervisor sse\n";
        assert_eq!(processor(cpuinfo).as_deref(), Some("Some CPU"));
        assert!(is_virtual(cpuinfo) && !is_virtual("flags : fpu sse\n"));
        assert_eq!(distribution("A=1\nPRETTY_NAME=\"D 12\"\n").as_deref(), Some("D 12"));
    }
}

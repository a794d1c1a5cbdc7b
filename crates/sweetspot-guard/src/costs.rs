//! What calls cost on each file system, kept from one run to the next.
//!
//! ```text
//! STATE/costs/devices
//!   sweetspot costs 1
//!   written 1795366800 kernel 6.18.5 boot 81985529216486895
//!   device 66305 read 900 7250 write 2100 31000
//! ```
//!
//! A `run` puts it into its ledger, so that a short job begins with buffers of the right size; the guard
//! writes back what differs at its end, as a whole, by a rename. Of the four numbers of a device each
//! first one is nanoseconds a call, each second one nanoseconds for 64 KiB, and zeros are not known.
//!
//! All of it is a hint. A file that was written by somebody else, under another kernel or a month ago, or
//! that holds anything unexpected, counts as none; and no number in it is anything but a number.

use std::ffi::CStr;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use sweetspot_core::cost::Cost;
use sweetspot_core::ledger::{DEVICES_MAX, Devices, Way};

use crate::notes::make_folder;
use crate::own_file;

/// The folder in each state folder, and the file in it.
const FOLDER: &str = "costs";
const NAME: &str = "devices";
/// The last digit is the layout's version.
const TITLE: &str = "sweetspot costs 1";
/// More than [`DEVICES_MAX`] lines ever take.
const BYTES_MAX: usize = 4096;
/// What is older may be of another machine, or of other disks.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// What is known of one file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    device: u64,
    /// By [`Way`].
    costs: [Option<Cost>; Way::COUNT],
}

impl Known {
    /// Whether there is anything in this that the other does not nearly say.
    fn is_news_to(&self, other: &Known) -> bool {
        std::iter::zip(self.costs, other.costs)
            .any(|(own, other)| own.is_some_and(|own| other.is_none_or(|o| !own.is_near(o))))
    }
}

/// What a file is written and believed under.
struct Here {
    now: Duration,
    kernel: String,
    boot: u64,
}

impl Here {
    fn new(boot: u64) -> io::Result<Here> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Ok(Here { now: now.map_err(io::Error::other)?, kernel: kernel()?, boot })
    }

    /// What a text says, if it may be believed here.
    fn read(&self, text: &str) -> Option<Vec<Known>> {
        let mut lines = text.lines();
        let title = lines.next()?;
        let words: Vec<&str> = lines.next()?.split(' ').collect();
        let ["written", written, "kernel", kernel, "boot", boot] = words[..] else { return None };
        let age = self.now.checked_sub(Duration::from_secs(written.parse().ok()?))?;
        if title != TITLE || kernel != self.kernel || age > AGE_MAX {
            return None;
        }
        let mut known = lines.map(device).collect::<Option<Vec<Known>>>()?;
        if boot.parse() != Ok(self.boot) {
            // The number of what is no disk is given out anew in each boot.
            known.retain(|known| libc::major(known.device) != 0);
        }
        (known.len() <= DEVICES_MAX).then_some(known)
    }

    fn text(&self, known: &[Known]) -> String {
        let (now, kernel, boot) = (self.now.as_secs(), &self.kernel, self.boot);
        let mut text = format!("{TITLE}\nwritten {now} kernel {kernel} boot {boot}\n");
        for Known { device, costs } in known {
            let [read, write] = costs.map(Option::unwrap_or_default);
            let _ = writeln!(
                text,
                "device {device} read {} {} write {} {}",
                read.call_ns, read.unit_ns, write.call_ns, write.unit_ns
            );
        }
        text
    }
}

fn device(line: &str) -> Option<Known> {
    let mut words = line.split(' ');
    let words = [(); 9].map(|()| words.next());
    let [
        Some("device"),
        Some(device),
        Some("read"),
        Some(a),
        Some(b),
        Some("write"),
        Some(c),
        Some(d),
        None,
    ] = words
    else {
        return None;
    };
    let cost = |call: &str, unit: &str| {
        let cost = Cost { call_ns: call.parse().ok()?, unit_ns: unit.parse().ok()? };
        Some((cost != Cost::default()).then_some(cost))
    };
    let device = device.parse().ok().filter(|device| *device != 0)?;
    Some(Known { device, costs: [cost(a, b)?, cost(c, d)?] })
}

/// The release of the kernel: a word.
fn kernel() -> io::Result<String> {
    // SAFETY: the kernel fills the struct with strings.
    let name = unsafe {
        let mut name = std::mem::MaybeUninit::<libc::utsname>::zeroed();
        if libc::uname(name.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        name.assume_init()
    };
    // SAFETY: as above.
    let release = unsafe { CStr::from_ptr(name.release.as_ptr()) };
    Ok(release.to_string_lossy().split_whitespace().collect())
}

/// The folders of costs in these state folders.
pub fn folders(states: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    states.iter().map(|state| state.join(FOLDER))
}

/// Makes the folder in which costs are kept, if it is not there: what runs later then makes no folder.
pub fn prepare(states: &[PathBuf]) {
    let _ = folders(states).find(|folder| make_folder(folder).is_ok());
}

/// Reads the file of the first state folder that has one of this user's, in this boot.
fn find(states: &[PathBuf], boot: u64) -> Option<Vec<Known>> {
    let read = |folder: PathBuf| own_file::read(&folder.join(NAME), 0o022, BYTES_MAX);
    // What is cut is malformed.
    let text = folders(states).find_map(read)?;
    Here::new(boot).ok()?.read(&text)
}

/// Puts what earlier runs have learned into a new ledger.
pub(crate) fn load(states: &[PathBuf], boot: u64, devices: &Devices) {
    let known = find(states, boot).unwrap_or_default();
    for (slot, known) in std::iter::zip(&devices.0, known) {
        slot.device.store(known.device, Relaxed);
        for (word, cost) in std::iter::zip(&slot.costs, known.costs) {
            word.store(cost.map_or(0, Cost::to_word), Relaxed);
        }
    }
}

/// Keeps what a ledger holds for later runs, if that is news. It changes nothing else, and where it
/// cannot be kept nobody needs to know.
pub(crate) fn keep(states: &[PathBuf], boot: u64, devices: &Devices) {
    let learned: Vec<Known> = devices.0.iter().filter_map(learned).collect();
    let found = find(states, boot).unwrap_or_default();
    let is_news = |learned: &Known| {
        let known = found.iter().find(|known| known.device == learned.device);
        known.is_none_or(|known| learned.is_news_to(known))
    };
    if !learned.iter().any(is_news) {
        return;
    }
    // Others that run beside this one may have written what this one has not met.
    let mut all = learned;
    for other in found {
        match all.iter_mut().find(|own| own.device == other.device) {
            Some(own) => own.costs = [0, 1].map(|way| own.costs[way].or(other.costs[way])),
            None => all.push(other),
        }
    }
    all.truncate(DEVICES_MAX);
    let Ok(here) = Here::new(boot) else { return };
    let text = here.text(&all);
    let write = |folder: &PathBuf| {
        make_folder(folder)?;
        own_file::replace(&folder.join(NAME), &text)
    };
    let _ = folders(states).find(|folder| write(folder).is_ok());
}

fn learned(device: &sweetspot_core::ledger::Device) -> Option<Known> {
    let costs = [0, 1].map(|way| Cost::from_word(device.costs[way].load(Relaxed)));
    let known = Known { device: device.device.load(Relaxed), costs };
    (known.device != 0 && costs.iter().any(Option::is_some)).then_some(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::sync::atomic::AtomicU64;
    use sweetspot_core::ledger::Device;

    const BOOT: u64 = 77;
    const DISK: u64 = 0x10301;
    const SERVER: u64 = 0x2d;
    const READ: Cost = Cost { call_ns: 900, unit_ns: 7250 };
    const WRITE: Cost = Cost { call_ns: 2_100, unit_ns: 31_000 };

    fn here() -> Here {
        Here { now: Duration::from_secs(2_000_000_000), kernel: "6.18.5".into(), boot: BOOT }
    }

    fn all() -> Vec<Known> {
        vec![
            Known { device: DISK, costs: [Some(READ), Some(WRITE)] },
            Known { device: SERVER, costs: [None, Some(WRITE)] },
        ]
    }

    fn none() -> Devices {
        Devices(std::array::from_fn(|_| Device {
            device: AtomicU64::new(0),
            costs: [const { AtomicU64::new(0) }; Way::COUNT],
        }))
    }

    #[test]
    fn what_is_written_is_read_and_anything_else_is_nothing() {
        let text = here().text(&all());
        let read = |text: &str| here().read(text);
        assert_eq!(read(&text), Some(all()));
        let numbers = |text: &str| read(text).map(|known| known.len());
        let with = |from: &str, to: &str| {
            let changed = text.replace(from, to);
            assert_ne!(changed, text, "{from}");
            numbers(&changed)
        };
        assert_eq!(with("6.18.5", "6.18.6"), None, "another kernel");
        assert_eq!(with("boot 77", "boot 78"), Some(1), "numbers of what is no disk");
        assert_eq!(with("written 2000000000", "written 2000000001"), None, "from tomorrow");
        assert_eq!(with("written 2000000000", "written 1997408000"), Some(2), "30 days old");
        assert_eq!(with("written 2000000000", "written 1997407999"), None, "older");
        assert_eq!(with("costs 1", "costs 2"), None);
        assert_eq!(with("read 900", "read -900"), None);
        assert_eq!(with("read 900", "read 4294967296"), None);
        assert_eq!(with("read 900", "read  900"), None);
        assert_eq!(with("device 45", "device 0"), None);
        assert_eq!(with("device 45", "./device 45"), None);
        assert_eq!(numbers(&text[..text.len() - 10]), None, "cut");
        assert_eq!(numbers(""), None);
        let many: Vec<Known> =
            (1..=DEVICES_MAX as u64 + 1).map(|device| Known { device, ..all()[0] }).collect();
        assert_eq!(numbers(&here().text(&many)), None);
        let most = here().text(&many[1..]);
        assert_eq!(numbers(&most), Some(DEVICES_MAX));
        assert!(most.len() * 2 < BYTES_MAX);
    }

    #[test]
    fn the_next_ledger_knows_what_this_one_has_learned() {
        let folder = tempfile::tempdir().unwrap();
        let states = [folder.path().join("cannot\0be"), folder.path().join("state")];
        let path = states[1].join(FOLDER).join(NAME);
        let ledger = none();
        keep(&states, BOOT, &ledger);
        assert!(!path.exists(), "nothing was learned");
        ledger.tell(DISK, Way::Read, READ);
        keep(&states, BOOT, &ledger);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        let next = none();
        load(&states, BOOT, &next);
        assert_eq!((next.cost(DISK, Way::Read), next.cost(DISK, Way::Write)), (Some(READ), None));

        // What another run has learned meanwhile stays.
        let other = none();
        other.tell(SERVER, Way::Write, WRITE);
        other.tell(DISK, Way::Write, WRITE);
        keep(&states, BOOT, &other);
        let both = none();
        load(&states, BOOT, &both);
        assert_eq!(both.cost(SERVER, Way::Write), Some(WRITE));
        assert_eq!(
            (both.cost(DISK, Way::Read), both.cost(DISK, Way::Write)),
            (Some(READ), Some(WRITE))
        );

        // What is nearly the same is not worth a write.
        let was = std::fs::metadata(&path).unwrap().ino();
        ledger.tell(DISK, Way::Read, Cost { call_ns: 1_000, ..READ });
        keep(&states, BOOT, &ledger);
        assert_eq!(std::fs::metadata(&path).unwrap().ino(), was);
        ledger.tell(DISK, Way::Read, Cost { call_ns: 9_000, ..READ });
        keep(&states, BOOT, &ledger);
        assert_ne!(std::fs::metadata(&path).unwrap().ino(), was);
        let files = std::fs::read_dir(states[1].join(FOLDER)).unwrap().count();
        assert_eq!(files, 1, "nothing else is left there");
    }

    #[test]
    fn a_file_that_others_may_write_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let states = [folder.path().to_path_buf()];
        let ledger = none();
        ledger.tell(DISK, Way::Read, READ);
        keep(&states, BOOT, &ledger);
        let path = folder.path().join(FOLDER).join(NAME);
        for (mode, is_believed) in [(0o600, true), (0o644, true), (0o620, false), (0o602, false)] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let next = none();
            load(&states, BOOT, &next);
            assert_eq!(next.cost(DISK, Way::Read).is_some(), is_believed, "{mode:o}");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::rename(&path, path.with_file_name("real")).unwrap();
        std::os::unix::fs::symlink("real", &path).unwrap();
        let next = none();
        load(&states, BOOT, &next);
        assert_eq!(next.cost(DISK, Way::Read), None, "a link");
    }
}

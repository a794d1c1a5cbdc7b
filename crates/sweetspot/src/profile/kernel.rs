//! What the kernel counted of the program and all that it waited for: reads and writes of every
//! process (`/proc/self/io`).

use std::fs::File;
use std::io::Read;
use sweetspot_report::profile::coverage::minus;
use sweetspot_report::profile::data::Calls;

/// The kernel's counters of the children of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel {
    before: Calls,
    /// What the children did.
    pub children: Calls,
}

impl Kernel {
    /// Looks before the program starts.
    pub fn before() -> Kernel {
        Kernel { before: children(), children: Calls::default() }
    }

    /// Looks when it has ended.
    pub fn after(&mut self) {
        self.children = minus(children(), self.before);
    }
}

/// What children did that have been waited for: the kernel adds it to what this process does, which is what its
/// only thread does.
fn children() -> Calls {
    let (own, bytes) = counted("/proc/thread-self/io");
    let (all, _) = counted("/proc/self/io");
    // The process has looked at its thread since.
    let look = Calls { reads: 1, read_bytes: bytes, ..Calls::default() };
    minus(minus(all, own), look)
}

/// The counters in a file, and its bytes, which are read by one call.
fn counted(path: &str) -> (Calls, u64) {
    let mut text = [0; TEXT_BYTES];
    let bytes = File::open(path).and_then(|mut file| file.read(&mut text)).unwrap_or(0);
    let text = std::str::from_utf8(&text[..bytes]).unwrap_or_default();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
    };
    let calls = Calls {
        reads: value("syscr:"),
        read_bytes: value("rchar:"),
        writes: value("syscw:"),
        written_bytes: value("wchar:"),
    };
    (calls, bytes as u64)
}

/// More than the kernel's text about a process has.
const TEXT_BYTES: usize = 512;

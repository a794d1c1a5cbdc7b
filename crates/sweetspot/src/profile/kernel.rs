//! What the kernel counted of the program and all that it waited for: reads and writes of every
//! process (`/proc/self/io`).

use std::fs;
use sweetspot_report::profile::coverage::minus;
use sweetspot_report::profile::data::Calls;

/// The kernel's counters of the children of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel {
    before: Calls,
    /// What one look at the counters itself adds to them.
    look: Calls,
    /// What the children did.
    pub children: Calls,
}

impl Kernel {
    /// Looks before the program starts.
    pub fn before() -> Kernel {
        let first = look();
        let before = look();
        Kernel { before, look: minus(before, first), children: Calls::default() }
    }

    /// Looks when it has ended. Meanwhile this process wrote `lines` lines of progress.
    pub fn after(&mut self, lines: u64) {
        let children = minus(minus(look(), self.before), self.look);
        self.children = Calls { writes: children.writes.saturating_sub(lines), ..children };
    }
}

fn look() -> Calls {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
    };
    Calls {
        reads: value("syscr:"),
        read_bytes: value("rchar:"),
        writes: value("syscw:"),
        written_bytes: value("wchar:"),
    }
}

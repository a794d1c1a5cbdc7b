//! How long is waited for the guard, and for times of files that are later.
//!
//! Somebody may have stopped it, or a file system may keep it for which this very process would have to do
//! something: so there is a limit on each wait. But a guard that wants to run and does not come to it is only one
//! of many processes on a busy machine, one that waits for a disk has a slow disk, and what a program must not see
//! meanwhile it would see. The same is so of the program that writes by itself what is waited for.

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::ledger::Header;
use sweetspot_core::unwritten::Left;

use crate::floor::clock::{now_ms, wall_ns};
use crate::floor::{proc, sys};

/// Who runs, or would if it came to it or its disk were faster, is waited for up to here, in milliseconds.
const BUSY_MS_MAX: u64 = 10_000;

/// So long is waited for a guard that is stopped and has been waited for in vain, in milliseconds; or for what lies on a
/// file system that hangs.
pub const LATE_MS_MAX: u64 = 10;

/// What is left of a wait.
pub struct Patience<'a> {
    /// Since when nobody was seen to run.
    since_ms: u64,
    ms_max: u64,
    /// At this time it ends, whatever anybody does.
    until_ms: u64,
    begun_ms: u64,
    /// Where it is said that it was in vain, if it is the guard's.
    header: Option<&'a Header>,
}

impl<'a> Patience<'a> {
    /// For one who does nothing for `ms_max` milliseconds.
    pub fn new(ms_max: u64) -> Patience<'a> {
        let now_ms = now_ms();
        let until_ms = now_ms.saturating_add(BUSY_MS_MAX);
        Patience { since_ms: now_ms, ms_max, until_ms, begun_ms: now_ms, header: None }
    }

    /// How long ago the wait began, or the first of those that it is for.
    pub fn waited_ms(&self) -> u64 {
        now_ms().saturating_sub(self.begun_ms)
    }

    /// The same for a guard. Once one that is stopped was waited for in vain, everybody waits less until it goes on:
    /// a tree of many processes would be held up by each of them.
    pub fn with_guard(header: &'a Header, ms_max: u64) -> Patience<'a> {
        let is_late = header.guard_is_late.load(Relaxed) != 0;
        let ms_max = if is_late { ms_max.min(LATE_MS_MAX) } else { ms_max };
        Patience { header: Some(header), ..Patience::new(ms_max) }
    }

    /// Whether this process (or thread) is worth waiting for.
    pub fn lasts(&mut self, process: u32) -> bool {
        let now_ms = now_ms();
        if now_ms.saturating_sub(self.since_ms) <= self.ms_max {
            return true;
        }
        if now_ms < self.until_ms && is_busy(process) {
            self.since_ms = now_ms;
            return true;
        }
        // It may have been the program that writes by itself.
        if let Some(header) = self.header
            && header.guard.load(Relaxed) & libc::FUTEX_TID_MASK == process
            && is_stopped(process)
        {
            header.guard_is_late.store(1, Relaxed);
        }
        false
    }
}

/// Whether the kernel says of a process that it is stopped, or frozen, or gone.
pub fn is_stopped(process: u32) -> bool {
    match state_of(process) {
        Some(b'S' | b'D') => is_frozen(process),
        state => state.is_none_or(|state| matches!(state, b'T' | b't')),
    }
}

/// Whether the kernel says that it waits for something: a disk, a server. A signal may end that, or not.
pub fn sleeps(process: u32) -> bool {
    matches!(state_of(process), Some(b'S' | b'D')) && !is_frozen(process)
}

/// What a process waits in that is frozen by its control group, as kernels of the last years call it.
const FREEZERS: [&[u8]; 3] = [b"do_freezer_trap", b"get_signal", b"__refrigerator"];

fn is_frozen(process: u32) -> bool {
    let mut place = [0; 64];
    proc::waits_in(process as i32, &mut place).is_some_and(|place| FREEZERS.contains(&place))
}

/// Whether the kernel says that it runs, or waits for nothing but a processor or a disk.
fn is_busy(process: u32) -> bool {
    match state_of(process) {
        Some(b'D') => !is_frozen(process),
        state => state == Some(b'R'),
    }
}

/// As `/proc/PID/stat` has it.
pub fn state_of(process: u32) -> Option<u8> {
    const STATE: usize = 3;
    let mut buffer = [0; 1024];
    let text = proc::stat_of(process as i32, &mut buffer)?;
    proc::stat_field(text, STATE)?.first().copied()
}

/// No system's times of files are coarser, but for those that are whole seconds.
const TIMES_MS_MAX: u32 = 10;

/// Waits until the kernel stamps files with another time than the one at which an attempt failed: what anybody
/// does who learns of it can be told from what the attempt left.
pub fn await_later_times(left: Left) {
    let stamped_ns = left.mtime_ns.max(left.ctime_ns);
    for _ in 0..TIMES_MS_MAX {
        if wall_ns() > stamped_ns {
            break;
        }
        sys::sleep_us(1000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    const MS_MAX: u64 = 20;

    /// Whether a wait for a process in this state lasts ten times as long as for one that does nothing.
    fn lasts_long(state: u8, program: &str) -> bool {
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", program]).stdin(Stdio::piped()).spawn().unwrap();
        // Not the one in which it starts.
        std::thread::sleep(Duration::from_millis(MS_MAX));
        while state_of(child.id()) != Some(state) {}
        let (begun, mut patience) = (Instant::now(), Patience::new(MS_MAX));
        let mut lasts = true;
        while lasts && begun.elapsed() < Duration::from_millis(10 * MS_MAX) {
            std::thread::sleep(Duration::from_millis(1));
            lasts = patience.lasts(child.id());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        lasts
    }

    #[test]
    fn who_wants_to_run_is_waited_for_longer() {
        assert!(lasts_long(b'R', "while :; do :; done"));
        // The first of two waits as for a disk, until the second has ended.
        let (number, flags) = (libc::SYS_clone, libc::CLONE_VFORK | libc::SIGCHLD);
        let as_for_a_disk = format!(
            "exec perl -e 'syscall({number}, {flags}, 0, 0, 0, 0) or select undef, undef, undef, 2'"
        );
        assert!(lasts_long(b'D', &as_for_a_disk));
        assert!(!lasts_long(b'S', "read word"));
        assert!(!lasts_long(b'T', "kill -STOP $$"));
    }

    #[test]
    fn who_is_not_there_is_not_waited_for() {
        let mut patience = Patience::new(0);
        std::thread::sleep(Duration::from_millis(5));
        assert!(!patience.lasts(0));
    }
}

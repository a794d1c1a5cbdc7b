//! Was everything seen? The kernel counts reads and writes of every process (`/proc/self/io`), and a
//! parent gets the counts of the children that it waited for, and of those they waited for. What the
//! kernel counted and the library did not see was made out of its sight.

use super::data::{Calls, Coverage, File, Process, Seen};
use crate::numbers;
use crate::reach::{Reach, Why};
use sweetspot_core::why::Why::IoUring as IO_URING;

/// Reads and writes that a process makes before the library is there: by the kernel and the dynamic
/// linker, a header for each library.
const CALLS_OF_A_START: u64 = 64;
const BYTES_OF_A_START: u64 = 128 << 10;
/// Less than that part of all calls out of sight is no matter.
const SHARE_UNSEEN: f64 = 0.02;

/// How calls are made that nobody sees.
pub const OUT_OF_SIGHT: &str = "\
made out of sight: by programs that make their own system calls (static, Go, io_uring), by \
privileged programs (set-user-id), or where the environment was cleared";

/// What is left of one when the other is taken away.
pub fn minus(a: Calls, b: Calls) -> Calls {
    Calls {
        reads: a.reads.saturating_sub(b.reads),
        read_bytes: a.read_bytes.saturating_sub(b.read_bytes),
        writes: a.writes.saturating_sub(b.writes),
        written_bytes: a.written_bytes.saturating_sub(b.written_bytes),
    }
}

/// Reads and writes that were seen.
pub fn seen(files: &[File]) -> Calls {
    files.iter().fold(Calls::default(), |sum, file| Calls {
        reads: sum.reads + file.reads + file.transfers / 2,
        read_bytes: sum.read_bytes + file.read_bytes + file.transferred_bytes / 2,
        writes: sum.writes + file.writes + file.transfers / 2,
        written_bytes: sum.written_bytes + file.written_bytes + file.transferred_bytes / 2,
    })
}

/// What the kernel counted and nobody saw.
pub fn beyond(coverage: &Coverage) -> Calls {
    minus(coverage.kernel, coverage.seen)
}

/// A process that makes calls through io_uring: those are counted by nobody, not even the kernel.
pub fn with_ring(processes: &[Process]) -> Option<&Process> {
    let uses_ring = |process: &&Process| process.reasons.iter().any(|why| why == IO_URING.text());
    processes.iter().find(uses_ring)
}

/// Compares both.
pub fn coverage(kernel: Calls, files: &[File], processes: &[Process], reach: &Reach) -> Coverage {
    let seen = seen(files);
    let beyond = minus(kernel, seen);
    let starts = processes.len().max(1) as u64;
    let calls = (beyond.reads + beyond.writes).saturating_sub(starts * CALLS_OF_A_START);
    let bytes =
        (beyond.read_bytes + beyond.written_bytes).saturating_sub(starts * BYTES_OF_A_START);
    let all = (kernel.reads + kernel.writes).max(1) as f64;
    let all_bytes = (kernel.read_bytes + kernel.written_bytes).max(1) as f64;
    let share = (calls as f64 / all).max(bytes as f64 / all_bytes);
    let (verdict, reason) = match reach {
        Reach::Unreachable(why) if processes.is_empty() => {
            (Seen::Nothing, format!("nothing: {why}"))
        }
        Reach::Unreachable(why) if share > SHARE_UNSEEN || *why == Why::IoUring => {
            (Seen::Part, format!("only what it starts, not the program itself: {why}"))
        }
        _ if processes.is_empty() => (
            Seen::Nothing,
            "nothing: no process loaded the library (was its environment cleared?)".to_string(),
        ),
        _ if share > SHARE_UNSEEN => {
            let part = format!(
                "not everything: {} reads and writes of {} were {OUT_OF_SIGHT}",
                numbers::count(calls),
                numbers::bytes(bytes),
            );
            (Seen::Part, part)
        }
        _ => match with_ring(processes) {
            Some(Process { program, pid, .. }) => (
                Seen::Part,
                format!(
                    "not everything: {program} {pid} uses io_uring; its calls cannot be counted"
                ),
            ),
            None => {
                (Seen::All, "every read and write after the program's start was seen".to_string())
            }
        },
    };
    Coverage { verdict, reason, kernel, seen }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_counted_and_nobody_saw_is_said() {
        let file = |reads| File { reads, read_bytes: reads * 200, ..File::default() };
        let kernel = |reads| Calls { reads, read_bytes: reads * 200, ..Calls::default() };
        let check = |kernel: Calls, seen: u64, processes: usize, reach: Reach, expected: Seen| {
            let processes = vec![Process::default(); processes];
            let found = coverage(kernel, &[file(seen)], &processes, &reach);
            assert_eq!(found.verdict, expected, "{found:?}");
        };
        check(kernel(100_000), 99_990, 1, Reach::Reachable, Seen::All);
        check(kernel(100_000), 50_000, 1, Reach::Reachable, Seen::Part);
        check(kernel(100_000), 0, 0, Reach::Reachable, Seen::Nothing);
        check(kernel(60), 0, 1, Reach::Reachable, Seen::All);
        check(kernel(100_000), 0, 0, Reach::Unreachable(Why::Static), Seen::Nothing);
        check(kernel(100_000), 10, 2, Reach::Unreachable(Why::Go), Seen::Part);
        check(kernel(60), 0, 1, Reach::Unreachable(Why::IoUring), Seen::Part);
        let ring = Process { reasons: vec![IO_URING.text().into()], ..Process::default() };
        let found = coverage(kernel(60), &[file(60)], &[ring], &Reach::Reachable);
        assert_eq!(found.verdict, Seen::Part, "{found:?}");
    }
}

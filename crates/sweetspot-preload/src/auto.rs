//! What `auto` takes for a file at this moment: as much as pays, by what its transfers have taken so
//! far, or those of others on its file system. What to conclude from them is said in `core::cost`.
//!
//! Each fill and each flush is timed, with two looks at the clock (and two more where a window needs
//! memory); hits and appends are not. An explicit
//! size is timed too, for the next file, and stays what it is.
//!
//! Invariant: what is read in shared memory decides between the smallest and the largest size that is
//! allowed anyway, whatever it says.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use sweetspot_core::cost::{Cost, Meter};
use sweetspot_core::ledger::{BUFFER_AUTO, Way};
use sweetspot_core::policy::{
    APPEND_BYTES_FIRST, AUTO_BYTES_MAX, AUTO_DEAR_SHARE, AUTO_WINDOW_BYTES_LEAST, SPACE_BUFFERS,
    WINDOW_BYTES_MIN,
};

use crate::file::OpenFile;
use crate::{ledger, pool, process, sys};

/// Whether the clock may be read by an instruction, one of `CLOCK_*`.
#[unsafe(link_section = ".data")]
static CLOCK: AtomicU32 = AtomicU32::new(CLOCK_UNKNOWN);
const CLOCK_UNKNOWN: u32 = 0;
const CLOCK_READ: u32 = 1;
const CLOCK_FORBIDDEN: u32 = 2;

/// Nanoseconds on the monotonic clock; 0: it cannot be had. The vDSO answers in some 25 ns, by an
/// instruction that a process may forbid itself (`PR_SET_TSC`), and then it would be killed here.
pub fn now_ns() -> u64 {
    if CLOCK.load(Relaxed) == CLOCK_UNKNOWN {
        CLOCK.store(if sys::may_read_time() { CLOCK_READ } else { CLOCK_FORBIDDEN }, Relaxed);
    }
    if CLOCK.load(Relaxed) == CLOCK_FORBIDDEN {
        return 0;
    }
    let time = crate::read_clock(libc::CLOCK_MONOTONIC);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The process may be about to forbid itself that instruction, or to allow it again.
pub fn clock_may_change() {
    CLOCK.store(CLOCK_FORBIDDEN, Relaxed);
}

/// Does something with what transfers of a file have shown. Its lock is held.
fn with_meter<T>(file: &OpenFile, way: Way, action: impl FnOnce(&mut Meter) -> T) -> T {
    let meter = match way {
        Way::Read => &file.reads,
        Way::Write => &file.writes,
    };
    // SAFETY: behind the lock, and no action calls this again.
    action(unsafe { &mut *meter.get() })
}

fn told(file: &OpenFile, way: Way) -> Option<Cost> {
    ledger::devices()?.cost(file.device.load(Relaxed), way)
}

/// A transfer begins, and `used_bytes` of the last one's were used since it ended: now. The file's lock
/// is held.
pub fn begin(file: &OpenFile, way: Way, used_bytes: u64) -> u64 {
    let now_ns = now_ns();
    with_meter(file, way, |meter| meter.begin(now_ns, used_bytes));
    now_ns
}

/// It has ended, and has moved so many bytes of a buffer of `chosen_bytes`. The file's lock is held.
pub fn end(file: &OpenFile, way: Way, began_ns: u64, bytes: u64, chosen_bytes: u64) {
    if began_ns == 0 {
        return;
    }
    let (now_ns, told) = (now_ns(), told(file, way));
    let (cost, finding) = with_meter(file, way, |meter| {
        meter.end(began_ns, now_ns, bytes);
        (meter.cost(told), meter.finding())
    });
    if let (Some(devices), Some(finding)) = (ledger::devices(), finding) {
        devices.tell(file.device.load(Relaxed), way, finding);
    }
    ledger::record_cost(file, way, cost, chosen_bytes);
}

/// How large windows of a file may be, in bytes.
pub struct Windows {
    /// At most.
    pub bytes_max: u64,
    /// They grow up to here.
    pub bytes_sweet: u64,
    /// The first one.
    pub bytes_first: u64,
}

/// How large the windows of a file may be. Its lock is held.
pub fn windows(file: &OpenFile) -> Windows {
    let buffer = file.buffer.load(Relaxed);
    let usual = process::buffer_bytes_max(buffer);
    if buffer != BUFFER_AUTO {
        return Windows { bytes_max: usual, bytes_sweet: usual, bytes_first: WINDOW_BYTES_MIN };
    }
    let told = told(file, Way::Read);
    let least = AUTO_WINDOW_BYTES_LEAST;
    let bytes_sweet = with_meter(file, Way::Read, |meter| meter.auto_bytes(told, least));
    // Of the first window it is not known whether it will be used up.
    let bytes_first = told.map_or(WINDOW_BYTES_MIN, Cost::even_bytes);
    let bytes_first = bytes_first.min(bytes_sweet).max(WINDOW_BYTES_MIN);
    Windows { bytes_max: usual.max(bytes_sweet), bytes_sweet, bytes_first }
}

/// The most that should wait for a file, in bytes. Its lock is held, or it has no buffer.
fn wanted_bytes(file: &OpenFile) -> u64 {
    let buffer = file.buffer.load(Relaxed);
    if buffer != BUFFER_AUTO {
        return process::buffer_bytes_max(buffer);
    }
    let told = told(file, Way::Write);
    let wanted = with_meter(file, Way::Write, |meter| meter.auto_bytes(told, APPEND_BYTES_FIRST));
    // What has paid once pays.
    wanted.max(file.append_bytes_max.load(Relaxed))
}

/// Whether more should wait for a file than is usual. As above.
pub fn wants_more_than_usual(file: &OpenFile) -> bool {
    wanted_bytes(file) > process::buffer_bytes_max(file.buffer.load(Relaxed))
}

/// The most that may wait for a file, in bytes: more than is usual only where a disk has room for many.
/// As above.
pub fn append_bytes(file: &OpenFile) -> u64 {
    let usual = process::buffer_bytes_max(file.buffer.load(Relaxed));
    wanted_bytes(file).min(usual.max(file.space_bytes.load(Relaxed) / SPACE_BUFFERS))
}

/// As much of it as waits before the first flush: of a call that is known to be dear, no less than costs
/// as much as the call.
pub fn append_bytes_first(file: &OpenFile) -> u64 {
    match file.buffer.load(Relaxed) {
        BUFFER_AUTO => told(file, Way::Write).map_or(0, Cost::even_bytes).max(APPEND_BYTES_FIRST),
        buffer => process::buffer_bytes_max(buffer),
    }
}

/// The chunk that a file should ask for, in bytes: as much as should wait for it, beyond what is usual
/// only as a share of what is left here and for everyone. As above.
pub fn chunk_bytes(file: &OpenFile) -> u64 {
    let usual = process::buffer_bytes_max(file.buffer.load(Relaxed));
    let wanted = append_bytes(file);
    let is_modest = file.is_modest.load(Relaxed) != 0;
    if wanted <= usual || is_modest || file.buffer.load(Relaxed) != BUFFER_AUTO {
        return usual;
    }
    let left = pool::left_bytes(usual).min(ledger::chunks_left());
    let share = (left / AUTO_DEAR_SHARE).clamp(1, AUTO_BYTES_MAX);
    wanted.min(1 << share.ilog2()).max(usual)
}

//! What `auto` takes for a file at this moment: as much as pays, by what its transfers have taken so
//! far, or those of others on its file system. What to conclude from them is said in `core::cost`, what
//! that means for windows and writes in `core::auto`.
//!
//! Each fill and each flush is timed, with two looks at the clock (and two more where a window needs
//! memory); hits and appends are not. An explicit
//! size is timed too, for the next file, and stays what it is.
//!
//! Invariant: what is read in shared memory decides between the smallest and the largest size that is
//! allowed anyway, whatever it says.
#![allow(unsafe_code)]

use core::sync::atomic::Ordering::Relaxed;

use sweetspot_core::auto::{self as sizes, Windows, append_bytes_wanted, usual_bytes};
use sweetspot_core::cost::{Cost, Meter};
use sweetspot_core::ledger::{BUFFER_AUTO, Counter, Way};
use sweetspot_core::policy::{AUTO_BYTES_MAX, AUTO_DEAR_SHARE, DEAR_CALL_NS, SPACE_BUFFERS};
use sweetspot_core::threshold::Run;

use super::file::OpenFile;
use super::{ledger, pool, records};
pub use crate::floor::clock::now_ns;
use crate::floor::sys;

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
pub fn end(
    file: &OpenFile,
    way: Way,
    (began_ns, ended_ns): (u64, u64),
    bytes: u64,
    chosen_bytes: u64,
) {
    if began_ns == 0 {
        return;
    }
    let told = told(file, way);
    let (cost, finding) = with_meter(file, way, |meter| {
        meter.end(began_ns, ended_ns, bytes);
        (meter.cost(told), meter.finding())
    });
    if let (Some(devices), Some(finding)) = (ledger::devices(), finding) {
        devices.tell(file.device.load(Relaxed), way, finding);
    }
    records::tell_cost(file, way, cost, chosen_bytes);
}

/// So many small calls on a file, with what transfers have shown of them. Its lock is held.
pub fn run(file: &OpenFile, way: Way, calls: u32) -> Run {
    with_meter(file, way, |meter| Run::of(calls, meter))
}

/// How large the windows of a file may be. Its lock is held.
pub fn windows(file: &OpenFile) -> Windows {
    let (buffer, told) = (file.buffer.load(Relaxed), told(file, Way::Read));
    with_meter(file, Way::Read, |meter| Windows::new(buffer, meter, told))
}

/// The most that should wait for a file, in bytes. Its lock is held, or it has no buffer.
fn wanted_bytes(file: &OpenFile) -> u64 {
    let (buffer, told) = (file.buffer.load(Relaxed), told(file, Way::Write));
    let append_bytes = file.append_bytes_max.load(Relaxed);
    with_meter(file, Way::Write, |meter| append_bytes_wanted(buffer, meter, told, append_bytes))
}

/// Whether more may come to wait for a file than is usual: as others have told, or else as a question
/// to its file system takes as long as a dear call. Twice, as one may have been held up. As above.
pub fn may_want_more_than_usual(file: &OpenFile, fd: i32) -> bool {
    let buffer = file.buffer.load(Relaxed);
    let is_dear = || {
        let began_ns = now_ns();
        sys::file_system(fd);
        began_ns != 0 && now_ns().saturating_sub(began_ns) >= u64::from(DEAR_CALL_NS)
    };
    let is_unknown = buffer == BUFFER_AUTO && told(file, Way::Write).is_none();
    let looks_dear = is_unknown && is_dear() && is_dear();
    file.looks_dear.store(u32::from(looks_dear), Relaxed);
    looks_dear || wanted_bytes(file) > usual_bytes(buffer)
}

/// The most that may wait for a file, in bytes: more than is usual only where a disk has room for many.
/// As above.
pub fn append_bytes(file: &OpenFile) -> u64 {
    let usual = usual_bytes(file.buffer.load(Relaxed));
    wanted_bytes(file).min(usual.max(file.space_bytes.load(Relaxed) / SPACE_BUFFERS))
}

/// As much of it as waits before the first flush.
pub fn append_bytes_first(file: &OpenFile) -> u64 {
    let (buffer, told) = (file.buffer.load(Relaxed), told(file, Way::Write));
    sizes::append_bytes_first(buffer, told, file.append_bytes_max.load(Relaxed))
}

/// The size of the write buffer that a file should ask for. Where more should wait than is usual, that
/// is at once as much as there may ever be: while a larger one is asked for, each write is one of the
/// dear calls. More than the usual is only a share of what is left here and for everyone, and only
/// where the disk has room for many. As above.
pub fn write_buffer_bytes(file: &OpenFile) -> u64 {
    let usual = usual_bytes(file.buffer.load(Relaxed));
    let may_want_more = file.looks_dear.load(Relaxed) != 0 || append_bytes(file) > usual;
    let is_modest = file.is_modest.load(Relaxed) != 0;
    if !may_want_more || is_modest || file.buffer.load(Relaxed) != BUFFER_AUTO {
        return usual;
    }
    let left = pool::left_bytes(usual).min(ledger::write_buffer_bytes_left());
    let room = (left / AUTO_DEAR_SHARE).min(file.space_bytes.load(Relaxed) / SPACE_BUFFERS);
    let share = room.clamp(1, AUTO_BYTES_MAX);
    usual.max(1 << share.ilog2())
}

/// Whether a write buffer of `had_bytes` is to be given back for a larger one. The file's lock is held.
pub fn is_worth_enlarging(file: &OpenFile, had_bytes: u64) -> bool {
    let wanted_bytes = write_buffer_bytes(file);
    let told = told(file, Way::Write);
    let cost = with_meter(file, Way::Write, |meter| meter.cost(told)).unwrap_or_default();
    let carried_bytes = file.counted(Counter::FlushBytes);
    let is_asked_for = file.buffer.load(Relaxed) != BUFFER_AUTO;
    let is_worth =
        is_asked_for || sizes::is_worth_enlarging(cost, carried_bytes, had_bytes, wanted_bytes);
    is_worth && wanted_bytes >= had_bytes.saturating_mul(2)
}

//! Deaths and stops of other processes of the tree: what one that was killed left pending is in its
//! files before this one can know of its end, whichever way it learns that; and what waits of one that
//! was stopped, before it can know of that.
//!
//! The guard writes it as soon as the kernel tells it of the death, so this process waits for the guard
//! wherever it may have been told, too: a wait, a handler, a signal that was waited for, a descriptor
//! that stands for a process, a lock that became free. Of a stop nobody tells the guard but this process,
//! which learns it by a wait or a signal, or has sent the signal that stops.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sweetspot_core::ledger::Ledger;

use super::process::under_seccomp;
use super::{ledger, others, patience};
use crate::floor::backoff::Backoff;
use crate::floor::clock::now_ms;
use crate::floor::sys::{self, Life};
use crate::floor::{errno, proc};

/// Whether there may be a descriptor that tells of deaths: of a process, or of signals.
#[unsafe(link_section = ".data")]
static DESCRIPTORS: AtomicBool = AtomicBool::new(false);

/// A descriptor was made that may tell of deaths.
pub fn descriptor_made() {
    DESCRIPTORS.store(true, Relaxed);
}

/// Whether what a descriptor tells may be a death.
#[inline(always)]
pub fn may_be_told() -> bool {
    DESCRIPTORS.load(Relaxed)
}

/// A descriptor told something.
pub fn told() {
    if may_be_told() {
        signalled();
    }
}

/// Whether others may be waited for, and told something.
pub fn can_wait() -> bool {
    may_ask() && ledger::knows_processes()
}

/// Whether there may be others, and this process may make calls of ours.
fn may_ask() -> bool {
    ledger::is_given() && !under_seccomp() && !super::spawns::is_spawned_child()
}

/// A wait returned this child, or an error.
pub fn reaped(child: i32) {
    match child {
        1.. if can_wait() => others::was_told_of(child as u32),
        // A process that ignores SIGCHLD is told by an error that there is no child any more.
        ..0 => learned(),
        0.. => {}
    }
}

/// A `waitid` gave `answer`, and what it tells is where `into` points.
pub fn reported(answer: isize, into: *const libc::siginfo_t) {
    let is_told = answer == 0 && !into.is_null();
    // SAFETY: the kernel has just written there.
    match if is_told { unsafe { (*into).si_pid() } } else { 0 } {
        child @ 1.. => reaped(child),
        _ => learned(),
    }
}

/// This process may have learned that another one has died or stopped.
#[cold]
pub fn learned() {
    if !can_wait() {
        return;
    }
    if let Some(ledger) = ledger::ledger().filter(|ledger| others::any_waits(ledger)) {
        look_at_all(ledger);
    }
}

/// Apart from what asks whether anything waits: that touches no page of the stack that nobody else does.
#[inline(never)]
fn look_at_all(ledger: &Ledger) {
    for (index, process) in others::waiting(ledger) {
        match sys::life_of(process as i32) {
            Life::Stopped => others::write_out(ledger, index),
            Life::Lives if !is_ending(process as i32) => {}
            _ => others::wait_until_finished(ledger, process),
        }
    }
}

/// The same, by what may have told it whatever it answered.
#[inline(always)]
pub fn may_have_learned() {
    if ledger::may_wait() {
        learned();
    }
}

/// After a transfer by a descriptor (-1: one that is none of a file, or that is not known): without anything to read,
/// or where nobody reads any more, it may tell that the process at the other end has died.
#[inline(always)]
pub fn answered(fd: i32, answer: isize) {
    if answer <= 0 && ledger::may_wait() {
        heard_an_end(fd, answer);
    }
}

#[cold]
fn heard_an_end(fd: i32, answer: isize) {
    let is_of_file = || fd >= 0 && sys::status(fd).is_some_and(|status| status.regular);
    if !may_ask() || is_of_file() {
        return;
    }
    // What there is to transfer later, and what the program did wrong, tells nothing of anybody. Every other error
    // may: that of a terminal whose other end is closed is EIO, that of a datagram ECONNREFUSED.
    let is_of_nobody =
        |errno| matches!(errno, libc::EAGAIN | libc::EINTR | libc::EFAULT | libc::EBADF);
    if answer == 0 || !is_of_nobody(errno::errno()) {
        learned();
    }
}

/// Whether a program was found in use when it was to be opened for writing.
#[unsafe(link_section = ".data")]
static WAS_IN_USE: AtomicBool = AtomicBool::new(false);

/// An `open` has failed.
#[cold]
pub fn not_opened() {
    if errno::errno() == libc::ETXTBSY {
        WAS_IN_USE.store(true, Relaxed);
    }
}

/// A file was opened for writing: if it is the program that was in use before, it runs no more.
#[inline(always)]
pub fn opened_for_writing() {
    if WAS_IN_USE.load(Relaxed) {
        may_have_learned();
    }
}

/// A file was opened with these flags: a disk that somebody has opened for himself alone is in use by nobody else.
#[inline(always)]
pub fn opened_with(flags: i32) {
    if flags & (libc::O_EXCL | libc::O_CREAT) == libc::O_EXCL {
        may_have_learned();
    }
}

/// The same by a signal, which may tell that a child has stopped, and with it others of its group.
#[cold]
pub fn signalled() {
    learned();
    if !can_wait() {
        return;
    }
    let Some(ledger) = ledger::ledger() else { return };
    // Also those of which nothing waits: what the guard holds for them is not free yet.
    if others::any_asked(ledger) && sys::has_dead_child() {
        others::wait_for_the_dead(ledger);
    }
    if others::any_waits(ledger) && sys::has_stopped_child() {
        others::write_all_out(ledger);
    }
}

/// How long a process may take to stop, in milliseconds. One that is asked to (SIGTSTP) may not.
const STOP_MS_MAX: u64 = 5;

/// Before this process tells another one something without a call of that other one.
pub fn telling() {
    if can_wait() {
        others::tell();
    }
}

/// This process has looked into the memory of another one.
pub fn looked_into(process: i32) {
    if can_wait() {
        others::looked_into(process);
    }
}

/// Before a signal is sent: one that lets a process go on needs no handler there.
pub fn sending(signal: i32) {
    if signal == libc::SIGCONT {
        telling();
    }
}

/// This process has sent a signal: to one process, or to several (0, or less).
pub fn sent(signal: i32, to: i32) {
    let stops = matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
    if !stops || !can_wait() {
        return;
    }
    let Some(ledger) = ledger::ledger().filter(|ledger| others::any_waits(ledger)) else { return };
    let to = others::process_of(ledger, to);
    let begun_ms = now_ms();
    for (index, process) in others::waiting(ledger) {
        if to > 0 && process != to as u32 {
            continue;
        }
        let mut backoff = Backoff::default();
        while !patience::is_stopped(process) && now_ms().saturating_sub(begun_ms) < STOP_MS_MAX {
            backoff.wait();
        }
        others::write_out(ledger, index);
    }
}

/// How long a process that has no memory any more may take to be dead, in milliseconds: on a busy machine it waits for
/// a processor in between.
const ENDING_MS_MAX: u64 = 100;

/// Whether a process that is not known to be dead has begun to end: then its locks may be free already.
fn is_ending(process: i32) -> bool {
    sys::has_no_memory(process) && is_exiting(process)
}

/// Whether the kernel says of a process that it ends. One whose first thread has ended before the others
/// has no memory there either, and lives.
fn is_exiting(process: i32) -> bool {
    const STATE: usize = 3;
    const FLAGS: usize = 9;
    const THREADS: usize = 20;
    const EXITING: u64 = 4;
    let mut buffer = [0; 1024];
    let Some(text) = proc::stat_of(process, &mut buffer) else {
        // Gone by now, or nobody can look: a living process is not waited for.
        let begun_ms = now_ms();
        let mut backoff = Backoff::default();
        while !sys::is_dead(process) && now_ms().saturating_sub(begun_ms) < ENDING_MS_MAX {
            backoff.wait();
        }
        return sys::is_dead(process);
    };
    let number = |field| proc::stat_field(text, field).and_then(sys::decimal).unwrap_or(0);
    let is_zombie = proc::stat_field(text, STATE) == Some(b"Z");
    number(FLAGS) & EXITING != 0 && !(is_zombie && number(THREADS) > 1)
}

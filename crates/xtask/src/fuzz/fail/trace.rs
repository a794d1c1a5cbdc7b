//! Follows a victim call by call, and lets one of its calls fail.

use crate::fuzz::fail::calls::Fault;
use crate::fuzz::fail::{Disturbed, Ended, PAGE, Plan, Stretch, contents, word};
use crate::fuzz::process::{PATIENCE, trace, wait_for, wait_until};
use crate::fuzz::registers::Registers;
use std::fs::{self, File};

/// Lets it run to the point where it holds, disturbs one call, and reads its memory at the end.
pub(super) fn follow(pid: i32, plan: Plan) -> Result<Ended, String> {
    let mut ended = Ended {
        status: wait_for(pid)?,
        disturbed: None,
        calls: Vec::new(),
        page: Vec::new(),
        models: Vec::new(),
        stderr: String::new(),
    };
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT
        | libc::PTRACE_O_EXITKILL;
    trace(libc::PTRACE_SETOPTIONS, pid, options)?;
    let (mut holds, mut inside, mut count) = (plan.stretch == Stretch::Start, None, 0);
    // Opened anew where it becomes another program.
    let open_memory = || File::open(format!("/proc/{pid}/mem")).ok();
    let mut memory = open_memory();
    let mut signal = 0;
    loop {
        let is_over = ended.disturbed.is_some() && plan.fault != Fault::Full;
        let watch_calls = holds && (!is_over || inside.is_some());
        let go = if watch_calls { libc::PTRACE_SYSCALL } else { libc::PTRACE_CONT };
        trace(go, pid, signal)?;
        signal = 0;
        ended.status = wait_for(pid)?;
        if !libc::WIFSTOPPED(ended.status) {
            return Ok(ended);
        }
        match (ended.status >> 8) & 0xff {
            // At a system call.
            stop if stop == libc::SIGTRAP | 0x80 => match inside.take() {
                Some(entered) => leave(pid, entered)?,
                None => {
                    let kind = memory.as_ref().and_then(|memory| word(memory, PAGE)).unwrap_or(0);
                    let registers = Registers::of(pid)?;
                    let strikes = strikes(pid, plan, kind, registers, &mut count, &mut ended);
                    inside = Some(enter(pid, registers, strikes.then_some(plan.fault))?);
                }
            },
            libc::SIGTRAP => match ended.status >> 16 {
                libc::PTRACE_EVENT_EXIT => {
                    (ended.page, ended.models) = memory.as_ref().map(contents).unwrap_or_default();
                }
                _ => memory = open_memory(),
            },
            libc::SIGSTOP if !holds => holds = true,
            other => signal = other,
        }
    }
}

/// Whether the fault strikes a call that begins, which is counted and noted.
fn strikes(
    pid: i32,
    plan: Plan,
    kind: u64,
    mut registers: Registers,
    count: &mut u64,
    ended: &mut Ended,
) -> bool {
    let call = registers.number();
    let applies = plan.fault.concerns(call)
        && (plan.fault != Fault::Short || *registers.third() > 1)
        && plan.stretch.contains(kind, call)
        && (plan.fault != Fault::Full || is_on_disk(pid, registers.first()));
    *count += u64::from(applies);
    let is_lasting = plan.fault == Fault::Full && *count > plan.number;
    let strikes = applies && (*count == plan.number || is_lasting);
    if applies && ended.disturbed.is_none() {
        ended.calls.push((kind, call));
    }
    if strikes && ended.disturbed.is_none() {
        ended.disturbed = Some(Disturbed { call, kind });
    }
    strikes
}

/// Whether a descriptor is a file that a full disk concerns; what is said on stderr is not.
fn is_on_disk(pid: i32, fd: u64) -> bool {
    fd != 2 && fs::metadata(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|data| data.is_file())
}

/// A system call in flight: what to do when it returns.
enum Entered {
    Untouched,
    /// Return this error.
    Fails(i32),
    /// Give the third argument back.
    Shortened(u64),
}

fn enter(pid: i32, mut registers: Registers, fault: Option<Fault>) -> Result<Entered, String> {
    let entered = match fault {
        None => return Ok(Entered::Untouched),
        Some(Fault::Short) => {
            let asked = *registers.third();
            *registers.third() = asked / 2;
            Entered::Shortened(asked)
        }
        Some(fault) => {
            let errno = if let Fault::Error(errno) = fault { errno } else { libc::ENOSPC };
            if registers.number() != libc::SYS_close {
                registers.skip(pid)?;
            }
            Entered::Fails(errno)
        }
    };
    registers.write(pid)?;
    Ok(entered)
}

fn leave(pid: i32, entered: Entered) -> Result<(), String> {
    let mut registers = match entered {
        Entered::Untouched => return Ok(()),
        _ => Registers::of(pid)?,
    };
    match entered {
        Entered::Untouched => {}
        Entered::Fails(errno) => registers.set_result(-i64::from(errno)),
        Entered::Shortened(asked) => *registers.third() = asked,
    }
    registers.write(pid)
}

/// Waits for the guard and for whatever else came to us: all of it ends.
pub(super) fn wait_for_all() -> Result<(), String> {
    wait_until("the guard to end", PATIENCE, || {
        let mut status = 0;
        // SAFETY: the pointer is to a variable of ours.
        let answer = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
        answer == -1
    })
}

//! Signal handlers: what natively is EFAULT must be EFAULT here, though we copy in user space; and a
//! handler that ran is news.
//!
//! From the first buffer on, a handler of ours stands in front of each handler of the program's, and
//! always for SIGSEGV and SIGBUS. A fault inside the copy routine goes on at its landing; every other
//! one is the program's, and reaches its handler, or has the effect that it has natively. Any other
//! signal may be a word from somebody: windows must ask again, and what a dead child left is waited
//! for, before the program's handler begins. So ours stand in front of all but those two from the first child
//! on, too.
//!
//! The kernel's action has our handler, but the program's mask and flags: mask, alternate stack,
//! restart and the return from the handler are the kernel's work as ever. Ours jumps to the program's
//! and leaves nothing on the stack, whether that returns, jumps away or is unwound.
//!
//! The program's own action is shown to anyone who asks: `sigaction` by putting it into the answer (`show`).
//! Around each function that sets it, or tells it otherwise, the kernel has the program's action (`uncover`),
//! and afterwards ours again, in front of whatever the program has set (`cover`).
//!
//! A process that ignores one of those two is not buffered: with a handler in front a signal that somebody
//! sends would interrupt what it waits in, and without one a bad address would be its end.
//!
//! Not here: handlers that are installed by raw system calls other than `syscall`; a bad address while
//! the program blocks SIGSEGV (`copy`).
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

mod action;
mod at_once;
mod peek;
mod seen;
mod uncovering;

use self::action::{Action, PROGRAM, SA_RESTORER, kernel_action};
pub use self::peek::{glance, glance_like_libc, peek};
pub use self::seen::is_seen_to_change;
pub use self::uncovering::epoch_of_window;
use super::process::{acquire_point, begin_concurrency};
use super::spawns::{is_filtered, is_spawned_child, passive};
use super::{deaths, ledger, put_off};
use crate::arch;
use crate::floor::atomic::single_threaded;
use crate::floor::signals::{self, is_fault, is_programs, set_of};
use crate::floor::{careful, copy, next, sys};

/// Whether the program ignores a signal by which a bad address shows.
#[unsafe(link_section = ".data")]
static IGNORES: AtomicBool = AtomicBool::new(false);

/// See `IGNORES`; or no handler of ours stands in front any more. Known once [`install`] has been called.
pub fn ignores() -> bool {
    IGNORES.load(Relaxed) || HAS_LEFT.load(Relaxed)
}

/// The signals in front of whose handler ours may stand.
#[unsafe(link_section = ".data")]
static FRONTED: AtomicU64 = AtomicU64::new(0);

/// Whether handlers of ours stand in front.
#[unsafe(link_section = ".data")]
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// After a question for what a signal does: the program's action is shown in the place of ours, in libc's
/// structure.
pub fn show(signal: c_int, into: *const c_void) {
    let into = into.cast_mut().cast::<libc::sigaction>();
    if into.is_null() || !is_programs(signal) {
        return;
    }
    // SAFETY: libc has just written there. Of its set of signals the kernel has the first word.
    unsafe {
        let (handler, flags) = ((*into).sa_sigaction, (*into).sa_flags as u32 as u64);
        let Some(program) = of_program(signal, handler, flags) else { return };
        (*into).sa_sigaction = program.handler;
        (*into).sa_flags = program.flags as c_int;
        (&raw mut (*into).sa_mask).cast::<u64>().write(program.mask);
        (*into).sa_restorer =
            core::mem::transmute::<usize, Option<extern "C" fn()>>(program.restorer);
    }
}

/// Puts our handler in front of the program's, once. Called before the first copy.
pub fn install() {
    if HAS_LEFT.load(Relaxed) || INSTALLED.swap(true, Relaxed) {
        return;
    }
    arch::choose_copy(next::lookup);
    careful::handlers_are_seen();
    put_all_in_front();
}

fn put_all_in_front() {
    let mask = sys::change_signal_mask(libc::SIG_BLOCK, signals::blockable_set());
    uncovering::begin();
    covered().for_each(put_in_front);
    uncovering::end();
    sys::set_signal_mask(mask);
}

/// Whether handlers of ours stand in front of the program's also where nothing is buffered, but for the two.
#[unsafe(link_section = ".data")]
static NOTICES_DEATHS: AtomicBool = AtomicBool::new(false);

/// Puts our handler in front of the program's, as this process is about to have a child: any signal may tell of its
/// death.
pub fn begin_to_notice_deaths() {
    if HAS_LEFT.load(Relaxed) || NOTICES_DEATHS.swap(true, Relaxed) || INSTALLED.load(Relaxed) {
        return;
    }
    put_all_in_front();
}

/// The signals for which a handler of ours stands in front where there is one of the program's, or always.
fn covered() -> impl Iterator<Item = c_int> {
    let (asked, is_installed) = (signals::asked_set(), INSTALLED.load(Relaxed));
    (1..signals::COUNT as c_int).filter(move |&signal| match asked & set_of(signal) {
        0 => is_installed && is_fault(signal),
        _ => is_installed || tells_of_death(signal),
    })
}

/// In a child that `clone3` made with these flags, which may have set all handlers back.
pub fn after_clone(flags: u64) {
    /// libc has no name for it.
    const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;
    if flags & CLONE_CLEAR_SIGHAND != 0 && INSTALLED.swap(false, Relaxed) {
        install();
    }
}

fn is_ours(action: &Action) -> bool {
    action.handler == on_signal as *const () as usize
}

/// Puts our handler in front of what the kernel has now.
#[unsafe(link_section = ".text.startup")]
fn put_in_front(signal: c_int) {
    // First: a thread that takes the handler away meanwhile sees it, or this sees that there is none.
    FRONTED.fetch_or(set_of(signal), SeqCst);
    let Some(program) = kernel_action(signal, None) else { return };
    let is_handler = program.handler != libc::SIG_DFL && program.handler != libc::SIG_IGN;
    // A handler that is for one time is not there any more for a signal that is sent again.
    let for_once = program.flags & libc::SA_RESETHAND as u32 as u64 != 0 && !is_fault(signal);
    let can_be_deferred = signals::can_be_sent_again(signal) && !for_once;
    signals::set_deferrable(signal, !is_handler || can_be_deferred);
    if is_fault(signal) && program.handler == libc::SIG_IGN {
        IGNORES.store(true, Relaxed);
        return;
    }
    let is_fronted = is_handler || is_fault(signal);
    if !is_fronted {
        FRONTED.fetch_and(!set_of(signal), Relaxed);
    }
    if is_ours(&program) || !is_fronted {
        return;
    }
    PROGRAM[signal as usize].store(&program);
    let (flags, mask) = match is_handler {
        // Where a handler is for one time the kernel sees to that; but ours is needed again.
        true if is_fault(signal) => {
            (program.flags & !(libc::SA_RESETHAND as u32 as u64), program.mask)
        }
        true => (program.flags, program.mask),
        false => ((libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART) as u32 as u64, 0),
    };
    let restorer = match program.flags & SA_RESTORER {
        0 => arch::restorer(),
        _ => Some(program.restorer),
    };
    let ours = Action {
        handler: on_signal as *const () as usize,
        flags: flags | libc::SA_SIGINFO as u64 | restorer.map_or(0, |_| SA_RESTORER),
        restorer: restorer.unwrap_or(0),
        mask,
    };
    kernel_action(signal, Some(&ours));
}

/// Gives the kernel the program's action, if it has ours now.
fn put_aside(signal: c_int) {
    let now = kernel_action(signal, None);
    if let Some(program) = now.and_then(|now| of_program(signal, now.handler, now.flags)) {
        kernel_action(signal, Some(&program));
    }
}

/// The program's action, where the kernel has ours, or what it leaves of ours once a handler for one time has run:
/// the flags.
fn of_program(signal: c_int, handler: usize, flags: u64) -> Option<Action> {
    let program = PROGRAM.get(signal as usize)?.load();
    let for_once = program.flags & libc::SA_RESETHAND as u32 as u64 != 0;
    let ours = program.flags | libc::SA_SIGINFO as u64 | SA_RESTORER;
    match handler {
        libc::SIG_DFL if for_once && flags | SA_RESTORER == ours => {
            Some(Action { handler: libc::SIG_DFL, ..program })
        }
        _ => (handler == on_signal as *const () as usize).then_some(program),
    }
}

/// In the child of a fork, which may have begun while another thread had uncovered an action: that thread is not
/// here, and would not cover it. Its lock does not tell: the kernel copies actions before it copies memory.
pub fn after_fork() {
    uncovering::forget();
    if single_threaded() {
        return;
    }
    covered().for_each(put_in_front);
}

/// Whether no handler of ours stands in front any more, nor ever will.
#[unsafe(link_section = ".data")]
static HAS_LEFT: AtomicBool = AtomicBool::new(false);

/// For good: the process is about to be allowed few calls, and none of ours; or to share its memory, and with it
/// what is kept here, with a process that has actions of its own. The child of a vfork has actions of its own, too;
/// what is kept here is its parent's.
pub fn leave() {
    covered().for_each(put_aside);
    if !is_spawned_child() {
        HAS_LEFT.store(true, Relaxed);
        INSTALLED.store(false, Relaxed);
    }
}

/// What `uncover` did, for `cover`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Uncovered {
    /// Nothing.
    No,
    /// The program's action for this signal; the signal mask before.
    Yes(c_int, u64),
}

/// Before a function that sets a signal to what this word of an action says. One that has no handler, and gets
/// none, needs nothing.
#[inline(always)]
pub fn uncover_to_set(signal: c_int, handler: impl FnOnce() -> Option<u64>) -> Uncovered {
    const NONE: [u64; 2] = [libc::SIG_DFL as u64, libc::SIG_IGN as u64];
    let is_fronted = is_fault(signal) || FRONTED.load(Relaxed) & set_of(signal) != 0;
    if !is_programs(signal) || is_fronted || is_spawned_child() {
        return uncover(signal);
    }
    if !handler().is_some_and(|handler| NONE.contains(&handler)) {
        return uncover(signal);
    }
    signals::asked(signal);
    signals::set_deferrable(signal, true);
    Uncovered::No
}

/// After a function that set a signal without that: whether another thread has put ours in front meanwhile, perhaps in
/// front of what the program had before. Then it is to be set again.
#[inline(always)]
pub fn is_to_be_set_again(signal: c_int, uncovered: Uncovered) -> bool {
    let is_fronted = || FRONTED.load(SeqCst) & set_of(signal) != 0 && !is_spawned_child();
    uncovered == Uncovered::No && is_programs(signal) && is_fronted()
}

/// Before a function that sets or asks what a signal does: the kernel has the program's action.
#[inline(always)]
pub fn uncover(signal: c_int) -> Uncovered {
    if !is_programs(signal) {
        return Uncovered::No;
    }
    signals::asked(signal);
    begin_concurrency();
    match INSTALLED.load(Relaxed) || tells_of_death(signal) {
        true => uncover_followed(signal),
        false => Uncovered::No,
    }
}

/// Whether it matters also in a program that buffers nothing itself: it may have children that do.
#[inline(always)]
fn tells_of_death(signal: c_int) -> bool {
    let may_tell = signal == libc::SIGCHLD || NOTICES_DEATHS.load(Relaxed) && !is_fault(signal);
    may_tell && ledger::is_given() && !is_filtered() && !HAS_LEFT.load(Relaxed)
}

#[cold]
#[unsafe(link_section = ".text.startup")]
fn uncover_followed(signal: c_int) -> Uncovered {
    if is_spawned_child() {
        // Its actions are its own, but this memory is its parent's: it goes without ours.
        put_aside(signal);
        return Uncovered::No;
    }
    // A fault in the function is the program's, as ever.
    let mask = sys::change_signal_mask(libc::SIG_BLOCK, signals::blockable_set());
    uncovering::begin();
    put_aside(signal);
    Uncovered::Yes(signal, mask)
}

/// Calls with the signal mask that the program has, for what changes that or looks at it.
pub fn with_own_mask<R>(uncovered: Uncovered, call: impl FnOnce() -> R) -> (Uncovered, R) {
    let Uncovered::Yes(signal, mask) = uncovered else { return (uncovered, call()) };
    sys::set_signal_mask(mask);
    let answer = call();
    (
        Uncovered::Yes(signal, sys::change_signal_mask(libc::SIG_BLOCK, signals::blockable_set())),
        answer,
    )
}

/// After it: our handler is in front again. For `ending::cover`.
#[inline(always)]
pub fn cover(uncovered: Uncovered) {
    if let Uncovered::Yes(signal, mask) = uncovered {
        put_in_front(signal);
        uncovering::end();
        sys::set_signal_mask(mask);
    }
}

/// The handler that stands in front: it keeps what the kernel handed over, and jumps to the program's.
///
/// # Safety
/// Only the kernel calls it.
#[unsafe(naked)]
unsafe extern "C" fn on_signal() {
    arch::jump_after!(before_handler)
}

/// Before the program's handler, whose address it returns; or that of one that does nothing.
extern "C" fn before_handler(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) -> usize {
    begins(signal, info, context, None)
}

/// `kept`: the program's handler where it is not the one that is set now.
fn begins(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    kept: Option<usize>,
) -> usize {
    let nothing = no_handler as *const () as usize;
    // SAFETY: the kernel hands over valid information.
    let code = unsafe {
        signals::give_code_back(info);
        (*info).si_code
    };
    let by_kernel = code > 0;
    let is_raised = signals::is_raised(signal, by_kernel);
    // SAFETY: and a valid context.
    unsafe {
        at_once::keep_handlers(context);
        let put_off = || put_off::put_off(signal, info, context, can_be_sent_again(signal, code));
        if !is_raised && (signals::defer(signal, info, context) || put_off()) {
            return nothing;
        }
        if signal == libc::SIGTRAP && is_step(code) && signals::is_in_transition(context) {
            // The program steps through its own instructions; without us there were none to step through here.
            return nothing;
        }
    }
    if is_fault(signal) {
        return before_fault(signal, info, context, by_kernel).unwrap_or(nothing);
    }
    let handler = || kept.or_else(|| program_handler(signal)).unwrap_or(nothing);
    if is_raised {
        handler_begins(context);
        return handler();
    }
    acquire_point();
    handler_begins(context);
    // Whatever it stands for: a parent's death, a lost terminal, a clone's own signal.
    match signal {
        libc::SIGCHLD => deaths::signalled(),
        _ => deaths::learned(),
    }
    handler()
}

/// Whether a signal that came with this code means the same when it is sent once again. One that can be queued comes
/// after its like by then, which nobody can tell where a thread sent it to a thread: nothing comes with it.
fn can_be_sent_again(signal: c_int, code: c_int) -> bool {
    let is_for_once =
        || PROGRAM[signal as usize].flags.load(Relaxed) & libc::SA_RESETHAND as u32 as u64 != 0;
    let is_queued_alike = signals::can_be_queued(signal) && code == libc::SI_TKILL;
    signals::is_deferrable(signal) || is_queued_alike && !is_for_once()
}

/// It was set when the kernel delivered the signal, even if it has been taken away since.
fn program_handler(signal: c_int) -> Option<usize> {
    let handler = PROGRAM.get(signal as usize)?.handler.load(Relaxed);
    (handler != libc::SIG_DFL && handler != libc::SIG_IGN).then_some(handler)
}

/// Whether SIGTRAP came with this code after an instruction or for what it looked at; else it is an instruction's
/// own, which cannot go on without the program's handler.
fn is_step(code: c_int) -> bool {
    /// `TRAP_TRACE` and those after it: a branch taken, a breakpoint of the processor's, `TRAP_PERF`.
    const STEPS: core::ops::RangeInclusive<c_int> = 2..=6;
    STEPS.contains(&code)
}

/// The program's handler is about to begin, with the mask of this moment: that of the action, and of anyone
/// who waited with one of its own (`sigsuspend`, `ppoll`).
fn handler_begins(context: *mut c_void) {
    if !passive() {
        // SAFETY: the kernel hands over a valid context.
        let returns_to = unsafe { *arch::signal_mask(context) };
        careful::handler_begins(sys::change_signal_mask(libc::SIG_BLOCK, 0), returns_to);
    }
}

extern "C" fn no_handler() {}

/// The same for a signal by which a bad address shows; `None`: it is dealt with.
fn before_fault(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    by_kernel: bool,
) -> Option<usize> {
    // SAFETY: the kernel hands over a valid context.
    let instruction = unsafe { arch::instruction_pointer(context) };
    // SAFETY: as above; the landing is an instruction of ours.
    if by_kernel && let Some(landing) = copy::landing(unsafe { *instruction } as usize) {
        // SAFETY: as above.
        unsafe { *instruction = landing as u64 };
        return None;
    }
    acquire_point();
    let program = &PROGRAM[signal as usize];
    match program.handler.load(Relaxed) {
        libc::SIG_DFL => {
            end_by(signal, info, by_kernel);
            None
        }
        handler => {
            if program.flags.load(Relaxed) & libc::SA_RESETHAND as u32 as u64 != 0 {
                match is_spawned_child() {
                    // What is kept here is its parent's.
                    true => set_default(signal),
                    false => program.handler.store(libc::SIG_DFL, Relaxed),
                }
            }
            handler_begins(context);
            Some(handler)
        }
    }
}

fn set_default(signal: c_int) {
    let default = Action { handler: libc::SIG_DFL, flags: 0, restorer: 0, mask: 0 };
    kernel_action(signal, Some(&default));
}

/// The default action: the instruction faults again, or the signal is sent again, without us.
fn end_by(signal: c_int, info: *mut libc::siginfo_t, by_kernel: bool) {
    set_default(signal);
    if !by_kernel {
        // SAFETY: with what the kernel handed over; it takes effect at the return of the handler at the latest.
        unsafe { signals::send_again(signal, info) };
    }
}

#[cfg(test)]
mod tests;

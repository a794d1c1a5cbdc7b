//! Sending signals, setting timers that send them, and installing handlers.
//!
//! For SIGSEGV and SIGBUS our own handler stands in front (`engine::handlers`): the program sees and sets only
//! its own.

use core::ffi::{c_int, c_uint};

use super::Pointer;
use crate::engine::handlers::Uncovered;
use crate::engine::spawns::passive;
use crate::engine::{deaths, ending, handlers};
use crate::floor::careful::{self, MaskChange};
use crate::front::dispatch;

/// Sends a signal to another process, by its number or to several (0); it may stop there.
macro_rules! sends {
    ($(fn $name:ident($($arg:ident: $type:ty),*), $signal:ident, $to:expr;)*) => {$(hook! {
        fn $name($($arg: $type),*) -> c_int, next => {
            let pass = dispatch::public_sync_point();
            deaths::sending($signal);
            let answer = next($($arg),*);
            match answer {
                0 => deaths::sent($signal, $to),
                // Perhaps there is no such process any more.
                _ => deaths::learned(),
            }
            pass.done();
            answer
        }
    })*};
}
sends! {
    fn kill(process: c_int, signal: c_int), signal, process;
    fn killpg(group: c_int, signal: c_int), signal, 0;
    fn tgkill(process: c_int, thread: c_int, signal: c_int), signal, process;
    fn sigqueue(process: c_int, signal: c_int, value: Pointer), signal, process;
    fn pidfd_send_signal(fd: c_int, signal: c_int, info: Pointer, flags: c_uint), signal, 0;
}

public_sync_point! {
    fn raise(signal: c_int) -> c_int;
    fn gsignal(signal: c_int) -> c_int;
    fn pthread_kill(thread: Pointer, signal: c_int) -> c_int;
    fn pthread_sigqueue(thread: Pointer, signal: c_int, value: Pointer) -> c_int;
    fn alarm(seconds: c_uint) -> c_uint;
    fn ualarm(microseconds: c_uint, interval: c_uint) -> c_uint;
    fn setitimer(which: c_int, new: Pointer, old: Pointer) -> c_int;
    fn timer_settime(timer: Pointer, flags: c_int, new: Pointer, old: Pointer) -> c_int;
    fn timer_delete(timer: Pointer) -> c_int;
}

/// The handler that a structure begins with.
fn first_word(new: Pointer) -> Option<usize> {
    handlers::peek(new.cast())
}

/// Before a handler is set (or none, if that is only asked): others can see which signals a process
/// catches or ignores.
pub(super) fn disposition_changing(signal: c_int, handler: impl FnOnce() -> Option<usize>) {
    if dispatch::release_point_matters()
        && handler().is_some_and(|handler| handlers::is_seen_to_change(signal, handler))
    {
        dispatch::public_sync_point();
    }
}

/// Before the signal mask changes (or not) by a set that the program hands over: others can see it.
#[unsafe(link_section = ".text.startup")]
pub(super) fn mask_changing(how: c_int, set: impl FnOnce() -> Option<u64>) {
    let matters = dispatch::release_point_matters();
    if passive() && !matters {
        return;
    }
    let Some(set) = set() else { return };
    if !matters && !careful::concerns(how, set) {
        return;
    }
    mask_may_change(how, set, matters);
}

#[cold]
#[inline(never)]
fn mask_may_change(how: c_int, set: u64, matters: bool) {
    let change = MaskChange::by(how, set);
    if !passive() {
        // In the child of a vfork the mask is its own, what is kept is its parent's.
        careful::mask_changing(change);
    }
    if matters && change.is_any() {
        dispatch::public_sync_point();
    }
}

macro_rules! masks {
    ($($name:ident)*) => {$(hook! {
        #[unsafe(link_section = ".text.startup")]
        fn $name(how: c_int, set: *const u64, old: Pointer) -> c_int, next => {
            mask_changing(how, || handlers::glance_like_libc(set));
            next(how, set, old)
        }
    })*};
}
masks! { sigprocmask pthread_sigmask }

/// The older ways: their signals are seen when they have changed.
macro_rules! old_masks {
    ($(fn $name:ident($arg:ident: c_int) -> c_int;)*) => {$(hook! {
        fn $name($arg: c_int) -> c_int, next => {
            let pass = dispatch::public_sync_point();
            let answer = next($arg);
            careful::blocking(crate::floor::sys::change_signal_mask(libc::SIG_BLOCK, 0));
            pass.done();
            answer
        }
    })*};
}
old_masks! {
    fn sigblock(mask: c_int) -> c_int;
    fn sigsetmask(mask: c_int) -> c_int;
    fn sighold(signal: c_int) -> c_int;
    fn sigrelse(signal: c_int) -> c_int;
}

#[cold]
#[inline(never)]
fn set_again<R>(signal: c_int, set: impl FnOnce() -> R) {
    let uncovered = handlers::uncover(signal);
    set();
    ending::cover(uncovered);
}

/// Functions that set or ask what a signal does; their first argument is the signal.
macro_rules! dispositions {
    ($(
        fn $name:ident($signal:ident: c_int $(, $arg:ident: $type:ty)*) -> $ret:ty, $handler:expr;
    )*) => {$(hook! {
        fn $name($signal: c_int $(, $arg: $type)*) -> $ret, next => {
            disposition_changing($signal, || $handler);
            let uncovered = handlers::uncover($signal);
            let answer = next($signal $(, $arg)*);
            ending::cover(uncovered);
            if handlers::is_to_be_set_again($signal, uncovered) {
                set_again($signal, || next($signal $(, $arg)*));
            }
            answer
        }
    })*};
}
dispositions! {
    fn signal(signal: c_int, handler: Pointer) -> Pointer, Some(handler as usize);
    fn bsd_signal(signal: c_int, handler: Pointer) -> Pointer, Some(handler as usize);
    fn ssignal(signal: c_int, handler: Pointer) -> Pointer, Some(handler as usize);
    fn sysv_signal(signal: c_int, handler: Pointer) -> Pointer, Some(handler as usize);
    fn __sysv_signal(signal: c_int, handler: Pointer) -> Pointer, Some(handler as usize);
    fn sigignore(signal: c_int) -> c_int, Some(libc::SIG_IGN);
    fn siginterrupt(signal: c_int, interrupt: c_int) -> c_int, None;
    fn sigvec(signal: c_int, new: Pointer, old: Pointer) -> c_int, first_word(new);
}

macro_rules! actions {
    ($($name:ident)*) => {$(hook! {
        #[unsafe(link_section = ".text.startup")]
        fn $name(signal: c_int, new: Pointer, old: Pointer) -> c_int, next => {
            if new.is_null() {
                let answer = next(signal, new, old);
                if answer == 0 {
                    handlers::show(signal, old);
                }
                return answer;
            }
            disposition_changing(signal, || first_word(new));
            let uncovered = handlers::uncover_to_set(signal, || handlers::glance_like_libc(new.cast()));
            let answer = next(signal, new, old);
            ending::cover(uncovered);
            if answer == 0 && uncovered == Uncovered::No {
                // Another thread may have set a handler meanwhile.
                handlers::show(signal, old);
            }
            if answer == 0 && handlers::is_to_be_set_again(signal, uncovered) {
                set_again(signal, || next(signal, new, core::ptr::null_mut()));
            }
            answer
        }
    })*};
}
actions! { sigaction __sigaction }

hook! {
    /// It changes the signal mask, too, and tells from it whether the signal was held.
    fn sigset(signal: c_int, handler: Pointer) -> Pointer, next => {
        let pass = dispatch::public_sync_point();
        let uncovered = handlers::uncover(signal);
        let (uncovered, answer) = handlers::with_own_mask(uncovered, || next(signal, handler));
        ending::cover(uncovered);
        careful::blocking(crate::floor::sys::change_signal_mask(libc::SIG_BLOCK, 0));
        pass.done();
        answer
    }
}

hook! {
    /// Nothing else shows that a thread begins with this mask.
    fn pthread_attr_setsigmask_np(attributes: Pointer, set: *const u64) -> c_int, next => {
        careful::thread_begins_with(handlers::glance(set).unwrap_or(0));
        next(attributes, set)
    }
}

//! Sending signals, setting timers that send them, and installing handlers.
//!
//! For SIGSEGV and SIGBUS our own handler stands in front (`fault`): the program sees and sets only
//! its own.

use core::ffi::{c_int, c_uint};

use super::Pointer;
use crate::fault;

talk! {
    fn kill(process: c_int, signal: c_int) -> c_int;
    fn killpg(group: c_int, signal: c_int) -> c_int;
    fn tgkill(process: c_int, thread: c_int, signal: c_int) -> c_int;
    fn raise(signal: c_int) -> c_int;
    fn gsignal(signal: c_int) -> c_int;
    fn sigqueue(process: c_int, signal: c_int, value: Pointer) -> c_int;
    fn pthread_kill(thread: Pointer, signal: c_int) -> c_int;
    fn pthread_sigqueue(thread: Pointer, signal: c_int, value: Pointer) -> c_int;
    fn pidfd_send_signal(fd: c_int, signal: c_int, info: Pointer, flags: c_uint) -> c_int;
    fn alarm(seconds: c_uint) -> c_uint;
    fn ualarm(microseconds: c_uint, interval: c_uint) -> c_uint;
    fn setitimer(which: c_int, new: Pointer, old: Pointer) -> c_int;
    fn timer_create(clock: c_int, event: Pointer, into: Pointer) -> c_int;
    fn timer_settime(timer: Pointer, flags: c_int, new: Pointer, old: Pointer) -> c_int;
    fn timer_delete(timer: Pointer) -> c_int;
}

/// Functions that set or ask what a signal does; their first argument is the signal.
macro_rules! dispositions {
    ($(fn $name:ident($signal:ident: c_int $(, $arg:ident: $type:ty)*) -> $ret:ty;)*) => {$(hook! {
        fn $name($signal: c_int $(, $arg: $type)*) -> $ret, next => {
            let uncovered = fault::uncover($signal);
            let answer = next($signal $(, $arg)*);
            fault::cover(uncovered);
            answer
        }
    })*};
}
dispositions! {
    fn sigaction(signal: c_int, new: Pointer, old: Pointer) -> c_int;
    fn __sigaction(signal: c_int, new: Pointer, old: Pointer) -> c_int;
    fn signal(signal: c_int, handler: Pointer) -> Pointer;
    fn bsd_signal(signal: c_int, handler: Pointer) -> Pointer;
    fn ssignal(signal: c_int, handler: Pointer) -> Pointer;
    fn sysv_signal(signal: c_int, handler: Pointer) -> Pointer;
    fn __sysv_signal(signal: c_int, handler: Pointer) -> Pointer;
    fn sigset(signal: c_int, handler: Pointer) -> Pointer;
    fn sigignore(signal: c_int) -> c_int;
    fn siginterrupt(signal: c_int, interrupt: c_int) -> c_int;
    fn sigvec(signal: c_int, new: Pointer, old: Pointer) -> c_int;
}

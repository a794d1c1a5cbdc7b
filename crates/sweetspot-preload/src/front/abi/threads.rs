//! Making threads, in the program's name or by libc for itself: from then on somebody may come in between
//! two instructions of a hook. Those of `clone` are in `process`, those that follow from asynchronous
//! transfers in `transfer`.

use core::ffi::c_int;

use super::Pointer;
use crate::engine::Pass;
use crate::engine::deaths;
use crate::engine::entries::before_threads;
use crate::engine::handlers;
use crate::floor::{aside, careful};
use crate::front::dispatch;

macro_rules! makes_threads {
    ($(fn $name:ident($($arg:ident: Pointer),*);)*) => {$(hook! {
        fn $name($($arg: Pointer),*) -> c_int, next => {
            before_threads();
            next($($arg),*)
        }
    })*};
}
makes_threads! {
    fn pthread_create(thread: Pointer, attributes: Pointer, function: Pointer, argument: Pointer);
    fn thrd_create(thread: Pointer, function: Pointer, argument: Pointer);
}

/// What it waits for is told to a function of the program's, which libc may call in a thread of its own.
macro_rules! may_tell_in_a_thread {
    ($(fn $name:ident($($arg:ident: $type:ty),*), $pass:expr;)*) => {$(hook! {
        fn $name($($arg: $type),*) -> c_int, next => {
            before_threads();
            let pass = $pass;
            let answer = next($($arg),*);
            // Whose number was asked for may be dead.
            deaths::learned();
            pass.done();
            answer
        }
    })*};
}
may_tell_in_a_thread! {
    fn timer_create(clock: c_int, event: Pointer, into: Pointer), before_timer(event);
    fn getaddrinfo_a(mode: c_int, list: Pointer, count: c_int, event: Pointer), dispatch::pass_through();
}

/// In the thread of a timer the signals stay blocked that libc blocks before it makes it.
fn before_timer(event: Pointer) -> Pass {
    before_thread(event.cast());
    dispatch::public_sync_point()
}

/// The same of any other thread that an event is told in.
pub(super) fn before_thread(event: *const libc::sigevent) {
    let notify = |event: libc::sigevent| event.sigev_notify == libc::SIGEV_THREAD;
    if handlers::glance(event).is_some_and(notify) {
        careful::libc_makes_threads();
    }
}

hook! {
    fn mq_notify(queue: c_int, event: Pointer) -> c_int, next => {
        asks_a_queue(|| next(queue, event))
    }
}

/// Asks a queue to tell of messages.
pub(super) fn asks_a_queue<T>(ask: impl FnOnce() -> T) -> T {
    before_threads();
    aside::closing_is_noticed();
    let pass = dispatch::pass_through();
    let answer = ask();
    // Who had the queue before may be dead.
    deaths::learned();
    pass.done();
    answer
}

//! Making threads, in the program's name or by libc for itself: from then on somebody may come in between
//! two instructions of a hook. Those of `clone` are in `process`, those that follow from asynchronous
//! transfers in `transfer`.

use core::ffi::c_int;
use core::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use super::Pointer;
use crate::engine::Pass;
use crate::engine::deaths;
use crate::engine::entries::before_threads;
use crate::engine::handlers;
use crate::floor::{aside, careful};
use crate::front::dispatch;

macro_rules! makes_threads {
    ($(fn $name:ident($($arg:ident: Pointer),*) $function:ident $argument:ident;)*) => {$(hook! {
        fn $name($($arg: Pointer,)* $function: Pointer, $argument: Pointer) -> c_int, next => {
            before_threads();
            let start = Start::keep($function, $argument);
            let ($function, $argument) = match start {
                Some(start) => (begins as *const () as Pointer, (&raw const *start).cast()),
                None => ($function, $argument),
            };
            let answer = next($($arg,)* $function, $argument);
            if answer != 0 && let Some(start) = start {
                start.function.store(0, Release);
            }
            answer
        }
    })*};
}
makes_threads! {
    fn pthread_create(thread: Pointer, attributes: Pointer) function argument;
    fn thrd_create(thread: Pointer) function argument;
}

/// What a thread that is made is to run, until it begins; its function is 0 where the place is free.
struct Start {
    function: AtomicUsize,
    argument: AtomicUsize,
}

/// So many threads can be about to begin. The end of one more is no word to others.
const STARTS_MAX: usize = 64;
static STARTS: [Start; STARTS_MAX] =
    [const { Start { function: AtomicUsize::new(0), argument: AtomicUsize::new(0) } }; STARTS_MAX];

impl Start {
    fn keep(function: Pointer, argument: Pointer) -> Option<&'static Start> {
        let take = |start: &&Start| {
            let place = &start.function;
            place.compare_exchange(0, function as usize, Acquire, Relaxed).is_ok()
        };
        let start = STARTS.iter().find(take)?;
        start.argument.store(argument as usize, Relaxed);
        Some(start)
    }
}

/// Where a thread of the program's begins: others can see when it has ended.
unsafe extern "C" fn begins(start: &Start) -> Pointer {
    // SAFETY: the program handed it over as the function of a thread. What it returns lies in the same register where
    // that is a number.
    let function: unsafe extern "C" fn(Pointer) -> Pointer =
        unsafe { core::mem::transmute(start.function.load(Relaxed)) };
    let argument = start.argument.load(Relaxed) as Pointer;
    start.function.store(0, Release);
    // SAFETY: the thread was made to call it so.
    let answer = unsafe { function(argument) };
    dispatch::public_sync_point();
    answer
}

// They do not come back.
jump! { pthread_exit, before_pthread_exit }
jump! { thrd_exit, before_thrd_exit }

extern "C" fn before_pthread_exit() -> usize {
    dispatch::public_sync_point();
    pthread_exit::next()
}

extern "C" fn before_thrd_exit() -> usize {
    dispatch::public_sync_point();
    thrd_exit::next()
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

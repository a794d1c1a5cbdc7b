#![allow(unsafe_code)]

use core::sync::atomic::AtomicUsize;

use super::*;
use crate::floor::signals::SignalsBlocked;

static VALUE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn note(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel hands over valid information, of a signal that was sent with a value.
    VALUE.store(unsafe { (*info).si_value() }.sival_ptr as usize, Relaxed);
}

fn handle(signal: c_int, flags: u64) {
    let restorer = arch::restorer();
    let flags = flags | libc::SA_SIGINFO as u64 | restorer.map_or(0, |_| SA_RESTORER);
    let handler = note as *const () as usize;
    signals::asked(signal);
    kernel_action(
        signal,
        Some(&Action { handler, flags, restorer: restorer.unwrap_or(0), mask: 0 }),
    );
    put_in_front(signal);
}

/// To this thread, with a value.
fn send(signal: c_int, value: usize) {
    // SAFETY: zeroed, it is information of the kernel's; the fields are those of a value.
    unsafe {
        let mut info: [usize; 16] = [0; 16];
        info[0] = signal as usize;
        info[1] = libc::SI_QUEUE as u32 as usize;
        info[3] = value;
        signals::send_again(signal, info.as_mut_ptr().cast());
    }
}

#[test]
fn a_signal_in_a_transition_is_handled_after_it_as_it_came() {
    handle(libc::SIGUSR1, 0);
    handle(libc::SIGUSR2, libc::SA_NODEFER as u64);
    let mask = sys::change_signal_mask(libc::SIG_BLOCK, 0);
    send(libc::SIGUSR1, 7);
    assert_eq!(VALUE.load(Relaxed), 7, "at once");
    let transition = SignalsBlocked::defer_handlers();
    let inside = SignalsBlocked::defer_handlers();
    send(libc::SIGUSR2, 8);
    send(libc::SIGUSR1, 9);
    drop(inside);
    assert_eq!(VALUE.load(Relaxed), 7, "in a transition");
    drop(transition);
    // Of two that wait, the kernel begins the handler of the lower one first, and it is interrupted.
    assert_eq!(VALUE.load(Relaxed), 9);
    assert_eq!(sys::change_signal_mask(libc::SIG_BLOCK, 0), mask);
    VALUE.store(0, Relaxed);
    send(libc::SIGUSR2, 10);
    assert_eq!(VALUE.load(Relaxed), 10, "at once again");
}

#[test]
fn what_would_not_come_as_it_came_is_blocked() {
    let is_deferrable = |signal, flags| {
        handle(signal, flags);
        signals::is_deferrable(signal)
    };
    assert!(is_deferrable(libc::SIGHUP, 0));
    assert!(!is_deferrable(libc::SIGHUP, libc::SA_RESETHAND as u32 as u64));
    assert!(!is_deferrable(libc::SIGCONT, 0));
    assert!(!is_deferrable(libc::SIGTSTP, 0));
    assert!(!is_deferrable(libc::SIGRTMIN(), 0));
    signals::asked(libc::SIGRTMAX());
    put_in_front(libc::SIGRTMAX());
    assert!(signals::is_deferrable(libc::SIGRTMAX()), "no handler");
}

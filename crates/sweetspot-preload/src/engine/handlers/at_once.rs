//! Signals that come at once: the kernel makes a frame for the handler of each before the first one begins. Natively
//! each frame has the handler that was set at that moment, whatever the handlers that run first set. In all of them
//! stands ours, so they are told which the program's was.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use super::{begins, on_signal, program_handler};
use crate::arch;
use crate::floor::signals;

/// Before a handler begins: those whose frames are there already, below it, stay what they are.
///
/// # Safety
/// Only with what the kernel handed over to a handler.
#[inline(always)]
pub(super) unsafe fn keep_handlers(context: *mut c_void) {
    // SAFETY: as the caller says.
    if unsafe { *arch::instruction_pointer(context) } == on_signal as *const () as u64 {
        // SAFETY: as above.
        unsafe { keep_all(context) };
    }
}

/// As deep as frames may lie: one for each signal.
const FRAMES_MAX: usize = signals::COUNT;

#[cold]
unsafe fn keep_all(mut context: *mut c_void) {
    for _ in 0..FRAMES_MAX {
        // SAFETY: as the caller says. What is next is the first instruction of ours: a frame that the kernel has just
        // made, with its arguments, of which the fourth is nobody's.
        unsafe {
            let next = arch::instruction_pointer(context);
            let [signal, _, below, kept] = arch::arguments(context);
            if *next == on_signal as *const () as u64 {
                let signal = *signal as c_int;
                if !signals::is_fault(signal)
                    && let Some(handler) = program_handler(signal)
                {
                    *next = on_kept_signal as *const () as u64;
                    *kept = handler as u64;
                }
            } else if *next != on_kept_signal as *const () as u64 {
                return;
            }
            context = *below as *mut c_void;
        }
    }
}

/// As `on_signal`, for a frame that was there before another handler ran.
///
/// # Safety
/// Only the kernel calls it.
#[unsafe(naked)]
unsafe extern "C" fn on_kept_signal() {
    arch::jump_after!(before_kept_handler)
}

/// As `before_handler`, with the program's handler at the moment when the frame was made.
extern "C" fn before_kept_handler(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
    kept: usize,
) -> usize {
    begins(signal, info, context, Some(kept))
}

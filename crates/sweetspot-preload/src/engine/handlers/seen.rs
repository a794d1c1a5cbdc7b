//! What others can see of what a signal does: whether it is caught or ignored.

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

use super::action::{PROGRAM, kernel_action};
use super::is_ours;
use crate::floor::signals::is_programs;

/// What is done with a signal, as others can see it.
#[derive(PartialEq, Eq)]
enum Kind {
    Default,
    Ignored,
    Caught,
}

impl Kind {
    fn of(handler: usize) -> Kind {
        match handler {
            libc::SIG_DFL => Kind::Default,
            libc::SIG_IGN => Kind::Ignored,
            _ => Kind::Caught,
        }
    }
}

/// Whether others could see that this handler is set for a signal from now on.
pub fn is_seen_to_change(signal: c_int, handler: usize) -> bool {
    if !is_programs(signal) {
        return false;
    }
    let Some(now) = kernel_action(signal, None) else { return false };
    let program = match is_ours(&now) {
        true => PROGRAM[signal as usize].handler.load(Relaxed),
        false => now.handler,
    };
    Kind::of(program) != Kind::of(handler)
}

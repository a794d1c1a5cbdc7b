//! What a signal does: as the kernel has it, and as the program has set it.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::floor::{signals, sys};

/// The kernel's struct sigaction.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Action {
    pub handler: usize,
    pub flags: u64,
    pub restorer: usize,
    pub mask: u64,
}

pub(super) const SA_RESTORER: u64 = 0x0400_0000;

/// What the program has set for a signal.
pub(super) struct Program {
    pub handler: AtomicUsize,
    pub flags: AtomicU64,
    restorer: AtomicUsize,
    mask: AtomicU64,
}

/// By signal.
pub(super) static PROGRAM: [Program; signals::COUNT] = [const {
    Program {
        handler: AtomicUsize::new(libc::SIG_DFL),
        flags: AtomicU64::new(0),
        restorer: AtomicUsize::new(0),
        mask: AtomicU64::new(0),
    }
}; signals::COUNT];

impl Program {
    pub fn load(&self) -> Action {
        Action {
            handler: self.handler.load(Relaxed),
            flags: self.flags.load(Relaxed),
            restorer: self.restorer.load(Relaxed),
            mask: self.mask.load(Relaxed),
        }
    }

    /// The same again, as shells set it around each child, writes nothing: after a fork the kernel copies a page
    /// that is written.
    pub fn store(&self, action: &Action) {
        if self.load() == *action {
            return;
        }
        self.flags.store(action.flags, Relaxed);
        self.restorer.store(action.restorer, Relaxed);
        self.mask.store(action.mask, Relaxed);
        self.handler.store(action.handler, Relaxed);
    }
}

/// Asks for the kernel's action, and sets it if `new` is given.
pub(super) fn kernel_action(signal: c_int, new: Option<&Action>) -> Option<Action> {
    let mut old = MaybeUninit::<Action>::zeroed();
    let new = new.map_or(core::ptr::null(), |new| &raw const *new);
    // SAFETY: both are the kernel's struct; 8 is the size of its signal set.
    let answer = unsafe { sys::syscall!(SYS_rt_sigaction, signal, new, old.as_mut_ptr(), 8) };
    // SAFETY: zeroed, then filled by the kernel.
    (answer == 0).then(|| unsafe { old.assume_init() })
}

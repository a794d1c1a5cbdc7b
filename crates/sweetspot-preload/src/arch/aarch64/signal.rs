//! Signal handlers: where the program was, and how a handler returns.
#![allow(unsafe_code)]

use core::ffi::c_void;

/// The kernel brings its own way for a handler to return.
pub fn restorer() -> Option<usize> {
    None
}

/// Where a handler's context says what instruction is next.
///
/// # Safety
/// The context must be one that the kernel handed over.
pub unsafe fn instruction_pointer(context: *mut c_void) -> *mut u64 {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: as the caller says.
    unsafe { &raw mut (*context).uc_mcontext.pc }
}

/// The signal mask that the kernel sets when a handler returns.
///
/// # Safety
/// The context must be one that the kernel handed over.
pub unsafe fn signal_mask(context: *mut c_void) -> *mut u64 {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: as the caller says; the kernel's set has 64 bits.
    unsafe { (&raw mut (*context).uc_sigmask).cast() }
}

/// The first four arguments of the function whose first instruction is next, in a handler's context.
///
/// # Safety
/// The context must be one that the kernel handed over.
pub unsafe fn arguments(context: *mut c_void) -> [*mut u64; 4] {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: as the caller says.
    [0, 1, 2, 3].map(|register| unsafe { &raw mut (*context).uc_mcontext.regs[register] })
}

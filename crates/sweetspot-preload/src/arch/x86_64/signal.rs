//! Signal handlers: where the program was, and how a handler returns.
#![allow(unsafe_code)]

use core::ffi::c_void;

// No unwind information: unwinders recognise the two instructions, and the one before them belongs to
// no function.
core::arch::global_asm!(
    ".pushsection .text.sweetspot_restorer, \"ax\", @progbits",
    ".p2align 4",
    "nop",
    ".globl sweetspot_restorer",
    ".hidden sweetspot_restorer",
    ".type sweetspot_restorer, @function",
    "sweetspot_restorer:",
    "mov rax, 15",
    "syscall",
    ".size sweetspot_restorer, . - sweetspot_restorer",
    ".popsection",
);

/// The address to which a handler of ours returns: the kernel wants to be told (`SA_RESTORER`).
pub fn restorer() -> Option<usize> {
    unsafe extern "C" {
        fn sweetspot_restorer();
    }
    Some(sweetspot_restorer as *const () as usize)
}

/// Where a handler's context says what instruction is next.
///
/// # Safety
/// The context must be one that the kernel handed over.
pub unsafe fn instruction_pointer(context: *mut c_void) -> *mut u64 {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: as the caller says; all registers have 64 bits.
    unsafe { (&raw mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize]).cast() }
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
    // SAFETY: as the caller says; all registers have 64 bits.
    [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_RCX].map(|register| unsafe {
        (&raw mut (*context).uc_mcontext.gregs[register as usize]).cast()
    })
}

//! The routine that copies between the program's memory and ours: see `crate::copy`.
#![allow(unsafe_code)]

/// Copies `len` bytes; returns 0, or 1 if an address was bad (then part may have been copied).
///
/// # Safety
/// Our side of the copy must be valid for `len` bytes; the program's side may be anything. The two
/// must not overlap.
#[unsafe(naked)]
pub unsafe extern "C" fn copy(to: *mut u8, from: *const u8, len: usize) -> usize {
    // 32 bytes a turn, then 8, then one.
    core::arch::naked_asm!(
        ".globl sweetspot_copy_begin",
        ".hidden sweetspot_copy_begin",
        "sweetspot_copy_begin:",
        "cmp x2, #32",
        "b.lo 20f",
        "10:",
        "ldp x3, x4, [x1], #16",
        "ldp x5, x6, [x1], #16",
        "stp x3, x4, [x0], #16",
        "stp x5, x6, [x0], #16",
        "sub x2, x2, #32",
        "cmp x2, #32",
        "b.hs 10b",
        "20:",
        "cmp x2, #8",
        "b.lo 30f",
        "ldr x3, [x1], #8",
        "str x3, [x0], #8",
        "sub x2, x2, #8",
        "b 20b",
        "30:",
        "cbz x2, 90f",
        "ldrb w3, [x1], #1",
        "strb w3, [x0], #1",
        "sub x2, x2, #1",
        "b 30b",
        "90:",
        "mov x0, #0",
        "ret",
        ".globl sweetspot_copy_fault",
        ".hidden sweetspot_copy_fault",
        "sweetspot_copy_fault:",
        "mov x0, #1",
        "ret",
    )
}

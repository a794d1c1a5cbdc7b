//! The routine that copies between the program's memory and ours: see `floor::copy`.
#![allow(unsafe_code)]

use core::ffi::CStr;

/// Chooses the best way to copy: there is one.
pub fn choose_copy(_address_of: fn(&CStr) -> usize) {}

/// Copies 8 to 16 bytes in place, by two moves that may overlap; true if an address was bad.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
pub unsafe fn copy_pair(to: *mut u8, from: *const u8, len: usize) -> bool {
    // SAFETY: as the caller says. A fault goes on at `bad`, with all registers as they are: see
    // `floor::copy`.
    unsafe {
        core::arch::asm!(
            "2:",
            "ldr {first}, [{from}]",
            "ldr {last}, [{from}, {to_last}]",
            "str {first}, [{to}]",
            "str {last}, [{to}, {to_last}]",
            "3:",
            copies_between!("2b", "3b", "{bad}"),
            to = in(reg) to,
            from = in(reg) from,
            to_last = in(reg) len - 8,
            first = out(reg) _,
            last = out(reg) _,
            bad = label { return true },
            options(nostack, preserves_flags),
        );
    }
    false
}

/// Copies `len` bytes; true if an address was bad (then part may have been copied).
///
/// The routine keeps all registers but those that are named here: so who calls it saves none.
///
/// # Safety
/// Our side of the copy must be valid for `len` bytes; the program's side may be anything. The two
/// must not overlap.
#[inline(always)]
pub unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> bool {
    // SAFETY: as the caller says.
    unsafe {
        core::arch::asm!(
            "bl {routine}",
            "cbnz x0, {bad}",
            routine = sym routine,
            bad = label { return true },
            inlateout("x0") to => _,
            inlateout("x1") from => _,
            in("x2") len,
            out("x3") _,
            out("x4") _,
            out("x30") _,
            out("v0") _,
            out("v1") _,
            out("v2") _,
            out("v3") _,
        );
    }
    false
}

/// Returns 0, or 1 if an address was bad.
#[unsafe(naked)]
unsafe extern "C" fn routine() {
    // Up to 64 bytes are moved from both ends, so that the moves overlap in the middle; more of them
    // 32 bytes a turn, the last 32 kept for the end.
    core::arch::naked_asm!(
        ".cfi_startproc",
        "2:",
        "cmp x2, #16",
        "b.hi 20f",
        "cmp x2, #8",
        "b.lo 10f",
        "sub x4, x2, #8",
        "ldr x3, [x1]",
        "ldr x1, [x1, x4]",
        "str x3, [x0]",
        "str x1, [x0, x4]",
        "mov x0, #0",
        "ret",
        "10:",
        "cmp x2, #4",
        "b.lo 11f",
        "sub x4, x2, #4",
        "ldr w3, [x1]",
        "ldr w1, [x1, x4]",
        "str w3, [x0]",
        "str w1, [x0, x4]",
        "mov x0, #0",
        "ret",
        // The one in the middle, which may be one of the others, the last, and the first.
        "11:",
        "cbz x2, 12f",
        "lsr x4, x2, #1",
        "ldrb w3, [x1, x4]",
        "strb w3, [x0, x4]",
        "sub x4, x2, #1",
        "ldrb w3, [x1, x4]",
        "ldrb w1, [x1]",
        "strb w3, [x0, x4]",
        "strb w1, [x0]",
        "12:",
        "mov x0, #0",
        "ret",
        "20:",
        "add x3, x1, x2",
        "add x4, x0, x2",
        "cmp x2, #64",
        "b.hi 30f",
        "cmp x2, #32",
        "b.hi 21f",
        "ldr q0, [x1]",
        "ldur q1, [x3, #-16]",
        "str q0, [x0]",
        "stur q1, [x4, #-16]",
        "mov x0, #0",
        "ret",
        "21:",
        "ldp q0, q1, [x1]",
        "ldp q2, q3, [x3, #-32]",
        "stp q0, q1, [x0]",
        "stp q2, q3, [x4, #-32]",
        "mov x0, #0",
        "ret",
        "30:",
        "ldp q2, q3, [x3, #-32]",
        "sub x3, x3, #32",
        "31:",
        "ldp q0, q1, [x1], #32",
        "stp q0, q1, [x0], #32",
        "cmp x1, x3",
        "b.lo 31b",
        "stp q2, q3, [x4, #-32]",
        "mov x0, #0",
        "ret",
        "3:",
        copies_between!("2b", "3b", "3b"),
        "mov x0, #1",
        "ret",
        ".cfi_endproc",
    )
}

/// There is one way.
#[cfg(test)]
pub fn use_wide_copies() -> bool {
    true
}

//! Copying between the program's memory and ours.
//!
//! The program may hand over a bad address: natively that is EFAULT, so it must be here too. All
//! copies go through one routine whose instructions lie between two labels; the fault handler
//! (see `fault`) recognises an instruction pointer in between and lets the routine return 1.
#![allow(unsafe_code)]

/// Copies `len` bytes; returns 0, or 1 if an address was bad (then part may have been copied).
///
/// # Safety
/// Our side of the copy must be valid for `len` bytes; the program's side may be anything. The two
/// must not overlap.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub unsafe extern "C" fn copy(to: *mut u8, from: *const u8, len: usize) -> usize {
    // Short copies are two overlapping moves; middle ones 64 bytes a turn; long ones `rep movsb`,
    // whose start-up cost has then paid off.
    core::arch::naked_asm!(
        ".globl sweetspot_copy_begin",
        ".hidden sweetspot_copy_begin",
        "sweetspot_copy_begin:",
        "cmp rdx, 16",
        "jae 20f",
        "cmp rdx, 8",
        "jae 10f",
        "cmp rdx, 4",
        "jae 11f",
        "test rdx, rdx",
        "je 90f",
        "movzx eax, byte ptr [rsi]",
        "movzx ecx, byte ptr [rsi + rdx - 1]",
        "cmp rdx, 3",
        "jne 12f",
        "movzx r8d, byte ptr [rsi + 1]",
        "mov byte ptr [rdi + 1], r8b",
        "12:",
        "mov byte ptr [rdi], al",
        "mov byte ptr [rdi + rdx - 1], cl",
        "jmp 90f",
        "11:",
        "mov eax, dword ptr [rsi]",
        "mov ecx, dword ptr [rsi + rdx - 4]",
        "mov dword ptr [rdi], eax",
        "mov dword ptr [rdi + rdx - 4], ecx",
        "jmp 90f",
        "10:",
        "mov rax, qword ptr [rsi]",
        "mov rcx, qword ptr [rsi + rdx - 8]",
        "mov qword ptr [rdi], rax",
        "mov qword ptr [rdi + rdx - 8], rcx",
        "jmp 90f",
        "20:",
        "cmp rdx, 32",
        "ja 30f",
        "movups xmm0, xmmword ptr [rsi]",
        "movups xmm1, xmmword ptr [rsi + rdx - 16]",
        "movups xmmword ptr [rdi], xmm0",
        "movups xmmword ptr [rdi + rdx - 16], xmm1",
        "jmp 90f",
        "30:",
        "cmp rdx, 2048",
        "jae 50f",
        // The last 32 bytes are kept for the end, so that the loop may stop short of them.
        "movups xmm4, xmmword ptr [rsi + rdx - 32]",
        "movups xmm5, xmmword ptr [rsi + rdx - 16]",
        "lea r8, [rdi + rdx - 32]",
        "sub rdx, 32",
        "31:",
        "movups xmm0, xmmword ptr [rsi]",
        "movups xmm1, xmmword ptr [rsi + 16]",
        "movups xmmword ptr [rdi], xmm0",
        "movups xmmword ptr [rdi + 16], xmm1",
        "add rsi, 32",
        "add rdi, 32",
        "sub rdx, 32",
        "ja 31b",
        "movups xmmword ptr [r8], xmm4",
        "movups xmmword ptr [r8 + 16], xmm5",
        "jmp 90f",
        "50:",
        "mov rcx, rdx",
        "rep movsb",
        "90:",
        "xor eax, eax",
        "ret",
        ".globl sweetspot_copy_fault",
        ".hidden sweetspot_copy_fault",
        "sweetspot_copy_fault:",
        "mov eax, 1",
        "ret",
    )
}

/// See the x86_64 routine.
///
/// # Safety
/// As there.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub unsafe extern "C" fn copy(to: *mut u8, from: *const u8, len: usize) -> usize {
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

unsafe extern "C" {
    static sweetspot_copy_begin: u8;
    static sweetspot_copy_fault: u8;
}

/// Whether a fault at this instruction is a bad address of the program's: then where to go on.
pub fn landing(instruction: usize) -> Option<usize> {
    let (begin, fault) = (&raw const sweetspot_copy_begin, &raw const sweetspot_copy_fault);
    (begin as usize..fault as usize).contains(&instruction).then_some(fault as usize)
}

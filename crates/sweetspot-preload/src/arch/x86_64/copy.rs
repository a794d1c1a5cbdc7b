//! The routine that copies between the program's memory and ours: see `crate::copy`.
#![allow(unsafe_code)]

use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// 1 where registers of 32 bytes can be used.
#[unsafe(link_section = ".data")]
static HAS_AVX2: AtomicU8 = AtomicU8::new(0);

/// Chooses the best way to copy. libc is asked what the processor and the system can (`<sys/platform/x86.h>`),
/// as the instruction that says so may be forbidden, and is slow in a virtual machine. Without an
/// answer registers of 16 bytes do.
pub fn choose_copy(address_of: fn(&CStr) -> usize) {
    /// What `cpuid` says, and what of it can be used; each as eax, ebx, ecx, edx.
    #[repr(C)]
    struct Leaf {
        cpuid: [u32; 4],
        active: [u32; 4],
    }
    /// The place of leaf 7 in what libc keeps (`CPUID_INDEX_7`).
    const LEAF: u32 = 1;
    const EBX: usize = 1;
    const AVX2: u32 = 1 << 5;
    let ask = address_of(c"__x86_get_cpuid_feature_leaf");
    if ask == 0 {
        return;
    }
    // SAFETY: libc's function with its signature, which returns a constant of its own or null.
    let leaf = unsafe {
        let ask: unsafe extern "C" fn(u32) -> *const Leaf = core::mem::transmute(ask);
        ask(LEAF).as_ref()
    };
    if leaf.is_some_and(|leaf| leaf.cpuid[EBX] & leaf.active[EBX] & AVX2 != 0) {
        HAS_AVX2.store(1, Relaxed);
    }
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
    // SAFETY: as the caller says. The other halves of the vector registers are nobody's: what calls
    // us are functions.
    unsafe {
        core::arch::asm!(
            "call {routine}",
            "jc {bad}",
            routine = sym routine,
            bad = label { return true },
            inlateout("rdi") to => _,
            inlateout("rsi") from => _,
            in("rdx") len,
            out("rax") _,
            out("rcx") _,
            out("xmm0") _,
            out("xmm1") _,
            out("xmm2") _,
            out("xmm3") _,
            out("xmm4") _,
            out("xmm5") _,
            out("xmm6") _,
            out("xmm7") _,
        );
    }
    false
}

/// Bytes from which on the processor copies strings of bytes faster by itself.
const BY_ITSELF: usize = 2048;

/// Sets the carry flag if an address was bad.
#[unsafe(naked)]
unsafe extern "C" fn routine() {
    // Up to 256 bytes are moved from both ends, so that the moves overlap in the middle; more of them
    // 128 (or 32) bytes a turn; many by `rep movsb`, whose start-up cost has then paid off.
    core::arch::naked_asm!(
        ".globl sweetspot_copy_begin",
        ".hidden sweetspot_copy_begin",
        "sweetspot_copy_begin:",
        "cmp rdx, 16",
        "ja 20f",
        "cmp rdx, 8",
        "jb 10f",
        "mov rax, qword ptr [rsi]",
        "mov rcx, qword ptr [rsi + rdx - 8]",
        "mov qword ptr [rdi], rax",
        "mov qword ptr [rdi + rdx - 8], rcx",
        "clc",
        "ret",
        "10:",
        "cmp rdx, 4",
        "jb 11f",
        "mov eax, dword ptr [rsi]",
        "mov ecx, dword ptr [rsi + rdx - 4]",
        "mov dword ptr [rdi], eax",
        "mov dword ptr [rdi + rdx - 4], ecx",
        "clc",
        "ret",
        // The first, the last, and the one in the middle, which may be one of them.
        "11:",
        "test rdx, rdx",
        "je 12f",
        "mov rax, rdx",
        "shr rax",
        "movzx ecx, byte ptr [rsi + rax]",
        "mov byte ptr [rdi + rax], cl",
        "movzx eax, byte ptr [rsi]",
        "movzx ecx, byte ptr [rsi + rdx - 1]",
        "mov byte ptr [rdi], al",
        "mov byte ptr [rdi + rdx - 1], cl",
        "12:",
        "clc",
        "ret",
        "20:",
        "cmp rdx, 64",
        "ja 30f",
        "movups xmm0, xmmword ptr [rsi]",
        "movups xmm1, xmmword ptr [rsi + rdx - 16]",
        "cmp rdx, 32",
        "jbe 21f",
        "movups xmm2, xmmword ptr [rsi + 16]",
        "movups xmm3, xmmword ptr [rsi + rdx - 32]",
        "movups xmmword ptr [rdi + 16], xmm2",
        "movups xmmword ptr [rdi + rdx - 32], xmm3",
        "21:",
        "movups xmmword ptr [rdi], xmm0",
        "movups xmmword ptr [rdi + rdx - 16], xmm1",
        "clc",
        "ret",
        "30:",
        "cmp byte ptr [rip + {has_avx2}], 0",
        "je 40f",
        "cmp rdx, 256",
        "ja 50f",
        "vmovdqu ymm0, ymmword ptr [rsi]",
        "vmovdqu ymm1, ymmword ptr [rsi + 32]",
        "vmovdqu ymm2, ymmword ptr [rsi + rdx - 64]",
        "vmovdqu ymm3, ymmword ptr [rsi + rdx - 32]",
        "cmp rdx, 128",
        "jbe 31f",
        "vmovdqu ymm4, ymmword ptr [rsi + 64]",
        "vmovdqu ymm5, ymmword ptr [rsi + 96]",
        "vmovdqu ymm6, ymmword ptr [rsi + rdx - 128]",
        "vmovdqu ymm7, ymmword ptr [rsi + rdx - 96]",
        "vmovdqu ymmword ptr [rdi + 64], ymm4",
        "vmovdqu ymmword ptr [rdi + 96], ymm5",
        "vmovdqu ymmword ptr [rdi + rdx - 128], ymm6",
        "vmovdqu ymmword ptr [rdi + rdx - 96], ymm7",
        "31:",
        "vmovdqu ymmword ptr [rdi], ymm0",
        "vmovdqu ymmword ptr [rdi + 32], ymm1",
        "vmovdqu ymmword ptr [rdi + rdx - 64], ymm2",
        "vmovdqu ymmword ptr [rdi + rdx - 32], ymm3",
        "vzeroupper",
        "clc",
        "ret",
        // The last bytes are kept for the end, so that the loop may stop short of them.
        "40:",
        "cmp rdx, {by_itself}",
        "jae 60f",
        "movups xmm4, xmmword ptr [rsi + rdx - 32]",
        "movups xmm5, xmmword ptr [rsi + rdx - 16]",
        "lea rcx, [rdi + rdx - 32]",
        "lea rax, [rdx - 32]",
        "41:",
        "movups xmm0, xmmword ptr [rsi]",
        "movups xmm1, xmmword ptr [rsi + 16]",
        "movups xmmword ptr [rdi], xmm0",
        "movups xmmword ptr [rdi + 16], xmm1",
        "add rsi, 32",
        "add rdi, 32",
        "sub rax, 32",
        "ja 41b",
        "movups xmmword ptr [rcx], xmm4",
        "movups xmmword ptr [rcx + 16], xmm5",
        "clc",
        "ret",
        "50:",
        "cmp rdx, {by_itself}",
        "jae 60f",
        "vmovdqu ymm4, ymmword ptr [rsi + rdx - 128]",
        "vmovdqu ymm5, ymmword ptr [rsi + rdx - 96]",
        "vmovdqu ymm6, ymmword ptr [rsi + rdx - 64]",
        "vmovdqu ymm7, ymmword ptr [rsi + rdx - 32]",
        "lea rcx, [rdi + rdx - 128]",
        "lea rax, [rdx - 128]",
        "51:",
        "vmovdqu ymm0, ymmword ptr [rsi]",
        "vmovdqu ymm1, ymmword ptr [rsi + 32]",
        "vmovdqu ymm2, ymmword ptr [rsi + 64]",
        "vmovdqu ymm3, ymmword ptr [rsi + 96]",
        "vmovdqu ymmword ptr [rdi], ymm0",
        "vmovdqu ymmword ptr [rdi + 32], ymm1",
        "vmovdqu ymmword ptr [rdi + 64], ymm2",
        "vmovdqu ymmword ptr [rdi + 96], ymm3",
        "add rsi, 128",
        "add rdi, 128",
        "sub rax, 128",
        "ja 51b",
        "vmovdqu ymmword ptr [rcx], ymm4",
        "vmovdqu ymmword ptr [rcx + 32], ymm5",
        "vmovdqu ymmword ptr [rcx + 64], ymm6",
        "vmovdqu ymmword ptr [rcx + 96], ymm7",
        "vzeroupper",
        "clc",
        "ret",
        "60:",
        "mov rcx, rdx",
        "rep movsb",
        "clc",
        "ret",
        ".globl sweetspot_copy_fault",
        ".hidden sweetspot_copy_fault",
        "sweetspot_copy_fault:",
        "stc",
        "ret",
        has_avx2 = sym HAS_AVX2,
        by_itself = const BY_ITSELF,
    )
}

/// Uses the registers of 32 bytes from now on, if the processor has them.
#[cfg(test)]
pub fn use_wide_copies() -> bool {
    let has = std::is_x86_feature_detected!("avx2");
    HAS_AVX2.store(u8::from(has), Relaxed);
    has
}

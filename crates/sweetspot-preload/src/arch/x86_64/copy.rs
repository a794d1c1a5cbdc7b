//! The routine that copies between the program's memory and ours: see `floor::copy`.
#![allow(unsafe_code)]

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The longest copy that is made by registers of 32 bytes alone; 0 where they cannot be used.
#[unsafe(link_section = ".data")]
static WIDE_BYTES_MAX: AtomicU64 = AtomicU64::new(0);
/// By so many registers from each end.
const BY_WIDE_REGISTERS: u64 = 256;

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
        WIDE_BYTES_MAX.store(BY_WIDE_REGISTERS, Relaxed);
    }
}

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
            "mov {first}, qword ptr [{from}]",
            "mov {last}, qword ptr [{from} + {len} - 8]",
            "mov qword ptr [{to}], {first}",
            "mov qword ptr [{to} + {len} - 8], {last}",
            "3:",
            copies_between!("2b", "3b", "{bad}"),
            to = in(reg) to,
            from = in(reg) from,
            len = in(reg) len,
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
/// The routine keeps all registers but those that are named here, and its arguments are in none in which
/// a hook has its own: so who calls it saves none.
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
            inlateout("rax") to => _,
            inlateout("r11") from => _,
            in("rdx") len,
            out("r10") _,
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

/// Copies rdx bytes from r11 to rax. Sets the carry flag if an address was bad.
#[unsafe(naked)]
unsafe extern "C" fn routine() {
    // Up to 256 bytes are moved from both ends, so that the moves overlap in the middle; more of them
    // 128 (or 32) bytes a turn; many by `rep movsb`, whose start-up cost has then paid off.
    core::arch::naked_asm!(
        ".cfi_startproc",
        "2:",
        "cmp rdx, qword ptr [rip + {wide_bytes_max}]",
        "ja 40f",
        "cmp rdx, 128",
        "jbe 30f",
        "vmovdqu ymm0, ymmword ptr [r11]",
        "vmovdqu ymm1, ymmword ptr [r11 + 32]",
        "vmovdqu ymm2, ymmword ptr [r11 + 64]",
        "vmovdqu ymm3, ymmword ptr [r11 + 96]",
        "vmovdqu ymm4, ymmword ptr [r11 + rdx - 128]",
        "vmovdqu ymm5, ymmword ptr [r11 + rdx - 96]",
        "vmovdqu ymm6, ymmword ptr [r11 + rdx - 64]",
        "vmovdqu ymm7, ymmword ptr [r11 + rdx - 32]",
        "vmovdqu ymmword ptr [rax], ymm0",
        "vmovdqu ymmword ptr [rax + 32], ymm1",
        "vmovdqu ymmword ptr [rax + 64], ymm2",
        "vmovdqu ymmword ptr [rax + 96], ymm3",
        "vmovdqu ymmword ptr [rax + rdx - 128], ymm4",
        "vmovdqu ymmword ptr [rax + rdx - 96], ymm5",
        "vmovdqu ymmword ptr [rax + rdx - 64], ymm6",
        "vmovdqu ymmword ptr [rax + rdx - 32], ymm7",
        "vzeroupper",
        // The length was above what it was compared with: no carry.
        "ret",
        "30:",
        "cmp rdx, 64",
        "jbe 20f",
        "vmovdqu ymm0, ymmword ptr [r11]",
        "vmovdqu ymm1, ymmword ptr [r11 + 32]",
        "vmovdqu ymm2, ymmword ptr [r11 + rdx - 64]",
        "vmovdqu ymm3, ymmword ptr [r11 + rdx - 32]",
        "vmovdqu ymmword ptr [rax], ymm0",
        "vmovdqu ymmword ptr [rax + 32], ymm1",
        "vmovdqu ymmword ptr [rax + rdx - 64], ymm2",
        "vmovdqu ymmword ptr [rax + rdx - 32], ymm3",
        "vzeroupper",
        "ret",
        "20:",
        "cmp rdx, 16",
        "jbe 10f",
        "movups xmm0, xmmword ptr [r11]",
        "movups xmm1, xmmword ptr [r11 + rdx - 16]",
        "cmp rdx, 32",
        "jbe 21f",
        "movups xmm2, xmmword ptr [r11 + 16]",
        "movups xmm3, xmmword ptr [r11 + rdx - 32]",
        "movups xmmword ptr [rax + 16], xmm2",
        "movups xmmword ptr [rax + rdx - 32], xmm3",
        "21:",
        "movups xmmword ptr [rax], xmm0",
        "movups xmmword ptr [rax + rdx - 16], xmm1",
        "clc",
        "ret",
        "10:",
        "cmp rdx, 8",
        "jb 11f",
        "mov r10, qword ptr [r11]",
        "mov r11, qword ptr [r11 + rdx - 8]",
        "mov qword ptr [rax], r10",
        "mov qword ptr [rax + rdx - 8], r11",
        "clc",
        "ret",
        "11:",
        "cmp rdx, 4",
        "jb 12f",
        "mov r10d, dword ptr [r11]",
        "mov r11d, dword ptr [r11 + rdx - 4]",
        "mov dword ptr [rax], r10d",
        "mov dword ptr [rax + rdx - 4], r11d",
        "clc",
        "ret",
        "12:",
        "cmp rdx, 2",
        "jb 13f",
        "movzx r10d, word ptr [r11]",
        "movzx r11d, word ptr [r11 + rdx - 2]",
        "mov word ptr [rax], r10w",
        "mov word ptr [rax + rdx - 2], r11w",
        "clc",
        "ret",
        "13:",
        "test rdx, rdx",
        "je 14f",
        "movzx r10d, byte ptr [r11]",
        "mov byte ptr [rax], r10b",
        "14:",
        "clc",
        "ret",
        "40:",
        "cmp rdx, 64",
        "jbe 20b",
        "cmp rdx, {by_itself}",
        "jae 60f",
        "cmp qword ptr [rip + {wide_bytes_max}], 0",
        "jne 50f",
        // The last bytes are kept for the end, so that the loop may stop short of them.
        "movups xmm4, xmmword ptr [r11 + rdx - 32]",
        "movups xmm5, xmmword ptr [r11 + rdx - 16]",
        "lea r10, [rax + rdx - 32]",
        "41:",
        "movups xmm0, xmmword ptr [r11]",
        "movups xmm1, xmmword ptr [r11 + 16]",
        "movups xmmword ptr [rax], xmm0",
        "movups xmmword ptr [rax + 16], xmm1",
        "add r11, 32",
        "add rax, 32",
        "cmp rax, r10",
        "jb 41b",
        "movups xmmword ptr [r10], xmm4",
        "movups xmmword ptr [r10 + 16], xmm5",
        "clc",
        "ret",
        "50:",
        "vmovdqu ymm4, ymmword ptr [r11 + rdx - 128]",
        "vmovdqu ymm5, ymmword ptr [r11 + rdx - 96]",
        "vmovdqu ymm6, ymmword ptr [r11 + rdx - 64]",
        "vmovdqu ymm7, ymmword ptr [r11 + rdx - 32]",
        "lea r10, [rax + rdx - 128]",
        "51:",
        "vmovdqu ymm0, ymmword ptr [r11]",
        "vmovdqu ymm1, ymmword ptr [r11 + 32]",
        "vmovdqu ymm2, ymmword ptr [r11 + 64]",
        "vmovdqu ymm3, ymmword ptr [r11 + 96]",
        "vmovdqu ymmword ptr [rax], ymm0",
        "vmovdqu ymmword ptr [rax + 32], ymm1",
        "vmovdqu ymmword ptr [rax + 64], ymm2",
        "vmovdqu ymmword ptr [rax + 96], ymm3",
        "add r11, 128",
        "add rax, 128",
        "cmp rax, r10",
        "jb 51b",
        "vmovdqu ymmword ptr [r10], ymm4",
        "vmovdqu ymmword ptr [r10 + 32], ymm5",
        "vmovdqu ymmword ptr [r10 + 64], ymm6",
        "vmovdqu ymmword ptr [r10 + 96], ymm7",
        "vzeroupper",
        "clc",
        "ret",
        "3:",
        copies_between!("2b", "3b", "4f"),
        "4:",
        "stc",
        "ret",
        "60:",
        "mov r10, rsi",
        "mov rsi, r11",
        "mov r11, rdi",
        "mov rdi, rax",
        "mov rax, rcx",
        "mov rcx, rdx",
        "clc",
        "2:",
        "rep movsb",
        "3:",
        "mov rcx, rax",
        "mov rdi, r11",
        "mov rsi, r10",
        "ret",
        copies_between!("2b", "3b", "4f"),
        "4:",
        "stc",
        "jmp 3b",
        ".cfi_endproc",
        wide_bytes_max = sym WIDE_BYTES_MAX,
        by_itself = const BY_ITSELF,
    )
}

/// Uses the registers of 32 bytes from now on, if the processor has them.
#[cfg(test)]
pub fn use_wide_copies() -> bool {
    let has = std::is_x86_feature_detected!("avx2");
    WIDE_BYTES_MAX.store(if has { BY_WIDE_REGISTERS } else { 0 }, Relaxed);
    has
}

//! Functions whose arguments Rust cannot name: what a C function of ours does with its registers and
//! its stack before the logic is called. Each is the whole body of a naked function, and says at each instruction where
//! the caller is (`.cfi`): a thread is cancelled, an exception thrown, or a profile taken anywhere.

/// Saves all registers that may hold arguments, calls `$before` with them, and jumps to where it
/// says, with stack and registers as they were.
macro_rules! jump_after {
    ($before:path) => {
        // Seven registers and the return address: the stack is aligned for the call.
        core::arch::naked_asm!(
            ".cfi_startproc",
            "push rdi",
            ".cfi_adjust_cfa_offset 8",
            "push rsi",
            ".cfi_adjust_cfa_offset 8",
            "push rdx",
            ".cfi_adjust_cfa_offset 8",
            "push rcx",
            ".cfi_adjust_cfa_offset 8",
            "push r8",
            ".cfi_adjust_cfa_offset 8",
            "push r9",
            ".cfi_adjust_cfa_offset 8",
            "push rax",
            ".cfi_adjust_cfa_offset 8",
            "sub rsp, 128",
            ".cfi_adjust_cfa_offset 128",
            "movups xmmword ptr [rsp], xmm0",
            "movups xmmword ptr [rsp + 16], xmm1",
            "movups xmmword ptr [rsp + 32], xmm2",
            "movups xmmword ptr [rsp + 48], xmm3",
            "movups xmmword ptr [rsp + 64], xmm4",
            "movups xmmword ptr [rsp + 80], xmm5",
            "movups xmmword ptr [rsp + 96], xmm6",
            "movups xmmword ptr [rsp + 112], xmm7",
            "call {before}",
            "mov r11, rax",
            "movups xmm0, xmmword ptr [rsp]",
            "movups xmm1, xmmword ptr [rsp + 16]",
            "movups xmm2, xmmword ptr [rsp + 32]",
            "movups xmm3, xmmword ptr [rsp + 48]",
            "movups xmm4, xmmword ptr [rsp + 64]",
            "movups xmm5, xmmword ptr [rsp + 80]",
            "movups xmm6, xmmword ptr [rsp + 96]",
            "movups xmm7, xmmword ptr [rsp + 112]",
            "add rsp, 128",
            ".cfi_adjust_cfa_offset -128",
            "pop rax",
            ".cfi_adjust_cfa_offset -8",
            "pop r9",
            ".cfi_adjust_cfa_offset -8",
            "pop r8",
            ".cfi_adjust_cfa_offset -8",
            "pop rcx",
            ".cfi_adjust_cfa_offset -8",
            "pop rdx",
            ".cfi_adjust_cfa_offset -8",
            "pop rsi",
            ".cfi_adjust_cfa_offset -8",
            "pop rdi",
            ".cfi_adjust_cfa_offset -8",
            "jmp r11",
            ".cfi_endproc",
            before = sym $before,
        )
    };
}
pub(crate) use jump_after;

/// Makes the arguments after the first one a list on the stack (those in registers are put in front
/// of the others, which lie there already), and calls `$with` with the first one and the list.
macro_rules! with_list {
    ($with:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            // The place of the return address is needed for the list.
            "pop rax",
            ".cfi_adjust_cfa_offset -8",
            ".cfi_register rip, rax",
            "push r9",
            ".cfi_adjust_cfa_offset 8",
            "push r8",
            ".cfi_adjust_cfa_offset 8",
            "push rcx",
            ".cfi_adjust_cfa_offset 8",
            "push rdx",
            ".cfi_adjust_cfa_offset 8",
            "push rsi",
            ".cfi_adjust_cfa_offset 8",
            "mov rsi, rsp",
            "push rax",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset rip, 0",
            "call {with}",
            "pop rcx",
            ".cfi_adjust_cfa_offset -8",
            ".cfi_register rip, rcx",
            "add rsp, 40",
            ".cfi_adjust_cfa_offset -40",
            "push rcx",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset rip, 0",
            "ret",
            ".cfi_endproc",
            with = sym $with,
        )
    };
}
pub(crate) use with_list;

/// Jumps to `$way`, a function of six arguments that are no floating point numbers, with the first
/// five as they are, and the address to which the call returns as the sixth: it lies on top of the stack.
macro_rules! with_caller {
    ($way:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "mov r9, qword ptr [rsp]",
            "jmp {way}",
            ".cfi_endproc",
            way = sym $way,
        )
    };
}
pub(crate) use with_caller;

/// Makes the system call `vfork` between `$before`, which returns the address of the signal mask for the child or
/// null, and `$after` in the parent, with the kernel's answer and that address. The child returns with the stack as
/// the caller has it, so the return address is kept in a register: only the kernel has the others meanwhile.
macro_rules! vfork {
    ($before:path, $after:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "sub rsp, 8",
            ".cfi_adjust_cfa_offset 8",
            "call {before}",
            "add rsp, 8",
            ".cfi_adjust_cfa_offset -8",
            "mov r9, rax",
            "pop r8",
            ".cfi_adjust_cfa_offset -8",
            ".cfi_register rip, r8",
            "mov eax, {vfork}",
            "syscall",
            "test rax, rax",
            "jnz 3f",
            "test r9, r9",
            "jz 2f",
            "mov edi, {set}",
            "mov rsi, r9",
            "xor edx, edx",
            "mov r10d, 8",
            "mov eax, {mask}",
            "syscall",
            "xor eax, eax",
            "2:",
            "jmp r8",
            "3:",
            "push r8",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset rip, 0",
            "mov rdi, rax",
            "mov rsi, r9",
            "jmp {after}",
            ".cfi_endproc",
            before = sym $before,
            after = sym $after,
            vfork = const libc::SYS_vfork,
            mask = const libc::SYS_rt_sigprocmask,
            set = const libc::SIG_SETMASK,
        )
    };
}
pub(crate) use vfork;

//! Functions whose arguments Rust cannot name: what a C function of ours does with its registers and
//! its stack before the logic is called. Each is the whole body of a naked function, and says at each instruction where
//! the caller is (`.cfi`): a thread is cancelled, an exception thrown, or a profile taken anywhere.

/// Saves all registers that may hold arguments, calls `$before` with them, and jumps to where it
/// says, with stack and registers as they were.
macro_rules! jump_after {
    ($before:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "stp x29, x30, [sp, #-224]!",
            ".cfi_def_cfa_offset 224",
            ".cfi_offset x29, -224",
            ".cfi_offset x30, -216",
            "stp x0, x1, [sp, #16]",
            "stp x2, x3, [sp, #32]",
            "stp x4, x5, [sp, #48]",
            "stp x6, x7, [sp, #64]",
            "str x8, [sp, #80]",
            "stp q0, q1, [sp, #96]",
            "stp q2, q3, [sp, #128]",
            "stp q4, q5, [sp, #160]",
            "stp q6, q7, [sp, #192]",
            "bl {before}",
            "mov x16, x0",
            "ldp x0, x1, [sp, #16]",
            "ldp x2, x3, [sp, #32]",
            "ldp x4, x5, [sp, #48]",
            "ldp x6, x7, [sp, #64]",
            "ldr x8, [sp, #80]",
            "ldp q0, q1, [sp, #96]",
            "ldp q2, q3, [sp, #128]",
            "ldp q4, q5, [sp, #160]",
            "ldp q6, q7, [sp, #192]",
            "ldp x29, x30, [sp], #224",
            ".cfi_def_cfa_offset 0",
            ".cfi_restore x29",
            ".cfi_restore x30",
            "br x16",
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
            "stp x29, x30, [sp, #-80]!",
            ".cfi_def_cfa_offset 80",
            ".cfi_offset x29, -80",
            ".cfi_offset x30, -72",
            "mov x29, sp",
            "str x1, [sp, #24]",
            "stp x2, x3, [sp, #32]",
            "stp x4, x5, [sp, #48]",
            "stp x6, x7, [sp, #64]",
            "add x1, sp, #24",
            "bl {with}",
            "ldp x29, x30, [sp], #80",
            ".cfi_def_cfa_offset 0",
            ".cfi_restore x29",
            ".cfi_restore x30",
            "ret",
            ".cfi_endproc",
            with = sym $with,
        )
    };
}
pub(crate) use with_list;

/// Jumps to `$way`, a function of six arguments that are no floating point numbers, with the first
/// five as they are, and the address to which the call returns as the sixth: it lies in the link register.
macro_rules! with_caller {
    ($way:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "mov x5, x30",
            "b {way}",
            ".cfi_endproc",
            way = sym $way,
        )
    };
}
pub(crate) use with_caller;

/// Makes a process as `vfork` does between `$before`, which returns the address of the signal mask for the child or
/// null, and `$after` in the parent, with the kernel's answer and that address. The child returns with the stack as
/// the caller has it: the return address is in the link register.
macro_rules! vfork {
    ($before:path, $after:path) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "stp x29, x30, [sp, #-16]!",
            ".cfi_def_cfa_offset 16",
            ".cfi_offset x29, -16",
            ".cfi_offset x30, -8",
            "bl {before}",
            "ldp x29, x30, [sp], #16",
            ".cfi_def_cfa_offset 0",
            ".cfi_restore x29",
            ".cfi_restore x30",
            "mov x9, x0",
            "mov x0, {flags}",
            "mov x1, xzr",
            "mov x2, xzr",
            "mov x3, xzr",
            "mov x4, xzr",
            "mov x8, {clone}",
            "svc #0",
            "cbnz x0, 3f",
            "cbz x9, 2f",
            "mov x0, {set}",
            "mov x1, x9",
            "mov x2, xzr",
            "mov x3, #8",
            "mov x8, {mask}",
            "svc #0",
            "mov x0, xzr",
            "2:",
            "ret",
            "3:",
            "mov x1, x9",
            "b {after}",
            ".cfi_endproc",
            before = sym $before,
            after = sym $after,
            flags = const libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            clone = const libc::SYS_clone,
            mask = const libc::SYS_rt_sigprocmask,
            set = const libc::SIG_SETMASK,
        )
    };
}
pub(crate) use vfork;

//! x86_64.
#![allow(unsafe_code)]

mod copy;
mod jump;
#[cfg(any(preload_abi, test))]
mod memory;
mod signal;

use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64};

#[cfg(test)]
pub use copy::use_wide_copies;
pub use copy::{choose_copy, copy, copy_pair};
pub(crate) use jump::{jump_after, vfork, with_caller, with_list};
pub use signal::{arguments, instruction_pointer, restorer, signal_mask};

/// `EM_X86_64`.
pub const MACHINE: u16 = 62;

/// How a loader fills in a place (`R_X86_64_...`).
pub mod relocation {
    /// `JUMP_SLOT`: the address of a function, which may be looked up when it is first called.
    pub const CALL: u32 = 7;
    /// `GLOB_DAT`: an address.
    pub const ADDRESS: u32 = 6;
    /// `64`: the same, in data.
    pub const IN_DATA: u32 = 1;
    /// `COPY`: a variable's first value.
    pub const COPY: u32 = 5;
}

/// The largest page that a kernel of this machine may have: its pages have 4 KiB.
pub const PAGE_BYTES_MAX: u64 = 4096;

/// Alone in its pages, however large they are.
#[repr(C, align(4096))]
pub struct OwnPage<T>(pub T);

/// Memory of programs ends here. Without five-level page tables, and for anyone who does not ask for more by
/// address.
pub const USER_END: usize = 1 << 47;

/// Makes a system call with up to six arguments.
///
/// # Safety
/// The arguments must be what the call expects; pointers must be valid for what it does with them.
#[inline(always)]
pub unsafe fn call(number: i64, args: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the system call convention: rcx and r11 are clobbered, flags too.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// Calls a function on another stack.
///
/// # Safety
/// The stack ends at `stack`, and is nobody else's meanwhile.
#[inline(never)]
pub unsafe fn call_on(stack: usize, function: extern "C" fn(usize), argument: usize) {
    // SAFETY: r12 is kept by what is called, and the stack is aligned: it ends with a page.
    unsafe {
        asm!(
            "mov r12, rsp",
            "mov rsp, {stack}",
            "call {function}",
            "mov rsp, r12",
            stack = in(reg) stack,
            function = in(reg) function,
            in("rdi") argument,
            out("r12") _,
            clobber_abi("C"),
        );
    }
}

/// Makes a thread with these flags of `clone`, which calls `function` on its own stack and ends. The
/// answer is as of the call. `CLONE_CHILD_CLEARTID` is about `running`.
///
/// # Safety
/// The stack ends at `stack`, and is nobody else's while the thread lives, as `running` is. Signals
/// are blocked.
#[inline(never)]
pub unsafe fn run_thread(
    flags: usize,
    stack: usize,
    function: extern "C" fn(usize),
    argument: usize,
    running: &AtomicU32,
) -> isize {
    let answer: isize;
    // SAFETY: the system call convention; the thread keeps all registers but the stack pointer, and
    // never leaves this block.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "xor edi, edi",
            "mov eax, {exit}",
            "syscall",
            "ud2",
            "2:",
            exit = const libc::SYS_exit,
            inlateout("rax") libc::SYS_clone as isize => answer,
            in("rdi") flags,
            in("rsi") stack,
            in("rdx") 0usize,
            in("r10") running.as_ptr(),
            in("r8") 0usize,
            in("r12") function as usize,
            in("r13") argument,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    answer
}

/// The thread's own address: a value no other living thread of this process has.
#[inline(always)]
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the ABI keeps the thread control block's own address at fs:0.
    unsafe { asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
    pointer
}

/// The stack pointer of the caller, near enough to tell frames apart.
#[inline(always)]
pub fn stack_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reading the stack pointer has no effect.
    unsafe { asm!("mov {}, rsp", out(reg) pointer, options(nostack, nomem, preserves_flags)) };
    pointer
}

/// Replaces `expected` by `new`; false if the word holds something else. Without a lock prefix: one
/// instruction cannot be interrupted half-way.
///
/// # Safety
/// No other thread may change the word.
#[inline(always)]
pub unsafe fn swap_alone(word: &AtomicU64, expected: u64, new: u64) -> bool {
    // SAFETY: the word is valid memory; this is atomic against whatever interrupts this thread, and
    // the caller says that there is no other one.
    unsafe {
        asm!(
            "cmpxchg qword ptr [{word}], {new}",
            "jne {failed}",
            word = in(reg) word.as_ptr(),
            new = in(reg) new,
            inlateout("rax") expected => _,
            failed = label { return false },
            options(nostack),
        );
    }
    true
}

/// Takes one from a static count that need not be exact with several threads; whether any is left. Written
/// out, as the compiler would make five instructions of it, each of which every buffered call pays for.
macro_rules! count_down {
    ($count:path) => {
        'count: {
            // SAFETY: a static.
            unsafe {
                core::arch::asm!(
                    "dec dword ptr [rip + {count}]",
                    "jle {none}",
                    count = sym $count,
                    none = label { break 'count false },
                    options(nostack),
                );
            }
            true
        }
    };
}
pub(crate) use count_down;

/// Whether a static of 32 bits has some of these. Written out, as the compiler takes no atomic for an
/// operand.
macro_rules! has {
    ($static:path, $bits:expr) => {
        'has: {
            // SAFETY: a static, which is read whole.
            unsafe {
                core::arch::asm!(
                    "test dword ptr [rip + {word}], {bits}",
                    "jnz {some}",
                    word = sym $static,
                    bits = const $bits,
                    some = label { break 'has true },
                    options(nostack, readonly),
                );
            }
            false
        }
    };
}
pub(crate) use has;

/// The low half of a word, together with the bits of a static of 32. Written out for the same reason.
macro_rules! join {
    ($word:expr, $bits:path) => {{
        let mut joined: u64 = $word;
        // SAFETY: a static, which is read whole.
        unsafe {
            core::arch::asm!(
                "or {joined:e}, dword ptr [rip + {bits}]",
                joined = inout(reg) joined,
                bits = sym $bits,
                options(nostack, readonly),
            );
        }
        joined
    }};
}
pub(crate) use join;

/// The address of a symbol that there may be in this process; 0: there is none.
macro_rules! address_if_any {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: what the loader has found is read from where it has put it.
        unsafe { core::arch::asm!(
            concat!(".weak ", $name),
            concat!("mov {}, qword ptr [rip + ", $name, "@GOTPCREL]"),
            out(reg) address,
            options(nostack, pure, readonly, preserves_flags),
        ) };
        address
    }};
}
pub(crate) use address_if_any;

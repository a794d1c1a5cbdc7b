//! aarch64.
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

/// `EM_AARCH64`.
pub const MACHINE: u16 = 183;

/// How a loader fills in a place (`R_AARCH64_...`).
pub mod relocation {
    /// `JUMP_SLOT`: the address of a function, which may be looked up when it is first called.
    pub const CALL: u32 = 1026;
    /// `GLOB_DAT`: an address.
    pub const ADDRESS: u32 = 1025;
    /// `ABS64`: the same, in data.
    pub const IN_DATA: u32 = 257;
    /// `COPY`: a variable's first value.
    pub const COPY: u32 = 1024;
}

/// The largest page that a kernel of this machine may have: its pages have 4, 16 or 64 KiB, as the kernel was
/// built.
pub const PAGE_BYTES_MAX: u64 = 65536;

/// Alone in its pages, however large they are.
#[repr(C, align(65536))]
pub struct OwnPage<T>(pub T);

/// Memory of programs ends here. A kernel with larger addresses gives them only to anyone who asks for more
/// by address.
pub const USER_END: usize = 1 << 48;

/// Makes a system call with up to six arguments.
///
/// # Safety
/// The arguments must be what the call expects; pointers must be valid for what it does with them.
#[inline(always)]
pub unsafe fn call(number: i64, args: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: the system call convention: only x0 changes.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") args[0] => answer,
            in("x1") args[1],
            in("x2") args[2],
            in("x3") args[3],
            in("x4") args[4],
            in("x5") args[5],
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
    // SAFETY: x20 is kept by what is called, and the stack is aligned: it ends with a page.
    unsafe {
        asm!(
            "mov x20, sp",
            "mov sp, {stack}",
            "blr {function}",
            "mov sp, x20",
            stack = in(reg) stack,
            function = in(reg) function,
            in("x0") argument,
            out("x20") _,
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
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x10",
            "blr x9",
            "mov x0, xzr",
            "mov x8, {exit}",
            "svc 0",
            "brk 1",
            "2:",
            exit = const libc::SYS_exit,
            in("x8") libc::SYS_clone,
            inlateout("x0") flags as isize => answer,
            in("x1") stack,
            in("x2") 0usize,
            in("x3") 0usize,
            in("x4") running.as_ptr(),
            in("x9") function as usize,
            in("x10") argument,
        );
    }
    answer
}

/// The thread's own address: a value no other living thread of this process has.
#[inline(always)]
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reading the thread register has no effect.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem, preserves_flags))
    };
    pointer
}

/// The stack pointer of the caller, near enough to tell frames apart.
#[inline(always)]
pub fn stack_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reading the stack pointer has no effect.
    unsafe { asm!("mov {}, sp", out(reg) pointer, options(nostack, nomem, preserves_flags)) };
    pointer
}

/// Replaces `expected` by `new`; false if the word holds something else. Without a barrier: a handler of
/// this thread sees its memory in the order of the program; one that comes in between makes the store
/// fail, so it is tried again. Written out, as the compiler would call a function that asks whether
/// the processor has one instruction for it.
///
/// # Safety
/// No other thread may change the word.
#[inline(always)]
pub unsafe fn swap_alone(word: &AtomicU64, expected: u64, new: u64) -> bool {
    let found: u64;
    // SAFETY: the word is valid memory.
    unsafe {
        asm!(
            "2:",
            "ldxr {found}, [{word}]",
            "cmp {found}, {expected}",
            "b.ne 3f",
            "stxr {failed:w}, {new}, [{word}]",
            "cbnz {failed:w}, 2b",
            "3:",
            word = in(reg) word.as_ptr(),
            expected = in(reg) expected,
            new = in(reg) new,
            found = out(reg) found,
            failed = out(reg) _,
            options(nostack),
        );
    }
    found == expected
}

/// Takes one from a static count that need not be exact with several threads; whether any is left.
macro_rules! count_down {
    ($count:path) => {{
        let left = $count.load(core::sync::atomic::Ordering::Relaxed).wrapping_sub(1);
        $count.store(left, core::sync::atomic::Ordering::Relaxed);
        left > 0
    }};
}
pub(crate) use count_down;

/// Whether a static of 32 bits has some of these.
macro_rules! has {
    ($static:path, $bits:expr) => {
        $static.load(core::sync::atomic::Ordering::Relaxed) & $bits != 0
    };
}
pub(crate) use has;

/// The low half of a word, together with the bits of a static of 32.
macro_rules! join {
    ($word:expr, $bits:path) => {
        $word | u64::from($bits.load(core::sync::atomic::Ordering::Relaxed))
    };
}
pub(crate) use join;

/// The address of a symbol that there may be in this process; 0: there is none.
macro_rules! address_if_any {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: what the loader has found is read from where it has put it.
        unsafe { core::arch::asm!(
            concat!(".weak ", $name),
            concat!("adrp {0}, :got:", $name),
            concat!("ldr {0}, [{0}, :got_lo12:", $name, "]"),
            out(reg) address,
            options(nostack, pure, readonly, preserves_flags),
        ) };
        address
    }};
}
pub(crate) use address_if_any;

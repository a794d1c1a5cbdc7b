//! What each machine does in its own way: a folder for each, with the same names in both.
//!
//! | name | what it is |
//! |---|---|
//! | `call` | a system call, without libc |
//! | `old` | numbers of calls that only older machines have; none of them equal to another call's |
//! | `call_on` | a call on another stack |
//! | `run_thread` | a thread that runs one function and ends, without libc |
//! | `thread_pointer`, `stack_pointer` | registers |
//! | `swap_alone` | compare-and-swap against handlers of the same thread only |
//! | `count_down` | takes one from a count, and says whether any is left |
//! | `has`, `join` | questions to a static of 32 bits |
//! | `copy`, `choose_copy` | the copy routine whose faults are caught; which instructions it may use |
//! | `copy_pair` | the shortest copies, in place |
//! | `instruction_pointer` | where a handler's context says the program is |
//! | `restorer` | how a handler returns, where the kernel wants to be told |
//! | `jump_after`, `with_list` | bodies of functions with variable arguments |
//! | `vfork` | body of a function by which a child borrows its parent's memory and stack |
//! | `with_caller` | body of a function that learns where its call returns to |
//! | `address_if_any` | the address of a symbol that not every C library has |
//! | `PAGE_BYTES_MAX`, `OwnPage` | how large pages may be; what has pages of its own |
//! | `sweetspot_memcpy`, ... | what the compiler calls: see below |
//! | `USER_END` | where the memory of programs ends |
//! | `MACHINE` | the machine, as ELF names it |
//! | `relocation` | how a loader fills in a place |
//!
//! Invariant: nowhere else in this crate is a machine asked for.

/// A line of assembly: from a first address to a second the program's memory may be touched, and a fault
/// goes on at a third. Nothing is relocated, as each is said as the distance from where it is said.
macro_rules! copies_between {
    ($begin:literal, $end:literal, $landing:literal) => {
        concat!(
            ".pushsection sweetspot_copies, \"aR\", @progbits\n",
            ".long ",
            $begin,
            " - .\n",
            ".long ",
            $end,
            " - .\n",
            ".long ",
            $landing,
            " - .\n",
            ".popsection",
        )
    };
}

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

/// Calls that only older machines have; on others, numbers that no call has.
pub mod old {
    use core::ffi::c_long;
    /// No call; an argument that stands for none.
    pub const NONE: c_long = -1;
    macro_rules! calls {
        ($($name:ident $call:ident $none:literal;)*) => {$(
            #[cfg(target_arch = "x86_64")]
            pub const $name: c_long = libc::$call;
            #[cfg(not(target_arch = "x86_64"))]
            pub const $name: c_long = $none;
        )*};
    }
    calls! {
        VFORK SYS_vfork -2;
        FORK SYS_fork -3;
        OPEN SYS_open -4;
        CREAT SYS_creat -5;
        DUP2 SYS_dup2 -6;
        PIPE SYS_pipe -7;
        CHMOD SYS_chmod -8;
        CHOWN SYS_chown -9;
        LCHOWN SYS_lchown -10;
        UTIME SYS_utime -11;
        UTIMES SYS_utimes -12;
        FUTIMESAT SYS_futimesat -13;
        STAT SYS_stat -14;
        LSTAT SYS_lstat -15;
    }
}

// What the compiler calls to copy, move, fill and compare memory, and to find the end of a string: ours, as
// each of libc's would have to be looked up, and chosen by what the processor can, at each start. None of
// these copies is long or frequent; those of reads and writes are `copy`'s. The names are hidden: nobody
// else's calls come here.
#[cfg(preload_abi)]
core::arch::global_asm!(
    ".globl memcpy, memmove, memset, memcmp, bcmp, strlen",
    ".hidden memcpy, memmove, memset, memcmp, bcmp, strlen",
    ".set memcpy, sweetspot_memcpy",
    ".set memmove, sweetspot_memmove",
    ".set memset, sweetspot_memset",
    ".set memcmp, sweetspot_memcmp",
    ".set bcmp, sweetspot_memcmp",
    ".set strlen, sweetspot_strlen",
);

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    unsafe extern "C" {
        fn sweetspot_memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8;
        fn sweetspot_memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8;
        fn sweetspot_memset(to: *mut u8, byte: i32, len: usize) -> *mut u8;
        fn sweetspot_memcmp(one: *const u8, other: *const u8, len: usize) -> i32;
        fn sweetspot_strlen(string: *const u8) -> usize;
    }

    #[test]
    fn memory_is_copied_moved_filled_and_compared() {
        let bytes: Vec<u8> = (1..=200).collect();
        for len in 0..70 {
            for (from, to) in [(0, 80), (3, 81), (80, 1), (10, 10), (10, 13), (13, 10), (10, 11)] {
                let mut moved = bytes.clone();
                moved.copy_within(from..from + len, to);
                let check = |what: &dyn Fn(*mut u8) -> *mut u8| {
                    let mut here = bytes.clone();
                    let target = here[to..].as_mut_ptr();
                    assert_eq!(what(here.as_mut_ptr()), target);
                    assert_eq!(here, moved, "{len} bytes from {from} to {to}");
                };
                // SAFETY: all lies within the bytes.
                check(&|here| unsafe { sweetspot_memmove(here.add(to), here.add(from), len) });
                if from.abs_diff(to) >= len {
                    // SAFETY: as above, and apart.
                    check(&|here| unsafe { sweetspot_memcpy(here.add(to), here.add(from), len) });
                }
            }
            let mut filled = bytes.clone();
            // SAFETY: all lies within the bytes.
            unsafe { sweetspot_memset(filled[5..].as_mut_ptr(), 0x1f7, len) };
            assert!(filled[5..5 + len].iter().all(|byte| *byte == 0xf7));
            assert_eq!((filled[4], filled[5 + len]), (5, 6 + len as u8));
            for at in 0..len {
                let mut other = bytes.clone();
                other[at] = if at % 2 == 0 { 255 } else { 0 };
                // SAFETY: as above.
                let order = |len| unsafe { sweetspot_memcmp(bytes.as_ptr(), other.as_ptr(), len) };
                assert_eq!(order(len).signum(), if at % 2 == 0 { -1 } else { 1 });
                assert_eq!(order(at), 0);
                other[at] = 0;
                // SAFETY: there is a zero.
                assert_eq!(unsafe { sweetspot_strlen(other.as_ptr()) }, at);
            }
        }
    }
}

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
//! | `copy`, `choose_copy` | the copy routine whose faults are caught; which instructions it may use |
//! | `instruction_pointer` | where a handler's context says the program is |
//! | `restorer` | how a handler returns, where the kernel wants to be told |
//! | `jump_after`, `with_list` | bodies of functions with variable arguments |
//! | `with_caller` | body of a function that learns where its call returns to |
//! | `address_if_any` | the address of a symbol that not every C library has |
//! | `PAGE_BYTES_MAX`, `OwnPage` | how large pages may be; what has pages of its own |
//! | `USER_END` | where the memory of programs ends |
//! | `MACHINE` | the machine, as ELF names it |
//!
//! Invariant: nowhere else in this crate is a machine asked for.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

//! The C functions that stand in front of libc's: arguments in, answer out, nothing else.
//!
//! Each file groups them as a reader would look for them. A function either asks `ops` (and calls
//! the next definition when told to pass on), or is one of a table that passes on and notes that
//! the program spoke and listened.

// Each must be called as the C function of its name.
#![allow(clippy::missing_safety_doc)]
// The names are libc's.
#![allow(non_snake_case)]

/// What lies behind a C function of ours: a module of the same name with its next definition.
macro_rules! next {
    ($name:ident) => {
        pub(crate) mod $name {
            static NEXT: $crate::next::Next = $crate::next::Next::new();

            /// The address of the next definition.
            #[inline(always)]
            pub(crate) fn next() -> usize {
                // SAFETY: a literal that ends with its only zero.
                NEXT.address(unsafe {
                    core::ffi::CStr::from_bytes_with_nul_unchecked(
                        concat!(stringify!($name), "\0").as_bytes(),
                    )
                })
            }
        }
    };
}

/// A C function in front of libc's. In its body, the name given after the arrow calls the next
/// definition.
macro_rules! hook {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty, $next:ident => $body:block) => {
        $(#[$doc])*
        #[cfg_attr(preload_abi, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $ret {
            let $next = {
                #[allow(unused_variables)]
                |$($arg: $type),*| -> $ret {
                    let next: unsafe extern "C" fn($($type),*) -> $ret = {
                        // SAFETY: the next definition of this name has this signature.
                        unsafe { core::mem::transmute($name::next()) }
                    };
                    // SAFETY: the caller made the same call.
                    unsafe { next($($arg),*) }
                }
            };
            $body
        }
        next! { $name }
    };
}

/// C functions that pass on, and speak and listen: everything that others could notice, or that
/// brings news, and concerns nothing that is buffered.
macro_rules! pass_on {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty;)*) => {
        $(hook! {
            fn $name($($arg: $type),*) -> $ret, next => {
                let pass = $crate::ops::pass_on();
                let answer = next($($arg),*);
                pass.done();
                answer
            }
        })*
    };
}

/// The same, for functions that look at no file: what nobody but us looks at goes on waiting.
macro_rules! talk {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty;)*) => {
        $(hook! {
            fn $name($($arg: $type),*) -> $ret, next => {
                let pass = $crate::ops::talk();
                let answer = next($($arg),*);
                pass.done();
                answer
            }
        })*
    };
}

/// The same, for functions whose first argument is a descriptor at whose position, or with whose
/// content, something is done: the kernel must know both.
macro_rules! hand_over {
    ($(fn $name:ident($fd:ident: c_int $(, $arg:ident: $type:ty)* $(,)?) -> $ret:ty;)*) => {
        $(hook! {
            fn $name($fd: c_int $(, $arg: $type)*) -> $ret, next => {
                $crate::ops::life::hand_over($fd);
                let pass = $crate::ops::pass_on();
                let answer = next($fd $(, $arg)*);
                pass.done();
                answer
            }
        })*
    };
}

/// The same, for functions that return a new descriptor of something that is not buffered.
macro_rules! makes {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {
        $(hook! {
            fn $name($($arg: $type),*) -> c_int, next => {
                let pass = $crate::ops::pass_on();
                let fd = next($($arg),*);
                $crate::ops::life::made(fd);
                pass.done();
                fd
            }
        })*
    };
}

/// A C function with variable arguments, which cannot be forwarded in Rust: all registers that may
/// hold arguments are saved, `before` is called with them, and what it returns is jumped to, with
/// stack and registers as they were.
macro_rules! jump {
    ($name:ident, $before:path) => {
        #[doc = "Keeps all arguments and goes on where the function before it says."]
        ///
        /// # Safety
        /// As the C function of this name.
        #[cfg_attr(preload_abi, unsafe(no_mangle))]
        #[unsafe(naked)]
        #[cfg(target_arch = "x86_64")]
        pub unsafe extern "C" fn $name() {
            // Seven registers and the return address: the stack is aligned for the call.
            core::arch::naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push rax",
                "sub rsp, 128",
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
                "pop rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp r11",
                before = sym $before,
            )
        }
        #[doc = "Keeps all arguments and goes on where the function before it says."]
        ///
        /// # Safety
        /// As the C function of this name.
        #[cfg_attr(preload_abi, unsafe(no_mangle))]
        #[unsafe(naked)]
        #[cfg(target_arch = "aarch64")]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-224]!",
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
                "br x16",
                before = sym $before,
            )
        }
        next! { $name }
    };
}

/// An address that is handed on as it is.
type Pointer = *const core::ffi::c_void;

pub mod accounts;
pub mod descriptors;
pub mod dup;
pub mod embed;
pub mod locale;
pub mod locks;
pub mod memory;
pub mod metadata;
pub mod names;
pub mod network;
pub mod open_close;
pub mod process;
pub mod raw;
pub mod read_write;
pub mod rights;
pub mod seek;
pub mod signals;
pub mod stdio;
pub mod system;
pub mod transfer;
pub mod waiting;

//! The C functions that stand in front of libc's: arguments in, answer out, nothing else.
//!
//! Each file groups them as a reader would look for them. A function either asks the engine, or `dispatch` for
//! it (and calls the next definition where that says to pass through), or is one of a table whose calls pass through
//! between a release point and an acquire point.

// Each must be called as the C function of its name.
#![allow(clippy::missing_safety_doc)]
// The names are libc's.
#![allow(non_snake_case)]

/// What lies behind a C function of ours: a module of the same name with its next definition.
macro_rules! next {
    ($name:ident) => {
        pub(crate) mod $name {
            static NEXT: $crate::floor::next::Next = $crate::floor::next::Next::new();

            /// The address of the next definition.
            #[inline(always)]
            pub(crate) fn next() -> usize {
                // SAFETY: a literal that ends with its only zero.
                let name = unsafe {
                    core::ffi::CStr::from_bytes_with_nul_unchecked(
                        concat!(stringify!($name), "\0").as_bytes(),
                    )
                };
                match const { $crate::floor::next::has_several(stringify!($name).as_bytes()) } {
                    true => NEXT.address_asked(name),
                    false => NEXT.address(name),
                }
            }

            /// The same, once it was asked for.
            #[allow(dead_code)]
            #[inline(always)]
            pub(crate) fn known() -> Option<core::num::NonZeroUsize> {
                NEXT.known()
            }
        }
    };
}

/// What calls the function at an address, with these arguments.
macro_rules! calls {
    ($address:expr => ($($arg:ident: $type:ty),*) -> $ret:ty) => {{
        #[allow(unused_variables)]
        |$($arg: $type),*| -> $ret {
            let next: unsafe extern "C" fn($($type),*) -> $ret = {
                // SAFETY: the next definition of the name has this signature.
                unsafe { core::mem::transmute::<usize, _>($address) }
            };
            // SAFETY: the caller made the same call.
            unsafe { next($($arg),*) }
        }
    }};
}

/// A C function in front of libc's. In its body, the name given after the arrow calls the next
/// definition.
macro_rules! hook {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty, $next:ident => $body:block) => {
        $(#[$doc])*
        #[cfg_attr(preload_abi, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $ret {
            let $next = calls!($name::next() => ($($arg: $type),*) -> $ret);
            $body
        }
        next! { $name }
    };
}

/// The same in two steps: the first if the condition holds, which mostly means that nothing concerns the
/// call, and the second otherwise. That is a function of its own to which the first *jumps*: so nothing
/// is saved for what is rare.
macro_rules! hook_in_two {
    (
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty, $next:ident
        if $first:pat = $condition:expr => $body:block
        else $otherwise:block
    ) => {
        hook! {
            $(#[$doc])*
            fn $name($($arg: $type),*) -> $ret, _any => {
                $(#[$doc])*
                #[inline(never)]
                unsafe extern "C" fn otherwise($($arg: $type),*) -> $ret {
                    let $next = calls!($name::next() => ($($arg: $type),*) -> $ret);
                    $otherwise
                }

                if let Some(address) = $name::known()
                    && let $first = $condition
                {
                    let $next = calls!(address.get() => ($($arg: $type),*) -> $ret);
                    return $body;
                }
                // SAFETY: the caller made the same call.
                unsafe { otherwise($($arg),*) }
            }
        }
    };
}

/// C functions that pass through between a release point and an acquire point: everything that others
/// could notice, or that brings news, and concerns nothing that is buffered. Where nothing comes after
/// the call it is a jump: below a frame of ours the processor does not know where a call that came
/// back from the kernel returns to, which costs as much as all the rest of `profile`.
macro_rules! pass_through {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty;)*) => {
        $(hook_in_two! {
            fn $name($($arg: $type),*) -> $ret, next
            if false = $crate::engine::concerns::any() => {
                let answer = next($($arg),*);
                $crate::engine::process::acquire_point();
                answer
            } else {
                if $crate::front::dispatch::takes_no_part() {
                    return next($($arg),*);
                }
                $crate::engine::release_point();
                let answer = next($($arg),*);
                $crate::engine::process::acquire_point();
                answer
            }
        })*
    };
}

/// The same, for functions that show whether what was closed is free: space, names, mounts.
macro_rules! shows_what_is_free {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty $(, then $learned:path)?;)*) => {
        $(hook! {
            fn $name($($arg: $type),*) -> $ret, next => {
                let pass = $crate::front::dispatch::pass_through();
                $crate::engine::before_it_is_seen_free();
                let answer = next($($arg),*);
                $($learned();)?
                pass.done();
                answer
            }
        })*
    };
}

/// The same, for functions that succeed once nobody uses something any more: the process that used it may be dead.
macro_rules! shows_who_is_gone {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty;)*) => {
        shows_what_is_free! {
            $(fn $name($($arg: $type),*) -> $ret, then $crate::engine::deaths::may_have_learned;)*
        }
    };
}

/// The same, for functions that look at no file: what nobody but us looks at goes on waiting.
macro_rules! public_sync_point {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty;)*) => {
        $(hook! {
            fn $name($($arg: $type),*) -> $ret, next => {
                let pass = $crate::front::dispatch::public_sync_point();
                let answer = next($($arg),*);
                pass.done();
                answer
            }
        })*
    };
}

/// The same, for functions after which this process may know of the death of another one.
macro_rules! learns_of_deaths {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {
        $(hook! {
            fn $name($($arg: $type),*) -> c_int, next => {
                let pass = $crate::front::dispatch::public_sync_point();
                let answer = next($($arg),*);
                $crate::engine::deaths::learned();
                pass.done();
                answer
            }
        })*
    };
}

/// C functions that pass through likewise, and may tell of a death if anybody's bytes wait.
macro_rules! may_tell_of_deaths {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $ret:ty;)*) => {
        $(hook! {
            fn $name($($arg: $type),*) -> $ret, next => {
                let pass = $crate::front::dispatch::pass_through();
                let answer = next($($arg),*);
                $crate::engine::deaths::may_have_learned();
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
                $crate::front::dispatch::hand_over($fd);
                let pass = $crate::front::dispatch::pass_through();
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
                let pass = $crate::front::dispatch::pass_through();
                let fd = next($($arg),*);
                $crate::front::dispatch::made(fd);
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
        pub unsafe extern "C" fn $name() {
            $crate::arch::jump_after!($before)
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
pub mod threads;
pub mod transfer;
pub mod vfork;
pub mod waiting;

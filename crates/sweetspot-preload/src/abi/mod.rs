//! The C functions that stand in front of libc's: arguments in, answer out, nothing else.
//!
//! Each file groups them as a reader would look for them. A function either asks `ops` (and calls
//! the next definition when told to pass on), or is one of a table that passes on and notes that
//! the program spoke and listened.

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
                    type Next = unsafe extern "C" fn($($type),*) -> $ret;
                    // SAFETY: the next definition of this name has this signature, and the caller
                    // made the same call.
                    unsafe { core::mem::transmute::<usize, Next>($name::NEXT.address())($($arg),*) }
                }
            };
            $body
        }
        pub(crate) mod $name {
            pub(crate) static NEXT: $crate::next::Next = {
                // SAFETY: a literal that ends with its only zero.
                $crate::next::Next::new(unsafe {
                    core::ffi::CStr::from_bytes_with_nul_unchecked(
                        concat!(stringify!($name), "\0").as_bytes(),
                    )
                })
            };
        }
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

pub mod dup;
pub mod open_close;
pub mod process;
pub mod read_write;
pub mod seek;

use crate::reach;

/// The next definitions that are patched from now on are reached by their moved beginnings.
pub fn use_originals() {
    read_write::use_originals();
    for next in [
        &seek::lseek::NEXT,
        &seek::lseek64::NEXT,
        &open_close::close::NEXT,
        &open_close::__close::NEXT,
    ] {
        next.replace(reach::original(next.address()));
    }
}

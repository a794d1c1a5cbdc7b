//! Processes: fork, vfork, spawn, exec, the end.

use core::ffi::{c_char, c_int, c_void};

use crate::ops::process::{after_fork, after_spawn, before_exec, before_fork, before_spawn, end};

macro_rules! forks {
    ($($name:ident)*) => {$(hook! {
        fn $name() -> c_int, next => {
            before_fork();
            let child = next();
            after_fork(child);
            child
        }
    })*};
}
forks! { fork __fork _Fork }

macro_rules! execs {
    ($(fn $name:ident($($arg:ident: $type:ty),*);)*) => {$(hook! {
        fn $name($($arg: $type),*) -> c_int, next => {
            before_exec();
            next($($arg),*)
        }
    })*};
}
execs! {
    fn execve(path: *const c_char, arguments: *const c_void, environment: *const c_void);
    fn execv(path: *const c_char, arguments: *const c_void);
    fn execvp(file: *const c_char, arguments: *const c_void);
    fn execvpe(file: *const c_char, arguments: *const c_void, environment: *const c_void);
    fn fexecve(fd: c_int, arguments: *const c_void, environment: *const c_void);
    fn execveat(
        folder: c_int, path: *const c_char, arguments: *const c_void, environment: *const c_void,
        flags: c_int
    );
}

macro_rules! spawns {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $ret:ty;)*) => {$(hook! {
        fn $name($($arg: $type),*) -> $ret, next => {
            before_spawn();
            let answer = next($($arg),*);
            after_spawn();
            answer
        }
    })*};
}
spawns! {
    fn posix_spawn(
        child: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: *const c_void, environment: *const c_void
    ) -> c_int;
    fn posix_spawnp(
        child: *mut c_int, file: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: *const c_void, environment: *const c_void
    ) -> c_int;
    fn system(command: *const c_char) -> c_int;
    fn popen(command: *const c_char, mode: *const c_char) -> *mut c_void;
    fn wordexp(words: *const c_char, into: *mut c_void, flags: c_int) -> c_int;
}

macro_rules! ends {
    ($($name:ident)*) => {$(
        #[doc = "Ends the process without destructors."]
        #[cfg_attr(preload_abi, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(status: c_int) -> ! {
            end();
            // SAFETY: the next definition of this name has this signature.
            let next: unsafe extern "C" fn(c_int) -> ! =
                unsafe { core::mem::transmute($name::NEXT.address()) };
            // SAFETY: any status may be given.
            unsafe { next(status) }
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
    )*};
}
ends! { _exit _Exit quick_exit }

//! Processes: fork, vfork, spawn, exec, the end.

use core::ffi::{c_char, c_int, c_uint, c_void};

use sweetspot_core::why::Why;

use super::Pointer;
use crate::fault;
use crate::ops::life;
use crate::ops::process::{
    after_fork, after_spawn, before_exec, before_fork, before_spawn, end, end_because,
};

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
            fault::before_exec();
            let answer = next($($arg),*);
            fault::after_exec();
            crate::ops::process::after_exec();
            answer
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
            fault::before_exec();
            let answer = next($($arg),*);
            fault::after_exec();
            crate::ops::process::after_exec();
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
    fn wordexp(words: *const c_char, into: *mut c_void, flags: c_int) -> c_int;
}

macro_rules! watched_spawns {
    ($($name:ident)*) => {$(hook! {
        fn $name(
            fd: *const c_int, path: *const c_char, actions: *const c_void,
            attributes: *const c_void, arguments: *const c_void, environment: *const c_void,
        ) -> c_int, next => {
            before_spawn();
            fault::before_exec();
            let answer = next(fd, path, actions, attributes, arguments, environment);
            fault::after_exec();
            crate::ops::process::after_exec();
            after_spawn();
            if answer == 0 {
                life::made_several(fd, 1);
            }
            answer
        }
    })*};
}
watched_spawns! { pidfd_spawn pidfd_spawnp }

macro_rules! ends {
    ($($name:ident)*) => {$(
        #[doc = "Ends the process without destructors."]
        ///
        /// # Safety
        /// As the C function of this name.
        #[cfg_attr(preload_abi, unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(status: c_int) -> ! {
            end();
            let next: unsafe extern "C" fn(c_int) -> ! = {
                // SAFETY: the next definition of this name has this signature.
                unsafe { core::mem::transmute($name::next()) }
            };
            // SAFETY: any status may be given.
            unsafe { next(status) }
        }
        next! { $name }
    )*};
}
ends! { _exit _Exit quick_exit }

/// Functions that end the process by a signal; `abort` comes back only into a handler that leaves
/// by a jump, and then the program goes on without buffering.
macro_rules! aborts {
    ($(fn $name:ident($($arg:ident: $type:ty),*);)*) => {$(hook! {
        fn $name($($arg: $type),*) -> (), next => {
            end();
            next($($arg),*)
        }
    })*};
}
aborts! {
    fn abort();
    fn __assert(assertion: Pointer, file: Pointer, line: c_int);
    fn __assert_fail(assertion: Pointer, file: Pointer, line: c_uint, function: Pointer);
    fn __assert_perror_fail(error: c_int, file: Pointer, line: c_uint, function: Pointer);
    fn __stack_chk_fail();
    fn __chk_fail();
}

hook! {
    fn posix_spawn_file_actions_adddup2(
        actions: *mut c_void, fd: c_int, new: c_int,
    ) -> c_int, next => {
        // The child will have a duplicate, even of what is closed at exec.
        life::special_use(fd, Why::Shared);
        next(actions, fd, new)
    }
}

// The child of a vfork returns to where its parent will return: nothing of ours may be on the
// stack in between.
jump! { vfork, before_vfork }
jump! { __vfork, before_vfork_too }

extern "C" fn before_vfork() -> usize {
    before_spawn();
    vfork::next()
}

extern "C" fn before_vfork_too() -> usize {
    before_spawn();
    __vfork::next()
}

jump! { execl, before_execl }
jump! { execle, before_execle }
jump! { execlp, before_execlp }

extern "C" fn before_execl() -> usize {
    before_exec();
    fault::before_exec();
    execl::next()
}

extern "C" fn before_execle() -> usize {
    before_exec();
    fault::before_exec();
    execle::next()
}

extern "C" fn before_execlp() -> usize {
    before_exec();
    fault::before_exec();
    execlp::next()
}

/// What the child of a `clone` that shares no memory runs: it has a copy of this.
struct Started {
    function: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
}

extern "C" fn start(started: *mut c_void) -> c_int {
    after_fork(0);
    // SAFETY: the child has a copy of the parent's stack, on which this lies.
    let started = unsafe { &*started.cast::<Started>() };
    (started.function)(started.argument)
}

/// How the process that a `clone` makes is related to this one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kin {
    /// A copy of the memory.
    Fork,
    /// It borrows the memory until it execs.
    Vfork,
    /// It shares everything that we keep: a thread.
    Thread,
    /// It shares the memory, but not the descriptors or the thread's register; or it lives in
    /// another namespace.
    Other,
}

/// Tells them apart by the flags of `clone`.
pub(super) fn kin(flags: u64) -> Kin {
    let has = |flag: c_int| flags & flag as u32 as u64 != 0;
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    match (has(libc::CLONE_VM), has(libc::CLONE_FILES)) {
        (true, true) if has(libc::CLONE_THREAD) && has(libc::CLONE_SETTLS) => Kin::Thread,
        (true, false) if has(libc::CLONE_VFORK) && !has(libc::CLONE_SETTLS) => Kin::Vfork,
        (false, false) if !has(namespaces) => Kin::Fork,
        _ => Kin::Other,
    }
}

macro_rules! clones {
    ($($name:ident)*) => {$(hook! {
        fn $name(
            function: Option<extern "C" fn(*mut c_void) -> c_int>, stack: *mut c_void,
            flags: c_int, argument: *mut c_void, parent: Pointer, local: Pointer, child: Pointer,
        ) -> c_int, next => {
            let Some(started) = function.map(|function| Started { function, argument }) else {
                return next(function, stack, flags, argument, parent, local, child);
            };
            match kin(flags as u32 as u64) {
                Kin::Thread => next(function, stack, flags, argument, parent, local, child),
                Kin::Fork => {
                    before_fork();
                    let started = (&raw const started).cast_mut().cast();
                    let answer = next(Some(start), stack, flags, started, parent, local, child);
                    after_fork(if answer == 0 { -1 } else { answer });
                    answer
                }
                Kin::Vfork => {
                    before_spawn();
                    let answer = next(function, stack, flags, argument, parent, local, child);
                    after_spawn();
                    answer
                }
                Kin::Other => {
                    end_because(Why::Shared);
                    next(function, stack, flags, argument, parent, local, child)
                }
            }
        }
    })*};
}
clones! { clone __clone }

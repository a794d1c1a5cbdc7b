//! Processes: fork, vfork, spawn, exec, the end.

use core::ffi::{c_char, c_int, c_uint, c_void};

use sweetspot_core::why::Why;

use super::Pointer;
use super::vfork::{self, Started};
use crate::engine::children::{after_exec, after_spawn_with_handlers};
use crate::engine::deaths;
use crate::engine::ending::end_status;
use crate::engine::entries::before_threads;
use crate::engine::handlers;
use crate::engine::life::is_for_writing;
use crate::engine::sharing::{
    MOVES, OPENS, adding_to_actions, begin_actions, begun_actions, forget_actions, is_named,
    named_in_actions,
};
use crate::engine::spawns;
use crate::floor::aside;
use crate::floor::atomic::single_threaded;
use crate::front::dispatch::{
    self, after_fork, before_exec, before_fork, before_spawn, end, end_because,
};
use crate::front::reach::target::{self, Environment, Target};

macro_rules! forks {
    ($($name:ident)*) => {$(hook! {
        #[unsafe(link_section = ".text.startup")]
        fn $name() -> c_int, next => {
            // What a child calls next. They are looked up here once, and not in each child.
            let _ = (execve::next(), _exit::next());
            before_fork();
            let child = next();
            after_fork(child);
            child
        }
    })*};
}
forks! { fork __fork _Fork }

/// Becomes another program, in an environment without us where we would harm it; comes back if that
/// fails.
pub(super) fn becoming<R>(
    target: Target,
    environment: Environment,
    exec: impl FnOnce(Option<Environment>) -> R,
) -> R {
    before_exec(|| target.may_be_run());
    let answer = target::start(target, environment, exec);
    after_exec();
    answer
}

macro_rules! execs {
    ($(fn $name:ident($($arg:ident: $type:ty),*), $environment:ident, $target:expr;)*) => {$(hook! {
        #[unsafe(link_section = ".text.startup")]
        fn $name($($arg: $type,)* $environment: Environment) -> c_int, next => {
            becoming($target, $environment, |changed| {
                next($($arg,)* changed.unwrap_or($environment))
            })
        }
    })*};
}
execs! {
    fn execve(path: *const c_char, arguments: Pointer), environment,
        Target::At(libc::AT_FDCWD, path);
    fn execvpe(file: *const c_char, arguments: Pointer), environment, Target::InPath(file);
    fn fexecve(fd: c_int, arguments: Pointer), environment, Target::Open(fd);
}

hook! {
    fn execveat(
        folder: c_int, path: *const c_char, arguments: Pointer, environment: Environment,
        flags: c_int,
    ) -> c_int, next => {
        becoming(at(folder, path, flags), environment, |changed| {
            next(folder, path, arguments, changed.unwrap_or(environment), flags)
        })
    }
}

/// The program that `execveat` means. By the flag the path may be empty, and need not.
pub(super) fn at(folder: c_int, path: *const c_char, flags: c_int) -> Target {
    let is_empty = || path.is_null() || handlers::peek(path) == Some(0);
    match flags & libc::AT_EMPTY_PATH != 0 && is_empty() {
        true => Target::Open(folder),
        false => Target::At(folder, path),
    }
}

hook! {
    fn execv(path: *const c_char, arguments: Pointer) -> c_int, next => {
        let target = Target::At(libc::AT_FDCWD, path);
        becoming(target, target::own_environment(), |changed| match changed {
            None => next(path, arguments),
            Some(changed) => with_environment(execve::next(), path, arguments, changed),
        })
    }
}

hook! {
    fn execvp(file: *const c_char, arguments: Pointer) -> c_int, next => {
        becoming(Target::InPath(file), target::own_environment(), |changed| match changed {
            None => next(file, arguments),
            Some(changed) => with_environment(execvpe::next(), file, arguments, changed),
        })
    }
}

/// `execve` or `execvpe`, by the address of its next definition.
fn with_environment(
    next: usize,
    path: *const c_char,
    arguments: Pointer,
    environment: Environment,
) -> c_int {
    let next: unsafe extern "C" fn(*const c_char, Pointer, Environment) -> c_int =
        // SAFETY: both have this signature.
        unsafe { core::mem::transmute(next) };
    // SAFETY: path and arguments are the program's, the environment is a copy of its own.
    unsafe { next(path, arguments, environment) }
}

/// Starts another program, in an environment without us where we would harm it, by a list of file
/// actions or none.
fn starting<R>(
    target: Target,
    actions: Pointer,
    environment: Environment,
    spawn: impl FnOnce(Environment) -> R,
) -> R {
    before_spawn(actions as usize);
    let target = match is_named(actions as usize, MOVES) {
        true => target.beyond_a_change_of_folder(),
        false => target,
    };
    let answer =
        target::start(target, environment, |changed| spawn(changed.unwrap_or(environment)));
    after_spawn_with_handlers(actions as usize);
    answer
}

macro_rules! spawns {
    ($($name:ident $target:expr;)*) => {$(hook! {
        fn $name(
            child: *mut c_int, file: *const c_char, actions: Pointer, attributes: Pointer,
            arguments: Pointer, environment: Environment,
        ) -> c_int, next => {
            starting($target(file), actions, environment, |environment| {
                next(child, file, actions, attributes, arguments, environment)
            })
        }
    })*};
}
spawns! {
    posix_spawn |path| Target::At(libc::AT_FDCWD, path);
    posix_spawnp Target::InPath;
}

/// Starts the shell inside libc.
pub(super) fn starting_shell<R>(shell: impl FnOnce() -> R) -> R {
    before_spawn(0);
    if !single_threaded() {
        // It may be cancelled.
        spawns::thread_may_end();
    }
    let answer = target::start_shell(shell);
    after_spawn_with_handlers(0);
    // `system` has waited for it.
    deaths::learned();
    answer
}

macro_rules! shells {
    ($(fn $name:ident($($arg:ident: $type:ty),*);)*) => {$(hook! {
        fn $name($($arg: $type),*) -> c_int, next => { starting_shell(|| next($($arg),*)) }
    })*};
}
shells! {
    fn system(command: *const c_char);
    fn wordexp(words: *const c_char, into: *mut c_void, flags: c_int);
}

macro_rules! watched_spawns {
    ($($name:ident $target:expr;)*) => {$(hook! {
        fn $name(
            fd: *const c_int, file: *const c_char, actions: Pointer, attributes: Pointer,
            arguments: Pointer, environment: Environment,
        ) -> c_int, next => {
            let answer = starting($target(file), actions, environment, |environment| {
                next(fd, file, actions, attributes, arguments, environment)
            });
            if answer == 0 {
                dispatch::made_several(fd, 1);
                deaths::descriptor_made();
            }
            answer
        }
    })*};
}
watched_spawns! {
    pidfd_spawn |path| Target::At(libc::AT_FDCWD, path);
    pidfd_spawnp Target::InPath;
}

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
            unsafe { next(end_status(status)) }
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
        let answer = adding_to_actions(actions as usize, || next(actions, fd, new));
        if answer == 0 {
            named_in_actions(actions as usize, fd);
        }
        answer
    }
}

hook! {
    fn posix_spawn_file_actions_addopen(
        actions: *mut c_void, fd: c_int, path: *const c_char, flags: c_int, mode: c_uint,
    ) -> c_int, next => {
        let answer =
            adding_to_actions(actions as usize, || next(actions, fd, path, flags, mode));
        if answer == 0 && is_for_writing(flags) {
            named_in_actions(actions as usize, OPENS);
        }
        answer
    }
}

macro_rules! adds {
    ($also:expr; $(fn $name:ident($arg:ident: $type:ty);)*) => {$(hook! {
        fn $name(actions: *mut c_void, $arg: $type) -> c_int, next => {
            let answer = adding_to_actions(actions as usize, || next(actions, $arg));
            if answer == 0 {
                $also(actions as usize);
            }
            answer
        }
    })*};
}
adds! {
    |_| ();
    fn posix_spawn_file_actions_addclose(fd: c_int);
    fn posix_spawn_file_actions_addclosefrom_np(first: c_int);
    fn posix_spawn_file_actions_addtcsetpgrp_np(fd: c_int);
}
adds! {
    |actions| named_in_actions(actions, MOVES);
    fn posix_spawn_file_actions_addchdir(path: *const c_char);
    fn posix_spawn_file_actions_addchdir_np(path: *const c_char);
    fn posix_spawn_file_actions_addfchdir(fd: c_int);
    fn posix_spawn_file_actions_addfchdir_np(fd: c_int);
}

hook! {
    fn posix_spawn_file_actions_init(actions: *mut c_void) -> c_int, next => {
        begin_actions(actions as usize);
        let answer = next(actions);
        begun_actions(actions as usize);
        answer
    }
}

hook! {
    fn posix_spawn_file_actions_destroy(actions: *mut c_void) -> c_int, next => {
        forget_actions(actions as usize);
        next(actions)
    }
}

/// A C function with a list of arguments that ends with null: the list is made whole on the stack
/// (those in registers are put in front of the others, which lie there already) and handed, with the
/// function's first argument, to `$with`.
macro_rules! lists {
    ($($name:ident $with:ident;)*) => {$(
        #[doc = "Makes a list of its arguments and goes on with that."]
        ///
        /// # Safety
        /// As the C function of this name.
        #[cfg_attr(preload_abi, unsafe(no_mangle))]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            $crate::arch::with_list!($with)
        }
    )*};
}
lists! {
    execl with_execl;
    execle with_execle;
    execlp with_execlp;
}

/// What of another preloaded library stands behind ours is met by its `execv`, which takes a list.
extern "C" fn with_execl(path: *const c_char, arguments: Pointer) -> c_int {
    // SAFETY: the same call, spelled otherwise.
    unsafe { execv(path, arguments) }
}

extern "C" fn with_execlp(file: *const c_char, arguments: Pointer) -> c_int {
    // SAFETY: as above.
    unsafe { execvp(file, arguments) }
}

extern "C" fn with_execle(path: *const c_char, arguments: Pointer) -> c_int {
    let mut end = arguments.cast::<Environment>();
    // SAFETY: the list ends with null, and the environment follows it.
    unsafe {
        while !(*end).is_null() {
            end = end.add(1);
        }
        execve(path, arguments, *end.add(1))
    }
}

extern "C" fn start(started: *mut c_void) -> c_int {
    after_fork(0);
    // SAFETY: the child has a copy of the parent's stack, on which this lies.
    run_to_its_end(unsafe { &*started.cast::<Started>() })
}

/// Where the function returns, libc ends the process by a system call of its own.
fn run_to_its_end(started: &Started) -> c_int {
    let status = (started.function)(started.argument);
    end();
    end_status(status)
}

/// The same in other namespaces.
extern "C" fn start_apart(started: *mut c_void) -> c_int {
    after_fork(0);
    end_because(Why::Confined);
    // SAFETY: as in `start`.
    run_to_its_end(unsafe { &*started.cast::<Started>() })
}

/// How the process that a `clone` makes is related to this one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kin {
    /// A copy of the memory.
    Fork,
    /// The same, in other namespaces: with what this process shares it may not be trusted.
    Apart,
    /// It borrows the memory until it execs.
    Vfork,
    /// It shares everything that we keep: a thread.
    Thread,
    /// It shares the memory, but not the descriptors or the thread's register; or it borrows the memory, and
    /// shares what signals do.
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
        (true, false)
            // Parent and child are told apart by their numbers.
            if has(libc::CLONE_VFORK)
                && !has(libc::CLONE_SETTLS | libc::CLONE_SIGHAND | libc::CLONE_NEWPID) =>
        {
            Kin::Vfork
        }
        (false, false) if has(namespaces) => Kin::Apart,
        (false, false) => Kin::Fork,
        _ => Kin::Other,
    }
}

/// Before a process is made that shares more, or less, with this one than those that are followed.
pub(super) fn before_sharing(flags: u64) {
    aside::descriptors_are_noticed();
    dispatch::before_other_kin();
    end_because(Why::Shared);
    let shares = |flag: c_int| flags & flag as u32 as u64 != 0;
    if shares(libc::CLONE_VM) && !shares(libc::CLONE_SIGHAND) {
        // What is kept of handlers would be that of both.
        handlers::leave();
    }
}

/// In a child that a call made with these flags, which runs on in memory of its own.
pub(super) fn begun(flags: u64) {
    handlers::after_clone(flags);
    if kin(flags) == Kin::Apart {
        dispatch::end_because(Why::Confined);
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
            if flags & libc::CLONE_PIDFD != 0 {
                deaths::descriptor_made();
            }
            match kin(flags as u32 as u64) {
                Kin::Thread => {
                    crate::floor::atomic::expect_threads();
                    before_threads();
                    next(function, stack, flags, argument, parent, local, child)
                }
                kin @ (Kin::Fork | Kin::Apart) => {
                    before_fork();
                    let started = (&raw const started).cast_mut().cast();
                    let begin = if kin == Kin::Apart { start_apart } else { start };
                    let answer = next(Some(begin), stack, flags, started, parent, local, child);
                    after_fork(if answer == 0 { -1 } else { answer });
                    answer
                }
                Kin::Vfork => vfork::with_own_stack(started, |function, argument| {
                    next(Some(function), stack, flags, argument, parent, local, child)
                }),
                Kin::Other => {
                    before_sharing(flags as u32 as u64);
                    next(function, stack, flags, argument, parent, local, child)
                }
            }
        }
    })*};
}
clones! { clone __clone }

//! Mappings: files in memory, and memory that other processes share; libraries loaded later, and
//! functions found by their names.
//!
//! What is stored in a mapping arrives without a call, and so does what others store there: a file
//! that is mapped is passed through, and a process that shares writable memory with another one is
//! not buffered any more (`engine::mapping`).

use core::ffi::{CStr, c_char, c_int, c_long};

use super::Pointer;
use crate::engine::mapping;
use crate::floor::next::{self, After, is_uring};
use crate::front::dispatch;
use sweetspot_core::why::Why;

macro_rules! mappings {
    ($($name:ident)*) => {$(hook! {
        fn $name(
            at: Pointer, len: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64,
        ) -> Pointer, next => {
            match dispatch::mapping(fd, protection, flags) {
                Some(errno) => crate::floor::errno::fail(errno) as Pointer,
                None => {
                    let at = next(at, len, protection, flags, fd, offset);
                    mapping::mapped(flags);
                    at
                }
            }
        }
    })*};
}
mappings! { mmap mmap64 }

hook! {
    fn munmap(at: Pointer, len: usize) -> c_int, next => {
        mapping::unmapping();
        next(at, len)
    }
}

macro_rules! protects {
    ($($name:ident)*) => {$(hook! {
        fn $name(at: Pointer, len: usize, protection: c_int) -> c_int, next => {
            dispatch::protecting(protection);
            next(at, len, protection)
        }
    })*};
}
protects! { mprotect }

hook! {
    fn pkey_mprotect(at: Pointer, len: usize, protection: c_int, key: c_int) -> c_int, next => {
        dispatch::protecting(protection);
        next(at, len, protection, key)
    }
}

hook! {
    fn shmat(id: c_int, at: Pointer, flags: c_int) -> Pointer, next => {
        dispatch::syncs();
        next(id, at, flags)
    }
}

macro_rules! named_semaphores {
    ($($name:ident)*) => {$(hook! {
        // From then on a store can be a release point (sem_post makes no call while nobody waits).
        fn $name(name: Pointer, flags: c_int, mode: usize, value: usize) -> Pointer, next => {
            dispatch::syncs();
            next(name, flags, mode, value)
        }
    })*};
}
named_semaphores! { sem_open }

hook! {
    // What is mapped, or mapped from now on, is locked and counted: none of it may be ours.
    fn mlockall(flags: c_int) -> c_int, next => {
        dispatch::end_because(Why::MemoryLocked);
        next(flags)
    }
}

// The loader looks at who calls it: its caller must be the program, not we.
jump! { dlopen, before_dlopen }
jump! { dlclose, before_dlclose }
jump! { dlmopen, before_dlmopen }

extern "C" fn before_dlopen(path: *const c_char, flags: c_int) -> usize {
    if flags & libc::RTLD_DEEPBIND != 0 && !path.is_null() {
        // Its calls will go past us.
        dispatch::end_because(Why::DeepBind);
    }
    loading(path);
    dlopen::next()
}

/// Others can see that the library's file is not in use any more.
extern "C" fn before_dlclose() -> usize {
    dispatch::pass_through().done();
    next::unloading();
    dlclose::next()
}

extern "C" fn before_dlmopen(namespace: c_long, path: *const c_char, flags: c_int) -> usize {
    let is_deep = flags & libc::RTLD_DEEPBIND != 0 && !path.is_null();
    if namespace != libc::LM_ID_BASE || is_deep {
        // It will have a C library of its own, or call past us.
        dispatch::end_because(Why::DeepBind);
    }
    loading(path);
    dlmopen::next()
}

// Functions by their names. A program that asks the loader for one of libc's in which a hook stands in front
// is given the hook, as anyone who is linked to it. Here, too, the loader looks at who calls it.
macro_rules! finds {
    ($($name:ident as $from:ident, $before:ident, $ask:ident, $has_version:literal;)*) => {$(
        #[doc = "Keeps its arguments, and learns where it returns to."]
        ///
        /// # Safety
        /// As the C function of this name.
        #[cfg_attr(preload_abi, unsafe(no_mangle))]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            crate::arch::with_caller!($from)
        }
        next! { $name }

        #[unsafe(naked)]
        unsafe extern "C" fn $from() {
            crate::arch::jump_after!($before)
        }

        extern "C" fn $before(
            handle: usize, name: *const c_char, _: usize, _: usize, _: usize, caller: usize,
        ) -> usize {
            finding(handle, name, caller, $has_version)
        }

        /// Asks the loader where it does not matter who asks. What has no version has one argument less.
        unsafe extern "C" fn $ask(
            handle: usize, name: *const c_char, version: *const c_char,
        ) -> usize {
            type Find = unsafe extern "C" fn(usize, *const c_char, *const c_char) -> usize;
            // SAFETY: the next definition of this name has this signature.
            let next: Find = unsafe { core::mem::transmute($name::next()) };
            // SAFETY: the caller made the same call, with a string for a name.
            unsafe { in_front(next(handle, name, version), CStr::from_ptr(name)) }
        }
    )*};
}
finds! {
    dlsym as dlsym_from, before_dlsym, ask_dlsym, false;
    dlvsym as dlvsym_from, before_dlvsym, ask_dlvsym, true;
}

/// Where the search for a function by its name goes on: in the loader, in what asks the loader, or in
/// what only names the hook.
fn finding(handle: usize, name: *const c_char, caller: usize, has_version: bool) -> usize {
    // What is found will be called.
    dispatch::look_at_libraries();
    let next = if has_version { dlvsym::next } else { dlsym::next };
    // By default the first definition is found, and hooks stand first. They have no versions: where one
    // is asked for they are not found so, either.
    let finds_hooks = handle == libc::RTLD_DEFAULT as usize && !has_version;
    if name.is_null() {
        return next();
    }
    // SAFETY: the loader reads the same string.
    let name = unsafe { CStr::from_ptr(name) };
    if finds_hooks {
        return homonym(name).map_or_else(next, |_| the_homonym as *const () as usize);
    }
    if next::hook(name) == 0 {
        return next();
    }
    if handle != libc::RTLD_NEXT as usize {
        let ask = if has_version { ask_dlvsym } else { ask_dlsym };
        return ask as *const () as usize;
    }
    match next::after(caller, name, has_version) {
        After::Libcs if has_version && next::has_several(name.to_bytes()) => next(),
        After::Libcs => the_hook as *const () as usize,
        After::Other => next(),
        After::Unknown => {
            dispatch::end_because(Why::DeepBind);
            next()
        }
    }
}

/// What a library of the program's own has of a name in which a hook stands. No hook sees what a function does in
/// place of libc's.
fn homonym(name: &CStr) -> Option<usize> {
    let found = next::homonym(name).filter(|_| next::hook(name) != 0)?;
    if found.is_code() {
        dispatch::end_because(Why::OtherLibrary);
    }
    Some(found.address)
}

unsafe extern "C" fn the_homonym(_handle: usize, name: *const c_char) -> usize {
    // SAFETY: it was read before.
    homonym(unsafe { CStr::from_ptr(name) }).unwrap_or(0)
}

/// What the loader found by a name in which a hook stands; or the hook, if it is libc's.
fn in_front(found: usize, name: &CStr) -> usize {
    if found != 0 && found == next::hook(name) {
        return homonym(name).unwrap_or(found);
    }
    if !next::is_in_libc(found) || !next::is_led_to(name, found) {
        return found;
    }
    if !next::is_libcs(name) {
        // Between the hook and libc stands another library's, which may be the one that asks.
        dispatch::end_because(Why::DeepBind);
        return found;
    }
    next::hook(name)
}

unsafe extern "C" fn the_hook(_handle: usize, name: *const c_char) -> usize {
    // SAFETY: it was read before.
    next::hook(unsafe { CStr::from_ptr(name) })
}

/// A library is about to be loaded.
fn loading(path: *const c_char) {
    // Its file may have just been written here, and its constructors may look at others.
    dispatch::pass_through().done();
    if path.is_null() {
        return;
    }
    dispatch::library_comes();
    // SAFETY: the loader reads the same string.
    let name = unsafe { CStr::from_ptr(path) }.to_bytes();
    if is_uring(name) {
        dispatch::end_because(Why::IoUring);
    }
    // Others are searched for among the libraries of the system.
    if name.contains(&b'/') {
        // SAFETY: as above.
        unsafe { dispatch::loading(path) };
    }
}

pass_through! {
    fn shmget(key: c_int, size: usize, flags: c_int) -> c_int;
    fn shmdt(at: Pointer) -> c_int;
    fn shmctl(id: c_int, command: c_int, into: Pointer) -> c_int;
    fn msync(at: Pointer, len: usize, flags: c_int) -> c_int;
    fn mremap(at: Pointer, len: usize, new_len: usize, flags: c_int, new_at: Pointer) -> Pointer;
    fn remap_file_pages(
        at: Pointer, len: usize, protection: c_int, page: usize, flags: c_int
    ) -> c_int;
    fn mlock(at: Pointer, len: usize) -> c_int;
    fn mlock2(at: Pointer, len: usize, flags: c_int) -> c_int;
}

// The process whose memory is meant may be gone.
may_tell_of_deaths! {
    fn process_madvise(fd: c_int, vector: Pointer, count: usize, advice: c_int, flags: c_int) -> isize;
    fn process_mrelease(fd: c_int, flags: c_int) -> c_int;
}

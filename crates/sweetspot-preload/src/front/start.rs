//! The constructor and the destructor: as little as possible, most processes need nothing.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sweetspot_core::environment as names;
use sweetspot_core::ledger::{BUFFER_AUTO, BUFFER_OFF};
use sweetspot_core::size::{self, BufferSize, Parsed};
use sweetspot_core::why::Why;

use crate::engine::{self, entries, ledger, process, rules, spawns};
use crate::floor::environment::{self, Variables};
use crate::floor::{aside, atomic, next, shared, sys};
use crate::front::{dispatch, probe, reach};
use crate::observer;

#[cfg(preload_abi)]
#[used]
#[unsafe(link_section = ".init_array")]
static START: Constructor = start;

#[cfg(preload_abi)]
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// glibc calls constructors as it calls `main`; musl without arguments.
type Constructor = extern "C" fn(i32, Variables, Variables);

#[unsafe(link_section = ".data")]
static STARTED: AtomicBool = AtomicBool::new(false);

/// Runs before the constructors of all other libraries (the linker's `initfirst`).
#[unsafe(link_section = ".text.startup")]
extern "C" fn start(_arguments: i32, _argument: Variables, environment: Variables) {
    if STARTED.swap(true, Relaxed) {
        return;
    }
    let environment = environment::at_start(environment);
    let variable = |name: &str| environment::variable(environment, name.as_bytes());
    let has_homonyms = next::begin(|| variable(names::PRELOAD));
    engine::streams::take_by(reach::streams::take);
    let single_threaded = next::lookup(c"__libc_single_threaded");
    match single_threaded {
        0 => process::begin_concurrency(),
        flag => atomic::watch_threads(flag as *mut _),
    }
    let off = next::has_twin() || variable(names::SWITCH).is_some_and(is_off);
    let buffer = match variable(names::BUFFER).filter(|_| !off).map(size::parse) {
        Some(Parsed::Size(BufferSize::Auto)) => BUFFER_AUTO,
        Some(Parsed::Size(BufferSize::Bytes(bytes))) => bytes,
        _ => BUFFER_OFF,
    };
    process::set_buffer(buffer);
    // Switched off: no rules, nothing counted.
    shared::remember(variable(names::LEDGER).filter(|_| !off));
    if variable(names::SUMMARY).is_some() && ledger::announce() {
        observer::start(engine::streams::are_seen);
    }
    if engine::ending::confined(|| variable(names::FILTERS)) {
        process::set_under_seccomp();
        ledger::note(Why::Seccomp);
        process::set_passive(process::PASSIVE_OFF);
    } else if let Some(why) = unseen(has_homonyms, || variable(names::AUDIT).is_some()) {
        ledger::note(why);
        engine::others::is_unseen();
        process::set_passive(process::PASSIVE_OFF);
    } else if buffer == BUFFER_OFF && !rules::has_rules() {
        process::set_passive(process::PASSIVE_OFF);
    }
    process::clear_passive(process::PASSIVE_BEFORE_START);
    if single_threaded == 0 {
        // It counts as a program of several threads from now on.
        entries::look_ahead();
    }
    aside::program_begins();
    reach::streams::start();
    take_stdio(|| variable(names::STDIO));
    // Which ledger it is has to be said twice: a variable that was left over ends no program.
    let asked = variable(names::PROBE).filter(|_| !off);
    if asked.is_some() && asked == variable(names::LEDGER) {
        probe::run(ledger::probed());
    }
}

/// Decides for which streams stdio's calls are buffered.
#[inline(always)]
fn take_stdio<'a>(which: impl FnOnce() -> Option<&'a [u8]>) {
    if spawns::passive() {
        return;
    }
    match which() {
        Some(which) if engine::streams::are_seen() => {
            let by_rule = which == b"rules";
            process::set_stdio(if by_rule { process::STDIO_BY_RULE } else { process::STDIO_ALL });
        }
        // A program that uses nothing but stdio opens no buffer, and the summary is to say why.
        None if ledger::wants_summary() => drop(engine::streams::are_seen()),
        _ => {}
    }
}

/// Whether the user has switched everything off.
#[inline(always)]
fn is_off(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"off")
}

/// Why calls are made from the first moment on that are not seen. What watches the loader has a C library of its own.
#[unsafe(link_section = ".text.startup")]
fn unseen(has_homonyms: bool, is_watched: impl FnOnce() -> bool) -> Option<Why> {
    match () {
        () if has_homonyms => Some(Why::OtherLibrary),
        () if next::needs_uring() => Some(Why::IoUring),
        () if next::has_go() => Some(Why::Go),
        () => is_watched().then_some(Why::DeepBind),
    }
}

/// Runs when the process ends by `exit`. Writes after that (by stdio, by destructors of other libraries)
/// pass through.
#[unsafe(link_section = ".text.startup")]
extern "C" fn end() {
    dispatch::end();
    if engine::ending::has_lost() {
        let on_exit = next::lookup(c"on_exit");
        if on_exit != 0 {
            type OnExit = unsafe extern "C" fn(extern "C" fn(i32, *mut c_void), *mut c_void) -> i32;
            // SAFETY: libc's function, which may be called while the program ends: what is
            // registered now runs when all destructors have.
            unsafe { core::mem::transmute::<usize, OnExit>(on_exit)(last_word, ptr::null_mut()) };
        }
    }
}

/// The program has ended well by its own account, and its last bytes cannot be written: it ends with
/// another status. What streams still hold goes out before, as it would have.
extern "C" fn last_word(status: i32, _: *mut c_void) {
    let lost = engine::ending::end_status(status);
    if lost != status {
        // SAFETY: libc's function with its signature; null means every stream. Then the end.
        unsafe {
            let flush = next::lookup(c"fflush");
            if flush != 0 {
                core::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void) -> i32>(flush)(
                    ptr::null_mut(),
                );
            }
            sys::syscall!(SYS_exit_group, lost);
        }
    }
}

//! Bad addresses: what natively is EFAULT must be EFAULT here, though we copy in user space.
//!
//! From the first window on, a handler of ours stands in front for SIGSEGV and SIGBUS. A fault
//! inside the copy routine goes on at its landing; every other one is the program's, and reaches its
//! handler, or has the effect that it has natively.
//!
//! The kernel's action has our handler, but the program's mask and flags: mask, alternate stack,
//! restart and the return from the handler are the kernel's work as ever, and a handler that leaves
//! by `siglongjmp` leaves nothing of ours behind.
//!
//! The program's own action is shown to whoever asks: around each function that sets or asks it,
//! the kernel has the program's action (`uncover`), and afterwards ours again, in front of whatever
//! the program has set (`cover`).
//!
//! Not here: handlers that are installed by raw system calls other than `syscall`; and a bad address
//! while the program blocks SIGSEGV, which kills it.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::ops::process;
use crate::process::passive;
use crate::{arch, copy, sys};

/// The kernel's struct sigaction.
#[derive(Clone, Copy)]
#[repr(C)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// The two signals by which a bad address shows.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

const SA_RESTORER: u64 = 0x0400_0000;

/// What the program has set, for each of `SIGNALS`.
struct Program {
    handler: AtomicUsize,
    flags: AtomicU64,
    restorer: AtomicUsize,
    mask: AtomicU64,
}

static PROGRAM: [Program; 2] = [const {
    Program {
        handler: AtomicUsize::new(libc::SIG_DFL),
        flags: AtomicU64::new(0),
        restorer: AtomicUsize::new(0),
        mask: AtomicU64::new(0),
    }
}; 2];

impl Program {
    fn load(&self) -> Action {
        Action {
            handler: self.handler.load(Relaxed),
            flags: self.flags.load(Relaxed),
            restorer: self.restorer.load(Relaxed),
            mask: self.mask.load(Relaxed),
        }
    }

    fn store(&self, action: &Action) {
        self.flags.store(action.flags, Relaxed);
        self.restorer.store(action.restorer, Relaxed);
        self.mask.store(action.mask, Relaxed);
        self.handler.store(action.handler, Relaxed);
    }
}

/// Whether our handler stands in front.
#[unsafe(link_section = ".data")]
static INSTALLED: AtomicBool = AtomicBool::new(false);

fn index_of(signal: c_int) -> Option<usize> {
    SIGNALS.iter().position(|ours| *ours == signal)
}

/// Asks for the kernel's action, and sets it if `new` is given.
fn kernel_action(signal: c_int, new: Option<&Action>) -> Option<Action> {
    let mut old = MaybeUninit::<Action>::zeroed();
    let new = new.map_or(core::ptr::null(), |new| &raw const *new);
    // SAFETY: both are the kernel's struct; 8 is the size of its signal set.
    let answer = unsafe { sys::syscall!(SYS_rt_sigaction, signal, new, old.as_mut_ptr(), 8) };
    // SAFETY: zeroed, then filled by the kernel.
    (answer == 0).then(|| unsafe { old.assume_init() })
}

/// Puts our handler in front of the program's, once. Called before the first copy.
pub fn install() {
    if !INSTALLED.swap(true, Relaxed) {
        (0..SIGNALS.len()).for_each(put_in_front);
    }
}

/// Puts our handler in front of what the kernel has now.
fn put_in_front(index: usize) {
    let signal = SIGNALS[index];
    let Some(program) = kernel_action(signal, None) else { return };
    if program.handler == on_fault as *const () as usize {
        return;
    }
    PROGRAM[index].store(&program);
    let is_handler = program.handler != libc::SIG_DFL && program.handler != libc::SIG_IGN;
    let (flags, mask) = match is_handler {
        true => (program.flags & !(libc::SA_RESETHAND as u32 as u64), program.mask),
        false => ((libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART) as u32 as u64, 0),
    };
    let restorer = match program.flags & SA_RESTORER {
        0 => arch::restorer(),
        _ => Some(program.restorer),
    };
    let ours = Action {
        handler: on_fault as *const () as usize,
        flags: flags | libc::SA_SIGINFO as u64 | restorer.map_or(0, |_| SA_RESTORER),
        restorer: restorer.unwrap_or(0),
        mask,
    };
    kernel_action(signal, Some(&ours));
}

/// Gives the kernel the program's action, if it has ours now.
fn put_aside(index: usize) {
    let signal = SIGNALS[index];
    let has_ours = kernel_action(signal, None)
        .is_some_and(|now| now.handler == on_fault as *const () as usize);
    if has_ours {
        kernel_action(signal, Some(&PROGRAM[index].load()));
    }
}

/// What `uncover` did, for `cover`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Uncovered {
    /// Nothing.
    No,
    /// The program's action of this index of `SIGNALS`; the signal mask before.
    Yes(usize, u64),
}

/// 0, or the thread that has uncovered an action.
#[unsafe(link_section = ".data")]
static LOCK: AtomicU64 = AtomicU64::new(0);
/// Turns after which a lock is taken over whose thread must have been jumped out of.
const TURNS_MAX: u32 = 100_000;

fn lock() {
    let me = sys::thread_pointer();
    for _ in 0..TURNS_MAX {
        match LOCK.compare_exchange(0, me, Relaxed, Relaxed) {
            Ok(_) => return,
            Err(holder) if holder == me => return,
            Err(_) => {
                // SAFETY: no arguments.
                unsafe { sys::syscall!(SYS_sched_yield) };
            }
        }
    }
    LOCK.store(me, Relaxed);
}

/// Before a function that sets or asks what a signal does: the kernel has the program's action.
#[inline(always)]
pub fn uncover(signal: c_int) -> Uncovered {
    match index_of(signal) {
        Some(index) if INSTALLED.load(Relaxed) => uncover_index(index),
        _ => Uncovered::No,
    }
}

#[cold]
fn uncover_index(index: usize) -> Uncovered {
    if process::is_spawned_child() {
        // Its actions are its own, but this memory is its parent's: it goes without ours.
        put_aside(index);
        return Uncovered::No;
    }
    // Not the two themselves: a fault in the function is the program's, as ever.
    let faults = SIGNALS.iter().fold(0u64, |set, signal| set | 1 << (signal - 1));
    let mask = sys::set_signal_mask(!faults);
    lock();
    put_aside(index);
    Uncovered::Yes(index, mask)
}

/// After it: our handler is in front again.
#[inline(always)]
pub fn cover(uncovered: Uncovered) {
    if let Uncovered::Yes(index, mask) = uncovered {
        put_in_front(index);
        LOCK.store(0, Relaxed);
        sys::set_signal_mask(mask);
    }
}

/// Before an exec or a spawn: a handler does not survive it, but a signal that the program ignores
/// stays ignored.
pub fn before_exec() {
    each_ignored(put_aside);
}

/// After it, if this process is still here.
pub fn after_exec() {
    if !process::is_spawned_child() {
        each_ignored(put_in_front);
    }
}

fn each_ignored(with: fn(usize)) {
    if !INSTALLED.load(Relaxed) {
        return;
    }
    for (index, program) in PROGRAM.iter().enumerate() {
        if program.handler.load(Relaxed) == libc::SIG_IGN {
            with(index);
        }
    }
}

type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The handler that stands in front.
unsafe extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands over a valid context and information.
    let (instruction, code) = unsafe { (arch::instruction_pointer(context), (*info).si_code) };
    let by_kernel = code > 0;
    // SAFETY: as above; the landing is an instruction of ours.
    if by_kernel && let Some(landing) = copy::landing(unsafe { *instruction } as usize) {
        // SAFETY: as above.
        unsafe { *instruction = landing as u64 };
        return;
    }
    let Some(index) = index_of(signal) else { return };
    let program = &PROGRAM[index];
    match program.handler.load(Relaxed) {
        libc::SIG_IGN if !by_kernel => {}
        libc::SIG_DFL | libc::SIG_IGN => end_by(signal, info, by_kernel),
        handler => {
            if program.flags.load(Relaxed) & libc::SA_RESETHAND as u32 as u64 != 0 {
                program.handler.store(libc::SIG_DFL, Relaxed);
            }
            // SAFETY: the program's handler; one that takes only the signal ignores the rest, which
            // the kernel hands over as well.
            unsafe { core::mem::transmute::<usize, Handler>(handler)(signal, info, context) };
        }
    }
}

/// The default action: the instruction faults again, or the signal is sent again, without us.
fn end_by(signal: c_int, info: *mut libc::siginfo_t, by_kernel: bool) {
    let default = Action { handler: libc::SIG_DFL, flags: 0, restorer: 0, mask: 0 };
    kernel_action(signal, Some(&default));
    if !by_kernel {
        // SAFETY: to this very thread, with the information that came; it takes effect at the
        // return of the handler at the latest.
        unsafe {
            let thread = sys::syscall!(SYS_gettid);
            sys::syscall!(SYS_rt_tgsigqueueinfo, sys::process_id() as isize, thread, signal, info);
        }
    }
}

/// Reads a value of the program's, who may have handed over a bad address.
pub fn peek<T: Copy>(from: *const T) -> Option<T> {
    if from.is_null() || passive() {
        return None;
    }
    install();
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: our side is a local of that size.
    let bad = unsafe { copy::copy(value.as_mut_ptr().cast(), from.cast(), size_of::<T>()) };
    // SAFETY: all its bytes were copied from a value of the same C type.
    (bad == 0).then(|| unsafe { value.assume_init() })
}

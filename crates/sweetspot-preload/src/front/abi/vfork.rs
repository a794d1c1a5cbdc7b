//! Children that borrow their parent's memory, by `vfork` and `clone`, until they exec or end.
//!
//! A thread that waits for one takes part in nothing, and counts as going on by its next call (`engine::spawns`). A
//! handler would make that call too early: before there is a child, or where the kernel begins the call anew because
//! of its signal. The child would then be taken for its parent. So signals with handlers are blocked before it, and
//! the child gets the mask back at once.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sweetspot_core::why::Why;

use crate::engine::children::after_spawn;
use crate::engine::spawns;
use crate::floor::errno::fail;
use crate::floor::{next, signals, sys};
use crate::front::dispatch::{before_spawn, end_because, is_observed};

// The child returns to where its parent will return: nothing of ours may be on the stack in between. So the call is
// made here, unless another library stands behind this hook, which may make a fork of it: that ends buffering.
jump! { vfork, before_vfork }
jump! { __vfork, before_vfork_too }

extern "C" fn before_vfork() -> usize {
    way(c"vfork", vfork::next)
}

extern "C" fn before_vfork_too() -> usize {
    way(c"__vfork", __vfork::next)
}

fn way(name: &CStr, next: fn() -> usize) -> usize {
    if next::is_libcs(name) {
        return own_vfork as *const () as usize;
    }
    // Whether its child borrows this memory is not known, nor where a signal comes in.
    if !is_observed() {
        end_because(Why::OtherLibrary);
    }
    before_spawn(0);
    next()
}

/// Makes a process that borrows this one's memory and stack.
///
/// # Safety
/// As `vfork`.
#[unsafe(naked)]
unsafe extern "C" fn own_vfork() {
    crate::arch::vfork!(before, after)
}

/// The mask that the child is to have; null: it has that already.
extern "C" fn before() -> *const AtomicU64 {
    let mask = begin_vfork();
    let Some(mask) = mask else { return core::ptr::null() };
    match spawns::keep_mask(mask) {
        Some(kept) => kept,
        None => {
            // The child is not told from its parent, or has one already that it shall not change.
            sys::set_signal_mask(mask);
            core::ptr::null()
        }
    }
}

/// The mask before, unless there are no handlers, or a filter may kill for the question.
fn begin_vfork() -> Option<u64> {
    let mask = (signals::asked_set() != 0 && !spawns::is_filtered())
        .then(|| sys::change_signal_mask(libc::SIG_BLOCK, signals::blockable_set()));
    before_spawn(0);
    spawns::will_go_on();
    mask
}

fn end_vfork(mask: Option<u64>) {
    spawns::goes_on();
    after_spawn();
    mask.map(sys::set_signal_mask);
}

/// In the parent, with what the kernel answered. Its own answer is libc's.
extern "C" fn after(answer: isize, mask: *const AtomicU64) -> c_int {
    // SAFETY: what `before` said.
    let mask = unsafe { mask.as_ref() }.map(|mask| mask.load(Relaxed));
    end_vfork(mask);
    if answer < 0 { fail(-answer as i32) as c_int } else { answer as c_int }
}

/// What the child of a `clone` runs.
pub(super) struct Started {
    pub(super) function: extern "C" fn(*mut c_void) -> c_int,
    pub(super) argument: *mut c_void,
}

/// What a child runs on a stack of its own, while its parent waits.
struct Borrowing {
    started: Started,
    mask: Option<u64>,
}

/// The same by `clone`, which is given a function and its argument.
pub(super) fn with_own_stack(
    started: Started,
    clone: impl FnOnce(extern "C" fn(*mut c_void) -> c_int, *mut c_void) -> c_int,
) -> c_int {
    let mask = begin_vfork();
    let borrowing = Borrowing { started, mask };
    let answer = clone(begin, (&raw const borrowing).cast_mut().cast());
    end_vfork(mask);
    answer
}

extern "C" fn begin(borrowing: *mut c_void) -> c_int {
    // SAFETY: it lies on the stack of the parent, which waits.
    let Borrowing { started, mask } = unsafe { &*borrowing.cast::<Borrowing>() };
    mask.map(sys::set_signal_mask);
    (started.function)(started.argument)
}

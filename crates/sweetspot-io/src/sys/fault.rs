//! Tests only: fails, interrupts or shortens the Nth call of a thread and of those it starts.

use rustix::io::Errno;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// What happens to a call.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It fails, once.
    Error(Errno),
    /// It moves one byte only, once.
    Short,
    /// It moves nothing, once.
    Nothing,
    /// It moves one byte only, and so does every call after it.
    AlwaysShort,
}

/// Which call it happens to.
#[derive(Debug)]
pub struct Plan {
    nth: u64,
    fault: Fault,
    calls: AtomicU64,
    /// The most that one call was to move, in bytes.
    len_max: AtomicUsize,
}

thread_local! {
    static PLAN: RefCell<Option<Arc<Plan>>> = const { RefCell::new(None) };
}

pub fn plan() -> Option<Arc<Plan>> {
    PLAN.with_borrow(Clone::clone)
}

pub fn set_plan(plan: Option<Arc<Plan>>) {
    PLAN.set(plan);
}

/// Runs `run` with its `nth` call (from 0) at fault. Says whether there was one.
pub fn with<T>(nth: u64, fault: Fault, run: impl FnOnce() -> T) -> (T, bool) {
    let (result, calls, _) = watch(nth, fault, run);
    (result, calls > nth)
}

/// Runs `run`. Says how many calls it made, and how many bytes one of them was to move at most.
pub fn count<T>(run: impl FnOnce() -> T) -> (T, u64, usize) {
    watch(u64::MAX, Fault::Short, run)
}

fn watch<T>(nth: u64, fault: Fault, run: impl FnOnce() -> T) -> (T, u64, usize) {
    let (calls, len_max) = (AtomicU64::new(0), AtomicUsize::new(0));
    let plan = Arc::new(Plan { nth, fault, calls, len_max });
    set_plan(Some(plan.clone()));
    let result = run();
    set_plan(None);
    (result, plan.calls.load(Relaxed), plan.len_max.load(Relaxed))
}

/// What happens to the next call, which wants to move `len` bytes: how many it may.
pub fn next(len: usize) -> Result<usize, Errno> {
    let Some(plan) = plan() else { return Ok(len) };
    let number = plan.calls.fetch_add(1, Relaxed);
    plan.len_max.fetch_max(len, Relaxed);
    match plan.fault {
        Fault::Error(errno) if number == plan.nth => Err(errno),
        Fault::Short if number == plan.nth => Ok(len.min(1)),
        Fault::Nothing if number == plan.nth => Ok(0),
        Fault::AlwaysShort if number >= plan.nth => Ok(len.min(1)),
        _ => Ok(len),
    }
}

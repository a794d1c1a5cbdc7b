//! Tests only: fails, interrupts or shortens the Nth call of a thread and of those it starts.

use rustix::io::Errno;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What happens to a call.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It fails, once.
    Error(Errno),
    /// It moves one byte only, once.
    Short,
    /// It moves one byte only, and so does every call after it.
    AlwaysShort,
}

/// Which call it happens to.
#[derive(Debug)]
pub struct Plan {
    nth: u64,
    fault: Fault,
    calls: AtomicU64,
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
    let plan = Arc::new(Plan { nth, fault, calls: AtomicU64::new(0) });
    set_plan(Some(plan.clone()));
    let result = run();
    set_plan(None);
    (result, plan.calls.load(Relaxed) > nth)
}

/// What happens to the next call, which wants to move `len` bytes: how many it may.
pub fn next(len: usize) -> Result<usize, Errno> {
    let Some(plan) = plan() else { return Ok(len) };
    let number = plan.calls.fetch_add(1, Relaxed);
    match plan.fault {
        Fault::Error(errno) if number == plan.nth => Err(errno),
        Fault::Short if number == plan.nth => Ok(len.min(1)),
        Fault::AlwaysShort if number >= plan.nth => Ok(len.min(1)),
        _ => Ok(len),
    }
}

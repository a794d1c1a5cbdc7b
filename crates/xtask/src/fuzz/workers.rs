//! Independent cases side by side. Most of a case is waiting: for processes to start, for guards to end.

use std::sync::{Mutex, PoisonError};

/// Cases at a time for each processor.
const PER_PROCESSOR: usize = 2;

/// Does `work` with each case, on some threads, until one fails; cases that have begun are ended.
///
/// # Errors
/// The first failure.
pub fn side_by_side<C: Send, W: Send>(
    cases: impl Iterator<Item = C> + Send,
    work: impl Fn(C) -> Result<(), W> + Sync,
) -> Result<(), W> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) * PER_PROCESSOR;
    let state = Mutex::new((cases, None));
    let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let next = || {
        let (cases, failure) = &mut *lock();
        if failure.is_some() { None } else { cases.next() }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = next() {
                    if let Err(wrong) = work(case) {
                        lock().1.get_or_insert(wrong);
                    }
                }
            });
        }
    });
    match lock().1.take() {
        Some(wrong) => Err(wrong),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn every_case_is_done_once() {
        let sum = AtomicU64::new(0);
        let add = |case| {
            sum.fetch_add(case, Relaxed);
            Ok::<_, ()>(())
        };
        assert_eq!(side_by_side(1..=1000, add), Ok(()));
        assert_eq!(sum.into_inner(), 500_500);
    }

    #[test]
    fn after_a_failure_nothing_is_begun() {
        let begun = AtomicU64::new(0);
        let fail = |case: u64| {
            begun.fetch_add(1, Relaxed);
            if case == 3 { Err(case) } else { Ok(()) }
        };
        assert_eq!(side_by_side(0.., fail), Err(3));
    }
}

//! Where the outputs of all threads come together, and where it is decided what has ended the work.

use super::{Options, Order, Tally, lock};
use crate::error::{Error, Result};
use crate::flow::{Course, Flow};
use crate::output::Written;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};

/// Takes the outputs of all threads, in the order that is wanted, and what has ended it first.
pub struct AssemblyLine<R> {
    state: Mutex<State<R>>,
    turn: Condvar,
    /// The number of the first chunk that ended it, as in `state`.
    ends_at: AtomicU64,
}

struct State<R> {
    written: Written,
    /// The number of the chunk whose output comes next.
    next: u64,
    ends_at: u64,
    end: Option<End<R>>,
    bytes_in: u64,
}

/// What has ended it before the input did.
pub enum End<R> {
    /// The caller's own function.
    Stopped(R),
    /// Reading or writing.
    Failed(Error),
}

impl<R: Flow> AssemblyLine<R> {
    pub fn new(written: Written) -> AssemblyLine<R> {
        let ends_at = u64::MAX;
        let state = State { written, next: 0, ends_at, end: None, bytes_in: 0 };
        let ends_at = AtomicU64::new(ends_at);
        AssemblyLine { state: Mutex::new(state), turn: Condvar::new(), ends_at }
    }

    pub fn goes_on(&self) -> bool {
        self.ends_at.load(Relaxed) == u64::MAX
    }

    /// Writes the output of a chunk, in its turn.
    pub fn put(
        &self,
        number: u64,
        bytes_in: u64,
        output: &[u8],
        options: &Options<'_>,
    ) -> Result<()> {
        let mut state = lock(&self.state);
        while options.order == Order::Input && state.next != number && state.ends_at >= number {
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.ends_at < number {
            return Ok(());
        }
        if !output.is_empty() {
            state.written.write_all(output)?;
        }
        state.next += 1;
        state.bytes_in += bytes_in;
        if options.order == Order::Input {
            self.turn.notify_all();
        }
        if let Some(progress) = options.progress {
            progress(state.bytes_in);
        }
        Ok(())
    }

    /// Lets no chunk behind `number` be put. Of several ends the one counts that is furthest to the
    /// front; of two in one chunk the one that is told last.
    pub fn stop(&self, number: u64, end: Option<End<R>>) {
        let mut state = lock(&self.state);
        if number <= state.ends_at || state.end.is_none() {
            state.ends_at = number.min(state.ends_at);
            state.end = end;
        }
        self.ends_at.store(state.ends_at, Relaxed);
        self.turn.notify_all();
    }

    pub fn finish(self) -> Result<R::With<Tally>> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        let flow = match state.end {
            Some(End::Failed(error)) => return Err(error),
            Some(End::Stopped(flow)) => flow,
            None => R::GOES_ON,
        };
        let tally = Tally { bytes_in: state.bytes_in, bytes_out: state.written.bytes() };
        if flow.course() != Course::Fails {
            state.written.finish()?;
        }
        Ok(flow.with(|| tally))
    }
}

//! Which thread does what a file system may keep it at.
//!
//! One does it all, one thing after the other: the *reaper*. A file system that hangs (a server that does not answer,
//! a freeze) keeps it in its call. If that does not return within a moment, the file system counts as hung, and
//! another thread becomes the reaper. It goes on with what the first one had before it. What else is to be done on the
//! file system that hangs waits until that call has returned; the thread that made it ends then. So there are as many
//! threads as file systems that hang, and one.
//!
//! The thread that answers asks never waits for a file system that may hang: it has the reaper do that, too ([`Step`]).

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sweetspot_core::ledger::CLOCK_STANDS;

use super::Guard;
use super::living::Taking;
use crate::quiet::Take;
use crate::sys;

/// The reaper calls nothing deep.
const STACK_BYTES: usize = 1 << 20;
/// More of them there are not: then all wait for the last one.
const REAPERS_MAX: usize = 16;
/// In place of a device's number: that of the state folder, where ledgers are noted.
pub(super) const NOTES: u64 = u64::MAX;
/// So long is waited for a step before its entry is answered later.
const STEP_TIME_MAX: Duration = Duration::from_millis(20);

thread_local! {
    /// Of the threads that have been the reaper, which one this is; 0: none of them.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// Something to do.
pub(super) enum Job {
    /// Write all of a process that is quiet, or what somebody asked for.
    Take(Take),
    /// Write the rest of that.
    GoOn(Taking),
    /// Finish a process that is dead, which is watched under this id.
    Finish(u64),
    Step(Step),
}

/// A call in answer to an ask, on a file system.
pub(super) struct Step {
    index: usize,
    device: u64,
    /// False: nobody has waited for it.
    call: Box<dyn FnOnce() -> bool + Send>,
}

impl Step {
    pub(super) fn new(
        index: usize,
        device: u64,
        call: impl FnOnce() -> bool + Send + 'static,
    ) -> Step {
        Step { index, device, call: Box::new(call) }
    }
}

/// What waits for a file system that hangs.
#[derive(Default)]
struct Hung {
    /// Ids of dead processes.
    dead: Vec<u64>,
    /// Entries that are to be answered.
    asked: Vec<usize>,
}

/// Who waits for a file system that hangs.
#[derive(Clone, Copy)]
pub(super) enum Waiter {
    Dead(u64),
    Asked(usize),
    /// It comes again by itself.
    Take,
}

/// The call that the reaper is in.
struct Call {
    device: u64,
    begun: Instant,
    /// What the next reaper has to do first, should this one not return.
    rest: Option<Job>,
}

#[derive(Default)]
struct State {
    /// The number of the reaper; 0: none has started.
    reaper: u64,
    call: Option<Call>,
    hung: HashMap<u64, Hung>,
    due: VecDeque<Job>,
}

#[derive(Default)]
pub(super) struct Reapers(Mutex<State>);

impl Reapers {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic ends the process, so nobody ever sees a poisoned lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this thread is the reaper, or none has started.
    pub(super) fn is_own(&self) -> bool {
        self.lock().is_own()
    }

    pub(super) fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        if state.is_own() { state.due.pop_front() } else { None }
    }

    /// Whether a file system hangs; who waits for it is told when it goes on.
    pub(super) fn is_hung(&self, device: u64, waiter: Waiter) -> bool {
        self.lock().is_hung(device, waiter)
    }
}

impl State {
    fn is_own(&self) -> bool {
        NUMBER.get() == self.reaper
    }

    fn is_hung(&mut self, device: u64, waiter: Waiter) -> bool {
        let Some(hung) = self.hung.get_mut(&device) else { return false };
        match waiter {
            Waiter::Dead(id) if !hung.dead.contains(&id) => hung.dead.push(id),
            Waiter::Asked(index) if !hung.asked.contains(&index) => hung.asked.push(index),
            _ => {}
        }
        true
    }
}

impl Guard {
    /// Starts the first reaper. What is granted from then on is finished, no matter who dies.
    pub(super) fn start_reaper(&'static self) -> io::Result<()> {
        let mut state = self.reapers.lock();
        self.start_next(&mut state)
    }

    fn start_next(&'static self, state: &mut State) -> io::Result<()> {
        let number = state.reaper + 1;
        let reaper = move || {
            NUMBER.set(number);
            // A guard that waits for no death would be worse than none.
            if self.reap().is_err() {
                sys::exit_now(1);
            }
        };
        std::thread::Builder::new().stack_size(STACK_BYTES).spawn(reaper)?;
        state.reaper = number;
        Ok(())
    }

    /// Hands something to the reaper.
    pub(super) fn hand_over(&self, jobs: impl Iterator<Item = Job>) {
        let jobs: Vec<Job> = jobs.collect();
        if let Some(event) = self.due_event.as_ref().filter(|_| !jobs.is_empty()) {
            self.reapers.lock().due.extend(jobs);
            event.raise();
        }
    }

    /// Before a call that the file system of a device may keep. False: it hangs, or this thread is not the reaper any more.
    /// `rest`: what else there is to do of what it is at.
    pub(super) fn enter(
        &self,
        device: u64,
        waiter: Waiter,
        rest: impl FnOnce() -> Option<Job>,
    ) -> bool {
        let mut state = self.reapers.lock();
        if !state.is_own() || state.is_hung(device, waiter) {
            return false;
        }
        state.call = Some(Call { device, begun: Instant::now(), rest: rest() });
        drop(state);
        // The thread that looks after this one may sleep for long, unless it waits for this very call.
        let is_asked = matches!(waiter, Waiter::Asked(_));
        if !is_asked && self.ledger.header.clock_wanted.load(SeqCst) == CLOCK_STANDS {
            self.poke();
        }
        true
    }

    /// After it, when all is done that follows from it. What else there is to do; `Err`: another thread does that.
    pub(super) fn leave(&self) -> Result<Option<Job>, Replaced> {
        let mut state = self.reapers.lock();
        match state.is_own() {
            true => Ok(state.call.take().and_then(|call| call.rest)),
            false => Err(Replaced),
        }
    }

    /// The file system that has kept this thread goes on, and what waits for it is done.
    pub(super) fn let_go_on(&self, device: u64, _: Replaced) {
        let Some(hung) = self.reapers.lock().hung.remove(&device) else { return };
        self.hand_over(hung.dead.into_iter().map(Job::Finish));
        for index in hung.asked {
            self.ask_again(index);
        }
        self.poke();
    }

    /// Has the thread that answers asks look at an entry, at its next look.
    pub(super) fn ask_again(&self, index: usize) {
        self.ledger.header.ask_bits[index / 64].fetch_or(1 << (index % 64), SeqCst);
    }

    /// Has another thread become the reaper where a call does not return. How long until the next look, if there is
    /// anything to look at.
    pub(super) fn look_after_reaper(&'static self, limit: Duration) -> Option<Duration> {
        // Without it nobody would be told of what waits for a file system.
        let event = self.due_event.as_ref()?;
        let mut state = self.reapers.lock();
        let passed = state.call.as_ref()?.begun.elapsed();
        if passed < limit || state.hung.len() + 1 >= REAPERS_MAX {
            return Some(limit.saturating_sub(passed).max(limit / 4));
        }
        if self.start_next(&mut state).is_err() {
            // Later, perhaps.
            return Some(limit);
        }
        let call = state.call.take()?;
        state.hung.entry(call.device).or_default();
        // Before all else: what is taken is the guard's until it is given back.
        call.rest.into_iter().for_each(|rest| state.due.push_front(rest));
        event.raise();
        None
    }

    /// Has the reaper make a call in answer to an ask, and waits for it a moment. `None`: the entry will be asked for again.
    pub(super) fn step<R: Send + 'static>(
        &self,
        (index, device): (usize, u64),
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Option<R> {
        if self.due_event.is_none() {
            return Some(call());
        }
        if self.reapers.is_hung(device, Waiter::Asked(index)) {
            return None;
        }
        // Without room: who sends learns whether anybody has waited.
        let (to, from) = sync_channel(0);
        let step = Step::new(index, device, move || to.send(call()).is_ok());
        self.hand_over([Job::Step(step)].into_iter());
        from.recv_timeout(STEP_TIME_MAX).ok()
    }

    /// Makes such a call.
    pub(super) fn make_step(&self, step: Step) {
        let Step { index, device, call } = step;
        let is_awaited = self.enter(device, Waiter::Asked(index), || None) && call();
        if let Err(replaced) = self.leave() {
            self.let_go_on(device, replaced);
        }
        if !is_awaited {
            self.ask_again(index);
            self.poke();
        }
    }
}

/// Another thread is the reaper by now.
pub(super) struct Replaced;

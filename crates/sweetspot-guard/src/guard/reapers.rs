//! Which thread does what a file system may keep it at.
//!
//! One does it all, one thing after the other: the *reaper*. A file system that hangs (a server that does not answer,
//! a freeze) keeps it in its call. If that does not return within a moment, the file system counts as hung, and
//! another thread becomes the reaper. It goes on with what the first one had before it. What else is to be done on the
//! file system that hangs waits until that call has returned; the thread that made it ends then. So there are as many
//! threads as file systems that hang, and one.
//!
//! The thread that answers asks has the reaper make the calls of an answer that ask a server or write a note
//! ([`Step`]), and waits for each a moment.
//!
//! A file system that is only slow keeps the reaper for one call at a time: what is to be done elsewhere comes before the
//! next one.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sweetspot_core::ledger::CLOCK_STANDS;

use super::Guard;
use super::refused::Refused;
use super::taking::Taking;
use crate::quiet::Take;
use crate::sys;

/// The reaper calls nothing deep.
const STACK_BYTES: usize = 1 << 20;
/// More of them there are not: then all wait for the last one.
const REAPERS_MAX: usize = 16;
/// In place of a device's number: that of the state folder, where ledgers are noted.
pub(super) const NOTES: u64 = u64::MAX;
/// A call that takes longer than a step of the clock does not return, it seems; but this long it may always take.
const CALL_TIME_MIN: Duration = Duration::from_millis(20);
/// And no longer than this: a program that waits for its own file would take the guard for one that has died.
const CALL_TIME_MAX: Duration = Duration::from_millis(500);
/// A file system on which a call takes longer than this is slow, for so long.
const SLOW_CALL: Duration = Duration::from_millis(20);
const SLOW_AGE: Duration = Duration::from_secs(10);
/// So long is held back what follows from a call that does not return.
const HELD_BACK_MAX: Duration = Duration::from_secs(1);

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
    /// Close what an entry holds, of which a server is told.
    Close(usize),
    Step(Step),
}

impl Job {
    /// Whether it is the rest of what was taken of the process in this slot.
    fn is_rest(&self, slot: u32) -> bool {
        matches!(self, Job::GoOn(taking) if taking.slot == slot)
    }
}

/// A call in answer to an ask, on a file system.
pub(super) struct Step {
    index: usize,
    device: u64,
    /// False: nobody has waited for it.
    call: Box<dyn FnOnce() -> bool + Send>,
    /// Its number; 0: nobody waits for it.
    number: u64,
}

impl Step {
    pub(super) fn new(
        index: usize,
        device: u64,
        call: impl FnOnce() -> bool + Send + 'static,
    ) -> Step {
        Step { index, device, call: Box::new(call), number: 0 }
    }
}

/// What waits for a file system that hangs.
#[derive(Default)]
struct Hung {
    /// The entry whose handle the call uses that does not return.
    in_use: Option<usize>,
    /// Ids of dead processes.
    dead: Vec<u64>,
    /// Entries that are to be answered.
    asked: Vec<usize>,
    /// When the call was made that does not return.
    since: Option<Instant>,
    /// What follows from that call, and what is left of other processes that have files there. What a process wrote later,
    /// elsewhere, is not to be seen before what it wrote there, if that takes but a moment longer.
    held_back: VecDeque<Job>,
}

impl Hung {
    /// A moment more may do.
    fn holds_back(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() < HELD_BACK_MAX)
    }
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
    /// The entry whose handle and write buffer it uses.
    in_use: Option<usize>,
    /// That entry is to be answered after it.
    is_asked: bool,
    begun: Instant,
    /// What the next reaper has to do first, should this one not return.
    rest: Option<Job>,
}

#[derive(Default)]
struct State {
    /// The number of the reaper; 0: none has started.
    reaper: u64,
    /// It is at something that was due.
    is_busy: bool,
    call: Option<Call>,
    hung: HashMap<u64, Hung>,
    due: VecDeque<Job>,
    /// What goes on at a slow file system when nothing else is due.
    put_off: VecDeque<Job>,
    /// File systems on which a call took long, and when it ended.
    slow: HashMap<u64, Instant>,
    /// What the reaper is at was put off: it makes one slow call.
    was_put_off: bool,
    /// So many steps were waited for.
    steps: u64,
}

pub(super) struct Reapers {
    state: Mutex<State>,
    /// After so long a call counts as one that does not return.
    limit: Duration,
}

impl Reapers {
    /// For a clock that advances in such steps.
    pub(super) fn new(clock_step: Duration) -> Reapers {
        Reapers { state: Mutex::default(), limit: clock_step.clamp(CALL_TIME_MIN, CALL_TIME_MAX) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic ends the process, so nobody ever sees a poisoned lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this thread is the reaper, or none has started.
    pub(super) fn is_own(&self) -> bool {
        self.lock().is_own()
    }

    /// What is to be done next, and whether that was put off.
    pub(super) fn next(&self) -> Option<(Job, bool)> {
        let mut state = self.lock();
        if !state.is_own() {
            return None;
        }
        let due = state.due.pop_front();
        state.was_put_off = due.is_none();
        let job = due.or_else(|| state.put_off.pop_front());
        state.is_busy = job.is_some();
        job.map(|job| (job, state.was_put_off))
    }

    /// Whether the rest of what was taken of the process in a slot was put off, or is held back.
    pub(super) fn has_put_off(&self, slot: u32) -> bool {
        self.lock().waiting().any(|jobs| jobs.iter().any(|job| job.is_rest(slot)))
    }

    /// Puts a job behind that, if there is any.
    pub(super) fn put_behind_rest(&self, job: Job, slot: u32) -> bool {
        let mut state = self.lock();
        let has_rest = |jobs: &&mut VecDeque<Job>| jobs.iter().any(|job| job.is_rest(slot));
        let jobs = state.waiting().find(has_rest);
        jobs.map(|jobs| jobs.push_back(job)).is_some()
    }

    /// Whether a file system hangs, but only for a moment so far.
    pub(super) fn holds_back(&self, device: u64) -> bool {
        self.lock().hung.get(&device).is_some_and(Hung::holds_back)
    }

    /// Holds a job back that is of a file system which hangs, if it has done so only for a moment; else returns it.
    pub(super) fn hold_back(&self, device: u64, job: Job) -> Option<Job> {
        match self.lock().hung.get_mut(&device).filter(|hung| hung.holds_back()) {
            Some(hung) => hung.held_back.push_back(job),
            None => return Some(job),
        }
        None
    }

    /// Whether what is next on a file system comes after all that is due elsewhere.
    pub(super) fn comes_later(&self, device: u64) -> bool {
        let mut state = self.lock();
        state.slow.retain(|_, ended| ended.elapsed() < SLOW_AGE);
        let is_slow = state.slow.contains_key(&device);
        // One call of what was put off before.
        is_slow && !std::mem::take(&mut state.was_put_off)
    }

    /// Whether a file system hangs; who waits for it is told when it goes on.
    pub(super) fn is_hung(&self, device: u64, waiter: Waiter) -> bool {
        self.lock().is_hung(device, waiter)
    }

    /// Takes what an entry holds from it, unless a call uses that: then the entry is to be answered after the call.
    /// What the entry itself says of that is its process' word.
    pub(super) fn unless_in_use<R>(&self, index: usize, take: impl FnOnce() -> R) -> Option<R> {
        let mut state = self.lock();
        // Under the lock: who enters a call looks at the handle afterwards.
        (!state.is_in_use(index)).then(take)
    }
}

impl State {
    /// Puts a step before what nobody waits for. Returns its number.
    fn put_first(&mut self, step: Step) -> u64 {
        self.steps += 1;
        self.due.push_front(Job::Step(Step { number: self.steps, ..step }));
        self.steps
    }

    /// Takes the call from a step that has not begun: what it holds is to be closed, without the lock. Its entry is still
    /// asked for again at its turn.
    fn take_back(&mut self, number: u64) -> Option<Box<dyn FnOnce() -> bool + Send>> {
        self.due.iter_mut().find_map(|job| match job {
            Job::Step(step) if step.number == number => {
                Some(std::mem::replace(&mut step.call, Box::new(|| false)))
            }
            _ => None,
        })
    }

    /// Whether a call uses the handle of an entry, which is asked for again after it.
    fn is_in_use(&mut self, index: usize) -> bool {
        if let Some(call) = self.call.as_mut().filter(|call| call.in_use == Some(index)) {
            call.is_asked = true;
            return true;
        }
        let hung = self.hung.iter().find(|(_, hung)| hung.in_use == Some(index));
        let device = hung.map(|(device, _)| *device);
        device.is_some_and(|device| self.is_hung(device, Waiter::Asked(index)))
    }

    fn is_own(&self) -> bool {
        NUMBER.get() == self.reaper
    }

    /// What is not due now.
    fn waiting(&mut self) -> impl Iterator<Item = &mut VecDeque<Job>> {
        let held_back = self.hung.values_mut().map(|hung| &mut hung.held_back);
        std::iter::once(&mut self.put_off).chain(held_back)
    }

    /// What has been held back for long enough is due, before all else: what is taken is the guard's until it is given
    /// back. Says whether there is any.
    fn end_holding_back(&mut self) -> bool {
        let mut over = VecDeque::new();
        for hung in self.hung.values_mut().filter(|hung| !hung.holds_back()) {
            over.append(&mut hung.held_back);
        }
        let is_any = !over.is_empty();
        over.append(&mut self.due);
        self.due = over;
        is_any
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
        (state.reaper, state.is_busy) = (number, false);
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

    /// Puts off what goes on at a slow file system. Deaths are looked for before.
    pub(super) fn put_off(&self, job: Job) {
        self.reapers.lock().put_off.push_back(job);
        self.due_event.iter().for_each(sys::Event::raise);
    }

    /// Before a call that the file system of a device may keep. False: it hangs, or this thread is not the reaper any more.
    /// `in_use`: the entry whose handle the call uses; it is to be looked at after this. `rest`: what else there is to do
    /// of what it is at.
    pub(super) fn enter(
        &self,
        (in_use, device): (Option<usize>, u64),
        waiter: Waiter,
        rest: impl FnOnce() -> Option<Job>,
    ) -> bool {
        let mut state = self.reapers.lock();
        if !state.is_own() || state.is_hung(device, waiter) {
            return false;
        }
        let (begun, rest) = (Instant::now(), rest());
        state.call = Some(Call { device, in_use, is_asked: false, begun, rest });
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
        if !state.is_own() {
            return Err(Replaced);
        }
        let Some(call) = state.call.take() else { return Ok(None) };
        if call.begun.elapsed() > SLOW_CALL {
            state.slow.insert(call.device, Instant::now());
        }
        drop(state);
        if let Some(index) = call.in_use.filter(|_| call.is_asked) {
            self.ask_again(index);
            self.poke();
        }
        Ok(call.rest)
    }

    /// The file system that has kept this thread goes on, and what waits for it is done.
    pub(super) fn let_go_on(&self, device: u64, _: Replaced) {
        let mut state = self.reapers.lock();
        let Some(mut hung) = state.hung.remove(&device) else { return };
        // First, as what was taken is the guard's until it is given back.
        hung.held_back.append(&mut state.due);
        state.due = hung.held_back;
        state.due.extend(hung.dead.into_iter().map(Job::Finish));
        drop(state);
        self.due_event.iter().for_each(sys::Event::raise);
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
    pub(super) fn look_after_reaper(&'static self) -> Option<Duration> {
        // Without it nobody would be told of what waits for a file system.
        let event = self.due_event.as_ref()?;
        let limit = self.reapers.limit;
        let mut state = self.reapers.lock();
        if state.end_holding_back() {
            event.raise();
        }
        let Some(call) = &state.call else {
            // It is about to make one, perhaps.
            let is_due = !state.due.is_empty() || state.waiting().any(|jobs| !jobs.is_empty());
            return (state.is_busy || is_due).then_some(limit);
        };
        let passed = call.begun.elapsed();
        if passed < limit || state.hung.len() + 1 >= REAPERS_MAX {
            return Some(limit.saturating_sub(passed).max(limit / 4));
        }
        if self.start_next(&mut state).is_err() {
            // Later, perhaps.
            return Some(limit);
        }
        let call = state.call.take()?;
        let hung = state.hung.entry(call.device).or_default();
        hung.in_use = call.in_use;
        hung.asked.extend(call.in_use.filter(|_| call.is_asked));
        (hung.since, hung.held_back) = (Some(call.begun), call.rest.into_iter().collect());
        event.raise();
        Some(limit)
    }

    /// Has the reaper make a call in answer to an ask, and waits for it as long as a call may take.
    ///
    /// # Errors
    /// It takes longer. The entry will be asked for again, up to so many times.
    pub(super) fn step<R: Send + 'static>(
        &'static self,
        (index, device): (usize, u64),
        call: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, Refused> {
        let Some(event) = &self.due_event else { return Ok(call()) };
        if self.reapers.is_hung(device, Waiter::Asked(index)) {
            return Err(Refused::Later);
        }
        // Without room: who sends learns whether anybody has waited.
        let (to, from) = sync_channel(0);
        let step = Step::new(index, device, move || to.send(call()).is_ok());
        let number = self.reapers.lock().put_first(step);
        event.raise();
        let (begun, limit) = (Instant::now(), self.reapers.limit);
        loop {
            // Another call may keep the reaper from this one.
            let look = self.look_after_reaper().unwrap_or(limit);
            let left = limit.saturating_sub(begun.elapsed());
            match from.recv_timeout(look.min(left)) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) if !left.is_zero() => {}
                Err(_) => {
                    let call = self.reapers.lock().take_back(number);
                    drop(call);
                    return Err(self.held[index].late());
                }
            }
        }
    }

    /// Makes such a call.
    pub(super) fn make_step(&self, step: Step) {
        let Step { index, device, call, .. } = step;
        // What is behind a handle is looked at by that.
        let in_use = (device != NOTES).then_some(index);
        let is_awaited = self.enter((in_use, device), Waiter::Asked(index), || None) && call();
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

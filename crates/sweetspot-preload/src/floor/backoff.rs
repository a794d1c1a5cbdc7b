//! How a thread waits for another thread or process that does something short.

use super::sys;

/// Turns of waiting before the processor is given away: about a microsecond.
const SPINS: u32 = 64;
/// Turns before the thread sleeps. One that goes before all others (`SCHED_FIFO`) only comes back at once when it
/// gives its processor away, and whom it waits for may have to run there.
const YIELDS: u32 = 64;
const SLEEP_US: u64 = 50;

/// Waits that grow longer.
#[derive(Default)]
pub struct Backoff(u32);

impl Backoff {
    /// Waits a little, each time in a way that costs more and hinders others less.
    pub fn wait(&mut self) {
        match self.0 {
            0..SPINS => core::hint::spin_loop(),
            SPINS..BEFORE_SLEEP => sys::give_way(),
            _ => return sys::sleep_us(SLEEP_US),
        }
        self.0 += 1;
    }

    /// Whether somebody who runs elsewhere would have been done by now.
    pub fn is_late(&self) -> bool {
        self.0 >= SPINS
    }
}

const BEFORE_SLEEP: u32 = SPINS + YIELDS;

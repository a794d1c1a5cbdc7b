//! The floor: what the engine stands on. System calls, copies, locks, clocks, sets of signals, loaded
//! objects, the ledger's file as mapped memory. It knows nothing of open files.

pub mod aside;
pub mod atomic;
pub mod backoff;
pub mod careful;
pub mod clock;
pub mod copy;
pub mod environment;
pub mod errno;
pub mod lock;
pub mod next;
pub mod presence;
pub mod proc;
pub mod shared;
pub mod signals;
pub mod standard_error;
pub mod sys;

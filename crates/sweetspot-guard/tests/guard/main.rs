//! The guard and the ledger, seen by the processes that use them: who gets a handle, what is left of
//! what was accepted after kill -9, what `run` itself notices, and what `recover` refuses to do.
//!
//! `start`, `handles`, `deaths`, `adverse` and `recover` are the tests of each; what they share is here.
//! How the library keeps the protocol is not tested here; `client.rs` stands in for it.

use test_start as _;

mod adverse;
mod client;
mod deaths;
mod handles;
mod recover;
mod start;

use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use client::*;
use sweetspot_guard::{OwnedLedger, Settings};

/// What the kernel stores in a robust futex word whose owner died.
const OWNER_DIED: u32 = 0x4000_0000;

/// Held by each test: a child of a fork has a copy of what other threads were in the middle of, their
/// descriptors and locks included, and no thread that would go on with it.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open_new(path: &Path) -> File {
    File::options().read(true).write(true).create_new(true).open(path).unwrap()
}

/// What one process writes to one file: all alike long, and each another one.
fn record(file: usize, number: u64) -> String {
    format!("{file} {number:013}\n")
}

/// What the guard costs: printed, as it depends on the machine.
#[test]
fn costs() {
    let _alone = alone();
    const RUNS: usize = 30;
    let folder = Folder::new();
    let words = shared::<{ 3 * RUNS }>();
    let median = |first: usize| {
        let mut times: Vec<u64> =
            words[first..first + RUNS].iter().map(|word| word.load(SeqCst)).collect();
        times.sort();
        Duration::from_nanos(times[RUNS / 2])
    };
    for run in 0..RUNS {
        in_child(|| {
            let start = Instant::now();
            let mut session = OwnedLedger::create_in(&Settings::default(), &folder.0).unwrap();
            let created = start.elapsed();
            session.start_guard(std::process::id()).unwrap();
            words[run].store(created.as_nanos() as u64, SeqCst);
            words[RUNS + run].store((start.elapsed() - created).as_nanos() as u64, SeqCst);
        });
    }
    let program = Program::start(&folder.0, &Settings::default());
    in_child(|| {
        let client = Client::join(&program.ledger);
        client.introduce(Lie::None);
        client.guard();
        for run in 0..RUNS {
            let path = folder.join(&format!("data-{run}"));
            let file = open_new(&path);
            let start = Instant::now();
            let writer = client.ask(file, &path, 65536, Lie::None);
            words[2 * RUNS + run].store(start.elapsed().as_nanos() as u64, SeqCst);
            assert!(writer.is_held());
            writer.discard();
        }
    });
    program.end();
    let (create, start, handle) = (median(0), median(RUNS), median(2 * RUNS));
    println!("median of {RUNS}: ledger {create:?}, guard {start:?}, ask to answer {handle:?}");
    assert!(!create.is_zero() && !start.is_zero() && !handle.is_zero());
}

//! Commands that tests run: what they are started in, what they said, and what is waited for.

use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use sweetspot_core::environment::ABOUT_BUFFERING;

/// Nothing that a test waits for takes longer, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Takes away what the environment of the tests tells `run` and the library.
pub fn untold(command: &mut Command) -> &mut Command {
    ABOUT_BUFFERING.iter().fold(command, |command, name| command.env_remove(name))
}

/// What a command wrote to its standard output.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a command wrote to its standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// # Panics
/// A part is missing.
#[track_caller]
pub fn assert_has(text: &str, parts: impl IntoIterator<Item: AsRef<str>>) {
    for part in parts {
        let part = part.as_ref();
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}

/// # Panics
/// It never holds.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Tests that hold it run one after the other.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

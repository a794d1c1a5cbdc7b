//! Somebody wants an end: by Ctrl-C, by SIGTERM, or by SIGHUP when the terminal goes.
//!
//! What the caller ignores (`nohup`, a job in the background) stays ignored.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use sweetspot_report::failure::Failure;

/// The signals that ask for an end here.
pub fn heeded() -> impl Iterator<Item = i32> {
    [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal))
}

/// Whether this process was started with a signal ignored.
pub fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    ignored.is_some_and(|bits| bits >> (signal - 1) & 1 == 1)
}

/// For a program that looks itself whether an end is wanted, where it can end. No thread listens.
pub struct Asked(Arc<AtomicUsize>);

impl Asked {
    /// Notes the signals from now on.
    ///
    /// # Errors
    /// Where the system does not let it.
    pub fn watch() -> Result<Asked, Failure> {
        let asked = Arc::default();
        for signal in heeded() {
            flag::register_usize(signal, Arc::clone(&asked), signal.cast_unsigned() as usize)
                .map_err(unwatched)?;
        }
        Ok(Asked(asked))
    }

    pub fn is_so(&self) -> bool {
        self.0.load(Relaxed) > 0
    }

    /// Ends this process as the signal would have, if there was one.
    pub fn end_if_so(&self) {
        if self.is_so() {
            let _ = low_level::emulate_default_handler(self.0.load(Relaxed) as i32);
        }
    }
}

/// The first signal ends the work after the current run, the second one at once.
pub struct Interrupts {
    /// Set by the first one: the current run is to be the last.
    pub asked: Arc<AtomicBool>,
    scratches: Arc<Mutex<Vec<PathBuf>>>,
}

impl Interrupts {
    /// Listens from now on. The second one removes the scratch folders and ends this process; the launcher then
    /// ends the run. To be called before there are any.
    ///
    /// # Errors
    /// Where the system does not let it.
    pub fn watch() -> Result<Interrupts, Failure> {
        let (asked, scratches) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::default()));
        let mut signals = Signals::new(heeded()).map_err(unwatched)?;
        let interrupts =
            Interrupts { asked: Arc::clone(&asked), scratches: Arc::clone(&scratches) };
        std::thread::spawn(move || {
            for signal in signals.forever() {
                if asked.swap(true, Relaxed) {
                    let scratches: Vec<PathBuf> = lock(&scratches).clone();
                    for scratch in scratches {
                        let _ = std::fs::remove_dir_all(scratch);
                    }
                    std::process::exit(128 + signal);
                }
            }
        });
        Ok(interrupts)
    }

    /// Folders that are in nobody's way later.
    pub fn remove_at_end(&self, scratches: impl IntoIterator<Item = PathBuf>) {
        lock(&self.scratches).extend(scratches);
    }
}

fn lock(scratches: &Mutex<Vec<PathBuf>>) -> MutexGuard<'_, Vec<PathBuf>> {
    scratches.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unwatched(error: io::Error) -> Failure {
    Failure::own(format!("signals cannot be watched: {error}"))
}

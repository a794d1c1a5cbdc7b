//! Removes the folder of the demo when it is interrupted, and ends by the same signal.

use crate::interrupts::heeded;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::iterator::Signals;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Removes the folder when the demo is interrupted, and ends by the same signal.
pub(super) struct Watch {
    interrupted: Arc<AtomicBool>,
    pub(super) child: Arc<Mutex<Option<u32>>>,
}

impl Watch {
    pub(super) fn start(folder: &Path) -> Watch {
        let watch = Watch { interrupted: Arc::default(), child: Arc::default() };
        let (interrupted, child) = (watch.interrupted.clone(), watch.child.clone());
        let folder = folder.to_path_buf();
        // Without it an interrupted demo leaves its folder; no reason not to start.
        let Ok(mut signals) = Signals::new(heeded()) else { return watch };
        std::thread::spawn(move || {
            let Some(signal) = signals.forever().next() else { return };
            interrupted.store(true, SeqCst);
            if let Some(child) = child.lock().ok().and_then(|child| *child)
                && let Some(pid) = Pid::from_raw(child as i32)
            {
                let _ = kill_process(pid, Signal::TERM);
            }
            // The program may be making a file just now.
            for _ in 0..10 {
                if std::fs::remove_dir_all(&folder).is_ok() || !folder.exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        });
        watch
    }

    /// The program to be ended when the demo is.
    pub(super) fn look_after(&self, pid: Option<u32>) {
        if let Ok(mut child) = self.child.lock() {
            *child = pid;
        }
    }

    /// Does not return once the demo is interrupted: the other thread ends the process.
    pub(super) fn let_it_end(&self) {
        while self.interrupted.load(SeqCst) {
            std::thread::park();
        }
    }
}

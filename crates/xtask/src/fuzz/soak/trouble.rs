//! Trouble for the processes of a soak: each may be stopped for a while at any time, and guards are
//! watched.

use super::{MARK, Soak};
use crate::fuzz::model::Random;
use crate::fuzz::process::{monotonic, signal};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Between two stops, at most; and how long one is, at most: one in sixteen is long.
const PAUSE_MAX_MS: u64 = 150;
const STOP_MAX_MS: u64 = 120;
const LONG_STOP_MAX_MS: u64 = 2500;
/// Between two looks at the guards.
const LOOK: Duration = Duration::from_secs(1);
/// What a guard may need more in the second half of its life than in the first, KiB and descriptors.
const GROWTH_KIB_MAX: u64 = 512;
const GROWTH_DESCRIPTORS_MAX: u64 = 4;

pub struct Trouble {
    folder: PathBuf,
    sweetspot: PathBuf,
    seed: u64,
    /// When a guard was stopped last: nanoseconds of the monotonic clock, when it was to go on.
    guard_until: AtomicU64,
}

/// What a guard needed, look by look.
#[derive(Default)]
struct Needs {
    kib: Vec<u64>,
    descriptors: Vec<u64>,
}

impl Trouble {
    pub fn new(soak: &Soak) -> Trouble {
        let (folder, sweetspot) = (soak.folder.clone(), soak.sweetspot.clone());
        Trouble { folder, sweetspot, seed: soak.seed, guard_until: AtomicU64::new(0) }
    }

    /// Whether the guards were left alone since then.
    pub fn has_stopped_a_guard_since(&self, then: Duration) -> bool {
        u128::from(self.guard_until.load(Relaxed)) >= then.as_nanos()
    }

    /// Makes trouble until it `is_over`. Returns what it did.
    ///
    /// # Errors
    /// A guard that grew.
    pub fn make(&self, is_over: impl Fn() -> bool) -> Result<String, String> {
        let mut random = Random::new(self.seed);
        let (mut stops, mut guards_stopped) = (0, 0);
        let mut guards: HashMap<i32, Needs> = HashMap::new();
        let mut looked = Instant::now();
        while !is_over() {
            std::thread::sleep(Duration::from_millis(random.below(PAUSE_MAX_MS)));
            let processes = self.processes();
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                for (pid, is_guard) in &processes {
                    if *is_guard {
                        guards.entry(*pid).or_default().look(*pid);
                    }
                }
            }
            if processes.is_empty() {
                continue;
            }
            let (pid, is_guard) = random.pick(&processes);
            let longest = if random.below(16) == 0 { LONG_STOP_MAX_MS } else { STOP_MAX_MS };
            let stop = Duration::from_millis(random.below(longest));
            if is_guard {
                // It may need as long again to catch up.
                let until = monotonic() + stop * 2 + Duration::from_secs(1);
                self.guard_until.store(until.as_nanos() as u64, Relaxed);
                guards_stopped += 1;
            }
            signal(pid, libc::SIGSTOP);
            std::thread::sleep(stop);
            signal(pid, libc::SIGCONT);
            stops += 1;
        }
        let most = |of: fn(&Needs) -> &Vec<u64>| {
            guards.values().flat_map(of).max().copied().unwrap_or_default()
        };
        for (pid, needs) in &guards {
            needs.check().map_err(|wrong| format!("guard {pid}: {wrong}"))?;
        }
        Ok(format!(
            "{stops} stops, {guards_stopped} of guards, which needed at most {} KiB and {} descriptors",
            most(|needs| &needs.kib),
            most(|needs| &needs.descriptors)
        ))
    }

    /// Our processes, and whether each is a guard.
    fn processes(&self) -> Vec<(i32, bool)> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let pids = pids.filter(|pid| *pid != std::process::id() as i32);
        let link = |pid: i32, name: &str| fs::read_link(format!("/proc/{pid}/{name}")).ok();
        pids.filter_map(|pid| {
            let is_within = link(pid, "cwd").is_some_and(|path| path.starts_with(&self.folder));
            let is_marked = || {
                let all = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                let mark = format!("{MARK}={}", self.folder.display());
                all.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
            };
            let is_guard = link(pid, "exe").as_deref() == Some(Path::new(&self.sweetspot));
            (is_within || is_marked()).then_some((pid, is_guard))
        })
        .collect()
    }
}

impl Needs {
    fn look(&mut self, pid: i32) {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = resident.and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok());
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count);
        if let (Some(kib), Ok(descriptors)) = (kib, descriptors) {
            self.kib.push(kib);
            self.descriptors.push(descriptors as u64);
        }
    }

    fn check(&self) -> Result<(), String> {
        for (name, looks, growth) in [
            ("KiB", &self.kib, GROWTH_KIB_MAX),
            ("descriptors", &self.descriptors, GROWTH_DESCRIPTORS_MAX),
        ] {
            let (before, after) = looks.split_at(looks.len() / 2);
            let most = |looks: &[u64]| looks.iter().max().copied().unwrap_or_default();
            if !before.is_empty() && most(after) > most(before) + growth {
                let (before, after) = (most(before), most(after));
                return Err(format!("at most {before} {name}, later {after}"));
            }
        }
        Ok(())
    }
}

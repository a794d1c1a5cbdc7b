//! A victim killed after each instruction of a stretch of its life, in which writes wait, are
//! flushed and settled: nothing is lost or doubled, wherever it dies.

use super::KILL_SIZES;
use super::victim::{Kit, Plan, Victim};
use std::path::Path;

/// The most instructions that a stretch is taken to have.
const STEPS_MAX: u64 = 2_000_000;

/// Steps through the stretch once, then kills a victim after every instruction of it, or after
/// `limit` instructions spread over it. Returns the closing line.
///
/// # Errors
/// The first victim that lost or doubled something, with what repeats it; or that no guard ever had
/// anything to finish.
pub fn run(kit: Kit, limit: Option<u64>, seed: u64) -> Result<String, String> {
    let length = {
        let work = kit.work()?;
        step(&kit, work.path(), seed, 0, STEPS_MAX)?.steps
    };
    let kills = limit.unwrap_or(length).min(length);
    let mut finished = 0;
    for number in 0..kills {
        let work = kit.work()?;
        // Spread evenly; another seed shifts them.
        let steps = (number * length + (seed * 7919) % length) / kills.max(1) % length;
        match step(&kit, work.path(), seed, number, steps) {
            Ok(outcome) => finished += u64::from(outcome.finished),
            Err(wrong) => {
                let kept = work.keep();
                kit.keep();
                return Err(format!(
                    "{wrong}\n  killed after {steps} of {length} instructions, seed {seed}; files in {}",
                    kept.display()
                ));
            }
        }
    }
    if finished == 0 {
        return Err("nothing was ever pending".to_owned());
    }
    Ok(format!("{kills} of {length}, {finished} finished by the guard, 0 lost, 0 doubled"))
}

struct Outcome {
    steps: u64,
    finished: bool,
}

fn step(kit: &Kit, folder: &Path, seed: u64, number: u64, steps: u64) -> Result<Outcome, String> {
    let size = KILL_SIZES[number as usize % KILL_SIZES.len()];
    let plan = Plan { seed, mode: "steps", size, waits: false };
    let named = |wrong: String| format!("{plan:?}: {wrong}");
    let mut victim = Victim::start(kit, plan, folder).map_err(named)?;
    let outcome = (|| {
        let steps = victim.step(steps)?;
        victim.count()?;
        let before = victim.contents();
        victim.kill()?;
        victim.wait_finished()?;
        victim.check()?;
        Ok(Outcome { steps, finished: victim.contents() != before })
    })();
    if outcome.is_err() {
        let _ = victim.kill();
    }
    outcome.map_err(named)
}

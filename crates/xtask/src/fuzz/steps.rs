//! A victim killed after each instruction of a stretch of its life, in which writes wait and are flushed
//! and files are quiesced: nothing is lost or doubled, wherever it dies.
//!
//! One victim of each size is stepped through the stretch, to know its instructions ([`Route`]). Those
//! that are killed run at full speed to a breakpoint that is few steps before the instruction they
//! are to die at, and are stepped from there. Where one takes another way than the first did (the
//! clock moved, say), it never meets its breakpoint; the next one is stepped all the way.

use super::KILL_SIZES;
use super::kit::Kit;
use super::victim::{Plan, Victim};
use super::workers::side_by_side;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The most instructions that a stretch is taken to have.
const STEPS_MAX: u64 = 2_000_000;
/// The most steps from a breakpoint on.
const STEPS_FROM_BREAKPOINT_MAX: usize = 4000;

/// Steps through the stretch once, then kills a victim after every instruction of it, or after
/// `limit` instructions spread over it. Returns the closing line.
///
/// # Errors
/// The first victim that lost or doubled something, with what repeats it; or that no guard ever had
/// anything to finish.
pub fn run(kit: Kit, limit: Option<u64>, seed: u64) -> Result<String, String> {
    let routes: Vec<Route> = KILL_SIZES
        .iter()
        .map(|size| {
            let work = kit.work()?;
            let mut route = Route::default();
            let all = Way { steps: STEPS_MAX, from: None };
            Kill { seed, size, way: all }.perform(&kit, work.path(), |place| route.add(place))?;
            Ok(route)
        })
        .collect::<Result<_, String>>()?;
    let length = routes.iter().map(Route::len).max().unwrap_or(0);
    let kills = limit.unwrap_or(length).min(length);
    let tally = Tally::default();
    let done = side_by_side(0..kills, |number| {
        let size = number as usize % KILL_SIZES.len();
        // Spread evenly; another seed shifts them.
        let steps = (number * length + (seed * 7919) % length) / kills % routes[size].len();
        kill_after(&kit, steps, seed, (KILL_SIZES[size], &routes[size]), &tally)
    });
    if let Err(Wrong { text, kept }) = done {
        kit.keep();
        return Err(format!("{text} of {length}, seed {seed}; files in {}", kept.display()));
    }
    let Tally { stepped, finished } = tally;
    let (stepped, finished) = (stepped.into_inner(), finished.into_inner());
    if finished == 0 {
        return Err("nothing was ever pending".to_owned());
    }
    Ok(format!(
        "{kills} of {length}, {stepped} stepped all the way, {finished} finished by the guard, \
         0 lost, 0 doubled"
    ))
}

#[derive(Default)]
struct Tally {
    /// Victims that never met their breakpoint, so that another was stepped all the way.
    stepped: AtomicU64,
    /// Victims whose files changed between their death and the end of the guard.
    finished: AtomicU64,
}

struct Wrong {
    text: String,
    kept: PathBuf,
}

/// Kills a victim after so many instructions of the stretch.
fn kill_after(
    kit: &Kit,
    steps: u64,
    seed: u64,
    (size, route): (&'static str, &Route),
    tally: &Tally,
) -> Result<(), Wrong> {
    for way in [route.to(steps), Way { steps, from: None }] {
        let work = kit.work().map_err(|text| Wrong { text, kept: PathBuf::new() })?;
        match (Kill { seed, size, way }).perform(kit, work.path(), |_| ()) {
            Ok(Outcome::Elsewhere) => tally.stepped.fetch_add(1, Relaxed),
            Ok(Outcome::Checked { was_pending }) => {
                tally.finished.fetch_add(u64::from(was_pending), Relaxed);
                break;
            }
            Err(wrong) => {
                let text = format!("{wrong}\n  killed after {steps} instructions");
                return Err(Wrong { text, kept: work.keep() });
            }
        };
    }
    Ok(())
}

/// The instructions of a stretch, by their addresses, in the order in which they were executed.
#[derive(Default)]
struct Route {
    places: Vec<u64>,
    /// How often each was executed by then, itself included.
    times: Vec<u64>,
    met: HashMap<u64, u64>,
    /// Those that were executed twice in a row. A copy of many bytes is a step for each of them, and
    /// yet meets a breakpoint once.
    repeated: HashSet<u64>,
}

impl Route {
    fn add(&mut self, place: u64) {
        if self.places.last() == Some(&place) {
            self.repeated.insert(place);
        }
        let times = self.met.entry(place).or_insert(0);
        *times += 1;
        self.places.push(place);
        self.times.push(*times);
    }

    fn len(&self) -> u64 {
        self.places.len() as u64
    }

    /// The way with the fewest stops to the state after so many instructions.
    fn to(&self, steps: u64) -> Way {
        let end = steps as usize;
        let start = end.saturating_sub(STEPS_FROM_BREAKPOINT_MAX);
        let stops = |at: &usize| self.times[*at] + (end - at) as u64;
        let can_stop = |at: &usize| !self.repeated.contains(&self.places[*at]);
        match (start..=end).filter(can_stop).min_by_key(stops) {
            Some(at) if stops(&at) < steps => Way {
                steps: (end - at) as u64,
                from: Some(Breakpoint { place: self.places[at], times: self.times[at] }),
            },
            _ => Way { steps, from: None },
        }
    }
}

/// So many steps, from a breakpoint or from the start on.
struct Way {
    steps: u64,
    from: Option<Breakpoint>,
}

/// When an instruction is about to be executed for the `times`th time.
struct Breakpoint {
    place: u64,
    times: u64,
}

enum Outcome {
    /// It never came to its breakpoint.
    Elsewhere,
    Checked {
        was_pending: bool,
    },
}

struct Kill {
    seed: u64,
    size: &'static str,
    way: Way,
}

impl Kill {
    fn perform(&self, kit: &Kit, folder: &Path, look: impl FnMut(u64)) -> Result<Outcome, String> {
        let plan = Plan { seed: self.seed, mode: "steps", size: self.size, waits: false };
        let named = |wrong: String| format!("{plan:?}: {wrong}");
        let mut victim = Victim::start(kit, plan, folder).map_err(named)?;
        let outcome = (|| {
            victim.hold()?;
            let is_there = match &self.way.from {
                Some(breakpoint) => victim.run_to(breakpoint.place, breakpoint.times)?,
                None => true,
            };
            if is_there {
                victim.step(self.way.steps, look)?;
            }
            victim.count()?;
            let before = victim.contents();
            victim.kill()?;
            victim.wait_finished()?;
            victim.check()?;
            let was_pending = victim.contents() != before;
            Ok(if is_there { Outcome::Checked { was_pending } } else { Outcome::Elsewhere })
        })();
        if outcome.is_err() {
            let _ = victim.kill();
        }
        outcome.map_err(named)
    }
}

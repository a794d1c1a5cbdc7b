//! Victims killed with SIGKILL at random moments: every call that was accepted is in the files once
//! and in order, and of the one in flight at most a prefix.

use super::KILL_SIZES;
use super::kit::Kit;
use super::model::Random;
use super::process::{pause, reap, signal};
use super::victim::{Plan, Victim};
use super::workers::side_by_side;
use std::fmt;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Moments of death after the first call, in microseconds: from the first handles on.
const LIFE_US: std::ops::Range<u64> = 200..30_000;

/// Who is killed, and how.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The victim, without a warning, wherever it is.
    AtOnce,
    /// The victim, stopped just before.
    Stopped,
    /// The guard; the victim goes on and ends by itself.
    Guard,
    /// Victim and guard; `recover` finishes.
    Both,
    /// The waiting parent, and with it the victim.
    Parent,
}

const WAYS: &[Way] = &[
    Way::AtOnce,
    Way::AtOnce,
    Way::AtOnce,
    Way::AtOnce,
    Way::Stopped,
    Way::Stopped,
    Way::Stopped,
    Way::Guard,
    Way::Both,
    Way::Both,
    Way::Parent,
];
const MODES: &[&str] = &["calls", "calls", "threads", "shared", "forks", "log"];

#[derive(Default)]
struct Tally {
    kills: u64,
    calls: u64,
    /// Victims whose files changed between their death and the end of the guard.
    finished: u64,
    recovered: u64,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.kills += other.kills;
        self.calls += other.calls;
        self.finished += other.finished;
        self.recovered += other.recovered;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { kills, calls, finished, recovered } = self;
        write!(
            formatter,
            "{kills} kills, {finished} finished by the guard, {recovered} by recover, \
             {calls} calls accepted, 0 lost, 0 doubled"
        )
    }
}

/// Kills `kills` victims, at moments `slower` times as late as usual. Returns the closing line.
///
/// # Errors
/// The first victim that lost or doubled something, with what repeats it; or that no guard ever had
/// anything to finish.
pub fn run(kit: Kit, kills: u64, slower: u64, seed: u64) -> Result<String, String> {
    let tally = Mutex::new(Tally::default());
    let done = side_by_side(0..kills, |number| {
        let work = kit.work().map_err(|wrong| (wrong, None))?;
        // Each kill follows from one seed, so that it can be repeated alone.
        let own = seed + number;
        let killed = kill(&kit, work.path(), slower, own).map_err(|wrong| {
            let again =
                format!("again: cargo xtask fuzz kill --kills 1 --slower {slower} --seed {own}");
            (format!("{wrong}\n  {again}"), Some(work.keep()))
        })?;
        tally.lock().unwrap_or_else(PoisonError::into_inner).add(&killed);
        Ok(())
    });
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Err((wrong, kept)) = done {
        let Some(kept) = kept else { return Err(wrong) };
        kit.keep();
        return Err(format!("{wrong}\n  after {} kills; files in {}", tally.kills, kept.display()));
    }
    // A few kills may well hit nobody with bytes pending.
    if tally.finished == 0 && kills >= 20 {
        return Err(format!("nothing was ever pending: {tally}"));
    }
    Ok(tally.to_string())
}

fn kill(kit: &Kit, folder: &Path, slower: u64, seed: u64) -> Result<Tally, String> {
    let mut random = Random::new(seed);
    let way = random.pick(WAYS);
    let mode = match (way, random.pick(MODES)) {
        (Way::AtOnce, _) => "calls",
        // What each process left is behind what the others wrote since: `recover` saves it beside.
        (Way::Both, "log") => "forks",
        (_, mode) => mode,
    };
    let size = random.pick(KILL_SIZES);
    let plan = Plan { seed, mode, size, waits: matches!(way, Way::Parent) };
    let named = |wrong: String| format!("{way:?} {plan:?}: {wrong}");
    let mut victim = Victim::start(kit, plan, folder).map_err(named)?;
    let mut life = || life(&mut random) * u32::try_from(slower).unwrap_or(u32::MAX);
    let moments = (life(), life());
    let mut tally = Tally { kills: 1, ..Tally::default() };
    let outcome = end(kit, &mut victim, way, moments, &mut random, &mut tally);
    if outcome.is_err() {
        let _ = victim.kill();
    }
    tally.calls = victim.accepted();
    outcome.map(|()| tally).map_err(named)
}

/// A random time; one in four is short, while the first handles are granted.
fn life(random: &mut Random) -> Duration {
    let longest = if random.below(4) == 0 { LIFE_US.start * 10 } else { LIFE_US.end };
    Duration::from_micros(LIFE_US.start + random.below(longest - LIFE_US.start))
}

fn end(
    kit: &Kit,
    victim: &mut Victim,
    way: Way,
    (after, later): (Duration, Duration),
    random: &mut Random,
    tally: &mut Tally,
) -> Result<(), String> {
    match way {
        Way::AtOnce => {
            let before = victim.kill_at_once(after)?;
            victim.wait_finished()?;
            tally.finished += u64::from(victim.contents() != before);
            victim.check()
        }
        Way::Stopped | Way::Parent => {
            pause(after);
            victim.stop()?;
            victim.count()?;
            let before = victim.contents();
            victim.kill()?;
            victim.wait_finished()?;
            tally.finished += u64::from(victim.contents() != before);
            victim.check()
        }
        Way::Guard => {
            let guard = victim.guard()?;
            pause(after);
            signal(guard, libc::SIGKILL);
            reap(guard)?;
            pause(later);
            victim.end()?;
            victim.check_ended()?;
            recover(kit, victim)
        }
        Way::Both => end_both(kit, victim, after, random, tally),
    }
}

/// Kills the victim and its guard, one of them somewhat later.
fn end_both(
    kit: &Kit,
    victim: &mut Victim,
    after: Duration,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<(), String> {
    let guard = victim.guard()?;
    pause(after);
    let gap = Duration::from_micros(random.below(1500));
    let guard_first = random.below(2) == 0;
    if guard_first {
        signal(guard, libc::SIGKILL);
        pause(gap);
    }
    victim.stop()?;
    victim.count()?;
    let before = victim.contents();
    victim.kill()?;
    if !guard_first {
        pause(gap);
        signal(guard, libc::SIGKILL);
    }
    reap(guard)?;
    // `recover` has nobody's descriptor.
    victim.outside = None;
    let by_guard = victim.contents() != before;
    recover(kit, victim)?;
    let by_anyone = victim.contents() != before;
    tally.finished += u64::from(by_guard);
    tally.recovered += u64::from(by_anyone && !by_guard);
    victim.check()
}

/// `sweetspot recover`, where the guard left a ledger.
fn recover(kit: &Kit, victim: &Victim) -> Result<(), String> {
    if !victim.ledger.exists() {
        return Ok(());
    }
    let mut command = kit.command(&kit.sweetspot, Path::new("/"));
    command.arg("recover").arg(&victim.ledger).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut output = command.output().map_err(|error| error.to_string())?;
    // A lock goes with the last thread of a killed guard, which may be later than its number.
    for _ in 0..20 {
        if output.status.success() || !victim.ledger.exists() {
            break;
        }
        pause(Duration::from_millis(50));
        output = command.output().map_err(|error| error.to_string())?;
    }
    // Another `run` of the same user may have been faster.
    if output.status.success() || !victim.ledger.exists() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("recover: {}: {}", output.status, String::from_utf8_lossy(&said)))
}

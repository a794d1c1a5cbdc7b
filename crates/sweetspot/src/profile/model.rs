//! The cost model: from what was counted and timed to what buffering would save, with an interval.
//!
//! For each file the engine's own rules have said (`core::shadow`) which calls would have been
//! answered without the kernel and what would have been done instead. What goes away is the time
//! that was measured in those calls; what comes instead is priced with costs measured on this
//! machine. A call that waited (for a device, for another process) waits under buffering too.
//!
//! Pure: no file is touched here, so that recorded profiles can be predicted again in tests.

use super::data::{Cost, Costs, File, FileKind, Prediction, Profile, Times, Verdict};
use sweetspot_core::why::Why;

/// One standard deviation of what the model leaves out (caches that are cold in a real program,
/// allocation of pages), as a part of the time that goes away. Not yet taken from recorded
/// predictions: wide on purpose, as half of it was too narrow in a first check.
const MODEL_ERROR: f64 = 0.08;
/// The same for what comes instead.
const PRICE_ERROR: f64 = 0.5;
/// And for the whole time: two runs of one program differ by that much.
const RUN_ERROR: f64 = 0.05;
/// Two-sided 95 % of a normal distribution: a little more than the 9 in 10 that is aimed at.
const DEVIATIONS: f64 = 2.0;
/// A file that would save less than this part of the time has no gain.
const GAIN_SHARE_MIN: f64 = 0.005;
/// And less than that in all, in seconds.
const GAIN_SECONDS_MIN: f64 = 0.000_5;
/// Windows and flushes of that size are part of the measured price of a byte.
const WINDOW_BYTES: f64 = 65_536.0;
const FLUSH_BYTES: f64 = 262_144.0;

/// Calls of one kind, as far as time goes: how many, and their sampled times.
struct Kind<'a> {
    calls: u64,
    bytes: u64,
    times: &'a Times,
    /// What one costs without its being timed.
    straight: Cost,
}

/// A file's calls by kind: reads, writes, seeks.
fn kinds<'a>(file: &'a File, costs: &Costs) -> [Kind<'a>; 3] {
    let straight = costs.straight;
    let seek = Cost { call_ns: straight.seek_ns, byte_ns: 0.0 };
    [
        Kind {
            calls: file.reads,
            bytes: file.read_bytes,
            times: &file.timed.reads,
            straight: straight.read,
        },
        Kind {
            calls: file.writes,
            bytes: file.written_bytes,
            times: &file.timed.writes,
            straight: straight.write,
        },
        Kind { calls: file.seeks, bytes: 0, times: &file.timed.seeks, straight: seek },
    ]
}

impl Kind<'_> {
    fn small_calls(&self) -> u64 {
        self.calls.saturating_sub(self.times.large)
    }

    /// The mean of a small call that does not wait, in nanoseconds.
    fn small_ns(&self, costs: &Costs) -> f64 {
        if self.times.small == 0 {
            let calls = self.calls.max(1);
            return self.straight.of(1, self.bytes / calls);
        }
        (self.times.small_ns as f64 / self.times.small as f64 - costs.sampling_ns).max(0.0)
    }

    /// Time in all of them, and the part of it that was waiting, in nanoseconds.
    fn total_ns(&self, costs: &Costs) -> (f64, f64) {
        let timed = self.times.small + self.times.waits;
        let waiting = self.times.waits_ns as f64 * self.small_calls() as f64 / timed.max(1) as f64;
        let share = self.times.small as f64 / timed.max(1) as f64;
        let small = self.small_ns(costs) * self.small_calls() as f64;
        let small = if timed == 0 { small } else { small * share };
        let large = self.times.large_ns as f64 - costs.sampling_ns * self.times.large as f64;
        (small + waiting + large.max(0.0), waiting)
    }
}

/// What buffering changes of one file, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    /// Time in calls that go away.
    away: f64,
    /// What is done instead.
    instead: f64,
    /// The variance of `away` from having timed only some calls.
    variance: f64,
}

fn change(file: &File, costs: &Costs) -> Change {
    let buffered = &file.buffered;
    let [reads, writes, seeks] = kinds(file, costs);
    let mut change = Change::default();
    let gone = [(reads, buffered.hits), (writes, buffered.appends), (seeks, buffered.seeks)];
    for (kind, calls) in gone {
        let calls = calls.min(kind.small_calls()) as f64;
        let away = kind.small_ns(costs) * calls;
        change.away += away;
        // Times of one kind of call scatter by half of their mean; untimed ones are only priced.
        let relative =
            if kind.times.small == 0 { 0.3 } else { 0.5 / (kind.times.small as f64).sqrt() };
        change.variance += (relative * away).powi(2);
    }
    let more_fills = buffered.fills as f64 - buffered.hit_bytes as f64 / WINDOW_BYTES;
    let more_flushes = buffered.flushes as f64 - buffered.append_bytes as f64 / FLUSH_BYTES;
    let fill_ns = costs.straight.read.call_ns + 2.0 * costs.ask_ns;
    let flush_ns = costs.straight.write.call_ns + 3.0 * costs.ask_ns;
    let idle_bytes = buffered.fill_bytes.saturating_sub(buffered.hit_bytes);
    change.instead = costs.buffered.read.of(buffered.hits, buffered.hit_bytes)
        + costs.buffered.write.of(buffered.appends, buffered.append_bytes)
        + costs.buffered.seek_ns * buffered.seeks as f64
        + fill_ns * more_fills.max(0.0)
        + flush_ns * more_flushes.max(0.0)
        + costs.straight.read.byte_ns * idle_bytes as f64
        + costs.ask_ns * (buffered.asks + 2 * buffered.settles) as f64;
    let calls = file.reads + file.writes + file.seeks;
    let straight = calls.saturating_sub(buffered.hits + buffered.appends + buffered.seeks);
    change.instead += costs.passing_ns * straight as f64;
    change
}

/// Fills in everything of a profile that follows from counts, times and costs: times inside calls,
/// savings, verdicts, the prediction.
pub fn judge(profile: &mut Profile) {
    let costs = profile.costs;
    let mut calls = 0;
    let idle = (profile.seconds - profile.processor_seconds).max(1e-9);
    let evicted = (profile.evicted_seconds / idle).clamp(0.0, 1.0);
    for file in &mut profile.files {
        let (total, mut waiting) = kinds(file, &costs)
            .iter()
            .map(|kind| kind.total_ns(&costs))
            .fold((0.0, 0.0), |sum, kind| (sum.0 + kind.0, sum.1 + kind.1));
        // Who is evicted in the middle of a call did not wait for what the call does.
        let total = total - waiting * evicted;
        waiting *= 1.0 - evicted;
        (file.seconds, file.waiting_seconds) = (total / 1e9, waiting / 1e9);
        calls += file.reads + file.writes + file.seeks;
    }
    let seconds_of = |kind: FileKind| -> f64 {
        profile.files.iter().filter(|file| file.kind == kind).map(|file| file.seconds).sum()
    };
    profile.file_seconds = seconds_of(FileKind::File);
    profile.other_seconds = seconds_of(FileKind::Other);
    let parallel = parallel(profile);
    profile.observing_seconds = calls as f64 * costs.observing_ns / 1e9 / parallel;
    let mut all = Change::default();
    for file in &mut profile.files {
        let change = change(file, &costs);
        file.saves_seconds = (change.away - change.instead) / 1e9;
        all.away += change.away;
        all.instead += change.instead;
        all.variance += change.variance;
    }
    let before = unobserved(profile);
    let slowed = profile.seconds / (profile.seconds - profile.evicted_seconds).max(1e-6);
    for file in &mut profile.files {
        file.verdict = verdict(file, before * parallel);
    }
    profile.files.sort_by(|a, b| {
        (b.saves_seconds.max(0.0), b.seconds)
            .partial_cmp(&(a.saves_seconds.max(0.0), a.seconds))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let has_calls = calls > 0;
    profile.prediction = has_calls.then(|| {
        let alone = predict(before, parallel, &all, &costs);
        // What others took from it, they will take again.
        Prediction { seconds: alone.seconds * slowed, ..alone }
    });
}

/// The time that the run would have taken unobserved, and with a processor of its own.
fn unobserved(profile: &Profile) -> f64 {
    let alone = profile.seconds - profile.evicted_seconds;
    (alone - profile.observing_seconds).max(alone * 0.5)
}

/// How many processes made the calls side by side, at least one: their savings do not add up.
fn parallel(profile: &Profile) -> f64 {
    let mut by_process = std::collections::BTreeMap::new();
    for file in &profile.files {
        *by_process.entry(file.process).or_insert(0.0) += file.seconds;
    }
    let all: f64 = by_process.values().sum();
    let most = by_process.values().copied().fold(0.0, f64::max);
    // Threads of one process beside the one that makes the calls (a compiler's, a collector's) do
    // not shorten it.
    let processes = if most > 0.0 { all / most } else { 1.0 };
    let alone = profile.seconds - profile.evicted_seconds;
    let busy = profile.processor_seconds / alone.max(1e-6);
    busy.min(processes).max(1.0)
}

fn predict(before: f64, parallel: f64, all: &Change, costs: &Costs) -> Prediction {
    let away = (all.away / 1e9 / parallel).min(before * 0.98);
    let instead = (all.instead + costs.start_ns) / 1e9 / parallel;
    let after = (before - away + instead).max(before * 0.005);
    let sampling = all.variance.sqrt() / 1e9 / parallel;
    let spread = costs.spread.min(0.5);
    // Savings of processes that run side by side may all lie on the longest path, or beside it.
    let order = away * (parallel - 1.0).min(1.0) * 0.5;
    let deviation = [
        sampling,
        away * MODEL_ERROR.max(spread * 0.25),
        instead * PRICE_ERROR.max(spread),
        after * RUN_ERROR,
        order,
    ]
    .iter()
    .map(|part| part * part)
    .sum::<f64>()
    .sqrt();
    let ratio_at = |after: f64| before / after.max(before * 0.005);
    Prediction {
        seconds: after,
        ratio: ratio_at(after),
        ratio_low: ratio_at(after + DEVIATIONS * deviation),
        ratio_high: ratio_at((after - DEVIATIONS * deviation).max(after * 0.5)),
    }
}

/// Reasons that leave no way to buffer a file, as opposed to those for which it does not pay.
pub fn forbids(why: Why) -> bool {
    !matches!(why, Why::TooFewCalls | Why::LargeTransfers | Why::RandomAccess | Why::NotWorthIt)
}

fn verdict(file: &File, seconds: f64) -> Verdict {
    let forbidden = Why::ALL
        .into_iter()
        .any(|why| forbids(why) && file.reasons.iter().any(|reason| reason == why.text()));
    let saves = file.saves_seconds;
    if saves > GAIN_SECONDS_MIN && saves > seconds * GAIN_SHARE_MIN {
        Verdict::WillGain
    } else if forbidden || file.kind == FileKind::Other {
        Verdict::NotBuffered
    } else {
        Verdict::NoGain
    }
}

//! Why the library could not do anything for a file: by what is in the way of all, and by what its calls were.

use super::data::{Buffered, FileKind, Profile, Verdict};
use sweetspot_core::why::Why;

/// Small calls of a file that are too few for a buffer, ever.
const FEW_CALLS: u64 = 64;

/// Takes away what the obstacle, if there is one, leaves no way to.
pub fn hinder(profile: &mut Profile) {
    let Some(obstacle) = &profile.obstacle else { return };
    for file in &mut profile.files {
        if obstacle.is_whole {
            file.buffered = Buffered::default();
            file.reasons.insert(0, obstacle.reason.clone());
        } else if file.writes > 0 {
            let reads_only = Buffered {
                appends: 0,
                append_bytes: 0,
                flushes: 0,
                flush_bytes: 0,
                ..file.buffered
            };
            file.buffered = reads_only;
            file.reasons.push(obstacle.reason.clone());
        }
    }
}

/// When verdicts stand: says why, where the library could not.
pub fn judge(profile: &mut Profile) {
    for file in &mut profile.files {
        let text = |why: Why| why.text().to_string();
        if file.verdict == Verdict::WillGain {
            continue;
        }
        if file.kind == FileKind::Other && file.reasons.is_empty() {
            file.reasons.push(text(Why::NotRegular));
        }
        let calls = file.transferring_calls();
        let small = calls.saturating_sub(file.timed.reads.large + file.timed.writes.large);
        let pays = file.buffered.hits + file.buffered.appends;
        if file.reasons.is_empty() {
            file.reasons.push(match () {
                () if calls == 0 && file.maps > 0 => text(Why::Mapped),
                () if small <= FEW_CALLS * file.together.max(1) => text(Why::TooFewCalls),
                () if file.pattern.random > calls / 4 => text(Why::RandomAccess),
                () if file.moved_bytes() / calls.max(1) >= 16 << 10 => text(Why::LargeTransfers),
                () if pays > calls / 2 => "used, but takes too little of the time".to_string(),
                () => text(Why::NotWorthIt),
            });
        }
    }
    // Reasons that forbid say more than those for which it does not pay; of them stdio's least, as
    // `--stdio` lifts that one and no other.
    let rank = |reason: &String| match Why::said(reason) {
        Some(Why::Stdio) => 1,
        Some(why) if why.forbids() => 0,
        _ => 2,
    };
    let obstacle = profile.obstacle.as_ref().filter(|obstacle| obstacle.is_whole);
    for file in &mut profile.files {
        file.reasons.sort_by_key(rank);
        if let Some(obstacle) = obstacle.filter(|_| file.kind == FileKind::File) {
            file.reasons.retain(|reason| *reason != obstacle.reason);
            file.reasons.insert(0, obstacle.reason.clone());
            file.verdict = Verdict::NotBuffered;
        }
    }
    if obstacle.is_some() {
        profile.prediction = None;
    }
    for file in &profile.files {
        if let Some(process) = file.process.and_then(|index| profile.processes.get_mut(index)) {
            process.seconds += file.seconds;
        }
    }
}

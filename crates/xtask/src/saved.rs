//! What a summary says of a run.

use sweetspot_report::summary::Figures;

/// How many calls a summary says were spared.
pub fn saved(summary: &str) -> u64 {
    let calls = Figures::read(summary).calls;
    calls.map_or(0, |(requested, made)| requested.saturating_sub(made))
}

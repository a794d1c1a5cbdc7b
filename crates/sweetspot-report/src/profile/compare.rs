//! What changed between two profiles: before and after.

use super::data::{Profile, total};
use crate::numbers::{bytes, count, ratio, seconds};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Files that are shown, those that changed most first.
const SHOWN: usize = 12;

/// What a file did, over all processes.
#[derive(Clone, Copy, Default)]
pub struct Sum {
    pub calls: u64,
    pub bytes: u64,
    pub seconds: f64,
}

/// Of each path.
pub fn sums(profile: &Profile) -> BTreeMap<&str, Sum> {
    let mut sums: BTreeMap<&str, Sum> = BTreeMap::new();
    for file in &profile.files {
        let sum = sums.entry(&file.path).or_default();
        sum.calls = total([sum.calls, file.calls()]);
        sum.bytes = total([sum.bytes, file.moved_bytes()]);
        sum.seconds += file.seconds;
    }
    sums
}

/// What changed, in words.
pub fn text(before: &Profile, after: &Profile) -> String {
    let mut text = String::new();
    let (old, new) = (sums(before), sums(after));
    let all = |sums: &BTreeMap<&str, Sum>| total(sums.values().map(|sum| sum.calls));
    let _ = writeln!(
        text,
        "{} before, {} after: {}; {} calls before, {} after\n",
        seconds(before.seconds),
        seconds(after.seconds),
        faster(before.seconds, after.seconds),
        count(all(&old)),
        count(all(&new)),
    );
    if before.command != after.command {
        let _ = writeln!(text, "note      these are two different commands\n");
    }
    let mut paths: Vec<&str> = old.keys().chain(new.keys()).copied().collect();
    paths.sort_unstable();
    paths.dedup();
    let of = |sums: &BTreeMap<&str, Sum>, path: &str| sums.get(path).copied().unwrap_or_default();
    let change = |path: &&str| (of(&old, path).seconds - of(&new, path).seconds).abs();
    paths.sort_by(|a, b| change(b).total_cmp(&change(a)));
    for path in paths.iter().take(SHOWN) {
        let (was, is) = (of(&old, path), of(&new, path));
        let _ = writeln!(
            text,
            "{path}\n  calls {} -> {}, {} -> {}, in calls {} -> {}",
            count(was.calls),
            count(is.calls),
            bytes(was.bytes),
            bytes(is.bytes),
            seconds(was.seconds),
            seconds(is.seconds),
        );
    }
    if paths.len() > SHOWN {
        let _ = writeln!(text, "and {} more files, which changed less", paths.len() - SHOWN);
    }
    text
}

/// How the time after relates to that before, in words.
pub fn faster(before: f64, after: f64) -> String {
    match before / after.max(1e-9) {
        times if times >= 1.02 => format!("{}x faster", ratio(times)),
        times if times <= 0.98 => format!("{}x slower", ratio(1.0 / times)),
        _ => "the same".to_string(),
    }
}

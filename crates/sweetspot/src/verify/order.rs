//! The order in which files were modified: others can notice which of two files is newer.

use super::compare::{Outcome, aligned};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use sweetspot_report::shown::shown;
use sweetspot_report::verify::{Aspect, Difference, Item, Noise};
use sweetspot_sandbox::Changes;

/// Modification times closer than this may be in either order: so long a byte may wait.
const APART: i128 = sweetspot_core::policy::MAX_AGE_MS as i128 * 1_000_000;

/// Two files that all plain runs modified in one order, and this run in the other.
pub struct Reversed {
    pub difference: Difference,
    /// Whether that is more than the second for which a byte may wait.
    pub is_beyond_the_limit: bool,
}

/// Looks for files in another order of modification than in every plain run.
pub fn reversed(plain: &[Outcome], run: &Outcome, noise: &Noise) -> Option<Reversed> {
    let times = |changes: &Changes| -> BTreeMap<PathBuf, i128> {
        let is_new =
            |path: &Path| noise.known.contains(&(Item::File(path.to_owned()), Aspect::Modified));
        let files = changes.iter().filter_map(|(path, change)| Some((path, change.as_ref()?)));
        files
            .filter(|(path, entry)| entry.content().is_some() && is_new(path))
            .map(|(path, entry)| (path.clone(), entry.modified))
            .collect()
    };
    let first = plain.first()?;
    let run_times = times(&aligned(&first.changes, &run.changes, &noise.temporary));
    let plain_times: Vec<_> = plain
        .iter()
        .map(|other| times(&aligned(&first.changes, &other.changes, &noise.temporary)))
        .collect();
    let found = [APART, 0].into_iter().find_map(|apart| {
        let (earlier, later) = reversed_by(&plain_times, &run_times, apart)?;
        Some((earlier, later, apart > 0))
    });
    found.map(|(earlier, later, is_beyond_the_limit)| Reversed {
        difference: Difference {
            item: Item::File(later),
            aspect: Aspect::Order,
            sides: ["after", "before"].map(|word| format!("modified {word} {}", shown(&earlier))),
            place: None,
        },
        is_beyond_the_limit,
    })
}

/// Two files of which the first is older by more than `apart` in every plain run, and newer here.
fn reversed_by(
    plain: &[BTreeMap<PathBuf, i128>],
    run: &BTreeMap<PathBuf, i128>,
    apart: i128,
) -> Option<(PathBuf, PathBuf)> {
    let mut order: Vec<(i128, &PathBuf)> =
        plain.first()?.iter().map(|(path, time)| (*time, path)).collect();
    order.retain(|(_, path)| run.contains_key(*path));
    order.sort();
    // The newest in this run among those that are older by more than `apart` in the first plain run.
    let mut newest: Option<&PathBuf> = None;
    let mut older = order.iter().peekable();
    for (time, path) in &order {
        while let Some((_, other)) = older.next_if(|(other, _)| *other < time - apart) {
            if newest.is_none_or(|newest| run[newest] < run[*other]) {
                newest = Some(other);
            }
        }
        let Some(earlier) = newest.filter(|earlier| run[*earlier] > run[*path]) else { continue };
        let is_always = plain.iter().all(|times| {
            matches!((times.get(earlier), times.get(*path)), (Some(one), Some(other)) if one < &(other - apart))
        });
        if is_always {
            return Some((earlier.clone(), (*path).clone()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders() {
        let times = |list: &[(&str, i128)]| -> BTreeMap<PathBuf, i128> {
            list.iter().map(|(name, time)| (PathBuf::from(name), *time)).collect()
        };
        let check = |plain: &[&[(&str, i128)]], run: &[(&str, i128)], apart, expected: bool| {
            let plain: Vec<_> = plain.iter().map(|list| times(list)).collect();
            let found = reversed_by(&plain, &times(run), apart);
            assert_eq!(found.is_some(), expected, "{plain:?} {run:?} {apart}");
        };
        let usual: &[(&str, i128)] = &[("a", 0), ("b", 5), ("c", 20)];
        check(&[usual, usual], &[("a", 100), ("b", 100), ("c", 101)], 0, false);
        check(&[usual, usual], &[("a", 100), ("b", 102), ("c", 101)], 0, true);
        check(&[usual, usual], &[("a", 100), ("b", 99), ("c", 101)], 0, true);
        check(&[usual, usual], &[("a", 100), ("b", 99), ("c", 101)], 10, false);
        check(&[usual, usual], &[("a", 100), ("b", 102), ("c", 101)], 10, true);
        check(&[usual, usual], &[("a", 102), ("c", 101)], 19, true);
        check(&[usual, usual], &[("a", 102), ("c", 101)], 20, false);
        check(&[usual, &[("a", 7), ("b", 5), ("c", 20)]], &[("a", 2), ("b", 1)], 0, false);
        check(&[usual], &[], 0, false);
        check(&[], &[("a", 1)], 0, false);
    }
}

//! Which living processes are quiet, and have bytes that have waited for the maximum age.
//!
//! At every step of the guard's clock all words of pending bytes are looked at. A process is *quiet* when
//! none of its words has changed for a quarter of the maximum age: it computes, sleeps, waits for another
//! thread, or was stopped. One that works writes what is too old at its next call, and is left alone.
//!
//! Pure: it is told what was seen and when, and says what is to be taken.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use sweetspot_core::ledger::CLOCKS_PER_AGE;
use sweetspot_core::pending::{Owner, length_of, owner_of, waiting_of};

/// Steps of the clock for which nothing may have changed: a quarter of the maximum age.
const QUIET_STEPS: u32 = CLOCKS_PER_AGE / 4;

/// A word of pending bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) index: usize,
    /// The slot of its process; 0: that is dead, and what it left could neither be written nor saved.
    pub(crate) process: u32,
    pub(crate) word: u64,
}

/// All that waits in one process: entries, with their words.
pub(crate) type Take = Vec<(usize, u64)>;

/// What is remembered of a word from one look to the next.
struct Known {
    word: u64,
    /// When bytes of this generation were first seen.
    since: Instant,
    /// When the word was seen to change.
    changed: Instant,
}

/// See the module.
pub(crate) struct Quiet {
    step: Duration,
    known: BTreeMap<usize, Known>,
}

impl Quiet {
    /// With a clock that is looked at every `step`.
    pub(crate) fn new(step: Duration) -> Quiet {
        Quiet { step, known: BTreeMap::new() }
    }

    /// What is seen now; whether anything waits, and what is to be taken.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        seen: impl Iterator<Item = Seen>,
    ) -> (bool, Vec<Take>) {
        // First seen up to a step after it came, so that much earlier it is due.
        let age = self.step * (CLOCKS_PER_AGE - 1);
        let mut known = BTreeMap::new();
        let mut of_process: BTreeMap<u32, Take> = BTreeMap::new();
        let (mut busy, mut due) = (BTreeSet::new(), BTreeSet::new());
        let seen = seen.filter(|seen| seen.process != 0 && waiting_of(seen.word) > 0);
        for Seen { index, process, word } in seen {
            let one = match self.known.remove(&index) {
                Some(before) if before.word == word => before,
                Some(before) if is_longer(before.word, word) => {
                    Known { word, changed: now, ..before }
                }
                _ => Known { word, since: now, changed: now },
            };
            let is_still = now.duration_since(one.changed) >= self.step * QUIET_STEPS;
            let is_due = now.duration_since(one.since) >= age;
            known.insert(index, one);
            if owner_of(word) == Owner::Guard {
                // Taken before: what came later follows it, or passes it where its file system hangs.
                continue;
            }
            if !is_still || owner_of(word) != Owner::Nobody {
                busy.insert(process);
            }
            if is_due {
                due.insert(process);
            }
            of_process.entry(process).or_default().push((index, word));
        }
        self.known = known;
        of_process.retain(|process, _| due.contains(process) && !busy.contains(process));
        (!self.known.is_empty(), of_process.into_values().collect())
    }
}

/// Whether `now` has the bytes of `before`, and more.
fn is_longer(before: u64, now: u64) -> bool {
    before - length_of(before) == now - length_of(now) && length_of(now) > length_of(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sweetspot_core::pending::{flushed, owned_by};

    const STEP: Duration = Duration::from_millis(125);

    /// What one look is shown: entry, process, word.
    type Look = Vec<(usize, u32, u64)>;

    /// One look a step; at which of them which entries are to be taken.
    fn check(looks: &[Look], expected: &[(usize, &[usize])]) {
        let began = Instant::now();
        let mut quiet = Quiet::new(STEP);
        let mut taken = Vec::new();
        for (number, words) in looks.iter().enumerate() {
            let seen = words.iter().map(|&(index, process, word)| Seen { index, process, word });
            let (waits, due) = quiet.look(began + STEP * number as u32, seen);
            assert_eq!(
                waits,
                words.iter().any(|(.., word)| waiting_of(*word) > 0),
                "look {number}"
            );
            for take in due {
                taken.push((number, take.iter().map(|(index, _)| *index).collect::<Vec<_>>()));
            }
        }
        let expected: Vec<_> = expected.iter().map(|(look, all)| (*look, all.to_vec())).collect();
        assert_eq!(taken, expected);
    }

    #[test]
    fn what_is_quiet_and_old_is_taken() {
        // Seven steps after it was first seen, as it may have come one before.
        check(&vec![vec![(3, 1, 100)]; 8], &[(7, &[3])]);
        check(&vec![vec![(3, 1, 100)]; 7], &[]);
        check(&vec![vec![(3, 1, 0)]; 12], &[]);
        check(&vec![vec![]; 12], &[]);
    }

    #[test]
    fn who_works_is_left_alone() {
        let working: Vec<Look> = (1..20).map(|len| vec![(3, 1, len)]).collect();
        check(&working, &[]);
        // Then it stops: a quarter of the age later it is quiet.
        check(&[working, vec![vec![(3, 1, 19)]; 2]].concat(), &[(20, &[3])]);
        // A flush begins anew.
        let other = vec![vec![(3, 1, flushed(100) + 100)]; 7];
        check(&[vec![vec![(3, 1, 100)]; 6], other].concat(), &[]);
    }

    #[test]
    fn all_of_a_process_or_nothing() {
        let flushing = owned_by(50, Owner::Program);
        check(&vec![vec![(1, 7, 10), (2, 7, flushing)]; 10], &[]);
        check(&vec![vec![(1, 7, 10), (2, 8, flushing)]; 8], &[(7, &[1])]);
        // The younger one goes with the older one, and other processes by themselves.
        let (young, all) = (vec![(1, 7, 10)], vec![(1, 7, 10), (2, 7, 5), (3, 9, 5)]);
        check(&[vec![young; 4], vec![all; 4]].concat(), &[(7, &[1, 2])]);
        // What the guard has taken is on its way, and may be so for long: its file system hangs.
        let taken = owned_by(10, Owner::Guard);
        check(&vec![vec![(1, 7, taken), (2, 7, 5)]; 8], &[(7, &[2])]);
        check(&vec![vec![(1, 7, taken)]; 8], &[]);
    }
}

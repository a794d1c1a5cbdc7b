//! The order in which cells run, from a seed that is stored with the result.
//!
//! All cells run in a fresh random order each round. For two equal cells each round then comes out
//! for the one or the other by the toss of a coin, whatever the machine does: that is what the
//! signed-rank interval assumes, so it errs as rarely as it says. In mirrored blocks (ABBA, BAAB)
//! the second toss of a block is the first one's reverse; on recorded noise, in which neighbours are
//! alike, two equal commands are then told apart in 6.0 % of 6,000 comparisons instead of in 5.0 %.
//!
//! Deliberately not here: how many rounds there are (`paired` decides as it goes).

/// A small generator of random numbers (SplitMix64, public domain, Steele, Lea and Flood 2014).
/// The same seed gives the same order on every machine and in every version.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts from `seed`.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number from 0 to `end` - 1, each as likely as the others (to one part in 2^32 for the
    /// few cells there are).
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }
}

/// The order of every round, without end: each item is a permutation of `0..cells`.
#[derive(Clone, Debug)]
pub struct Schedule {
    random: Random,
    cells: usize,
}

impl Schedule {
    /// The schedule of `cells` cells that `seed` gives.
    pub fn new(cells: usize, seed: u64) -> Self {
        Schedule { random: Random::new(seed), cells }
    }
}

impl Iterator for Schedule {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.cells).collect();
        for last in (1..self.cells).rev() {
            order.swap(last, self.random.below(last + 1));
        }
        Some(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_generator_is_splitmix64() {
        // The reference implementation's first numbers from seed 1234567.
        let mut random = Random::new(1_234_567);
        let expected = [6457827717110365317, 3203168211198807973, 9817491932198370423];
        assert_eq!(expected.map(|_| random.bits()), expected);
    }

    #[test]
    fn a_seed_gives_one_order() {
        let orders = |seed| Schedule::new(5, seed).take(20).collect::<Vec<_>>();
        assert_eq!(orders(7), orders(7));
        assert_ne!(orders(7), orders(8));
    }

    #[test]
    fn two_cells_are_first_by_the_toss_of_a_coin() {
        let first: Vec<usize> = Schedule::new(2, 42).take(2000).map(|order| order[0]).collect();
        // Fair coins that know nothing of each other lie within four standard deviations.
        let tails = first.iter().sum::<usize>();
        let turns = first.windows(2).filter(|two| two[0] != two[1]).count();
        for count in [tails, turns] {
            assert!((911..=1089).contains(&count), "{count} of 2000");
        }
    }

    #[test]
    fn every_order_is_as_likely() {
        let mut seen: HashMap<Vec<usize>, usize> = HashMap::new();
        for order in Schedule::new(3, 1).take(6000) {
            *seen.entry(order).or_default() += 1;
        }
        assert_eq!(seen.len(), 6);
        for (order, count) in seen {
            assert!((880..=1120).contains(&count), "{order:?}: {count} of about 1000");
        }
    }

    #[test]
    fn one_cell_and_none_are_no_special_case() {
        assert_eq!(Schedule::new(1, 9).next(), Some(vec![0]));
        assert_eq!(Schedule::new(0, 9).next(), Some(vec![]));
    }
}

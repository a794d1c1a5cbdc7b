//! How much faster, from pairs of runs: the median ratio and an interval for it.
//!
//! Times of two runs in a row share what the machine did meanwhile, so each pair gives one ratio.
//! The interval lies between two of the sorted ratios and assumes nothing of their distribution:
//! the true median is below the k-th smallest of n with the probability that a fair coin shows
//! fewer than k heads in n throws.

/// At least this probability is wanted of the interval.
const CONFIDENCE: f64 = 0.95;

/// The estimate of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    /// The probability that the interval holds the true median; below 0.95 for fewer than six pairs.
    pub confidence: f64,
}

impl Estimate {
    /// Whether there were enough pairs to say anything.
    pub fn is_sure(&self) -> bool {
        self.confidence >= CONFIDENCE
    }
}

/// The ratio of `before` to `after` in seconds, from pairs; `None` without pairs.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Estimate> {
    let mut logarithms: Vec<f64> =
        pairs.iter().map(|(before, after)| before.ln() - after.ln()).collect();
    logarithms.sort_by(f64::total_cmp);
    let centre = median(&logarithms)?;
    let (outside, confidence) = ranks(logarithms.len());
    Some(Estimate {
        ratio: centre.exp(),
        low: logarithms[outside].exp(),
        high: logarithms[logarithms.len() - 1 - outside].exp(),
        confidence,
    })
}

/// The median of sorted numbers.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// How many of `count` sorted values lie outside the interval on each side, and its confidence.
fn ranks(count: usize) -> (usize, f64) {
    let mut throw = 0.5f64.powi(count as i32);
    let mut tail = throw;
    let mut best = (0, 1.0 - 2.0 * tail);
    for outside in 1..count.div_ceil(2) {
        throw *= (count - outside + 1) as f64 / outside as f64;
        tail += throw;
        if 1.0 - 2.0 * tail < CONFIDENCE {
            break;
        }
        best = (outside, 1.0 - 2.0 * tail);
    }
    (best.0, best.1.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_by_the_number_of_pairs() {
        // From tables of the sign test: values outside on each side at 95 %.
        for (count, outside, confidence) in [
            (1, 0, 0.0),
            (5, 0, 0.9375),
            (6, 0, 0.96875),
            (8, 0, 0.9921875),
            (9, 1, 0.9609375),
            (10, 1, 0.978515625),
            (20, 5, 0.958610534667969),
        ] {
            let (found, found_confidence) = ranks(count);
            assert_eq!(found, outside, "{count}");
            assert!((found_confidence - confidence).abs() < 1e-9, "{count}: {found_confidence}");
        }
    }

    #[test]
    fn ratios() {
        assert_eq!(ratio(&[]), None);
        let pairs = [(2.0, 1.0), (8.0, 1.0), (4.0, 1.0)];
        let estimate = ratio(&pairs).unwrap();
        for (found, expected) in [(estimate.ratio, 4.0), (estimate.low, 2.0), (estimate.high, 8.0)]
        {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }
}

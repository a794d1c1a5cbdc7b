//! Robust statistics: median, quantiles, the Hodges-Lehmann estimate with the Wilcoxon signed-rank
//! interval and p value, the bootstrap, Holm's correction, and the lag-1 autocorrelation.
//!
//! Times of programs are skewed and have outliers whose cause is the machine, so nothing here
//! assumes a normal distribution and no sample is ever thrown away. The effect of B against A is
//! estimated on ln(t_B / t_A) per round ([`ratio`]): then a ratio and its inverse weigh the same.
//!
//! The interval is made of two order statistics of the Walsh averages (the means of all pairs,
//! each sample with itself included). Which two follows from the exact distribution of the
//! signed-rank statistic, at every size up to [`SAMPLES_MAX`]; there is no normal approximation.
//!
//! Deliberately not here: verdicts. They need an interval and a margin (`paired`); a p value serves
//! only where several claims are made at once ([`holm`]).

use crate::schedule::Random;
use serde::Serialize;
use std::fmt;

/// The most samples that an interval is computed for. The cost is cubic (0.1 s at the limit);
/// an experiment has 40 rounds at most.
pub const SAMPLES_MAX: usize = 500;

/// Why samples cannot be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatisticsError {
    /// There is no sample.
    Empty,
    /// A sample is not a finite number, or a time is not positive.
    NotFinite,
    /// There are more than [`SAMPLES_MAX`] samples.
    TooMany,
    /// Two columns that should be paired have different lengths.
    Unpaired,
}

impl fmt::Display for StatisticsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "there is no sample"),
            Self::NotFinite => write!(f, "a sample is not a positive, finite number"),
            Self::TooMany => write!(f, "there are more than {SAMPLES_MAX} samples"),
            Self::Unpaired => write!(f, "the samples do not come in pairs"),
        }
    }
}

impl std::error::Error for StatisticsError {}

/// An interval, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// An estimate and, where there are samples enough, how sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The Hodges-Lehmann estimate.
    pub value: f64,
    /// The interval; `None` where so few samples cannot give that confidence (below 6 for 95 %).
    pub interval: Option<Interval>,
    /// The number of samples.
    pub samples: usize,
}

/// The ratio of `candidate` to `reference` times, pair by pair: 0.5 is twice as fast.
///
/// `confidence` is that of the interval, for instance 0.95.
pub fn ratio(
    reference: &[f64],
    candidate: &[f64],
    confidence: f64,
) -> Result<Estimate, StatisticsError> {
    if reference.len() != candidate.len() {
        return Err(StatisticsError::Unpaired);
    }
    let logarithms: Vec<f64> = std::iter::zip(reference, candidate)
        .map(|(&reference, &candidate)| match reference > 0.0 && candidate > 0.0 {
            true => (candidate / reference).ln(),
            false => f64::NAN, // no time is zero: refused below
        })
        .collect();
    let estimate = location(&logarithms, confidence)?;
    Ok(Estimate {
        value: estimate.value.exp(),
        interval: estimate
            .interval
            .map(|Interval { low, high }| Interval { low: low.exp(), high: high.exp() }),
        samples: estimate.samples,
    })
}

/// The Hodges-Lehmann estimate of the centre of `samples`, with its Wilcoxon signed-rank interval.
pub fn location(samples: &[f64], confidence: f64) -> Result<Estimate, StatisticsError> {
    weighted_location(samples, &vec![1.0; samples.len()], confidence)
}

/// [`location`] with a positive weight for each sample: one of half the weight pulls half as hard.
///
/// The interval stays exact. It holds every centre `c` for which the signed ranks of `w (x - c)` are
/// not too one-sided. Signs are tosses of a coin whatever the weights are, if the weights know nothing
/// of the signs. Such a rank sum counts the pairs of samples whose weighted mean lies above `c`.
pub fn weighted_location(
    samples: &[f64],
    weights: &[f64],
    confidence: f64,
) -> Result<Estimate, StatisticsError> {
    let averages = walsh_averages(samples, weights)?;
    let interval = signed_rank_quantile(samples.len(), (1.0 - confidence) / 2.0)
        .map(|rank| Interval { low: averages[rank - 1], high: averages[averages.len() - rank] });
    Ok(Estimate { value: middle(&averages), interval, samples: samples.len() })
}

/// The median.
pub fn median(samples: &[f64]) -> Result<f64, StatisticsError> {
    quantile(samples, 0.5)
}

/// The quantile at `fraction` (0 to 1), interpolated between neighbours as R and NumPy do by
/// default (type 7 of Hyndman and Fan).
pub fn quantile(samples: &[f64], fraction: f64) -> Result<f64, StatisticsError> {
    let sorted = sorted(samples)?;
    let position = fraction.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let below = sorted[position.floor() as usize];
    let above = sorted[position.ceil() as usize];
    Ok(below + (above - below) * position.fract())
}

/// How likely samples as far from zero as these are, or farther, if their centre is zero: the exact
/// two-sided p value of the signed-rank test. Samples that are zero count for neither side, and
/// equal ones share their ranks (rounded towards the likelier).
pub fn signed_rank_p(samples: &[f64]) -> Result<f64, StatisticsError> {
    if samples.len() > SAMPLES_MAX {
        return Err(StatisticsError::TooMany);
    }
    sorted(samples)?; // refuses what is empty or not finite
    let mut samples: Vec<f64> = samples.iter().copied().filter(|sample| *sample != 0.0).collect();
    samples.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let mut above = 0.0;
    for tied in samples.chunk_by(|a, b| a.abs() == b.abs()) {
        let before = samples.partition_point(|sample| sample.abs() < tied[0].abs());
        let rank = before as f64 + (tied.len() as f64 + 1.0) / 2.0;
        above += rank * tied.iter().filter(|sample| **sample > 0.0).count() as f64;
    }
    let largest = samples.len() * (samples.len() + 1) / 2;
    let smaller = above.min(largest as f64 - above).ceil() as usize;
    let tail: f64 = signed_rank_distribution(samples.len()).iter().take(smaller + 1).sum();
    Ok((2.0 * tail).min(1.0))
}

/// Holm's correction: the p value that each of several claims is left with, when all are made at
/// once. In the order of `p_values`.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_unstable_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut corrected = vec![1.0; p_values.len()];
    let mut least: f64 = 0.0;
    for (place, &claim) in order.iter().enumerate() {
        least = least.max(p_values[claim] * (p_values.len() - place) as f64).min(1.0);
        corrected[claim] = least;
    }
    corrected
}

/// The lag-1 autocorrelation: how much a run is like the one before it; 0 for independent runs,
/// `None` where there are fewer than three samples or all are equal.
pub fn autocorrelation(samples: &[f64]) -> Option<f64> {
    let mean = samples.iter().sum::<f64>() / samples.len() as f64;
    let square: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    let next: f64 = samples.windows(2).map(|two| (two[0] - mean) * (two[1] - mean)).sum();
    (samples.len() >= 3 && square > 0.0).then(|| next / square)
}

/// Where samples in order of time change their level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ChangePoint {
    /// The first sample of the new level.
    pub index: usize,
    /// How likely such a change is in samples that have one level and do not hang together; where each
    /// is like the one before it, changes look less likely than they are.
    pub p: f64,
}

/// The likeliest place of a step in samples that are in order of time (Pettitt's test, by ranks, so
/// that outliers weigh no more than others); `None` below six samples, or where one is no number.
pub fn change_point(samples: &[f64]) -> Option<ChangePoint> {
    let sorted = sorted(samples).ok()?;
    let count = samples.len() as f64;
    let twice_rank = |sample: &f64| {
        let below = sorted.partition_point(|other| other < sample);
        let through = sorted.partition_point(|other| other <= sample);
        (below + through + 1) as f64 // equal samples share their mean rank
    };
    let mut sum = 0.0_f64;
    let (mut index, mut farthest) = (0, 0.0_f64);
    for (before, sample) in samples.iter().enumerate() {
        if sum.abs() > farthest {
            (index, farthest) = (before, sum.abs());
        }
        sum += twice_rank(sample) - (count + 1.0);
    }
    let p = 2.0 * (-6.0 * farthest.powi(2) / (count.powi(3) + count.powi(2))).exp();
    (samples.len() >= 6).then_some(ChangePoint { index, p: p.min(1.0) })
}

/// The samples that [`bootstrap`] draws.
pub const RESAMPLES: usize = 2000;

/// The percentile bootstrap: an interval for whatever `statistic` computes from samples. For
/// figures that have no interval of their own (a quantile, peak memory); a ratio has a better one.
pub fn bootstrap(
    samples: &[f64],
    confidence: f64,
    seed: u64,
    statistic: impl Fn(&[f64]) -> Result<f64, StatisticsError>,
) -> Result<Interval, StatisticsError> {
    sorted(samples)?; // refuses what is empty or not finite
    let mut random = Random::new(seed);
    let mut drawn = vec![0.0; samples.len()];
    let mut values = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        drawn.iter_mut().for_each(|value| *value = samples[random.below(samples.len())]);
        values.push(statistic(&drawn)?);
    }
    let tail = (1.0 - confidence) / 2.0;
    Ok(Interval { low: quantile(&values, tail)?, high: quantile(&values, 1.0 - tail)? })
}

/// The weighted means of all pairs of samples, each with itself included, sorted.
fn walsh_averages(samples: &[f64], weights: &[f64]) -> Result<Vec<f64>, StatisticsError> {
    if samples.len() > SAMPLES_MAX {
        return Err(StatisticsError::TooMany);
    }
    if samples.len() != weights.len() {
        return Err(StatisticsError::Unpaired);
    }
    sorted(samples)?; // refuses what is empty or not finite
    if weights.iter().any(|weight| !(weight.is_finite() && *weight > 0.0)) {
        return Err(StatisticsError::NotFinite);
    }
    let all: Vec<(f64, f64)> = std::iter::zip(samples, weights).map(|(x, w)| (*x, *w)).collect();
    // From the middle of the two, so that the mean of equals is exact.
    let mean = |(a, of_a): (f64, f64), (b, of_b): (f64, f64)| {
        a.midpoint(b) + (b - a) / 2.0 * (of_b - of_a) / (of_b + of_a)
    };
    let mut averages: Vec<f64> = (all.iter().enumerate())
        .flat_map(|(at, &a)| all[at..].iter().map(move |&b| mean(a, b)))
        .collect();
    averages.sort_unstable_by(f64::total_cmp);
    Ok(averages)
}

/// The rank, counted from 1, of the Walsh average that is the lower end of an interval with
/// `tail` (for instance 0.025) outside at each end; `None` where no rank is as sure as that.
fn signed_rank_quantile(samples: usize, tail: f64) -> Option<usize> {
    // P(W < rank) <= tail for the largest such rank: then the interval covers at least as often
    // as asked.
    let mut below = 0.0;
    let mut rank = 0;
    for probability in signed_rank_distribution(samples) {
        below += probability;
        if below > tail {
            break;
        }
        rank += 1;
    }
    (rank > 0).then_some(rank)
}

/// The exact distribution of the signed-rank statistic: the probability of each value of
/// W = 0 ..= n (n + 1) / 2, built up sample by sample (rank r is in W or not, evenly).
fn signed_rank_distribution(samples: usize) -> Vec<f64> {
    let mut distribution = vec![0.0; samples * (samples + 1) / 2 + 1];
    distribution[0] = 1.0;
    let mut largest = 0;
    for rank in 1..=samples {
        largest += rank;
        for value in (0..=largest).rev() {
            let without = distribution[value];
            let with = if value >= rank { distribution[value - rank] } else { 0.0 };
            distribution[value] = (without + with) / 2.0;
        }
    }
    distribution
}

fn sorted(samples: &[f64]) -> Result<Vec<f64>, StatisticsError> {
    if samples.is_empty() {
        return Err(StatisticsError::Empty);
    }
    if samples.iter().any(|sample| !sample.is_finite()) {
        return Err(StatisticsError::NotFinite);
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Ok(sorted)
}

/// The median of what is sorted and not empty.
fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len().is_multiple_of(2) {
        true => sorted[half - 1].midpoint(sorted[half]),
        false => sorted[half],
    }
}

#[cfg(test)]
mod tests;

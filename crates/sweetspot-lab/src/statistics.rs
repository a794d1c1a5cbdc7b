//! Robust statistics of one sample: median, quantiles, the Hodges-Lehmann estimate and the
//! Wilcoxon signed-rank interval.
//!
//! Times of programs are skewed and have outliers whose cause is the machine, so nothing here
//! assumes a normal distribution and no sample is ever thrown away. The effect of B against A is
//! estimated on ln(t_B / t_A) per round ([`ratio`]): then a ratio and its inverse weigh the same.
//!
//! The interval is made of two order statistics of the Walsh averages (the means of all pairs,
//! each sample with itself included). Which two follows from the exact distribution of the
//! signed-rank statistic, at every size up to [`SAMPLES_MAX`]; there is no normal approximation.
//!
//! Deliberately not here: p values. A verdict needs an interval and a margin (`paired`).

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
    let averages = walsh_averages(samples)?;
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

/// The means of all pairs of samples, each with itself included, sorted.
fn walsh_averages(samples: &[f64]) -> Result<Vec<f64>, StatisticsError> {
    if samples.len() > SAMPLES_MAX {
        return Err(StatisticsError::TooMany);
    }
    let samples = sorted(samples)?;
    let mut averages: Vec<f64> = samples
        .iter()
        .enumerate()
        .flat_map(|(at, &a)| samples[at..].iter().map(move |&b| a.midpoint(b)))
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

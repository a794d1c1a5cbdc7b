//! Expected values come from another route: SciPy 1.17.1's exact Wilcoxon test, inverted by
//! bisection over the shift (no Walsh averages, no ranks), NumPy's quantiles, and the signed-rank
//! distribution by brute force over all sign patterns. Times are made up, with outliers.

use super::*;

struct Case {
    samples: &'static [f64],
    centre: f64,
    at_95: Option<(f64, f64)>,
    at_9818: Option<(f64, f64)>,
    quartile: f64,
    median: f64,
}

const CASES: &[Case] = &[
    Case {
        samples: &[-0.6463, -0.5035, -0.5724, -0.4457, -0.5396, -0.931],
        centre: -0.572400000,
        at_95: Some((-0.931000000, -0.445700000)),
        at_9818: None,
        quartile: -0.627825000,
        median: -0.556000000,
    },
    Case {
        samples: &[-0.5378, -0.6507, -0.6739, -0.7478, -0.8593, -0.9164, -1.2283, -0.6028],
        centre: -0.751400000,
        at_95: Some((-0.988050000, -0.602800000)),
        at_9818: Some((-1.072350000, -0.570300000)),
        quartile: -0.873575000,
        median: -0.710850000,
    },
    Case {
        samples: &[-0.998, -0.9626, -0.897, -0.694, -0.8182, -0.6407, -0.7287, -0.7117, -0.6222],
        centre: -0.792400000,
        at_95: Some((-0.908100000, -0.667350000)),
        at_9818: Some((-0.962600000, -0.640700000)),
        quartile: -0.897000000,
        median: -0.728700000,
    },
    Case {
        samples: &[
            -0.4496, -0.7582, 1.8763, -0.6437, 2.4255, -0.7979, -0.7274, -1.5984, -0.3021, -1.1407,
            -0.6601, -1.0649, 4.3904, -0.7823,
        ],
        centre: -0.615950000,
        at_95: Some((-0.900400000, 0.849050000)),
        at_9818: Some((-0.950250000, 1.624850000)),
        quartile: -0.794000000,
        median: -0.693750000,
    },
    Case {
        samples: &[
            -1.0569, -0.6695, -1.1526, -1.3033, -0.2151, -0.4829, -0.5237, -1.045, -0.9172, 1.1079,
            -0.3688, -0.9493, -0.9349, -1.2606, -0.7309, -0.4831,
        ],
        centre: -0.764000000,
        at_95: Some((-0.989950000, -0.483100000)),
        at_9818: Some((-1.043750000, -0.425850000)),
        quartile: -1.047975000,
        median: -0.824050000,
    },
    Case {
        samples: &[
            -0.4977, -0.5822, -0.2258, -1.1085, -0.2881, -1.0868, -0.6644, -0.4053, -0.3879,
            -0.2321, -0.6864, 0.0348, -0.1943, 2.8106, -0.6207, -0.3192, -0.38, 2.3954, -0.5601,
            -0.5886, -0.3698, 8.7155, -0.7016, -0.0603,
        ],
        centre: -0.385750000,
        at_95: Some((-0.533200000, -0.172600000)),
        at_9818: Some((-0.571150000, 0.643450000)),
        quartile: -0.596625000,
        median: -0.383950000,
    },
    Case {
        samples: &[
            -0.8247, -0.432, -0.7204, -0.8695, -0.9129, -0.94, -0.8176, -0.962, -0.9079, -1.3859,
            -1.035, -0.4779, -1.2233, -0.6098, -1.0192, -0.4716, -0.7031, -0.3265, -0.8144,
            -0.8719, -0.5778, -0.8216, -0.7523, -0.5964, -0.261,
        ],
        centre: -0.774900000,
        at_95: Some((-0.882350000, -0.651950000)),
        at_9818: Some((-0.907900000, -0.640450000)),
        quartile: -0.912900000,
        median: -0.817600000,
    },
    Case {
        samples: &[
            -0.791, -0.7963, -0.5462, -1.2918, -0.4978, -0.973, -0.7003, 0.3309, -0.6263, 0.3405,
            -0.6842, -0.4501, 0.019, -0.2352, -0.6, -0.897, -0.3997, -0.9049, -0.5931, -0.4533,
            -1.0014, -0.5364, -1.0103, -1.2514, -0.4301, 0.5877, -1.4698, 1.8964, -0.7441, -0.5289,
            -0.5451, 0.4344, -0.9515, 0.9163, -0.8773, -1.3166, -0.4865, -0.2568, -0.3837, 0.0973,
        ],
        centre: -0.547550000,
        at_95: Some((-0.705000000, -0.353450000)),
        at_9818: Some((-0.735400000, -0.287050000)),
        quartile: -0.882225000,
        median: -0.545650000,
    },
];

/// Samples, what is outside at each end, and the rank (R: `qsignrank(tail, samples)`).
const RANKS: &[(usize, f64, usize)] = &[
    (5, 0.025, 0),
    (5, 0.0091, 0),
    (6, 0.025, 1),
    (6, 0.0091, 0),
    (7, 0.025, 3),
    (7, 0.0091, 1),
    (8, 0.025, 4),
    (8, 0.0091, 2),
    (10, 0.025, 9),
    (10, 0.0091, 5),
    (15, 0.025, 26),
    (15, 0.0091, 20),
    (20, 0.025, 53),
    (20, 0.0091, 43),
];

fn assert_close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() < 1e-8, "{what}: found {found}, expected {expected}");
}

fn check_interval(case: &Case, confidence: f64, expected: Option<(f64, f64)>) {
    let estimate = location(case.samples, confidence).unwrap();
    let what = format!("{} samples at {confidence}", case.samples.len());
    assert_close(estimate.value, case.centre, &what);
    assert_eq!(estimate.interval.is_some(), expected.is_some(), "{what}");
    if let (Some(found), Some((low, high))) = (estimate.interval, expected) {
        assert_close(found.low, low, &what);
        assert_close(found.high, high, &what);
    }
}

#[test]
fn estimates_and_intervals_are_those_of_another_implementation() {
    for case in CASES {
        check_interval(case, 0.95, case.at_95);
        check_interval(case, 1.0 - 0.0182, case.at_9818);
        assert_close(quantile(case.samples, 0.25).unwrap(), case.quartile, "quartile");
        assert_close(median(case.samples).unwrap(), case.median, "median");
    }
}

#[test]
fn ranks_are_those_of_all_sign_patterns() {
    for &(samples, tail, rank) in RANKS {
        assert_eq!(signed_rank_quantile(samples, tail).unwrap_or(0), rank, "{samples} {tail}");
    }
}

#[test]
fn the_distribution_sums_to_one_also_at_the_limit() {
    for samples in [1, 2, 25, 40, SAMPLES_MAX] {
        let sum: f64 = signed_rank_distribution(samples).iter().sum();
        assert_close(sum, 1.0, &format!("{samples} samples"));
    }
}

#[test]
fn a_ratio_and_its_inverse_say_the_same() {
    let a = [1.0, 1.1, 0.9, 1.2, 5.0, 1.0, 1.05, 0.97];
    let b = [0.5, 0.6, 0.45, 0.61, 0.6, 0.49, 0.5, 2.0];
    let (there, back) = (ratio(&a, &b, 0.95).unwrap(), ratio(&b, &a, 0.95).unwrap());
    let (there_interval, back_interval) = (there.interval.unwrap(), back.interval.unwrap());
    assert_close(there.value, 1.0 / back.value, "estimate");
    assert_close(there_interval.low, 1.0 / back_interval.high, "interval");
    assert!(there.value < 0.6, "b takes half as long: {there:?}");
}

#[test]
fn what_cannot_be_evaluated_is_an_error() {
    let many = vec![1.0; SAMPLES_MAX + 1];
    for (a, b, expected) in [
        (&[][..], &[][..], StatisticsError::Empty),
        (&[1.0], &[], StatisticsError::Unpaired),
        (&[1.0], &[0.0], StatisticsError::NotFinite),
        (&[0.0], &[1.0], StatisticsError::NotFinite),
        (&[1.0], &[f64::NAN], StatisticsError::NotFinite),
        (&many, &many, StatisticsError::TooMany),
    ] {
        assert_eq!(ratio(a, b, 0.95), Err(expected), "{expected:?}");
    }
    assert_eq!(median(&[]), Err(StatisticsError::Empty));
    assert!(ratio(&many[1..], &many[1..], 0.95).is_ok(), "the limit itself is allowed");
}

/// What SciPy and R say about made-up samples; the scripts beside the files wrote them.
fn references() -> (serde_json::Value, serde_json::Value) {
    let parse = |text| serde_json::from_str(text).unwrap();
    (
        parse(include_str!("../../tests/reference/scipy.json")),
        parse(include_str!("../../tests/reference/r.json")),
    )
}

fn numbers(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn scipy_and_r_say_the_same() {
    let (scipy, r) = references();
    let cases = std::iter::zip(scipy.as_array().unwrap(), r["cases"].as_array().unwrap());
    let mut checked = 0;
    for (scipy, r) in cases {
        let samples = numbers(&scipy["samples"]);
        let what = |name: &str| format!("{name} of {} samples", samples.len());
        let figure = |value: &serde_json::Value| value.as_f64().unwrap();
        let estimate = location(&samples, 0.95).unwrap();
        assert_close(estimate.value, figure(&r["estimate"]), &what("estimate"));
        if let Some(interval) = estimate.interval {
            assert_close(interval.low, figure(&r["low"]), &what("low"));
            assert_close(interval.high, figure(&r["high"]), &what("high"));
        }
        let p = signed_rank_p(&samples).unwrap();
        assert_close(p, figure(&scipy["p"]), &what("p by SciPy"));
        assert_close(p, figure(&r["p"]), &what("p by R"));
        let found = autocorrelation(&samples).unwrap();
        assert_close(found, figure(&r["autocorrelation"]), &what("autocorrelation"));
        for (name, fraction) in [("quantile_0.1", 0.1), ("quantile_0.9", 0.9)] {
            assert_close(quantile(&samples, fraction).unwrap(), figure(&scipy[name]), &what(name));
        }
        // Both draw at random, so an end may fall on the neighbouring sample of a steep stretch.
        let drawn = bootstrap(&samples, 0.95, 1, median).unwrap();
        let mut sorted = samples.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let place = |value: f64| sorted.partition_point(|sample| *sample < value) as i64;
        for (found, name) in
            [(drawn.low, "bootstrap_median_low"), (drawn.high, "bootstrap_median_high")]
        {
            let apart = place(found) - place(figure(&scipy[name]));
            assert!(apart.abs() <= 1, "{}: {found}", what(name));
        }
        checked += 1;
    }
    assert_eq!(checked, 8);
    for claims in r["claims"].as_array().unwrap() {
        for (found, expected) in
            std::iter::zip(holm(&numbers(&claims["p"])), numbers(&claims["holm"]))
        {
            assert_close(found, expected, &format!("Holm on {claims}"));
        }
    }
}

#[test]
fn p_values_at_the_edges() {
    for (samples, expected) in [
        (&[1.0][..], 1.0),
        (&[0.0, 0.0], 1.0),
        (&[1.0, -1.0], 1.0),
        (&[2.0, 2.0, 2.0, 2.0, 2.0, 2.0], 0.03125),
        (&[0.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0], 0.03125),
    ] {
        assert_close(signed_rank_p(samples).unwrap(), expected, &format!("{samples:?}"));
    }
    assert_eq!(signed_rank_p(&[]), Err(StatisticsError::Empty));
    assert_eq!(holm(&[]), Vec::<f64>::new());
}

#[test]
fn what_repeats_is_autocorrelated() {
    let alternating: Vec<f64> = (0..100).map(|at| f64::from(at % 2)).collect();
    let drifting: Vec<f64> = (0..100).map(f64::from).collect();
    assert!(autocorrelation(&alternating).unwrap() < -0.9);
    assert!(autocorrelation(&drifting).unwrap() > 0.9);
    for samples in [&[][..], &[1.0, 2.0], &[3.0, 3.0, 3.0]] {
        assert_eq!(autocorrelation(samples), None, "{samples:?}");
    }
}

/// The flow of the Nile at Aswan, 1871 to 1970, in 100 million cubic metres: it fell in 1899, when a
/// dam was begun (Cobb, 1978).
const NILE: [u16; 100] = [
    1120, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994, 1020, 960, 1180,
    799, 958, 1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774, 840, 874, 694, 940, 833,
    701, 916, 692, 1020, 1050, 969, 831, 726, 456, 824, 702, 1120, 1100, 832, 764, 821, 768, 845,
    864, 862, 698, 845, 744, 796, 1040, 759, 781, 865, 845, 944, 984, 897, 822, 1010, 771, 676,
    649, 846, 812, 742, 801, 1040, 860, 874, 848, 890, 744, 749, 838, 1050, 918, 986, 797, 923,
    975, 815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
];

#[test]
fn a_step_is_found_where_it_is() {
    let nile = NILE.map(f64::from);
    let found = change_point(&nile).unwrap();
    assert_eq!(1871 + found.index, 1899);
    // As it is defined: the sum of the signs of all differences across the place.
    let at = |place: usize| -> f64 {
        let (before, after) = nile.split_at(place);
        let signs = before.iter().map(|one| {
            let sign = |other: &f64| if one == other { 0.0 } else { (one - other).signum() };
            after.iter().map(sign).sum::<f64>()
        });
        signs.sum::<f64>().abs()
    };
    let most = (1..100).map(at).fold(0.0, f64::max);
    assert_eq!(at(found.index), most);
    assert_close(found.p, 2.0 * (-6.0 * most * most / 1_010_000.0).exp(), "p");
    assert!(found.p < 1e-6, "{}", found.p);
}

#[test]
fn what_has_no_step_seldom_seems_to_have_one() {
    let mut random = crate::schedule::Random::new(1);
    let mut uniform = || random.bits() as f64 / u64::MAX as f64;
    let alarms = (0..1000).filter(|_| {
        let samples: Vec<f64> = (0..30).map(|_| uniform()).collect();
        change_point(&samples).unwrap().p < 0.05
    });
    assert!(alarms.count() <= 64, "the 97.5 % point of 1000 at 5 %");
    assert!(change_point(&[1.0; 20]).unwrap().p == 1.0);
    assert_eq!(change_point(&[1.0; 5]), None);
}

#[test]
fn weights_pull_as_the_definition_says() {
    // By the definition: the centres at which the signed ranks of w (x - c) are balanced, found by
    // trying centres one by one.
    let samples = [0.3, -0.1, 0.9, 0.45, 0.2, -0.55, 1.4, 0.05];
    let weights = [1.0, 1.0, 0.25, 1.0, 0.5, 0.1, 0.3, 1.0];
    let above = |centre: f64| -> usize {
        let scaled: Vec<f64> =
            std::iter::zip(samples, weights).map(|(x, w)| w * (x - centre)).collect();
        let rank = |of: f64| scaled.iter().filter(|other| other.abs() <= of.abs()).count();
        scaled.iter().filter(|value| **value > 0.0).map(|value| rank(*value)).sum()
    };
    let found = weighted_location(&samples, &weights, 0.95).unwrap();
    let Interval { low, high } = found.interval.unwrap();
    // Three of the 36 sums may lie outside at each end: P(W <= 3) is 5 of 256, below 2.5 %.
    let step = 1e-6;
    assert_eq!((above(low - step), above(low + step)), (33, 32));
    assert_eq!((above(high - step), above(high + step)), (4, 3));
    assert!(above(found.value - step) >= 18 && above(found.value + step) <= 18);
    let equal = weighted_location(&samples, &[0.3; 8], 0.95).unwrap();
    assert_eq!(equal, location(&samples, 0.95).unwrap());
    assert_eq!(weighted_location(&samples, &[1.0; 7], 0.95), Err(StatisticsError::Unpaired));
    assert_eq!(weighted_location(&[1.0], &[0.0], 0.95), Err(StatisticsError::NotFinite));
}

"""Writes scipy.json: what SciPy and NumPy say about made-up samples.

Run it with SciPy 1.11 or newer: python3 reference.py > scipy.json
"""

import json

import numpy
from scipy import stats

random = numpy.random.default_rng(20261121)
cases = []
for count in (5, 6, 8, 11, 14, 20, 24, 40):
    # Times are skewed and have outliers; ratios of them lie around a small effect.
    samples = random.normal(0.05, 0.1, count) + random.exponential(0.05, count)
    samples[random.integers(count)] += 1.5
    samples = [round(float(value), 5) for value in samples]
    drawn = stats.bootstrap(
        (samples,), numpy.median, n_resamples=20000, method="percentile", random_state=random
    ).confidence_interval
    cases.append(
        {
            "samples": samples,
            "p": float(stats.wilcoxon(samples, method="exact").pvalue),
            "quantile_0.1": float(numpy.quantile(samples, 0.1)),
            "quantile_0.9": float(numpy.quantile(samples, 0.9)),
            "bootstrap_median_low": float(drawn.low),
            "bootstrap_median_high": float(drawn.high),
        }
    )
print(json.dumps(cases, indent=1))

//! `--predict`: what `sweetspot profile` says beforehand, against what the benchmark then finds.
//!
//! The promise of a prediction: the true ratio lies in its interval for at least 9 in 10 programs,
//! and the median error is at most 15 %.

use super::{execute::Runner, failed, table::Figure};
use serde::Serialize;
use std::{ffi::OsString, fs, path::Path};
use sweetspot_lab::{
    Error,
    paired::{Comparison, Executor},
    statistics,
};

/// What was said of one program, and what came.
#[derive(Clone, Serialize)]
pub struct Prediction {
    /// The benchmark.
    pub name: &'static str,
    /// How many times as fast it should be, and the interval.
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    /// How many times as fast it is, in wall time.
    pub outcome: f64,
    /// The same in processor time, which a busy machine changes less.
    pub outcome_processor: f64,
}

impl Prediction {
    /// Whether the truth lies in the interval.
    fn holds(&self) -> bool {
        (self.low..=self.high).contains(&self.outcome)
    }

    /// How far off it is, as a part of the truth.
    fn error(&self) -> f64 {
        (self.ratio / self.outcome - 1.0).abs()
    }

    /// In words.
    pub fn text(&self) -> String {
        let Prediction { ratio, low, high, outcome, outcome_processor, .. } = self;
        let holds = if self.holds() { "inside" } else { "OUTSIDE" };
        let error = self.error() * 100.0;
        format!(
            "  predicted {ratio:.2}x ({low:.2}-{high:.2}), found {outcome:.2}x ({holds}, \
             {error:.0} % off); in processor time {outcome_processor:.2}x\n"
        )
    }
}

/// Runs the candidate's command under `sweetspot profile` and compares what that says with what the
/// rounds have found. None: the benchmark measures something else than the time of the whole.
pub fn predict(
    runner: &Runner<'_>,
    comparison: &Comparison,
    binary: &Path,
) -> Result<Option<Prediction>, Error> {
    if !matches!(runner.benchmark.figure, Figure::Wall) {
        return Ok(None);
    }
    let candidate = runner.benchmark.cells.len() - 1;
    let json = runner.work.with_extension("profile");
    let words = [binary.as_os_str(), "profile".as_ref(), "--json".as_ref(), json.as_os_str()];
    let mut wrapper: Vec<OsString> = words.into_iter().map(Into::into).collect();
    wrapper.push("--".into());
    let mut observer = Runner {
        benchmark: runner.benchmark,
        wrapper: &wrapper,
        programs: runner.programs,
        sources: runner.sources,
        work: runner.work.clone(),
        input: runner.input.clone(),
        count: runner.count,
        runs: Vec::new(),
    };
    let observed = observer.execute(candidate)?;
    if observed.output != comparison.output {
        return Err(failed("sweetspot profile", "the program's output is another one under it"));
    }
    let content = fs::read(&json).map_err(Error::system("read", &json))?;
    let profile: serde_json::Value = serde_json::from_slice(&content)
        .map_err(|error| failed("sweetspot profile", &error.to_string()))?;
    let said = |name: &str| profile["prediction"][name].as_f64().unwrap_or(1.0);
    let processor = |cell: usize| {
        let runs = runner.runs.iter().filter(|(of, _)| *of == cell);
        let times: Vec<f64> =
            runs.map(|(_, taken)| (taken.user + taken.system).as_secs_f64()).collect();
        statistics::median(&times).unwrap_or(1.0)
    };
    Ok(Some(Prediction {
        name: runner.benchmark.name,
        ratio: said("ratio"),
        low: said("ratio_low"),
        high: said("ratio_high"),
        outcome: 1.0 / comparison.effect(0, candidate)?.ratio,
        outcome_processor: processor(0) / processor(candidate),
    }))
}

/// All predictions in one line.
pub fn summary(predictions: &[Prediction]) -> String {
    let holds = predictions.iter().filter(|prediction| prediction.holds()).count();
    let errors: Vec<f64> = predictions.iter().map(Prediction::error).collect();
    format!(
        "predictions: {holds} of {} inside their interval (9 in 10 promised), median error {:.0} % \
         (15 % promised)",
        predictions.len(),
        statistics::median(&errors).unwrap_or(0.0) * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_are_held_against_what_came() {
        let said = |ratio, low, high, outcome| Prediction {
            name: "x",
            ratio,
            low,
            high,
            outcome,
            outcome_processor: outcome,
        };
        let all = [said(5.0, 4.0, 6.0, 5.5), said(1.0, 0.9, 1.1, 1.2), said(2.0, 1.5, 2.5, 2.0)];
        assert!(all[0].text().contains("inside") && all[1].text().contains("OUTSIDE"));
        assert!(summary(&all).starts_with("predictions: 2 of 3 inside"), "{}", summary(&all));
    }
}

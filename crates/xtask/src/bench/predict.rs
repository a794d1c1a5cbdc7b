//! `--predict`: what `sweetspot profile` says beforehand, against what the benchmark then finds.
//!
//! The promise of a prediction: the true ratio lies in its interval for at least 9 in 10 programs,
//! and the median error is at most 15 %. What is recorded (`predictions.json`) holds the profiles, so
//! that a test of `sweetspot` can hold each later version of its model against the same outcomes.

use super::{execute::Runner, failed, table::Way};
use serde::Serialize;
use serde_json::Value;
use std::{ffi::OsString, fs, path::Path};
use sweetspot_lab::{
    Error, measure::Measurement, paired::Comparison, paired::Executor, statistics,
};

/// Profiles of each program: each is a prediction of its own.
const PROFILES: usize = 3;
/// Files of a recorded profile that are kept apart; all others are added up.
const FILES_KEPT: usize = 12;

/// What was said of one program, and what came.
#[derive(Serialize)]
pub struct Prediction {
    /// The benchmark.
    pub name: &'static str,
    /// How many times as fast it is, and how sure that is.
    pub outcome: f64,
    pub outcome_low: f64,
    pub outcome_high: f64,
    /// `wall` or `processor`: that time of which the interval is narrower. A busy machine changes
    /// processor time less.
    pub time: &'static str,
    /// Medians of the runs as it is, and under `run`.
    pub seconds: [f64; 2],
    /// What was said, without what would tell of this machine's folders.
    pub profiles: Vec<Value>,
}

impl Prediction {
    /// Estimate and interval, as often as it was asked.
    fn said(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        self.profiles.iter().map(|profile| {
            let said = |name: &str| profile["prediction"][name].as_f64().unwrap_or(1.0);
            (said("ratio"), said("ratio_low"), said("ratio_high"))
        })
    }

    /// How often the truth lies in the interval.
    fn held(&self) -> usize {
        self.said().filter(|(_, low, high)| (*low..=*high).contains(&self.outcome)).count()
    }

    /// How far off each is, as a part of the truth.
    fn errors(&self) -> impl Iterator<Item = f64> {
        self.said().map(|(ratio, ..)| (ratio / self.outcome - 1.0).abs())
    }

    /// In words.
    pub fn text(&self) -> String {
        let said =
            self.said().map(|(ratio, low, high)| format!("{ratio:.2}x ({low:.2}-{high:.2})"));
        format!(
            "  predicted {}; found {:.2}x ({:.2}-{:.2}) in {} time: {}\n",
            said.collect::<Vec<_>>().join(", "),
            self.outcome,
            self.outcome_low,
            self.outcome_high,
            self.time,
            match self.held() {
                held if held == self.profiles.len() => "inside".to_owned(),
                held =>
                    format!("OUTSIDE {} of {}", self.profiles.len() - held, self.profiles.len()),
            },
        )
    }
}

/// Runs the candidate's command under `sweetspot profile` and compares what that says with what the
/// rounds have found. None: the candidate does not run under `run`.
pub fn predict(
    runner: &Runner<'_>,
    comparison: &Comparison,
    binary: &Path,
) -> Result<Option<Prediction>, Error> {
    let candidate = runner.benchmark.cells.len() - 1;
    if runner.benchmark.cells[candidate].way != Way::Buffered {
        return Ok(None);
    }
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
    let mut profiles = Vec::new();
    for _ in 0..PROFILES {
        let observed = observer.execute(candidate)?;
        if observed.output != comparison.output {
            return Err(failed(
                "sweetspot profile",
                "the program's output is another one under it",
            ));
        }
        let content = fs::read(&json).map_err(Error::system("read", &json))?;
        let profile: Value = serde_json::from_slice(&content)
            .map_err(|error| failed("sweetspot profile", &error.to_string()))?;
        if profile["prediction"].is_null() {
            // A program without any call on files is promised nothing.
            return Ok(None);
        }
        profiles.push(recorded(profile));
    }
    let times = |cell: usize, of: fn(&Measurement) -> f64| -> Vec<f64> {
        let runs = runner.runs.iter().filter(|(number, _)| *number == cell);
        runs.map(|(_, taken)| of(taken)).collect()
    };
    let wall = |cell| times(cell, |taken| taken.wall.as_secs_f64());
    let processor = |cell| times(cell, |taken| (taken.user + taken.system).as_secs_f64());
    let found =
        [("wall", wall(0), wall(candidate)), ("processor", processor(0), processor(candidate))]
            .map(|(time, plain, run)| outcome(time, &run, &plain, comparison.confidence_nominal));
    let [wall_time, processor_time] = found;
    let (wall_time, processor_time) = (wall_time?, processor_time?);
    let narrower = processor_time.width() < wall_time.width();
    let outcome = if narrower { processor_time } else { wall_time };
    let median = |times: Vec<f64>| statistics::median(&times).unwrap_or(0.0);
    Ok(Some(Prediction {
        name: runner.benchmark.name,
        outcome: outcome.ratio,
        outcome_low: outcome.low,
        outcome_high: outcome.high,
        time: outcome.time,
        seconds: [median(wall(0)), median(wall(candidate))],
        profiles,
    }))
}

/// How many times as fast a program was, in one kind of time.
struct Outcome {
    time: &'static str,
    ratio: f64,
    low: f64,
    high: f64,
}

impl Outcome {
    fn width(&self) -> f64 {
        self.high / self.low
    }
}

fn outcome(
    time: &'static str,
    run: &[f64],
    plain: &[f64],
    confidence: f64,
) -> Result<Outcome, Error> {
    let found = statistics::ratio(run, plain, confidence)
        .map_err(|error| failed("the comparison", &error.to_string()))?;
    let (low, high) = found.interval.map_or((0.0, f64::MAX), |it| (it.low, it.high));
    Ok(Outcome { time, ratio: found.value, low, high })
}

/// What of a profile the model looks at: no folder, no command, and the files that matter least
/// added up.
fn recorded(mut profile: Value) -> Value {
    profile["command"] = Value::Array(Vec::new());
    profile["insights"] = Value::Array(Vec::new());
    profile["sentence"] = Value::String(String::new());
    if let Value::Array(files) = &mut profile["files"] {
        for file in files.iter_mut() {
            let path = file["path"].as_str().unwrap_or_default();
            file["path"] = path.rsplit('/').next().unwrap_or_default().into();
        }
        let rest = files.split_off(files.len().min(FILES_KEPT));
        for file in rest {
            let alike =
                |sum: &&mut Value| ["process", "kind"].iter().all(|name| sum[*name] == file[*name]);
            match files[FILES_KEPT..].iter_mut().find(alike) {
                Some(sum) => add(sum, &file),
                None => files.push(file),
            }
        }
    }
    profile
}

/// Adds numbers to numbers, field by field; names and lists stay as they are. Which process it was
/// is no amount.
fn add(sum: &mut Value, other: &Value) {
    match (sum, other) {
        (Value::Object(sum), Value::Object(other)) => {
            for (name, value) in sum.iter_mut().filter(|(name, _)| *name != "process") {
                add(value, &other[name]);
            }
        }
        (sum @ Value::Number(_), Value::Number(_)) => {
            *sum = match (sum.as_u64(), other.as_u64()) {
                (Some(sum), Some(other)) => (sum + other).into(),
                _ => (sum.as_f64().unwrap_or(0.0) + other.as_f64().unwrap_or(0.0)).into(),
            }
        }
        _ => {}
    }
}

/// All predictions in one line.
pub fn summary<'a>(predictions: impl Iterator<Item = &'a Prediction> + Clone) -> String {
    let held: usize = predictions.clone().map(Prediction::held).sum();
    let errors: Vec<f64> = predictions.flat_map(Prediction::errors).collect();
    format!(
        "predictions: {held} of {} inside their interval (9 in 10 promised), median error {:.0} % \
         (15 % promised)",
        errors.len(),
        statistics::median(&errors).unwrap_or(0.0) * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn predictions_are_held_against_what_came() {
        let said = |ratio, low, high, outcome| Prediction {
            name: "x",
            outcome,
            outcome_low: outcome,
            outcome_high: outcome,
            time: "wall",
            seconds: [1.0, 1.0],
            profiles: vec![json!({
                "prediction": { "ratio": ratio, "ratio_low": low, "ratio_high": high },
            })],
        };
        let all = [said(5.0, 4.0, 6.0, 5.5), said(1.0, 0.9, 1.1, 1.2), said(2.0, 1.5, 2.5, 2.0)];
        assert!(all[0].text().contains("inside") && all[1].text().contains("OUTSIDE"));
        let summary = summary(all.iter());
        assert!(summary.starts_with("predictions: 2 of 3 inside"), "{summary}");
    }

    #[test]
    fn what_is_recorded_has_the_same_sums_and_no_folder() {
        let file = |number: u64| {
            json!({
                "path": format!("/home/me/{number}"), "process": 3, "kind": "file", "reads": number,
                "seconds": 0.5, "timed": { "small": number }, "reasons": [],
            })
        };
        let files: Vec<Value> = (0..100).map(file).collect();
        let kept = recorded(json!({ "command": ["/home/me/prog"], "files": files }));
        assert!(!kept.to_string().contains("home"), "{kept}");
        let files = kept["files"].as_array().unwrap();
        assert_eq!(files.len(), FILES_KEPT + 1);
        let sum: u64 = files.iter().map(|file| file["timed"]["small"].as_u64().unwrap()).sum();
        assert_eq!((sum, files[FILES_KEPT]["process"].as_u64()), (4950, Some(3)));
        assert_eq!(files[FILES_KEPT]["seconds"], 44.0);
    }
}

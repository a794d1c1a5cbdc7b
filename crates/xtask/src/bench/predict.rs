//! `cargo xtask bench predict RECORD DIR`: what `sweetspot profile` says of the programs of
//! `benchmarks/plan.toml`, against what a session of `sweetspot bench` has found on the same machine.
//!
//! The promise of a prediction: the true ratio lies in its interval for at least 9 in 10 programs,
//! and the median error is at most 15 %. What is written (`predictions.json`) holds the profiles, so
//! that a test of `sweetspot` can hold each later version of its model against the same outcomes.

use super::command::remove;
use super::planned::{Cell, Planned};
use super::report::{self, Place};
use crate::build::{self, Machine};
use crate::project::failed;
use serde::Serialize;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};
use sweetspot_lab::{
    Error,
    measure::{self, Job},
    output::Hash,
    paired::CONFIDENCE_FIXED,
    statistics,
};

/// Profiles of each program: each is a prediction of its own.
const PROFILES: usize = 3;
/// Files of a recorded profile that are kept apart; all others are added up.
const FILES_KEPT: usize = 12;

/// What was said of one program, and what came.
#[derive(Serialize)]
pub struct Prediction {
    /// The cells of the plan that it is about.
    pub name: String,
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

/// Predicts each program that ran as it is and under `run`.
pub fn predict_all(record: &Path, folder: &Path, scale: &str) -> Result<String, Error> {
    let folder = &std::path::absolute(folder).map_err(Error::system("find", folder))?;
    let report = report::read(record)?;
    let session = report::session(&report, Place::Disk)?;
    let built = build::binary("release", Machine::HERE);
    let binary = built.map_err(|reason| failed("cargo build", &reason))?.binary;
    let planned = Planned { binary: &binary, plan: "plan.toml", scale: Some(scale), folder };
    let mut predictions = Vec::new();
    for cell in planned.cells()?.iter().filter(|cell| cell.cache == "warm") {
        let Some(name) = cell.name.strip_suffix(", how without") else { continue };
        let Some((outcome, seconds)) = found(session, name)? else { continue };
        let profiles = profiles(&planned, cell, session)?;
        if profiles.iter().any(|profile| profile["prediction"].is_null()) {
            // A program without any call on files is promised nothing.
            continue;
        }
        let prediction = Prediction {
            name: name.to_owned(),
            outcome: outcome.ratio,
            outcome_low: outcome.low,
            outcome_high: outcome.high,
            time: outcome.time,
            seconds,
            profiles: profiles.into_iter().map(recorded).collect(),
        };
        print!("{name}\n{}", prediction.text());
        predictions.push(prediction);
    }
    let path = record.join("predictions.json");
    let json = serde_json::to_string(&predictions);
    let json = json.map_err(|error| failed("the predictions", &error.to_string()))?;
    fs::write(&path, json + "\n").map_err(Error::system("write", &path))?;
    Ok(summary(predictions.iter()))
}

/// What the session found of a program, and the medians of its seconds as it is and under `run`; none
/// where it did not run.
fn found(session: &Value, name: &str) -> Result<Option<(Outcome, [f64; 2])>, Error> {
    let [plain, run] = ["without", "run"].map(|how| format!("{name}, how {how}"));
    let times = |of: fn(&Value) -> Option<f64>| report::pairs(session, &plain, &run, of);
    let wall = times(|run| run["wall_seconds"].as_f64());
    let processor =
        times(|run| Some(run["user_seconds"].as_f64()? + run["system_seconds"].as_f64()?));
    if wall.0.is_empty() {
        return Ok(None);
    }
    let median = |times: &[f64]| statistics::median(times).unwrap_or(0.0);
    let seconds = [median(&wall.0), median(&wall.1)];
    let (wall, processor) = (outcome("wall", &wall)?, outcome("processor", &processor)?);
    let narrower = processor.width() < wall.width();
    Ok(Some((if narrower { processor } else { wall }, seconds)))
}

/// What `sweetspot profile` says of a cell's command, a few times.
fn profiles(planned: &Planned<'_>, cell: &Cell, session: &Value) -> Result<Vec<Value>, Error> {
    let run = report::runs(session, &cell.name).next();
    let expected = run.and_then(|run| run["output"].as_str()).unwrap_or_default();
    let work = tempfile::tempdir_in(planned.folder);
    let work = work.map_err(Error::system("use", planned.folder))?;
    let path = |name: &str| -> PathBuf { work.path().join(name) };
    let (json, made, printed) = (path("profile"), path("output"), path("stdout"));
    let mut job = Job::new([planned.binary.as_os_str(), "profile".as_ref(), "--json".as_ref()]);
    job.command.extend([json.clone().into(), "--".into()]);
    job.command.extend(cell.command(&made));
    job.environment.clone_from(&cell.environment);
    (job.folder, job.stdout) = (Some(work.path().to_owned()), Some(printed.clone()));
    job.samples = Some(path("samples")); // else some print what they have measured
    let mut profiles = Vec::new();
    for _ in 0..PROFILES {
        remove(&made)?;
        measure::run(&job)?;
        let mut hash = Hash::default();
        hash.add_tree(if cell.has_output() { &made } else { &printed })?;
        if hash.text() != expected {
            return Err(failed(&cell.name, "its output is another one under sweetspot profile"));
        }
        let content = fs::read(&json).map_err(Error::system("read", &json))?;
        let profile = serde_json::from_slice(&content);
        profiles.push(profile.map_err(|error| failed("sweetspot profile", &error.to_string()))?);
    }
    Ok(profiles)
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

fn outcome(time: &'static str, (plain, run): &(Vec<f64>, Vec<f64>)) -> Result<Outcome, Error> {
    let found = statistics::ratio(run, plain, CONFIDENCE_FIXED)
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
            name: "x".to_owned(),
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

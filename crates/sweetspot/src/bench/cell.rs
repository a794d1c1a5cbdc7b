//! One run of a cell, from an empty folder to a checked end: here, or on the machine that a launcher
//! chose, where `sweetspot measure` does the same and answers with one line.
//!
//! Invariant: a figure comes back only from a run that ended well, made its output, and began in the
//! state of the page cache that was asked for.

use super::data::{Checked, free_bytes};
use super::place::{cannot, utf8};
use crate::arguments::Measure;
use crate::experiment::{NOT_PASSED_ON, lab, tail};
use crate::own;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use sweetspot_lab::cache;
use sweetspot_lab::environment::Environment;
use sweetspot_lab::measure::{self, Job, Measurement};
use sweetspot_lab::output::Hash;
use sweetspot_lab::plan::{Figure, Output, Template};
use sweetspot_lab::statistics;
use sweetspot_lab::store::{Distribution, Ended, Observed};
use sweetspot_report::failure::Failure;
use sweetspot_report::print::print;
use sweetspot_report::shown::shown;

/// Begins the line with which `measure` answers.
const ANSWER: &str = "sweetspot-measure ";
/// More samples of one run are not kept.
const SAMPLES_BYTES_MAX: u64 = 1 << 20;
/// A launcher may wait for its turn in a queue.
const LAUNCHER_LIMIT: Duration = Duration::from_secs(30 * 24 * 3600);
/// A program that fails where less is free failed because of that.
const ROOM_BYTES_MIN: u64 = 1 << 20;

/// Everything that a run needs to know.
#[derive(Clone, Serialize, Deserialize)]
pub struct Request {
    pub words: Vec<Template>,
    pub environment: Vec<(String, Template)>,
    pub stdin: Option<Template>,
    /// What the placeholders stand for, but for `{output}`.
    pub values: BTreeMap<String, String>,
    pub output: Output,
    pub figure: Figure,
    /// In it the folder of the run is made.
    pub folder: PathBuf,
    /// The files that it reads, as they were when they were checked.
    pub inputs: Vec<Checked>,
    /// What the page cache is to hold of them; none: whatever it holds.
    pub cache: Option<cache::State>,
    pub limit: Duration,
}

/// What came of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub ended: Ended,
    /// The machine that it ran on, and what is known of it; empty for this one.
    pub node: String,
    pub environment: String,
}

/// How the run went where a launcher started it.
pub enum Launched {
    Ran(Outcome),
    /// Nobody answered, or not everybody: why.
    Lost(String),
}

/// A run, and what it leaves.
struct Run<'a> {
    request: &'a Request,
    folder: tempfile::TempDir,
}

/// Runs a cell on this machine.
///
/// # Errors
/// Where the run could not be made as it was asked for: no room, no cold cache, no data.
pub fn perform(request: &Request) -> Result<Ended, Failure> {
    fs::create_dir_all(&request.folder).map_err(cannot("make", &request.folder))?;
    let folder = tempfile::Builder::new()
        .prefix("run-")
        .tempdir_in(&request.folder)
        .map_err(cannot("use", &request.folder))?;
    Run { request, folder }.perform()
}

impl Run<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn perform(&self) -> Result<Ended, Failure> {
        let job = self.job()?;
        self.prepare()?;
        let measurement = match measure::run(&job) {
            Ok(measurement) => measurement,
            Err(error @ sweetspot_lab::Error::TimeLimit { .. })
            | Err(error @ sweetspot_lab::Error::System { operation: "start", .. }) => {
                return Ok(Ended::GivenUp(error.to_string()));
            }
            Err(error) => return Err(lab(error)),
        };
        if !measurement.status.success() {
            if free_bytes(self.folder.path())? < ROOM_BYTES_MIN {
                return Err(cannot("write in", self.folder.path())(ErrorKind::StorageFull.into()));
            }
            let said = tail(&self.path("stderr"));
            let reason = format!("it failed with {}{said}", measurement.status);
            return Ok(Ended::GivenUp(reason));
        }
        self.observed(measurement)
    }

    fn prepare(&self) -> Result<(), Failure> {
        for input in &self.request.inputs {
            if Checked::now(&input.path)? != *input {
                let what = format!("{} has changed since it was checked", shown(&input.path));
                return Err(Failure::own(what)
                    .next("a program may be writing to the data: give it a copy of its own"));
            }
        }
        let inputs: Vec<PathBuf> =
            self.request.inputs.iter().map(|input| input.path.clone()).collect();
        match self.request.cache {
            None => Ok(()),
            Some(state) => cache::bring(state, &inputs).map_err(|error| {
                lab(error).next("leave the cache as it is: cache = \"none\" in the plan")
            }),
        }
    }

    fn job(&self) -> Result<Job, Failure> {
        let output = self.path("output");
        let output = utf8(&output)?;
        let values = &self.request.values;
        let fill = |word: &Template| -> OsString {
            word.fill(|name| match name {
                "output" => output,
                name => values.get(name).map_or("", String::as_str),
            })
        };
        let mut job = Job::new(self.request.words.iter().map(fill));
        let folder = self.path("folder");
        fs::create_dir(&folder).map_err(cannot("make", &folder))?;
        job.folder = Some(folder);
        let variables = self.request.environment.iter();
        job.environment = variables.map(|(name, value)| (name.into(), fill(value))).collect();
        let is_set = |name: &str| self.request.environment.iter().any(|(set, _)| set == name);
        let without = NOT_PASSED_ON.into_iter().filter(|name| !is_set(name));
        job.without = without.map(OsString::from).collect();
        job.stdin = self.request.stdin.as_ref().map(|path| PathBuf::from(fill(path)));
        job.stdout = (self.request.output == Output::Stdout).then(|| self.path("stdout"));
        job.stderr = Some(self.path("stderr"));
        job.samples = Some(self.path("samples"));
        job.limit = self.request.limit;
        Ok(job)
    }

    /// What a run that ended well showed.
    fn observed(&self, measurement: Measurement) -> Result<Ended, Failure> {
        let output = match self.request.output {
            Output::File => Some(self.path("output")),
            Output::Stdout => Some(self.path("stdout")),
            Output::None => None,
        };
        let (mut hashed, mut output_bytes, mut sync) = (None, 0, Duration::ZERO);
        if let Some(path) = output {
            if path.symlink_metadata().is_err() {
                return Ok(Ended::GivenUp("it ended well, but made no {output}".to_owned()));
            }
            let begun = Instant::now();
            let Some(bytes) = sync_tree(&path)? else {
                let reason = "its output holds something that is neither a file nor a folder";
                return Ok(Ended::GivenUp(reason.to_owned()));
            };
            (output_bytes, sync) = (bytes, begun.elapsed());
            let mut hash = Hash::default();
            hash.add_tree(&path).map_err(lab)?;
            hashed = Some(hash.text());
        }
        let samples = match self.samples()? {
            Ok(samples) => samples,
            Err(reason) => return Ok(Ended::GivenUp(reason)),
        };
        let figure = match (self.request.figure, &samples) {
            (Figure::Wall, _) => measurement.wall.as_secs_f64(),
            (Figure::Samples, Some(found)) => {
                statistics::median(&found.samples).map_err(|error| lab(error.into()))?
            }
            (Figure::Samples, None) => {
                let reason = "it reported no samples, which the plan compares";
                return Ok(Ended::GivenUp(reason.to_owned()));
            }
        };
        Ok(Ended::Measured(Box::new(Observed {
            figure,
            output: hashed,
            output_bytes,
            sync,
            ranks: 1,
            measurement,
            samples,
        })))
    }

    /// What the program reported, or what is wrong with it.
    fn samples(&self) -> Result<Result<Option<Distribution>, String>, Failure> {
        let path = self.path("samples");
        let len = path.metadata().map_err(cannot("look at", &path))?.len();
        if len == 0 {
            return Ok(Ok(None));
        }
        if len > SAMPLES_BYTES_MAX {
            return Ok(Err(format!("it reported {len} bytes of samples; 1 MiB is the most")));
        }
        let text = fs::read(&path).map_err(cannot("read", &path))?;
        let wrong = |cause: String| {
            let wanted = r#"{"unit": "ms", "samples": [1.5, 2]}"#;
            Err(format!("it reported samples that are not understood: {cause}; wanted: {wanted}"))
        };
        Ok(match serde_json::from_slice::<Distribution>(&text) {
            Err(error) => wrong(error.to_string()),
            Ok(found) if found.samples.is_empty() => wrong("there is none".to_owned()),
            Ok(found) if found.samples.iter().any(|sample| *sample <= 0.0) => {
                wrong("one is not above 0".to_owned())
            }
            Ok(found) => Ok(Some(found)),
        })
    }
}

/// Has all files below `path` written to the device; tells how many bytes they have. None where
/// something else is there: a link to the input is no copy of it, and a pipe has no end.
fn sync_tree(path: &Path) -> Result<Option<u64>, Failure> {
    let metadata = path.symlink_metadata().map_err(cannot("look at", path))?;
    if metadata.is_dir() {
        let entries = fs::read_dir(path).map_err(cannot("list", path))?.flatten();
        return entries.map(|entry| sync_tree(&entry.path())).sum();
    }
    if !metadata.is_file() {
        return Ok(None);
    }
    if let Ok(file) = File::open(path) {
        let _ = file.sync_all(); // a file system that cannot is no reason to stop
    }
    Ok(Some(metadata.len()))
}

/// `sweetspot measure`: one run, for a launcher. Answers on standard output.
///
/// # Errors
/// Where what it was told is not understood.
pub fn measure(arguments: &Measure) -> Result<u8, Failure> {
    let Some(file) = from_hex(&arguments.request).map(OsString::from_vec) else {
        return Err(Failure::own("'measure' is started by 'bench', and not by people")
            .next("sweetspot bench PLAN --launcher 'srun -N1 -n1 --exclusive'"));
    };
    let node = node();
    let answer: Result<Outcome, String> = read_request(Path::new(&file))
        .and_then(|request| {
            let ended = perform(&request)?;
            let environment = Environment::of(&request.folder, &[]).map_err(lab)?;
            let environment = serde_json::to_string(&environment).unwrap_or_default();
            Ok(Outcome { ended, node: node.clone(), environment })
        })
        .map_err(|failure| format!("on {node}: {}", failure.what()));
    let answer = serde_json::to_string(&answer).unwrap_or_default();
    print(&format!("\n{ANSWER}{answer}\n"))?;
    Ok(0)
}

fn read_request(file: &Path) -> Result<Request, Failure> {
    let text = fs::read(file).map_err(cannot("read", file))?;
    serde_json::from_slice(&text).map_err(|error| cannot("understand", file)(error.into()))
}

/// What this machine is called: by Slurm, of which several nodes may be one machine, or by itself.
fn node() -> String {
    let by_slurm = std::env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty());
    by_slurm.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

/// Runs a cell where the command `launcher` brings it.
///
/// # Errors
/// Where there is no such command, or the run could not be made as it was asked for.
pub fn launch(launcher: &[OsString], request: &Request) -> Result<Launched, Failure> {
    let folder = tempfile::Builder::new()
        .prefix("launched-")
        .tempdir_in(&request.folder)
        .map_err(cannot("use", &request.folder))?;
    // In a file, as the names of many inputs do not fit into a command.
    let file = folder.path().join("request.json");
    fs::write(&file, serde_json::to_vec(request).unwrap_or_default())
        .map_err(cannot("write", &file))?;
    let told = to_hex(file.as_os_str().as_bytes());
    let measuring = [own::running()?.into_os_string(), "measure".into(), told.into()];
    // A launcher is started as what is measured here: it dies with this process, not of a Ctrl-C.
    let mut job = Job::new(launcher.iter().cloned().chain(measuring));
    let (out, err) = (folder.path().join("stdout"), folder.path().join("stderr"));
    (job.stdout, job.stderr, job.limit) = (Some(out.clone()), Some(err.clone()), LAUNCHER_LIMIT);
    let answered = measure::run(&job).map_err(|error| {
        let name = launcher[0].to_string_lossy();
        Failure::own(format!("the launcher '{name}' cannot be used: {error}"))
            .next("--launcher takes a command that is put before another one")
    })?;
    let said = fs::read(&out).map_err(cannot("read", &out))?;
    let said = String::from_utf8_lossy(&said);
    let answers = said.lines().filter_map(|line| line.split_once(ANSWER)).map(|(_, text)| text);
    let mut outcomes = Vec::new();
    for answer in answers {
        match serde_json::from_str::<Result<Outcome, String>>(answer) {
            Ok(Ok(outcome)) => outcomes.push(outcome),
            Ok(Err(reason)) => {
                return Err(Failure::own(reason)
                    .next("what is in --dir must be there on all nodes, at the same path"));
            }
            Err(error) => return Ok(Launched::Lost(format!("the answer is cut off: {error}"))),
        }
    }
    if outcomes.is_empty() || !answered.status.success() {
        let heard = fs::read(&err).unwrap_or_default();
        let heard = String::from_utf8_lossy(&heard);
        let heard = heard.trim().lines().next_back().unwrap_or("nothing was said").to_owned();
        return Ok(Launched::Lost(format!("{}, {heard}", answered.status)));
    }
    Ok(Launched::Ran(together(outcomes)))
}

/// What several ran at once is one run, as slow as the slowest.
fn together(mut outcomes: Vec<Outcome>) -> Outcome {
    let ranks = outcomes.len();
    let figure = |outcome: &Outcome| match &outcome.ended {
        Ended::Measured(observed) => observed.figure,
        Ended::GivenUp(_) => f64::INFINITY,
    };
    let output = |outcome: &Outcome| match &outcome.ended {
        Ended::Measured(observed) => observed.output.clone(),
        Ended::GivenUp(_) => None,
    };
    outcomes.sort_by(|one, other| figure(one).total_cmp(&figure(other)));
    let differ = outcomes.windows(2).any(|two| output(&two[0]) != output(&two[1]));
    let mut nodes: Vec<String> = outcomes.iter().map(|outcome| outcome.node.clone()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut slowest = outcomes.remove(ranks - 1);
    slowest.node = nodes.join("+");
    match &mut slowest.ended {
        Ended::Measured(_) if differ => {
            let reason = "those that ran it at once gave different outputs";
            slowest.ended = Ended::GivenUp(reason.to_owned());
        }
        Ended::Measured(observed) => observed.ranks = ranks,
        Ended::GivenUp(_) => {}
    }
    slowest
}

/// In digits that no shell on the way takes for something else.
fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |two: &[u8]| Some((digit(two[0])? << 4 | digit(*two.get(1)?)?) as u8);
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_go_and_come_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&all)), Some(all));
        assert_eq!(from_hex(""), Some(Vec::new()));
        for wrong in ["0", "0g", "zz", "00 1"] {
            assert_eq!(from_hex(wrong), None, "{wrong}");
        }
    }
}

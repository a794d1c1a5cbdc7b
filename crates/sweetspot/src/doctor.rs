//! `sweetspot doctor`: what this machine offers and what it lacks, with the command that mends it.
//!
//! ```text
//! trial     a small program under the library: what is really buffered here?
//! machine   the kernel, shared memory, the sandbox, folders, what was left behind
//! programs  the toolchains of the classics
//! ```
//!
//! Whatever can be tried is tried, as `run`, `tune`, `bench` and `verify` would do it; nothing of the
//! user's is changed.

mod machine;
mod programs;
mod trial;

use crate::arguments::Doctor;
use crate::environment::{self, is_switched_off};
use crate::interrupts::Asked;
use crate::preload::{self, Refusal};
use crate::probe::{self, Answer, Calls};
use std::path::Path;
use sweetspot_lab::environment::Environment;
use sweetspot_report::doctor::{DoctorReport, Finding, Part, SCHEMA_VERSION};
use sweetspot_report::failure::Failure;
use sweetspot_report::numbers;
use sweetspot_report::print::print;
use sweetspot_report::shown::shown;
use trial::{Counts, Trial};

/// Exit status where `run` cannot do anything here.
const STATUS_CANNOT_RUN: u8 = 1;

/// Looks, tries, and says what was found.
///
/// # Errors
/// Where not even the machine can be looked at.
pub fn doctor(arguments: &Doctor) -> Result<u8, Failure> {
    let here = Some(std::env::temp_dir()).filter(|folder| folder.is_dir());
    let here = here.unwrap_or_else(|| "/".into());
    let environment = Environment::of(&here, &[]).map_err(crate::experiment::lab)?;
    // An end comes between two parts, when their folders are gone.
    let asked = Asked::watch()?;
    // First, while this process has one thread: a guard is started.
    let (mut findings, sentence) = running();
    asked.end_if_so();
    findings.extend(machine::for_run());
    findings.extend(machine::for_experiments(&environment));
    asked.end_if_so();
    findings.extend(programs::findings());
    asked.end_if_so();
    findings.extend(machine::yours());
    let report = DoctorReport {
        schema_version: SCHEMA_VERSION,
        version: env!("CARGO_PKG_VERSION"),
        kernel: environment.kernel,
        distribution: environment.distribution,
        architecture: environment.architecture,
        run_works: ![NOTHING, REFUSED].contains(&sentence),
        sentence,
        findings,
    };
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&report).unwrap_or_default() + "\n",
        false => report.text(),
    };
    print(&text)?;
    Ok(if report.run_works { 0 } else { STATUS_CANNOT_RUN })
}

const EVERYTHING: &str = "Programs can be run here: their reads and writes are buffered.";
const READS: &str = "Programs can be run here, but only their reads are buffered.";
const WRITES: &str = "Programs can be run here, but only their writes are buffered.";
const NOTHING: &str = "Nothing is buffered here: programs run as they always did.";
const REFUSED: &str =
    "Nothing can be run here: `sweetspot run` starts no program with an unsafe library.";

/// What `run` needs, and what it then does to a program.
fn running() -> (Vec<Finding>, &'static str) {
    let part = Part::Run;
    let mut findings = Vec::new();
    let is_off = is_switched_off(&environment::Environment::own());
    if is_off {
        let says = "SWEETSPOT=off in the environment: programs start untouched";
        let mend = "unset SWEETSPOT".to_owned();
        findings.push(Finding::lacks(part, "switch", says).mend(mend));
    }
    let library = match preload::find_or_write() {
        Ok(library) => library,
        Err(refusal) => {
            let is_started = is_off || matches!(refusal, Refusal::NoPlace(_));
            findings.push(failed(part, "library", &refusal.into()));
            return (findings, if is_started { NOTHING } else { REFUSED });
        }
    };
    findings.push(Finding::ok(part, "library", shown(&library)));
    let trial = match trial::of(&library) {
        Ok(trial) => trial,
        Err(failure) => {
            findings.push(failed(part, "trial", &failure));
            return (findings, NOTHING);
        }
    };
    findings.push(counted("reads", trial.reads, &trial));
    findings.push(counted("writes", trial.writes, &trial));
    findings.push(asked(&trial.program));
    let sentence = match (is_off, trial.reads.are_fewer(), trial.writes.are_fewer()) {
        (false, true, true) => EVERYTHING,
        (false, true, false) => READS,
        (false, false, true) => WRITES,
        _ => NOTHING,
    };
    findings.push(machine::c_library(sentence != NOTHING));
    (findings, sentence)
}

/// What `run --require`, `profile`, `tune` and `verify` would be told of the program of the trial.
fn asked(program: &Path) -> Finding {
    let name = "answer";
    let obstacle = |what: &str, obstacle: probe::Obstacle| {
        Finding::lacks(Part::Run, name, format!("{what}: {}", obstacle.reason)).mend(obstacle.mend)
    };
    match probe::ask(program, &environment::Environment::own()) {
        Answer::Buffered => {
            Finding::ok(Part::Run, name, "the check before a run works: dd will be buffered")
        }
        Answer::Without(Calls::Reads, found) => obstacle("dd's reads would not be buffered", found),
        Answer::Without(Calls::Writes, found) => obstacle("dd's writes would not wait", found),
        Answer::Not(found) => obstacle("dd would not be buffered", found),
        Answer::Unknown(reason) => {
            let says = format!("this can be checked only after a program has run: {reason}");
            Finding::lacks(Part::Run, name, says)
        }
    }
}

fn counted(name: &'static str, counts: Counts, trial: &Trial) -> Finding {
    let [requested, made] = [counts.requested, counts.made].map(numbers::count);
    if counts.are_fewer() {
        let says = format!("dd: {requested} calls requested, {made} made");
        return Finding::ok(Part::Run, name, says);
    }
    let why = match trial.notes.as_slice() {
        [] => "no reason is known".to_owned(),
        notes => notes.join("; "),
    };
    let says = match counts.requested {
        0 => format!("not buffered: {why}"),
        _ => format!("dd: {requested} calls requested, {made} made: {why}"),
    };
    Finding::lacks(Part::Run, name, says).mend(probe::mend_confinement())
}

fn failed(part: Part, name: &'static str, failure: &Failure) -> Finding {
    Finding::lacks(part, name, failure.what()).mend(failure.next_step().map(str::to_owned))
}

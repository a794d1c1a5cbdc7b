//! Builds the programs of a plan, and finds out which of them cannot run here.
//!
//! Invariant: what is called built was built whole, from the files and by the compilers of now.

use super::place::{KEY_DIGITS, Workspace, cannot};
use crate::experiment::tail;
use crate::own;
use crate::resolve;
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use sweetspot_lab::measure::{self, Job};
use sweetspot_lab::output::Hash;
use sweetspot_lab::plan::{Plan, Program};
use sweetspot_report::bench::Skipped;
use sweetspot_report::failure::Failure;
use sweetspot_report::shown::shown;

/// The programs that miss a command they need.
pub fn skipped(plan: &Plan) -> Vec<Skipped> {
    let mut skipped = Vec::new();
    for (number, program) in plan.programs.iter().enumerate() {
        let missing: Vec<&str> =
            program.needs.iter().map(String::as_str).filter(|name| find(name).is_none()).collect();
        if missing.is_empty() {
            continue;
        }
        let install = match &program.install {
            Some(install) => format!("; to install it: {install}"),
            None => String::new(),
        };
        let why = format!("'{}' needs {}{install}", program.name, missing.join(", "));
        skipped.push(Skipped { program: number, why });
    }
    skipped
}

fn find(name: &str) -> Option<PathBuf> {
    resolve::find(name.as_ref(), std::env::var_os("PATH").as_deref()).ok()
}

/// Builds all programs but those that are skipped.
///
/// # Errors
/// Where a command fails.
pub fn build(
    plan: &Plan,
    place: &Workspace,
    skipped: &[Skipped],
    bar: &ProgressBar,
) -> Result<(), Failure> {
    for (number, program) in plan.programs.iter().enumerate() {
        let is_used = plan.cells.iter().any(|cell| cell.program() == number);
        if is_used && !skipped.iter().any(|skipped| skipped.program == number) {
            build_one(program, place, bar)?;
        }
    }
    Ok(())
}

fn build_one(program: &Program, place: &Workspace, bar: &ProgressBar) -> Result<(), Failure> {
    if program.build.is_empty() {
        return Ok(());
    }
    let values: BTreeMap<String, String> = place.values()?.into_iter().collect();
    let commands: Vec<Vec<_>> = (program.build.iter())
        .map(|words| words.iter().map(|word| word.fill(|name| values[name].as_str())).collect())
        .collect();
    // Programs that are built in the same way share what is built.
    let mut name = Hash::default();
    let mut state = Hash::default();
    state.add(place.hash(&program.build)?.as_bytes());
    for command in &commands {
        command.iter().for_each(|word| name.add(word.as_bytes()));
        let compiler = find(&command[0].to_string_lossy());
        let metadata = compiler.and_then(|path| path.metadata().ok());
        let modified = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
        state.add(format!("{:?} {modified:?}", metadata.map(|found| found.len())).as_bytes());
    }
    let stamp = place.build.join(format!(".built-{}", &name.text()[..KEY_DIGITS]));
    let state = state.text();
    if fs::read_to_string(&stamp).is_ok_and(|built| built == state) {
        return Ok(());
    }
    let _ = fs::remove_file(&stamp);
    bar.set_message(format!("building '{}'", program.name));
    for command in commands {
        let typed = command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let mut job = Job::new(command);
        let (out, said) = (place.runs.path().join("built"), place.runs.path().join("said"));
        (job.folder, job.stdout) = (Some(place.folder.clone()), Some(out.clone()));
        job.stderr = Some(said.clone());
        let failure = |what: String| {
            let at = shown(&place.folder);
            Failure::own(format!("'{}' cannot be built: {typed}: {what}", program.name))
                .next(format!("try the command by hand, in {at}"))
        };
        let measured = measure::run(&job).map_err(|error| failure(error.to_string()))?;
        if !measured.status.success() {
            // Some compilers say what is wrong on their standard output.
            let said = Some(tail(&said)).filter(|said| !said.is_empty());
            let said = said.unwrap_or_else(|| tail(&out));
            return Err(failure(format!("it failed with {}{said}", measured.status)));
        }
    }
    fs::write(&stamp, state).map_err(cannot("write", &stamp))
}

/// The files of the programs that the cells start, and what starts them.
///
/// # Errors
/// Where a path is no text.
pub fn files(
    commands: impl IntoIterator<Item = std::ffi::OsString>,
) -> Result<Vec<PathBuf>, Failure> {
    let own = own::running()?;
    let mut found: Vec<PathBuf> =
        commands.into_iter().filter_map(|name| find(&name.to_string_lossy())).collect();
    found.push(own);
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The hash of the plan's text.
pub fn plan_hash(place: &Workspace) -> String {
    let mut hash = Hash::default();
    hash.add(place.text.as_bytes());
    hash.text()
}

//! What `sweetspot profile` says of a program, and the summary of `run`.

use super::execute::Runner;
use crate::bench::command::{self, remove};
use crate::project::failed;
use serde::Serialize;
use serde_json::Value;
use std::{
    ffi::{OsStr, OsString},
    fs,
};
use sweetspot_lab::Error;
use sweetspot_report::summary::Figures;

/// What was said of a program, without the folders of this machine.
#[derive(Serialize)]
pub struct Said {
    /// The first sentence of `profile`.
    pub profile: String,
    /// The calls that were made under `run`, and those that were left of them; none where nothing
    /// was buffered.
    pub calls: Option<(u64, u64)>,
    /// The notes of the summary, and its lines about files.
    pub summary: Vec<String>,
}

impl Said {
    /// In words.
    pub fn text(&self) -> String {
        let summary: String =
            self.summary.iter().map(|line| format!("  summary: {line}\n")).collect();
        format!("  profile: {}\n{summary}", self.profile)
    }
}

/// Asks `profile` about a program, and the summary of a run.
pub fn ask(runner: &Runner<'_>) -> Result<Said, Error> {
    let answer = runner.work.with_extension("said");
    let asked = |verb: &str, options: &[&str], option: &str| {
        remove(&runner.output())?;
        remove(&answer)?;
        let mut file = OsString::from(option);
        file.push(&answer);
        let typed = runner.command();
        let mut words: Vec<&OsStr> = vec![runner.binary.as_ref(), verb.as_ref()];
        words.extend(options.iter().map(OsStr::new));
        words.extend([&*file, "--".as_ref()]);
        words.extend(typed.iter().map(OsString::as_os_str));
        command::run(&runner.work, &words)?;
        fs::read_to_string(&answer).map_err(Error::system("read", &answer))
    };
    let profile: Value = serde_json::from_str(&asked("profile", &[], "--json=")?)
        .map_err(|error| failed("sweetspot profile", &error.to_string()))?;
    let sentence = profile["sentence"].as_str().unwrap_or_default();
    let summary = asked("run", runner.language.options, "--summary=")?;
    // What stands in its place is in the next column.
    let (sentence, _) = sentence.split_once(" -- ").unwrap_or((sentence, ""));
    let matters =
        |line: &&str| ["note ", "buffered  no", " /"].iter().any(|it| line.starts_with(it));
    Ok(Said {
        profile: without_folders(sentence, runner),
        calls: Figures::read(&summary).calls,
        summary: summary
            .lines()
            .filter(matters)
            .map(|line| without_folders(&words(line), runner))
            .collect(),
    })
}

/// A line with single spaces.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text in which files have no folders that tell where they lie on this machine.
fn without_folders(text: &str, runner: &Runner<'_>) -> String {
    let folders =
        [Some(runner.programs), Some(runner.sources), Some(&*runner.work), runner.input.parent()];
    folders
        .into_iter()
        .flatten()
        .fold(text.to_owned(), |text, folder| text.replace(&format!("{}/", folder.display()), ""))
}

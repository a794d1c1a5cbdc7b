//! Where the figures lie that others have published, and what is said of a file that is none.

use super::place::Workspace;
use std::io::Read;
use sweetspot_lab::plan::{Plan, Published as Source};
use sweetspot_report::failure::Failure;
use sweetspot_report::published::{Published, Unread};
use sweetspot_report::shown::shown;

const NEXT: &str = "it is to be a CSV file with a header; the plan names it under [published]";

/// Reads the file that the plan names, if it names one.
///
/// # Errors
/// Where it is not there, is no CSV file, or has no such column.
pub fn read(plan: &Plan, place: &Workspace) -> Result<Published, Failure> {
    let Some(source) = &plan.published else { return Ok(Published::default()) };
    let path = place.folder.join(&source.file);
    let shown = shown(&path);
    let file = std::fs::File::open(&path)
        .map_err(|error| Failure::own(format!("{shown}: {error}")).next(NEXT))?;
    parse(plan, source, file, &shown)
}

/// The content of that file, if there is one.
pub fn text(plan: &Plan, place: &Workspace) -> Option<String> {
    let source = plan.published.as_ref()?;
    std::fs::read_to_string(place.folder.join(&source.file)).ok()
}

/// The same from what was kept of it.
///
/// # Errors
/// As [`read`].
pub fn kept(plan: &Plan, text: Option<&str>) -> Result<Published, Failure> {
    match plan.published.as_ref().zip(text) {
        Some((source, text)) => {
            let shown = shown(&source.file);
            parse(plan, source, text.as_bytes(), &shown)
        }
        None => Ok(Published::default()),
    }
}

fn parse(
    plan: &Plan,
    source: &Source,
    content: impl Read,
    shown: &str,
) -> Result<Published, Failure> {
    Published::parse(plan, source, content).map_err(|unread| {
        let next = match &unread {
            Unread::NotCsv(_) => NEXT.to_owned(),
            Unread::NoColumn(_, columns) => format!("its columns: {}", columns.join(", ")),
        };
        Failure::own(format!("{shown}: {unread}")).next(next)
    })
}
